//! Metal3Remediation and its template.

use crate::wire::{int, is_default, optional_spec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How to remedy a machine.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1beta1",
    kind = "Metal3Remediation",
    plural = "metal3remediations",
    category = "cluster-api",
    shortname = "m3r",
    shortname = "m3remediation",
    namespaced,
    storage = false,
    deprecated,
    doc = "A request to remedy the unhealthy machine of the same name. Deprecated; use v1beta2.",
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
    #[serde(rename = "type", skip_serializing_if = "String::is_empty")]
    pub type_: String,

    /// How often to repeat after the first attempt, so that 1 means two attempts. Absent or 0 becomes 1.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(schema_with = "int")]
    pub retry_limit: i64,

    /// Time from the beginning of an attempt to that of the next, such as 10m or 600s. Absent becomes 10m0s. In v1beta2 it is
    /// timeoutSeconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<String>,
}

/// How a remediation goes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Metal3RemediationStatus {
    /// Where it stands: Running, Waiting, Deleting machine or Failed. Empty before it has begun.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub phase: String,

    /// How often the remedy was repeated.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(schema_with = "int")]
    pub retry_count: i64,

    /// When the current attempt began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_remediated: Option<Time>,
}

/// What a MachineHealthCheck makes Metal3Remediations from.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1beta1",
    kind = "Metal3RemediationTemplate",
    plural = "metal3remediationtemplates",
    category = "cluster-api",
    shortname = "m3rt",
    shortname = "m3remediationtemplate",
    shortname = "m3remediationtemplates",
    shortname = "metal3rt",
    shortname = "metal3remediationtemplate",
    namespaced,
    storage = false,
    deprecated,
    doc = "What a MachineHealthCheck makes Metal3Remediations from. Deprecated; use v1beta2.",
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
    pub status: Metal3RemediationStatus,
}
