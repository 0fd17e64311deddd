//! Which hosts a machine may run on.

use super::limits::by_key;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Which hosts a machine may run on: those whose labels meet everything here. Empty admits every host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HostSelector {
    /// Labels that a host must have, with these values.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub match_labels: BTreeMap<String, String>,

    /// Further requirements on a host's labels, at most one for each key.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = by_key)]
    pub match_expressions: Vec<HostSelectorRequirement>,
}

/// A requirement on one label of a host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HostSelectorRequirement {
    /// Key of the label.
    #[schemars(length(min = 1, max = 512))]
    pub key: String,

    /// What must hold, in any case: in, notin, =, ==, !=, exists, !, gt or lt. Checked when a host is chosen, not before.
    pub operator: String,

    /// Values to compare the label's with. Must be given even where it must be empty, with exists and !.
    #[schemars(
        length(max = 512),
        inner(length(min = 1, max = 512)),
        extend("x-kubernetes-list-type" = "set")
    )]
    pub values: Vec<String>,
}
