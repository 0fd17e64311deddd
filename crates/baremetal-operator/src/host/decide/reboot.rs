//! Reboot annotations: what they ask for together, and the record that makes one of them count once.
//!
//! `reboot.metal3.io` is one reboot; we remove it when the server was seen off. `reboot.metal3.io/<anything>` keeps the
//! server off until whoever set it removes it. A server that must never be switched off restarts in one go and is not seen
//! off: then the condition [`REBOOTED`] remembers for which annotations that was done. It is stored before the restart
//! is asked for, with the time of the node's record. Ironic changes the record when it accepts a restart, so that an
//! operator that died in between can tell whether it had asked.

use metal3_api::condition::{Condition, ConditionStatus};
use metal3_api::metal3::names::annotation;
use metal3_api::metal3::{BareMetalHostStatus, reboot_requests};
use metal3_ironic::{Node, NodeDetail};
use metal3_runtime::conditions::{self, Claim};

use crate::host::annotations;
use crate::host::builder::PlanBuilder;

/// Our own condition, there only while a server that is never switched off (`spec.disablePowerOff`) has reboot annotations:
/// `False` while the restart is on its way, `True` when it was made.
pub(super) const REBOOTED: &str = "Rebooted";

/// What the annotations ask for together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Requests {
    /// Power is cut without asking the operating system: one that says so is enough.
    pub is_hard: bool,
    /// The one that we remove is among them.
    pub has_own: bool,
    /// The keys of the others, which their owners remove.
    pub held: Vec<String>,
    /// Key and value of each, the value shortened to a number.
    marks: Vec<String>,
}

impl Requests {
    /// The requests that count. Where nothing was deployed only those with `force` do.
    pub fn of(plan: &PlanBuilder<'_>, only_forced: bool) -> Self {
        let mut all = Self::default();
        let Some(annotations) = &plan.seen.host.metadata.annotations else {
            return all;
        };
        for request in reboot_requests(annotations) {
            // One that cannot be read is told elsewhere, and counts as a soft one.
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

    /// Nobody asks for anything.
    pub fn is_empty(&self) -> bool {
        self.marks.is_empty()
    }

    /// The keys of those that others remove, for a message.
    pub fn holders(&self) -> String {
        self.held.join(", ")
    }
}

/// Whether the annotation that we remove asks for force.
pub(super) fn is_forced(plan: &PlanBuilder<'_>) -> bool {
    let requests = plan.seen.host.metadata.annotations.as_ref();
    requests
        .into_iter()
        .flat_map(reboot_requests)
        .any(|request| !request.is_held() && request.arguments.is_ok_and(|arguments| arguments.force))
}

/// The annotation that we remove is there, whether what it asks for counts in this state or not.
pub(super) fn has_own(plan: &PlanBuilder<'_>) -> bool {
    annotations::value(&plan.seen.host, annotation::REBOOT).is_some()
}

/// What has just begun, or just ended, starts the server anyway: a single reboot that was asked for before is served.
pub(super) fn is_served(plan: &mut PlanBuilder<'_>) -> bool {
    plan.remove_annotation(annotation::REBOOT)
}

/// How far the restart for the present requests has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Record {
    /// At least one of them was not seen before.
    New,
    /// It was about to be asked for, on a node with this record.
    Begun(String),
    /// It was made.
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

/// Writes that a restart for these requests is about to be asked for.
pub(super) fn begin(plan: &mut PlanBuilder<'_>, requests: &Requests, detail: &NodeDetail) {
    let message = format!("asked for by {} at {}", requests.marks.join(" "), moment(detail));
    write(plan, ConditionStatus::False, "Rebooting", &message);
}

/// Writes that it was made.
pub(super) fn complete(plan: &mut PlanBuilder<'_>, requests: &Requests) {
    let message = format!("asked for by {}", requests.marks.join(" "));
    write(plan, ConditionStatus::True, "Rebooted", &message);
}

/// Ironic refused the restart that was about to be asked for: the record says again what it said before. A node that was
/// only locked meanwhile has another record too, and would be taken for one that restarts.
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

/// Nobody asks any more.
pub(super) fn forget(plan: &mut PlanBuilder<'_>) {
    conditions::remove(&mut plan.status.conditions, REBOOTED);
}

/// Whether the node's record is still the one that was seen before the restart was to be asked for.
pub(super) fn was_not_asked(node: &Node, detail: &NodeDetail, before: &str) -> bool {
    let is_at_rest = node.target_power_state.is_none() && node.reservation.is_none();
    is_at_rest && detail.updated_at.is_some() && moment(detail) == before
}

/// When the node's record was changed last, as one word.
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

/// FNV-1a: stable across processes, which the standard hashers are not.
fn shortened(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash: u32, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    })
}
