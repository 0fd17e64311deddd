//! Routes watch events to the states of their pools.

use std::collections::HashMap;
use std::sync::Arc;

use kube::{Resource, ResourceExt};
use metal3_api::capi;
use metal3_api::ipam::{self, IPPool};
use metal3_runtime::store::{ObjectKey, Sink};
use parking_lot::Mutex;

use crate::pool::objects::is_our_pool;
use crate::pool::{ClusterSeen, Event, Removal, Tombstone};
use crate::pools::Pools;

/// Reads an object: its pool's name and the event; nothing if it refers to no pool of ours.
pub type Read<K> = fn(&K) -> Option<(String, Event)>;

/// A pool.
pub fn pool(pool: &IPPool) -> Option<(String, Event)> {
    named(&pool.name_any(), Event::Pool(Arc::new(pool.clone()), None))
}

/// A claim of Metal3. One that names no pool belongs to the pool without a name, which cannot exist; its status says so.
pub fn claim(claim: &ipam::IPClaim) -> Option<(String, Event)> {
    Some((claim.spec.pool.name.clone(), Event::Claim(Arc::new(claim.into()))))
}

/// A claim of Cluster API.
pub fn capi_claim(claim: &capi::IPAddressClaim) -> Option<(String, Event)> {
    let reference = &claim.spec.pool_ref;
    let news = || named(&reference.name, Event::Claim(Arc::new(claim.into())));
    is_our_pool(reference).then(news).flatten()
}

/// An address of Metal3.
pub fn address(address: &ipam::IPAddress) -> Option<(String, Event)> {
    named(&address.spec.pool.name, Event::Address(Arc::new(address.into())))
}

/// An address of Cluster API.
pub fn capi_address(address: &capi::IPAddress) -> Option<(String, Event)> {
    let reference = &address.spec.pool_ref;
    let news = || named(&reference.name, Event::Address(Arc::new(address.into())));
    is_our_pool(reference).then(news).flatten()
}

fn named(name: &str, event: Event) -> Option<(String, Event)> {
    (!name.is_empty()).then(|| (name.to_owned(), event))
}

/// Feeds the objects of one kind into the pools' states. It remembers only which pool each object belonged to.
#[derive(Clone)]
pub struct PoolSink<K> {
    pools: Pools,
    shown: Arc<Mutex<HashMap<ObjectKey, (ObjectKey, Tombstone)>>>,
    read: Read<K>,
}

impl<K> PoolSink<K> {
    /// Nothing has been shown yet.
    pub fn new(pools: &Pools, read: Read<K>) -> Self {
        Self {
            pools: pools.clone(),
            shown: Arc::default(),
            read,
        }
    }

    /// Records the object's pool. Returns the previous one.
    fn replace(&self, key: ObjectKey, now: Option<(ObjectKey, Tombstone)>) -> Option<(ObjectKey, Tombstone)> {
        let mut shown = self.shown.lock();
        match now {
            Some(now) => shown.insert(key, now),
            None => shown.remove(&key),
        }
    }
}

impl<K: ResourceExt> Sink<K> for PoolSink<K>
where
    K: Resource<DynamicType = ()>,
{
    fn put(&self, object: K) {
        let key = ObjectKey::of(&object);
        // Every address counts, whichever manager handles its pool.
        let is_ours = |event: &Event| matches!(event, Event::Address(_)) || self.pools.is_ours(&object);
        let news = (self.read)(&object).filter(|(_, event)| is_ours(event));
        let news = news.map(|(pool, event)| (ObjectKey::new(&*key.namespace, pool), event));
        let now = news
            .as_ref()
            .and_then(|(pool, event)| Some((pool.clone(), event.tombstone()?)));
        if let Some((before, tombstone)) = self.replace(key, now.clone())
            && now != Some((before.clone(), tombstone.clone()))
        {
            let is_there = object.uid().as_deref() == Some(tombstone.uid());
            let removal = if is_there { Removal::Hidden } else { Removal::Deleted };
            self.pools.remove(&before, &tombstone, removal);
        }
        if let Some((pool, event)) = news {
            self.pools.absorb(&pool, &event);
        }
    }

    fn remove(&self, key: &ObjectKey, uid: &str) {
        let is_shown = self
            .shown
            .lock()
            .get(key)
            .is_some_and(|(_, tombstone)| tombstone.uid() == uid);
        if let Some((pool, tombstone)) = is_shown.then(|| self.replace(key.clone(), None)).flatten() {
            self.pools.remove(&pool, &tombstone, Removal::Deleted);
        }
    }
}

/// Fills the states of all pools of a namespace with its Clusters.
#[derive(Clone)]
pub struct ClusterSink(pub Pools);

impl Sink<capi::Cluster> for ClusterSink {
    fn put(&self, cluster: capi::Cluster) {
        let seen = ClusterSeen {
            uid: cluster.uid().unwrap_or_default(),
            is_paused: cluster.is_paused(),
        };
        self.0.absorb_cluster(&ObjectKey::of(&cluster), Some(seen));
    }

    fn remove(&self, key: &ObjectKey, _: &str) {
        self.0.absorb_cluster(key, None);
    }
}
