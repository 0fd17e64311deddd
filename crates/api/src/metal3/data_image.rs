//! DataImage: an ISO that a host can read but does not boot.

use crate::condition::Condition;
use crate::wire::{int, is_default, optional_spec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which image is wanted.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "metal3.io",
    version = "v1alpha1",
    kind = "DataImage",
    plural = "dataimages",
    namespaced,
    doc = "An ISO image that is attached to a provisioned host as a virtual CD without being booted. It has the name and namespace of its BareMetalHost. Changes take effect the next time the host is powered on.",
    status = "DataImageStatus",
    derive = "Default",
    derive = "PartialEq",
    printcolumn = r#"{"name": "Attached", "type": "string", "jsonPath": ".status.conditions[?(@.type=='Attached')].status", "description": "Whether the disc is in the drive", "priority": 1}"#,
    printcolumn = r#"{"name": "Reason", "type": "string", "jsonPath": ".status.conditions[?(@.type=='Attached')].reason", "description": "Why it is or is not", "priority": 1}"#,
    printcolumn = r#"{"name": "Waiting", "type": "string", "jsonPath": ".status.conditions[?(@.type=='Attached')].message", "description": "What the disc waits for", "priority": 1}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp", "description": "Time since the DataImage was created"}"#
)]
#[serde(rename_all = "camelCase", default, remote = "Self")]
#[schemars(!remote)]
pub struct DataImageSpec {
    /// URL of the ISO image.
    pub url: String,
}

optional_spec!(DataImageSpec);

/// What is attached, and what went wrong.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct DataImageStatus {
    /// When the image was last compared with what is attached. Absent when it never was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_reconciled: Option<Time>,

    /// The image that was attached last. An empty URL, or none at all, means that nothing is.
    #[serde(skip_serializing_if = "is_default")]
    pub attached_image: AttachedImage,

    /// The failures since the last success. A count of 0, or none at all, means that there are none.
    #[serde(skip_serializing_if = "is_default")]
    pub error: DataImageError,

    /// Whether the disc is in the drive (Attached); if not, what it waits for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// An attached image.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AttachedImage {
    /// URL that the image was attached from, as the user gave it. Empty means that nothing is attached.
    pub url: String,
}

/// Failures to attach or detach an image.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct DataImageError {
    /// How many times in a row it has failed. Retries come more slowly as it grows.
    #[schemars(schema_with = "int")]
    pub count: i64,

    /// Why it failed last, in words.
    pub message: String,
}
