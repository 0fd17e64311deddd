//! What an API server fails to do, again and again: an admission webhook whose Service is gone is answered with 500 for as
//! long as nobody mends it.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use crate::error::PassError;

/// What has failed for so long is told. A server that starts anew, or loses its leader, is back before that.
pub const LASTING: Duration = Duration::from_secs(30);

/// What has not failed for so long is over, though nobody has said so: attempts are at most a minute apart.
const OVER: Duration = Duration::from_secs(300);

/// What is over is looked for when there are so many.
const MANY: usize = 1_000;

/// The failures of one object.
#[derive(Clone, Debug)]
struct Failure {
    first: Duration,
    last: Duration,
    /// When something was told last, and what. One text at a time: a server that answers now this and now that would else
    /// have its words written with each attempt.
    told: Option<(Duration, String)>,
}

/// What the API server fails to do, by the UID of the object that it is for. Times are those of a clock that never goes
/// back. Cheap to clone; clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Failures(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    failing: HashMap<String, Failure>,
    /// After a look for what is over, so many were left.
    left: usize,
}

impl Failures {
    /// What has to be told of an error of this object: a refusal at once, a failure of the server only if it lasts.
    pub fn hear(&self, uid: Option<&str>, error: &PassError, now: Duration) -> Option<String> {
        if let Some(refusal) = error.refusal() {
            return Some(refusal);
        }
        let (uid, words) = (uid?, error.failure()?);
        let mut state = self.0.lock();
        state.make_room(now);
        let failure = state.failing.entry(uid.to_owned()).or_insert(Failure {
            first: now,
            last: now,
            told: None,
        });
        if failure.is_over(now) {
            *failure = Failure {
                first: now,
                last: now,
                told: None,
            };
        }
        failure.last = now;
        if now.saturating_sub(failure.first) < LASTING {
            return None;
        }
        let said = failure
            .told
            .as_ref()
            .filter(|(at, _)| now.saturating_sub(*at) < LASTING);
        let said = said.map(|(_, words)| words.clone());
        Some(said.unwrap_or_else(|| {
            failure.told = Some((now, words.clone()));
            words
        }))
    }

    /// What there was to do for this object is done.
    pub fn forget(&self, uid: Option<&str>) {
        if let Some(uid) = uid {
            self.0.lock().failing.remove(uid);
        }
    }
}

impl Failure {
    fn is_over(&self, now: Duration) -> bool {
        now.saturating_sub(self.last) > OVER
    }
}

impl State {
    /// Objects that are gone have nobody who says that they are.
    fn make_room(&mut self, now: Duration) {
        if self.failing.len() >= MANY.max(2 * self.left) {
            self.failing.retain(|_, failure| !failure.is_over(now));
            self.left = self.failing.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::core::Status;
    use metal3_runtime::store::ObjectKey;

    fn error(code: u16, words: &str) -> PassError {
        let status = Status::failure(words, "InternalError").with_code(code);
        let source = kube::Error::Api(Box::new(status));
        PassError::of("claim the host", "Metal3Machine", &ObjectKey::new("ns", "m"))(source)
    }

    /// What is told of a failure of object `uid` at this second.
    fn told(failures: &Failures, uid: &str, words: &str, second: u64) -> Option<String> {
        failures.hear(Some(uid), &error(500, words), Duration::from_secs(second))
    }

    #[test]
    fn a_refusal_is_told_at_once_and_a_failure_when_it_has_lasted() {
        let failures = Failures::default();
        assert!(failures.hear(Some("u"), &error(403, "no"), Duration::ZERO).is_some());
        assert_eq!(told(&failures, "u", "broken", 100), None);
        assert_eq!(told(&failures, "u", "broken", 129), None);
        let words = told(&failures, "u", "broken", 130).unwrap();
        assert!(
            words.starts_with("cannot claim the host of Metal3Machine ns/m: broken"),
            "{words}"
        );
        assert_eq!(told(&failures, "other", "broken", 130), None, "each object for itself");
    }

    #[test]
    fn what_came_through_in_between_did_not_last() {
        let failures = Failures::default();
        assert_eq!(told(&failures, "u", "broken", 0), None);
        failures.forget(Some("u"));
        assert_eq!(told(&failures, "u", "broken", 40), None);
        assert_eq!(told(&failures, "u", "broken", 40 + 301), None, "long ago");
        assert!(told(&failures, "u", "broken", 40 + 301 + 30).is_some());
    }

    #[test]
    fn words_that_change_with_each_attempt_are_not_told_with_each() {
        let failures = Failures::default();
        told(&failures, "u", "refused", 0);
        let first = told(&failures, "u", "timed out", 30);
        assert!(first.as_ref().is_some_and(|words| words.contains("timed out")));
        assert_eq!(told(&failures, "u", "refused", 31), first);
        assert!(told(&failures, "u", "refused", 60).unwrap().contains("refused"));
    }

    #[test]
    fn what_is_over_makes_room_and_what_is_not_stays() {
        let failures = Failures::default();
        for number in 0..2 * MANY {
            told(&failures, &format!("u{number}"), "broken", 0);
        }
        assert_eq!(failures.0.lock().failing.len(), 2 * MANY);
        for number in 0..2 * MANY {
            told(&failures, &format!("v{number}"), "broken", 1_000);
        }
        assert_eq!(failures.0.lock().failing.len(), 2 * MANY);
    }
}
