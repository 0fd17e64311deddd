//! Reports API server rejections on the object concerned; also server failures that last half a minute, which may have the same
//! causes.
//!
//! A kind with conditions or a status message reports them there and in an event; other kinds only in an event. Passes are
//! retried as after any other failure, and the report of the first successful one replaces it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use metal3_api::condition::Condition;
use metal3_runtime::conditions;
use metal3_runtime::events::Event;
use metal3_runtime::timing::provider::{FAILURE_LASTS, FAILURE_OVER};
use parking_lot::Mutex;

use crate::error::{Identity, PassError};

/// Reason of a condition and of an event: a write was rejected.
pub const UPDATE_ERROR: &str = "UpdateError";

/// Deleted objects never succeed; above this number of entries the outdated ones are dropped.
const MANY: usize = 1_000;

/// Rejections and failures of the API server, by object. Times are from a monotonic clock. Cheap to clone; clones share the
/// state.
#[derive(Clone, Debug, Default)]
pub struct Refusals(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    failing: HashMap<String, Failing>,
    /// Number of entries after the last cleanup.
    left: usize,
}

/// An object whose passes fail.
#[derive(Debug)]
struct Failing {
    /// The first server failure since the last success.
    since: Option<Duration>,
    last: Duration,
    reported: Option<(Duration, Identity)>,
}

/// A failure that users must know about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What failed and why.
    pub message: String,
    /// Whether it differs from the failure reported last.
    pub is_new: bool,
}

/// Whether a condition already reports this.
pub fn is_told(list: &[Condition], type_: &str, reason: &str, message: &str) -> bool {
    let before = conditions::get(list, type_);
    before.is_some_and(|before| before.reason == reason && before.message == message)
}

impl Refusals {
    /// Records a failed pass. Returns nothing for failures that a retry may fix. The caller reports the returned failure if it is
    /// new.
    ///
    /// A rejection counts at once, a server failure only if it lasts: a server that restarts or loses its leader is back sooner.
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
            // A server that alternates between two failures would otherwise cause a write at each attempt.
            Some((at, before)) => *before != identity && (is_final || now.saturating_sub(*at) >= FAILURE_LASTS),
        };
        if is_new {
            failing.reported = Some((now, identity));
        }
        Some(Refusal { message, is_new })
    }

    /// Records a successful pass of this object.
    pub fn succeeded(&self, object: Option<&str>) {
        self.0.lock().failing.remove(object.unwrap_or_default());
    }

    /// The report could not be stored: the next failure counts as new again.
    pub fn unreported(&self, object: Option<&str>) {
        if let Some(failing) = self.0.lock().failing.get_mut(object.unwrap_or_default()) {
            failing.reported = None;
        }
    }

    /// Like [`Self::failed`], for kinds that report by events only: returns the event if the failure is new.
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

    /// Considered over without a successful pass after this time without failures: attempts are at most a minute apart.
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
