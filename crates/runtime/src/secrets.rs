//! Detects changes of referenced Secrets without holding the cluster's Secrets in memory.
//!
//! A metadata-only watch of each namespace with references shows the names and versions of its Secrets; memory is
//! bounded by the number of references. The content is read from the API server when a pass needs it and its version
//! differs from the known one. Namespaces without references are not watched, so no right to list Secrets is needed
//! there.
//!
//! Where a program may not list and watch the Secrets of a namespace, but may read one whose name it knows, it reads the
//! metadata of those that are referenced at intervals. A user who cannot say in advance which namespaces have hosts thus
//! need not give away the right to list the Secrets of all.

use std::{
    collections::{HashMap, HashSet},
    fmt,
    hash::Hash,
    sync::Arc,
};

use parking_lot::{Mutex, MutexGuard};

use futures::{Stream, StreamExt, stream};
use k8s_openapi::api::core::v1::Secret;
use kube::core::ObjectMeta;
use kube::runtime::watcher;
use kube::{Api, Client, Resource};
use tokio_util::sync::CancellationToken;

use crate::by_name::{read_metadata, watch_metadata, watch_or_read};
use crate::by_namespace::Needed;
use crate::error::chain;
use crate::index::Index;

/// The name of a Secret.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SecretKey {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl fmt::Display for SecretKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.namespace, self.name)
    }
}

impl SecretKey {
    fn of(metadata: &ObjectMeta) -> Self {
        Self {
            namespace: metadata.namespace.clone().unwrap_or_default(),
            name: metadata.name.clone().unwrap_or_default(),
        }
    }
}

/// What is known of a Secret without reading it.
#[derive(Clone, Debug, PartialEq)]
pub enum Known {
    /// Nothing yet: it became referenced after the watch had passed it. Read it, and report the result with
    /// [`SecretVersions::learn`].
    Unknown,
    /// It does not exist.
    Absent,
    /// It exists.
    Present(Arc<Outline>),
}

/// What is kept of an existing Secret. Labels and owners would be most of a host's memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outline {
    /// `metadata.uid`.
    pub uid: Option<String>,
    /// `metadata.resourceVersion`.
    pub resource_version: Option<String>,
    /// Whether it carries the marks that [`SecretVersions::marked_by`] recognises.
    pub is_marked: bool,
}

impl Known {
    /// The uid and version, which together identify one content.
    pub fn version(&self) -> Option<(&str, &str)> {
        match self {
            Self::Present(known) => known.uid.as_deref().zip(known.resource_version.as_deref()),
            Self::Unknown | Self::Absent => None,
        }
    }
}

/// Whether a Secret carries a controller's marks, judged by its metadata.
type IsMarked = fn(&ObjectMeta) -> bool;

/// The versions of all Secrets that an `Owner` (a host, for example) references. Cheap to clone.
#[derive(Debug)]
pub struct SecretVersions<Owner>(Arc<Mutex<State<Owner>>>, IsMarked);

impl<Owner> Clone for SecretVersions<Owner> {
    fn clone(&self) -> Self {
        Self(self.0.clone(), self.1)
    }
}

impl<Owner> Default for SecretVersions<Owner> {
    /// For a controller that puts no marks on Secrets.
    fn default() -> Self {
        Self::marked_by(|_| false)
    }
}

impl<Owner> SecretVersions<Owner> {
    /// For a controller that recognises its marks on Secrets by this function.
    pub fn marked_by(is_marked: IsMarked) -> Self {
        let state = State {
            references: Index::default(),
            known: HashMap::new(),
            missing: HashMap::new(),
            needed: Needed::default(),
        };
        Self(Arc::new(Mutex::new(state)), is_marked)
    }
}

#[derive(Debug)]
struct State<Owner> {
    references: Index<Owner, SecretKey>,
    /// Only referenced keys; one that is missing here is `Unknown`.
    known: HashMap<SecretKey, Known>,
    /// For each list in progress, by namespace: the keys that were referenced when it began and that it has not shown.
    /// A key that is left at the end does not exist. A key that became referenced in the meantime may have been missed.
    missing: HashMap<String, HashSet<SecretKey>>,
    /// The namespaces of the referenced keys.
    needed: Needed,
}

impl<Owner: Eq + Hash + Clone> SecretVersions<Owner> {
    /// Replaces the Secrets that an owner references. Call it in every pass; repeating costs little.
    pub fn set_references(&self, owner: Owner, keys: impl IntoIterator<Item = SecretKey>) {
        let mut state = self.lock();
        let keys: HashSet<SecretKey> = keys.into_iter().collect();
        let before: Vec<SecretKey> = state.references.keys(&owner).cloned().collect();
        for key in keys.iter().filter(|key| !state.references.contains_key(key)) {
            state.needed.add(&key.namespace);
        }
        state.references.set(owner, keys);
        state.drop_unreferenced(before);
    }

    /// Forgets an owner that is gone.
    pub fn remove_owner(&self, owner: &Owner) {
        let mut state = self.lock();
        let before: Vec<SecretKey> = state.references.keys(owner).cloned().collect();
        state.references.remove(owner);
        state.drop_unreferenced(before);
    }

    /// What is known of a Secret. `Unknown` for an unreferenced one.
    pub fn get(&self, key: &SecretKey) -> Known {
        self.lock().known.get(key).cloned().unwrap_or(Known::Unknown)
    }

    /// Takes the result of a live read, if the watch has not reported anything in the meantime. The Secret must have
    /// been referenced before it was read; nothing is kept of an unreferenced one.
    pub fn learn(&self, key: &SecretKey, found: Option<&ObjectMeta>) {
        let mut state = self.lock();
        if state.references.contains_key(key) && !state.known.contains_key(key) {
            let known = found.map_or(Known::Absent, |metadata| self.outline(metadata));
            state.known.insert(key.clone(), known);
        }
    }

    /// The number of Secrets that are kept; bounded by the number of references.
    pub fn len(&self) -> usize {
        self.lock().known.len()
    }

    /// Whether nothing is kept.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Processes one watch event and returns the owners to wake: those of Secrets that appeared, changed or vanished. A
    /// Secret shown again in the same version wakes no owner. `namespace` is the watched one.
    pub fn apply<K: Resource>(&self, namespace: &str, event: &watcher::Event<K>) -> Vec<Owner> {
        let mut state = self.lock();
        match event {
            watcher::Event::Init => {
                let is_in_it = |key: &&SecretKey| namespace == key.namespace;
                let missing = state.references.all_keys().filter(is_in_it).cloned().collect();
                state.missing.insert(namespace.to_owned(), missing);
                Vec::new()
            }
            watcher::Event::InitApply(secret) | watcher::Event::Apply(secret) => {
                let key = SecretKey::of(secret.meta());
                if !state.references.contains_key(&key) {
                    return Vec::new();
                }
                for missing in state.missing.values_mut() {
                    missing.remove(&key);
                }
                state.now_known(key, self.outline(secret.meta()))
            }
            watcher::Event::Delete(secret) => {
                let key = SecretKey::of(secret.meta());
                if !state.references.contains_key(&key) {
                    return Vec::new();
                }
                state.now_known(key, Known::Absent)
            }
            watcher::Event::InitDone => {
                let missing = state.missing.remove(namespace).unwrap_or_default();
                let referenced = missing.into_iter().filter(|key| state.references.contains_key(key));
                let referenced: Vec<_> = referenced.collect();
                referenced
                    .into_iter()
                    .flat_map(|key| state.now_known(key, Known::Absent))
                    .collect()
            }
        }
    }

    /// Watches the Secrets of each namespace with references until `stop`, and passes the owners to wake to `wake`.
    /// `only` restricts this to one namespace.
    ///
    /// Only metadata is requested: the server sends no content. Interruptions are logged, and a watch restarts with
    /// back-off.
    pub async fn follow(
        &self,
        client: &Client,
        only: Option<&str>,
        stop: CancellationToken,
        wake: impl Fn(Owner) + Clone + Send + Sync + 'static,
    ) where
        Owner: Send + 'static,
    {
        let needed = self.lock().needed.clone();
        let watch = |namespace: String, stop: CancellationToken| {
            let owners = self.watch(client, &namespace).take_until(stop.cancelled_owned());
            let wake = wake.clone();
            owners.for_each(move |owner| {
                wake(owner);
                std::future::ready(())
            })
        };
        needed.run(only, stop, watch).await;
    }

    /// Observes the Secrets of one namespace and yields the owners to wake. While they may not be watched, those that are
    /// referenced are read by name.
    pub fn watch(&self, client: &Client, namespace: &str) -> impl Stream<Item = Owner> + Send + use<Owner>
    where
        Owner: Send,
    {
        let (versions, namespace) = (self.clone(), namespace.to_owned());
        let (of, place) = (self.clone(), namespace.clone());
        let names = move || of.referenced_in(&place);
        let secrets: Api<Secret> = Api::namespaced(client.clone(), &namespace);
        let reads = secrets.clone();
        let read = move |name: String| {
            let secrets = reads.clone();
            async move { read_metadata(&secrets, &name, None).await }
        };
        let events = watch_or_read(secrets, watcher::Config::default(), watch_metadata, names, read);
        events.flat_map(move |event| {
            let owners = event.map_or_else(
                |error| {
                    tracing::warn!(%namespace, error = %chain(&error), "Secrets cannot be watched or read");
                    Vec::new()
                },
                |event| versions.apply(&namespace, &event),
            );
            stream::iter(owners)
        })
    }

    fn referenced_in(&self, namespace: &str) -> Vec<String> {
        let state = self.lock();
        let keys = state.references.all_keys();
        let keys = keys.filter(|key| key.namespace == namespace);
        keys.map(|key| key.name.clone()).collect()
    }

    fn outline(&self, metadata: &ObjectMeta) -> Known {
        Known::Present(Arc::new(Outline {
            uid: metadata.uid.clone(),
            resource_version: metadata.resource_version.clone(),
            is_marked: (self.1)(metadata),
        }))
    }

    fn lock(&self) -> MutexGuard<'_, State<Owner>> {
        self.0.lock()
    }
}

impl<Owner: Eq + Hash + Clone> State<Owner> {
    fn now_known(&mut self, key: SecretKey, now: Known) -> Vec<Owner> {
        if self.known.get(&key) == Some(&now) {
            return Vec::new();
        }
        let owners = self.references.ids(&key).cloned().collect();
        self.known.insert(key, now);
        owners
    }

    fn drop_unreferenced(&mut self, keys: Vec<SecretKey>) {
        for key in keys {
            if !self.references.contains_key(&key) {
                self.known.remove(&key);
                self.needed.remove(&key.namespace);
                // If it is referenced again before the list ends, the list may have missed it.
                for missing in self.missing.values_mut() {
                    missing.remove(&key);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
