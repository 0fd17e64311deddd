//! The next step for one claim, or for its leftovers.

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
        // Checked before whether a pool of that name exists here: it would be the wrong one.
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

    /// Whether a claim has an address: it keeps that, because upstream matches claims by the pool's name alone. Leftovers of an
    /// earlier claim of its name do not count.
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
            // The object in the way of a new one is being deleted.
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

    /// Makes the claim the owner of an object created by hand, or for an earlier claim of the name. From then on no stale view
    /// can lead to its deletion.
    fn own(&self, claim: &Arc<Claim>, object: &Arc<Address>, ip: IpAddr) -> Step {
        if object.meta.is_deleting && !object.has_finalizer() {
            // It is being deleted; another one is created afterwards.
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

    /// The claim waits until its address is reserved. If the pool cannot be written, the claim reports that.
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
            // Every entry was already tried for an older claim.
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

    /// A claim being deleted: first its address is removed, then our finalizer.
    fn release(&self, claim: &Arc<Claim>) -> Step {
        if claim.is_kept_by_others() {
            // It is in use: consumers protect their address with a finalizer.
            return Step::Done;
        }
        // Finalizers of others are theirs to remove; the address stays taken until then. The claim need not wait for it.
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

    /// An object that no claim needs. One created by a manager is deleted with its claim; one created by hand stays until a user
    /// deletes it.
    pub(super) fn left_over(&self, object: &Arc<Address>) -> Step {
        let state = self.state;
        let is_ours = object.owner.is_some();
        let goes = match state.claims.get(&object.claim) {
            // Its release deletes the object, and a paused claim is not changed.
            Some(claim) if claim.meta.is_deleting || is_resting(state, claim) => false,
            // Another object holds the claim's address.
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

    /// How long to keep an orphaned object. One that has a claim, or blocks a claim, is not kept.
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
