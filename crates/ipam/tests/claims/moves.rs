//! Moves to another API server, and every status lost.

use std::collections::BTreeMap;

use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use metal3_api::{capi, ipam};
use metal3_testkit::namespace;
use serde_json::{Value, json};

use crate::support::{Kind, Site, small};

/// What clusterctl does: pause, export, apply without status and with new owner UIDs, delete, unpause.
#[tokio::test]
async fn a_move_there_and_back_changes_no_address() {
    let here = Site::new(namespace!().await).await;
    let there = Site::new(metal3_testkit::TestNamespace::new("move-there").await).await;
    let (first, second) = (here.manager().await, there.manager().await);
    here.cluster("cl", false).await;
    here.pool(
        "p",
        json!({"pools": small(), "clusterName": "cl", "preAllocations": {"c3": "10.0.0.40"}}),
    )
    .await;
    for n in 0..6 {
        here.claim(&format!("c{n}"), "p").await;
        here.capi_claim(&format!("c{n}"), "p").await;
    }
    for n in [0, 1, 2, 4, 5] {
        here.served(&format!("c{n}")).await;
        here.capi_served(&format!("c{n}")).await;
    }
    // One of the two that want the reserved address has it.
    here.until("the reserved address is given", || async {
        let all = here.addresses().await;
        if all.iter().any(|a| a.3 == "10.0.0.40") && all.len() == 11 {
            Ok(())
        } else {
            Err(format!("{all:?}"))
        }
    })
    .await;
    here.settled().await;
    let before = here.addresses().await;
    transfer(&here, &there).await;
    let moved = |site: &Site, before: &Vec<(&'static str, String, String, String)>| {
        let (site_name, before) = (site.namespace.name.clone(), before.clone());
        move |now: Vec<(&'static str, String, String, String)>| {
            if now == before {
                Ok(())
            } else {
                Err(format!("{site_name}: {now:?}"))
            }
        }
    };
    for n in [0, 1, 2, 4, 5] {
        there.served(&format!("c{n}")).await;
        there.capi_served(&format!("c{n}")).await;
    }
    there.settled().await;
    moved(&there, &before)(there.addresses().await).unwrap();
    assert_eq!(here.addresses().await, []);
    // New claims do not get what was moved.
    there.claim("new", "p").await;
    let new = there.served("new").await;
    assert!(before.iter().all(|a| a.3 != new.spec.address));
    there.delete::<ipam::IPClaim>("new").await;
    there.namespace.expect_gone::<ipam::IPClaim>("new").await;
    there.settled().await;
    transfer(&there, &here).await;
    for n in [0, 1, 2, 4, 5] {
        here.served(&format!("c{n}")).await;
        here.capi_served(&format!("c{n}")).await;
    }
    here.settled().await;
    moved(&here, &before)(here.addresses().await).unwrap();
    first.stop().await;
    second.stop().await;
}

/// Moves the Cluster `cl` with all that belongs to it.
async fn transfer(from: &Site, to: &Site) {
    from.cluster("cl", true).await;
    to.cluster("cl", true).await;
    from.settled().await;
    let mut uids = BTreeMap::new();
    let cluster = |site: &Site| site.namespace.api::<capi::Cluster>();
    uids.insert(
        cluster(from).get("cl").await.unwrap().uid(),
        cluster(to).get("cl").await.unwrap().uid(),
    );
    carry::<ipam::IPPool>(from, to, &mut uids).await;
    carry::<ipam::IPClaim>(from, to, &mut uids).await;
    carry::<capi::IPAddressClaim>(from, to, &mut uids).await;
    carry::<ipam::IPAddress>(from, to, &mut uids).await;
    carry::<capi::IPAddress>(from, to, &mut uids).await;
    remove::<capi::IPAddress>(from).await;
    remove::<ipam::IPAddress>(from).await;
    remove::<capi::IPAddressClaim>(from).await;
    remove::<ipam::IPClaim>(from).await;
    remove::<ipam::IPPool>(from).await;
    cluster(from).delete("cl", &DeleteParams::default()).await.unwrap();
    to.cluster("cl", false).await;
}

async fn carry<K: Kind>(from: &Site, to: &Site, uids: &mut BTreeMap<Option<String>, Option<String>>) {
    for object in from.namespace.api::<K>().list(&ListParams::default()).await.unwrap() {
        let mut copy = object.clone();
        let meta = copy.meta_mut();
        meta.namespace = Some(to.namespace.name.clone());
        (
            meta.uid,
            meta.resource_version,
            meta.creation_timestamp,
            meta.managed_fields,
        ) = (None, None, None, None);
        for owner in meta.owner_references.iter_mut().flatten() {
            owner.uid = uids.get(&Some(owner.uid.clone())).cloned().flatten().unwrap();
        }
        let text = serde_json::to_string(&copy)
            .unwrap()
            .replace(&from.namespace.name, &to.namespace.name);
        let copy: K = serde_json::from_str(&text).unwrap();
        let made = to
            .namespace
            .api::<K>()
            .create(&PostParams::default(), &copy)
            .await
            .unwrap();
        uids.insert(object.uid(), made.uid());
    }
}

/// As clusterctl removes what it has moved: without finalizers.
async fn remove<K: Kind>(site: &Site) {
    let api = site.namespace.api::<K>();
    for object in api.list(&ListParams::default()).await.unwrap() {
        let name = object.name_any();
        let bare: Patch<Value> = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        api.patch(&name, &PatchParams::default(), &bare).await.unwrap();
        api.delete(&name, &DeleteParams::default()).await.unwrap();
    }
}

#[tokio::test]
async fn the_same_addresses_after_every_status_is_wiped() {
    let site = Site::new(namespace!().await).await;
    let manager = site.manager().await;
    site.pool("p", json!({"pools": small(), "allocationStrategy": "random"}))
        .await;
    for n in 0..8 {
        site.claim(&format!("m{n}"), "p").await;
        site.capi_claim(&format!("k{n}"), "p").await;
    }
    for n in 0..8 {
        site.served(&format!("m{n}")).await;
        site.capi_served(&format!("k{n}")).await;
    }
    site.settled().await;
    let before = site.addresses().await;
    for round in 0..2 {
        site.wipe::<ipam::IPPool>("p").await;
        for n in 0..8 {
            site.wipe::<ipam::IPClaim>(&format!("m{n}")).await;
            site.wipe::<capi::IPAddressClaim>(&format!("k{n}")).await;
        }
        for n in 0..8 {
            site.served(&format!("m{n}")).await;
            site.capi_served(&format!("k{n}")).await;
        }
        let mut shown: Vec<(&str, &str)> = before.iter().map(|a| (a.2.as_str(), a.3.as_str())).collect();
        shown.sort_unstable();
        site.indexes("p", &shown).await;
        assert_eq!(site.addresses().await, before, "round {round}");
    }
    manager.stop().await;
}
