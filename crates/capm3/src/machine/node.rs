//! The Node of a machine in its workload cluster, as far as it is known.

use kube::ResourceExt;
use metal3_api::metal3::{BareMetalHost, ProvisioningState};
use metal3_runtime::store::ObjectKey;

use crate::machine::observed::{Host, Observed};
use crate::stores::Stores;
use crate::stores::cluster::cluster_of;
use crate::stores::host::HostBy;
use crate::stores::machine::Metal3MachineBy;
use crate::workload::provider_id::{Answer, Question};
use crate::workload::{Unreachable, Workloads};

/// What is known of the Node.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum NodeView {
    /// The host does not run the machine yet, or no longer runs it.
    #[default]
    NotAsked,
    /// The workload cluster is unreachable.
    Unreachable(Unreachable),
    /// The result of looking up its Nodes.
    Answered(Answer),
}

/// Sets a Node's provider ID.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderIdPatch {
    /// The Node's name.
    pub node: String,
    /// Its UID, so that only this Node is patched.
    pub uid: String,
    /// The ID.
    pub id: String,
}

/// Finds the Node of a machine whose host is provisioned.
pub fn find(workloads: &Workloads, stores: &Stores, seen: &Observed) -> NodeView {
    let (Host::Ours(host), Some(cluster)) = (&seen.host, seen.cluster.found()) else {
        return NodeView::NotAsked;
    };
    let status = host.status.as_ref();
    let is_provisioned = status.is_some_and(|s| s.provisioning.state == ProvisioningState::Provisioned);
    if !is_provisioned || seen.machine.metadata.deletion_timestamp.is_some() || seen.paused().is_some() {
        return NodeView::NotAsked;
    }
    let workload = match workloads.of(&ObjectKey::of(&**cluster)) {
        Ok(workload) => workload,
        Err(why) => return NodeView::Unreachable(why),
    };
    let (key, uid) = (seen.key(), host.uid().unwrap_or_default());
    let hostname = status
        .and_then(|s| s.hardware.as_ref())
        .map(|hardware| hardware.hostname.as_str());
    let hostnames: Vec<&str> = hostname.into_iter().filter(|name| !name.is_empty()).collect();
    let owner = seen.owner.found();
    let rivals = rivals(stores, host, &hostnames);
    let own_id = Some(seen.machine.spec.provider_id.as_str()).filter(|id| !id.is_empty());
    let question = Question {
        namespace: &key.namespace,
        host: &host.name_any(),
        host_uid: &uid,
        machine: &key.name,
        hostnames: &hostnames,
        cloud_provider: seen.has_cloud_provider(),
        labelled: owner.is_some_and(|owner| owner.spec.bootstrap.config_ref.is_some()),
        stored: own_id,
        created: seen.machine.creation_timestamp().map(|time| time.0),
        rivals: &rivals,
    };
    let holder = |id: &str| holder(stores, seen, id);
    NodeView::Answered(question.answer(&workload.nodes, &holder))
}

/// Names of other hosts of the same cluster that share one of these host names: their Nodes cannot be distinguished by name.
fn rivals(stores: &Stores, host: &BareMetalHost, hostnames: &[&str]) -> Vec<String> {
    let cluster = cluster_of(host);
    let alike = hostnames
        .iter()
        .flat_map(|name| stores.hosts.find(&HostBy::Hostname((*name).to_owned())));
    let others = alike.filter(|other| {
        other.namespace() == host.namespace()
            && other.name_any() != host.name_any()
            && other.consumer().is_some()
            && cluster_of(&**other) == cluster
    });
    let mut names: Vec<String> = others.map(|other| other.name_any()).collect();
    names.sort();
    names.dedup();
    names
}

/// Another Metal3Machine of the same cluster that has this provider ID.
fn holder(stores: &Stores, seen: &Observed, id: &str) -> Option<String> {
    let cluster = cluster_of(&*seen.machine);
    let holders = stores.metal3_machines.find(&Metal3MachineBy::ProviderId(id.to_owned()));
    let others = holders.into_iter().filter(|other| {
        other.namespace() == seen.machine.namespace()
            && other.name_any() != seen.machine.name_any()
            && cluster_of(&**other) == cluster
    });
    others.map(|other| other.name_any()).min()
}
