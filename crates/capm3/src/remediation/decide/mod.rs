//! Decides what to do about a Metal3Remediation. Pure.
//!
//! ```text
//!  paused? ─▶ over? ──yes─▶ undo: host may be on, Node has everything back, the finalizer goes
//!               └──no─▶ Running: finalizer ─▶ host off ─▶ Node emptied ─▶ Waiting: host on ─▶ Node restored ─▶ time is up
//!                          ▲                                                                                   │
//!                          └────────────────────────────── again ◀─────────────────────────────────────────────┤
//!                                 Deleting machine: host marked, owner asked to replace the Machine ◀─ too often
//! ```
//!
//! An attempt ends when its time is up, whatever it waits for. Success is not decided here: the creator of the remediation
//! deletes it when the machine is healthy.

mod attempt;
mod node;
pub(crate) mod plan;
mod undo;

use jiff::Timestamp;
use kube::ResourceExt;
use metal3_api::infra::v1beta2::RemediationPhase;
use metal3_api::metal3::BareMetalHost;
use metal3_runtime::controller::Next;
use metal3_runtime::events::Event;
use metal3_runtime::timing::provider::FOLLOW_UP;

use self::attempt::Attempt;
use self::node::Restored;
pub use self::plan::{Decision, Effect, Plan, Read};
use self::plan::{keep, wait};
use super::host;
use super::observed::{Observed, Over};
use crate::machine::observed::{Host, Related};

/// Decides on the observed state.
pub fn decide(seen: &Observed, now: Timestamp) -> Decision {
    if seen.looks.is_late {
        return Plan {
            next: Next::After(FOLLOW_UP),
            ..Plan::default()
        }
        .into();
    }
    match step(seen, now) {
        Decision::Fetch(read) => Decision::Fetch(read),
        Decision::Act(plan) => finish(seen, *plan).into(),
    }
}

/// Leaves out what is already stored and reported. After a write the next step follows soon.
fn finish(seen: &Observed, mut plan: Plan) -> Plan {
    let stored = seen.remediation.status.as_ref();
    plan.report.status = plan.report.status.filter(|status| stored != Some(status));
    let is_reported =
        |effect: &Effect| matches!(effect, Effect::ReportWait(event) if seen.reported == Some(event.reason));
    plan.afterwards.retain(|effect| !is_reported(effect));
    if !plan.effects.is_empty() || plan.report.status.is_some() {
        plan.next = Next::After(FOLLOW_UP);
    }
    plan
}

fn step(seen: &Observed, now: Timestamp) -> Decision {
    let over = seen.over();
    if matches!(over, Some(Over::Deleted(_))) && !seen.is_held() {
        return Decision::idle();
    }
    if let Some(why) = seen.paused() {
        return wait("Paused", why, None).into();
    }
    if let Some(over) = over {
        return undo::decide(seen, over, now);
    }
    let machine = match &seen.machine {
        Related::Found(machine) => machine,
        Related::Unset | Related::Missing(_) => {
            let message =
                "no Machine owns this remediation; health checks name the Machine in metadata.ownerReferences";
            return wait("WaitingForMachine", message, None).into();
        }
    };
    if seen.cluster.found().is_none() {
        let message = format!(
            "the Cluster of Machine {} is not there; it may be paused",
            machine.name_any()
        );
        return wait("WaitingForCluster", message, None).into();
    }
    let attempt = Attempt::new(seen, now);
    if let Host::Ours(host) = &seen.host
        && !host.spec.online
    {
        return attempt.switched_off(&host.name_any());
    }
    if let Host::Ours(host) = &seen.host
        && let None | Some(RemediationPhase::Running | RemediationPhase::Waiting) = &attempt.status.phase
        && let Some(annotation) = host::held_by(host)
    {
        let name = host.name_any();
        return attempt.hold(format!(
            "BareMetalHost {name} has the annotation {annotation}, so its server is left alone: remove the annotation to have the \
             remediation go on"
        ));
    }
    match &attempt.status.phase {
        None => begin(attempt),
        Some(RemediationPhase::Running | RemediationPhase::Waiting) if attempt.status.last_remediated.is_none() => {
            attempt.resume()
        }
        Some(RemediationPhase::Running) => with_host(attempt, running),
        Some(RemediationPhase::Waiting) => with_host(attempt, waiting),
        // In both phases the remediation is over.
        Some(RemediationPhase::DeletingMachine | RemediationPhase::Failed) => Decision::idle(),
        Some(RemediationPhase::Other(phase)) => {
            let message = format!("status.phase is {phase:?}, which this version does not know");
            wait("UnknownPhase", message, None).into()
        }
    }
}

/// A machine without a host cannot be power cycled. A machine that lost its host is counted like any other: it will not recover,
/// and is eventually replaced.
fn begin(attempt: Attempt<'_>) -> Decision {
    match &attempt.seen.host {
        Host::None | Host::Unclaimed(_) => {
            let (reason, message) = without_host(attempt.seen);
            wait(reason, message, None).into()
        }
        Host::Ours(_) | Host::Missing(_) | Host::Foreign(..) => attempt.begin(),
    }
}

/// Continues with the machine's host, or waits for one.
fn with_host(attempt: Attempt<'_>, go_on: fn(Attempt<'_>, &BareMetalHost) -> Decision) -> Decision {
    if let Some(host) = attempt.seen.own_host() {
        return go_on(attempt, host);
    }
    let (reason, message) = without_host(attempt.seen);
    attempt.wait(reason, message)
}

fn running(attempt: Attempt<'_>, host: &BareMetalHost) -> Decision {
    let seen = attempt.seen;
    let name = host.name_any();
    if !host::is_provisioned(host) {
        let state = host.status.as_ref().map(|status| status.provisioning.state.clone());
        let state = state.unwrap_or_default();
        let message = format!("BareMetalHost {name} is not provisioned (it is {state}): it is not switched off");
        return attempt.wait("WaitingForHost", message);
    }
    let is_off = host::is_requested(host, &seen.remediation) && !host::is_on(host);
    if attempt.is_over() && !is_off {
        return attempt.failed("the host was not switched off");
    }
    if !seen.is_held() {
        return Plan::of(Effect::AddFinalizer).into();
    }
    if !host::is_requested(host, &seen.remediation) {
        return request(attempt, host);
    }
    if !is_off {
        return attempt.wait(
            "WaitingForPowerOff",
            format!("waiting until BareMetalHost {name} is off"),
        );
    }
    node::evacuate(&attempt).unwrap_or_else(|| attempt.enter_waiting().into())
}

/// Another process may have completed this attempt while our watches lagged, so both objects are read again. The write is guarded
/// by the observed version of the host.
fn request(attempt: Attempt<'_>, host: &BareMetalHost) -> Decision {
    let seen = attempt.seen;
    // Done first, because a move to another management cluster loses the status, and attempts count there too.
    if let Some(patch) = attempt.intent() {
        return keep("count the attempt", patch).into();
    }
    if !seen.looks.is_fresh {
        return Decision::Fetch(Read::Fresh);
    }
    let name = host.name_any();
    let number = attempt.number();
    let (what, patch, plan) = if host.spec.disable_power_off {
        // It is never observed off, so nothing can be done with its Node.
        let attempt_number = attempt.status.retry_count;
        if host::is_restarted(host, &seen.remediation, attempt_number) {
            return attempt.enter_waiting().into();
        }
        let patch = host::request_restart(host, &seen.remediation, attempt_number);
        ("ask for a restart of the host", patch, attempt.enter_waiting())
    } else {
        let patch = host::request(host, &seen.remediation);
        ("ask for the host to be switched off", patch, Plan::default())
    };
    let message = format!("attempt {number}: BareMetalHost {name} is switched off");
    let effect = Effect::Host {
        what,
        host: name,
        patch,
    };
    let plan = Plan {
        effects: vec![effect],
        ..plan
    };
    plan.with(Event::normal("SwitchingOff", message)).into()
}

fn waiting(attempt: Attempt<'_>, host: &BareMetalHost) -> Decision {
    let seen = attempt.seen;
    let name = host.name_any();
    if let Some(patch) = host::release(host) {
        // Another process may have started the next attempt.
        if !seen.looks.is_fresh {
            return Decision::Fetch(Read::Fresh);
        }
        let message = format!("BareMetalHost {name} is switched on");
        let what = "let the host be switched on";
        let effect = Effect::Host {
            what,
            host: name,
            patch,
        };
        let plan = Plan {
            effects: vec![effect],
            ..attempt.enter_waiting()
        };
        return plan.with(Event::normal("SwitchingOn", message)).into();
    }
    if !host::is_on(host) {
        let message = format!("waiting until BareMetalHost {name} is on");
        return attempt.wait("WaitingForPowerOn", message);
    }
    if attempt.is_over() {
        return attempt.failed("the machine is not healthy yet");
    }
    if let Some(patch) = attempt.cycle_done() {
        return keep("note that the power cycle is done", patch).into();
    }
    let health = "waiting until the machine is healthy: whoever made this remediation deletes it then";
    if !seen.is_held() {
        return attempt.wait("WaitingForHealth", health.to_owned());
    }
    match node::restore(seen, true) {
        Restored::Done => undo::let_go(seen, Plan::default()),
        Restored::Step(plan) => plan.into(),
        Restored::Wait(reason, message) => attempt.wait(reason, message),
    }
}

/// Why the host cannot be powered off: reason and message.
fn without_host(seen: &Observed) -> (&'static str, String) {
    let machine = match &seen.metal3_machine {
        Related::Found(machine) => machine.name_any(),
        Related::Missing(name) => {
            return (
                "WaitingForMetal3Machine",
                format!("Metal3Machine {name}, which the Machine names, does not exist"),
            );
        }
        Related::Unset => {
            let message = "the Machine's infrastructure is no Metal3Machine: nothing of it can be switched off";
            return ("WaitingForMetal3Machine", message.to_owned());
        }
    };
    let message = match &seen.host {
        Host::Missing(host) => format!("BareMetalHost {host}, on which Metal3Machine {machine} ran, does not exist"),
        Host::Foreign(host, consumer) => format!(
            "BareMetalHost {}, on which Metal3Machine {machine} ran, is used by {} {}",
            host.name_any(),
            consumer.kind,
            consumer.name
        ),
        Host::None | Host::Unclaimed(_) | Host::Ours(_) => {
            format!("Metal3Machine {machine} has no host that could be switched off")
        }
    };
    ("WaitingForHost", message)
}
