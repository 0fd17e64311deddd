//! The invariants of [`crate::pool`], by their numbers there.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use kube::ResourceExt;
use metal3_api::condition::ConditionStatus;
use metal3_api::ipam::IPPool;
use metal3_runtime::conditions;

use super::manager::Manager;
use super::world::{World, address_of};
use crate::alloc::Plan;
use crate::pool::effect::{ClaimReport, NewAddress, Record};
use crate::pool::event::Event;
use crate::pool::objects::{AddressId, Claim, ClaimKey, Family};
use crate::pool::reservation::Reservation;

/// What is about to be reserved: addresses that the pool has by its specification of this moment, and keeps for nobody else.
/// Claims that have an address keep it, whatever becomes of the pool.
pub fn what_is_reserved_may_be_given(record: &Record, pool: &IPPool, is_settled: &BTreeSet<ClaimKey>) {
    let (plan, before) = (Plan::read(&pool.spec), Reservation::all(pool));
    let is_new = |reservation: &&Reservation| !before.contains(*reservation);
    let is_open = |reservation: &&Reservation| !is_settled.contains(&reservation.claim);
    for reservation in record.reservations.iter().filter(is_new).filter(is_open) {
        let (claim, address) = (&reservation.claim, reservation.address);
        assert!(
            plan.contains(address),
            "{claim} is reserved {address}, which is in no range"
        );
        let others = plan
            .reserved()
            .find(|(name, kept)| *kept == address && *name != claim.name);
        assert_eq!(others, None, "{claim} is reserved what is kept for another claim");
    }
}

impl World {
    /// Claims that have been reserved or told an address, or for which one was made, if only for a while.
    pub fn claims_with_addresses(&self) -> BTreeSet<ClaimKey> {
        let with_one = |event: &Event| match event {
            Event::Claim(claim) => claim.address.is_some().then(|| claim.key.clone()),
            Event::Address(address) => Some(address.claim.clone()),
            _ => None,
        };
        let reserved = self.reserved.iter().map(|(_, reservation)| reservation.claim.clone());
        let seen = self.logs[1].iter().chain(&self.logs[2]).filter_map(with_one);
        seen.chain(reserved).collect()
    }

    /// A claim has the address that its status names, until it is deleted and nobody uses it any more.
    pub fn no_address_has_two_holders(&self) {
        let mut holders: BTreeMap<IpAddr, &Claim> = BTreeMap::new();
        for claim in self.claims.values().filter(|claim| !claim.is_going()) {
            let Some(name) = &claim.address else { continue };
            if let Some(other) = holders.insert(address_of(name), claim) {
                panic!(
                    "{name} has two holders: {} and {}\n{}",
                    claim.key,
                    other.key,
                    self.shown()
                );
            }
        }
    }

    /// What is about to be written to a claim: an address that there is, that is the claim's, and no other one than before.
    pub fn what_is_told_is_so(&self, seen: &Claim, report: &ClaimReport) {
        let there = self
            .claims
            .get(&seen.key)
            .filter(|claim| claim.meta.version == seen.meta.version);
        let Some(claim) = there else { return };
        if let Some(before) = &claim.address {
            assert_eq!(
                report.address.as_ref(),
                Some(before),
                "{} is told something else\n{}",
                claim.key,
                self.shown()
            );
        }
        if let Some(name) = &report.address {
            let id = AddressId {
                family: claim.key.family,
                name: name.clone(),
            };
            let object = self.addresses.get(&id);
            let is_its = object.is_some_and(|object| object.owner.as_ref() == Some(&claim.meta.uid));
            assert!(
                is_its,
                "{} is told {name}, which is not its own\n{}",
                claim.key,
                self.shown()
            );
        }
    }

    /// What is about to be made: an address that is reserved to the very claim, which our finalizer keeps meanwhile.
    ///
    /// A request may be late: its sender has been killed or has given it up, or another manager is faster. Until it
    /// arrives, the reservation may have ended, because the claim has got an address or is gone. There has been one all the
    /// same, because no request is sent before.
    pub fn what_is_made_is_reserved(&self, new: &NewAddress) {
        let (key, uid) = (&new.claim.key, &new.claim.meta.uid);
        let reservation = Reservation::new(&new.claim, new.address);
        let is_reserved = |pool: &Arc<IPPool>| Reservation::all(pool).contains(&reservation);
        let is_kept = self.pool.as_ref().is_some_and(is_reserved);
        let was_made = self.reserved.contains(&(new.pool.uid().unwrap(), reservation));
        let claim = self.claims.get(key).filter(|claim| claim.meta.uid == *uid);
        let has_address = self
            .addresses
            .values()
            .any(|address| address.owner.as_ref() == Some(uid));
        let may_be_over = claim.is_none_or(|claim| claim.is_going()) || has_address;
        assert!(
            is_kept || was_made && may_be_over,
            "{} is made for {key}, to which it is not reserved\n{}",
            new.name,
            self.shown()
        );
        // Nobody but a manager takes it off, and that is the end of the claim.
        assert!(
            claim.is_none_or(|claim| claim.is_ours()),
            "{} is made for {key}, which does not wait for its release\n{}",
            new.name,
            self.shown()
        );
    }

    fn shown(&self) -> String {
        format!("{:#?}\n{:#?}\n{:#?}", self.claims, self.addresses, self.pool)
    }
}

/// Everybody gets time, and nothing is lost any more.
pub fn settle(world: &mut World, managers: &mut [Manager]) {
    const TURNS: u32 = 1500;
    let mut quiet = 0;
    let mut last = Vec::new();
    for _ in 0..TURNS {
        let before = world.version;
        for manager in managers.iter_mut() {
            last = manager.turn(world);
        }
        if world.version == before {
            // Longer than every pause, of which the longest is a minute.
            world.clock += Duration::from_secs(7);
            quiet += 1;
            if quiet > 20 {
                return;
            }
        } else {
            world.clock += Duration::from_millis(50);
            quiet = 0;
        }
    }
    panic!("it never comes to rest: {last:#?}\n{}", world.shown());
}

/// What must be true in the end.
pub fn everything_is_in_order(world: &World, capacity: usize) {
    assert!(
        world.claims.values().all(|claim| !claim.meta.is_deleting),
        "a claim does not go away: {}",
        world.shown()
    );
    for claim in world.claims.values() {
        let object = world.addresses.values().find(|address| address.claim == claim.key);
        match (&claim.address, object) {
            (Some(name), Some(object)) => assert_eq!(*name, object.id.name),
            (None, None) => {
                let ready = conditions::get(&claim.conditions, conditions::READY);
                assert!(
                    ready.is_some_and(|c| c.status == ConditionStatus::False),
                    "{} waits in silence: {}",
                    claim.key,
                    world.shown()
                );
            }
            _ => panic!("{}: status and objects do not fit: {}", claim.key, world.shown()),
        }
    }
    let served = world.claims.values().filter(|claim| claim.address.is_some()).count();
    assert_eq!(
        world.addresses.len(),
        served,
        "an address is left over: {}",
        world.shown()
    );
    let waits = |claim: &&Arc<Claim>| claim.address.is_none() && claim.requested.is_empty();
    let others = world.claims.values().filter(waits).count();
    assert!(
        others == 0 || served >= capacity,
        "{others} claims wait although there is room: {}",
        world.shown()
    );
    if let Some(pool) = &world.pool {
        let status = pool.status.clone().unwrap_or_default();
        assert_eq!(status.allocating, [], "{}", world.shown());
        let mut expected = BTreeMap::new();
        // Of two claims of one name, Metal3's is shown.
        for family in Family::ALL.into_iter().rev() {
            for address in world.addresses.values().filter(|address| address.id.family == family) {
                expected.insert(address.claim.name.clone(), address.address.unwrap().to_string());
            }
        }
        assert_eq!(status.allocations, expected);
        let usage = status.usage.unwrap();
        assert_eq!(usage.used, i64::try_from(served).unwrap());
    }
}
