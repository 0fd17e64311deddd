//! References, and the metadata of what a template makes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

use crate::reference::{Elsewhere, ForeignNamespace, LocalRef};

/// Names an object whose kind follows from the field.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct ObjectRef {
    /// Name of the object.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 253))]
    pub name: String,

    /// Namespace of the object. Empty means that of the object that refers to it; others are refused.
    #[serde(skip_serializing_if = "ForeignNamespace::is_empty")]
    #[schemars(with = "String", length(min = 1, max = 253))]
    pub namespace: ForeignNamespace,
}

impl ObjectRef {
    /// The object, for one of the namespace `own`.
    pub fn local<'a>(&'a self, own: &'a str) -> Result<LocalRef<'a>, Elsewhere<'a>> {
        LocalRef::of(own, &self.namespace, &self.name)
    }
}

/// Labels and annotations of what a template makes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("minProperties" = 1))]
pub struct TemplateMetadata {
    /// Labels.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,

    /// Annotations.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}
