//! Where v1beta1 keeps conditions of the newer kind.

use crate::condition::Condition;
use crate::infra::shared::limits::conditions;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What v1beta2 has in other places.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NewConditions {
    /// Conditions of the newer kind; in v1beta2 they are status.conditions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = conditions)]
    pub conditions: Vec<Condition>,
}
