//! What triggers remediations. They are few, and usually there are none.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use metal3_api::capi::names::group;
use metal3_api::capi::{Cluster, Machine};
use metal3_api::infra::v1beta2::Metal3Machine;
use metal3_api::metal3::BareMetalHost;
use metal3_runtime::store::{Change, ObjectKey};
use metal3_runtime::work::Queue;

use super::observed::cluster_of_machine;
use crate::select::consumer::consumer_of;
use crate::stores::Stores;
use crate::stores::machine::host_of;
use crate::stores::owner;
use crate::stores::remediation::{RemediationBy, machine_of_remediation};
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
            enqueue_for_cluster(&seen, &keys, &change.key, |_| true);
        }
    });
    let (seen, keys) = (stores.clone(), queue.clone());
    workloads.listen(move |cluster, news| match news {
        News::Link => enqueue_for_cluster(&seen, &keys, cluster, |_| true),
        News::Node(change) if change.affects(asked_of_node) => {
            let name = &change.key.name;
            enqueue_for_cluster(&seen, &keys, cluster, |machine| machine.status.node_ref.name == *name);
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

fn enqueue_for_cluster(
    stores: &Stores,
    keys: &Queue<ObjectKey>,
    cluster: &ObjectKey,
    is_meant: impl Fn(&Machine) -> bool,
) {
    let machine_of_key = |key: &ObjectKey| -> Option<Arc<Machine>> {
        let remediation = stores.remediations.get(key)?;
        stores.machines.get(&machine_of_remediation(&remediation)?)
    };
    for key in stores.remediations.all() {
        let machine = machine_of_key(&key);
        let machine = machine.filter(|machine| cluster_of_machine(machine).as_ref() == Some(cluster));
        if machine.is_some_and(|machine| is_meant(&machine)) {
            keys.push(key);
        }
    }
}
