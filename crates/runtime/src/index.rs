//! Secondary indexes: which objects have to do with a key. kube's stores can only be scanned.

use std::{
    collections::{HashMap, HashSet},
    hash::Hash,
    sync::Arc,
};

use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use futures::{Stream, StreamExt};
use kube::{
    Resource,
    runtime::{reflector::ObjectRef, watcher},
};

/// A many-to-many relation between objects and keys, looked up in both directions.
///
/// `Id` names an object (usually an [`ObjectRef`]); `Key` is what it is found by, such as a MAC address or the name of
/// a Secret. Setting and looking up cost the number of keys of one object, not the number of objects.
#[derive(Clone, Debug)]
pub struct Index<Id, Key> {
    keys: HashMap<Id, HashSet<Key>>,
    ids: HashMap<Key, HashSet<Id>>,
}

impl<Id, Key> Default for Index<Id, Key> {
    fn default() -> Self {
        Self {
            keys: HashMap::new(),
            ids: HashMap::new(),
        }
    }
}

impl<Id: Eq + Hash + Clone, Key: Eq + Hash + Clone> Index<Id, Key> {
    /// Says that `id` has exactly these keys from now on.
    pub fn set(&mut self, id: Id, keys: impl IntoIterator<Item = Key>) {
        let keys: HashSet<Key> = keys.into_iter().collect();
        let before = self.keys.remove(&id).unwrap_or_default();
        for gone in before.difference(&keys) {
            self.unlink(gone, &id);
        }
        for new in keys.difference(&before) {
            self.ids.entry(new.clone()).or_default().insert(id.clone());
        }
        if !keys.is_empty() {
            self.keys.insert(id, keys);
        }
    }

    /// Forgets an object.
    pub fn remove(&mut self, id: &Id) {
        for key in self.keys.remove(id).unwrap_or_default() {
            self.unlink(&key, id);
        }
    }

    /// The objects that have this key, in no particular order.
    pub fn ids(&self, key: &Key) -> impl Iterator<Item = &Id> {
        self.ids.get(key).into_iter().flatten()
    }

    /// The keys of an object, in no particular order.
    pub fn keys(&self, id: &Id) -> impl Iterator<Item = &Key> {
        self.keys.get(id).into_iter().flatten()
    }

    /// Every key that at least one object has.
    pub fn all_keys(&self) -> impl Iterator<Item = &Key> {
        self.ids.keys()
    }

    /// Whether any object has this key.
    pub fn contains_key(&self, key: &Key) -> bool {
        self.ids.contains_key(key)
    }

    fn unlink(&mut self, key: &Key, id: &Id) {
        if let Some(ids) = self.ids.get_mut(key) {
            ids.remove(id);
            if ids.is_empty() {
                self.ids.remove(key);
            }
        }
    }
}

/// An index of Kubernetes objects of kind `K` that many tasks share, kept up to date by [`SharedIndex::follow`].
#[derive(Debug)]
pub struct SharedIndex<K: Resource<DynamicType = ()>, Key>(Arc<RwLock<Index<ObjectRef<K>, Key>>>);

impl<K: Resource<DynamicType = ()>, Key> Clone for SharedIndex<K, Key> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<K: Resource<DynamicType = ()>, Key> Default for SharedIndex<K, Key> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<K, Key> SharedIndex<K, Key>
where
    K: Resource<DynamicType = ()> + Clone,
    Key: Eq + Hash + Clone,
{
    /// The objects that have this key. Fits a controller's `watches` mapper.
    pub fn lookup(&self, key: &Key) -> Vec<ObjectRef<K>> {
        self.read().ids(key).cloned().collect()
    }

    /// Passes the events of a watch on, entering each object under `keys_of` it first.
    ///
    /// Put it between the watcher and the reflector or controller: a reconcile then never runs before its object is in
    /// the index. Objects that vanished while a watch was interrupted leave the index when its new list is complete.
    /// Several watches, one for each namespace, may feed the same index.
    pub fn follow<S, F>(
        &self,
        events: S,
        keys_of: F,
    ) -> impl Stream<Item = Result<watcher::Event<K>, watcher::Error>> + use<K, Key, S, F>
    where
        S: Stream<Item = Result<watcher::Event<K>, watcher::Error>>,
        F: Fn(&K) -> Vec<Key>,
    {
        let index = self.clone();
        let mut objects = Watched::default();
        events.map(move |event| event.inspect(|event| index.apply(event, &keys_of, &mut objects)))
    }

    fn apply(&self, event: &watcher::Event<K>, keys_of: impl Fn(&K) -> Vec<Key>, watched: &mut Watched<K>) {
        match event {
            // A list that fails begins anew: what was there before the first attempt is still to be looked for.
            watcher::Event::Init => watched.before.extend(watched.present.drain()),
            watcher::Event::Apply(object) | watcher::Event::InitApply(object) => {
                let id = ObjectRef::from_obj(object);
                watched.before.remove(&id);
                watched.present.insert(id.clone());
                self.write().set(id, keys_of(object));
            }
            watcher::Event::Delete(object) => {
                let id = ObjectRef::from_obj(object);
                watched.present.remove(&id);
                self.write().remove(&id);
            }
            watcher::Event::InitDone => {
                let mut index = self.write();
                for vanished in watched.before.drain() {
                    index.remove(&vanished);
                }
            }
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, Index<ObjectRef<K>, Key>> {
        self.0.read()
    }

    fn write(&self) -> RwLockWriteGuard<'_, Index<ObjectRef<K>, Key>> {
        self.0.write()
    }
}

/// What one watch has shown.
struct Watched<K: Resource<DynamicType = ()>> {
    present: HashSet<ObjectRef<K>>,
    /// During a new list: what was there before and has not been listed yet.
    before: HashSet<ObjectRef<K>>,
}

impl<K: Resource<DynamicType = ()>> Default for Watched<K> {
    fn default() -> Self {
        Self {
            present: HashSet::new(),
            before: HashSet::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::stream;
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::core::ObjectMeta;
    use proptest::prelude::*;
    use std::collections::BTreeSet;
    use watcher::Event;

    proptest! {
        /// Against the obvious model: a set of pairs.
        #[test]
        fn an_index_is_a_relation(steps in prop::collection::vec((0_u8..6, prop::collection::vec(0_u8..6, 0..4)), 0..40)) {
            let mut index = Index::default();
            let mut model = BTreeSet::new();
            for (id, keys) in steps {
                model.retain(|(other, _)| *other != id);
                if keys == [0] {
                    index.remove(&id);
                } else {
                    model.extend(keys.iter().map(|key| (id, *key)));
                    index.set(id, keys);
                }
                for n in 0..6 {
                    let ids: BTreeSet<u8> = index.ids(&n).copied().collect();
                    prop_assert_eq!(&ids, &model.iter().filter(|(_, key)| *key == n).map(|(id, _)| *id).collect());
                    prop_assert_eq!(index.contains_key(&n), !ids.is_empty());
                    let keys: BTreeSet<u8> = index.keys(&n).copied().collect();
                    prop_assert_eq!(keys, model.iter().filter(|(id, _)| *id == n).map(|(_, key)| *key).collect());
                }
                prop_assert_eq!(index.all_keys().count(), model.iter().map(|(_, key)| key).collect::<BTreeSet<_>>().len());
            }
        }
    }

    fn map(name: &str, key: &str) -> ConfigMap {
        ConfigMap {
            metadata: ObjectMeta {
                name: Some(name.into()),
                namespace: Some("ns".into()),
                labels: Some([("key".to_owned(), key.to_owned())].into()),
                ..ObjectMeta::default()
            },
            ..ConfigMap::default()
        }
    }

    async fn feed(index: &SharedIndex<ConfigMap, String>, events: Vec<Event<ConfigMap>>) {
        let events = stream::iter(events.into_iter().map(Ok));
        let keys_of = |object: &ConfigMap| {
            object
                .metadata
                .labels
                .iter()
                .flatten()
                .map(|(_, key)| key.clone())
                .collect()
        };
        assert!(index.follow(events, keys_of).count().await > 0);
    }

    fn names(index: &SharedIndex<ConfigMap, String>, key: &str) -> Vec<String> {
        let mut names: Vec<_> = index
            .lookup(&key.to_owned())
            .into_iter()
            .map(|object| object.name)
            .collect();
        names.sort();
        names
    }

    #[tokio::test]
    async fn an_index_follows_a_watch_through_a_restart() {
        let index = SharedIndex::default();
        feed(&index, vec![Event::Apply(map("other-watch", "x"))]).await;
        feed(
            &index,
            vec![
                Event::Init,
                Event::InitApply(map("a", "x")),
                Event::InitApply(map("b", "x")),
                Event::InitDone,
                Event::Apply(map("c", "x")),
                Event::Apply(map("a", "y")),
                Event::Delete(map("c", "x")),
                Event::Apply(map("d", "z")),
                // The watch restarts, at the third attempt; b is gone, a is still there, c was there for a moment.
                Event::Init,
                Event::Init,
                Event::InitApply(map("c", "z")),
                Event::Init,
                Event::InitApply(map("a", "y")),
                Event::InitDone,
            ],
        )
        .await;
        assert_eq!(names(&index, "x"), ["other-watch"]);
        assert_eq!(names(&index, "y"), ["a"]);
        assert!(names(&index, "z").is_empty());
    }
}
