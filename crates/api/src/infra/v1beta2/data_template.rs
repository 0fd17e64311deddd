//! Metal3DataTemplate.

use super::{
    AddressFamily, BondMode, EthernetLink, LinkMac, MetaDataAnnotation, MetaDataFromPool, MetaDataHostInterface,
    MetaDataIndex, MetaDataLabel, MetaDataNamespace, MetaDataObjectName, MetaDataString, NetworkServices, Networks,
    Route, TransmitHashPolicy, VlanLink,
};
use crate::infra::shared::limits::{by_id, by_index, by_key, by_name, by_vlan_id, ethernets};
use crate::rules::{fixed_data, fixed_links, fixed_network, host_interfaces};
use crate::wire::{clamped, is_default, optional_spec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What to render for each machine.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1beta2",
    kind = "Metal3DataTemplate",
    plural = "metal3datatemplates",
    category = "cluster-api",
    shortname = "m3dt",
    shortname = "m3datatemplate",
    shortname = "m3datatemplates",
    shortname = "metal3dt",
    shortname = "metal3datatemplate",
    namespaced,
    doc = "What metadata and network data of machines are rendered from. Each machine gets an index of its own.",
    status = "Metal3DataTemplateStatus",
    derive = "Default",
    derive = "PartialEq",
    printcolumn = r#"{"name": "Cluster", "type": "string", "jsonPath": ".metadata.labels.cluster\\.x-k8s\\.io/cluster-name", "description": "Cluster that it belongs to"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp", "description": "Time since the Metal3DataTemplate was created"}"#
)]
#[serde(rename_all = "camelCase", default, remote = "Self")]
#[schemars(!remote, transform = fixed_data)]
pub struct Metal3DataTemplateSpec {
    /// Ignored, and deprecated since release 1.14 of cluster-api-provider-metal3; the webhook warns of it. A template can
    /// serve several clusters.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 512))]
    pub cluster_name: String,

    /// What metadata is rendered. Cannot be changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub meta_data: Option<MetaData>,

    /// What network data is rendered. Cannot be changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network_data: Option<NetworkData>,
}

optional_spec!(Metal3DataTemplateSpec);

impl Metal3DataTemplateSpec {
    /// What data is rendered from, the same for templates that mean the same. Upstream's conversion stores an offset or a prefix
    /// length of 0 as absent, and an absent `fromBootMAC` as `false`; ours keeps what was written.
    pub fn rendered_from(&self) -> (Option<MetaData>, Option<NetworkData>) {
        let (mut meta_data, mut network_data) = (self.meta_data.clone(), self.network_data.clone());
        if let Some(data) = &mut meta_data {
            for index in &mut data.indexes {
                index.offset = index.offset.filter(|offset| *offset != 0);
            }
            for from in &mut data.from_host_interfaces {
                from.from_boot_mac = from.from_boot_mac.filter(|is_boot| *is_boot);
            }
        }
        if let Some(data) = &mut network_data {
            let Networks {
                ipv4,
                ipv4_dhcp,
                ipv6,
                ipv6_dhcp,
                ipv6_slaac,
            } = &mut data.networks;
            let fixed = ipv4.iter_mut().map(|network| &mut network.routes);
            with_prefixes(fixed.chain(ipv4_dhcp.iter_mut().map(|network| &mut network.routes)));
            let fixed = ipv6.iter_mut().map(|network| &mut network.routes);
            let dynamic = ipv6_dhcp.iter_mut().chain(ipv6_slaac);
            with_prefixes(fixed.chain(dynamic.map(|network| &mut network.routes)));
        }
        (meta_data, network_data)
    }
}

fn with_prefixes<'a, A: AddressFamily + 'a>(routes: impl Iterator<Item = &'a mut Vec<Route<A>>>) {
    for route in routes.flatten() {
        route.prefix.get_or_insert(0);
    }
}

/// Entries of metadata, by where their values come from. Keys must differ across all lists.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(transform = host_interfaces)]
pub struct MetaData {
    /// Fixed texts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = by_key)]
    pub strings: Vec<MetaDataString>,

    /// Names of the objects behind the server.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = by_key)]
    pub object_names: Vec<MetaDataObjectName>,

    /// Texts made of the index.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = by_key)]
    pub indexes: Vec<MetaDataIndex>,

    /// The namespace.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = by_key)]
    pub namespaces: Vec<MetaDataNamespace>,

    /// Addresses from pools.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = by_key)]
    pub ip_addresses_from_pool: Vec<MetaDataFromPool>,

    /// Prefix lengths of addresses from pools.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = by_key)]
    pub prefixes_from_pool: Vec<MetaDataFromPool>,

    /// Gateways of pools.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = by_key)]
    pub gateways_from_pool: Vec<MetaDataFromPool>,

    /// Name servers of pools.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = by_key)]
    pub dns_servers_from_pool: Vec<MetaDataFromPool>,

    /// MAC addresses of the host.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = by_key)]
    pub from_host_interfaces: Vec<MetaDataHostInterface>,

    /// Values of labels.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = by_key)]
    pub from_labels: Vec<MetaDataLabel>,

    /// Values of annotations.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = by_key)]
    pub from_annotations: Vec<MetaDataAnnotation>,
}

/// The network of a server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(transform = fixed_network)]
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
#[schemars(transform = fixed_links)]
pub struct NetworkLinks {
    /// Network interfaces.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = ethernets)]
    pub ethernets: Vec<EthernetLink>,

    /// Several links as one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = by_id)]
    pub bonds: Vec<BondLink>,

    /// VLANs on other links.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = by_vlan_id)]
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
    #[schemars(length(min = 1, max = 512))]
    pub id: String,

    /// Name that the interface gets in the installed system. Absent leaves the name to the system.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 15), regex(pattern = "^[a-zA-Z][a-zA-Z0-9._-]*$"))]
    pub name: String,

    /// Largest packet in bytes. The default is 1500.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "clamped")]
    #[schemars(range(min = 1280, max = 9000), extend("x-metal3-default" = 1500))]
    pub mtu: i32,

    /// Where the MAC address of the bond comes from.
    pub mac_address: LinkMac,

    /// The ids of the links in the bond.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 512),
        inner(length(min = 1, max = 512)),
        extend("x-kubernetes-list-type" = "set")
    )]
    pub bond_links: Vec<String>,

    /// Further parameters of the bond, at least one.
    #[schemars(transform = by_name)]
    pub parameters: Vec<BondParameter>,
}

/// A parameter of a bond.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct BondParameter {
    /// Name of the parameter, as OpenStack's network data has it.
    #[schemars(length(min = 1, max = 512))]
    pub name: String,

    /// Value of the parameter. The schema admits structures only; what comes from v1beta1 may be any value.
    #[serde(skip_serializing_if = "Value::is_null")]
    #[schemars(schema_with = "any_object")]
    pub value: Value,
}

fn any_object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })
}

/// Which indexes are in use.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Metal3DataTemplateStatus {
    /// When this status was last written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_updated: Option<Time>,

    /// The indexes in use, found from the Metal3Datas that there are. At most 512 are listed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = by_index)]
    pub indexes: Vec<DataIndex>,
}

/// An index in use.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct DataIndex {
    /// Name of the claim that has it.
    #[schemars(length(min = 1, max = 512))]
    pub name: String,

    /// The index, from 0.
    #[schemars(range(min = 0))]
    pub index: i32,
}
