//! HostFirmwareComponents: the firmware versions of one host.

use crate::condition::Condition;
use crate::wire::optional_spec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which firmware is wanted.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "metal3.io",
    version = "v1alpha1",
    kind = "HostFirmwareComponents",
    plural = "hostfirmwarecomponents",
    shortname = "hfc",
    namespaced,
    doc = "The firmware versions of a host's components, and the updates that are wanted. It has the name and namespace of its BareMetalHost, whose controller creates it where the BMC tells of components.",
    status = "HostFirmwareComponentsStatus",
    derive = "Default",
    derive = "PartialEq",
    printcolumn = r#"{"name": "Valid", "type": "string", "jsonPath": ".status.conditions[?(@.type=='Valid')].status", "description": "Whether what is wanted can be had", "priority": 1}"#,
    printcolumn = r#"{"name": "Change", "type": "string", "jsonPath": ".status.conditions[?(@.type=='ChangeDetected')].status", "description": "Whether something is wanted that the host does not have", "priority": 1}"#,
    printcolumn = r#"{"name": "Waiting", "type": "string", "jsonPath": ".status.conditions[?(@.type=='ChangeDetected')].message", "description": "What makes the change happen", "priority": 1}"#,
    printcolumn = r#"{"name": "Problem", "type": "string", "jsonPath": ".status.conditions[?(@.type=='Valid')].message", "description": "What cannot be had, and why", "priority": 1}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp", "description": "Time since the HostFirmwareComponents was created"}"#
)]
#[serde(rename_all = "camelCase", default, remote = "Self")]
#[schemars(!remote)]
pub struct HostFirmwareComponentsSpec {
    /// The wanted updates, in the order in which they are made. An update that was made already is not repeated.
    pub updates: Vec<FirmwareUpdate>,
}

optional_spec!(HostFirmwareComponentsSpec);

/// One firmware update.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct FirmwareUpdate {
    /// The component: bios, bmc, or a network interface as nic: and its id. The schema takes any text; the controller
    /// reports others as invalid and applies nothing then.
    pub component: String,

    /// URL of the firmware, with scheme http, https or another that the BMC knows.
    pub url: String,
}

/// The firmware versions of a host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HostFirmwareComponentsStatus {
    /// The updates that were asked of the host last.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub updates: Vec<FirmwareUpdate>,

    /// The components that the BMC tells of: bios, bmc and network interfaces.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub components: Vec<FirmwareComponentStatus>,

    /// When this status was last written. Absent when it never was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_updated: Option<Time>,

    /// Aspects of the state: ChangeDetected and Valid. The host waits until their observedGeneration is the object's.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// The firmware version of one component.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct FirmwareComponentStatus {
    /// The component: bios, bmc, or a network interface as nic: and its id.
    pub component: String,

    /// The version that the component had when it was first seen.
    pub initial_version: String,

    /// The version that it has now.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub current_version: String,

    /// The version that an update installed last. Empty when none did.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub last_version_flashed: String,

    /// When the version last changed. Absent when it never has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub updated_at: Option<Time>,
}
