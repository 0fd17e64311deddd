//! The API server of the simulation: what it has, and what users do to it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use metal3_api::capi;
use metal3_api::ipam::{IPPool, IPPoolSpec, PoolEntry};

use crate::pool::effect::Outcome;
use crate::pool::event::{Event, Removal, Tombstone};
use crate::pool::objects::{Address, AddressId, Claim, ClaimKey, Family, Meta};
use crate::pool::reservation::Reservation;

pub const PREFIX: &str = "p";
pub const POOL: &str = "pool";
/// The finalizer of somebody who uses a claim, or an address.
pub const CONSUMER: &str = "example.org/in-use";

#[derive(Default)]
pub struct World {
    pub version: u64,
    pub pool: Option<Arc<IPPool>>,
    pub claims: BTreeMap<ClaimKey, Arc<Claim>>,
    pub addresses: BTreeMap<AddressId, Arc<Address>>,
    /// One log for each of the three kinds of things, because watches do not wait for each other.
    pub logs: [Vec<Event>; 3],
    pub clock: Duration,
    pub conflicts: usize,
    /// Every reservation that was ever in the status of a pool, with the UID of that pool.
    pub reserved: BTreeSet<(String, Reservation)>,
    /// The kind is defined as upstream has it: the server drops what upstream does not know.
    pub is_upstreams: bool,
}

impl World {
    pub fn new(last: u8) -> Self {
        let mut world = Self::default();
        world.make_pool(last);
        world
    }

    pub fn make_pool(&mut self, last: u8) {
        let spec = IPPoolSpec {
            name_prefix: PREFIX.into(),
            pools: vec![entry(last)],
            ..IPPoolSpec::default()
        };
        let metadata = ObjectMeta {
            name: Some(POOL.into()),
            namespace: Some("ns".into()),
            uid: Some(format!("pool-{}", self.version)),
            creation_timestamp: Some(Time(Timestamp::UNIX_EPOCH)),
            ..ObjectMeta::default()
        };
        self.write_pool(IPPool {
            metadata,
            spec,
            status: None,
        });
    }

    pub fn seconds(&self) -> i64 {
        i64::try_from(self.clock.as_secs()).unwrap()
    }

    fn next(&mut self) -> u64 {
        self.version += 1;
        self.version
    }

    pub fn write_pool(&mut self, mut pool: IPPool) -> Outcome {
        pool.metadata.resource_version = Some(self.next().to_string());
        let is_kept = pool.metadata.finalizers.iter().flatten().count() > 0;
        let is_gone = pool.metadata.deletion_timestamp.is_some() && !is_kept;
        let uid = pool.metadata.uid.clone().unwrap();
        let reservations = Reservation::all(&pool);
        self.reserved.extend(
            reservations
                .iter()
                .map(|reservation| (uid.clone(), reservation.clone())),
        );
        let pool = Arc::new(pool);
        self.pool = (!is_gone).then(|| pool.clone());
        self.logs[0].push(shown(is_gone, Event::Pool(pool.clone(), None), Tombstone::Pool { uid }));
        Outcome::Pool(pool)
    }

    /// What the server gives an object that is made; its version comes with the writing.
    pub fn new_meta(&self, prefix: &str, finalizer: Option<&str>) -> Meta {
        Meta {
            uid: format!("{prefix}-{}", self.version),
            version: 0,
            created: self.seconds(),
            is_deleting: false,
            finalizers: finalizer.map(str::to_owned).into_iter().collect(),
        }
    }

    pub fn write_claim(&mut self, mut claim: Claim) -> Outcome {
        claim.meta.version = self.next();
        let claim = Arc::new(claim);
        let is_gone = claim.meta.is_gone();
        if is_gone {
            self.claims.remove(&claim.key);
        } else {
            self.claims.insert(claim.key.clone(), claim.clone());
        }
        let (key, uid) = (claim.key.clone(), claim.meta.uid.clone());
        self.logs[1].push(shown(
            is_gone,
            Event::Claim(claim.clone()),
            Tombstone::Claim { key, uid },
        ));
        self.no_address_has_two_holders();
        Outcome::Claim(claim)
    }

    pub fn write_address(&mut self, mut address: Address) -> Outcome {
        address.meta.version = self.next();
        let address = Arc::new(address);
        let is_gone = address.meta.is_gone();
        if is_gone {
            self.addresses.remove(&address.id);
        } else {
            self.addresses.insert(address.id.clone(), address.clone());
        }
        let (id, uid) = (address.id.clone(), address.meta.uid.clone());
        self.logs[2].push(shown(
            is_gone,
            Event::Address(address.clone()),
            Tombstone::Address { id, uid },
        ));
        Outcome::Address(address)
    }

    /// A user makes a claim, if there is none of its name.
    pub fn claim(&mut self, key: &ClaimKey, requested: &str, is_used: bool) {
        if self.claims.contains_key(key) {
            return;
        }
        self.write_claim(Claim {
            key: key.clone(),
            meta: self.new_meta("claim", is_used.then_some(CONSUMER)),
            labels: BTreeMap::new(),
            requested: requested.into(),
            pool: POOL.into(),
            other_namespace: None,
            cluster: String::new(),
            is_paused: false,
            address: None,
            error: None,
            conditions: Vec::new(),
        });
    }

    pub fn change_claim(&mut self, key: &ClaimKey, change: impl FnOnce(&mut Claim)) {
        if let Some(claim) = self.claims.get(key).cloned() {
            let mut claim = (*claim).clone();
            change(&mut claim);
            self.write_claim(claim);
        }
    }

    pub fn change_pool(&mut self, change: impl FnOnce(&mut IPPool)) {
        if let Some(pool) = self.pool.clone() {
            let mut pool = (*pool).clone();
            change(&mut pool);
            self.write_pool(pool);
        }
    }

    pub fn delete(&mut self, key: &ClaimKey) {
        self.change_claim(key, |claim| claim.meta.is_deleting = true);
    }

    /// A claim is taken away by force, without being released.
    pub fn vanish(&mut self, key: &ClaimKey) {
        self.change_claim(key, |claim| {
            claim.meta.finalizers.clear();
            claim.meta.is_deleting = true;
        });
    }

    /// Somebody keeps an address object, or lets it go again.
    pub fn keep(&mut self, which: usize) {
        let count = self.addresses.len().max(1);
        let Some(object) = self.addresses.values().nth(which % count) else {
            return;
        };
        let mut object = (**object).clone();
        let is_kept = object.meta.finalizers.iter().any(|finalizer| finalizer == CONSUMER);
        if is_kept {
            object.meta.finalizers.retain(|finalizer| finalizer != CONSUMER);
        } else if !object.meta.is_deleting {
            object.meta.finalizers.push(CONSUMER.to_owned());
        }
        self.write_address(object);
    }

    pub fn delete_pool(&mut self) {
        self.change_pool(|pool| pool.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH)));
    }

    pub fn resize(&mut self, last: u8) {
        self.change_pool(|pool| pool.spec.pools = vec![entry(last)]);
    }

    pub fn pause(&mut self, on: bool) {
        self.change_pool(|pool| {
            let annotations = pool.metadata.annotations.get_or_insert_default();
            if on {
                annotations.insert(capi::names::annotation::PAUSED.into(), String::new());
            } else {
                annotations.remove(capi::names::annotation::PAUSED);
            }
        });
    }

    /// A user makes an address object by hand, of another pool or for a claim of this one; or takes such a one away.
    pub fn by_hand(&mut self, claim: ClaimKey, last: u8, pool: &str) {
        let id = AddressId {
            family: claim.family,
            name: format!("{PREFIX}-10-0-0-{last}"),
        };
        match self.addresses.get(&id).cloned() {
            Some(there) if there.owner.is_none() => {
                let mut address = (*there).clone();
                address.meta.is_deleting = true;
                self.write_address(address);
            }
            Some(_) => {}
            None => {
                self.write_address(Address {
                    meta: self.new_meta("address", None),
                    id,
                    pool: pool.to_owned(),
                    claim,
                    owner: None,
                    address: Some(address(last)),
                });
            }
        }
    }

    /// A move or a restore empties every status.
    pub fn wipe(&mut self) {
        self.change_pool(|pool| pool.status = None);
        let claims: Vec<Claim> = self.claims.values().map(|claim| (**claim).clone()).collect();
        for mut claim in claims {
            (claim.address, claim.error) = (None, None);
            claim.conditions.clear();
            self.write_claim(claim);
        }
    }

    /// The users stop: nothing is paused, nobody uses what is being deleted, nothing foreign is left, there is room.
    pub fn calm_down(&mut self, last: u8) {
        self.pause(false);
        self.resize(last);
        let used: Vec<ClaimKey> = self.claims.keys().cloned().collect();
        for key in used {
            self.change_claim(&key, |claim| {
                claim.meta.finalizers.retain(|finalizer| finalizer != CONSUMER);
            });
        }
        let addresses: Vec<Address> = self.addresses.values().map(|address| (**address).clone()).collect();
        for mut address in addresses {
            address.meta.finalizers.retain(|finalizer| finalizer != CONSUMER);
            address.meta.is_deleting |= address.owner.is_none();
            self.write_address(address);
        }
    }
}

fn shown(is_gone: bool, event: Event, tombstone: Tombstone) -> Event {
    if is_gone {
        Event::Removed(tombstone, Removal::Deleted)
    } else {
        event
    }
}

fn entry(last: u8) -> PoolEntry {
    PoolEntry {
        start: "10.0.0.1".into(),
        end: format!("10.0.0.{last}"),
        ..PoolEntry::default()
    }
}

pub fn address(last: u8) -> IpAddr {
    [10, 0, 0, last].into()
}

/// The address that an object of this name is for.
pub fn address_of(name: &str) -> IpAddr {
    address(name.rsplit('-').next().unwrap().parse().unwrap())
}

/// The names that claims have: few, so that they come again.
const NAMES: [&str; 3] = ["a", "b", "c"];

pub fn key(n: u16) -> ClaimKey {
    ClaimKey {
        family: Family::ALL[usize::from(n % 2)],
        name: NAMES[usize::from(n / 2) % NAMES.len()].into(),
    }
}
