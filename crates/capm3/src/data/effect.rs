//! What decisions about a Metal3Data are made of: reads and writes.

use metal3_api::infra::v1beta2::Metal3DataStatus;
use metal3_api::reference::SecretReference;
use metal3_render::Pool;
use metal3_runtime::controller;

use super::address::{AddressClaim, Family};

/// What to do.
pub type Plan = controller::Plan<Effect, Metal3DataStatus>;

/// The outcome of a decision.
pub type Decision = controller::Decision<Read, Effect, Metal3DataStatus>;

/// A write. It may be repeated, and it may be the last one before the process dies.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// From now on we are asked before it goes, and it says which Secrets it makes.
    Adopt {
        /// The Secret with metadata.
        meta_data: Option<SecretReference>,
        /// The Secret with network data.
        network_data: Option<SecretReference>,
        /// The digest of what is rendered, if it is to be noted.
        rendered_from: Option<String>,
    },
    /// Asks for an address. The name is the lock: a claim that is there already is looked at.
    Claim {
        /// From where.
        pool: Pool,
        /// Name of the claim.
        name: String,
    },
    /// Deletes a claim on an address, and takes our finalizer off.
    Release(Box<AddressClaim>),
    /// The same for a claim that an earlier Metal3Data of the name has left.
    Sweep(Box<AddressClaim>),
    /// Makes a Secret. One that is there already is looked at and never rewritten.
    Secret(Secret),
    /// Deletes a Secret by name and UID.
    DeleteSecret(String, String),
    /// Takes our finalizer off the Metal3Data.
    RemoveFinalizer,
}

/// A Secret to make.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret {
    /// Its name.
    pub name: String,
    /// Key of what it holds.
    pub key: &'static str,
    /// What it holds.
    pub text: String,
    /// Name of the Cluster.
    pub cluster: String,
}

/// What is rendered may hold secrets of the user.
impl std::fmt::Debug for Secret {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Secret({}, {} bytes of {})", self.name, self.text.len(), self.key)
    }
}

/// What a decision depends on that no store has, or that a store could have too late.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Read {
    /// UID of the Metal3Data of this name.
    Uid,
    /// The whole host of this name.
    Host(String),
    /// Addresses.
    Addresses(Vec<AddressRead>),
    /// Whether the pool of Metal3 of this name is there.
    Pool(String),
}

/// An address to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressRead {
    /// Whose it is.
    pub family: Family,
    /// Its name.
    pub name: String,
    /// Name of the claim that it serves.
    pub claim: String,
}

/// Of what is done to claims that an earlier Metal3Data has left, for errors.
pub const SWEEP: &str = "release what was left";

impl Effect {
    /// What it is, for errors.
    pub fn label(&self) -> &'static str {
        match self {
            Self::Adopt { .. } => "add the finalizer",
            Self::Claim { .. } => "claim an address",
            Self::Release(_) => "release an address",
            Self::Sweep(_) => SWEEP,
            Self::Secret(_) => "make a Secret",
            Self::DeleteSecret(..) => "delete a Secret",
            Self::RemoveFinalizer => "remove the finalizer",
        }
    }

    /// What is written, where that is not the Metal3Data, for the same.
    pub fn object(&self) -> Option<String> {
        match self {
            Self::Claim { pool, name } => Some(format!("{} {name}", Family::of(pool).claim_kind())),
            Self::Release(claim) | Self::Sweep(claim) => {
                Some(format!("{} {}", claim.family.claim_kind(), claim.name()))
            }
            Self::Secret(Secret { name, .. }) | Self::DeleteSecret(name, _) => Some(format!("Secret {name}")),
            Self::Adopt { .. } | Self::RemoveFinalizer => None,
        }
    }
}
