//! Metal3DataClaim and Metal3Data.

use super::ObjectRef;
use crate::reference::SecretReference;
use crate::rules::{claim_of_template, fixed, fixed_reference, staying_data, staying_template};
use crate::wire::{is_default, optional_spec};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a machine asks for.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1beta2",
    kind = "Metal3DataClaim",
    plural = "metal3dataclaims",
    category = "cluster-api",
    shortname = "m3dc",
    shortname = "m3dataclaim",
    shortname = "m3dataclaims",
    shortname = "metal3dc",
    shortname = "metal3dataclaim",
    namespaced,
    doc = "A machine's wish for metadata and network data. A Metal3Data answers it.",
    status = "Metal3DataClaimStatus",
    derive = "Default",
    derive = "PartialEq",
    printcolumn = r#"{"name": "Waiting", "type": "string", "jsonPath": ".status.errorMessage", "description": "What it waits for", "priority": 1}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp", "description": "Time since the Metal3DataClaim was created"}"#
)]
#[serde(rename_all = "camelCase", default, remote = "Self")]
#[schemars(!remote, transform = staying_template, transform = claim_of_template)]
pub struct Metal3DataClaimSpec {
    /// The Metal3DataTemplate to render from, in the claim's namespace. Its name must be given and cannot be changed.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(transform = fixed_reference)]
    pub template: ObjectRef,
}

optional_spec!(Metal3DataClaimSpec);

/// What has become of a claim.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Metal3DataClaimStatus {
    /// The Metal3Data that answers the claim.
    #[serde(skip_serializing_if = "is_default")]
    pub rendered_data: ObjectRef,

    /// Why there is none, in words for people.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 512))]
    pub error_message: String,
}

/// What is rendered, for whom, and into which Secrets.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1beta2",
    kind = "Metal3Data",
    plural = "metal3datas",
    category = "cluster-api",
    shortname = "m3d",
    shortname = "m3data",
    shortname = "m3datas",
    shortname = "metal3d",
    shortname = "metal3data",
    namespaced,
    doc = "Metadata and network data of one machine, rendered from a Metal3DataTemplate.",
    status = "Metal3DataStatus",
    derive = "Default",
    derive = "PartialEq",
    printcolumn = r#"{"name": "Waiting", "type": "string", "jsonPath": ".status.errorMessage", "description": "What it waits for", "priority": 1}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp", "description": "Time since the Metal3Data was created"}"#
)]
#[serde(rename_all = "camelCase", default, remote = "Self")]
#[schemars(!remote, transform = staying_data)]
pub struct Metal3DataSpec {
    /// Number of this data among those of its template, from 0. Cannot be changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0), transform = fixed)]
    pub index: Option<i32>,

    /// Secret with the rendered metadata. Written by the controller.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub meta_data: Option<SecretReference>,

    /// Secret with the rendered network data. Written by the controller.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network_data: Option<SecretReference>,

    /// The Metal3DataClaim that this answers. Cannot be changed.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(transform = fixed_reference)]
    pub claim: ObjectRef,

    /// The Metal3DataTemplate that this is rendered from. Cannot be changed.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(transform = fixed_reference)]
    pub template: ObjectRef,
}

optional_spec!(Metal3DataSpec);

/// Whether the data has been rendered.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Metal3DataStatus {
    /// Whether the Secrets are there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<bool>,

    /// Why the Secrets are not there, in words for people.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 512))]
    pub error_message: String,
}
