//! Who holds which address. Ordinarily each object and each promise fits; where two are for one address, or for one claim,
//! an order decides that does not depend on who came first into this memory.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use super::Book;
use crate::alloc::{Allocator, parse_as_held};
use crate::pool::promise::{Promise, Promises};
use crate::pool::seen::{Address, AddressId, Claim, ClaimKey, address_name};

impl Book {
    /// A new object for a claim and an address.
    pub(super) fn place(&mut self, key: &ClaimKey, ip: IpAddr) {
        let is_only = self.objects_of(key).count() == 1;
        let fits = match self.allocator.held_by(key) {
            Some(held) => held == ip,
            None => !self.allocator.is_taken(ip) && self.allocator.hold(key.clone(), ip),
        };
        if fits && is_only {
            self.unpublished.insert(key.name.clone());
        } else {
            self.is_displaced = true;
        }
    }

    pub(super) fn drop_address(&mut self, address: &Arc<Address>) {
        let (id, key) = (&address.id, &address.claim);
        self.addresses.remove(id);
        if let Some(ids) = self.objects.get_mut(key) {
            ids.remove(id);
            if ids.is_empty() {
                self.objects.remove(key);
            }
        }
        self.dirty.insert(key.clone());
        self.changed = self.now;
        self.is_freed = true;
        let Some(ip) = address.address else { return };
        if self.rivals.remove(id) {
            self.allocator.unblock(ip);
            // The one that it stood in the way of may go on.
            if let Some(holder) = self.allocator.holder_of(ip).cloned() {
                self.later.remove(&holder);
                self.dirty.insert(holder);
            }
        } else if self.allocator.held_by(key) == Some(ip) && !self.is_wanted(key) {
            self.vacate(key);
        }
        // What stood back may come forward now.
        self.is_displaced |= !self.rivals.is_empty();
    }

    /// Whether there is a claim that has, or should get, an address.
    fn is_wanted(&self, key: &ClaimKey) -> bool {
        self.claims.get(key).is_some_and(|claim| !claim.is_going())
    }

    /// A claim no longer has an address. If it was promised, it is nobody else's yet.
    pub(in crate::pool) fn vacate(&mut self, key: &ClaimKey) {
        self.proposed.remove(key);
        if self.allocator.release(key).is_some() {
            self.unpublished.insert(key.name.clone());
            self.is_freed = true;
            self.changed = self.now;
        }
    }

    /// What the pool's status promises now. A promised address is given to nobody else, whether its claim still wants it
    /// or not.
    pub(in crate::pool) fn set_promises(&mut self, promises: Promises) {
        for promise in self.promises.iter() {
            self.allocator.unblock(promise.address);
        }
        for promise in promises.iter() {
            self.allocator.block(promise.address);
        }
        self.is_freed |= self.promises != promises;
        self.promises = promises;
        let is_open = |key: &ClaimKey| {
            let held = self.allocator.held_by(key);
            let claim = self.claims.get(key);
            held.zip(claim)
                .is_some_and(|(ip, claim)| !self.promises.has(key, &claim.meta.uid, ip))
        };
        let proposed: BTreeSet<ClaimKey> = self.proposed.iter().filter(|key| is_open(key)).cloned().collect();
        self.proposed = proposed;
    }

    /// Finds out who holds what, if that is not clear.
    pub(in crate::pool) fn place_displaced(&mut self) {
        if std::mem::take(&mut self.is_displaced) {
            self.place_all();
        }
    }

    /// Finds out from the beginning who holds what. First comes what was promised, because who promised it may be about to
    /// tell the claim; then what claims have been told; then all other objects, those of living claims and the oldest first;
    /// at last what is only intended here.
    pub(super) fn place_all(&mut self) {
        let fresh = Allocator::new(self.allocator.plan().clone());
        let before = std::mem::replace(&mut self.allocator, fresh);
        let proposed = std::mem::take(&mut self.proposed);
        self.rivals.clear();
        for ip in self.foreign.keys() {
            self.allocator.block(*ip);
        }
        let promised = self.place_promised();
        self.place_told();
        self.place_objects(&promised);
        self.place_remembered();
        for key in proposed {
            let ip = before.held_by(&key).filter(|ip| !self.allocator.is_taken(*ip));
            if let Some(ip) = ip.filter(|_| self.is_wanted(&key) && self.allocator.held_by(&key).is_none()) {
                self.allocator.hold(key.clone(), ip);
                self.proposed.insert(key);
            } else {
                // It may have one by now that it need not be promised.
                self.dirty.insert(key);
            }
        }
        let moved = |(key, ip): (&ClaimKey, IpAddr), other: &Allocator<ClaimKey>| {
            (other.held_by(key) != Some(ip)).then(|| key.clone())
        };
        let lost = before.holders().filter_map(|held| moved(held, &self.allocator));
        let won = self.allocator.holders().filter_map(|held| moved(held, &before));
        let changed: Vec<ClaimKey> = lost.chain(won).collect();
        self.unpublished.extend(changed.iter().map(|key| key.name.clone()));
        self.dirty.extend(changed);
        self.is_freed = true;
    }

    fn place_promised(&mut self) -> HashMap<IpAddr, ClaimKey> {
        let mut promised = HashMap::new();
        let mut best: HashMap<ClaimKey, (IpAddr, (bool, bool, bool))> = HashMap::new();
        for promise in self.promises.iter() {
            let (key, ip) = (&promise.claim, promise.address);
            self.allocator.block(ip);
            promised.insert(ip, key.clone());
            let claim = self.claims.get(key);
            // What was promised to another claim of the name is nothing for this one, unless that one is gone.
            if claim.is_some_and(|claim| claim.meta.uid != promise.uid) && !self.is_dead(key, &promise.uid) {
                continue;
            }
            let told = claim
                .and_then(|claim| self.told_object(claim))
                .and_then(|object| object.address);
            if told.is_some_and(|told| told != ip) {
                continue;
            }
            let has_object = self.objects_of(key).any(|object| object.address == Some(ip));
            let rank = (told.is_some(), has_object, !self.foreign.contains_key(&ip));
            if rank != (false, false, false) && best.get(key).is_none_or(|(_, other)| rank > *other) {
                best.insert(key.clone(), (ip, rank));
            }
        }
        let mut best: Vec<_> = best.into_iter().map(|(key, (ip, _))| (key, ip)).collect();
        best.sort_unstable();
        for (key, ip) in best {
            self.allocator.hold(key, ip);
        }
        promised
    }

    fn place_told(&mut self) {
        let told = |claim: &Arc<Claim>| Some((claim.key.clone(), self.told_object(claim)?.address?));
        let told: Vec<_> = self.claims.values().filter_map(told).collect();
        for (key, ip) in told {
            self.allocator.hold(key, ip);
        }
    }

    fn place_objects(&mut self, promised: &HashMap<IpAddr, ClaimKey>) {
        let is_own = |object: &Address| {
            let claim = self.claims.get(&object.claim);
            claim.is_some_and(|claim| object.owner.as_ref() == Some(&claim.meta.uid))
        };
        let order = |object: &Arc<Address>| (Reverse(is_own(object)), object.meta.created, object.id.clone());
        let mut objects: Vec<Arc<Address>> = self.addresses.values().cloned().collect();
        objects.sort_by_cached_key(order);
        for object in &objects {
            let (Some(ip), key) = (object.address, &object.claim) else {
                continue;
            };
            let is_promised_to_other = promised.get(&ip).is_some_and(|other| other != key);
            let holds = !is_promised_to_other && self.allocator.hold(key.clone(), ip);
            let is_main = self.main_object(key, ip).is_some_and(|main| main.id == object.id);
            if !holds || !is_main {
                self.allocator.block(ip);
                self.rivals.insert(object.id.clone());
            }
        }
    }

    /// The object that gives a claim an address: the one that the claim has been told, or its own, or the oldest.
    pub(in crate::pool) fn main_object(&self, key: &ClaimKey, ip: IpAddr) -> Option<&Arc<Address>> {
        let claim = self.claims.get(key);
        let rank = |object: &&Arc<Address>| {
            let is_told = claim.is_some_and(|claim| claim.address.as_ref() == Some(&object.id.name));
            let is_own = claim.is_some_and(|claim| object.owner.as_ref() == Some(&claim.meta.uid));
            (!is_told, !is_own, object.meta.created, object.id.clone())
        };
        let objects = self.objects_of(key).filter(|object| object.address == Some(ip));
        objects.min_by_key(rank)
    }

    /// Claims that have been told an address whose object is not there: it is made anew, unless somebody else has it.
    fn place_remembered(&mut self) {
        let told = self
            .claims
            .values()
            .filter(|claim| claim.address.is_some() && !claim.is_going());
        let remembered = |claim: &Arc<Claim>| Some((claim.key.clone(), self.remembered(claim)?));
        let remembered: Vec<_> = told.filter_map(remembered).collect();
        for (key, ip) in remembered {
            if self.allocator.held_by(&key).is_none() && !self.allocator.is_taken(ip) {
                self.allocator.hold(key, ip);
            }
        }
    }

    /// The address that the pool's status has for a claim whose object is gone.
    fn remembered(&self, claim: &Claim) -> Option<IpAddr> {
        let ip = parse_as_held(self.published.get(&claim.key.name)?)?;
        let prefix = &self.pool.as_ref()?.spec.name_prefix;
        (claim.address.as_ref() == Some(&address_name(prefix, ip))).then_some(ip)
    }

    /// The name of an address is taken by an object that has nothing to do with this pool: the claim gets another one.
    pub(in crate::pool) fn avoid(&mut self, key: &ClaimKey, ip: IpAddr, by: &AddressId) {
        if self.allocator.held_by(key) == Some(ip) {
            self.vacate(key);
        }
        if self.foreign.insert(ip, by.clone()).is_none() {
            self.allocator.block(ip);
        }
    }

    /// Whether nothing can come of a promise for now: the name of its address is taken, and the claim does not wait for it.
    ///
    /// It is kept nevertheless until the claim is told something: another manager may be about to make that object, and
    /// tell the claim, as soon as the name is free.
    pub(in crate::pool) fn is_superseded(&self, promise: &Promise) -> bool {
        self.foreign.contains_key(&promise.address) && self.allocator.held_by(&promise.claim) != Some(promise.address)
    }
}
