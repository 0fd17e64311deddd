//! Network data in OpenStack's format, `network_data.json`.
//!
//! The types are the output; [`links`] and [`networks`] compute it.

mod links;
mod networks;

use std::collections::BTreeMap;

use metal3_api::infra::v1beta2::NetworkData as Template;
use serde::Serialize;
use serde_json::Value;

use crate::address::Addresses;
use crate::error::RenderError;
use crate::facts::Facts;
pub(crate) use networks::pools_of;

/// Rendered network data. All three lists are always written.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct NetworkData {
    /// Bonds, then network interfaces, then VLANs.
    pub links: Vec<Link>,
    /// Networks on the links: static ones, then those of DHCP, then those of router announcements.
    pub networks: Vec<Network>,
    /// Name servers for everything.
    pub services: Vec<Service>,
}

impl NetworkData {
    pub(crate) fn render(data: &Template, facts: &Facts<'_>, addresses: &Addresses) -> Result<Self, RenderError> {
        Ok(Self {
            links: links::render(&data.links, facts)?,
            networks: networks::render(&data.networks, facts, addresses)?,
            services: networks::services(&data.services, addresses)?,
        })
    }
}

/// What packets go through.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Link {
    /// Several links as one.
    Bond(Bond),
    /// A network interface.
    Ethernet(Ethernet),
    /// A VLAN on another link.
    Vlan(Vlan),
}

/// Several links as one.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Bond {
    /// Ids of the links in the bond. Written even if empty, as cloud-init asks for the key. (Upstream writes null then,
    /// which cloud-init fails on.)
    pub bond_links: Vec<String>,
    /// How traffic is spread.
    pub bond_mode: String,
    /// What the hash of addresses is made of. (Upstream writes an empty text for none, which cloud-init passes on to
    /// NetworkManager and netplan as the name of a policy.)
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bond_xmit_hash_policy: Option<String>,
    /// Further parameters by their keys, which start with `bond_`.
    #[serde(flatten)]
    pub parameters: BTreeMap<String, Value>,
    /// MAC address.
    pub ethernet_mac_address: String,
    /// Name within the document.
    pub id: String,
    /// Largest packet in bytes.
    pub mtu: i32,
    /// Name in the installed system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Always `bond`.
    #[serde(rename = "type")]
    pub type_: String,
}

/// A network interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Ethernet {
    /// MAC address, by which the interface is found.
    pub ethernet_mac_address: String,
    /// Name within the document.
    pub id: String,
    /// Largest packet in bytes.
    pub mtu: i32,
    /// Name in the installed system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Such as `phy`.
    #[serde(rename = "type")]
    pub type_: String,
}

/// A VLAN on another link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Vlan {
    /// Name within the document.
    pub id: String,
    /// Largest packet in bytes.
    pub mtu: i32,
    /// Name in the installed system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Always `vlan`.
    #[serde(rename = "type")]
    pub type_: String,
    /// Number of the VLAN.
    pub vlan_id: i32,
    /// Id of the link that carries it.
    pub vlan_link: String,
    /// MAC address.
    pub vlan_mac_address: String,
}

/// How a network gets its address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NetworkType {
    /// A fixed IPv4 address.
    Ipv4,
    /// A fixed IPv6 address.
    Ipv6,
    /// An IPv4 address from DHCP.
    Ipv4Dhcp,
    /// An IPv6 address from DHCP.
    Ipv6Dhcp,
    /// An IPv6 address that the system makes from a router's announcement.
    Ipv6Slaac,
}

/// A network on a link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Network {
    /// Name within the document.
    pub id: String,
    /// The address, if it is fixed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ip_address: Option<String>,
    /// Id of the link that the network is on.
    pub link: String,
    /// The netmask, if the address is fixed; empty where the pool tells no prefix length.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub netmask: Option<String>,
    /// Routes through the network.
    pub routes: Vec<Route>,
    /// How the network gets its address.
    #[serde(rename = "type")]
    pub type_: NetworkType,
}

/// A route.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Route {
    /// Address of the router, empty for none.
    pub gateway: String,
    /// Netmask of the network that the route leads to.
    pub netmask: String,
    /// First address of the network that the route leads to.
    pub network: String,
    /// Name servers that are reached by this route.
    pub services: Vec<Service>,
}

/// A name server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Service {
    /// Its address.
    pub address: String,
    /// Always `dns`.
    #[serde(rename = "type")]
    pub type_: String,
}
