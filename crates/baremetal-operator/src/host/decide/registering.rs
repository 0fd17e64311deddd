//! Registering: entered once in a host's life; reached when the credentials are proven.

use metal3_api::metal3::{HardwareProfile, OperationalStatus, ProvisioningState};
use metal3_ironic::ProvisionState;

use super::details;
use crate::host::builder::{PlanBuilder, Step};
use crate::host::hints;
use crate::host::plan::{EventReason, Wait, WaitReason};

pub(super) fn registering(plan: &mut PlanBuilder<'_>) -> Step {
    let (node, _) = match plan.live() {
        Ok(node) => node,
        Err(step) => return step,
    };
    if matches!(node.provision_state, ProvisionState::Enroll | ProvisionState::Verifying) {
        return Step::Wait(Wait::for_node(
            WaitReason::Verifying,
            format!("Ironic verifies node {}", node.uuid),
        ));
    }
    if let Some(profile) = hints::profile(plan.spec(), &plan.status)
        && plan.status.hardware_profile != profile
    {
        // The default profile means none; an event about it on every host would have no value.
        if profile != HardwareProfile::Unknown.name() {
            plan.event(EventReason::ProfileSet, format!("Hardware profile set: {profile}"));
        }
        plan.status.hardware_profile = profile.to_owned();
    }
    if plan.is_inspection_disabled() && !plan.spec().externally_provisioned {
        match details::without_inspection(plan) {
            Step::Continue => {}
            step => return step,
        }
    }
    // Earlier failures are over, even while the host queues for its inspection.
    plan.status.error_count = 0;
    if plan.status.error_type.is_some() {
        plan.clear_error(OperationalStatus::Ok);
    }
    Step::Move(if plan.spec().externally_provisioned {
        announce_external(plan);
        ProvisioningState::ExternallyProvisioned
    } else if plan.is_inspection_disabled() {
        ProvisioningState::Preparing
    } else {
        ProvisioningState::Inspecting
    })
}

/// Announced before Ironic adopts the running host, because of what removing the flag would do afterwards.
pub(super) fn announce_external(plan: &mut PlanBuilder<'_>) {
    plan.event(
        EventReason::ExternallyProvisioned,
        "The host is taken over as it runs. If spec.externallyProvisioned is taken back without spec.image, the host is deprovisioned \
         and its disks are cleaned, unless spec.automatedCleaningMode is disabled",
    );
}
