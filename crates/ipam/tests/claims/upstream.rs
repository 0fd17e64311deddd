//! What upstream's manager has left: it is taken over as it is.

use kube::ResourceExt;
use kube::api::PostParams;
use metal3_api::{capi, ipam};
use metal3_testkit::namespace;
use rstest::rstest;
use serde_json::{Value, json};

use crate::support::Site;

/// Upstream's owner references have neither `controller` nor `blockOwnerDeletion`.
fn owners(pool: &ipam::IPPool, claim: &Value) -> Value {
    json!([
        {"apiVersion": "ipam.metal3.io/v1alpha1", "kind": "IPPool", "name": pool.name_any(), "uid": pool.uid()},
        claim,
    ])
}

// OWN 16i: what an earlier claim of the same name had left gave a claim on a pool of another namespace an address of this one.
#[rstest]
#[case::left_by_another("somebody", None)]
#[case::named_and_gone("nobody", Some("p-10-0-0-7"))]
#[tokio::test]
async fn a_claim_on_a_pool_elsewhere_gets_nothing_by_what_is_left_of_another(
    #[case] of_claim: &str,
    #[case] told: Option<&str>,
) {
    let site = Site::new(namespace!().await).await;
    let namespace = site.namespace.name.clone();
    let pools = json!({"pools": [{"start": "10.0.0.1", "end": "10.0.0.9"}], "prefix": 24});
    let pool = site.pool("p", pools).await;
    if of_claim == "somebody" {
        let owner =
            json!({"apiVersion": "ipam.metal3.io/v1alpha1", "kind": "IPClaim", "name": "m", "uid": "an-earlier-one"});
        let address = json!({
            "metadata": {"name": "p-10-0-0-3", "finalizers": ["ipaddress.ipam.metal3.io"], "ownerReferences": owners(&pool, &owner)},
            "spec": {
                "address": "10.0.0.3", "prefix": 24,
                "pool": {"name": "p", "namespace": namespace}, "claim": {"name": "m", "namespace": namespace},
            },
        });
        let address: ipam::IPAddress = serde_json::from_value(address).unwrap();
        site.namespace
            .api()
            .create(&PostParams::default(), &address)
            .await
            .unwrap();
    }
    site.claim_with("m", json!({"name": "p", "namespace": "elsewhere"}), json!({}))
        .await;
    if let Some(told) = told {
        let status = json!({"address": {"name": told, "namespace": namespace}});
        site.status::<ipam::IPClaim>("m", status).await;
    }
    let manager = site.manager().await;
    let error = "spec.pool.namespace: IPPool elsewhere/p is in another namespace; a claim is served from its own only";
    site.refused("m", error).await;
    site.settled().await;
    site.refused("m", error).await;
    manager.stop().await;
}

// OWN 16g: a claim whose pool reference names a namespace, which upstream ignores, was told that it has no address.
#[rstest]
#[case::as_it_should_be(json!({"name": "p"}))]
#[case::in_another_namespace_by_its_own_words(json!({"name": "p", "namespace": "elsewhere"}))]
#[tokio::test]
async fn what_upstreams_manager_gave_stays_as_it_is(#[case] of_pool: Value) {
    let site = Site::new(namespace!().await).await;
    let namespace = site.namespace.name.clone();
    let pool = site
        .pool(
            "p",
            json!({"pools": [{"start": "10.0.0.1", "end": "10.0.0.9"}], "prefix": 24}),
        )
        .await;
    let claim = site
        .claim_with("m", of_pool, json!({"finalizers": ["ipclaim.ipam.metal3.io"]}))
        .await;
    let reference = json!({"apiGroup": "ipam.metal3.io", "kind": "IPPool", "name": "p"});
    let finalizers = json!({"finalizers": ["ipam.metal3.io/ipaddressclaim"]});
    let capi_claim = site
        .capi_claim_with("k", reference.clone(), json!({}), finalizers)
        .await;

    let owner = json!({"apiVersion": "ipam.metal3.io/v1alpha1", "kind": "IPClaim", "name": "m", "uid": claim.uid()});
    let address = json!({
        "metadata": {"name": "p-10-0-0-3", "finalizers": ["ipaddress.ipam.metal3.io"], "ownerReferences": owners(&pool, &owner)},
        "spec": {
            "address": "10.0.0.3", "prefix": 24,
            "pool": {"name": "p", "namespace": namespace}, "claim": {"name": "m", "namespace": namespace},
        },
    });
    let address: ipam::IPAddress = serde_json::from_value(address).unwrap();
    let owner = json!({"apiVersion": "ipam.cluster.x-k8s.io/v1beta2", "kind": "IPAddressClaim", "name": "k", "uid": capi_claim.uid()});
    let capi_address = json!({
        "metadata": {"name": "p-10-0-0-1", "finalizers": ["ipam.metal3.io/ipaddress"], "ownerReferences": owners(&pool, &owner)},
        "spec": {"address": "10.0.0.1", "prefix": 24, "poolRef": reference, "claimRef": {"name": "k"}},
    });
    let capi_address: capi::IPAddress = serde_json::from_value(capi_address).unwrap();
    let post = PostParams::default();
    site.namespace.api().create(&post, &address).await.unwrap();
    site.namespace.api().create(&post, &capi_address).await.unwrap();
    site.status::<ipam::IPPool>(
        "p",
        json!({"lastUpdated": "2026-01-02T03:04:05Z", "indexes": {"m": "10.0.0.3", "k": "10.0.0.1"}}),
    )
    .await;
    site.status::<ipam::IPClaim>("m", json!({"address": {"name": "p-10-0-0-3", "namespace": namespace}}))
        .await;
    // D1: upstream could write the reference only, and no condition.
    site.status::<capi::IPAddressClaim>("k", json!({"addressRef": {"name": "p-10-0-0-1"}}))
        .await;
    let before: ipam::IPClaim = site.namespace.api().get("m").await.unwrap();
    let addresses = site.addresses().await;

    let manager = site.manager().await;
    assert_eq!(site.capi_served("k").await.spec.address, "10.0.0.1");
    // New claims get what is left, in order.
    site.claim("new", "p").await;
    site.capi_claim("new", "p").await;
    let mut new = [
        site.served("new").await.spec.address,
        site.capi_served("new").await.spec.address,
    ];
    new.sort();
    assert_eq!(new, ["10.0.0.2", "10.0.0.4"]);
    site.settled().await;
    let after: ipam::IPClaim = site.namespace.api().get("m").await.unwrap();
    assert_eq!(
        after.resource_version(),
        before.resource_version(),
        "nothing is written to it"
    );
    let kept = site.addresses().await;
    assert!(addresses.iter().all(|address| kept.contains(address)), "{kept:?}");
    let status = site
        .namespace
        .api::<ipam::IPPool>()
        .get("p")
        .await
        .unwrap()
        .status
        .unwrap();
    assert_eq!(status.usage.unwrap().used, 4);

    // And it goes as what we have given goes.
    site.delete::<ipam::IPClaim>("m").await;
    site.delete::<capi::IPAddressClaim>("k").await;
    site.namespace.expect_gone::<ipam::IPClaim>("m").await;
    site.namespace.expect_gone::<capi::IPAddressClaim>("k").await;
    assert_eq!(site.addresses().await.len(), 2);
    manager.stop().await;
}
