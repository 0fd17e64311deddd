//! HostNetworkAttachment: how a switch port is to be set up.

use crate::rules::untagged_access;
use crate::wire::{int, optional_spec, wire_enum};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

wire_enum! {
    /// Which frames a switch port takes.
    #[derive(Default)]
    closed enum SwitchPortMode {
        /// Those of one VLAN, untagged.
        #[default]
        Access = "access",
        /// Those of several VLANs, tagged; the native one untagged.
        Trunk = "trunk",
        /// Both tagged and untagged ones, as the switch's make has it.
        Hybrid = "hybrid",
    }
}

/// How a switch port is to be set up. The webhook refuses changes while a host refers to the object.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "metal3.io",
    version = "v1alpha1",
    kind = "HostNetworkAttachment",
    plural = "hostnetworkattachments",
    namespaced,
    doc = "How the switch port of a network interface is to be set up. Network interfaces of BareMetalHosts refer to it.",
    derive = "Default",
    derive = "PartialEq",
    printcolumn = r#"{"name": "Mode", "type": "string", "jsonPath": ".spec.mode", "description": "Mode of the switch port"}"#,
    printcolumn = r#"{"name": "Native VLAN", "type": "integer", "jsonPath": ".spec.nativeVLAN", "description": "VLAN of untagged frames"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp", "description": "Time since the HostNetworkAttachment was created"}"#
)]
#[serde(rename_all = "camelCase", default, remote = "Self")]
#[schemars(!remote, transform = untagged_access)]
pub struct HostNetworkAttachmentSpec {
    /// Mode of the switch port: access, trunk or hybrid. Default access.
    #[schemars(extend("x-metal3-default" = "access"))]
    pub mode: SwitchPortMode,

    /// VLAN of untagged frames, from 1 to 4094.
    #[serde(rename = "nativeVLAN")]
    #[schemars(schema_with = "int", range(min = 1, max = 4094))]
    pub native_vlan: i64,

    /// VLANs of tagged frames, as numbers (200) or ranges (200-203) between 1 and 4094. Must be empty in mode access.
    #[serde(rename = "allowedVLANs", skip_serializing_if = "Vec::is_empty")]
    #[schemars(inner(regex(pattern = r"^\d+(-\d+)?$")))]
    pub allowed_vlans: Vec<String>,

    /// Largest payload of a frame in bytes, from 68 to 9216. Absent leaves it as the switch has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "int", range(min = 68, max = 9216))]
    pub mtu: Option<i64>,
}

optional_spec!(HostNetworkAttachmentSpec);
