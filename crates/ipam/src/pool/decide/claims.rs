//! The next step for one claim, or for what is left of one.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use super::rest::{at_rest, is_resting};
use super::texts::{elsewhere, not_ready, report_to, served};
use super::{Step, Turn};
use crate::alloc::Refusal;
use crate::pool::effect::{Effect, NewAddress};
use crate::pool::objects::{Address, Claim, address_name};
use crate::pool::reservation::Reservation;

impl<'a> Turn<'a> {
    pub(super) fn step(&mut self, claim: &'a Arc<Claim>) -> Step {
        let (state, now) = (self.state, self.now);
        if let Some(wait) = self.backed_off(&claim.key) {
            return self.report_failure(claim).map_or(wait, Step::Do);
        }
        if is_resting(state, claim) {
            return at_rest(state, claim, now);
        }
        if claim.meta.is_deleting {
            return self.release(claim);
        }
        // Before the question whether there is a pool of that name here: it would not be the one that is meant.
        if let Some(report) = elsewhere(claim, now).filter(|_| !self.has_address(claim)) {
            return report_to(claim, report);
        }
        if state.pool.is_none() {
            return self.without_pool(claim);
        }
        if !claim.is_ours() {
            return Step::Do(Effect::AddFinalizer(claim.clone()));
        }
        self.serve(claim)
    }

    /// Whether a claim has an address: it keeps that, as upstream serves claims by the name of the pool alone. What an
    /// earlier claim of its name has left is not its own.
    fn has_address(&self, claim: &Claim) -> bool {
        let mut objects = self.holdings.objects_of(&claim.key);
        self.state.named_object(claim).is_some() || objects.any(|object| object.is_of(claim))
    }

    fn serve(&mut self, claim: &'a Arc<Claim>) -> Step {
        let key = &claim.key;
        if let Some(object) = self.state.named_object(claim) {
            return self.keep(claim, object);
        }
        let Some(ip) = self.holdings.held_by(key) else {
            return self.choose(claim);
        };
        if !self.state.reservations.contains(&Reservation::new(claim, ip)) {
            return self.propose(claim, ip);
        }
        match self.holdings.main_object(key, ip) {
            // What is in the way of a new object is being removed.
            None if self.holdings.in_the_way(key, ip).is_some() => Step::Done,
            None => self
                .new_address(claim, ip)
                .map_or(Step::Done, |new| Step::Do(Effect::Create(new))),
            Some(object) if object.is_of(claim) => report_to(claim, served(object, self.now)),
            Some(object) => self.own(claim, object, ip),
        }
    }

    /// A claim whose status names its address.
    fn keep(&self, claim: &Arc<Claim>, object: &Arc<Address>) -> Step {
        match (report_to(claim, served(object, self.now)), object.address) {
            (Step::Done, Some(ip)) if !object.is_of(claim) => self.own(claim, object, ip),
            (step, _) => step,
        }
    }

    /// An object that was made by hand, or for an earlier claim of the name, becomes the claim's own. Nothing can remove it
    /// from then on in the belief that it is still what it was.
    fn own(&self, claim: &Arc<Claim>, object: &Arc<Address>, ip: IpAddr) -> Step {
        if object.meta.is_deleting && !object.has_finalizer() {
            // It is on its way out; another one is made then.
            return self.wait_for_end_of(object, claim);
        }
        let new = self.new_address(claim, ip);
        new.map_or(Step::Done, |new| Step::Do(Effect::Own(object.clone(), new)))
    }

    fn new_address(&self, claim: &Arc<Claim>, ip: IpAddr) -> Option<NewAddress> {
        let pool = self.state.pool.clone()?;
        Some(NewAddress {
            name: address_name(&pool.spec.name_prefix, ip),
            claim: claim.clone(),
            pool,
            address: ip,
            settings: self.state.plan.settings(ip),
        })
    }

    /// The claim waits until the address is reserved for it. If the pool cannot be written, it says so.
    fn propose(&mut self, claim: &Arc<Claim>, ip: IpAddr) -> Step {
        if let Some(why) = self.why_failing().filter(|_| claim.address.is_none()) {
            return report_to(claim, not_ready(claim, why, self.now));
        }
        if self.room > 0 {
            self.room -= 1;
            self.new.push(Reservation::new(claim, ip));
        }
        Step::Done
    }

    fn choose(&mut self, claim: &'a Arc<Claim>) -> Step {
        if self.room == 0 {
            return Step::Done;
        }
        let is_plain = claim.requested.is_empty() && self.state.plan.reserved_for(&claim.key.name).is_none();
        let grant = if is_plain && self.exhausted > 0 {
            // Every entry has been tried for an older claim.
            Err(Refusal::Exhausted)
        } else {
            self.seed = self.seed.wrapping_add(1);
            self.holdings.allocate(claim, self.seed)
        };
        match grant {
            Ok(grant) => self.propose(claim, grant.address),
            Err(refusal) => {
                if refusal.is_exhaustion() {
                    self.exhausted += 1;
                }
                report_to(claim, self.refusal(claim, &refusal))
            }
        }
    }

    /// A claim that is being deleted: first its address goes, then our finalizer.
    fn release(&self, claim: &Arc<Claim>) -> Step {
        if claim.is_kept_by_others() {
            // It is in use: that is how a consumer protects its address.
            return Step::Done;
        }
        // The finalizers of others end when they end; the address stays taken until then. The claim need not wait for it.
        let object = self
            .holdings
            .objects_of(&claim.key)
            .find(|object| object.is_removable());
        match object {
            Some(object) => Step::Do(Effect::removal(object)),
            None if claim.is_ours() => Step::Do(Effect::Release(claim.clone())),
            None => Step::Done,
        }
    }

    /// An object that no claim needs. What a manager made goes with its claim; what was made by hand stays until it is
    /// deleted.
    pub(super) fn left_over(&self, object: &Arc<Address>) -> Step {
        let state = self.state;
        let is_ours = object.owner.is_some();
        let goes = match state.claims.get(&object.claim) {
            // Its release takes the object along, and nothing is done for one that is paused.
            Some(claim) if claim.meta.is_deleting || is_resting(state, claim) => false,
            // Another object gives the claim its address.
            Some(claim) => match state.named_object(claim) {
                Some(told) => is_ours && told.id != object.id,
                None => is_ours && !object.is_of(claim) && self.holdings.rivals.contains(&object.id),
            },
            None => object
                .owner
                .as_ref()
                .map_or(object.meta.is_deleting, |uid| state.is_gone(uid)),
        };
        if !goes || !object.is_removable() {
            return Step::Done;
        }
        match self.grace_of(object) {
            Duration::ZERO => Step::Do(Effect::removal(object)),
            left => Step::At(self.now.elapsed + left),
        }
    }

    /// How long an object is still left alone. One that has a claim or stands in a claim's way is not.
    fn grace_of(&self, object: &Address) -> Duration {
        let has_claim = self.state.claims.contains_key(&object.claim);
        if has_claim || object.meta.is_deleting || self.holdings.rivals.contains(&object.id) {
            return Duration::ZERO;
        }
        let grace = i64::try_from(self.state.policy.orphan_grace.as_secs()).unwrap_or(i64::MAX);
        let end = object.meta.created.saturating_add(grace);
        let left = end.saturating_sub(self.now.wall.as_second());
        Duration::from_secs(u64::try_from(left).unwrap_or_default())
    }
}
