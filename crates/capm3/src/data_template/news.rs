//! What has changed in each index space since it was looked at.
//!
//! A space may have thousands of claims, of which a few have something to be done. Only those are looked at that have
//! changed, or whose Metal3Data has; all of them at the start, when a template changes, and now and then.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use metal3_runtime::store::ObjectKey;

use super::space::name_of;
use crate::world::World;

/// What is to be looked at in a space.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Focus {
    /// Everything.
    pub is_whole: bool,
    /// Else the claims of these names, and what was made for them.
    pub claims: BTreeSet<String>,
    /// And the Metal3Datas of these names.
    pub datas: BTreeSet<String>,
}

impl Focus {
    /// Everything.
    pub fn whole() -> Self {
        Self {
            is_whole: true,
            ..Self::default()
        }
    }

    /// This one and the other.
    pub fn extend(&mut self, other: Self) {
        self.is_whole |= other.is_whole;
        self.claims.extend(other.claims);
        self.datas.extend(other.datas);
    }
}

/// What is known of a space without a look at it.
#[derive(Debug, Default)]
struct Known {
    changed: Focus,
    /// No index below this one is free.
    lowest: i32,
}

/// Of all spaces. Cheap to clone; clones are the same.
#[derive(Clone, Debug, Default)]
pub struct News(Arc<Mutex<HashMap<ObjectKey, Known>>>);

impl News {
    /// Something has changed, or is left to be done.
    pub fn add(&self, space: &ObjectKey, changed: Focus) {
        // One that was never looked at is looked at as a whole in any case.
        if let Some(known) = self.lock().get_mut(space) {
            known.changed.extend(changed);
        }
    }

    /// What has changed since this was asked last.
    pub fn take(&self, space: &ObjectKey) -> Focus {
        let mut spaces = self.lock();
        if let Some(known) = spaces.get_mut(space) {
            return std::mem::take(&mut known.changed);
        }
        spaces.insert(space.clone(), Known::default());
        Focus::whole()
    }

    /// A Metal3Data with this index is gone.
    pub fn freed(&self, space: &ObjectKey, index: i32) {
        if let Some(known) = self.lock().get_mut(space) {
            known.lowest = known.lowest.min(index.max(0));
        }
    }

    /// The lowest so many indexes that no Metal3Data has. Those below the first one are passed over once and not each time.
    pub fn free(&self, world: &World, space: &ObjectKey, count: usize) -> Vec<i32> {
        let mut spaces = self.lock();
        let known = spaces.entry(space.clone()).or_default();
        let free: Vec<i32> = (known.lowest..i32::MAX)
            .filter(|index| is_free(world, space, *index))
            .take(count)
            .collect();
        if let Some(first) = free.first() {
            known.lowest = *first;
        }
        free
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ObjectKey, Known>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether no Metal3Data has the name that stands for this index.
pub fn is_free(world: &World, space: &ObjectKey, index: i32) -> bool {
    let name = ObjectKey::new(&space.namespace, name_of(space, index));
    world.datas.get(&name).is_none()
}
