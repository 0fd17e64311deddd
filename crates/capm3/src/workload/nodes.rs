//! The stored part of a workload cluster's Nodes, and their indexes.

use k8s_openapi::api::core::v1::{Node, NodeCondition, NodeStatus};
use kube::ResourceExt;
use metal3_runtime::store::Store;

/// Label of a Node: the UID of its host. The kubelet sets it if the bootstrap data says so.
pub const HOST_UID: &str = "metal3.io/uuid";
/// Label of a Node: its host name.
pub const HOSTNAME: &str = "kubernetes.io/hostname";

/// The index keys of a Node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum NodeBy {
    /// Its provider ID.
    ProviderId(String),
    /// The UID of its host, in its label.
    HostUid(String),
    /// Its host name, in its label.
    Hostname(String),
}

impl NodeBy {
    /// What it is found by.
    pub fn text(&self) -> &str {
        match self {
            Self::ProviderId(text) | Self::HostUid(text) | Self::Hostname(text) => text,
        }
    }
}

/// The Nodes of one workload cluster.
pub type Nodes = Store<Node, NodeBy>;

/// An empty store.
pub fn nodes() -> Nodes {
    Store::reduced(keys_of, reduce)
}

/// The index keys of a Node.
pub fn keys_of(node: &Node) -> Vec<NodeBy> {
    let id = provider_id(node);
    let label = |key: &str| node.labels().get(key).filter(|value| !value.is_empty()).cloned();
    [
        id.map(|id| NodeBy::ProviderId(id.to_owned())),
        label(HOST_UID).map(NodeBy::HostUid),
        label(HOSTNAME).map(NodeBy::Hostname),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Its provider ID, if it has one.
pub fn provider_id(node: &Node) -> Option<&str> {
    let id = node.spec.as_ref()?.provider_id.as_deref();
    id.filter(|id| !id.is_empty())
}

/// Whether the kubelet reports, by the condition Ready: the kubelet sets True and False, the node controller sets Unknown when it
/// is silent. A Node without the condition counts as reporting.
pub fn is_reporting(node: &Node) -> bool {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    !conditions
        .into_iter()
        .any(|c| c.type_ == READY && c.status == "Unknown")
}

const READY: &str = "Ready";

/// Drops images, volumes and times, which change with every heartbeat and are not used here. Of the conditions it keeps only
/// Ready.
pub fn reduce(node: &mut Node) {
    node.metadata.managed_fields = None;
    if let Some(status) = node.status.take() {
        let mut conditions = status.conditions.into_iter().flatten();
        let ready = conditions.find(|condition| condition.type_ == READY);
        let ready = ready.map(|condition| NodeCondition {
            type_: condition.type_,
            status: condition.status,
            ..NodeCondition::default()
        });
        node.status = Some(NodeStatus {
            addresses: status.addresses,
            conditions: ready.map(|ready| vec![ready]),
            ..NodeStatus::default()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_node_is_found_by_all_that_it_says_of_its_host() {
        let mut node: Node = serde_json::from_value(json!({
            "metadata": {"name": "n", "labels": {HOST_UID: "u", HOSTNAME: "host-0"}},
            "spec": {"providerID": "metal3://ns/host-0/m"},
            "status": {"images": [{"names": ["a"]}], "addresses": [{"type": "Hostname", "address": "host-0"}],
                "conditions": [{"type": "DiskPressure", "status": "False"},
                    {"type": "Ready", "status": "Unknown", "lastHeartbeatTime": "2026-01-01T00:00:00Z"}]},
        }))
        .unwrap();
        let keys = [
            NodeBy::ProviderId("metal3://ns/host-0/m".into()),
            NodeBy::HostUid("u".into()),
            NodeBy::Hostname("host-0".into()),
        ];
        assert_eq!(keys_of(&node), keys);
        reduce(&mut node);
        let status = node.status.as_ref().unwrap();
        assert_eq!(
            (status.images.as_ref(), status.addresses.as_ref().map(Vec::len)),
            (None, Some(1))
        );
        let kept = serde_json::to_value(&status.conditions).unwrap();
        assert_eq!(kept, json!([{"type": "Ready", "status": "Unknown"}]));
        assert!(!is_reporting(&node));
        node.spec.as_mut().unwrap().provider_id = Some(String::new());
        node.metadata.labels = None;
        assert_eq!(keys_of(&node), []);
    }
}
