//! The states of all pools.

use std::collections::HashMap;
use std::sync::Arc;

use kube::ResourceExt;
use metal3_api::capi::names::label::WATCH_FILTER;
use metal3_api::ipam::IPPool;
use metal3_runtime::Clock;
use metal3_runtime::store::ObjectKey;
use metal3_runtime::work::Queue;
use parking_lot::Mutex;

use crate::alloc::Plan;
use crate::pool::{ClusterSeen, Event, Policy, PoolState, Removal, Tombstone};

/// The states of all pools, whether or not they exist, and the queue of pools to reconcile.
#[derive(Clone)]
pub struct Pools {
    inner: Arc<Mutex<Inner>>,
    queue: Queue<ObjectKey>,
    clock: Clock,
    policy: Policy,
    /// Label value that pools and claims must carry; empty for none.
    filter: String,
}

type State = Arc<Mutex<PoolState>>;

#[derive(Default)]
struct Inner {
    states: HashMap<ObjectKey, State>,
    clusters: HashMap<ObjectKey, ClusterSeen>,
}

impl Pools {
    /// No pool is known yet.
    pub fn new(queue: Queue<ObjectKey>, clock: Clock, policy: Policy, filter: &str) -> Self {
        Self {
            inner: Arc::default(),
            queue,
            clock,
            policy,
            filter: filter.to_owned(),
        }
    }

    /// The state of a pool, if anything is known of it.
    pub fn get(&self, key: &ObjectKey) -> Option<State> {
        self.inner.lock().states.get(key).cloned()
    }

    /// Drops the state of a pool if it is empty.
    pub fn tidy(&self, key: &ObjectKey) {
        let mut inner = self.inner.lock();
        let Some(state) = inner.states.get(key) else { return };
        // What is absorbed meanwhile is absorbed again by the next one. A state that is locked is in use, and all pools would wait
        // for it here: it is looked at again.
        match state.try_lock().map(|state| state.is_empty()) {
            Some(true) => drop(inner.states.remove(key)),
            Some(false) => {}
            None => self.queue.push(key.clone()),
        }
    }

    /// Makes every pool resync. Returns their keys.
    pub fn resync(&self) -> Vec<ObjectKey> {
        let states = self.inner.lock().states.clone();
        for state in states.values() {
            state.lock().absorb(Event::Resync, self.clock.elapsed());
        }
        states.into_keys().collect()
    }

    /// An event for one pool. Its state is locked after the lock of all states is released, so that deciding on a large pool does
    /// not block the others.
    pub(crate) fn absorb(&self, key: &ObjectKey, event: &Event) {
        loop {
            let state = self.get_or_insert(key);
            let event = match event {
                Event::Pool(pool, _) => Event::Pool(pool.clone(), new_plan(&state, pool)),
                event => event.clone(),
            };
            if state.lock().absorb(event, self.clock.elapsed()) {
                self.queue.push(key.clone());
            }
            // It may have been dropped before it absorbed this, because nothing was in it.
            if self.get(key).is_some_and(|now| Arc::ptr_eq(&now, &state)) {
                return;
            }
        }
    }

    /// A watch no longer shows an object of one pool. The name of an address may be one that another pool waits for.
    pub(crate) fn remove(&self, key: &ObjectKey, tombstone: &Tombstone, removal: Removal) {
        let event = Event::Removed(tombstone.clone(), removal);
        self.deliver(self.get(key).map(|state| (key.clone(), state)), &event);
        if let Tombstone::Address { id, .. } = tombstone {
            self.deliver(self.of(&key.namespace), &Event::NameFreed(id.clone()));
        }
    }

    pub(crate) fn absorb_cluster(&self, key: &ObjectKey, cluster: Option<ClusterSeen>) {
        let mut inner = self.inner.lock();
        match &cluster {
            Some(cluster) => inner.clusters.insert(key.clone(), cluster.clone()),
            None => inner.clusters.remove(key),
        };
        drop(inner);
        self.deliver(self.of(&key.namespace), &Event::Cluster(key.name.clone(), cluster));
    }

    pub(crate) fn is_ours(&self, object: &impl ResourceExt) -> bool {
        self.filter.is_empty() || object.labels().get(WATCH_FILTER) == Some(&self.filter)
    }

    fn deliver(&self, states: impl IntoIterator<Item = (ObjectKey, State)>, event: &Event) {
        for (key, state) in states {
            if state.lock().absorb(event.clone(), self.clock.elapsed()) {
                self.queue.push(key);
            }
        }
    }

    /// The states of a namespace.
    fn of(&self, namespace: &str) -> Vec<(ObjectKey, State)> {
        let inner = self.inner.lock();
        let states = inner.states.iter().filter(|(pool, _)| pool.namespace == namespace);
        states.map(|(pool, state)| (pool.clone(), state.clone())).collect()
    }

    fn get_or_insert(&self, key: &ObjectKey) -> State {
        let inner = &mut *self.inner.lock();
        let clusters = &inner.clusters;
        let state = inner.states.entry(key.clone()).or_insert_with(|| {
            let mut state = PoolState::new(&key.namespace, &key.name, self.policy, &self.filter);
            for (cluster, seen) in clusters
                .iter()
                .filter(|(cluster, _)| cluster.namespace == key.namespace)
            {
                let event = Event::Cluster(cluster.name.clone(), Some(seen.clone()));
                state.absorb(event, self.clock.elapsed());
            }
            Arc::new(Mutex::new(state))
        });
        state.clone()
    }
}

/// Parses a changed spec, without holding the lock.
fn new_plan(state: &Mutex<PoolState>, pool: &IPPool) -> Option<Arc<Plan>> {
    let is_other = state.lock().pool().is_none_or(|before| before.spec != pool.spec);
    is_other.then(|| Arc::new(Plan::read(&pool.spec)))
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use serde_json::json;

    use super::*;

    fn pools() -> Pools {
        Pools::new(Queue::new(), Clock::system(), Policy::default(), "")
    }

    fn pool(name: &str, version: u64) -> Event {
        let object = json!({"apiVersion": "ipam.metal3.io/v1alpha1", "kind": "IPPool",
            "metadata": {"name": name, "namespace": "n", "uid": name, "resourceVersion": version.to_string()},
            "spec": {"pools": [{"start": "192.0.2.1", "end": "192.0.2.9"}]}});
        Event::Pool(Arc::new(serde_json::from_value(object).unwrap()), None)
    }

    // OWN 27e: a large pool was parsed, and waited for, under the lock of all pools.
    #[test]
    fn a_pool_that_is_being_decided_on_holds_up_no_other() {
        let pools = pools();
        let [busy, free] = ["busy", "free"].map(|name| ObjectKey::new("n", name));
        pools.absorb(&busy, &pool("busy", 1));
        let state = pools.get(&busy).unwrap();
        let decided_on = state.lock();
        let (told, ear) = mpsc::channel();
        thread::scope(|threads| {
            let (begun, pools, busy) = (told.clone(), &pools, &busy);
            threads.spawn(move || {
                begun.send("begun").unwrap();
                pools.absorb(busy, &pool("busy", 2));
            });
            assert_eq!(ear.recv().unwrap(), "begun");
            threads.spawn(|| {
                for version in 1..10_000 {
                    pools.absorb(&free, &pool("free", version));
                }
                told.send("free").unwrap();
            });
            let last = ear.recv_timeout(Duration::from_secs(60));
            drop(decided_on);
            assert_eq!(last, Ok("free"));
        });
        let version = state.lock().pool().unwrap().resource_version();
        assert_eq!(version.as_deref(), Some("2"));
    }

    #[test]
    fn what_is_absorbed_while_a_state_is_dropped_is_in_the_next() {
        let (pools, key) = (pools(), ObjectKey::new("n", "p"));
        let is_over = std::sync::atomic::AtomicBool::new(false);
        thread::scope(|threads| {
            threads.spawn(|| {
                while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                    pools.tidy(&key);
                }
            });
            for version in 1..2_000 {
                pools.absorb(&key, &pool("p", version));
                let found = pools.get(&key).is_some_and(|state| state.lock().pool().is_some());
                if !found {
                    is_over.store(true, std::sync::atomic::Ordering::Relaxed);
                }
                assert!(found, "version {version} is lost");
                pools.remove(&key, &Tombstone::Pool { uid: "p".into() }, Removal::Hidden);
            }
            is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        });
    }
}
