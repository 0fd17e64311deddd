//! Lists of everything in a namespace, shared by the pools that ask for one at the same time.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use kube::Client;
use parking_lot::Mutex;

use super::apply::list_all;
use super::effect::Objects;

/// The last list of a namespace and when it began, while other pools wait for it. The lock is held while a list is in progress.
type Last = tokio::sync::Mutex<Option<(Instant, Arc<Objects>)>>;

/// At startup, every pool needs the current addresses and claims of its namespace. A list that began after a pool asked is as
/// good as its own, so concurrent pools share two or three.
#[derive(Clone, Debug, Default)]
pub struct Lists(Arc<Mutex<HashMap<String, Arc<Last>>>>);

impl Lists {
    /// A list that began after this call.
    pub(super) async fn all(&self, client: &Client, namespace: &str) -> Result<Arc<Objects>, kube::Error> {
        let asked = Instant::now();
        let shared = self.0.lock().entry(namespace.to_owned()).or_default().clone();
        let mut last = shared.lock().await;
        let (began, objects) = match last.take().filter(|(began, _)| *began > asked) {
            Some(recent) => recent,
            None => (Instant::now(), Arc::new(list_all(client, namespace).await?)),
        };
        // One reference is the map's and one is ours; every other one waits.
        if Arc::strong_count(&shared) > 2 {
            *last = Some((began, objects.clone()));
        }
        Ok(objects)
    }
}
