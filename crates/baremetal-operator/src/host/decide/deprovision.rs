//! Deprovisioning: the instance is torn down and the disks are cleaned.

use super::data_image;
use super::maintenance;
use super::outage::outage;
use super::reboot;
use super::register;
use super::service;
use crate::host::builder::{PlanBuilder, Step, Verdict, locked};
use crate::host::decide::common::forget_settings;
use crate::host::decide::common::unexpected;
use crate::host::instance;
use crate::host::observed::NodeView;
use crate::host::plan::{Effect, EventReason, Wait, WaitReason};
use metal3_api::metal3::{CleaningMode, ErrorType, OperationalStatus, ProvisioningState};
use metal3_ironic::{Diff, Node, NodeDetail, ProvisionRequest, ProvisionState, Verb};

/// After more than this many failures in a row, a deletion skips the failing step.
const GIVE_UP_AFTER: i32 = 3;

pub(super) fn deprovisioning(plan: &mut PlanBuilder<'_>) -> Step {
    if let Some(node) = plan.known()
        && let Some(step) = running(plan, node)
    {
        return step;
    }
    // End servicing: the host is no longer in use.
    if plan.status.operational_status == OperationalStatus::Servicing {
        plan.clear_error(OperationalStatus::Ok);
    }
    if let NodeView::Unknown { cause } = &plan.seen.node {
        return Step::Wait(outage(cause.as_ref()));
    }
    if plan.is_deleting() && matches!(plan.seen.node, NodeView::Gone) {
        // Only reached without credentials: there is nothing to tear down, and nothing can be enrolled.
        return Step::Move(ProvisioningState::Deleting);
    }
    let (node, detail) = match plan.live() {
        Ok(node) => node,
        Err(step) => return step,
    };
    if let Some(step) = running(plan, node) {
        return step;
    }
    if let Some(holder) = &node.reservation {
        return Step::Wait(locked(node, holder));
    }
    match &node.provision_state {
        ProvisionState::Available => undescribe(plan, node, detail),
        ProvisionState::Manageable => ask(plan, node, Verb::Provide),
        // The node was lost and could not be adopted; its disks are cleaned anyway.
        ProvisionState::AdoptFailed => ask(plan, node, Verb::Manage),
        ProvisionState::Active
        | ProvisionState::DeployFailed
        | ProvisionState::DeployWait
        | ProvisionState::ServiceFailed => {
            let automated = plan.spec().automated_cleaning_mode != CleaningMode::Disabled;
            // While it waits for the ramdisk, Ironic rejects changes of the node.
            let is_open = node.provision_state != ProvisionState::DeployWait;
            if is_open && detail.automated_clean != Some(automated) {
                let mut diff = Diff::default();
                diff.set(
                    "",
                    "automated_clean",
                    Some(automated.into()),
                    detail.automated_clean.map(Into::into).as_ref(),
                );
                return plan.mutate_and_go_on(Effect::PatchNode {
                    node: node.uuid.clone(),
                    ops: diff.into_ops(),
                });
            }
            tear_down(plan, node)
        }
        ProvisionState::CleanWait => ask(plan, node, Verb::Abort),
        ProvisionState::ServiceWait => {
            let wait = serviced(
                node,
                "; the servicing is being abandoned, and a step that writes firmware is still done",
            );
            ask_and_wait(plan, node, Verb::Abort, wait)
        }
        ProvisionState::CleanFailed if is_unwanted(plan) => Step::Move(ProvisioningState::PoweringOffBeforeDelete),
        ProvisionState::CleanFailed => match failed(plan, node, "Cleaning failed") {
            Verdict::Hold(step) => step,
            Verdict::Retry => ask(plan, node, Verb::Manage),
        },
        ProvisionState::Error => match failed(plan, node, "Tearing the instance down failed") {
            Verdict::Hold(step) => step,
            Verdict::Retry => tear_down(plan, node),
        },
        other => unexpected(node, other, "active, to be torn down"),
    }
}

/// The current operation of Ironic, which has to end first.
fn running(plan: &PlanBuilder<'_>, node: &Node) -> Option<Step> {
    match &node.provision_state {
        ProvisionState::Deleting | ProvisionState::Cleaning | ProvisionState::Deploying => {
            Some(Step::Wait(tearing_down(node)))
        }
        ProvisionState::CleanWait => (!is_unwanted(plan)).then(|| Step::Wait(tearing_down(node))),
        ProvisionState::Adopting => Some(Step::Wait(Wait::for_node(
            WaitReason::Adopting,
            format!("Ironic adopts node {}, which is torn down then", node.uuid),
        ))),
        ProvisionState::Servicing => Some(Step::Wait(serviced(node, ""))),
        ProvisionState::ServiceWait => waits_for_service(plan, node).unwrap_or_else(Some),
        _ => None,
    }
}

/// An interrupted firmware write can brick the server, so only who takes the change back has it interrupted.
fn waits_for_service(plan: &PlanBuilder<'_>, node: &Node) -> Result<Option<Step>, Step> {
    if !service::is_ours(plan)? {
        return Ok(Some(Step::Wait(serviced(node, ""))));
    }
    let advice = format!("; to abandon the servicing, {}", service::INTERRUPT);
    Ok((!service::is_abandoned(plan)?).then(|| Step::Wait(serviced(node, &advice))))
}

#[track_caller]
fn serviced(node: &Node, advice: &str) -> Wait {
    Wait::for_node(
        WaitReason::Servicing,
        format!("Ironic services node {}, which is torn down then{advice}", node.uuid),
    )
}

/// Cleaning was disabled and the host is being deleted: there is nothing to wait for.
fn is_unwanted(plan: &PlanBuilder<'_>) -> bool {
    plan.is_deleting() && plan.spec().automated_cleaning_mode == CleaningMode::Disabled
}

/// Takes a description off that was never deployed. Where Ironic refuses that again and again, the host is available all the same.
fn undescribe(plan: &mut PlanBuilder<'_>, node: &Node, detail: &NodeDetail) -> Step {
    let ops = instance::undescribe(node, detail);
    let is_refused = plan.status.error_type == Some(ErrorType::Provisioning);
    if ops.is_empty() || plan.is_deleting() || is_refused && plan.status.error_count > GIVE_UP_AFTER {
        return complete(plan);
    }
    if let Some(step) = plan.held_back(&ErrorType::Provisioning) {
        return step;
    }
    let node = node.uuid.clone();
    plan.mutate_and_go_on(Effect::PatchNode { node, ops })
}

fn tear_down(plan: &mut PlanBuilder<'_>, node: &Node) -> Step {
    if !plan.is_entered() {
        return Step::Wait(tearing_down(node).at_once());
    }
    let step = ask(plan, node, Verb::Deleted);
    if plan.effects.iter().any(|e| matches!(e, Effect::Provision { .. })) {
        plan.event(EventReason::DeprovisioningStarted, "Image deprovisioning started");
    }
    step
}

fn ask(plan: &mut PlanBuilder<'_>, node: &Node, verb: Verb) -> Step {
    ask_and_wait(plan, node, verb, tearing_down(node))
}

fn ask_and_wait(plan: &mut PlanBuilder<'_>, node: &Node, verb: Verb, wait: Wait) -> Step {
    // Rejected repeatedly although the node shows no failure: a deletion does not wait forever.
    let is_refused = plan.status.error_type == Some(ErrorType::Provisioning);
    if plan.is_deleting() && is_refused && plan.status.error_count > GIVE_UP_AFTER {
        return Step::Move(ProvisioningState::PoweringOffBeforeDelete);
    }
    if let Some(step) = plan.held_back(&ErrorType::Provisioning) {
        return step;
    }
    // While it waits for the ramdisk, Ironic rejects changes of the node.
    let may_clean = matches!(verb, Verb::Deleted | Verb::Provide);
    if may_clean
        && node.provision_state != ProvisionState::DeployWait
        && let Some(step) = register::follow_settings(plan, node)
    {
        return step;
    }
    if let Some(step) = maintenance::leave(plan, node) {
        return step;
    }
    plan.mutate(
        Effect::Provision {
            node: node.uuid.clone(),
            request: Box::new(ProvisionRequest::from(verb)),
        },
        wait,
    )
}

#[track_caller]
fn tearing_down(node: &Node) -> Wait {
    Wait::for_node(
        WaitReason::TearingDown,
        format!(
            "Ironic tears down the instance on node {} and cleans its disks",
            node.uuid
        ),
    )
}

fn failed(plan: &mut PlanBuilder<'_>, node: &Node, what: &str) -> Verdict {
    let words = node.last_error.as_deref().unwrap_or("Ironic gives no reason");
    let verdict = plan.failure(&ErrorType::Provisioning, format!("{what}: {words}"));
    if plan.is_deleting() && plan.status.error_count > GIVE_UP_AFTER {
        plan.events.clear();
        plan.event(
            EventReason::ProvisioningError,
            format!(
                "{what} {} times; the host is deleted without it: {words}",
                plan.status.error_count
            ),
        );
        return Verdict::Hold(Step::Move(ProvisioningState::PoweringOffBeforeDelete));
    }
    verdict
}

fn complete(plan: &mut PlanBuilder<'_>) -> Step {
    if reboot::is_served(plan) {
        return Step::Again;
    }
    match data_image::after_use(plan) {
        Step::Continue => {}
        step => return step,
    }
    plan.event(EventReason::DeprovisioningComplete, "Image deprovisioning completed");
    plan.clear_error(OperationalStatus::Ok);
    let provisioning = &mut plan.status.provisioning;
    provisioning.image = None;
    provisioning.custom_deploy = None;
    forget_settings(plan);
    plan.status.error_count = 0;
    Step::Move(if plan.is_deleting() {
        ProvisioningState::PoweringOffBeforeDelete
    } else {
        ProvisioningState::Available
    })
}
