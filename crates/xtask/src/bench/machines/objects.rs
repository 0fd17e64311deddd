//! The objects of a cluster with many machines, as users and Cluster API would write them.

use serde_json::{Value, json};

use crate::bench::many::host_of;

const CORE: &str = "cluster.x-k8s.io/v1beta2";
const INFRASTRUCTURE: &str = "infrastructure.cluster.x-k8s.io/v1beta2";
/// The Cluster, its Metal3Cluster and the Metal3DataTemplate.
pub const CLUSTER: &str = "bench";

/// The Cluster; its infrastructure is not there yet.
pub fn cluster() -> Value {
    json!({
        "apiVersion": CORE, "kind": "Cluster", "metadata": {"name": CLUSTER},
        "spec": {"infrastructureRef": {
            "apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "Metal3Cluster", "name": CLUSTER,
        }},
    })
}

/// Our side of the Cluster with this UID.
pub fn metal3_cluster(uid: Option<&str>) -> Value {
    let owner = json!({"apiVersion": CORE, "kind": "Cluster", "name": CLUSTER, "uid": uid});
    json!({
        "apiVersion": INFRASTRUCTURE, "kind": "Metal3Cluster",
        "metadata": {"name": CLUSTER, "labels": labels(), "ownerReferences": [owner]},
        "spec": {"controlPlaneEndpoint": {"host": "192.0.2.1", "port": 6443}},
    })
}

/// The Secret with the kubeconfig of the workload cluster.
pub fn kubeconfig(text: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret", "type": "cluster.x-k8s.io/secret",
        "metadata": {"name": format!("{CLUSTER}-kubeconfig"), "labels": labels()}, "stringData": {"value": text},
    })
}

/// Metadata and network data of a usual kind: names, an index, MAC addresses of the host.
pub fn data_template() -> Value {
    let mac = json!({"fromHostInterface": "eth0"});
    json!({
        "apiVersion": INFRASTRUCTURE, "kind": "Metal3DataTemplate", "metadata": {"name": CLUSTER},
        "spec": {
            "metaData": {
                "objectNames": [{"key": "name", "object": "machine"}, {"key": "local-hostname", "object": "machine"}],
                "indexes": [{"key": "rank", "offset": 1, "step": 1}],
                "strings": [{"key": "stage", "value": "bench"}],
                "fromHostInterfaces": [{"key": "mac", "interface": "eth0"}],
            },
            "networkData": {
                "links": {"ethernets": [{"id": "eth0", "type": "phy", "mtu": 1500, "macAddress": mac}]},
                "networks": {"ipv4DHCP": [{"id": "provisioning", "link": "eth0"}]},
                "services": {"dns": ["192.0.2.53"]},
            },
        },
    })
}

/// A host that has not been looked at yet, after the Secret of its BMC.
pub fn host(name: &str) -> [Value; 2] {
    let [secret, mut host] = host_of(name, "ipmi://192.0.2.9", "52:54:00:00:00:01", ["admin", "password"]);
    host["metadata"]["labels"] = json!({"rack": "a"});
    host["spec"]["online"] = json!(false);
    [secret, host]
}

/// The status of a host in this state, as the operator would write it after an inspection.
pub fn status_of_host(name: &str, state: &str) -> Value {
    let nic = |nic: &str, mac: &str| json!({"name": nic, "mac": mac, "ip": "192.0.2.77", "model": "virtio", "pxe": nic == "eth0"});
    json!({"status": {
        "operationalStatus": "OK", "errorMessage": "", "poweredOn": state == "provisioned",
        "provisioning": {"state": state, "ID": format!("id-of-{name}")},
        "hardware": {
            "hostname": format!("{name}.example"), "ramMebibytes": 65536,
            "cpu": {"arch": "x86_64", "count": 32},
            "nics": [nic("eth0", "52:54:00:00:00:01"), nic("eth1", "52:54:00:00:00:02")],
        },
    }})
}

/// The bootstrap data of a machine.
pub fn bootstrap(machine: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret", "type": "cluster.x-k8s.io/secret",
        "metadata": {"name": format!("{machine}-bootstrap"), "labels": labels()},
        "stringData": {"value": "#cloud-config\n", "format": "cloud-config"},
    })
}

/// Cluster API's side of a machine.
pub fn machine(name: &str) -> Value {
    let reference = json!({"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "Metal3Machine", "name": name});
    json!({
        "apiVersion": CORE, "kind": "Machine", "metadata": {"name": name, "labels": labels()},
        "spec": {
            "clusterName": CLUSTER, "infrastructureRef": reference,
            "bootstrap": {"dataSecretName": format!("{name}-bootstrap")},
        },
    })
}

/// Our side of the machine with this UID.
pub fn metal3_machine(name: &str, uid: Option<&str>, has_data: bool) -> Value {
    let owner = json!({"apiVersion": CORE, "kind": "Machine", "name": name, "uid": uid, "controller": true});
    let mut machine = json!({
        "apiVersion": INFRASTRUCTURE, "kind": "Metal3Machine",
        "metadata": {"name": name, "labels": labels(), "ownerReferences": [owner]},
        "spec": {
            "image": {"url": "http://images.example/i.qcow2", "checksum": "abc", "checksumType": "sha256", "diskFormat": "qcow2"},
            "hostSelector": {"matchLabels": {"rack": "a"}},
        },
    });
    if has_data {
        machine["spec"]["dataTemplate"] = json!({"name": CLUSTER});
    }
    machine
}

fn labels() -> Value {
    json!({"cluster.x-k8s.io/cluster-name": CLUSTER})
}
