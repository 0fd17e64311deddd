//! Servicing: settings and firmware of a host in use, changed at its next start if its HostUpdatePolicy allows it.

use super::data_image;
use super::firmware::{ABANDON, changes, forget_tried, never_seen, on_reboot, record, record_made, report_not_applied};
use super::maintenance;
use super::outage::outage;
use super::reboot::{self, Record, Requests};
use super::register;
use crate::host::builder::{PlanBuilder, Step, Verdict, locked};
use crate::host::decide::common::is_powered_on;
use crate::host::decide::common::unexpected;
use crate::host::firmware::{Changes, Kinds};
use crate::host::mark::{self, Progress};
use crate::host::observed::NodeView;
use crate::host::plan::{Effect, EventReason, Wait, WaitReason};
use metal3_api::metal3::{ErrorType, OperationalStatus};
use metal3_ironic::{Diff, Node, NodeDetail, ProvisionRequest, ProvisionState, Verb};

/// Our parts of a node's mark.
const PARTS: [&str; 2] = ["service", "service firmware"];

/// Why a host starts with pending changes.
const NOT_SERVICED: &str = "pending settings and firmware are not changed at this start, but when the host is prepared after \
    spec.externallyProvisioned is removed: only an active node can be serviced, and node";

/// Completes a servicing that is in progress or announced before anything else. Returns `Continue` if there is none, or
/// if another client services the node.
pub(super) fn under_way(plan: &mut PlanBuilder<'_>) -> Step {
    if is_announced(plan) {
        return serve(plan);
    }
    let is_busy = plan.known().is_some_and(|node| {
        matches!(
            node.provision_state,
            ProvisionState::Servicing
                | ProvisionState::ServiceWait
                | ProvisionState::ServiceFailed
                | ProvisionState::ServiceHold
        )
    });
    if !is_busy || plan.seen.outage.is_some() {
        return Step::Continue;
    }
    match plan.live() {
        Ok((_, detail)) if PARTS.iter().any(|part| mark::has(detail, part)) => serve(plan),
        Ok(_) => Step::Continue,
        Err(step) => step,
    }
}

/// What a user does about a servicing that does not end.
pub(super) const INTERRUPT: &str = "take onReboot out of the HostUpdatePolicy, or empty spec.settings and spec.updates of the \
    firmware objects";

/// Whether the servicing that is under way is ours.
pub(super) fn is_ours(plan: &PlanBuilder<'_>) -> Result<bool, Step> {
    let (_, detail) = plan.live()?;
    Ok(PARTS.iter().any(|part| mark::has(detail, part)))
}

/// Whether nobody wants the changes any more for which a servicing is under way.
pub(super) fn is_abandoned(plan: &PlanBuilder<'_>) -> Result<bool, Step> {
    Ok(!changes(plan, on_reboot(plan)?, true)?.is_wanted)
}

fn is_announced(plan: &PlanBuilder<'_>) -> bool {
    plan.status.operational_status == OperationalStatus::Servicing
        || plan.status.error_type == Some(ErrorType::Servicing)
}

/// The host is about to start, from off or, if it is never powered off, by a restart: the moment for changes. Returns
/// `Continue` if there are none.
pub(super) fn before_start(plan: &mut PlanBuilder<'_>) -> Step {
    let firmware = &plan.seen.firmware;
    if !firmware.may_ask(firmware.on_reboot.unwrap_or(Kinds::ALL)) {
        return Step::Continue;
    }
    // An externally provisioned host may be available in Ironic, which services active nodes only.
    if let Some(node) = plan.known()
        && node.provision_state == ProvisionState::Available
    {
        if firmware.on_reboot.is_some() && firmware.is_known() {
            let id = &node.uuid;
            plan.event(
                EventReason::ServicingSkipped,
                format!("{NOT_SERVICED} {id} is available in Ironic"),
            );
        }
        return Step::Continue;
    }
    serve(plan)
}

fn serve(plan: &mut PlanBuilder<'_>) -> Step {
    if let Some(node) = plan.known()
        && is_at_work(node)
    {
        announce(plan);
        return Step::Wait(servicing(node));
    }
    // A servicing that waits or has failed is judged by the wanted changes, not by the remaining ones.
    let is_at_rest = plan.known().is_none_or(|n| n.provision_state == ProvisionState::Active);
    let changes = match on_reboot(plan).and_then(|kinds| changes(plan, kinds, !is_at_rest)) {
        Ok(changes) => changes,
        Err(step) => return step,
    };
    if changes.is_empty() && !is_announced(plan) && is_at_rest {
        return Step::Continue;
    }
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
        // No changes are wanted any more.
        ProvisionState::ServiceWait if !changes.is_wanted => give_up(plan, node, giving_up(node)),
        ProvisionState::Servicing | ProvisionState::ServiceWait => {
            announce(plan);
            Step::Wait(servicing(node))
        }
        ProvisionState::ServiceFailed => failed(plan, node, detail, &changes),
        // Nothing is left: it was made, or taken out of the specs before it began.
        ProvisionState::Active if changes.is_empty() => {
            // What failed is not made, should it be wanted again: its policy may come back.
            if node.last_error.is_some()
                && let Some(step) = forget_mark(plan, node, detail)
            {
                return step;
            }
            finished(plan, &changes, was_tried(node, detail))
        }
        ProvisionState::Active => match mark::progress(node, detail, &changes.parts(PARTS)) {
            Progress::Done => done(plan, node, detail, &changes),
            // An error that Ironic tells of since, such as of a start of the server.
            Progress::Failed if !is_announced(plan) && changes.is_only_told() => done(plan, node, detail, &changes),
            Progress::Failed => failed(plan, node, detail, &changes),
            Progress::NotBegun => match record_made(plan, (node, detail), &changes, PARTS) {
                Err(step) => step,
                Ok(true) => Step::Again,
                // If it was powered on in the meantime, the host waits for its next start.
                Ok(false) if is_powered_on(node) == Some(true) && wanted_restart(plan).is_none() => leave(plan),
                Ok(false) => begin(plan, node, detail, &changes),
            },
        },
        other => unexpected(node, other, "active, to be serviced"),
    }
}

/// Whether Ironic services the node itself at this moment. It locks a node that waits for its BMC again and again, to look
/// how far the BMC is.
fn is_at_work(node: &Node) -> bool {
    match node.provision_state {
        ProvisionState::Servicing => true,
        ProvisionState::ServiceWait => node.reservation.is_some(),
        _ => false,
    }
}

fn begin(plan: &mut PlanBuilder<'_>, node: &Node, detail: &NodeDetail, changes: &Changes) -> Step {
    // An earlier servicing would count as this one, with its restart, once the change is taken out.
    if wanted_restart(plan).is_some() && was_tried(node, detail) {
        renew_budget(plan, detail, &changes.parts(PARTS));
        if let Some(step) = forget_mark(plan, node, detail) {
            return step;
        }
    }
    if let Some(problem) = changes.problem(&plan.seen.settings.denied_url_ranges) {
        return plan.refuse(
            ErrorType::Servicing,
            WaitReason::Unsupported,
            EventReason::ServicingError,
            problem,
        );
    }
    if let Some(step) = plan.held_back(&ErrorType::Servicing) {
        return step;
    }
    let is_stored = plan.seen.host.status.as_ref().is_some_and(|stored| {
        stored.operational_status == OperationalStatus::Servicing || stored.error_type == Some(ErrorType::Servicing)
    });
    if !is_stored {
        // The error of another operation, such as a failed power-on, would hide the announcement: this is the next attempt.
        plan.clear_error(OperationalStatus::Servicing);
        return Step::Wait(servicing(node).at_once());
    }
    if let Some(step) = register::follow_settings(plan, node) {
        return step;
    }
    if let Some(step) = maintenance::leave(plan, node) {
        return step;
    }
    // It is not there any more when the work is over, even if the object is edited back meanwhile.
    if changes.has_updates() {
        match forget_tried(plan) {
            Ok(false) => {}
            Ok(true) => return Step::Again,
            Err(step) => return step,
        }
    }
    if let Some(step) = leave_mark(plan, node, detail, changes) {
        return step;
    }
    // A failed servicing has the disc ejected. After the mark: Ironic forgets with the disc that it failed.
    match data_image::before_start(plan) {
        Step::Continue => {}
        step => return step,
    }
    let request = ProvisionRequest {
        service_steps: changes.steps(),
        ..ProvisionRequest::from(Verb::Service)
    };
    ask(plan, node, request, servicing(node))
}

/// Records the coming work on the node; `None` if that is done.
fn leave_mark(plan: &mut PlanBuilder<'_>, node: &Node, detail: &NodeDetail, changes: &Changes) -> Option<Step> {
    let parts = changes.parts(PARTS);
    let mut diff = Diff::default();
    mark::set(&mut diff, node, detail, &parts);
    if diff.is_empty() {
        return None;
    }
    renew_budget(plan, detail, &parts);
    Some(plan.mutate_and_go_on(Effect::PatchNode {
        node: node.uuid.clone(),
        ops: diff.into_ops(),
    }))
}

/// What a user has corrected has a budget of its own.
fn renew_budget(plan: &mut PlanBuilder<'_>, detail: &NodeDetail, parts: &mark::Parts) {
    if mark::differs(detail, parts, &PARTS) {
        plan.restart_budget();
    }
}

/// Retries after a delay; gives up immediately if no changes are wanted any more. Ironic rejects both in maintenance,
/// which a failed step sets on the node.
fn failed(plan: &mut PlanBuilder<'_>, node: &Node, detail: &NodeDetail, changes: &Changes) -> Step {
    let is_new = plan.status.error_type != Some(ErrorType::Servicing);
    if is_new && mark::has(detail, PARTS[1]) {
        match forget_tried(plan) {
            // Edited back before the failure was seen: the version before is not known to be there.
            Ok(true) if changes.is_empty() => return Step::Again,
            Ok(_) => {}
            Err(step) => return step,
        }
    }
    if !changes.is_empty() {
        let words = node.last_error.as_deref().unwrap_or("Ironic gives no reason");
        let left = never_seen(words, changes);
        let message = format!("Servicing failed: {words}{left}; to abandon the change, {ABANDON}");
        return match plan.failure(&ErrorType::Servicing, message) {
            Verdict::Hold(step) => step,
            Verdict::Retry => begin(plan, node, detail, changes),
        };
    }
    if let Some(step) = maintenance::leave(plan, node) {
        return step;
    }
    give_up(plan, node, servicing(node))
}

fn give_up(plan: &mut PlanBuilder<'_>, node: &Node, wait: Wait) -> Step {
    let request = ProvisionRequest::from(Verb::Abort);
    ask(plan, node, request, wait)
}

/// A servicing is over, and what it has set still differs: the BMC did not apply it. A restart that a user asks for later tries it
/// again, and nothing else does, or the host would be restarted for ever.
fn done(plan: &mut PlanBuilder<'_>, node: &Node, detail: &NodeDetail, changes: &Changes) -> Step {
    let is_new = is_announced(plan);
    if !is_new
        && changes.differences().is_some()
        && wanted_restart(plan).is_some()
        && let Some(step) = forget_mark(plan, node, detail)
    {
        return step;
    }
    if is_new || !changes.is_told() {
        report_not_applied(plan, changes);
    }
    finished(plan, changes, is_new)
}

/// A user has the host stopped: settings that its BMC did not apply are tried again at the next start. A server that stops by itself
/// is only started.
pub(super) fn before_stop(plan: &mut PlanBuilder<'_>, node: &Node, detail: &NodeDetail) -> Option<Step> {
    let settings = Kinds {
        settings: true,
        updates: false,
    };
    let is_left = plan.seen.firmware.may_ask(settings) && mark::was_tried(node, detail, PARTS[0]);
    is_left.then(|| forget_mark(plan, node, detail)).flatten()
}

/// Whether the last work that was recorded on the node was a servicing, and begun.
fn was_tried(node: &Node, detail: &NodeDetail) -> bool {
    PARTS.iter().any(|part| mark::was_tried(node, detail, part))
}

/// Removes the mark of the last work from the node, if there is one.
fn forget_mark(plan: &mut PlanBuilder<'_>, node: &Node, detail: &NodeDetail) -> Option<Step> {
    let ops = mark::removal(detail);
    (!ops.is_empty()).then(|| {
        plan.mutate_and_go_on(Effect::PatchNode {
            node: node.uuid.clone(),
            ops,
        })
    })
}

fn ask(plan: &mut PlanBuilder<'_>, node: &Node, request: ProvisionRequest, wait: Wait) -> Step {
    let step = plan.mutate(
        Effect::Provision {
            node: node.uuid.clone(),
            request: Box::new(request),
        },
        wait,
    );
    announce(plan);
    step
}

/// Shown for as long as it lasts; an error hides it.
fn announce(plan: &mut PlanBuilder<'_>) {
    if plan.status.error_type.is_none() {
        plan.status.operational_status = OperationalStatus::Servicing;
    }
}

/// The host continues as before. The changes are recorded now and not at the start: a host that is interrupted midway
/// still needs them.
fn finished(plan: &mut PlanBuilder<'_>, changes: &Changes, is_made: bool) -> Step {
    if let Err(step) = record(plan, changes) {
        return step;
    }
    // A servicing includes the restart.
    if is_made && let Some(requests) = wanted_restart(plan) {
        reboot::complete(plan, &requests);
    }
    leave(plan)
}

/// The pending restart requests of a host that is never powered off.
fn wanted_restart(plan: &PlanBuilder<'_>) -> Option<Requests> {
    let requests = Requests::of(plan, false);
    let is_wanted = plan.spec().disable_power_off && !requests.is_empty();
    (is_wanted && reboot::record(&plan.status, &requests) == Record::New).then_some(requests)
}

fn leave(plan: &mut PlanBuilder<'_>) -> Step {
    if plan.status.error_type.is_none() || plan.status.error_type == Some(ErrorType::Servicing) {
        plan.clear_error(OperationalStatus::Ok);
        plan.status.error_count = 0;
    }
    Step::Continue
}

#[track_caller]
fn giving_up(node: &Node) -> Wait {
    Wait::for_node(
        WaitReason::Servicing,
        format!(
            "no change is wanted any more: Ironic ends the servicing of node {} once the current step has finished",
            node.uuid
        ),
    )
}

#[track_caller]
fn servicing(node: &Node) -> Wait {
    Wait::for_node(
        WaitReason::Servicing,
        format!(
            "Ironic changes settings or firmware of node {} while its system is down",
            node.uuid
        ),
    )
}
