//! What triggers remediations. They are few, and usually there are none.

use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use metal3_api::capi::names::group;
use metal3_api::capi::{Cluster, Machine};
use metal3_api::infra::v1beta2::Metal3Machine;
use metal3_api::metal3::BareMetalHost;
use metal3_runtime::store::{Change, ObjectKey};
use metal3_runtime::work::Queue;

use crate::select::consumer::consumer_of;
use crate::stores::MachineBy;
use crate::stores::Stores;
use crate::stores::machine::host_of;
use crate::stores::owner;
use crate::stores::remediation::RemediationBy;
use crate::workload::{News, Workloads, nodes};

pub fn listen(stores: &Stores, workloads: &Workloads, queue: &Queue<ObjectKey>) {
    let keys = queue.clone();
    stores.remediations.listen(move |change| keys.push(change.key.clone()));
    let (seen, keys) = (stores.clone(), queue.clone());
    stores.machines.listen(move |change| {
        if change.affects(asked_of_machine) {
            enqueue(&seen, &keys, &change.key);
        }
    });
    let (seen, keys) = (stores.clone(), queue.clone());
    stores.metal3_machines.listen(move |change| {
        if change.affects(host_of) {
            for machine in change.states().filter_map(|machine| machine_of(machine)) {
                enqueue(&seen, &keys, &machine);
            }
        }
    });
    let (seen, keys) = (stores.clone(), queue.clone());
    stores.hosts.listen(move |change| {
        if change.affects(asked_of_host) {
            enqueue_for_host(&seen, &keys, change);
        }
    });
    let (seen, keys) = (stores.clone(), queue.clone());
    stores.clusters.listen(move |change| {
        let is_deleted = |cluster: &Cluster| cluster.metadata.deletion_timestamp.is_some();
        if change.affects(|cluster| (cluster.is_paused(), is_deleted(cluster))) {
            enqueue_for(&seen, &keys, &MachineBy::Cluster(change.key.clone()));
        }
    });
    let (seen, keys) = (stores.clone(), queue.clone());
    workloads.listen(move |cluster, news| match news {
        News::Link => enqueue_for(&seen, &keys, &MachineBy::Cluster(cluster.clone())),
        News::Node(change) if change.affects(asked_of_node) => {
            enqueue_for(&seen, &keys, &MachineBy::Node(cluster.clone(), change.key.name.clone()));
        }
        News::Node(_) => {}
    });
}

fn asked_of_machine(machine: &Machine) -> impl PartialEq + use<> {
    let meta = &machine.metadata;
    (
        machine.spec.infrastructure_ref.clone(),
        machine.status.node_ref.clone(),
        meta.deletion_timestamp.is_some(),
        meta.annotations.clone(),
    )
}

fn asked_of_host(host: &BareMetalHost) -> impl PartialEq + use<> {
    let status = host.status.as_ref();
    (
        host.annotations().clone(),
        host.spec.consumer_ref.clone(),
        host.spec.online,
        host.spec.disable_power_off,
        status.map(|status| (status.powered_on, status.provisioning.state.clone())),
    )
}

/// Node heartbeats trigger nothing.
fn asked_of_node(node: &Node) -> impl PartialEq + use<> {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.clone());
    (
        taints,
        nodes::is_reporting(node),
        node.labels().clone(),
        node.annotations().clone(),
    )
}

fn machine_of(machine: &Metal3Machine) -> Option<ObjectKey> {
    let name = owner(machine, group::CORE, "Machine")?;
    Some(ObjectKey::new(machine.namespace().unwrap_or_default(), name))
}

fn enqueue(stores: &Stores, keys: &Queue<ObjectKey>, machine: &ObjectKey) {
    for key in stores.remediations.names(&RemediationBy::Machine(machine.clone())) {
        keys.push(key);
    }
}

/// The remediations of the Metal3Machine that the host references or referenced, and of those that reference the host.
fn enqueue_for_host(stores: &Stores, keys: &Queue<ObjectKey>, change: &Change<BareMetalHost>) {
    if stores.remediations.is_empty() {
        return;
    }
    let by = crate::stores::Metal3MachineBy::Host(change.key.clone());
    let named = change.states().filter_map(|host| consumer_of(host));
    for key in named.chain(stores.metal3_machines.names(&by)) {
        if let Some(machine) = stores
            .metal3_machines
            .get(&key)
            .and_then(|machine| machine_of(&machine))
        {
            enqueue(stores, keys, &machine);
        }
    }
}

/// The remediations of these Machines. A workload cluster decides how often this is called, so remediations of others cost nothing.
fn enqueue_for(stores: &Stores, keys: &Queue<ObjectKey>, machines: &MachineBy) {
    if stores.remediations.is_empty() {
        return;
    }
    for machine in stores.machines.names(machines) {
        enqueue(stores, keys, &machine);
    }
}

#[cfg(test)]
mod tests {
    use metal3_runtime::store::Sink as _;
    use serde_json::json;

    use super::*;

    // OWN 23n: each change of a Node of any cluster went through the remediations of all.
    #[test]
    fn a_node_wakes_the_remediations_of_its_own_machine_only() {
        let stores = Stores::new("");
        let meta = |name: &str| json!({"name": name, "namespace": "ns", "uid": name, "resourceVersion": "1"});
        for (name, cluster, node) in [("a", "c", "n"), ("b", "c", "other"), ("d", "e", "n")] {
            let machine = json!({"metadata": meta(name), "spec": {"clusterName": cluster}, "status": {"nodeRef": {"name": node}}});
            stores.machines.put(serde_json::from_value(machine).unwrap());
            let mut remediation = json!({"metadata": meta(&format!("of-{name}")), "spec": {}});
            remediation["metadata"]["ownerReferences"] =
                json!([{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", "name": name, "uid": name}]);
            stores.remediations.put(serde_json::from_value(remediation).unwrap());
        }
        let cluster = ObjectKey::new("ns", "c");
        let by_node = |node: &str| MachineBy::Node(cluster.clone(), node.to_owned());
        for (by, woken) in [
            (by_node("n"), 1),
            (by_node("unknown"), 0),
            (MachineBy::Node(ObjectKey::new("other", "c"), "n".to_owned()), 0),
            (MachineBy::Cluster(cluster.clone()), 2),
        ] {
            let queue = Queue::new();
            enqueue_for(&stores, &queue, &by);
            assert_eq!(queue.len(), woken, "{by:?}");
        }
    }
}
