//! A paused claim: its host is paused, and both are made ready to be moved to another cluster.

use jiff::Timestamp;
use metal3_api::capi::names::annotation::PAUSED;
use metal3_api::metal3::names::condition::host_claim::{HOST_PAUSED, NO_HOST};
use metal3_runtime::controller::{Decision, Plan};

use super::status::{Problem, associated, held_up, unassociated};
use super::{Answer, Effect};
use crate::claim::moving::{hold, is_moved_with, of_claim};
use crate::claim::observed::Observed;

pub fn decide(seen: &Observed, now: Timestamp) -> Answer {
    let claim = &seen.claim;
    if claim.metadata.deletion_timestamp.is_some() {
        let plan = Plan {
            report: held_up(seen, now),
            ..Plan::default()
        };
        return plan.into();
    }
    if !seen.is_enabled {
        return Decision::idle();
    }
    let Some(host) = seen.own.first().filter(|host| !is_moved_with(host, claim)) else {
        let words = format!("the claim is paused, and looks for no host until its annotation {PAUSED} is removed");
        let Decision::Act(mut plan) = unassociated(seen, NO_HOST, &words, now) else {
            return Decision::idle();
        };
        plan.effects = of_claim(claim, None).map(Effect::Mark).into_iter().collect();
        return Decision::Act(plan);
    };
    let problem = Problem {
        reason: HOST_PAUSED,
        message: format!(
            "the claim is paused, and its host with it, until the annotation {PAUSED} of the claim is removed"
        ),
        is_rechecked: false,
    };
    // The host first: when the claim is ready to move, so is its host.
    let hold = hold(host).map(|change| Effect::SetHost(0, change));
    let mark = of_claim(claim, Some(host)).map(Effect::Mark);
    let plan = Plan {
        effects: hold.into_iter().chain(mark).collect(),
        report: associated(seen, &Err(problem), now),
        ..Plan::default()
    };
    plan.into()
}
