//! The reads and writes that decisions about a Metal3Data consist of.

use metal3_api::infra::v1beta2::Metal3DataStatus;
use metal3_api::reference::SecretReference;
use metal3_render::Pool;
use metal3_runtime::controller;

use super::address::{AddressClaim, Family};

/// What to do.
pub type Plan = controller::Plan<Effect, Metal3DataStatus>;

/// A decision.
pub type Decision = controller::Decision<Read, Effect, Metal3DataStatus>;

/// A write. Each is idempotent, and the process may die after any of them.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Adds the finalizer and names the Secrets to create.
    Adopt {
        /// The metadata Secret.
        meta_data: Option<SecretReference>,
        /// The network-data Secret.
        network_data: Option<SecretReference>,
        /// The digest of the rendered data, if it is to be recorded.
        rendered_from: Option<String>,
    },
    /// Creates an IP claim. Its name is the lock: an existing claim is read instead.
    Claim {
        /// The pool.
        pool: Pool,
        /// Name of the claim.
        name: String,
    },
    /// Deletes an IP claim and removes our finalizer.
    Release(Box<AddressClaim>),
    /// The same for a claim left by an earlier Metal3Data of the name.
    Sweep(Box<AddressClaim>),
    /// Creates a Secret. An existing one is read and never rewritten.
    Secret(Secret),
    /// Becomes the owner of a Secret that is nobody's, if it is just what would be created.
    TakeOver(Secret),
    /// Deletes a Secret by name and UID.
    DeleteSecret(String, String),
    /// Removes our finalizer from the Metal3Data.
    RemoveFinalizer,
}

/// A Secret to create.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret {
    /// Its name.
    pub name: String,
    /// The key of its content.
    pub key: &'static str,
    /// The content.
    pub text: String,
    /// Name of the Cluster.
    pub cluster: String,
}

/// Rendered data may contain the user's secrets.
impl std::fmt::Debug for Secret {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Secret({}, {} bytes of {})", self.name, self.text.len(), self.key)
    }
}

/// What a decision depends on that no store holds, or for which a store may lag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Read {
    /// UID of the Metal3Data of this name.
    Uid,
    /// The whole host of this name.
    Host(String),
    /// Addresses.
    Addresses(Vec<AddressRead>),
    /// Whether the Metal3 pool of this name exists.
    Pool(String),
    /// Whose the Secret of this name is, if there is one.
    Secret(String),
}

/// An address to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressRead {
    /// The provider.
    pub family: Family,
    /// Its name.
    pub name: String,
    /// Name of the claim it answers.
    pub claim: String,
}

/// Describes writes to claims of an earlier Metal3Data, for errors.
pub const SWEEP: &str = "release what was left";

impl Effect {
    /// Describes the effect in errors.
    pub fn label(&self) -> &'static str {
        match self {
            Self::Adopt { .. } => "add the finalizer",
            Self::Claim { .. } => "claim an address",
            Self::Release(_) => "release an address",
            Self::Sweep(_) => SWEEP,
            Self::Secret(_) => "make a Secret",
            Self::TakeOver(_) => "take over a Secret",
            Self::DeleteSecret(..) => "delete a Secret",
            Self::RemoveFinalizer => "remove the finalizer",
        }
    }

    /// The object that is written, for errors, if it is not the Metal3Data.
    pub fn object(&self) -> Option<String> {
        match self {
            Self::Claim { pool, name } => Some(format!("{} {name}", Family::of(pool).claim_kind())),
            Self::Release(claim) | Self::Sweep(claim) => {
                Some(format!("{} {}", claim.family.claim_kind(), claim.name()))
            }
            Self::Secret(Secret { name, .. }) | Self::TakeOver(Secret { name, .. }) | Self::DeleteSecret(name, _) => {
                Some(format!("Secret {name}"))
            }
            Self::Adopt { .. } | Self::RemoveFinalizer => None,
        }
    }
}
