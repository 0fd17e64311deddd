//! Status conditions, with the limits that Kubernetes' own schema for them carries.

use crate::wire::{no_time, time, wire_enum};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

wire_enum! {
    /// Whether what a condition says holds.
    closed enum ConditionStatus {
        /// It holds.
        True = "True",
        /// It does not hold.
        False = "False",
        /// Nobody can tell at the moment.
        Unknown = "Unknown",
    }
}

/// One aspect of an object's state.
///
/// Our own type, because the one of k8s-openapi generates a schema without the limits on type, status and reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Condition {
    /// What this condition is about, in CamelCase, such as Ready. Unique in its list.
    #[serde(rename = "type")]
    #[schemars(
        length(max = 316),
        regex(
            pattern = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
        )
    )]
    pub type_: String,

    /// Whether it holds: True, False or Unknown.
    pub status: ConditionStatus,

    /// Generation of the object that this condition was computed from. When it is older than metadata.generation, the
    /// condition may be out of date. Absent when the writer does not record it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub observed_generation: Option<i64>,

    /// When status last changed from one value to another.
    #[serde(deserialize_with = "time")]
    pub last_transition_time: Time,

    /// Why it is so, as one CamelCase word for programs.
    #[schemars(
        length(min = 1, max = 1024),
        regex(pattern = r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$")
    )]
    pub reason: String,

    /// Why it is so, in words for people. May be empty.
    #[schemars(length(max = 32768))]
    pub message: String,
}

impl Default for Condition {
    fn default() -> Self {
        Self {
            type_: String::new(),
            status: ConditionStatus::Unknown,
            observed_generation: None,
            last_transition_time: no_time(),
            reason: String::new(),
            message: String::new(),
        }
    }
}
