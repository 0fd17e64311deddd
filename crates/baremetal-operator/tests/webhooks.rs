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
use serde_json::json;

fn object(kind: &str, name: &str, spec: &str) -> String {
    format!("{{apiVersion: metal3.io/v1alpha1, kind: {kind}, metadata: {{name: {name}}}, spec: {spec}}}")
}

fn host(name: &str, spec: &str) -> String {
    object("BareMetalHost", name, &format!("{{online: true, {spec}}}"))
}

fn annotated(key: &str, value: &str) -> String {
    format!(
        "{{apiVersion: metal3.io/v1alpha1, kind: BareMetalHost, metadata: {{name: h, annotations: {{{key}: '{value}'}}}}, \
         spec: {{online: true}}}}"
    )
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

#[tokio::test]
async fn what_is_wrong_is_refused_with_its_field() {
    let namespace = namespace!().await;
    serve(&namespace).await;
    let subscription = |spec: &str| object("BMCEventSubscription", "s", spec);
    let attachment = |spec: &str| object("HostNetworkAttachment", "a", spec);
    let claim = |selector: &str| {
        object(
            "HostClaim",
            "c",
            &format!("{{poweredOn: true, hostSelector: {selector}}}"),
        )
    };
    let cases = [
        (
            host("h", "bmc: {address: 'foo://h', credentialsName: c}"),
            "spec.bmc.address: invalid BMC address",
        ),
        (
            host("h", "bmc: {address: 'libvirt://h', credentialsName: c}"),
            "spec.bootMACAddress: is required",
        ),
        (host("h", "firmware: {}"), "spec.firmware: is no longer supported"),
        (
            host("h", FOREIGN),
            "spec.userData.namespace: \"other\" is another namespace",
        ),
        (
            host("h", "image: {url: 'file:///i', checksum: a}"),
            "spec.image.url: scheme \"file\"",
        ),
        (
            host("h", "image: {url: 'https://e/i'}"),
            "spec.image.checksum: is required",
        ),
        (
            host("h", "rootDeviceHints: {deviceName: sda}"),
            "spec.rootDeviceHints.deviceName: ",
        ),
        (
            host(
                "h",
                "raid: {hardwareRAIDVolumes: [{level: '1'}], softwareRAIDVolumes: [{level: '1'}]}",
            ),
            "spec.raid: hardwareRAIDVolumes and",
        ),
        (
            host("h", "networkInterfaces: [{name: a}, {name: A}]"),
            "spec.networkInterfaces[1]: \"A\" is selected",
        ),
        (
            host("h", "firmware: {}, image: {url: ''}"),
            "[spec.firmware: is no longer supported: use HostFirmwareSettings, spec.image.url: is required, \
             spec.image.checksum: is required]",
        ),
        (
            annotated("inspect.metal3.io", "now"),
            "metadata.annotations[inspect.metal3.io]: must be",
        ),
        (
            annotated("reboot.metal3.io/a", "{}}"),
            "metadata.annotations[reboot.metal3.io/a]: must be",
        ),
        (
            annotated("baremetalhost.metal3.io/status", "{\"colour\": \"red\"}"),
            "metadata.annotations[baremetalhost.metal3.io/status]: unknown field",
        ),
        (
            object("BareMetalHost", "0123456789abcdef0123456789abcdef", "{online: true}"),
            "metadata.name: must not be a UUID",
        ),
        (
            subscription("{}"),
            "[spec.hostName: is required, spec.destination: is required]",
        ),
        (
            subscription("{hostName: h, destination: 'https://e'}"),
            "spec.destination: needs a path",
        ),
        (
            subscription("{hostName: h, destination: 'https://e/', httpHeadersRef: {name: s}}"),
            "spec.httpHeadersRef.namespace: \"\" must be",
        ),
        (
            object("DataImage", "d", "{url: 'nfs://e/i'}"),
            "spec.url: scheme \"nfs\"",
        ),
        (
            object(
                "HostFirmwareComponents",
                "f",
                "{updates: [{component: bmc, url: bmc.bin}]}",
            ),
            "spec.updates[0].url: is neither",
        ),
        (
            claim("{matchLabels: {'a b': c}}"),
            "spec.hostSelector.matchLabels[a b]: ",
        ),
        (
            claim("{matchExpressions: [{key: a, operator: In, values: [b]}]}"),
            "spec.hostSelector.matchExpressions[0].operator: \"In\"",
        ),
        (
            attachment("{mode: trunk, nativeVLAN: 1, allowedVLANs: ['4095']}"),
            "spec.allowedVLANs[0]: \"4095\"",
        ),
    ];
    namespace.expect_all_refused(&cases).await;
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
    namespace
        .expect_refused(&attachment(3), &format!("spec: cannot be changed: {users}"))
        .await;
    // Everything else may.
    namespace.apply(&attachment(2)).await;
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
