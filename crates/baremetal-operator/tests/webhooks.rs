//! What the API server rejects because this program says so, and what the definitions alone reject.

#![expect(clippy::unwrap_used, reason = "a test, helpers included")]

use std::path::Path;

use baremetal_operator::{rbac, webhooks};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use metal3_api::metal3::{BareMetalHost, HostNetworkAttachment};
use metal3_runtime::args::Namespaces;
use metal3_runtime::webhook::Webhooks;
use metal3_testkit::{DEADLINE, Replicas, TestNamespace, eventually, namespace};
use serde_json::{Value, json};

fn object(kind: &str, name: &str, spec: &str) -> String {
    format!("{{apiVersion: metal3.io/v1alpha1, kind: {kind}, metadata: {{name: {name}}}, spec: {spec}}}")
}

fn host(name: &str, spec: &str) -> String {
    object("BareMetalHost", name, &format!("{{online: true, {spec}}}"))
}

/// What no schema can see.
const FOREIGN: &str = "userData: {name: a, namespace: other}";
const BMC: &str = "bmc: {address: 'redfish://192.0.2.1/redfish/v1/Systems/1', credentialsName: c}";

/// Serves the webhooks as the program does.
async fn serve(namespace: &TestNamespace) {
    let users = webhooks::users_of_attachment(namespace.client.clone(), Namespaces::All);
    let probe = host("probe", FOREIGN);
    namespace.serve(webhooks::all(users), webhooks::INSTALLED, &probe).await;
}

/// A valid object of a kind, with these changes (a JSON merge patch).
fn patched(kind: &str, name: &str, patch: &Value) -> Value {
    let spec = match kind {
        "BareMetalHost" => json!({"online": true,
            "bmc": {"address": "redfish://192.0.2.1/redfish/v1/Systems/1", "credentialsName": "c"}}),
        "BMCEventSubscription" => json!({"hostName": "h", "destination": "https://events/"}),
        "DataImage" => json!({"url": "https://h/i.iso"}),
        "HostFirmwareComponents" => json!({"updates": [{"component": "bmc", "url": "http://h/a"}]}),
        "HostClaim" => json!({"poweredOn": true, "hostSelector": {}}),
        _ => json!({"mode": "trunk", "nativeVLAN": 1}),
    };
    let mut object =
        json!({"apiVersion": "metal3.io/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec});
    json_patch::merge(&mut object, patch);
    object
}

/// A row for [`TestNamespace::expect_rules`]: two patches of a valid object.
fn row(kind: &str, (wrong, words, right): (Value, &str, Value)) -> (Value, String, Value) {
    (patched(kind, "w", &wrong), words.to_owned(), patched(kind, "r", &right))
}

fn specifications(kind: &str, rows: Vec<(Value, &str, Value)>) -> Vec<(Value, String, Value)> {
    let of = |spec: Value| json!({ "spec": spec });
    rows.into_iter()
        .map(|(wrong, words, right)| row(kind, (of(wrong), words, of(right))))
        .collect()
}

fn annotations(kind: &str, rows: &[(&str, &str, &str)]) -> Vec<(Value, String, Value)> {
    let of = |key: &str, value: &str| json!({"metadata": {"annotations": {key: value}}});
    let rows = rows.iter().map(|(key, wrong, right)| {
        let words = format!("metadata.annotations[{key}]: ");
        let right = patched(kind, &format!("r-{}", key.len()), &of(key, right));
        (patched(kind, "w", &of(key, wrong)), words, right)
    });
    rows.collect()
}

/// Each object that is admitted is another one, because what a host has cannot all be changed.
fn numbered(mut rows: Vec<(Value, String, Value)>) -> Vec<(Value, String, Value)> {
    for (number, (_, _, right)) in rows.iter_mut().enumerate() {
        right["metadata"]["name"] = json!(format!("r{number}"));
    }
    rows
}

/// Every rule of `src/webhooks/host` for one object, by the webhook: the definitions there have no rules.
#[tokio::test]
async fn each_rule_for_hosts_refuses_and_admits() {
    let namespace = namespace!().await.without_rules().await;
    serve(&namespace).await;
    let own = namespace.name.as_str();
    let secret = |namespace: &str| json!({"name": "s", "namespace": namespace});
    let bmc = |address: &str| json!({ "address": address });
    let image = |checksum_type: &str| json!({"url": "http://h/i", "checksum": "a", "checksumType": checksum_type});
    let mac = "52:54:00:12:34:56";
    let hardware = |volume: Value| json!({"raid": {"hardwareRAIDVolumes": [volume]}});
    let software = |volumes: Value| json!({"raid": {"softwareRAIDVolumes": volumes}});
    let root = json!([{"level": "1", "rootVolume": true}]);
    let mut rows = specifications(
        "BareMetalHost",
        vec![
            (
                json!({"bmc": bmc("foo://h")}),
                "spec.bmc.address: invalid BMC address: type \"foo\"",
                json!({"bmc": bmc("ipmi://h")}),
            ),
            (
                json!({"bmc": bmc("ipmi://a_b")}),
                "spec.bmc.address: ",
                json!({"bmc": null}),
            ),
            (
                json!({"bmc": bmc("libvirt://h")}),
                "spec.bootMACAddress: is required for BMCs",
                json!({"bmc": bmc("libvirt://h"), "bootMACAddress": mac}),
            ),
            (
                json!({"inspectionMode": "disabled"}),
                "spec.bootMACAddress: is required because",
                json!({"inspectionMode": "disabled", "bootMACAddress": mac}),
            ),
            (
                json!({"bootMACAddress": format!("x{mac}")}),
                "spec.bootMACAddress: ",
                json!({"bootMACAddress": mac}),
            ),
            (
                json!({"inspectionMode": "quick"}),
                "spec.inspectionMode: ",
                json!({"inspectionMode": "agent"}),
            ),
            (
                json!({"bmc": bmc("ipmi://h"), "inspectionMode": "fast"}),
                "spec.inspectionMode: BMCs of type ipmi",
                json!({"inspectionMode": "fast"}),
            ),
            (
                json!({"bmc": bmc("ipmi://h"), "bootMode": "UEFISecureBoot"}),
                "spec.bootMode: BMCs of type ipmi",
                json!({"bootMode": "UEFISecureBoot"}),
            ),
            (
                json!({"bmc": bmc("ipmi://h"), "raid": {"hardwareRAIDVolumes": [{"level": "1"}]}}),
                "spec.raid.hardwareRAIDVolumes: BMCs of type ipmi",
                json!({"raid": {"hardwareRAIDVolumes": [{"level": "1"}]}}),
            ),
            (
                json!({"firmware": {}}),
                "spec.firmware: is no longer supported",
                json!({}),
            ),
            (
                json!({"userData": secret("other")}),
                "spec.userData.namespace: \"other\"",
                json!({"userData": secret(own)}),
            ),
            (
                json!({"metaData": secret("other")}),
                "spec.metaData.namespace: \"other\"",
                json!({"metaData": secret(own)}),
            ),
            (
                json!({"networkData": secret("other")}),
                "spec.networkData.namespace: \"other\"",
                json!({"networkData": {"name": "s"}}),
            ),
            (
                json!({"rootDeviceHints": {"deviceName": "sda"}}),
                "spec.rootDeviceHints.deviceName: ",
                json!({"rootDeviceHints": {"deviceName": "/dev/disk/by-path/pci-1"}}),
            ),
            (
                json!({"online": false, "disablePowerOff": true}),
                "spec.disablePowerOff: cannot be used with online: false",
                json!({"disablePowerOff": true}),
            ),
            (
                json!({"raid": {"hardwareRAIDVolumes": [{"level": "1"}], "softwareRAIDVolumes": [{"level": "1"}]}}),
                "spec.raid: hardwareRAIDVolumes and",
                json!({"raid": {"hardwareRAIDVolumes": [{"level": "1"}], "softwareRAIDVolumes": []}}),
            ),
            (
                hardware(json!({"level": "1", "physicalDisks": ["a"]})),
                "spec.raid.hardwareRAIDVolumes[0].controller: is missing",
                hardware(json!({"level": "1", "physicalDisks": ["a"], "controller": "c"})),
            ),
            (
                hardware(json!({"level": "1", "physicalDisks": ["a"], "controller": "c", "numberOfPhysicalDisks": 2})),
                "spec.raid.hardwareRAIDVolumes[0].numberOfPhysicalDisks: is 2",
                hardware(json!({"level": "1", "numberOfPhysicalDisks": 2})),
            ),
            (
                software(json!([{"level": "1", "rootVolume": true}, {"level": "1", "rootVolume": true}])),
                "spec.raid.softwareRAIDVolumes: only one",
                software(json!([{"level": "1", "rootVolume": true}, {"level": "0"}])),
            ),
            (
                json!({"rootDeviceHints": {"model": "m"}, "raid": {"softwareRAIDVolumes": root}}),
                "spec.raid.softwareRAIDVolumes[0].rootVolume: and",
                software(root.clone()),
            ),
            (
                software(json!([{"level": "1"}, {"level": "0", "rootVolume": true}])),
                "spec.raid.softwareRAIDVolumes[1].level: must be 1",
                software(json!([{"level": "1"}, {"level": "0"}])),
            ),
            (
                json!({"image": {"url": "file:///i", "checksum": "a"}}),
                "spec.image.url: scheme \"file\"",
                json!({"image": {"url": "ftp://h/i", "checksum": "a"}}),
            ),
            (
                json!({"image": {"url": "", "checksum": "a"}}),
                "spec.image.url: is required",
                json!({}),
            ),
            (
                json!({"image": {"url": "https://e/i"}}),
                "spec.image.checksum: is required",
                json!({"image": {"url": "https://e/i", "format": "live-iso"}}),
            ),
            (
                json!({"image": {"url": "oci://e/i", "checksum": "a"}}),
                "spec.image.checksum: must not be set",
                json!({"image": {"url": "oci://e/i"}}),
            ),
            (
                json!({"image": image("crc")}),
                "spec.image.checksumType: ",
                json!({"image": image("auto")}),
            ),
            (
                json!({"networkInterfaces": [{}]}),
                "spec.networkInterfaces[0]: needs a name",
                json!({"networkInterfaces": [{"name": "a"}, {"name": "b"}]}),
            ),
            (
                json!({"networkInterfaces": [{"name": "a", "macAddress": mac}]}),
                "spec.networkInterfaces[0]: must not have both",
                json!({"networkInterfaces": [{"macAddress": mac}]}),
            ),
            (
                json!({"networkInterfaces": [{"name": "a"}, {"name": "A"}]}),
                "spec.networkInterfaces[1]: \"A\" is selected",
                json!({"networkInterfaces": []}),
            ),
            (
                json!({"firmware": {}, "image": {"url": ""}}),
                "[spec.firmware: is no longer supported: use HostFirmwareSettings, spec.image.url: is required, \
                 spec.image.checksum: is required]",
                json!({}),
            ),
        ],
    );
    let status = "baremetalhost.metal3.io/status";
    let of_hosts = [
        ("inspect.metal3.io", "now", ""),
        ("reboot.metal3.io", "please", ""),
        ("reboot.metal3.io/a", "{}}", "{\"mode\": \"hard\"}"),
        ("reboot.metal3.io/a", "{\"mode\": \"gentle\"}", "{\"mode\": \"soft\"}"),
        (status, "{\"colour\": \"red\"}", "{\"operationalStatus\": \"OK\"}"),
        (
            status,
            "{\"operationalStatus\": \"splendid\"}",
            "{\"operationalStatus\": \"servicing\"}",
        ),
        (status, "ok", ""),
    ];
    rows.extend(annotations("BareMetalHost", &of_hosts));
    let inspected = |key: &str, value: &str, mode: &str| json!({"metadata": {"annotations": {key: value}}, "spec": {"inspectionMode": mode, "bootMACAddress": mac}});
    let details = "inspect.metal3.io/hardwaredetails";
    rows.extend(
        [
            (
                inspected("inspect.metal3.io", "disabled", "agent"),
                "metadata.annotations[inspect.metal3.io]: contradicts",
                inspected("inspect.metal3.io", "disabled", "disabled"),
            ),
            (
                inspected(details, "{}", "agent"),
                "metadata.annotations[inspect.metal3.io/hardwaredetails]: cannot be used unless",
                inspected(details, "{\"hostname\": \"a\"}", "disabled"),
            ),
            (
                inspected(details, "{\"hostnam\": \"a\"}", "disabled"),
                "metadata.annotations[inspect.metal3.io/hardwaredetails]: unknown field",
                inspected(details, "", "agent"),
            ),
        ]
        .map(|of_inspection| row("BareMetalHost", of_inspection)),
    );
    let uuid = json!({"metadata": {"name": "0123456789abcdef0123456789abcdef"}});
    rows.push(row(
        "BareMetalHost",
        (uuid, "metadata.name: must not be a UUID", json!({})),
    ));
    namespace.expect_rules(&numbered(rows)).await;
}

#[tokio::test]
async fn each_rule_for_the_other_kinds_refuses_and_admits() {
    let namespace = namespace!().await.without_rules().await;
    serve(&namespace).await;
    let own = namespace.name.as_str();
    let headers = |namespace: Value| json!({"httpHeadersRef": {"name": "s", "namespace": namespace}});
    let mut rows = specifications(
        "BMCEventSubscription",
        vec![
            (json!({"hostName": null}), "spec.hostName: is required", json!({})),
            (json!({"destination": null}), "spec.destination: is required", json!({})),
            (
                json!({"destination": "events"}),
                "spec.destination: is neither",
                json!({"destination": "/events"}),
            ),
            (
                json!({"destination": "http://events"}),
                "spec.destination: needs a path",
                json!({"destination": "http://events/?a"}),
            ),
            (
                headers(json!("other")),
                "spec.httpHeadersRef.namespace: \"other\" must be",
                headers(json!(own)),
            ),
            (
                headers(Value::Null),
                "spec.httpHeadersRef.namespace: \"\" must be",
                json!({}),
            ),
        ],
    );
    let url = |url: &str| json!({ "url": url });
    rows.extend(specifications(
        "DataImage",
        vec![
            (url("nfs://e/i"), "spec.url: scheme \"nfs\"", url("oci://e/i")),
            (url("i"), "spec.url: is neither", url("https://e/i")),
        ],
    ));
    let updates = |url: &str| json!({"updates": [{"component": "bios", "url": url}]});
    rows.extend(specifications(
        "HostFirmwareComponents",
        vec![
            (
                updates("a.bin"),
                "spec.updates[0].url: is neither",
                updates("http://h/a.bin"),
            ),
            (
                updates("nfs://h/a"),
                "spec.updates[0].url: scheme \"nfs\"",
                updates("https://h/a"),
            ),
        ],
    ));
    let labels = |key: &str, value: &str| json!({"hostSelector": {"matchLabels": {key: value}}});
    let requires = |key: &str, operator: &str, values: &[&str]| json!({"hostSelector": {"matchExpressions": [{"key": key, "operator": operator, "values": values}]}});
    let image = |url: &str| json!({"image": {"url": url}});
    let expressions = "spec.hostSelector.matchExpressions[0]";
    let (key, operator, values) = (
        format!("{expressions}.key: "),
        format!("{expressions}.operator: "),
        format!("{expressions}.values: "),
    );
    rows.extend(specifications(
        "HostClaim",
        vec![
            (
                labels("a b", "c"),
                "spec.hostSelector.matchLabels[a b]: ",
                labels("a/b", "c"),
            ),
            (
                labels("a", "b c"),
                "spec.hostSelector.matchLabels[a]: ",
                labels("a", ""),
            ),
            (requires("", "exists", &[]), &key, requires("a", "exists", &[])),
            (requires("a", "In", &["b"]), &operator, requires("a", "in", &["b"])),
            (requires("a", "=", &[]), &values, requires("a", "=", &["b"])),
            (
                requires("a", "notin", &[]),
                &values,
                requires("a", "notin", &["b", "c"]),
            ),
            (requires("a", "!", &["b"]), &values, requires("a", "!", &[])),
            (requires("a", "!=", &["-"]), &values, requires("a", "!=", &["b"])),
            (
                image("https://h/i"),
                "spec.image.checksum: is required",
                image("oci://h/i"),
            ),
        ],
    ));
    rows.extend(annotations("HostClaim", &[("reboot.metal3.io", "now", "")]));
    let vlans = |mode: &str, vlans: &[&str]| json!({"mode": mode, "allowedVLANs": vlans});
    rows.extend(specifications(
        "HostNetworkAttachment",
        vec![
            (
                vlans("trunk", &["4095"]),
                "spec.allowedVLANs[0]: \"4095\"",
                vlans("trunk", &["4094"]),
            ),
            (
                vlans("hybrid", &["1", "203-200"]),
                "spec.allowedVLANs[1]: \"203-200\"",
                vlans("hybrid", &["200-203"]),
            ),
            (
                vlans("access", &["5"]),
                "spec.allowedVLANs: must be empty in mode access",
                vlans("access", &[]),
            ),
        ],
    ));
    namespace.expect_rules(&numbered(rows)).await;
}

/// Every rule for changes, with the state of the host.
#[tokio::test]
async fn each_rule_for_changes_refuses_and_admits() {
    let namespace = namespace!().await;
    serve(&namespace).await;
    let (mac, same, other) = ("52:54:00:12:34:5a", "52:54:00:12:34:5A", "52:54:00:12:34:5b");
    let bmc = |address: &str| json!({"bmc": {"address": address}});
    let boot = |mac: &str| json!({ "bootMACAddress": mac });
    let external = json!({"externallyProvisioned": true});
    let address = "spec.bmc.address: ";
    let rows = [
        ("", json!({}), bmc("ipmi://h"), address, json!({"description": "a"})),
        (
            "registering",
            json!({}),
            boot("5"),
            "spec.bootMACAddress: ",
            bmc("ipmi://h"),
        ),
        ("available", json!({}), bmc("ipmi://h"), address, external.clone()),
        (
            "available",
            boot(mac),
            boot(other),
            "bootMACAddress cannot be changed",
            boot(same),
        ),
        (
            "available",
            boot(mac),
            json!({}),
            "bootMACAddress cannot be changed",
            boot(mac),
        ),
        ("provisioned", json!({}), json!({"bmc": null}), address, boot(mac)),
        (
            "provisioned",
            json!({}),
            external.clone(),
            "spec.externallyProvisioned: ",
            json!({}),
        ),
        ("provisioned", external.clone(), bmc("ipmi://h"), address, json!({})),
    ];
    let (mut stored, mut changes) = (Vec::new(), Vec::new());
    for (number, (state, old, wrong, words, right)) in rows.into_iter().enumerate() {
        let name = format!("h{number}");
        let of = |spec: Value| patched("BareMetalHost", &name, &json!({ "spec": spec }));
        stored.push((name.clone(), state, of(old)));
        changes.push((of(wrong), words.to_owned(), of(right)));
    }
    let subscription = |spec: Value| patched("BMCEventSubscription", "s", &json!({ "spec": spec }));
    let subscribed = subscription(json!({}));
    let objects = stored.iter().map(|(_, _, object)| object).chain([&subscribed]);
    let refused: Vec<_> = namespace
        .apply_by_kubectl(objects)
        .await
        .into_iter()
        .flatten()
        .collect();
    assert!(refused.is_empty(), "{refused:#?}");
    for (name, state, _) in stored.iter().filter(|(_, state, _)| !state.is_empty()) {
        at(&namespace.api(), name, state).await;
    }
    let wrong = [
        json!({"context": "c"}),
        json!({"hostName": "other"}),
        json!({"destination": "https://other/"}),
    ];
    changes.extend(wrong.map(|spec| (subscription(spec), "cannot be changed".to_owned(), subscribed.clone())));
    namespace.expect_rules(&changes).await;
}

/// The kinds of the examples that this program's webhooks see, and the Secrets beside them.
#[tokio::test]
async fn the_examples_are_admitted() {
    let namespace = namespace!().await;
    serve(&namespace).await;
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut applied = 0;
    for folder in ["baremetalhost", "bmc", "companions", "hostclaim", "rack"] {
        for file in std::fs::read_dir(root.join(folder)).unwrap() {
            let path = file.unwrap().path();
            let text = std::fs::read_to_string(&path).unwrap();
            let text = text.replace("namespace: metal3\n", &format!("namespace: {}\n", namespace.name));
            if let Err(refusal) = namespace.try_apply(&text).await {
                panic!("{}: {refusal:#}", path.display());
            }
            applied += 1;
        }
    }
    assert!(applied > 15, "{applied}");
}

/// Gives a host this state, as the operator would.
async fn at(hosts: &Api<BareMetalHost>, name: &str, state: &str) {
    let status = json!({"status": {"operationalStatus": "OK", "errorMessage": "", "errorCount": 0, "poweredOn": false,
        "provisioning": {"state": state, "ID": ""}}});
    let patch = Patch::Merge(&status);
    hosts.patch_status(name, &PatchParams::default(), &patch).await.unwrap();
}

#[tokio::test]
async fn what_cannot_change_is_refused_and_what_was_wrong_before_is_not() {
    let namespace = namespace!().await;
    // Stored before there was a webhook.
    namespace.apply(&host("old", FOREIGN)).await;
    serve(&namespace).await;
    namespace
        .apply(&host("old", &format!("{FOREIGN}, description: a")))
        .await;
    namespace
        .expect_refused(
            &host("old", &FOREIGN.replace("other", "third")),
            "spec.userData.namespace: \"third\"",
        )
        .await;

    namespace.apply(&host("h", BMC)).await;
    let moved = host("h", &BMC.replace("192.0.2.1", "192.0.2.2"));
    let external = host("h", &format!("{BMC}, externallyProvisioned: true"));
    // The definition's rule does not apply yet: the host has no state.
    namespace
        .expect_refused(
            &moved,
            "\"baremetalhost.metal3.io\" denied the request: spec.bmc.address: can be changed only",
        )
        .await;
    at(&namespace.api(), "h", "registering").await;
    namespace.apply(&moved).await;
    at(&namespace.api(), "h", "provisioned").await;
    namespace.expect_refused(&host("h", BMC), "can be changed only").await;
    namespace.expect_refused(&external, "can be set only").await;
    let spec = "{hostName: h, destination: 'https://e/'}";
    namespace.apply(&object("BMCEventSubscription", "s", spec)).await;
    namespace
        .expect_refused(
            &object("BMCEventSubscription", "s", &spec.replace("e/", "f/")),
            "cannot be changed",
        )
        .await;
}

#[tokio::test]
async fn an_attachment_in_use_can_neither_change_nor_go() {
    let namespace = namespace!().await;
    serve(&namespace).await;
    let attachment = |vlan: u16| object("HostNetworkAttachment", "a", &format!("{{nativeVLAN: {vlan}}}"));
    namespace.apply(&attachment(1)).await;
    namespace.apply(&attachment(2)).await;
    let interface = "networkInterfaces: [{name: eth0, hostNetworkAttachment: {name: a}}]";
    namespace.apply(&host("h", interface)).await;
    let users = format!(
        "it is used by {}/h[eth0]; remove these references first",
        namespace.name
    );
    // Everything else may change.
    let vlan = |vlan: u16| {
        patched(
            "HostNetworkAttachment",
            "a",
            &json!({"spec": {"mode": null, "nativeVLAN": vlan}}),
        )
    };
    let row = (vlan(3), format!("spec: cannot be changed: {users}"), vlan(2));
    namespace.expect_rules(&[row]).await;
    let attachments = namespace.api::<HostNetworkAttachment>();
    let refusal = attachments.delete("a", &DeleteParams::default()).await.unwrap_err();
    let words = format!("metadata.name: cannot be deleted: {users}");
    assert!(refusal.to_string().contains(&words), "{refusal}");

    let hosts = namespace.api::<BareMetalHost>();
    hosts.delete("h", &DeleteParams::default()).await.unwrap();
    namespace.apply(&attachment(3)).await;
    attachments.delete("a", &DeleteParams::default()).await.unwrap();
}

/// Where no webhook answers.
#[tokio::test]
async fn the_definitions_alone_refuse_what_they_can_express() {
    let namespace = namespace!().await;
    let stored = format!("{BMC}, bootMACAddress: '52:54:00:12:34:56'");
    namespace.apply(&host("h", &stored)).await;
    at(&namespace.api(), "h", "provisioned").await;
    let spec = "{hostName: h, destination: 'https://e/'}";
    namespace.apply(&object("BMCEventSubscription", "s", spec)).await;
    let cases = [
        (
            host("h", &BMC.replace("192.0.2.1", "192.0.2.2")),
            "spec.bmc.address: Invalid value",
        ),
        (
            host("h", "bootMACAddress: '52:54:00:12:34:57'"),
            "bootMACAddress cannot be changed",
        ),
        (
            host("h", "externallyProvisioned: true"),
            "spec.externallyProvisioned: Invalid value",
        ),
        (
            host("n", "disablePowerOff: true").replace("online: true", "online: false"),
            "disablePowerOff cannot be used",
        ),
        (
            host("n", "networkInterfaces: [{}]"),
            "needs either a name or a macAddress",
        ),
        (
            object("BMCEventSubscription", "s", &spec.replace("e/", "f/")),
            "spec.destination: Invalid value",
        ),
        (
            object("HostNetworkAttachment", "a", "{nativeVLAN: 1, allowedVLANs: ['5']}"),
            "allowedVLANs must be empty in mode access",
        ),
    ];
    namespace.expect_all_refused(&cases).await;
    namespace.apply(&host("h", &format!("{stored}, description: a"))).await;
}

fn without_users() -> Webhooks {
    webhooks::all(|_| Ok(Vec::new()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_cert_manager_the_leader_makes_certificates_that_every_replica_serves() {
    let certificates = webhooks::certificates(rbac::NAMESPACE);
    let replicas = Replicas::start(
        without_users,
        certificates,
        &rbac::objects().base,
        rbac::SERVICE_ACCOUNT,
    )
    .await;
    let hosts: Api<BareMetalHost> = Api::namespaced(replicas.client.clone(), "default");
    let host = |spec: serde_json::Value| {
        serde_json::from_value(json!({"apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost",
            "metadata": {"generateName": "h"}, "spec": spec}))
        .unwrap()
    };
    let wrong = host(json!({"online": true, "userData": {"name": "a", "namespace": "other"}}));
    for replica in 0..2 {
        replicas.ask(replica).await;
        eventually(DEADLINE, "the API server trusts the replica", async || {
            match hosts.create(&PostParams::default(), &wrong).await {
                Err(error) if error.to_string().contains("spec.userData.namespace") => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await;
    }
    replicas.expect_report_of_what_nobody_answers().await;
}
