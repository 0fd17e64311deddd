//! Power: the host is on when `spec.online` is true and no reboot annotation keeps it off.

use metal3_api::metal3::names::annotation;
use metal3_api::metal3::{ErrorType, OperationalStatus, ProvisioningState};
use metal3_ironic::{Node, NodeDetail, PowerTarget, ProvisionState};

use super::outage::outage;
use super::reboot::{self, Record, Requests};
use super::{data_image, proof, service};
use crate::host::builder::{PlanBuilder, Step, Verdict, locked};
use crate::host::decide::common::is_powered_on;
use crate::host::observed::{DataImageAtHand, NodeView};
use crate::host::plan::{Effect, EventReason, Wait, WaitReason};

/// Brings power to the wanted state; a host that is already in it costs no call.
pub(super) fn follow(plan: &mut PlanBuilder<'_>) -> Step {
    let requests = Requests::of(plan, !is_provisioned(plan));
    if requests.is_empty() {
        reboot::forget(plan);
    }
    let is_never_off = plan.spec().disable_power_off;
    let wanted = plan.spec().online && requests.is_empty();
    if let NodeView::Unknown { cause } = &plan.seen.node {
        // A host at rest does not need Ironic. A host whose power should change is reconciled again when Ironic
        // answers.
        let is_at_rest = requests.is_empty() && (plan.status.powered_on == wanted || is_never_off);
        return if is_at_rest {
            Step::Idle
        } else {
            Step::Wait(outage(cause.as_ref()))
        };
    }
    let Some(node) = plan.known() else { return Step::Idle };
    if !plan.seen.has_proven(node) {
        // Somebody else's power must not be found out by guessing it.
        if requests.is_empty() && plan.status.powered_on == wanted {
            return Step::Idle;
        }
        if let Err(step) = proof::require(plan, node) {
            return step;
        }
    }
    let Some(on) = is_powered_on(node) else {
        // An unknown power state says nothing about the host.
        return if requests.is_empty() && plan.status.powered_on == wanted {
            Step::Idle
        } else {
            Step::Wait(unknown(node))
        };
    };
    if is_never_off && on && !requests.is_empty() {
        return restart(plan, &requests);
    }
    // Including a request that would not have powered off a host without a deployment: the host is off.
    if !on && reboot::has_own(plan) {
        return seen_off(plan);
    }
    if on == wanted && node.target_power_state.is_none() {
        reached(plan, on);
        return if on == plan.spec().online {
            rest(plan, node)
        } else {
            hold(plan, &requests)
        };
    }
    plan.status.powered_on = on;
    if node.target_power_state.is_some() {
        return Step::Wait(changing(node, wanted));
    }
    change(plan, wanted, requests.is_hard)
}

/// Whoever holds the host off may wait for its disc to be changed, so that is not left to the start.
fn hold(plan: &mut PlanBuilder<'_>, requests: &Requests) -> Step {
    if is_provisioned(plan) && matches!(plan.seen.data_image_at_hand, DataImageAtHand::Present { .. }) {
        if let Some(wait) = data_image::under_way(plan) {
            return Step::Wait(wait);
        }
        match data_image::before_start(plan) {
            Step::Continue => {}
            step => return step,
        }
    }
    Step::Wait(held_off(requests))
}

/// Rests, or reports a node that another client has moved to a state that does not match this host's state.
fn rest(plan: &PlanBuilder<'_>, node: &Node) -> Step {
    let is_provisioned = is_provisioned(plan);
    let is_expected = match &node.provision_state {
        ProvisionState::Active => is_provisioned,
        ProvisionState::Available => !is_provisioned || *plan.state() == ProvisioningState::ExternallyProvisioned,
        ProvisionState::Enroll
        | ProvisionState::Verifying
        | ProvisionState::Manageable
        | ProvisionState::Adopting
        | ProvisionState::Servicing
        | ProvisionState::ServiceWait => true,
        // An operation that runs by itself also ends by itself; without a deployment it does no harm.
        ProvisionState::Inspecting
        | ProvisionState::InspectWait
        | ProvisionState::Cleaning
        | ProvisionState::CleanWait
        | ProvisionState::Deploying
        | ProvisionState::DeployWait
        | ProvisionState::Deleting => !is_provisioned,
        ProvisionState::DeployFailed
        | ProvisionState::DeployHold
        | ProvisionState::CleanFailed
        | ProvisionState::CleanHold
        | ProvisionState::Error
        | ProvisionState::InspectFailed
        | ProvisionState::AdoptFailed
        | ProvisionState::Rescue
        | ProvisionState::Rescuing
        | ProvisionState::RescueWait
        | ProvisionState::RescueFailed
        | ProvisionState::Unrescuing
        | ProvisionState::UnrescueFailed
        | ProvisionState::ServiceFailed
        | ProvisionState::ServiceHold
        | ProvisionState::Other(_) => false,
    };
    if is_expected {
        return Step::Idle;
    }
    let wanted = if is_provisioned { "active" } else { "available" };
    // The host's change wakes it anyway; waiting for the node would poll Ironic all the time.
    Step::Wait(Wait::for_change(
        WaitReason::UnexpectedNodeState,
        format!(
            "node {} is in state {:?} in Ironic, where it should be {wanted}; it was probably changed by hand. The server is \
             left as it is: bring the node back with `baremetal node`, or detach the host by annotation and let it come back",
            node.uuid,
            node.provision_state.as_str()
        ),
    ))
}

fn is_provisioned(plan: &PlanBuilder<'_>) -> bool {
    matches!(
        plan.state(),
        ProvisioningState::Provisioned | ProvisioningState::ExternallyProvisioned
    )
}

fn reached(plan: &mut PlanBuilder<'_>, on: bool) {
    plan.status.powered_on = on;
    if plan.status.error_type == Some(ErrorType::PowerManagement) {
        plan.clear_error(OperationalStatus::Ok);
    }
    if plan.status.error_type.is_none() {
        // If the count stayed, every later power-off of this host would be a hard one.
        plan.status.error_count = 0;
    }
}

/// The power-off half of the one reboot that our own annotation requests is done.
fn seen_off(plan: &mut PlanBuilder<'_>) -> Step {
    let (node, detail) = match plan.live() {
        Ok(node) => node,
        Err(step) => return step,
    };
    if is_powered_on(node) != Some(false) || node.target_power_state.is_some() {
        return Step::Wait(changing(node, false));
    }
    if let Some(step) = before_stop(plan, node, detail) {
        return step;
    }
    reached(plan, false);
    plan.remove_annotation(annotation::REBOOT);
    Step::Again
}

/// A server that is never powered off restarts in one step, once for all present annotations.
fn restart(plan: &mut PlanBuilder<'_>, requests: &Requests) -> Step {
    plan.status.powered_on = true;
    let record = reboot::record(&plan.status, requests);
    if record == Record::Done {
        if requests.has_own {
            plan.remove_annotation(annotation::REBOOT);
            return Step::Again;
        }
        return Step::Wait(Wait::for_change(
            WaitReason::RebootAnnotation,
            format!(
                "the server was restarted for annotation {}, and cannot be kept off because of spec.disablePowerOff; \
                 whoever set the annotation removes it",
                requests.holders()
            ),
        ));
    }
    if let Some(wait) = data_image::under_way(plan) {
        return Step::Wait(wait);
    }
    let (node, detail) = match plan.live() {
        Ok(node) => node,
        Err(step) => return step,
    };
    if node.target_power_state.is_some() {
        return Step::Wait(restarting(node));
    }
    if let Some(wait) = busy(node, "is restarted") {
        return Step::Wait(wait);
    }
    if let Some(holder) = &node.reservation {
        return Step::Wait(locked(node, holder));
    }
    if let Record::Begun(before) = &record
        && !reboot::was_not_asked(node, detail, before)
    {
        let asked = plan.seen.memory.power_request.is_some();
        if let Some(error) = node.last_error.as_ref().filter(|_| asked) {
            match plan.failure(&ErrorType::PowerManagement, format!("Reboot failed: {error}")) {
                Verdict::Hold(step) => return step,
                Verdict::Retry => {}
            }
        } else {
            reached(plan, true);
            reboot::complete(plan, requests);
            return Step::Again;
        }
    } else if let Some(step) = plan.held_back(&ErrorType::PowerManagement) {
        return step;
    }
    if record == Record::New {
        match before_start(plan) {
            Step::Continue => {}
            step => return step,
        }
    }
    let is_soft = !requests.is_hard && may_ask_softly(plan);
    let (target, message) = if is_soft {
        (PowerTarget::SoftReboot, "Host soft rebooted")
    } else {
        (PowerTarget::Reboot, "Host rebooted")
    };
    reboot::begin(plan, requests, detail);
    plan.event(EventReason::PowerOff, message);
    let wait = restarting(node);
    plan.mutate(
        Effect::Power {
            node: node.uuid.clone(),
            target,
        },
        wait,
    )
}

/// Changes to a host in use are made while it starts. A servicing starts it by itself, and changes the disc before.
fn before_start(plan: &mut PlanBuilder<'_>) -> Step {
    match service::before_start(plan) {
        Step::Continue => data_image::before_start(plan),
        step => step,
    }
}

/// A user has a host in use stopped.
fn before_stop(plan: &mut PlanBuilder<'_>, node: &Node, detail: &NodeDetail) -> Option<Step> {
    is_provisioned(plan)
        .then(|| service::before_stop(plan, node, detail))
        .flatten()
}

/// The workload gets a chance to shut down; a second attempt does not ask again.
fn may_ask_softly(plan: &PlanBuilder<'_>) -> bool {
    plan.status.error_count == 0 && !plan.seen.memory.no_soft_power_off
}

fn change(plan: &mut PlanBuilder<'_>, wanted: bool, is_hard: bool) -> Step {
    if let NodeView::Unknown { cause } = &plan.seen.node {
        return Step::Wait(outage(cause.as_ref()));
    }
    if let Some(wait) = data_image::under_way(plan) {
        return Step::Wait(wait);
    }
    let (node, detail) = match plan.live() {
        Ok(node) => node,
        Err(step) => return step,
    };
    if let Some(holder) = &node.reservation {
        return Step::Wait(locked(node, holder));
    }
    if node.target_power_state.is_some() {
        return Step::Wait(changing(node, wanted));
    }
    if let Some(wait) = busy(node, if wanted { "is switched on" } else { "is switched off" }) {
        return Step::Wait(wait);
    }
    if is_powered_on(node) == Some(wanted) {
        reached(plan, wanted);
        // Decide the consequences from the start.
        return Step::Again;
    }
    if wanted && is_provisioned(plan) {
        // What a start says is said when it is tried.
        if let Some(step) = plan.held_back(&ErrorType::PowerManagement) {
            return step;
        }
        match before_start(plan) {
            Step::Continue => {}
            step => return step,
        }
    }
    if !wanted && let Some(step) = before_stop(plan, node, detail) {
        return step;
    }
    let is_soft = !is_hard && may_ask_softly(plan);
    // The last error may be older than our request: only one that follows a request is about power.
    let asked = plan.seen.memory.power_request.is_some_and(|r| r.on == wanted);
    if asked && let Some(error) = &node.last_error {
        let what = match (wanted, is_soft) {
            (true, _) => "Power on failed",
            (false, true) => "Soft power off failed, a hard power off follows",
            (false, false) => "Power off failed",
        };
        match plan.failure(&ErrorType::PowerManagement, format!("{what}: {error}")) {
            Verdict::Hold(step) => return step,
            Verdict::Retry => {}
        }
    } else if let Some(step) = plan.held_back(&ErrorType::PowerManagement) {
        return step;
    }
    let target = match (wanted, plan.spec().disable_power_off) {
        (true, _) => PowerTarget::On,
        (false, true) => {
            // Admission rejects this pair; an object stored before the rule stays as it is.
            return Step::Idle;
        }
        (false, false) if is_soft => PowerTarget::SoftOff,
        (false, false) => PowerTarget::Off,
    };
    let (reason, message) = if wanted {
        (EventReason::PowerOn, "Host powered on")
    } else if target == PowerTarget::SoftOff {
        (EventReason::PowerOff, "Host soft powered off")
    } else {
        (EventReason::PowerOff, "Host powered off")
    };
    plan.event(reason, message);
    let wait = changing(node, wanted);
    plan.mutate(
        Effect::Power {
            node: node.uuid.clone(),
            target,
        },
        wait,
    )
}

#[track_caller]
fn changing(node: &Node, wanted: bool) -> Wait {
    let what = if wanted { "on" } else { "off" };
    Wait::for_node(
        WaitReason::PowerChanging,
        format!("Ironic switches node {} {what}", node.uuid),
    )
}

/// Ironic's current operation comes first. An operation that it tried and failed does not block power changes: Ironic
/// would keep the node waiting forever.
fn busy(node: &Node, what: &str) -> Option<Wait> {
    let state = node.provision_state.as_str();
    match &node.provision_state {
        ProvisionState::Verifying
        | ProvisionState::Inspecting
        | ProvisionState::InspectWait
        | ProvisionState::Cleaning
        | ProvisionState::CleanWait
        | ProvisionState::Deploying
        | ProvisionState::DeployWait
        | ProvisionState::Deleting
        | ProvisionState::Adopting
        | ProvisionState::Rescuing
        | ProvisionState::RescueWait
        | ProvisionState::Unrescuing
        | ProvisionState::Servicing
        | ProvisionState::ServiceWait => Some(Wait::for_node(
            WaitReason::PowerChanging,
            format!(
                "node {} is {state:?} in Ironic: the server {what} when that has ended",
                node.uuid
            ),
        )),
        // The ramdisk runs there, and a person is examining it. The host's change wakes it anyway.
        ProvisionState::CleanHold
        | ProvisionState::DeployHold
        | ProvisionState::ServiceHold
        | ProvisionState::Other(_) => Some(Wait::for_change(
            WaitReason::UnexpectedNodeState,
            format!(
                "node {} is in state {state:?} in Ironic: the server {what} when it has left that; `baremetal node unhold` lets \
                 go on what a hold step stopped",
                node.uuid
            ),
        )),
        ProvisionState::Enroll
        | ProvisionState::Manageable
        | ProvisionState::Available
        | ProvisionState::Active
        | ProvisionState::Rescue
        | ProvisionState::DeployFailed
        | ProvisionState::CleanFailed
        | ProvisionState::Error
        | ProvisionState::InspectFailed
        | ProvisionState::AdoptFailed
        | ProvisionState::RescueFailed
        | ProvisionState::UnrescueFailed
        | ProvisionState::ServiceFailed => None,
    }
}

#[track_caller]
fn restarting(node: &Node) -> Wait {
    Wait::for_node(WaitReason::Rebooting, format!("Ironic restarts node {}", node.uuid))
}

#[track_caller]
fn unknown(node: &Node) -> Wait {
    Wait::for_node(
        WaitReason::PowerUnknown,
        format!(
            "Ironic does not know whether node {} is on: it cannot ask the BMC; power is changed when it can",
            node.uuid
        ),
    )
}

#[track_caller]
fn held_off(requests: &Requests) -> Wait {
    Wait::for_change(
        WaitReason::RebootAnnotation,
        format!(
            "annotation {} keeps the host off; it is switched on when whoever set the annotation has removed it",
            requests.holders()
        ),
    )
}
