//! Servicing: settings and firmware of a host that is in use, changed at its next start where its HostUpdatePolicy allows it.

use super::firmware::changes;
use super::maintenance;
use super::outage::outage;
use super::reboot::{self, Record, Requests};
use super::register;
use crate::host::builder::{PlanBuilder, Step, Verdict, locked};
use crate::host::decide::common::is_powered_on;
use crate::host::decide::common::unexpected;
use crate::host::firmware::Changes;
use crate::host::mark::{self, Progress};
use crate::host::observed::NodeView;
use crate::host::plan::{Effect, EventReason, Wait, WaitReason};
use metal3_api::metal3::{ErrorType, OperationalStatus};
use metal3_ironic::{Diff, Node, NodeDetail, ProvisionRequest, ProvisionState, Verb};

/// The part of a node's mark that is ours.
const PART: &str = "service";

/// What goes on, or was announced, is brought to its end before anything else. `Continue` where there is nothing, or where
/// somebody else has the node serviced.
pub(super) fn under_way(draft: &mut PlanBuilder<'_>) -> Step {
    if is_announced(draft) {
        return serve(draft);
    }
    let is_busy = draft.known().is_some_and(|node| {
        matches!(
            node.provision_state,
            ProvisionState::Servicing
                | ProvisionState::ServiceWait
                | ProvisionState::ServiceFailed
                | ProvisionState::ServiceHold
        )
    });
    if !is_busy || draft.seen.outage.is_some() {
        return Step::Continue;
    }
    match draft.live() {
        Ok((_, detail)) if mark::has(detail, PART) => serve(draft),
        Ok(_) => Step::Continue,
        Err(step) => step,
    }
}

fn is_announced(draft: &PlanBuilder<'_>) -> bool {
    draft.status.operational_status == OperationalStatus::Servicing
        || draft.status.error_type == Some(ErrorType::Servicing)
}

/// The host is about to start, from off or, where it is never switched off, by a restart: the moment for changes. `Continue`
/// where there are none.
pub(super) fn before_start(draft: &mut PlanBuilder<'_>) -> Step {
    if draft.seen.firmware.may_ask(draft.seen.firmware.on_reboot) {
        serve(draft)
    } else {
        Step::Continue
    }
}

fn serve(draft: &mut PlanBuilder<'_>) -> Step {
    if let Some(node) = draft.known()
        && node.provision_state == ProvisionState::Servicing
    {
        announce(draft);
        return Step::Wait(servicing(node));
    }
    // A service that waits, or failed, is judged by what is wanted and not by what is left to do.
    let is_at_rest = draft
        .known()
        .is_none_or(|n| n.provision_state == ProvisionState::Active);
    let changes = match changes(draft, draft.seen.firmware.on_reboot, !is_at_rest) {
        Ok(changes) => changes,
        Err(step) => return step,
    };
    if changes.is_empty() && !is_announced(draft) && is_at_rest {
        return Step::Continue;
    }
    if let NodeView::Unknown { cause } = &draft.seen.node {
        return Step::Wait(outage(cause.as_ref()));
    }
    let (node, detail) = match draft.live() {
        Ok(node) => node,
        Err(step) => return step,
    };
    if let Some(holder) = &node.reservation {
        return Step::Wait(locked(node, holder));
    }
    match &node.provision_state {
        // Nothing is wanted any more.
        ProvisionState::ServiceWait if !changes.is_wanted => ask(draft, node, ProvisionRequest::from(Verb::Abort)),
        ProvisionState::Servicing | ProvisionState::ServiceWait => {
            announce(draft);
            Step::Wait(servicing(node))
        }
        ProvisionState::ServiceFailed => failed(draft, node, detail, &changes),
        ProvisionState::Active if changes.is_empty() => finished(draft, &changes),
        ProvisionState::Active => match mark::progress(node, detail, &[(PART, changes.name())]) {
            Progress::Done => finished(draft, &changes),
            Progress::Failed => failed(draft, node, detail, &changes),
            // Switched on meanwhile, the host waits for its next start.
            Progress::NotBegun if is_powered_on(node) == Some(true) && wanted_restart(draft).is_none() => leave(draft),
            Progress::NotBegun => begin(draft, node, detail, &changes),
        },
        other => unexpected(node, other, "active, to be serviced"),
    }
}

fn begin(draft: &mut PlanBuilder<'_>, node: &Node, detail: &NodeDetail, changes: &Changes) -> Step {
    if let Some(problem) = changes.problem(&draft.seen.settings.denied_url_ranges) {
        return draft.refuse(
            ErrorType::Servicing,
            WaitReason::Unsupported,
            EventReason::ServicingError,
            problem,
        );
    }
    if let Some(step) = draft.held_back(&ErrorType::Servicing) {
        return step;
    }
    let is_stored = draft.seen.host.status.as_ref().is_some_and(|stored| {
        stored.operational_status == OperationalStatus::Servicing || stored.error_type == Some(ErrorType::Servicing)
    });
    if !is_stored {
        announce(draft);
        return Step::Wait(servicing(node).at_once());
    }
    if let Some(step) = register::follow_settings(draft, node) {
        return step;
    }
    if let Some(step) = maintenance::leave(draft, node) {
        return step;
    }
    let mut diff = Diff::default();
    mark::set(&mut diff, node, detail, &[(PART, changes.name())]);
    if !diff.is_empty() {
        return draft.mutate_and_go_on(Effect::PatchNode {
            node: node.uuid.clone(),
            ops: diff.into_ops(),
        });
    }
    let request = ProvisionRequest {
        service_steps: changes.steps(),
        ..ProvisionRequest::from(Verb::Service)
    };
    ask(draft, node, request)
}

/// Tried again in a while; given up at once where nothing is wanted any more. Ironic refuses both in maintenance, into which
/// a failed step puts the node.
fn failed(draft: &mut PlanBuilder<'_>, node: &Node, detail: &NodeDetail, changes: &Changes) -> Step {
    if !changes.is_empty() {
        let words = node.last_error.as_deref().unwrap_or("Ironic gives no reason");
        return match draft.failure(&ErrorType::Servicing, format!("Servicing failed: {words}")) {
            Verdict::Hold(step) => step,
            Verdict::Retry => begin(draft, node, detail, changes),
        };
    }
    if let Some(step) = maintenance::leave(draft, node) {
        return step;
    }
    ask(draft, node, ProvisionRequest::from(Verb::Abort))
}

fn ask(draft: &mut PlanBuilder<'_>, node: &Node, request: ProvisionRequest) -> Step {
    let step = draft.mutate(
        Effect::Provision {
            node: node.uuid.clone(),
            request: Box::new(request),
        },
        servicing(node),
    );
    announce(draft);
    step
}

/// Shown for as long as it goes on; an error hides it.
fn announce(draft: &mut PlanBuilder<'_>) {
    if draft.status.error_type.is_none() {
        draft.status.operational_status = OperationalStatus::Servicing;
    }
}

/// The host goes on as before. What was written is recorded now and not when it was begun: a host that is taken down in the
/// middle has its changes still before it.
fn finished(draft: &mut PlanBuilder<'_>, changes: &Changes) -> Step {
    let record = Effect::RecordFirmware(changes.applied.clone());
    if changes.has_updates() && !draft.effects.contains(&record) {
        draft.effects.push(record);
    }
    // It has restarted by this.
    if let Some(requests) = wanted_restart(draft) {
        reboot::complete(draft, &requests);
    }
    leave(draft)
}

/// What asks for a restart that is still to be made, of a host that is never switched off.
fn wanted_restart(draft: &PlanBuilder<'_>) -> Option<Requests> {
    let requests = Requests::of(draft, false);
    let is_wanted = draft.spec().disable_power_off && !requests.is_empty();
    (is_wanted && reboot::record(&draft.status, &requests) == Record::New).then_some(requests)
}

fn leave(draft: &mut PlanBuilder<'_>) -> Step {
    if draft.status.error_type.is_none() || draft.status.error_type == Some(ErrorType::Servicing) {
        draft.clear_error(OperationalStatus::Ok);
        draft.status.error_count = 0;
    }
    Step::Continue
}

fn servicing(node: &Node) -> Wait {
    Wait::for_node(
        WaitReason::Servicing,
        format!(
            "Ironic changes settings or firmware of node {} while its system is down",
            node.uuid
        ),
    )
}
