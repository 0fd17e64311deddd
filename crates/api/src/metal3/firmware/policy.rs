//! HostUpdatePolicy: when a host's firmware may change.

use crate::wire::{optional_spec, wire_enum};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

wire_enum! {
    /// When a host's firmware may change.
    closed enum UpdatePolicy {
        /// Only while the host is being prepared, before it becomes available.
        OnPreparing = "onPreparing",
        /// Also when a provisioned host is rebooted.
        OnReboot = "onReboot",
    }
}

/// When a host's firmware may change.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "metal3.io",
    version = "v1alpha1",
    kind = "HostUpdatePolicy",
    plural = "hostupdatepolicies",
    namespaced,
    doc = "When the firmware of a host may change. It has the name and namespace of its BareMetalHost. Without it, firmware changes only while the host is being prepared.",
    status = "HostUpdatePolicyStatus",
    derive = "Default",
    derive = "PartialEq",
    printcolumn = r#"{"name": "Settings", "type": "string", "jsonPath": ".spec.firmwareSettings", "description": "When settings are changed", "priority": 1}"#,
    printcolumn = r#"{"name": "Updates", "type": "string", "jsonPath": ".spec.firmwareUpdates", "description": "When firmware is updated", "priority": 1}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp", "description": "Time since the HostUpdatePolicy was created"}"#
)]
#[serde(rename_all = "camelCase", default, remote = "Self")]
#[schemars(!remote)]
pub struct HostUpdatePolicySpec {
    /// When changes of HostFirmwareSettings are applied: onPreparing or onReboot. Absent means onPreparing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub firmware_settings: Option<UpdatePolicy>,

    /// When changes of HostFirmwareComponents are applied: onPreparing or onReboot. Absent means onPreparing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub firmware_updates: Option<UpdatePolicy>,
}

optional_spec!(HostUpdatePolicySpec);

/// Nothing is reported about a policy. Clients write an empty object all the same.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct HostUpdatePolicyStatus {}
