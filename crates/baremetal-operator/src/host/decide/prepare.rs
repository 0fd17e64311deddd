//! Preparing: RAID, BIOS settings and firmware are set up before the host becomes available, by manual cleaning and
//! only if something differs.

use super::firmware::{ABANDON, changes, forget_tried, late, never_seen, record, record_made, report_not_applied};
use super::maintenance;
use super::outage::outage;
use super::register;
use crate::host::builder::{PlanBuilder, Step, Verdict, locked};
use crate::host::decide::common::unexpected;
use crate::host::firmware::{Changes, Kinds};
use crate::host::mark::{self, Progress};
use crate::host::observed::NodeView;
use crate::host::plan::{Effect, EventReason, Read, Wait, WaitReason};
use crate::host::{hints, raid};
use metal3_api::metal3::{ErrorType, OperationalStatus, ProvisioningState, RaidConfig};
use metal3_bmc::BmcAddress;
use metal3_ironic::{Diff, Node, NodeDetail, ProvisionRequest, ProvisionState, Verb};
use serde_json::{Value, json};

/// The work for one manual cleaning.
struct Work {
    raid: raid::Work,
    firmware: Changes,
    /// Names for its parts.
    parts: Vec<(&'static str, String)>,
}

/// Our parts of a node's mark.
const RAID: &str = "raid";
const FIRMWARE: [&str; 2] = ["settings", "firmware"];

impl Work {
    fn request(&self) -> ProvisionRequest {
        ProvisionRequest {
            clean_steps: self.raid.steps.iter().cloned().chain(self.firmware.steps()).collect(),
            ..ProvisionRequest::from(Verb::Clean)
        }
    }
}

pub(super) fn preparing(plan: &mut PlanBuilder<'_>) -> Step {
    if let Some(node) = plan.known() {
        match &node.provision_state {
            ProvisionState::Cleaning => return Step::Wait(cleaning(node)),
            ProvisionState::CleanWait => return clean_wait(plan, node),
            _ => {}
        }
        // Whatever is wanted now, the node has to leave this state.
        if node.provision_state == ProvisionState::CleanFailed {
            return clean_failed(plan);
        }
    }
    let wanted = raid::wanted(plan.spec(), &plan.status);
    let firmware = match changes(plan, Kinds::ALL, false) {
        Ok(firmware) => firmware,
        Err(step) => return step,
    };
    match work(plan, wanted.as_ref(), &firmware) {
        // What was wanted may be taken back while Ironic works on it. The work may even have failed since the last list.
        Ok(None) if plan.is_entered() && matches!(plan.seen.node, NodeView::Listed(_)) => Step::Fetch(Read::LiveNode),
        Ok(None) => match record(plan, &firmware) {
            Ok(()) => prepared(plan, wanted),
            Err(step) => step,
        },
        Ok(Some(work)) => with_node(plan, &work, wanted),
        Err(problem) => plan.refuse(
            ErrorType::Preparation,
            WaitReason::Unsupported,
            EventReason::PreparationError,
            problem,
        ),
    }
}

/// Whether the host should be prepared again.
pub(super) fn is_outdated(plan: &PlanBuilder<'_>) -> Result<bool, Step> {
    let provisioning = &plan.status.provisioning;
    if provisioning.root_device_hints != hints::wanted(plan.spec(), &plan.status) || has_other_raid(plan) {
        return Ok(true);
    }
    let firmware = changes(plan, Kinds::ALL, false)?;
    if firmware.is_empty() {
        return Ok(false);
    }
    // Settings that were sent without effect are not sent forever; the object's controller notices later.
    if let NodeView::Unknown { cause } = &plan.seen.node {
        return Err(Step::Wait(outage(cause.as_ref())));
    }
    let (node, detail) = plan.live()?;
    Ok(match mark::progress(node, detail, &firmware.parts(FIRMWARE)) {
        Progress::Done => false,
        // An error that Ironic tells of since, such as of its look at the power.
        Progress::Failed => !firmware.is_only_told(),
        Progress::NotBegun => true,
    })
}

/// The BMC or the ramdisk works. If it never ends, its user takes the changes back.
fn clean_wait(plan: &mut PlanBuilder<'_>, node: &Node) -> Step {
    match is_abandoned(plan) {
        Ok(true) if node.reservation.is_none() => ask(plan, node, ProvisionRequest::from(Verb::Abort)),
        Ok(_) => Step::Wait(cleaning(node)),
        Err(step) => step,
    }
}

/// Whether nobody wants the settings and updates any more that the node is cleaned for. Volumes are made to the end: half of them
/// would be of no use.
fn is_abandoned(plan: &PlanBuilder<'_>) -> Result<bool, Step> {
    if plan.seen.firmware.may_ask(Kinds::ALL) || has_other_raid(plan) {
        return Ok(false);
    }
    let (node, detail) = plan.live()?;
    // A cleaning that follows a tear-down ends in available.
    if node.target_provision_state.as_deref() != Some("manageable") {
        return Ok(false);
    }
    let is_of_firmware = FIRMWARE.iter().any(|part| mark::has(detail, part)) && !mark::has(detail, RAID);
    Ok(is_of_firmware && !changes(plan, Kinds::ALL, true)?.is_wanted)
}

fn has_other_raid(plan: &PlanBuilder<'_>) -> bool {
    plan.status.provisioning.raid != raid::wanted(plan.spec(), &plan.status)
}

/// The work to do; `None` if there is none.
fn work(plan: &PlanBuilder<'_>, wanted: Option<&RaidConfig>, firmware: &Changes) -> Result<Option<Work>, String> {
    let mut parts = Vec::new();
    let raid = raid_work(plan, wanted)?;
    let raid = raid.map_or_else(raid::Work::default, |(work, name)| {
        parts.push((RAID, name));
        work
    });
    if let Some(problem) = firmware.problem(&plan.seen.settings.denied_url_ranges) {
        return Err(problem);
    }
    parts.extend(firmware.parts(FIRMWARE));
    Ok((!parts.is_empty()).then(|| Work {
        raid,
        firmware: firmware.clone(),
        parts,
    }))
}

fn raid_work(plan: &PlanBuilder<'_>, wanted: Option<&RaidConfig>) -> Result<Option<(raid::Work, String)>, String> {
    let actual = plan.status.provisioning.raid.as_ref();
    let Some(target) = wanted.filter(|wanted| Some(*wanted) != actual) else {
        return Ok(None);
    };
    let hints = hints::wanted(plan.spec(), &plan.status);
    let interface = BmcAddress::parse(&plan.spec().bmc.address).map_or(None, |a| a.access().raid_interface);
    let raid = raid::work(target, actual, hints.as_ref(), interface)?;
    if raid.steps.is_empty() {
        return Ok(None);
    }
    // The same volumes are created again for every new user of the host.
    let history = &plan.status.operation_history;
    let name = mark::name(&json!([
        target,
        actual,
        history.provision.start,
        history.deprovision.end
    ]));
    Ok(Some((raid, name)))
}

fn prepared(plan: &mut PlanBuilder<'_>, raid: Option<RaidConfig>) -> Step {
    plan.status.provisioning.root_device_hints = hints::wanted(plan.spec(), &plan.status);
    plan.status.provisioning.raid = raid;
    if plan.status.error_type == Some(ErrorType::Preparation) {
        plan.clear_error(OperationalStatus::Ok);
    }
    plan.status.error_count = 0;
    Step::Move(ProvisioningState::Available)
}

fn with_node(plan: &mut PlanBuilder<'_>, work: &Work, wanted: Option<RaidConfig>) -> Step {
    if let NodeView::Unknown { cause } = &plan.seen.node {
        return Step::Wait(outage(cause.as_ref()));
    }
    let (node, detail) = match plan.live() {
        Ok(node) => node,
        Err(step) => return step,
    };
    if let Some(holder) = &node.reservation {
        return Step::Wait(locked(node, holder));
    }
    match &node.provision_state {
        ProvisionState::Cleaning | ProvisionState::CleanWait => Step::Wait(cleaning(node)),
        ProvisionState::CleanFailed => clean_failed(plan),
        // If the previous state found the node manageable, it would clean it once more.
        ProvisionState::Available if !plan.is_entered() => Step::Wait(cleaning(node).at_once()),
        ProvisionState::Available => ask(plan, node, ProvisionRequest::from(Verb::Manage)),
        ProvisionState::Manageable => match mark::progress(node, detail, &work.parts) {
            Progress::Done => {
                if !work.firmware.is_told() {
                    report_not_applied(plan, &work.firmware);
                }
                match record(plan, &work.firmware) {
                    Ok(()) => prepared(plan, wanted),
                    Err(step) => step,
                }
            }
            Progress::Failed => failed(plan, node, detail),
            Progress::NotBegun => match record_made(plan, (node, detail), &work.firmware, FIRMWARE) {
                Ok(true) => Step::Again,
                Ok(false) => begin(plan, node, detail, work),
                Err(step) => step,
            },
        },
        other => unexpected(node, other, "manageable, to be prepared"),
    }
}

/// Records the coming work on the node, then gives Ironic the volumes to create, and requests the cleaning.
fn begin(plan: &mut PlanBuilder<'_>, node: &Node, detail: &NodeDetail, work: &Work) -> Step {
    if let Some(step) = plan.held_back(&ErrorType::Preparation) {
        return step;
    }
    if let Some(step) = register::follow_settings(plan, node) {
        return step;
    }
    if let Some(step) = maintenance::leave(plan, node) {
        return step;
    }
    // It is not there any more when the work is over, even if the object is edited back meanwhile.
    if work.firmware.has_updates() {
        match forget_tried(plan) {
            Ok(false) => {}
            Ok(true) => return Step::Again,
            Err(step) => return step,
        }
    }
    let mut diff = Diff::default();
    mark::set(&mut diff, node, detail, &work.parts);
    if !work.raid.steps.is_empty() {
        diff.set(
            "",
            "raid_interface",
            Some(work.raid.interface.into()),
            detail.raid_interface.clone().map(Value::from).as_ref(),
        );
    }
    if !diff.is_empty() {
        return plan.mutate_and_go_on(Effect::PatchNode {
            node: node.uuid.clone(),
            ops: diff.into_ops(),
        });
    }
    let disks = &work.raid.logical_disks;
    if !disks.is_empty() && detail.target_raid_config.get("logical_disks") != Some(&json!(disks)) {
        return plan.mutate_and_go_on(Effect::SetTargetRaid {
            node: node.uuid.clone(),
            logical_disks: disks.clone(),
        });
    }
    if !plan.is_entered() {
        return Step::Wait(cleaning(node).at_once());
    }
    ask(plan, node, work.request())
}

fn ask(plan: &mut PlanBuilder<'_>, node: &Node, request: ProvisionRequest) -> Step {
    plan.mutate(
        Effect::Provision {
            node: node.uuid.clone(),
            request: Box::new(request),
        },
        cleaning(node),
    )
}

fn clean_failed(plan: &mut PlanBuilder<'_>) -> Step {
    let (node, detail) = match plan.live() {
        Ok(node) => node,
        Err(step) => return step,
    };
    if let Some(holder) = &node.reservation {
        return Step::Wait(locked(node, holder));
    }
    failed(plan, node, detail)
}

/// Ironic may have completed any part of it, so it is repeated after a delay.
fn failed(plan: &mut PlanBuilder<'_>, node: &Node, detail: &NodeDetail) -> Step {
    let is_new = plan.status.error_type != Some(ErrorType::Preparation);
    if is_new
        && mark::has(detail, FIRMWARE[1])
        && let Err(step) = forget_tried(plan)
    {
        return step;
    }
    let words = node.last_error.as_deref().unwrap_or("Ironic gives no reason");
    let left = match late(plan, words) {
        Ok(changes) => never_seen(words, &changes),
        Err(step) => return step,
    };
    let is_of_firmware = FIRMWARE.iter().any(|part| mark::has(detail, part));
    let hint = if is_of_firmware {
        format!("; to abandon the change, {ABANDON}")
    } else {
        String::new()
    };
    match plan.failure(
        &ErrorType::Preparation,
        format!("Preparing the host failed: {words}{left}{hint}"),
    ) {
        Verdict::Hold(step) => {
            // Wanted volumes may exist or not. Volumes to delete still have to be deleted.
            let has_volumes = plan.spec().raid.as_ref().is_some_and(|raid| {
                let hardware = raid.hardware_raid_volumes.as_ref().is_some_and(|v| !v.is_empty());
                hardware || raid.software_raid_volumes.as_ref().is_some_and(|v| !v.is_empty())
            });
            if has_volumes && has_other_raid(plan) {
                plan.status.provisioning.raid = None;
            }
            step
        }
        Verdict::Retry => {
            let ops = mark::removal(detail);
            if !ops.is_empty() {
                return plan.mutate_and_go_on(Effect::PatchNode {
                    node: node.uuid.clone(),
                    ops,
                });
            }
            if let Some(step) = maintenance::leave(plan, node) {
                return step;
            }
            ask(plan, node, ProvisionRequest::from(Verb::Manage))
        }
    }
}

#[track_caller]
fn cleaning(node: &Node) -> Wait {
    Wait::for_node(
        WaitReason::Preparing,
        format!("Ironic sets up node {} by manual cleaning", node.uuid),
    )
}
