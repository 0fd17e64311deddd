//! IPPool: where addresses come from.

use super::text;
use crate::condition::Condition;
use crate::rules::{bounded, fixed};
use crate::wire::{is_default, never, optional_spec, wire_enum};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

wire_enum! {
    /// Which of an entry's free addresses is taken.
    #[derive(Default)]
    closed enum AllocationStrategy {
        /// The lowest.
        #[default]
        Sequential = "sequential",
        /// Any.
        Random = "random",
    }
}

/// What a pool gives out.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "ipam.metal3.io",
    version = "v1alpha1",
    kind = "IPPool",
    plural = "ippools",
    category = "cluster-api",
    shortname = "ipp",
    shortname = "ippool",
    shortname = "m3ipp",
    shortname = "m3ippool",
    shortname = "m3ippools",
    shortname = "metal3ipp",
    shortname = "metal3ippool",
    shortname = "metal3ippools",
    namespaced,
    doc = "A pool of IP addresses. It serves the IPClaims, and Cluster API's IPAddressClaims, of its namespace that name it.",
    status = "IPPoolStatus",
    derive = "Default",
    derive = "PartialEq",
    printcolumn = r#"{"name": "Cluster", "type": "string", "jsonPath": ".metadata.labels.cluster\\.x-k8s\\.io/cluster-name", "description": "Cluster that the pool belongs to"}"#,
    printcolumn = r#"{"name": "Used", "type": "integer", "jsonPath": ".status.usage.used", "description": "Addresses that are given out"}"#,
    printcolumn = r#"{"name": "Free", "type": "integer", "jsonPath": ".status.usage.free", "description": "Addresses that any claim can have"}"#,
    printcolumn = r#"{"name": "Waiting", "type": "integer", "jsonPath": ".status.usage.waiting", "description": "Claims that wait for an address"}"#,
    printcolumn = r#"{"name": "Reserved", "type": "integer", "jsonPath": ".status.usage.reserved", "description": "Addresses that are kept for claims of a certain name", "priority": 1}"#,
    printcolumn = r#"{"name": "Size", "type": "integer", "jsonPath": ".status.usage.size", "description": "Addresses in all entries", "priority": 1}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp", "description": "Time since the IPPool was created"}"#
)]
#[serde(rename_all = "camelCase", default, remote = "Self")]
#[schemars(!remote)]
pub struct IPPoolSpec {
    /// Name of the Cluster in this namespace that the pool belongs to. The pool gets its label and an owner reference to
    /// it, is paused with it, and moves with it. Absent: the pool belongs to no Cluster and is not moved.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub cluster_name: String,

    /// Where addresses are taken from, in this order: an entry is used up before the next one is looked at. There can be 10,000
    /// at most.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = bounded)]
    pub pools: Vec<PoolEntry>,

    /// Addresses that are kept for claims of a certain name, by that name, for claims of both families. Each must lie in
    /// one of the entries.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "text::address_map")]
    pub pre_allocations: BTreeMap<String, String>,

    /// Length of the addresses' network prefix in bits, for entries that set none. At most 32 for IPv4, 128 for IPv6.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(schema_with = "text::prefix")]
    pub prefix: i64,

    /// Gateway for entries that set none. It is not kept out of the entries' ranges.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(schema_with = "text::address")]
    pub gateway: String,

    /// DNS servers for entries that set none.
    #[serde(rename = "dnsServers", skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "text::addresses")]
    pub dns_servers: Vec<String>,

    /// First part of the name of each address: an address 192.0.2.10 of a pool with the prefix lab is called
    /// lab-192-0-2-10. Cannot be changed. Pools of one namespace that share addresses need different ones.
    #[schemars(length(min = 1), transform = fixed)]
    pub name_prefix: String,

    /// Which free address of an entry a claim gets: sequential, the lowest, or random. Cannot be changed.
    #[serde(skip_serializing_if = "never")]
    #[schemars(extend("x-metal3-default" = "sequential"), transform = fixed)]
    pub allocation_strategy: AllocationStrategy,
}

optional_spec!(IPPoolSpec);

/// A range of addresses, by its first and last address, by a subnet, or by both. At least one of start, end and subnet
/// must be there.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PoolEntry {
    /// First address. Absent: the one that follows the address part of subnet.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(schema_with = "text::address")]
    pub start: String,

    /// Last address. Absent: the end of subnet, or of the address family. Looked at only when start is there: an entry
    /// with end alone gives out nothing.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(schema_with = "text::address")]
    pub end: String,

    /// Subnet that addresses must lie in, such as 192.0.2.0/24. Its last address is given out too, although it is the
    /// broadcast address of an IPv4 subnet.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(schema_with = "text::subnet")]
    pub subnet: String,

    /// Length of the network prefix in bits, instead of the pool's. 0 means absent.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(schema_with = "text::prefix")]
    pub prefix: i64,

    /// Gateway, instead of the pool's. It is not kept out of the range.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(schema_with = "text::address")]
    pub gateway: String,

    /// DNS servers, instead of all of the pool's.
    #[serde(rename = "dnsServers", skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "text::addresses")]
    pub dns_servers: Vec<String>,
}

/// What a pool has given out. All of it can be made again from the pool and its addresses.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct IPPoolStatus {
    /// When the addresses given out last changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_updated: Option<Time>,

    /// The addresses given out, by the name of the claim, for claims of both families. Of two claims of one name, the
    /// IPClaim's address is shown.
    #[serde(rename = "indexes", skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "text::address_map")]
    pub allocations: BTreeMap<String, String>,

    /// Addresses that are given to claims which have not been told yet. Whoever gives an address writes it here first,
    /// against the version of the pool that was read: so of two managers at once, only one can give an address.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub allocating: Vec<Allocating>,

    /// How much of the pool is taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<PoolUsage>,

    /// What can be said about the pool: whether addresses can be had, and whether its specification is as it should be.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// An address on its way to a claim.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Allocating {
    /// Kind of the claim: IPClaim, or Cluster API's IPAddressClaim.
    pub kind: String,

    /// Name of the claim.
    pub name: String,

    /// UID of the claim. What was given to a claim that is gone is not given to a later one of its name.
    pub uid: String,

    /// The address, in canonical form.
    #[schemars(schema_with = "text::address")]
    pub address: String,
}

/// How much of a pool is taken. Numbers of addresses; one too big for 64 bits with sign is shown as 9223372036854775807.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PoolUsage {
    /// Addresses in all entries together, each counted once.
    pub size: i64,

    /// Addresses that are given out, whether or not they still lie in an entry.
    pub used: i64,

    /// Addresses that are kept for claims of a certain name and are not given out.
    pub reserved: i64,

    /// Addresses that any claim can have.
    pub free: i64,

    /// Claims that wait for an address because none is left.
    pub waiting: i64,
}
