//! Claims and addresses, the same for both families: a tenth of what the API has of them.

mod address;
mod claim;

use std::fmt;
use std::net::IpAddr;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use metal3_api::capi;
use metal3_api::ipam;

pub use self::address::Address;
pub use self::claim::Claim;

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

    /// Whether its addresses can have this prefix length. Cluster API refuses what is none; Metal3 takes any number.
    pub fn takes_prefix(self, prefix: i64) -> bool {
        self == Self::Metal3 || (0..=128).contains(&prefix)
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

/// What is kept of the metadata of a claim and of an address alike.
#[derive(Clone, Debug, PartialEq)]
pub struct Meta {
    /// The object's identity beyond its name.
    pub uid: String,
    /// How new this view of it is.
    pub version: Version,
    /// When it was made, in seconds.
    pub created: i64,
    /// Whether it is being deleted.
    pub is_deleting: bool,
    /// All finalizers.
    pub finalizers: Vec<String>,
}

impl Meta {
    /// Whether this finalizer is on the object.
    pub fn has(&self, finalizer: &str) -> bool {
        self.finalizers.iter().any(|present| present == finalizer)
    }

    /// Whether the server has removed the object, which only what it answered to the last request shows.
    pub fn is_gone(&self) -> bool {
        self.is_deleting && self.finalizers.is_empty()
    }

    /// Whether this is the same view of the same object.
    pub fn is_same_view(&self, other: &Self) -> bool {
        self.uid == other.uid && self.version == other.version
    }
}

impl From<&ObjectMeta> for Meta {
    fn from(meta: &ObjectMeta) -> Self {
        Self {
            uid: meta.uid.clone().unwrap_or_default(),
            version: version(meta),
            created: meta.creation_timestamp.as_ref().map_or(0, |time| time.0.as_second()),
            is_deleting: meta.deletion_timestamp.is_some(),
            finalizers: meta.finalizers.clone().unwrap_or_default(),
        }
    }
}

/// A version of an object. Versions of one kind are ordered decimal numbers: Kubernetes guarantees that since 1.35, and
/// with etcd it has always been so.
pub type Version = u64;

/// The name of the object for an address, as upstream makes it: `.` and `:` of the address become `-`, and none is left at the end.
pub fn address_name(prefix: &str, address: IpAddr) -> String {
    let address = address.to_string().replace(['.', ':'], "-");
    format!("{prefix}-{address}").trim_end_matches('-').to_owned()
}

/// The address that an object of this name is for.
pub fn address_named(prefix: &str, name: &str) -> Option<IpAddr> {
    let text = name.strip_prefix(prefix)?.strip_prefix('-')?;
    let v6 = text.replace('-', ":");
    // The end of a name lacks what would be a `-` there.
    let texts = [text.replace('-', "."), format!("{v6}::"), format!("{v6}:"), v6];
    let mut addresses = texts.iter().filter_map(|text| text.parse().ok());
    addresses.find(|address| address_name(prefix, *address) == name)
}

/// The version of an object; 0 for one that is no number.
pub fn version(meta: &ObjectMeta) -> Version {
    meta.resource_version
        .as_deref()
        .and_then(|version| version.parse().ok())
        .unwrap_or_default()
}

/// Whether an object carries the pause annotation, with any value.
pub fn is_paused(meta: &ObjectMeta) -> bool {
    let annotations = meta.annotations.as_ref();
    annotations.is_some_and(|all| all.contains_key(capi::names::annotation::PAUSED))
}

/// Whether a Cluster API reference names one of our pools. Another provider's pool may have the same name.
pub fn is_our_pool(reference: &capi::PoolReference) -> bool {
    reference.is_of(ipam::names::GROUP, "IPPool")
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    // OWN 31ta: dots in the prefix became `-`, and upstream did not find the objects after a change back to it.
    #[rstest]
    #[case("site1.prov", "10.0.0.5", "site1.prov-10-0-0-5")]
    #[case("pool", "10.0.0.5", "pool-10-0-0-5")]
    #[case("rack.a-", "2001:db8::7", "rack.a--2001-db8--7")]
    #[case("a.b", "2001:db8::", "a.b-2001-db8")]
    fn the_name_of_an_address_is_upstreams(#[case] prefix: &str, #[case] address: &str, #[case] name: &str) {
        let address = address.parse().unwrap();
        assert_eq!(address_name(prefix, address), name);
        assert_eq!(address_named(prefix, name), Some(address));
        assert_eq!(address_named("other", name), None);
    }
}
