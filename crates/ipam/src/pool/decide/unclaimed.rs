//! An address, or a promise of one, without a claim.

use std::sync::Arc;
use std::time::Duration;

use super::{Book, Next};
use crate::pool::effect::{Effect, Moment};
use crate::pool::promise::Promise;
use crate::pool::seen::{Address, ClaimKey};

impl Book {
    /// What a manager made goes with its claim, also when its finalizer is off already. What was made by hand stays until
    /// somebody deletes it.
    pub(super) fn unclaimed(&mut self, key: &ClaimKey, now: Moment) -> Next {
        if self.policy.is_filtered && self.pool.is_none() {
            // All addresses are shown, and these may be from a pool that another manager looks after. A pool that has any
            // cannot vanish.
            return Next::Settled;
        }
        let is_open = |promise: &Promise| !self.is_dead(key, &promise.uid);
        if self.promises.of_claim(key).any(is_open) {
            // The claim may be one that only another manager has seen so far.
            return Next::Do(self.ask_for_claim(key));
        }
        let goes =
            |object: &&Arc<Address>| object.is_removable() && (object.owner.is_some() || object.meta.is_deleting);
        let Some(object) = self.objects_of(key).find(goes).cloned() else {
            if !self.objects.contains_key(key) {
                self.vacate(key);
            }
            return Next::Settled;
        };
        let left = self.grace_of(&object, now);
        if !left.is_zero() {
            return Next::At(now.elapsed + left);
        }
        if !self.is_absent(key) {
            return Next::Do(self.ask_for_claim(key));
        }
        Next::Do(Effect::removal(&object))
    }

    /// How long an object without a claim is still left alone. One that stands in somebody's way is not.
    fn grace_of(&self, object: &Address, now: Moment) -> Duration {
        if object.meta.is_deleting || self.rivals.contains(&object.id) {
            return Duration::ZERO;
        }
        let grace = i64::try_from(self.policy.orphan_grace.as_secs()).unwrap_or(i64::MAX);
        let end = object.meta.created.saturating_add(grace);
        let left = end.saturating_sub(now.wall.as_second());
        Duration::from_secs(u64::try_from(left).unwrap_or_default())
    }
}
