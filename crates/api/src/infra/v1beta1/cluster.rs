//! Metal3Cluster and its template.

use super::{LegacyCondition, NewConditions};
use crate::rules::{cluster_endpoint, template_endpoint};
use crate::wire::{int, is_default, optional_spec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What all machines of a cluster share.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1beta1",
    kind = "Metal3Cluster",
    plural = "metal3clusters",
    category = "cluster-api",
    shortname = "m3c",
    shortname = "m3cluster",
    shortname = "m3clusters",
    shortname = "metal3c",
    shortname = "metal3cluster",
    namespaced,
    storage = false,
    deprecated,
    doc = "The infrastructure of a Cluster API Cluster on servers: where its control plane is reached. Deprecated; use v1beta2.",
    status = "Metal3ClusterStatus",
    derive = "Default",
    derive = "PartialEq",
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp", "description": "Time since the Metal3Cluster was created"}"#,
    printcolumn = r#"{"name": "Ready", "type": "string", "jsonPath": ".status.ready", "description": "Whether machines can be made"}"#,
    printcolumn = r#"{"name": "Error", "type": "string", "jsonPath": ".status.failureReason", "description": "Why it cannot succeed without a change"}"#,
    printcolumn = r#"{"name": "Cluster", "type": "string", "jsonPath": ".metadata.labels.cluster\\.x-k8s\\.io/cluster-name", "description": "Cluster that it belongs to"}"#,
    printcolumn = r#"{"name": "Endpoint", "type": "string", "jsonPath": ".spec.controlPlaneEndpoint", "description": "Where the control plane is reached"}"#
)]
#[serde(rename_all = "camelCase", default, remote = "Self")]
#[schemars(!remote, transform = cluster_endpoint)]
pub struct Metal3ClusterSpec {
    /// Where the cluster's control plane is reached. The host must be given; a port of 0 becomes 6443.
    #[serde(skip_serializing_if = "is_default")]
    pub control_plane_endpoint: ApiEndpoint,

    /// Deprecated: the opposite of cloudProviderEnabled, and ignored where that is given. Gone in v1beta2, which came with
    /// release 1.13 of cluster-api-provider-metal3; converted to cloudProviderEnabled there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_cloud_provider: Option<bool>,

    /// Whether a cloud provider sets the provider ID of nodes. If so, it is only read; if not, the machine's controller
    /// finds the node and sets it. Absent means false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cloud_provider_enabled: Option<bool>,

    /// Failure domains that machines can be spread over, by their names.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub failure_domains: BTreeMap<String, FailureDomain>,
}

optional_spec!(Metal3ClusterSpec);

/// Where a control plane is reached.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ApiEndpoint {
    /// Name or address.
    pub host: String,

    /// TCP port. 0 means none.
    #[schemars(schema_with = "int")]
    pub port: i64,
}

/// A failure domain.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct FailureDomain {
    /// Whether machines of the control plane may be put here.
    #[serde(skip_serializing_if = "is_default")]
    pub control_plane: bool,

    /// Properties of the failure domain, for whoever understands them.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub attributes: BTreeMap<String, String>,
}

/// What is known of a Metal3Cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Metal3ClusterStatus {
    /// When this status was last written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_updated: Option<Time>,

    /// Why reconciling cannot succeed without a change, as one CamelCase word for programs.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub failure_reason: String,

    /// Why reconciling cannot succeed without a change, in words for people.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub failure_message: String,

    /// Whether machines can be made.
    #[serde(skip_serializing_if = "is_default")]
    pub ready: bool,

    /// The failure domains of spec, for Cluster API.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub failure_domains: BTreeMap<String, FailureDomain>,

    /// Conditions of the older kind.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<LegacyCondition>,

    /// What v1beta2 has in other places.
    #[serde(skip_serializing_if = "is_default")]
    pub v1beta2: NewConditions,
}

/// What a ClusterClass makes Metal3Clusters from.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1beta1",
    kind = "Metal3ClusterTemplate",
    plural = "metal3clustertemplates",
    category = "cluster-api",
    shortname = "m3ct",
    namespaced,
    storage = false,
    deprecated,
    doc = "What a ClusterClass makes Metal3Clusters from. Deprecated; use v1beta2.",
    derive = "Default",
    derive = "PartialEq"
)]
#[serde(default, remote = "Self")]
#[schemars(!remote, transform = template_endpoint)]
pub struct Metal3ClusterTemplateSpec {
    /// The Metal3Clusters to be made.
    pub template: Metal3ClusterTemplateResource,
}

optional_spec!(Metal3ClusterTemplateSpec);

/// A Metal3Cluster to be made.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Metal3ClusterTemplateResource {
    /// What is wanted of it.
    pub spec: Metal3ClusterSpec,
}
