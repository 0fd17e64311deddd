//! HostDeployPolicy: who may claim the hosts of a namespace.

use crate::wire::optional_spec;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Who may claim the hosts of this namespace.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "metal3.io",
    version = "v1alpha1",
    kind = "HostDeployPolicy",
    plural = "hostdeploypolicies",
    namespaced,
    doc = "Permits HostClaims of other namespaces to take the hosts of this one. Without any, nobody may; of several, one that permits is enough.",
    status = "HostDeployPolicyStatus",
    derive = "Default",
    derive = "PartialEq"
)]
#[serde(rename_all = "camelCase", default, remote = "Self")]
#[schemars(!remote)]
pub struct HostDeployPolicySpec {
    /// The namespaces whose HostClaims are permitted. Absent permits none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_claim_namespaces: Option<HostClaimNamespaces>,
}

optional_spec!(HostDeployPolicySpec);

/// Conditions on a namespace. All that are given must hold, so an empty one permits every namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HostClaimNamespaces {
    /// The namespace must be one of these. A list that is there but empty permits none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub names: Option<Vec<String>>,

    /// A regular expression (RE2) that must match the whole name of the namespace, as in tenant-.* for all names with this
    /// beginning. Empty permits every name; one that is invalid or longer than 1024 bytes permits none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name_matches: String,

    /// Labels that the Namespace object must have.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub has_labels: Vec<NameValuePair>,
}

/// A label that must be there.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct NameValuePair {
    /// The label.
    pub name: String,

    /// Its value. Empty permits any.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub value: String,
}

/// Nothing is reported about a policy. Clients write an empty object all the same.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct HostDeployPolicyStatus {}
