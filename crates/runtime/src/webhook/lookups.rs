//! Lookups in the API server by reviews. Each keeps a thread until the API server answers, and the threads are for the reviews on all
//! paths.

use std::collections::HashSet;

use parking_lot::Mutex;

/// Lookups at once.
const MOST: usize = 4;

/// The namespaces whose objects are being looked up, each once: one namespace must not take all places.
#[derive(Debug, Default)]
pub(super) struct Lookups(Mutex<HashSet<String>>);

/// A lookup in progress, until it is dropped.
#[derive(Debug)]
pub(super) struct Running<'l> {
    lookups: &'l Lookups,
    namespace: String,
}

/// The review must be sent again later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("reviews of this kind wait for the API server, one for each namespace and {MOST} at once: try again")]
pub(super) struct Busy;

impl Lookups {
    pub fn begin(&self, namespace: &str) -> Result<Running<'_>, Busy> {
        let mut running = self.0.lock();
        if running.len() >= MOST || !running.insert(namespace.to_owned()) {
            return Err(Busy);
        }
        Ok(Running {
            lookups: self,
            namespace: namespace.to_owned(),
        })
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.lookups.0.lock().remove(&self.namespace);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // OWN 30f: reviews that waited for the API server took all threads.
    #[test]
    fn a_namespace_has_one_lookup_and_all_have_a_few() {
        let lookups = Lookups::default();
        let mut running: Vec<_> = (0..MOST - 1).map(|n| lookups.begin(&n.to_string()).unwrap()).collect();
        assert_eq!(lookups.begin("0").err(), Some(Busy));
        running.push(lookups.begin("other").unwrap());
        assert_eq!(lookups.begin("another").err(), Some(Busy));
        running.pop();
        assert!(lookups.begin("another").is_ok());
        drop(running);
        assert!(lookups.begin("0").is_ok());
    }
}
