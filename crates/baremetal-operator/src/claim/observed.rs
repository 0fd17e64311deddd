//! What a decision about a claim depends on.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::ByteString;
use metal3_api::metal3::names::condition::host_claim::{META_DATA_FAILURE, NETWORK_DATA_FAILURE, USER_DATA_FAILURE};
use metal3_api::metal3::names::secret_key;
use metal3_api::metal3::{BareMetalHost, BareMetalHostSpec, HostClaim};
use metal3_api::reference::SecretReference;
use metal3_runtime::secrets::Known;

use super::choose::Request;
use super::stores::version_of;
use crate::live::Live;

/// A claim and its surroundings.
pub struct Observed {
    pub claim: Arc<HostClaim>,
    /// Whether claims get hosts. If not, only deletions are completed.
    pub is_enabled: bool,
    /// The hosts whose consumer is the claim, the one in its status first. There is more than one only after a change of leaders.
    pub own: Vec<Arc<BareMetalHost>>,
    /// The hosts that only name the claim, by name, as upstream's operator writes it before it stores the status, and are free
    /// otherwise; by namespace and name. Where a policy permits the claim.
    pub named: Vec<Arc<BareMetalHost>>,
    /// The host in its status, if it is none of these.
    pub bound: Bound,
    /// The requirements, if it has no host yet, or what is invalid about them.
    pub request: Option<Result<Request, String>>,
    /// Whether its Secrets may be copied to the namespace of its first host.
    pub is_trusted: bool,
    /// Whether there are hosts that it may have without its Secrets only.
    pub is_withheld: bool,
    /// The free hosts that come first for the claim: more than have been refused.
    pub free: Vec<Arc<BareMetalHost>>,
    /// The number of changes of free hosts up to then.
    pub changes: u64,
    /// Hosts of the permitted namespaces, once they are asked for.
    pub survey: Option<Vec<Arc<BareMetalHost>>>,
    /// How often the API server rejected the claim as the consumer of each version of these hosts.
    pub refused: BTreeMap<Version, u32>,
    /// The versions of the Secrets that the claim refers to, where they are known.
    pub versions: BTreeMap<Data, Version>,
    /// The Secrets that were read in this pass.
    pub read: BTreeMap<Data, Source>,
    /// What is known to be copied.
    pub copied: BTreeMap<Data, Copied>,
}

/// The host in the status of a claim that is none of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// The store has it.
    Known,
    /// The store does not have it; none until it is read from the API server.
    NotKnown(Option<Live>),
}

/// A copy of a Secret.
#[derive(Clone, Debug, PartialEq)]
pub struct Copied {
    /// What it was made from.
    pub source: Version,
    /// The copy, as it was written.
    pub copy: Version,
    /// What the watch had shown of it before that. Until it shows the new version, this is no damage.
    pub before: Option<Known>,
    /// Whether the copy has been changed or deleted since.
    pub is_damaged: bool,
}

impl Copied {
    /// Compares with what the watch shows.
    pub fn compare(&mut self, known: Known) {
        let [_, uid, version] = &self.copy;
        let is_as_written = known.version() == Some((uid, version));
        if is_as_written {
            self.before = None;
        }
        self.is_damaged = !is_as_written && known != Known::Unknown && self.before != Some(known);
    }
}

/// The name, UID and resourceVersion of an object.
pub type Version = [String; 3];

/// How often the API server rejected the claim as the consumer of this version of a host.
pub fn refusals(refused: &BTreeMap<Version, u32>, host: &BareMetalHost) -> u32 {
    refused.get(&version_of(&host.metadata)).copied().unwrap_or(0)
}

/// A Secret of the claim's namespace.
pub enum Source {
    /// It does not exist.
    Absent,
    /// The operator has no right to read it.
    Forbidden,
    /// It has no data for a server, for this reason.
    Unusable(String),
    /// Its data.
    Found { version: Version, value: ByteString },
}

/// What is given to a host besides its image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Data {
    User,
    Network,
    Meta,
}

impl Data {
    pub const ALL: [Self; 3] = [Self::User, Self::Network, Self::Meta];

    /// The field's name in claims and hosts.
    pub fn field(self) -> &'static str {
        match self {
            Self::User => "userData",
            Self::Network => "networkData",
            Self::Meta => "metaData",
        }
    }

    /// The key of the content in Secrets.
    pub fn key(self) -> &'static str {
        match self {
            Self::User => secret_key::USER_DATA,
            Self::Network => secret_key::NETWORK_DATA,
            Self::Meta => secret_key::META_DATA,
        }
    }

    /// The reason of a failure.
    pub fn failure(self) -> &'static str {
        match self {
            Self::User => USER_DATA_FAILURE,
            Self::Network => NETWORK_DATA_FAILURE,
            Self::Meta => META_DATA_FAILURE,
        }
    }

    /// The claim's reference.
    pub fn of_claim(self, claim: &HostClaim) -> Option<&SecretReference> {
        let spec = &claim.spec;
        let reference = match self {
            Self::User => &spec.user_data,
            Self::Network => &spec.network_data,
            Self::Meta => &spec.meta_data,
        };
        reference.as_ref().filter(|reference| !reference.name.is_empty())
    }

    /// The host's reference.
    pub fn of_host(self, spec: &BareMetalHostSpec) -> Option<&SecretReference> {
        match self {
            Self::User => spec.user_data.as_ref(),
            Self::Network => spec.network_data.as_ref(),
            Self::Meta => spec.meta_data.as_ref(),
        }
    }

    /// The name of the copy in the host's namespace.
    pub fn copy(self, claim: &HostClaim) -> String {
        self.copy_for(claim.metadata.uid.as_deref().unwrap_or_default())
    }

    /// The same for the claim with this UID, which keeps claims apart.
    pub fn copy_for(self, uid: &str) -> String {
        format!("hostclaim-{uid}-{}", self.field().to_ascii_lowercase())
    }
}
