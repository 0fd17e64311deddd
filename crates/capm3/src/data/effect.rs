//! What can be decided on.

use metal3_api::reference::SecretReference;
use metal3_render::Pool;

use super::address::{AddressClaim, Family};

/// The next thing to do in a pass.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// A write. It may be repeated, and it may be the last one before the process dies.
    Write(Effect),
    /// Something to look at before going on.
    Look(Need),
    /// Nothing, for now.
    Rest(Rest),
}

/// A write.
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
    /// Deletes a claim on an address, and lets it go.
    Release(Box<AddressClaim>),
    /// Makes a Secret. One that is there already is looked at and never rewritten.
    Secret(Secret),
    /// Deletes a Secret by name and UID.
    DeleteSecret(String, String),
    /// The Metal3Data may go.
    LetGo,
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

/// Something to look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Need {
    /// The whole host of this name.
    Host(String),
    /// The address of this name, which serves the claim of that name.
    Address(Family, String, String),
    /// Whether the pool of Metal3 of this name is there.
    Pool(String),
}

/// Nothing to do for now.
#[derive(Clone, Debug, PartialEq)]
pub struct Rest {
    /// What the status says from now on; nothing if it stays as it is.
    pub says: Option<Says>,
    /// After how many seconds to look again although nothing changed.
    pub again: Option<u64>,
}

/// What a status says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Says {
    /// The Secrets are there.
    Ready,
    /// They are not, and why.
    Waiting(String),
    /// It is to go but cannot, and why. What is ready stays ready.
    Held(String),
}

impl Effect {
    /// What it is, for errors.
    pub fn label(&self) -> &'static str {
        match self {
            Self::Adopt { .. } => "add the finalizer",
            Self::Claim { .. } => "claim an address",
            Self::Release(_) => "release an address",
            Self::Secret(_) => "make a Secret",
            Self::DeleteSecret(..) => "delete a Secret",
            Self::LetGo => "remove the finalizer",
        }
    }

    /// What is written, where that is not the Metal3Data, for the same.
    pub fn object(&self) -> Option<String> {
        match self {
            Self::Claim { pool, name } => Some(format!("{} {name}", Family::of(pool).claim_kind())),
            Self::Release(claim) => Some(format!("{} {}", claim.family.claim_kind(), claim.name())),
            Self::Secret(Secret { name, .. }) | Self::DeleteSecret(name, _) => Some(format!("Secret {name}")),
            Self::Adopt { .. } | Self::LetGo => None,
        }
    }
}
