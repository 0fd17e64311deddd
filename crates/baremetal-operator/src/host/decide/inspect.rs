//! Inspecting: the ramdisk, or the BMC itself, collects the inventory.

use super::outage::outage;
use super::{details, ports, reboot, register, takes_slot};
use crate::host::annotations;
use crate::host::builder::{PlanBuilder, Step, Verdict, locked};
use crate::host::decide::common::unexpected;
use crate::host::node_spec;
use crate::host::observed::{Lookup, NodeView};
use crate::host::plan::{Effect, EventReason, Read, Wait, WaitReason};
use metal3_api::metal3::names::annotation;
use metal3_api::metal3::{ErrorType, HardwareDetails, InspectionMode, OperationalStatus, ProvisioningState};
use metal3_bmc::BmcAddress;
use metal3_ironic::{Node, NodeDetail, PatchOp, ProvisionRequest, ProvisionState, Verb};

/// Whether the user requests a new inspection of an already inspected host.
pub(super) fn is_asked_for(plan: &PlanBuilder<'_>) -> bool {
    annotations::wanted_inspection(&plan.seen.host).is_some()
}

pub(super) fn inspecting(plan: &mut PlanBuilder<'_>) -> Step {
    if plan.is_inspection_disabled() {
        return skip(plan);
    }
    // Requests about a running inspection need the live node.
    let is_asked = is_asked_for(plan) || reboot::is_forced(plan);
    if let Some(node) = plan.known()
        && !is_asked
        && is_running(node)
    {
        return Step::Wait(running(plan, node));
    }
    if let NodeView::Unknown { cause } = &plan.seen.node {
        return Step::Wait(outage(cause.as_ref()));
    }
    let (node, detail) = match plan.live() {
        Ok(node) => node,
        Err(step) => return step,
    };
    if let Some(holder) = &node.reservation {
        return Step::Wait(locked(node, holder));
    }
    on_node(plan, node, detail)
}

/// Ends the state without an inspection.
fn skip(plan: &mut PlanBuilder<'_>) -> Step {
    match details::without_inspection(plan) {
        Step::Continue => {}
        step => return step,
    }
    match left_behind(plan) {
        Step::Continue => {}
        step => return step,
    }
    plan.event(
        EventReason::InspectionSkipped,
        "disabled by the inspection mode or annotation",
    );
    finished(plan)
}

fn on_node(plan: &mut PlanBuilder<'_>, node: &Node, detail: &NodeDetail) -> Step {
    match &node.provision_state {
        ProvisionState::InspectWait if reboot::is_forced(plan) => abort(plan, node),
        ProvisionState::Inspecting | ProvisionState::InspectWait => {
            // The running inspection is the requested one, even if the operator restarted after it had started it.
            if is_asked_for(plan) {
                plan.remove_annotation(annotation::INSPECT);
            }
            Step::Wait(running(plan, node))
        }
        // An operator that stopped before it could store the inventory has already moved the node on: another
        // inspection would cost a power cycle and another cleaning.
        ProvisionState::Available | ProvisionState::Cleaning | ProvisionState::CleanWait
            if !plan.has_hardware()
                && !is_asked_for(plan)
                && has_ended_well(detail)
                && !matches!(plan.seen.inventory, Lookup::NotFound) =>
        {
            match &plan.seen.inventory {
                Lookup::Found(details) => inspected(plan, (node, detail), details),
                Lookup::NotLooked | Lookup::NotFound => Step::Fetch(Read::Inventory),
            }
        }
        ProvisionState::Available => manage(plan, node),
        ProvisionState::Manageable
            if plan.seen.memory.is_uninspected || is_asked_for(plan) || !has_ended_well(detail) =>
        {
            start(plan, node, detail)
        }
        ProvisionState::Manageable => match &plan.seen.inventory {
            Lookup::NotLooked => Step::Fetch(Read::Inventory),
            Lookup::NotFound => start(plan, node, detail),
            Lookup::Found(details) => inspected(plan, (node, detail), details),
        },
        ProvisionState::InspectFailed => after_failure(plan, node, detail),
        // Advice to bring it back by hand would cost what it runs.
        ProvisionState::Active => Step::Wait(Wait::for_node(
            WaitReason::UnexpectedNodeState,
            format!(
                "node {} runs an image, and this host has no status that says so, as after a restore without it. The server is \
                 left as it is: if nobody needs what it runs, `baremetal node undeploy` frees it",
                node.uuid
            ),
        )),
        other => unexpected(node, other, "manageable, to be inspected"),
    }
}

fn after_failure(plan: &mut PlanBuilder<'_>, node: &Node, detail: &NodeDetail) -> Step {
    // Aborted on purpose, to start again.
    if node.was_aborted() {
        return start(plan, node, detail);
    }
    // Ironic keeps what a ramdisk reports, but loses its own message about a time-out when it then powers the
    // host off.
    let words = node.last_error.as_deref();
    let words = words.unwrap_or("Ironic gives no reason, as after a time-out; did the ramdisk boot and reach Ironic?");
    match plan.failure(&ErrorType::Inspection, format!("Inspection failed: {words}")) {
        Verdict::Hold(step) => step,
        Verdict::Retry => start(plan, node, detail),
    }
}

/// Leaves a running or failed inspection behind when inspection is disabled, because nothing could follow otherwise.
/// Returns `Continue` once that is done.
fn left_behind(plan: &mut PlanBuilder<'_>) -> Step {
    if let NodeView::Unknown { cause } = &plan.seen.node {
        return Step::Wait(outage(cause.as_ref()));
    }
    let (node, _) = match plan.live() {
        Ok(node) => node,
        Err(step) => return step,
    };
    if let Some(holder) = &node.reservation {
        return Step::Wait(locked(node, holder));
    }
    match &node.provision_state {
        ProvisionState::InspectFailed => manage(plan, node),
        // It can be aborted while it waits for the ramdisk; Ironic rejects that before.
        ProvisionState::InspectWait => abort(plan, node),
        ProvisionState::Inspecting => Step::Wait(running(plan, node)),
        _ => Step::Continue,
    }
}

/// Whether the last started inspection has found something. If it failed or was aborted, Ironic still has the inventory
/// of the previous one.
fn has_ended_well(detail: &NodeDetail) -> bool {
    detail.inspection_finished_at.is_some()
}

fn is_running(node: &Node) -> bool {
    matches!(
        node.provision_state,
        ProvisionState::Inspecting | ProvisionState::InspectWait
    )
}

fn inspected(plan: &mut PlanBuilder<'_>, (node, detail): (&Node, &NodeDetail), details: &HardwareDetails) -> Step {
    plan.status.hardware = Some(Box::new(details.clone()));
    // Whichever NIC the next ramdisk calls from, Ironic has to recognise it.
    if !plan.is_deleting() && node.provision_state == ProvisionState::Manageable {
        match ports::ensure_found(plan, node, detail, details) {
            Step::Continue => {}
            step => return step,
        }
    }
    if !plan.is_deleting() {
        plan.effects.push(Effect::WriteHardwareData(Box::new(details.clone())));
    }
    plan.clear_error(OperationalStatus::Ok);
    plan.event(EventReason::InspectionComplete, "Hardware inspection completed");
    finished(plan)
}

fn start(plan: &mut PlanBuilder<'_>, node: &Node, detail: &NodeDetail) -> Step {
    if let Some(step) = plan.held_back(&ErrorType::Inspection) {
        return step;
    }
    if let Some(step) = register::follow_settings(plan, node) {
        return step;
    }
    if let Some(step) = ensure_interface(plan, node, detail) {
        return step;
    }
    plan.event(EventReason::InspectionStarted, "Hardware inspection started");
    let wait = running(plan, node);
    let step = plan.mutate(
        Effect::Provision {
            node: node.uuid.clone(),
            request: Box::new(ProvisionRequest::from(Verb::Inspect)),
        },
        wait,
    );
    // Until a slot is free, nothing starts and no request is served.
    if !plan.effects.iter().any(takes_slot) {
        return step;
    }
    // Remove the annotation after the request: otherwise a restart in between would lose the request.
    if is_asked_for(plan) {
        plan.remove_annotation(annotation::INSPECT);
    }
    reboot::is_served(plan);
    step
}

/// The inspection mode may have changed since the node was created. Ironic changes the interface only in a state where
/// nothing is in progress; a failed inspection does not count as such.
fn ensure_interface(plan: &mut PlanBuilder<'_>, node: &Node, detail: &NodeDetail) -> Option<Step> {
    let address = BmcAddress::parse(&plan.spec().bmc.address).ok()?;
    let wanted = node_spec::inspect_interface(plan.spec(), &address);
    if detail
        .inspect_interface
        .as_deref()
        .is_none_or(|interface| interface == wanted)
    {
        return None;
    }
    if node.provision_state == ProvisionState::InspectFailed {
        return Some(manage(plan, node));
    }
    Some(plan.mutate_and_go_on(Effect::PatchNode {
        node: node.uuid.clone(),
        ops: vec![PatchOp::add("/inspect_interface", wanted)],
    }))
}

fn manage(plan: &mut PlanBuilder<'_>, node: &Node) -> Step {
    let wait = running(plan, node);
    plan.mutate(
        Effect::Provision {
            node: node.uuid.clone(),
            request: Box::new(ProvisionRequest::from(Verb::Manage)),
        },
        wait,
    )
}

/// Aborts an inspection that waits for the ramdisk. After a reboot with force it starts again.
fn abort(plan: &mut PlanBuilder<'_>, node: &Node) -> Step {
    let wait = running(plan, node);
    let step = plan.mutate(
        Effect::Provision {
            node: node.uuid.clone(),
            request: Box::new(ProvisionRequest::from(Verb::Abort)),
        },
        wait,
    );
    if reboot::is_forced(plan) {
        reboot::is_served(plan);
    }
    step
}

#[track_caller]
fn running(plan: &PlanBuilder<'_>, node: &Node) -> Wait {
    let how = if plan.spec().inspection_mode == Some(InspectionMode::Fast) {
        "its BMC is asked for the hardware"
    } else {
        "its ramdisk boots and reports the hardware"
    };
    Wait::for_node(
        WaitReason::Inspecting,
        format!("Ironic inspects node {}: {how}", node.uuid),
    )
}

fn finished(plan: &mut PlanBuilder<'_>) -> Step {
    plan.status.error_count = 0;
    Step::Move(ProvisioningState::Preparing)
}
