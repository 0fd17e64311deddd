//! What decisions of several states have in common.

use metal3_ironic::{Node, PowerState, ProvisionState};

use crate::host::builder::{PlanBuilder, Step};
use crate::host::plan::{Wait, WaitReason};

/// A node state that this host's state cannot continue from: reported, and checked again when the node changes.
#[track_caller]
pub(super) fn unexpected(node: &Node, state: &ProvisionState, wanted: &str) -> Step {
    let way_out = match state {
        ProvisionState::CleanHold | ProvisionState::DeployHold | ProvisionState::ServiceHold => {
            "a hold step stopped it: `baremetal node unhold` lets it go on, `baremetal node abort` ends it"
        }
        ProvisionState::Rescue
        | ProvisionState::Rescuing
        | ProvisionState::RescueWait
        | ProvisionState::RescueFailed
        | ProvisionState::Unrescuing
        | ProvisionState::UnrescueFailed => {
            "somebody put it into rescue: the host goes on after `baremetal node unrescue`"
        }
        _ => "it was probably changed by hand: bring it back with `baremetal node`",
    };
    Step::Wait(Wait::for_node(
        WaitReason::UnexpectedNodeState,
        format!(
            "node {} is in state {:?} in Ironic, where it should be {wanted}; {way_out}",
            node.uuid,
            state.as_str()
        ),
    ))
}

/// Forgets the settings made for images. The volumes of RAID controllers outlive them.
pub(super) fn forget_settings(plan: &mut PlanBuilder<'_>) {
    let provisioning = &mut plan.status.provisioning;
    provisioning.root_device_hints = None;
    provisioning.firmware = None;
    if let Some(raid) = &mut provisioning.raid {
        raid.software_raid_volumes = None;
    }
}

/// `None` while Ironic does not know.
pub(super) fn is_powered_on(node: &Node) -> Option<bool> {
    match &node.power_state {
        Some(PowerState::On) => Some(true),
        Some(PowerState::Off) => Some(false),
        Some(PowerState::Other(_)) | None => None,
    }
}
