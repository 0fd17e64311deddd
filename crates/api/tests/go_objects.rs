//! Objects as Go clients write them, and what we write ourselves.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helper functions too"
)]

use metal3_api::metal3::hardware::{Bios, Cpu, Firmware, Lldp, Nic, Storage, SystemVendor, Vlan};
use metal3_api::metal3::*;
use metal3_api::reference::{ObjectReference, SecretReference};
use rstest::rstest;
use serde::Serialize;
use serde_json::{Value, json};

/// A host that a Go client has written with hardly anything set: empty structures, zeros and nulls are all there.
fn bare_host() -> Value {
    json!({
        "apiVersion": "metal3.io/v1alpha1",
        "kind": "BareMetalHost",
        "metadata": { "name": "h", "namespace": "n", "creationTimestamp": null },
        "spec": {
            "online": false,
            "bmc": { "address": "", "credentialsName": "" },
            "automatedCleaningMode": "metadata",
            "networkInterfaces": [{ "name": "eth0", "hostNetworkAttachment": {} }],
            "raid": { "hardwareRAIDVolumes": null, "softwareRAIDVolumes": null },
        },
        "status": {
            "operationalStatus": "",
            "errorMessage": "",
            "errorCount": 0,
            "provisioningFailCount": 0,
            "poweredOn": false,
            "goodCredentials": {},
            "triedCredentials": {},
            "operationHistory": {
                "register": { "start": null, "end": null },
                "inspect": { "start": null, "end": null },
                "provision": { "start": null, "end": null },
                "deprovision": { "start": null, "end": null },
            },
            "hardware": { "systemVendor": {}, "firmware": { "bios": {} }, "cpu": {} },
            "provisioning": { "state": "", "ID": "", "image": { "url": "" } },
        },
    })
}

#[test]
fn a_go_host_with_nothing_set_reads_as_defaults() {
    let host: BareMetalHost = serde_json::from_value(bare_host()).unwrap();
    let interface = NetworkInterface {
        name: "eth0".to_owned(),
        ..Default::default()
    };
    let spec = BareMetalHostSpec {
        network_interfaces: vec![interface],
        raid: Some(RaidConfig::default()),
        ..Default::default()
    };
    assert_eq!(host.spec, spec);
    assert!(!host.spec.has_bmc_details());
    assert_eq!(host.spec.wanted_image(), None);
    let hardware = Some(Box::default());
    assert_eq!(
        host.status,
        Some(BareMetalHostStatus {
            hardware,
            ..Default::default()
        })
    );
}

#[test]
fn the_first_status_has_all_required_keys_and_no_others() {
    let status = serde_json::to_value(BareMetalHostStatus::default()).unwrap();
    let expected = json!({
        "operationalStatus": "",
        "errorMessage": "",
        "errorCount": 0,
        "provisioningFailCount": 0,
        "poweredOn": false,
        "provisioning": { "state": "", "ID": "" },
    });
    assert_eq!(status, expected);
}

#[test]
fn a_host_without_spec_reads_as_an_empty_one() {
    let object = json!({ "apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost", "metadata": { "name": "h" } });
    let host: BareMetalHost = serde_json::from_value(object.clone()).unwrap();
    assert_eq!((host.spec, host.status), (BareMetalHostSpec::default(), None));
    let text = serde_json::to_string(&object).unwrap();
    assert_eq!(
        serde_json::from_str::<HardwareData>(&text).unwrap().spec,
        HardwareDataSpec::default()
    );
}

#[test]
fn a_status_from_an_annotation_may_lack_what_the_schema_requires() {
    let status: BareMetalHostStatus = serde_json::from_value(json!({ "provisioning": { "state": "ready" } })).unwrap();
    assert_eq!(status.provisioning.state, ProvisioningState::Ready);
}

#[test]
fn names_that_break_the_pattern_are_right() {
    let status = json!({
        "provisioning": { "state": "available", "ID": "f00d" },
        "hardware": {
            "nics": [{ "vlanId": 5, "speedGbps": 25, "pciAddress": "0:1", "vlans": [{ "id": 7 }],
                       "lldp": { "switchID": "s", "portID": "p", "switchSystemName": "n" } }],
            "storage": [{ "type": "NVME", "sizeBytes": 1, "wwnWithExtension": "w" }],
        },
    });
    let status: BareMetalHostStatus = serde_json::from_value(status).unwrap();
    assert_eq!(status.provisioning.id, "f00d");
    let hardware = status.hardware.unwrap();
    let nic = &hardware.nics[0];
    assert_eq!((nic.vlan_id, nic.speed_gbps, nic.vlans[0].id), (5, 25, 7));
    let lldp = Lldp {
        switch_id: "s".to_owned(),
        port_id: "p".to_owned(),
        switch_system_name: "n".to_owned(),
    };
    assert_eq!(nic.lldp, Some(lldp));
    assert_eq!(
        hardware.storage[0].type_.as_ref().map(hardware::DiskType::as_str),
        Some("NVME")
    );
}

#[test]
fn unknown_texts_survive_and_stop_nothing() {
    let mut object = bare_host();
    object["spec"]["bootMode"] = json!("UEFI2");
    object["status"]["operationalStatus"] = json!("dreaming");
    object["status"]["errorType"] = json!("dream error");
    object["status"]["provisioning"]["state"] = json!("reconsidering");
    let host: BareMetalHost = serde_json::from_value(object.clone()).unwrap();
    assert_eq!(host.spec.boot_mode, Some(BootMode::Other("UEFI2".to_owned())));
    let written = serde_json::to_value(&host).unwrap();
    let paths = [
        "/spec/bootMode",
        "/status/operationalStatus",
        "/status/errorType",
        "/status/provisioning/state",
    ];
    for path in paths {
        assert_eq!(written.pointer(path), object.pointer(path), "{path}");
    }
}

#[rstest]
#[case::null(Value::Null)]
#[case::empty(json!([]))]
#[case::full(json!([{ "level": "1", "rootVolume": true, "physicalDisks": [{ "rotational": false }, { "hctl": "1:0:0:0" }] }]))]
fn raid_lists_keep_the_difference_between_null_and_empty(#[case] list: Value) {
    let raid = json!({ "hardwareRAIDVolumes": null, "softwareRAIDVolumes": list });
    let read: RaidConfig = serde_json::from_value(raid.clone()).unwrap();
    assert_eq!(serde_json::to_value(&read).unwrap(), raid);
}

#[test]
fn false_is_not_absent_where_there_are_three_answers() {
    let hints = json!({ "rotational": false });
    let read: RootDeviceHints = serde_json::from_value(hints.clone()).unwrap();
    assert_eq!(serde_json::to_value(&read).unwrap(), hints);
    let volume = json!({ "level": "5+0", "rotational": false, "sizeGibibytes": 0 });
    let read: HardwareRaidVolume = serde_json::from_value(volume.clone()).unwrap();
    assert_eq!(serde_json::to_value(&read).unwrap(), volume);
    let firmware = json!({ "sriovEnabled": false });
    let read: FirmwareConfig = serde_json::from_value(firmware.clone()).unwrap();
    assert_eq!(serde_json::to_value(&read).unwrap(), firmware);
}

/// Paths of the nulls in a value.
fn nulls(value: &Value, path: &str, found: &mut Vec<String>) {
    match value {
        Value::Null => found.push(path.to_owned()),
        Value::Array(items) => items.iter().for_each(|item| nulls(item, &format!("{path}[]"), found)),
        Value::Object(fields) => fields
            .iter()
            .for_each(|(key, value)| nulls(value, &format!("{path}.{key}"), found)),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn nulls_of<T: Default + Serialize>() -> (String, Vec<String>) {
    let mut found = Vec::new();
    nulls(&serde_json::to_value(T::default()).unwrap(), "", &mut found);
    (std::any::type_name::<T>().to_owned(), found)
}

#[test]
fn defaults_serialise_without_nulls() {
    let defaults = [
        nulls_of::<BareMetalHost>(),
        nulls_of::<BareMetalHostSpec>(),
        nulls_of::<BareMetalHostStatus>(),
        nulls_of::<BmcDetails>(),
        nulls_of::<FirmwareConfig>(),
        nulls_of::<NetworkInterface>(),
        nulls_of::<HostNetworkAttachmentRef>(),
        nulls_of::<SwitchPort>(),
        nulls_of::<Taint>(),
        nulls_of::<ProvisionStatus>(),
        nulls_of::<CredentialsStatus>(),
        nulls_of::<OperationHistory>(),
        nulls_of::<OperationMetric>(),
        nulls_of::<Image>(),
        nulls_of::<CustomDeploy>(),
        nulls_of::<RootDeviceHints>(),
        nulls_of::<HardwareData>(),
        nulls_of::<HardwareDataSpec>(),
        nulls_of::<HardwareDetails>(),
        nulls_of::<SystemVendor>(),
        nulls_of::<Firmware>(),
        nulls_of::<Bios>(),
        nulls_of::<Cpu>(),
        nulls_of::<Nic>(),
        nulls_of::<Vlan>(),
        nulls_of::<Lldp>(),
        nulls_of::<Storage>(),
        nulls_of::<SecretReference>(),
        nulls_of::<ObjectReference>(),
    ];
    for (name, found) in defaults {
        assert!(found.is_empty(), "{name}: {found:?}");
    }
    // The one exception: here null is a value, and Go writes it.
    assert_eq!(
        nulls_of::<RaidConfig>().1,
        [".hardwareRAIDVolumes", ".softwareRAIDVolumes"]
    );
}
