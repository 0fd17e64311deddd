//! A pool that is paused or waits for its Cluster: nothing is allocated, and claims report why.
//!
//! While a Cluster is paused nothing is written at all: its objects may be in a move to another API server.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use metal3_api::condition::ConditionStatus;
use metal3_runtime::conditions;

use super::pool_status::{labels, last_updated};
use super::texts::{elsewhere, not_ready, report_to, why_failing};
use super::{Round, Step};
use crate::pool::effect::{ClaimReport, Effect, Moment, Record};
use crate::pool::objects::{Claim, Family, is_paused, version};
use crate::pool::report::CLUSTER_NOT_FOUND;
use crate::pool::state::PoolState;

/// Why a pool is not reconciled.
enum Cause {
    /// Its pause annotation.
    Annotation,
    /// Its Cluster is paused.
    PausedCluster,
    /// Its Cluster does not exist.
    NoCluster,
}

/// The round of a pool that is not reconciled; nothing for any other.
pub(super) fn round(state: &PoolState, now: Moment) -> Option<Round> {
    let (title, namespace) = (state.title(), &state.namespace);
    let cluster = &state.pool.as_ref()?.spec.cluster_name;
    let again = state.failures.pool.left(now.elapsed);
    let mut round = Round {
        again,
        ..Round::default()
    };
    let why = match cause(state)? {
        Cause::PausedCluster => return Some(Round::default()),
        Cause::Annotation => format!(
            "{title} is paused by its annotation cluster.x-k8s.io/paused; the claim waits until that is removed"
        ),
        Cause::NoCluster => {
            if round.again.is_none() {
                round.effects.extend(without_cluster(state, now));
            }
            format!("{title} waits for its Cluster {namespace}/{cluster}, which does not exist")
        }
    };
    report_waiting(state, &why, now, &mut round);
    Some(round)
}

/// The round of a pool whose first request fails, so that nothing can be decided.
pub(super) fn failing(state: &PoolState, again: Option<Duration>, now: Moment) -> Round {
    let mut round = Round {
        again,
        ..Round::default()
    };
    if let Some(why) = why_failing(state, now) {
        report_waiting(state, &why, now, &mut round);
    }
    round
}

fn cause(state: &PoolState) -> Option<Cause> {
    let pool = state.pool.as_ref()?;
    let name = &pool.spec.cluster_name;
    let cluster = state.clusters.get(name);
    // First, because nothing at all is written then: the objects may be about to move.
    if cluster.is_some_and(|cluster| cluster.is_paused) {
        return Some(Cause::PausedCluster);
    }
    if is_paused(&pool.metadata) {
        return Some(Cause::Annotation);
    }
    let is_alone = cluster.is_none() && !name.is_empty() && pool.metadata.deletion_timestamp.is_none();
    is_alone.then_some(Cause::NoCluster)
}

/// A pool whose Cluster does not exist yet gets its labels, and reports what it waits for.
fn without_cluster(state: &PoolState, now: Moment) -> Option<Effect> {
    let pool = state.pool.as_ref()?;
    if let Some(effect) = labels(pool) {
        return Some(effect);
    }
    let (namespace, cluster) = (&state.namespace, &pool.spec.cluster_name);
    let message = format!("spec.clusterName: Cluster {namespace}/{cluster} does not exist; the pool waits for it");
    let ready = conditions::Claim {
        type_: conditions::READY,
        status: ConditionStatus::False,
        reason: CLUSTER_NOT_FOUND,
        message: &message,
    };
    let status = pool.status.as_ref();
    let mut list = status.map(|status| status.conditions.clone()).unwrap_or_default();
    let is_change = conditions::set(&mut list, &ready, pool.metadata.generation, now.wall);
    is_change.then(|| {
        Effect::Record(Record {
            version: version(&pool.metadata),
            reservations: state.reservations.clone(),
            indexes: BTreeMap::new(),
            last_updated: last_updated(pool).unwrap_or(now.wall),
            usage: status.and_then(|status| status.usage),
            conditions: list,
        })
    })
}

/// Every claim without an address reports why it waits.
fn report_waiting(state: &PoolState, why: &str, now: Moment, round: &mut Round) {
    for claim in state.claims.values() {
        if round.effects.len() >= state.policy.batch {
            break;
        }
        if claim.address.is_some() || claim.meta.is_deleting || is_resting(state, claim) {
            continue;
        }
        let report = elsewhere(claim, now).unwrap_or_else(|| not_ready(claim, why.to_owned(), now));
        let failure = state.failures.claims.get(&claim.key);
        match (
            report_to(claim, report),
            failure.and_then(|failure| failure.left(now.elapsed)),
        ) {
            (Step::Do(_), Some(left)) => round.look_again(left),
            (Step::Do(effect), None) => round.effects.push(effect),
            (Step::At(_) | Step::Done, _) => {}
        }
    }
}

/// Whether a claim is not reconciled for now: it is paused, or its Cluster is. Cluster API's claims name their Cluster; they wait
/// while it is paused or missing.
pub(super) fn is_resting(state: &PoolState, claim: &Claim) -> bool {
    if claim.key.family == Family::Metal3 || claim.cluster.is_empty() {
        return claim.is_paused;
    }
    let cluster = state.clusters.get(&claim.cluster);
    claim.is_paused || cluster.map_or(!claim.meta.is_deleting, |cluster| cluster.is_paused)
}

/// A claim that is not reconciled. If its Cluster does not exist, the claim reports that.
pub(super) fn at_rest(state: &PoolState, claim: &Arc<Claim>, now: Moment) -> Step {
    if claim.is_paused || state.clusters.contains_key(&claim.cluster) || claim.address.is_some() {
        return Step::Done;
    }
    let (namespace, cluster) = (&state.namespace, &claim.cluster);
    let message = format!("spec.clusterName: Cluster {namespace}/{cluster} does not exist; the claim waits for it");
    let report = ClaimReport {
        error: None,
        reason: CLUSTER_NOT_FOUND,
        ..not_ready(claim, message, now)
    };
    report_to(claim, report)
}
