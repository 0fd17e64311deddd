//! The Nodes of one cluster, limited in number and size.

use parking_lot::{Mutex, MutexGuard};
use std::collections::HashMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use metal3_api::labels::is_subdomain;
use metal3_runtime::store::{ObjectKey, REMEMBERED_GONE, Sink};
use tokio::sync::watch;

use super::account::Share;
use super::bounds::{Exceeded, MOST_KEPT, MOST_NODES, MOST_UID};
use super::nodes::{self, Nodes};

/// Overhead of a Node besides its strings: the struct, and its entries in the store, the indexes and the watch.
const NODE: usize = size_of::<Node>() + 1024;

/// Overhead of a string besides its bytes: the pointer, and what the allocator and the surrounding map need.
const TEXT: usize = 48;

/// Memory of a connected cluster besides its Nodes: client, connections, and the heads of pending responses.
const CLUSTER: usize = 256 << 10;

/// A UID that the store remembers of a deleted Node, with its entries.
const GONE: usize = MOST_UID + 2 * TEXT;

/// Approximate memory of a stored Node. A Node with many short strings takes a multiple of its JSON.
fn weight(node: &Node) -> usize {
    let json = serde_json::to_vec(node).unwrap_or_default();
    let texts = json.split(|byte| *byte == b'"').count() / 2;
    NODE + json.len() + TEXT * texts + copies(node)
}

/// What is kept of a Node beside it: its index keys, in both directions, and its name in the store, the watch and here.
fn copies(node: &Node) -> usize {
    let keys = nodes::keys_of(node);
    let keys: usize = keys.iter().map(|key| key.text().len()).sum();
    2 * keys + 3 * node.name_any().len()
}

/// Fills a store until a limit is exceeded. After that it accepts nothing. Clones share the state.
#[derive(Clone, Debug)]
pub struct Budget {
    nodes: Nodes,
    kept: Arc<Mutex<Kept>>,
    exceeded: watch::Sender<Option<Exceeded>>,
}

#[derive(Debug)]
struct Kept {
    /// Of every Node that the watch has shown and not deleted, stored or not: the watch keeps its name.
    sizes: HashMap<ObjectKey, usize>,
    bytes: usize,
    /// At least as many UIDs as the store remembers of deleted Nodes.
    gone: usize,
    /// How many Nodes the first list has shown, until it is complete. The same one may come again and again.
    listed: Option<usize>,
    share: Share,
}

impl Kept {
    fn put(&mut self, key: ObjectKey, size: usize) -> Result<(), Exceeded> {
        let before = self.sizes.insert(key, size).unwrap_or_default();
        self.bytes = self.bytes - before + size;
        if self.sizes.len() > MOST_NODES {
            return Err(Exceeded::Nodes);
        }
        if self.bytes > MOST_KEPT {
            return Err(Exceeded::Kept);
        }
        self.share.set(self.total())
    }

    fn remove(&mut self, key: &ObjectKey) {
        self.bytes -= self.sizes.remove(key).unwrap_or_default();
        // A reduction is never refused; after a refusal the store is soon dropped.
        self.share.set(self.total()).ok();
    }

    /// The store remembers one more UID, instead of the oldest if there are too many.
    fn remember(&mut self) {
        self.gone = REMEMBERED_GONE.min(self.gone + 1);
    }

    fn total(&self) -> usize {
        CLUSTER + self.bytes + GONE * self.gone
    }
}

impl Budget {
    /// Fills this store. Its contents are charged to the share.
    pub fn new(nodes: Nodes, mut share: Share) -> Self {
        let exceeded = share.set(CLUSTER).err();
        let kept = Kept {
            sizes: HashMap::new(),
            bytes: 0,
            gone: 0,
            listed: Some(0),
            share,
        };
        Self {
            nodes,
            kept: Arc::new(Mutex::new(kept)),
            exceeded: watch::Sender::new(exceeded),
        }
    }

    /// Whether a limit was exceeded.
    pub fn is_exceeded(&self) -> bool {
        self.exceeded.borrow().is_some()
    }

    /// The first list of Nodes is complete.
    pub fn list_is_complete(&self) {
        self.lock().listed = None;
    }

    /// A list that broke off begins anew.
    pub fn list_begins_anew(&self) {
        let listed = &mut self.lock().listed;
        *listed = listed.map(|_| 0);
    }

    /// Takes a Node from the response to a request for it. It is ignored if it is older than the stored one, or if that is gone.
    pub fn answered(&self, node: Node) {
        let kept = &mut *self.lock();
        let seen = self.nodes.get(&ObjectKey::of(&node));
        if seen.is_some_and(|seen| seen.metadata.uid == node.metadata.uid) {
            self.keep(kept, node);
        }
    }

    /// Records the first limit that is exceeded: nothing is accepted from now on.
    pub fn exceed(&self, why: Exceeded) {
        self.exceeded.send_if_modified(|exceeded| {
            let is_first = exceeded.is_none();
            exceeded.get_or_insert(why);
            is_first
        });
    }

    /// Completes when a limit is exceeded.
    pub async fn exceeded(&self) -> Exceeded {
        let mut changes = self.exceeded.subscribe();
        let seen = changes.wait_for(Option::is_some).await;
        seen.ok().and_then(|seen| *seen).unwrap_or(Exceeded::Nodes)
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock()
    }

    fn keep(&self, kept: &mut Kept, mut node: Node) {
        if self.is_exceeded() {
            return;
        }
        let (key, uid, version) = (ObjectKey::of(&node), node.uid(), node.resource_version());
        let is_stored = || {
            let stored = self.nodes.get(&key);
            stored.is_some_and(|stored| stored.uid() == uid && stored.resource_version() == version)
        };
        if is_stored() {
            return; // the store keeps the one it has
        }
        nodes::reduce(&mut node);
        if let Err(why) = kept.put(key.clone(), weight(&node)) {
            return self.exceed(why);
        }
        self.nodes.put(node);
        if is_stored() {
            return;
        }
        // An older version, or an end: charged by what the server sends, a large Node would stay for the price of a small one.
        let stored = self.nodes.get(&key);
        if stored.is_none() {
            kept.remember();
        }
        let size = stored.map_or(NODE, |stored| weight(&stored));
        if let Err(why) = kept.put(key, size) {
            self.exceed(why);
        }
    }
}

/// Both lock what is kept until the store is changed, so that the charges come in the order of the changes.
impl Sink<Node> for Budget {
    fn put(&self, node: Node) {
        let uid = node.metadata.uid.as_deref().unwrap_or_default();
        if !is_subdomain(&node.name_any()) || uid.len() > MOST_UID {
            return self.exceed(Exceeded::Name);
        }
        let kept = &mut *self.lock();
        if let Some(listed) = &mut kept.listed {
            *listed += 1;
            if *listed > MOST_NODES {
                return self.exceed(Exceeded::Nodes);
            }
        }
        self.keep(kept, node);
    }

    fn remove(&self, key: &ObjectKey, uid: &str) {
        let kept = &mut *self.lock();
        let stored = self.nodes.get(key);
        let is_other = |stored: &Arc<Node>| stored.metadata.uid.as_deref().unwrap_or_default() != uid;
        match stored {
            Some(stored) if is_other(&stored) => {}
            // The store would remember the UID, whatever its size.
            None => kept.remove(key),
            Some(_) => {
                self.nodes.remove(key, uid);
                kept.remember();
                kept.remove(key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::account::{Account, Limits};
    use futures::FutureExt;
    use jiff::Timestamp;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use serde_json::json;

    const WIDE: Limits = Limits {
        namespace: usize::MAX,
        ..Limits::DEFAULT
    };

    const SMALL: Limits = Limits {
        namespace: 1 << 20,
        ..Limits::DEFAULT
    };

    fn budget(limits: Limits) -> Budget {
        Budget::new(nodes::nodes(), Account::new(limits).share("ns"))
    }

    fn node(name: usize, note: &str) -> Node {
        let body = json!({"metadata": {"name": name.to_string(), "uid": name.to_string(),
            "managedFields": [{"manager": "m"}], "annotations": {"a": note}}});
        serde_json::from_value(body).unwrap()
    }

    // OWN 23b: the number and size of stored Nodes was unlimited.
    #[test]
    fn no_more_nodes_are_kept_than_a_cluster_may_have() {
        let budget = budget(WIDE);
        (0..MOST_NODES + 5).for_each(|name| budget.put(node(name, "")));
        assert_eq!(budget.nodes.len(), MOST_NODES);
        assert_eq!(budget.exceeded().now_or_never(), Some(Exceeded::Nodes));
    }

    #[test]
    fn no_more_is_kept_of_nodes_than_a_cluster_may_have() {
        let budget = budget(WIDE);
        let note = "x".repeat(1 << 20);
        (0..50).for_each(|_| budget.put(node(0, &note)));
        assert_eq!(budget.nodes.len(), 1, "a Node that changes counts once");
        (0..130).for_each(|name| budget.put(node(name, &note)));
        assert!(budget.nodes.len() < 128);
        assert_eq!(budget.exceeded().now_or_never(), Some(Exceeded::Kept));
    }

    // OWN 30xa: the names of Nodes that were not stored, and the UIDs of deleted ones, were kept without a limit.
    #[tokio::test]
    async fn names_of_nodes_that_are_not_stored_count_until_they_are_deleted() {
        let budget = budget(WIDE);
        budget.list_is_complete();
        let ended = |name: usize| {
            let mut node = node(name, "");
            node.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
            node
        };
        for name in 0..MOST_NODES {
            budget.put(ended(name));
            budget.remove(&ObjectKey::new("", name.to_string()), &name.to_string());
        }
        let total = budget.lock().total();
        assert_eq!((total, budget.is_exceeded()), (CLUSTER + GONE * REMEMBERED_GONE, false));
        (0..=MOST_NODES).for_each(|name| budget.put(ended(MOST_NODES + name)));
        assert!(budget.nodes.is_empty());
        assert_eq!(budget.exceeded().await, Exceeded::Nodes);
    }

    #[tokio::test]
    async fn no_uid_is_remembered_of_a_node_that_was_not_stored() {
        let budget = budget(WIDE);
        let total = || budget.lock().total();
        budget.remove(&ObjectKey::new("", "1"), "1");
        budget.remove(&ObjectKey::new("", "1"), &"x".repeat(1 << 20));
        assert_eq!(total(), CLUSTER);
        budget.put(node(1, ""));
        budget.remove(&ObjectKey::new("", "1"), "other");
        assert_eq!(budget.nodes.len(), 1);
        budget.remove(&ObjectKey::new("", "1"), "1");
        budget.put(node(1, ""));
        assert!(budget.nodes.is_empty(), "the UID is remembered");
        assert_eq!(total(), CLUSTER + NODE + 2 * GONE);
    }

    #[tokio::test]
    async fn a_name_or_a_uid_that_no_api_server_gives_is_refused() {
        let wrong: [fn(&mut Node); 4] = [
            |node| node.metadata.name = Some("n".repeat(254)),
            // Its patch would be a watch.
            |node| node.metadata.name = Some("x?watch=true".to_owned()),
            |node| node.metadata.name = Some("../x".to_owned()),
            |node| node.metadata.uid = Some("u".repeat(MOST_UID + 1)),
        ];
        for change in wrong {
            let budget = budget(WIDE);
            let mut node = node(0, "");
            change(&mut node);
            budget.put(node);
            assert_eq!(budget.exceeded().await, Exceeded::Name);
            assert_eq!((budget.nodes.len(), budget.lock().total()), (0, CLUSTER));
        }
    }

    #[test]
    fn a_list_that_repeats_a_node_for_ever_is_too_long() {
        let budget = budget(WIDE);
        for _ in 0..2 {
            (0..MOST_NODES).for_each(|_| budget.put(node(0, "")));
            budget.list_begins_anew();
        }
        budget.list_is_complete();
        (0..=MOST_NODES).for_each(|_| budget.put(node(0, "")));
        assert!(
            !budget.is_exceeded(),
            "a watch may show the same Node as often as its pace allows"
        );
        let budget = super::tests::budget(WIDE);
        (0..=MOST_NODES).for_each(|_| budget.put(node(0, "")));
        assert_eq!(budget.exceeded().now_or_never(), Some(Exceeded::Nodes));
    }

    fn version(name: usize, version: &str, note: &str) -> Node {
        let mut versioned = node(name, note);
        versioned.metadata.resource_version = Some(version.to_owned());
        versioned
    }

    // OWN 23p: responses to requests for single Nodes were stored without a limit.
    #[test]
    fn the_response_to_a_request_for_a_node_counts_like_one_that_is_watched() {
        let budget = budget(SMALL);
        let large = "x".repeat(100_000);
        (0..12).for_each(|name| budget.put(version(name, "1", "")));
        budget.answered(version(99, "2", &large));
        assert_eq!(budget.nodes.len(), 12, "one that is gone does not come back");
        (0..12).for_each(|name| budget.answered(version(name, "2", &large)));
        assert_eq!(
            budget.exceeded().now_or_never(),
            Some(Exceeded::Namespace(SMALL.namespace))
        );
        let kept: usize = budget.nodes.objects().iter().map(|node| weight(node)).sum();
        assert!(kept <= SMALL.namespace, "{kept}");
    }

    #[test]
    fn what_the_store_keeps_is_charged_whatever_is_sent_afterwards() {
        let large = "x".repeat(100_000);
        let older = |budget: &Budget, name| budget.put(version(name, "1", ""));
        let same_version = |budget: &Budget, name| budget.put(version(name, "9", ""));
        let other_uid = |budget: &Budget, name: usize| budget.remove(&ObjectKey::new("", name.to_string()), "other");
        for afterwards in [older, same_version, other_uid] {
            let budget = budget(SMALL);
            for name in 0..12 {
                budget.put(version(name, "9", &large));
                afterwards(&budget, name);
            }
            assert_eq!(
                budget.exceeded().now_or_never(),
                Some(Exceeded::Namespace(SMALL.namespace))
            );
        }
    }

    #[test]
    fn a_cluster_of_a_namespace_that_has_its_part_is_told_so() {
        let small = Limits {
            namespace: 2 * CLUSTER + 40_000,
            ..Limits::DEFAULT
        };
        let account = Account::new(small);
        let [first, second] = [(); 2].map(|()| Budget::new(nodes::nodes(), account.share("ns")));
        (0..4).for_each(|name| first.put(node(name, "")));
        (0..20).for_each(|name| second.put(node(name, "")));
        assert_eq!((first.nodes.len(), first.is_exceeded()), (4, false));
        assert_eq!(
            second.exceeded().now_or_never(),
            Some(Exceeded::Namespace(2 * CLUSTER + 40_000))
        );
        let other = Budget::new(nodes::nodes(), account.share("other"));
        (0..5).for_each(|name| other.put(node(name, "")));
        assert!(!other.is_exceeded());
        drop((first, second));
        let next = Budget::new(nodes::nodes(), account.share("ns"));
        (0..8).for_each(|name| next.put(node(name, "")));
        assert!(!next.is_exceeded(), "all is given back");
    }

    /// A Node whose stored strings are 2 KiB of JSON.
    fn ordinary() -> Node {
        let texts = |number: usize, value: &str| -> serde_json::Map<String, serde_json::Value> {
            let text = |n| (format!("example.com/label-{n}"), value.into());
            (0..number).map(text).collect()
        };
        let node = json!({"metadata": {"name": "node-0", "uid": "5f1e0a0c-95b0-4ef0-8f5b-d1c5d3c4a5b6",
                "labels": texts(25, "the value"), "annotations": texts(10, &"v".repeat(70))},
            "spec": {"providerID": "metal3://namespace/host-0/machine-0"},
            "status": {"addresses": [{"type": "InternalIP", "address": "192.0.2.1"},
                {"type": "Hostname", "address": "node-0"}]}});
        assert!(
            (1900..2200).contains(&node.to_string().len()),
            "{}",
            node.to_string().len()
        );
        serde_json::from_value(node).unwrap()
    }

    // OWN 30xh: the copies of long index keys were not counted.
    #[test]
    fn index_keys_count_with_their_copies() {
        let long = "x".repeat(100_000);
        let with = |change: fn(&mut Node, String)| {
            let mut node = ordinary();
            change(&mut node, long.clone());
            weight(&node) - weight(&ordinary())
        };
        let label = |node: &mut Node, key: &str, value| node.labels_mut().insert(key.to_owned(), value);
        let other = with(|node, long| _ = node.labels_mut().insert("other".to_owned(), long));
        assert!((100_000..101_000).contains(&other), "{other}");
        for key in [nodes::HOST_UID, nodes::HOSTNAME] {
            let mut node = ordinary();
            label(&mut node, key, long.clone());
            let more = weight(&node) - weight(&ordinary());
            assert!((300_000..301_000).contains(&more), "{key}: {more}");
        }
        let id = with(|node, long| node.spec.as_mut().unwrap().provider_id = Some(long));
        assert!((299_000..301_000).contains(&id), "{id}");
    }

    #[test]
    fn a_large_site_fits_into_one_namespace() {
        let site = weight(&ordinary()) * 1000 * 100;
        assert!(site <= Limits::DEFAULT.namespace, "{site}");
        assert!(weight(&ordinary()) * MOST_NODES <= MOST_KEPT);
    }
}
