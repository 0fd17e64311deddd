//! Registering: entered once in a host's life; reached when the credentials are proven.

use metal3_api::metal3::{HardwareProfile, OperationalStatus, ProvisioningState};
use metal3_ironic::ProvisionState;

use super::details;
use crate::host::builder::{PlanBuilder, Step};
use crate::host::hints;
use crate::host::plan::{EventReason, Wait, WaitReason};

pub(super) fn registering(draft: &mut PlanBuilder<'_>) -> Step {
    let (node, _) = match draft.live() {
        Ok(node) => node,
        Err(step) => return step,
    };
    if matches!(node.provision_state, ProvisionState::Enroll | ProvisionState::Verifying) {
        return Step::Wait(Wait::for_node(
            WaitReason::Verifying,
            format!("Ironic verifies node {}", node.uuid),
        ));
    }
    if let Some(profile) = hints::profile(draft.spec(), &draft.status)
        && draft.status.hardware_profile != profile
    {
        // The default profile stands for none; an event about it on every host would tell nobody anything.
        if profile != HardwareProfile::Unknown.name() {
            draft.event(EventReason::ProfileSet, format!("Hardware profile set: {profile}"));
        }
        draft.status.hardware_profile = profile.to_owned();
    }
    if draft.is_inspection_disabled() && !draft.spec().externally_provisioned {
        match details::without_inspection(draft) {
            Step::Continue => {}
            step => return step,
        }
    }
    // Whatever failed on the way is over, also while the host queues for its inspection.
    draft.status.error_count = 0;
    if draft.status.error_type.is_some() {
        draft.clear_error(OperationalStatus::Ok);
    }
    Step::Move(if draft.spec().externally_provisioned {
        announce_external(draft);
        ProvisioningState::ExternallyProvisioned
    } else if draft.is_inspection_disabled() {
        ProvisioningState::Preparing
    } else {
        ProvisioningState::Inspecting
    })
}

/// Said before Ironic adopts what runs on the host, because of what taking the flag back would do then.
pub(super) fn announce_external(draft: &mut PlanBuilder<'_>) {
    draft.event(
        EventReason::ExternallyProvisioned,
        "The host is taken over as it runs. If spec.externallyProvisioned is taken back without spec.image, the host is deprovisioned \
         and its disks are cleaned, unless spec.automatedCleaningMode is disabled",
    );
}
