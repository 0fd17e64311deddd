//! What the API server refuses because this program says so, and what it fills in.

use ip_address_manager::{rbac, webhooks};
use kube::api::PostParams;
use kube::{Api, ResourceExt};
use metal3_api::ipam::IPPool;
use metal3_testkit::{DEADLINE, Replicas, TestNamespace, eventually, namespace};
use serde_json::json;

/// What no schema can see.
const OUT: &str = "preAllocations: {a: 10.0.0.4}";

async fn served() -> TestNamespace {
    let namespace = namespace!().await;
    namespace
        .serve(webhooks::all(), webhooks::INSTALLED, &pool("probe", OUT))
        .await;
    namespace
}

fn pool(name: &str, spec: &str) -> String {
    format!(
        "{{apiVersion: ipam.metal3.io/v1alpha1, kind: IPPool, metadata: {{name: {name}}}, spec: {{namePrefix: p, {spec}}}}}"
    )
}

fn claim(name: &str, pool: &str, annotation: &str) -> String {
    format!(
        "{{apiVersion: ipam.metal3.io/v1alpha1, kind: IPClaim, metadata: {{name: {name}, annotations: {{ipAddress: '{annotation}'}}}}, \
         spec: {{pool: {{name: '{pool}'}}}}}}"
    )
}

fn address(name: &str, address: &str) -> String {
    format!(
        "{{apiVersion: ipam.metal3.io/v1alpha1, kind: IPAddress, metadata: {{name: {name}}}, \
         spec: {{pool: {{name: p}}, claim: {{name: c}}, address: '{address}'}}}}"
    )
}

#[tokio::test]
async fn what_is_wrong_is_refused_with_its_field() {
    let namespace = served().await;
    let cases = [
        // The schema is first to see these.
        (pool("p1", "gateway: x"), "spec.gateway"),
        (pool("p2", "dnsServers: [8.8.8.8, x]"), "spec.dnsServers[1]"),
        (pool("p3", "preAllocations: {c: x}"), "spec.preAllocations.c"),
        (address("a1", "x"), "spec.address"),
        (
            pool(
                "p4",
                "pools: [{start: '2001:db8::1'}], preAllocations: {a: '2001:db8::1', b: '2001:DB8:0::1'}",
            ),
            "spec.preAllocations.b: ",
        ),
        (pool("p5", "pools: [{prefix: 24}]"), "spec.pools[0]: "),
        (
            pool("p6", "pools: [{start: 10.0.0.2, end: 10.0.0.1}]"),
            "spec.pools[0]: ",
        ),
        (
            pool("p8", "allocationStrategy: random, pools: [{start: 10.0.0.2}]"),
            "spec.pools[0]: cannot be used with allocationStrategy \"random\"",
        ),
        (pool("p9", OUT), "spec.preAllocations: 10.0.0.4 is out of bounds"),
        (
            pool(
                "all",
                "pools: [{start: 10.0.0.2, end: 10.0.0.1}, {start: 10.0.0.9, end: 10.0.0.8}]",
            ),
            "is invalid: [spec.pools[0]: ",
        ),
        (claim("c1", "", ""), "spec.pool.name"),
        (claim("c2", "p", "x"), "metadata.annotations.ipAddress: "),
    ];
    namespace.expect_all_refused(&cases).await;
}

#[tokio::test]
async fn what_is_right_is_stored_with_its_defaults() {
    let namespace = served().await;
    // Without the schema's default: the strategy is empty, which upstream's webhook fills in.
    namespace
        .apply(&pool("a", "allocationStrategy: '', pools: [{start: 10.0.0.2}]"))
        .await;
    namespace.apply(&claim("c", "a", "10.0.0.2")).await;
    namespace.apply(&address("a-10-0-0-2", "10.0.0.2")).await;
    let stored = namespace.api::<IPPool>().get("a").await.unwrap();
    assert_eq!(stored.spec.allocation_strategy.as_str(), "sequential");
}

#[tokio::test]
async fn what_cannot_change_is_refused_and_what_was_wrong_before_is_not() {
    let namespace = namespace!().await;
    // Stored before there was a webhook.
    namespace.apply(&pool("old", OUT)).await;
    namespace
        .serve(webhooks::all(), webhooks::INSTALLED, &pool("probe", OUT))
        .await;
    namespace.apply(&pool("old", &format!("{OUT}, prefix: 24"))).await;
    let old = namespace.api::<IPPool>().get("old").await.unwrap();
    assert_eq!((old.name_any().as_str(), old.spec.prefix), ("old", 24));
    namespace
        .expect_refused(
            &pool("old", &OUT.replace("0.4", "0.5")),
            "spec.preAllocations: 10.0.0.5",
        )
        .await;

    namespace.apply(&claim("c", "a", "")).await;
    namespace.expect_refused(&claim("c", "b", ""), "spec.pool").await;
    namespace.apply(&address("a", "10.0.0.2")).await;
    namespace
        .expect_refused(&address("a", "10.0.0.3"), "spec.address")
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_cert_manager_the_leader_makes_certificates_that_every_replica_serves() {
    let certificates = webhooks::certificates(rbac::NAMESPACE);
    let rights = rbac::objects().base;
    let replicas = Replicas::start(webhooks::all, certificates, &rights, rbac::SERVICE_ACCOUNT).await;
    let pools: Api<IPPool> = Api::namespaced(replicas.client.clone(), "default");
    let wrong = json!({"apiVersion": "ipam.metal3.io/v1alpha1", "kind": "IPPool",
        "metadata": {"generateName": "p"}, "spec": {"namePrefix": "p", "preAllocations": {"a": "10.0.0.4"}}});
    let wrong: IPPool = serde_json::from_value(wrong).unwrap();
    for replica in 0..2 {
        replicas.ask(replica).await;
        eventually(DEADLINE, "the API server trusts the replica", async || {
            match pools.create(&PostParams::default(), &wrong).await {
                Err(error) if error.to_string().contains("spec.preAllocations") => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await;
    }
    replicas.mend_what_is_broken().await;
    replicas.expect_report_of_what_nobody_answers().await;
}
