//! The books of all pools: what is known of each.

use parking_lot::{Mutex, MutexGuard};
use std::collections::HashMap;
use std::sync::Arc;

use kube::ResourceExt;
use metal3_api::capi;
use metal3_api::ipam::IPPool;
use metal3_runtime::store::ObjectKey;
use metal3_runtime::work::Queue;

use crate::pool::seen::{Address, AddressId, Claim, ClaimKey};
use crate::pool::{Book, ClusterSeen, Policy, plan_of};

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
        // What is shown to it meanwhile is shown again to the next one.
        let is_empty = inner.books.get(key).is_some_and(|book| open(book).is_empty());
        if is_empty {
            inner.books.remove(key);
        }
    }

    /// Makes every pool look at everything again. Returns their keys.
    pub fn resync(&self) -> Vec<ObjectKey> {
        let books = self.lock().books.clone();
        for book in books.values() {
            open(book).resync();
        }
        books.into_keys().collect()
    }

    /// A book is opened after the lock of all books is let go: a large pool that is being decided on holds up no other pool.
    pub(crate) fn show(&self, key: &ObjectKey, thing: &Thing) {
        loop {
            let book = self.lock().book(key, self.policy);
            match thing {
                Thing::Pool(pool) => see_pool(&book, pool),
                Thing::Claim(claim) => open(&book).see_claim(claim.clone()),
                Thing::Address(address) => open(&book).see_address(address.clone()),
            }
            // It may have been dropped before it was shown this, because nothing was in it.
            if self.lock().books.get(key).is_some_and(|now| Arc::ptr_eq(now, &book)) {
                break;
            }
        }
        self.queue.push(key.clone());
    }

    pub(crate) fn take_away(&self, key: &ObjectKey, was: &Was, end: End) {
        if let Some(book) = self.get(key) {
            let mut book = open(&book);
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
        if matches!(was, Was::Pool { .. }) {
            return;
        }
        let books = self.lock().of(&key.namespace);
        for (other, book) in books {
            let is_concerned = match was {
                Was::Address { id, .. } => open(&book).lose_foreign(id),
                Was::Claim { key, .. } => open(&book).lose_foreign_claim(key),
                Was::Pool { .. } => false,
            };
            if is_concerned {
                self.queue.push(other);
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
        let books = inner.of(&key.namespace);
        drop(inner);
        for (pool, book) in books {
            if open(&book).see_cluster(&key.name, cluster) {
                self.queue.push(pool);
            }
        }
    }

    pub(crate) fn is_ours(&self, object: &impl ResourceExt) -> bool {
        self.filter.is_empty() || object.labels().get(capi::names::label::WATCH_FILTER) == Some(&self.filter)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock()
    }
}

/// Reads the specification before the book is opened, where it is another one.
fn see_pool(book: &Mutex<Book>, pool: &Arc<IPPool>) {
    let is_other = open(book).pool().is_none_or(|before| before.spec != pool.spec);
    let plan = is_other.then(|| plan_of(&pool.spec));
    open(book).see_pool(pool.clone(), plan);
}

impl Inner {
    /// The books of a namespace.
    fn of(&self, namespace: &str) -> Vec<(ObjectKey, Arc<Mutex<Book>>)> {
        let books = self.books.iter().filter(|(pool, _)| pool.namespace == namespace);
        books.map(|(pool, book)| (pool.clone(), book.clone())).collect()
    }

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
    book.lock()
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

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use serde_json::json;

    use super::*;

    fn pool(name: &str, version: u64) -> Thing {
        let object = json!({"apiVersion": "ipam.metal3.io/v1alpha1", "kind": "IPPool",
            "metadata": {"name": name, "namespace": "n", "uid": name, "resourceVersion": version.to_string()},
            "spec": {"pools": [{"start": "192.0.2.1", "end": "192.0.2.9"}]}});
        Thing::Pool(Arc::new(serde_json::from_value(object).unwrap()))
    }

    // OWN 27e: a large pool was read, and waited for, under the lock of all pools.
    #[test]
    fn a_pool_that_is_being_decided_on_holds_up_no_other() {
        let books = Books::new(Queue::new(), Policy::default(), "");
        let [busy, free] = ["busy", "free"].map(|name| ObjectKey::new("n", name));
        books.show(&busy, &pool("busy", 1));
        let book = books.get(&busy).unwrap();
        let decided_on = open(&book);
        let (told, ear) = mpsc::channel();
        thread::scope(|threads| {
            let (begun, books, busy) = (told.clone(), &books, &busy);
            threads.spawn(move || {
                begun.send("begun").unwrap();
                books.show(busy, &pool("busy", 2));
            });
            assert_eq!(ear.recv().unwrap(), "begun");
            threads.spawn(|| {
                for version in 1..10_000 {
                    books.show(&free, &pool("free", version));
                }
                told.send("free").unwrap();
            });
            let last = ear.recv_timeout(Duration::from_secs(60));
            drop(decided_on);
            assert_eq!(last, Ok("free"));
        });
        assert_eq!(
            open(&book).pool().unwrap().metadata.resource_version.as_deref(),
            Some("2")
        );
    }

    #[test]
    fn what_is_shown_while_a_book_is_dropped_is_in_the_next() {
        let books = Books::new(Queue::new(), Policy::default(), "");
        let key = ObjectKey::new("n", "p");
        let is_over = std::sync::atomic::AtomicBool::new(false);
        thread::scope(|threads| {
            threads.spawn(|| {
                while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                    books.tidy(&key);
                }
            });
            for version in 1..2_000 {
                let thing = pool("p", version);
                books.show(&key, &thing);
                let found = books.get(&key).is_some_and(|book| open(&book).pool().is_some());
                if !found {
                    is_over.store(true, std::sync::atomic::Ordering::Relaxed);
                }
                assert!(found, "version {version} is lost");
                books.take_away(&key, &Was::of(&thing), End::Hidden);
            }
            is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        });
    }
}
