//! A change in one version, with what only the other knows put back around it.

use super::{CONVERSION_DATA, NEW, OLD, V1BETA1_DATA, bare, down, up};
use serde_json::{Value, json};

fn template() -> Value {
    json!({
        "apiVersion": NEW, "kind": "Metal3MachineTemplate", "metadata": { "name": "t" },
        "spec": {
            "nodeReuse": false,
            "template": {
                "metadata": { "labels": { "rack": "1" } },
                "spec": {
                    "image": { "url": "http://a", "checksum": "" },
                    "dataTemplate": { "name": "d" },
                    "hostSelector": { "matchExpressions": [
                        { "key": "a", "operator": "exists", "values": [] },
                        { "key": "b", "operator": "in", "values": ["c"] },
                    ] },
                },
            },
        },
    })
}

#[test]
fn what_only_v1beta2_knows_survives_an_edit_in_v1beta1() {
    let mut old = down(&template());
    old["spec"]["template"]["spec"]["image"]["url"] = json!("http://b");
    let new = up(&old);
    let mut wanted = template();
    wanted["spec"]["template"]["spec"]["image"]["url"] = json!("http://b");
    assert_eq!(new, wanted);
}

#[test]
fn a_checksum_given_in_v1beta1_is_kept() {
    let mut new = template();
    new["spec"]["template"]["spec"]["image"] = json!({ "url": "http://a" });
    let mut old = down(&new);
    old["spec"]["template"]["spec"]["image"]["checksum"] = json!("abc");
    let image = json!({ "url": "http://a", "checksum": "abc" });
    assert_eq!(up(&old)["spec"]["template"]["spec"]["image"], image);
}

#[test]
fn what_v1beta1_removes_is_removed() {
    let mut old = down(&template());
    let spec = old["spec"]["template"]["spec"].as_object_mut().unwrap();
    spec.remove("image");
    spec.remove("hostSelector");
    let new = up(&old);
    assert_eq!(
        new["spec"]["template"]["spec"],
        json!({ "dataTemplate": { "name": "d" } })
    );
    assert_eq!(
        new["spec"]["template"]["metadata"],
        json!({ "labels": { "rack": "1" } })
    );
}

#[test]
fn false_is_told_from_absent_until_it_becomes_true() {
    let mut cluster = json!({
        "apiVersion": NEW, "kind": "Metal3Cluster", "metadata": { "name": "c" },
        "status": { "initialization": { "provisioned": false } },
    });
    let mut old = down(&cluster);
    assert_eq!(up(&old), cluster);
    old["status"]["ready"] = json!(true);
    cluster["status"]["initialization"]["provisioned"] = json!(true);
    assert_eq!(up(&old), cluster);
}

/// Kind and uid belong to the object that the reference named.
#[test]
fn a_reference_is_put_back_whole_or_not_at_all() {
    let reference = json!({
        "apiVersion": NEW, "kind": "Metal3DataTemplate", "name": "d", "namespace": "n", "uid": "u",
    });
    let old = json!({
        "apiVersion": OLD, "kind": "Metal3DataClaim", "metadata": { "name": "c" },
        "spec": { "template": reference },
    });
    let mut new = up(&old);
    assert_eq!(new["spec"], json!({ "template": { "name": "d", "namespace": "n" } }));
    assert_eq!(bare(down(&new)), old);
    new["spec"]["template"]["name"] = json!("e");
    assert_eq!(
        down(&new)["spec"],
        json!({ "template": { "name": "e", "namespace": "n" } })
    );
}

#[test]
fn what_only_v1beta1_knows_survives_an_edit_in_v1beta2() {
    let old = json!({
        "apiVersion": OLD, "kind": "Metal3Remediation", "metadata": { "name": "r" },
        "spec": { "strategy": { "type": "Reboot", "retryLimit": 2, "timeout": "1999ms" } },
    });
    let mut new = up(&old);
    assert_eq!(
        new["spec"]["strategy"],
        json!({ "type": "Reboot", "retryLimit": 2, "timeoutSeconds": 1 })
    );
    new["spec"]["strategy"]["retryLimit"] = json!(3);
    let strategy = json!({ "type": "Reboot", "retryLimit": 3, "timeout": "1999ms" });
    assert_eq!(down(&new)["spec"]["strategy"], strategy);
    new["spec"]["strategy"]["timeoutSeconds"] = json!(300);
    let strategy = json!({ "type": "Reboot", "retryLimit": 3, "timeout": "5m0s" });
    assert_eq!(down(&new)["spec"]["strategy"], strategy);
}

/// What is saved of a part that v1beta2 can express would only cost memory in every cache.
#[test]
fn only_the_part_that_cannot_be_expressed_is_carried() {
    let old = json!({
        "apiVersion": OLD, "kind": "Metal3Machine", "metadata": { "name": "m" },
        "spec": { "image": { "url": "http://a", "format": "raw" }, "hostSelector": {} },
        "status": { "ready": true, "phase": "Running" },
    });
    let new = up(&old);
    let carried = new["metadata"]["annotations"][V1BETA1_DATA].as_str().unwrap();
    assert_eq!(carried, r#"{"status":{"phase":"Running","ready":true}}"#);
    let mut plain = old;
    plain["status"] = json!({ "ready": true });
    assert_eq!(up(&plain)["metadata"], json!({ "name": "m" }));
    assert!(down(&new)["metadata"]["annotations"].get(CONVERSION_DATA).is_some());
}

// OWN 30w: it was null in v1beta1, which the API server drops, so that the next write in v1beta1 removed it.
#[test]
fn a_bond_parameter_without_a_value_survives_an_edit_in_v1beta1() {
    let bond = json!({ "id": "b", "bondMode": "802.3ad", "macAddress": { "string": "m" },
        "parameters": [{ "name": "bond_primary", "value": { "a": "b" } }, { "name": "bond_miimon" }] });
    let mut template = json!({
        "apiVersion": NEW, "kind": "Metal3DataTemplate", "metadata": { "name": "d" },
        "spec": { "networkData": { "links": { "bonds": [bond] } } },
    });
    let mut old = down(&template);
    let parameters = &old["spec"]["networkData"]["links"]["bonds"][0]["parameters"];
    assert_eq!(parameters, &json!({ "bond_miimon": {}, "bond_primary": { "a": "b" } }));
    assert_eq!(up(&old), template);
    old["spec"]["networkData"]["services"] = json!({ "dns": ["192.0.2.1"] });
    template["spec"]["networkData"]["services"] = json!({ "dns": ["192.0.2.1"] });
    assert_eq!(up(&old), template);
}

/// Client-side and server-side apply keep a field that nobody owns: what the conversion alone has written must not
/// outweigh what the user says later.
#[test]
fn no_cloud_provider_counts_again_when_it_is_edited_in_v1beta1() {
    let cluster =
        |spec: Value| json!({ "apiVersion": OLD, "kind": "Metal3Cluster", "metadata": { "name": "c" }, "spec": spec });
    let stored = up(&cluster(json!({ "noCloudProvider": true })));
    assert_eq!(stored["spec"]["cloudProviderEnabled"], json!(false));
    let mut shown = down(&stored);
    assert_eq!(bare(shown.clone())["spec"], json!({ "noCloudProvider": true }));
    shown["spec"]["noCloudProvider"] = json!(false);
    let stored = up(&shown);
    assert_eq!(stored["spec"]["cloudProviderEnabled"], json!(true));
    assert_eq!(bare(down(&stored))["spec"]["noCloudProvider"], json!(false));
}
