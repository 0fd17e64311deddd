//! What follows a failure: a rejected effect, a failed read, or a failed status write. Pure, like the decisions.

use jiff::Timestamp;
use metal3_api::metal3::{BareMetalHostStatus, ProvisioningState};
use metal3_ironic::PowerTarget;
use metal3_runtime::backoff::Backoff;
use metal3_runtime::controller::{Next, Report};
use metal3_runtime::error::{Class, Classified, chain};
use metal3_runtime::timing::operator::{RECHECK, SHOWN_FAILURES};

use super::finish::overdue;
use super::{outage, reboot};
use crate::fleet::outage_of;
use crate::host::builder::PlanBuilder;
use crate::host::conditions::{self, WAITING};
use crate::host::detach_error::write_detach_error;
use crate::host::error::{ApplyError, ObserveError, ReconcileError, Reply};
use crate::host::next_check;
use crate::host::observed::{Conflict, Observed};
use crate::host::plan::{Effect, Event, EventReason, HostReport, Outcome, Plan, Then, Wait, WaitReason};
use crate::host::text::{for_people, for_tenant};

/// What follows a failed effect. The status is the one before the plan, because not all of the plan has happened.
/// `None` after a conflict: the pass ends, and the next one decides again.
pub fn outcome(seen: &Observed, plan: &Plan, effect: &Effect, error: &ApplyError, now: Timestamp) -> Option<Outcome> {
    let planned = plan.report.status.as_ref()?;
    if error.class() == Class::Stale {
        return None;
    }
    if seen.does_without(effect, error) {
        return Some(look_again());
    }
    let wait = match error {
        ApplyError::Kube { .. } => Wait::for_kubernetes(for_people(&chain(error).to_string())),
        ApplyError::Ironic { source, .. } => match source.class().into() {
            Reply::Gone => return None,
            Reply::Refused if seen.memory.no_soft_power_off && asks_softly(plan) => {
                return Some(Outcome {
                    report: unrecorded(seen),
                    ..look_again()
                });
            }
            Reply::Refused | Reply::Taken => return Some(recorded(seen, planned, error, now)),
            Reply::InvalidState if seen.memory.conflict.as_ref().is_some_and(Conflict::is_lasting) => {
                return Some(recorded(seen, planned, error, now));
            }
            Reply::Later | Reply::InvalidState => {
                let after = source.retry_after().unwrap_or(RECHECK);
                Wait::for_time(
                    WaitReason::NodeLocked,
                    after,
                    for_tenant(&source.message(), seen.namespace()),
                )
            }
            Reply::Lost | Reply::Unusable => outage(outage_of(source, seen.namespace()).as_ref()),
        },
    };
    let mut status = seen.host.status.clone().unwrap_or_default();
    if seen.has_refused_power {
        reboot::unrecord(&mut status, seen.before_intent.as_deref());
    }
    begin(&mut status, &planned.status);
    let builder = PlanBuilder::new(seen, now);
    let is_queued = builder.is_in_queue();
    let is_held_back = builder.is_entered() && builder.back_off_left().is_some();
    if is_queued || is_held_back {
        conditions::interrupt(&mut status, &seen.host, &wait, now);
    } else {
        conditions::compute(&mut status, seen, None, Some(&wait), now);
    }
    let overdue = overdue(&mut status, seen, is_queued, now);
    Some(came_to(seen, status, Then::Wait(wait), overdue, now))
}

/// Ironic understood an effect of the plan and rejected it: a failure of the host, in the state that the plan had
/// reached.
fn recorded(seen: &Observed, planned: &HostReport, error: &ApplyError, now: Timestamp) -> Outcome {
    let mut builder = PlanBuilder::new(seen, now);
    builder.status = planned.status.clone();
    let before = if seen.has_refused_power {
        seen.before_intent.as_deref()
    } else {
        seen.host.status.as_ref()
    };
    reboot::unrecord(&mut builder.status, before);
    let wait = builder.record_failure(&planned.refusal, for_people(&chain(error).to_string()));
    let node = builder.known();
    conditions::compute(&mut builder.status, seen, node, Some(&wait), now);
    let overdue = overdue(&mut builder.status, seen, false, now);
    write_detach_error(&mut builder.status);
    let events = std::mem::take(&mut builder.events).into_iter().chain(overdue);
    came_to(seen, builder.status, Then::Wait(wait), events, now)
}

fn came_to(
    seen: &Observed,
    status: BareMetalHostStatus,
    then: Then,
    events: impl IntoIterator<Item = Event>,
    now: Timestamp,
) -> Outcome {
    let next = next_check::next(&then, &status, seen, now);
    Outcome {
        report: Report {
            status: Some(HostReport::new(status, then)),
            events: events.into_iter().map(Event::into).collect(),
        },
        next,
    }
}

/// The failure has provided new information: decide again.
fn look_again() -> Outcome {
    Outcome {
        report: Report::default(),
        next: Next::Now,
    }
}

/// Reverts the record of a restart that was stored before the request, because Ironic has rejected the request.
fn unrecorded(seen: &Observed) -> Report<HostReport> {
    let status = seen.stored.as_deref().map(|stored| {
        let mut status = stored.clone();
        reboot::unrecord(&mut status, seen.before_intent.as_deref());
        HostReport::new(status, at_once())
    });
    Report {
        status,
        ..Report::default()
    }
}

/// The status is stored, and another pass follows immediately.
fn at_once() -> Then {
    Then::Wait(Wait::for_change(WaitReason::PowerChanging, "the request was refused").at_once())
}

/// A host whose first step fails is still registering: that is a state with a time budget.
fn begin(status: &mut BareMetalHostStatus, planned: &BareMetalHostStatus) {
    let is_first = status.provisioning.state == ProvisioningState::None;
    if is_first && planned.provisioning.state == ProvisioningState::Registering {
        status.provisioning.state = ProvisioningState::Registering;
        status
            .provisioning
            .boot_mode
            .clone_from(&planned.provisioning.boot_mode);
        status.operation_history.register = planned.operation_history.register.clone();
    }
}

fn asks_softly(plan: &Plan) -> bool {
    plan.effects.iter().any(|effect| {
        matches!(
            effect,
            Effect::Power {
                target: PowerTarget::SoftOff | PowerTarget::SoftReboot,
                ..
            }
        )
    })
}

/// What is reported for a pass that failed as a whole. Errors from Ironic are reported immediately, because its client
/// has already tried three times; errors from the Kubernetes API after a few seconds.
pub fn refused(seen: &Observed, error: &ReconcileError, now: Timestamp) -> Report<HostReport> {
    let lasts = seen.failures >= SHOWN_FAILURES;
    match error {
        ReconcileError::Observe(cause) if lasts || cause.is_of_ironic() => {
            unreadable(cause).map_or_else(Report::default, |wait| trouble(seen, wait, now))
        }
        ReconcileError::Report(cause) if lasts => {
            let Some(wait) = unstored(cause) else {
                return Report::default();
            };
            let event = Event {
                reason: EventReason::StatusNotStored,
                message: wait.message.clone(),
            };
            let mut report = trouble(seen, wait, now);
            if let Some(told) = &mut report.status {
                told.if_unstored = Some(event);
            }
            report
        }
        ReconcileError::Apply(_) if seen.has_refused_power => unrecorded(seen),
        ReconcileError::Observe(_) | ReconcileError::Report(_) | ReconcileError::Apply(_) => Report::default(),
    }
}

/// Such a host is retried like any other after an error, after the longest of these delays at the latest.
#[track_caller]
fn wait(reason: WaitReason, message: &str) -> Wait {
    Wait::for_time(reason, Backoff::TRANSIENT.max, for_people(message))
}

/// The wait of a host after a failed read; `None` if a retry follows immediately.
fn unreadable(cause: &ObserveError) -> Option<Wait> {
    let words = chain(cause);
    let by_itself = format!("{words}; the host goes on by itself when this ends");
    let by_hand = format!(
        "{words}. This does not end by itself: correct what it names in the host's specification, or look at Ironic's version and \
         log where that is right"
    );
    match cause {
        ObserveError::Kube(error) if error.class() == Class::Stale => None,
        ObserveError::Kube(error) if is_of_forbidden_secret(error) => {
            let role = crate::rbac::SECRETS.role;
            let binding = format!(
                "{words}. Bind the ClusterRole {role} to the operator in this namespace; the host goes on by itself"
            );
            Some(wait(WaitReason::KubernetesFailing, &binding))
        }
        ObserveError::Kube(_) => Some(wait(WaitReason::KubernetesFailing, &by_itself)),
        ObserveError::Ironic(error) => Some(match error.class().into() {
            Reply::Refused | Reply::Taken => wait(WaitReason::IronicRefusing, &by_hand),
            Reply::Lost | Reply::Unusable | Reply::Gone | Reply::Later | Reply::InvalidState => {
                wait(WaitReason::IronicFailing, &by_itself)
            }
        }),
    }
}

/// The role for Secrets is bound to the operator in individual namespaces.
fn is_of_forbidden_secret(error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else { return false };
    let kind = status.details.as_ref().map(|details| details.kind.as_str());
    status.is_forbidden() && kind == Some("secrets")
}

/// The wait of a host whose status could not be stored; `None` if a retry follows immediately.
fn unstored(cause: &kube::Error) -> Option<Wait> {
    let message = format!("cannot store the status: {}", chain(cause));
    (cause.class() != Class::Stale).then(|| wait(WaitReason::KubernetesFailing, &message))
}

/// The stored status with this trouble added, and an event if the host is overdue now. If the condition shows the start
/// of a back-off or of a place in the queue, that start is kept.
fn trouble(seen: &Observed, trouble: Wait, now: Timestamp) -> Report<HostReport> {
    let mut status = seen.stored.as_deref().cloned().unwrap_or_default();
    let waiting = metal3_runtime::conditions::get(&status.conditions, WAITING);
    let waits_for = |reason: WaitReason| waiting.is_some_and(|waiting| waiting.reason == reason.as_str());
    let is_queued = waits_for(WaitReason::Queued);
    if is_queued || waits_for(WaitReason::BackOff) {
        conditions::interrupt(&mut status, &seen.host, &trouble, now);
    } else {
        conditions::compute(&mut status, seen, None, Some(&trouble), now);
    }
    let events = overdue(&mut status, seen, is_queued, now);
    Report {
        status: Some(HostReport::new(status, Then::Wait(trouble))),
        events: events.into_iter().map(Event::into).collect(),
    }
}

#[cfg(test)]
#[path = "outcome/tests.rs"]
mod tests;
