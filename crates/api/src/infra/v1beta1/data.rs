//! Metal3DataClaim and Metal3Data.

use crate::reference::{ObjectReference, SecretReference};
use crate::rules::{claim_of_template, fixed_index, fixed_reference};
use crate::wire::{int, is_default, optional_spec};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a machine asks for.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1beta1",
    kind = "Metal3DataClaim",
    plural = "metal3dataclaims",
    category = "cluster-api",
    shortname = "m3dc",
    shortname = "m3dataclaim",
    shortname = "m3dataclaims",
    shortname = "metal3dc",
    shortname = "metal3dataclaim",
    namespaced,
    storage = false,
    deprecated,
    doc = "A machine's wish for metadata and network data. A Metal3Data answers it. Deprecated; use v1beta2.",
    status = "Metal3DataClaimStatus",
    derive = "Default",
    derive = "PartialEq",
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp", "description": "Time since the Metal3DataClaim was created"}"#
)]
#[serde(rename_all = "camelCase", default, remote = "Self")]
#[schemars(!remote, transform = claim_of_template)]
pub struct Metal3DataClaimSpec {
    /// The Metal3DataTemplate to render from, in the claim's namespace. Its name must be given and cannot be changed.
    #[schemars(transform = fixed_reference)]
    pub template: ObjectReference,
}

optional_spec!(Metal3DataClaimSpec);

/// What has become of a claim.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Metal3DataClaimStatus {
    /// The Metal3Data that answers the claim.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rendered_data: Option<ObjectReference>,

    /// Why there is none, in words for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_message: Option<String>,
}

/// What is rendered, for whom, and into which Secrets.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1beta1",
    kind = "Metal3Data",
    plural = "metal3datas",
    category = "cluster-api",
    shortname = "m3d",
    shortname = "m3data",
    shortname = "m3datas",
    shortname = "metal3d",
    shortname = "metal3data",
    namespaced,
    storage = false,
    deprecated,
    doc = "Metadata and network data of one machine, rendered from a Metal3DataTemplate. Deprecated; use v1beta2.",
    status = "Metal3DataStatus",
    derive = "Default",
    derive = "PartialEq",
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp", "description": "Time since the Metal3Data was created"}"#
)]
#[serde(rename_all = "camelCase", default, remote = "Self")]
#[schemars(!remote, transform = fixed_index)]
pub struct Metal3DataSpec {
    /// Number of this data among those of its template, from 0. Cannot be changed.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(schema_with = "int")]
    pub index: i64,

    /// Ignored, and gone in v1beta2, which came with release 1.13 of cluster-api-provider-metal3.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub template_reference: String,

    /// Secret with the rendered metadata. Written by the controller.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub meta_data: Option<SecretReference>,

    /// Secret with the rendered network data. Written by the controller.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network_data: Option<SecretReference>,

    /// The Metal3DataClaim that this answers. Cannot be changed.
    #[schemars(transform = fixed_reference)]
    pub claim: ObjectReference,

    /// The Metal3DataTemplate that this is rendered from. Cannot be changed.
    #[schemars(transform = fixed_reference)]
    pub template: ObjectReference,
}

optional_spec!(Metal3DataSpec);

/// Whether the data has been rendered.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Metal3DataStatus {
    /// Whether the Secrets are there.
    #[serde(skip_serializing_if = "is_default")]
    pub ready: bool,

    /// Why the Secrets are not there, in words for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_message: Option<String>,
}
