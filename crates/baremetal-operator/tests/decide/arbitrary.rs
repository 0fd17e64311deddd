//! Any host and any node: also pairs that no honest history leads to.

use baremetal_operator::fleet::{Place, Slot};
use baremetal_operator::host::observed::{DiscRequest, MacOwner, NetworkDataView, PowerRequest, SecretView};
use baremetal_operator::host::ramdisk_surroundings;
use metal3_api::metal3::{DataImage, HardwareDetails};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use crate::matrix::NODE_STATES;
use crate::world::{
    IMAGE, MAC, OCI, SUM, Sight, World, configured, custom, data_image, host, image, instance, invalid, live, merge,
    network_data, node, oci, ramdisk, secret, unusable_network_data,
};

pub const OTHER_IMAGE: &str = "http://images/b.qcow2";

const HOST_STATES: [&str; 15] = [
    "",
    "unmanaged",
    "registering",
    "match profile",
    "inspecting",
    "preparing",
    "ready",
    "available",
    "provisioning",
    "provisioned",
    "externally provisioned",
    "deprovisioning",
    "powering off before delete",
    "deleting",
    "levitating",
];

const ERRORS: [&str; 7] = [
    "registration error",
    "inspection error",
    "preparation error",
    "provisioning error",
    "provisioned registration error",
    "power management error",
    "servicing error",
];

/// Several changes of a JSON value, one after another.
fn changes(parts: Vec<BoxedStrategy<Value>>) -> BoxedStrategy<Value> {
    parts
        .prop_map(|parts| {
            let mut all = json!({});
            for part in &parts {
                merge(&mut all, part);
            }
            all
        })
        .boxed()
}

fn pick(choices: Vec<Value>) -> BoxedStrategy<Value> {
    select(choices).boxed()
}

/// The usual value most of the time: a state of which everything is odd shows little.
fn mostly(usual: Value, odd: Vec<Value>) -> BoxedStrategy<Value> {
    prop_oneof![4 => Just(usual), 1 => select(odd)].boxed()
}

fn spec() -> BoxedStrategy<Value> {
    let images = vec![
        json!({}),
        json!({"image": image(IMAGE)}),
        json!({"image": image(OTHER_IMAGE)}),
        json!({"image": {"url": ""}}),
        json!({"image": {"url": IMAGE}}),
        json!({"image": {"url": "file:///etc/passwd", "checksum": "a"}}),
        json!({"image": {"url": "http://images/l.iso", "format": "live-iso"}}),
        json!({"customDeploy": {"method": "install"}}),
        json!({"customDeploy": {"method": "replace"}, "image": image(IMAGE)}),
        json!({"customDeploy": {"method": ""}}),
        json!({"image": {"url": OCI}}),
        json!({"image": {"url": OCI, "ociAuthSecretName": "registry"}}),
        json!({"image": {"url": IMAGE, "checksum": SUM, "checksumType": "sha512", "format": "raw"}}),
    ];
    changes(vec![
        pick(images),
        pick(vec![json!({"online": true}), json!({"online": false})]),
        mostly(
            json!({}),
            vec![
                json!({"bmc": {"address": "", "credentialsName": ""}}),
                json!({"bmc": {"address": "redfish-virtualmedia://", "credentialsName": "bmc"}}),
                json!({"bmc": {"address": "smoke-signals://192.0.2.1"}}),
                json!({"bmc": {"address": "ipmi://192.0.2.2"}}),
                json!({"bmc": {"address": "redfish://192.0.2.1/redfish/v1/Systems/1"}}),
                json!({"bmc": {"address": "redfish://192.0.2.1/redfish/v1/Systems/1"}}),
                json!({"bmc": {"credentialsName": ""}}),
                json!({"bmc": {"credentialsName": "other"}}),
            ],
        ),
        mostly(
            json!({}),
            vec![
                json!({"externallyProvisioned": true}),
                json!({"automatedCleaningMode": "disabled"}),
                json!({"disablePowerOff": true}),
                json!({"inspectionMode": "disabled"}),
                json!({"inspectionMode": "fast"}),
                json!({"bootMode": "UEFISecureBoot"}),
                json!({"bootMACAddress": ""}),
                json!({"bootMACAddress": "52:54:00:AA:BB:CC"}),
                json!({"bootMACAddress": "52:54:00:AA:BB:CC:00:01"}),
                json!({"raid": {"softwareRAIDVolumes": []}}),
                json!({"raid": {"softwareRAIDVolumes": [{"level": "1", "rootVolume": true}]}}),
                json!({"raid": {"softwareRAIDVolumes": [{"level": "0"}]}}),
                json!({"raid": {"hardwareRAIDVolumes": [{"level": "5"}]}}),
                json!({"raid": {"hardwareRAIDVolumes": []}}),
                json!({"raid": {}}),
                json!({"rootDeviceHints": {"deviceName": "/dev/vdx"}}),
                json!({"hardwareProfile": "acme"}),
                json!({"preprovisioningNetworkDataName": "net"}),
            ],
        ),
    ])
}

/// Of a host that waits for a slot.
pub fn in_queue() -> Value {
    let since = "2026-01-02T11:00:00Z";
    json!({"operationalStatus": "delayed", "errorType": null, "errorMessage": "", "conditions": [
        configured(since),
        {"type": "Manageable", "status": "True", "reason": "Manageable", "message": "",
            "observedGeneration": 3, "lastTransitionTime": since},
        {"type": "Waiting", "status": "True", "reason": "Queued", "message": "waits",
            "observedGeneration": 3, "lastTransitionTime": since}]})
}

fn status() -> BoxedStrategy<Value> {
    let error = (
        select(ERRORS.to_vec()),
        1..8_i32,
        select(vec![30, 300, 90_000]),
        any::<bool>(),
    )
        .prop_map(|(kind, count, ago, is_back_off)| {
            let since = crate::world::now() - jiff::SignedDuration::from_secs(ago);
            let since = since.round(jiff::Unit::Second).unwrap().to_string();
            let reason = if is_back_off { "BackOff" } else { "NodeLocked" };
            json!({"operationalStatus": "error", "errorType": kind, "errorMessage": "it broke", "errorCount": count,
                "lastUpdated": since, "conditions": [
                    configured(&since),
                    {"type": "Manageable", "status": "True", "reason": "Manageable", "message": "",
                        "observedGeneration": 3, "lastTransitionTime": since},
                    {"type": "Waiting", "status": "True", "reason": reason, "message": "waits",
                        "observedGeneration": 3, "lastTransitionTime": since}]})
        });
    changes(vec![
        prop_oneof![6 => Just(json!({})), 4 => error, 1 => Just(in_queue())].boxed(),
        pick(vec![
            json!({}),
            json!({"provisioning": {"image": image(IMAGE)}}),
            json!({"provisioning": {"image": image(OTHER_IMAGE)}}),
            json!({"provisioning": {"customDeploy": {"method": "install"}}}),
        ]),
        mostly(
            json!({}),
            vec![
                json!({"provisioning": {"ID": ""}}),
                json!({"provisioning": {"ID": "node-0"}}),
            ],
        ),
        mostly(
            json!({}),
            vec![
                json!({"goodCredentials": null, "triedCredentials": null}),
                json!({"goodCredentials": null}),
                json!({"triedCredentials": {"credentials": {"name": "wrong", "namespace": "n"}, "credentialsVersion": "6"}}),
                json!({"goodCredentials": {"credentials": {"name": "other", "namespace": "n"}, "credentialsVersion": "6"}}),
                json!({"poweredOn": false, "provisioningFailCount": 2, "lastAttemptedImage": image(IMAGE)}),
                json!({"provisioningFailCount": 9, "lastAttemptedImage": image(IMAGE)}),
                json!({"conditions": null}),
                json!({"hardwareProfile": "libvirt"}),
                json!({"provisioning": {"raid": {"softwareRAIDVolumes": [{"level": "1", "rootVolume": true}]}}}),
                json!({"provisioning": {"raid": {"hardwareRAIDVolumes": [{"level": "1"}], "softwareRAIDVolumes": null}}}),
                json!({"provisioning": {"raid": {}}}),
            ],
        ),
        mostly(
            json!({}),
            vec![
                json!({"hardware": {"hostname": "h", "nics": [{"mac": "52:54:00:00:00:09"}]}}),
                json!({"lastUpdated": null}),
                json!({"lastUpdated": null, "provisioning": {"state": ""}}),
            ],
        ),
    ])
}

/// Every annotation that asks for something, with values that can be read and values that cannot.
fn annotations() -> BoxedStrategy<Value> {
    let one = |key: &'static str, value: &'static str| json!({"annotations": {key: value}});
    let restored = r#"{"operationalStatus":"OK","provisioning":{"state":"provisioned","ID":"node-1",
        "image":{"url":"http://images/a.qcow2","checksum":"aaaa"}},"poweredOn":true,"hardware":{"hostname":"h"}}"#;
    let values = vec![
        one("baremetalhost.metal3.io/detached", ""),
        one("baremetalhost.metal3.io/detached", r#"{"force":true}"#),
        one(
            "baremetalhost.metal3.io/detached",
            r#"{"deleteAction":"delay","force":true}"#,
        ),
        one("baremetalhost.metal3.io/detached", r#"{"deleteAction":"delay"}"#),
        one("baremetalhost.metal3.io/detached", "{delay"),
        one("reboot.metal3.io", r#"{"mode":"hard","force":true}"#),
        one("reboot.metal3.io", "{}"),
        one("reboot.metal3.io", "please"),
        one("reboot.metal3.io/a", r#"{"mode":"hard"}"#),
        one("reboot.metal3.io/b", r#"{"force":true}"#),
        one("inspect.metal3.io", ""),
        one("inspect.metal3.io/hardwaredetails", r#"{"hostname":"other"}"#),
        one("inspect.metal3.io/hardwaredetails", r#"{"hostnam":"other"}"#),
        one("baremetalhost.metal3.io/status", restored),
        one("baremetalhost.metal3.io/status", r#"{"provisioning":"#),
        one("baremetalhost.metal3.io/status", ""),
    ];
    prop_oneof![
        2 => Just(json!({})),
        2 => select(values.clone()),
        1 => changes(vec![pick(values.clone()), pick(values)]),
    ]
    .boxed()
}

fn metadata() -> BoxedStrategy<Value> {
    changes(vec![
        mostly(
            json!({}),
            vec![
                json!({"generation": 4}),
                json!({"finalizers": null}),
                json!({"annotations": {"baremetalhost.metal3.io/paused": ""}}),
                json!({"annotations": {"clusterctl.cluster.x-k8s.io/delete-for-move": ""}}),
                json!({"annotations": {"inspect.metal3.io": "disabled"}}),
                json!({"annotations": {"reboot.metal3.io": ""}}),
            ],
        ),
        annotations(),
        pick(
            ["", "bmc", "bmc,wrong", "bmc,net,other", "wrong,other"]
                .map(|held| json!({"annotations": {"baremetalhost.metal3.io/held-secrets": held}}))
                .to_vec(),
        ),
        mostly(
            json!({}),
            vec![
                json!({"annotations": {"baremetalhost.metal3.io/left-disc": r#"{"attachedImage":{"url":"http://images/left.iso"}}"#}}),
                json!({"annotations": {"baremetalhost.metal3.io/left-disc": "by hand"}}),
            ],
        ),
        pick(vec![
            json!({}),
            json!({}),
            json!({"deletionTimestamp": "2026-01-02T00:00:00Z", "generation": 4}),
            json!({"deletionTimestamp": "2026-01-02T00:00:00Z"}),
        ]),
    ])
}

fn node_fields() -> BoxedStrategy<Value> {
    changes(vec![
        pick(vec![
            json!({}),
            instance(IMAGE),
            instance(OTHER_IMAGE),
            custom("install", None),
            custom("replace", Some(IMAGE)),
            live("http://images/l.iso"),
            oci(OCI),
            json!({"instance_uuid": "uid-0"}),
        ]),
        pick(vec![
            json!({}),
            json!({"power_state": "power off"}),
            json!({"power_state": null}),
            json!({"power_state": "error"}),
            json!({"target_power_state": "power off"}),
        ]),
        mostly(
            json!({}),
            vec![
                json!({"reservation": "conductor-1"}),
                json!({"maintenance": true}),
                json!({"maintenance": true, "fault": "power failure"}),
                json!({"maintenance": true, "fault": "clean failure"}),
            ],
        ),
        pick(vec![
            json!({}),
            json!({"target_provision_state": "available"}),
            json!({"target_provision_state": "manageable"}),
        ]),
        pick(vec![
            json!({}),
            json!({"last_error": "it broke"}),
            json!({"last_error": "ä\n".repeat(800)}),
        ]),
        mostly(
            json!({}),
            vec![
                json!({"automated_clean": false}),
                json!({"driver_info": {"redfish_address": "https://192.0.2.9"}}),
                json!({"properties": {"capabilities": "boot_mode:bios"}}),
                json!({"health": "Critical"}),
                json!({"health": "Curious"}),
                json!({"extra": {"metal3_preparation": {"work": "w", "since": "1"}}, "provision_updated_at": "2"}),
                json!({"target_raid_config": {"logical_disks": [{}]}, "raid_interface": "agent"}),
            ],
        ),
    ])
}

/// DataImages that are wanted, failed, wanted no more.
fn discs() -> Vec<DataImage> {
    let failed = json!({"attachedImage": {"url": ""}, "lastReconciled": "2026-01-02T11:59:50Z",
        "error": {"count": 2, "message": "attaching http://images/d.iso: no drive"}});
    let mut going = data_image("http://images/d.iso", &json!({}));
    going.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-02T00:00:00Z")).unwrap();
    vec![
        data_image("http://images/d.iso", &json!({})),
        data_image(
            "http://images/d.iso",
            &json!({"attachedImage": {"url": "http://images/d.iso"}}),
        ),
        data_image(
            "http://images/d.iso",
            &json!({"attachedImage": {"url": "http://images/e.iso"}}),
        ),
        data_image("http://images/d.iso", &failed),
        data_image("", &json!({})),
        going,
    ]
}

fn secret_view() -> BoxedStrategy<(SecretView, Option<String>)> {
    let found = || SecretView::Found(secret("7", 1));
    let mut unclaimed = secret("8", 2);
    unclaimed.claimed = false;
    let others = vec![
        (found(), None),
        (SecretView::Missing, None),
        (SecretView::Missing, Some("7".to_owned())),
        (invalid("key password is empty", false), Some("8".to_owned())),
        (invalid("key password is empty", true), Some("8".to_owned())),
        (SecretView::Found(secret("8", 1)), Some("8".to_owned())),
        (SecretView::Found(secret("8", 2)), Some("8".to_owned())),
        (SecretView::Found(unclaimed), Some("8".to_owned())),
    ];
    prop_oneof![2 => Just((found(), Some("7".to_owned()))), 1 => select(others)].boxed()
}

/// Any host in any surroundings.
pub fn world() -> impl Strategy<Value = World> {
    let sights = vec![
        Sight::Live,
        Sight::Listed,
        Sight::Listed,
        Sight::Unlisted,
        Sight::ListedThenDown,
        Sight::Unknown,
    ];
    let around = (
        secret_view(),
        select(sights),
        select(vec![vec![], vec![MAC.to_owned()], vec!["52:54:00:aa:bb:cc".to_owned()]]),
        any::<[bool; 10]>(),
        prop::option::of(any::<bool>()),
        (
            prop::option::weighted(0.3, select(discs())),
            select(vec![Ok(false), Ok(true), Err("the BMC is silent".to_owned())]),
            select(vec![None, Some(DiscRequest::Attach), Some(DiscRequest::Detach)]),
            select(vec![None, None, Some(2)]),
        ),
    );
    (
        (select(HOST_STATES.to_vec()), metadata(), spec(), status()),
        (prop::option::weighted(0.9, select(NODE_STATES.to_vec())), node_fields()),
        around,
    )
        .prop_map(
            |((state, metadata, spec, status), (node_state, fields), (secret, sight, ports, flags, asked, beside))| {
                let mut change = json!({"metadata": metadata, "spec": spec, "status": status});
                // A word that another operator left, and one that a detached host has.
                let is_at_peace = change["status"]["errorType"].is_null();
                match (flags[0], flags[1], flags[2]) {
                    (true, true, true) if is_at_peace => change["status"]["operationalStatus"] = json!("delayed"),
                    (true, true, false) if is_at_peace => change["status"]["operationalStatus"] = json!("servicing"),
                    (true, false, true) => change["status"]["operationalStatus"] = json!("detached"),
                    _ => {}
                }
                if matches!(state, "powering off before delete" | "deleting") {
                    // A deletion leads there, and no deletion is taken back.
                    change["metadata"]["deletionTimestamp"] = json!("2026-01-02T00:00:00Z");
                }
                let node = node_state.map(|state| node(state, &fields));
                let [
                    has_inventory,
                    has_drive,
                    has_auth,
                    is_valid,
                    mac_taken,
                    remembers,
                    can_disable,
                    is_queued,
                    has_wish,
                    may_claim_unread,
                ] = flags;
                let mut world = World::new(host(state, &change), node, sight);
                (world.secret, world.watched_version) = secret;
                world.may_claim_unread = may_claim_unread;
                world.ports = ports;
                world.inventory = has_inventory.then(HardwareDetails::default);
                world.hardware_data = (has_drive && is_valid).then(|| HardwareDetails {
                    hostname: "from data".into(),
                    ..HardwareDetails::default()
                });
                if !has_drive {
                    world.config_drive = Err("Secret n/user does not exist".into());
                }
                if has_wish {
                    world = world
                        .with_turbo("On", if is_valid { 3 } else { 2 })
                        .with_bios_update(None);
                    world.on_reboot.settings = has_drive;
                    world.on_reboot.updates = has_auth;
                }
                if !has_auth {
                    world.pull_secret = Err("Secret n/registry does not exist".into());
                }
                if !is_valid {
                    world.problems = vec!["deploy: no kernel".into()];
                }
                world.mac_owner = mac_taken.then(|| MacOwner {
                    node: "node-9".into(),
                    name: has_inventory.then(|| "n~other".into()),
                    bmc: metal3_ironic::Fields::default(),
                });
                world.settings.builds_ramdisks = !has_inventory && is_valid;
                world.ramdisk = has_drive.then(|| {
                    ramdisk(&if remembers {
                        json!({})
                    } else {
                        json!({"status": {"conditions": null}})
                    })
                });
                world.network_data = match (has_drive, mac_taken) {
                    (true, true) => network_data("3", is_valid),
                    (true, false) => NetworkDataView::Missing,
                    (false, true) => unusable_network_data(),
                    (false, false) => NetworkDataView::NotLooked {
                        version: None,
                        claimed: false,
                    },
                };
                world.memory.ramdisk =
                    mac_taken.then(|| ramdisk_surroundings(&world.host, world.network_data.version()));
                world.memory.network_data = is_valid.then(|| "3".to_owned());
                world.bmc_refuses = (!is_valid && !remembers).then(|| "401 Unauthorized".into());
                if is_queued {
                    world.slot = Slot::Queued(Place {
                        number: 3,
                        limit: 2,
                        reserved: 0,
                    });
                }
                (
                    world.data_image,
                    world.disc,
                    world.memory.disc_request,
                    world.hardware_data_edit,
                ) = beside;
                world.memory.power_request = asked.map(|on| PowerRequest { on });
                if !remembers {
                    world.memory.accepted_digest = None;
                }
                world.settings.can_disable_power_off = can_disable;
                world
            },
        )
}
