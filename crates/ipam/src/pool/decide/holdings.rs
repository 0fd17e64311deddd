//! Which claim holds which address. Usually all objects and reservations agree; if two conflict over an address or a claim, a
//! fixed order decides that does not depend on the order of observation.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;

use crate::alloc::{Allocator, Grant, Refusal, parse_as_held};
use crate::pool::PoolState;
use crate::pool::objects::{Address, AddressId, Claim, ClaimKey, address_name};
use crate::pool::reservation::Reservation;

/// Which claim holds which address at one moment.
pub(super) struct Holdings<'a> {
    state: &'a PoolState,
    allocator: Allocator<'a, &'a ClaimKey>,
    objects: HashMap<&'a ClaimKey, Vec<&'a Arc<Address>>>,
    /// Objects whose address or claim belongs to another object or reservation.
    pub(super) rivals: HashSet<&'a AddressId>,
}

impl<'a> Holdings<'a> {
    /// Precedence: first reservations, because the manager that made one may be about to write the claim's status; then the
    /// objects that claims name; then all other objects, those of living claims and the oldest first; last the entries of the
    /// pool's status for objects that are gone.
    pub(super) fn of(state: &'a PoolState) -> Self {
        let mut objects: HashMap<&ClaimKey, Vec<&Arc<Address>>> = HashMap::new();
        for address in state.addresses.values() {
            objects.entry(&address.claim).or_default().push(address);
        }
        let mut this = Self {
            state,
            allocator: Allocator::new(&state.plan),
            objects,
            rivals: HashSet::new(),
        };
        for ip in state.foreign.values() {
            this.allocator.block(*ip);
        }
        let reserved = this.place_reservations();
        for claim in state.claims.values() {
            if let Some(ip) = state.named_object(claim).and_then(|object| object.address) {
                this.allocator.hold(&claim.key, ip);
            }
        }
        this.place_objects(&reserved);
        this.place_remembered();
        this
    }

    pub(super) fn allocator(&self) -> &Allocator<'a, &'a ClaimKey> {
        &self.allocator
    }

    pub(super) fn held_by(&self, key: &'a ClaimKey) -> Option<IpAddr> {
        self.allocator.held_by(&key)
    }

    /// Allocates an address for a claim, requested or free.
    pub(super) fn allocate(&mut self, claim: &'a Claim, seed: u64) -> Result<Grant, Refusal> {
        let grant = self.allocator.choose(&claim.key.name, &claim.requested, seed)?;
        if !claim.key.family.takes_prefix(grant.settings.prefix) {
            return Err(Refusal::InvalidPrefix(grant.settings.prefix));
        }
        self.allocator.hold(&claim.key, grant.address);
        Ok(grant)
    }

    /// The address objects for claims of this name.
    pub(super) fn objects_of(&self, key: &ClaimKey) -> impl Iterator<Item = &'a Arc<Address>> {
        self.objects.get(key).into_iter().flatten().copied()
    }

    pub(super) fn has_objects(&self, key: &ClaimKey) -> bool {
        self.objects.contains_key(key)
    }

    /// The object with a claim's address: the one that the claim names, or its own, or the oldest.
    pub(super) fn main_object(&self, key: &ClaimKey, ip: IpAddr) -> Option<&'a Arc<Address>> {
        let claim = self.state.claims.get(key);
        let rank = |object: &&Arc<Address>| {
            let is_told = claim.is_some_and(|claim| claim.address.as_ref() == Some(&object.id.name));
            let is_own = claim.is_some_and(|claim| object.is_of(claim));
            (!is_told, !is_own, object.meta.created, object.id.clone())
        };
        let objects = self.objects_of(key).filter(|object| object.address == Some(ip));
        objects.min_by_key(rank)
    }

    /// The name that the object for an address has.
    fn id_of(&self, key: &ClaimKey, ip: IpAddr) -> Option<AddressId> {
        let name = address_name(&self.state.pool.as_ref()?.spec.name_prefix, ip);
        let family = key.family;
        Some(AddressId { family, name })
    }

    /// The object that has the name of an address but is not the claim's.
    pub(super) fn in_the_way(&self, key: &ClaimKey, ip: IpAddr) -> Option<&'a Arc<Address>> {
        let there = self.state.addresses.get(&self.id_of(key, ip)?)?;
        (there.claim != *key || there.address != Some(ip)).then_some(there)
    }

    /// Whether a reservation can be removed from the pool's status: an object that a living claim names protects itself, and a
    /// claim that is gone needs none.
    pub(super) fn is_over(&self, reservation: &Reservation) -> bool {
        let key = &reservation.claim;
        match self
            .state
            .claims
            .get(key)
            .filter(|claim| claim.meta.uid == reservation.uid)
        {
            Some(claim) if claim.is_going() => !self.has_objects(key),
            // It names this address, or another one permanently.
            Some(claim) => self.state.named_object(claim).is_some(),
            None => self.state.is_gone(&reservation.uid),
        }
    }

    /// Whether a reservation is currently blocked: the name of its address is permanently taken. It is kept until the claim names
    /// an address, because another manager may be about to create that object.
    pub(super) fn is_superseded(&self, reservation: &Reservation) -> bool {
        let (key, ip) = (&reservation.claim, reservation.address);
        let is_foreign = self
            .id_of(key, ip)
            .is_some_and(|id| self.state.foreign.contains_key(&id));
        is_foreign || self.in_the_way(key, ip).is_some_and(|there| !self.goes(there))
    }

    /// Whether an object is left over from a deleted claim, and will be removed.
    fn goes(&self, object: &Address) -> bool {
        object.is_removable() && object.owner.as_ref().is_some_and(|uid| self.state.is_gone(uid))
    }

    fn place_reservations(&mut self) -> HashMap<IpAddr, &'a ClaimKey> {
        let mut reserved = HashMap::new();
        // If several serve one claim, the one that has an object.
        let mut best: BTreeMap<&ClaimKey, (bool, IpAddr)> = BTreeMap::new();
        for reservation in self
            .state
            .reservations
            .iter()
            .filter(|reservation| !self.is_over(reservation))
        {
            let (key, ip) = (&reservation.claim, reservation.address);
            reserved.insert(ip, key);
            let claim = self.state.claims.get(key);
            if claim.is_some_and(|claim| claim.meta.uid != reservation.uid) || self.is_superseded(reservation) {
                continue;
            }
            let has_object = self.main_object(key, ip).is_some();
            let known = best.entry(key).or_insert((has_object, ip));
            if has_object && !known.0 {
                *known = (has_object, ip);
            }
        }
        for ip in reserved.keys() {
            self.allocator.block(*ip);
        }
        for (key, (_, ip)) in best {
            self.allocator.hold(key, ip);
        }
        reserved
    }

    fn place_objects(&mut self, reserved: &HashMap<IpAddr, &ClaimKey>) {
        let state = self.state;
        let is_own = |object: &Address| state.claims.get(&object.claim).is_some_and(|claim| object.is_of(claim));
        let mut objects: Vec<&Arc<Address>> = state.addresses.values().collect();
        objects.sort_by_cached_key(|object| (Reverse(is_own(object)), object.meta.created, &object.id));
        for object in objects {
            let (Some(ip), key) = (object.address, &object.claim) else {
                continue;
            };
            let is_reserved_for_other = reserved.get(&ip).is_some_and(|other| *other != key);
            let holds = !is_reserved_for_other && self.allocator.hold(key, ip);
            if !holds || self.main_object(key, ip).is_some_and(|main| main.id != object.id) {
                self.allocator.block(ip);
                self.rivals.insert(&object.id);
            }
        }
    }

    /// Claims that name an address whose object is gone: it is created again, unless another claim has the address.
    fn place_remembered(&mut self) {
        let state = self.state;
        let told = state
            .claims
            .values()
            .filter(|claim| claim.address.is_some() && !claim.is_going());
        for claim in told {
            if let Some(ip) = remembered(state, claim)
                && self.held_by(&claim.key).is_none()
                && !self.allocator.is_taken(ip)
            {
                self.allocator.hold(&claim.key, ip);
            }
        }
    }
}

/// The claim's address in the pool's status.
fn remembered(state: &PoolState, claim: &Claim) -> Option<IpAddr> {
    let pool = state.pool.as_ref()?;
    let ip = parse_as_held(pool.status.as_ref()?.allocations.get(&claim.key.name)?)?;
    (claim.address.as_ref() == Some(&address_name(&pool.spec.name_prefix, ip))).then_some(ip)
}
