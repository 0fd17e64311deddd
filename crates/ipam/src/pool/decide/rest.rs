//! A pool that rests, or is stuck: nothing is given out of it, and who waits for it is told why.
//!
//! While a Cluster is paused nothing is written at all: its objects may be on their way to another API server.

use std::sync::Arc;
use std::time::Duration;

use kube::ResourceExt;
use metal3_api::condition::ConditionStatus;
use metal3_runtime::conditions;

use super::words::{elsewhere, not_ready, report_to};
use super::{Book, Next, Round, soonest};
use crate::pool::effect::{ClaimReport, Effect, Explanation, Moment};
use crate::pool::note;
use crate::pool::seen::{Claim, is_paused, version};

/// Why a pool rests.
enum Cause {
    /// Its annotation says so.
    Annotation,
    /// The Cluster that it names is paused.
    Cluster,
    /// There is no Cluster of the name that it gives.
    NoCluster,
}

impl Book {
    /// The round of a pool for which nothing may be done: it is paused, or its Cluster is, or its Cluster is not there.
    /// Nothing if it does not rest.
    pub(super) fn resting(&mut self, now: Moment) -> Option<Round> {
        let Some(cause) = self.cause_of_rest() else {
            self.told_at_rest = None;
            return None;
        };
        // Who goes on reads everything anew, and looks at every claim.
        self.trusted = None;
        let mut round = Round::default();
        match self.stuck.left(now.elapsed) {
            Some(left) => round.again = Some(left),
            None if matches!(cause, Cause::NoCluster) => round.effects.extend(self.without_cluster(now)),
            None => {}
        }
        let why = self.why_claims_wait(&cause);
        if self.told_at_rest != why {
            self.dirty.extend(self.claims.keys().cloned());
            self.told_at_rest.clone_from(&why);
        }
        if let Some(why) = why {
            self.tell_waiting(&why, now, &mut round);
        }
        if !round.effects.is_empty() {
            round.again = None;
        }
        Some(round)
    }

    /// The round of a pool of which nothing can be decided, because the request that comes first fails.
    pub(super) fn stuck_round(&mut self, left: Duration, now: Moment) -> Round {
        let mut round = Round {
            effects: Vec::new(),
            again: Some(left),
        };
        if let Some(why) = self.why_stuck(now) {
            self.tell_waiting(&why, now, &mut round);
        }
        if !round.effects.is_empty() {
            round.again = None;
        }
        round
    }

    fn cause_of_rest(&self) -> Option<Cause> {
        let pool = self.pool.as_ref()?;
        let cluster = self.cluster();
        // First, because nothing at all is written then: the objects may be about to be moved.
        if cluster.is_some_and(|cluster| cluster.is_paused) {
            return Some(Cause::Cluster);
        }
        if is_paused(&pool.metadata) {
            return Some(Cause::Annotation);
        }
        let is_alone = cluster.is_none() && self.lacks_cluster() && pool.metadata.deletion_timestamp.is_none();
        is_alone.then_some(Cause::NoCluster)
    }

    /// A pool whose Cluster is not there yet gets its labels, and says what it waits for.
    fn without_cluster(&self, now: Moment) -> Option<Effect> {
        let pool = self.pool.as_ref()?;
        if let Some(meta) = self.labels().filter(super::super::record::is_change) {
            return Some(Effect::Pool(meta));
        }
        let message = format!(
            "spec.clusterName: Cluster {}/{} does not exist; the pool waits for it",
            self.namespace, pool.spec.cluster_name
        );
        let claim = conditions::Claim {
            type_: conditions::READY,
            status: ConditionStatus::False,
            reason: note::CLUSTER_NOT_FOUND,
            message: &message,
        };
        let present = pool.status.as_ref().map(|status| status.conditions.clone());
        let mut list = present.unwrap_or_default();
        let is_change = conditions::set(&mut list, &claim, pool.metadata.generation, now.wall);
        is_change.then(|| {
            Effect::Explain(Explanation {
                version: version(&pool.metadata),
                conditions: list,
            })
        })
    }

    fn why_claims_wait(&self, cause: &Cause) -> Option<String> {
        let pool = self.pool.as_ref()?;
        let name = format!("IPPool {}/{}", self.namespace, pool.name_any());
        match cause {
            Cause::Annotation => Some(format!(
                "{name} is paused by its annotation cluster.x-k8s.io/paused; the claim waits until that is removed"
            )),
            Cause::NoCluster => Some(format!(
                "{name} waits for its Cluster {}/{}, which does not exist",
                self.namespace, pool.spec.cluster_name
            )),
            Cause::Cluster => None,
        }
    }

    /// Every claim without an address is told once.
    fn tell_waiting(&mut self, why: &str, now: Moment, round: &mut Round) {
        let mut is_told = Vec::new();
        for key in &self.dirty {
            if round.effects.len() >= self.policy.batch {
                break;
            }
            let Some(claim) = self.claims.get(key) else { continue };
            let next = if self.may_be_told(claim) {
                let report = elsewhere(claim, now).unwrap_or_else(|| not_ready(claim, why.to_owned(), now));
                report_to(claim, report)
            } else {
                Next::Settled
            };
            let Next::Do(effect) = next else {
                is_told.push(key.clone());
                continue;
            };
            match self.later.get(key).filter(|at| **at > now.elapsed) {
                Some(at) => soonest(&mut round.again, at.saturating_sub(now.elapsed)),
                None => round.effects.push(effect),
            }
        }
        // They are not looked at again for each event. When everything is read anew, every claim is.
        if self.trusted.is_none() {
            for key in is_told {
                self.dirty.remove(&key);
            }
        }
    }

    /// A claim that is left alone. If that is because the Cluster which it names is not there, it is told so.
    pub(super) fn at_rest(&mut self, claim: &Arc<Claim>, now: Moment) -> Next {
        // It cannot take an address, so one that is free is not kept for it: the next one in the queue is woken.
        self.is_freed |= self.queue.remove(&claim.order());
        let is_known = self.clusters.contains_key(&claim.cluster);
        if claim.is_paused || is_known || claim.address.is_some() {
            return Next::Settled;
        }
        let (namespace, cluster) = (&self.namespace, &claim.cluster);
        let report = ClaimReport {
            address: None,
            error: None,
            reason: note::CLUSTER_NOT_FOUND,
            message: format!("spec.clusterName: Cluster {namespace}/{cluster} does not exist; the claim waits for it"),
            now: now.wall,
        };
        report_to(claim, report)
    }

    fn may_be_told(&self, claim: &Claim) -> bool {
        let is_at_rest = claim.meta.is_deleting || self.is_resting(claim);
        claim.address.is_none() && !is_at_rest
    }
}
