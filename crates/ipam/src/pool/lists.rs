//! Lists of everything in a namespace, shared by the pools that ask for one at the same time.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Instant;

use kube::Client;
use parking_lot::Mutex;

use super::apply::list_all;
use super::effect::Objects;

/// The last list of a namespace and when it began, for as long as a pool works with it. The lock is held while a list is
/// under way.
type Last = tokio::sync::Mutex<Option<(Instant, Weak<Objects>)>>;

/// At a start, every pool wants to see all addresses and claims of its namespace as they are now. A list that another pool
/// began after this one had asked is as good as an own one, so pools that are worked on at once share two or three.
#[derive(Clone, Debug, Default)]
pub struct Lists(Arc<Mutex<HashMap<String, Arc<Last>>>>);

impl Lists {
    /// A list that began after this call.
    pub(super) async fn all(&self, client: &Client, namespace: &str) -> Result<Arc<Objects>, kube::Error> {
        let asked = Instant::now();
        let last = self.0.lock().entry(namespace.to_owned()).or_default().clone();
        let mut last = last.lock().await;
        let recent = last.as_ref().filter(|(began, _)| *began > asked);
        if let Some(objects) = recent.and_then(|(_, objects)| objects.upgrade()) {
            return Ok(objects);
        }
        let began = Instant::now();
        let objects = Arc::new(list_all(client, namespace).await?);
        *last = Some((began, Arc::downgrade(&objects)));
        Ok(objects)
    }
}
