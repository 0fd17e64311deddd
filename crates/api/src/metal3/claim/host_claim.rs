//! HostClaim: asks for a host.

use crate::condition::Condition;
use crate::metal3::{CustomDeploy, Image};
use crate::reference::{ObjectReference, SecretReference};
use crate::rules::host_image;
use crate::wire::{is_default, optional_spec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Which host is wanted, and what it should run.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "metal3.io",
    version = "v1alpha1",
    kind = "HostClaim",
    plural = "hostclaims",
    namespaced,
    doc = "Asks for a BareMetalHost, which may lie in another namespace if a HostDeployPolicy there permits it, and says what it should run.",
    status = "HostClaimStatus",
    printcolumn = r#"{"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type=='Ready')].status", "description": "Whether the claim has a host that runs what it says"}"#,
    printcolumn = r#"{"name": "Host", "type": "string", "jsonPath": ".status.bareMetalHost.name", "description": "The host of the claim"}"#,
    printcolumn = r#"{"name": "Waiting", "type": "string", "jsonPath": ".status.conditions[?(@.type=='Ready')].message", "description": "What the claim waits for", "priority": 1}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp", "description": "Time since creation"}"#,
    derive = "Default",
    derive = "PartialEq"
)]
#[serde(rename_all = "camelCase", default, remote = "Self")]
#[schemars(!remote, transform = host_image)]
pub struct HostClaimSpec {
    /// Whether the host should be powered on.
    pub powered_on: bool,

    /// What the host should run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<Image>,

    /// Secret with user data for the first boot, under the key userData or value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_data: Option<SecretReference>,

    /// Secret with network configuration for the first boot, under the key networkData or value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network_data: Option<SecretReference>,

    /// Secret with metadata for the first boot, under the key metaData or value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub meta_data: Option<SecretReference>,

    /// A deploy step of a site's own ramdisk, instead of or in addition to image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub custom_deploy: Option<CustomDeploy>,

    /// Who uses this claim.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consumer_ref: Option<ObjectReference>,

    /// Where the host should preferably be: hosts whose label infrastructure.cluster.x-k8s.io/failure-domain has this
    /// value come first. Others are taken when there are none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub failure_domain: String,

    /// Which hosts will do. Empty means any host that a HostDeployPolicy permits.
    #[serde(skip_serializing_if = "is_default")]
    pub host_selector: HostSelector,
}

optional_spec!(HostClaimSpec);

/// Which hosts will do. All that is given must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HostSelector {
    /// Labels that the host must have, with their values.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub match_labels: BTreeMap<String, String>,

    /// Conditions on the labels of the host.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub match_expressions: Vec<HostSelectorRequirement>,

    /// The only namespace to look for hosts in. Empty means every namespace that permits it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub in_namespace: String,
}

/// A condition on one label of a host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct HostSelectorRequirement {
    /// The label.
    pub key: String,

    /// How its value relates to values: =, ==, !=, in, notin, exists or !. The schema takes any text, the webhook does
    /// not.
    pub operator: String,

    /// The values: exactly one for =, == and !=, at least one for in and notin, none for exists and !, where the list
    /// must be there all the same.
    pub values: Vec<String>,
}

/// What became of a claim.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HostClaimStatus {
    /// When this status was last written. Absent when nobody recorded it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_updated: Option<Time>,

    /// The host of this claim. Absent while it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bare_metal_host: Option<HostRef>,

    /// The inventory of the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hardware_data: Option<HostRef>,

    /// Whether the host was powered on when last asked.
    #[serde(skip_serializing_if = "is_default")]
    pub powered_on: bool,

    /// Aspects of the state: Ready, Associated, Synchronized, Provisioned and AvailableForProvisioning. One writer owns
    /// the whole list.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// Names a BareMetalHost or its HardwareData.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct HostRef {
    /// Namespace of the object.
    pub namespace: String,

    /// Name of the object.
    pub name: String,
}
