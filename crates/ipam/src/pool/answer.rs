//! What the answers to our requests say.

use std::sync::Arc;
use std::time::Duration;

use metal3_api::capi::names::reason;
use metal3_runtime::backoff::Backoff;
use metal3_runtime::events::Severity;

use super::book::{Book, Stage};
use super::effect::{Effect, Moment, NewAddress, Outcome, Record};
use super::note::{self, about};
use super::seen::{Address, Claim, ClaimKey, version};

/// The status of a pool takes at most one part in so many of the time.
const SHARE: u32 = 10;
/// And is held back for no longer than this.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

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
            Outcome::Stale(there) if is_no_news(effect, &there) => {
                return self.failed(effect, "refused although nothing has changed", now);
            }
            _ => {}
        }
        match effect.claim() {
            Some(key) => {
                self.failures.remove(key);
                self.later.remove(key);
                self.dirty.insert(key.clone());
            }
            None => self.pool_failures = 0,
        }
        self.take(effect, outcome);
    }

    fn take(&mut self, effect: &Effect, outcome: Outcome) {
        match (effect, outcome) {
            (Effect::Adopt, Outcome::Adopted(adopted)) => self.adopt(adopted),
            (Effect::Record(record), Outcome::Pool(pool)) => {
                self.recorded(record);
                // The watch may have shown our own write before this answer, or somebody else's after it.
                let written = version(&pool.metadata);
                self.trusted = Some(written);
                self.see_pool(pool);
                let newest = self.pool.as_ref().map(|pool| version(&pool.metadata));
                self.trusted = self.trusted.filter(|_| newest == Some(written));
            }
            (Effect::Create(new), Outcome::Stale(there)) => self.collided(new, *there),
            (Effect::Report(claim, report), Outcome::Claim(seen)) => {
                self.tell(claim, report);
                self.see_claim(seen);
            }
            (Effect::Release(claim), Outcome::Claim(seen)) if seen.is_deleting && seen.finalizers.is_empty() => {
                self.released(claim);
            }
            (Effect::Release(claim), Outcome::Absent) => self.released(claim),
            // If the book has one by now, it is younger than this answer.
            (Effect::Look(key, _), Outcome::Absent) => {
                self.looked.insert(key.clone());
            }
            (Effect::Look(key, _), Outcome::Address(address)) => {
                let is_its = address.pool == self.name && address.claim == *key;
                self.see(Outcome::Address(address));
                if !is_its {
                    self.looked.insert(key.clone());
                }
            }
            (Effect::LookAtClaim(key), Outcome::Absent) => {
                if !self.claims.contains_key(key) {
                    self.absent.insert(key.clone());
                }
            }
            (Effect::LookAtClaim(key), Outcome::Claim(_)) if !self.claims.contains_key(key) => {
                // It is there after all, and the watch has not shown it before this answer. Either it will show
                // it soon, or the claim is none of ours (another watch filter).
                self.later.insert(key.clone(), self.now + Duration::from_secs(600));
            }
            (Effect::Delete(address), Outcome::Absent) => {
                self.lose_address(&address.id, &address.uid);
                self.looked.insert(address.claim.clone());
                self.orphan_removed(address);
            }
            (Effect::Unlock(address), Outcome::Address(seen)) if seen.is_deleting && seen.finalizers.is_empty() => {
                self.lose_address(&address.id, &address.uid);
                self.looked.insert(address.claim.clone());
                self.orphan_removed(address);
            }
            (Effect::Unlock(address), Outcome::Absent) => {
                self.lose_address(&address.id, &address.uid);
                self.looked.insert(address.claim.clone());
            }
            (_, Outcome::Stale(there)) if *there == Outcome::Absent => self.vanished(effect),
            (_, Outcome::Stale(there)) => self.see(*there),
            (_, Outcome::Absent) => self.vanished(effect),
            (_, outcome) => self.see(outcome),
        }
    }

    fn see(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Pool(pool) => self.see_pool(pool),
            Outcome::Claim(claim) if claim.pool == self.name => self.see_claim(claim),
            Outcome::Address(address) if address.pool == self.name => self.see_address(address),
            _ => {}
        }
    }

    fn vanished(&mut self, effect: &Effect) {
        match effect {
            Effect::AddFinalizer(claim) | Effect::Report(claim, _) | Effect::Release(claim) => {
                self.lose_claim(&claim.key, &claim.uid);
            }
            Effect::Unlock(address) | Effect::Delete(address) => self.lose_address(&address.id, &address.uid),
            _ => {}
        }
    }

    /// The server has our record now: nobody else can give these addresses away.
    fn recorded(&mut self, record: &Record) {
        for (name, address) in &record.indexes {
            match address {
                Some(address) => self.published.insert(name.clone(), address.clone()),
                None => self.published.remove(name),
            };
            if self.index(name).map(|ip| ip.to_string()) == *address {
                self.unpublished.remove(name);
            }
        }
        self.recorded.clone_from(&record.allocating);
        for (key, ip) in &record.allocating {
            if self.allocator.held_by(key) == Some(*ip)
                && let Some(stage) = self.stages.get_mut(key)
            {
                *stage = Stage::Recorded;
                self.dirty.insert(key.clone());
            }
        }
    }

    /// There is an object of the name that we wanted to give to a new one.
    fn collided(&mut self, new: &NewAddress, there: Outcome) {
        let Outcome::Address(there) = there else { return };
        let key = &new.claim.key;
        if there.pool == self.name {
            // Ours after all, or another claim's: the book finds its place.
            self.see_address(there.clone());
            if there.claim == *key && there.address == Some(new.address) {
                return;
            }
        }
        if self.stages.contains_key(key) && self.allocator.held_by(key) == Some(new.address) {
            self.vacate(key);
            if self.foreign.insert(new.address, there.id.clone()).is_none() {
                self.allocator.block(new.address);
            }
        }
    }

    fn released(&mut self, claim: &Arc<Claim>) {
        let message = format!("the claim is gone, and what it had of IPPool {} is free", self.name);
        self.notes.push(about(claim, note::RELEASED, Severity::Normal, message));
        self.lose_claim(&claim.key, &claim.uid);
    }

    fn orphan_removed(&mut self, address: &Arc<Address>) {
        if self.absent.contains(&address.claim) {
            let message = format!("IPAddress {} had no claim any more: removed", address.id.name);
            self.notes.push(note::Told {
                claim: None,
                note: metal3_runtime::events::Note {
                    reason: note::ORPHANED,
                    message,
                    severity: Severity::Warning,
                },
            });
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
                _ => note::FAILED,
            };
            about(claim, reason, Severity::Warning, report.message.clone())
        };
        self.notes.push(told);
    }

    /// Only what failed is held back: other claims go on.
    fn failed(&mut self, effect: &Effect, why: &str, now: Moment) {
        let Some(key) = effect.claim() else {
            let delay = Backoff::TRANSIENT.delay(self.pool_failures, self.draws);
            self.pool_failures = self.pool_failures.saturating_add(1);
            self.pool_later = now.elapsed + delay;
            return;
        };
        self.hold_back(key, now);
        if matches!(effect, Effect::Create(_)) {
            self.broken.insert(key.clone(), why.to_owned());
        }
    }

    fn hold_back(&mut self, key: &ClaimKey, now: Moment) {
        let failures = self.failures.entry(key.clone()).or_insert(0);
        let delay = Backoff::TRANSIENT.delay(*failures, self.draws);
        *failures = failures.saturating_add(1);
        self.draws = self.draws.wrapping_add(1);
        self.later.insert(key.clone(), now.elapsed + delay);
        self.dirty.insert(key.clone());
    }

    /// Until when the pool itself is left alone after a failure, from now.
    pub(super) fn pool_retry(&self) -> Option<Duration> {
        let left = self.pool_later.saturating_sub(self.now);
        (self.pool_failures > 0 && !left.is_zero()).then_some(left)
    }
}

/// A conflict whose cause cannot be seen would be met again and again: then it counts as a failure.
fn is_no_news(effect: &Effect, there: &Outcome) -> bool {
    match (effect, there) {
        (Effect::AddFinalizer(seen) | Effect::Report(seen, _) | Effect::Release(seen), Outcome::Claim(now)) => {
            seen.uid == now.uid && seen.version == now.version
        }
        (Effect::Unlock(seen) | Effect::Delete(seen), Outcome::Address(now)) => {
            seen.uid == now.uid && seen.version == now.version
        }
        (Effect::Pool(_) | Effect::Record(_), Outcome::Pool(now)) => {
            let written = match effect {
                Effect::Pool(meta) => meta.version,
                Effect::Record(record) => record.version,
                _ => 0,
            };
            written == version(&now.metadata)
        }
        _ => false,
    }
}
