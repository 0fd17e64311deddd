//! Cluster: what machines and pools belong to.

use super::slice::{ContractReference, slice};
use crate::condition::Condition;
use serde::{Deserialize, Serialize};

slice! {
    /// A Kubernetes cluster that Cluster API makes.
    Cluster, "cluster.x-k8s.io", "v1beta2", "clusters", {
        /// What is wanted.
        spec: ClusterSpec,
        /// How far it is.
        status: ClusterStatus,
    }
}

impl Cluster {
    /// Whether nothing of this cluster may be worked on. An object's own pause annotation counts besides.
    pub fn is_paused(&self) -> bool {
        self.spec.paused
    }

    /// Whether the infrastructure that machines need, such as the endpoint of the control plane, is there.
    pub fn is_infrastructure_ready(&self) -> bool {
        self.status.initialization.infrastructure_provisioned
    }
}

/// What is wanted of a cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterSpec {
    /// Whether nothing of this cluster may be worked on.
    pub paused: bool,

    /// Where the API server of the cluster is to be reached.
    pub control_plane_endpoint: Endpoint,

    /// The object that stands for the cluster's infrastructure, such as a Metal3Cluster.
    pub infrastructure_ref: Option<ContractReference>,

    /// The object that manages the control plane, such as a KubeadmControlPlane.
    pub control_plane_ref: Option<ContractReference>,
}

/// Where an API server is to be reached.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Endpoint {
    /// Address or name. Empty means that it is not known yet.
    pub host: String,

    /// Port. 0 means that it is not known yet.
    pub port: i32,
}

impl Endpoint {
    /// Whether both parts are known.
    pub fn is_complete(&self) -> bool {
        !self.host.is_empty() && self.port != 0
    }
}

/// How far a cluster is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterStatus {
    /// Steps that are done once and never undone.
    pub initialization: ClusterInitialization,

    /// What can be said about the cluster.
    pub conditions: Vec<Condition>,

    /// Step that people see, such as Provisioned. Nothing is decided by it.
    pub phase: String,
}

/// Steps of a cluster that are done once and never undone.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterInitialization {
    /// Whether the infrastructure was ready once.
    pub infrastructure_provisioned: bool,

    /// Whether the control plane took requests once.
    pub control_plane_initialized: bool,
}
