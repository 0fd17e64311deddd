//! Metal3Remediation and its template.

use crate::wire::{is_default, optional_spec, wire_enum};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

wire_enum! {
    /// How a machine is remedied.
    closed enum RemediationType {
        /// By a power cycle.
        Reboot = "Reboot",
    }
}

wire_enum! {
    /// Where a remediation stands.
    closed enum RemediationPhase {
        /// The host is being powered off and on.
        Running = "Running",
        /// The host is on again; the machine may become healthy.
        Waiting = "Waiting",
        /// All attempts have failed; the machine is to be deleted.
        DeletingMachine = "Deleting machine",
        /// There is nothing that could be done.
        Failed = "Failed",
    }
}

/// How to remedy a machine.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1beta2",
    kind = "Metal3Remediation",
    plural = "metal3remediations",
    category = "cluster-api",
    shortname = "m3r",
    shortname = "m3remediation",
    namespaced,
    doc = "A request to remedy the unhealthy machine of the same name.",
    status = "Metal3RemediationStatus",
    derive = "Default",
    derive = "PartialEq",
    printcolumn = r#"{"name": "Retry limit", "type": "string", "jsonPath": ".spec.strategy.retryLimit", "description": "How often the remedy is repeated"}"#,
    printcolumn = r#"{"name": "Retry count", "type": "string", "jsonPath": ".status.retryCount", "description": "How often it was repeated"}"#,
    printcolumn = r#"{"name": "Last Remediated", "type": "string", "jsonPath": ".status.lastRemediated", "description": "When the current attempt began"}"#,
    printcolumn = r#"{"name": "Strategy", "type": "string", "jsonPath": ".spec.strategy.type", "description": "What the remedy is"}"#,
    printcolumn = r#"{"name": "Phase", "type": "string", "jsonPath": ".status.phase", "description": "Where the remediation stands"}"#
)]
#[serde(rename_all = "camelCase", default, remote = "Self")]
#[schemars(!remote)]
pub struct Metal3RemediationSpec {
    /// What to do, how often and how long.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strategy: Option<RemediationStrategy>,
}

optional_spec!(Metal3RemediationSpec);

/// What to do, how often and how long.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RemediationStrategy {
    /// What to do. Only Reboot is known.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_: Option<RemediationType>,

    /// How often to repeat after the first attempt, so that 1 means two attempts. The default is 1.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(range(min = 1), extend("x-metal3-default" = 1))]
    pub retry_limit: i32,

    /// Seconds from the beginning of an attempt to that of the next. The default is 600.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(range(min = 100), extend("x-metal3-default" = 600))]
    pub timeout_seconds: i32,
}

/// How a remediation goes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Metal3RemediationStatus {
    /// Where it stands: Running, Waiting, Deleting machine or Failed. Absent before it has begun.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<RemediationPhase>,

    /// How often the remedy was repeated. Absent means not yet.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(range(min = 1))]
    pub retry_count: i32,

    /// When the current attempt began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_remediated: Option<Time>,
}

/// What a MachineHealthCheck makes Metal3Remediations from.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1beta2",
    kind = "Metal3RemediationTemplate",
    plural = "metal3remediationtemplates",
    category = "cluster-api",
    shortname = "m3rt",
    shortname = "m3remediationtemplate",
    shortname = "m3remediationtemplates",
    shortname = "metal3rt",
    shortname = "metal3remediationtemplate",
    namespaced,
    doc = "What a MachineHealthCheck makes Metal3Remediations from.",
    status = "Metal3RemediationTemplateStatus",
    derive = "Default",
    derive = "PartialEq"
)]
#[serde(default, remote = "Self")]
#[schemars(!remote)]
pub struct Metal3RemediationTemplateSpec {
    /// The Metal3Remediations to be made.
    pub template: Metal3RemediationTemplateResource,
}

optional_spec!(Metal3RemediationTemplateSpec);

/// A Metal3Remediation to be made.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Metal3RemediationTemplateResource {
    /// What is wanted of it.
    pub spec: Metal3RemediationSpec,
}

/// Nothing writes this status; it is part of the interface all the same.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Metal3RemediationTemplateStatus {
    /// Never written.
    #[serde(skip_serializing_if = "is_default")]
    pub status: Metal3RemediationStatus,
}
