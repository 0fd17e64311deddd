//! The end of a host's life: the path to deletion, power-off, removal from Ironic, and release of what the operator
//! holds.

use super::data_image;
use super::outage::outage;
use super::proof;
use crate::host::builder::deletion::Deletion;
use crate::host::builder::deletion::deletion;
use crate::host::builder::{PlanBuilder, Step, Verdict, locked};
use crate::host::decide::common::is_powered_on;
use crate::host::decide::common::unexpected;
use crate::host::detach_error::detach_error;
use crate::host::identity;
use crate::host::observed::NodeView;
use crate::host::plan::{Effect, EventReason, Read, Wait, WaitReason};
use metal3_api::metal3::{CleaningMode, ErrorType, OperationalStatus, ProvisioningState};
use metal3_ironic::{Diff, Node, PowerTarget, ProvisionRequest, ProvisionState, Verb};

/// After more than this many failures in a row, a deletion skips the failing step.
const GIVE_UP_AFTER: i32 = 3;

/// The state that a deletion enters from here; `None` if the current state continues.
pub(super) fn start(plan: &PlanBuilder<'_>) -> Option<ProvisioningState> {
    match deletion(plan) {
        Deletion::Usual => {}
        Deletion::AtOnce => return Some(ProvisioningState::Deleting),
        Deletion::Delayed => return None,
    }
    let gives_up = plan.status.error_type == Some(ErrorType::Registration) && plan.status.error_count > GIVE_UP_AFTER;
    match plan.state() {
        ProvisioningState::None | ProvisioningState::Unmanaged | ProvisioningState::Registering => {
            Some(ProvisioningState::Deleting)
        }
        ProvisioningState::Provisioning | ProvisioningState::Provisioned => Some(ProvisioningState::Deprovisioning),
        ProvisioningState::Deprovisioning | ProvisioningState::PoweringOffBeforeDelete if gives_up => {
            Some(ProvisioningState::Deleting)
        }
        ProvisioningState::Deprovisioning
        | ProvisioningState::PoweringOffBeforeDelete
        | ProvisioningState::Deleting => None,
        ProvisioningState::MatchProfile
        | ProvisioningState::Inspecting
        | ProvisioningState::Preparing
        | ProvisioningState::Ready
        | ProvisioningState::Available
        | ProvisioningState::ExternallyProvisioned
        | ProvisioningState::Other(_) => Some(ProvisioningState::PoweringOffBeforeDelete),
    }
}

/// Whether a deleted host refers to a node that is not its own: then nothing is requested of that node, and the host is
/// removed.
pub(super) fn is_of_another(plan: &PlanBuilder<'_>) -> bool {
    let NodeView::Live(node) = &plan.seen.node else {
        return false;
    };
    plan.is_deleting()
        && *plan.state() != ProvisioningState::Deleting
        && !identity::is_own(node, &plan.seen.host, &plan.status)
}

pub(super) fn powering_off(plan: &mut PlanBuilder<'_>) -> Step {
    if plan.spec().disable_power_off {
        return powered_off(plan);
    }
    if let NodeView::Unknown { cause } = &plan.seen.node {
        return Step::Wait(outage(cause.as_ref()));
    }
    if matches!(plan.seen.node, NodeView::Gone) {
        // Only reached without credentials: the BMC is not accessible.
        return Step::Move(ProvisioningState::Deleting);
    }
    if let NodeView::Listed(node) = &plan.seen.node
        && node.target_power_state.is_some()
        && plan.seen.has_proven(node)
    {
        return Step::Wait(removing(node, "is being switched off"));
    }
    let (node, _) = match plan.live() {
        Ok(node) => node,
        Err(step) => return step,
    };
    if !plan.seen.has_proven(node) {
        match proof::is_proven(plan, node) {
            Ok(true) => {}
            // It is left alone there, whether or not it is on.
            Ok(false) => return Step::Move(ProvisioningState::Deleting),
            Err(need) => return Step::Fetch(need),
        }
    }
    if let Some(holder) = &node.reservation {
        return Step::Wait(locked(node, holder));
    }
    if let Some(step) = before_power_off(plan, node) {
        return step;
    }
    power_off(plan, node)
}

/// What Ironic has to stop or finish before it can switch the server off.
fn before_power_off(plan: &mut PlanBuilder<'_>, node: &Node) -> Option<Step> {
    // Manual cleaning ends in manageable. Wait for automated cleaning, unless it was disabled in the meantime.
    let is_idle_cleaning = node.target_provision_state.as_deref() == Some("manageable")
        || plan.spec().automated_cleaning_mode == CleaningMode::Disabled;
    match &node.provision_state {
        ProvisionState::InspectWait
        | ProvisionState::ServiceWait
        | ProvisionState::ServiceHold
        | ProvisionState::RescueWait
        | ProvisionState::CleanHold
        | ProvisionState::DeployHold => Some(interrupt(plan, node, Verb::Abort)),
        ProvisionState::CleanWait if is_idle_cleaning => Some(interrupt(plan, node, Verb::Abort)),
        ProvisionState::DeployWait => Some(interrupt(plan, node, Verb::Deleted)),
        // Never verified, and no credentials to do it now: the BMC is not accessible.
        ProvisionState::Enroll => Some(Step::Move(ProvisioningState::Deleting)),
        ProvisionState::Verifying
        | ProvisionState::Inspecting
        | ProvisionState::Cleaning
        | ProvisionState::CleanWait
        | ProvisionState::Deploying
        | ProvisionState::Deleting
        | ProvisionState::Adopting
        | ProvisionState::Servicing
        | ProvisionState::Rescuing
        | ProvisionState::Unrescuing => Some(Step::Wait(removing(node, "finishes what it is doing"))),
        // A transitional state of a newer Ironic.
        ProvisionState::Other(_) if node.target_provision_state.is_some() => {
            Some(Step::Wait(removing(node, "finishes what it is doing")))
        }
        // At rest, possibly after a failure.
        ProvisionState::Manageable
        | ProvisionState::Available
        | ProvisionState::Active
        | ProvisionState::DeployFailed
        | ProvisionState::CleanFailed
        | ProvisionState::Error
        | ProvisionState::InspectFailed
        | ProvisionState::AdoptFailed
        | ProvisionState::Rescue
        | ProvisionState::RescueFailed
        | ProvisionState::UnrescueFailed
        | ProvisionState::ServiceFailed
        | ProvisionState::Other(_) => None,
    }
}

fn power_off(plan: &mut PlanBuilder<'_>, node: &Node) -> Step {
    // If the power state is not known, the host may be on.
    if is_powered_on(node) == Some(false) {
        return match data_image::after_use(plan) {
            Step::Continue => powered_off(plan),
            step => step,
        };
    }
    if node.target_power_state.is_some() {
        return Step::Wait(removing(node, "is being switched off"));
    }
    if plan.seen.memory.power_request.is_some_and(|r| !r.on)
        && let Some(error) = &node.last_error
    {
        let message = format!("Power off before deletion failed: {error}");
        match plan.failure(&ErrorType::PowerManagement, message) {
            Verdict::Hold(_) if plan.status.error_count > GIVE_UP_AFTER => {
                return Step::Move(ProvisioningState::Deleting);
            }
            Verdict::Hold(step) => return step,
            Verdict::Retry => {}
        }
    } else if plan.status.error_type == Some(ErrorType::PowerManagement) && plan.status.error_count > GIVE_UP_AFTER {
        return Step::Move(ProvisioningState::Deleting);
    } else if let Some(step) = plan.held_back(&ErrorType::PowerManagement) {
        return step;
    }
    plan.event(EventReason::PowerOff, "Host hard powered off before deletion");
    let wait = removing(node, "is being switched off");
    plan.mutate(
        Effect::Power {
            node: node.uuid.clone(),
            target: PowerTarget::Off,
        },
        wait,
    )
}

fn powered_off(plan: &mut PlanBuilder<'_>) -> Step {
    plan.status.error_count = 0;
    plan.status.powered_on = false;
    Step::Move(ProvisioningState::Deleting)
}

pub(super) fn deleting(plan: &mut PlanBuilder<'_>) -> Step {
    let node = match &plan.seen.node {
        NodeView::Unknown { .. } if was_never_managed(plan) => return release(plan),
        NodeView::Unknown { cause } => return Step::Wait(outage(cause.as_ref())),
        NodeView::Listed(node) if node.reservation.is_some() => {
            return Step::Wait(locked(node, node.reservation.as_deref().unwrap_or_default()));
        }
        NodeView::Unlisted | NodeView::Listed(_) => return Step::Fetch(Read::LiveNode),
        NodeView::Gone => return release(plan),
        // Already removed from Ironic: another node under its name belongs to wherever the host has moved.
        NodeView::Live(node)
            if plan.status.operational_status == OperationalStatus::Detached
                && node.uuid != plan.status.provisioning.id =>
        {
            return release(plan);
        }
        NodeView::Live(node) if !identity::is_own(node, &plan.seen.host, &plan.status) => return leave(plan),
        NodeView::Live(node) => match proof::is_proven(plan, node) {
            Ok(true) => node,
            Ok(false) => return leave(plan),
            Err(need) => return Step::Fetch(need),
        },
    };
    if let Some(holder) = &node.reservation {
        return Step::Wait(locked(node, holder));
    }
    if !plan.is_entered() {
        let message = format!("node {} is about to be deleted from Ironic", node.uuid);
        return Step::Wait(Wait::for_node(WaitReason::Removing, message).at_once());
    }
    let removal = Removal {
        force: false,
        reason: WaitReason::Removing,
    };
    remove_node(plan, node, removal)
}

/// Removes the host and leaves its node unchanged.
pub(super) fn leave(plan: &mut PlanBuilder<'_>) -> Step {
    plan.event(EventReason::NodeLeftAlone, LEFT_ALONE);
    release(plan)
}

/// The last message of a host whose node is not its own, or not proven to be, by its name or by the UUID in its status.
/// It does not identify that node or its owner: otherwise a user could probe for one by the other.
pub(super) const LEFT_ALONE: &str = "the node in Ironic to which this host leads stays as it is, as nothing proves that it is this \
    host's. If nobody else uses it, delete it in Ironic";

/// Whether nothing was ever requested of Ironic for this host, so that its deletion need not wait for Ironic.
fn was_never_managed(plan: &PlanBuilder<'_>) -> bool {
    let status = &plan.status;
    !plan.spec().has_bmc_details()
        && status.provisioning.id.is_empty()
        && status.tried_credentials.credentials_version.is_empty()
        && status.good_credentials.credentials.is_none()
}

fn release(plan: &mut PlanBuilder<'_>) -> Step {
    plan.effects.extend([
        // Also without --build-preprov-image: an operator with it may have left one.
        Effect::ReleaseRamdisk,
        Effect::ReleaseHardwareData,
        Effect::ReleaseSecret,
        Effect::RemoveFinalizer,
    ]);
    Step::Gone
}

/// How to remove a host's node from Ironic.
#[derive(Clone, Copy, Debug)]
pub(super) struct Removal {
    /// Abort operations that wait for a ramdisk instead of waiting for them.
    pub force: bool,
    /// The reason of the host's wait in the meantime.
    pub reason: WaitReason,
}

/// The next step towards removing the node. The server is left unchanged, whatever the node's state.
pub(super) fn remove_node(plan: &mut PlanBuilder<'_>, node: &Node, removal: Removal) -> Step {
    let id = node.uuid.clone();
    let wait = |what: &str| Wait {
        reason: removal.reason,
        ..removing(node, what)
    };
    match &node.provision_state {
        ProvisionState::Available | ProvisionState::Manageable if node.instance_uuid.is_some() => {
            let mut diff = Diff::default();
            diff.set(
                "",
                "instance_uuid",
                None,
                node.instance_uuid.clone().map(Into::into).as_ref(),
            );
            plan.mutate_and_go_on(Effect::PatchNode {
                node: id,
                ops: diff.into_ops(),
            })
        }
        ProvisionState::Enroll | ProvisionState::Available | ProvisionState::Manageable => {
            if *plan.state() == ProvisioningState::Deleting {
                plan.clear_error(OperationalStatus::Ok);
            }
            plan.mutate_and_go_on(Effect::DeleteNode { node: id })
        }
        ProvisionState::DeployWait
        | ProvisionState::CleanWait
        | ProvisionState::InspectWait
        | ProvisionState::ServiceWait
            if removal.force =>
        {
            // Before API 1.110 Ironic has no other way to stop a deployment, and it has answered so by now.
            let is_refused = plan.status.error_type == Some(detach_error());
            let verb = if node.provision_state == ProvisionState::DeployWait && is_refused {
                Verb::Deleted
            } else {
                Verb::Abort
            };
            let request = Box::new(ProvisionRequest::from(verb));
            plan.mutate(Effect::Provision { node: id, request }, wait("stops what it is doing"))
        }
        ProvisionState::Verifying
        | ProvisionState::Deploying
        | ProvisionState::DeployWait
        | ProvisionState::Cleaning
        | ProvisionState::CleanWait
        | ProvisionState::Inspecting
        | ProvisionState::InspectWait
        | ProvisionState::Servicing
        | ProvisionState::ServiceWait
        | ProvisionState::Deleting => Step::Wait(wait("finishes what it is doing")),
        ProvisionState::Other(text) => unexpected(node, &ProvisionState::Other(text.clone()), "in a known state"),
        ProvisionState::Active
        | ProvisionState::DeployFailed
        | ProvisionState::DeployHold
        | ProvisionState::CleanFailed
        | ProvisionState::CleanHold
        | ProvisionState::Error
        | ProvisionState::InspectFailed
        | ProvisionState::Adopting
        | ProvisionState::AdoptFailed
        | ProvisionState::Rescue
        | ProvisionState::Rescuing
        | ProvisionState::RescueWait
        | ProvisionState::RescueFailed
        | ProvisionState::Unrescuing
        | ProvisionState::UnrescueFailed
        | ProvisionState::ServiceFailed
        | ProvisionState::ServiceHold => {
            // Ironic removes such a node in maintenance only; the server itself is left unchanged.
            if node.maintenance {
                plan.mutate_and_go_on(Effect::DeleteNode { node: id })
            } else {
                plan.mutate_and_go_on(Effect::SetMaintenance { node: id })
            }
        }
    }
}

/// Ironic completes the ramdisk's current step before powering off: some steps, such as a firmware write, must not be
/// interrupted. If Ironic keeps rejecting the request, the deletion continues without it.
fn interrupt(plan: &mut PlanBuilder<'_>, node: &Node, verb: Verb) -> Step {
    if plan.status.error_type == Some(ErrorType::PowerManagement) && plan.status.error_count > GIVE_UP_AFTER {
        return Step::Move(ProvisioningState::Deleting);
    }
    if let Some(step) = plan.held_back(&ErrorType::PowerManagement) {
        return step;
    }
    plan.mutate(
        Effect::Provision {
            node: node.uuid.clone(),
            request: Box::new(ProvisionRequest::from(verb)),
        },
        removing(node, "stops what it is doing"),
    )
}

#[track_caller]
fn removing(node: &Node, what: &str) -> Wait {
    Wait::for_node(
        WaitReason::Removing,
        format!("node {} {what} in Ironic before it is removed", node.uuid),
    )
}
