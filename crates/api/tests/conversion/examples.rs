//! Fixed objects and the exact JSON that they become.

use super::{CONVERSION_DATA, NEW, OLD, bare, down, up, without_empty};
use rstest::rstest;
use serde_json::{Value, json};

fn old(kind: &str, rest: &Value) -> Value {
    object(OLD, kind, rest)
}

fn new(kind: &str, rest: &Value) -> Value {
    object(NEW, kind, rest)
}

fn object(version: &str, kind: &str, rest: &Value) -> Value {
    let mut object = json!({ "apiVersion": version, "kind": kind, "metadata": { "name": "x", "namespace": "n" } });
    for (key, value) in rest.as_object().unwrap() {
        object[key] = value.clone();
    }
    object
}

fn legacy(type_: &str) -> Value {
    json!({
        "type": type_, "status": "False", "severity": "Error", "reason": "Why", "message": "what",
        "lastTransitionTime": "2026-01-02T03:04:05Z",
    })
}

fn condition(type_: &str) -> Value {
    json!({
        "type": type_, "status": "True", "reason": "Why", "message": "", "observedGeneration": 3,
        "lastTransitionTime": "2026-01-02T03:04:05Z",
    })
}

/// Objects that say the same in both versions.
#[rstest]
#[case::cluster("Metal3Cluster", json!({
    "spec": {
        "controlPlaneEndpoint": { "host": "192.0.2.1", "port": 6443 },
        "cloudProviderEnabled": true,
        "noCloudProvider": false,
        "failureDomains": { "b": { "controlPlane": true }, "a": { "attributes": { "row": "1" } } },
    },
    "status": {
        "ready": true,
        "failureReason": "InvalidConfiguration",
        "failureMessage": "no host",
        "lastUpdated": "2026-01-02T03:04:05Z",
        "failureDomains": { "b": { "controlPlane": true } },
        "conditions": [legacy("Ready")],
        "v1beta2": { "conditions": [condition("Ready")] },
    },
}), json!({
    "spec": {
        "controlPlaneEndpoint": { "host": "192.0.2.1", "port": 6443 },
        "cloudProviderEnabled": true,
        "failureDomains": [{ "name": "a", "attributes": { "row": "1" } }, { "name": "b", "controlPlane": true }],
    },
    "status": {
        "initialization": { "provisioned": true },
        "lastUpdated": "2026-01-02T03:04:05Z",
        "failureDomains": [{ "name": "b", "controlPlane": true }],
        "conditions": [condition("Ready")],
        "deprecated": { "v1beta1": {
            "conditions": [legacy("Ready")],
            "failureReason": "InvalidConfiguration",
            "failureMessage": "no host",
        } },
    },
}))]
#[case::cluster_template("Metal3ClusterTemplate", json!({
    "spec": { "template": { "spec": { "controlPlaneEndpoint": { "host": "a", "port": 1 } } } },
}), json!({
    "spec": { "template": { "spec": { "controlPlaneEndpoint": { "host": "a", "port": 1 } } } },
}))]
#[case::machine("Metal3Machine", json!({
    "spec": {
        "providerID": "metal3://n/h/x",
        "image": { "url": "http://a", "checksum": "b", "checksumType": "sha256", "format": "qcow2" },
        "customDeploy": { "method": "install_here" },
        "userData": { "name": "u", "namespace": "n" },
        "hostSelector": {
            "matchLabels": { "rack": "1" },
            "matchExpressions": [{ "key": "gpu", "operator": "exists", "values": [] }],
        },
        "dataTemplate": { "name": "d", "namespace": "n" },
        "metaData": { "name": "m" },
        "networkData": { "name": "w" },
        "automatedCleaningMode": "metadata",
        "failureDomain": "a",
    },
    "status": {
        "ready": true,
        "addresses": [{ "type": "InternalIP", "address": "192.0.2.7" }],
        "userData": { "name": "u" },
        "renderedData": { "name": "d-0", "namespace": "n" },
        "failureReason": "CreateError",
        "failureMessage": "no",
        "conditions": [legacy("AssociateBMH")],
        "v1beta2": { "conditions": [condition("Paused")] },
        "lastUpdated": "2026-01-02T03:04:05Z",
    },
}), json!({
    "spec": {
        "providerID": "metal3://n/h/x",
        "image": { "url": "http://a", "checksum": "b", "checksumType": "sha256", "diskFormat": "qcow2" },
        "customDeploy": { "method": "install_here" },
        "userData": { "name": "u", "namespace": "n" },
        "hostSelector": {
            "matchLabels": { "rack": "1" },
            "matchExpressions": [{ "key": "gpu", "operator": "exists", "values": [] }],
        },
        "dataTemplate": { "name": "d", "namespace": "n" },
        "metaData": { "name": "m" },
        "networkData": { "name": "w" },
        "automatedCleaningMode": "metadata",
        "failureDomain": "a",
    },
    "status": {
        "initialization": { "provisioned": true },
        "addresses": [{ "type": "InternalIP", "address": "192.0.2.7" }],
        "userData": { "name": "u" },
        "renderedData": { "name": "d-0", "namespace": "n" },
        "conditions": [condition("Paused")],
        "lastUpdated": "2026-01-02T03:04:05Z",
        "deprecated": { "v1beta1": {
            "conditions": [legacy("AssociateBMH")], "failureReason": "CreateError", "failureMessage": "no",
        } },
    },
}))]
#[case::machine_template("Metal3MachineTemplate", json!({
    "spec": { "nodeReuse": true, "template": { "spec": { "image": { "url": "http://a", "format": "live-iso" } } } },
}), json!({
    "spec": { "nodeReuse": true, "template": { "spec": { "image": { "url": "http://a", "diskFormat": "live-iso" } } } },
}))]
#[case::data_template("Metal3DataTemplate", json!({
    "spec": {
        "clusterName": "c",
        "metaData": {
            "strings": [{ "key": "a", "value": "b" }],
            "indexes": [{ "key": "i", "offset": 1, "step": 2, "prefix": "p", "suffix": "s" }],
            "fromHostInterfaces": [{ "key": "mac", "interface": "eth0" }, { "key": "boot", "fromBootMAC": true }],
            "ipAddressesFromIPPool": [{ "key": "ip", "name": "p", "apiGroup": "ipam.metal3.io", "kind": "IPPool" }],
            "prefixesFromIPPool": [{ "key": "prefix", "name": "p", "apiGroup": "ipam.metal3.io", "kind": "IPPool" }],
            "gatewaysFromIPPool": [{ "key": "gw", "name": "p", "apiGroup": "ipam.metal3.io", "kind": "IPPool" }],
            "dnsServersFromIPPool": [{ "key": "dns", "name": "p", "apiGroup": "ipam.metal3.io", "kind": "IPPool" }],
        },
        "networkData": {
            "links": {
                "ethernets": [{ "type": "phy", "id": "e", "mtu": 1500, "macAddress": { "fromHostInterface": "eth0" } }],
                "bonds": [{
                    "bondMode": "802.3ad", "id": "b", "mtu": 9000, "macAddress": { "string": "02:00:00:00:00:01" },
                    "bondLinks": ["e"], "parameters": { "lacp_rate": "fast", "bond_miimon": 100 },
                }],
                "vlans": [{
                    "vlanID": 7, "id": "v", "mtu": 1500, "vlanLink": "b",
                    "macAddress": { "fromAnnotation": { "object": "baremetalhost", "annotation": "mac" } },
                }],
            },
            "networks": {
                "ipv4": [{
                    "id": "n", "link": "v",
                    "fromPoolRef": { "name": "p", "kind": "IPPool", "apiGroup": "ipam.metal3.io" },
                    "routes": [{
                        "network": "0.0.0.0", "gateway": { "fromIPPool": "p" },
                        "services": { "dns": ["192.0.2.53"], "dnsFromIPPool": "p" },
                    }],
                }],
                "ipv6": [{
                    "id": "n6", "link": "v", "ipAddressFromIPPool": "",
                    "fromPoolAnnotation": { "object": "machine", "annotation": "pool" },
                }],
                "ipv6SLAAC": [{ "id": "s", "link": "e" }],
            },
            "services": { "dns": ["2001:db8::53"] },
        },
    },
    "status": { "indexes": { "m-2": 0, "m-1": 1 }, "lastUpdated": "2026-01-02T03:04:05Z" },
}), json!({
    "spec": {
        "clusterName": "c",
        "metaData": {
            "strings": [{ "key": "a", "value": "b" }],
            "indexes": [{ "key": "i", "offset": 1, "step": 2, "prefix": "p", "suffix": "s" }],
            "fromHostInterfaces": [{ "key": "mac", "interface": "eth0" }, { "key": "boot", "fromBootMAC": true }],
            "ipAddressesFromPool": [{ "key": "ip", "name": "p", "apiGroup": "ipam.metal3.io", "kind": "IPPool" }],
            "prefixesFromPool": [{ "key": "prefix", "name": "p", "apiGroup": "ipam.metal3.io", "kind": "IPPool" }],
            "gatewaysFromPool": [{ "key": "gw", "name": "p", "apiGroup": "ipam.metal3.io", "kind": "IPPool" }],
            "dnsServersFromPool": [{ "key": "dns", "name": "p", "apiGroup": "ipam.metal3.io", "kind": "IPPool" }],
        },
        "networkData": {
            "links": {
                "ethernets": [{ "type": "phy", "id": "e", "mtu": 1500, "macAddress": { "fromHostInterface": "eth0" } }],
                "bonds": [{
                    "bondMode": "802.3ad", "id": "b", "mtu": 9000, "macAddress": { "string": "02:00:00:00:00:01" },
                    "bondLinks": ["e"],
                    "parameters": [{ "name": "bond_miimon", "value": 100 }, { "name": "lacp_rate", "value": "fast" }],
                }],
                "vlans": [{
                    "vlanID": 7, "id": "v", "mtu": 1500, "vlanLink": "b",
                    "macAddress": { "fromAnnotation": { "object": "baremetalhost", "annotation": "mac" } },
                }],
            },
            "networks": {
                "ipv4": [{
                    "id": "n", "link": "v",
                    "fromPoolRef": { "name": "p", "kind": "IPPool", "apiGroup": "ipam.metal3.io" },
                    "routes": [{
                        "network": "0.0.0.0", "gateway": { "fromIPPool": "p" },
                        "services": { "dns": ["192.0.2.53"], "dnsFromIPPool": "p" },
                    }],
                }],
                "ipv6": [{
                    "id": "n6", "link": "v",
                    "fromPoolAnnotation": { "object": "machine", "annotation": "pool" },
                }],
                "ipv6SLAAC": [{ "id": "s", "link": "e" }],
            },
            "services": { "dns": ["2001:db8::53"] },
        },
    },
    "status": {
        "indexes": [{ "name": "m-2", "index": 0 }, { "name": "m-1", "index": 1 }],
        "lastUpdated": "2026-01-02T03:04:05Z",
    },
}))]
#[case::data_claim("Metal3DataClaim", json!({
    "spec": { "template": { "name": "t", "namespace": "n" } },
    "status": { "renderedData": { "name": "t-0", "namespace": "n" }, "errorMessage": "no" },
}), json!({
    "spec": { "template": { "name": "t", "namespace": "n" } },
    "status": { "renderedData": { "name": "t-0", "namespace": "n" }, "errorMessage": "no" },
}))]
#[case::data("Metal3Data", json!({
    "spec": {
        "index": 3, "claim": { "name": "c" }, "template": { "name": "t" },
        "metaData": { "name": "m" }, "networkData": { "name": "w" },
    },
    "status": { "ready": true, "errorMessage": "no" },
}), json!({
    "spec": {
        "index": 3, "claim": { "name": "c" }, "template": { "name": "t" },
        "metaData": { "name": "m" }, "networkData": { "name": "w" },
    },
    "status": { "ready": true, "errorMessage": "no" },
}))]
#[case::remediation("Metal3Remediation", json!({
    "spec": { "strategy": { "type": "Reboot", "retryLimit": 2, "timeout": "5m0s" } },
    "status": { "phase": "Deleting machine", "retryCount": 2, "lastRemediated": "2026-01-02T03:04:05Z" },
}), json!({
    "spec": { "strategy": { "type": "Reboot", "retryLimit": 2, "timeoutSeconds": 300 } },
    "status": { "phase": "Deleting machine", "retryCount": 2, "lastRemediated": "2026-01-02T03:04:05Z" },
}))]
#[case::remediation_template("Metal3RemediationTemplate", json!({
    "spec": { "template": { "spec": { "strategy": { "timeout": "1h0m0s" } } } },
    "status": { "status": { "phase": "Running" } },
}), json!({
    "spec": { "template": { "spec": { "strategy": { "timeoutSeconds": 3600 } } } },
    "status": { "status": { "phase": "Running" } },
}))]
fn both_versions_say_the_same(#[case] kind: &str, #[case] v1beta1: Value, #[case] v1beta2: Value) {
    // Nothing needs to be carried for v1beta1 here, so metadata stays as it is too.
    let (v1beta1, v1beta2) = (old(kind, &v1beta1), new(kind, &v1beta2));
    assert_eq!(up(&v1beta1), v1beta2);
    let mut back = bare(down(&v1beta2));
    // What v1beta1 always writes.
    if kind == "Metal3MachineTemplate" {
        assert_eq!(back["spec"]["nodeReuse"], true);
    }
    back["metadata"] = v1beta1["metadata"].clone();
    assert_eq!(back, v1beta1);
}

/// The deprecated field counts where the new one is absent.
#[rstest]
#[case(json!({ "noCloudProvider": false }), json!({ "cloudProviderEnabled": true }))]
#[case(json!({ "noCloudProvider": true }), json!({ "cloudProviderEnabled": false }))]
#[case(json!({ "noCloudProvider": true, "cloudProviderEnabled": true }), json!({ "cloudProviderEnabled": true }))]
#[case(json!({}), json!({}))]
fn no_cloud_provider_is_honoured(#[case] spec: Value, #[case] wanted: Value) {
    let cluster = old("Metal3Cluster", &json!({ "spec": spec }));
    assert_eq!(up(&cluster)["spec"], wanted);
    assert_eq!(without_empty(&bare(down(&up(&cluster)))), without_empty(&cluster));
    let template = old(
        "Metal3ClusterTemplate",
        &json!({ "spec": { "template": { "spec": spec } } }),
    );
    assert_eq!(up(&template)["spec"], json!({ "template": { "spec": wanted } }));
}

/// v1beta1 refuses an empty text where it has a choice, so a client could not write back what it has read.
#[test]
fn absent_choices_are_absent_in_v1beta1() {
    let machine = new(
        "Metal3Machine",
        &json!({ "spec": { "image": { "url": "http://a" }, "dataTemplate": {} } }),
    );
    assert_eq!(down(&machine)["spec"], json!({ "image": { "url": "http://a" } }));
    let remediation = new(
        "Metal3Remediation",
        &json!({ "spec": { "strategy": {} }, "status": {} }),
    );
    let remediation = down(&remediation);
    assert_eq!(
        (&remediation["spec"], &remediation["status"]),
        (&json!({ "strategy": {} }), &json!({}))
    );
}

/// A bond without parameters, which v1beta2's schema does not admit, converts all the same.
#[test]
fn a_bond_needs_no_parameters() {
    let bond = json!({ "bondMode": "balance-rr", "id": "b", "macAddress": {} });
    let rest = |bond: &Value| json!({ "spec": { "networkData": { "links": { "bonds": [bond] } } } });
    let mut spec = rest(&bond);
    spec["spec"]["clusterName"] = json!("c");
    let template = old("Metal3DataTemplate", &spec);
    let mut wanted = bond.clone();
    wanted["parameters"] = json!([]);
    assert_eq!(up(&template)["spec"]["networkData"]["links"]["bonds"], json!([wanted]));
    assert_eq!(bare(down(&up(&template))), template);
    let template = new("Metal3DataTemplate", &rest(&bond));
    assert_eq!(
        down(&template)["spec"],
        json!({
            "clusterName": "", "networkData": { "links": { "bonds": [bond] } },
        })
    );
}

/// The annotation is what Cluster API's own conversion writes and reads.
#[test]
fn the_annotation_holds_spec_and_status_in_v1beta2() {
    let cluster = new(
        "Metal3Cluster",
        &json!({
            "spec": { "controlPlaneEndpoint": { "host": "a" } },
            "status": { "initialization": { "provisioned": false } },
        }),
    );
    let annotations = json!({
        CONVERSION_DATA:
            r#"{"spec":{"controlPlaneEndpoint":{"host":"a"}},"status":{"initialization":{"provisioned":false}}}"#,
    });
    let old = down(&cluster);
    assert_eq!(old["metadata"]["annotations"], annotations);
    assert_eq!(
        old["spec"],
        json!({ "controlPlaneEndpoint": { "host": "a", "port": 0 } })
    );
    assert_eq!(old["status"], json!({}));
    assert_eq!(up(&old), cluster);
}
