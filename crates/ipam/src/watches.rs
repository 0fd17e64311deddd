//! What the watches show, and whose book it belongs into.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::fmt::Debug;
use std::marker::PhantomData;
use std::sync::Arc;

use k8s_openapi::NamespaceResourceScope;
use kube::{Resource, ResourceExt};
use metal3_api::capi;
use metal3_api::ipam::{self, IPPool};
use metal3_runtime::store::{ObjectKey, Sink};
use serde::de::DeserializeOwned;

use crate::books::{Books, End, Thing, Was};
use crate::pool::ClusterSeen;
use crate::pool::seen::is_our_pool;

/// A kind whose objects belong to a pool by name.
pub trait Watched:
    Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + DeserializeOwned + Debug + Send + 'static
{
    /// Whether `--watch-filter` applies to it. Every address counts, whoever looks after its pool.
    const FILTERED: bool;
    /// The pool's name and what to tell its book; nothing if no pool of ours is meant.
    fn thing(&self) -> Option<(String, Thing)>;
}

fn named(name: &str, thing: Thing) -> Option<(String, Thing)> {
    (!name.is_empty()).then(|| (name.to_owned(), thing))
}

impl Watched for IPPool {
    const FILTERED: bool = true;
    fn thing(&self) -> Option<(String, Thing)> {
        named(&self.name_any(), Thing::Pool(Arc::new(self.clone())))
    }
}

impl Watched for ipam::IPClaim {
    const FILTERED: bool = true;
    fn thing(&self) -> Option<(String, Thing)> {
        // One that names no pool waits for one that there cannot be, and is told so.
        Some((self.spec.pool.name.clone(), Thing::Claim(Arc::new(self.into()))))
    }
}

impl Watched for capi::IPAddressClaim {
    const FILTERED: bool = true;
    fn thing(&self) -> Option<(String, Thing)> {
        let reference = &self.spec.pool_ref;
        is_our_pool(reference)
            .then(|| named(&reference.name, Thing::Claim(Arc::new(self.into()))))
            .flatten()
    }
}

impl Watched for ipam::IPAddress {
    const FILTERED: bool = false;
    fn thing(&self) -> Option<(String, Thing)> {
        named(&self.spec.pool.name, Thing::Address(Arc::new(self.into())))
    }
}

impl Watched for capi::IPAddress {
    const FILTERED: bool = false;
    fn thing(&self) -> Option<(String, Thing)> {
        let reference = &self.spec.pool_ref;
        is_our_pool(reference)
            .then(|| named(&reference.name, Thing::Address(Arc::new(self.into()))))
            .flatten()
    }
}

/// The objects of one kind on their way into the books. What is kept of each is only whose it was.
pub struct Feed<K> {
    books: Books,
    shown: Arc<Mutex<HashMap<ObjectKey, (ObjectKey, Was)>>>,
    kind: PhantomData<fn(K)>,
}

impl<K> Clone for Feed<K> {
    fn clone(&self) -> Self {
        Self {
            books: self.books.clone(),
            shown: self.shown.clone(),
            kind: PhantomData,
        }
    }
}

impl<K> Feed<K> {
    /// Nothing has been shown yet.
    pub fn new(books: &Books) -> Self {
        Self {
            books: books.clone(),
            shown: Arc::default(),
            kind: PhantomData,
        }
    }
}

impl<K: Watched> Sink<K> for Feed<K> {
    fn put(&self, object: K) {
        let key = ObjectKey::of(&object);
        let thing = object.thing().filter(|_| !K::FILTERED || self.books.is_ours(&object));
        let now = thing.map(|(pool, thing)| (ObjectKey::new(key.namespace.clone(), pool), thing));
        let mut shown = self.shown.lock();
        let before = match &now {
            Some((pool, thing)) => shown.insert(key, (pool.clone(), Was::of(thing))),
            None => shown.remove(&key),
        };
        drop(shown);
        let is_as_before = |pool: &ObjectKey, was: &Was| {
            let same = |(now, thing): &(ObjectKey, Thing)| now == pool && Was::of(thing).uid() == was.uid();
            now.as_ref().is_some_and(same)
        };
        if let Some((pool, was)) = before.filter(|(pool, was)| !is_as_before(pool, was)) {
            let is_there = object.uid().as_deref() == Some(was.uid());
            let end = if is_there { End::Hidden } else { End::Deleted };
            self.books.take_away(&pool, &was, end);
        }
        if let Some((pool, thing)) = now {
            self.books.show(&pool, &thing);
        }
    }

    fn remove(&self, key: &ObjectKey, uid: &str) {
        let mut shown = self.shown.lock();
        if shown.get(key).is_none_or(|(_, was)| was.uid() != uid) {
            return;
        }
        let before = shown.remove(key);
        drop(shown);
        if let Some((pool, was)) = before {
            self.books.take_away(&pool, &was, End::Deleted);
        }
    }
}

/// Clusters on their way into the books of all pools of their namespace.
#[derive(Clone)]
pub struct Clusters(pub Books);

impl Sink<capi::Cluster> for Clusters {
    fn put(&self, cluster: capi::Cluster) {
        let seen = ClusterSeen {
            uid: cluster.uid().unwrap_or_default(),
            is_paused: cluster.is_paused(),
        };
        self.0.show_cluster(&ObjectKey::of(&cluster), Some(&seen));
    }

    fn remove(&self, key: &ObjectKey, _: &str) {
        self.0.show_cluster(key, None);
    }
}
