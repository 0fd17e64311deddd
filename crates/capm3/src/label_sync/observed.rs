//! The observed state from which the labels of a cluster's Nodes are decided.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use metal3_api::capi::names::{annotation, group};
use metal3_api::infra::v1beta2::{Metal3Cluster, Metal3Machine};
use metal3_api::metal3::BareMetalHost;
use metal3_api::metal3::names::annotation::PAUSED as HOST_PAUSED;
use metal3_runtime::events::Event;
use metal3_runtime::store::ObjectKey;

use super::Prefixes;
use crate::data_template::hold_of;
use crate::error::PassError;
use crate::machine::{Host, host_seen};
use crate::stores::{Metal3MachineBy, Stores, infrastructure, owner};
use crate::workload::Nodes;

/// The prefixes, and the hosts of a cluster with their Nodes.
#[derive(Debug)]
pub struct Observed {
    /// The Cluster.
    pub key: ObjectKey,
    /// Its UID.
    pub uid: String,
    /// Its Metal3Cluster, on which events are recorded.
    pub metal3_cluster: Arc<Metal3Cluster>,
    /// The prefixes from its annotation.
    pub prefixes: Prefixes,
    /// Each host with its Node.
    pub pairs: Vec<(Arc<BareMetalHost>, Arc<Node>)>,
    /// The first rejection of a Node in this pass.
    pub refused: Option<PassError>,
    /// Events about rejections in this pass.
    pub events: Vec<Event>,
}

/// Gathers the observed state. `None` if the cluster has no prefixes, is not ours, is paused, or is unreachable. Without prefixes
/// no Node is read.
pub fn observe(stores: &Stores, key: &ObjectKey, nodes: impl FnOnce() -> Option<Nodes>) -> Option<Observed> {
    let cluster = stores.clusters.get(key).filter(|cluster| !cluster.is_paused())?;
    let metal3_cluster = stores.metal3_clusters.get(&infrastructure(&cluster)?)?;
    let is_left_alone = !stores.is_ours(&*metal3_cluster) || is_paused(&*metal3_cluster);
    let prefixes = Prefixes::of(&metal3_cluster).filter(|prefixes| !prefixes.good.is_empty() && !is_left_alone)?;
    let nodes = nodes()?;
    let machines = stores.metal3_machines.find(&Metal3MachineBy::Cluster(key.clone()));
    let mut pairs: Vec<_> = machines
        .iter()
        .filter_map(|machine| Some((host_of(stores, machine)?, node_of(stores, machine, &nodes)?)))
        .collect();
    // For a deterministic order.
    pairs.sort_by_cached_key(|(_, node)| node.name_any());
    Some(Observed {
        key: key.clone(),
        uid: cluster.uid().unwrap_or_default(),
        metal3_cluster,
        prefixes,
        pairs,
        refused: None,
        events: Vec::new(),
    })
}

/// The host of a machine that is not being deleted, unless one of the two is paused.
fn host_of(stores: &Stores, machine: &Metal3Machine) -> Option<Arc<BareMetalHost>> {
    if machine.metadata.deletion_timestamp.is_some() || hold_of(stores, machine).is_some() {
        return None;
    }
    match host_seen(stores, machine, &ObjectKey::of(machine)) {
        Host::Ours(host) if !is_host_paused(&host) => Some(host),
        Host::Ours(_) | Host::None | Host::Missing(_) | Host::Unclaimed(_) | Host::Foreign(..) => None,
    }
}

/// The Node that Cluster API has found for a machine.
fn node_of(stores: &Stores, machine: &Metal3Machine, nodes: &Nodes) -> Option<Arc<Node>> {
    let owner = owner(machine, group::CORE, "Machine")?;
    let owner = ObjectKey::new(machine.namespace().unwrap_or_default(), owner);
    let name = &stores.machines.get(&owner)?.status.node_ref.name;
    nodes.get(&ObjectKey::new("", name))
}

/// By its own annotation, or by Cluster API's.
pub(super) fn is_host_paused(host: &BareMetalHost) -> bool {
    is_paused(host) || host.annotations().contains_key(HOST_PAUSED)
}

fn is_paused(object: &impl ResourceExt) -> bool {
    object.annotations().contains_key(annotation::PAUSED)
}
