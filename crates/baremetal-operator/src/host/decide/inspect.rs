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

/// The user asks for a new inspection of a host that was inspected before.
pub(super) fn is_asked_for(draft: &PlanBuilder<'_>) -> bool {
    annotations::wanted_inspection(&draft.seen.host).is_some()
}

pub(super) fn inspecting(draft: &mut PlanBuilder<'_>) -> Step {
    if draft.is_inspection_disabled() {
        match details::without_inspection(draft) {
            Step::Continue => {}
            step => return step,
        }
        match left_behind(draft) {
            Step::Continue => {}
            step => return step,
        }
        draft.event(
            EventReason::InspectionSkipped,
            "disabled by the inspection mode or annotation",
        );
        return finished(draft);
    }
    // Whatever is asked of what runs is judged on the node itself.
    let is_asked = is_asked_for(draft) || reboot::is_forced(draft);
    if let Some(node) = draft.known()
        && !is_asked
        && is_running(node)
    {
        return Step::Wait(running(draft, node));
    }
    if let NodeView::Unknown { cause } = &draft.seen.node {
        return Step::Wait(outage(cause.as_ref()));
    }
    let (node, detail) = match draft.live() {
        Ok(node) => node,
        Err(step) => return step,
    };
    if let Some(holder) = &node.reservation {
        return Step::Wait(locked(node, holder));
    }
    match &node.provision_state {
        ProvisionState::InspectWait if reboot::is_forced(draft) => abort(draft, node),
        ProvisionState::Inspecting | ProvisionState::InspectWait => {
            // What runs is what was asked for, also where an operator ended after it had started it.
            if is_asked_for(draft) {
                draft.remove_annotation(annotation::INSPECT);
            }
            Step::Wait(running(draft, node))
        }
        // An operator that ended before it could store the inventory has sent the node on its way already: to inspect it
        // again would cost a power cycle, and another cleaning.
        ProvisionState::Available | ProvisionState::Cleaning | ProvisionState::CleanWait
            if !draft.has_hardware()
                && !is_asked_for(draft)
                && has_ended_well(detail)
                && !matches!(draft.seen.inventory, Lookup::NotFound) =>
        {
            match &draft.seen.inventory {
                Lookup::Found(details) => inspected(draft, (node, detail), details),
                Lookup::NotLooked | Lookup::NotFound => Step::Fetch(Read::Inventory),
            }
        }
        ProvisionState::Available => manage(draft, node),
        ProvisionState::Manageable
            if draft.seen.memory.is_uninspected || is_asked_for(draft) || !has_ended_well(detail) =>
        {
            start(draft, node, detail)
        }
        ProvisionState::Manageable => match &draft.seen.inventory {
            Lookup::NotLooked => Step::Fetch(Read::Inventory),
            Lookup::NotFound => start(draft, node, detail),
            Lookup::Found(details) => inspected(draft, (node, detail), details),
        },
        ProvisionState::InspectFailed => {
            // It keeps what a ramdisk reports, and loses its words for a time-out when it then switches the host off.
            let words = node.last_error.as_deref();
            let words =
                words.unwrap_or("Ironic gives no reason, as after a time-out; did the ramdisk boot and reach Ironic?");
            // Stopped on purpose, to begin anew.
            if words.contains("abort") {
                return start(draft, node, detail);
            }
            match draft.failure(&ErrorType::Inspection, format!("Inspection failed: {words}")) {
                Verdict::Hold(step) => step,
                Verdict::Retry => start(draft, node, detail),
            }
        }
        other => unexpected(node, other, "manageable, to be inspected"),
    }
}

/// What runs, or failed, when inspection is switched off has to be left behind, or nothing could follow. `Continue` when it is.
fn left_behind(draft: &mut PlanBuilder<'_>) -> Step {
    if let NodeView::Unknown { cause } = &draft.seen.node {
        return Step::Wait(outage(cause.as_ref()));
    }
    let (node, _) = match draft.live() {
        Ok(node) => node,
        Err(step) => return step,
    };
    if let Some(holder) = &node.reservation {
        return Step::Wait(locked(node, holder));
    }
    match &node.provision_state {
        ProvisionState::InspectFailed => manage(draft, node),
        // While the ramdisk is waited for it can be stopped; before that Ironic lets nobody.
        ProvisionState::InspectWait => abort(draft, node),
        ProvisionState::Inspecting => Step::Wait(running(draft, node)),
        _ => Step::Continue,
    }
}

/// The inspection that was begun last has found something. Where it failed, or was broken off, Ironic still has the inventory of the
/// one before.
fn has_ended_well(detail: &NodeDetail) -> bool {
    detail.inspection_finished_at.is_some()
}

fn is_running(node: &Node) -> bool {
    matches!(
        node.provision_state,
        ProvisionState::Inspecting | ProvisionState::InspectWait
    )
}

fn inspected(draft: &mut PlanBuilder<'_>, (node, detail): (&Node, &NodeDetail), details: &HardwareDetails) -> Step {
    draft.status.hardware = Some(Box::new(details.clone()));
    // Whichever NIC the next ramdisk calls from, Ironic has to recognise it.
    if !draft.is_deleting() && node.provision_state == ProvisionState::Manageable {
        match ports::ensure_found(draft, node, detail, details) {
            Step::Continue => {}
            step => return step,
        }
    }
    if !draft.is_deleting() {
        draft.effects.push(Effect::WriteHardwareData(Box::new(details.clone())));
    }
    draft.clear_error(OperationalStatus::Ok);
    draft.event(EventReason::InspectionComplete, "Hardware inspection completed");
    finished(draft)
}

fn start(draft: &mut PlanBuilder<'_>, node: &Node, detail: &NodeDetail) -> Step {
    if let Some(step) = draft.held_back(&ErrorType::Inspection) {
        return step;
    }
    if let Some(step) = register::follow_settings(draft, node) {
        return step;
    }
    if let Some(step) = ensure_interface(draft, node, detail) {
        return step;
    }
    draft.event(EventReason::InspectionStarted, "Hardware inspection started");
    let wait = running(draft, node);
    let step = draft.mutate(
        Effect::Provision {
            node: node.uuid.clone(),
            request: Box::new(ProvisionRequest::from(Verb::Inspect)),
        },
        wait,
    );
    // Before a slot is free nothing begins, and nobody is served.
    if !draft.effects.iter().any(takes_slot) {
        return step;
    }
    // After the request: one that was lost with its operator would have been in vain.
    if is_asked_for(draft) {
        draft.remove_annotation(annotation::INSPECT);
    }
    reboot::is_served(draft);
    step
}

/// The inspection mode may have changed since the node was made. Ironic takes another interface in a state where nothing
/// is under way; a failed inspection is not one of them.
fn ensure_interface(draft: &mut PlanBuilder<'_>, node: &Node, detail: &NodeDetail) -> Option<Step> {
    let address = BmcAddress::parse(&draft.spec().bmc.address).ok()?;
    let wanted = node_spec::inspect_interface(draft.spec(), &address);
    if detail
        .inspect_interface
        .as_deref()
        .is_none_or(|interface| interface == wanted)
    {
        return None;
    }
    if node.provision_state == ProvisionState::InspectFailed {
        return Some(manage(draft, node));
    }
    Some(draft.mutate_and_go_on(Effect::PatchNode {
        node: node.uuid.clone(),
        ops: vec![PatchOp::add("/inspect_interface", wanted)],
    }))
}

fn manage(draft: &mut PlanBuilder<'_>, node: &Node) -> Step {
    let wait = running(draft, node);
    draft.mutate(
        Effect::Provision {
            node: node.uuid.clone(),
            request: Box::new(ProvisionRequest::from(Verb::Manage)),
        },
        wait,
    )
}

/// What the ramdisk keeps Ironic waiting for is stopped. After a reboot with force it begins anew.
fn abort(draft: &mut PlanBuilder<'_>, node: &Node) -> Step {
    let wait = running(draft, node);
    let step = draft.mutate(
        Effect::Provision {
            node: node.uuid.clone(),
            request: Box::new(ProvisionRequest::from(Verb::Abort)),
        },
        wait,
    );
    if reboot::is_forced(draft) {
        reboot::is_served(draft);
    }
    step
}

fn running(draft: &PlanBuilder<'_>, node: &Node) -> Wait {
    let how = if draft.spec().inspection_mode == Some(InspectionMode::Fast) {
        "its BMC is asked for the hardware"
    } else {
        "its ramdisk boots and reports the hardware"
    };
    Wait::for_node(
        WaitReason::Inspecting,
        format!("Ironic inspects node {}: {how}", node.uuid),
    )
}

fn finished(draft: &mut PlanBuilder<'_>) -> Step {
    draft.status.error_count = 0;
    Step::Move(ProvisioningState::Preparing)
}
