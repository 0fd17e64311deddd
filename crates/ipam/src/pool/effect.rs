//! The effects of a round and their outcomes. Plain data: a simulation can apply them as well as an API server.

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

/// The time as seen by a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// Wall clock, for users.
    pub wall: Timestamp,
    /// Monotonic clock, for durations.
    pub elapsed: Duration,
}

/// One request to the API server. Each is idempotent, and harmless if interrupted before or after it takes effect.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Reads the pool, then all addresses of its namespace, then all claims, bypassing caches. Contains the number of doubts
    /// about the view at that time.
    Refresh(u64),
    /// Writes the given metadata of the pool, guarded by this version.
    Pool(Box<ObjectMeta>),
    /// Writes the pool's status, guarded by the observed version.
    Record(Record),
    /// Adds our finalizer to a claim, guarded by the observed version.
    AddFinalizer(Arc<Claim>),
    /// Creates an address object.
    Create(NewAddress),
    /// Makes a claim the owner of an existing address object, guarded by the observed version.
    Own(Arc<Address>, NewAddress),
    /// Writes a claim's status, guarded by the observed version.
    Report(Arc<Claim>, ClaimReport),
    /// Removes our finalizer from an address, guarded by the observed version.
    Unlock(Arc<Address>),
    /// Deletes an address, guarded by the observed version.
    Delete(Arc<Address>),
    /// Removes our finalizer from a claim, guarded by the observed version.
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

    /// The claim that it serves; nothing if it serves the pool.
    pub fn claim(&self) -> Option<&ClaimKey> {
        match self {
            Self::Refresh(_) | Self::Pool(_) | Self::Record(_) => None,
            Self::AddFinalizer(claim) | Self::Report(claim, _) | Self::Release(claim) => Some(&claim.key),
            Self::Create(address) | Self::Own(_, address) => Some(&address.claim.key),
            Self::Unlock(address) | Self::Delete(address) => Some(&address.claim),
        }
    }

    /// The version of the pool that guards it; nothing if it does not write the pool.
    pub(super) fn pool_version(&self) -> Option<Version> {
        match self {
            Self::Pool(meta) => Some(version(meta)),
            Self::Record(record) => Some(record.version),
            _ => None,
        }
    }
}

/// The desired status of the pool.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// The version of the pool that guards it: this serializes concurrent writers.
    pub version: Version,
    /// All reservations.
    pub reservations: Reservations,
    /// Changed entries of `indexes`; nothing for removed ones.
    pub indexes: BTreeMap<String, Option<String>>,
    /// When the addresses given out last changed.
    pub last_updated: Timestamp,
    /// How much is taken, if that is known.
    pub usage: Option<PoolUsage>,
    /// All conditions.
    pub conditions: Vec<Condition>,
}

/// An address object to create.
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

/// The desired status of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimReport {
    /// The address object's name.
    pub address: Option<String>,
    /// Why there is none, as in Metal3's claims.
    pub error: Option<String>,
    /// Why there is none, as a reason of Cluster API's contract; `Ready` if there is one.
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

/// A pool's full state, read from the API server: the pool, then the addresses, then the claims of its namespace.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// The pool; nothing if it is gone.
    pub pool: Option<Arc<IPPool>>,
    /// Addresses and claims.
    pub objects: Arc<Objects>,
}

/// All addresses and claims of a namespace, with the version of each family's list: an object that is missing from a list and not
/// newer is gone.
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

/// The outcome of an effect.
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
    /// The object does not exist.
    Absent,
    /// A conflict: nothing was written. Contains the current object.
    Stale(Box<Outcome>),
    /// It failed, and may or may not have taken effect.
    Failed(String),
}
