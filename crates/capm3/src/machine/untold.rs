//! What was done for machines and is not told yet.
//!
//! From the claim of a host to the moment that it is on its way, or runs already, one step follows the other. Each is told,
//! by the status and an event, only if it lasts.

use parking_lot::{Mutex, MutexGuard};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use metal3_api::infra::v1beta2::Metal3Machine;
use metal3_runtime::store::ObjectKey;

/// A step that is shorter than this is not told.
pub const PATIENCE: Duration = Duration::from_secs(2);
/// After this the claim is told even if somebody has the host written again and again. Data may take ten seconds of it.
const LONGEST: Duration = Duration::from_secs(15);

/// How a machine came to its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Reason of the condition.
    pub reason: &'static str,
    /// How many hosts were looked at.
    pub considered: usize,
}

/// What is not told yet, as it is seen by one pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// How the host was claimed.
    pub claim: Claim,
    /// For how long it has been the machine's.
    pub age: Duration,
    /// For how long it has not been written.
    pub quiet: Duration,
}

impl Step {
    /// How much longer it need not be told. A write that `is_due` now begins the wait anew.
    pub fn patience(&self, is_due: bool) -> Option<Duration> {
        let quiet = if is_due { Duration::ZERO } else { self.quiet };
        let left = PATIENCE.checked_sub(quiet)?.min(LONGEST.checked_sub(self.age)?);
        (!left.is_zero()).then_some(left)
    }
}

/// A step of one machine, in times of the process's clock: that of day may be set back.
#[derive(Clone, Debug)]
struct Record {
    /// The UID of the machine: another of its name has nothing to do with it.
    uid: Option<String>,
    claim: Claim,
    claimed: Duration,
    written: Duration,
}

/// The same for all machines, by name. It is lost with the process: what was done is then told at once. Cheap to clone;
/// clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Untold(Arc<Mutex<HashMap<ObjectKey, Record>>>);

impl Untold {
    /// The machine's step.
    pub fn get(&self, machine: &Metal3Machine, now: Duration) -> Option<Step> {
        let steps = self.lock();
        let step = steps.get(&ObjectKey::of(machine))?;
        (step.uid == machine.metadata.uid).then(|| Step {
            claim: step.claim,
            age: now.saturating_sub(step.claimed),
            quiet: now.saturating_sub(step.written),
        })
    }

    /// A host was claimed for the machine, in this way, or written again.
    pub fn wrote(&self, machine: &Metal3Machine, claim: Option<Claim>, now: Duration) {
        let (key, uid) = (ObjectKey::of(machine), machine.metadata.uid.clone());
        let mut steps = self.lock();
        if let Some(claim) = claim {
            let step = Record {
                uid,
                claim,
                claimed: now,
                written: now,
            };
            steps.insert(key, step);
        } else if let Some(step) = steps.get_mut(&key).filter(|step| step.uid == uid) {
            step.written = now;
        }
    }

    /// It is told, or does not matter any more.
    pub fn forget(&self, machine: &ObjectKey) {
        self.lock().remove(machine);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ObjectKey, Record>> {
        self.0.lock()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const CLAIM: Claim = Claim {
        reason: "R",
        considered: 3,
    };

    fn machine(uid: &str) -> Metal3Machine {
        serde_json::from_value(json!({"metadata": {"namespace": "ns", "name": "m", "uid": uid}, "spec": {}})).unwrap()
    }

    #[test]
    fn whatever_is_written_a_claim_is_told_in_the_end() {
        let (untold, machine, seconds) = (Untold::default(), machine("u"), Duration::from_secs);
        untold.wrote(&machine, Some(CLAIM), seconds(100));
        let patience = |now: u64, is_due: bool| untold.get(&machine, seconds(now)).unwrap().patience(is_due);
        assert_eq!(patience(101, false), Some(seconds(1)));
        assert_eq!(patience(102, false), None);
        assert_eq!(patience(102, true), Some(PATIENCE));
        for now in 101..114 {
            untold.wrote(&machine, None, seconds(now));
            assert_eq!(patience(now, false), Some(PATIENCE));
        }
        assert_eq!(patience(114, true), Some(seconds(1)));
        assert_eq!(patience(115, true), None);
        untold.forget(&ObjectKey::of(&machine));
        assert_eq!(untold.get(&machine, seconds(115)), None);
    }

    #[test]
    fn a_machine_has_nothing_of_an_earlier_one_of_its_name() {
        let (untold, now) = (Untold::default(), Duration::ZERO);
        untold.wrote(&machine("u"), Some(CLAIM), now);
        assert_eq!(untold.get(&machine("other"), now), None);
        untold.wrote(&machine("other"), None, now + PATIENCE);
        assert_eq!(untold.get(&machine("u"), now + PATIENCE).unwrap().quiet, PATIENCE);
    }
}
