//! What to do next for a pool. Pure: nothing but the book, the time and a seed goes in.
//!
//! A decision is one round: at most one request for each claim and one for the pool, none of which depends on another one
//! of the round. The answers go back into the book, and the next round is decided.

mod release;
mod rest;
mod serve;
mod unclaimed;
mod words;

use std::time::Duration;

use self::words::{elsewhere, report_to};
use super::book::{Book, ClusterSeen};
use super::effect::{Effect, Moment};
use super::seen::{Claim, ClaimKey, Family};

/// A round, and when to look again without being told to.
#[derive(Debug, Default, PartialEq)]
pub struct Round {
    /// Requests, in any order.
    pub effects: Vec<Effect>,
    /// From now. Nothing while there are effects: their answers ask for the next round.
    pub again: Option<Duration>,
}

/// Where a claim stands.
enum Next {
    /// One request.
    Do(Effect),
    /// The status of the pool has to be written first.
    Record,
    /// At that time.
    At(Duration),
    /// Nothing more.
    Settled,
}

impl Book {
    /// The next round. Everything that the last one asked for has been answered.
    pub fn decide(&mut self, now: Moment, seed: u64) -> Round {
        self.now = now.elapsed;
        self.all_answered();
        let Some(pool) = self.pool.clone() else {
            return self.claims_round(now, seed);
        };
        if let Some(round) = self.resting(now) {
            return round;
        }
        let pause = self.stuck.left(now.elapsed);
        let first = match self.trusted {
            None => Some(Effect::Adopt),
            Some(_) => self.metadata().map(Effect::Pool),
        };
        match (first, pause) {
            (Some(_), Some(left)) => return self.stuck_round(left, now),
            (Some(effect), None) => {
                return Round {
                    effects: vec![effect],
                    again: None,
                };
            }
            (None, _) => {}
        }
        self.place_displaced();
        let mut round = self.claims_round(now, seed);
        if let Some(left) = pause {
            // What claims need of their own goes on; that some are released may even be what helps the pool.
            if round.effects.is_empty() {
                soonest(&mut round.again, left);
            }
            return round;
        }
        let settled = round.effects.is_empty() && !self.is_freed;
        let is_unused = self.addresses.is_empty() && self.proposed.is_empty() && self.promises.is_empty();
        if settled && pool.metadata.deletion_timestamp.is_some() && is_unused {
            round.effects.extend(self.let_pool_go());
        } else if let Some((at, record)) = self.record(now, settled) {
            if at <= now.elapsed {
                round.effects.push(Effect::Record(record));
            } else {
                soonest(&mut round.again, at.saturating_sub(now.elapsed));
            }
        }
        if !round.effects.is_empty() {
            round.again = None;
        }
        round
    }

    /// The pool's Cluster, if it names one that is there.
    pub(super) fn cluster(&self) -> Option<&ClusterSeen> {
        self.clusters.get(&self.pool.as_ref()?.spec.cluster_name)
    }

    /// Whether the pool names a Cluster that is not there.
    pub(super) fn lacks_cluster(&self) -> bool {
        let name = self.pool.as_ref().map(|pool| pool.spec.cluster_name.as_str());
        name.is_some_and(|name| !name.is_empty() && !self.clusters.contains_key(name))
    }

    /// One request for each claim that needs one.
    fn claims_round(&mut self, now: Moment, seed: u64) -> Round {
        self.wake(now.elapsed);
        let age = |key: &ClaimKey| self.claims.get(key).map_or(i64::MIN, |claim| claim.meta.created);
        let mut order: Vec<(i64, ClaimKey)> = self.dirty.iter().map(|key| (age(key), key.clone())).collect();
        order.sort_unstable();
        let mut round = Round::default();
        for (_, key) in order {
            if round.effects.len() >= self.policy.batch {
                break;
            }
            match self.next(&key, now, seed) {
                // It stays dirty: the answer is not the end.
                Next::Do(effect) => round.effects.push(effect),
                Next::At(time) => {
                    self.dirty.remove(&key);
                    self.later.insert(key, time);
                }
                Next::Record => {
                    self.dirty.remove(&key);
                }
                Next::Settled => {
                    self.dirty.remove(&key);
                    self.tidy(&key);
                }
            }
        }
        if round.effects.is_empty() {
            round.again = self.later.values().min().map(|at| at.saturating_sub(now.elapsed));
            if self.is_freed {
                // Who was woken did not take it.
                round.again = Some(Duration::ZERO);
            }
        }
        round
    }

    /// Those whose time has come, and as many of the waiting as there are addresses, oldest first.
    fn wake(&mut self, now: Duration) {
        let due = |(key, at): (&ClaimKey, &Duration)| (*at <= now).then(|| key.clone());
        let due: Vec<ClaimKey> = self.later.iter().filter_map(due).collect();
        for key in due {
            self.later.remove(&key);
            self.dirty.insert(key);
        }
        if !std::mem::take(&mut self.is_freed) {
            return;
        }
        let free = usize::try_from(self.allocator.usage().free).unwrap_or(usize::MAX);
        self.dirty
            .extend(self.queue.iter().take(free).map(|(_, key)| key.clone()));
        let special = self.refused.iter().filter(|(_, refusal)| !refusal.is_exhaustion());
        self.dirty.extend(special.map(|(key, _)| key.clone()));
    }

    fn next(&mut self, key: &ClaimKey, now: Moment, seed: u64) -> Next {
        let claim = self.claims.get(key).cloned();
        if let Some(at) = self.later.get(key).copied().filter(|at| *at > now.elapsed) {
            let told = claim.and_then(|claim| self.tell_broken(&claim, now));
            return told.map_or(Next::At(at), Next::Do);
        }
        let Some(claim) = claim else {
            return self.unclaimed(key, now);
        };
        if self.is_resting(&claim) {
            return self.at_rest(&claim, now);
        }
        if claim.meta.is_deleting {
            return self.releasing(&claim);
        }
        // Before the question whether there is a pool of that name here: it would not be the one that is meant.
        if let Some(report) = elsewhere(&claim, now).filter(|_| !self.has_address(&claim)) {
            return self.look_for_told(&claim).unwrap_or_else(|| report_to(&claim, report));
        }
        if self.pool.is_none() {
            return self.without_pool(&claim, now);
        }
        if !claim.is_ours() {
            return Next::Do(Effect::AddFinalizer(claim));
        }
        self.serving(&claim, now, seed)
    }

    /// Whether a claim has an address: it keeps that, as upstream serves claims by the name of the pool alone. What an earlier claim of
    /// its name has left is not its own.
    fn has_address(&self, claim: &Claim) -> bool {
        let uid = Some(&claim.meta.uid);
        self.told_object(claim).is_some() || self.objects_of(&claim.key).any(|object| object.owner.as_ref() == uid)
    }

    /// Whether nothing is done for a claim for now: it is paused, or its Cluster rests.
    pub(super) fn is_resting(&self, claim: &Claim) -> bool {
        claim.is_paused || self.is_cluster_resting(claim)
    }

    /// Cluster API's claims name their Cluster; they rest while it is paused or not there.
    fn is_cluster_resting(&self, claim: &Claim) -> bool {
        if claim.key.family == Family::Metal3 || claim.cluster.is_empty() {
            return false;
        }
        let cluster = self.clusters.get(&claim.cluster);
        cluster.map_or(!claim.meta.is_deleting, |cluster| cluster.is_paused)
    }
}

fn soonest(again: &mut Option<Duration>, other: Duration) {
    *again = Some(again.map_or(other, |again| again.min(other)));
}
