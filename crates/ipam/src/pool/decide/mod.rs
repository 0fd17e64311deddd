//! Decides what to do next for a pool. Pure: its only inputs are the state, the time and a seed.
//!
//! A decision is one round: at most one request for each claim and one for the pool, all independent. Their responses are
//! absorbed into the state, then the next round is decided.

mod claims;
mod conditions;
mod holdings;
mod pool_status;
mod rest;
mod texts;

use std::sync::Arc;
use std::time::Duration;

use metal3_api::ipam::PoolUsage;

use self::holdings::Holdings;
use super::effect::{Effect, Moment};
use super::objects::{Claim, ClaimKey};
use super::reservation::Reservation;
use super::state::PoolState;

pub use self::conditions::{CONSISTENT, SPEC_VALID};

/// A round, and when to requeue without events.
#[derive(Debug, Default, PartialEq)]
pub struct Round {
    /// Requests, in any order.
    pub effects: Vec<Effect>,
    /// Delay from now. It matters only without effects: responses trigger the next round.
    pub again: Option<Duration>,
    /// The pool's numbers; none while it does not exist, is paused, or is not fully known.
    pub usage: Option<PoolUsage>,
}

impl Round {
    fn look_again(&mut self, after: Duration) {
        self.again = Some(self.again.map_or(after, |again| again.min(after)));
    }
}

/// What to do for one claim.
enum Step {
    /// One request.
    Do(Effect),
    /// Look again at that time.
    At(Duration),
    /// Nothing until something changes.
    Done,
}

/// The next round. All requests of the last one have been answered.
pub fn decide(state: &PoolState, now: Moment, seed: u64) -> Round {
    if let Some(round) = rest::round(state, now) {
        return round;
    }
    let left = state.failures.pool.left(now.elapsed);
    match (first_effect(state), left) {
        (Some(_), Some(_)) => return rest::failing(state, left, now),
        (Some(effect), None) => {
            let effects = vec![effect];
            return Round {
                effects,
                ..Round::default()
            };
        }
        (None, _) => {}
    }
    let mut turn = Turn::new(state, now, seed);
    turn.all_claims();
    turn.pool(left);
    turn.round
}

/// Prerequisites: the existing objects must be known, and the pool must have our finalizer.
fn first_effect(state: &PoolState) -> Option<Effect> {
    // Addresses may be from a pool that another manager looks after, hidden by the watch filter. One that has any cannot
    // vanish.
    let is_orphaned = state.pool.is_none() && state.filter.is_empty() && !state.addresses.is_empty();
    if !state.is_complete() && (state.pool.is_some() || is_orphaned) {
        return Some(state.refresh());
    }
    pool_status::metadata(state)
}

/// A round being built.
struct Turn<'a> {
    state: &'a PoolState,
    now: Moment,
    seed: u64,
    holdings: Holdings<'a>,
    /// How many more reservations are allowed.
    room: usize,
    /// Addresses to be reserved for claims.
    new: Vec<Reservation>,
    /// Claims without an address because the pool is exhausted.
    exhausted: usize,
    round: Round,
}

impl<'a> Turn<'a> {
    fn new(state: &'a PoolState, now: Moment, seed: u64) -> Self {
        let holdings = Holdings::of(state);
        let is_under_way = |reservation: &&Reservation| {
            let claim = state.claims.get(&reservation.claim);
            let waits = claim.is_some_and(|claim| {
                rest::is_resting(state, claim) || claim.meta.is_deleting && claim.is_kept_by_others()
            });
            let is_failing = state.failures.claims.contains_key(&reservation.claim);
            !waits && !is_failing && !holdings.is_over(reservation) && !holdings.is_superseded(reservation)
        };
        let under_way = state.reservations.iter().filter(is_under_way).count();
        Self {
            state,
            now,
            seed,
            holdings,
            room: state.policy.reservations.saturating_sub(under_way),
            new: Vec::new(),
            exhausted: 0,
            round: Round::default(),
        }
    }

    /// One request for each claim and object that needs one: leftovers first, then the oldest claims.
    fn all_claims(&mut self) {
        let state = self.state;
        // Without its pool, an address may be from one that another manager looks after, hidden by the watch filter.
        let is_known = state.pool.is_some() || state.filter.is_empty();
        for object in state.addresses.values().filter(|_| is_known) {
            let step = self.left_over(object);
            let wait = matches!(step, Step::Do(_))
                .then(|| self.backed_off(&object.claim))
                .flatten();
            if self.is_full_after(wait.unwrap_or(step)) {
                return;
            }
        }
        let mut claims: Vec<&Arc<Claim>> = state.claims.values().collect();
        claims.sort_unstable_by_key(|claim| claim.order());
        for claim in claims {
            let step = self.step(claim);
            if self.is_full_after(step) {
                return;
            }
        }
    }

    fn is_full_after(&mut self, step: Step) -> bool {
        match step {
            Step::Do(effect) => self.round.effects.push(effect),
            Step::At(time) => self.round.look_again(time.saturating_sub(self.now.elapsed)),
            Step::Done => {}
        }
        self.round.effects.len() >= self.state.policy.batch
    }

    fn backed_off(&self, key: &ClaimKey) -> Option<Step> {
        let failure = self.state.failures.claims.get(key)?;
        failure.left(self.now.elapsed).map(|_| Step::At(failure.until))
    }
}
