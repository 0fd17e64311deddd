//! Whole passes of the controller, and its triggers.

use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use metal3_api::infra::v1beta2::Metal3Machine;
use metal3_runtime::controller::Reconcile;
use metal3_runtime::store::{ObjectKey, Sink};
use metal3_runtime::work::Queue;
use rstest::rstest;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::args::HostChoice;
use crate::machine::Metal3Machines;
use crate::machine::names::BOOTSTRAP_DATA;
use crate::sim::{Site, limits, owners};
use crate::workload::{Workloads, nodes};

const CAPI: &str = "cluster.x-k8s.io/v1beta2";

/// Machine m of cluster c, which needs only a host. Its bootstrap Secret holds this, and a mark.
fn site(filter: &str, labels: &Value, bootstrap: &str) -> Site {
    let site = Site::new(filter, |_, _, _| None);
    fill(&site, &json!({"metadata": {"labels": labels}}), bootstrap);
    site
}

/// The same on a site that is there, and with `other` over the machine.
pub(super) fn fill(site: &Site, other: &Value, bootstrap: &str) {
    let stores = &site.ctx.stores;
    let cluster = json!({"spec": {"infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io",
            "kind": "Metal3Cluster", "name": "c"}},
        "status": {"initialization": {"infrastructureProvisioned": true}}});
    site.shows(&stores.clusters, "c", &cluster);
    site.shows(&stores.metal3_clusters, "c", &json!({"spec": {}}));
    let machine = json!({"spec": {"clusterName": "c", "bootstrap": {"dataSecretName": "b"}}});
    site.shows(&stores.machines, "owner", &machine);
    let mut ours = json!({"metadata": {"ownerReferences": owners(CAPI, "Machine", "owner", None)},
        "spec": {"image": {"url": "http://i", "checksum": "abc"}}});
    merge(&mut ours, other);
    site.shows(&stores.metal3_machines, "m", &ours);
    let text = k8s_openapi::ByteString(format!("{bootstrap}\n# {CANARY}b\n").into_bytes());
    let secret = json!({"data": {"value": text, "format": "aWduaXRpb24="}});
    site.server.make::<Secret>("b", &secret);
}

pub(super) fn free_host(site: &Site) {
    let host = json!({"spec": {"online": false, "bmc": {"address": "ipmi://a", "credentialsName": "bmc"}},
        "status": {"provisioning": {"state": "available", "ID": ""}, "errorMessage": ""}});
    site.shows(&site.ctx.stores.hosts, "h", &host);
}

pub(super) fn machines(site: &Site) -> (Metal3Machines, Workloads) {
    let workloads = Workloads::new(site.ctx.client.clone(), limits(), CancellationToken::new());
    let machines = Metal3Machines::new(site.ctx.clone(), workloads.clone(), false, HostChoice::Stable);
    (machines, workloads)
}

async fn passes(site: &Site) {
    let (machines, _) = machines(site);
    for _ in 0..4 {
        machines.reconcile(&key("m")).await.unwrap();
        // Permanent errors are reported.
        site.ctx.clock.advance(Duration::from_secs(1));
    }
}

pub(super) fn key(name: &str) -> ObjectKey {
    ObjectKey::new("ns", name)
}

/// Text inside JSON that looks like a template is not one: the data is passed on unchanged, by reference.
#[tokio::test]
async fn ignition_is_handed_on_and_not_looked_into() {
    let ignition = r#"{"ignition": {"version": "3.4.0"}, "storage": {"files": [{"path": "/etc/x", "contents": {"source":
        "data:,## template: jinja\n{{ ds.meta_data.no_such_key }}"}}]}}"#;
    let site = site("", &json!({}), ignition);
    free_host(&site);
    passes(&site).await;
    let host: BareMetalHost = site.now("baremetalhosts");
    assert_eq!(
        serde_json::to_value(&host.spec.user_data).unwrap(),
        json!({"name": "b", "namespace": "ns"})
    );
    let status = site.now::<Metal3Machine>("metal3machines").status.unwrap();
    assert_eq!(conditions::get(&status.conditions, BOOTSTRAP_DATA), None);
    let secret: Value = site.now("secrets");
    assert_eq!(secret["metadata"]["resourceVersion"], "5", "it is not written");
}

#[tokio::test]
async fn a_host_of_another_namespace_is_none_to_choose() {
    let site = site("", &json!({}), "#cloud-config");
    let mut host = (*free()).clone();
    host.metadata.namespace = Some("other".to_owned());
    site.ctx.stores.hosts.created(host);
    passes(&site).await;
    let status = site.now::<Metal3Machine>("metal3machines").status.unwrap();
    let associated = conditions::get(&status.conditions, "AssociateBareMetalHost").unwrap();
    assert_eq!(
        (associated.status.clone(), associated.reason.as_str()),
        (ConditionStatus::False, "AssociateBareMetalHostFailed")
    );
    assert!(!site.writes().iter().any(|write| write.contains("baremetalhosts")));
}

#[rstest]
#[case::without(json!({}), false)]
#[case::another(json!({"cluster.x-k8s.io/watch-filter": "red"}), false)]
#[case::ours(json!({"cluster.x-k8s.io/watch-filter": "blue"}), true)]
#[tokio::test]
async fn with_a_watch_filter_only_machines_that_carry_it_are_worked_on(#[case] labels: Value, #[case] is_ours: bool) {
    let site = site("blue", &labels, "#cloud-config");
    free_host(&site);
    passes(&site).await;
    assert_eq!(!site.writes().is_empty(), is_ours, "{:?}", site.writes());
    assert_eq!(
        site.now::<BareMetalHost>("baremetalhosts").spec.consumer_ref.is_some(),
        is_ours
    );
}

/// The search that ends every test with a site. That it reads the log, too, is shown in the testkit: a line here would fail whatever
/// test runs beside this one.
#[rstest]
#[case::nothing("GET", "metal3machines", json!({}), false)]
#[case::event("POST", "events", json!({"message": "secret-of-b is refused"}), true)]
#[case::status("PATCH", "metal3machines/m/status", json!({"status": {"failureMessage": "c2VjcmV0LW9mLWI="}}), true)]
#[case::host("PATCH", "baremetalhosts/h", json!({"metadata": {"annotations": {"x": "secret-of-b"}}}), true)]
#[case::secret("POST", "secrets", json!({"metadata": {"name": "x"}, "stringData": {"x": "secret-of-b"}}), false)]
#[tokio::test]
async fn a_secret_that_is_emitted_fails_its_test(
    #[case] method: &str,
    #[case] path: &str,
    #[case] body: Value,
    #[case] is_found: bool,
) {
    let site = site("", &json!({}), "#cloud-config");
    let request = http::Request::builder()
        .method(method)
        .uri(format!("/api/v1/namespaces/ns/{path}"))
        .body(serde_json::to_vec(&body).unwrap());
    site.ctx.client.request_text(request.unwrap()).await.ok();
    let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(site)));
    assert_eq!(ended.is_err(), is_found);
}

/// Its watch and client are removed.
#[tokio::test]
async fn the_workload_cluster_of_a_cluster_that_is_gone_is_forgotten() {
    let site = site("", &json!({}), "#cloud-config");
    let (machines, workloads) = machines(&site);
    machines.listen(&Queue::new());
    for name in ["c", "other"] {
        workloads.connected(&key(name), site.ctx.client.clone(), nodes::nodes());
    }
    let mut cluster = (*site.ctx.stores.clusters.get(&key("c")).unwrap()).clone();
    cluster.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
    cluster.metadata.finalizers = Some(vec!["x".to_owned()]);
    cluster.metadata.resource_version = Some("100".to_owned());
    site.ctx.stores.clusters.put(cluster.clone());
    assert_eq!(workloads.len(), 2, "its machines may still be on their way out");
    cluster.metadata.finalizers = None;
    cluster.metadata.resource_version = Some("101".to_owned());
    site.ctx.stores.clusters.put(cluster);
    assert_eq!(workloads.len(), 1);
}
