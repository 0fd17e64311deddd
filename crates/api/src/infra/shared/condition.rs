//! Conditions of the older kind, and where v1beta2 keeps them.

use crate::wire::{is_default, no_time, time};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One aspect of an object's state, as Cluster API wrote it before v1beta2: with a severity, without a generation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LegacyCondition {
    /// What this condition is about, in CamelCase, such as Ready.
    #[serde(rename = "type")]
    #[schemars(length(min = 1, max = 256))]
    pub type_: String,

    /// Whether it holds: True, False or Unknown.
    pub status: String,

    /// How bad it is that the condition does not hold: Error, Warning or Info. Absent when it holds.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 32))]
    pub severity: String,

    /// When status last changed from one value to another.
    #[serde(deserialize_with = "time")]
    pub last_transition_time: Time,

    /// Why it is so, as one CamelCase word for programs.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 256))]
    pub reason: String,

    /// Why it is so, in words for people.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 10240))]
    pub message: String,
}

impl Default for LegacyCondition {
    fn default() -> Self {
        Self {
            type_: String::new(),
            status: String::new(),
            severity: String::new(),
            last_transition_time: no_time(),
            reason: String::new(),
            message: String::new(),
        }
    }
}

/// What earlier versions had and v1beta2 has given up, by version.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct DeprecatedStatus {
    /// What v1beta1 had. Goes when v1beta1 is no longer served.
    #[serde(skip_serializing_if = "is_default")]
    pub v1beta1: DeprecatedConditions,
}

/// Conditions and failures as v1beta1 had them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct DeprecatedConditions {
    /// Conditions of the older kind. Nothing of Cluster API reads them here.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<LegacyCondition>,

    /// Why reconciling cannot succeed without a change, as one CamelCase word for programs.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub failure_reason: String,

    /// Why reconciling cannot succeed without a change, in words for people.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub failure_message: String,
}
