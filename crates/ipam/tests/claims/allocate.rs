//! Claims that are served, and refused ones.

use std::collections::BTreeSet;

use kube::ResourceExt;
use metal3_api::{capi, ipam};
use metal3_testkit::namespace;
use serde_json::json;

use crate::support::Site;

#[tokio::test]
async fn a_claim_gets_an_address_and_gives_it_back() {
    let site = Site::new(namespace!().await).await;
    let manager = site.manager().await;
    let entry = json!({"start": "192.168.0.10", "end": "192.168.0.20", "gateway": "192.168.0.1"});
    let spec = json!({"namePrefix": "test1-prov", "pools": [entry], "prefix": 24, "dnsServers": ["8.8.8.8"]});
    let pool = site.pool("prov", spec).await;
    let claim = site
        .claim_with("c", json!({"name": "prov"}), json!({"labels": {"color": "blue"}}))
        .await;
    let address = site.served("c").await;
    assert_eq!(address.name_any(), "test1-prov-192-168-0-10");
    assert_eq!(address.finalizers(), ["ipaddress.ipam.metal3.io"]);
    assert_eq!(address.labels().get("color").map(String::as_str), Some("blue"));
    let owners: Vec<_> = address
        .owner_references()
        .iter()
        .map(|o| (o.kind.as_str(), o.uid.clone(), o.controller, o.block_owner_deletion))
        .collect();
    assert_eq!(
        owners,
        [
            ("IPPool", pool.uid().unwrap(), None, None),
            ("IPClaim", claim.uid().unwrap(), None, None)
        ]
    );
    let spec = &address.spec;
    assert_eq!(
        (spec.address.as_str(), spec.prefix, spec.gateway.as_str()),
        ("192.168.0.10", 24, "192.168.0.1")
    );
    assert_eq!((spec.pool.name.as_str(), spec.claim.name.as_str()), ("prov", "c"));
    assert_eq!(spec.dns_servers, ["8.8.8.8"]);
    let claim: ipam::IPClaim = site.namespace.api().get("c").await.unwrap();
    assert_eq!(claim.finalizers(), ["ipclaim.ipam.metal3.io"]);
    let pool = site.indexes("prov", &[("c", "192.168.0.10")]).await;
    let status = pool.status.clone().unwrap();
    assert!(status.last_updated.is_some());
    let usage = status.usage.unwrap();
    assert_eq!((usage.size, usage.used, usage.free, usage.waiting), (11, 1, 10, 0));
    site.namespace.expect_event("c", "AddressAllocated").await;
    assert_eq!(pool.finalizers(), ["ippool.ipam.metal3.io"]);
    let figures = [("size", 11), ("used", 1), ("reserved", 0), ("free", 10)];
    for (state, figure) in figures {
        let pool = format!("namespace=\"{}\",pool=\"prov\"", site.namespace.name);
        let line = format!("metal3_ippool_addresses{{{pool},state=\"{state}\"}} {figure}");
        manager.shows(&line).await;
    }

    // The pool cannot go while an address is in use; unused reservations do not keep it.
    let edit = json!({"spec": {"preAllocations": {"later": "192.168.0.12"}, "prefix": 25, "dnsServers": ["9.9.9.9"]}});
    site.patch::<ipam::IPPool>("prov", edit).await;
    site.delete::<ipam::IPPool>("prov").await;
    site.claim("late", "prov").await;
    let late = site.served("late").await.spec;
    assert_eq!(late.address, "192.168.0.11", "still served while the pool terminates");
    // D17: what is given out stays as it is, only new addresses follow the pool.
    assert_eq!((late.prefix, &late.dns_servers[..]), (25, &["9.9.9.9".to_owned()][..]));
    let kept: ipam::IPAddress = site.namespace.api().get(&address.name_any()).await.unwrap();
    assert_eq!(kept.spec, address.spec);
    for name in ["c", "late"] {
        site.delete::<ipam::IPClaim>(name).await;
        site.namespace.expect_gone::<ipam::IPClaim>(name).await;
        site.namespace.expect_event(name, "AddressReleased").await;
    }
    site.namespace.expect_gone::<ipam::IPPool>("prov").await;
    assert_eq!(site.addresses().await, []);
    let conflicts = site.requests().iter().filter(|r| r.status == 409).count();
    assert_eq!(conflicts, 0, "none of our own making");
    assert_eq!(site.requests().iter().filter(|r| r.status == 403).count(), 0, "rights");
    manager.stop().await;
}

#[tokio::test]
async fn both_families_share_a_pool_and_never_an_address_even_under_equal_names() {
    let site = Site::new(namespace!().await).await;
    let manager = site.manager().await;
    let entry = json!({"start": "10.0.0.1", "end": "10.0.0.40"});
    let pool = site
        .pool("p", json!({"pools": [entry], "prefix": 24, "gateway": "10.0.0.254"}))
        .await;
    for n in 0..10 {
        let name = format!("same-{n}");
        let (a, b) = tokio::join!(site.claim(&name, "p"), site.capi_claim(&name, "p"));
        assert_eq!(a.name_any(), b.name_any());
    }
    let claim: capi::IPAddressClaim = site.namespace.api().get("same-0").await.unwrap();
    let address = site.capi_served("same-0").await;
    let reference = &address.spec.pool_ref;
    assert_eq!(
        (
            reference.api_group.as_str(),
            reference.kind.as_str(),
            reference.name.as_str()
        ),
        ("ipam.metal3.io", "IPPool", "p")
    );
    assert_eq!((address.spec.prefix, address.spec.gateway.as_str()), (24, "10.0.0.254"));
    assert_eq!(address.finalizers(), ["ipam.metal3.io/ipaddress"]);
    let owners: Vec<_> = address
        .owner_references()
        .iter()
        .map(|o| (o.kind.as_str(), o.uid.clone(), o.controller, o.block_owner_deletion))
        .collect();
    assert_eq!(
        owners,
        [
            ("IPPool", pool.uid().unwrap(), Some(false), Some(true)),
            ("IPAddressClaim", claim.uid().unwrap(), Some(true), Some(true))
        ],
        "Cluster API's contract"
    );
    let mut all = BTreeSet::new();
    let mut shown = Vec::new();
    for n in 0..10 {
        let name = format!("same-{n}");
        let metal3 = site.served(&name).await.spec.address;
        assert!(all.insert(metal3.clone()), "D2: {metal3} twice");
        let other = site.capi_served(&name).await.spec.address;
        assert!(all.insert(other.clone()), "D2: {other} twice");
        shown.push((name, metal3));
    }
    // D1: there is a reason. D3: of two claims of one name, the pool shows Metal3's.
    let claim: capi::IPAddressClaim = site.namespace.api().get("same-3").await.unwrap();
    assert_eq!(claim.status.unwrap().conditions[0].reason, "Ready");
    let shown: Vec<(&str, &str)> = shown.iter().map(|(n, a)| (n.as_str(), a.as_str())).collect();
    site.indexes("p", &shown).await;
    site.delete::<ipam::IPClaim>("same-3").await;
    site.namespace.expect_gone::<ipam::IPClaim>("same-3").await;
    let left = site.capi_served("same-3").await.spec.address;
    let mut shown = shown;
    shown[3] = ("same-3", &left);
    site.indexes("p", &shown).await;
    // An address that lost its owners gets them back.
    let address = site.capi_served("same-0").await;
    site.patch::<capi::IPAddress>(&address.name_any(), json!({"metadata": {"ownerReferences": null}}))
        .await;
    let owners = address.owner_references().to_vec();
    let is_owned = move |now: &capi::IPAddress| now.owner_references() == owners;
    site.namespace
        .expect(&address.name_any(), "has its owners again", is_owned)
        .await;
    for n in 0..10 {
        site.delete::<capi::IPAddressClaim>(&format!("same-{n}")).await;
        site.namespace
            .expect_gone::<capi::IPAddressClaim>(&format!("same-{n}"))
            .await;
    }
    assert_eq!(site.addresses().await.len(), 9);
    assert_eq!(
        site.requests()
            .iter()
            .filter(|r| [409, 403, 422].contains(&r.status))
            .count(),
        0
    );
    manager.stop().await;
}

#[tokio::test]
async fn exhausted_claims_are_served_oldest_first_and_the_second_entry_follows_the_first() {
    let site = Site::new(namespace!().await).await;
    let manager = site.manager().await;
    let first = json!({"start": "10.0.0.1", "end": "10.0.0.1", "prefix": 25, "gateway": "10.0.0.126", "dnsServers": ["9.9.9.9"]});
    let second = json!({"start": "10.0.1.1", "end": "10.0.1.1"});
    let spec =
        json!({"pools": [first, second], "prefix": 24, "gateway": "10.0.1.254", "dnsServers": ["8.8.8.8", "8.8.4.4"]});
    site.pool("p", spec).await;
    site.claim("a", "p").await;
    let a = site.served("a").await.spec;
    assert_eq!(
        (a.prefix, a.gateway.as_str(), a.dns_servers),
        (25, "10.0.0.126", vec!["9.9.9.9".to_owned()])
    );
    site.claim("b", "p").await;
    let b = site.served("b").await.spec;
    assert_eq!(
        (b.address.as_str(), b.prefix, b.gateway.as_str(), b.dns_servers.len()),
        ("10.0.1.1", 24, "10.0.1.254", 2)
    );
    site.claim("z-older", "p").await;
    let said = site.refused("z-older", "Exhausted IP Pools").await;
    assert_eq!(said.reason, "PoolExhausted");
    assert_eq!(
        said.message,
        format!(
            "IPPool {}/p: waits for an address: all are in use or kept for other claims",
            site.namespace.name
        )
    );
    site.namespace.expect_event("z-older", "PoolExhausted").await;
    // The order of claims is by their second of creation.
    let made = site
        .namespace
        .api::<ipam::IPClaim>()
        .get("z-older")
        .await
        .unwrap()
        .creation_timestamp()
        .unwrap();
    let younger = site.until("a second passes", || async {
        let name = format!("probe-{}", Site::unique());
        let probe = site.claim(&name, "missing-pool").await;
        if probe.creation_timestamp().unwrap().0 > made.0 {
            Ok(())
        } else {
            Err(name)
        }
    });
    younger.await;
    site.capi_claim("a-younger", "p").await;
    site.capi_refused("a-younger", "PoolExhausted").await;
    let waiting = |pool: &ipam::IPPool| {
        let usage = pool.status.as_ref().and_then(|s| s.usage);
        usage.is_some_and(|u| u.waiting == 2 && u.free == 0)
    };
    let pool: ipam::IPPool = site.namespace.expect("p", "shows two waiting claims", waiting).await;
    let ready = pool
        .status
        .unwrap()
        .conditions
        .into_iter()
        .find(|c| c.type_ == "Ready")
        .unwrap();
    assert_eq!(
        (ready.status.as_str(), ready.reason.as_str()),
        ("False", "PoolExhausted")
    );
    let pool = format!("namespace=\"{}\",pool=\"p\"", site.namespace.name);
    manager
        .shows(&format!("metal3_ippool_claims_waiting{{{pool}}} 2"))
        .await;
    manager
        .shows("metal3_ipam_claims_total{reason=\"AddressAllocated\"} 2")
        .await;
    // D16: a failure lasts no longer than its cause, be it that an address is freed ...
    site.delete::<ipam::IPClaim>("b").await;
    assert_eq!(site.served("z-older").await.spec.address, "10.0.1.1");
    let still: capi::IPAddressClaim = site.namespace.api().get("a-younger").await.unwrap();
    assert!(still.status.unwrap().address_ref.is_none());
    // ... or that there is more room.
    let entries = json!([{"start": "10.0.0.1", "end": "10.0.0.1"}, {"start": "10.0.1.1", "end": "10.0.1.2"}]);
    site.patch::<ipam::IPPool>("p", json!({"spec": {"pools": entries}}))
        .await;
    assert_eq!(site.capi_served("a-younger").await.spec.address, "10.0.1.2");
    manager.stop().await;
}

#[tokio::test]
async fn a_random_pool_gives_each_address_once_and_the_last_one_too() {
    let site = Site::new(namespace!().await).await;
    let manager = site.manager().await;
    let entry = json!({"start": "10.9.0.1", "end": "10.9.0.12"});
    site.pool("p", json!({"pools": [entry], "allocationStrategy": "random"}))
        .await;
    for n in 0..12 {
        site.claim(&format!("c{n}"), "p").await;
    }
    let mut all = BTreeSet::new();
    for n in 0..12 {
        all.insert(site.served(&format!("c{n}")).await.spec.address);
    }
    assert_eq!(all.len(), 12);
    site.claim("one-more", "p").await;
    site.refused("one-more", "Exhausted IP Pools").await;
    // D7: one object for each claim, and no more.
    assert_eq!(site.addresses().await.len(), 12);
    manager.stop().await;
}
