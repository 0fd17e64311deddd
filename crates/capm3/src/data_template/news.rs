//! What has changed in each index space since it was looked at.
//!
//! A space may have thousands of claims, of which a few have something to be done. Only those are looked at that have
//! changed, or whose Metal3Data has; all of them at the start, when a template changes, and now and then.

use parking_lot::{Mutex, MutexGuard};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use metal3_runtime::store::ObjectKey;

use super::effect::{Effect, Subject};
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
    /// Whether what the templates list is to be compared with what there is.
    pub has_lists: bool,
}

impl Focus {
    /// Everything.
    pub fn whole() -> Self {
        Self {
            is_whole: true,
            ..Self::default()
        }
    }

    /// What the templates list.
    pub fn lists() -> Self {
        Self {
            has_lists: true,
            ..Self::default()
        }
    }

    /// This one and the other.
    pub fn extend(&mut self, other: Self) {
        self.is_whole |= other.is_whole;
        self.has_lists |= other.has_lists;
        self.claims.extend(other.claims);
        self.datas.extend(other.datas);
    }
}

/// What costs by how much there is, and not by how much has changed, is done once in so long: where many machines come
/// one after the other, each would else pay for all of them.
pub const APART: Duration = Duration::from_secs(1);

/// What is known of a space without a look at it.
#[derive(Debug, Default)]
struct Known {
    changed: Focus,
    /// No index below this one is free.
    lowest: i32,
    /// When that was done last which is not done twice within [`APART`].
    lately: HashMap<Subject, Duration>,
}

/// Of all spaces that there is something in. Times are those of a clock that never goes back. Cheap to clone; clones are the same.
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

    /// There is nothing in the space any more. If there is again, it is looked at as a whole.
    pub fn forget(&self, space: &ObjectKey) {
        self.lock().remove(space);
    }

    /// How much longer this is not to be done, because it was done just now.
    pub fn wait(&self, space: &ObjectKey, effect: &Effect, now: Duration) -> Option<Duration> {
        let spaces = self.lock();
        let last = spaces.get(space)?.lately.get(&effect.subject())?;
        let left = APART.checked_sub(now.saturating_sub(*last))?;
        (effect.is_about_all() && !left.is_zero()).then_some(left)
    }

    /// This was done.
    pub fn done(&self, space: &ObjectKey, effect: &Effect, now: Duration) {
        if let Some(known) = self.lock().get_mut(space)
            && effect.is_about_all()
        {
            known.lately.retain(|_, last| now.saturating_sub(*last) < APART);
            known.lately.insert(effect.subject(), now);
        }
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
        self.0.lock()
    }
}

/// Whether no Metal3Data has the name that stands for this index.
pub fn is_free(world: &World, space: &ObjectKey, index: i32) -> bool {
    let name = ObjectKey::new(&space.namespace, name_of(space, index));
    world.datas.get(&name).is_none()
}
