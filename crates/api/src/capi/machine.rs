//! Machine: one node of a cluster.

use super::slice::{ContractReference, slice};
use crate::condition::{Condition, ConditionStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::{Deserialize, Serialize};

slice! {
    /// One node of a cluster: the objects it is made of, and how far it is.
    Machine, "cluster.x-k8s.io", "v1beta2", "machines", {
        /// What is wanted.
        spec: MachineSpec,
        /// How far it is.
        status: MachineStatus,
    }
}

/// What is wanted of a machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineSpec {
    /// Name of the Cluster that the machine belongs to.
    pub cluster_name: String,

    /// What the machine does at its first boot.
    pub bootstrap: Bootstrap,

    /// The object that stands for the machine's infrastructure, such as a Metal3Machine.
    pub infrastructure_ref: ContractReference,

    /// Version of Kubernetes. Empty when Cluster API does not manage it.
    pub version: String,

    /// Name of the node's infrastructure, which Cluster API copies from the infrastructure object once that is
    /// provisioned.
    #[serde(rename = "providerID")]
    pub provider_id: String,

    /// Failure domain that the machine has to be in. Empty means any.
    pub failure_domain: String,
}

/// What a machine does at its first boot.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Bootstrap {
    /// The object that makes the bootstrap data. Absent when a user supplies the Secret.
    pub config_ref: Option<ContractReference>,

    /// Name of the Secret with the bootstrap data. Absent until the data is there.
    pub data_secret_name: Option<String>,
}

/// How far a machine is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineStatus {
    /// The machine's node, once Cluster API has found it.
    pub node_ref: NodeReference,

    /// Steps that are done once and never undone.
    pub initialization: MachineInitialization,

    /// What can be said about the machine. These are the conditions that Cluster API acts on.
    pub conditions: Vec<Condition>,

    /// What older readers look at.
    pub deprecated: DeprecatedMachineStatus,

    /// Step that people see, such as Running. Nothing is decided by it.
    pub phase: String,
}

/// Names a node of the workload cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeReference {
    /// Name of the node. Empty when there is none yet.
    pub name: String,
}

/// Steps of a machine that are done once and never undone.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineInitialization {
    /// Whether the infrastructure object was provisioned once.
    pub infrastructure_provisioned: bool,

    /// Whether the Secret with the bootstrap data was there once.
    pub bootstrap_data_secret_created: bool,
}

/// The part of a machine's status that will go with contract v1beta1.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DeprecatedMachineStatus {
    /// The part of that contract.
    pub v1beta1: LegacyConditions,
}

/// Conditions of contract v1beta1.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LegacyConditions {
    /// The conditions.
    pub conditions: Vec<LegacyCondition>,
}

/// A condition of contract v1beta1. Complete, so that a list that was read can be written back with one more in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LegacyCondition {
    /// What this condition is about.
    #[serde(rename = "type")]
    pub type_: String,

    /// Whether it holds.
    pub status: ConditionStatus,

    /// How bad it is that it does not hold: Error, Warning or Info. Empty when it holds.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub severity: String,

    /// When status last changed. Cluster API always writes it, but no schema makes sure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,

    /// Why it is so, as one CamelCase word.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,

    /// Why it is so, in words for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}
