//! What a user says about the host, the Secrets and the Node of a machine, on a real API server.

use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use metal3_api::infra::v1beta2::Metal3Machine;
use metal3_api::metal3::BareMetalHost;
use metal3_api::reference::SecretReference;
use metal3_testkit::namespace;
use rstest::rstest;
use serde_json::{Value, json};

use crate::data::template;
use crate::support::{ASSOCIATED, Site, consumer, lacks};

const UNHEALTHY: &str = "capm3.metal3.io/unhealthy";

#[rstest]
#[case::one_of("in", json!(["a", "b"]), json!({"k": "b"}), json!({"k": "c"}), "1 lacks label k in (a,b)")]
#[case::none_of("notin", json!(["a", "b"]), json!({}), json!({"k": "a"}), "1 does not meet k notin (a,b)")]
#[case::equal("=", json!(["a"]), json!({"k": "a"}), json!({"k": "b"}), "1 lacks label k=a")]
#[case::equal_twice("==", json!(["a"]), json!({"k": "a"}), json!({}), "1 lacks label k=a")]
#[case::other("!=", json!(["a"]), json!({"k": "b"}), json!({"k": "a"}), "1 does not meet k!=a")]
#[case::there("exists", json!([]), json!({"k": ""}), json!({}), "1 lacks label k")]
#[case::absent("!", json!([]), json!({}), json!({"k": "a"}), "1 does not meet !k")]
#[case::greater("gt", json!(["9"]), json!({"k": "10"}), json!({"k": "9"}), "1 lacks label k>9")]
#[case::less("lt", json!(["10"]), json!({"k": "9"}), json!({"k": "10"}), "1 lacks label k<10")]
#[tokio::test]
async fn a_host_is_chosen_by_each_operator(
    #[case] operator: &str,
    #[case] values: Value,
    #[case] good: Value,
    #[case] bad: Value,
    #[case] why: &'static str,
) {
    let site = Site::for_machines(namespace!().await).await;
    let provider = site.provider().await;
    site.host("bad", bad, "available").await;
    // Without any it is an empty list, which has to be there.
    let expression = json!({"key": "k", "operator": operator, "values": values});
    site.machine("m", json!({"hostSelector": {"matchExpressions": [expression]}}))
        .await;
    let waits = move |machine: &Metal3Machine| lacks(machine, ASSOCIATED, why);
    site.namespace.expect("m", "waits for another host", waits).await;
    site.host("good", good, "available").await;
    site.claimed("good", "m").await;
    let bad: BareMetalHost = site.namespace.api().get("bad").await.unwrap();
    assert_eq!(consumer(&bad), None);
    provider.stop().await;
}

#[tokio::test]
async fn a_host_that_is_marked_as_unhealthy_is_nobodys_until_the_mark_is_off() {
    let site = Site::for_machines(namespace!().await).await;
    site.host("h", json!({}), "available").await;
    let mark = |value: Value| json!({"metadata": {"annotations": {UNHEALTHY: value}}});
    site.patch::<BareMetalHost>("h", mark(json!("by hand"))).await;
    let provider = site.provider().await;
    site.machine("m", json!({})).await;
    let waits = |machine: &Metal3Machine| lacks(machine, ASSOCIATED, "0 of 1 hosts: 1 marked as unhealthy");
    site.namespace.expect("m", "waits", waits).await;
    site.patch::<BareMetalHost>("h", mark(Value::Null)).await;
    site.claimed("h", "m").await;
    provider.stop().await;
}

/// A reference to a Secret, by its name.
fn name(reference: Option<&SecretReference>) -> &str {
    reference.map_or("", |reference| reference.name.as_str())
}

#[tokio::test]
async fn secrets_of_the_user_are_waited_for_and_go_before_rendered_ones() {
    let site = Site::for_machines(namespace!().await).await;
    let links = json!({"links": {"ethernets": [{"type": "phy", "id": "eth0", "mtu": 1500,
        "macAddress": {"string": "52:54:00:12:34:56"}}]}});
    let spec = json!({"metaData": {"strings": [{"key": "from", "value": "template"}]}, "networkData": links});
    site.apply(template("t", &spec)).await;
    site.host("h", json!({}), "available").await;
    let provider = site.provider().await;
    site.machine(
        "m",
        json!({"metaData": {"name": "by-hand"}, "dataTemplate": {"name": "t"}}),
    )
    .await;
    let words = "Secret by-hand, named by spec.metaData, does not exist";
    let waits = move |machine: &Metal3Machine| lacks(machine, ASSOCIATED, words) && lacks(machine, "Ready", words);
    site.namespace.expect("m", "waits for the Secret", waits).await;
    let host: BareMetalHost = site.namespace.api().get("h").await.unwrap();
    assert_eq!(consumer(&host), None);
    site.apply(
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "by-hand"},
        "stringData": {"metaData": "from: hand"}}),
    )
    .await;
    let is_told = |host: &BareMetalHost| host.spec.image.is_some();
    let host = site.namespace.expect("h", "is to be provisioned", is_told).await;
    let given = (
        name(host.spec.meta_data.as_ref()),
        name(host.spec.network_data.as_ref()),
    );
    assert_eq!(given, ("by-hand", "m-networkdata"));
    // What it runs with stands in the status.
    let is_told = move |machine: &Metal3Machine| {
        let status = machine.status.clone().unwrap_or_default();
        let told = (name(status.meta_data.as_ref()), name(status.network_data.as_ref()));
        told == ("by-hand", "m-networkdata") && status.rendered_data.name == "t-0"
    };
    site.namespace.expect("m", "says what it runs with", is_told).await;
    provider.stop().await;
}

/// The same API server plays the workload cluster: its Nodes are told apart by their names.
#[tokio::test]
async fn a_node_without_our_label_is_found_by_its_host_name() {
    let site = Site::for_machines(namespace!().await).await;
    let hostname = format!("node-{}", &site.namespace.name[site.namespace.name.len() - 5..]);
    site.host("h", json!({}), "available").await;
    let named = json!({"status": {"hardware": {"hostname": hostname}}});
    site.patch_status::<BareMetalHost>("h", named.clone()).await;
    let admin = std::fs::read_to_string(site.namespace.server().admin_kubeconfig()).unwrap();
    site.kubeconfig("c", &admin).await;
    let provider = site.provider().await;
    site.machine("m", json!({})).await;
    site.claimed("h", "m").await;
    let state = json!({"status": {"poweredOn": true, "provisioning": {"state": "provisioned"}}});
    site.patch_status::<BareMetalHost>("h", state).await;
    let waits = |machine: &Metal3Machine| lacks(machine, "NodeProviderIDSet", "has joined");
    site.namespace.expect("m", "waits for its Node", waits).await;
    let nodes: Api<Node> = Api::all(site.namespace.client.clone());
    let node = json!({"apiVersion": "v1", "kind": "Node",
        "metadata": {"name": hostname, "labels": {"kubernetes.io/hostname": hostname}}});
    let node: Node = serde_json::from_value(node).unwrap();
    nodes.create(&PostParams::default(), &node).await.unwrap();
    let knows = |machine: &Metal3Machine| {
        let conditions = machine.status.iter().flat_map(|status| &status.conditions);
        let mut found = conditions.filter(|condition| condition.type_ == "NodeProviderIDSet");
        found.any(|condition| condition.reason == "ProviderIDSet")
    };
    let machine = site.namespace.expect("m", "knows its Node", knows).await;
    let found = nodes.get(&hostname).await.unwrap();
    let id = format!("metal3://{}/h/m", site.namespace.name);
    assert_eq!(found.spec.and_then(|spec| spec.provider_id).as_ref(), Some(&id));
    assert_eq!(machine.spec.provider_id, id);
    nodes
        .delete(&found.metadata.name.unwrap(), &DeleteParams::default())
        .await
        .unwrap();
    provider.stop().await;
}
