//! The watches: what they show goes into the books of the pools that it concerns.

use std::collections::HashMap;
use std::fmt::Debug;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::StreamExt;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Resource, ResourceExt};
use metal3_api::capi;
use metal3_api::ipam::{self, IPPool};
use metal3_runtime::error::chain;
use metal3_runtime::work::Queue;
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

use crate::pool::seen::{Address, AddressId, Claim, ClaimKey, is_our_pool};
use crate::pool::{Book, ClusterSeen, Policy};

/// A pool by namespace and name, whether it exists or not.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PoolKey {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// Something of a pool's, as one watch shows it.
#[derive(Clone, Debug)]
pub enum Thing {
    /// The pool itself.
    Pool(Arc<IPPool>),
    /// A claim on it.
    Claim(Arc<Claim>),
    /// An address from it.
    Address(Arc<Address>),
}

/// The books of all pools, and which of them have to be looked at.
#[derive(Clone)]
pub struct Books {
    inner: Arc<Mutex<Inner>>,
    queue: Queue<PoolKey>,
    policy: Policy,
    /// Label value that pools and claims must carry; empty for none.
    filter: String,
}

#[derive(Default)]
struct Inner {
    books: HashMap<PoolKey, Arc<Mutex<Book>>>,
    clusters: HashMap<String, HashMap<String, ClusterSeen>>,
}

impl Books {
    /// No pool is known yet.
    pub fn new(queue: Queue<PoolKey>, policy: Policy, filter: &str) -> Self {
        Self {
            inner: Arc::default(),
            queue,
            policy,
            filter: filter.to_owned(),
        }
    }

    /// The book of a pool, if anything is known of it.
    pub fn get(&self, key: &PoolKey) -> Option<Arc<Mutex<Book>>> {
        self.lock().books.get(key).cloned()
    }

    /// Drops the book of a pool of which nothing is left.
    pub fn tidy(&self, key: &PoolKey) {
        let mut inner = self.lock();
        // What the watches show goes through the lock that is held here, so nothing is lost in between.
        let is_empty = inner.books.get(key).is_some_and(|book| open(book).is_empty());
        if is_empty {
            inner.books.remove(key);
        }
    }

    /// Looks at everything again.
    pub fn resync(&self) {
        let inner = self.lock();
        for (key, book) in &inner.books {
            open(book).resync();
            self.queue.push(key.clone());
        }
    }

    fn show(&self, key: &PoolKey, thing: Thing) {
        let mut inner = self.lock();
        let book = inner.book(key, &self.policy);
        match thing {
            Thing::Pool(pool) => open(&book).see_pool(pool),
            Thing::Claim(claim) => open(&book).see_claim(claim),
            Thing::Address(address) => open(&book).see_address(address),
        }
        self.queue.push(key.clone());
    }

    fn take_away(&self, key: &PoolKey, was: &Was, end: End) {
        let inner = self.lock();
        if let Some(book) = inner.books.get(key) {
            let mut book = open(book);
            match was {
                Was::Pool { uid } => book.lose_pool(uid),
                Was::Claim { key, uid } => book.lose_claim(key, uid),
                Was::Address { id, uid } => book.lose_address(id, uid),
            }
            match end {
                End::Deleted => book.departed(was.uid()),
                End::Hidden => book.hidden(was.uid()),
            }
            self.queue.push(key.clone());
        }
        if let Was::Address { id, .. } = was {
            for (other, book) in inner.books.iter().filter(|(other, _)| other.namespace == key.namespace) {
                if open(book).lose_foreign(id) {
                    self.queue.push(other.clone());
                }
            }
        }
    }

    fn show_cluster(&self, namespace: &str, name: &str, cluster: Option<&ClusterSeen>) {
        let mut inner = self.lock();
        let clusters = inner.clusters.entry(namespace.to_owned()).or_default();
        match cluster {
            Some(cluster) => clusters.insert(name.to_owned(), cluster.clone()),
            None => clusters.remove(name),
        };
        for (key, book) in inner.books.iter().filter(|(key, _)| key.namespace == namespace) {
            if open(book).see_cluster(name, cluster) {
                self.queue.push(key.clone());
            }
        }
    }

    fn is_ours(&self, object: &impl ResourceExt) -> bool {
        self.filter.is_empty() || object.labels().get(capi::names::label::WATCH_FILTER) == Some(&self.filter)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn book(&mut self, key: &PoolKey, policy: &Policy) -> Arc<Mutex<Book>> {
        let clusters = &self.clusters;
        let book = self.books.entry(key.clone()).or_insert_with(|| {
            let mut book = Book::new(&key.namespace, &key.name, policy.clone());
            for (name, cluster) in clusters.get(&key.namespace).into_iter().flatten() {
                book.see_cluster(name, Some(cluster));
            }
            Arc::new(Mutex::new(book))
        });
        book.clone()
    }
}

/// A book, for a moment.
pub fn open(book: &Mutex<Book>) -> MutexGuard<'_, Book> {
    book.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a watch showed last of an object, enough to take it away again.
#[derive(Clone, Debug, PartialEq)]
enum Was {
    Pool { uid: String },
    Claim { key: ClaimKey, uid: String },
    Address { id: AddressId, uid: String },
}

/// Why a watch no longer shows an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// It is gone for good.
    Deleted,
    /// It is none of ours any more, or of another pool.
    Hidden,
}

impl Was {
    fn uid(&self) -> &str {
        match self {
            Self::Pool { uid } | Self::Claim { uid, .. } | Self::Address { uid, .. } => uid,
        }
    }

    fn of(thing: &Thing) -> Self {
        match thing {
            Thing::Pool(pool) => Self::Pool {
                uid: pool.uid().unwrap_or_default(),
            },
            Thing::Claim(claim) => Self::Claim {
                key: claim.key.clone(),
                uid: claim.uid.clone(),
            },
            Thing::Address(address) => Self::Address {
                id: address.id.clone(),
                uid: address.uid.clone(),
            },
        }
    }
}

/// A kind whose objects belong to a pool by name.
pub trait Watched: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static {
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
        named(&self.spec.pool.name, Thing::Claim(Arc::new(self.into())))
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

/// How many watches have not shown their first list yet.
#[derive(Clone, Debug, Default)]
pub struct Awaited(Arc<(AtomicUsize, tokio::sync::Notify)>);

impl Awaited {
    /// One more watch.
    pub fn expect(&self) {
        self.0.0.fetch_add(1, Ordering::SeqCst);
    }

    fn arrived(&self) {
        if self.0.0.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.0.1.notify_waiters();
        }
    }

    /// Returns when all have.
    pub async fn all(&self) {
        loop {
            let arrived = self.0.1.notified();
            if self.0.0.load(Ordering::SeqCst) == 0 {
                return;
            }
            arrived.await;
        }
    }
}

type Place = (String, String);

/// What one watch has shown, so that it is noticed when something is missing from a later list.
struct Shown<T> {
    present: HashMap<Place, T>,
    before: HashMap<Place, T>,
    is_first: bool,
}

impl<T> Shown<T> {
    fn new() -> Self {
        Self {
            present: HashMap::new(),
            before: HashMap::new(),
            is_first: true,
        }
    }
}

/// Follows one kind until `stop` is cancelled.
pub async fn follow<K: Watched>(api: Api<K>, books: Books, awaited: Awaited, stop: CancellationToken) {
    let mut shown: Shown<(PoolKey, Was)> = Shown::new();
    let apply = |object: &K, shown: &mut Shown<(PoolKey, Was)>| {
        let namespace = object.namespace().unwrap_or_default();
        let place = (namespace.clone(), object.name_any());
        shown.before.remove(&place);
        let thing = object.thing().filter(|_| !K::FILTERED || books.is_ours(object));
        let now = thing.map(|(name, thing)| {
            let key = PoolKey { namespace, name };
            (key, thing)
        });
        let before = match &now {
            Some((key, thing)) => shown.present.insert(place, (key.clone(), Was::of(thing))),
            None => shown.present.remove(&place),
        };
        if let Some((key, was)) = before
            && now
                .as_ref()
                .is_none_or(|(new, thing)| *new != key || Was::of(thing).uid() != was.uid())
        {
            let is_there = object.uid().as_deref() == Some(was.uid());
            books.take_away(&key, &was, if is_there { End::Hidden } else { End::Deleted });
        }
        if let Some((key, thing)) = now {
            books.show(&key, thing);
        }
    };
    let lose = |(key, was): &(PoolKey, Was)| books.take_away(key, was, End::Deleted);
    run(api, &mut shown, apply, lose, awaited, stop).await;
}

/// Follows Clusters until `stop` is cancelled.
pub async fn follow_clusters(api: Api<capi::Cluster>, books: Books, awaited: Awaited, stop: CancellationToken) {
    let mut shown: Shown<Place> = Shown::new();
    let apply = |cluster: &capi::Cluster, shown: &mut Shown<Place>| {
        let place = (cluster.namespace().unwrap_or_default(), cluster.name_any());
        shown.before.remove(&place);
        let seen = ClusterSeen {
            uid: cluster.uid().unwrap_or_default(),
            is_paused: cluster.is_paused(),
        };
        books.show_cluster(&place.0, &place.1, Some(&seen));
        shown.present.insert(place.clone(), place);
    };
    let lose = |(namespace, name): &Place| books.show_cluster(namespace, name, None);
    run(api, &mut shown, apply, lose, awaited, stop).await;
}

async fn run<K, T>(
    api: Api<K>,
    shown: &mut Shown<T>,
    apply: impl Fn(&K, &mut Shown<T>),
    lose: impl Fn(&T),
    awaited: Awaited,
    stop: CancellationToken,
) where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let kind = K::kind(&());
    let events = watcher(api, watcher::Config::default())
        .default_backoff()
        .take_until(stop.cancelled_owned());
    let mut events = pin!(events);
    while let Some(event) = events.next().await {
        match event {
            Ok(watcher::Event::Init) => shown.before = std::mem::take(&mut shown.present),
            Ok(watcher::Event::Apply(object) | watcher::Event::InitApply(object)) => apply(&object, shown),
            Ok(watcher::Event::Delete(object)) => {
                let place = (object.namespace().unwrap_or_default(), object.name_any());
                if let Some(was) = shown.present.remove(&place) {
                    lose(&was);
                }
            }
            Ok(watcher::Event::InitDone) => {
                for (_, was) in shown.before.drain() {
                    lose(&was);
                }
                if std::mem::take(&mut shown.is_first) {
                    awaited.arrived();
                }
            }
            Err(error) => tracing::warn!(error = %chain(&error), %kind, "a watch was interrupted"),
        }
    }
}
