//! Each rule with a host that breaks it and a similar one that does not.

use rstest::rstest;
use serde_json::{Value, json};

use super::*;

/// A valid host with these changes (a JSON merge patch).
fn host(patch: &Value) -> BareMetalHost {
    let mut host = json!({
        "apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost",
        "metadata": {"name": "h", "namespace": "n"},
        "spec": {"online": true, "bmc": {"address": "redfish://192.0.2.1/redfish/v1/Systems/1", "credentialsName": "c"}},
    });
    json_patch::merge(&mut host, patch);
    serde_json::from_value(host).unwrap()
}

fn texts(errors: &[FieldError]) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

fn spec(spec: &Value) -> Value {
    json!({"spec": spec})
}

fn annotated(key: &str, value: &str) -> Value {
    json!({"metadata": {"annotations": {key: value}}})
}

/// Expects the first host to break one rule, and the second none.
fn expect(wrong: &Value, right: &Value, error: &str) {
    let errors = texts(&(RULES.shape)(&host(wrong)));
    assert!(
        matches!(errors.as_slice(), [one] if one.starts_with(error)),
        "{error}: {errors:?}"
    );
    assert_eq!(texts(&(RULES.shape)(&host(right))), <[&str; 0]>::default());
}

#[rstest]
#[case::type_of_bmc(json!({"bmc": {"address": "foo://h"}}), json!({"bmc": {"address": "ipmi://h"}}), "spec.bmc.address: invalid BMC address: type \"foo\"")]
#[case::host_of_bmc(json!({"bmc": {"address": "ipmi://a_b"}}), json!({"bmc": {"address": "10.0.0.5:6230"}}), "spec.bmc.address: invalid BMC address: host")]
#[case::no_bmc(json!({"bmc": {"address": "ipmi://-a"}}), json!({"bmc": null}), "spec.bmc.address: ")]
#[case::firmware(json!({"firmware": {}}), json!({"firmware": null}), "spec.firmware: is no longer supported")]
#[case::user_data(json!({"userData": {"name": "s", "namespace": "o"}}), json!({"userData": {"name": "s", "namespace": "n"}}),
    "spec.userData.namespace: \"o\" is another namespace than the object's own (\"n\") for Secret \"s\"")]
#[case::meta_data(json!({"metaData": {"name": "s", "namespace": "o"}}), json!({"metaData": {"name": "s"}}), "spec.metaData.namespace: ")]
#[case::network_data(json!({"networkData": {"name": "s", "namespace": "o"}}), json!({"networkData": {"name": "s"}}), "spec.networkData.namespace: ")]
#[case::both_raids(json!({"raid": {"hardwareRAIDVolumes": [{"level": "1"}], "softwareRAIDVolumes": [{"level": "1"}]}}),
    json!({"raid": {"hardwareRAIDVolumes": [{"level": "1"}], "softwareRAIDVolumes": []}}), "spec.raid: hardwareRAIDVolumes and")]
#[case::controller(json!({"raid": {"hardwareRAIDVolumes": [{"level": "1", "physicalDisks": ["a"]}]}}),
    json!({"raid": {"hardwareRAIDVolumes": [{"level": "1", "physicalDisks": ["a"], "controller": "c"}]}}),
    "spec.raid.hardwareRAIDVolumes[0].controller: is missing")]
#[case::number_of_disks(json!({"raid": {"hardwareRAIDVolumes": [{"level": "1", "physicalDisks": ["a"], "controller": "c", "numberOfPhysicalDisks": 2}]}}),
    json!({"raid": {"hardwareRAIDVolumes": [{"level": "1", "numberOfPhysicalDisks": 2}]}}),
    "spec.raid.hardwareRAIDVolumes[0].numberOfPhysicalDisks: is 2, but physicalDisks has 1 entries")]
#[case::root_volumes(json!({"raid": {"softwareRAIDVolumes": [{"level": "1", "rootVolume": true}, {"level": "1", "rootVolume": true}]}}),
    json!({"raid": {"softwareRAIDVolumes": [{"level": "1", "rootVolume": true}, {"level": "0"}]}}),
    "spec.raid.softwareRAIDVolumes: only one")]
#[case::root_hints(json!({"rootDeviceHints": {}, "raid": {"softwareRAIDVolumes": [{"level": "1", "rootVolume": true}]}}),
    json!({"rootDeviceHints": {}, "raid": {"softwareRAIDVolumes": [{"level": "1"}]}}),
    "spec.raid.softwareRAIDVolumes[0].rootVolume: and spec.rootDeviceHints")]
#[case::root_level(json!({"raid": {"softwareRAIDVolumes": [{"level": "1"}, {"level": "0", "rootVolume": true}]}}),
    json!({"raid": {"softwareRAIDVolumes": [{"level": "0"}]}}), "spec.raid.softwareRAIDVolumes[1].level: must be 1")]
#[case::device(json!({"rootDeviceHints": {"deviceName": "sda"}}), json!({"rootDeviceHints": {"deviceName": "/dev/sda"}}),
    "spec.rootDeviceHints.deviceName: \"sda\" must be a device")]
#[case::device_path(json!({"rootDeviceHints": {"deviceName": "/dev/disk/by-id/a"}}),
    json!({"rootDeviceHints": {"deviceName": "/dev/disk/by-path/pci-1"}}), "spec.rootDeviceHints.deviceName: ")]
#[case::image_url(json!({"image": {"url": "file:///i", "checksum": "a"}}), json!({"image": {"url": "ftp://h/i", "checksum": "a"}}),
    "spec.image.url: scheme \"file\" cannot be used")]
#[case::no_url(json!({"image": {"url": "", "checksum": "a"}}), json!({"image": null}), "spec.image.url: is required")]
#[case::no_checksum(json!({"image": {"url": "http://h/i"}}), json!({"image": {"url": "http://h/i", "format": "live-iso"}}),
    "spec.image.checksum: is required")]
#[case::oci_checksum(json!({"image": {"url": "oci://h/i", "checksum": "a"}}), json!({"image": {"url": "oci://h/i"}}),
    "spec.image.checksum: must not be set")]
#[case::checksum_type(json!({"image": {"url": "http://h/i", "checksum": "a", "checksumType": "crc"}}),
    json!({"image": {"url": "http://h/i", "checksum": "a", "checksumType": "auto"}}), "spec.image.checksumType: \"crc\" is unknown")]
#[case::mode(json!({"inspectionMode": "quick"}), json!({"inspectionMode": "agent"}), "spec.inspectionMode: \"quick\" is unknown")]
#[case::fast(json!({"bmc": {"address": "ipmi://h"}, "inspectionMode": "fast"}), json!({"inspectionMode": "fast"}),
    "spec.inspectionMode: BMCs of type ipmi cannot be inspected")]
#[case::power(json!({"online": false, "disablePowerOff": true}), json!({"online": true, "disablePowerOff": true}),
    "spec.disablePowerOff: cannot be used with online: false")]
#[case::no_selector(json!({"networkInterfaces": [{}]}), json!({"networkInterfaces": [{"name": "a"}, {"name": "b"}]}),
    "spec.networkInterfaces[0]: needs a name")]
#[case::both_selectors(json!({"networkInterfaces": [{"name": "a", "macAddress": "52:54:00:12:34:56"}]}),
    json!({"networkInterfaces": [{"macAddress": "52:54:00:12:34:56"}]}), "spec.networkInterfaces[0]: must not have both")]
#[case::same_selector(json!({"networkInterfaces": [{"name": "a"}, {"name": "A"}]}), json!({"networkInterfaces": []}),
    "spec.networkInterfaces[1]: \"A\" is selected by another entry")]
#[case::hardware_raid(json!({"bmc": {"address": "ipmi://h"}, "raid": {"hardwareRAIDVolumes": [{"level": "1"}]}}),
    json!({"bmc": {"address": "ipmi://h"}, "raid": {"hardwareRAIDVolumes": []}}),
    "spec.raid.hardwareRAIDVolumes: BMCs of type ipmi give no access")]
#[case::libvirt(json!({"bmc": {"address": "libvirt://h"}}), json!({"bmc": {"address": "libvirt://h"}, "bootMACAddress": "52:54:00:12:34:56"}),
    "spec.bootMACAddress: is required for BMCs of type libvirt")]
#[case::uninspected(json!({"inspectionMode": "disabled"}), json!({"inspectionMode": "disabled", "bootMACAddress": "52:54:00:12:34:56"}),
    "spec.bootMACAddress: is required because inspection is disabled")]
#[case::mac(json!({"bootMACAddress": "x52:54:00:12:34:56"}), json!({"bootMACAddress": "52-54-00-12-34-56"}),
    "spec.bootMACAddress: \"x52:54:00:12:34:56\" must be a MAC address")]
#[case::secure_boot(json!({"bmc": {"address": "ipmi://h"}, "bootMode": "UEFISecureBoot"}), json!({"bootMode": "UEFISecureBoot"}),
    "spec.bootMode: BMCs of type ipmi have no secure boot")]
fn specifications(#[case] wrong: Value, #[case] right: Value, #[case] error: &str) {
    expect(&spec(&wrong), &spec(&right), error);
}

const HARDWARE: &str = "inspect.metal3.io/hardwaredetails";
const STATUS: &str = "baremetalhost.metal3.io/status";

#[rstest]
#[case(
    STATUS,
    "{\"colour\": \"red\"}",
    "{\"errorType\": \"servicing error\", \"operationalStatus\": \"servicing\"}",
    "unknown field"
)]
#[case(STATUS, "ok", "", "expected")]
#[case(
    STATUS,
    "{\"operationalStatus\": \"splendid\"}",
    "{\"operationalStatus\": \"OK\"}",
    "operationalStatus: "
)]
#[case("reboot.metal3.io", "please", "", "must be empty, or JSON")]
#[case(
    "reboot.metal3.io/a",
    "{\"mode\": \"gentle\"}",
    "{\"mode\": \"hard\", \"force\": true}",
    "mode \"gentle\" is unknown"
)]
#[case("inspect.metal3.io", "now", "", "must be empty or \"disabled\"")]
fn annotations_of_hosts(#[case] key: &str, #[case] wrong: &str, #[case] right: &str, #[case] words: &str) {
    let error = format!("metadata.annotations[{key}]: {words}");
    expect(&annotated(key, wrong), &annotated(key, right), &error);
}

/// Texts of any length become part of what a parser says.
#[rstest]
#[case::unknown_field(format!(r#"{{"{}": 1}}"#, "x".repeat(100_000)))]
#[case::wrong_type(format!(r#"{{"errorCount": "{}"}}"#, "x".repeat(100_000)))]
fn what_is_wrong_with_an_annotation_is_told_briefly(#[case] wrong: String) {
    let errors = texts(&(RULES.shape)(&host(&annotated(STATUS, &wrong))));
    assert!(
        errors.len() == 1 && errors[0].len() < 2_000,
        "{} bytes",
        errors[0].len()
    );
}

#[test]
fn hardware_in_an_annotation_needs_a_host_without_inspection() {
    let with = |mode: &str, details: &str| {
        json!({"metadata": {"annotations": {HARDWARE: details}},
            "spec": {"inspectionMode": mode, "bootMACAddress": "52:54:00:12:34:56"}})
    };
    let field = format!("metadata.annotations[{HARDWARE}]: ");
    expect(
        &with("agent", "{}"),
        &with("disabled", "{\"hostname\": \"a\"}"),
        &format!("{field}cannot be used unless"),
    );
    expect(
        &with("disabled", "{\"hostnam\": \"a\"}"),
        &with("agent", ""),
        &format!("{field}unknown field"),
    );
}

#[rstest]
#[case("disabled", "agent", false)]
#[case("disabled", "disabled", true)]
#[case("", "disabled", true)]
#[case("", "fast", true)]
fn annotation_and_mode_of_inspection_agree(#[case] value: &str, #[case] mode: &str, #[case] agree: bool) {
    let patch = json!({"metadata": {"annotations": {"inspect.metal3.io": value}},
        "spec": {"inspectionMode": mode, "bootMACAddress": "52:54:00:12:34:56"}});
    let errors = texts(&(RULES.shape)(&host(&patch)));
    assert_eq!(errors.is_empty(), agree, "{errors:?}");
    assert!(
        errors
            .iter()
            .all(|error| error.contains("contradicts spec.inspectionMode"))
    );
}

#[rstest]
#[case("host_1", None)]
#[case("host~1", Some("may contain"))]
#[case("0123456789abcdef0123456789abcdef", Some("must not be a UUID"))]
#[case("01234567-89ab-cdef-0123-456789abcdef", Some("must not be a UUID"))]
fn names_of_hosts(#[case] name: &str, #[case] problem: Option<&str>) {
    let errors = texts(&(RULES.shape)(&host(&json!({"metadata": {"name": name}}))));
    match problem {
        None => assert_eq!(errors, <[&str; 0]>::default()),
        Some(problem) => assert!(errors[0].starts_with(&format!("metadata.name: {problem}"))),
    }
}

#[test]
fn all_errors_of_a_host_come_at_once_without_secrets() {
    let patch = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}, "spec": {"firmware": {},
        "bmc": {"address": "foo://admin:canary@h"}, "image": {"url": "file://u:canary@h/i"}}});
    let errors = texts(&(RULES.shape)(&host(&patch)));
    assert_eq!(errors.len(), 4, "{errors:?}");
    assert!(!errors.join(" ").contains("canary"), "{errors:?}");
}

const ADDRESS: &str = "spec.bmc.address: can be changed only";
const MAC: &str = "spec.bootMACAddress: cannot be changed";
const EXTERNAL: &str = "spec.externallyProvisioned: can be set only";

#[rstest]
#[case::address(json!({}), json!({"bmc": {"address": "ipmi://h"}}), json!({}), Some(ADDRESS))]
#[case::no_address(json!({}), json!({"bmc": null}), json!({}), Some(ADDRESS))]
#[case::first_address(json!({"bmc": null}), json!({"bmc": {"address": "ipmi://h"}}), json!({}), None)]
#[case::mended_address(json!({"bmc": {"address": "foo://h"}}), json!({}), json!({"provisioning": {"state": "available"}}), None)]
#[case::detached(json!({}), json!({"bmc": {"address": "ipmi://h"}}), json!({"operationalStatus": "detached"}), None)]
#[case::registering(json!({}), json!({"bmc": {"address": "ipmi://h"}}), json!({"provisioning": {"state": "registering"}}), None)]
#[case::available(json!({}), json!({"bmc": {"address": "ipmi://h"}}), json!({"provisioning": {"state": "available"}}), Some(ADDRESS))]
#[case::mac(json!({"bootMACAddress": "52:54:00:12:34:5a"}), json!({"bootMACAddress": "52:54:00:12:34:5b"}), json!({}), Some(MAC))]
#[case::no_mac(json!({"bootMACAddress": "52:54:00:12:34:5a"}), json!({}), json!({}), Some(MAC))]
#[case::case_of_mac(json!({"bootMACAddress": "52:54:00:12:34:5a"}), json!({"bootMACAddress": "52:54:00:12:34:5A"}), json!({}), None)]
#[case::first_mac(json!({}), json!({"bootMACAddress": "52:54:00:12:34:5a"}), json!({}), None)]
#[case::external(json!({}), json!({"externallyProvisioned": true}), json!({"provisioning": {"state": "provisioned"}}), Some(EXTERNAL))]
#[case::external_ready(json!({}), json!({"externallyProvisioned": true}), json!({"provisioning": {"state": "ready"}}), Some(EXTERNAL))]
#[case::external_available(json!({}), json!({"externallyProvisioned": true}), json!({"provisioning": {"state": "available"}}), None)]
#[case::external_no_more(json!({"externallyProvisioned": true}), json!({}), json!({"provisioning": {"state": "provisioned"}}), None)]
fn changes_of_hosts(#[case] old: Value, #[case] new: Value, #[case] status: Value, #[case] error: Option<&str>) {
    let of = |spec: &Value| host(&json!({"spec": spec, "status": status}));
    let errors = texts(&(RULES.change)(&of(&old), &of(&new)));
    match error {
        None => assert_eq!(errors, <[&str; 0]>::default()),
        Some(error) => assert!(errors.len() == 1 && errors[0].starts_with(error), "{errors:?}"),
    }
}

#[rstest]
#[case(json!({"taints": [{"key": "a", "effect": "b"}]}), "spec.taints: is deprecated and has no effect")]
#[case(json!({"hardwareProfile": "dell"}), "spec.hardwareProfile: is deprecated")]
#[case(json!({"hardwareProfile": "acme"}), "spec.hardwareProfile: \"acme\" does not exist")]
#[case(json!({"networkInterfaces": [{"name": "a"}]}), "spec.networkInterfaces: has no effect yet")]
#[case(json!({"bmc": {"address": "redfish://u:canary@h/s"}}), "spec.bmc.address: user and password in an address are ignored")]
#[case(json!({"bmc": {"credentialsName": null}}), "spec.bmc: a host needs both")]
#[case(json!({"raid": {"softwareRAIDVolumes": [{"level": "0"}]}}), "spec.raid.softwareRAIDVolumes[0].level: must be 1: the host boots")]
#[case(json!({"raid": {"hardwareRAIDVolumes": [{"level": "1", "name": "a"}, {"level": "1", "name": "a"}]}}),
    "spec.raid.hardwareRAIDVolumes[1].name: \"a\" is taken")]
#[case(json!({"image": {"url": "http:canary@h", "checksum": "a"}}), "spec.image.url: cannot be used: ")]
#[case(json!({"image": {"url": "http://h/i", "checksum": "nfs://canary@h/i"}}), "spec.image.checksum: cannot be used: scheme \"nfs\"")]
#[case(json!({"image": {"url": "http://h/i", "checksum": "a", "checksumType": "md5"}}), "spec.image.checksum: another image can be made")]
#[case(json!({"image": {"url": "oci://h/i:latest"}}), "spec.image.url: a tag can be given to another image")]
#[case(json!({"image": {"url": "http://h/i", "format": "live-iso", "checksum": "a"}}), "spec.image.checksum: is ignored for a live ISO")]
#[case(json!({"image": {"url": "http://h/i", "checksum": "a", "ociAuthSecretName": "s"}}), "spec.image.ociAuthSecretName: is used for oci:// images only")]
fn doubtful_hosts_are_warned_of(#[case] patch: Value, #[case] warning: &str) {
    let host = host(&spec(&patch));
    assert_eq!(texts(&(RULES.shape)(&host)), <[&str; 0]>::default());
    let warnings = texts(&(RULES.warnings)(&host));
    assert!(
        matches!(warnings.as_slice(), [one] if one.starts_with(warning) && !one.contains("canary")),
        "{warnings:?}"
    );
}

#[test]
fn a_detached_annotation_that_cannot_be_read_is_warned_of() {
    let host = host(&annotated("baremetalhost.metal3.io/detached", "yes"));
    let warnings = texts(&(RULES.warnings)(&host));
    assert!(warnings[0].starts_with("metadata.annotations[baremetalhost.metal3.io/detached]: counts as present"));
}

#[test]
fn the_deprecated_way_to_disable_inspection_is_warned_of() {
    let host = host(&annotated("inspect.metal3.io", "disabled"));
    let warnings = texts(&(RULES.warnings)(&host));
    assert!(warnings[0].starts_with("metadata.annotations[inspect.metal3.io]: this value is deprecated: use"));
}

#[test]
fn a_usual_host_is_not_warned_of() {
    assert_eq!(texts(&(RULES.warnings)(&host(&json!({})))), <[&str; 0]>::default());
}
