//! What the watches show, and whose state it belongs into.

use std::collections::HashMap;
use std::fmt::Debug;
use std::marker::PhantomData;
use std::sync::Arc;

use k8s_openapi::NamespaceResourceScope;
use kube::{Resource, ResourceExt};
use metal3_api::capi;
use metal3_api::ipam::{self, IPPool};
use metal3_runtime::store::{ObjectKey, Sink};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;

use crate::pool::objects::{Address, Claim, is_our_pool};
use crate::pool::{ClusterSeen, Event, Removal, Tombstone};
use crate::pools::Pools;

/// A kind whose objects belong to a pool by name.
pub trait Watched:
    Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + DeserializeOwned + Debug + Send + 'static
{
    /// Whether `--watch-filter` applies to it. Every address counts, whichever manager looks after its pool.
    const FILTERED: bool;
    /// The pool's name; nothing if no pool of ours is meant.
    fn pool(&self) -> Option<String>;
    /// The object as news for its pool.
    fn event(&self) -> Event;
}

macro_rules! watched {
    ($kind:ty, $is_filtered:literal, $pool:expr, $event:expr) => {
        impl Watched for $kind {
            const FILTERED: bool = $is_filtered;
            fn pool(&self) -> Option<String> {
                $pool(self)
            }
            fn event(&self) -> Event {
                $event(self)
            }
        }
    };
}

watched!(IPPool, true, named_itself, |pool: &IPPool| Event::Pool(
    Arc::new(pool.clone()),
    None
));
// One that names no pool belongs to the pool without a name, which cannot exist; its status says so.
watched!(
    ipam::IPClaim,
    true,
    |claim: &ipam::IPClaim| Some(claim.spec.pool.name.clone()),
    of_claim
);
watched!(
    capi::IPAddressClaim,
    true,
    |claim: &capi::IPAddressClaim| referred(&claim.spec.pool_ref),
    of_claim
);
watched!(
    ipam::IPAddress,
    false,
    |address: &ipam::IPAddress| named(&address.spec.pool.name),
    of_address
);
watched!(
    capi::IPAddress,
    false,
    |address: &capi::IPAddress| referred(&address.spec.pool_ref),
    of_address
);

fn of_claim<K>(claim: &K) -> Event
where
    Claim: for<'a> From<&'a K>,
{
    Event::Claim(Arc::new(Claim::from(claim)))
}

fn of_address<K>(address: &K) -> Event
where
    Address: for<'a> From<&'a K>,
{
    Event::Address(Arc::new(Address::from(address)))
}

fn named_itself(pool: &IPPool) -> Option<String> {
    named(&pool.name_any())
}

fn named(name: &str) -> Option<String> {
    (!name.is_empty()).then(|| name.to_owned())
}

fn referred(reference: &capi::PoolReference) -> Option<String> {
    named(&reference.name).filter(|_| is_our_pool(reference))
}

/// Fills the states of pools with the objects of one kind. All that it keeps of an object is whose it was.
#[derive(Clone)]
pub struct PoolSink<K> {
    pools: Pools,
    shown: Arc<Mutex<HashMap<ObjectKey, (ObjectKey, Tombstone)>>>,
    kind: PhantomData<fn(K)>,
}

impl<K> PoolSink<K> {
    /// Nothing has been shown yet.
    pub fn new(pools: &Pools) -> Self {
        Self {
            pools: pools.clone(),
            shown: Arc::default(),
            kind: PhantomData,
        }
    }

    /// Remembers whose an object is now. Returns whose it was.
    fn replace(&self, key: ObjectKey, now: Option<(ObjectKey, Tombstone)>) -> Option<(ObjectKey, Tombstone)> {
        let mut shown = self.shown.lock();
        match now {
            Some(now) => shown.insert(key, now),
            None => shown.remove(&key),
        }
    }
}

impl<K: Watched> Sink<K> for PoolSink<K> {
    fn put(&self, object: K) {
        let key = ObjectKey::of(&object);
        let is_ours = !K::FILTERED || self.pools.is_ours(&object);
        let pool = object.pool().filter(|_| is_ours);
        let pool = pool.map(|pool| ObjectKey::new(&*key.namespace, pool));
        let event = object.event();
        let now = pool.clone().zip(event.tombstone());
        if let Some((before, tombstone)) = self.replace(key, now.clone())
            && now != Some((before.clone(), tombstone.clone()))
        {
            let is_there = object.uid().as_deref() == Some(tombstone.uid());
            let removal = if is_there { Removal::Hidden } else { Removal::Deleted };
            self.pools.remove(&before, &tombstone, removal);
        }
        if let Some(pool) = pool {
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
