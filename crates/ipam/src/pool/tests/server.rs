//! What the server does with a request: what etcd and the API server guarantee, and no more.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use metal3_api::ipam::{IPPool, IPPoolStatus};
use metal3_runtime::conditions;

use super::invariants::what_is_reserved_may_be_given;
use super::world::{POOL, World};
use crate::pool::effect::{ClaimReport, Effect, NewAddress, Objects, Outcome, Record, Snapshot};
use crate::pool::objects::{Address, AddressId, Claim, Family, Version, version};
use crate::pool::reservation::Reservation;

impl World {
    pub fn execute(&mut self, effect: &Effect) -> Outcome {
        match effect {
            Effect::Refresh(_) => Outcome::Snapshot(Snapshot {
                pool: self.pool.clone(),
                objects: Arc::new(self.listed()),
            }),
            Effect::Pool(meta) => self.with_pool(version(meta), |pool| {
                if let Some(finalizers) = &meta.finalizers {
                    pool.metadata.finalizers = Some(finalizers.clone());
                }
                let labels = pool.metadata.labels.get_or_insert_default();
                labels.extend(meta.labels.clone().unwrap_or_default());
            }),
            Effect::Record(record) => {
                let is_upstreams = self.is_upstreams;
                let is_settled = self.claims_with_addresses();
                self.with_pool(record.version, |pool| {
                    what_is_reserved_may_be_given(record, pool, &is_settled);
                    write(record, pool);
                    if let Some(status) = pool.status.as_mut().filter(|_| is_upstreams) {
                        (status.allocating, status.usage) = (Vec::new(), None);
                        status.conditions.clear();
                    }
                })
            }
            Effect::AddFinalizer(seen) => self.with_claim(seen, |claim| {
                claim.meta.finalizers.push(claim.key.family.claim_finalizer().into());
            }),
            Effect::Release(seen) => self.with_claim(seen, |claim| {
                let ours = claim.key.family.claim_finalizer();
                claim.meta.finalizers.retain(|f| f != ours);
            }),
            Effect::Report(seen, report) => {
                self.what_is_told_is_so(seen, report);
                let is_upstreams = self.is_upstreams;
                self.with_claim(seen, |claim| {
                    tell(report, claim);
                    if is_upstreams && claim.key.family == Family::Metal3 {
                        claim.conditions.clear();
                    }
                })
            }
            Effect::Create(new) => self.create(new),
            Effect::Own(seen, new) => self.with_address(seen, |address| {
                let ours = address.id.family.address_finalizer();
                if !address.meta.is_deleting && !address.has_finalizer() {
                    address.meta.finalizers.push(ours.into());
                }
                address.owner = Some(new.claim.meta.uid.clone());
            }),
            Effect::Unlock(seen) => self.with_address(seen, |address| {
                let ours = address.id.family.address_finalizer();
                address.meta.finalizers.retain(|f| f != ours);
            }),
            Effect::Delete(seen) => {
                let answer = self.with_address(seen, |address| address.meta.is_deleting = true);
                match answer {
                    Outcome::Address(address) if address.meta.finalizers.is_empty() => Outcome::Absent,
                    answer => answer,
                }
            }
        }
    }

    pub fn listed(&self) -> Objects {
        Objects {
            addresses: self.addresses.values().cloned().collect(),
            addresses_as_of: [self.version; 2],
            claims: self.claims.values().cloned().collect(),
            claims_as_of: [self.version; 2],
        }
    }

    fn stale<T>(&mut self, there: Option<T>, outcome: impl Fn(T) -> Outcome) -> Outcome {
        self.conflicts += 1;
        Outcome::Stale(Box::new(there.map_or(Outcome::Absent, outcome)))
    }

    fn with_pool(&mut self, seen: Version, change: impl FnOnce(&mut IPPool)) -> Outcome {
        let Some(there) = self.pool.clone() else {
            return Outcome::Absent;
        };
        if version(&there.metadata) != seen {
            return self.stale(Some(there), Outcome::Pool);
        }
        let mut pool = (*there).clone();
        change(&mut pool);
        self.write_pool(pool)
    }

    fn with_claim(&mut self, seen: &Claim, change: impl FnOnce(&mut Claim)) -> Outcome {
        let Some(there) = self.claims.get(&seen.key).cloned() else {
            return Outcome::Absent;
        };
        if there.meta.version != seen.meta.version {
            return self.stale(Some(there), Outcome::Claim);
        }
        let mut claim = (*there).clone();
        change(&mut claim);
        self.write_claim(claim)
    }

    fn with_address(&mut self, seen: &Address, change: impl FnOnce(&mut Address)) -> Outcome {
        let Some(there) = self.addresses.get(&seen.id).cloned() else {
            return Outcome::Absent;
        };
        if there.meta.version != seen.meta.version {
            return self.stale(Some(there), Outcome::Address);
        }
        let mut address = (*there).clone();
        change(&mut address);
        self.write_address(address)
    }

    /// The only thing that the server checks is the name.
    fn create(&mut self, new: &NewAddress) -> Outcome {
        let family = new.claim.key.family;
        let id = AddressId {
            family,
            name: new.name.clone(),
        };
        if let Some(there) = self.addresses.get(&id).cloned() {
            return self.stale(Some(there), Outcome::Address);
        }
        self.what_is_made_is_reserved(new);
        self.write_address(Address {
            meta: self.new_meta("address", Some(family.address_finalizer())),
            id,
            pool: POOL.into(),
            claim: new.claim.key.clone(),
            owner: Some(new.claim.meta.uid.clone()),
            address: Some(new.address),
        })
    }
}

fn write(record: &Record, pool: &mut IPPool) {
    let status = pool.status.get_or_insert_with(IPPoolStatus::default);
    for (name, address) in &record.indexes {
        match address {
            Some(address) => status.allocations.insert(name.clone(), address.clone()),
            None => status.allocations.remove(name),
        };
    }
    status.allocating = record.reservations.iter().map(Reservation::to_wire).collect();
    status.usage = record.usage;
    status.conditions.clone_from(&record.conditions);
    status.last_updated = Some(Time(record.last_updated));
}

fn tell(report: &ClaimReport, claim: &mut Claim) {
    claim.address.clone_from(&report.address);
    claim.error.clone_from(&report.error);
    conditions::set(&mut claim.conditions, &report.ready(), None, report.now);
}
