//! The objects of clusters. Cluster API's own are written as they are: nothing of Metal3 makes them.

use super::super::file::metadata;
use metal3_api::infra::v1beta2::{
    ApiEndpoint, ChecksumType, HostSelector, Image, MetaData, MetaDataHostInterface, MetaDataObjectName, Metal3Cluster,
    Metal3ClusterSpec, Metal3DataTemplate, Metal3DataTemplateSpec, Metal3MachineSpec, Metal3MachineTemplate,
    Metal3MachineTemplateResource, Metal3MachineTemplateSpec, Metal3RemediationSpec, Metal3RemediationTemplate,
    Metal3RemediationTemplateResource, Metal3RemediationTemplateSpec, ObjectRef, RemediationStrategy, RemediationType,
    SourceObject,
};
use metal3_api::metal3::{CleaningMode, ImageFormat};
use serde_json::{Value, json};

const CORE: &str = "cluster.x-k8s.io";
const INFRASTRUCTURE: &str = "infrastructure.cluster.x-k8s.io";
const KUBERNETES: &str = "v1.35.0";

/// A reference of Cluster API, which names no version.
fn reference(group: &str, kind: &str, name: &str) -> Value {
    json!({ "apiGroup": group, "kind": kind, "name": name })
}

pub fn cluster(name: &str) -> Value {
    json!({
        "apiVersion": format!("{CORE}/v1beta2"),
        "kind": "Cluster",
        "metadata": { "name": name },
        "spec": {
            "clusterNetwork": {
                "pods": { "cidrBlocks": ["10.244.0.0/16"] },
                "services": { "cidrBlocks": ["10.96.0.0/12"] },
            },
            "controlPlaneRef": reference("controlplane.cluster.x-k8s.io", "KubeadmControlPlane", name),
            "infrastructureRef": reference(INFRASTRUCTURE, "Metal3Cluster", name),
        },
    })
}

pub fn cluster_spec() -> Metal3ClusterSpec {
    Metal3ClusterSpec {
        control_plane_endpoint: ApiEndpoint {
            host: "192.0.2.100".to_owned(),
            port: 6443,
        },
        cloud_provider_enabled: Some(false),
        ..Default::default()
    }
}

pub fn metal3_cluster(name: &str) -> Metal3Cluster {
    Metal3Cluster {
        metadata: metadata(name),
        spec: cluster_spec(),
        status: None,
    }
}

/// What kubeadm is told on every node: its name is the host's, and a label says which host it runs on.
fn registration() -> Value {
    json!({ "nodeRegistration": {
        "name": "{{ ds.meta_data.local_hostname }}",
        "kubeletExtraArgs": [{ "name": "node-labels", "value": "metal3.io/uuid={{ ds.meta_data.uuid }}" }],
    } })
}

/// The comment on that in a control plane.
pub const REGISTRATION: (&str, &str) = (
    "spec.kubeadmConfigSpec.initConfiguration",
    "The label tells the provider which host a node runs on. Without it nodes get no provider ID, and machines wait.",
);

fn kubeadm_config() -> Value {
    json!({ "initConfiguration": registration(), "joinConfiguration": registration() })
}

pub fn control_plane(name: &str, replicas: i32) -> Value {
    json!({
        "apiVersion": "controlplane.cluster.x-k8s.io/v1beta2",
        "kind": "KubeadmControlPlane",
        "metadata": { "name": name },
        "spec": {
            "replicas": replicas,
            "version": KUBERNETES,
            "machineTemplate": { "spec": { "infrastructureRef":
                reference(INFRASTRUCTURE, "Metal3MachineTemplate", &format!("{name}-control-plane")),
            } },
            "kubeadmConfigSpec": kubeadm_config(),
        },
    })
}

/// One server after the other is taken out of the control plane and comes back with the new machine.
pub fn without_surge(mut control_plane: Value) -> Value {
    control_plane["spec"]["rollout"] =
        json!({ "strategy": { "type": "RollingUpdate", "rollingUpdate": { "maxSurge": 0 } } });
    control_plane
}

pub fn control_plane_template(name: &str) -> Value {
    json!({
        "apiVersion": "controlplane.cluster.x-k8s.io/v1beta2",
        "kind": "KubeadmControlPlaneTemplate",
        "metadata": { "name": name },
        "spec": { "template": { "spec": { "kubeadmConfigSpec": kubeadm_config() } } },
    })
}

pub fn deployment(cluster: &str, replicas: i32) -> Value {
    let name = format!("{cluster}-workers");
    json!({
        "apiVersion": format!("{CORE}/v1beta2"),
        "kind": "MachineDeployment",
        "metadata": { "name": name, "labels": { "cluster.x-k8s.io/cluster-name": cluster } },
        "spec": {
            "clusterName": cluster,
            "replicas": replicas,
            "selector": { "matchLabels": { "cluster.x-k8s.io/deployment-name": name } },
            "template": {
                "metadata": { "labels": { "cluster.x-k8s.io/deployment-name": name } },
                "spec": {
                    "clusterName": cluster,
                    "version": KUBERNETES,
                    "bootstrap": { "configRef":
                        reference("bootstrap.cluster.x-k8s.io", "KubeadmConfigTemplate", &name),
                    },
                    "infrastructureRef": reference(INFRASTRUCTURE, "Metal3MachineTemplate", &name),
                },
            },
        },
    })
}

pub fn bootstrap_template(name: &str) -> Value {
    json!({
        "apiVersion": "bootstrap.cluster.x-k8s.io/v1beta2",
        "kind": "KubeadmConfigTemplate",
        "metadata": { "name": name },
        "spec": { "template": { "spec": { "joinConfiguration": registration() } } },
    })
}

/// Machines on hosts with a label `example.org/role` of this value.
pub fn machine_template(name: &str, role: &str, data_template: &str) -> Metal3MachineTemplate {
    let spec = Metal3MachineSpec {
        image: Some(Image {
            url: "https://images.example.org/node-1.35.0.qcow2".to_owned(),
            checksum: Some("https://images.example.org/node-1.35.0.qcow2.sha256sum".to_owned()),
            checksum_type: Some(ChecksumType::Sha256),
            disk_format: Some(ImageFormat::Qcow2),
        }),
        host_selector: Some(HostSelector {
            match_labels: [("example.org/role".to_owned(), role.to_owned())].into(),
            ..Default::default()
        }),
        data_template: ObjectRef {
            name: data_template.to_owned(),
            ..Default::default()
        },
        automated_cleaning_mode: Some(CleaningMode::Metadata),
        ..Default::default()
    };
    Metal3MachineTemplate {
        metadata: metadata(name),
        spec: Metal3MachineTemplateSpec {
            template: Metal3MachineTemplateResource {
                spec,
                ..Default::default()
            },
            node_reuse: Some(true),
        },
    }
}

pub fn data_template(name: &str) -> Metal3DataTemplate {
    let meta_data = MetaData {
        object_names: vec![MetaDataObjectName {
            key: "local-hostname".to_owned(),
            object: SourceObject::BareMetalHost,
        }],
        from_host_interfaces: vec![MetaDataHostInterface {
            key: "boot-mac".to_owned(),
            from_boot_mac: Some(true),
            ..Default::default()
        }],
        ..Default::default()
    };
    Metal3DataTemplate {
        metadata: metadata(name),
        spec: Metal3DataTemplateSpec {
            meta_data: Some(meta_data),
            ..Default::default()
        },
        status: None,
    }
}

/// A reference of a class, which names a version.
fn template(group: &str, kind: &str, name: &str) -> Value {
    json!({ "templateRef": { "apiVersion": format!("{group}/v1beta2"), "kind": kind, "name": name } })
}

/// The variable of the class, and the field that its patch sets.
const ENDPOINT: &str = "controlPlaneEndpoint";

pub fn cluster_class(name: &str) -> Value {
    let machines = |role: &str| template(INFRASTRUCTURE, "Metal3MachineTemplate", &format!("{name}-{role}"));
    let mut control_plane = template("controlplane.cluster.x-k8s.io", "KubeadmControlPlaneTemplate", name);
    control_plane["machineInfrastructure"] = machines("control-plane");
    json!({
        "apiVersion": format!("{CORE}/v1beta2"),
        "kind": "ClusterClass",
        "metadata": { "name": name },
        "spec": {
            "variables": [{ "name": ENDPOINT, "required": true, "schema": { "openAPIV3Schema": {
                "type": "object",
                "required": ["host", "port"],
                "properties": {
                    "host": { "type": "string", "minLength": 1 },
                    "port": { "type": "integer", "minimum": 1, "maximum": 65535 },
                },
            } } }],
            "patches": [{ "name": ENDPOINT, "definitions": [{
                "selector": {
                    "apiVersion": format!("{INFRASTRUCTURE}/v1beta2"),
                    "kind": "Metal3ClusterTemplate",
                    "matchResources": { "infrastructureCluster": true },
                },
                "jsonPatches": [{
                    "op": "add",
                    "path": format!("/spec/template/spec/{ENDPOINT}"),
                    "valueFrom": { "variable": ENDPOINT },
                }],
            }] }],
            "controlPlane": control_plane,
            "infrastructure": template(INFRASTRUCTURE, "Metal3ClusterTemplate", name),
            "workers": { "machineDeployments": [{
                "class": "workers",
                "bootstrap": template("bootstrap.cluster.x-k8s.io", "KubeadmConfigTemplate", &format!("{name}-workers")),
                "infrastructure": machines("workers"),
            }] },
        },
    })
}

pub fn topology_cluster(name: &str, class: &str) -> Value {
    json!({
        "apiVersion": format!("{CORE}/v1beta2"),
        "kind": "Cluster",
        "metadata": { "name": name },
        "spec": { "topology": {
            "classRef": { "name": class },
            "version": KUBERNETES,
            "variables": [{ "name": ENDPOINT, "value": { "host": "192.0.2.100", "port": 6443 } }],
            "controlPlane": { "replicas": 3 },
            "workers": { "machineDeployments": [{ "class": "workers", "name": "workers", "replicas": 2 }] },
        } },
    })
}

pub fn remediation_template(name: &str) -> Metal3RemediationTemplate {
    let strategy = RemediationStrategy {
        type_: Some(RemediationType::Reboot),
        retry_limit: 1,
        timeout_seconds: 600,
    };
    Metal3RemediationTemplate {
        metadata: metadata(name),
        spec: Metal3RemediationTemplateSpec {
            template: Metal3RemediationTemplateResource {
                spec: Metal3RemediationSpec {
                    strategy: Some(strategy),
                },
            },
        },
        status: None,
    }
}

pub fn health_check(cluster: &str, remediation: &str) -> Value {
    json!({
        "apiVersion": format!("{CORE}/v1beta2"),
        "kind": "MachineHealthCheck",
        "metadata": { "name": format!("{cluster}-workers") },
        "spec": {
            "clusterName": cluster,
            "selector": { "matchLabels": { "cluster.x-k8s.io/deployment-name": format!("{cluster}-workers") } },
            "checks": {
                "nodeStartupTimeoutSeconds": 3600,
                "unhealthyNodeConditions": [
                    { "type": "Ready", "status": "Unknown", "timeoutSeconds": 300 },
                    { "type": "Ready", "status": "False", "timeoutSeconds": 300 },
                ],
            },
            "remediation": { "templateRef": {
                "apiVersion": format!("{INFRASTRUCTURE}/v1beta2"),
                "kind": "Metal3RemediationTemplate",
                "name": remediation,
            } },
        },
    })
}
