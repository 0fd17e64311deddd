//! Provisioned and externally provisioned: a user's workload runs here. Nothing is done without a request.

use metal3_api::metal3::{ErrorType, OperationalStatus, ProvisioningState};
use metal3_ironic::{Node, ProvisionRequest, ProvisionState, Verb};

use super::{power, service};
use crate::host::builder::{PlanBuilder, Step, Verdict, locked};
use crate::host::instance;
use crate::host::plan::{Effect, Wait, WaitReason};

pub(super) fn provisioned(plan: &mut PlanBuilder<'_>) -> Step {
    if *plan.state() == ProvisioningState::ExternallyProvisioned && !plan.spec().externally_provisioned {
        if let Some(image) = plan.spec().wanted_image() {
            plan.status.provisioning.image = Some(image.clone());
        }
        if plan.spec().custom_deploy.is_some() {
            plan.status
                .provisioning
                .custom_deploy
                .clone_from(&plan.spec().custom_deploy);
        }
        return Step::Move(ProvisioningState::Provisioned);
    }
    if *plan.state() == ProvisioningState::Provisioned && instance::is_cancelled(plan.spec(), &plan.status) {
        return Step::Move(ProvisioningState::Deprovisioning);
    }
    match adopt(plan) {
        Step::Continue => {}
        step => return step,
    }
    match service::under_way(plan) {
        Step::Continue => power::follow(plan),
        step => step,
    }
}

/// A node that Ironic lost and that was enrolled again is adopted as it runs: no image is written and power is
/// unchanged.
pub(super) fn adopt(plan: &mut PlanBuilder<'_>) -> Step {
    let Some(node) = plan.known() else {
        return Step::Continue;
    };
    let state = &node.provision_state;
    if *state == ProvisionState::Adopting {
        return Step::Wait(adopting(node));
    }
    if is_taken_over(node) {
        if plan.status.error_type == Some(ErrorType::ProvisionedRegistration) {
            plan.clear_error(OperationalStatus::Ok);
            plan.status.error_count = 0;
        }
        return Step::Continue;
    }
    if matches!(
        state,
        ProvisionState::Manageable | ProvisionState::AdoptFailed | ProvisionState::Active
    ) {
        return take_over(plan);
    }
    // The flag may be set on a host that was available: it stays so in Ironic, or removing the flag would clean its
    // disks. Whatever else Ironic does with the node: the host runs, and only its power has to be followed.
    Step::Continue
}

/// Maintenance set by hand would keep Ironic from following the power state.
fn is_taken_over(node: &Node) -> bool {
    node.provision_state == ProvisionState::Active && (!node.maintenance || node.fault.is_some())
}

fn take_over(plan: &mut PlanBuilder<'_>) -> Step {
    let (node, _) = match plan.live() {
        Ok(node) => node,
        Err(step) => return step,
    };
    if let Some(holder) = &node.reservation {
        return Step::Wait(locked(node, holder));
    }
    let state = &node.provision_state;
    if *state == ProvisionState::Manageable {
        return start(plan, node, Verb::Adopt);
    }
    if *state == ProvisionState::Available {
        return start(plan, node, Verb::Manage);
    }
    if *state == ProvisionState::AdoptFailed {
        let words = node.last_error.as_deref().unwrap_or("Ironic gives no reason");
        let message = format!("Host adoption failed: {words}");
        return match plan.failure(&ErrorType::ProvisionedRegistration, message) {
            Verdict::Hold(step) => step,
            Verdict::Retry => start(plan, node, Verb::Adopt),
        };
    }
    if *state == ProvisionState::Active && !is_taken_over(node) {
        return plan.mutate_and_go_on(Effect::ClearMaintenance {
            node: node.uuid.clone(),
        });
    }
    Step::Continue
}

fn start(plan: &mut PlanBuilder<'_>, node: &Node, verb: Verb) -> Step {
    if let Some(step) = plan.held_back(&ErrorType::ProvisionedRegistration) {
        return step;
    }
    plan.mutate(
        Effect::Provision {
            node: node.uuid.clone(),
            request: Box::new(ProvisionRequest::from(verb)),
        },
        adopting(node),
    )
}

#[track_caller]
fn adopting(node: &Node) -> Wait {
    Wait::for_node(
        WaitReason::Adopting,
        format!("Ironic adopts node {} as it runs", node.uuid),
    )
}
