//! Reboot annotations: their combined request, and the record that ensures that each counts once.
//!
//! `reboot.metal3.io` requests one reboot; we remove it once the server is powered off. `reboot.metal3.io/<anything>`
//! keeps the server off until its owner removes it. A server that must never be powered off restarts in one step
//! instead. For such a server the condition [`REBOOTED`] records which annotations were served. The condition is stored
//! before the restart is requested, with the time of the node's record. Ironic changes the record when it accepts a
//! restart, so an operator that restarted in between can tell whether the request was made.

use metal3_api::condition::{Condition, ConditionStatus};
use metal3_api::metal3::names::annotation;
use metal3_api::metal3::{BareMetalHostStatus, reboot_requests};
use metal3_ironic::{Node, NodeDetail};
use metal3_runtime::conditions::{self, Claim};

use crate::host::annotations;
use crate::host::builder::PlanBuilder;

/// Our own condition. It exists only while a server that is never powered off (`spec.disablePowerOff`) has reboot
/// annotations: `False` while the restart is pending, `True` when it is done.
pub(super) const REBOOTED: &str = "Rebooted";

/// The combined request of the annotations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Requests {
    /// Power is cut without asking the operating system; one annotation that requests it is enough.
    pub is_hard: bool,
    /// Whether the annotation that we remove is among them.
    pub has_own: bool,
    /// The keys of the other annotations, which their owners remove.
    pub held: Vec<String>,
    /// Key and value of each, the value shortened to a number.
    marks: Vec<String>,
}

impl Requests {
    /// The requests that count. Without a deployment only those with `force` do.
    pub fn of(plan: &PlanBuilder<'_>, only_forced: bool) -> Self {
        let mut all = Self::default();
        let Some(annotations) = &plan.seen.host.metadata.annotations else {
            return all;
        };
        for request in reboot_requests(annotations) {
            // An unreadable one is reported elsewhere, and counts as a soft request.
            let is_held = request.is_held();
            let key = request.key.to_owned();
            let arguments = request.arguments.unwrap_or_default();
            if only_forced && !arguments.force {
                continue;
            }
            all.is_hard |= arguments.is_hard();
            let value = annotations.get(&key).map_or("", String::as_str);
            all.marks.push(format!("{key}#{:08x}", shortened(value)));
            if is_held {
                all.held.push(key);
            } else {
                all.has_own = true;
            }
        }
        all
    }

    /// Whether there are no requests.
    pub fn is_empty(&self) -> bool {
        self.marks.is_empty()
    }

    /// The keys of the annotations that others remove, for a message.
    pub fn holders(&self) -> String {
        self.held.join(", ")
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

/// The progress of the restart for the current requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Record {
    /// At least one request was not seen before.
    New,
    /// The restart was about to be requested, on a node with this record.
    Begun(String),
    /// The restart is done.
    Done,
}

/// Reads the record.
pub(super) fn record(status: &BareMetalHostStatus, requests: &Requests) -> Record {
    let Some(Condition { status, message, .. }) = conditions::get(&status.conditions, REBOOTED) else {
        return Record::New;
    };
    let known: Vec<&str> = message.split_whitespace().collect();
    if requests.marks.iter().any(|mark| !known.contains(&mark.as_str())) {
        return Record::New;
    }
    if *status == ConditionStatus::True {
        return Record::Done;
    }
    Record::Begun(known.last().map(|at| (*at).to_owned()).unwrap_or_default())
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

/// FNV-1a: stable across processes, unlike the standard hashers.
fn shortened(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash: u32, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    })
}
