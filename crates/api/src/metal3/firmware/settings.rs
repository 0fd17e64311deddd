//! HostFirmwareSettings: the BIOS settings of one host.

use crate::condition::Condition;
use crate::int_or_string::IntOrString;
use crate::wire::optional_spec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Which BIOS settings are wanted.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "metal3.io",
    version = "v1alpha1",
    kind = "HostFirmwareSettings",
    plural = "hostfirmwaresettings",
    shortname = "hfs",
    namespaced,
    doc = "The BIOS settings of a host: those it has and those that are wanted. It has the name and namespace of its BareMetalHost, whose controller creates it.",
    status = "HostFirmwareSettingsStatus",
    derive = "Default",
    derive = "PartialEq",
    printcolumn = r#"{"name": "Valid", "type": "string", "jsonPath": ".status.conditions[?(@.type=='Valid')].status", "description": "Whether what is wanted can be had", "priority": 1}"#,
    printcolumn = r#"{"name": "Change", "type": "string", "jsonPath": ".status.conditions[?(@.type=='ChangeDetected')].status", "description": "Whether something is wanted that the host does not have", "priority": 1}"#,
    printcolumn = r#"{"name": "Waiting", "type": "string", "jsonPath": ".status.conditions[?(@.type=='ChangeDetected')].message", "description": "What makes the change happen", "priority": 1}"#,
    printcolumn = r#"{"name": "Problem", "type": "string", "jsonPath": ".status.conditions[?(@.type=='Valid')].message", "description": "What cannot be had, and why", "priority": 1}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp", "description": "Time since the HostFirmwareSettings was created"}"#
)]
#[serde(rename_all = "camelCase", default, remote = "Self")]
#[schemars(!remote)]
pub struct HostFirmwareSettingsSpec {
    /// The wanted settings by their names, which are the vendor's. What is not here stays as it is. Values are numbers or
    /// texts; true and false need quotes. Passwords, which have Password in their name or are of that type, cannot be set here.
    pub settings: BTreeMap<String, IntOrString>,
}

optional_spec!(HostFirmwareSettingsSpec);

/// The BIOS settings of a host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HostFirmwareSettingsStatus {
    /// The FirmwareSchema that says what values the settings may have. Absent when the BMC does not tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schema: Option<SchemaReference>,

    /// The settings as the BMC told them last, without those whose name contains Password.
    pub settings: BTreeMap<String, String>,

    /// When this status was last written. Absent when it never was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_updated: Option<Time>,

    /// Aspects of the state: ChangeDetected and Valid. The host waits until their observedGeneration is the object's.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// Names a FirmwareSchema.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SchemaReference {
    /// Namespace of the FirmwareSchema, which is that of the host.
    pub namespace: String,

    /// Name of the FirmwareSchema.
    pub name: String,
}
