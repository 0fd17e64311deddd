//! Metal3Cluster and its template.

use super::{DeprecatedStatus, Initialization, TemplateMetadata};
use crate::condition::Condition;
use crate::infra::shared::limits::{conditions, failure_domains};
use crate::rules::{cluster_endpoint, template_endpoint};
use crate::wire::{is_default, optional_spec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::{JsonSchema, Schema};
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::json;
use std::collections::BTreeMap;
use std::fmt;

/// What all machines of a cluster share.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1beta2",
    kind = "Metal3Cluster",
    plural = "metal3clusters",
    category = "cluster-api",
    shortname = "m3c",
    shortname = "m3cluster",
    shortname = "m3clusters",
    shortname = "metal3c",
    shortname = "metal3cluster",
    namespaced,
    doc = "The infrastructure of a Cluster API Cluster on servers: where its control plane is reached.",
    status = "Metal3ClusterStatus",
    derive = "Default",
    derive = "PartialEq",
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp", "description": "Time since the Metal3Cluster was created"}"#,
    printcolumn = r#"{"name": "Provisioned", "type": "string", "jsonPath": ".status.initialization.provisioned", "description": "Whether machines can be made"}"#,
    printcolumn = r#"{"name": "Error", "type": "string", "jsonPath": ".status.deprecated.v1beta1.failureReason", "description": "Why it cannot succeed without a change"}"#,
    printcolumn = r#"{"name": "Cluster", "type": "string", "jsonPath": ".metadata.labels.cluster\\.x-k8s\\.io/cluster-name", "description": "Cluster that it belongs to"}"#,
    printcolumn = r#"{"name": "Endpoint", "type": "string", "jsonPath": ".spec.controlPlaneEndpoint", "description": "Where the control plane is reached"}"#
)]
#[serde(rename_all = "camelCase", default, remote = "Self")]
#[schemars(!remote, transform = cluster_endpoint)]
pub struct Metal3ClusterSpec {
    /// Where the cluster's control plane is reached. The host must be given; port 6443 is set where none is.
    #[serde(skip_serializing_if = "is_default")]
    pub control_plane_endpoint: ApiEndpoint,

    /// Whether a cloud provider sets the provider ID of nodes. If so, it is only read; if not, the machine's controller
    /// finds the node and sets it. Absent means false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cloud_provider_enabled: Option<bool>,

    /// Failure domains that machines can be spread over. A host stands in the one that its label
    /// infrastructure.cluster.x-k8s.io/failure-domain names.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "domains")]
    #[schemars(transform = failure_domains)]
    pub failure_domains: Vec<FailureDomain>,
}

optional_spec!(Metal3ClusterSpec);

/// Reads a list of failure domains, or a map of them by their names. Upstream ships the definition of Metal3ClusterTemplate without
/// a conversion: a map written in v1beta1 is stored as v1beta2, without its entries.
pub(crate) fn domains<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<FailureDomain>, D::Error> {
    struct Domains;

    impl<'de> Visitor<'de> for Domains {
        type Value = Vec<FailureDomain>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list of failure domains")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Self::Value, A::Error> {
            Vec::deserialize(SeqAccessDeserializer::new(list))
        }

        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
            let map = BTreeMap::<String, FailureDomain>::deserialize(MapAccessDeserializer::new(map))?;
            let named = map.into_iter().map(|(name, domain)| FailureDomain { name, ..domain });
            Ok(named.collect())
        }
    }

    deserializer.deserialize_any(Domains)
}

/// Where a control plane is reached.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("minProperties" = 1))]
pub struct ApiEndpoint {
    /// Name or address.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 512))]
    pub host: String,

    /// TCP port.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(range(min = 1, max = 65535))]
    pub port: i32,
}

/// A failure domain.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct FailureDomain {
    /// Name of the failure domain.
    #[schemars(length(min = 1, max = 256))]
    pub name: String,

    /// Whether machines of the control plane may be put here. Absent means false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control_plane: Option<bool>,

    /// Properties of the failure domain, for whoever understands them.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub attributes: BTreeMap<String, String>,
}

/// What is known of a Metal3Cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Metal3ClusterStatus {
    /// Conditions: BaremetalInfrastructureReady, Ready and Paused.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = conditions)]
    pub conditions: Vec<Condition>,

    /// How far the cluster has come for the first time.
    #[serde(skip_serializing_if = "is_default")]
    pub initialization: Initialization,

    /// When this status was last written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_updated: Option<Time>,

    /// The failure domains of spec, for Cluster API.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = failure_domains)]
    pub failure_domains: Vec<FailureDomain>,

    /// What earlier versions had and this one has given up.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(transform = limit_failure_message)]
    pub deprecated: DeprecatedStatus,
}

/// The message has a limit in this kind, and in no other.
fn limit_failure_message(schema: &mut Schema) {
    if let Some(message) = schema.pointer_mut("/properties/v1beta1/properties/failureMessage") {
        message["minLength"] = json!(0);
        message["maxLength"] = json!(1024);
    }
}

/// What a ClusterClass makes Metal3Clusters from.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1beta2",
    kind = "Metal3ClusterTemplate",
    plural = "metal3clustertemplates",
    category = "cluster-api",
    shortname = "m3ct",
    namespaced,
    doc = "What a ClusterClass makes Metal3Clusters from.",
    derive = "Default",
    derive = "PartialEq"
)]
#[serde(default, remote = "Self")]
#[schemars(!remote, transform = template_endpoint, extend("x-metal3-required" = true))]
pub struct Metal3ClusterTemplateSpec {
    /// The Metal3Clusters to be made.
    pub template: Metal3ClusterTemplateResource,
}

optional_spec!(Metal3ClusterTemplateSpec);

/// A Metal3Cluster to be made.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Metal3ClusterTemplateResource {
    /// Labels and annotations that it gets.
    #[serde(skip_serializing_if = "is_default")]
    pub metadata: TemplateMetadata,

    /// What is wanted of it.
    pub spec: Metal3ClusterSpec,
}
