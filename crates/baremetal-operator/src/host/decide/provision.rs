//! Provisioning: cleaning (Ironic's `provide`), then the deployment.

use metal3_api::metal3::{ErrorType, Image, OperationalStatus, ProvisioningState};
use metal3_ironic::{DeployStep, Node, NodeDetail, ProvisionRequest, ProvisionState, Verb};
use serde_json::Value;

use super::attempt;
use super::maintenance;
use super::outage::outage;
use super::reboot;
use super::register;
use crate::host::builder::{PlanBuilder, Step, locked};
use crate::host::decide::common::unexpected;
use crate::host::instance::{self, Deployment};
use crate::host::observed::{ConfigDriveView, Lookup, NodeView, PullSecret, PullSecretView};
use crate::host::plan::{Effect, EventReason, Read, Wait, WaitReason};

pub(super) fn provisioning(plan: &mut PlanBuilder<'_>) -> Step {
    let wanted = match Deployment::wanted(plan.spec()) {
        Some(wanted) if !instance::is_cancelled(plan.spec(), &plan.status) => wanted,
        Some(_) | None => return Step::Move(ProvisioningState::Deprovisioning),
    };
    // Errors of other operations, such as an earlier power error, are no reason to tear anything down.
    if plan.status.error_type == Some(ErrorType::Provisioning) {
        return after_failure(plan);
    }
    attempt::remember(plan, wanted);
    let restarts = reboot::is_forced(plan);
    if let Some(node) = plan.known()
        && let Some(wait) = running(node, restarts)
    {
        return Step::Wait(wait);
    }
    if let NodeView::Unknown { cause } = &plan.seen.node {
        return Step::Wait(outage(cause.as_ref()));
    }
    let (node, detail) = match plan.live() {
        Ok(node) => node,
        Err(step) => return step,
    };
    if let Some(wait) = running(node, restarts) {
        return Step::Wait(wait);
    }
    if let Some(holder) = &node.reservation {
        return Step::Wait(locked(node, holder));
    }
    match &node.provision_state {
        ProvisionState::Manageable => {
            if let Some(step) = register::follow_settings(plan, node) {
                return step;
            }
            if let Some(step) = maintenance::leave(plan, node) {
                return step;
            }
            plan.mutate(
                Effect::Provision {
                    node: node.uuid.clone(),
                    request: Box::new(ProvisionRequest::from(Verb::Provide)),
                },
                cleaning(node),
            )
        }
        ProvisionState::Active if wanted.runs_on(detail) => complete(plan, wanted),
        // It runs something that was not requested: the first step to the wanted image is a tear-down.
        ProvisionState::Active => Step::Move(ProvisioningState::Deprovisioning),
        // A restart was requested for a hanging deployment: deploy again.
        ProvisionState::DeployWait => plan.mutate(
            Effect::Provision {
                node: node.uuid.clone(),
                request: Box::new(ProvisionRequest::from(Verb::Deleted)),
            },
            restarting(node),
        ),
        ProvisionState::CleanFailed => fail(plan, node, "Cleaning before provisioning failed"),
        // The tear-down that a restart starts with. What follows is another tear-down.
        ProvisionState::Error => fail(plan, node, "Taking back the deployment failed"),
        ProvisionState::DeployFailed if wanted.was_attempted_on(node, detail) => {
            let what = match wanted {
                Deployment::Disk(_) | Deployment::LiveIso(_) => "Image provisioning failed".to_owned(),
                // Ironic may give no reason, and a misspelt method is a likely cause.
                Deployment::Custom { method, .. } => format!("Custom deploy {method} failed"),
            };
            fail(plan, node, &what)
        }
        ProvisionState::Available | ProvisionState::DeployFailed => deploy(plan, wanted, node, detail),
        other => unexpected(node, other, "available, to be deployed"),
    }
}

/// Ironic's current operation for this state.
fn running(node: &Node, restarts: bool) -> Option<Wait> {
    match &node.provision_state {
        ProvisionState::Cleaning | ProvisionState::CleanWait => Some(cleaning(node)),
        ProvisionState::Deploying => Some(deploying(node)),
        ProvisionState::DeployWait if !restarts => Some(deploying(node)),
        ProvisionState::Deleting => Some(restarting(node)),
        _ => None,
    }
}

#[track_caller]
fn restarting(node: &Node) -> Wait {
    Wait::for_node(
        WaitReason::TearingDown,
        format!(
            "Ironic takes back the deployment on node {}, which is then begun anew",
            node.uuid
        ),
    )
}

#[track_caller]
fn cleaning(node: &Node) -> Wait {
    Wait::for_node(
        WaitReason::Cleaning,
        format!(
            "Ironic cleans the disks of node {} before the image is written",
            node.uuid
        ),
    )
}

#[track_caller]
fn deploying(node: &Node) -> Wait {
    Wait::for_node(
        WaitReason::Deploying,
        format!("Ironic writes the image to node {}", node.uuid),
    )
}

fn deploy(plan: &mut PlanBuilder<'_>, wanted: Deployment<'_>, node: &Node, detail: &NodeDetail) -> Step {
    let secret = match pull_secret(plan, wanted) {
        Ok(secret) => secret,
        Err(step) => return step,
    };
    if let Some(step) = register::follow_settings(plan, node) {
        return step;
    }
    let ops = match instance::patch(plan.seen, &plan.status, wanted, secret, node, detail) {
        Ok(ops) => ops,
        Err(problem) => return plan.fail(&ErrorType::Provisioning, problem),
    };
    if ops.iter().any(|op| op.path == "/deploy_interface") && node.provision_state == ProvisionState::DeployFailed {
        // Ironic changes interfaces only on a node at rest.
        return Step::Move(ProvisioningState::Deprovisioning);
    }
    if !ops.is_empty() {
        return plan.mutate_and_go_on(Effect::PatchNode {
            node: node.uuid.clone(),
            ops,
        });
    }
    if let Some(step) = refused(plan) {
        return step;
    }
    // Ironic refuses to deploy a node in maintenance.
    if let Some(step) = maintenance::leave(plan, node) {
        return step;
    }
    if !plan.is_entered() {
        return Step::Wait(deploying(node).at_once());
    }
    // The deployment serves this request. Remove the annotation first, or it would restart this deployment too.
    if reboot::is_forced(plan) && reboot::is_served(plan) {
        return Step::Again;
    }
    // Last, because it holds memory that all hosts share, and what comes before waits for a BMC.
    match config_drive(plan, wanted) {
        Ok(drive) => start(plan, wanted, node, drive),
        Err(step) => step,
    }
}

/// The credentials for the image's registry, if the deployment needs any.
fn pull_secret<'a>(plan: &mut PlanBuilder<'a>, wanted: Deployment<'_>) -> Result<Option<&'a PullSecret>, Step> {
    match (&plan.seen.pull_secret, wanted.pull_secret_name()) {
        (_, None) => Ok(None),
        (PullSecretView::NotLooked, Some(_)) => Err(Step::Fetch(Read::PullSecret)),
        (PullSecretView::Unusable(event, why), Some(_)) => {
            if !plan.is_told(WaitReason::ImageAuthIncomplete) {
                plan.event(*event, why.clone());
            }
            Err(Step::Wait(Wait::for_change(
                WaitReason::ImageAuthIncomplete,
                why.clone(),
            )))
        }
        (PullSecretView::Ready(secret), Some(_)) => Ok(Some(secret)),
    }
}

fn config_drive(plan: &PlanBuilder<'_>, wanted: Deployment<'_>) -> Result<Option<Value>, Step> {
    match (&plan.seen.config_drive, wanted) {
        // Nothing is written to a disk, so the config drive would not be read.
        (_, Deployment::LiveIso(_)) => Ok(None),
        (ConfigDriveView::NotLooked, _) => Err(Step::Fetch(Read::ConfigDrive)),
        // Not an error of the host: nothing was tried yet, and a change of the Secret ends the wait.
        (ConfigDriveView::Unusable(problem), _) => Err(Step::Wait(Wait::for_change(
            WaitReason::ConfigDriveIncomplete,
            problem.clone(),
        ))),
        (ConfigDriveView::Ready(drive), _) => Ok(Some(drive.value.clone())),
    }
}

/// Ironic's own validation of the deployment.
fn refused(plan: &mut PlanBuilder<'_>) -> Option<Step> {
    match &plan.seen.validation {
        Lookup::NotLooked => Some(Step::Fetch(Read::Validation)),
        Lookup::NotFound => None,
        Lookup::Found(problems) if problems.is_empty() => None,
        Lookup::Found(problems) => {
            let message = format!("Ironic refuses the deployment: {}", problems.join("; "));
            Some(plan.fail(&ErrorType::Provisioning, message))
        }
    }
}

fn start(plan: &mut PlanBuilder<'_>, wanted: Deployment<'_>, node: &Node, drive: Option<Value>) -> Step {
    plan.event(
        EventReason::ProvisioningStarted,
        format!("Image provisioning started for {}", target(wanted)),
    );
    if let Some(doubt) = wanted.image().and_then(Image::doubt) {
        plan.event(EventReason::ImageInDoubt, format!("{}: {doubt}", target(wanted)));
    }
    let steps = match wanted {
        Deployment::Custom { method, .. } => vec![DeployStep {
            interface: "deploy".to_owned(),
            step: method.to_owned(),
            args: serde_json::Map::new(),
            // Replaces the step that writes the image.
            priority: 80,
        }],
        Deployment::Disk(_) | Deployment::LiveIso(_) => Vec::new(),
    };
    let request = ProvisionRequest {
        configdrive: drive,
        deploy_steps: steps,
        ..ProvisionRequest::from(Verb::Active)
    };
    plan.mutate(
        Effect::Provision {
            node: node.uuid.clone(),
            request: Box::new(request),
        },
        deploying(node),
    )
}

fn complete(plan: &mut PlanBuilder<'_>, deployed: Deployment<'_>) -> Step {
    if reboot::is_served(plan) {
        return Step::Again; // or the host would be rebooted next
    }
    plan.clear_error(OperationalStatus::Ok);
    plan.status.provisioning.image.clone_from(&plan.spec().image);
    plan.status
        .provisioning
        .custom_deploy
        .clone_from(&plan.spec().custom_deploy);
    plan.status.error_count = 0;
    plan.status.provisioning_fail_count = 0;
    attempt::forget(plan);
    plan.event(
        EventReason::ProvisioningComplete,
        format!("Image provisioning completed for {}", target(deployed)),
    );
    Step::Move(ProvisioningState::Provisioned)
}

/// A failure costs its back-off, and then another pass through cleaning.
fn fail(plan: &mut PlanBuilder<'_>, node: &Node, what: &str) -> Step {
    // Some releases of Ironic lose the reason when they power off the server after a failed step.
    let before = plan.seen.memory.deployment_error.as_deref();
    let before = before.filter(|_| node.provision_state == ProvisionState::DeployFailed);
    let words = node.last_error.as_deref().or(before);
    let words = words.unwrap_or("Ironic gives no reason; its log and the ramdisk's may know more");
    // When the ramdisk stops answering while it writes the image, Ironic trips over itself, and tells of that instead.
    let meaning = if words.contains("cleanup_after_timeout") {
        " (the ramdisk has stopped answering Ironic: look at the server's power, its console and its network)"
    } else {
        ""
    };
    plan.fail(&ErrorType::Provisioning, format!("{what}: {words}{meaning}"))
}

fn after_failure(plan: &mut PlanBuilder<'_>) -> Step {
    if let Some(step) = plan.held_back(&ErrorType::Provisioning) {
        return step;
    }
    plan.status.provisioning_fail_count = plan.status.provisioning_fail_count.saturating_add(1);
    // The error stays until Ironic accepts the tear-down, which is the first progress.
    Step::Move(ProvisioningState::Deprovisioning)
}

/// The image's URL alone if there is one: users search events for it.
fn target(deployment: Deployment<'_>) -> String {
    match deployment {
        Deployment::Disk(image) | Deployment::LiveIso(image) => image.url.clone(),
        Deployment::Custom { .. } => deployment.name(),
    }
}
