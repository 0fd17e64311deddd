//! What must be there is required without a webhook, in each version, and what was stored before may lack it.

use std::collections::BTreeSet;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::{Patch, PatchParams};
use metal3_testkit::{DEADLINE, TestNamespace, eventually, namespace, without_rules};
use serde_json::{Value, json};

use crate::fixed::{Kind, Stored};

const INFRA: &str = "infrastructure.cluster.x-k8s.io";
const BOTH: &[&str] = &["v1beta1", "v1beta2"];
const OLD: &[&str] = &["v1beta1"];
const NEW: &[&str] = &["v1beta2"];
const ALPHA: &[&str] = &["v1alpha1"];

/// A rule.
struct Row {
    group: &'static str,
    versions: &'static [&'static str],
    kind: &'static str,
    /// A specification that breaks the rule.
    wrong: Value,
    /// How the message begins.
    words: &'static str,
    /// One that differs and keeps it. The rule of one row may be the exception of another.
    right: Value,
}

fn row(
    group: &'static str,
    versions: &'static [&'static str],
    kind: &'static str,
    wrong: Value,
    words: &'static str,
    right: Value,
) -> Row {
    Row {
        group,
        versions,
        kind,
        wrong,
        words,
        right,
    }
}

/// What the schema of v1beta2 refuses by itself, such as an empty text, is shown in v1beta1.
fn rows() -> Vec<Row> {
    let infra = |versions, kind, wrong, words, right| row(INFRA, versions, kind, wrong, words, right);
    let rows = [
        clusters(),
        machines(),
        machine_templates(),
        data_templates(),
        hosts(),
        subscriptions(),
    ];
    let claims = [
        infra(
            NEW,
            "Metal3DataClaim",
            json!({}),
            "spec.template.name: ",
            json!({"template": {"name": "t"}}),
        ),
        infra(
            BOTH,
            "Metal3DataClaim",
            json!({"template": {"namespace": "n"}}),
            "spec.template.name: Invalid value: is required: the name of a Metal3DataTemplate",
            json!({"template": {"name": "t"}}),
        ),
        row(
            "ipam.metal3.io",
            ALPHA,
            "IPClaim",
            json!({"pool": {"name": ""}}),
            "spec.pool.name: Invalid value: is required: the name of an IPPool",
            json!({"pool": {"name": "p"}}),
        ),
        row(
            "ipam.metal3.io",
            ALPHA,
            "IPAddress",
            json!({"address": "192.0.2.1", "pool": {}, "claim": {"name": "c"}}),
            "spec.pool.name: Invalid value: is required: the name of an IPPool",
            json!({"address": "192.0.2.1", "pool": {"name": "p"}, "claim": {"name": "c"}}),
        ),
        row(
            "ipam.metal3.io",
            ALPHA,
            "IPAddress",
            json!({"address": "192.0.2.1", "pool": {"name": "p"}, "claim": {"name": ""}}),
            "spec.claim.name: Invalid value: is required: the name of an IPClaim",
            json!({"address": "192.0.2.1", "pool": {"name": "p"}, "claim": {"name": "c"}}),
        ),
    ];
    rows.into_iter().flatten().chain(claims).collect()
}

fn clusters() -> Vec<Row> {
    let endpoint = |host: &str, port: i32| json!({"controlPlaneEndpoint": {"host": host, "port": port}});
    let template = |spec: Value| json!({"template": {"spec": spec}});
    let of = |versions, kind, wrong, words, right| row(INFRA, versions, kind, wrong, words, right);
    let (cluster, made) = ("Metal3Cluster", "Metal3ClusterTemplate");
    vec![
        of(
            BOTH,
            cluster,
            json!({}),
            "spec.controlPlaneEndpoint.host: ",
            endpoint("h", 6443),
        ),
        of(
            NEW,
            cluster,
            json!({"controlPlaneEndpoint": {"port": 6443}}),
            "spec.controlPlaneEndpoint.host: Invalid value: is required: the name or address",
            json!({"controlPlaneEndpoint": {"host": "h"}}),
        ),
        of(
            OLD,
            cluster,
            endpoint("", 6443),
            "spec.controlPlaneEndpoint.host: ",
            endpoint("h", 0),
        ),
        of(
            BOTH,
            made,
            template(json!({})),
            "spec.template.spec.controlPlaneEndpoint.host: Invalid value: is required",
            template(endpoint("h", 6443)),
        ),
        of(
            OLD,
            made,
            template(endpoint("h", 0)),
            "spec.template.spec.controlPlaneEndpoint.port: Invalid value: is required: the port",
            template(endpoint("h", 1)),
        ),
        of(
            NEW,
            made,
            template(json!({"controlPlaneEndpoint": {"host": "h"}})),
            "spec.template.spec.controlPlaneEndpoint.port: ",
            template(endpoint("h", 1)),
        ),
    ]
}

fn hosts() -> Vec<Row> {
    let of = |kind, wrong: Value, words, right: Value| {
        let with = |mut spec: Value| {
            let power = if kind == "BareMetalHost" { "online" } else { "poweredOn" };
            spec[power] = json!(false);
            spec
        };
        row("metal3.io", ALPHA, kind, with(wrong), words, with(right))
    };
    let image = |fields: Value| json!({ "image": fields });
    let checksum = "spec.image.checksum: Invalid value: is required";
    let images = ["BareMetalHost", "HostClaim"].into_iter().flat_map(|kind| {
        [
            of(
                kind,
                image(json!({"url": "https://e/i"})),
                checksum,
                image(json!({"url": "https://e/i", "checksum": "a"})),
            ),
            of(
                kind,
                image(json!({"url": "https://e/i", "format": "raw"})),
                checksum,
                image(json!({"url": "https://e/i", "format": "live-iso"})),
            ),
            of(
                kind,
                image(json!({"url": "ociX://e/i"})),
                checksum,
                image(json!({"url": "oci://e/i"})),
            ),
            of(
                kind,
                image(json!({"url": "OCI://e/i", "checksum": "a"})),
                "spec.image.checksum: Invalid value: must not be set for an oci:// image",
                image(json!({"url": "OCI://e/i", "checksumType": "sha256"})),
            ),
        ]
    });
    let host = |wrong, words, right| of("BareMetalHost", wrong, words, right);
    let device = |name: &str| json!({"rootDeviceHints": {"deviceName": name}});
    let devices = [("sda", "/dev/sda"), ("/devs/a", "/dev/disk/by-path/x")];
    let devices = devices.into_iter().map(|(wrong, right)| {
        let words = "spec.rootDeviceHints.deviceName: Invalid value: must be a device such as /dev/sda";
        host(device(wrong), words, device(right))
    });
    let inspection = |fields: Value| {
        let mut spec = json!({"inspectionMode": "disabled", "bmc": {"address": "redfish://b", "credentialsName": "c"}});
        spec.as_object_mut()
            .unwrap()
            .extend(fields.as_object().unwrap().clone());
        spec
    };
    let others = [
        host(
            json!({"firmware": {}}),
            "spec.firmware: Invalid value: is no longer supported",
            json!({}),
        ),
        host(
            inspection(json!({})),
            "spec.bootMACAddress: Invalid value: is required because inspection is disabled",
            inspection(json!({"bootMACAddress": "52:54:00:12:34:56"})),
        ),
        host(
            inspection(json!({})),
            "spec.bootMACAddress: Invalid value: is required because inspection is disabled",
            inspection(json!({"inspectionMode": "agent"})),
        ),
    ];
    images.chain(devices).chain(others).collect()
}

fn subscriptions() -> Vec<Row> {
    let of = |wrong, words| {
        let right = json!({"hostName": "h", "destination": "https://e/"});
        row("metal3.io", ALPHA, "BMCEventSubscription", wrong, words, right)
    };
    vec![
        of(json!({}), "spec.hostName: Invalid value: is required: the name"),
        of(
            json!({"hostName": "", "destination": "https://e/"}),
            "spec.hostName: Invalid value: is required: the name",
        ),
        of(
            json!({"hostName": "h"}),
            "spec.destination: Invalid value: is required: the URL",
        ),
    ]
}

/// A kind, how its images are nested, and where the message says that they are.
type Nesting = (&'static str, fn(Value) -> Value);

fn machines() -> Vec<Row> {
    images(("Metal3Machine", |spec| spec))
}

fn machine_templates() -> Vec<Row> {
    images(("Metal3MachineTemplate", |spec| json!({"template": {"spec": spec}})))
}

fn images((kind, nested): Nesting) -> Vec<Row> {
    let image = |fields: Value| nested(json!({"image": fields}));
    let custom = || nested(json!({"customDeploy": {"method": "m"}}));
    let plain = || image(json!({"url": "https://e/i", "checksum": "a"}));
    let of = |versions, wrong, words, right| row(INFRA, versions, kind, wrong, words, right);
    vec![
        of(
            BOTH,
            nested(json!({})),
            "image: Invalid value: either an image",
            custom(),
        ),
        of(
            OLD,
            image(json!({"url": ""})),
            "image: Invalid value: either an image",
            plain(),
        ),
        of(
            BOTH,
            image(json!({"url": "https://e/i"})),
            "image.checksum: Invalid value: is required",
            nested(json!({"image": {"url": "https://e/i"}, "customDeploy": {"method": "m"}})),
        ),
        of(
            BOTH,
            image(json!({"url": "https://e/oci://i", "checksum": ""})),
            "image.checksum: Invalid value: is required",
            image(json!({"url": "OCI://e/i", "checksum": ""})),
        ),
        of(
            NEW,
            image(json!({"url": "https://e/i", "diskFormat": "raw"})),
            "image.checksum: Invalid value: is required",
            image(json!({"url": "https://e/i", "diskFormat": "live-iso"})),
        ),
        of(
            OLD,
            image(json!({"url": "https://e/i", "format": "raw"})),
            "image.checksum: Invalid value: is required",
            image(json!({"url": "https://e/i", "format": "live-iso"})),
        ),
        of(
            BOTH,
            image(json!({"url": "Oci://e/i", "checksum": "a"})),
            "image.checksum: Invalid value: must not be set for an oci:// image",
            plain(),
        ),
        of(
            BOTH,
            image(json!({"url": "oci://e/i", "checksumType": "sha256"})),
            "image.checksumType: Invalid value: must not be set for an oci:// image",
            image(json!({"url": "oci://e/i"})),
        ),
    ]
}

fn data_templates() -> Vec<Row> {
    // v1beta1 requires it, and v1beta2 has it too.
    let template = |mut spec: Value| {
        spec["clusterName"] = json!("c");
        spec
    };
    let from = |fields: Value| template(json!({"metaData": {"fromHostInterfaces": [fields]}}));
    let network = |family: &str, source: Value| {
        let mut network = json!({"id": "a", "link": "b"});
        network
            .as_object_mut()
            .unwrap()
            .extend(source.as_object().unwrap().clone());
        template(json!({"networkData": {"networks": {family: [network]}}}))
    };
    let of = |versions, wrong, words, right| row(INFRA, versions, "Metal3DataTemplate", wrong, words, right);
    let each = "spec.metaData.fromHostInterfaces: Invalid value: each entry needs either";
    let ipv4 = "spec.networkData.networks.ipv4: Invalid value: each network needs one of";
    let ipv6 = "spec.networkData.networks.ipv6: Invalid value: each network needs one of";
    let reference = || json!({"fromPoolRef": {"kind": "IPPool", "name": "p"}});
    let pool = |name: &str| json!({ "ipAddressFromIPPool": name });
    let annotation = || json!({"fromPoolAnnotation": {"object": "machine", "annotation": "a"}});
    vec![
        of(
            BOTH,
            from(json!({"key": "a"})),
            each,
            from(json!({"key": "a", "interface": "e"})),
        ),
        of(
            BOTH,
            from(json!({"key": "a", "interface": "e", "fromBootMAC": true})),
            each,
            from(json!({"key": "a", "interface": "e", "fromBootMAC": false})),
        ),
        of(
            OLD,
            from(json!({"key": "a", "interface": "", "fromBootMAC": false})),
            each,
            from(json!({"key": "a", "interface": "", "fromBootMAC": true})),
        ),
        of(BOTH, network("ipv4", json!({})), ipv4, network("ipv4", pool("p"))),
        of(
            OLD,
            network("ipv4", json!({"fromPoolRef": {"kind": "", "name": ""}})),
            ipv4,
            network("ipv4", reference()),
        ),
        of(NEW, network("ipv6", json!({})), ipv6, network("ipv6", reference())),
        of(OLD, network("ipv6", pool("")), ipv6, network("ipv6", pool("p"))),
        of(NEW, network("ipv4", json!({})), ipv4, network("ipv4", annotation())),
        of(NEW, network("ipv6", json!({})), ipv6, network("ipv6", annotation())),
    ]
}

/// Each rule in each version that has it.
fn objects(namespace: &TestNamespace) -> Vec<(Stored<'_>, Stored<'_>, &'static str)> {
    let each = |row: Row| {
        row.versions.iter().map(move |version| {
            let object = |spec: &Value| Stored::unwritten(namespace, Kind(row.group, version, row.kind), spec.clone());
            (object(&row.wrong), object(&row.right), row.words)
        })
    };
    rows().into_iter().flat_map(each).collect()
}

/// The API server prints the value between the two, which may be long.
fn has_words(told: &str, words: &str) -> bool {
    let (field, problem) = words.split_once("Invalid value: ").unwrap_or((words, ""));
    told.contains(field) && told.contains(problem)
}

// OWN 31f: what must be there was required by the webhooks alone.
#[tokio::test]
async fn what_must_be_there_is_required_without_a_webhook() {
    let namespace = namespace!().await;
    for (wrong, right, words) in objects(&namespace) {
        let Err(told) = wrong.could_be_created().await else {
            panic!("accepted: {}", wrong.object())
        };
        assert!(has_words(&told, words), "{}: {told}", wrong.object());
        if let Err(told) = right.could_be_created().await {
            panic!("refused: {}: {told}", right.object());
        }
    }
}

/// Gives a definition these versions, and returns those that it had.
async fn change_versions(namespace: &TestNamespace, definition: &str, change: impl FnOnce(&mut Value)) -> Value {
    let definitions: Api<CustomResourceDefinition> = Api::all(namespace.client.clone());
    let found = definitions.get(definition).await.unwrap();
    let before = serde_json::to_value(found.spec.versions).unwrap();
    let mut after = before.clone();
    change(&mut after);
    let patch = Patch::Merge(json!({"spec": {"versions": after}}));
    definitions
        .patch(definition, &PatchParams::default(), &patch)
        .await
        .unwrap();
    before
}

/// A change of each kind that has nothing to do with its rules.
fn edit(kind: &str) -> Value {
    let of_machine = json!({"automatedCleaningMode": "disabled"});
    let of_cluster = json!({"cloudProviderEnabled": true});
    match kind {
        "HostNetworkAttachment" => json!({"mtu": 9000}),
        "BareMetalHost" => json!({"description": "a"}),
        "HostClaim" => json!({"poweredOn": true}),
        "Metal3Machine" => of_machine,
        "Metal3MachineTemplate" => json!({"template": {"spec": of_machine}}),
        "Metal3Cluster" => of_cluster,
        "Metal3ClusterTemplate" => json!({"template": {"spec": of_cluster}}),
        "Metal3DataTemplate" => json!({"clusterName": "d"}),
        "IPAddress" => json!({"prefix": 24}),
        // Nothing else can change.
        "Metal3DataClaim" | "IPClaim" | "BMCEventSubscription" => json!({}),
        other => panic!("what can change in {other}?"),
    }
}

#[tokio::test]
async fn no_host_is_called_like_a_node_of_ironic() {
    let namespace = namespace!().await;
    let host = |name: &str| {
        let spec = json!({"online": false});
        Stored::unwritten(&namespace, Kind("metal3.io", "v1alpha1", "BareMetalHost"), spec).named(name.to_owned())
    };
    for name in [
        "6f9d0d1e-1c1e-4d53-9c56-0b6d3c1f4a10",
        "6f9d0d1e1c1e4d539c560b6d3c1f4a10",
    ] {
        let told = host(name).store().await.unwrap_err();
        assert!(told.contains("must not be a UUID"), "{told}");
    }
    for name in [
        "6f9d0d1e-1c1e-4d53-9c56-0b6d3c1f4a1",
        "6f9d0d1e-1c1e4d539c560b6d3c1f4a10",
    ] {
        host(name).store().await.unwrap();
    }
}

#[tokio::test]
async fn what_was_wrong_before_its_rule_may_stay() {
    let namespace = namespace!().await.elsewhere().await;
    let unlike_a_webhook = [
        (
            Kind("metal3.io", "v1alpha1", "HostNetworkAttachment"),
            json!({"mode": "access", "nativeVLAN": 1, "allowedVLANs": ["5"]}),
        ),
        (
            Kind("metal3.io", "v1alpha1", "BareMetalHost"),
            json!({"online": false, "disablePowerOff": true, "networkInterfaces": [{}]}),
        ),
    ];
    let wrong = unlike_a_webhook.map(|(kind, spec)| Stored::unwritten(&namespace, kind, spec));
    let wrong = wrong
        .into_iter()
        .chain(objects(&namespace).into_iter().map(|(wrong, ..)| wrong));
    let wrong: Vec<_> = wrong
        .enumerate()
        .map(|(n, wrong)| wrong.named(format!("wrong-{n}")))
        .collect();
    let definitions: BTreeSet<String> = wrong.iter().map(Stored::definition).collect();
    let mut with_rules = Vec::new();
    for definition in &definitions {
        with_rules.push(change_versions(&namespace, definition, without_rules).await);
    }
    for stored in &wrong {
        eventually(DEADLINE, "it is accepted without the rules", async || {
            stored.store().await
        })
        .await;
    }
    for (definition, versions) in definitions.iter().zip(with_rules) {
        change_versions(&namespace, definition, |now| *now = versions).await;
    }
    for stored in &wrong {
        eventually(DEADLINE, "the rules apply again", async || {
            match stored.could_be_created().await {
                Ok(()) => Err("it is accepted".to_owned()),
                Err(_) => Ok(()),
            }
        })
        .await;
        stored.can_be_written().await;
        stored.takes(edit(stored.kind())).await;
    }
}
