//! What is known of Secrets. `Debug` hides their contents.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Secret;
use serde_json::Value;

use crate::host::config_drive::Drive;
use crate::host::plan::EventReason;

/// The credentials Secret as far as it is known.
#[derive(Clone, Debug, PartialEq)]
pub enum SecretView {
    /// Not read in this pass. The version is the one that the metadata watch last saw, if it has.
    NotLooked {
        /// `metadata.resourceVersion`.
        version: Option<String>,
    },
    /// There is no such Secret.
    Missing,
    /// It exists but is not usable.
    Invalid {
        /// Which key is wrong, and how.
        problem: String,
        /// Whether it is nevertheless marked as the host's.
        claimed: bool,
    },
    /// Both keys are there.
    Found(SecretFound),
}

/// Usable credentials and the required metadata of their Secret.
#[derive(Clone, PartialEq)]
pub struct SecretFound {
    /// User name at the BMC.
    pub username: String,
    /// Password at the BMC.
    pub password: String,
    /// `metadata.resourceVersion`, published in the host's status.
    pub version: String,
    /// A digest of user name and password, to compare credentials.
    pub digest: u64,
    /// Whether labels and finalizer are in place, and the host is not its owner.
    pub claimed: bool,
    /// The Secret itself, to be written back with our marks; kept only for the reconciliation.
    pub object: Option<Arc<Secret>>,
}

impl SecretFound {
    /// In the form that BMC drivers take.
    pub fn credentials(&self) -> metal3_bmc::Credentials {
        metal3_bmc::Credentials {
            username: self.username.clone(),
            password: self.password.clone(),
        }
    }
}

impl fmt::Debug for SecretFound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SecretFound")
            .field("username", &self.username)
            .field("password", &"******")
            .field("version", &self.version)
            .field("claimed", &self.claimed)
            .finish_non_exhaustive()
    }
}

/// The network data of the ramdisk (`spec.preprovisioningNetworkDataName`) as far as it is known.
#[derive(Clone, PartialEq)]
pub enum NetworkDataView {
    /// Not read in this pass. What is known is what the metadata watch last saw, if it has.
    NotLooked {
        /// `metadata.resourceVersion`.
        version: Option<String>,
        /// Whether label and finalizer are in place.
        claimed: bool,
    },
    /// There is no such Secret.
    Missing,
    /// Ironic cannot use it. A ramdisk builder may, which reads it itself.
    Unusable {
        /// Why.
        why: String,
        /// `metadata.resourceVersion`.
        version: String,
    },
    /// It has no network data that Ironic reads, but may have what a ramdisk builder reads, under a key of the builder's own. It
    /// may also be anything that the host names by mistake, so it gets no marks.
    WithoutKey {
        /// `metadata.resourceVersion`.
        version: String,
    },
    /// It was found.
    Found {
        /// The description in Ironic's format; empty if the Secret has none.
        description: Arc<Value>,
        /// `metadata.resourceVersion`.
        version: String,
        /// Whether label and finalizer are in place.
        claimed: bool,
        /// The Secret itself, to be written back with our marks.
        object: Option<Arc<Secret>>,
    },
}

impl NetworkDataView {
    /// The version of the Secret, if one is known.
    pub fn version(&self) -> Option<&str> {
        match self {
            Self::NotLooked { version, .. } => version.as_deref(),
            Self::Found { version, .. } | Self::Unusable { version, .. } | Self::WithoutKey { version } => {
                Some(version)
            }
            Self::Missing => None,
        }
    }
}

impl fmt::Debug for NetworkDataView {
    /// Without the data: the Secret may hold more than addresses.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotLooked { version, claimed } => f
                .debug_struct("NotLooked")
                .field("version", version)
                .field("claimed", claimed)
                .finish(),
            Self::Missing => f.write_str("Missing"),
            Self::Unusable { why, version } => f
                .debug_struct("Unusable")
                .field("why", why)
                .field("version", version)
                .finish(),
            Self::WithoutKey { version } => f.debug_struct("WithoutKey").field("version", version).finish(),
            Self::Found { version, claimed, .. } => f
                .debug_struct("Found")
                .field("version", version)
                .field("claimed", claimed)
                .finish_non_exhaustive(),
        }
    }
}

/// The config drive as far as it is known.
#[derive(Clone, PartialEq)]
pub enum ConfigDriveView {
    /// Not read yet.
    NotLooked,
    /// A Secret or a key is missing, or its text cannot be parsed: which.
    Unusable(String),
    /// The value for Ironic.
    Ready(Arc<Drive>),
}

impl fmt::Debug for ConfigDriveView {
    /// Without the drive: user data contains secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotLooked => f.write_str("NotLooked"),
            Self::Unusable(why) => f.debug_tuple("Unusable").field(why).finish(),
            Self::Ready(_) => f.write_str("Ready(******)"),
        }
    }
}

/// The credentials for the registry of the image, as far as they are known.
#[derive(Clone, Debug, PartialEq)]
pub enum PullSecretView {
    /// Not read yet.
    NotLooked,
    /// The Secret is missing or not usable: the event to publish, and why.
    Unusable(EventReason, String),
    /// The credentials.
    Ready(PullSecret),
}

/// Credentials for a registry.
#[derive(Clone, PartialEq)]
pub struct PullSecret {
    /// `user:password`.
    pub credentials: String,
    /// A digest of them: Ironic masks the stored ones.
    pub digest: u64,
}

impl fmt::Debug for PullSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PullSecret(******)")
    }
}

/// The versions of the Secrets that the content of a deployment comes from, as the metadata watch last saw them: `None` for
/// one that does not exist. Those that it has not seen are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeploymentSecrets(BTreeMap<String, Option<String>>);

impl FromIterator<(String, Option<String>)> for DeploymentSecrets {
    fn from_iter<I: IntoIterator<Item = (String, Option<String>)>>(versions: I) -> Self {
        Self(versions.into_iter().collect())
    }
}

impl DeploymentSecrets {
    /// Whether one of them is known to have been another one.
    pub fn differ_from(&self, before: &Self) -> bool {
        self.0
            .iter()
            .any(|(name, version)| before.0.get(name).is_some_and(|known| known != version))
    }
}
