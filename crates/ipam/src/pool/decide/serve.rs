//! A claim that wants an address.

use std::net::IpAddr;
use std::sync::Arc;

use super::words::{not_ready, report_to, served};
use super::{Book, Next};
use crate::alloc::Refusal;
use crate::pool::effect::{Effect, Moment, NewAddress};
use crate::pool::seen::{Address, AddressId, Claim, Family, address_name};

impl Book {
    pub(super) fn serving(&mut self, claim: &Arc<Claim>, now: Moment, seed: u64) -> Next {
        let key = &claim.key;
        if !self.strangers(key).is_empty() {
            // Something belongs to another claim of this name. Which of the two is there?
            return Next::Do(self.ask_for_claim(key));
        }
        if let Some(object) = self.told_object(claim).cloned() {
            return self.told(claim, &object, now);
        }
        if let Some(object) = self.told_elsewhere(claim) {
            return report_to(claim, self.unmoved(object, now));
        }
        if let Some(look) = self.look_for_told(claim) {
            // Nobody is told anything else because of a watch that lags.
            return look;
        }
        if let Some(object) = self.left_over(claim) {
            return Next::Do(Effect::removal(object));
        }
        let Some(ip) = self.allocator.held_by(key) else {
            return self.choose(claim, now, seed);
        };
        self.queue.remove(&claim.order());
        self.refused.remove(key);
        if !self.promises.has(key, &claim.meta.uid, ip) {
            return self.propose(claim, now);
        }
        match self.main_object(key, ip).cloned() {
            None => self
                .new_address(claim, ip)
                .map_or(Next::Settled, |new| Next::Do(Effect::Create(new))),
            Some(object) if object.owner.as_ref() == Some(&claim.meta.uid) => report_to(claim, served(&object, now)),
            Some(object) => self.own(claim, &object, ip, now),
        }
    }

    /// A claim that knows its address.
    fn told(&mut self, claim: &Arc<Claim>, object: &Arc<Address>, now: Moment) -> Next {
        self.queue.remove(&claim.order());
        self.refused.remove(&claim.key);
        let report = report_to(claim, served(object, now));
        match (report, object.address) {
            (Next::Settled, Some(ip)) if object.owner.as_ref() != Some(&claim.meta.uid) => {
                self.own(claim, object, ip, now)
            }
            (Next::Settled, _) => self.superfluous(claim, &object.id),
            (next, _) => next,
        }
    }

    /// What the status of a claim names is not known: does the server have it?
    pub(super) fn look_for_told(&self, claim: &Claim) -> Option<Next> {
        let name = claim.address.clone()?;
        let (key, family) = (&claim.key, claim.key.family);
        let is_open = !self.is_missing(key, &name) && self.told_object(claim).is_none();
        is_open.then(|| Next::Do(Effect::Look(key.clone(), AddressId { family, name })))
    }

    /// What a manager has made beside the object that the claim has been told.
    fn superfluous(&self, claim: &Claim, told: &AddressId) -> Next {
        let mut others = self.objects_of(&claim.key).filter(|object| object.id != *told);
        let goes = |object: &&Arc<Address>| object.owner.is_some() && object.is_removable();
        others
            .find(goes)
            .map_or(Next::Settled, |object| Next::Do(Effect::removal(object)))
    }

    /// What a claim of this name that is gone has left, and what this one cannot have: a late request may have made it.
    fn left_over(&self, claim: &Claim) -> Option<&Arc<Address>> {
        let mut objects = self.objects_of(&claim.key);
        objects.find(|object| {
            let is_of_other = object.owner.as_ref().is_some_and(|owner| *owner != claim.meta.uid);
            is_of_other && self.rivals.contains(&object.id) && object.is_removable()
        })
    }

    /// An object that was made by hand, or for an earlier claim of the name, becomes the claim's own. From then on nobody
    /// can remove it in the belief that it is still what it was.
    fn own(&self, claim: &Arc<Claim>, object: &Arc<Address>, ip: IpAddr, now: Moment) -> Next {
        if object.meta.is_deleting && !object.has_finalizer() {
            // It is on its way out; another one is made then.
            return self.wait_for_end_of(object, claim, now);
        }
        let new = self.new_address(claim, ip);
        new.map_or(Next::Settled, |new| Next::Do(Effect::Own(object.clone(), new)))
    }

    fn new_address(&self, claim: &Arc<Claim>, ip: IpAddr) -> Option<NewAddress> {
        let pool = self.pool.clone()?;
        Some(NewAddress {
            name: address_name(&pool.spec.name_prefix, ip),
            claim: claim.clone(),
            pool,
            address: ip,
            settings: self.allocator.plan().settings(ip),
        })
    }

    /// The claim waits until the pool promises it the address that it holds here. If that takes long, it says why.
    fn propose(&mut self, claim: &Arc<Claim>, now: Moment) -> Next {
        self.proposed.insert(claim.key.clone());
        let report = self.why_stuck(now).map(|why| not_ready(claim, why, now));
        match report.map(|report| report_to(claim, report)) {
            Some(Next::Do(effect)) if claim.address.is_none() => Next::Do(effect),
            _ => Next::Record,
        }
    }

    fn choose(&mut self, claim: &Arc<Claim>, now: Moment, seed: u64) -> Next {
        let key = &claim.key;
        let has_waited = self.queue.remove(&claim.order());
        self.draws = self.draws.wrapping_add(1);
        let seed = seed.wrapping_add(self.draws);
        let grant = self.allocator.allocate(key.clone(), &key.name, &claim.requested, seed);
        // Cluster API refuses such an address; Metal3's own takes any number.
        let answer = grant.and_then(|grant| {
            let prefix = grant.settings.prefix;
            if key.family == Family::ClusterApi && !(0..=128).contains(&prefix) {
                self.allocator.release(key);
                return Err(Refusal::InvalidPrefix(prefix));
            }
            Ok(())
        });
        let Err(refusal) = answer else {
            self.refused.remove(key);
            self.unpublished.insert(key.name.clone());
            return self.propose(claim, now);
        };
        if refusal.is_exhaustion() {
            self.queue.insert(claim.order());
        } else {
            // It was woken for an address that it cannot have: that is for the next one.
            self.is_freed |= has_waited;
        }
        if self.refused.insert(key.clone(), refusal.clone()).as_ref() != Some(&refusal) {
            self.changed = now.elapsed;
        }
        let report = self.refusal(claim, &refusal, now);
        report_to(claim, report)
    }
}
