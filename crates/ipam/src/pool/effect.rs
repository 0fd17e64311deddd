//! What a round wants done, and what came of it. Plain data: a simulation can do it as well as an API server.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use metal3_api::condition::{Condition, ConditionStatus};
use metal3_api::ipam::{IPPool, PoolUsage};
use metal3_runtime::conditions;

use super::objects::{Address, Claim, ClaimKey, Version, version};
use super::reservation::Reservations;
use crate::alloc::Settings;

/// The time as a decision sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// For what people read.
    pub wall: Timestamp,
    /// For what is measured.
    pub elapsed: Duration,
}

/// One request to the API server. Each can be repeated, or be cut off before or after it took effect, without harm.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Read the pool, then all addresses of its namespace, then all claims, from the API server and not from a cache.
    /// Inside: how many doubts about the view there were before.
    Refresh(u64),
    /// Write what is given of the pool's metadata, if the pool is of the version given.
    Pool(Box<ObjectMeta>),
    /// Write the pool's status, if the pool is as it was seen.
    Record(Record),
    /// Put our finalizer on a claim, if it is as it was seen.
    AddFinalizer(Arc<Claim>),
    /// Make an address object.
    Create(NewAddress),
    /// Make a claim the owner of an address object that was there before it, if the object is as it was seen.
    Own(Arc<Address>, NewAddress),
    /// Write a claim's status, if the claim is as it was seen.
    Report(Arc<Claim>, ClaimReport),
    /// Take our finalizer off an address, if it is as it was seen.
    Unlock(Arc<Address>),
    /// Delete an address, if it is as it was seen.
    Delete(Arc<Address>),
    /// Take our finalizer off a claim, if it is as it was seen.
    Release(Arc<Claim>),
}

impl Effect {
    /// The next step to remove an object.
    pub fn removal(object: &Arc<Address>) -> Self {
        if object.has_finalizer() {
            Self::Unlock(object.clone())
        } else {
            Self::Delete(object.clone())
        }
    }

    /// A short name for logs and metrics.
    pub fn label(&self) -> &'static str {
        match self {
            Self::Refresh(_) => "adopt",
            Self::Pool(_) => "pool_metadata",
            Self::Record(_) => "pool_status",
            Self::AddFinalizer(_) => "claim_finalizer",
            Self::Create(_) => "address_create",
            Self::Own(..) => "address_own",
            Self::Report(..) => "claim_status",
            Self::Unlock(_) => "address_unlock",
            Self::Delete(_) => "address_delete",
            Self::Release(_) => "claim_release",
        }
    }

    /// The claim that it serves; nothing for what serves the pool.
    pub fn claim(&self) -> Option<&ClaimKey> {
        match self {
            Self::Refresh(_) | Self::Pool(_) | Self::Record(_) => None,
            Self::AddFinalizer(claim) | Self::Report(claim, _) | Self::Release(claim) => Some(&claim.key),
            Self::Create(address) | Self::Own(_, address) => Some(&address.claim.key),
            Self::Unlock(address) | Self::Delete(address) => Some(&address.claim),
        }
    }

    /// The version of the pool that it replaces; nothing for what does not write the pool.
    pub(super) fn pool_version(&self) -> Option<Version> {
        match self {
            Self::Pool(meta) => Some(version(meta)),
            Self::Record(record) => Some(record.version),
            _ => None,
        }
    }
}

/// The pool's status as it should be.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// The version of the pool that it replaces: this is what keeps two writers apart.
    pub version: Version,
    /// Addresses on their way to claims. All of them.
    pub reservations: Reservations,
    /// Entries of `indexes` that change; nothing for those that go.
    pub indexes: BTreeMap<String, Option<String>>,
    /// When the addresses given out last changed.
    pub last_updated: Timestamp,
    /// How much is taken, if that is known.
    pub usage: Option<PoolUsage>,
    /// All conditions.
    pub conditions: Vec<Condition>,
}

/// An address object to be made.
#[derive(Clone, Debug, PartialEq)]
pub struct NewAddress {
    /// Its name.
    pub name: String,
    /// Whose it is.
    pub claim: Arc<Claim>,
    /// The pool.
    pub pool: Arc<IPPool>,
    /// The address.
    pub address: IpAddr,
    /// Prefix, gateway, DNS servers.
    pub settings: Settings,
}

/// A claim's status as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimReport {
    /// The address object's name.
    pub address: Option<String>,
    /// Why there is none, as Metal3's claims say it.
    pub error: Option<String>,
    /// Why there is none, as a word of Cluster API's contract; `Ready` if there is one.
    pub reason: &'static str,
    /// The same in words, with the pool's name.
    pub message: String,
    /// When.
    pub now: Timestamp,
}

impl ClaimReport {
    /// The condition of the claim.
    pub fn ready(&self) -> conditions::Claim<'_> {
        let is_served = self.address.is_some();
        conditions::Claim {
            type_: conditions::READY,
            status: if is_served {
                ConditionStatus::True
            } else {
                ConditionStatus::False
            },
            reason: self.reason,
            message: &self.message,
        }
    }
}

/// Everything of a pool, read from the API server: the pool, then the addresses, then the claims of its namespace.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// The pool; nothing if it is gone.
    pub pool: Option<Arc<IPPool>>,
    /// Addresses and claims.
    pub objects: Arc<Objects>,
}

/// All addresses and claims of a namespace, with the version of each family's list: what the lists lack and is not newer
/// is gone.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Objects {
    /// The addresses, of all pools.
    pub addresses: Vec<Arc<Address>>,
    /// The version of each family's list of addresses.
    pub addresses_as_of: [Version; 2],
    /// The claims, on all pools, listed after the addresses.
    pub claims: Vec<Arc<Claim>>,
    /// The version of each family's list of claims.
    pub claims_as_of: [Version; 2],
}

/// What came of an effect.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// The pool as it is now.
    Pool(Arc<IPPool>),
    /// The pool, all addresses and all claims.
    Snapshot(Snapshot),
    /// The claim as it is now.
    Claim(Arc<Claim>),
    /// The address as it is now.
    Address(Arc<Address>),
    /// The object is not there (any more).
    Absent,
    /// Nothing was written, because something else had written first. Inside: what is there now.
    Stale(Box<Outcome>),
    /// It did not work, and may or may not have taken effect.
    Failed(String),
}
