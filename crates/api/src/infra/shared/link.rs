//! Links of a template's network data.

use super::AnnotationRef;
use crate::wire::{clamped, is_default, wire_enum};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

wire_enum! {
    /// What an ethernet link is, in the words of OpenStack's network data.
    closed enum EthernetType {
        /// A bridge.
        Bridge = "bridge",
        /// A distributed virtual switch.
        Dvs = "dvs",
        /// A virtual ethernet bridge in hardware.
        HwVeb = "hw_veb",
        /// A Hyper-V switch.
        HyperV = "hyperv",
        /// An Open vSwitch port.
        Ovs = "ovs",
        /// A tap device.
        Tap = "tap",
        /// A vhost-user port.
        VhostUser = "vhostuser",
        /// A virtual interface.
        Vif = "vif",
        /// A physical interface, which is what a server has.
        Phy = "phy",
    }
}

wire_enum! {
    /// How a bond spreads traffic over its links.
    closed enum BondMode {
        /// Packets in turn.
        BalanceRr = "balance-rr",
        /// One link at a time.
        ActiveBackup = "active-backup",
        /// By a hash of addresses.
        BalanceXor = "balance-xor",
        /// Everything everywhere.
        Broadcast = "broadcast",
        /// By load, outgoing only.
        BalanceTlb = "balance-tlb",
        /// By load, both ways.
        BalanceAlb = "balance-alb",
        /// Link aggregation that is agreed upon with the switch.
        Lacp = "802.3ad",
    }
}

wire_enum! {
    /// What a bond's hash of addresses is made of.
    closed enum TransmitHashPolicy {
        /// MAC addresses.
        Layer2 = "layer2",
        /// IP addresses and ports.
        Layer34 = "layer3+4",
        /// MAC and IP addresses.
        Layer23 = "layer2+3",
    }
}

impl Default for EthernetType {
    fn default() -> Self {
        Self::Other(String::new())
    }
}

impl Default for BondMode {
    fn default() -> Self {
        Self::Other(String::new())
    }
}

/// Where a link's MAC address comes from. Exactly one is meant to be given; string goes before fromHostInterface, and that
/// before fromAnnotation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LinkMac {
    /// The MAC address itself.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 512))]
    pub string: String,

    /// Name of an interface in the host's inventory, whose MAC address it is.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 512))]
    pub from_host_interface: String,

    /// An annotation whose value is the MAC address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from_annotation: Option<AnnotationRef>,
}

/// A network interface.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct EthernetLink {
    /// What the link is: bridge, dvs, hw_veb, hyperv, ovs, tap, vhostuser, vif or phy.
    #[serde(rename = "type")]
    pub type_: EthernetType,

    /// Name of the link within the template, by which networks, bonds and VLANs refer to it.
    #[schemars(length(min = 1, max = 512))]
    pub id: String,

    /// Name that the interface gets in the installed system. Absent leaves the name alone.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 15), regex(pattern = "^[a-zA-Z][a-zA-Z0-9._-]*$"))]
    pub name: String,

    /// Largest packet in bytes. The default is 1500.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "clamped")]
    #[schemars(range(min = 1280, max = 9000), extend("x-metal3-default" = 1500))]
    pub mtu: i32,

    /// Where the MAC address comes from, by which the interface is found.
    pub mac_address: LinkMac,
}

/// A VLAN on another link.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct VlanLink {
    /// Number of the VLAN. A template can have each number only once, even on different links.
    #[serde(rename = "vlanID", deserialize_with = "clamped")]
    #[schemars(
        range(min = 0, max = 4096),
        extend("x-metal3-v1beta1" = { "description": "Number of the VLAN. In v1beta2 a template can have each number only once." })
    )]
    pub vlan_id: i32,

    /// Name of the link within the template, by which networks refer to it.
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

    /// Where the MAC address comes from.
    pub mac_address: LinkMac,

    /// The id of the link that carries the VLAN.
    #[schemars(length(min = 1, max = 512))]
    pub vlan_link: String,
}
