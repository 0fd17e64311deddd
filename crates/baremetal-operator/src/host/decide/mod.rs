//! The decision: from what was seen of a host to what is done next. Pure: no client, no clock, no randomness.
//!
//! The order of the questions is the order of the lines in [`decide`]: pause and finalizer, the status that a moved host
//! brings along, the start of a deletion, detachment, registration, and only then the state itself. Several states can be passed through in one decision as long as
//! nothing has to be waited for.

mod attempt;
mod available;
mod common;
mod data_image;
mod delete;
mod deprovision;
mod detach;
mod details;
mod firmware;
mod held;
mod inspect;
mod limits;
mod maintenance;
mod network_data;
mod outage;
mod ports;
mod power;
mod prepare;
mod proof;
mod provision;
mod provisioned;
mod ramdisk;
mod reboot;
mod register;
mod registering;
mod restore;
mod service;

pub use self::limits::{is_exempt, takes_slot};
pub(super) use self::outage::outage;
pub use self::reboot::unrecord as unrecord_restart;
pub(super) use self::restore::is_pending as awaits_status;

use jiff::Timestamp;
use metal3_api::capi::names::annotation::DELETE_FOR_MOVE;
use metal3_api::metal3::{BareMetalHost, BareMetalHostStatus, ErrorType, OperationalStatus, ProvisioningState, names};

use super::annotations;
use super::draft::{Draft, Step};
use super::observed::Observed;
use super::plan::{Decision, Effect, EventReason, Next, Note, Plan, Wait, WaitReason, Wake};
use super::{budget, conditions};
use crate::host::detach_error::write_detach_error;
use crate::host::plan::Aftermath;

/// Shorter waits for a lock are not told.
const WORTH_TELLING: jiff::SignedDuration = jiff::SignedDuration::from_secs(5);

/// More state changes than any legal path has: a guard against a circle in the table of states.
const LONGEST_PATH: usize = 16;

/// Decides what happens next with one host. No node is changed that is not proven to be its own.
pub fn decide(seen: &Observed, now: Timestamp) -> Decision {
    let decision = decide_on_trust(seen, now);
    proof::judge(seen, now, decision)
}

fn decide_on_trust(seen: &Observed, now: Timestamp) -> Decision {
    if is_paused(&seen.host) {
        return Decision::Act(Box::new(untouched(seen)));
    }
    let mut draft = Draft::new(seen, now);
    let is_deleted = seen.host.metadata.deletion_timestamp.is_some();
    if is_deleted && !has_finalizer(&seen.host) {
        return Decision::Act(Box::new(Plan {
            next: Next::Gone,
            ..untouched(seen)
        }));
    }
    if !is_deleted && !has_finalizer(&seen.host) {
        // Before anything exists that the finalizer has to clean up.
        let secrets = super::held::all(&seen.host);
        draft.effects.push(Effect::AddFinalizer { secrets });
    }
    for _ in 0..LONGEST_PATH {
        match step(&mut draft) {
            Step::Look(need) => return Decision::Look(need),
            Step::Move(next) => match draft.before_entry(&next) {
                None => draft.enter(next),
                Some(Step::Look(need)) => return Decision::Look(need),
                Some(Step::Wait(wait)) => return act(draft, Next::Wait(wait)),
                Some(_) => return act(draft, Next::Again),
            },
            Step::Continue | Step::Rest => {
                let next = register::wait_for_name(&draft).map_or(Next::Settled, Next::Wait);
                return act(draft, next);
            }
            Step::Again => return act(draft, Next::Again),
            Step::Wait(wait) => return act(draft, Next::Wait(wait)),
            Step::Gone => return act(draft, Next::Gone),
        }
    }
    let state = draft.state().clone();
    act(
        draft,
        Next::Wait(Wait::for_change(
            WaitReason::UnexpectedNodeState,
            format!(
                "the operator went in a circle from state {:?}; this is a fault of the operator",
                state.as_str()
            ),
        )),
    )
}

/// One question after another; the first answer counts.
fn step(draft: &mut Draft<'_>) -> Step {
    match restore::restore(draft) {
        Step::Continue => {}
        answer => return answer,
    }
    if draft.is_deleting()
        && let Some(next) = delete::start(draft)
    {
        return Step::Move(next);
    }
    if delete::is_of_another(draft) {
        return Step::Move(ProvisioningState::Deleting);
    }
    match detach::detach(draft) {
        Step::Continue => {}
        answer => return answer,
    }
    match details::import(draft) {
        Step::Continue => {}
        answer => return answer,
    }
    match details::follow(draft) {
        Step::Continue => {}
        answer => return answer,
    }
    match register::ensure_registered(draft) {
        Step::Continue => {}
        answer => return answer,
    }
    draft.remember();
    match draft.state().clone() {
        ProvisioningState::None => new(draft),
        ProvisioningState::Unmanaged => unmanaged(draft),
        ProvisioningState::Registering => registering::registering(draft),
        ProvisioningState::MatchProfile => Step::Move(ProvisioningState::Preparing),
        ProvisioningState::Inspecting => inspect::inspecting(draft),
        ProvisioningState::Preparing => prepare::preparing(draft),
        ProvisioningState::Ready | ProvisioningState::Available => available::available(draft),
        ProvisioningState::Provisioning => provision::provisioning(draft),
        ProvisioningState::Provisioned | ProvisioningState::ExternallyProvisioned => provisioned::provisioned(draft),
        ProvisioningState::Deprovisioning => deprovision::deprovisioning(draft),
        ProvisioningState::PoweringOffBeforeDelete => delete::powering_off(draft),
        ProvisioningState::Deleting => delete::deleting(draft),
        ProvisioningState::Other(text) => Step::Wait(Wait::for_change(
            WaitReason::UnexpectedNodeState,
            format!(
                "status.provisioning.state is {text:?}, which this operator does not know; \
                 it was probably written by a newer one"
            ),
        )),
    }
}

fn new(draft: &mut Draft<'_>) -> Step {
    if draft.spec().has_bmc_details() {
        return Step::Move(ProvisioningState::Registering);
    }
    draft.clear_error(OperationalStatus::Discovered);
    draft.note(
        EventReason::Discovered,
        "Discovered host with no BMC details; set spec.bmc to have it managed",
    );
    Step::Move(ProvisioningState::Unmanaged)
}

fn unmanaged(draft: &mut Draft<'_>) -> Step {
    if draft.spec().has_bmc_details() {
        Step::Move(ProvisioningState::Registering)
    } else {
        Step::Rest
    }
}

/// Somebody has paused the host; or `clusterctl move` takes it away after it has copied it to another cluster. clusterctl
/// puts its own annotation in the place of all others, the pause included, and deletes the host after that: the server must
/// not notice any of it.
pub(super) fn is_paused(host: &BareMetalHost) -> bool {
    let pauses = [names::annotation::PAUSED, DELETE_FOR_MOVE];
    let annotations = host.metadata.annotations.as_ref();
    annotations.is_some_and(|present| pauses.iter().any(|key| present.contains_key(*key)))
}

fn has_finalizer(host: &BareMetalHost) -> bool {
    host.metadata
        .finalizers
        .iter()
        .flatten()
        .any(|f| f == names::finalizer::HOST)
}

/// A plan that changes nothing.
fn untouched(seen: &Observed) -> Plan {
    Plan {
        status: seen.host.status.clone().unwrap_or_default(),
        effects: Vec::new(),
        notes: Vec::new(),
        next: Next::Settled,
        is_configured: false,
        has_ramdisk: false,
        has_ports: false,
        refusal: ErrorType::Registration,
    }
}

fn act(mut draft: Draft<'_>, mut next: Next) -> Decision {
    // What the node was doing when Ironic last answered is not what the host waits for now.
    if let (Next::Wait(wait), Some(cause)) = (&mut next, &draft.seen.outage)
        && wait.wake == Wake::Node
        && wait.reason != WaitReason::Queued
        && draft.effects.iter().all(|e| !e.is_ironic_mutation())
    {
        *wait = outage(Some(cause));
    }
    // Nor does a lock, or an outage, matter to a host that would not act yet; and its back-off must not begin anew after it.
    if let Next::Wait(wait) = &mut next
        && is_trouble(wait)
        && let Some(left) = draft.back_off_left()
    {
        *wait = draft.back_off_wait(left);
    }
    // What keeps a host in the queue from being looked at does not cost its place.
    let keeps_place = matches!(&next, Next::Wait(wait) if is_trouble(wait)) && draft.is_in_queue();
    let is_queued = keeps_place || matches!(&next, Next::Wait(wait) if wait.reason == WaitReason::Queued);
    if !is_queued && next != Next::Again && draft.status.operational_status == OperationalStatus::Delayed {
        draft.status.operational_status = OperationalStatus::Ok;
    }
    if next != Next::Again
        && next != Next::Gone
        && let Some(message) = annotations::tell(&mut draft.status, &draft.seen.host, draft.now)
    {
        draft.note(EventReason::InvalidAnnotationValue, message);
    }
    // Nothing is serviced where nothing is left to do: another operator may have left the word.
    if next == Next::Settled && draft.status.operational_status == OperationalStatus::Servicing {
        draft.status.operational_status = OperationalStatus::Ok;
    }
    if let Next::Wait(wait) = &mut next {
        detach::tell_of_deletion(&draft, wait);
    }
    held::let_go(&mut draft, &mut next);
    // Ironic locks a node for moments all the time. A lock is worth telling when it lasts; until then the status says what
    // it said, unless something else has to be written anyway.
    if let Next::Wait(wait) = &mut next
        && wait.reason == WaitReason::NodeLocked
        && draft
            .seen
            .memory
            .locked_since
            .is_none_or(|since| draft.now.duration_since(since) < WORTH_TELLING)
        && draft.is_stored()
    {
        wait.is_shown = false;
        wait.wake = Wake::NodeOr(WORTH_TELLING.unsigned_abs());
    }
    if let Next::Wait(wait) = &mut next
        && wait.is_shown
        && keeps_place
    {
        *wait = limits::keep_place(wait);
    }
    proof::hide_foreign(&mut draft, &mut next);
    if draft.is_configured {
        conditions::confirm(&mut draft.status, draft.seen.host.metadata.generation, draft.now);
    }
    let node = draft.known();
    match &next {
        Next::Wait(wait) if !wait.is_shown => {}
        // More follows at once: the conditions are judged where it ends, against what is stored now.
        Next::Again => {}
        Next::Wait(wait) => conditions::compute(&mut draft.status, &draft.seen.host, node, Some(wait), draft.now),
        Next::Settled | Next::Gone => conditions::compute(&mut draft.status, &draft.seen.host, node, None, draft.now),
    }
    // A wait that is not worth telling leaves the status as it is.
    if matches!(&next, Next::Settled) || matches!(&next, Next::Wait(wait) if wait.is_shown) {
        keep_time(&mut draft, is_queued);
    }
    if let Some(first) = draft.effects.iter().position(Effect::is_destructive) {
        draft.effects.insert(first, Effect::ConfirmHost);
    }
    let refusal = draft.refusal.take().unwrap_or_else(|| refusal_of(draft.state()));
    write_detach_error(&mut draft.status);
    Decision::Act(Box::new(Plan {
        is_configured: draft.is_configured,
        has_ramdisk: draft.has_ramdisk,
        has_ports: draft.has_ports,
        status: draft.status,
        effects: draft.effects,
        notes: draft.notes,
        next,
        refusal,
    }))
}

/// Ironic as a whole, or a lock of the node, keeps the host from being looked at.
fn is_trouble(wait: &Wait) -> bool {
    wait.wake == Wake::Ironic || wait.reason == WaitReason::NodeLocked
}

fn keep_time(draft: &mut Draft<'_>, is_queued: bool) {
    let overdue = overdue(&mut draft.status, draft.seen, is_queued, draft.now);
    draft.notes.extend(overdue);
}

/// Says by when the state should be over, and tells once when it is not.
pub(super) fn overdue(
    status: &mut BareMetalHostStatus,
    seen: &Observed,
    is_queued: bool,
    now: Timestamp,
) -> Option<Note> {
    let was = (seen.stored_state.as_ref()).or(seen.host.status.as_ref().map(|s| &s.provisioning.state));
    let generation = seen.host.metadata.generation;
    budget::judge(status, was, &seen.settings.budgets, is_queued, generation, now)
}

/// Ironic understood an effect of the plan and said no: a failure of the host, in the state that the plan had reached.
pub(super) fn refused(seen: &Observed, plan: &Plan, message: String, now: Timestamp) -> Aftermath {
    let mut draft = Draft::new(seen, now);
    draft.status = plan.status.clone();
    reboot::unrecord(&mut draft.status, seen.host.status.as_ref());
    let next = match draft.fail(&plan.refusal, message) {
        Step::Wait(wait) => {
            let node = draft.known();
            conditions::compute(&mut draft.status, &seen.host, node, Some(&wait), now);
            keep_time(&mut draft, false);
            Next::Wait(wait)
        }
        Step::Look(_) | Step::Move(_) | Step::Continue | Step::Rest | Step::Again | Step::Gone => Next::Again,
    };
    write_detach_error(&mut draft.status);
    Aftermath {
        status: draft.status,
        notes: draft.notes,
        next,
    }
}

/// The error type of a refused Ironic call, by the state in which it was made.
fn refusal_of(state: &ProvisioningState) -> ErrorType {
    match state {
        ProvisioningState::None
        | ProvisioningState::Unmanaged
        | ProvisioningState::Registering
        | ProvisioningState::Other(_)
        | ProvisioningState::Deleting => ErrorType::Registration,
        ProvisioningState::Inspecting => ErrorType::Inspection,
        ProvisioningState::MatchProfile | ProvisioningState::Preparing => ErrorType::Preparation,
        ProvisioningState::Provisioning | ProvisioningState::Deprovisioning => ErrorType::Provisioning,
        ProvisioningState::Provisioned | ProvisioningState::ExternallyProvisioned => ErrorType::ProvisionedRegistration,
        ProvisioningState::Ready | ProvisioningState::Available | ProvisioningState::PoweringOffBeforeDelete => {
            ErrorType::PowerManagement
        }
    }
}
