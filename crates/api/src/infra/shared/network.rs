//! Networks and routes of a template's network data.

use super::address::prefix;
use super::limits::{IN_V1BETA1, by_id, by_network};
use super::source::unless_empty;
use super::{AddressFamily, AddressText, AnnotationRef, Ipv4Text, Ipv6Text, PoolReference};
use crate::rules::address_sources;
use crate::wire::{clamped_option, is_default};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The networks of a server, by how they are set up.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(transform = address_sources)]
pub struct Networks {
    /// IPv4 networks with an address from a pool.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = by_id)]
    pub ipv4: Vec<StaticNetwork<Ipv4Text>>,

    /// IPv4 networks with an address from DHCP.
    #[serde(rename = "ipv4DHCP", skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = by_id)]
    pub ipv4_dhcp: Vec<DynamicNetwork<Ipv4Text>>,

    /// IPv6 networks with an address from a pool.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = by_id, transform = v1beta1_requires_pool)]
    pub ipv6: Vec<StaticNetwork<Ipv6Text>>,

    /// IPv6 networks with an address from DHCP.
    #[serde(rename = "ipv6DHCP", skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = by_id)]
    pub ipv6_dhcp: Vec<DynamicNetwork<Ipv6Text>>,

    /// IPv6 networks with an address that the system makes from a router's announcement.
    #[serde(rename = "ipv6SLAAC", skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = by_id)]
    pub ipv6_slaac: Vec<DynamicNetwork<Ipv6Text>>,
}

/// In v1beta1 an IPv6 network had no other source of its address.
fn v1beta1_requires_pool(schema: &mut schemars::Schema) {
    if let Some(items) = schema.get_mut("items") {
        items[IN_V1BETA1] = serde_json::json!({ "required": ["id", "ipAddressFromIPPool", "link"] });
    }
}

/// A network with an address from a pool. Exactly one source of the address is meant to be given.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct StaticNetwork<A: AddressFamily> {
    /// Name of the network within the template.
    #[schemars(length(min = 1, max = 512))]
    pub id: String,

    /// The id of the link that the network is on.
    #[schemars(length(min = 1, max = 512))]
    pub link: String,

    /// Name of the Metal3 IPPool that the address comes from.
    #[serde(rename = "ipAddressFromIPPool", skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 512))]
    pub ip_address_from_ip_pool: String,

    /// The pool that the address comes from, of any kind.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "unless_empty")]
    pub from_pool_ref: Option<PoolReference>,

    /// An annotation whose value is the name of the Metal3 IPPool that the address comes from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from_pool_annotation: Option<AnnotationRef>,

    /// Routes through this network. Only one can lead to a network.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        transform = by_network,
        extend("x-metal3-v1beta1" = { "description": "Routes through this network. In v1beta2 only one can lead to a network." })
    )]
    pub routes: Vec<Route<A>>,
}

/// A network whose address the server finds out by itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct DynamicNetwork<A: AddressFamily> {
    /// Name of the network within the template.
    #[schemars(length(min = 1, max = 512))]
    pub id: String,

    /// The id of the link that the network is on.
    #[schemars(length(min = 1, max = 512))]
    pub link: String,

    /// Routes through this network. Only one can lead to a network.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        transform = by_network,
        extend("x-metal3-v1beta1" = { "description": "Routes through this network. In v1beta2 only one can lead to a network." })
    )]
    pub routes: Vec<Route<A>>,
}

/// A route.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Route<A: AddressFamily> {
    /// First address of the network that the route leads to.
    pub network: A,

    /// Length of the network's prefix in bits. Absent means 0.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "clamped_option")]
    #[schemars(schema_with = "prefix::<A>")]
    pub prefix: Option<i32>,

    /// The router.
    pub gateway: Gateway<A>,

    /// Services that are reached by this route.
    #[serde(skip_serializing_if = "is_default")]
    pub services: RouteServices<A>,
}

/// Where a router's address comes from. Exactly one is meant to be given.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Gateway<A: AddressFamily> {
    /// The address itself.
    #[serde(skip_serializing_if = "is_default")]
    pub string: A,

    /// Name of the Metal3 IPPool whose gateway it is.
    #[serde(rename = "fromIPPool", skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 512))]
    pub from_ip_pool: String,

    /// The pool whose gateway it is, of any kind.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "unless_empty")]
    pub from_pool_ref: Option<PoolReference>,

    /// An annotation whose value is the name of the Metal3 IPPool whose gateway it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from_pool_annotation: Option<AnnotationRef>,
}

/// Services that are reached by a route.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RouteServices<A: AddressFamily> {
    /// Addresses of name servers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 512), extend("x-kubernetes-list-type" = "set"))]
    pub dns: Vec<A>,

    /// Name of the Metal3 IPPool whose name servers are added.
    #[serde(rename = "dnsFromIPPool", skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 512))]
    pub dns_from_ip_pool: String,
}

/// Services that need no route of their own.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NetworkServices {
    /// Addresses of name servers, of either family.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 512), extend("x-kubernetes-list-type" = "set"))]
    pub dns: Vec<AddressText>,

    /// Name of the Metal3 IPPool whose name servers are added.
    #[serde(rename = "dnsFromIPPool", skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 512))]
    pub dns_from_ip_pool: String,
}
