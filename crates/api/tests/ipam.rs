//! Pools, claims and addresses as Go clients write them, and what we write ourselves.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helper functions too"
)]

use metal3_api::ipam::*;
use metal3_api::reference::ObjectReference;
use rstest::rstest;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

fn rewrite<K: DeserializeOwned + Serialize>(object: &Value) -> Value {
    let read: K = serde_json::from_value(object.clone()).unwrap_or_else(|error| panic!("{error}: {object:#}"));
    serde_json::to_value(read).unwrap()
}

fn object(kind: &str, mut body: Value) -> Value {
    body["apiVersion"] = json!("ipam.metal3.io/v1alpha1");
    body["kind"] = json!(kind);
    body["metadata"] = json!({ "name": "a", "namespace": "n" });
    body
}

#[test]
fn a_full_pool_comes_through_as_it_was() {
    let pool = object(
        "IPPool",
        json!({
            "spec": {
                "clusterName": "c",
                "pools": [{
                    "start": "192.0.2.10", "end": "192.0.2.30", "subnet": "192.0.2.0/24", "prefix": 24,
                    "gateway": "192.0.2.1", "dnsServers": ["192.0.2.2"],
                }, { "subnet": "2001:DB8::/64" }],
                "preAllocations": { "host-0": "192.0.2.20", "": "2001:DB8::1" },
                "prefix": 26,
                "gateway": "192.0.2.3",
                "dnsServers": ["192.0.2.53", "2001:db8::53"],
                "namePrefix": "lab",
                "allocationStrategy": "random",
            },
            "status": {
                "lastUpdated": "2026-01-02T03:04:05Z",
                "indexes": { "host-0": "192.0.2.20" },
                "usage": { "size": 21, "used": 1, "reserved": 0, "free": 20, "waiting": 0 },
                "conditions": [{
                    "type": "Ready", "status": "True", "reason": "Ready", "message": "",
                    "lastTransitionTime": "2026-01-02T03:04:05Z",
                }],
            },
        }),
    );
    assert_eq!(rewrite::<IPPool>(&pool), pool);
    let pool: IPPool = serde_json::from_value(pool).unwrap();
    assert_eq!(pool.spec.allocation_strategy, AllocationStrategy::Random);
    assert_eq!(pool.status.unwrap().allocations["host-0"], "192.0.2.20");
}

#[test]
fn a_go_pool_with_nothing_set_reads_as_defaults() {
    let pool = object("IPPool", json!({ "spec": { "namePrefix": "p" }, "status": {} }));
    let read: IPPool = serde_json::from_value(pool).unwrap();
    let spec = IPPoolSpec {
        name_prefix: "p".to_owned(),
        ..Default::default()
    };
    assert_eq!((read.spec, read.status), (spec, Some(IPPoolStatus::default())));
}

/// A claim's error is sticky, so an empty one must not turn into none.
#[test]
fn an_empty_error_message_is_not_an_absent_one() {
    let claim = object(
        "IPClaim",
        json!({ "spec": { "pool": { "name": "p" } }, "status": { "errorMessage": "" } }),
    );
    assert_eq!(rewrite::<IPClaim>(&claim), claim);
}

#[test]
fn objects_without_spec_can_be_read() {
    let read: IPPool = serde_json::from_value(object("IPPool", json!({}))).unwrap();
    assert_eq!((read.spec, read.status), (IPPoolSpec::default(), None));
    let read: IPClaim = serde_json::from_value(object("IPClaim", json!({}))).unwrap();
    assert_eq!(read.spec, IPClaimSpec::default());
    let read: IPAddress = serde_json::from_value(object("IPAddress", json!({}))).unwrap();
    assert_eq!(read.spec, IPAddressSpec::default());
}

/// What a default writes is what is required, what has a default in the schema, and no null.
#[test]
fn defaults_write_what_is_required() {
    let expected = json!({ "namePrefix": "", "allocationStrategy": "sequential" });
    assert_eq!(serde_json::to_value(IPPool::default()).unwrap()["spec"], expected);
    assert_eq!(serde_json::to_value(IPPoolStatus::default()).unwrap(), json!({}));
    assert_eq!(
        serde_json::to_value(IPClaim::default()).unwrap()["spec"],
        json!({ "pool": {} })
    );
    assert_eq!(serde_json::to_value(IPClaimStatus::default()).unwrap(), json!({}));
    let expected = json!({ "address": "", "claim": {}, "pool": {} });
    assert_eq!(serde_json::to_value(IPAddress::default()).unwrap()["spec"], expected);
    let claim = IPClaimStatus {
        address: Some(ObjectReference::default()),
        ..Default::default()
    };
    assert_eq!(serde_json::to_value(claim).unwrap(), json!({ "address": {} }));
}

#[test]
fn an_unknown_strategy_survives_and_stops_nothing() {
    let pool = object(
        "IPPool",
        json!({ "spec": { "namePrefix": "p", "allocationStrategy": "highest" } }),
    );
    assert_eq!(rewrite::<IPPool>(&pool), pool);
}

#[rstest]
#[case::pool("IPPool", &["ipp", "ippool", "m3ipp", "m3ippool", "m3ippools", "metal3ipp", "metal3ippool", "metal3ippools"], "cluster-api")]
#[case::claim("IPClaim", &["ipc", "ipclaim", "m3ipc", "m3ipclaim", "m3ipclaims", "metal3ipc", "metal3ipclaim", "metal3ipclaims"], "cluster-api")]
#[case::address("IPAddress", &["ipa", "ipaddress", "m3ipa", "m3ipaddress", "m3ipaddresses", "metal3ipa", "metal3ipaddress", "metal3ipaddresses"], "metal3")]
fn names_and_labels(#[case] kind: &str, #[case] short: &[&str], #[case] category: &str) {
    let crds = metal3_api::crd::all().unwrap();
    let crd = crds
        .iter()
        .find(|crd| crd.name().ends_with(".ipam.metal3.io") && crd.manifest()["spec"]["names"]["kind"] == kind)
        .unwrap();
    let names = &crd.manifest()["spec"]["names"];
    assert_eq!(
        (&names["shortNames"], &names["categories"]),
        (&json!(short), &json!([category]))
    );
    let labels = json!({
        "cluster.x-k8s.io/provider": "ipam-metal3",
        "cluster.x-k8s.io/v1beta1": "v1alpha1",
        "cluster.x-k8s.io/v1beta2": "v1alpha1",
        // Without it `clusterctl move` leaves them behind.
        "clusterctl.cluster.x-k8s.io": "",
    });
    assert_eq!(crd.manifest()["metadata"]["labels"], labels);
}
