//! IPClaim: the wish for an address.

use crate::condition::Condition;
use crate::reference::ObjectReference;
use crate::rules::{claim_of_pool, fixed_reference};
use crate::wire::optional_spec;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What address is wanted.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "ipam.metal3.io",
    version = "v1alpha1",
    kind = "IPClaim",
    plural = "ipclaims",
    category = "cluster-api",
    shortname = "ipc",
    shortname = "ipclaim",
    shortname = "m3ipc",
    shortname = "m3ipclaim",
    shortname = "m3ipclaims",
    shortname = "metal3ipc",
    shortname = "metal3ipclaim",
    shortname = "metal3ipclaims",
    namespaced,
    doc = "Asks for one address of an IPPool in its namespace, and keeps it until the claim is deleted. The annotation ipAddress asks for a certain address.",
    status = "IPClaimStatus",
    derive = "Default",
    derive = "PartialEq",
    printcolumn = r#"{"name": "Reason", "type": "string", "jsonPath": ".status.conditions[?(@.type=='Ready')].reason", "description": "Ready, or why the claim has no address yet"}"#,
    printcolumn = r#"{"name": "Pool", "type": "string", "jsonPath": ".spec.pool.name", "description": "Pool that the address comes from", "priority": 1}"#,
    printcolumn = r#"{"name": "Address", "type": "string", "jsonPath": ".status.address.name", "description": "IPAddress that serves the claim", "priority": 1}"#,
    printcolumn = r#"{"name": "Waiting", "type": "string", "jsonPath": ".status.conditions[?(@.type=='Ready')].message", "description": "Why the claim has no address yet", "priority": 1}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp", "description": "Time since the IPClaim was created"}"#
)]
#[serde(rename_all = "camelCase", default, remote = "Self")]
#[schemars(!remote, transform = claim_of_pool)]
pub struct IPClaimSpec {
    /// Pool that the address comes from. Only its name counts: pools of other namespaces serve no claim of this one.
    /// Cannot be changed.
    #[schemars(transform = fixed_reference)]
    pub pool: ObjectReference,
}

optional_spec!(IPClaimSpec);

/// What a claim has got.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct IPClaimStatus {
    /// The IPAddress that serves this claim, by name and namespace. Absent until there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<ObjectReference>,

    /// Why the claim has got no address. Absent or empty when it has one, or nobody has looked at it yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_message: Option<String>,

    /// What can be said about the claim: whether it is served, and for what it waits.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}
