//! Detached: the annotation removes a host from Ironic without touching the server. Removing the annotation brings it
//! back.
//!
//! The annotation itself is the stored intent, so nothing else has to be remembered: an operator that restarts midway
//! finds the annotation and whatever is left of the node.

use metal3_api::metal3::names::annotation::DETACHED;
use metal3_api::metal3::{OperationalStatus, ProvisioningState};
use metal3_ironic::Node;

use super::delete::{self, Removal};
use super::outage::outage;
use super::ports;
use super::proof;
use crate::host::annotations;
use crate::host::builder::{PlanBuilder, Step, locked};
use crate::host::detach_error::detach_error;
use crate::host::identity;
use crate::host::observed::NodeView;
use crate::host::plan::{EventReason, Read, Wait, WaitReason};

/// Returns `Continue` if the host is not to be detached.
pub(super) fn detach(plan: &mut PlanBuilder<'_>) -> Step {
    if *plan.state() == ProvisioningState::Deleting {
        return Step::Continue;
    }
    let Some(arguments) = annotations::detached(&plan.seen.host) else {
        return attach(plan);
    };
    if !(arguments.force || is_at_rest(plan.state())) {
        return match attach(plan) {
            Step::Continue if plan.is_deletion_delayed() && !leads_to_rest(plan.state()) => Step::Wait(detached(plan)),
            step => step,
        };
    }
    if plan.status.operational_status == OperationalStatus::Detached {
        // A node under the host's name at this point is not ours: the host may have moved to another cluster.
        return Step::Wait(detached(plan));
    }
    plan.refusal = Some(detach_error());
    let node = match &plan.seen.node {
        NodeView::Unknown { cause } => return Step::Wait(outage(cause.as_ref())),
        NodeView::Listed(node) if node.reservation.is_some() => {
            return Step::Wait(locked(node, node.reservation.as_deref().unwrap_or_default()));
        }
        NodeView::Unlisted | NodeView::Listed(_) => return Step::Fetch(Read::LiveNode),
        NodeView::Gone => return gone(plan),
        // It has the host's name but is not the host's node.
        NodeView::Live(node) if !identity::is_own(node, &plan.seen.host, &plan.status) => return gone(plan),
        NodeView::Live(node) => match proof::is_proven(plan, node) {
            Ok(true) => node,
            Ok(false) => {
                plan.event(EventReason::NodeLeftAlone, delete::LEFT_ALONE);
                return gone(plan);
            }
            Err(need) => return Step::Fetch(need),
        },
    };
    if let Some(holder) = &node.reservation {
        return Step::Wait(locked(node, holder));
    }
    if let Some(step) = plan.held_back(&detach_error()) {
        return step;
    }
    let removal = Removal {
        force: arguments.force,
        reason: WaitReason::Detaching,
    };
    delete::remove_node(plan, node, removal)
}

/// Whether the host is at rest, so that detaching interrupts nothing.
fn is_at_rest(state: &ProvisioningState) -> bool {
    match state {
        ProvisioningState::Provisioned
        | ProvisioningState::ExternallyProvisioned
        | ProvisioningState::Ready
        | ProvisioningState::Available => true,
        ProvisioningState::None
        | ProvisioningState::Unmanaged
        | ProvisioningState::Registering
        | ProvisioningState::MatchProfile
        | ProvisioningState::Inspecting
        | ProvisioningState::Preparing
        | ProvisioningState::Provisioning
        | ProvisioningState::Deprovisioning
        | ProvisioningState::PoweringOffBeforeDelete
        | ProvisioningState::Deleting
        | ProvisioningState::Other(_) => false,
    }
}

/// Whether a state ends in one at rest, ignoring the deletion of the host.
fn leads_to_rest(state: &ProvisioningState) -> bool {
    match state {
        ProvisioningState::Registering
        | ProvisioningState::MatchProfile
        | ProvisioningState::Inspecting
        | ProvisioningState::Preparing
        | ProvisioningState::Provisioning
        | ProvisioningState::Deprovisioning => true,
        // There is nothing to detach, or too little is known.
        ProvisioningState::None
        | ProvisioningState::Unmanaged
        | ProvisioningState::PoweringOffBeforeDelete
        | ProvisioningState::Deleting
        | ProvisioningState::Other(_)
        | ProvisioningState::Provisioned
        | ProvisioningState::ExternallyProvisioned
        | ProvisioningState::Ready
        | ProvisioningState::Available => false,
    }
}

/// Adds to the wait of a busy host that it was deleted, and why it is still there.
pub(super) fn tell_of_deletion(plan: &PlanBuilder<'_>, wait: &mut Wait) {
    let is_at_work = leads_to_rest(plan.state()) && annotations::detached(&plan.seen.host).is_some();
    if is_at_work && plan.is_deletion_delayed() {
        wait.message.push_str(
            ". The host was deleted: when it has come to rest it is detached, and the deletion waits, as deleteAction of \
             the annotation asks for; remove the annotation to have the host deprovisioned and deleted, or its deleteAction to have \
             it forgotten as it is",
        );
    }
}

fn gone(plan: &mut PlanBuilder<'_>) -> Step {
    forget_failure(plan);
    ports::forget(plan);
    plan.status.operational_status = OperationalStatus::Detached;
    Step::Wait(detached(plan))
}

#[track_caller]
fn detached(plan: &PlanBuilder<'_>) -> Wait {
    let is_left = |node: &Node| {
        !identity::is_enrolled_for(node, &plan.seen.host) && identity::is_own(node, &plan.seen.host, &plan.status)
    };
    let message = if plan.is_deletion_delayed() {
        format!(
            "the deletion waits, as deleteAction of annotation {DETACHED} asks for: remove the annotation to have the host \
             deprovisioned and deleted, or its deleteAction to have it forgotten as it runs"
        )
    } else if plan.known().is_some_and(is_left) {
        let name = identity::node_name(&plan.seen.host);
        format!(
            "annotation {DETACHED} has the host left alone; a node of its name is still in Ironic, as nothing proves that it is this \
             host's: where nobody else uses it, have it deleted there, by `baremetal node maintenance set {name}` and \
             `baremetal node delete {name}`"
        )
    } else {
        format!(
            "annotation {DETACHED} keeps the host out of Ironic and its server untouched; \
             remove the annotation to have it managed again"
        )
    };
    Wait::for_change(WaitReason::Detached, message)
}

fn attach(plan: &mut PlanBuilder<'_>) -> Step {
    forget_failure(plan);
    if plan.status.operational_status != OperationalStatus::Detached {
        return Step::Continue;
    }
    if let NodeView::Unknown { cause } = &plan.seen.node {
        return Step::Wait(outage(cause.as_ref()));
    }
    plan.status.operational_status = if plan.status.error_type.is_some() {
        OperationalStatus::Error
    } else {
        OperationalStatus::Ok
    };
    // Decide from the start, because it affects the deletion.
    Step::Again
}

fn forget_failure(plan: &mut PlanBuilder<'_>) {
    if plan.status.error_type == Some(detach_error()) {
        plan.clear_error(OperationalStatus::Ok);
        plan.status.error_count = 0;
    }
}
