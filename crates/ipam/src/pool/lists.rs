//! Lists of everything in a namespace, shared by the pools that ask for one at the same time.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

use kube::Client;

use super::apply::list_all;
use super::effect::Objects;

/// At a start, every pool wants to see all addresses and claims of its namespace as they are now. A list that another pool
/// began after this one had asked is as good as an own one, so pools that are worked on at once share two or three.
#[derive(Clone, Debug, Default)]
pub struct Lists(Arc<Mutex<HashMap<String, Arc<SingleFlight>>>>);

#[derive(Debug, Default)]
struct SingleFlight {
    /// Who asks, numbered; taken at the moment of asking.
    tickets: Mutex<Tickets>,
    /// The last list, with the number that had been reached when it began. The lock is held while a list is under way.
    last: tokio::sync::Mutex<Option<(u64, Arc<Objects>)>>,
}

#[derive(Debug, Default)]
struct Tickets {
    next: u64,
    waiting: u64,
}

impl Lists {
    /// A list that began after this call.
    pub(super) async fn all(&self, client: &Client, namespace: &str) -> Result<Arc<Objects>, kube::Error> {
        let flight = {
            let mut flights = self.0.lock();
            flights.entry(namespace.to_owned()).or_default().clone()
        };
        let ticket = flight.ask();
        let mut last = flight.last.lock().await;
        let recent = last.as_ref().filter(|(began, _)| *began > ticket);
        let answer = if let Some((_, all)) = recent {
            Ok(all.clone())
        } else {
            let began = flight.reached();
            list_all(client, namespace).await.map(|all| {
                let all = Arc::new(all);
                *last = Some((began, all.clone()));
                all
            })
        };
        if flight.leave() {
            // Thousands of objects are not kept for nobody.
            *last = None;
        }
        answer
    }
}

impl SingleFlight {
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
