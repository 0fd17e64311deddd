//! The decision: from the observed state of a host to the next plan. Pure: no client, no clock, no randomness.
//!
//! The questions are asked in the order of the lines in [`decide`]: pause and finalizer, the status that a moved host
//! brings along, the start of a deletion, detachment, registration, and only then the state itself. One decision can
//! pass through several states as long as it need not wait for anything.

mod attempt;
mod available;
mod common;
mod data_image;
mod delete;
mod deprovision;
mod detach;
mod details;
mod finish;
mod firmware;
mod held;
mod inspect;
mod limits;
mod maintenance;
mod network_data;
mod outage;
mod outcome;
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

use self::finish::finish;
pub use self::limits::{is_exempt, takes_slot};
pub(super) use self::outage::outage;
pub(super) use self::outcome::{outcome, refused};
pub use self::proof::{OwnNode, own_node};
pub use self::reboot::unrecord as unrecord_restart;
pub(super) use self::restore::is_pending as awaits_status;

use jiff::Timestamp;
use metal3_api::capi::names::annotation::DELETE_FOR_MOVE;
use metal3_api::metal3::{BareMetalHost, OperationalStatus, ProvisioningState, names};
use metal3_runtime::controller::{Next, Report};
use metal3_runtime::timing::operator::NET;

use super::builder::{PlanBuilder, Step};
use super::observed::Observed;
use super::plan::{Decision, Effect, EventReason, HostReport, Plan, Then, Wait, WaitReason};

/// More state changes than any legal path has: a guard against a cycle in the state table.
const LONGEST_PATH: usize = 16;

/// Decides what to do next with one host. It never changes a node that is not proven to be the host's.
pub fn decide(seen: &Observed, now: Timestamp) -> Decision {
    let decision = decide_on_trust(seen, now);
    proof::judge(seen, now, decision)
}

fn decide_on_trust(seen: &Observed, now: Timestamp) -> Decision {
    if is_paused(&seen.host) {
        return untouched(seen, Then::Idle, Next::After(NET));
    }
    let mut plan = PlanBuilder::new(seen, now);
    let is_deleted = seen.host.metadata.deletion_timestamp.is_some();
    if is_deleted && !has_finalizer(&seen.host) {
        return untouched(seen, Then::Gone, Next::Change);
    }
    if !is_deleted && !has_finalizer(&seen.host) {
        // Before anything exists that the finalizer has to clean up.
        let secrets = super::held::all(&seen.host);
        plan.effects.push(Effect::AddFinalizer { secrets });
    }
    for _ in 0..LONGEST_PATH {
        match step(&mut plan) {
            Step::Fetch(need) => return Decision::Fetch(need),
            Step::Move(next) => match plan.before_entry(&next) {
                None => plan.enter(next),
                Some(Step::Fetch(need)) => return Decision::Fetch(need),
                Some(Step::Wait(wait)) => return finish(plan, Then::Wait(wait)),
                Some(Step::Again | Step::Move(_) | Step::Continue | Step::Idle | Step::Gone) => {
                    return finish(plan, Then::Again);
                }
            },
            Step::Continue | Step::Idle => {
                let then = register::wait_for_name(&plan).map_or(Then::Idle, Then::Wait);
                return finish(plan, then);
            }
            Step::Again => return finish(plan, Then::Again),
            Step::Wait(wait) => return finish(plan, Then::Wait(wait)),
            Step::Gone => return finish(plan, Then::Gone),
        }
    }
    let state = plan.state().clone();
    finish(
        plan,
        Then::Wait(Wait::for_change(
            WaitReason::UnexpectedNodeState,
            format!(
                "the operator went in a circle from state {:?}; this is a fault of the operator",
                state.as_str()
            ),
        )),
    )
}

/// Asks one question after another; the first answer counts.
fn step(plan: &mut PlanBuilder<'_>) -> Step {
    match restore::restore(plan) {
        Step::Continue => {}
        answer => return answer,
    }
    if plan.is_deleting()
        && let Some(next) = delete::start(plan)
    {
        return Step::Move(next);
    }
    if delete::is_of_another(plan) {
        return Step::Move(ProvisioningState::Deleting);
    }
    match detach::detach(plan) {
        Step::Continue => {}
        answer => return answer,
    }
    match details::import(plan) {
        Step::Continue => {}
        answer => return answer,
    }
    match details::follow(plan) {
        Step::Continue => {}
        answer => return answer,
    }
    match register::ensure_registered(plan) {
        Step::Continue => {}
        answer => return answer,
    }
    plan.remember();
    match plan.state().clone() {
        ProvisioningState::None => new(plan),
        ProvisioningState::Unmanaged => unmanaged(plan),
        ProvisioningState::Registering => registering::registering(plan),
        ProvisioningState::MatchProfile => Step::Move(ProvisioningState::Preparing),
        ProvisioningState::Inspecting => inspect::inspecting(plan),
        ProvisioningState::Preparing => prepare::preparing(plan),
        ProvisioningState::Ready | ProvisioningState::Available => available::available(plan),
        ProvisioningState::Provisioning => provision::provisioning(plan),
        ProvisioningState::Provisioned | ProvisioningState::ExternallyProvisioned => provisioned::provisioned(plan),
        ProvisioningState::Deprovisioning => deprovision::deprovisioning(plan),
        ProvisioningState::PoweringOffBeforeDelete => delete::powering_off(plan),
        ProvisioningState::Deleting => delete::deleting(plan),
        ProvisioningState::Other(text) => Step::Wait(Wait::for_change(
            WaitReason::UnexpectedNodeState,
            format!(
                "status.provisioning.state is {text:?}, which this operator does not know; \
                 it was probably written by a newer one"
            ),
        )),
    }
}

fn new(plan: &mut PlanBuilder<'_>) -> Step {
    if plan.spec().has_bmc_details() {
        return Step::Move(ProvisioningState::Registering);
    }
    plan.clear_error(OperationalStatus::Discovered);
    plan.event(
        EventReason::Discovered,
        "Discovered host with no BMC details; set spec.bmc to have it managed",
    );
    Step::Move(ProvisioningState::Unmanaged)
}

fn unmanaged(plan: &mut PlanBuilder<'_>) -> Step {
    if plan.spec().has_bmc_details() {
        Step::Move(ProvisioningState::Registering)
    } else {
        Step::Idle
    }
}

/// Whether the host is paused, or `clusterctl move` removes it after copying it to another cluster. clusterctl replaces
/// all annotations, including the pause, with its own and then deletes the host: the server must not be affected.
pub(crate) fn is_paused(host: &BareMetalHost) -> bool {
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
fn untouched(seen: &Observed, then: Then, next: Next) -> Decision {
    let status = seen.host.status.clone().unwrap_or_default();
    Decision::from(Plan {
        report: Report {
            status: Some(HostReport::new(status, then)),
            ..Report::default()
        },
        next,
        ..Plan::default()
    })
}
