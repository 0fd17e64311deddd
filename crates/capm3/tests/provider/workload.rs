//! Workload clusters, played by the same API server: which Nodes they have, and what is said while they cannot be asked.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use clap::Parser;
use cluster_api_provider_metal3::args::Args;
use cluster_api_provider_metal3::workload::{News, NodeBy, Unreachable, Workload, Workloads};
use k8s_openapi::api::core::v1::{Node, Secret};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use metal3_runtime::store::ObjectKey;
use metal3_testkit::leaks::mark_secret;
use metal3_testkit::{DEADLINE, TestNamespace, eventually, namespace};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::support::Site;

/// Connecting has its own limit, which a busy machine adds to.
const LIMIT: Duration = Duration::from_secs(60);

async fn expect(workloads: &Workloads, cluster: &ObjectKey, what: &str, holds: impl Fn(&Unreachable) -> bool) {
    eventually(LIMIT, what, || async {
        match workloads.of(cluster) {
            Err(why) if holds(&why) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
}

async fn expect_connected(workloads: &Workloads, cluster: &ObjectKey) -> Workload {
    eventually(LIMIT, "the workload cluster answers", || async {
        workloads.of(cluster)
    })
    .await
}

async fn put_kubeconfig(namespace: &TestNamespace, text: &str) {
    let mut secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "c-kubeconfig"},
        "stringData": {"value": text}});
    mark_secret(&mut secret);
    let secrets: Api<Secret> = namespace.api();
    let apply = PatchParams::apply("test").force();
    secrets
        .patch("c-kubeconfig", &apply, &Patch::Apply(secret))
        .await
        .unwrap();
}

#[tokio::test]
async fn a_workload_cluster_is_followed_as_its_kubeconfig_says() {
    let namespace = namespace!().await;
    let stop = CancellationToken::new();
    let limits = Args::parse_from(["test"]).client;
    let workloads = Workloads::new(namespace.client.clone(), limits, stop.clone());
    let heard = Arc::new(AtomicUsize::new(0));
    let count = heard.clone();
    workloads.listen(move |_, news| {
        if matches!(news, News::Node(_)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    });
    let cluster = ObjectKey::new(&namespace.name, "c");
    assert!(matches!(workloads.of(&cluster), Err(Unreachable::Connecting(_))));
    let is_missing =
        |why: &Unreachable| matches!(why, Unreachable::NoKubeconfig(secret) if secret.name == "c-kubeconfig");
    expect(&workloads, &cluster, "the Secret is missed", is_missing).await;

    let admin = std::fs::read_to_string(namespace.server().admin_kubeconfig()).unwrap();
    put_kubeconfig(&namespace, "nonsense").await;
    let is_bad = |why: &Unreachable| matches!(why, Unreachable::BadKubeconfig { .. });
    expect(&workloads, &cluster, "the Secret is found useless", is_bad).await;
    put_kubeconfig(&namespace, &admin).await;
    let workload = expect_connected(&workloads, &cluster).await;

    // A Node that comes is seen, and whoever listens is told.
    let nodes: Api<Node> = Api::all(namespace.client.clone());
    let (name, id) = (
        format!("{}-n", namespace.name),
        format!("metal3://{}/host-0/m", namespace.name),
    );
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": {"providerID": id}});
    let before = heard.load(Ordering::Relaxed);
    nodes
        .create(&PostParams::default(), &serde_json::from_value(node).unwrap())
        .await
        .unwrap();
    eventually(DEADLINE, "the Node is found by its provider ID", || async {
        let found = workload.nodes.find(&NodeBy::ProviderId(id.clone()));
        if found.len() == 1 {
            Ok(())
        } else {
            Err(format!("{found:?}"))
        }
    })
    .await;
    eventually(DEADLINE, "the listener has heard of it", || async {
        let now = heard.load(Ordering::Relaxed);
        if now > before { Ok(()) } else { Err(now) }
    })
    .await;

    // Another content leads elsewhere, here to nobody; the right one back again.
    let port = admin
        .lines()
        .find_map(|line| line.trim().strip_prefix("server: "))
        .unwrap()
        .to_owned();
    let nobody = admin.replace(port.trim_matches('"'), "https://127.0.0.1:1");
    assert_ne!(nobody, admin);
    put_kubeconfig(&namespace, &nobody).await;
    let is_silent = |why: &Unreachable| {
        let text = why.to_string();
        matches!(why, Unreachable::Silent { .. }) && text.contains("refused")
    };
    expect(&workloads, &cluster, "nobody answers", is_silent).await;
    put_kubeconfig(&namespace, &admin).await;
    let workload = expect_connected(&workloads, &cluster).await;
    assert_eq!(workload.nodes.find(&NodeBy::ProviderId(id.clone())).len(), 1);

    let secrets: Api<Secret> = namespace.api();
    secrets.delete("c-kubeconfig", &DeleteParams::default()).await.unwrap();
    expect(&workloads, &cluster, "the Secret is missed again", is_missing).await;
    assert_eq!(workloads.len(), 1);
    workloads.forget(&cluster);
    assert!(workloads.is_empty());
    // OWN 16a: the last word to a cluster that was gone began to watch it anew.
    assert!(workloads.followed(&cluster).is_none());
    assert!(workloads.is_empty(), "nobody asked to follow it");
    nodes.delete(&name, &DeleteParams::default()).await.unwrap();
    stop.cancel();
}

// OWN 16b: a Node that was made anew under the name of another got the ID of that one's machine.
#[tokio::test]
async fn a_kubeconfig_that_may_only_be_read_by_its_name_is_followed() {
    let site = Site::new(namespace!().await).await;
    site.grant_secrets_by_name().await;
    let stop = CancellationToken::new();
    let limits = Args::parse_from(["test"]).client;
    let workloads = Workloads::new(site.client().await, limits, stop.clone());
    let cluster = ObjectKey::new(&site.namespace.name, "c");
    assert!(matches!(workloads.of(&cluster), Err(Unreachable::Connecting(_))));
    let is_missing = |why: &Unreachable| matches!(why, Unreachable::NoKubeconfig(_));
    expect(&workloads, &cluster, "the Secret is missed", is_missing).await;
    let admin = std::fs::read_to_string(site.namespace.server().admin_kubeconfig()).unwrap();
    put_kubeconfig(&site.namespace, &admin).await;
    expect_connected(&workloads, &cluster).await;
    put_kubeconfig(&site.namespace, "nonsense").await;
    let is_bad = |why: &Unreachable| matches!(why, Unreachable::BadKubeconfig { .. });
    expect(&workloads, &cluster, "the Secret is found useless", is_bad).await;
    let secrets: Api<Secret> = site.namespace.api();
    secrets.delete("c-kubeconfig", &DeleteParams::default()).await.unwrap();
    expect(&workloads, &cluster, "the Secret is missed again", is_missing).await;
    stop.cancel();
}

#[tokio::test]
async fn only_the_node_that_was_meant_gets_an_id() {
    let namespace = namespace!().await;
    let stop = CancellationToken::new();
    let workloads = Workloads::new(
        namespace.client.clone(),
        Args::parse_from(["test"]).client,
        stop.clone(),
    );
    let cluster = ObjectKey::new(&namespace.name, "c");
    let admin = std::fs::read_to_string(namespace.server().admin_kubeconfig()).unwrap();
    put_kubeconfig(&namespace, &admin).await;
    let workload = expect_connected(&workloads, &cluster).await;
    let nodes: Api<Node> = Api::all(namespace.client.clone());
    let name = format!("{}-n", namespace.name);
    let node: Node = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
    let first = nodes
        .create(&PostParams::default(), &node)
        .await
        .unwrap()
        .metadata
        .uid
        .unwrap();
    nodes.delete(&name, &DeleteParams::default()).await.unwrap();
    let second = nodes
        .create(&PostParams::default(), &node)
        .await
        .unwrap()
        .metadata
        .uid
        .unwrap();
    let id = format!("metal3://{}/h/m", namespace.name);
    assert!(
        !workload.give_id(&name, &first, &id).await.unwrap(),
        "it is another Node"
    );
    let found = nodes.get(&name).await.unwrap().spec.and_then(|spec| spec.provider_id);
    assert_eq!(found, None);
    assert!(workload.give_id(&name, &second, &id).await.unwrap());
    let found = nodes.get(&name).await.unwrap().spec.and_then(|spec| spec.provider_id);
    assert_eq!(found, Some(id.clone()));
    workload
        .give_id(&name, &second, "metal3://other/h/m")
        .await
        .expect_err("an ID stays");
    nodes.delete(&name, &DeleteParams::default()).await.unwrap();
    assert!(!workload.give_id(&name, &second, &id).await.unwrap(), "it is gone");
    stop.cancel();
}
