//! What the API server refuses because this program says so, and what it fills in.

use ip_address_manager::{rbac, webhooks};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use metal3_api::ipam::IPPool;
use metal3_testkit::{DEADLINE, Replicas, TestNamespace, eventually, namespace};
use serde_json::{Value, json};

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

#[expect(clippy::needless_pass_by_value, reason = "literals of JSON are written in place")]
fn object(kind: &str, name: &str, annotation: &str, spec: Value) -> Value {
    let mut object =
        json!({"apiVersion": "ipam.metal3.io/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec});
    if !annotation.is_empty() {
        object["metadata"]["annotations"] = json!({"ipAddress": annotation});
    }
    object
}

/// A row for [`TestNamespace::expect_rules`], of two pools.
fn of_pools(number: usize, (wrong, words, right): (Value, &str, Value)) -> (Value, String, Value) {
    let of = |name: String, mut spec: Value| {
        spec["namePrefix"] = json!("p");
        object("IPPool", &name, "", spec)
    };
    (
        of("w".to_owned(), wrong),
        words.to_owned(),
        of(format!("r{number}"), right),
    )
}

/// Every rule for one object.
#[tokio::test]
async fn each_rule_for_new_objects_refuses_and_admits() {
    let namespace = served().await;
    let out = "spec.preAllocations: 10.0.0.4 is out of bounds";
    let entry = |entry: Value| json!({"pools": [entry]});
    let random = |entry: Value| json!({"allocationStrategy": "random", "pools": [entry]});
    let held = |entry: Value, held: Value| json!({"pools": [entry], "preAllocations": held});
    let (first, range) = (
        json!({"start": "10.0.0.2"}),
        json!({"start": "10.0.0.2", "end": "10.0.0.4"}),
    );
    let v6 = json!({"start": "2001:db8::1"});
    let pools = [
        (
            json!({"preAllocations": {"a": "10.0.0.4"}}),
            out,
            held(range.clone(), json!({"a": "10.0.0.4"})),
        ),
        (
            held(
                json!({"start": "10.0.0.2", "end": "10.0.0.3"}),
                json!({"a": "10.0.0.4"}),
            ),
            out,
            entry(range.clone()),
        ),
        // The schema is first to see these.
        (json!({"gateway": "x"}), "spec.gateway", json!({"gateway": "10.0.0.1"})),
        (
            json!({"dnsServers": ["8.8.8.8", "x"]}),
            "spec.dnsServers[1]",
            json!({"dnsServers": ["8.8.8.8"]}),
        ),
        (
            json!({"preAllocations": {"c": "x"}}),
            "spec.preAllocations.c",
            held(first.clone(), json!({"c": "10.0.0.3"})),
        ),
        (entry(json!({"start": "x"})), "spec.pools[0]", entry(first.clone())),
        (
            entry(json!({"end": "x"})),
            "spec.pools[0]",
            entry(json!({"end": "10.0.0.9"})),
        ),
        (
            entry(json!({"subnet": "10.0.0.0"})),
            "spec.pools[0]",
            entry(json!({"subnet": "10.0.0.0/24"})),
        ),
        (
            entry(json!({"start": "10.0.0.2", "gateway": "x"})),
            "spec.pools[0].gateway",
            entry(json!({"start": "10.0.0.2", "gateway": "10.0.0.1"})),
        ),
        (
            entry(json!({"start": "10.0.0.2", "dnsServers": ["x"]})),
            "spec.pools[0].dnsServers[0]",
            entry(json!({"start": "10.0.0.2", "dnsServers": ["10.0.0.1"]})),
        ),
        // What no schema can see.
        (
            held(v6.clone(), json!({"a": "2001:db8::1", "b": "2001:DB8:0::1"})),
            "spec.preAllocations.b: ",
            held(v6.clone(), json!({"a": "2001:db8::1", "b": "2001:DB8:0::2"})),
        ),
        (
            entry(json!({"prefix": 24})),
            "spec.pools[0]: ",
            entry(json!({"prefix": 24, "subnet": "10.0.0.0/24"})),
        ),
        (
            entry(json!({"start": "10.0.0.2", "end": "10.0.0.1"})),
            "spec.pools[0]: ",
            entry(range.clone()),
        ),
        (
            entry(json!({"start": "::ffff:102:304"})),
            "spec.pools[0]: ",
            entry(json!({"start": "1.2.3.4"})),
        ),
        (
            random(first.clone()),
            "spec.pools[0]: cannot be used with allocationStrategy \"random\"",
            random(range.clone()),
        ),
        (
            random(json!({"subnet": "2001:db8::/64"})),
            "spec.pools[0]: cannot be used with allocationStrategy \"random\"",
            random(json!({"subnet": "2001:db8::/65"})),
        ),
        (
            json!({"pools": [{"start": "10.0.0.2", "end": "10.0.0.1"}, {"start": "10.0.0.9", "end": "10.0.0.8"}]}),
            "is invalid: [spec.pools[0]: ",
            json!({}),
        ),
    ];
    let mut rows: Vec<_> = pools
        .into_iter()
        .enumerate()
        .map(|(number, row)| of_pools(number, row))
        .collect();
    let claim =
        |name: &str, pool: &str, annotation: &str| object("IPClaim", name, annotation, json!({"pool": {"name": pool}}));
    rows.push((claim("w", "", ""), "spec.pool.name".to_owned(), claim("r1", "p", "")));
    let requested = "metadata.annotations.ipAddress: ".to_owned();
    rows.push((claim("w", "p", "x"), requested.clone(), claim("r2", "p", "10.0.0.2")));
    let address = |name: &str, annotation: &str, pool: &str, claim: &str, address: &str| {
        let spec = json!({"pool": {"name": pool}, "claim": {"name": claim}, "address": address});
        object("IPAddress", name, annotation, spec)
    };
    let right = |number: u8| address(&format!("r{number}"), "", "p", "c", &format!("10.0.0.{number}"));
    rows.extend([
        (
            address("w", "", "", "c", "10.0.0.1"),
            "spec.pool.name".to_owned(),
            right(1),
        ),
        (
            address("w", "", "p", "", "10.0.0.1"),
            "spec.claim.name".to_owned(),
            right(2),
        ),
        (address("w", "", "p", "c", ""), "spec.address".to_owned(), right(3)),
        (address("w", "", "p", "c", "x"), "spec.address".to_owned(), right(4)),
        (
            address("w", "", "p", "c", "::ffff:102:304"),
            "spec.address: ".to_owned(),
            right(5),
        ),
        (
            address("w", "x", "p", "c", "10.0.0.6"),
            requested,
            address("r6", "10.0.0.6", "p", "c", "10.0.0.6"),
        ),
    ]);
    namespace.expect_rules(&rows).await;
}

/// Every rule for changes: the stored object, a change that is refused, and one that is admitted.
#[tokio::test]
async fn each_rule_for_changes_refuses_and_admits() {
    let namespace = served().await;
    let range = |end: &str| json!([{"start": "10.0.0.2", "end": end}]);
    let pool = |name: &str, prefix: &str, strategy: &str, end: &str| {
        let spec = json!({"namePrefix": prefix, "allocationStrategy": strategy, "pools": range(end)});
        object("IPPool", name, "", spec)
    };
    let stored = |name: &str| pool(name, "p", "sequential", "10.0.0.9");
    let claim = |pool: Value, annotation: &str| object("IPClaim", "c", annotation, json!({ "pool": pool }));
    let address = |pool: Value, claim: Value, address: &str, prefix: u8| {
        let spec = json!({"pool": pool, "claim": claim, "address": address, "prefix": prefix});
        object("IPAddress", "a", "", spec)
    };
    let (p, c) = (json!({"name": "p"}), json!({"name": "c"}));
    let of_address = |pool: &Value, claim: &Value, text: &str| address(pool.clone(), claim.clone(), text, 24);
    let (in_q, in_kind) = (json!({"name": "q"}), json!({"name": "p", "kind": "K"}));
    let elsewhere = json!({"name": "c", "namespace": "n"});
    let (kept, kept_pool) = (of_address(&p, &c, "10.0.0.2"), claim(p.clone(), ""));
    let longer = address(p.clone(), c.clone(), "10.0.0.2", 25);
    for object in [
        stored("names"),
        stored("strategy"),
        stored("use"),
        kept_pool.clone(),
        kept.clone(),
    ] {
        namespace.apply(&object.to_string()).await;
    }
    let status = json!({"status": {"indexes": {"c": "10.0.0.5"}, "lastUpdated": "2026-01-01T00:00:00Z"}});
    let pools = namespace.api::<IPPool>();
    let params = PatchParams::default();
    pools
        .patch_status("use", &params, &Patch::Merge(&status))
        .await
        .unwrap();
    let rows = [
        (
            pool("names", "q", "sequential", "10.0.0.9"),
            "spec.namePrefix",
            pool("names", "p", "sequential", "10.0.0.8"),
        ),
        (
            pool("strategy", "p", "random", "10.0.0.9"),
            "spec.allocationStrategy",
            pool("strategy", "p", "", "10.0.0.9"),
        ),
        (
            pool("use", "p", "sequential", "10.0.0.4"),
            "spec.pools: 10.0.0.5 of the claim c is in use but out of bounds",
            pool("use", "p", "sequential", "10.0.0.5"),
        ),
        (claim(in_q.clone(), ""), "spec.pool", kept_pool.clone()),
        (claim(in_kind.clone(), ""), "spec.pool", kept_pool.clone()),
        (
            claim(json!({"name": "p", "namespace": "n"}), ""),
            "spec.pool",
            kept_pool,
        ),
        (
            claim(p.clone(), "x"),
            "metadata.annotations.ipAddress: ",
            claim(p.clone(), "10.0.0.2"),
        ),
        (of_address(&p, &c, "10.0.0.3"), "spec.address", longer.clone()),
        (of_address(&in_q, &c, "10.0.0.2"), "spec.pool", longer.clone()),
        (of_address(&in_kind, &c, "10.0.0.2"), "spec.pool", longer),
        (of_address(&p, &elsewhere, "10.0.0.2"), "spec.claim", kept),
    ];
    let rows = rows.map(|(wrong, words, right)| (wrong, words.to_owned(), right));
    namespace.expect_rules(&rows).await;
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
