//! A cache of watched objects, looked up by name or by an index, with read-your-writes.
//!
//! kube's stores can only be scanned, and they lag behind the program's own writes. This store has an index by the keys
//! that objects are looked up by. It takes the response of a write at once, so the next pass sees its own write. The
//! watch event that follows changes nothing and wakes no controller.
//!
//! ```text
//!  watch (one for each kind, or for each namespace) ─▶ follow ─┐
//!  answers to own writes ─────────────────── written, created ─┴▶ Store ─▶ listeners: which controllers look again
//! ```
//!
//! It is still a cache: any write that must not happen twice carries the resourceVersion that was seen.

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
pub use self::state::REMEMBERED_GONE;
use self::state::State;
use crate::cache;

/// The namespace and name of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectKey {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl ObjectKey {
    /// A key from a namespace and a name.
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

/// A change of an object.
#[derive(Clone, Debug)]
pub struct Change<K> {
    /// The object that changed.
    pub key: ObjectKey,
    /// The previous version; `None` if it was created.
    pub before: Option<Arc<K>>,
    /// The current version; `None` if it was deleted.
    pub after: Option<Arc<K>>,
}

impl<K> Change<K> {
    /// The previous and the current version, as far as they exist.
    pub fn states(&self) -> impl Iterator<Item = &Arc<K>> {
        self.before.iter().chain(&self.after)
    }

    /// Whether the projected value changed. Create and delete count.
    pub fn affects<T: PartialEq>(&self, question: impl Fn(&K) -> T) -> bool {
        self.before.as_deref().map(&question) != self.after.as_deref().map(&question)
    }
}

type Listener<K> = Box<dyn Fn(&Change<K>) + Send + Sync>;

/// The objects of one kind. Cheap to clone; clones share the store. `By` is the type of the index keys.
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
    /// An empty store; `keys_of` returns the index keys of an object.
    pub fn new(keys_of: fn(&K) -> Vec<By>) -> Self {
        Self::reduced(keys_of, |_| ())
    }

    /// Like [`Self::new`], for objects that are kept in part: `reduce` removes fields, in addition to those that
    /// [`cache::trim`] always removes.
    pub fn reduced(keys_of: fn(&K) -> Vec<By>, reduce: fn(&mut K)) -> Self {
        Self(Arc::new(Shared {
            keys_of,
            reduce,
            state: RwLock::default(),
            listeners: RwLock::default(),
        }))
    }

    /// Calls `listener` after every change from now on, in the task that caused the change. It must be quick and must
    /// not write to this store.
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

    /// Takes the response of a patch or an update. It is ignored if it is older than the cached version, or if the
    /// object is gone.
    pub fn written(&self, object: K) {
        let key = ObjectKey::of(&object);
        let is_known = |state: &State<K, By>| state.get(&key).is_some_and(|seen| seen.uid() == object.uid());
        if is_known(&self.read()) {
            self.put(object);
        }
    }

    /// Takes the response of a create.
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
    /// Responses of writes also come here.
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
            // The write removed the last finalizer, so the server has deleted the object.
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
            // Already gone, or recreated and known from the response of the create.
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

/// Whether `new` is a later version than `old` of the same object, or a different object of the same name. Versions of
/// one resource are ordered decimal numbers (guaranteed by Kubernetes since 1.35, and always true with etcd). A version
/// that is not a number counts as newer if it differs.
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
