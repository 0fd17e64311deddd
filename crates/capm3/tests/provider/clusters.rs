//! Metal3Clusters.

use cluster_api_provider_metal3::cluster::release;
use kube::ResourceExt;
use metal3_api::capi::{Cluster, Machine};
use metal3_api::condition::ConditionStatus::{False, True};
use metal3_api::infra::v1beta2::Metal3Cluster;
use metal3_api::metal3::BareMetalHost;
use metal3_testkit::namespace;
use serde_json::{Value, json};

use crate::support::{Site, says};

const PAUSED: &str = "cluster.x-k8s.io/paused";

fn ready(cluster: &Metal3Cluster, status: &metal3_api::condition::ConditionStatus, reason: &str) -> bool {
    let found = cluster.status.as_ref();
    found.is_some_and(|found| says(&found.conditions, "Ready", status, reason))
}

#[tokio::test]
async fn a_cluster_from_its_endpoint_to_its_end() {
    let site = Site::new(namespace!().await).await;
    let provider = site.provider().await;
    let domains = json!([{"name": "a", "controlPlane": true}, {"name": "b"}]);
    site.cluster("c", Value::Null).await;
    let is_invalid = |cluster: &Metal3Cluster| ready(cluster, &False, "InvalidConfiguration");
    site.namespace.expect("c", "lacks its endpoint", is_invalid).await;
    site.namespace.expect_event("c", "InvalidConfiguration").await;
    let endpoint = json!({"spec": {"controlPlaneEndpoint": {"host": "192.0.2.1"}, "failureDomains": domains}});
    site.patch::<Metal3Cluster>("c", endpoint).await;
    let is_ready = |cluster: &Metal3Cluster| {
        let status = cluster.status.clone().unwrap_or_default();
        let is_provisioned = status.initialization.provisioned == Some(true);
        let has_port = cluster.spec.control_plane_endpoint.port == 6443;
        ready(cluster, &True, "Ready") && is_provisioned && has_port && status.failure_domains.len() == 2
    };
    site.namespace.expect("c", "is provisioned", is_ready).await;

    // What stands still costs nothing, whoever touches other fields.
    let settled = site.settled().await;
    site.patch::<Metal3Cluster>("c", json!({"metadata": {"labels": {"x": "y"}}}))
        .await;
    assert_eq!(site.settled().await, settled);

    let machine = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
        "metadata": {"name": "m", "labels": {"cluster.x-k8s.io/cluster-name": "c"}},
        "spec": {"clusterName": "c", "bootstrap": {"dataSecretName": "b"},
            "infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "Metal3Machine", "name": "m"}}});
    site.apply(machine).await;
    site.delete::<Metal3Cluster>("c").await;
    let is_waiting = |cluster: &Metal3Cluster| ready(cluster, &False, "Deleting");
    site.namespace.expect("c", "waits for the Machine", is_waiting).await;
    site.delete::<Machine>("m").await;
    site.namespace.expect_gone::<Metal3Cluster>("c").await;
    provider.stop().await;
}

#[tokio::test]
async fn a_namespace_without_rights_to_secrets_holds_up_no_other() {
    let (site, other) = tokio::join!(async { Site::new(namespace!().await).await }, async {
        Site::new(namespace!().await).await
    });
    other.grant_all_but_secrets(&site).await;
    // Whose rendered Secrets the provider cannot list.
    let data = json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "Metal3Data", "metadata": {"name": "d"},
        "spec": {"index": 0, "claim": {"name": "d"}, "template": {"name": "t"}}});
    other.apply(data).await;
    let provider = site.provider_with_other(&other).await;
    site.cluster("c", Value::Null).await;
    let is_told = |cluster: &Metal3Cluster| ready(cluster, &False, "InvalidConfiguration");
    site.namespace.expect("c", "is looked at", is_told).await;
    provider.stop().await;
}

#[tokio::test]
async fn a_paused_cluster_only_says_so_and_goes_on_afterwards() {
    let site = Site::new(namespace!().await).await;
    let provider = site.provider().await;
    let endpoint = json!({"controlPlaneEndpoint": {"host": "192.0.2.1", "port": 6443}});
    site.cluster("c", endpoint).await;
    let is_ready = |cluster: &Metal3Cluster| ready(cluster, &True, "Ready");
    site.namespace.expect("c", "is ready", is_ready).await;
    site.patch::<Cluster>("c", json!({"spec": {"paused": true}})).await;
    let is_paused = |cluster: &Metal3Cluster| {
        let status = cluster.status.clone().unwrap_or_default();
        says(&status.conditions, "Paused", &True, "Paused")
    };
    site.namespace.expect("c", "is paused", is_paused).await;
    site.delete::<Metal3Cluster>("c").await;
    site.settled().await;
    let kept: Metal3Cluster = site.namespace.api().get("c").await.unwrap();
    assert_eq!(kept.finalizers().len(), 1, "nothing goes while it is paused");
    site.patch::<Cluster>("c", json!({"spec": {"paused": false}})).await;
    site.namespace.expect_gone::<Metal3Cluster>("c").await;
    provider.stop().await;
}

#[tokio::test]
async fn what_is_not_ours_is_left_alone() {
    let site = Site::new(namespace!().await).await;
    let provider = site.provider_with(&["--watch-filter=blue"]).await;
    let endpoint = json!({"controlPlaneEndpoint": {"host": "192.0.2.1", "port": 6443}});
    for name in ["other", "managed", "ours"] {
        site.cluster(name, endpoint.clone()).await;
    }
    let blue = json!({"cluster.x-k8s.io/watch-filter": "blue"});
    let managed = json!({"metadata": {"labels": blue, "annotations": {"cluster.x-k8s.io/managed-by": "me"}}});
    site.patch::<Metal3Cluster>("managed", managed).await;
    site.patch::<Metal3Cluster>(
        "ours",
        json!({"metadata": {"labels": blue, "annotations": {PAUSED: Value::Null}}}),
    )
    .await;
    let is_ready = |cluster: &Metal3Cluster| ready(cluster, &True, "Ready");
    site.namespace.expect("ours", "is ready", is_ready).await;
    site.settled().await;
    for name in ["other", "managed"] {
        let left: Metal3Cluster = site.namespace.api().get(name).await.unwrap();
        assert_eq!((left.finalizers().len(), left.status), (0, None), "{name}");
    }
    provider.stop().await;
}

// OWN 9a: a host of another namespace that named a cluster kept it from being provisioned, and then from going.
#[tokio::test]
async fn a_host_of_another_namespace_holds_no_cluster() {
    let (site, other) = (Site::new(namespace!().await).await, Site::new(namespace!().await).await);
    let provider = site.provider_of_both(&other);
    other
        .host(
            "h",
            json!({"infrastructure.cluster.x-k8s.io/node-reuse": "md-c"}),
            "available",
        )
        .await;
    let reference = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": "c",
        "namespace": site.namespace.name});
    let host = other
        .patch::<BareMetalHost>("h", json!({"spec": {"consumerRef": reference}}))
        .await;
    let endpoint = json!({"controlPlaneEndpoint": {"host": "192.0.2.1", "port": 6443}});
    site.cluster("c", endpoint).await;
    let is_ready = |cluster: &Metal3Cluster| ready(cluster, &True, "Ready");
    site.namespace.expect("c", "is ready", is_ready).await;
    site.delete::<Metal3Cluster>("c").await;
    site.namespace.expect_gone::<Metal3Cluster>("c").await;
    let left: BareMetalHost = other.namespace.api().get("h").await.unwrap();
    assert_eq!(left.spec, host.spec, "nobody touches it");
    provider.stop().await;
}

// OWN 9c: a kept host that was gone, or changed, when it was to be released kept the cluster's finalizer.
#[tokio::test]
async fn a_kept_host_that_changes_or_is_gone_holds_no_cluster() {
    let site = Site::new(namespace!().await).await;
    let endpoint = json!({"controlPlaneEndpoint": {"host": "192.0.2.1", "port": 6443}});
    site.cluster("c", endpoint).await;
    let api = site.namespace.api::<BareMetalHost>();
    let reference = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": "c"});
    let label = "infrastructure.cluster.x-k8s.io/node-reuse";
    for name in ["changed", "mine", "gone"] {
        site.host(name, json!({label: "md-c"}), "available").await;
    }
    let before = site
        .patch::<BareMetalHost>("changed", json!({"spec": {"consumerRef": reference}}))
        .await;
    let version = json!(before.metadata.resource_version);
    site.patch::<BareMetalHost>("changed", json!({"metadata": {"labels": {"x": "y"}}}))
        .await;
    let stale =
        json!({"metadata": {"resourceVersion": version, "labels": {label: null}}, "spec": {"consumerRef": null}});
    let released = release(&api, "changed", &stale).await.unwrap().unwrap();
    assert_eq!(
        (released.spec.consumer_ref, released.metadata.labels),
        (None, Some([("x".into(), "y".into())].into()))
    );

    let other = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "x"});
    site.patch::<BareMetalHost>("mine", json!({"spec": {"consumerRef": other}}))
        .await;
    assert_eq!(
        release(&api, "mine", &stale).await.unwrap(),
        None,
        "it is kept for the cluster no more"
    );
    let left = api.get("mine").await.unwrap();
    assert_eq!(left.spec.consumer_ref.unwrap().kind, "ConfigMap");

    site.delete::<BareMetalHost>("gone").await;
    assert_eq!(release(&api, "gone", &stale).await.unwrap(), None);
}
