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
    /// The pool's name, the news for it, and what is left when the object is gone; nothing if no pool of ours is meant.
    fn news(&self) -> Option<(String, Event, Tombstone)>;
}

fn of_pool(pool: &IPPool) -> (Event, Tombstone) {
    let uid = pool.uid().unwrap_or_default();
    (Event::Pool(Arc::new(pool.clone()), None), Tombstone::Pool { uid })
}

fn of_claim(claim: Claim) -> (Event, Tombstone) {
    let (key, uid) = (claim.key.clone(), claim.meta.uid.clone());
    (Event::Claim(Arc::new(claim)), Tombstone::Claim { key, uid })
}

fn of_address(address: Address) -> (Event, Tombstone) {
    let (id, uid) = (address.id.clone(), address.meta.uid.clone());
    (Event::Address(Arc::new(address)), Tombstone::Address { id, uid })
}

fn named(name: &str, (event, tombstone): (Event, Tombstone)) -> Option<(String, Event, Tombstone)> {
    (!name.is_empty()).then(|| (name.to_owned(), event, tombstone))
}

impl Watched for IPPool {
    const FILTERED: bool = true;
    fn news(&self) -> Option<(String, Event, Tombstone)> {
        named(&self.name_any(), of_pool(self))
    }
}

impl Watched for ipam::IPClaim {
    const FILTERED: bool = true;
    fn news(&self) -> Option<(String, Event, Tombstone)> {
        // One that names no pool waits for one that there cannot be, and is told so.
        let (event, tombstone) = of_claim(self.into());
        Some((self.spec.pool.name.clone(), event, tombstone))
    }
}

impl Watched for capi::IPAddressClaim {
    const FILTERED: bool = true;
    fn news(&self) -> Option<(String, Event, Tombstone)> {
        let reference = &self.spec.pool_ref;
        let news = || named(&reference.name, of_claim(self.into()));
        is_our_pool(reference).then(news).flatten()
    }
}

impl Watched for ipam::IPAddress {
    const FILTERED: bool = false;
    fn news(&self) -> Option<(String, Event, Tombstone)> {
        named(&self.spec.pool.name, of_address(self.into()))
    }
}

impl Watched for capi::IPAddress {
    const FILTERED: bool = false;
    fn news(&self) -> Option<(String, Event, Tombstone)> {
        let reference = &self.spec.pool_ref;
        let news = || named(&reference.name, of_address(self.into()));
        is_our_pool(reference).then(news).flatten()
    }
}

/// Fills the states of pools with the objects of one kind. All that it keeps of an object is whose it was.
pub struct PoolSink<K> {
    pools: Pools,
    shown: Arc<Mutex<HashMap<ObjectKey, (ObjectKey, Tombstone)>>>,
    kind: PhantomData<fn(K)>,
}

impl<K> Clone for PoolSink<K> {
    fn clone(&self) -> Self {
        Self {
            pools: self.pools.clone(),
            shown: self.shown.clone(),
            kind: PhantomData,
        }
    }
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
}

impl<K: Watched> Sink<K> for PoolSink<K> {
    fn put(&self, object: K) {
        let key = ObjectKey::of(&object);
        let news = object.news().filter(|_| !K::FILTERED || self.pools.is_ours(&object));
        let now = news.map(|(pool, event, tombstone)| (ObjectKey::new(&*key.namespace, pool), event, tombstone));
        let mut shown = self.shown.lock();
        let before = match &now {
            Some((pool, _, tombstone)) => shown.insert(key, (pool.clone(), tombstone.clone())),
            None => shown.remove(&key),
        };
        drop(shown);
        let is_as_before = |pool: &ObjectKey, before: &Tombstone| {
            let is_same =
                |(now, _, tombstone): &(ObjectKey, Event, Tombstone)| now == pool && tombstone.uid() == before.uid();
            now.as_ref().is_some_and(is_same)
        };
        if let Some((pool, tombstone)) = before.filter(|(pool, before)| !is_as_before(pool, before)) {
            let is_there = object.uid().as_deref() == Some(tombstone.uid());
            let removal = if is_there { Removal::Hidden } else { Removal::Deleted };
            self.pools.remove(&pool, &tombstone, removal);
        }
        if let Some((pool, event, _)) = now {
            self.pools.absorb(&pool, &event);
        }
    }

    fn remove(&self, key: &ObjectKey, uid: &str) {
        let mut shown = self.shown.lock();
        if shown.get(key).is_none_or(|(_, tombstone)| tombstone.uid() != uid) {
            return;
        }
        let before = shown.remove(key);
        drop(shown);
        if let Some((pool, tombstone)) = before {
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
