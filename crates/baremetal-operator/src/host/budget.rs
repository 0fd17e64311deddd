//! Time budgets: how long a host may stay in a transitional state, or be serviced, or wait for its disc.
//!
//! Pure, and without a timer: the condition records when the state was entered, a pass after the budget finds the host
//! overdue, and the controller's queue schedules that pass.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use metal3_api::condition::{Condition, ConditionStatus};
use metal3_api::metal3::{BareMetalHostStatus, ErrorType, OperationalStatus, ProvisioningState};
use metal3_runtime::conditions::{self, Claim};
use metal3_runtime::timing::operator::budget;

use super::conditions::WAITING;
use super::plan::{Event, EventReason, WaitReason};

/// Our own condition, on hosts in a state with a budget: `False` with the name of the state and the time until which it
/// should be over, `True` with [`EXCEEDED`] after that. The transition time is when the state was entered, or when the
/// budget was exceeded.
pub const OVERDUE: &str = "Overdue";

/// The reason of a true [`OVERDUE`] condition.
pub const EXCEEDED: &str = "BudgetExceeded";

/// The condition reason of a state with a budget, and the default; `None` for a state without a limit. Generous: a
/// healthy machine finishes long before.
pub const fn usual(state: &ProvisioningState) -> Option<(&'static str, Duration)> {
    Some(match state {
        ProvisioningState::Registering => ("Registering", budget::REGISTERING),
        ProvisioningState::MatchProfile => ("MatchProfile", budget::REGISTERING),
        ProvisioningState::Inspecting => ("Inspecting", budget::INSPECTING),
        ProvisioningState::Preparing => ("Preparing", budget::PREPARING),
        ProvisioningState::Provisioning => ("Provisioning", budget::PROVISIONING),
        ProvisioningState::Deprovisioning => ("Deprovisioning", budget::DEPROVISIONING),
        ProvisioningState::PoweringOffBeforeDelete => ("PoweringOffBeforeDelete", budget::REMOVING),
        ProvisioningState::Deleting => ("Deleting", budget::REMOVING),
        ProvisioningState::None
        | ProvisioningState::Unmanaged
        | ProvisioningState::Ready
        | ProvisioningState::Available
        | ProvisioningState::Provisioned
        | ProvisioningState::ExternallyProvisioned
        | ProvisioningState::Other(_) => return None,
    })
}

/// What a host does for a limited time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Phase {
    /// Its name in flags, messages and metrics: that of the state, if that has a budget.
    pub name: &'static str,
    /// The reason of the condition meanwhile.
    reason: &'static str,
    /// The default.
    pub usual: Duration,
}

/// A host in use is serviced, or has failed to be.
pub const SERVICING: Phase = Phase {
    name: "servicing",
    reason: "Servicing",
    usual: budget::SERVICING,
};

/// A host at rest waits for a change of the disc in its drive.
pub const DISC: Phase = Phase {
    name: "changing disc",
    reason: "ChangingDisc",
    usual: budget::DISC,
};

/// Waits during which what has begun goes on, or goes on afterwards.
const INTERRUPTIONS: [WaitReason; 5] = [
    WaitReason::IronicNotReady,
    WaitReason::IronicUnreachable,
    WaitReason::IronicUnauthorized,
    WaitReason::IronicFailing,
    WaitReason::NodeLocked,
];

impl Phase {
    /// What a host does by its status; `None` if it may go on like that for ever.
    pub fn of(status: &BareMetalHostStatus) -> Option<Self> {
        let state = &status.provisioning.state;
        if let Some((reason, usual)) = usual(state) {
            let name = ProvisioningState::TEXTS.iter().find(|text| **text == state.as_str())?;
            return Some(Self { name, reason, usual });
        }
        let is_serviced = status.operational_status == OperationalStatus::Servicing
            || status.error_type == Some(ErrorType::Servicing);
        let waits = conditions::get(&status.conditions, WAITING).filter(|c| c.status == ConditionStatus::True);
        let is_one_of = |reasons: &[WaitReason]| {
            waits.is_some_and(|waits| reasons.iter().any(|reason| waits.reason == reason.as_str()))
        };
        // What keeps it from going on for a while ends no change of the disc.
        let is_measured = conditions::get(&status.conditions, OVERDUE).is_some();
        let is_disc = is_one_of(&[WaitReason::DataImageChanging, WaitReason::DataImageFailing])
            || is_measured && is_one_of(&INTERRUPTIONS);
        match (is_serviced, is_disc) {
            (true, _) => Some(SERVICING),
            (false, true) => Some(DISC),
            (false, false) => None,
        }
    }
}

/// Everything with a budget.
fn limited() -> impl Iterator<Item = &'static str> {
    let states = ProvisioningState::TEXTS.iter().copied();
    let states = states.filter(|state| usual(&ProvisioningState::from(*state)).is_some());
    states.chain([SERVICING.name, DISC.name])
}

/// Budgets that differ from the defaults, by the name of the phase.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Budgets(BTreeMap<String, Duration>);

impl Budgets {
    /// How long this may take.
    pub fn of(&self, phase: Phase) -> Duration {
        self.0.get(phase.name).copied().unwrap_or(phase.usual)
    }
}

impl FromStr for Budgets {
    type Err = String;

    /// `inspecting=30m,deprovisioning=12h`, with Go's durations; empty changes nothing.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut budgets = BTreeMap::new();
        for entry in text.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
            let (state, budget) = entry
                .split_once('=')
                .ok_or_else(|| format!("{entry:?} is not of the form state=duration"))?;
            if !limited().any(|known| known == state) {
                let known: Vec<_> = limited().collect();
                return Err(format!(
                    "{state:?} is no state with a budget; those are {}",
                    known.join(", ")
                ));
            }
            budgets.insert(state.to_owned(), crate::duration::go_duration(budget)?);
        }
        Ok(Self(budgets))
    }
}

/// Updates the condition, and reports once when the budget is exceeded. `was` is the phase to which the stored
/// conditions belong. Waiting for a slot does not count: it depends on other hosts.
pub(super) fn judge(
    status: &mut BareMetalHostStatus,
    was: Option<Phase>,
    budgets: &Budgets,
    is_queued: bool,
    generation: Option<i64>,
    now: Timestamp,
) -> Option<Event> {
    let Some(phase) = Phase::of(status).filter(|_| !is_queued) else {
        conditions::remove(&mut status.conditions, OVERDUE);
        return None;
    };
    let budget = budgets.of(phase);
    if was != Some(phase) {
        conditions::remove(&mut status.conditions, OVERDUE);
    }
    let stored = conditions::get(&status.conditions, OVERDUE);
    if stored.is_some_and(|c| c.status == ConditionStatus::True) {
        let message = stored.map(|c| c.message.clone()).unwrap_or_default();
        claim(status, ConditionStatus::True, EXCEEDED, &message, generation, now);
        return None;
    }
    let since = stored.map_or_else(|| conditions::whole_seconds(now), |c| c.last_transition_time.0);
    let until = deadline(since, budget);
    if now < until {
        let message = format!("should be over by {until}");
        claim(status, ConditionStatus::False, phase.reason, &message, generation, now);
        return None;
    }
    let message = format!(
        "in state {:?} since {since}, longer than the {} it should take",
        phase.name,
        words(budget)
    );
    claim(status, ConditionStatus::True, EXCEEDED, &message, generation, now);
    let waits = conditions::get(&status.conditions, WAITING).filter(|c| !c.message.is_empty());
    let what = waits.map(|c| format!("; it waits: {}", c.message)).unwrap_or_default();
    Some(Event {
        reason: EventReason::Overdue,
        message: super::text::for_people(&format!("{message}{what}")),
    })
}

/// How long until the host is overdue; `None` if it already is, or has no budget.
pub fn left(status: &BareMetalHostStatus, budgets: &Budgets, now: Timestamp) -> Option<Duration> {
    let stored = conditions::get(&status.conditions, OVERDUE).filter(|c| c.status == ConditionStatus::False)?;
    let until = deadline(stored.last_transition_time.0, budgets.of(Phase::of(status)?));
    Some(until.duration_since(now).try_into().unwrap_or(Duration::ZERO))
}

/// Whether the stored conditions say that the host is overdue.
pub fn is_overdue(conditions: &[Condition]) -> bool {
    conditions::is_true(conditions, OVERDUE)
}

fn deadline(since: Timestamp, budget: Duration) -> Timestamp {
    SignedDuration::try_from(budget)
        .ok()
        .and_then(|budget| since.checked_add(budget).ok())
        .unwrap_or(Timestamp::MAX)
}

fn claim(
    status: &mut BareMetalHostStatus,
    value: ConditionStatus,
    reason: &str,
    message: &str,
    generation: Option<i64>,
    now: Timestamp,
) {
    let claim = Claim {
        type_: OVERDUE,
        status: value,
        reason,
        message,
    };
    conditions::set(&mut status.conditions, &claim, generation, now);
}

/// A duration in human-readable form.
pub fn words(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match (seconds / 3600, seconds % 3600 / 60, seconds % 60) {
        (0, 0, s) => format!("{s} s"),
        (0, m, 0) => format!("{m} min"),
        (h, 0, 0) => format!("{h} h"),
        (h, m, s) => format!("{h} h {m} min {s} s"),
    }
}

#[cfg(test)]
#[path = "budget/tests.rs"]
mod tests;
