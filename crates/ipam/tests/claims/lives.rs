//! Pauses, kills, two managers at once: what happens to claims meanwhile.

use std::time::Duration;

use ip_address_manager::pool::Policy;
use kube::ResourceExt;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use metal3_api::{capi, ipam};
use metal3_testkit::namespace;
use serde_json::{Value, json};

use crate::support::{Site, small};

#[tokio::test]
async fn a_claim_that_somebody_uses_keeps_its_address() {
    let site = Site::new(namespace!().await).await;
    let manager = site.manager().await;
    site.pool("p", json!({"pools": small()})).await;
    site.claim_with("c", json!({"name": "p"}), json!({"finalizers": ["example.org/in-use"]}))
        .await;
    let address = site.served("c").await.spec.address;
    site.delete::<ipam::IPClaim>("c").await;
    site.claim("other", "p").await;
    assert_ne!(site.served("other").await.spec.address, address);
    site.settled().await;
    assert_eq!(site.addresses().await.len(), 2);
    let claim: ipam::IPClaim = site.namespace.api().get("c").await.unwrap();
    let kept: Vec<&String> = claim
        .finalizers()
        .iter()
        .filter(|f| *f != "example.org/in-use")
        .collect();
    site.patch::<ipam::IPClaim>("c", json!({"metadata": {"finalizers": kept}}))
        .await;
    site.namespace.expect_gone::<ipam::IPClaim>("c").await;
    assert_eq!(site.addresses().await.len(), 1);
    manager.stop().await;
}

#[tokio::test]
async fn pauses() {
    let site = Site::new(namespace!().await).await;
    let manager = site.manager().await;
    // D8: the pool waits for a Cluster that is not there yet, and goes on when it comes.
    site.pool("p", json!({"pools": small(), "clusterName": "cl"})).await;
    site.claim("c", "p").await;
    let labelled = |pool: &ipam::IPPool| {
        let has = |label: &str, value: &str| pool.labels().get(label).map(String::as_str) == Some(value);
        has("cluster.x-k8s.io/cluster-name", "cl") && has("cluster.x-k8s.io/provider", "ipam-metal3")
    };
    site.namespace.expect("p", "is labelled", labelled).await;
    let namespace = &site.namespace.name;
    let message = format!("spec.clusterName: Cluster {namespace}/cl does not exist; the pool waits for it");
    let waits = move |pool: &ipam::IPPool| {
        let mut conditions = pool.status.iter().flat_map(|status| &status.conditions);
        conditions.any(|c| c.type_ == "Ready" && c.reason == "ClusterNotFound" && c.message == message)
    };
    site.namespace.expect("p", "says what it waits for", waits).await;
    let message = format!("IPPool {namespace}/p waits for its Cluster {namespace}/cl, which does not exist");
    assert_eq!(site.waits("c").await.message, message);
    site.settled().await;
    assert_eq!(site.addresses().await, []);
    let before = site.settled().await;
    site.cluster("cl", true).await;
    assert_eq!(site.settled().await, before, "a pause alone is no work");
    assert_eq!(site.addresses().await, [], "paused");
    site.cluster("cl", false).await;
    site.served("c").await;
    // Nothing is written while it is paused, whatever happens: its objects may be on their way to another API server.
    site.claim("short", "p").await;
    site.served("short").await;
    let before = site.settled().await;
    site.cluster("cl", true).await;
    // Known to the manager before anything else happens: there is no other sign of it than that nothing follows.
    site.settled().await;
    site.delete::<ipam::IPClaim>("short").await;
    let more = json!([{"start": "10.0.0.1", "end": "10.0.0.60"}]);
    site.patch::<ipam::IPPool>("p", json!({"spec": {"pools": more}})).await;
    site.claim("late", "p").await;
    site.settled().await;
    let since: Vec<_> = site.requests().split_off(before);
    assert!(since.is_empty(), "while its Cluster is paused: {since:?}");
    site.cluster("cl", false).await;
    site.namespace.expect_gone::<ipam::IPClaim>("short").await;
    site.served("late").await;
    let pool: ipam::IPPool = site.namespace.api().get("p").await.unwrap();
    let owner = &pool.owner_references()[0];
    assert_eq!(
        (owner.kind.as_str(), owner.name.as_str(), owner.controller),
        ("Cluster", "cl", Some(false))
    );
    // D14: what points to the Cluster of another time, or through a version that is gone, is put right.
    let mut stale = owner.clone();
    stale.api_version = "cluster.x-k8s.io/v1alpha4".to_owned();
    stale.uid = "of-another-time".to_owned();
    site.patch::<ipam::IPPool>("p", json!({"metadata": {"ownerReferences": [stale]}}))
        .await;
    let current = [owner.clone()];
    let has_current = move |pool: &ipam::IPPool| pool.owner_references() == current;
    site.namespace.expect("p", "names its Cluster again", has_current).await;

    // D9: the annotation alone is enough, on a pool and on a claim.
    let paused = |on: bool| json!({"metadata": {"annotations": {"cluster.x-k8s.io/paused": if on { json!("") } else { Value::Null }}}});
    site.pool("free", json!({"pools": small(), "namePrefix": "free"})).await;
    site.patch::<ipam::IPPool>("free", paused(true)).await;
    site.settled().await;
    site.claim("of-paused", "free").await;
    let said = site.waits("of-paused").await.message;
    let expected = format!(
        "IPPool {namespace}/free is paused by its annotation cluster.x-k8s.io/paused; the claim waits until that is removed"
    );
    assert_eq!(said, expected);
    site.settled().await;
    let claim: ipam::IPClaim = site.namespace.api().get("of-paused").await.unwrap();
    assert_eq!((claim.finalizers().len(), claim.status.unwrap().address), (0, None));
    site.patch::<ipam::IPPool>("free", paused(false)).await;
    site.served("of-paused").await;
    site.claim_with(
        "paused-claim",
        json!({"name": "free"}),
        json!({"annotations": {"cluster.x-k8s.io/paused": "true"}}),
    )
    .await;
    site.claim("after-it", "free").await;
    site.served("after-it").await;
    site.settled().await;
    let claim: ipam::IPClaim = site.namespace.api().get("paused-claim").await.unwrap();
    assert_eq!(claim.status, None);
    site.patch::<ipam::IPClaim>("paused-claim", paused(false)).await;
    site.served("paused-claim").await;

    // A Cluster API claim names its Cluster itself.
    let reference = json!({"apiGroup": "ipam.metal3.io", "kind": "IPPool", "name": "free"});
    site.capi_claim_with("of-cluster", reference, json!({"clusterName": "other"}), json!({}))
        .await;
    let said = site.capi_refused("of-cluster", "ClusterNotFound").await;
    let message = format!("spec.clusterName: Cluster {namespace}/other does not exist; the claim waits for it");
    assert_eq!(said.message, message);
    site.cluster("other", false).await;
    site.capi_served("of-cluster").await;
    manager.stop().await;
}

#[tokio::test]
async fn managers_that_are_killed_leave_nothing_behind_and_nothing_twice() {
    let site = Site::new(namespace!().await).await;
    site.pool("p", json!({"pools": [{"start": "10.0.0.1", "end": "10.0.3.0"}]}))
        .await;
    for n in 0..60 {
        site.claim(&format!("c{n}"), "p").await;
        site.capi_claim(&format!("c{n}"), "p").await;
    }
    // Each dies after some more requests: in the middle of everything.
    for deaths in 1..8 {
        let manager = site.manager().await;
        let enough = site.requests().len() + 10 * deaths;
        site.until("the manager works", || async {
            let made = site.requests().len();
            if made >= enough || site.addresses().await.len() == 120 {
                Ok(())
            } else {
                Err(made.to_string())
            }
        })
        .await;
        manager.kill().await;
    }
    let manager = site.manager().await;
    for n in 0..60 {
        site.served(&format!("c{n}")).await;
        site.capi_served(&format!("c{n}")).await;
    }
    let addresses = site.addresses().await;
    let distinct: std::collections::BTreeSet<_> = addresses.iter().map(|a| &a.3).collect();
    assert_eq!((addresses.len(), distinct.len()), (120, 120));
    // And the same on the way out.
    for n in 0..60 {
        site.delete::<ipam::IPClaim>(&format!("c{n}")).await;
        site.delete::<capi::IPAddressClaim>(&format!("c{n}")).await;
    }
    manager.kill().await;
    for deaths in 1..5 {
        let manager = site.manager().await;
        let enough = site.requests().len() + 20 * deaths;
        site.until("the manager works", || async {
            let made = site.requests().len();
            if made >= enough || site.addresses().await.is_empty() {
                Ok(())
            } else {
                Err(made.to_string())
            }
        })
        .await;
        manager.kill().await;
    }
    let manager = site.manager().await;
    for n in 0..60 {
        site.namespace.expect_gone::<ipam::IPClaim>(&format!("c{n}")).await;
        site.namespace
            .expect_gone::<capi::IPAddressClaim>(&format!("c{n}"))
            .await;
    }
    assert_eq!(site.addresses().await, []);
    site.indexes("p", &[]).await;
    manager.stop().await;
}

#[tokio::test]
async fn two_managers_at_once_give_no_address_twice() {
    let site = Site::new(namespace!().await).await;
    let managers = [site.manager().await, site.manager().await];
    site.pool("p", json!({"pools": [{"start": "10.0.0.1", "end": "10.0.0.60"}]}))
        .await;
    for n in 0..30 {
        site.claim(&format!("c{n}"), "p").await;
        site.capi_claim(&format!("c{n}"), "p").await;
    }
    let mut all = std::collections::BTreeSet::new();
    for n in 0..30 {
        assert!(all.insert(site.served(&format!("c{n}")).await.spec.address));
        assert!(all.insert(site.capi_served(&format!("c{n}")).await.spec.address));
    }
    assert_eq!(site.addresses().await.len(), 60, "nothing is left over");
    for n in 0..30 {
        site.delete::<ipam::IPClaim>(&format!("c{n}")).await;
        site.namespace.expect_gone::<ipam::IPClaim>(&format!("c{n}")).await;
    }
    site.until("only the other family has addresses", || async {
        let left = site.addresses().await;
        if left.len() == 30 {
            Ok(())
        } else {
            Err(left.len().to_string())
        }
    })
    .await;
    for manager in managers {
        manager.stop().await;
    }
}

#[tokio::test]
async fn a_claim_keeps_its_address_and_its_pool() {
    let site = Site::new(namespace!().await).await;
    let policy = Policy {
        orphan_grace: Duration::from_secs(1),
        ..Policy::default()
    };
    let manager = site.manager_with("", policy).await;
    for (pool, address) in [("first", "10.0.0.1"), ("second", "10.0.1.1")] {
        site.pool(pool, json!({"pools": [{"start": address, "end": address}]}))
            .await;
    }
    site.claim("c", "first").await;
    site.served("c").await;
    let other = Patch::Merge(json!({"spec": {"pool": {"name": "second"}}}));
    let claims = site.namespace.api::<ipam::IPClaim>();
    let refused = claims.patch("c", &PatchParams::default(), &other).await.unwrap_err();
    assert!(refused.to_string().contains("spec.pool.name"), "{refused}");
    assert_eq!(site.served("c").await.spec.address, "10.0.0.1");
    site.claim("d", "second").await;
    assert_eq!(
        site.served("d").await.spec.address,
        "10.0.1.1",
        "nothing is kept for it"
    );
    site.delete::<ipam::IPClaim>("c").await;
    site.namespace.expect_gone::<ipam::IPClaim>("c").await;
    site.claim("e", "first").await;
    assert_eq!(site.served("e").await.spec.address, "10.0.0.1", "nothing is left of it");
    manager.stop().await;
}

#[tokio::test]
async fn orphans_are_removed_and_what_was_made_by_hand_stays() {
    let site = Site::new(namespace!().await).await;
    let policy = Policy {
        orphan_grace: Duration::from_secs(1),
        ..Policy::default()
    };
    let manager = site.manager_with("", policy).await;
    site.pool("p", json!({"pools": small()})).await;
    // By hand, for a claim to come; in a spelling of its own.
    let by_hand = json!({"metadata": {"name": "p-10-0-0-1"}, "spec": {"address": "10.0.0.1", "pool": {"name": "p"}, "claim": {"name": "future"}}});
    let by_hand: ipam::IPAddress = serde_json::from_value(by_hand).unwrap();
    site.namespace
        .api()
        .create(&PostParams::default(), &by_hand)
        .await
        .unwrap();
    site.claim("c", "p").await;
    assert_eq!(site.served("c").await.spec.address, "10.0.0.2");
    // D6: a claim that vanishes without being released takes its address along in the end.
    site.patch::<ipam::IPClaim>("c", json!({"metadata": {"finalizers": null}}))
        .await;
    let api = site.namespace.api::<ipam::IPClaim>();
    api.delete("c", &DeleteParams::default()).await.unwrap();
    let bare: Patch<Value> = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    api.patch("c", &PatchParams::default(), &bare).await.ok();
    site.namespace.expect_gone::<ipam::IPClaim>("c").await;
    site.until("the orphan is gone", || async {
        let left = site.addresses().await;
        if left.len() == 1 {
            Ok(())
        } else {
            Err(format!("{left:?}"))
        }
    })
    .await;
    site.claim("future", "p").await;
    assert_eq!(site.served("future").await.spec.address, "10.0.0.1");
    // Taken away by force under a live claim: made again, with the same address.
    site.patch::<ipam::IPAddress>("p-10-0-0-1", json!({"metadata": {"finalizers": null}}))
        .await;
    site.delete::<ipam::IPAddress>("p-10-0-0-1").await;
    site.until("the address is there again", || async {
        let all = site.addresses().await;
        if all.iter().any(|a| a.3 == "10.0.0.1" && a.2 == "future") {
            Ok(())
        } else {
            Err(format!("{all:?}"))
        }
    })
    .await;
    manager.stop().await;
}
