//! Available: the host waits for a user to request an image.

use metal3_api::metal3::{ErrorType, OperationalStatus, ProvisioningState};

use metal3_ironic::ProvisionState;

use super::{attempt, data_image, inspect, power, prepare, registering};
use crate::host::builder::{PlanBuilder, Step};
use crate::host::decide::common::forget_settings;
use crate::host::instance::Deployment;
use crate::host::observed::{DataImageAtHand, PullSecretView};
use crate::host::plan::{EventReason, Read, WaitReason};

pub(super) fn available(plan: &mut PlanBuilder<'_>) -> Step {
    if plan.spec().externally_provisioned {
        forget_settings(plan);
        // A host that is also available in Ironic stays so.
        if plan
            .known()
            .is_none_or(|node| node.provision_state != ProvisionState::Available)
        {
            registering::announce_external(plan);
        }
        return Step::Move(ProvisioningState::ExternallyProvisioned);
    }
    // Left by an operator before this one, or by a host that was detached in use.
    if plan.known().is_some()
        && let DataImageAtHand::Present { holds_disc: true, .. } = plan.seen.data_image_at_hand
    {
        match data_image::after_use(plan) {
            Step::Continue => {}
            step => return step,
        }
    }
    if inspect::is_asked_for(plan) {
        return Step::Move(ProvisioningState::Inspecting);
    }
    let is_wanted = plan.spec().online && Deployment::wanted(plan.spec()).is_some();
    match prepare::is_outdated(plan) {
        Ok(false) => {}
        Ok(true) => return Step::Move(ProvisioningState::Preparing),
        // An unused host need not know this yet, and its power still has to be followed.
        Err(Step::Wait(_)) if !is_wanted => {}
        Err(Step::Fetch(_)) if !is_wanted && !plan.seen.firmware.is_known() => {}
        Err(step) => return step,
    }
    let Some(wanted) = Deployment::wanted(plan.spec()) else {
        plan.status.provisioning_fail_count = 0;
        plan.status.last_attempted_image = None;
        attempt::forget(plan);
        clear_provisioning_error(plan);
        return power::follow(plan);
    };
    if !plan.spec().online {
        return power::follow(plan);
    }
    // Report an image that cannot be deployed before cleaning the disks for it.
    if let Some(problem) = wanted.problem(&plan.seen.settings.denied_url_ranges) {
        return plan.refuse(
            ErrorType::Provisioning,
            WaitReason::InvalidImage,
            EventReason::ProvisioningError,
            problem,
        );
    }
    if wanted.pull_secret_name().is_some() {
        match &plan.seen.pull_secret {
            PullSecretView::NotLooked => return Step::Fetch(Read::PullSecret),
            PullSecretView::Unusable(event, why) => {
                return plan.refuse(
                    ErrorType::Provisioning,
                    WaitReason::ImageAuthIncomplete,
                    *event,
                    why.clone(),
                );
            }
            PullSecretView::Ready(_) => {}
        }
    }
    attempt::remember(plan, wanted);
    let limit = plan.seen.settings.max_provisioning_retries;
    if limit > 0 && plan.status.provisioning_fail_count >= limit {
        return plan.refuse(
            ErrorType::Provisioning,
            WaitReason::RetryLimitReached,
            EventReason::ProvisioningError,
            attempt::given_up(wanted, limit),
        );
    }
    plan.clear_error(OperationalStatus::Ok);
    Step::Move(ProvisioningState::Provisioning)
}

/// Clears the error of an image that is no longer requested.
fn clear_provisioning_error(plan: &mut PlanBuilder<'_>) {
    if plan.status.error_type == Some(ErrorType::Provisioning) {
        plan.clear_error(OperationalStatus::Ok);
    }
}
