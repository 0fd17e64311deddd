//! What makes machines: read to learn which template a machine's infrastructure came from.

use super::slice::{ContractReference, slice};
use serde::Deserialize;

slice! {
    /// Machines of one template.
    MachineSet, "cluster.x-k8s.io", "v1beta2", "machinesets", {
        /// What is wanted.
        spec: MachinesSpec,
    }
}

slice! {
    /// Machines that are replaced bit by bit when their template changes.
    MachineDeployment, "cluster.x-k8s.io", "v1beta2", "machinedeployments", {
        /// What is wanted.
        spec: MachinesSpec,
    }
}

slice! {
    /// The machines of a control plane.
    KubeadmControlPlane, "controlplane.cluster.x-k8s.io", "v1beta2", "kubeadmcontrolplanes", {
        /// What is wanted.
        spec: KubeadmControlPlaneSpec,
    }
}

impl MachineSet {
    /// The template of the machines' infrastructure.
    pub fn infrastructure_template(&self) -> &ContractReference {
        &self.spec.template.spec.infrastructure_ref
    }
}

impl MachineDeployment {
    /// The template of the machines' infrastructure.
    pub fn infrastructure_template(&self) -> &ContractReference {
        &self.spec.template.spec.infrastructure_ref
    }
}

impl KubeadmControlPlane {
    /// The template of the machines' infrastructure.
    pub fn infrastructure_template(&self) -> &ContractReference {
        &self.spec.machine_template.spec.infrastructure_ref
    }
}

/// What is wanted of a MachineSet or a MachineDeployment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MachinesSpec {
    /// Name of the Cluster that the machines belong to.
    pub cluster_name: String,

    /// How many machines are wanted. Absent: Cluster API decides.
    pub replicas: Option<i32>,

    /// What each machine is like.
    pub template: MachineTemplate,
}

/// What each machine is like.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineTemplate {
    /// What is wanted of each machine.
    pub spec: MachineTemplateSpec,
}

/// What is wanted of each machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineTemplateSpec {
    /// Template of the machine's infrastructure, such as a Metal3MachineTemplate.
    pub infrastructure_ref: ContractReference,
}

/// What is wanted of a control plane.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct KubeadmControlPlaneSpec {
    /// How many machines are wanted. Absent: one.
    pub replicas: Option<i32>,

    /// What each machine is like.
    pub machine_template: KubeadmMachineTemplate,
}

/// What each machine of a control plane is like.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct KubeadmMachineTemplate {
    /// What is wanted of each machine.
    pub spec: KubeadmMachineTemplateSpec,
}

/// What is wanted of each machine of a control plane.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct KubeadmMachineTemplateSpec {
    /// Template of the machine's infrastructure, such as a Metal3MachineTemplate.
    pub infrastructure_ref: ContractReference,
}
