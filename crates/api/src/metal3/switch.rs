//! BareMetalSwitch: one network switch that hosts are connected to.

use crate::condition::Condition;
use crate::reference::SecretReference;
use crate::wire::{is_default, never, optional_spec, wire_enum};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

wire_enum! {
    /// Which of Ironic's network drivers talks to the switch.
    #[derive(Default)]
    closed enum SwitchDriver {
        /// Over SSH, with the commands of the device type.
        #[default]
        GenericSwitch = "generic-switch",
    }
}

/// How to reach and operate a switch.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "metal3.io",
    version = "v1alpha1",
    kind = "BareMetalSwitch",
    plural = "baremetalswitches",
    shortname = "bms",
    namespaced,
    doc = "A network switch whose ports Ironic may set up: how to reach it and with which credentials.",
    status = "BareMetalSwitchStatus",
    derive = "Default",
    derive = "PartialEq",
    printcolumn = r#"{"name": "Driver", "type": "string", "jsonPath": ".spec.driver", "description": "Network driver that talks to the switch"}"#,
    printcolumn = r#"{"name": "Device Type", "type": "string", "jsonPath": ".spec.deviceType", "description": "Make of the switch, as the driver calls it"}"#,
    printcolumn = r#"{"name": "Address", "type": "string", "jsonPath": ".spec.address", "description": "Management address"}"#,
    printcolumn = r#"{"name": "Valid", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Valid\")].status", "description": "Whether Ironic's configuration contains the switch"}"#
)]
#[serde(rename_all = "camelCase", default, remote = "Self")]
#[schemars(!remote)]
pub struct BareMetalSwitchSpec {
    /// IP address or host name of the switch's management interface.
    pub address: String,

    /// MAC address of the switch's management interface, six hexadecimal octets with colons. It is the chassis id that
    /// hosts see by LLDP, and so tells which switch a port belongs to.
    #[schemars(regex(pattern = "^[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}$"))]
    pub mac_address: String,

    /// Network driver that talks to the switch. The only one is generic-switch, and it is the default.
    #[serde(skip_serializing_if = "never")]
    #[schemars(extend("x-metal3-default" = "generic-switch"))]
    pub driver: SwitchDriver,

    /// Make of the switch, as networking-generic-switch calls it, such as netmiko_cisco_ios, netmiko_dell_os10 or
    /// netmiko_arista_eos.
    pub device_type: String,

    /// Secret with the key username and one of ssh-privatekey and password, of which the private key is preferred;
    /// admin-password is optional. Without a namespace it lies in that of the switch. A switch without credentials is
    /// left out of Ironic's configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credentials: Option<SecretReference>,

    /// TCP port of the management interface, from 1 to 65535. Absent means the driver's usual one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65535))]
    pub port: Option<i32>,

    /// Whether to accept any TLS certificate of the switch. Default false.
    #[serde(skip_serializing_if = "is_default")]
    pub disable_certificate_verification: bool,
}

optional_spec!(BareMetalSwitchSpec);

/// What is known of a switch.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct BareMetalSwitchStatus {
    /// Aspects of the state: Valid, whether the switch is part of Ironic's configuration.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}
