//! The objects that a node's kubelet and kubeadm create in the workload cluster. Pure.

use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use serde_json::{Value, json};

use super::boot::{Boot, Role};

/// Label and taint of the control plane.
const CONTROL_PLANE: &str = "node-role.kubernetes.io/control-plane";
/// The components of a control plane that kubeadm starts as static Pods. etcd is not among them: the lab's is external.
const COMPONENTS: [&str; 3] = ["kube-apiserver", "kube-controller-manager", "kube-scheduler"];

/// The Node as the kubelet registers it.
pub fn node(boot: &Boot) -> serde_json::Result<Node> {
    let mut labels: serde_json::Map<String, Value> = boot.labels.iter().map(|(k, v)| (k.clone(), json!(v))).collect();
    let own = [("hostname", boot.node.as_str()), ("os", "linux"), ("arch", "amd64")];
    labels.extend(own.map(|(key, value)| (format!("kubernetes.io/{key}"), json!(value))));
    if boot.is_control_plane() {
        labels.insert(CONTROL_PLANE.to_owned(), json!(""));
    }
    let usual = json!(
        boot.is_control_plane()
            .then(|| json!({"key": CONTROL_PLANE, "effect": "NoSchedule"}))
            .as_slice()
    );
    let taints = boot.taints.clone().map_or(usual, Value::Array);
    serde_json::from_value(json!({
        "metadata": {"name": boot.node, "labels": labels},
        "spec": {"providerID": boot.provider_id, "taints": taints},
    }))
}

/// The status of a Node whose kubelet reports, or does no more: then what its node controller says of it.
pub fn status(boot: &Boot, version: &str, reports: bool, now: &str) -> Value {
    let (reason, message) = if reports {
        ("KubeletReady", "kubelet is posting ready status")
    } else {
        ("NodeStatusUnknown", "Kubelet stopped posting node status.")
    };
    let condition = |type_: &str, healthy: &str| {
        json!({"type": type_, "status": if reports { healthy } else { "Unknown" }, "reason": reason, "message": message,
            "lastHeartbeatTime": now, "lastTransitionTime": now})
    };
    let addresses = boot
        .addresses
        .iter()
        .map(|address| json!({"type": "InternalIP", "address": address}));
    let addresses: Vec<Value> = addresses
        .chain([json!({"type": "Hostname", "address": boot.node})])
        .collect();
    json!({"status": {
        "addresses": addresses,
        "conditions": [
            condition("MemoryPressure", "False"), condition("DiskPressure", "False"), condition("PIDPressure", "False"),
            condition("Ready", "True"),
        ],
        "nodeInfo": {
            "kubeletVersion": version, "operatingSystem": "linux", "architecture": "amd64", "osImage": "the lab's",
            "kernelVersion": "6.1.0", "containerRuntimeVersion": "containerd://2.1.0", "kubeProxyVersion": "",
            "bootID": "", "machineID": "", "systemUUID": "",
        },
    }})
}

/// The mirror Pods of the static ones: what the control plane of Cluster API judges a machine's health by.
pub fn pods(boot: &Boot) -> serde_json::Result<Vec<Pod>> {
    let components = COMPONENTS.iter().filter(|_| boot.is_control_plane());
    components
        .map(|component| {
            serde_json::from_value(json!({
                "metadata": {
                    "name": format!("{component}-{}", boot.node), "namespace": "kube-system",
                    "labels": {"component": component, "tier": "control-plane"},
                    "annotations": {"kubernetes.io/config.mirror": "lab"},
                },
                "spec": {
                    "nodeName": boot.node, "hostNetwork": true, "automountServiceAccountToken": false,
                    "containers": [{"name": component, "image": component}],
                },
            }))
        })
        .collect()
}

/// The status of such a Pod that runs.
pub fn runs() -> Value {
    let conditions = ["PodScheduled", "Initialized", "ContainersReady", "Ready"];
    let conditions = conditions.map(|type_| json!({"type": type_, "status": "True"}));
    json!({"status": {"phase": "Running", "conditions": conditions}})
}

/// What `kubeadm init` leaves for those that join, and for the control plane of Cluster API.
pub fn configuration(boot: &Boot) -> Option<ConfigMap> {
    let Role::Init(cluster) = &boot.role else {
        return None;
    };
    let mut map = ConfigMap::default();
    map.metadata.name = Some("kubeadm-config".to_owned());
    map.data = Some([("ClusterConfiguration".to_owned(), cluster.clone())].into());
    Some(map)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn boot(role: Role) -> Boot {
        Boot {
            node: "node-0".to_owned(),
            labels: [("metal3.io/uuid".to_owned(), "u".to_owned())].into(),
            taints: None,
            provider_id: None,
            addresses: vec!["192.0.2.7".to_owned()],
            role,
        }
    }

    #[test]
    fn a_node_of_the_control_plane_is_labelled_and_tainted_and_runs_its_components() {
        let boot = boot(Role::Init("clusterName: c".to_owned()));
        let node = node(&boot).unwrap();
        let labels = node.metadata.labels.unwrap();
        assert!(labels.contains_key(CONTROL_PLANE) && labels["metal3.io/uuid"] == "u");
        assert_eq!(node.spec.unwrap().taints.unwrap()[0].effect, "NoSchedule");
        assert_eq!(pods(&boot).unwrap().len(), 3);
        let map = configuration(&boot).unwrap().data.unwrap();
        assert_eq!(map["ClusterConfiguration"], "clusterName: c");
    }

    #[test]
    fn a_worker_has_the_taints_that_it_is_told_and_nothing_else() {
        let mut boot = boot(Role::Worker);
        assert_eq!(node(&boot).unwrap().spec.unwrap().taints, Some(Vec::new()));
        boot.taints = Some(vec![json!({"key": "k", "effect": "NoExecute"})]);
        assert_eq!(node(&boot).unwrap().spec.unwrap().taints.unwrap()[0].key, "k");
        assert!(pods(&boot).unwrap().is_empty() && configuration(&boot).is_none());
    }

    #[test]
    fn a_kubelet_that_is_silent_is_not_ready() {
        let status = status(&boot(Role::Worker), "v1.36.3", false, "2026-01-01T00:00:00Z");
        let conditions = status["status"]["conditions"].as_array().unwrap();
        assert!(conditions.iter().all(|condition| condition["status"] == "Unknown"));
    }
}
