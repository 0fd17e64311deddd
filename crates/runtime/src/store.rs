//! Objects as a watch shows them, found by name or by an index, our own writes included.
//!
//! kube's stores can only be scanned, and lag behind one's own writes. This one has an index by whatever an object is
//! looked for, and takes the answer of a write at once: the pass after it sees what it wrote, and the watch's event for
//! it, which changes nothing any more, wakes nobody.
//!
//! ```text
//!  watch (one for each kind, or for each namespace) ─▶ follow ─┐
//!  answers to own writes ─────────────────── written, created ─┴▶ Store ─▶ listeners: which controllers look again
//! ```
//!
//! It stays a cache: what must not be done twice is written with the resourceVersion that was seen.

mod follow;
mod state;
#[cfg(test)]
mod tests;

use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::fmt;
use std::hash::Hash;
use std::sync::Arc;

use kube::{Resource, ResourceExt};
use metal3_api::reference::LocalRef;

pub use self::follow::{Awaited, Follow, Sink};
use self::state::State;
use crate::cache;

/// A namespaced object by its name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectKey {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl ObjectKey {
    /// A key of these.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    /// The key of an object.
    pub fn of<K: Resource>(object: &K) -> Self {
        Self::new(object.namespace().unwrap_or_default(), object.name_any())
    }
}

impl From<LocalRef<'_>> for ObjectKey {
    fn from(reference: LocalRef<'_>) -> Self {
        Self::new(reference.namespace(), reference.name())
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.namespace, self.name)
    }
}

/// An object is now another than it was.
#[derive(Clone, Debug)]
pub struct Change<K> {
    /// Which one.
    pub key: ObjectKey,
    /// As it was; nothing if it was not there.
    pub before: Option<Arc<K>>,
    /// As it is; nothing if it is gone.
    pub after: Option<Arc<K>>,
}

impl<K> Change<K> {
    /// What was and what is, whichever there is.
    pub fn states(&self) -> impl Iterator<Item = &Arc<K>> {
        self.before.iter().chain(&self.after)
    }

    /// Whether what this question asks for is another now. Coming and going count.
    pub fn affects<T: PartialEq>(&self, question: impl Fn(&K) -> T) -> bool {
        self.before.as_deref().map(&question) != self.after.as_deref().map(&question)
    }
}

type Listener<K> = Box<dyn Fn(&Change<K>) + Send + Sync>;

/// The objects of one kind. Cheap to clone; clones are the same store. `By` is what they are found by besides their name.
pub struct Store<K, By = ()>(Arc<Shared<K, By>>);

impl<K, By> Clone for Store<K, By> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<K, By> fmt::Debug for Store<K, By> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Store<{}>", std::any::type_name::<K>())
    }
}

struct Shared<K, By> {
    keys_of: fn(&K) -> Vec<By>,
    reduce: fn(&mut K),
    state: RwLock<State<K, By>>,
    listeners: RwLock<Vec<Listener<K>>>,
}

impl<K, By> Store<K, By>
where
    K: Resource<DynamicType = ()>,
    By: Eq + Hash + Clone,
{
    /// An empty store; `keys_of` says what an object is found by.
    pub fn new(keys_of: fn(&K) -> Vec<By>) -> Self {
        Self::reduced(keys_of, |_| ())
    }

    /// The same for objects of which a part is enough: `reduce` takes the rest away, besides what [`cache::trim`] takes
    /// from all.
    pub fn reduced(keys_of: fn(&K) -> Vec<By>, reduce: fn(&mut K)) -> Self {
        Self(Arc::new(Shared {
            keys_of,
            reduce,
            state: RwLock::default(),
            listeners: RwLock::default(),
        }))
    }

    /// Calls `listener` after every change from now on, from whichever task brought it. It must be quick and must not write
    /// into this store.
    pub fn listen(&self, listener: impl Fn(&Change<K>) + Send + Sync + 'static) {
        let mut listeners = self.0.listeners.write();
        listeners.push(Box::new(listener));
    }

    /// The object of this name.
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<K>> {
        self.read().get(key).cloned()
    }

    /// The objects that have this key, in no particular order.
    pub fn find(&self, by: &By) -> Vec<Arc<K>> {
        self.read().find(by).cloned().collect()
    }

    /// The names of the objects that have this key, in no particular order.
    pub fn names(&self, by: &By) -> Vec<ObjectKey> {
        self.read().find(by).map(|object| ObjectKey::of(&**object)).collect()
    }

    /// Whether any object has this key.
    pub fn has(&self, by: &By) -> bool {
        self.read().find(by).next().is_some()
    }

    /// How many objects have this key.
    pub fn count(&self, by: &By) -> usize {
        self.read().find(by).count()
    }

    /// The names of all objects.
    pub fn all(&self) -> Vec<ObjectKey> {
        self.read().objects().map(|object| ObjectKey::of(&**object)).collect()
    }

    /// All objects, in no particular order.
    pub fn objects(&self) -> Vec<Arc<K>> {
        self.read().objects().cloned().collect()
    }

    /// The number of objects.
    pub fn len(&self) -> usize {
        self.read().objects().len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes the answer to a patch or an update. Older than what is here, or of an object that is gone, it counts for
    /// nothing.
    pub fn written(&self, object: K) {
        let key = ObjectKey::of(&object);
        let is_known = |state: &State<K, By>| state.get(&key).is_some_and(|seen| seen.uid() == object.uid());
        if is_known(&self.read()) {
            self.put(object);
        }
    }

    /// Takes the answer to a create.
    pub fn created(&self, object: K) {
        self.put(object);
    }

    fn tell(&self, change: &Change<K>) {
        if change.before.is_none() && change.after.is_none() {
            return;
        }
        let listeners = self.0.listeners.read();
        for listener in &*listeners {
            listener(change);
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, State<K, By>> {
        self.0.state.read()
    }

    fn write(&self) -> RwLockWriteGuard<'_, State<K, By>> {
        self.0.state.write()
    }
}

impl<K, By> Sink<K> for Store<K, By>
where
    K: Resource<DynamicType = ()>,
    By: Eq + Hash + Clone,
{
    /// The answer to a write comes here, too.
    fn put(&self, mut object: K) {
        cache::trim(&mut object);
        (self.0.reduce)(&mut object);
        let key = ObjectKey::of(&object);
        let uid = object.uid().unwrap_or_default();
        let is_finished = object.meta().deletion_timestamp.is_some() && object.finalizers().is_empty();
        let mut state = self.write();
        if state.gone.contains(&uid) {
            return;
        }
        let before = state.get(&key).cloned();
        if before.as_deref().is_some_and(|before| !is_newer(&object, before)) {
            return;
        }
        let after = if is_finished {
            // The write took the last finalizer off: the server has removed it.
            state.gone.remember(&uid);
            state.remove(&key);
            None
        } else {
            let object = Arc::new(object);
            state.set(&key, object.clone(), (self.0.keys_of)(&object));
            Some(object)
        };
        drop(state);
        self.tell(&Change { key, before, after });
    }

    fn remove(&self, key: &ObjectKey, uid: &str) {
        let mut state = self.write();
        state.gone.remember(uid);
        let is_this = |seen: &Arc<K>| seen.uid().unwrap_or_default() == uid;
        if !state.get(key).is_some_and(is_this) {
            // Gone already, or made anew and seen by the answer to the create.
            return;
        }
        let before = state.remove(key);
        drop(state);
        self.tell(&Change {
            key: key.clone(),
            before,
            after: None,
        });
    }
}

/// Whether `new` is a later version than `old` of the same object, or another object of its name. Versions of one resource
/// are ordered decimal numbers (Kubernetes guarantees it since 1.35, and etcd has always made it so); one that is not a
/// number counts as newer, as long as it is another.
fn is_newer<K: Resource>(new: &K, old: &K) -> bool {
    if new.uid() != old.uid() {
        return true;
    }
    let number = |object: &K| {
        object
            .resource_version()
            .and_then(|version| version.parse::<u64>().ok())
    };
    match (number(new), number(old)) {
        (Some(new), Some(old)) => new > old,
        _ => new.resource_version() != old.resource_version(),
    }
}
