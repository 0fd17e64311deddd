//! Lists of all addresses of a namespace, shared by the pools that ask for one at the same time.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

use kube::Client;

use super::apply::list_all;
use super::seen::{Address, Version};

/// All addresses of a namespace.
#[derive(Debug)]
pub(super) struct All {
    pub(super) addresses: Vec<Arc<Address>>,
    pub(super) as_of: [Version; 2],
}

/// At a start, every pool wants to see all addresses of its namespace as they are now. A list that another pool began
/// after this one had asked is as good as an own one; so pools that are worked on
/// at once cost two lists or three together, not one each.
#[derive(Clone, Debug, Default)]
pub struct Lists(Arc<Mutex<HashMap<String, Arc<Desk>>>>);

#[derive(Debug, Default)]
struct Desk {
    /// Who asks, numbered; taken at the moment of asking.
    tickets: Mutex<Tickets>,
    /// The last list, with the number that had been reached when it began. The lock is held while a list is under way.
    last: tokio::sync::Mutex<Option<(u64, Arc<All>)>>,
}

#[derive(Debug, Default)]
struct Tickets {
    next: u64,
    waiting: u64,
}

impl Lists {
    /// A list that began after this call.
    pub(super) async fn all(&self, client: &Client, namespace: &str) -> Result<Arc<All>, kube::Error> {
        let desk = {
            let mut desks = self.0.lock();
            desks.entry(namespace.to_owned()).or_default().clone()
        };
        let ticket = desk.ask();
        let mut last = desk.last.lock().await;
        let recent = last.as_ref().filter(|(began, _)| *began > ticket);
        let answer = if let Some((_, all)) = recent {
            Ok(all.clone())
        } else {
            let began = desk.reached();
            list_all(client, namespace).await.map(|(addresses, as_of)| {
                let all = Arc::new(All { addresses, as_of });
                *last = Some((began, all.clone()));
                all
            })
        };
        if desk.leave() {
            // Thousands of objects are not kept for nobody.
            *last = None;
        }
        answer
    }
}

impl Desk {
    fn ask(&self) -> u64 {
        let mut tickets = self.tickets.lock();
        tickets.waiting += 1;
        tickets.next += 1;
        tickets.next - 1
    }

    fn reached(&self) -> u64 {
        self.tickets.lock().next
    }

    /// Whether nobody waits any more.
    fn leave(&self) -> bool {
        let mut tickets = self.tickets.lock();
        tickets.waiting -= 1;
        tickets.waiting == 0
    }
}
