//! What of a workload cluster's Nodes is kept, and what they are found by.

use k8s_openapi::api::core::v1::{Node, NodeCondition, NodeStatus};
use kube::ResourceExt;
use metal3_runtime::store::Store;

/// Label of a Node: the UID of the host that it runs on. The kubelet sets it where the bootstrap data says so.
pub const HOST_UID: &str = "metal3.io/uuid";
/// Label of a Node: its host name.
pub const HOSTNAME: &str = "kubernetes.io/hostname";

/// What a Node is found by.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum NodeBy {
    /// Its provider ID.
    ProviderId(String),
    /// The UID of its host, in its label.
    HostUid(String),
    /// Its host name, in its label.
    Hostname(String),
}

/// The Nodes of one workload cluster.
pub type Nodes = Store<Node, NodeBy>;

/// An empty store.
pub fn nodes() -> Nodes {
    Store::reduced(keys_of, reduce)
}

/// What a Node is found by.
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

/// Whether the kubelet is heard of, as the condition Ready says: True and False are its own words, Unknown is said for it
/// when it is silent. A Node without the condition counts as heard of.
pub fn is_reporting(node: &Node) -> bool {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    !conditions
        .into_iter()
        .any(|c| c.type_ == READY && c.status == "Unknown")
}

const READY: &str = "Ready";

/// Images, volumes and times come with every heartbeat, and nobody here asks for them. Of the conditions only whether the
/// Node is ready is kept.
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
