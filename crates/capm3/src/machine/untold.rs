//! What was done for machines and is not told yet.
//!
//! From the claim of a host to the moment that it is on its way, or runs already, one step follows the other. Each is told,
//! by the status and an event, only if it lasts.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use metal3_runtime::store::ObjectKey;

/// A step that is shorter than this is not told.
pub const PATIENCE: Duration = Duration::from_secs(2);

/// How a machine came to its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Reason of the condition.
    pub reason: &'static str,
    /// How many hosts were looked at.
    pub considered: usize,
}

/// What is not told yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// How the host was claimed.
    pub claim: Claim,
    /// When the host was written last.
    pub since: Timestamp,
}

impl Step {
    /// How much longer it need not be told.
    pub fn patience(&self, now: Timestamp) -> Option<Duration> {
        let age = Duration::try_from(now.duration_since(self.since)).unwrap_or_default();
        PATIENCE.checked_sub(age).filter(|left| !left.is_zero())
    }
}

/// The same for all machines, by name. It is lost with the process: what was done is then told at once. Cheap to clone;
/// clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Untold(Arc<Mutex<HashMap<ObjectKey, Step>>>);

impl Untold {
    /// The machine's step.
    pub fn get(&self, machine: &ObjectKey) -> Option<Step> {
        self.lock().get(machine).copied()
    }

    /// A host was claimed for the machine, in this way, or written again.
    pub fn wrote(&self, machine: &ObjectKey, claim: Option<Claim>, now: Timestamp) {
        let mut steps = self.lock();
        if let Some(claim) = claim {
            steps.insert(machine.clone(), Step { claim, since: now });
        } else if let Some(step) = steps.get_mut(machine) {
            step.since = now;
        }
    }

    /// It is told, or does not matter any more.
    pub fn forget(&self, machine: &ObjectKey) {
        self.lock().remove(machine);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ObjectKey, Step>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
