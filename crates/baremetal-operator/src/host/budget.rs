//! Time budgets: how long a host may stay in a transitional state.
//!
//! Pure, and without a timer: the condition records when the state was entered, a pass after the budget finds the host
//! overdue, and the controller's queue schedules that pass.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use metal3_api::condition::{Condition, ConditionStatus};
use metal3_api::metal3::{BareMetalHostStatus, ProvisioningState};
use metal3_runtime::conditions::{self, Claim};
use metal3_runtime::timing::operator::budget;

use super::plan::{Event, EventReason};

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

/// The states with a budget.
fn limited() -> impl Iterator<Item = &'static str> {
    let states = ProvisioningState::TEXTS.iter().copied();
    states.filter(|state| usual(&ProvisioningState::from(*state)).is_some())
}

/// Budgets that differ from the [defaults](usual), by state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Budgets(BTreeMap<String, Duration>);

impl Budgets {
    /// How long a host may stay in the state; `None` if there is no limit.
    pub fn of(&self, state: &ProvisioningState) -> Option<Duration> {
        let (_, usual) = usual(state)?;
        Some(self.0.get(state.as_str()).copied().unwrap_or(usual))
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

/// Updates the condition, and reports once when the budget is exceeded. `was` is the state to which the stored
/// conditions belong. Waiting for a slot does not count: it depends on other hosts.
pub(super) fn judge(
    status: &mut BareMetalHostStatus,
    was: Option<&ProvisioningState>,
    budgets: &Budgets,
    is_queued: bool,
    generation: Option<i64>,
    now: Timestamp,
) -> Option<Event> {
    let state = status.provisioning.state.clone();
    let Some(budget) = budgets.of(&state).filter(|_| !is_queued) else {
        conditions::remove(&mut status.conditions, OVERDUE);
        return None;
    };
    if was != Some(&state) {
        conditions::remove(&mut status.conditions, OVERDUE);
    }
    let reason = usual(&state).map_or(EXCEEDED, |(reason, _)| reason);
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
        claim(status, ConditionStatus::False, reason, &message, generation, now);
        return None;
    }
    let message = format!(
        "in state {:?} since {since}, longer than the {} it should take",
        state.as_str(),
        words(budget)
    );
    claim(status, ConditionStatus::True, EXCEEDED, &message, generation, now);
    let waits = conditions::get(&status.conditions, super::conditions::WAITING).filter(|c| !c.message.is_empty());
    let what = waits.map(|c| format!("; it waits: {}", c.message)).unwrap_or_default();
    Some(Event {
        reason: EventReason::Overdue,
        message: super::text::for_people(&format!("{message}{what}")),
    })
}

/// How long until the host is overdue; `None` if it already is, or has no budget.
pub fn left(status: &BareMetalHostStatus, budgets: &Budgets, now: Timestamp) -> Option<Duration> {
    let stored = conditions::get(&status.conditions, OVERDUE).filter(|c| c.status == ConditionStatus::False)?;
    let until = deadline(stored.last_transition_time.0, budgets.of(&status.provisioning.state)?);
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
