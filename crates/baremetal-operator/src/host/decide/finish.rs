//! The end of a decision: the reported wait, the conditions, and the plan.

use jiff::Timestamp;
use metal3_api::metal3::{BareMetalHostStatus, ErrorType, OperationalStatus, ProvisioningState};
use metal3_runtime::controller::{Next, Report};
use metal3_runtime::timing::operator::SHOWN_LOCK;

use super::{detach, held, limits, outage, proof};
use crate::host::budget::Phase;
use crate::host::builder::PlanBuilder;
use crate::host::detach_error::write_detach_error;
use crate::host::observed::Observed;
use crate::host::plan::{
    Decision, Effect, Event, EventReason, HostReport, Intent, Learned, Plan, Then, Wait, WaitReason, Wake,
};
use crate::host::{annotations, budget, conditions, next_check};

/// Builds the complete plan.
pub(super) fn finish(mut plan: PlanBuilder<'_>, mut then: Then) -> Decision {
    if let Then::Wait(wait) = &mut then {
        name_cause(&plan, wait);
    }
    // Trouble that keeps a queued host from being processed does not cost its place.
    let keeps_place = then.wait().is_some_and(is_trouble) && plan.is_in_queue();
    let is_queued = keeps_place || then.wait().is_some_and(|wait| wait.reason == WaitReason::Queued);
    end_operational_status(&mut plan, &then, is_queued);
    if let Then::Idle | Then::Wait(_) = &then
        && let Some(message) = annotations::tell(&mut plan.status, &plan.seen.host, plan.now)
    {
        plan.event(EventReason::InvalidAnnotationValue, message);
    }
    if let Then::Wait(wait) = &mut then {
        detach::tell_of_deletion(&plan, wait);
    }
    let afterwards = held::let_go(&plan, &mut then);
    if let Then::Wait(wait) = &mut then {
        hide_short_lock(&plan, wait);
        if wait.is_shown && keeps_place {
            *wait = limits::keep_place(wait);
        }
    }
    proof::hide_foreign(&mut plan, &mut then);
    describe(&mut plan, &then, is_queued);
    complete(plan, then, afterwards)
}

/// Reports the actual cause of the wait, not the one that would apply otherwise.
fn name_cause(plan: &PlanBuilder<'_>, wait: &mut Wait) {
    // What the node was doing when Ironic last answered is not what the host waits for now.
    if let Some(cause) = &plan.seen.outage
        && wait.wake == Wake::Node
        && wait.reason != WaitReason::Queued
        && plan.effects.iter().all(|effect| !effect.is_ironic_mutation())
    {
        *wait = outage(Some(cause));
    }
    // A lock or an outage does not matter to a host that would not act yet either, and its back-off must not restart
    // after it.
    if is_trouble(wait)
        && let Some(left) = plan.back_off_left()
    {
        *wait = plan.back_off_wait(left);
    }
}

/// Whether an outage of Ironic, or a lock of the node, keeps the host from being processed.
fn is_trouble(wait: &Wait) -> bool {
    wait.wake == Wake::Ironic || wait.reason == WaitReason::NodeLocked
}

/// Resets the operational status of a host that proceeds or has come to rest.
fn end_operational_status(plan: &mut PlanBuilder<'_>, then: &Then, is_queued: bool) {
    let is_over = match plan.status.operational_status {
        OperationalStatus::Delayed => !is_queued && *then != Then::Again,
        // Nothing is being serviced if nothing is left to do: another operator may have left the value.
        OperationalStatus::Servicing => *then == Then::Idle,
        OperationalStatus::None
        | OperationalStatus::Ok
        | OperationalStatus::Discovered
        | OperationalStatus::Error
        | OperationalStatus::Detached
        | OperationalStatus::Other(_) => false,
    };
    if is_over {
        plan.status.operational_status = OperationalStatus::Ok;
    }
}

/// Ironic regularly locks a node for a moment. A lock is shown once it lasts; until then the status stays unchanged,
/// unless something else has to be written anyway.
fn hide_short_lock(plan: &PlanBuilder<'_>, wait: &mut Wait) {
    let is_short = |since: Timestamp| since.saturating_add(SHOWN_LOCK).is_ok_and(|end| plan.now < end);
    if wait.reason == WaitReason::NodeLocked && plan.seen.memory.locked_since.is_none_or(is_short) && plan.is_stored() {
        wait.is_shown = false;
        wait.wake = Wake::NodeOr(SHOWN_LOCK);
    }
}

/// Sets the conditions. While more steps follow immediately, they are left for the last of these.
fn describe(plan: &mut PlanBuilder<'_>, then: &Then, is_queued: bool) {
    if plan.is_configured {
        conditions::confirm(&mut plan.status, plan.seen.host.metadata.generation, plan.now);
    }
    // Its health and its BMC's failures are its owner's to know.
    let node = plan.known().filter(|node| proof::is_known(plan, node));
    let wait = then.wait();
    if *then == Then::Again || wait.is_some_and(|wait| !wait.is_shown) {
        return;
    }
    conditions::compute(&mut plan.status, plan.seen, node, wait, plan.now);
    if *then != Then::Gone {
        let overdue = overdue(&mut plan.status, plan.seen, is_queued, plan.now);
        plan.events.extend(overdue);
    }
}

/// Reports by when the state should be over, and once when it is overdue.
pub(super) fn overdue(
    status: &mut BareMetalHostStatus,
    seen: &Observed,
    is_queued: bool,
    now: Timestamp,
) -> Option<Event> {
    let was = seen.stored.as_deref().and_then(Phase::of);
    let generation = seen.host.metadata.generation;
    budget::judge(status, was, &seen.settings.budgets, is_queued, generation, now)
}

fn complete(mut plan: PlanBuilder<'_>, then: Then, mut afterwards: Vec<Effect>) -> Decision {
    let refusal = plan.refusal.take().unwrap_or_else(|| refusal_of(plan.state()));
    write_detach_error(&mut plan.status);
    if let Some(first) = plan.effects.iter().position(Effect::is_destructive) {
        let intent = (then != Then::Again).then(|| Box::new(intent(&mut plan)));
        plan.effects.insert(first, Effect::ConfirmHost { intent });
    }
    // The next pass checks the result.
    let next = if afterwards.is_empty() {
        next_check::next(&then, &plan.status, plan.seen, plan.now)
    } else {
        afterwards.insert(0, Effect::ConfirmHost { intent: None });
        Next::Now
    };
    Decision::from(Plan {
        effects: plan.effects,
        report: Report {
            status: Some(HostReport {
                status: plan.status,
                then,
                learned: Some(Learned {
                    is_configured: plan.is_configured,
                    has_ramdisk: plan.has_ramdisk,
                    has_ports: plan.has_ports,
                }),
                refusal,
                if_unstored: None,
            }),
            events: plan.events.into_iter().map(Event::into).collect(),
        },
        afterwards,
        next,
    })
}

/// What is stored before a destructive effect, including the event of a host that is overdue by then: no later step
/// would publish it.
fn intent(plan: &mut PlanBuilder<'_>) -> Intent {
    let mut status = plan.status.clone();
    // Clear an error only when Ironic accepts the next attempt. If it were cleared earlier, a lock or a kill at this
    // point would record the same failure again, and repeat its back-off.
    let is_attempt = plan.effects.iter().any(Effect::is_ironic_mutation);
    if let Some(before) = plan
        .seen
        .stored
        .as_ref()
        .filter(|s| is_attempt && s.error_type.is_some())
    {
        status.operational_status.clone_from(&before.operational_status);
        status.error_type.clone_from(&before.error_type);
        status.error_message.clone_from(&before.error_message);
    }
    let is_of_intent = |event: &mut Event| event.reason == EventReason::Overdue;
    let events = plan.events.extract_if(.., is_of_intent).collect();
    Intent { status, events }
}

/// The error type of a rejected Ironic call, by the state in which it was made.
fn refusal_of(state: &ProvisioningState) -> ErrorType {
    match state {
        ProvisioningState::None
        | ProvisioningState::Unmanaged
        | ProvisioningState::Registering
        | ProvisioningState::Other(_)
        | ProvisioningState::Deleting => ErrorType::Registration,
        ProvisioningState::Inspecting => ErrorType::Inspection,
        ProvisioningState::MatchProfile | ProvisioningState::Preparing => ErrorType::Preparation,
        ProvisioningState::Provisioning | ProvisioningState::Deprovisioning => ErrorType::Provisioning,
        ProvisioningState::Provisioned | ProvisioningState::ExternallyProvisioned => ErrorType::ProvisionedRegistration,
        ProvisioningState::Ready | ProvisioningState::Available | ProvisioningState::PoweringOffBeforeDelete => {
            ErrorType::PowerManagement
        }
    }
}
