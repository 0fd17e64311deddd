//! What to do next for a pool. Pure: nothing but the book, the time and a seed goes in.
//!
//! A decision is one round: at most one request for each claim and one for the pool, none of which depends on another one
//! of the round. The answers go back into the book, and the next round is decided.

use std::sync::Arc;
use std::time::Duration;

use metal3_api::capi::names::reason;
use metal3_api::condition::ConditionStatus;
use metal3_runtime::conditions;

use super::book::{Book, ClusterSeen, Stage};
use super::effect::{ClaimReport, Effect, Moment, NewAddress};
use super::seen::{Address, AddressId, Claim, ClaimKey, Family, address_name, is_paused};
use crate::alloc::Refusal;

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
    /// The next round.
    pub fn decide(&mut self, now: Moment, seed: u64) -> Round {
        self.now = now.elapsed;
        let Some(pool) = self.pool.clone() else {
            return self.without_pool(now);
        };
        if self.is_resting() {
            self.trusted = None;
            return Round {
                effects: self.label_only().into_iter().collect(),
                again: None,
            };
        }
        if let Some(until) = self.pool_retry() {
            return Round {
                effects: Vec::new(),
                again: Some(until),
            };
        }
        if self.trusted.is_none() {
            return Round {
                effects: vec![Effect::Adopt],
                again: None,
            };
        }
        if let Some(meta) = self.metadata() {
            return Round {
                effects: vec![Effect::Pool(meta)],
                again: None,
            };
        }
        let mut round = self.claims_round(now, seed);
        let settled = round.effects.is_empty();
        let is_unused = self.addresses.is_empty() && self.stages.is_empty() && self.recorded.is_empty();
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

    /// Whether nothing may be done: the pool is paused, or its Cluster is, or its Cluster is not there.
    fn is_resting(&self) -> bool {
        let Some(pool) = &self.pool else { return false };
        if is_paused(&pool.metadata) {
            return true;
        }
        match self.cluster() {
            Some(cluster) => cluster.is_paused,
            None => self.lacks_cluster() && pool.metadata.deletion_timestamp.is_none(),
        }
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
        let mut order: Vec<(i64, ClaimKey)> = self
            .dirty
            .iter()
            .map(|key| {
                (
                    self.claims.get(key).map_or(i64::MIN, |claim| claim.created),
                    key.clone(),
                )
            })
            .collect();
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
                Next::Record | Next::Settled => {
                    self.dirty.remove(&key);
                }
            }
        }
        if let Some(time) = self.later.values().min() {
            round.again = Some(time.saturating_sub(now.elapsed));
        }
        round
    }

    /// Those whose time has come, and as many of the waiting as there are addresses, oldest first.
    fn wake(&mut self, now: Duration) {
        let due: Vec<ClaimKey> = self
            .later
            .iter()
            .filter(|(_, at)| **at <= now)
            .map(|(key, _)| key.clone())
            .collect();
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
        if claim.is_paused || self.is_cluster_resting(&claim) {
            return Next::Settled;
        }
        if claim.is_deleting {
            return self.releasing(&claim);
        }
        if let Some(namespace) = &claim.other_namespace {
            let message = format!(
                "spec.pool.namespace: IPPool {namespace}/{} is in another namespace; a claim is served from its own only",
                claim.pool
            );
            return report_to(&claim, failed(message, reason::ALLOCATION_FAILED, now));
        }
        if !claim.is_ours() {
            return Next::Do(Effect::AddFinalizer(claim));
        }
        self.serving(&claim, now, seed)
    }

    /// Cluster API's claims name their Cluster; they rest while it is paused or not there.
    fn is_cluster_resting(&self, claim: &Claim) -> bool {
        if claim.key.family == Family::Metal3 || claim.cluster.is_empty() {
            return false;
        }
        let cluster = self.clusters.get(&claim.cluster);
        cluster.map_or(!claim.is_deleting, |cluster| cluster.is_paused)
    }

    fn serving(&mut self, claim: &Arc<Claim>, now: Moment, seed: u64) -> Next {
        let key = &claim.key;
        if let Some(object) = self.object_of(claim).cloned() {
            self.queue.remove(&claim.order());
            self.refused.remove(key);
            return match report_to(claim, served(&object, now)) {
                Next::Settled => self
                    .superfluous(claim, Some(&object.id))
                    .map_or(Next::Settled, Next::Do),
                next => next,
            };
        }
        if let Some(effect) = self.superfluous(claim, None) {
            return Next::Do(effect);
        }
        let held = self.allocator.held_by(key);
        let Some(ip) = held else {
            return self.choose(claim, now, seed);
        };
        match self.stages.get(key) {
            Some(Stage::Recorded) => self.create(claim, ip),
            Some(Stage::Proposed) => Next::Record,
            None => {
                self.stages.insert(key.clone(), Stage::Proposed);
                Next::Record
            }
        }
    }

    /// The object that serves a claim: the one for the address that it holds. A rival serves only the very claim that it was
    /// made for: managers before this one could give an address twice, and what they gave is not taken away.
    fn object_of(&self, claim: &Claim) -> Option<&Arc<Address>> {
        let held = self.allocator.held_by(&claim.key);
        let ids = self.objects.get(&claim.key)?;
        let objects = || ids.iter().filter_map(|id| self.addresses.get(id));
        let is_its = |object: &&Arc<Address>| {
            object.owner.as_ref() == Some(&claim.uid) || claim.address.as_ref() == Some(&object.id.name)
        };
        let own = objects().find(|object| object.address.is_some() && object.address == held);
        own.or_else(|| objects().find(|object| object.address.is_some() && held.is_none() && is_its(object)))
    }

    /// The next step to remove what a manager has made beside the object that serves a claim; or, while none does, for an
    /// earlier claim of the same name: a late request may have made that after its claim was gone.
    fn superfluous(&self, claim: &Claim, serving: Option<&AddressId>) -> Option<Effect> {
        let ids = self.objects.get(&claim.key)?;
        let rivals = ids
            .iter()
            .filter(|id| Some(*id) != serving && self.rivals.contains(*id));
        let is_made_for_another = |object: &&Arc<Address>| {
            let owner = object.owner.as_ref();
            let is_earlier = owner != Some(&claim.uid) && claim.address.as_ref() != Some(&object.id.name);
            owner.is_some() && (serving.is_some() || is_earlier)
        };
        let object = rivals
            .filter_map(|id| self.addresses.get(id))
            .find(is_made_for_another)?;
        if object.has_finalizer() {
            Some(Effect::Unlock(object.clone()))
        } else {
            (!object.is_deleting).then(|| Effect::Delete(object.clone()))
        }
    }

    fn choose(&mut self, claim: &Arc<Claim>, now: Moment, seed: u64) -> Next {
        let key = claim.key.clone();
        self.queue.remove(&claim.order());
        let again = self.remembered(claim).filter(|ip| !self.allocator.is_blocked(*ip));
        let hit = again.is_some_and(|ip| self.allocator.hold(key.clone(), ip));
        self.draws = self.draws.wrapping_add(1);
        let seed = seed.wrapping_add(self.draws);
        let chosen = match again {
            Some(ip) if hit => Ok(ip),
            _ => {
                let grant = self.allocator.allocate(key.clone(), &key.name, &claim.requested, seed);
                grant.map(|grant| grant.address)
            }
        };
        // Cluster API refuses such an address; Metal3's own takes any number.
        let answer = chosen.and_then(|ip| {
            let prefix = self.allocator.plan().settings(ip).prefix;
            if key.family == Family::ClusterApi && !(0..=128).contains(&prefix) {
                self.allocator.release(&key);
                return Err(Refusal::InvalidPrefix(prefix));
            }
            Ok(())
        });
        match answer {
            Ok(()) => {
                self.refused.remove(&key);
                self.unpublished.insert(key.name.clone());
                self.stages.insert(key, Stage::Proposed);
                Next::Record
            }
            Err(refusal) => {
                if refusal.is_exhaustion() {
                    self.queue.insert(claim.order());
                }
                if self.refused.insert(key, refusal.clone()).as_ref() != Some(&refusal) {
                    self.changed = now.elapsed;
                }
                let report = self.refusal(&refusal, now);
                report_to(claim, report)
            }
        }
    }

    fn refusal(&self, refusal: &Refusal, now: Moment) -> ClaimReport {
        let text = refusal.to_string();
        let (namespace, pool) = (&self.namespace, &self.name);
        let why = match refusal {
            Refusal::Exhausted => "waits for an address: all are in use or kept for other claims".to_owned(),
            _ => text.clone(),
        };
        let word = if refusal.is_exhaustion() {
            reason::POOL_EXHAUSTED
        } else {
            reason::ALLOCATION_FAILED
        };
        ClaimReport {
            address: None,
            error: Some(text),
            reason: word,
            message: format!("IPPool {namespace}/{pool}: {why}"),
            now: now.wall,
        }
    }

    /// While an object cannot be made, its claim says so.
    fn tell_broken(&self, claim: &Arc<Claim>, now: Moment) -> Option<Effect> {
        let why = self
            .broken
            .get(&claim.key)
            .filter(|_| self.stages.contains_key(&claim.key))?;
        let text = "Failed to create associated IPAddress object";
        let mut report = failed(text.to_owned(), reason::ALLOCATION_FAILED, now);
        report.message = format!("{text}: {why}");
        match report_to(claim, report) {
            Next::Do(effect) if !claim.is_deleting && !claim.is_paused => Some(effect),
            _ => None,
        }
    }

    fn create(&mut self, claim: &Arc<Claim>, ip: std::net::IpAddr) -> Next {
        let Some(pool) = self.pool.clone() else {
            return Next::Settled;
        };
        let settings = self.allocator.plan().settings(ip);
        Next::Do(Effect::Create(NewAddress {
            name: address_name(&pool.spec.name_prefix, ip),
            claim: claim.clone(),
            pool,
            address: ip,
            settings,
        }))
    }

    /// A claim that is being deleted: first its address goes, then our finalizer.
    fn releasing(&mut self, claim: &Arc<Claim>) -> Next {
        let key = &claim.key;
        if !claim.is_ours() {
            if self.stages.get(key) == Some(&Stage::Proposed) {
                self.vacate(key);
            }
            if !self.objects.contains_key(key) {
                return Next::Settled;
            }
        }
        if claim.is_kept_by_others() {
            // It is in use: that is how a consumer protects its address.
            return Next::Settled;
        }
        if let Some(effect) = self.removal(key) {
            return Next::Do(effect);
        }
        match self.stages.get(key) {
            Some(Stage::Recorded) if !self.looked.contains(key) => return self.look(key, None),
            Some(_) => self.vacate(key),
            None if claim.address.is_some() && !self.looked.contains(key) => {
                return self.look(key, claim.address.clone());
            }
            None => {}
        }
        if claim.is_ours() {
            Next::Do(Effect::Release(claim.clone()))
        } else {
            Next::Settled
        }
    }

    /// The next step to remove an object of a claim that is gone or going.
    fn removal(&self, key: &ClaimKey) -> Option<Effect> {
        let ids = self.objects.get(key)?;
        let mut objects = ids.iter().filter_map(|id| self.addresses.get(id));
        // One that only others still keep is theirs to end.
        let object = objects.find(|object| object.has_finalizer() || !object.is_deleting)?;
        Some(if object.has_finalizer() {
            Effect::Unlock(object.clone())
        } else {
            Effect::Delete(object.clone())
        })
    }

    /// Is there an object that the watch has not shown yet? Another manager may have made it a moment ago.
    fn look(&self, key: &ClaimKey, named: Option<String>) -> Next {
        let prefix = self.pool.as_ref().map(|pool| &pool.spec.name_prefix);
        let held = self.allocator.held_by(key).zip(prefix);
        let name = named.or_else(|| held.map(|(ip, prefix)| address_name(prefix, ip)));
        name.map_or(Next::Settled, |name| {
            let family = key.family;
            Next::Do(Effect::Look(key.clone(), AddressId { family, name }))
        })
    }

    /// An address, or the intention to give one, without a claim.
    fn unclaimed(&mut self, key: &ClaimKey, now: Moment) -> Next {
        // What a manager made goes with its claim, also when its finalizer is off already. What was made by hand stays,
        // until somebody deletes it.
        let goes = |object: &&Arc<Address>| {
            let is_ending = object.is_deleting && !object.has_finalizer();
            !is_ending && (object.owner.is_some() || object.is_deleting)
        };
        let ids = self.objects.get(key);
        let object = ids.and_then(|ids| ids.iter().filter_map(|id| self.addresses.get(id)).find(goes));
        if let Some(object) = object {
            let grace = i64::try_from(self.policy.orphan_grace.as_secs()).unwrap_or(i64::MAX);
            let left = object
                .created
                .saturating_add(grace)
                .saturating_sub(now.wall.as_second());
            if !object.is_deleting && left > 0 {
                return Next::At(now.elapsed + Duration::from_secs(left.unsigned_abs()));
            }
            if !self.absent.contains(key) {
                return Next::Do(Effect::LookAtClaim(key.clone()));
            }
            let object = object.clone();
            return Next::Do(if object.has_finalizer() {
                Effect::Unlock(object)
            } else {
                Effect::Delete(object)
            });
        }
        if ids.is_some() {
            return Next::Settled;
        }
        match self.stages.get(key) {
            // The claim may be one that only the other manager has seen so far.
            Some(Stage::Recorded) if !self.absent.contains(key) => Next::Do(Effect::LookAtClaim(key.clone())),
            Some(Stage::Recorded) if !self.looked.contains(key) => self.look(key, None),
            Some(_) => {
                self.vacate(key);
                Next::Settled
            }
            None => Next::Settled,
        }
    }

    /// Claims on a pool that does not exist: they are told so, and can be deleted.
    fn without_pool(&mut self, now: Moment) -> Round {
        let mut round = Round::default();
        self.wake(now.elapsed);
        for key in self.dirty.clone() {
            if round.effects.len() >= self.policy.batch {
                break;
            }
            let next = match self.claims.get(&key).cloned() {
                Some(claim) if claim.is_paused || self.is_cluster_resting(&claim) => Next::Settled,
                Some(_) if self.later.get(&key).is_some_and(|at| *at > now.elapsed) => Next::Record,
                Some(claim) if claim.is_deleting => self.releasing(&claim),
                // An address is kept by its object, whatever becomes of the pool.
                Some(claim) if claim.address.is_some() => Next::Settled,
                Some(claim) => {
                    let field = match key.family {
                        Family::Metal3 => "spec.pool.name",
                        Family::ClusterApi => "spec.poolRef.name",
                    };
                    let (namespace, pool) = (&self.namespace, &self.name);
                    let message = format!("{field}: IPPool {namespace}/{pool} does not exist; the claim waits for it");
                    let report = ClaimReport {
                        address: None,
                        error: claim.error.clone(),
                        reason: reason::POOL_NOT_READY,
                        message,
                        now: now.wall,
                    };
                    report_to(&claim, report)
                }
                None => self.unclaimed(&key, now),
            };
            match next {
                Next::Do(effect) => round.effects.push(effect),
                Next::At(time) => {
                    self.dirty.remove(&key);
                    self.later.insert(key, time);
                }
                Next::Record | Next::Settled => {
                    self.dirty.remove(&key);
                }
            }
        }
        if round.effects.is_empty() {
            round.again = self.later.values().min().map(|at| at.saturating_sub(now.elapsed));
        }
        round
    }

    /// The claims that got no address because none is left.
    pub fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// Objects for an address or a claim that another object is for, by name.
    pub(super) fn rival_names(&self) -> Vec<String> {
        let name = |id: &AddressId| format!("{} IPAddress {}", id.family.api_version(), id.name);
        self.rivals.iter().map(name).collect()
    }
}

fn soonest(again: &mut Option<Duration>, other: Duration) {
    *again = Some(again.map_or(other, |again| again.min(other)));
}

fn served(object: &Address, now: Moment) -> ClaimReport {
    ClaimReport {
        address: Some(object.id.name.clone()),
        error: None,
        reason: conditions::READY,
        message: String::new(),
        now: now.wall,
    }
}

fn failed(message: String, reason: &'static str, now: Moment) -> ClaimReport {
    ClaimReport {
        address: None,
        error: Some(message.clone()),
        reason,
        message,
        now: now.wall,
    }
}

/// The claim's status, if it does not say that already.
fn report_to(claim: &Arc<Claim>, report: ClaimReport) -> Next {
    let ready = conditions::get(&claim.conditions, conditions::READY);
    let says =
        |status| ready.is_some_and(|c| c.status == status && c.reason == report.reason && c.message == report.message);
    let is_said = match (&report.address, claim.key.family) {
        // Claims that were served before there were conditions are left as they are.
        (Some(_), Family::Metal3) => ready.is_none() || says(ConditionStatus::True),
        (Some(_), Family::ClusterApi) => says(ConditionStatus::True),
        (None, _) => says(ConditionStatus::False),
    };
    let is_same =
        claim.address == report.address && (claim.error == report.error || claim.key.family == Family::ClusterApi);
    if is_same && is_said {
        Next::Settled
    } else {
        Next::Do(Effect::Report(claim.clone(), report))
    }
}
