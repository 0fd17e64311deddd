//! The contents of a store.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::Hash;
use std::sync::Arc;

use slab::Slab;

use super::ObjectKey;
use crate::index::Index;

/// Objects by name and by index keys.
///
/// The index refers to objects by number: a name would be stored once for every key of an object, and hashed once for
/// every object found.
pub(super) struct State<K, By> {
    numbers: HashMap<ObjectKey, usize>,
    objects: Slab<Arc<K>>,
    index: Index<usize, By>,
    pub(super) gone: Gone,
}

impl<K, By> Default for State<K, By> {
    fn default() -> Self {
        Self {
            numbers: HashMap::new(),
            objects: Slab::new(),
            index: Index::default(),
            gone: Gone::default(),
        }
    }
}

impl<K, By: Eq + Hash + Clone> State<K, By> {
    pub(super) fn get(&self, key: &ObjectKey) -> Option<&Arc<K>> {
        self.numbers.get(key).and_then(|number| self.objects.get(*number))
    }

    pub(super) fn find(&self, by: &By) -> impl Iterator<Item = &Arc<K>> {
        self.index.ids(by).filter_map(|number| self.objects.get(*number))
    }

    pub(super) fn objects(&self) -> impl ExactSizeIterator<Item = &Arc<K>> {
        self.objects.iter().map(|(_, object)| object)
    }

    /// Replaces the object of this name.
    pub(super) fn set(&mut self, key: &ObjectKey, object: Arc<K>, keys: Vec<By>) {
        let known = self.numbers.get(key).copied();
        let number = if let Some(number) = known
            && let Some(place) = self.objects.get_mut(number)
        {
            *place = object;
            number
        } else {
            let number = self.objects.insert(object);
            self.numbers.insert(key.clone(), number);
            number
        };
        self.index.set(number, keys);
    }

    pub(super) fn remove(&mut self, key: &ObjectKey) -> Option<Arc<K>> {
        let number = self.numbers.remove(key)?;
        self.index.remove(&number);
        self.objects.try_remove(number)
    }
}

/// UIDs of deleted objects, so that a late response does not bring one back.
#[derive(Default)]
pub(super) struct Gone {
    uids: HashSet<Arc<str>>,
    order: VecDeque<Arc<str>>,
}

/// How many UIDs of deleted objects a store remembers; responses do not arrive later than that.
pub const REMEMBERED_GONE: usize = 4096;

impl Gone {
    pub(super) fn contains(&self, uid: &str) -> bool {
        self.uids.contains(uid)
    }

    pub(super) fn remember(&mut self, uid: &str) {
        let uid: Arc<str> = uid.into();
        if self.uids.insert(uid.clone()) {
            self.order.push_back(uid);
        }
        if self.order.len() > REMEMBERED_GONE
            && let Some(oldest) = self.order.pop_front()
        {
            self.uids.remove(&oldest);
        }
    }
}
