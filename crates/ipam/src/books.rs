//! The books of all pools: what is known of each.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kube::ResourceExt;
use metal3_api::capi;
use metal3_api::ipam::IPPool;
use metal3_runtime::store::ObjectKey;
use metal3_runtime::work::Queue;

use crate::pool::seen::{Address, AddressId, Claim, ClaimKey};
use crate::pool::{Book, ClusterSeen, Policy};

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

/// The books of all pools, whether they exist or not, and which of them have to be looked at.
#[derive(Clone)]
pub struct Books {
    inner: Arc<Mutex<Inner>>,
    queue: Queue<ObjectKey>,
    policy: Policy,
    /// Label value that pools and claims must carry; empty for none.
    filter: String,
}

#[derive(Default)]
struct Inner {
    books: HashMap<ObjectKey, Arc<Mutex<Book>>>,
    clusters: HashMap<String, HashMap<String, ClusterSeen>>,
}

impl Books {
    /// No pool is known yet.
    pub fn new(queue: Queue<ObjectKey>, policy: Policy, filter: &str) -> Self {
        Self {
            inner: Arc::default(),
            queue,
            policy: Policy {
                is_filtered: !filter.is_empty(),
                ..policy
            },
            filter: filter.to_owned(),
        }
    }

    /// The book of a pool, if anything is known of it.
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<Mutex<Book>>> {
        self.lock().books.get(key).cloned()
    }

    /// Drops the book of a pool of which nothing is left.
    pub fn tidy(&self, key: &ObjectKey) {
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

    pub(crate) fn show(&self, key: &ObjectKey, thing: Thing) {
        let mut inner = self.lock();
        let book = inner.book(key, self.policy);
        match thing {
            Thing::Pool(pool) => open(&book).see_pool(pool),
            Thing::Claim(claim) => open(&book).see_claim(claim),
            Thing::Address(address) => open(&book).see_address(address),
        }
        self.queue.push(key.clone());
    }

    pub(crate) fn take_away(&self, key: &ObjectKey, was: &Was, end: End) {
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
        // What is gone may also concern a pool that it did not belong to.
        for (other, book) in inner.books.iter().filter(|(other, _)| other.namespace == key.namespace) {
            let is_concerned = match was {
                Was::Address { id, .. } => open(book).lose_foreign(id),
                Was::Claim { key, .. } => open(book).lose_foreign_claim(key),
                Was::Pool { .. } => false,
            };
            if is_concerned {
                self.queue.push(other.clone());
            }
        }
    }

    pub(crate) fn show_cluster(&self, key: &ObjectKey, cluster: Option<&ClusterSeen>) {
        let mut inner = self.lock();
        let clusters = inner.clusters.entry(key.namespace.clone()).or_default();
        match cluster {
            Some(cluster) => clusters.insert(key.name.clone(), cluster.clone()),
            None => clusters.remove(&key.name),
        };
        for (pool, book) in inner.books.iter().filter(|(pool, _)| pool.namespace == key.namespace) {
            if open(book).see_cluster(&key.name, cluster) {
                self.queue.push(pool.clone());
            }
        }
    }

    pub(crate) fn is_ours(&self, object: &impl ResourceExt) -> bool {
        self.filter.is_empty() || object.labels().get(capi::names::label::WATCH_FILTER) == Some(&self.filter)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn book(&mut self, key: &ObjectKey, policy: Policy) -> Arc<Mutex<Book>> {
        let clusters = &self.clusters;
        let book = self.books.entry(key.clone()).or_insert_with(|| {
            let mut book = Book::new(&key.namespace, &key.name, policy);
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
pub(crate) enum Was {
    Pool { uid: String },
    Claim { key: ClaimKey, uid: String },
    Address { id: AddressId, uid: String },
}

/// Why a watch no longer shows an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// It is gone for good.
    Deleted,
    /// It is none of ours any more, or of another pool.
    Hidden,
}

impl Was {
    pub(crate) fn uid(&self) -> &str {
        match self {
            Self::Pool { uid } | Self::Claim { uid, .. } | Self::Address { uid, .. } => uid,
        }
    }

    pub(crate) fn of(thing: &Thing) -> Self {
        match thing {
            Thing::Pool(pool) => Self::Pool {
                uid: pool.uid().unwrap_or_default(),
            },
            Thing::Claim(claim) => Self::Claim {
                key: claim.key.clone(),
                uid: claim.meta.uid.clone(),
            },
            Thing::Address(address) => Self::Address {
                id: address.id.clone(),
                uid: address.meta.uid.clone(),
            },
        }
    }
}
