//! References to other objects. All are atomic: server-side apply replaces them whole, so that two writers can never
//! produce a reference that is half of each.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Names a Secret.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct SecretReference {
    /// Name of the Secret.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,

    /// Namespace of the Secret. Empty means the namespace of the object that refers to it; other namespaces are refused
    /// where the operator reads the Secret.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
}

/// Names any object, as Kubernetes' core ObjectReference does.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct ObjectReference {
    /// API group and version of the object, such as v1 or metal3.io/v1alpha1.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub api_version: String,

    /// Path to a part of the object, such as spec.containers{name}. Empty means the whole object.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub field_path: String,

    /// Kind of the object.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,

    /// Name of the object.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,

    /// Namespace of the object; empty for a cluster-scoped one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,

    /// The resource version that the reference was made against, if that matters.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub resource_version: String,

    /// UID of the object, to tell it from a later one of the same name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
}
