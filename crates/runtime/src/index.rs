//! Secondary indexes: which objects are related to a key. kube's stores can only be scanned.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;

/// A many-to-many relation between objects and keys, looked up in both directions.
///
/// `Id` names an object (its name, or a number); `Key` is what it is found by, such as a MAC address or the name of
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
    /// Replaces the keys of `id`.
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

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
}
