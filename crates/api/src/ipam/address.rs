//! IPAddress: an address that somebody has.

use super::text;
use crate::reference::ObjectReference;
use crate::rules::{address_of_pool, fixed, fixed_reference};
use crate::wire::{is_default, optional_spec};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An address and what a machine needs to use it.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "ipam.metal3.io",
    version = "v1alpha1",
    kind = "IPAddress",
    plural = "ipaddresses",
    category = "metal3",
    shortname = "ipa",
    shortname = "ipaddress",
    shortname = "m3ipa",
    shortname = "m3ipaddress",
    shortname = "m3ipaddresses",
    shortname = "metal3ipa",
    shortname = "metal3ipaddress",
    shortname = "metal3ipaddresses",
    namespaced,
    doc = "An address that an IPClaim has got from an IPPool. These objects are the record of what is given out: one that is made by hand, before its claim, keeps its address for that claim.",
    derive = "Default",
    derive = "PartialEq",
    printcolumn = r#"{"name": "Address", "type": "string", "jsonPath": ".spec.address", "description": "The address", "priority": 1}"#,
    printcolumn = r#"{"name": "Claim", "type": "string", "jsonPath": ".spec.claim.name", "description": "IPClaim that has the address", "priority": 1}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp", "description": "Time since the IPAddress was created"}"#
)]
#[serde(rename_all = "camelCase", default, remote = "Self")]
#[schemars(!remote, transform = address_of_pool)]
pub struct IPAddressSpec {
    /// The claim that has the address, by name and namespace. Cannot be changed.
    #[schemars(transform = fixed_reference)]
    pub claim: ObjectReference,

    /// The pool that the address comes from, by name and namespace. Cannot be changed.
    #[schemars(transform = fixed_reference)]
    pub pool: ObjectReference,

    /// Length of the network prefix in bits. 0 means that none is known.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(schema_with = "text::prefix")]
    pub prefix: i64,

    /// Gateway of the network.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(schema_with = "text::address")]
    pub gateway: String,

    /// The address, in canonical form. Cannot be changed.
    #[schemars(schema_with = "text::address", transform = fixed)]
    pub address: String,

    /// DNS servers of the network.
    #[serde(rename = "dnsServers", skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "text::addresses")]
    pub dns_servers: Vec<String>,
}

optional_spec!(IPAddressSpec);
