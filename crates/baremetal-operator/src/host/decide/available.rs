//! Available: the host waits for somebody who wants an image on it.

use metal3_api::metal3::{ErrorType, OperationalStatus, ProvisioningState};

use metal3_ironic::ProvisionState;

use super::{attempt, inspect, power, prepare, registering};
use crate::host::builder::{PlanBuilder, Step};
use crate::host::decide::common::forget_settings;
use crate::host::instance::Deployment;
use crate::host::observed::PullSecretView;
use crate::host::plan::{EventReason, Read, WaitReason};

pub(super) fn available(draft: &mut PlanBuilder<'_>) -> Step {
    if draft.spec().externally_provisioned {
        forget_settings(draft);
        // One that is available in Ironic, too, stays so.
        if draft
            .known()
            .is_none_or(|node| node.provision_state != ProvisionState::Available)
        {
            registering::announce_external(draft);
        }
        return Step::Move(ProvisioningState::ExternallyProvisioned);
    }
    if inspect::is_asked_for(draft) {
        return Step::Move(ProvisioningState::Inspecting);
    }
    let is_wanted = draft.spec().online && Deployment::wanted(draft.spec()).is_some();
    match prepare::is_outdated(draft) {
        Ok(false) => {}
        Ok(true) => return Step::Move(ProvisioningState::Preparing),
        // A host that nobody wants need not know yet, and has power to follow.
        Err(Step::Wait(_)) if !is_wanted => {}
        Err(Step::Fetch(_)) if !is_wanted && !draft.seen.firmware.is_known() => {}
        Err(step) => return step,
    }
    let Some(wanted) = Deployment::wanted(draft.spec()) else {
        draft.status.provisioning_fail_count = 0;
        draft.status.last_attempted_image = None;
        attempt::forget(draft);
        clear_provisioning_error(draft);
        return power::follow(draft);
    };
    if !draft.spec().online {
        return power::follow(draft);
    }
    // What cannot be deployed is told before the disks are cleaned for it.
    if let Some(problem) = wanted.problem(&draft.seen.settings.denied_url_ranges) {
        return draft.refuse(
            ErrorType::Provisioning,
            WaitReason::InvalidImage,
            EventReason::ProvisioningError,
            problem,
        );
    }
    if wanted.pull_secret_name().is_some() {
        match &draft.seen.pull_secret {
            PullSecretView::NotLooked => return Step::Fetch(Read::PullSecret),
            PullSecretView::Unusable(event, why) => {
                return draft.refuse(
                    ErrorType::Provisioning,
                    WaitReason::ImageAuthIncomplete,
                    *event,
                    why.clone(),
                );
            }
            PullSecretView::Ready(_) => {}
        }
    }
    attempt::remember(draft, wanted);
    let limit = draft.seen.settings.max_provisioning_retries;
    if limit > 0 && draft.status.provisioning_fail_count >= limit {
        return draft.refuse(
            ErrorType::Provisioning,
            WaitReason::RetryLimitReached,
            EventReason::ProvisioningError,
            attempt::given_up(wanted, limit),
        );
    }
    draft.clear_error(OperationalStatus::Ok);
    Step::Move(ProvisioningState::Provisioning)
}

/// The error of an image that nobody asks for any more.
fn clear_provisioning_error(draft: &mut PlanBuilder<'_>) {
    if draft.status.error_type == Some(ErrorType::Provisioning) {
        draft.clear_error(OperationalStatus::Ok);
    }
}
