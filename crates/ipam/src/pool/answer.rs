//! What the answers to our requests say.

use std::sync::Arc;
use std::time::Duration;

use metal3_api::capi::names::reason;
use metal3_api::ipam::IPPool;
use metal3_runtime::backoff::Backoff;
use metal3_runtime::events::Severity;

use super::book::Book;
use super::doubt::{is_dropped, is_fruitless, is_no_news, is_unsaid};
use super::effect::{Effect, Moment, NewAddress, Outcome};
use super::note::{self, about};
use super::seen::{Address, Claim, ClaimKey, version};

/// The status of a pool takes at most one part in so many of the time.
const SHARE: u32 = 10;
/// And is held back for no longer than this.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Without what the status keeps, two managers, or one before and after a kill, could give one address twice.
const DROPPED: &str = "the CustomResourceDefinition of IPPool is older than this manager: it drops status.allocating, without \
     which no address can be given; apply the definitions of this version (config/crd)";

/// What is not there afterwards would be written again and again.
const UNSAID: &str = "the CustomResourceDefinition of IPClaim is older than this manager: it drops status.conditions, so that \
     claims cannot say what they wait for; apply the definitions of this version (config/crd)";

/// How often a name is tried that is taken by what a claim has left behind which is gone.
const PATIENCE: u32 = 5;

impl Book {
    /// Takes the answer to an effect in. `took` is how long it was under way.
    pub fn done(&mut self, effect: &Effect, outcome: Outcome, now: Moment, took: Duration) {
        self.now = now.elapsed;
        if let Effect::Record(_) = effect {
            self.next_record = now.elapsed + (took * SHARE).min(LONGEST_PAUSE);
        }
        match outcome {
            Outcome::Failed(why) => return self.failed(effect, &why, now),
            // The watch will tell that the pool is gone, or of another one that has come.
            Outcome::Absent if effect.claim().is_none() => return self.failed(effect, "the pool is gone", now),
            Outcome::Stale(there) if effect.claim().is_none() && *there == Outcome::Absent => {
                return self.failed(effect, "the pool is gone", now);
            }
            Outcome::Adopted(adopted) if adopted.pool.is_none() => {
                return self.failed(effect, "the pool is gone", now);
            }
            Outcome::Pool(pool) if is_dropped(effect, &pool) => return self.outdated(effect, DROPPED, now),
            Outcome::Claim(claim) if is_unsaid(effect, &claim) => return self.outdated(effect, UNSAID, now),
            Outcome::Stale(there) if is_no_news(effect, &there) => {
                return self.failed(effect, "refused although nothing has changed", now);
            }
            _ => {}
        }
        match effect.claim() {
            // That a claim could be told of a failure does not mean that what failed works again.
            Some(key) if self.tells_failure(effect) => {
                self.dirty.insert(key.clone());
            }
            Some(key) => {
                self.later.remove(key);
                self.dirty.insert(key.clone());
                if !is_fruitless(effect, &outcome) {
                    self.failures.remove(key);
                    self.broken.remove(key);
                }
            }
            None => self.stuck.succeeded(effect),
        }
        self.take(effect, outcome);
    }

    /// Whether a claim is told why its object cannot be made.
    fn tells_failure(&self, effect: &Effect) -> bool {
        matches!(effect, Effect::Report(claim, report)
            if report.address.is_none() && self.broken.contains_key(&claim.key))
    }

    fn take(&mut self, effect: &Effect, outcome: Outcome) {
        match (effect, outcome) {
            (Effect::Adopt, Outcome::Adopted(adopted)) => self.adopt(&adopted),
            (Effect::Record(record), Outcome::Pool(pool)) => {
                self.recorded(record);
                self.wrote_pool(pool);
            }
            (Effect::Pool(meta), Outcome::Pool(pool)) if meta.is_trusted => self.wrote_pool(pool),
            (Effect::Create(new), Outcome::Stale(there)) => self.collided(new, *there),
            (Effect::Report(claim, report), Outcome::Claim(seen)) => {
                self.tell(claim, report);
                self.see_claim(seen);
            }
            (Effect::Release(claim), Outcome::Claim(seen)) if seen.meta.is_gone() => {
                self.released(claim);
            }
            (Effect::Release(claim), Outcome::Absent) => self.released(claim),
            (Effect::Look(key, id), Outcome::Absent) => self.object_is_missing(key, &id.name),
            (Effect::Look(key, id), Outcome::Address(address)) => {
                let is_its = address.pool == self.name && address.claim == *key;
                self.see(Outcome::Address(address.clone()));
                if self.serves_from_elsewhere(&address) {
                    self.object_is_elsewhere(address);
                } else if !is_its {
                    self.object_is_missing(key, &id.name);
                }
            }
            (Effect::LookAtClaim(key, uids), Outcome::Absent) => self.claim_is_absent(key, uids),
            (Effect::LookAtClaim(key, uids), Outcome::Claim(claim)) => {
                self.claim_is(&claim, uids);
                if !self.claims.contains_key(key) && self.policy.is_filtered {
                    // It is none of ours. If it is one that the watch has yet to show, that will be news.
                    self.dirty.remove(key);
                } else if !self.claims.contains_key(key) {
                    // The watch has not shown it before this answer, or has shown its end already.
                    self.hold_back(key, self.now);
                }
            }
            (Effect::Delete(address), Outcome::Absent) => self.removed(address),
            (Effect::Unlock(address), Outcome::Address(seen)) if seen.meta.is_gone() => {
                self.removed(address);
            }
            (_, Outcome::Stale(there)) if *there == Outcome::Absent => self.vanished(effect),
            (_, Outcome::Stale(there)) => self.see(*there),
            (_, Outcome::Absent) => self.vanished(effect),
            (_, outcome) => self.see(outcome),
        }
    }

    /// Our own write of a pool of which everything was known, and which nobody else had written since.
    fn wrote_pool(&mut self, pool: Arc<IPPool>) {
        // The watch may have shown this write before its answer, or somebody else's after it.
        let written = version(&pool.metadata);
        self.trusted = Some(written);
        self.see_pool(pool, None);
        let newest = self.pool.as_ref().map(|pool| version(&pool.metadata));
        self.trusted = self.trusted.filter(|_| newest == Some(written));
    }

    fn see(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Pool(pool) => self.see_pool(pool, None),
            Outcome::Claim(claim) if claim.pool == self.name => self.see_claim(claim),
            Outcome::Address(address) if address.pool == self.name => self.see_address(address),
            _ => {}
        }
    }

    fn vanished(&mut self, effect: &Effect) {
        match effect {
            Effect::AddFinalizer(claim) | Effect::Report(claim, _) | Effect::Release(claim) => {
                self.claim_died(&claim.key, &claim.meta.uid);
            }
            Effect::Own(address, _) | Effect::Unlock(address) | Effect::Delete(address) => {
                self.lose_address(&address.id, &address.meta.uid);
            }
            _ => {}
        }
    }

    /// There is an object of the name that we wanted to give to a new one.
    fn collided(&mut self, new: &NewAddress, there: Outcome) {
        let Outcome::Address(there) = there else { return };
        let key = &new.claim.key;
        let is_here = there.pool == self.name && there.address == Some(new.address);
        if there.pool == self.name {
            self.see_address(there.clone());
        }
        if is_here && there.claim == *key {
            return;
        }
        let living = self.claims.get(&there.claim).map(|claim| &claim.meta.uid);
        let is_left_over = is_here && there.owner.is_some() && there.owner.as_ref() != living;
        let tries = self.failures.get(key).copied().unwrap_or_default();
        if is_left_over && tries < PATIENCE {
            // Of a claim that is gone: it goes, too, and the claim gets what was promised to it.
            self.hold_back(key, self.now);
        } else {
            self.avoid(key, new.address, &there.id);
            if there.pool != self.name {
                // There are more of that pool's probably. All of their names are found at once by reading the addresses.
                self.trusted = None;
            }
        }
    }

    fn released(&mut self, claim: &Arc<Claim>) {
        let message = format!("the claim is gone, and what it had of IPPool {} is free", self.name);
        self.notes.push(about(claim, note::RELEASED, Severity::Normal, message));
        self.claim_died(&claim.key, &claim.meta.uid);
    }

    /// The server has removed an address object: it need not be asked for it.
    fn removed(&mut self, address: &Arc<Address>) {
        self.lose_address(&address.id, &address.meta.uid);
        self.object_is_missing(&address.claim, &address.id.name);
        if self.is_absent(&address.claim) {
            let message = format!("IPAddress {} had no claim any more: removed", address.id.name);
            self.notes
                .push(note::about_pool(note::ORPHANED, Severity::Warning, message));
        }
    }

    fn tell(&mut self, claim: &Arc<Claim>, report: &super::effect::ClaimReport) {
        let (namespace, pool) = (&self.namespace, &self.name);
        let told = if let Some(name) = &report.address {
            let message = format!("IPAddress {name} of IPPool {namespace}/{pool}");
            about(claim, note::ALLOCATED, Severity::Normal, message)
        } else {
            let reason = match report.reason {
                reason::POOL_EXHAUSTED => note::EXHAUSTED,
                reason::POOL_NOT_READY => note::WAITING,
                note::CLUSTER_NOT_FOUND => note::CLUSTER_NOT_FOUND,
                _ => note::FAILED,
            };
            about(claim, reason, Severity::Warning, report.message.clone())
        };
        self.notes.push(told);
    }

    /// The server has thrown away what was written.
    fn outdated(&mut self, effect: &Effect, why: &str, now: Moment) {
        self.notes
            .push(note::about_pool(note::OUTDATED, Severity::Warning, why.to_owned()));
        self.failed(effect, why, now);
    }

    /// Only what failed is held back: other claims go on.
    fn failed(&mut self, effect: &Effect, why: &str, now: Moment) {
        let Some(key) = effect.claim() else {
            if self.stuck.failed(effect, why, now.elapsed, self.draws) {
                self.dirty.extend(self.claims.keys().cloned());
                let words = self.stuck.words(now.elapsed).unwrap_or_default().to_owned();
                self.notes
                    .push(note::about_pool(note::WAITING, Severity::Warning, words));
            }
            return;
        };
        self.hold_back(key, now.elapsed);
        if matches!(effect, Effect::Create(_)) {
            self.broken.insert(key.clone(), why.to_owned());
        }
    }

    fn hold_back(&mut self, key: &ClaimKey, now: Duration) {
        let failures = self.failures.entry(key.clone()).or_insert(0);
        let delay = Backoff::TRANSIENT.delay(*failures, self.draws);
        *failures = failures.saturating_add(1);
        self.draws = self.draws.wrapping_add(1);
        self.later.insert(key.clone(), now + delay);
        self.dirty.insert(key.clone());
    }
}
