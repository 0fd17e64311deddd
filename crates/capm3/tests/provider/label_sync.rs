//! Labels of hosts on Nodes. The same API server plays the workload cluster.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Node;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use metal3_api::capi::Machine;
use metal3_api::condition::ConditionStatus::False;
use metal3_api::infra::v1beta2::Metal3Cluster;
use metal3_api::metal3::BareMetalHost;
use metal3_testkit::{DEADLINE, eventually, namespace};
use serde_json::{Value, json};

use crate::support::{Site, says};

const PREFIXES: &str = "metal3.io/metal3-label-sync-prefixes";

/// A Node of the test, apart from those that others have.
struct TestNode {
    api: Api<Node>,
    name: String,
}

impl TestNode {
    async fn new(site: &Site, labels: Value) -> Self {
        let api: Api<Node> = Api::all(site.namespace.client.clone());
        let name = format!("{}-n", site.namespace.name);
        let node = serde_json::from_value(json!({"metadata": {"name": name, "labels": labels}})).unwrap();
        api.create(&PostParams::default(), &node).await.unwrap();
        Self { api, name }
    }

    /// Waits until it has these labels and no others.
    async fn expect(&self, labels: &[(&str, &str)]) -> Node {
        let wanted: BTreeMap<_, _> = labels
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect();
        eventually(DEADLINE, "the Node has the labels of its host", || async {
            let node = self.api.get(&self.name).await.unwrap();
            if *node.labels() == wanted {
                Ok(node)
            } else {
                Err(format!("{:?}", node.labels()))
            }
        })
        .await
    }

    async fn label(&self, labels: Value) {
        let change = Patch::Merge(json!({"metadata": {"labels": labels}}));
        self.api
            .patch(&self.name, &PatchParams::default(), &change)
            .await
            .unwrap();
    }
}

async fn annotate(site: &Site, cluster: &str, prefixes: Value) {
    let change = json!({"metadata": {"annotations": {PREFIXES: prefixes}}});
    site.patch::<Metal3Cluster>(cluster, change).await;
}

#[tokio::test]
async fn a_node_has_the_labels_of_its_host_under_the_prefixes() {
    let site = Site::for_machines(namespace!().await).await;
    // A cluster that nobody reaches wants labels, too. It holds up no other.
    site.ready_cluster("silent").await;
    annotate(&site, "silent", json!("a.test")).await;
    let admin = std::fs::read_to_string(site.namespace.server().admin_kubeconfig()).unwrap();
    site.kubeconfig("c", &admin).await;
    let server = admin
        .lines()
        .find_map(|line| line.trim().strip_prefix("server: "))
        .unwrap();
    let nobody = admin.replace(server.trim_matches('"'), "https://127.0.0.1:1");
    site.kubeconfig("silent", &nobody).await;

    site.host("h", json!({"a.test/rack": "1", "b.test/row": "2"}), "available")
        .await;
    let provider = site.provider().await;
    site.machine("m", json!({})).await;
    site.claimed("h", "m").await;
    let node = TestNode::new(&site, json!({"a.test/old": "x", "mine": "y"})).await;
    let found = json!({"status": {"nodeRef": {"name": node.name}}});
    site.patch_status::<Machine>("m", found).await;

    // The prefix that is no prefix is said, and the other one followed.
    annotate(&site, "c", json!("a.test, Wrong_")).await;
    node.expect(&[("a.test/rack", "1"), ("mine", "y")]).await;
    let is_told = |cluster: &Metal3Cluster| {
        let status = cluster.status.clone().unwrap_or_default();
        says(
            &status.conditions,
            "AnnotationsValid",
            &False,
            "InvalidLabelSyncPrefixes",
        )
    };
    site.namespace.expect("c", "names the prefix", is_told).await;
    site.namespace.expect_event("c", "InvalidLabelSyncPrefixes").await;
    annotate(&site, "c", json!("a.test,b.test")).await;
    node.expect(&[("a.test/rack", "1"), ("b.test/row", "2"), ("mine", "y")])
        .await;
    let is_right = |cluster: &Metal3Cluster| !is_told(cluster);
    site.namespace.expect("c", "has nothing to complain of", is_right).await;

    // The host changes, and so does the Node; the Node is changed, and is put right.
    let change = json!({"metadata": {"labels": {"a.test/rack": "7", "b.test/row": null, "b.test/new": ""}}});
    site.patch::<BareMetalHost>("h", change).await;
    node.expect(&[("a.test/rack", "7"), ("b.test/new", ""), ("mine", "y")])
        .await;
    node.label(json!({"a.test/rack": "8", "a.test/other": "1", "mine": "z"}))
        .await;
    let right = node
        .expect(&[("a.test/rack", "7"), ("b.test/new", ""), ("mine", "z")])
        .await;

    // At rest nothing is asked, and other labels concern nobody.
    let settled = site.settled().await;
    site.patch::<BareMetalHost>("h", json!({"metadata": {"labels": {"other": "1"}}}))
        .await;
    assert_eq!(site.settled().await, settled);
    assert_eq!(
        node.api.get(&node.name).await.unwrap().resource_version(),
        right.resource_version()
    );

    // Where labels are not wanted any more they stay as they are.
    annotate(&site, "c", Value::Null).await;
    site.settled().await;
    site.patch::<BareMetalHost>("h", json!({"metadata": {"labels": {"a.test/rack": "9"}}}))
        .await;
    site.settled().await;
    node.expect(&[("a.test/rack", "7"), ("b.test/new", ""), ("mine", "z")])
        .await;
    node.api.delete(&node.name, &DeleteParams::default()).await.unwrap();
    provider.stop().await;
}
