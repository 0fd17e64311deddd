//! Which machines a change triggers.

use kube::{Resource, ResourceExt};
use metal3_api::capi::names::group;
use metal3_api::capi::{Cluster, Machine};
use metal3_api::infra::names::{GROUP, label};
use metal3_api::infra::v1beta2::{Metal3Cluster, Metal3Machine};
use metal3_api::metal3::BareMetalHost;
use metal3_runtime::store::{Change, ObjectKey};
use metal3_runtime::timing::provider::REPORTED_AGAIN;
use metal3_runtime::work::Queue;

use super::Metal3Machines;
use super::waiting::Waiting;
use crate::select::consumer::consumer_of;
use crate::stores::Stores;
use crate::stores::cluster::cluster_of;
use crate::stores::host::HostBy;
use crate::stores::machine::Metal3MachineBy;
use crate::stores::owner;
use crate::workload::News;
use crate::workload::nodes;
use crate::workload::nodes::NodeBy;

impl Metal3Machines {
    /// Subscribes to all stores that a machine depends on.
    pub(super) fn listen_to_all(&self, queue: &Queue<ObjectKey>) {
        self.listen_to_hosts(queue);
        self.listen_to_clusters(queue);
        self.listen_to_nodes(queue);
        let stores = &self.ctx.stores;
        let own = queue.clone();
        stores
            .metal3_machines
            .listen(move |change| own.push(change.key.clone()));
        let of_owner = queue.clone();
        stores.machines.listen(move |change| {
            let read = |machine: &Machine| {
                let meta = &machine.metadata;
                let is_deleted = meta.deletion_timestamp.is_some();
                (
                    machine.spec.clone(),
                    meta.labels.clone(),
                    meta.owner_references.clone(),
                    is_deleted,
                )
            };
            if change.affects(read) {
                for machine in change.states().filter_map(|machine| infrastructure_of(machine)) {
                    of_owner.push(machine);
                }
            }
        });
        // A data claim has the name of its machine.
        let of_claim = queue.clone();
        stores
            .data_claims
            .listen(move |change| of_claim.push(change.key.clone()));
        let of_data = queue.clone();
        stores.datas.listen(move |change| {
            for data in change.states().filter(|data| !data.spec.claim.name.is_empty()) {
                of_data.push(ObjectKey::new(&change.key.namespace, &data.spec.claim.name));
            }
        });
    }

    fn listen_to_clusters(&self, queue: &Queue<ObjectKey>) {
        let stores = &self.ctx.stores;
        let (own, of_cluster) = (self.clone(), queue.clone());
        stores.clusters.listen(move |change| {
            let read = |cluster: &Cluster| {
                let is_deleted = cluster.metadata.deletion_timestamp.is_some();
                (
                    cluster.is_paused(),
                    cluster.is_infrastructure_ready(),
                    is_deleted,
                    cluster.spec.infrastructure_ref.clone(),
                )
            };
            if change.after.is_none() {
                own.workloads.forget(&change.key);
            }
            if change.affects(read) {
                own.enqueue_for_cluster(&of_cluster, &change.key);
            }
        });
        let (own, of_metal3_cluster) = (self.clone(), queue.clone());
        stores.metal3_clusters.listen(move |change| {
            let read = |cluster: &Metal3Cluster| cluster.spec.cloud_provider_enabled;
            for cluster in change.states().filter(|_| change.affects(read)) {
                let named = owner(&**cluster, group::CORE, "Cluster");
                let named = named.map(|name| ObjectKey::new(&change.key.namespace, name));
                if let Some(key) = named.or_else(|| cluster_of(&**cluster)) {
                    own.enqueue_for_cluster(&of_metal3_cluster, &key);
                }
            }
        });
    }

    fn listen_to_hosts(&self, queue: &Queue<ObjectKey>) {
        let (own, queue) = (self.clone(), queue.clone());
        self.ctx.stores.hosts.listen(move |change| {
            for machine in concerned(&own.ctx.stores, &own.waiting, change) {
                queue.push(machine);
            }
            let said = |host: &BareMetalHost| {
                let status = host.status.as_ref();
                (
                    host.metadata.labels.clone(),
                    host.spec.consumer_ref.clone(),
                    status.map(|status| (status.provisioning.state.clone(), status.error_type.clone())),
                )
            };
            if !own.waiting.is_empty() && change.affects(said) {
                queue.push_in(all_waiting(&change.key.namespace), REPORTED_AGAIN);
            }
        });
    }

    /// Node heartbeats trigger no machine: only the fields that identify a Node count, and a change triggers the machines that
    /// could match it.
    fn listen_to_nodes(&self, queue: &Queue<ObjectKey>) {
        let (own, queue) = (self.clone(), queue.clone());
        self.workloads.listen(move |cluster, news| match news {
            News::Link => own.enqueue_for_cluster(&queue, cluster),
            News::Node(change) if change.affects(nodes::keys_of) => {
                for by in change.states().flat_map(|node| nodes::keys_of(node)) {
                    for machine in found_by(&own.ctx.stores, cluster, by) {
                        queue.push(machine);
                    }
                }
            }
            News::Node(_) => {}
        });
    }

    fn enqueue_for_cluster(&self, queue: &Queue<ObjectKey>, cluster: &ObjectKey) {
        let machines = &self.ctx.stores.metal3_machines;
        for machine in machines.names(&Metal3MachineBy::Cluster(cluster.clone())) {
            queue.push(machine);
        }
    }
}

/// The machines that could match a Node by this field.
///
/// A workload cluster controls the contents of its Nodes. A Node triggers only existing machines in the Cluster's own namespace:
/// a hostile cluster must not fill the queue with machines of other tenants, or of invented ones.
pub(super) fn found_by(stores: &Stores, cluster: &ObjectKey, by: NodeBy) -> Vec<ObjectKey> {
    let hosts = match by {
        NodeBy::ProviderId(id) if machine_of(&id).is_none() => {
            let uid = id.strip_prefix("metal3://").unwrap_or_default();
            stores.hosts.find(&HostBy::Uid(uid.to_owned()))
        }
        NodeBy::ProviderId(id) => {
            let machine = machine_of(&id);
            return machine
                .into_iter()
                .filter(|machine| is_in(stores, cluster, machine))
                .collect();
        }
        NodeBy::HostUid(uid) => stores.hosts.find(&HostBy::Uid(uid)),
        NodeBy::Hostname(name) => stores.hosts.find(&HostBy::Hostname(name)),
    };
    let machines = hosts.iter().filter_map(|host| consumer_of(host));
    machines.filter(|machine| is_in(stores, cluster, machine)).collect()
}

/// Whether the machine exists, in the namespace of this Cluster.
fn is_in(stores: &Stores, cluster: &ObjectKey, machine: &ObjectKey) -> bool {
    machine.namespace == cluster.namespace && stores.metal3_machines.get(machine).is_some()
}

/// The machines that a host change triggers immediately: the one it references, those that reference it, those that wait for it,
/// and the one for which it is newly reserved.
pub(super) fn concerned(stores: &Stores, waiting: &Waiting, change: &Change<BareMetalHost>) -> Vec<ObjectKey> {
    let mut machines: Vec<ObjectKey> = change.states().filter_map(|host| consumer_of(host)).collect();
    machines.extend(stores.metal3_machines.names(&Metal3MachineBy::Host(change.key.clone())));
    if change
        .states()
        .any(|host| host.labels().contains_key(label::NODE_REUSE))
    {
        machines.extend(waiting.awaiting(&change.key));
    }
    machines.extend(change.after.as_ref().and_then(|host| waiting.offer(host)));
    machines
}

/// Represents all machines of a namespace that wait for a host: with one key for all, a host change costs the same however many
/// wait.
pub(super) fn all_waiting(namespace: &str) -> ObjectKey {
    ObjectKey::new(namespace, "")
}

/// The Metal3Machine named by one of our provider IDs.
fn machine_of(id: &str) -> Option<ObjectKey> {
    let (host, machine) = id.strip_prefix("metal3://")?.rsplit_once('/')?;
    let (namespace, _) = host.split_once('/')?;
    Some(ObjectKey::new(namespace, machine))
}

/// The Metal3Machine of a Machine.
fn infrastructure_of(machine: &Machine) -> Option<ObjectKey> {
    let reference = &machine.spec.infrastructure_ref;
    let namespace = machine.metadata.namespace.clone().unwrap_or_default();
    reference
        .is_of(GROUP, &Metal3Machine::kind(&()))
        .then(|| ObjectKey::new(namespace, &reference.name))
}

#[cfg(test)]
mod tests {
    use metal3_runtime::store::Sink as _;
    use serde_json::json;

    use super::*;

    // OWN 23j: a Node of a hostile cluster triggered machines of other namespaces, and invented tenants of the queue.
    #[test]
    fn a_node_wakes_machines_of_its_own_clusters_namespace_only() {
        let stores = Stores::new("");
        for namespace in ["own", "victim"] {
            let meta = json!({"name": "m", "namespace": namespace, "uid": namespace, "resourceVersion": "1"});
            let machine = json!({"metadata": meta, "spec": {}});
            stores.metal3_machines.put(serde_json::from_value(machine).unwrap());
            let meta =
                json!({"name": "h", "namespace": namespace, "uid": format!("h-{namespace}"), "resourceVersion": "1"});
            let consumer = json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "Metal3Machine",
                "name": "m", "namespace": namespace});
            let host = json!({"metadata": meta, "spec": {"consumerRef": consumer},
                "status": {"hardware": {"hostname": "same"}, "provisioning": {"state": "provisioned", "ID": ""}}});
            stores.hosts.put(serde_json::from_value(host).unwrap());
        }
        let (cluster, own) = (ObjectKey::new("own", "c"), vec![ObjectKey::new("own", "m")]);
        let id = |id: &str| found_by(&stores, &cluster, NodeBy::ProviderId(id.to_owned()));
        assert_eq!(id("metal3://own/h/m"), own);
        assert_eq!(id("metal3://victim/h/m"), []);
        assert_eq!(id("metal3://made-up/h/m"), []);
        assert_eq!(id("metal3://own/h/other"), []);
        assert_eq!(id("metal3://h-own"), own);
        assert_eq!(id("metal3://h-victim"), []);
        assert_eq!(id("cloud://h-own"), []);
        assert_eq!(found_by(&stores, &cluster, NodeBy::Hostname("same".to_owned())), own);
        assert_eq!(found_by(&stores, &cluster, NodeBy::HostUid("h-victim".to_owned())), []);
        assert_eq!(found_by(&stores, &cluster, NodeBy::HostUid("h-own".to_owned())), own);
    }
}
