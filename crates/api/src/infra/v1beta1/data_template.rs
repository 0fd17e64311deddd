//! Metal3DataTemplate.

use super::{
    BondMode, EthernetLink, LinkMac, MetaDataAnnotation, MetaDataFromPool, MetaDataHostInterface, MetaDataIndex,
    MetaDataLabel, MetaDataNamespace, MetaDataObjectName, MetaDataString, NetworkServices, Networks,
    TransmitHashPolicy, VlanLink,
};
use crate::infra::shared::limits::loose;
use crate::rules::host_interfaces;
use crate::wire::{clamped, is_default, optional_spec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// What to render for each machine.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1beta1",
    kind = "Metal3DataTemplate",
    plural = "metal3datatemplates",
    category = "cluster-api",
    shortname = "m3dt",
    shortname = "m3datatemplate",
    shortname = "m3datatemplates",
    shortname = "metal3dt",
    shortname = "metal3datatemplate",
    namespaced,
    storage = false,
    deprecated,
    doc = "What metadata and network data of machines are rendered from. Each machine gets an index of its own. Deprecated; use v1beta2.",
    status = "Metal3DataTemplateStatus",
    derive = "Default",
    derive = "PartialEq",
    printcolumn = r#"{"name": "Cluster", "type": "string", "jsonPath": ".metadata.labels.cluster\\.x-k8s\\.io/cluster-name", "description": "Cluster that it belongs to"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp", "description": "Time since the Metal3DataTemplate was created"}"#
)]
#[serde(rename_all = "camelCase", default, remote = "Self")]
#[schemars(!remote)]
pub struct Metal3DataTemplateSpec {
    /// Name of a Cluster. Must be given in this version, and is ignored: a template can serve several clusters. Deprecated
    /// since release 1.14 of cluster-api-provider-metal3.
    #[schemars(length(min = 1))]
    pub cluster_name: String,

    /// Ignored, as by releases 1.11 and later of cluster-api-provider-metal3; earlier ones took indexes and names from the
    /// Metal3DataTemplate of this name. Gone in v1beta2, which keeps it in an annotation.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub template_reference: String,

    /// What metadata is rendered. Not to be changed, because what is rendered later would differ; v1beta2 refuses it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(transform = loose)]
    pub meta_data: Option<MetaData>,

    /// What network data is rendered. Not to be changed, because what is rendered later would differ; v1beta2 refuses it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(transform = loose)]
    pub network_data: Option<NetworkData>,
}

optional_spec!(Metal3DataTemplateSpec);

/// Entries of metadata, by where their values come from. Keys must differ across all lists.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(transform = host_interfaces)]
pub struct MetaData {
    /// Fixed texts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub strings: Vec<MetaDataString>,

    /// Names of the objects behind the server.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub object_names: Vec<MetaDataObjectName>,

    /// Texts made of the index.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub indexes: Vec<MetaDataIndex>,

    /// The namespace.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<MetaDataNamespace>,

    /// Addresses from pools.
    #[serde(rename = "ipAddressesFromIPPool", skip_serializing_if = "Vec::is_empty")]
    pub ip_addresses_from_pool: Vec<MetaDataFromPool>,

    /// Prefix lengths of addresses from pools.
    #[serde(rename = "prefixesFromIPPool", skip_serializing_if = "Vec::is_empty")]
    pub prefixes_from_pool: Vec<MetaDataFromPool>,

    /// Gateways of pools.
    #[serde(rename = "gatewaysFromIPPool", skip_serializing_if = "Vec::is_empty")]
    pub gateways_from_pool: Vec<MetaDataFromPool>,

    /// Name servers of pools.
    #[serde(rename = "dnsServersFromIPPool", skip_serializing_if = "Vec::is_empty")]
    pub dns_servers_from_pool: Vec<MetaDataFromPool>,

    /// MAC addresses of the host.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub from_host_interfaces: Vec<MetaDataHostInterface>,

    /// Values of labels.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub from_labels: Vec<MetaDataLabel>,

    /// Values of annotations.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub from_annotations: Vec<MetaDataAnnotation>,
}

/// The network of a server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NetworkData {
    /// Interfaces, bonds and VLANs.
    #[serde(skip_serializing_if = "is_default")]
    pub links: NetworkLinks,

    /// Addresses and routes.
    #[serde(skip_serializing_if = "is_default")]
    pub networks: Networks,

    /// Services such as name servers.
    #[serde(skip_serializing_if = "is_default")]
    pub services: NetworkServices,
}

/// What packets go through.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NetworkLinks {
    /// Network interfaces.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ethernets: Vec<EthernetLink>,

    /// Several links as one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub bonds: Vec<BondLink>,

    /// VLANs on other links.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub vlans: Vec<VlanLink>,
}

/// Several links as one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct BondLink {
    /// How traffic is spread: balance-rr, active-backup, balance-xor, broadcast, balance-tlb, balance-alb or 802.3ad.
    pub bond_mode: BondMode,

    /// What the hash of addresses is made of: layer2, layer3+4 or layer2+3. Absent leaves it to the system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bond_xmit_hash_policy: Option<TransmitHashPolicy>,

    /// Name of the link within the template, by which networks and VLANs refer to it.
    pub id: String,

    /// Name that the interface gets in the installed system. Absent leaves the name to the system.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 15), regex(pattern = "^[a-zA-Z][a-zA-Z0-9._-]*$"))]
    pub name: String,

    /// Largest packet in bytes. The default is 1500.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "clamped")]
    #[schemars(range(max = 9000), extend("x-metal3-default" = 1500))]
    pub mtu: i32,

    /// Where the MAC address of the bond comes from.
    pub mac_address: LinkMac,

    /// The ids of the links in the bond.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub bond_links: Vec<String>,

    /// Further parameters of the bond, of any type, by their names as OpenStack's network data has them.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "any_values")]
    pub parameters: BTreeMap<String, Value>,
}

fn any_values(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object", "additionalProperties": { "x-kubernetes-preserve-unknown-fields": true } })
}

/// Which indexes are in use.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Metal3DataTemplateStatus {
    /// When this status was last written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_updated: Option<Time>,

    /// The indexes in use, by the names of the claims that have them.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(transform = loose)]
    pub indexes: BTreeMap<String, i64>,
}
