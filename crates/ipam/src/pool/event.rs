//! Watch events.

use std::sync::Arc;

use metal3_api::ipam::IPPool;

use super::objects::{Address, AddressId, Claim, ClaimKey};
use crate::alloc::Plan;

/// The relevant fields of a Cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterSeen {
    /// Its UID, for the owner reference.
    pub uid: String,
    /// Whether it is paused.
    pub is_paused: bool,
}

/// A watch event.
#[derive(Clone, Debug)]
pub enum Event {
    /// A version of the pool, with its parsed spec if available.
    Pool(Arc<IPPool>, Option<Arc<Plan>>),
    /// A version of a claim on it.
    Claim(Arc<Claim>),
    /// A version of an address from it.
    Address(Arc<Address>),
    /// A watch no longer shows an object.
    Removed(Tombstone, Removal),
    /// An address of another pool was deleted: its name is free.
    NameFreed(AddressId),
    /// A Cluster of the namespace, or its absence.
    Cluster(String, Option<ClusterSeen>),
    /// Resync everything.
    Resync,
}

impl Event {
    /// What remains to be known once the object is gone.
    pub(crate) fn tombstone(&self) -> Option<Tombstone> {
        match self {
            Self::Pool(pool, _) => {
                let uid = pool.metadata.uid.clone().unwrap_or_default();
                Some(Tombstone::Pool { uid })
            }
            Self::Claim(claim) => {
                let (key, uid) = (claim.key.clone(), claim.meta.uid.clone());
                Some(Tombstone::Claim { key, uid })
            }
            Self::Address(address) => {
                let (id, uid) = (address.id.clone(), address.meta.uid.clone());
                Some(Tombstone::Address { id, uid })
            }
            Self::Removed(..) | Self::NameFreed(_) | Self::Cluster(..) | Self::Resync => None,
        }
    }
}

/// An object that a watch no longer shows.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the object's name and UID")]
pub enum Tombstone {
    /// The pool.
    Pool { uid: String },
    /// A claim.
    Claim { key: ClaimKey, uid: String },
    /// An address.
    Address { id: AddressId, uid: String },
}

impl Tombstone {
    /// The object's UID.
    pub fn uid(&self) -> &str {
        match self {
            Self::Pool { uid } | Self::Claim { uid, .. } | Self::Address { uid, .. } => uid,
        }
    }
}

/// Why a watch no longer shows an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
    /// It was deleted.
    Deleted,
    /// It is no longer ours, or belongs to another pool.
    Hidden,
}
