//! By what Machines and Metal3Machines are found.

use kube::{Resource, ResourceExt};
use metal3_api::capi::Machine;
use metal3_api::capi::names::annotation::{CLONED_FROM_GROUP_KIND, CLONED_FROM_NAME};
use metal3_api::infra::names::{GROUP, annotation};
use metal3_api::infra::v1beta2::{Metal3Machine, Metal3MachineTemplate};
use metal3_runtime::store::ObjectKey;

use crate::stores::cluster::cluster_of;

/// What a Machine is found by.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum MachineBy {
    /// The Cluster that it belongs to.
    Cluster(ObjectKey),
    /// The Node of this name in the workload cluster of the Cluster.
    Node(ObjectKey, String),
}

/// What a Metal3Machine is found by.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Metal3MachineBy {
    /// The Cluster that its label names.
    Cluster(ObjectKey),
    /// The host that its annotation names.
    Host(ObjectKey),
    /// The Metal3MachineTemplate that it was made from.
    Template(ObjectKey),
    /// Its provider ID.
    ProviderId(String),
}

pub(super) fn keys_of_machine(machine: &Machine) -> Vec<MachineBy> {
    let Some(cluster) = cluster_of_machine(machine) else {
        return Vec::new();
    };
    let node = Some(&machine.status.node_ref.name).filter(|name| !name.is_empty());
    let node = node.map(|name| MachineBy::Node(cluster.clone(), name.clone()));
    node.into_iter().chain([MachineBy::Cluster(cluster)]).collect()
}

/// The Cluster of a Machine.
pub fn cluster_of_machine(machine: &Machine) -> Option<ObjectKey> {
    let name = &machine.spec.cluster_name;
    if name.is_empty() {
        return cluster_of(machine);
    }
    Some(ObjectKey::new(machine.namespace().unwrap_or_default(), name))
}

pub(super) fn keys_of_metal3_machine(machine: &Metal3Machine) -> Vec<Metal3MachineBy> {
    let cluster = cluster_of(machine).map(Metal3MachineBy::Cluster);
    let host = host_of(machine).map(Metal3MachineBy::Host);
    let template = cloned_from(machine).map(Metal3MachineBy::Template);
    let id = Some(machine.spec.provider_id.clone()).filter(|id| !id.is_empty());
    let id = id.map(Metal3MachineBy::ProviderId);
    cluster.into_iter().chain(host).chain(template).chain(id).collect()
}

/// The host that a Metal3Machine's annotation names. It is looked for in the machine's namespace, whatever namespace is
/// written there.
pub fn host_of(machine: &Metal3Machine) -> Option<ObjectKey> {
    let text = machine.annotations().get(annotation::HOST)?;
    let name = text.rsplit_once('/').map_or(text.as_str(), |(_, name)| name);
    (!name.is_empty()).then(|| ObjectKey::new(machine.namespace().unwrap_or_default(), name))
}

/// The Metal3MachineTemplate that a machine was made from. A template of another kind may have the same name.
pub fn cloned_from(machine: &Metal3Machine) -> Option<ObjectKey> {
    let annotations = machine.annotations();
    let (kind, group) = annotations.get(CLONED_FROM_GROUP_KIND)?.split_once('.')?;
    if kind != Metal3MachineTemplate::kind(&()) || group != GROUP {
        return None;
    }
    let name = annotations.get(CLONED_FROM_NAME)?;
    (!name.is_empty()).then(|| ObjectKey::new(machine.namespace().unwrap_or_default(), name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_hosts_annotation_names_a_host_of_the_own_namespace() {
        let machine = |value: &str| {
            let machine: Metal3Machine = serde_json::from_value(json!({
                "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "Metal3Machine",
                "metadata": {"namespace": "ns", "name": "m", "annotations": {"metal3.io/BareMetalHost": value}}, "spec": {},
            }))
            .unwrap();
            host_of(&machine)
        };
        assert_eq!(machine("ns/h"), Some(ObjectKey::new("ns", "h")));
        assert_eq!(machine("other/h"), Some(ObjectKey::new("ns", "h")));
        assert_eq!(machine("h"), Some(ObjectKey::new("ns", "h")));
        assert_eq!(machine(""), None);
    }
}
