//! What an API server refuses is reported on the object that it concerns, and so is what it fails to do for half a minute,
//! which may have the same causes.
//!
//! A kind with conditions, or with a message in its status, has it there and in an event; the others have an event only.
//! Passes go on as after any other failure, and the report of the first one that succeeds replaces it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use metal3_api::condition::Condition;
use metal3_runtime::conditions;
use metal3_runtime::events::Event;
use metal3_runtime::timing::provider::{FAILURE_LASTS, FAILURE_OVER};
use parking_lot::Mutex;

use crate::error::{Identity, PassError};

/// Reason of a condition and of an event: a write was refused.
pub const UPDATE_ERROR: &str = "UpdateError";

/// Objects that are gone never succeed; with so many entries the outdated ones are dropped.
const MANY: usize = 1_000;

/// What the API server has refused or failed to do, by object. Times are those of a clock that never goes back. Cheap to
/// clone; clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Refusals(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    failing: HashMap<String, Failing>,
    /// Entries that were left when outdated ones were dropped last.
    left: usize,
}

/// An object whose passes fail.
#[derive(Debug)]
struct Failing {
    /// The first failure of the server itself since the last success.
    since: Option<Duration>,
    last: Duration,
    reported: Option<(Duration, Identity)>,
}

/// A failure that users have to know of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What failed and why.
    pub message: String,
    /// Whether it is another failure than the one that was reported last.
    pub is_new: bool,
}

/// Whether a condition says this already.
pub fn is_told(list: &[Condition], type_: &str, reason: &str, message: &str) -> bool {
    let before = conditions::get(list, type_);
    before.is_some_and(|before| before.reason == reason && before.message == message)
}

impl Refusals {
    /// Takes account of a failed pass. Nothing for failures that the next attempts may mend. What comes back is reported by the
    /// caller, if it is new.
    ///
    /// A refusal counts at once, a failure of the server only if it lasts: one that restarts, or loses its leader, is back before
    /// that.
    pub fn failed(&self, object: Option<&str>, error: &PassError, now: Duration) -> Option<Refusal> {
        let refusal = error.refusal();
        let is_final = refusal.is_some();
        let message = refusal.or_else(|| error.failure())?;
        let mut state = self.0.lock();
        state.make_room(now);
        let failing = state.failing.entry(object.unwrap_or_default().to_owned());
        let failing = failing.or_insert_with(|| Failing::new(now));
        if failing.is_over(now) {
            *failing = Failing::new(now);
        }
        failing.last = now;
        if !is_final && now.saturating_sub(*failing.since.get_or_insert(now)) < FAILURE_LASTS {
            return None;
        }
        let identity = error.identity();
        let is_new = match &failing.reported {
            None => true,
            // A server that fails in one way and then in another, again and again, would have each attempt written.
            Some((at, before)) => *before != identity && (is_final || now.saturating_sub(*at) >= FAILURE_LASTS),
        };
        if is_new {
            failing.reported = Some((now, identity));
        }
        Some(Refusal { message, is_new })
    }

    /// A pass of this object has succeeded.
    pub fn succeeded(&self, object: Option<&str>) {
        self.0.lock().failing.remove(object.unwrap_or_default());
    }

    /// The report of this object could not be stored: the next failure is new again.
    pub fn unreported(&self, object: Option<&str>) {
        if let Some(failing) = self.0.lock().failing.get_mut(object.unwrap_or_default()) {
            failing.reported = None;
        }
    }

    /// The same as [`Self::failed`] for kinds that report by events only: the event, if the failure is new.
    pub fn event(&self, object: Option<&str>, error: &PassError, now: Duration) -> Option<Event> {
        let refusal = self.failed(object, error, now)?;
        refusal.is_new.then(|| Event::warning(UPDATE_ERROR, refusal.message))
    }
}

impl Failing {
    fn new(now: Duration) -> Self {
        Self {
            since: None,
            last: now,
            reported: None,
        }
    }

    /// Nothing has failed for so long that it is over, though no pass has succeeded: attempts are at most a minute apart.
    fn is_over(&self, now: Duration) -> bool {
        now.saturating_sub(self.last) > FAILURE_OVER
    }
}

impl State {
    fn make_room(&mut self, now: Duration) {
        if self.failing.len() >= MANY.max(2 * self.left) {
            self.failing.retain(|_, failing| !failing.is_over(now));
            self.left = self.failing.len();
        }
    }
}

#[cfg(test)]
mod tests;
