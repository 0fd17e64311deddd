//! The Node that a machine has become, in its workload cluster: looked at without waiting.

use kube::ResourceExt;
use metal3_api::metal3::ProvisioningState;
use metal3_runtime::store::ObjectKey;

use super::{Host, Observed};
use crate::workload::provider_id::{Answer, Question};
use crate::workload::{Unreachable, Workloads};

/// What is known of the Node.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum NodeView {
    /// It is too early to ask, or too late.
    #[default]
    NotAsked,
    /// The workload cluster cannot be asked.
    Unreachable(Unreachable),
    /// What its Nodes say.
    Answered(Answer),
}

/// A Node is to carry this provider ID.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gift {
    /// The Node's name.
    pub node: String,
    /// The ID.
    pub id: String,
}

/// Looks for the Node of a machine whose host is provisioned.
pub fn look(workloads: &Workloads, seen: &Observed) -> NodeView {
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
    let question = Question {
        namespace: &key.namespace,
        host: &host.name_any(),
        host_uid: &uid,
        machine: &key.name,
        hostnames: &hostnames,
        cloud_provider: seen.has_cloud_provider(),
        labelled: owner.is_some_and(|owner| owner.spec.bootstrap.config_ref.is_some()),
    };
    NodeView::Answered(question.answer(&workload.nodes))
}
