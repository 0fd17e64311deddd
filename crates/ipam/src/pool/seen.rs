//! What is kept of claims and addresses, the same for both families. A tenth of the objects, and one code for both.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use metal3_api::capi;
use metal3_api::condition::Condition;
use metal3_api::ipam;

use crate::alloc::parse_as_held;

/// Whose kinds a claim and its address are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// IPClaim and IPAddress of `ipam.metal3.io`.
    Metal3,
    /// IPAddressClaim and IPAddress of `ipam.cluster.x-k8s.io`.
    ClusterApi,
}

impl Family {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Metal3, Self::ClusterApi];

    /// The kind of its claims.
    pub fn claim_kind(self) -> &'static str {
        match self {
            Self::Metal3 => "IPClaim",
            Self::ClusterApi => "IPAddressClaim",
        }
    }

    /// The family whose claims are of this kind.
    pub fn of_claim_kind(kind: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|family| family.claim_kind() == kind)
    }

    /// Group and version of its kinds.
    pub fn api_version(self) -> &'static str {
        match self {
            Self::Metal3 => "ipam.metal3.io/v1alpha1",
            Self::ClusterApi => "ipam.cluster.x-k8s.io/v1beta2",
        }
    }

    /// Our finalizer on its claims.
    pub fn claim_finalizer(self) -> &'static str {
        match self {
            Self::Metal3 => ipam::names::finalizer::CLAIM,
            Self::ClusterApi => ipam::names::finalizer::CAPI_CLAIM,
        }
    }

    /// Our finalizer on its addresses.
    pub fn address_finalizer(self) -> &'static str {
        match self {
            Self::Metal3 => ipam::names::finalizer::ADDRESS,
            Self::ClusterApi => ipam::names::finalizer::CAPI_ADDRESS,
        }
    }

    /// A short name for metrics.
    pub fn label(self) -> &'static str {
        match self {
            Self::Metal3 => "metal3",
            Self::ClusterApi => "cluster_api",
        }
    }
}

/// A claim within its pool's namespace. Claims of different families may have one name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClaimKey {
    /// Whose.
    pub family: Family,
    /// Its name.
    pub name: String,
}

impl fmt::Display for ClaimKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} {}", self.family.claim_kind(), self.name)
    }
}

/// An address object within its pool's namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AddressId {
    /// Whose.
    pub family: Family,
    /// Its name.
    pub name: String,
}

/// A version of an object. Versions of one kind are ordered decimal numbers: Kubernetes guarantees that since 1.35, and
/// with etcd it has always been so.
pub type Version = u64;

/// A claim as it was seen.
#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    /// Which one.
    pub key: ClaimKey,
    /// Its identity beyond its name.
    pub uid: String,
    /// How new this view of it is.
    pub version: Version,
    /// When it was made, in seconds.
    pub created: i64,
    /// Whether it is being deleted.
    pub is_deleting: bool,
    /// Everybody's finalizers.
    pub finalizers: Vec<String>,
    /// Its labels, which its address gets.
    pub labels: BTreeMap<String, String>,
    /// The address that it asks for, as it wrote it; empty for none.
    pub requested: String,
    /// The pool's name.
    pub pool: String,
    /// A namespace for the pool that is not the claim's own, in which it is never looked for.
    pub other_namespace: Option<String>,
    /// The Cluster that it belongs to by its own words; only Cluster API's claims are paused with it.
    pub cluster: String,
    /// Whether it carries the pause annotation.
    pub is_paused: bool,
    /// The address object that its status names.
    pub address: Option<String>,
    /// The failure that its status names (Metal3's only).
    pub error: Option<String>,
    /// Its conditions.
    pub conditions: Vec<Condition>,
}

impl Claim {
    /// Whether our finalizer is on it.
    pub fn is_ours(&self) -> bool {
        self.finalizers.iter().any(|f| f == self.key.family.claim_finalizer())
    }

    /// Whether somebody else still keeps it.
    pub fn is_kept_by_others(&self) -> bool {
        self.finalizers.iter().any(|f| f != self.key.family.claim_finalizer())
    }

    /// Whether it is being deleted and nobody else keeps it. That is final: nobody can put a finalizer on it any more.
    pub fn is_going(&self) -> bool {
        self.is_deleting && !self.is_kept_by_others()
    }

    /// Oldest first; claims of one second by name.
    pub fn order(&self) -> (i64, ClaimKey) {
        (self.created, self.key.clone())
    }
}

/// An address object as it was seen.
#[derive(Clone, Debug, PartialEq)]
pub struct Address {
    /// Which one.
    pub id: AddressId,
    /// Its identity beyond its name.
    pub uid: String,
    /// How new this view of it is.
    pub version: Version,
    /// When it was made, in seconds.
    pub created: i64,
    /// Whether it is being deleted.
    pub is_deleting: bool,
    /// Everybody's finalizers.
    pub finalizers: Vec<String>,
    /// The pool's name; empty if that is no pool of ours.
    pub pool: String,
    /// The claim that it is for.
    pub claim: ClaimKey,
    /// The UID of the claim that owns it. One that was made by hand has none.
    pub owner: Option<String>,
    /// The address; nothing if its text is none.
    pub address: Option<IpAddr>,
}

impl Address {
    /// Whether our finalizer is on it.
    pub fn has_finalizer(&self) -> bool {
        self.finalizers.iter().any(|f| f == self.id.family.address_finalizer())
    }

    /// Whether there is anything left that we can do to remove it. What only others still keep is theirs to end.
    pub fn is_removable(&self) -> bool {
        self.has_finalizer() || !self.is_deleting
    }
}

/// The name of the object for an address: `.` and `:` become `-`, and none is left at the end.
pub fn address_name(prefix: &str, address: IpAddr) -> String {
    let name = format!("{prefix}-{address}").replace(['.', ':'], "-");
    name.trim_end_matches('-').to_owned()
}

/// The version of an object; 0 for one that is no number.
pub fn version(meta: &ObjectMeta) -> Version {
    meta.resource_version
        .as_deref()
        .and_then(|version| version.parse().ok())
        .unwrap_or_default()
}

fn seconds(time: Option<&Time>) -> i64 {
    time.map_or(0, |time| time.0.as_second())
}

fn requested(meta: &ObjectMeta) -> String {
    let annotations = meta.annotations.as_ref();
    annotations
        .and_then(|all| all.get(ipam::names::annotation::REQUESTED_ADDRESS))
        .cloned()
        .unwrap_or_default()
}

/// Whether an object carries the pause annotation, with any value.
pub fn is_paused(meta: &ObjectMeta) -> bool {
    let annotations = meta.annotations.as_ref();
    annotations.is_some_and(|all| all.contains_key(capi::names::annotation::PAUSED))
}

fn text(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

/// What both families' claims have in their metadata.
fn claim(family: Family, meta: &ObjectMeta, pool: &str) -> Claim {
    Claim {
        key: ClaimKey {
            family,
            name: meta.name.clone().unwrap_or_default(),
        },
        uid: meta.uid.clone().unwrap_or_default(),
        version: version(meta),
        created: seconds(meta.creation_timestamp.as_ref()),
        is_deleting: meta.deletion_timestamp.is_some(),
        finalizers: meta.finalizers.clone().unwrap_or_default(),
        labels: meta.labels.clone().unwrap_or_default(),
        requested: requested(meta),
        pool: pool.to_owned(),
        other_namespace: None,
        cluster: String::new(),
        is_paused: is_paused(meta),
        address: None,
        error: None,
        conditions: Vec::new(),
    }
}

impl From<&ipam::IPClaim> for Claim {
    fn from(object: &ipam::IPClaim) -> Self {
        let reference = &object.spec.pool;
        let own = object.metadata.namespace.as_deref().unwrap_or_default();
        let status = object.status.clone().unwrap_or_default();
        Self {
            other_namespace: text(&reference.namespace).filter(|namespace| namespace != own),
            address: status.address.and_then(|reference| text(&reference.name)),
            error: status.error_message.and_then(|message| text(&message)),
            conditions: status.conditions,
            ..claim(Family::Metal3, &object.metadata, &reference.name)
        }
    }
}

/// Whether a Cluster API reference names one of our pools. Another provider's pool may have the same name.
pub fn is_our_pool(reference: &capi::PoolReference) -> bool {
    reference.is_of(ipam::names::GROUP, "IPPool")
}

impl From<&capi::IPAddressClaim> for Claim {
    fn from(object: &capi::IPAddressClaim) -> Self {
        let labels = object.metadata.labels.as_ref();
        let label = labels.and_then(|all| all.get(capi::names::label::CLUSTER_NAME));
        let status = object.status.clone().unwrap_or_default();
        Self {
            cluster: text(&object.spec.cluster_name).or(label.cloned()).unwrap_or_default(),
            address: status.address_ref.and_then(|reference| text(&reference.name)),
            conditions: status.conditions,
            ..claim(Family::ClusterApi, &object.metadata, &object.spec.pool_ref.name)
        }
    }
}

fn address(family: Family, meta: &ObjectMeta, pool: &str, claim: &str, text: &str) -> Address {
    let owners = meta.owner_references.iter().flatten();
    let mut claims = owners.filter(|owner| owner.kind == family.claim_kind() && owner.name == claim);
    Address {
        id: AddressId {
            family,
            name: meta.name.clone().unwrap_or_default(),
        },
        uid: meta.uid.clone().unwrap_or_default(),
        version: version(meta),
        created: seconds(meta.creation_timestamp.as_ref()),
        is_deleting: meta.deletion_timestamp.is_some(),
        finalizers: meta.finalizers.clone().unwrap_or_default(),
        pool: pool.to_owned(),
        claim: ClaimKey {
            family,
            name: claim.to_owned(),
        },
        owner: claims.next().map(|owner| owner.uid.clone()),
        address: parse_as_held(text),
    }
}

impl From<&ipam::IPAddress> for Address {
    fn from(object: &ipam::IPAddress) -> Self {
        let spec = &object.spec;
        address(
            Family::Metal3,
            &object.metadata,
            &spec.pool.name,
            &spec.claim.name,
            &spec.address,
        )
    }
}

impl From<&capi::IPAddress> for Address {
    fn from(object: &capi::IPAddress) -> Self {
        let spec = &object.spec;
        // One from another provider's pool of the same name is none of ours.
        let pool = if is_our_pool(&spec.pool_ref) {
            &spec.pool_ref.name
        } else {
            ""
        };
        let claim = &spec.claim_ref.name;
        address(Family::ClusterApi, &object.metadata, pool, claim, &spec.address)
    }
}
