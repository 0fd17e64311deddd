//! Reboot annotations: their combined request, and the record that ensures that each counts once.
//!
//! `reboot.metal3.io` requests one reboot; we remove it once the server is powered off. `reboot.metal3.io/<anything>`
//! keeps the server off until its owner removes it. A server that must never be powered off restarts in one step
//! instead. For such a server the condition [`REBOOTED`] records which annotations were served. The condition is stored
//! before the restart is requested, with the time of the node's record. Ironic changes the record when it accepts a
//! restart, so an operator that restarted in between can tell whether the request was made.

use metal3_api::condition::ConditionStatus;
use metal3_api::metal3::names::annotation;
use metal3_api::metal3::{BareMetalHostStatus, reboot_requests};
use metal3_ironic::{Node, NodeDetail};
use metal3_runtime::conditions::{self, Claim};

use crate::host::annotations;
use crate::host::builder::PlanBuilder;
use crate::host::restarts::REBOOTED;
pub(super) use crate::host::restarts::{Record, Requests, record};

impl Requests {
    /// The requests that count. Without a deployment only those with `force` do.
    pub fn of(plan: &PlanBuilder<'_>, only_forced: bool) -> Self {
        Self::on(&plan.seen.host, only_forced)
    }
}

/// Whether the annotation that we remove requests force.
pub(super) fn is_forced(plan: &PlanBuilder<'_>) -> bool {
    let requests = plan.seen.host.metadata.annotations.as_ref();
    requests
        .into_iter()
        .flat_map(reboot_requests)
        .any(|request| !request.is_held() && request.arguments.is_ok_and(|arguments| arguments.force))
}

/// Whether the annotation that we remove exists, even if its request does not count in this state.
pub(super) fn has_own(plan: &PlanBuilder<'_>) -> bool {
    annotations::value(&plan.seen.host, annotation::REBOOT).is_some()
}

/// The operation that has just started or ended starts the server anyway, so it serves an earlier request for a single
/// reboot.
pub(super) fn is_served(plan: &mut PlanBuilder<'_>) -> bool {
    plan.remove_annotation(annotation::REBOOT)
}

/// Records that a restart for these requests is about to be requested.
pub(super) fn begin(plan: &mut PlanBuilder<'_>, requests: &Requests, detail: &NodeDetail) {
    let message = format!("asked for by {} at {}", requests.marks.join(" "), moment(detail));
    write(plan, ConditionStatus::False, "Rebooting", &message);
}

/// Records that the restart is done.
pub(super) fn complete(plan: &mut PlanBuilder<'_>, requests: &Requests) {
    let message = format!("asked for by {}", requests.marks.join(" "));
    write(plan, ConditionStatus::True, "Rebooted", &message);
}

/// Restores the earlier record after Ironic rejected the restart. Otherwise a node whose record merely changed because
/// of a lock would count as restarting.
pub fn unrecord(status: &mut BareMetalHostStatus, before: Option<&BareMetalHostStatus>) {
    match before.and_then(|before| conditions::get(&before.conditions, REBOOTED)) {
        Some(record) => {
            for present in status.conditions.iter_mut().filter(|c| c.type_ == REBOOTED) {
                present.clone_from(record);
            }
        }
        None => {
            conditions::remove(&mut status.conditions, REBOOTED);
        }
    }
}

/// There are no requests any more.
pub(super) fn forget(plan: &mut PlanBuilder<'_>) {
    conditions::remove(&mut plan.status.conditions, REBOOTED);
}

/// Whether the node's record is still the one from before the restart was to be requested.
pub(super) fn was_not_asked(node: &Node, detail: &NodeDetail, before: &str) -> bool {
    let is_at_rest = node.target_power_state.is_none() && node.reservation.is_none();
    is_at_rest && detail.updated_at.is_some() && moment(detail) == before
}

/// The time of the last change of the node's record, as one word.
fn moment(detail: &NodeDetail) -> &str {
    detail.updated_at.as_deref().unwrap_or("never")
}

fn write(plan: &mut PlanBuilder<'_>, status: ConditionStatus, reason: &str, message: &str) {
    let claim = Claim {
        type_: REBOOTED,
        status,
        reason,
        message,
    };
    let generation = plan.seen.host.metadata.generation;
    conditions::set(&mut plan.status.conditions, &claim, generation, plan.now);
}
