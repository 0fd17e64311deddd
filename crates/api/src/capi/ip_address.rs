//! Cluster API's side of IP address management: claims on a pool of any provider, and the addresses they get.

use super::ContractReference;
use crate::condition::Condition;
use kube::CustomResource;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Names a pool by group, kind and name; it lies in the namespace of the claim. Which provider serves the claim depends
/// on group and kind.
pub type PoolReference = ContractReference;

/// What address is wanted. Cannot be changed.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "ipam.cluster.x-k8s.io",
    version = "v1beta2",
    kind = "IPAddressClaim",
    plural = "ipaddressclaims",
    namespaced,
    schema = "disabled",
    doc = "Asks for one address of a pool of any provider.",
    status = "IPAddressClaimStatus",
    derive = "Default",
    derive = "PartialEq"
)]
#[serde(rename_all = "camelCase", default)]
pub struct IPAddressClaimSpec {
    /// Name of the Cluster that the claim belongs to: it is paused with it. Empty when it belongs to none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub cluster_name: String,

    /// Pool that the address comes from.
    pub pool_ref: PoolReference,

    /// Fields of newer versions.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// What a claim has got. Cluster API refuses an empty one: leave the status out then.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct IPAddressClaimStatus {
    /// What can be said about the claim. Ready is the one that consumers look at.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,

    /// The IPAddress that serves the claim. Absent until there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address_ref: Option<IPAddressReference>,

    /// Fields of newer versions, and the deprecated conditions of contract v1beta1.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// Names an IPAddress in the namespace of the claim.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct IPAddressReference {
    /// Name of the IPAddress.
    pub name: String,
}

/// An address and what a machine needs to use it. Cannot be changed. There is no room for DNS servers: who needs them
/// asks the pool.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "ipam.cluster.x-k8s.io",
    version = "v1beta2",
    kind = "IPAddress",
    plural = "ipaddresses",
    namespaced,
    schema = "disabled",
    doc = "An address that an IPAddressClaim has got from a pool of any provider.",
    derive = "Default",
    derive = "PartialEq"
)]
#[serde(rename_all = "camelCase", default)]
pub struct IPAddressSpec {
    /// The claim that has the address.
    pub claim_ref: IPAddressClaimReference,

    /// Pool that the address comes from: the one that the claim names.
    pub pool_ref: PoolReference,

    /// The address, at most 39 characters.
    pub address: String,

    /// Length of the network prefix in bits, 0 to 128. Always written: Cluster API requires it.
    pub prefix: i32,

    /// Gateway of the network. Empty when there is none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub gateway: String,

    /// Fields of newer versions.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// Names an IPAddressClaim in the namespace of the address.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct IPAddressClaimReference {
    /// Name of the IPAddressClaim.
    pub name: String,
}
