//! The Nodes of one cluster, up to a number and a size.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use k8s_openapi::api::core::v1::Node;
use metal3_runtime::store::{ObjectKey, Sink};
use tokio::sync::watch;

use super::bounds::{Exceeded, MOST_KEPT, MOST_NODES};
use super::nodes::{self, Nodes};

/// Fills a store until a bound is exceeded. From then on it takes nothing in. Clones are the same.
#[derive(Clone, Debug)]
pub struct Budget {
    nodes: Nodes,
    sizes: Arc<Mutex<(HashMap<ObjectKey, usize>, usize)>>,
    exceeded: watch::Sender<Option<Exceeded>>,
}

impl Budget {
    pub fn new(nodes: Nodes) -> Self {
        Self {
            nodes,
            sizes: Arc::default(),
            exceeded: watch::Sender::new(None),
        }
    }

    /// Whether a bound was exceeded.
    pub fn is_exceeded(&self) -> bool {
        self.exceeded.borrow().is_some()
    }

    /// Ends when a bound is exceeded.
    pub async fn exceeded(&self) -> Exceeded {
        let mut changes = self.exceeded.subscribe();
        let seen = changes.wait_for(Option::is_some).await;
        seen.ok().and_then(|seen| *seen).unwrap_or(Exceeded::Nodes)
    }
}

impl Sink<Node> for Budget {
    fn put(&self, mut node: Node) {
        if self.is_exceeded() {
            return;
        }
        nodes::reduce(&mut node);
        let size = serde_json::to_vec(&node).map_or(0, |text| text.len());
        let too_much = {
            let mut sizes = self.sizes.lock().unwrap_or_else(PoisonError::into_inner);
            let before = sizes.0.insert(ObjectKey::of(&node), size).unwrap_or_default();
            sizes.1 = sizes.1 - before + size;
            if sizes.0.len() > MOST_NODES {
                Some(Exceeded::Nodes)
            } else {
                (sizes.1 > MOST_KEPT).then_some(Exceeded::Kept)
            }
        };
        match too_much {
            Some(why) => drop(self.exceeded.send_replace(Some(why))),
            None => self.nodes.put(node),
        }
    }

    fn remove(&self, key: &ObjectKey, uid: &str) {
        let mut sizes = self.sizes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(size) = sizes.0.remove(key) {
            sizes.1 -= size;
        }
        drop(sizes);
        self.nodes.remove(key, uid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn node(name: usize, note: &str) -> Node {
        let body = json!({"metadata": {"name": name.to_string(), "uid": name.to_string(),
            "managedFields": [{"manager": "m"}], "annotations": {"a": note}}});
        serde_json::from_value(body).unwrap()
    }

    // OWN 23b: any number of Nodes was kept, of any size.
    #[tokio::test]
    async fn no_more_nodes_are_kept_than_a_cluster_may_have() {
        let budget = Budget::new(nodes::nodes());
        (0..MOST_NODES + 5).for_each(|name| budget.put(node(name, "")));
        assert_eq!(budget.nodes.len(), MOST_NODES);
        assert_eq!(budget.exceeded().await, Exceeded::Nodes);
    }

    #[tokio::test]
    async fn no_more_is_kept_of_nodes_than_a_cluster_may_have() {
        let budget = Budget::new(nodes::nodes());
        let note = "x".repeat(1 << 20);
        (0..50).for_each(|_| budget.put(node(0, &note)));
        assert_eq!(budget.nodes.len(), 1, "a Node that changes counts once");
        (0..70).for_each(|name| budget.put(node(name, &note)));
        assert!(budget.nodes.len() < 60);
        assert_eq!(budget.exceeded().await, Exceeded::Kept);
    }
}
