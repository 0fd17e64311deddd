//! What is planned when, one row for each branch that the matrix does not reach. The words that a user reads are part of
//! the snapshots.

use std::collections::BTreeMap;

use baremetal_operator::fleet::{Place, Slot};
use baremetal_operator::host::firmware::Edit;
use baremetal_operator::host::observed::{
    DiscFailure, DiscRequest, FailedFirmware, ForeignPort, MacOwner, Memory, NetworkDataView, PowerRequest,
    RefusedPort, SecretView, Unreleased,
};
use baremetal_operator::host::plan::{Effect, Read};
use baremetal_operator::host::ramdisk_surroundings;
use metal3_api::metal3::{ErrorType, HardwareDetails, OperationalStatus};
use metal3_ironic::Fields;
use rstest::rstest;
use serde_json::{Value, json};

use crate::show;
use crate::world::{
    HELD, IMAGE, MAC, NODE, OCI, Sight, World, configured, custom, data_image, host, image, instance, invalid, live,
    merge, network_data, node, oci, ramdisk, secret, turbo, unmarked, unusable_network_data,
};

pub const LONG_AGO: &str = "2026-01-02T08:00:00Z";
const JUST_NOW: &str = "2026-01-02T11:59:55Z";

macro_rules! table {
    ($($name:ident => $world:expr;)*) => {$(
        #[test]
        fn $name() {
            let outcome = $world.decide();
            let untold = show::next_check(&outcome.plan);
            let outcome = show::full(&outcome);
            assert_eq!(untold, None, "{outcome}");
            insta::with_settings!({
                prepend_module_to_snapshot => false, omit_expression => true, snapshot_path => "table"
            }, { insta::assert_snapshot!(stringify!($name), outcome) });
        }
    )*};
}

pub fn fresh(spec: &serde_json::Value) -> World {
    let fresh = host("", &json!({"status": null, "metadata": {"finalizers": null}}));
    let mut world = World::new(fresh, None, Sight::Unlisted).with_spec(spec);
    world.memory = Memory::default();
    world
}

pub fn with_secret(mut world: World, secret: SecretView, version: &str) -> World {
    world.secret = secret;
    world.watched_version = Some(version.into());
    world
}

fn taken(mut world: World) -> World {
    world.mac_owner = Some(MacOwner {
        node: "node-9".into(),
        name: Some("n~other".into()),
        bmc: bmc_of_the_host(),
    });
    world
}

/// The `driver_info` of a node that somebody enrolled for the host's BMC.
fn bmc_of_the_host() -> Fields {
    serde_json::from_value(
        json!({"redfish_address": "https://192.0.2.1", "redfish_system_id": "/redfish/v1/Systems/1"}),
    )
    .unwrap()
}

/// A host that has not registered, and a node that has its name and this `driver_info`.
/// The node belongs to a host of another namespace.
fn anothers(world: World) -> World {
    world.with_node(&json!({"name": "victim~node-0"}))
}

/// The host has the namespace, the name, and by its status the node of a host of another cluster: its own BMC is another one, and it
/// has no Secret.
fn namesake(world: World) -> World {
    let mut world = world.with_node(&json!({"extra": null, "driver_info": {"redfish_address": "https://192.0.2.99"}}));
    world.secret = SecretView::Missing;
    world.watched_version = None;
    world
}

/// The operator runs with `--adopt-unnamed-nodes`.
fn adopting(mut world: World) -> World {
    world.settings.adopts_unnamed_nodes = true;
    world
}

fn found_by_name(driver_info: &Value) -> World {
    World::at("registering", "enroll")
        .with_host(&json!({"status": {"provisioning": {"ID": ""}}}))
        .with_node(&json!({"driver_info": driver_info}))
}

fn asked(mut world: World, on: bool) -> World {
    world.memory.power_request = Some(PowerRequest { on });
    world
}

fn wanting(state: &str, node_state: &str) -> World {
    World::at(state, node_state).with_spec(&json!({"image": image(IMAGE)}))
}

/// What Ironic makes of the description of an image while it deploys it.
fn rewritten() -> serde_json::Value {
    let mut node = instance(IMAGE);
    merge(
        &mut node["instance_info"],
        &json!({"image_source": "https://mirror/a.qcow2", "image_url": "******", "image_disk_format": "raw",
            "image_checksum": null, "image_os_hash_algo": "sha256", "image_os_hash_value": "cccc"}),
    );
    node
}

/// The search of every plan for what Secrets have, where a BMC repeats a password in its own words.
#[test]
#[should_panic(expected = "a secret was emitted")]
fn a_secret_that_is_told_fails_its_test() {
    let refused = json!({"last_error": "no account has secret-of-bmc"});
    wanting("provisioning", "deploy failed").with_node(&refused).decide();
}

/// An image whose URL has something that looks like a password.
fn hidden(node_state: &str) -> World {
    let url = |token: &str| format!("http://images/a.qcow2?token={token}");
    let mut node = instance(&url("abc"));
    node["instance_info"]["image_source"] = json!(url("******"));
    let world = wanting("provisioning", node_state).with_spec(&json!({"image": {"url": url("abc")}}));
    world.with_node(&node)
}

/// A host whose node was deployed by this step, by an operator that marked nothing else.
fn formerly(method: &str) -> World {
    let mut node = custom(method, None);
    node["instance_info"]
        .as_object_mut()
        .unwrap()
        .remove("metal3_deployment");
    let world = World::at("provisioning", "active").with_spec(&json!({"customDeploy": {"method": "install"}}));
    world.with_node(&node)
}

const ISO: &str = "http://images/l.iso";

/// A custom deployment whose node is told everything.
fn described(method: &str, url: Option<&str>, node_state: &str) -> World {
    let world = World::at("provisioning", node_state).with_node(&custom(method, url));
    let world = world.with_spec(&json!({"customDeploy": {"method": method}}));
    if url.is_some() {
        world.with_spec(&json!({"image": image(IMAGE)}))
    } else {
        world
    }
}

fn iso(node_state: &str) -> World {
    World::at("provisioning", node_state)
        .with_spec(&json!({"image": {"url": ISO, "format": "live-iso"}}))
        .with_node(&live(ISO))
}

/// An image of a registry with credentials.
fn registry(node_state: &str) -> World {
    World::at("provisioning", node_state)
        .with_spec(&json!({"image": {"url": OCI, "ociAuthSecretName": "registry"}}))
        .with_node(&oci(OCI))
}

/// The Secret for the image's registry is not there when the image is asked for.
fn without_registry_secret() -> World {
    let mut world = World::at("available", "manageable")
        .with_spec(&json!({"image": {"url": OCI, "ociAuthSecretName": "registry"}}));
    world.pull_secret = Err("Secret n/registry, named by spec.image.ociAuthSecretName, does not exist".into());
    world
}

fn raid(node_state: &str) -> World {
    World::at("preparing", node_state).with_spec(&json!({"raid": {"softwareRAIDVolumes": [{"level": "1"}]}}))
}

fn forced(world: World) -> World {
    world.with_host(&json!({"metadata": {"annotations": {"reboot.metal3.io": r#"{"force": true}"#}}}))
}

/// Ironic waits for the BMC to do this work, and no firmware object asks for anything.
fn cleaned_for(work: &Value) -> World {
    World::at("preparing", "clean wait").with_node(&json!({"target_provision_state": "manageable",
        "extra": {"metal3_preparation": {"work": work, "since": null}}}))
}

/// A servicing has gone on while the host came into another state.
fn serving_while(state: &str) -> World {
    serving("service wait")
        .with_status(&json!({"provisioning": {"state": state}}))
        .with_node(&json!({"extra": {"metal3_preparation": {"work": {"service": "0"}, "since": null}}}))
}

/// A host in use whose BIOS settings are being changed.
fn serving(node_state: &str) -> World {
    let mut world = provisioned().with_turbo("On", 3).on_reboot().switched_off().announced();
    world.node.as_mut().unwrap().provision_state = metal3_ironic::ProvisionState::from(node_state);
    world
}

/// The settings were in force, and are no longer.
fn undone(mut world: World) -> World {
    world.sight = Sight::Live;
    let status = world.firmware.settings.as_mut().unwrap().status.as_mut().unwrap();
    let later = "2026-01-02T00:00:00Z".parse().unwrap();
    status.conditions[0].last_transition_time = k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(later);
    world
}

/// The settings were made, and their object says that the BMC did not apply them.
fn not_applied(world: World) -> World {
    let mut world = world
        .over(None)
        .with_status(&json!({"operationalStatus": "OK", "poweredOn": true}));
    world.sight = Sight::Live;
    let status = world.firmware.settings.as_mut().unwrap().status.as_mut().unwrap();
    "NotApplied".clone_into(&mut status.conditions[0].reason);
    world
}

/// The HostUpdatePolicies of the namespace are not listed yet.
fn unlisted(mut world: World) -> World {
    world.has_policies = false;
    world
}

fn provisioned() -> World {
    wanting("provisioned", "active")
        .with_status(&json!({"provisioning": {"image": image(IMAGE)}}))
        .with_node(&instance(IMAGE))
}

/// What `clusterctl move` leaves of a host's annotations before it deletes it.
fn moved_away() -> serde_json::Value {
    json!({"metadata": {"annotations": {"clusterctl.cluster.x-k8s.io/delete-for-move": ""}}})
}

fn with_custom(method: &str) -> World {
    World::at("provisioned", "active")
        .with_spec(&json!({"customDeploy": {"method": method}}))
        .with_status(&json!({"provisioning": {"customDeploy": {"method": method}}}))
        .with_node(&custom(method, None))
}

fn unverified() -> World {
    World::at("registering", "enroll").with_node(&json!({"last_error": "wrong password"}))
}

fn unclaimed() -> SecretView {
    let mut found = secret("8", 2);
    found.claimed = false;
    SecretView::Found(found)
}

fn with_power_off_refused(count: i32) -> World {
    let world = World::at("powering off before delete", "manageable").deleting();
    world.failed("power management error", count, LONG_AGO)
}

/// It was told so, and then Ironic went away.
fn cut_off(mut world: World) -> World {
    world = world.then();
    world.sight = Sight::ListedThenDown;
    world
}

/// Its node has been locked for longer than is worth no word.
fn locked_for_long(mut world: World) -> World {
    world.node.as_mut().unwrap().reservation = Some("conductor-1".into());
    world.memory.locked_since = Some(LONG_AGO.parse().unwrap());
    world
}

/// A host whose ramdisk comes over the provisioning network, behind others.
fn queued(mut world: World) -> World {
    world = world.with_spec(&json!({"bmc": {"address": "redfish://192.0.2.1/redfish/v1/Systems/1"}}));
    world.slot = Slot::Queued(Place {
        number: 3,
        limit: 2,
        reserved: 1,
    });
    world
}

table! {
    new_without_bmc_becomes_unmanaged => fresh(&json!({"bmc": null}));
    new_with_bmc_is_enrolled => fresh(&json!({}));
    new_with_unread_secret_claims_it_by_what_reads_it => { let mut w = fresh(&json!({})); w.may_claim_unread = true; w };
    new_with_missing_secret_claims_nothing => { let mut w = fresh(&json!({})); w.may_claim_unread = true; w.secret = SecretView::Missing; w };
    available_other_secret_is_claimed_by_what_reads_it => { let mut w = World::at("available", "manageable").with_spec(&json!({"bmc": {"credentialsName": "other"}})).edited(); w.watched_version = None; w.may_claim_unread = true; w };
    available_new_secret_version_is_read => { let mut w = World::at("available", "manageable"); w.watched_version = Some("8".into()); w.secret = SecretView::Found(secret("8", 2)); w.may_claim_unread = true; w };
    deleting_unread_secret_is_not_claimed => { let mut w = fresh(&json!({})).with_host(&json!({"metadata": {"finalizers": ["baremetalhost.metal3.io"]}, "status": {"provisioning": {"state": "registering"}}})).deleting(); w.may_claim_unread = true; w };
    new_with_boot_mac_taken_fails => taken(fresh(&json!({})));
    new_with_boot_mac_of_another_tenants_host_does_not_name_it =>
        { let mut w = taken(fresh(&json!({}))); w.mac_owner.as_mut().unwrap().name = Some("victim~other".into()); w };
    registering_failed_with_words_about_another_tenants_host_does_not_name_it =>
        unverified().with_node(&json!({"last_error": "node victim~other has the BMC of n~h"}));
    new_with_node_of_its_name_takes_it => { let mut w = fresh(&json!({})); w.node = Some(node("manageable", &json!({}))); w };
    unmanaged_with_bmc_registers => World::at("unmanaged", "enroll").with_status(&json!({"provisioning": {"ID": ""}}));
    paused_does_nothing => provisioned().deleting().with_host(&json!({"metadata": {"annotations": {"baremetalhost.metal3.io/paused": ""}}}));

    moved_away_is_not_deprovisioned => provisioned().deleting().with_host(&moved_away());
    moved_away_is_not_taken_out_of_ironic => World::at("available", "available").deleting().with_host(&moved_away());

    registering_unverified_is_recorded => unverified();
    registering_unverified_early_is_held_back => unverified().failed("registration error", 1, JUST_NOW);
    registering_unverified_due_is_tried_again => unverified().failed("registration error", 1, LONG_AGO);
    registering_unverified_edited_is_tried_at_once => unverified().failed("registration error", 1, JUST_NOW).edited();
    registering_unverified_new_secret_is_sent_at_once =>
        with_secret(unverified().failed("registration error", 1, JUST_NOW), SecretView::Found(secret("8", 2)), "8");
    registering_unverified_touched_secret_is_held_back =>
        with_secret(unverified().failed("registration error", 1, JUST_NOW), SecretView::Found(secret("8", 1)), "8");
    registering_with_another_driver_is_enrolled_anew => unverified().failed("registration error", 1, JUST_NOW).edited().with_node(&json!({"driver": "ipmi"}));
    registering_with_another_driver_locked_waits => unverified().failed("registration error", 1, JUST_NOW).edited().with_node(&json!({"driver": "ipmi", "reservation": "c"}));
    registering_with_another_way_to_boot_is_corrected => unverified().failed("registration error", 1, JUST_NOW).edited().with_node(&json!({"boot_interface": "ipxe"}));
    registering_verified_with_another_driver_is_left => World::at("registering", "manageable").with_node(&json!({"driver": "idrac"}));
    registering_with_foreign_port_adds_its_own => { let mut w = World::at("registering", "enroll"); w.ports = vec!["52:54:00:00:00:01".into()]; w };
    registering_with_foreign_port_locked_waits =>
        { let mut w = World::at("registering", "manageable").with_node(&json!({"reservation": "c"})); w.ports = vec![]; w.sight = Sight::Live; w };
    registering_with_unknown_profile_is_refused =>
        World::at("registering", "manageable").with_spec(&json!({"hardwareProfile": "acme"})).with_status(&json!({"hardwareProfile": null}));

    available_secret_missing_is_told => with_secret(World::at("available", "manageable"), SecretView::Missing, "7");
    available_secret_invalid_is_told => with_secret(World::at("available", "manageable"), invalid("key password is empty", true), "8");
    // One that Ironic was given keeps its marks while somebody writes it anew.
    new_secret_marked_and_invalid_is_left_as_it_was => with_secret(fresh(&json!({})), invalid("key password is empty", true), "8");
    new_secret_invalid_is_told => with_secret(fresh(&json!({})), invalid("key password is empty", false), "8");
    available_other_secret_notes_the_one_that_was_only_tried => with_secret(refused_before(), SecretView::Found(secret("9", 3)), "9");
    available_other_secret_unclaimed_notes_the_one_that_was_only_tried => with_secret(refused_before(), unclaimed(), "8");
    available_other_secret_to_be_read_notes_the_one_that_was_only_tried =>
        { let mut w = refused_before(); w.watched_version = None; w.may_claim_unread = true; w };
    available_other_secret_claimed_before_is_not_good_untried => bmc_refuses(claimed_only());
    available_secret_unclaimed_is_claimed => with_secret(World::at("available", "manageable"), unclaimed(), "8");
    // DEFECT 6 of upstream's: any change of the Secret object, such as of a label, counts as new credentials.
    available_secret_touched_is_only_noted => with_secret(World::at("available", "manageable"), SecretView::Found(secret("8", 1)), "8");
    available_secret_changed_is_sent => with_secret(World::at("available", "manageable"), SecretView::Found(secret("8", 2)), "8");
    provisioning_secret_changed_waits_for_the_cleaning => with_secret(wanting("provisioning", "cleaning"), SecretView::Found(secret("8", 2)), "8");
    available_address_malformed_is_told => World::at("available", "manageable").edited().with_spec(&json!({"bmc": {"address": "redfish://"}}));
    available_address_of_unknown_type_is_told => World::at("available", "manageable").edited().with_spec(&json!({"bmc": {"address": "pigeon://192.0.2.1"}}));
    // Some get past the schema, and Ironic would refuse them without naming the field.
    new_with_eight_octets_of_boot_mac_is_told => fresh(&json!({"bootMACAddress": "52:54:00:12:34:56:00:01"}));
    new_with_boot_mac_in_other_words_is_told => fresh(&json!({"bootMACAddress": "x52:54:00:12:34:56"}));
    deleting_malformed_boot_mac_does_not_keep_it => { let mut w = World::at("registering", "enroll").deleting().with_spec(&json!({"bootMACAddress": "52:54:00:12:34:56:00:01"})); w.node = None; w };
    available_without_credentials_name_is_told => World::at("available", "manageable").edited().with_spec(&json!({"bmc": {"credentialsName": ""}}));
    available_fast_inspection_of_ipmi_is_refused => World::at("available", "manageable").edited()
        .with_spec(&json!({"bmc": {"address": "ipmi://192.0.2.1"}, "inspectionMode": "fast"}));
    available_secure_boot_of_ipmi_is_refused => World::at("available", "manageable").edited()
        .with_spec(&json!({"bmc": {"address": "ipmi://192.0.2.1"}, "bootMode": "UEFISecureBoot"}));
    available_libvirt_without_mac_is_refused => World::at("available", "manageable").edited()
        .with_spec(&json!({"bmc": {"address": "libvirt://192.0.2.1"}, "bootMACAddress": ""}));
    available_network_driver_without_network_is_refused =>
        { let mut w = World::at("available", "manageable").edited().with_spec(&json!({"bmc": {"address": "ipmi://192.0.2.1"}})); w.settings.provisioning_network_disabled = true; w };
    available_disable_power_off_on_old_ironic_is_refused =>
        { let mut w = World::at("available", "manageable").edited().with_spec(&json!({"disablePowerOff": true})); w.settings.can_disable_power_off = false; w };
    registering_system_taken_out_of_the_address_is_sent => unverified().edited().with_spec(&json!({"bmc": {"address": "redfish-virtualmedia://192.0.2.1"}}));
    available_system_taken_out_of_the_address_is_sent => World::at("available", "manageable").edited().with_spec(&json!({"bmc": {"address": "redfish-virtualmedia://192.0.2.1"}}));
    // What another protocol needs would cut the node off.
    provisioned_address_of_another_type_is_refused => provisioned().edited().with_spec(&json!({"bmc": {"address": "ipmi://192.0.2.9"}})).enrolled();
    available_other_address_is_sent => World::at("available", "manageable").edited()
        .with_spec(&json!({"bmc": {"address": "redfish-virtualmedia://192.0.2.7/redfish/v1/Systems/1"}})).enrolled();
    available_lost_node_is_enrolled_again => { let mut w = World::at("available", "manageable"); w.node = None; w };

    inspecting_disabled_is_skipped => World::at("inspecting", "manageable").with_spec(&json!({"inspectionMode": "disabled"}));
    inspecting_disabled_after_a_failure_forgets_it =>
        World::at("inspecting", "inspect failed").failed("inspection error", 3, JUST_NOW).with_spec(&json!({"inspectionMode": "disabled"}));
    inspecting_disabled_under_way_is_stopped => World::at("inspecting", "inspect wait").edited().with_spec(&json!({"inspectionMode": "disabled"}));
    inspecting_disabled_by_annotation_is_stopped => World::at("inspecting", "inspect wait").annotated(INSPECT, "disabled");
    inspecting_disabled_while_it_starts_waits => World::at("inspecting", "inspecting").with_spec(&json!({"inspectionMode": "disabled"}));
    inspecting_disabled_without_ironic_waits => { let mut w = World::at("inspecting", "inspect wait").with_spec(&json!({"inspectionMode": "disabled"})); w.sight = Sight::Unknown; w };
    inspecting_inventory_there_goes_on => { let mut w = World::at("inspecting", "manageable"); w.inventory = Some(HardwareDetails::default()); w };
    inspecting_failed_early_is_held_back => World::at("inspecting", "inspect failed").failed("inspection error", 1, JUST_NOW);
    inspecting_failed_early_and_locked_is_held_back =>
        World::at("inspecting", "inspect failed").failed("inspection error", 1, JUST_NOW).with_node(&json!({"reservation": "conductor-1"}));
    inspecting_failed_due_is_tried_again => World::at("inspecting", "inspect failed").failed("inspection error", 1, LONG_AGO);
    preparing_settings_tell_the_node_first => World::at("preparing", "manageable").with_turbo("On", 3);
    preparing_settings_told_are_asked_for => World::at("preparing", "manageable").with_turbo("On", 3).marked();
    preparing_settings_done_go_on => World::at("preparing", "manageable").with_turbo("On", 3).marked().over(None);
    // DEFECT 10: Upstream cleans again until the object's controller has looked, minutes later.
    preparing_settings_that_ironic_has_already_go_on => World::at("preparing", "manageable").with_turbo("Off", 3);
    preparing_settings_edited_wait_for_their_controller => World::at("preparing", "manageable").with_turbo("On", 2);
    // OWN 31vk: the host waited with the words that its settings had not been compared yet, whatever kept that.
    preparing_settings_whose_controller_fails_say_why => { let mut w = World::at("preparing", "manageable").with_turbo("On", 2);
        w.firmware_trouble.settings = Some("the request to Ironic failed: no route to host".into()); w };
    preparing_settings_that_are_not_listed_say_so => { let mut w = World::at("preparing", "manageable").with_turbo("On", 2);
        w.firmware_trouble.is_unlisted = true; w };
    preparing_settings_of_a_host_that_has_none_say_so => { let mut w = World::at("preparing", "manageable").with_turbo("On", 3);
        w.firmware.settings.as_mut().unwrap().status.as_mut().unwrap().settings.clear(); w };
    preparing_settings_of_a_bmc_without_any_go_on => { let mut w = World::at("preparing", "manageable").with_turbo("On", 3); w.bios.clear(); w };
    preparing_settings_without_ironic_wait => { let mut w = World::at("preparing", "manageable").with_turbo("On", 3); w.sight = Sight::Unknown; w };
    preparing_firmware_forgets_the_version_before_first => World::at("preparing", "manageable").with_bios_update(Some("http://firmware/1"));
    preparing_firmware_told_is_asked_for => World::at("preparing", "manageable").with_bios_update(None).marked();
    // DEFECT 25 of upstream's: firmware counts as updated when the update begins.
    preparing_firmware_done_is_recorded => World::at("preparing", "manageable").with_bios_update(None).marked().over(None);
    preparing_firmware_recorded_goes_on => World::at("preparing", "manageable").with_bios_update(Some("http://firmware/2"));
    // OWN 30fd: settings in force are no changes any more, and with them the mark no longer fitted: firmware was written twice.
    preparing_settings_and_firmware_done_are_recorded =>
        World::at("preparing", "manageable").with_turbo("On", 3).with_bios_update(None).marked().over(None).with_turbo("Off", 3);
    // OWN 31xh: the firmware was written twice.
    preparing_firmware_done_with_settings_that_were_edited_meanwhile_is_recorded =>
        World::at("preparing", "manageable").with_turbo("On", 3).with_bios_update(None).marked().over(None).edited_settings();
    preparing_all_at_once_is_one_cleaning => raid("manageable").with_turbo("On", 3).with_bios_update(None).marked().told();
    // D22 of upstream's: hold and rescue states are waited in without a word.
    preparing_clean_hold_is_explained => raid("clean hold");
    available_settings_are_prepared => World::at("available", "manageable").with_turbo("On", 3);
    available_settings_done_but_not_seen_rest => { let mut w = World::at("preparing", "manageable").with_turbo("On", 3).marked().over(None).with_status(&json!({"provisioning": {"state": "available"}})); w.sight = Sight::Live; w };
    available_settings_edited_keep_from_provisioning => wanting("available", "manageable").with_turbo("On", 2);
    available_settings_edited_keep_nothing_else => World::at("available", "manageable").with_turbo("On", 2).with_node(&json!({"power_state": "power off"}));

    provisioned_settings_wait_for_a_start => provisioned().with_turbo("On", 3).on_reboot();
    provisioned_settings_without_policy_wait_for_preparing => provisioned().with_turbo("On", 3).switched_off();
    provisioned_settings_at_a_start_are_announced => provisioned().with_turbo("On", 3).on_reboot().switched_off();
    provisioned_settings_announced_tell_the_node_first => serving("active");
    provisioned_settings_told_are_asked_for => serving("active").obeyed("active");
    provisioned_service_runs => serving("service wait");
    provisioned_service_done_is_over => serving("active").obeyed("active").over(None);
    // OWN 31td: settings that a BMC had accepted and not applied were promised for the next start, which did not make them.
    // OWN 31tl: what Ironic told later, of its look at the power, counted as the failure of the change, which was made again.
    provisioned_settings_not_applied_do_not_fail_by_a_later_error =>
        not_applied(serving("active").obeyed("active")).with_error("Failed to change power state");
    available_settings_not_applied_do_not_fail_by_a_later_error =>
        not_applied(World::at("available", "manageable").with_turbo("On", 3).marked()).with_error("During sync_power_state, max retries exceeded");
    provisioned_settings_not_applied_are_not_made_when_the_server_stops_by_itself => not_applied(serving("active").obeyed("active"));
    provisioned_settings_not_applied_are_forgotten_when_the_host_is_restarted =>
        not_applied(serving("active").obeyed("active")).switched_on().annotated(REBOOT, "");
    provisioned_settings_not_applied_are_forgotten_when_the_host_is_switched_off =>
        not_applied(serving("active").obeyed("active")).switched_on().with_spec(&json!({"online": false}));
    provisioned_settings_not_applied_are_forgotten_when_a_host_that_is_off_is_restarted =>
        not_applied(serving("active").obeyed("active")).annotated(REBOOT, "");
    provisioned_settings_not_applied_and_taken_out_cost_nothing_at_a_restart => {
        let mut w = not_applied(serving("active").obeyed("active")).switched_on().annotated(REBOOT, "");
        w.firmware.settings = None;
        w
    };
    never_off_settings_done_and_not_applied_have_restarted_the_server =>
        never_off().with_turbo("On", 3).on_reboot().announced().annotated(REBOOT, "").obeyed("active").over(None);
    never_off_settings_not_applied_are_made_again_at_the_next_restart =>
        not_applied(never_off().with_turbo("On", 3).on_reboot().announced().annotated(REBOOT, "").obeyed("active"));
    preparing_settings_not_applied_before_are_not_told_again =>
        { let mut w = not_applied(World::at("preparing", "manageable").with_turbo("On", 3).marked()); w.sight = Sight::Listed; w };
    provisioned_settings_that_never_came_into_force_are_named => serving("service failed")
        .with_error("Timeout reached while servicing the node. Failed on step {'step': 'apply_configuration'}.");
    provisioned_service_of_firmware_done_is_recorded => provisioned().with_bios_update(None).on_reboot().switched_off().announced().obeyed("active").over(None);
    provisioned_service_of_firmware_that_changed_no_version_is_recorded_and_told => {
        let mut w = provisioned().with_bios_update(None).on_reboot().switched_off().announced().obeyed("active").over(None);
        let version = json!({"component": "bios", "initialVersion": "1.0.0", "currentVersion": "1.0.0"});
        w.components = vec![serde_json::from_value(version).unwrap()];
        w.firmware.updates.as_mut().unwrap().status.as_mut().unwrap().components.clone_from(&w.components);
        w
    };
    provisioned_service_of_firmware_done_with_settings_that_were_edited_meanwhile_is_recorded =>
        serving("active").with_bios_update(None).obeyed("active").over(None).edited_settings();
    // OWN 31xm: settings that a host had lost again counted as made for ever.
    available_settings_that_a_user_undid_are_prepared => undone(
        World::at("preparing", "manageable").with_turbo("On", 3).marked().over(None).with_status(&json!({"provisioning": {"state": "available"}})));
    provisioned_settings_that_a_user_undid_are_serviced => undone(serving("active").obeyed("active").over(None));
    // OWN 31xj: the restart of a server that is never powered off counted as made with a servicing that was never begun.
    never_off_service_that_was_refused_and_taken_out_leaves_the_restart =>
        never_off().on_reboot().annotated(REBOOT, "").failed("servicing error", 1, LONG_AGO);
    never_off_service_that_is_refused_forgets_the_one_before => {
        let asked = never_off().with_turbo("On", 3).on_reboot().announced().annotated(REBOOT, "");
        let mut w = asked.obeyed("active").over(None).with_bios_update(None);
        w.firmware.updates.as_mut().unwrap().spec.updates[0].url = "no url".to_owned();
        w
    };
    provisioned_service_not_wanted_any_more_is_given_up => { let mut w = serving("service wait"); w.firmware.settings = None; w };
    // An abort that Ironic defers until the step is over was requested again in each pass.
    provisioned_service_that_is_to_be_aborted_is_waited_for => {
        let mut w = serving("service wait");
        w.firmware.settings = None;
        let step = json!({"interface": "firmware", "step": "update", "abort_after": true});
        w.node.as_mut().unwrap().detail.as_mut().unwrap().service_step = serde_json::from_value(step).unwrap();
        w
    };
    deleting_service_that_is_to_be_aborted_is_waited_for => {
        let mut w = World::at("powering off before delete", "service wait").deleting();
        let step = json!({"interface": "firmware", "step": "update", "abort_after": true});
        w.node.as_mut().unwrap().detail.as_mut().unwrap().service_step = serde_json::from_value(step).unwrap();
        w
    };
    provisioned_service_of_firmware_alone_goes_on =>
        { let mut w = serving("service wait").with_bios_update(Some("http://firmware/1")); w.firmware.settings = None; w };
    provisioned_service_without_policy_is_given_up => { let mut w = serving("service wait"); w.on_reboot = baremetal_operator::host::firmware::Kinds::default(); w };
    // OWN 30fe: a policy that was not listed yet counted as none: a servicing was aborted midway, or was reported as done.
    provisioned_service_of_unlisted_policy_runs => unlisted(serving("service wait"));
    provisioned_service_of_unlisted_policy_failed_is_recorded => unlisted(serving("service failed").with_error("no space"));
    provisioned_service_of_unlisted_policy_announced_tells_the_node_first => unlisted(serving("active"));
    provisioned_service_of_unlisted_policy_at_a_start_is_announced => unlisted(provisioned().with_turbo("On", 3).on_reboot().switched_off());
    provisioned_service_of_unlisted_policy_that_allows_nothing_is_given_up =>
        { let mut w = unlisted(serving("service wait")); w.on_reboot = baremetal_operator::host::firmware::Kinds::default(); w };
    // Ironic locks a node in this state itself, to ask its BMC how far it is.
    provisioned_service_at_which_ironic_looks_runs => serving("service wait").with_node(&json!({"reservation": "conductor-1"}));
    provisioned_service_failed_is_recorded => serving("service failed").in_maintenance().with_error("no space");
    // OWN 31fb: the version before a failed update still counted as made.
    provisioned_service_of_firmware_failed_forgets_the_version_before => firmware_failed(served_firmware(Some("http://firmware/1")), "service failed");
    provisioned_service_of_firmware_failed_before_is_not_forgotten_twice =>
        firmware_failed(served_firmware(Some("http://firmware/1")), "service failed").failed("servicing error", 1, JUST_NOW);
    provisioned_service_of_first_firmware_failed_has_nothing_to_forget => firmware_failed(served_firmware(None), "service failed");
    provisioned_service_of_firmware_failed_and_edited_back_is_not_done =>
        edited_back(firmware_failed(served_firmware(Some("http://firmware/1")), "service failed"));
    provisioned_service_of_firmware_failed_and_taken_out_is_given_up =>
        edited_back(firmware_failed(served_firmware(Some("http://firmware/1")), "service failed")).failed("servicing error", 1, JUST_NOW);
    preparing_firmware_failed_forgets_the_version_before =>
        firmware_failed(World::at("preparing", "manageable").with_bios_update(None).marked().with_bios_update(Some("http://firmware/1")), "clean failed");
    provisioned_service_failed_due_clears_maintenance => serving("service failed").in_maintenance().failed("servicing error", 1, LONG_AGO);
    provisioned_service_failed_due_is_begun_anew => serving("service failed").failed("servicing error", 1, LONG_AGO);
    // D13: Upstream never clears the fault, and Ironic refuses to abort in maintenance.
    provisioned_service_failed_and_not_wanted_clears_maintenance => { let mut w = serving("service failed").in_maintenance(); w.firmware.settings = None; w };
    // OWN 31xk: what had failed counted as made once its policy was back.
    provisioned_service_that_was_given_up_is_forgotten =>
        { let mut w = serving("active").obeyed("active").over(Some("aborted")); w.firmware.settings = None; w };
    provisioned_service_failed_and_not_wanted_is_given_up => { let mut w = serving("service failed"); w.firmware.settings = None; w };
    registering_foreign_host_leaves_a_service_of_others_alone => World::at("registering", "service wait")
        .with_spec(&json!({"externallyProvisioned": true})).with_status(&json!({"operationalStatus": "servicing"}));
    registering_foreign_host_leaves_a_failed_service_of_others_alone => World::at("registering", "service failed")
        .with_spec(&json!({"externallyProvisioned": true})).failed("servicing error", 1, LONG_AGO);
    provisioned_service_hold_is_explained => serving("service hold");
    // OWN 31fd: the decision had no end where the last power-on had failed, and the host stayed off.
    provisioned_settings_after_a_failed_start_are_announced =>
        provisioned().with_turbo("On", 3).on_reboot().switched_off().failed("power management error", 1, LONG_AGO);
    never_off_settings_after_a_failed_restart_are_announced =>
        never_off().with_turbo("On", 3).on_reboot().annotated(REBOOT, "").failed("power management error", 1, LONG_AGO);
    // OWN 31fe: a host that is available in Ironic was switched off for a servicing, and never on again.
    external_available_with_settings_is_started_without_them => {
        let mut w = external_serving("available").with_status(&json!({"operationalStatus": "OK"}));
        w.node.as_mut().unwrap().instance_uuid = None;
        w
    };
    // A firmware write is never interrupted: Ironic completes the step before it aborts the rest.
    external_service_is_stopped_for_a_deletion => external_serving("service wait").deleting();
    external_service_step_is_waited_for_by_a_deletion => external_serving("servicing").deleting();
    external_service_failed_does_not_hold_up_a_deletion => external_serving("service failed").in_maintenance().with_error("aborted").deleting();
    provisioned_service_is_waited_for_by_a_deletion => serving("service wait").deleting();
    // OWN 31tf: the way out of a servicing that hangs is open to a host that is torn down, too.
    deprovisioning_service_without_policy_is_given_up => { let mut w = serving_while("deprovisioning"); w.on_reboot = baremetal_operator::host::firmware::Kinds::default(); w };
    deleting_deprovision_service_that_is_not_wanted_is_given_up => { let mut w = serving_while("deprovisioning").deleting(); w.firmware.settings = None; w };
    deprovisioning_service_of_its_own_is_waited_for => serving_while("deprovisioning");
    deprovisioning_service_of_others_is_waited_for => World::at("deprovisioning", "service wait");
    provisioned_service_failed_is_torn_down_by_a_deletion => serving("service failed").in_maintenance().with_error("no space").deleting();
    deprovisioning_service_is_waited_for => serving("servicing").with_status(&json!({"provisioning": {"state": "deprovisioning"}}));
    deprovisioning_service_failed_is_torn_down => serving("service failed").with_status(&json!({"provisioning": {"state": "deprovisioning"}}));
    // OWN 31su: what an available node is described for is nobody's.
    deprovisioning_described_only_is_undescribed => described_only();
    deprovisioning_described_only_refused_is_held_back => described_only().failed("provisioning error", 1, JUST_NOW);
    deprovisioning_described_only_refused_again_and_again_is_left => described_only().failed("provisioning error", 4, LONG_AGO);
    deleting_deprovision_described_only_is_left => described_only().deleting();
    deprovisioning_adopting_is_waited_for => World::at("deprovisioning", "adopting");
    deprovisioning_rescued_is_explained => World::at("deprovisioning", "rescue");
    deprovisioning_deploy_hold_is_explained => World::at("deprovisioning", "deploy hold");
    deprovisioning_cleaning_edited_at_the_last_second_is_told => World::at("deprovisioning", "active").with_node(&json!({"automated_clean": false}));
    deleting_deprovision_cleaning_unwanted_is_aborted => World::at("deprovisioning", "clean wait").deleting()
        .with_spec(&json!({"automatedCleaningMode": "disabled"})).with_node(&json!({"target_provision_state": "available"}));
    deleting_deprovision_cleaning_aborted_goes_on => World::at("deprovisioning", "clean failed").deleting().with_spec(&json!({"automatedCleaningMode": "disabled"}));
    deleting_deprovision_cleaning_wanted_is_waited_for => World::at("deprovisioning", "clean wait").deleting();
    provisioning_forced_reboot_begins_anew => forced(wanting("provisioning", "wait call-back").with_node(&instance(IMAGE)));
    provisioning_forced_reboot_is_waited_for => forced(wanting("provisioning", "deleting").with_node(&instance(IMAGE)));
    provisioning_forced_reboot_is_served_before_the_next => forced(wanting("provisioning", "available").with_node(&instance(IMAGE)));
    preparing_nothing_goes_on_without_ironic => { let mut w = World::at("preparing", "manageable"); w.sight = Sight::Unknown; w };
    preparing_empty_raid_is_only_recorded => World::at("preparing", "manageable").with_spec(&json!({"raid": {"softwareRAIDVolumes": []}}));
    preparing_raid_tells_the_node_first => raid("manageable");
    preparing_raid_tells_ironic_the_volumes => raid("manageable").marked();
    preparing_raid_told_is_asked_for => raid("manageable").marked().told();
    preparing_raid_from_available_is_managed_first => raid("available");
    preparing_raid_under_way_waits => raid("clean wait");
    // OWN 31tk: a preparation that hung could not be abandoned.
    preparing_settings_that_nobody_wants_any_more_are_given_up => cleaned_for(&json!({"settings": "0"}));
    preparing_settings_that_are_wanted_go_on => { let mut w = cleaned_for(&json!({"settings": "0"})); w.firmware.settings = Some(turbo("On", 3, 3)); w };
    preparing_settings_beside_volumes_go_on => cleaned_for(&json!({"settings": "0", "raid": "0"}));
    preparing_automated_cleaning_is_waited_for => cleaned_for(&json!({"settings": "0"})).with_node(&json!({"target_provision_state": "available"}));
    preparing_cleaning_of_others_is_waited_for => World::at("preparing", "clean wait");
    preparing_raid_done_is_recorded => raid("manageable").marked().told().over(None);
    // The node was moved by hand after the failure: what it stopped at is not known.
    preparing_raid_failed_and_managed_by_hand_is_recorded => raid("manageable").marked().told().over(Some("it broke"));
    preparing_raid_edited_meanwhile_is_begun_anew => raid("manageable").marked().told().over(None)
        .with_spec(&json!({"raid": {"softwareRAIDVolumes": [{"level": "1", "sizeGibibytes": 10}]}}));
    preparing_raid_of_the_next_user_is_begun_anew => raid("manageable").marked().told().over(None)
        .with_status(&json!({"operationHistory": {"deprovision": {"end": "2026-01-02T00:00:00Z"}}}));
    preparing_raid_refused_early_is_held_back => raid("manageable").failed("preparation error", 1, JUST_NOW);
    preparing_hardware_raid_is_described => World::at("preparing", "manageable").with_spec(&json!({"raid": {"hardwareRAIDVolumes": [{"level": "5"}]}}));
    preparing_hardware_raid_without_controller_is_told => World::at("preparing", "manageable")
        .with_spec(&json!({"bmc": {"address": "ipmi://192.0.2.1"}, "raid": {"hardwareRAIDVolumes": [{"level": "5"}]}}));
    preparing_both_kinds_of_raid_is_told => World::at("preparing", "manageable")
        .with_spec(&json!({"raid": {"hardwareRAIDVolumes": [{"level": "5"}], "softwareRAIDVolumes": [{"level": "1"}]}}));
    preparing_root_volume_needs_no_hints => World::at("preparing", "manageable")
        .with_spec(&json!({"raid": {"softwareRAIDVolumes": [{"level": "1", "rootVolume": true}]}}))
        .with_status(&json!({"provisioning": {"raid": {"softwareRAIDVolumes": [{"level": "1", "rootVolume": true}]}}}));
    preparing_failed_is_recorded => raid("clean failed").marked().with_error("no disks");
    preparing_failed_early_is_held_back => raid("clean failed").marked().with_error("no disks").failed("preparation error", 1, JUST_NOW);
    preparing_failed_due_forgets_the_mark => raid("clean failed").marked().failed("preparation error", 1, LONG_AGO);
    preparing_failed_due_clears_maintenance => raid("clean failed").in_maintenance().failed("preparation error", 1, LONG_AGO);
    preparing_failed_due_is_managed => raid("clean failed").failed("preparation error", 1, LONG_AGO);
    // OWN 31ha: only an edit of the host or of its Secret ended the back-off, which lasts up to hours.
    preparing_failed_early_with_other_settings_is_managed => failed_with_firmware(World::at("preparing", "clean failed"), "preparation error", 1, [2, 3]);
    preparing_failed_early_with_other_firmware_is_managed => failed_with_firmware(World::at("preparing", "clean failed"), "preparation error", 1, [3, 2]);
    preparing_failed_early_with_the_same_firmware_is_held_back => failed_with_firmware(World::at("preparing", "clean failed"), "preparation error", 1, [3, 3]);
    preparing_failed_again_after_an_edit_is_held_back => failed_with_firmware(World::at("preparing", "clean failed"), "preparation error", 2, [2, 3]);
    preparing_failed_early_before_firmware_is_listed_is_held_back => { let mut w = failed_with_firmware(World::at("preparing", "clean failed"), "preparation error", 1, [2, 3]); w.has_firmware_listed = false; w };
    // OWN 31hb: the same after a failed servicing, if the host was not processed between the edit and its controller's answer.
    provisioned_service_failed_early_with_other_settings_is_begun_anew => failed_with_firmware(serving("service failed"), "servicing error", 1, [2, 3]);
    // The settings were deleted and created anew, and inherited the back-off.
    provisioned_service_failed_early_with_the_settings_of_another_object_is_begun_anew => {
        let mut w = failed_with_firmware(serving("service failed"), "servicing error", 1, [3, 3]);
        w.memory.failed_firmware.as_mut().unwrap().edits[0] = edit_of("former", 3);
        w
    };
    provisioned_service_failed_early_with_the_same_settings_is_held_back => failed_with_firmware(serving("service failed"), "servicing error", 1, [3, 3]);
    preparing_failed_and_given_up_comes_back => World::at("preparing", "clean failed").edited().failed("preparation error", 1, JUST_NOW);
    available_other_raid_is_prepared => World::at("available", "manageable").edited().with_spec(&json!({"raid": {"softwareRAIDVolumes": [{"level": "1"}]}}));
    available_raid_given_up_is_prepared => World::at("available", "manageable").edited()
        .with_status(&json!({"provisioning": {"raid": {"softwareRAIDVolumes": [{"level": "1"}]}}}));
    available_given_up_to_others_keeps_hardware_raid => World::at("available", "manageable").edited().with_spec(&json!({"externallyProvisioned": true}))
        .with_status(&json!({"provisioning": {"raid": {"hardwareRAIDVolumes": [{"level": "1"}], "softwareRAIDVolumes": [{"level": "1"}]}}}));

    available_image_offline_waits_for_online => wanting("available", "manageable").with_spec(&json!({"online": false}));
    available_custom_deploy_is_provisioned => World::at("available", "manageable").with_spec(&json!({"customDeploy": {"method": "install"}}));
    available_empty_custom_deploy_is_none => World::at("available", "manageable").with_spec(&json!({"customDeploy": {"method": ""}}));
    available_live_iso_is_provisioned => World::at("available", "manageable").with_spec(&json!({"image": {"url": "http://images/l.iso", "format": "live-iso"}}));
    available_image_without_checksum_is_told_before_cleaning => wanting("available", "manageable").with_spec(&json!({"image": {"checksum": null}}));
    available_image_with_unknown_checksum_type_is_told => wanting("available", "manageable").with_spec(&json!({"image": {"checksumType": "crc"}}));
    available_oci_image_with_checksum_is_told => wanting("available", "manageable").with_spec(&json!({"image": {"url": OCI}}));
    available_image_corrected_goes_on => wanting("available", "manageable").failed("provisioning error", 1, LONG_AGO);
    // Upstream forgets the failures of hosts without an image at every look, so that the limit never applied.
    available_custom_deploy_limit_reached_is_told => World::at("available", "available")
        .with_spec(&json!({"customDeploy": {"method": "install"}})).with_status(&json!({"provisioningFailCount": 5}));
    available_other_custom_deploy_starts_anew => World::at("available", "available")
        .with_spec(&json!({"customDeploy": {"method": "install"}})).with_status(&json!({"provisioningFailCount": 5})).then()
        .edited().with_spec(&json!({"customDeploy": {"method": "replace"}}));
    // DEFECT 18 of upstream's: the retry limit is recorded and told again at every back-off.
    available_limit_reached_is_told => wanting("available", "available").with_status(&json!({"provisioningFailCount": 5, "lastAttemptedImage": image(IMAGE)}));
    available_other_checksum_starts_anew => wanting("available", "available").with_spec(&json!({"image": {"checksum": "bbbb"}}))
        .with_status(&json!({"provisioningFailCount": 5, "lastAttemptedImage": image(IMAGE)}));
    available_other_hints_are_prepared => World::at("available", "manageable").edited().with_spec(&json!({"rootDeviceHints": {"deviceName": "/dev/vdb"}}));

    provisioning_described_node_is_deployed => wanting("provisioning", "available").with_node(&instance(IMAGE));
    provisioning_maintenance_is_cleared_first =>
        { let mut mark = instance(IMAGE); mark["maintenance"] = json!(true); wanting("provisioning", "available").with_node(&mark) };
    provisioning_config_drive_missing_waits =>
        { let mut w = wanting("provisioning", "available").with_node(&instance(IMAGE)); w.config_drive = Err("Secret n/user does not exist".into()); w };
    provisioning_refused_by_validation_fails =>
        { let mut w = wanting("provisioning", "available").with_node(&instance(IMAGE)); w.problems = vec!["deploy: no kernel".into()]; w };
    provisioning_without_checksum_fails => wanting("provisioning", "available").with_spec(&json!({"image": {"checksum": null}}));
    provisioning_from_a_file_fails => wanting("provisioning", "available").with_spec(&json!({"image": {"url": "file:///etc/passwd"}}));
    provisioning_made_custom_is_described_anew => wanting("provisioning", "available").with_spec(&json!({"customDeploy": {"method": "install"}}));
    provisioning_custom_deploy_is_described => World::at("provisioning", "available").with_spec(&json!({"customDeploy": {"method": "install"}}));
    provisioning_custom_deploy_is_asked_for => described("install", None, "available");
    provisioning_custom_deploy_with_image_is_asked_for => described("install", Some(IMAGE), "available");
    provisioning_custom_deploy_done_is_provisioned => described("install", None, "active");
    provisioning_custom_deploy_by_another_operator_is_provisioned => described("install", None, "active").with_node(&json!({"deploy_interface": "custom-agent"}));
    // D18: Upstream takes the failed attempt for another one, and repeats it for ever without a word.
    provisioning_custom_deploy_failed_is_recorded => described("install", None, "deploy failed");
    provisioning_custom_deploy_with_untyped_checksum_failed_is_recorded => described("install", Some(IMAGE), "deploy failed");
    provisioning_custom_deploy_by_other_method_is_torn_down => described("replace", None, "active").with_spec(&json!({"customDeploy": {"method": "install"}}));
    provisioning_live_iso_is_described => World::at("provisioning", "available").with_spec(&json!({"image": {"url": ISO, "format": "live-iso"}}));
    provisioning_live_iso_is_asked_for => iso("available");
    provisioning_live_iso_done_is_provisioned => iso("active");
    provisioning_live_iso_failed_is_recorded => iso("deploy failed");
    provisioning_image_after_live_iso_changes_the_interface => wanting("provisioning", "available").with_node(&live(ISO));
    provisioning_image_after_failed_live_iso_is_torn_down_first => wanting("provisioning", "deploy failed").with_node(&live(ISO));
    provisioning_oci_image_is_described => World::at("provisioning", "available").with_spec(&json!({"image": {"url": OCI}}));
    provisioning_oci_image_with_secret_is_described => registry("available").with_node(&json!({}));
    provisioning_oci_image_with_unknown_secret_is_sent_anew => registry("available");
    provisioning_oci_image_with_known_secret_is_asked_for => { let mut w = registry("available"); w.memory.sent_pull_secret = Some(5); w };
    provisioning_oci_secret_missing_waits => { let mut w = registry("available"); w.pull_secret = Err("Secret n/registry does not exist".into()); w };
    provisioning_oci_secret_still_missing_is_told_once =>
        { let mut w = registry("available"); w.pull_secret = Err("Secret n/registry does not exist".into()); w.then() };
    available_oci_secret_missing_is_told_before_cleaning => without_registry_secret();
    available_oci_secret_missing_is_told_once => without_registry_secret().then();
    available_oci_secret_mended_goes_on => { let mut w = without_registry_secret().then(); w.pull_secret = Ok("user:secret-of-registry".into()); w };
    provisioning_oci_image_done_is_provisioned => registry("active");
    provisioning_typed_checksum_is_described => wanting("provisioning", "available").with_spec(&json!({"image": {"checksumType": "sha256", "format": "qcow2"}}));
    provisioning_failed_without_reason_is_recorded => wanting("provisioning", "deploy failed").with_node(&instance(IMAGE));
    // Another checksum, format or registry account is another attempt; upstream sees the format and the account not at all.
    provisioning_failed_with_other_checksum_is_described_anew => wanting("provisioning", "deploy failed").with_node(&instance(IMAGE)).with_spec(&json!({"image": {"checksum": "bbbb"}}));
    // D19 of upstream's: another format or registry account is not seen as another attempt.
    provisioning_failed_with_other_format_is_described_anew => wanting("provisioning", "deploy failed").with_node(&instance(IMAGE)).with_spec(&json!({"image": {"format": "raw"}}));
    provisioning_checksum_edited_on_the_way_is_provisioned => wanting("provisioning", "active").with_node(&instance(IMAGE)).with_spec(&json!({"image": {"checksum": "bbbb"}}));
    // DEFECT 17: An old error of another operation is no reason to tear anything down; upstream takes it for one.
    provisioning_with_an_error_of_power_goes_on =>
        wanting("provisioning", "available").with_node(&instance(IMAGE)).failed("power management error", 2, LONG_AGO);
    // Begun now it would fail, and be held back for hours.
    provisioning_bmc_lost_is_waited_for => wanting("provisioning", "manageable").with_node(&json!({"maintenance": true, "fault": "power failure"}));
    // D9 of upstream's: a cleaning that fails before a deployment is repeated in silence.
    provisioning_clean_failed_is_recorded => wanting("provisioning", "clean failed").with_node(&json!({"last_error": "a disk is broken"}));
    provisioning_image_removed_is_torn_down => World::at("provisioning", "deploying");
    // A restart by force begins with a tear-down, which failed.
    provisioning_restart_failed_is_recorded => wanting("provisioning", "error").with_node(&instance(IMAGE)).with_error("the BMC is away");
    provisioning_restart_failed_due_goes_back => wanting("provisioning", "error").with_error("the BMC is away").failed("provisioning error", 1, LONG_AGO);
    provisioning_failed_early_is_held_back => wanting("provisioning", "deploy failed").with_node(&instance(IMAGE)).failed("provisioning error", 1, JUST_NOW);
    provisioning_failed_due_goes_back => wanting("provisioning", "deploy failed").with_node(&instance(IMAGE)).failed("provisioning error", 1, LONG_AGO);
    // OWN 1a: Ironic replaces what it was told by what it has found, such as the address that a URL redirects to.
    provisioning_redirected_image_is_provisioned => wanting("provisioning", "active").with_node(&rewritten());
    provisioning_redirected_image_failed_is_recorded => wanting("provisioning", "deploy failed").with_node(&rewritten());
    provisioning_url_that_ironic_hides_is_asked_for => hidden("available");
    provisioning_url_that_ironic_hides_is_provisioned => hidden("active");
    provisioning_url_that_ironic_hides_failed_is_recorded => hidden("deploy failed");
    available_ramdisk_url_that_ironic_hides_is_left =>
        { let mut w = World::at("available", "available").edited().with_node(&json!({"driver_info": {"deploy_iso": "http://images/ipa.iso?token=******"}}));
          w.settings.deploy_images.iso = Some("http://images/ipa.iso?token=abc".into()); w };
    provisioning_marked_for_another_image_is_torn_down => wanting("provisioning", "active").with_node(&instance("http://images/b.qcow2"));
    provisioning_marked_for_another_way_is_torn_down => wanting("provisioning", "active").with_node(&live(IMAGE));
    provisioning_without_mark_is_provisioned => wanting("provisioning", "active").with_node(&unmarked("http://images/b.qcow2"));
    provisioning_without_mark_failed_is_recorded => wanting("provisioning", "deploy failed").with_node(&unmarked("http://images/b.qcow2"));
    provisioning_with_former_mark_is_provisioned => formerly("install");
    provisioning_with_former_mark_of_another_step_is_torn_down => formerly("replace");
    provisioning_adopted_node_is_provisioned => wanting("provisioning", "active");
    provisioning_adopted_node_is_provisioned_by_custom_deploy => World::at("provisioning", "active").with_spec(&json!({"customDeploy": {"method": "install"}}));
    provisioning_adopted_live_iso_is_provisioned => iso("active").with_node(&json!({"deploy_interface": "ramdisk"}));
    provisioning_adopted_is_taken_for_what_is_asked_for => wanting("provisioning", "active").with_node(&json!({"deploy_interface": "ramdisk"}));

    provisioned_custom_deploy_stays => with_custom("install");
    provisioned_other_custom_deploy_is_torn_down => with_custom("install").edited().with_spec(&json!({"customDeploy": {"method": "replace"}}));
    provisioned_custom_deploy_removed_is_torn_down => with_custom("install").edited().with_spec(&json!({"customDeploy": null}));
    provisioned_custom_deploy_given_an_image_stays => with_custom("install").edited().with_spec(&json!({"image": image(IMAGE)}));
    provisioned_image_made_custom_is_torn_down_only_by_its_url => provisioned().edited().with_spec(&json!({"customDeploy": {"method": "install"}}));
    provisioned_lost_live_iso_is_enrolled_with_its_interface => { let mut w = World::at("provisioned", "active").with_spec(&json!({"image": {"url": ISO, "format": "live-iso"}}))
        .with_status(&json!({"provisioning": {"image": {"url": ISO, "format": "live-iso"}}})); w.node = None; w };
    provisioned_checksum_edited_stays => provisioned().edited().with_spec(&json!({"image": {"checksum": "bbbb"}}));
    provisioned_other_image_is_torn_down => provisioned().edited().with_spec(&json!({"image": {"url": "http://images/b.qcow2"}}));
    provisioned_offline_is_asked_softly => provisioned().edited().with_spec(&json!({"online": false}));
    provisioned_offline_without_soft_is_cut =>
        { let mut w = provisioned().edited().with_spec(&json!({"online": false})); w.memory.no_soft_power_off = true; w };
    provisioned_offline_failed_is_recorded => asked(provisioned().with_spec(&json!({"online": false})).with_node(&json!({"last_error": "timeout"})), false);
    provisioned_offline_old_error_is_not_ours => provisioned().with_spec(&json!({"online": false})).with_node(&json!({"last_error": "timeout"}));
    provisioned_offline_failed_due_is_cut =>
        asked(provisioned().with_spec(&json!({"online": false})).with_node(&json!({"last_error": "timeout"})).failed("power management error", 1, LONG_AGO), false);
    provisioned_offline_never_off_stays => provisioned().with_spec(&json!({"online": false, "disablePowerOff": true}));
    // DEFECT 9 of upstream's: after one failure of the power every later power-off is a hard one.
    provisioned_power_reached_forgets_failures => provisioned().with_status(&json!({"errorCount": 2}));
    provisioned_down_and_unwanted_power_waits => { let mut w = provisioned().with_spec(&json!({"online": false})); w.sight = Sight::ListedThenDown; w };
    provisioned_adoption_failed_due_is_tried_again =>
        provisioned().with_node(&json!({})).failed("provisioned registration error", 2, LONG_AGO).with_host(&json!({})).adopt_failed();

    externally_provisioned_given_up_is_torn_down => World::at("externally provisioned", "active").edited();
    // OWN 7a: a host that was available was adopted, so that taking the flag back cleaned its disks.
    externally_provisioned_from_available_is_not_adopted => World::at("externally provisioned", "available").with_spec(&json!({"externallyProvisioned": true}));
    externally_provisioned_from_available_given_up_is_available_again => World::at("deprovisioning", "available").edited();
    registering_externally_provisioned_says_what_taking_it_back_does => World::at("registering", "manageable").with_spec(&json!({"externallyProvisioned": true}));
    // OWN 6a: another BMC address was patched into the node of a running server.
    provisioned_other_bmc_address_is_refused => provisioned().edited().with_spec(&json!({"bmc": {"address": "redfish://192.0.2.77/redfish/v1/Systems/1"}})).enrolled();
    provisioned_other_bmc_system_is_refused => provisioned().edited().with_spec(&json!({"bmc": {"address": "redfish://192.0.2.1/redfish/v1/Systems/7"}})).enrolled();
    provisioned_other_bmc_address_deleted_keeps_the_way_to_its_server => provisioned().edited().deleting().with_spec(&json!({"bmc": {"address": "redfish://192.0.2.77/redfish/v1/Systems/1"}}));
    available_other_bmc_address_is_sent => World::at("available", "manageable").edited().with_spec(&json!({"bmc": {"address": "redfish://192.0.2.77/redfish/v1/Systems/1"}})).enrolled();
    externally_provisioned_with_image_is_provisioned => wanting("externally provisioned", "active").edited();

    deprovisioning_clean_failed_due_clears_maintenance => World::at("deprovisioning", "clean failed")
        .with_node(&json!({"maintenance": true, "fault": "clean failure"})).failed("provisioning error", 1, LONG_AGO);
    deprovisioning_clean_failed_cleared_is_managed => World::at("deprovisioning", "clean failed").failed("provisioning error", 1, LONG_AGO);
    deprovisioning_lost_node_not_adopted_is_cleaned => World::at("deprovisioning", "adopt failed");

    deleting_deprovision_gives_up => World::at("deprovisioning", "clean failed").deleting().failed("provisioning error", 4, LONG_AGO);
    deleting_deprovision_refused_gives_up => World::at("deprovisioning", "active").deleting().failed("provisioning error", 4, LONG_AGO);
    deleting_after_failed_deployments_tears_down => wanting("provisioning", "deploy failed").deleting().failed("provisioning error", 4, LONG_AGO);
    deleting_registration_gives_up => World::at("powering off before delete", "enroll").deleting().failed("registration error", 4, LONG_AGO);
    deleting_power_off_failed_is_recorded => asked(World::at("powering off before delete", "manageable").deleting().with_node(&json!({"last_error": "timeout"})), false);
    deleting_power_off_refused_is_tried_again => with_power_off_refused(3);
    deleting_power_off_refused_gives_up => with_power_off_refused(4);
    // D11 of upstream's: a deletion waits for the end of a manual cleaning.
    deleting_manual_cleaning_is_aborted => World::at("powering off before delete", "clean wait").deleting().with_node(&json!({"target_provision_state": "manageable"}));
    deleting_unwanted_cleaning_is_aborted => World::at("powering off before delete", "clean wait").deleting()
        .with_spec(&json!({"automatedCleaningMode": "disabled"})).with_node(&json!({"target_provision_state": "available"}));
    deleting_never_off_is_removed => World::at("powering off before delete", "manageable").deleting().with_spec(&json!({"disablePowerOff": true}));
    deleting_unsupported_does_not_keep_it => World::at("available", "manageable").deleting()
        .with_spec(&json!({"bmc": {"address": "ipmi://192.0.2.1"}, "bootMode": "UEFISecureBoot"})).enrolled();
    deleting_bad_address_does_not_keep_it => { let mut w = World::at("available", "manageable").deleting().with_spec(&json!({"bmc": {"address": "?"}})); w.node = None; w };
    deleting_missing_secret_does_not_keep_it => { let mut w = with_secret(provisioned().deleting(), SecretView::Missing, "7"); w.node = None; w };
    deleting_claimed_node_is_freed_first => World::at("deleting", "available").deleting().with_node(&json!({"instance_uuid": "3f1f7a52-6d0e-4c3a-9d4e-2b7a1c5e8f01"}));
    deprovisioning_bmc_lost_is_waited_for => World::at("deprovisioning", "active").with_node(&json!({"maintenance": true, "fault": "power failure"}));
    deprovisioning_bmc_lost_holds_up_no_deletion =>
        World::at("deprovisioning", "active").with_node(&json!({"maintenance": true, "fault": "power failure"})).deleting();
    deleting_active_node_needs_maintenance => World::at("deleting", "active").deleting();
    deleting_active_node_in_maintenance_is_removed => World::at("deleting", "active").deleting().with_node(&json!({"maintenance": true}));
    // OWN 30fh: a PreprovisioningImage of a time with --build-preprov-image kept the finalizer of its host.
    deleting_without_node_releases_all => { let mut w = World::at("deleting", "active").deleting(); w.node = None; w };
    deleting_without_finalizer_is_over => provisioned().deleting().with_host(&json!({"metadata": {"finalizers": null}}));
}

const DETACHED: &str = "baremetalhost.metal3.io/detached";
const REBOOT: &str = "reboot.metal3.io";
const DELAY: &str = r#"{"deleteAction":"delay"}"#;
const FORCE: &str = r#"{"force":true}"#;
const STATUS: &str = "baremetalhost.metal3.io/status";
const DETAILS: &str = "inspect.metal3.io/hardwaredetails";
const INSPECT: &str = "inspect.metal3.io";

fn is_detached(world: World) -> World {
    let mut world = world.with_status(&json!({"operationalStatus": "detached"}));
    world.node = None;
    world.sight = Sight::Unlisted;
    world
}

fn moved(status: &str) -> World {
    let fresh = host(
        "",
        &json!({"status": null, "metadata": {"annotations": {STATUS: status}}}),
    );
    let mut world = World::new(fresh, Some(node("active", &instance(IMAGE))), Sight::Listed);
    world.memory = Memory::default();
    world
}

fn hardware(name: &str) -> HardwareDetails {
    HardwareDetails {
        hostname: name.into(),
        ..HardwareDetails::default()
    }
}

/// Ironic was given the Secret's new content, and has not been seen to use it.
fn tried_only() -> World {
    let tried = json!({"credentials": {"name": "bmc", "namespace": "n"}, "credentialsVersion": "8"});
    let mut world = World::at("available", "manageable").with_status(&json!({"triedCredentials": tried}));
    world.memory.accepted_digest = Some(2);
    with_secret(world, SecretView::Found(secret("8", 2)), "8")
}

/// Names another Secret than the one that the BMC refused, which is not the one that it takes.
fn refused_before() -> World {
    let tried = json!({"credentials": {"name": "wrong", "namespace": "n"}, "credentialsVersion": "6"});
    World::at("available", "manageable")
        .with_spec(&json!({"bmc": {"credentialsName": "other"}}))
        .with_status(&json!({"triedCredentials": tried}))
        .edited()
}

/// Names a Secret that is marked and was not given to Ironic, with the content that Ironic was given of another.
fn claimed_only() -> World {
    let tried = json!({"credentials": {"name": "other", "namespace": "n"}, "credentialsVersion": null});
    let mut world = refused_before().with_status(&json!({"triedCredentials": tried}));
    world.memory.accepted_digest = Some(3);
    with_secret(world, SecretView::Found(secret("9", 3)), "9")
}

fn bmc_refuses(mut world: World) -> World {
    world.bmc_refuses = Some("401 Unauthorized".into());
    world
}

fn with_network(world: World, seen: NetworkDataView) -> World {
    let mut world = world
        .with_spec(&json!({"preprovisioningNetworkDataName": "net"}))
        .annotated(HELD, "bmc,net");
    world.network_data = seen;
    world
}

/// The same, and the node carries it.
fn with_known_network_data(world: World) -> World {
    let mut world = with_network(world, network_data("3", true));
    world.memory.network_data = Some("3".into());
    world
}

/// A host that is noted to hold these Secrets.
fn holding(world: World, secrets: &str) -> World {
    world.annotated(HELD, secrets)
}

/// The same, and `former` could not be let go at this time.
fn unreleased(world: World, at: &str) -> World {
    let mut world = holding(world, "bmc,former");
    let unreleased = Unreleased {
        why: "secrets \"former\" is forbidden".into(),
        at: at.parse().unwrap(),
    };
    world.memory.unreleased.insert("former".into(), unreleased);
    world
}

/// Somebody builds ramdisks, and has built this one.
fn built(mut world: World, image: Option<serde_json::Value>) -> World {
    world.settings.builds_ramdisks = true;
    world.ramdisk = image.map(|change| ramdisk(&change));
    world
}

/// A ramdisk in deletion, which waits for its host.
fn going_ramdisk() -> serde_json::Value {
    json!({"metadata": {"generation": 3, "deletionTimestamp": "2026-01-01T00:00:00Z",
        "finalizers": ["baremetalhost.metal3.io/preprovisioningImage"]}})
}

/// A ramdisk that was built with network data.
fn with_network_data() -> serde_json::Value {
    json!({"spec": {"networkDataName": "net"}, "status": {"networkData": {"name": "net", "version": "3"}}})
}

/// Another node has the second NIC's address.
fn foreign(at: &str) -> std::collections::BTreeMap<String, ForeignPort> {
    let foreign = ForeignPort {
        owner: "n~other".into(),
        at: at.parse().unwrap(),
    };
    [("52:54:00:00:00:09".to_owned(), foreign)].into()
}

/// A provisioned host about to be switched on, with a wish for a disc.
fn with_disc(status: &serde_json::Value, in_drive: bool) -> World {
    let mut world = provisioned().with_node(&merged(instance(IMAGE), &json!({"power_state": "power off"})));
    world.data_image = Some(data_image(DISC, status));
    world.disc = Ok(in_drive);
    world
}

fn merged(mut base: serde_json::Value, change: &serde_json::Value) -> serde_json::Value {
    merge(&mut base, change);
    base
}

const DISC: &str = "http://images/d.iso";

fn attached(url: &str) -> serde_json::Value {
    json!({"attachedImage": {"url": url}})
}

fn disc_failed(at: &str) -> serde_json::Value {
    json!({"lastReconciled": at, "error": {"count": 1, "message": "attaching http://images/d.iso: no drive"}})
}

/// The same, and remembered.
fn with_failed_disc(at: &str) -> World {
    let mut world = with_disc(&disc_failed(at), false);
    world.memory.disc_failure = Some(DiscFailure {
        request: DiscRequest::Attach,
        generation: world.data_image.as_ref().unwrap().metadata.generation,
    });
    world
}

/// A host in use whose firmware is about to be changed; Ironic knows of it. An operator that has not struck the version before
/// has told it.
fn served_firmware(applied: Option<&str>) -> World {
    let world = provisioned().with_bios_update(None).on_reboot();
    world
        .switched_off()
        .announced()
        .obeyed("active")
        .with_bios_update(applied)
}

/// Ironic could not write it.
fn firmware_failed(mut world: World, state: &str) -> World {
    world.node.as_mut().unwrap().provision_state = metal3_ironic::ProvisionState::from(state);
    world.with_error("no space")
}

/// The user wants the version before.
fn edited_back(mut world: World) -> World {
    let object = world.firmware.updates.as_mut().unwrap();
    let status = object.status.as_mut().unwrap();
    object.spec.updates.clone_from(&status.updates);
    status.conditions[0].status = metal3_api::condition::ConditionStatus::False;
    world
}

/// A host that is not ours to deploy, while it is serviced.
fn external_serving(state: &str) -> World {
    serving(state)
        .with_spec(&json!({"externallyProvisioned": true, "image": null}))
        .with_status(&json!({"provisioning": {"state": "externally provisioned"}}))
}

/// With the note of a disc whose DataImage is gone.
fn left_behind(mut world: World, in_drive: bool) -> World {
    world.disc = Ok(in_drive);
    let note = json!({"attachedImage": {"url": "http://images/left.iso"}}).to_string();
    world.annotated("baremetalhost.metal3.io/left-disc", &note)
}

/// A host whose deployment was called off between its description and the request.
fn described_only() -> World {
    let info = json!({
        "capabilities": {}, "root_device": {"name": "s== /dev/sda"}, "image_source": "http://images.example.org/a.img",
        "image_pull_secret": "******", "metal3_deployment": {"target": "a", "attempt": "b", "since": "c"}, "somebody_elses": 1,
    });
    let world = World::at("deprovisioning", "available").with_spec(&json!({"image": null}));
    world.with_node(&json!({"instance_uuid": "9f5cd2d1-6d4c-4b8e-9b1e-3f1b7a4d8f11", "instance_info": info}))
}

/// A host that is no longer used, with the disc of its last user.
fn after_use(state: &str, node_state: &str) -> World {
    let mut world = World::at(state, node_state).with_spec(&json!({"image": null}));
    world.data_image = Some(data_image(DISC, &attached(DISC)));
    world.disc = Ok(true);
    world
}

/// A deployment that failed, asked for with this version of the registry's Secret.
fn failed_with_secret(version: &str) -> World {
    let mut world = registry("deploy failed").failed("provisioning error", 1, JUST_NOW);
    world.memory.deployed_with = Some(
        [("registry".to_owned(), Some(version.to_owned()))]
            .into_iter()
            .collect(),
    );
    world.deployment_secrets = [("registry".to_owned(), Some("5".to_owned()))].into_iter().collect();
    world
}

/// A first failure with firmware objects of these generations, which by now are of the third, and later failures that were not
/// recorded yet.
fn failed_with_firmware(world: World, error: &str, failures: i32, generations: [i64; 2]) -> World {
    let world = world.with_turbo("On", 3).with_bios_update(None);
    let mut world = world.failed(error, failures, JUST_NOW);
    world.memory.failed_firmware = Some(FailedFirmware {
        failures: 1,
        edits: generations.map(|generation| edit_of("", generation)),
    });
    world
}

/// The edit of an object with this UID.
fn edit_of(uid: &str, generation: i64) -> Option<Edit> {
    Edit::of(&serde_json::from_value(json!({"uid": uid, "generation": generation})).unwrap())
}

fn nics() -> serde_json::Value {
    json!({"nics": [{"name": "eth0", "mac": MAC.to_uppercase(), "ip": "192.0.2.1"}, {"name": "eth0", "mac": MAC, "ip": "2001:db8::1"},
        {"name": "eth1", "mac": "52:54:00:00:00:09"}, {"name": "lo", "mac": ""}]})
}

/// The server was booted from its first NIC.
fn booted_from_the_first() -> serde_json::Value {
    let mut nics = nics();
    nics["nics"][0]["pxe"] = json!(true);
    nics["nics"]
        .as_array_mut()
        .unwrap()
        .push(json!({"name": "eth2", "mac": GONE}));
    nics
}

const GONE: &str = "52:54:00:00:00:77";

/// Has these details, and besides the ports of its NICs that of one that they do not have.
fn with_ports(world: World, hardware: &serde_json::Value) -> World {
    let mut world = if hardware.is_null() {
        world
    } else {
        world.with_status(&json!({"hardware": hardware}))
    };
    world.ports = [MAC, "52:54:00:00:00:09", GONE].map(str::to_owned).into();
    world
}

/// Ironic would not do this with the port.
fn refused(change: &'static str, mac: &str, at: &str) -> BTreeMap<String, RefusedPort> {
    let refused = RefusedPort {
        change,
        why: "a VIF is attached".to_owned(),
        at: at.parse().unwrap(),
    };
    [(mac.to_owned(), refused)].into()
}

/// An inspection could not remove a port.
fn told_of_refusal(mut world: World) -> World {
    let mut refused_it = inspected(&nics());
    refused_it.memory.refused_ports = refused("delete port", GONE, "2026-01-02T11:59:00Z");
    let mut conditions = refused_it.decide().plan.status.conditions.into_iter();
    let told = conditions.find(|c| c.type_ == "PortsComplete").unwrap();
    let conditions = &mut world.host.status.as_mut().unwrap().conditions;
    conditions.push(told);
    world
}

/// An inspection has found these.
fn inspected(hardware: &serde_json::Value) -> World {
    let mut world = with_ports(World::at("inspecting", "manageable"), &json!(null));
    world.inventory = Some(serde_json::from_value(hardware.clone()).unwrap());
    world
}

fn provisioned_in(node_state: &str) -> World {
    let mut world = provisioned();
    world.node = Some(node(node_state, &instance(IMAGE)));
    world
}

fn unmanaged_deleted() -> World {
    let mut world = World::at("unmanaged", "enroll")
        .deleting()
        .with_spec(&json!({"bmc": null}))
        .with_status(&json!({"provisioning": {"ID": ""}, "goodCredentials": null, "triedCredentials": null}));
    world.node = None;
    world.sight = Sight::Unknown;
    world
}

fn never_off() -> World {
    provisioned().with_spec(&json!({"disablePowerOff": true})).with_node(&{
        let mut node = instance(IMAGE);
        node["disable_power_off"] = json!(true);
        node
    })
}

/// A restart for `reboot.metal3.io/a` that was about to be asked for when the node's record was of this time.
fn rebooting(done: bool, at: &str) -> World {
    let message = format!("asked for by reboot.metal3.io/a#{:08x} at {at}", 0x811c_9dc5_u32);
    let kept = serde_json::to_value(never_off().host.status.unwrap().conditions).unwrap();
    let mut conditions = kept.as_array().unwrap().clone();
    conditions.push(
        json!({"type": "Rebooted", "status": if done { "True" } else { "False" }, "reason": "Rebooting",
        "message": message, "lastTransitionTime": "2026-01-01T00:00:00Z"}),
    );
    never_off()
        .annotated("reboot.metal3.io/a", "")
        .with_status(&json!({"conditions": conditions}))
}

table! {
    detached_provisioned_needs_maintenance => provisioned().annotated(DETACHED, "");
    detached_provisioned_in_maintenance_is_removed => { let mut n = instance(IMAGE); n["maintenance"] = json!(true); provisioned().annotated(DETACHED, "{}").with_node(&n) };
    detached_available_is_removed => World::at("available", "manageable").annotated(DETACHED, "{}");
    detached_external_claimed_is_freed => World::at("externally provisioned", "available").with_spec(&json!({"externallyProvisioned": true}))
        .annotated(DETACHED, "").with_node(&json!({"instance_uuid": "3f1f7a52-6d0e-4c3a-9d4e-2b7a1c5e8f01"}));
    detached_locked_waits => provisioned().annotated(DETACHED, "").with_node(&json!({"reservation": "conductor-1"}));
    detached_node_gone_is_done => { let mut w = provisioned().annotated(DETACHED, ""); w.node = None; w };
    detached_after_a_failure_forgets_it => { let mut w = provisioned().annotated(DETACHED, "").failed("detach error", 2, LONG_AGO); w.node = None; w };
    detached_with_another_error_keeps_it => { let mut w = provisioned().annotated(DETACHED, "").failed("power management error", 2, LONG_AGO); w.node = None; w };
    // DEFECT 1 of upstream's: `detach error` is not in the schema: the status cannot be stored, again and again.
    detached_failed_before_is_held_back => provisioned().annotated(DETACHED, "").failed("registration error", 1, JUST_NOW)
        .with_status(&json!({"errorMessage": "detaching failed: node is busy"}));
    detached_with_a_registration_error_does_not_wait_for_it =>
        provisioned().annotated(DETACHED, "").failed("registration error", 1, JUST_NOW);
    detached_failed_early_is_held_back => provisioned().annotated(DETACHED, "").failed("detach error", 1, JUST_NOW);
    detached_is_left_alone => is_detached(provisioned().annotated(DETACHED, ""));
    // OWN 31tj: seen with a server that lost its power while the image was written.
    provisioning_ramdisk_that_died_is_told_in_plain_words => wanting("provisioning", "deploy failed").with_node(&json!({"last_error":
        "Async execution of cleanup_after_timeout failed with error: Can not transition from state 'deploy failed' on event 'fail'"}));
    // OWN 31ti: a host whose BMC has moved was to be detached and to come back, again and again.
    detached_whose_node_was_left_says_so => provisioned().annotated(DETACHED, "").with_status(&json!({"operationalStatus": "detached"}));
    provisioned_other_bmc_address_of_a_node_that_is_not_proven_is_refused =>
        provisioned().edited().with_spec(&json!({"bmc": {"address": "redfish://192.0.2.77/redfish/v1/Systems/1"}})).with_node(&json!({"extra": null}));
    detached_then_moved_node_is_not_ours => { let mut w = is_detached(provisioned().annotated(DETACHED, "")); w.node = Some(node("active", &json!({"uuid": "node-2"}))); w.sight = Sight::Listed; w };
    detached_ironic_down_is_left_alone => { let mut w = is_detached(provisioned().annotated(DETACHED, "")); w.sight = Sight::Unknown; w };
    detached_ironic_down_not_yet_waits => { let mut w = provisioned().annotated(DETACHED, ""); w.sight = Sight::Unknown; w };
    detached_address_edited_waits => is_detached(provisioned().annotated(DETACHED, "").edited().with_spec(&json!({"bmc": {"address": "redfish://"}})));
    detached_inspecting_goes_on => World::at("inspecting", "inspect wait").annotated(DETACHED, "");
    detached_inspecting_forced_is_stopped => World::at("inspecting", "inspect wait").annotated(DETACHED, FORCE);
    detached_provisioning_forced_is_stopped => wanting("provisioning", "wait call-back").annotated(DETACHED, FORCE);
    detached_provisioning_forced_on_old_ironic_is_torn_down => wanting("provisioning", "wait call-back").annotated(DETACHED, FORCE).failed("detach error", 1, LONG_AGO);
    detached_provisioning_forced_busy_waits => wanting("provisioning", "deploying").annotated(DETACHED, FORCE);
    detached_provisioning_invalid_is_not_forced => wanting("provisioning", "wait call-back").annotated(DETACHED, "{force}");
    // DEFECT 24 of upstream's: arguments of the detached annotation that cannot be read are ignored in silence.
    detached_provisioned_invalid_is_detached_and_told => provisioned().annotated(DETACHED, "yes please");
    attached_provisioned_is_enrolled => is_detached(provisioned());
    attached_with_error_has_it_back => is_detached(provisioned().failed("power management error", 2, LONG_AGO));
    attached_ironic_down_waits => { let mut w = is_detached(provisioned()); w.sight = Sight::Unknown; w };
    attached_elsewhere_is_enrolled_there => is_detached(provisioned().edited().with_spec(&json!({"bmc": {"address": OTHER_ADDRESS}})));
    attached_detach_failed_is_forgotten => provisioned().failed("detach error", 3, JUST_NOW);

    deleting_detached_is_forgotten_as_it_runs => is_detached(provisioned().deleting().annotated(DETACHED, ""));
    deleting_detached_leaves_a_node_that_is_not_its_own => { let mut w = is_detached(World::at("deleting", "active").deleting().annotated(DETACHED, ""));
        w.node = Some(node("active", &json!({"uuid": "node-2"}))); w.sight = Sight::Listed; w };
    deleting_annotated_goes_at_once => provisioned().deleting().annotated(DETACHED, r#"{"deleteAction":"delete"}"#);
    deleting_annotated_text_goes_at_once => provisioned().deleting().annotated(DETACHED, "delay");
    deleting_annotated_without_credentials_goes_at_once => with_secret(provisioned().deleting().annotated(DETACHED, ""), SecretView::Missing, "7").enrolled();
    deleting_delayed_waits => is_detached(provisioned().deleting().annotated(DETACHED, DELAY));
    deleting_delayed_is_detached_first => provisioned().deleting().annotated(DETACHED, DELAY);
    deleting_delayed_inspecting_waits => World::at("inspecting", "inspect wait").deleting().annotated(DETACHED, DELAY);
    deleting_delayed_deployment_is_waited_for => wanting("provisioning", "wait call-back").deleting().annotated(DETACHED, DELAY);
    deleting_delayed_deployed_is_provisioned_and_detached => wanting("provisioning", "active").with_node(&instance(IMAGE)).deleting().annotated(DETACHED, DELAY);
    deleting_delayed_failed_deployment_is_recorded => wanting("provisioning", "deploy failed").with_node(&instance(IMAGE)).deleting().annotated(DETACHED, DELAY);
    deleting_delayed_registration_is_waited_for => World::at("registering", "verifying").deleting().annotated(DETACHED, DELAY);
    deleting_delayed_deprovisioning_is_torn_down => World::at("deprovisioning", "active").deleting().annotated(DETACHED, DELAY);
    deleting_delayed_torn_down_is_detached_where_it_rests => World::at("deprovisioning", "available").deleting().annotated(DETACHED, DELAY);
    deleting_delayed_powering_off_stops_there => World::at("powering off before delete", "manageable").deleting().annotated(DETACHED, DELAY);
    deleting_delayed_unmanaged_waits => World::at("unmanaged", "manageable").deleting().annotated(DETACHED, DELAY).with_spec(&json!({"bmc": null}));
    deleting_reattached_comes_back_first => is_detached(provisioned().deleting());
    deleting_in_the_end_ignores_the_annotation => World::at("deleting", "manageable").deleting().annotated(DETACHED, DELAY);

    restored_full_is_taken_over => moved(r#"{"operationalStatus":"OK","lastUpdated":"2026-01-01T00:00:00Z","errorMessage":"","poweredOn":true,
        "provisioning":{"state":"provisioned","ID":"node-1","image":{"url":"http://images/a.qcow2","checksum":"aaaa"}}}"#);
    restored_partial_is_taken_over => moved(r#"{"provisioning":{"state":"provisioned"}}"#);
    // DEFECT 3 of upstream's: a status annotation that cannot be read is dropped, and the host set up as a new one.
    restored_broken_is_refused => moved(r#"{"provisioning":{"state":"provi"#);
    restored_unknown_word_is_refused => moved(r#"{"operationalStatus":"splendid"}"#);
    restored_unknown_format_is_refused => moved(r#"{"operationalStatus":"OK","provisioning":{"state":"provisioned","image":{"url":"http://images/a.qcow2","format":"bogus"}}}"#);
    restored_broken_does_not_keep_a_deletion => moved("{").deleting();
    restored_empty_is_none => moved("");
    restored_before_is_removed => provisioned().annotated(STATUS, r#"{"provisioning":{"state":"inspecting"}}"#);

    details_are_taken => World::at("available", "manageable").with_spec(&json!({"inspectionMode": "disabled"})).annotated(DETAILS, r#"{"hostname":"h"}"#);
    details_with_an_unknown_word_are_told => World::at("available", "manageable").with_spec(&json!({"inspectionMode": "disabled"})).annotated(DETAILS, r#"{"storage":[{"type":"FLOPPY"}]}"#);
    details_stored_are_done => World::at("available", "manageable").with_status(&json!({"hardware": hardware("h")})).annotated(DETAILS, r#"{"hostname":"h"}"#);
    details_of_data_win => { let mut w = World::at("available", "manageable").annotated(DETAILS, r#"{"hostname":"h"}"#); w.hardware_data = Some(hardware("data")); w };
    details_after_data_are_dropped => { let mut w = World::at("available", "manageable").with_spec(&json!({"inspectionMode": "disabled"}))
        .with_status(&json!({"hardware": hardware("data")})).annotated(DETAILS, r#"{"hostname":"h"}"#); w.hardware_data = Some(hardware("data")); w };
    details_of_an_inspected_host_are_dropped => World::at("available", "manageable").with_status(&json!({"hardware": hardware("found")})).annotated(DETAILS, r#"{"hostname":"h"}"#);
    details_misspelt_are_told => World::at("available", "manageable").with_spec(&json!({"inspectionMode": "disabled"})).annotated(DETAILS, r#"{"hostnam":"h"}"#);
    registering_with_misspelt_details_waits => World::at("registering", "manageable").with_spec(&json!({"inspectionMode": "disabled"})).annotated(DETAILS, r#"{"hostnam":"h"}"#);
    registering_without_inspection_takes_data => { let mut w = World::at("registering", "manageable").with_spec(&json!({"inspectionMode": "disabled"})); w.hardware_data = Some(hardware("data")); w };

    available_is_inspected_again => World::at("available", "manageable").with_status(&json!({"hardware": hardware("h")})).annotated(INSPECT, "");
    available_after_use_is_managed_first => World::at("available", "available").with_status(&json!({"hardware": hardware("h")})).annotated(INSPECT, "");
    match_profile_to_be_inspected_and_rebooted_by_force_is_inspected_once =>
        World::at("match profile", "manageable").annotated(INSPECT, "").annotated(REBOOT, r#"{"mode":"hard","force":true}"#);
    available_contradiction_is_told => World::at("available", "manageable").with_spec(&json!({"inspectionMode": "disabled"})).annotated(INSPECT, "");
    provisioned_is_not_inspected => provisioned().annotated(INSPECT, "");
    inspecting_again_does_not_take_the_old_inventory =>
        { let mut w = World::at("inspecting", "manageable").annotated(INSPECT, "now"); w.inventory = Some(hardware("old")); w };
    inspecting_again_after_a_failure_does_not_take_the_old_inventory =>
        { let mut w = World::at("inspecting", "manageable").with_node(&json!({"inspection_finished_at": null})); w.inventory = Some(hardware("old")); w };
    inspecting_cleaned_after_a_failure_does_not_take_the_old_inventory =>
        { let mut w = World::at("inspecting", "available").with_node(&json!({"inspection_finished_at": null})); w.inventory = Some(hardware("old")); w };
    inspecting_already_serves_the_annotation => World::at("inspecting", "inspecting").annotated(INSPECT, "");
    inspecting_forced_reboot_begins_anew => World::at("inspecting", "inspect wait").annotated(REBOOT, FORCE);
    inspecting_unforced_reboot_waits => World::at("inspecting", "inspect wait").annotated(REBOOT, "");
    inspecting_held_reboot_does_not_begin_anew => World::at("inspecting", "inspect wait").annotated("reboot.metal3.io/a", FORCE);
    inspecting_aborted_begins_anew => World::at("inspecting", "inspect failed").annotated(REBOOT, FORCE).with_node(&json!({"last_error": "Inspection was aborted by request."}));
    // OWN 31aa: an error of a BMC counted as an abortion, and inspection began again at once, for ever and without an error.
    inspecting_after_a_lost_connection_is_a_failure => World::at("inspecting", "inspect failed")
        .with_node(&json!({"last_error": "('Connection aborted.', RemoteDisconnected('closed'))"}));
    inspecting_other_mode_changes_the_interface => World::at("inspecting", "manageable").with_spec(&json!({"inspectionMode": "fast"}));
    // D8 of upstream's: another inspection mode after a failed inspection is refused by Ironic.
    inspecting_other_mode_after_failure_manages_first =>
        World::at("inspecting", "inspect failed").with_spec(&json!({"inspectionMode": "fast"})).failed("inspection error", 1, LONG_AGO);

    // DEFECT 27 of upstream's: new credentials of a managed host are called good without a try.
    available_new_secret_refused_by_the_bmc_is_told => bmc_refuses(tried_only());
    available_new_secret_refused_early_is_held_back => bmc_refuses(tried_only().failed("registration error", 1, JUST_NOW));
    available_new_secret_refused_again_is_counted => bmc_refuses(tried_only().failed("registration error", 1, LONG_AGO));
    available_new_secret_taken_by_the_bmc_is_good => tried_only();
    available_other_address_is_tried_before_it_counts => { let mut w = World::at("available", "manageable").edited(); w.reconfigured = true; bmc_refuses(w) };
    provisioned_touched_secret_asks_no_bmc => bmc_refuses(with_secret(provisioned(), SecretView::Found(secret("8", 1)), "8"));
    new_with_unnamed_node_of_its_mac_takes_it => { let mut w = fresh(&json!({})); w.settings.adopts_unnamed_nodes = true; w.mac_owner = Some(MacOwner { node: "node-9".into(), name: None, bmc: bmc_of_the_host() }); w };
    new_with_unnamed_node_of_its_mac_and_another_bmc_leaves_it => { let mut w = fresh(&json!({})); w.mac_owner = Some(MacOwner { node: "node-9".into(), name: None, bmc: Fields::default() }); w };
    // OWN 3a: a node that had the host's name was taken for its own, whatever BMC it had.
    registering_node_of_its_name_with_another_bmc_is_refused => found_by_name(&json!({"redfish_address": "https://192.0.2.99"}));
    registering_node_of_its_name_with_another_system_is_refused => found_by_name(&json!({"redfish_system_id": "/redfish/v1/Systems/2"}));
    registering_node_of_its_name_of_another_protocol_is_refused => found_by_name(&json!({"redfish_address": null, "ipmi_address": "192.0.2.1"}));
    registering_node_of_its_name_with_its_bmc_is_taken_over => found_by_name(&json!({"redfish_address": "https://192.0.2.1/"}));
    // OWN 3f: that a node is left alone was told to nobody.
    // OWN 3b: the deletion of a host that had never registered removed a node that somebody else had enrolled under its name.
    // OWN 3f: nobody was told that it stays.
    deleting_node_of_its_name_only_is_left_alone => found_by_name(&json!({"redfish_address": "https://192.0.2.99"})).deleting()
        .with_host(&json!({"status": {"provisioning": {"state": "deleting"}}}));
    deleting_node_that_was_renumbered_is_left_alone => World::at("deleting", "available").deleting().with_status(&json!({"provisioning": {"ID": "node-7"}}));
    detached_node_of_its_name_only_is_left_alone => World::at("provisioned", "active").annotated(DETACHED, r#"{"force": true}"#).with_status(&json!({"provisioning": {"ID": "node-7"}}));
    // The ID in the status may be a lie of whoever wrote the annotation that it was restored from.
    attack_provisioned_leads_to_anothers_node => anothers(World::at("provisioned", "active").edited());
    attack_provisioned_at_rest_leads_to_anothers_node => anothers(provisioned());
    attack_without_image_would_be_cleaned => anothers(World::at("provisioned", "active"));
    attack_deprovisioning_would_be_cleaned => anothers(World::at("deprovisioning", "active"));
    attack_available_would_be_cleaned => anothers(World::at("available", "manageable").edited());
    attack_deleted_would_be_cleaned => anothers(World::at("provisioned", "active").deleting());
    attack_deleted_would_be_switched_off => anothers(World::at("available", "manageable").deleting());
    attack_deleted_external_would_be_switched_off => anothers(World::at("externally provisioned", "active").deleting());
    attack_deprovisioned_while_deleted_would_be_cleaned => anothers(World::at("deprovisioning", "active").deleting());
    attack_deleting_would_be_removed => anothers(World::at("deleting", "available").deleting());
    attack_detached_by_force_would_be_removed => anothers(World::at("provisioned", "active").annotated(DETACHED, r#"{"force": true}"#));
    attack_unnamed_node_with_another_bmc_is_left_alone => World::at("available", "manageable").edited()
        .with_node(&json!({"name": null, "driver_info": {"redfish_address": "https://192.0.2.99"}}));
    available_with_a_node_of_the_old_name_renames_it => adopting(World::at("available", "manageable").edited().with_node(&json!({"name": "h"})));
    // OWN 29: a node that bears no host's name was seized by whoever called a host like it.
    attack_node_of_the_old_name_is_left_alone => World::at("available", "manageable").edited().with_node(&json!({"name": "h"}));
    attack_unnamed_node_with_its_bmc_is_left_alone => World::at("available", "manageable").edited().with_node(&json!({"name": null}));
    attack_unnamed_node_without_a_boot_mac_is_left_alone => adopting(World::at("available", "manageable").edited().with_node(&json!({"name": null})).with_spec(&json!({"bootMACAddress": ""})));
    attack_unnamed_node_without_ports_is_left_alone => { let mut w = adopting(World::at("available", "manageable").edited().with_node(&json!({"name": null}))); w.ports = vec![]; w };
    attack_unnamed_node_of_its_mac_is_left_alone => { let mut w = fresh(&json!({})); w.mac_owner = Some(MacOwner { node: "node-9".into(), name: None, bmc: bmc_of_the_host() }); w };
    attack_locked_node_of_the_old_name_is_not_named => World::at("registering", "manageable").edited()
        .with_status(&json!({"provisioning": {"ID": ""}})).with_node(&json!({"name": "h", "reservation": "conductor-1"}));
    // OWN 29b: a host of another cluster, of the same namespace and name, had a node wiped without any credentials.
    attack_same_name_without_secret_would_be_cleaned => namesake(World::at("provisioned", "active").deleting());
    attack_same_name_without_secret_would_be_switched_off => namesake(World::at("available", "manageable").deleting());
    attack_same_name_without_secret_would_be_removed => namesake(World::at("deleting", "manageable").deleting());
    attack_same_name_detached_by_force_would_be_removed => namesake(World::at("provisioned", "active").annotated(DETACHED, r#"{"force": true}"#));
    attack_same_name_with_a_secret_would_be_reconfigured => with_secret(namesake(World::at("available", "manageable").edited()), SecretView::Found(secret("7", 1)), "7");
    attack_same_name_in_a_state_that_nobody_awaits_is_let_go => namesake(World::at("deprovisioning", "enroll").deleting());
    attack_same_name_at_rest_would_be_cleaned => with_secret(namesake(World::at("provisioned", "active")), SecretView::Found(secret("7", 1)), "7");
    attack_same_name_of_the_same_bmc_without_secret_would_be_cleaned => with_secret(World::at("provisioned", "active").with_node(&json!({"extra": null})).deleting(), SecretView::Missing, "7");
    available_boot_mac_changed_gets_its_port => World::at("available", "manageable").edited().with_spec(&json!({"bootMACAddress": "52:54:00:AA:BB:CC"}));
    available_boot_mac_changed_to_anothers_is_told => taken(World::at("available", "manageable").edited().with_spec(&json!({"bootMACAddress": "52:54:00:aa:bb:cc"})));
    // D7 of upstream's: MAC addresses in capitals cost calls in every pass; a taken one is a line in the log.
    available_boot_mac_in_capitals_is_the_same => World::at("available", "manageable").edited().with_spec(&json!({"bootMACAddress": MAC.to_uppercase()}));
    available_boot_port_disabled_is_enabled => { let mut w = World::at("available", "manageable").edited(); w.disabled_ports = true; w };
    available_nics_get_their_ports => World::at("available", "manageable").edited().with_status(&json!({"hardware": nics()}));
    available_nic_of_another_node_is_done_without =>
        { let mut w = World::at("available", "manageable").edited().with_status(&json!({"hardware": nics()})); w.memory.foreign_ports = foreign("2026-01-02T11:30:00Z"); w };
    // OWN 22d: messages named hosts of other tenants.
    available_nic_of_another_tenants_host_does_not_name_it =>
        { let mut w = World::at("available", "manageable").edited().with_status(&json!({"hardware": nics()})); w.memory.foreign_ports = foreign("2026-01-02T11:30:00Z");
        w.memory.foreign_ports.values_mut().for_each(|port| "victim~other".clone_into(&mut port.owner)); w };
    available_nic_of_another_node_is_asked_for_again_later =>
        { let mut w = World::at("available", "manageable").edited().with_status(&json!({"hardware": nics()})); w.memory.foreign_ports = foreign("2026-01-02T10:30:00Z"); w };
    available_nic_of_another_node_is_told_once =>
        { let mut w = World::at("available", "manageable").edited().with_status(&json!({"hardware": nics()})); w.memory.foreign_ports = foreign("2026-01-02T11:30:00Z"); w.then().edited_again() };
    available_port_of_a_nic_that_is_gone_waits_for_an_inspection => with_ports(World::at("available", "manageable").edited(), &nics());
    available_port_not_booted_from_any_more_waits_for_an_inspection => with_ports(World::at("available", "manageable").edited(), &booted_from_the_first());
    available_cleaned_port_disabled_is_left => { let mut w = World::at("available", "available").edited(); w.disabled_ports = true; w };
    // D25 of upstream's: ports are made and never corrected.
    inspecting_found_a_nic_no_more_removes_its_port => inspected(&nics());
    inspecting_found_a_nic_no_more_waits_for_the_lock => inspected(&nics()).with_node(&json!({"reservation": "c"}));
    inspecting_found_a_nic_no_more_leaves_the_port_of_others => { let mut w = inspected(&nics()); w.others_ports = true; w };
    inspecting_found_no_nics_leaves_all_ports => inspected(&json!({"nics": []}));
    inspecting_found_only_nics_without_ports_leaves_the_last_one => { let mut w = inspected(&json!({"nics": [{"mac": "52:54:00:00:00:09"}]}))
            .with_spec(&json!({"bootMACAddress": ""}));
        w.ports = vec![GONE.to_owned()]; w.memory.foreign_ports = foreign("2026-01-02T11:30:00Z"); w };
    inspecting_found_another_way_to_boot_disables_a_port => inspected(&booted_from_the_first());
    // A BMC need not list all NICs.
    inspecting_through_the_bmc_leaves_all_ports => inspected(&nics()).with_node(&json!({"inspect_interface": "redfish"}));
    inspecting_through_the_bmc_from_now_on_leaves_all_ports => inspected(&nics()).with_spec(&json!({"inspectionMode": "fast", "bootMACAddress": ""}));
    inspecting_cleaned_port_of_a_nic_that_is_gone_is_left => { let mut w = inspected(&nics()); w.node = Some(node("available", &json!({}))); w };
    // Ironic will not change a port: the inventory is good all the same.
    inspecting_refused_removal_goes_on => { let mut w = inspected(&nics()); w.memory.refused_ports = refused("delete port", GONE, "2026-01-02T11:59:00Z"); w };
    inspecting_refused_creation_goes_on => { let mut w = inspected(&nics()); w.ports.retain(|mac| *mac == MAC);
        w.memory.refused_ports = refused("create port", "52:54:00:00:00:09", "2026-01-02T11:59:00Z"); w };
    available_refused_boot_from_a_port_goes_on =>
        { let mut w = World::at("available", "manageable").edited(); w.disabled_ports = true; w.memory.refused_ports = refused("enable port", MAC, "2026-01-02T11:59:00Z"); w };
    available_refused_boot_from_a_port_is_asked_for_again_later =>
        { let mut w = World::at("available", "manageable").edited(); w.disabled_ports = true; w.memory.refused_ports = refused("enable port", MAC, "2026-01-02T10:59:00Z"); w };
    registering_refused_boot_port_is_held_back =>
        { let mut w = World::at("registering", "enroll").failed("registration error", 1, JUST_NOW); w.ports = vec![]; w };
    available_refused_boot_port_is_held_back =>
        { let mut w = World::at("available", "manageable").failed("registration error", 1, JUST_NOW); w.ports = vec![]; w };
    inspecting_found_nic_of_another_is_asked_for_again => { let mut w = World::at("inspecting", "manageable")
            .with_status(&json!({"operationHistory": {"inspect": {"start": "2026-01-02T11:45:00Z"}}}));
        w.inventory = Some(serde_json::from_value(nics()).unwrap()); w.memory.foreign_ports = foreign("2026-01-02T11:30:00Z"); w };
    available_nic_that_turns_out_to_boot_is_enabled =>
        { let mut w = World::at("available", "manageable").edited().with_status(&json!({"hardware": {"nics": [{"mac": "52:54:00:00:00:09", "pxe": true}]}}));
          w.ports.push("52:54:00:00:00:09".into()); w.disabled_ports = true; w.with_spec(&json!({"bootMACAddress": ""})) };
    inspecting_found_nics_get_their_ports => { let mut w = World::at("inspecting", "manageable"); w.inventory = Some(serde_json::from_value(nics()).unwrap()); w };
    available_network_data_is_given_to_the_ramdisk => with_network(World::at("available", "manageable"), network_data("3", true));
    available_network_data_unclaimed_is_claimed => with_network(World::at("available", "manageable"), network_data("3", false));
    available_network_data_known_costs_nothing => { let mut w = with_network(World::at("available", "manageable"), network_data("3", true)); w.memory.network_data = Some("3".into()); w };
    available_network_data_changed_is_given => { let mut w = with_network(World::at("available", "manageable"), network_data("4", true)); w.memory.network_data = Some("3".into()); w };
    available_network_data_missing_is_told => with_network(World::at("available", "manageable"), NetworkDataView::Missing);
    available_network_data_unusable_is_told => with_network(World::at("available", "manageable"), unusable_network_data());
    available_network_data_without_the_key_is_as_none => with_network(World::at("available", "manageable"), NetworkDataView::WithoutKey { version: "3".into() });
    available_network_data_that_lost_the_key_is_taken_back =>
        with_network(World::at("available", "manageable").with_node(&json!({"network_data": {"links": []}})), NetworkDataView::WithoutKey { version: "3".into() });
    available_network_data_no_longer_wanted_is_taken_back => World::at("available", "manageable").edited().with_node(&json!({"network_data": {"links": []}}));
    provisioned_network_data_missing_does_not_matter => with_network(provisioned(), NetworkDataView::Missing);
    deleting_network_data_missing_does_not_keep_it => with_network(World::at("available", "manageable").deleting(), NetworkDataView::Missing);
    inspecting_ramdisk_is_asked_for => built(World::at("inspecting", "manageable"), None);
    inspecting_ramdisk_not_taken_up_waits => built(World::at("inspecting", "manageable"), Some(json!({"status": null})));
    inspecting_ramdisk_being_built_waits => built(World::at("inspecting", "manageable"), Some(json!({"metadata": {"generation": 3}})));
    inspecting_ramdisk_of_another_architecture_waits => built(World::at("inspecting", "manageable"), Some(json!({"status": {"architecture": "aarch64"}})));
    inspecting_ramdisk_in_no_format_waits => built(World::at("inspecting", "manageable"), Some(json!({"status": {"format": null}})));
    inspecting_ramdisk_with_old_network_data_waits => with_network(built(World::at("inspecting", "manageable"),
        Some(json!({"spec": {"networkDataName": "net"}, "status": {"networkData": {"name": "net", "version": "2"}}}))), network_data("3", true));
    // OWN 31te: what else is in the Secret is the builder's, such as `nmstate`.
    inspecting_ramdisk_with_network_data_of_the_builders_own_is_given => with_network(built(World::at("inspecting", "manageable"),
        Some(with_network_data())), NetworkDataView::WithoutKey { version: "3".into() });
    inspecting_ramdisk_with_other_network_data_of_the_builders_own_waits => with_network(built(World::at("inspecting", "manageable"),
        Some(with_network_data())), NetworkDataView::WithoutKey { version: "4".into() });
    inspecting_ramdisk_with_network_data_that_ironic_cannot_read_is_given => with_network(built(World::at("inspecting", "manageable"),
        Some(with_network_data())), unusable_network_data());
    inspecting_ramdisk_failed_is_told => built(World::at("inspecting", "manageable"), Some(json!({"status": {"conditions": [
        {"type": "Error", "status": "True", "reason": "ImageBuildInvalid", "message": "no such base image", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}})));
    inspecting_ramdisk_failed_does_not_keep_new_credentials => with_secret(built(World::at("inspecting", "manageable"), Some(json!({"status": {"conditions": [
        {"type": "Error", "status": "True", "reason": "ImageBuildInvalid", "message": "no such base image", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}}))),
        SecretView::Found(secret("8", 2)), "8");
    inspecting_ramdisk_there_is_given_to_the_node => built(World::at("inspecting", "manageable"), Some(json!({})));
    inspecting_ramdisk_that_is_deleted_while_it_is_held_is_given => built(World::at("inspecting", "manageable"), Some(going_ramdisk()));
    // OWN 31sv: its deletion raises its generation, and nobody builds it anew.
    deleting_deprovision_ramdisk_that_goes_too_is_given => built(World::at("deprovisioning", "active").deleting(), Some(going_ramdisk()));
    deleting_deprovision_ramdisk_of_changed_network_data_is_given =>
        with_network(built(World::at("deprovisioning", "active").deleting(), Some(merged(with_network_data(), &going_ramdisk()))), network_data("4", true));
    deleting_deprovision_ramdisk_without_its_network_data_is_given =>
        with_network(built(World::at("deprovisioning", "active").deleting(), Some(with_network_data())), NetworkDataView::Missing);
    deprovisioning_ramdisk_without_its_network_data_waits =>
        with_network(built(World::at("deprovisioning", "active"), Some(with_network_data())), NetworkDataView::Missing);
    deleting_deprovision_ramdisk_that_was_never_built_is_not_waited_for =>
        built(World::at("deprovisioning", "active").deleting(), Some(merged(going_ramdisk(), &json!({"status": {"imageUrl": ""}}))));
    inspecting_ramdisk_that_is_deleted_and_not_held_waits => built(World::at("inspecting", "manageable"), Some(json!({"metadata":
        {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["somebody.example/else"]}})));
    inspecting_ramdisk_as_files_is_given_with_its_parameters => built(World::at("inspecting", "manageable"),
        Some(json!({"status": {"format": "initrd", "kernelUrl": "http://images/kernel", "extraKernelParams": "ip=dhcp"}})));
    inspecting_ramdisk_with_other_labels_is_asked_for_again => built(World::at("inspecting", "manageable"), Some(json!({}))).with_host(&json!({"metadata": {"labels": {"rack": "b"}}}));
    inspecting_fast_needs_no_ramdisk => built(World::at("inspecting", "manageable").with_spec(&json!({"inspectionMode": "fast"})), None);
    available_ramdisk_being_built_does_not_matter => built(World::at("available", "manageable"), Some(json!({"metadata": {"generation": 3}})));
    available_ramdisk_known_costs_nothing => { let mut w = built(World::at("available", "manageable"), Some(json!({}))); w.memory.ramdisk = Some(ramdisk_surroundings(&w.host, None)); w };
    // DEFECT 2: Upstream does not watch labels: the image keeps the old ones until something else moves the host.
    available_ramdisk_known_for_other_labels_is_asked_for_again => { let mut w = built(World::at("available", "manageable"), Some(json!({})));
        w.memory.ramdisk = Some(ramdisk_surroundings(&w.host, None)); w.with_host(&json!({"metadata": {"labels": {"rack": "b"}}})) };
    inspecting_ramdisk_known_for_other_network_data_waits => { let mut w = with_network(built(World::at("inspecting", "manageable"),
        Some(json!({"spec": {"networkDataName": "net"}, "status": {"networkData": {"name": "net", "version": "3"}}}))), network_data("4", true));
        w.memory.ramdisk = Some(ramdisk_surroundings(&w.host, Some("3"))); w };
    inspecting_ramdisk_without_network_data_is_told => with_network(built(World::at("inspecting", "manageable"),
        Some(json!({"spec": {"networkDataName": "net"}, "status": {"networkData": {"name": "net", "version": "3"}}}))), NetworkDataView::Missing);
    inspecting_network_data_of_the_builder_is_claimed => with_network(built(World::at("inspecting", "manageable"), None), network_data("3", false));
    available_network_data_unclaimed_is_noted_first => holding(with_network(World::at("available", "manageable"), network_data("3", false)), "bmc");
    available_network_data_claimed_for_another_host_is_noted => holding(with_network(World::at("available", "manageable"), network_data("3", true)), "bmc");
    new_with_network_data_notes_both_at_once => with_network(fresh(&json!({})), network_data("3", false)).with_host(&json!({"metadata": {"annotations": null}}));
    available_former_secrets_are_let_go => holding(World::at("available", "manageable"), "bmc,former,net");
    provisioned_former_secret_is_let_go => holding(provisioned(), "bmc,former");
    available_former_secret_waits_for_what_is_to_be_done =>
        holding(with_secret(World::at("available", "manageable"), SecretView::Found(secret("8", 2)), "8"), "bmc,former");
    available_former_secret_is_held_until_another_is_good => holding(bmc_refuses(claimed_only().with_spec(&json!({"bmc": {"credentialsName": "other"}}))), "bmc,other");
    available_former_secret_is_let_go_while_another_is_missing => holding(with_secret(World::at("available", "manageable"), SecretView::Missing, "7"), "bmc,former");
    inspecting_former_secret_is_let_go_meanwhile => holding(World::at("inspecting", "inspect wait"), "bmc,former");
    available_network_data_in_use_is_held => holding(with_known_network_data(World::at("available", "manageable")), "bmc,net");
    detached_former_secret_is_let_go => holding(is_detached(provisioned().annotated(DETACHED, "")), "bmc,former");
    moved_former_secret_is_held => holding(World::at("available", "manageable"), "bmc,former").annotated("baremetalhost.metal3.io/status", "{broken")
        .with_status(&json!({"lastUpdated": null}));
    deleting_former_secret_goes_with_the_others => { let mut w = holding(World::at("deleting", "active").deleting(), "bmc,former"); w.node = None; w };
    available_former_secret_refused_is_told => unreleased(World::at("available", "manageable"), "2026-01-02T11:59:30Z");
    available_former_secret_refused_is_tried_again => unreleased(World::at("available", "manageable"), "2026-01-02T11:59:00Z");
    available_former_secret_refused_is_told_beside_the_wait => unreleased(World::at("inspecting", "inspect wait"), "2026-01-02T11:59:30Z");
    available_former_secret_refused_begins_no_new_back_off =>
        unreleased(World::at("inspecting", "inspect failed").with_node(&json!({"last_error": "timeout"})).failed("inspection error", 1, JUST_NOW), "2026-01-02T11:59:30Z");
    available_former_secret_named_again_is_not_told => unreleased(
        with_known_network_data(World::at("available", "manageable")).with_spec(&json!({"preprovisioningNetworkDataName": "former"})), "2026-01-02T11:59:30Z");

    provisioned_network_data_is_claimed => with_network(provisioned(), network_data("3", false));
    deleting_network_data_is_not_claimed => with_network(World::at("deleting", "manageable").deleting(), network_data("3", false));
    provisioned_needs_no_ramdisk => built(provisioned(), None);
    deprovisioning_uncleaned_needs_no_ramdisk => built(World::at("deprovisioning", "active").with_spec(&json!({"automatedCleaningMode": "disabled"})), None);
    deleting_ramdisk_is_released => { let mut w = built(World::at("deleting", "active").deleting(), None); w.node = None; w };
    provisioned_in_rescue_is_told => provisioned_in("rescue");
    provisioned_cleaned_by_hand_is_told => provisioned_in("cleaning");
    provisioned_free_node_is_told => provisioned_in("available");
    available_deployed_by_hand_is_told => World::at("available", "active");
    deleting_power_unknown_is_switched_off => World::at("powering off before delete", "manageable").deleting().with_node(&json!({"power_state": null}));
    deleting_unverified_without_credentials_is_removed => with_secret(World::at("powering off before delete", "enroll").deleting(), SecretView::Missing, "7").enrolled();
    // OWN 2a: What Ironic does with the node has to end before its power: firmware may be half written.
    deleting_serviced_is_stopped_first => World::at("powering off before delete", "service wait").deleting();
    deleting_service_held_is_stopped_first => World::at("powering off before delete", "service hold").deleting();
    deleting_deployed_is_taken_back_first => World::at("powering off before delete", "wait call-back").deleting();
    deleting_deployment_held_is_stopped_first => World::at("powering off before delete", "deploy hold").deleting();
    deleting_rescued_is_stopped_first => World::at("powering off before delete", "rescue wait").deleting();
    deleting_stop_refused_early_is_held_back => World::at("powering off before delete", "service wait").deleting().failed("power management error", 1, JUST_NOW)
        .with_status(&json!({"conditions": [configured(JUST_NOW), {"type": "Waiting", "status": "True", "reason": "BackOff", "message": "waits",
            "observedGeneration": 4, "lastTransitionTime": JUST_NOW}]}));
    deleting_stop_refused_again_and_again_goes_on => World::at("powering off before delete", "service wait").deleting().failed("power management error", 4, LONG_AGO);
    deleting_in_a_new_state_that_leads_somewhere_waits => World::at("powering off before delete", "polishing").deleting().with_node(&json!({"target_provision_state": "active"}));
    deleting_held_by_hand_is_stopped_first => World::at("powering off before delete", "clean hold").deleting();
    deleting_in_rescue_is_removed => World::at("deleting", "rescue").deleting();
    deleting_unmanaged_needs_no_ironic => unmanaged_deleted();
    deleting_unmanaged_looks_where_it_can => { let mut w = unmanaged_deleted(); w.sight = Sight::Unlisted; w };

    reboot_soft_is_asked => provisioned().annotated(REBOOT, "");
    reboot_of_empty_object_is_soft => provisioned().annotated(REBOOT, "{}");
    reboot_hard_is_cut => provisioned().annotated(REBOOT, r#"{"mode":"hard"}"#);
    reboot_invalid_is_soft_and_told => provisioned().annotated(REBOOT, "please");
    reboot_soft_after_a_failure_is_cut => provisioned().annotated(REBOOT, "").failed("power management error", 1, LONG_AGO);
    reboot_soft_failed_is_recorded => asked(provisioned().annotated(REBOOT, "").with_node(&json!({"last_error": "timeout"})), false);
    reboot_one_hard_makes_all_hard => provisioned().annotated("reboot.metal3.io/a", "").annotated("reboot.metal3.io/b", r#"{"mode":"hard"}"#);
    reboot_seen_off_removes_our_annotation => provisioned().annotated(REBOOT, "").with_node(&json!({"power_state": "power off"}));
    reboot_half_seen_off_waits => provisioned().annotated(REBOOT, "").with_node(&json!({"power_state": "power off", "target_power_state": "power on"}));
    reboot_held_off_stays => provisioned().annotated("reboot.metal3.io/a", "").with_node(&json!({"power_state": "power off"}));
    reboot_held_and_ours_removes_ours_only => provisioned().annotated("reboot.metal3.io/a", "").annotated(REBOOT, "").with_node(&json!({"power_state": "power off"}));
    reboot_of_an_offline_host_is_over => provisioned().with_spec(&json!({"online": false})).annotated(REBOOT, "").with_node(&json!({"power_state": "power off"}));
    reboot_power_unknown_waits => provisioned().annotated(REBOOT, "").with_node(&json!({"power_state": null}));
    reboot_ironic_down_waits => { let mut w = provisioned().annotated(REBOOT, ""); w.sight = Sight::Unknown; w };
    reboot_of_available_needs_force => World::at("available", "manageable").annotated(REBOOT, "");
    reboot_of_available_that_is_off_is_over =>
        World::at("available", "manageable").with_node(&json!({"power_state": "power off"})).annotated(REBOOT, "");
    reboot_of_available_forced_is_asked => World::at("available", "manageable").annotated(REBOOT, FORCE);
    reboot_of_external_is_asked => World::at("externally provisioned", "active").with_spec(&json!({"externallyProvisioned": true})).annotated(REBOOT, "");
    reboot_provisioning_done_serves_it => wanting("provisioning", "active").with_node(&instance(IMAGE)).annotated(REBOOT, "");
    reboot_deprovisioning_done_serves_it => World::at("deprovisioning", "available").annotated(REBOOT, "");
    // D10 of upstream's: a restart of a host that is never switched off is told by an event without a reason.
    reboot_never_off_restarts_softly => never_off().annotated(REBOOT, "");
    reboot_never_off_restarts_hard => never_off().annotated("reboot.metal3.io/a", r#"{"mode":"hard"}"#);
    reboot_never_off_not_asked_yet_is_asked => rebooting(false, "2026-01-01T00:00:00+00:00");
    reboot_never_off_asked_before_is_done => rebooting(false, "2025-12-31T00:00:00+00:00");
    reboot_never_off_another_request_is_another_restart => rebooting(true, "").annotated("reboot.metal3.io/b", "");
    reboot_never_off_same_request_waits_for_its_owner => rebooting(true, "");
    reboot_never_off_failed_is_recorded => asked(rebooting(false, "2025-12-31T00:00:00+00:00").with_node(&json!({"last_error": "no power", "disable_power_off": true})), false);
    disc_wanted_is_recorded_and_attached => with_disc(&json!({}), false);
    disc_being_attached_is_waited_for => { let mut w = with_disc(&attached(DISC), false); w.memory.disc_request = Some(DiscRequest::Attach);
        w.node.as_mut().unwrap().reservation = Some("conductor-1".into()); w.sight = Sight::Live; w };
    disc_attached_lets_the_host_start => with_disc(&attached(DISC), true);
    disc_attached_after_failures_is_recorded => with_disc(&json!({"attachedImage": {"url": DISC}, "error": {"count": 2, "message": "no drive"}}), true);
    // OWN 31sw: whoever holds the host off may wait for its disc.
    disc_of_what_is_held_off_is_attached => with_disc(&json!({}), false).annotated("reboot.metal3.io/a", "");
    disc_of_what_is_held_off_is_detached => with_disc(&attached("http://images/e.iso"), true).annotated("reboot.metal3.io/a", "");
    disc_of_what_is_held_off_is_there => with_disc(&attached(DISC), true).annotated("reboot.metal3.io/a", "");
    disc_of_what_is_held_off_is_being_attached => { let mut w = with_disc(&attached(DISC), false).annotated("reboot.metal3.io/a", "");
        w.memory.disc_request = Some(DiscRequest::Attach); w.with_node(&json!({"reservation": "conductor"})) };
    disc_of_what_should_be_off_is_left => with_disc(&json!({}), false).with_spec(&json!({"online": false}));
    disc_lost_from_the_drive_is_attached_again => with_disc(&attached(DISC), false);
    disc_that_did_not_appear_is_told => { let mut w = with_disc(&attached(DISC), false).with_error("no such URL"); w.memory.disc_request = Some(DiscRequest::Attach); w };
    disc_of_before_is_detached_first => with_disc(&attached("http://images/e.iso"), true);
    disc_that_stays_in_the_drive_is_told => { let mut w = with_disc(&attached("http://images/e.iso"), true); w.memory.disc_request = Some(DiscRequest::Detach); w };
    // D20 of upstream's: any disc in the drive counts as the DataImage.
    // OWN 30fg: and any disc without a record was ejected, such as the one that a live ISO runs from.
    disc_that_nobody_remembers_is_left_and_told => with_disc(&json!({}), true);
    disc_that_nobody_remembers_is_left_where_none_is_wanted => { let mut w = with_disc(&json!({}), true); w.data_image.as_mut().unwrap().spec.url = String::new(); w };
    disc_of_a_live_iso_is_left_after_a_failure => { let mut w = with_disc(&json!({}), true).with_spec(&json!({"image": {"format": "live-iso"}})); w.memory.disc_request = Some(DiscRequest::Attach); w };
    disc_that_came_late_is_detached_first => { let mut w = with_disc(&json!({}), true); w.memory.disc_request = Some(DiscRequest::Attach); w };
    disc_failed_early_is_held_back => with_failed_disc(JUST_NOW);
    disc_failed_due_is_tried_again => with_failed_disc(LONG_AGO);
    disc_failed_and_corrected_is_tried_at_once => { let mut w = with_failed_disc(JUST_NOW); let image = w.data_image.as_mut().unwrap(); image.spec.url = "http://images/e.iso".into(); image.metadata.generation = Some(9); w };
    disc_failed_before_a_restart_is_tried_at_once => with_disc(&disc_failed(JUST_NOW), false);
    // OWN 31fa: a disc whose DataImage went while the host was detached stayed in the drive.
    disc_left_behind_is_detached_at_the_start => left_behind(provisioned().with_node(&merged(instance(IMAGE), &json!({"power_state": "power off"}))), true);
    disc_left_behind_and_out_is_forgotten => left_behind(provisioned().with_node(&merged(instance(IMAGE), &json!({"power_state": "power off"}))), false);
    disc_left_behind_in_a_running_host_waits_for_a_start => left_behind(provisioned(), true);
    disc_left_behind_is_detached_after_use => { let mut w = left_behind(after_use("deprovisioning", "available"), true); w.data_image = None; w };
    disc_left_behind_in_an_available_host_is_detached => { let mut w = left_behind(after_use("available", "available"), true); w.data_image = None; w };
    disc_left_behind_that_stays_is_noted => { let mut w = left_behind(after_use("deprovisioning", "available"), true); w.data_image = None; w.memory.disc_request = Some(DiscRequest::Detach); w };
    disc_left_behind_makes_way_for_the_next => left_behind(with_disc(&json!({}), true), true);
    disc_left_behind_is_taken_over_by_the_next => left_behind(with_disc(&json!({}), false), false);
    // OWN 31gc: the note counted as the record of the next DataImage, which had none.
    disc_left_behind_that_the_next_wants_is_recorded => { let mut w = left_behind(with_disc(&json!({}), true), true); w.data_image.as_mut().unwrap().spec.url = "http://images/left.iso".into(); w };
    // OWN 30da: the next user of a host found the disc of the last one in the drive.
    disc_of_a_deprovisioned_host_is_detached => after_use("deprovisioning", "available");
    disc_that_is_out_after_use_is_recorded => { let mut w = after_use("deprovisioning", "available"); w.disc = Ok(false); w };
    disc_left_in_an_available_host_is_detached => after_use("available", "available");
    disc_of_a_deleted_host_is_detached_before_it_is_removed => after_use("powering off before delete", "manageable").deleting().with_node(&json!({"power_state": "power off"}));
    disc_that_no_deletion_can_detach_stays => { let mut w = after_use("powering off before delete", "manageable").deleting().with_node(&json!({"power_state": "power off"})); w.data_image = Some(data_image(DISC, &json!({"attachedImage": {"url": DISC}, "error": {"count": 4, "message": "no drive"}}))); w };
    disc_that_does_not_leave_is_told_after_use => { let mut w = after_use("deprovisioning", "available"); w.memory.disc_request = Some(DiscRequest::Detach); w };
    disc_of_a_silent_bmc_is_told => { let mut w = with_disc(&json!({}), false); w.disc = Err("the BMC is silent".into()); w };
    disc_wanted_no_more_is_detached => { let mut w = with_disc(&attached(DISC), true); w.data_image.as_mut().unwrap().metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-02T00:00:00Z")).unwrap(); w };
    disc_gone_is_recorded => { let mut w = with_disc(&attached(DISC), false); w.data_image.as_mut().unwrap().metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-02T00:00:00Z")).unwrap(); w };
    disc_of_a_running_host_waits_for_a_start => { let mut w = with_disc(&json!({}), false); w.node.as_mut().unwrap().power_state = Some(metal3_ironic::PowerState::On); w };
    disc_of_an_available_host_does_not_matter => { let mut w = with_disc(&json!({}), false).with_status(&json!({"provisioning": {"state": "available"}})).with_spec(&json!({"image": null})); w.node = Some(node("manageable", &json!({"power_state": "power off"}))); w };
    // DEFECT 21: Upstream never changes the disc of a host that is never seen off.
    disc_of_what_is_never_off_is_attached_before_the_restart => { let mut w = never_off().annotated(REBOOT, ""); w.data_image = Some(data_image(DISC, &json!({}))); w };

    provisioning_failed_early_with_another_registry_secret_goes_back => failed_with_secret("4");
    provisioning_failed_early_with_the_same_registry_secret_is_held_back => failed_with_secret("5");
    deprovisioning_failed_early_with_another_registry_secret_is_held_back => failed_with_secret("4").with_status(&json!({"provisioning": {"state": "deprovisioning"}}));

    details_of_edited_data_are_followed => { let mut w = World::at("available", "manageable").with_spec(&json!({"inspectionMode": "disabled"}))
        .with_status(&json!({"hardware": hardware("old")})); w.hardware_data = Some(hardware("data")); w.hardware_data_edit = Some(2); w };
    details_of_data_seen_before_cost_nothing => { let mut w = World::at("available", "manageable").with_spec(&json!({"inspectionMode": "disabled"}))
        .with_status(&json!({"hardware": hardware("old")})); w.hardware_data = Some(hardware("data")); w.hardware_data_edit = Some(2); w.memory.hardware_data = Some(2); w };
    details_of_edited_data_of_an_inspected_host_do_not_count => { let mut w = World::at("available", "manageable")
        .with_status(&json!({"hardware": hardware("found")})); w.hardware_data = Some(hardware("data")); w.hardware_data_edit = Some(2); w };

    // OWN 31tg: upstream fills in what the status lacks in every state.
    details_of_data_are_taken_by_a_host_in_use => { let mut w = World::at("registering", "manageable").with_spec(&json!({"externallyProvisioned": true}));
        w.hardware_data = Some(hardware("data")); w.hardware_data_edit = Some(2); w };
    details_of_data_do_not_replace_those_of_a_host_in_use => { let mut w = World::at("externally provisioned", "active").with_spec(&json!({"externallyProvisioned": true}))
        .with_status(&json!({"hardware": hardware("found")})); w.hardware_data = Some(hardware("data")); w.hardware_data_edit = Some(2); w };

    reboot_never_off_owner_gone_is_forgotten => rebooting(true, "").with_host(&json!({"metadata": {"annotations": null}}));

    rest_ends_what_another_operator_called_delayed => provisioned().with_status(&json!({"operationalStatus": "delayed"}));
    rest_ends_what_another_operator_called_servicing => provisioned().with_status(&json!({"operationalStatus": "servicing"}));
    provisioning_in_another_boot_mode_configures_the_node => wanting("available", "manageable").with_spec(&json!({"bootMode": "legacy"}));
}

impl World {
    fn adopt_failed(mut self) -> Self {
        self.node = Some(node("adopt failed", &json!({"last_error": "no power"})));
        self
    }

    fn with_error(mut self, error: &str) -> Self {
        self.node.as_mut().unwrap().last_error = Some(error.into());
        self
    }

    fn switched_off(mut self) -> Self {
        self.node.as_mut().unwrap().power_state = Some(metal3_ironic::PowerState::Off);
        self
    }

    fn switched_on(mut self) -> Self {
        self.node.as_mut().unwrap().power_state = Some(metal3_ironic::PowerState::On);
        self
    }

    fn announced(self) -> Self {
        self.with_status(&json!({"operationalStatus": "servicing", "poweredOn": false}))
    }

    fn in_maintenance(mut self) -> Self {
        self.node.as_mut().unwrap().maintenance = true;
        self
    }

    /// Changes the node by the plan for a node at rest.
    fn obeyed(mut self, rest: &str) -> Self {
        let state = self.node.as_ref().unwrap().provision_state.clone();
        let mut resting = self.clone();
        resting.node.as_mut().unwrap().provision_state = metal3_ironic::ProvisionState::from(rest);
        let mut ironic = crate::model::Ironic::new(0);
        ironic.node.clone_from(&resting.node);
        for effect in resting.decide().plan.effects {
            ironic.apply(&effect);
        }
        self.node = ironic.node;
        self.node.as_mut().unwrap().provision_state = state;
        self
    }

    /// The node was told what is to be done.
    fn marked(self) -> Self {
        self.obeyed("manageable")
    }

    /// Other settings are wanted by now.
    fn edited_settings(mut self) -> Self {
        self.firmware.settings = Some(turbo("Auto", 4, 4));
        self
    }

    /// Ironic was told which volumes to create.
    fn told(self) -> Self {
        self.obeyed("manageable")
    }

    /// The node's state has changed and come back.
    fn over(mut self, error: Option<&str>) -> Self {
        let node = self.node.as_mut().unwrap();
        node.provision_updated_at = Some("99".into());
        node.last_error = error.map(str::to_owned);
        self
    }

    /// As [`World::edited`], once more.
    fn edited_again(self) -> Self {
        self.with_host(&json!({"metadata": {"generation": 5}}))
    }

    /// The status of a decision, stored.
    pub fn then(mut self) -> Self {
        let outcome = self.decide();
        assert!(outcome.plan.effects.is_empty(), "{}", show::full(&outcome));
        self.store(&outcome.plan);
        self
    }
}

/// A servicing that was corrected after its budget was overdue at once.
#[test]
fn a_corrected_servicing_has_a_budget_of_its_own() {
    let failed = |world: World| {
        let world = world.obeyed("active").over(Some("no space"));
        world.failed("servicing error", 1, LONG_AGO)
    };
    let usual = || failed(serving("service failed"));
    let never_off = || {
        failed(
            never_off()
                .with_turbo("On", 3)
                .on_reboot()
                .announced()
                .annotated(REBOOT, ""),
        )
    };
    let cases = vec![
        (usual(), true),
        (usual().edited_settings(), false),
        (never_off(), true),
        (never_off().edited_settings(), false),
    ];
    for (mut world, is_overdue) in cases {
        let overdue = json!({"type": "Overdue", "status": "True", "reason": "BudgetExceeded", "message": "long",
            "lastTransitionTime": LONG_AGO});
        let status = world.host.status.as_mut().unwrap();
        status.conditions.push(serde_json::from_value(overdue).unwrap());
        let plan = world.decide().plan;
        let is_mark = |effect: &Effect| matches!(effect, Effect::PatchNode { .. });
        assert!(plan.effects.iter().any(is_mark), "{:?}", plan.effects);
        let status = plan.status;
        let found = status.conditions.iter().find(|found| found.type_ == "Overdue");
        let is_told = found.is_some_and(|found| found.status.as_str() == "True");
        assert_eq!(is_told, is_overdue, "{found:?}");
    }
}

/// What Ironic says of an error after the power was reached is of something else, although this process asked for it once.
#[test]
fn a_power_request_that_was_served_is_forgotten() {
    // D12 of upstream's: any error of the node counts as one of the power.
    let learned = |mut world: World| {
        let outcome = world.decide();
        let mut seen = outcome.seen;
        outcome.plan.teach(&mut seen, world.now);
        world.memory = seen.memory;
        world
    };
    let off = json!({"power_state": "power off", "last_error": "the disc cannot be attached"});
    let fails = |world: &World| show::line(&world.decide()).contains("Power on failed");

    let waiting = learned(asked(
        provisioned().with_node(&merged(off.clone(), &json!({"target_power_state": "power on"}))),
        true,
    ));
    assert!(
        fails(&waiting.with_node(&merged(instance(IMAGE), &off))),
        "not reached yet"
    );

    let served = learned(asked(provisioned(), true)).with_node(&merged(instance(IMAGE), &off));
    assert!(!fails(&served), "reached, and then it went off by itself");
    assert!(show::line(&served.decide()).contains("ask for power on"));
}

const OTHER_ADDRESS: &str = "redfish-virtualmedia://192.0.2.7/redfish/v1/Systems/1";

/// However long the node could not be changed, the edit reaches it in the end.
#[test]
fn an_edit_outlives_locks_outages_and_work_in_progress() {
    let edited = || {
        provisioned()
            .edited()
            .with_spec(&json!({"bmc": {"disableCertificateVerification": true}}))
    };
    let is_sent = |world: &World| show::line(&world.decide()).contains("patch /driver_info");
    assert!(is_sent(&edited()));

    let mut locked = edited();
    locked.node.as_mut().unwrap().reservation = Some("conductor-1".into());
    locked.memory.locked_since = Some("2026-01-01T00:00:00Z".parse().unwrap());
    let mut unlocked = locked.then();
    unlocked.node.as_mut().unwrap().reservation = None;
    assert!(is_sent(&unlocked), "after a lock");

    let mut down = edited();
    down.sight = Sight::Unknown;
    let mut up = down.then();
    up.sight = Sight::Listed;
    assert!(is_sent(&up), "after an outage");

    let mut busy = edited();
    busy.node.as_mut().unwrap().provision_state = metal3_ironic::ProvisionState::Adopting;
    let mut done = busy.then();
    done.node.as_mut().unwrap().provision_state = metal3_ironic::ProvisionState::Active;
    assert!(is_sent(&done), "after work in progress");
}

/// What belonged to the former address goes with it.
#[test]
fn a_new_address_leaves_nothing_of_the_old_one() {
    // D17 of upstream's: of the way to the BMC only another address is noticed.
    let former = json!({"driver_info": {"redfish_verify_ca": false, "external_http_url": "http://[2001:db8::1]:6180",
        "redfish_auth_type": "basic", "somebodys": "own"}});
    let world = World::at("available", "manageable").with_node(&former).edited();
    let outcome = world
        .with_spec(&json!({"bmc": {"address": "redfish-virtualmedia://192.0.2.7"}}))
        .enrolled()
        .decide();
    let sent = outcome.plan.effects.iter().find_map(|effect| match effect {
        Effect::PatchNode { ops, .. } => ops.iter().find(|op| op.path == "/driver_info")?.value.clone(),
        _ => None,
    });
    let sent = sent.unwrap();
    let keys: Vec<_> = sent.as_object().unwrap().keys().collect();
    assert_eq!(
        keys,
        ["redfish_address", "redfish_password", "redfish_username", "somebodys"]
    );
}

/// A failure is recorded once; its back-off ends at one point in time, whatever is seen meanwhile.
#[test]
fn a_back_off_is_not_prolonged_by_looks() {
    let mut world = World::at("inspecting", "inspect failed").with_node(&json!({"last_error": "no ramdisk"}));
    let first = world.decide();
    assert_eq!(first.plan.status.error_count, 1);
    world = world.then();
    let recorded = world.now;
    let due = recorded + jiff::SignedDuration::from_secs(121);
    let mut flip = false;
    while world.now < due - jiff::SignedDuration::from_secs(70) {
        world.now += jiff::SignedDuration::from_millis(3700);
        flip = !flip;
        world.node.as_mut().unwrap().reservation = flip.then(|| "conductor-1".to_owned());
        world.sight = if flip { Sight::Listed } else { Sight::Unknown };
        world = world.then();
        assert_eq!(world.host.status.as_ref().unwrap().error_count, 1);
    }
    world.node.as_mut().unwrap().reservation = None;
    world.sight = Sight::Listed;
    world.now = due;
    assert!(
        show::line(&world.decide()).contains("ask for inspect"),
        "{}",
        show::full(&world.decide())
    );
    assert_eq!(world.node.unwrap().uuid, NODE);
}

/// Its time counts from when the host was first told of it, whatever is told beside it.
#[test]
fn a_place_in_the_queue_outlives_edits_outages_and_locks() {
    let waiting = |world: &World| {
        let status = world.host.status.clone().unwrap();
        let waiting = status.conditions.into_iter().find(|c| c.type_ == "Waiting").unwrap();
        let is_delayed = status.operational_status == OperationalStatus::Delayed;
        (waiting.reason, waiting.last_transition_time, is_delayed)
    };
    let mut world = queued(wanting("available", "manageable")).then();
    let told = waiting(&world);
    assert_eq!((told.0.as_str(), told.2), ("Queued", true));
    for generation in 4..10 {
        world = world.with_host(&json!({"metadata": {"generation": generation}}));
        world.now += jiff::SignedDuration::from_secs(20);
        world = if generation % 2 == 0 {
            world.sight = Sight::ListedThenDown;
            world
        } else {
            world.sight = Sight::Listed;
            locked_for_long(world)
        };
        world = world.then();
        assert_eq!(waiting(&world), told, "generation {generation}");
    }
    world.sight = Sight::Listed;
    world.node.as_mut().unwrap().reservation = None;
    world = world.with_spec(&json!({"image": null})).then();
    assert_eq!((waiting(&world).0.as_str(), waiting(&world).2), ("NotWaiting", false));
}

/// Failures count for one way to deploy one image. An edit of either begins anew, also below the limit.
#[rstest]
#[case(&json!({"customDeploy": {"method": "install"}}), 4)]
#[case(&json!({"customDeploy": {"method": "replace"}}), 0)]
#[case(&json!({"customDeploy": null}), 0)]
#[case(&json!({"image": {"checksum": "bbbb"}}), 0)]
fn failures_are_counted_for_what_was_attempted(#[case] edit: &serde_json::Value, #[case] failures: i32) {
    // DEFECT 8 of upstream's: the retry limit does not hold for custom deploys.
    let mut world = described("install", Some(IMAGE), "available");
    world.store(&world.decide().plan);
    let mut world = world
        .with_status(&json!({"provisioningFailCount": 4, "provisioning": {"state": "available"}}))
        .with_spec(edit)
        .edited();
    world.node = Some(node("manageable", &json!({})));
    let plan = world.decide().plan;
    assert_eq!(plan.status.provisioning.state.as_str(), "provisioning");
    assert_eq!(plan.status.provisioning_fail_count, failures);
}

// OWN 31va: a disc that a BMC inserted after the look that followed the request counted as somebody else's: its host never started,
// and the disc stayed in the drive when its DataImage went.
#[test]
fn a_disc_that_comes_late_is_still_ours() {
    let mut world = with_disc(&attached(DISC), false);
    world.memory.disc_request = Some(DiscRequest::Attach);
    let recorded = |world: &World| {
        let effects = world.decide().plan.effects;
        effects.into_iter().find_map(|effect| match effect {
            Effect::RecordDataImage(record) => Some(record.status),
            _ => None,
        })
    };
    let status = recorded(&world).unwrap();
    assert_eq!((status.error.count, &*status.attached_image.url), (1, DISC));
    let mut later = with_disc(&serde_json::to_value(&status).unwrap(), true);
    let status = recorded(&later).unwrap();
    assert_eq!((status.error.count, &*status.attached_image.url), (0, DISC));
    // Another one is wanted by now.
    later.data_image.as_mut().unwrap().spec.url = "http://images/e.iso".into();
    let effects = later.decide().plan.effects;
    assert!(matches!(&effects[..], [Effect::DetachDisc { .. }]), "{effects:?}");
}

/// `errorCount` says how many errors a host has met since its last success: each refusal is one, a further look at it none.
#[test]
fn a_refusal_is_counted_once_however_often_it_is_looked_at() {
    // DEFECT 4 of upstream's: a missing Secret costs a write, an event and a count every ten seconds.
    let world = World::at("available", "manageable").failed("registration error", 2, JUST_NOW);
    let mut world = with_secret(world, SecretView::Missing, "7").edited();
    let count = |world: &World| world.host.status.as_ref().unwrap().error_count;
    world = world.then();
    assert_eq!(count(&world), 3);
    for _ in 0..3 {
        world.now += jiff::SignedDuration::from_mins(40);
        world = world.then();
        assert_eq!(count(&world), 3);
    }
    world = with_secret(world, invalid("key password is empty", true), "8").then();
    assert_eq!(count(&world), 4, "another error");
    world = with_secret(world, SecretView::Found(secret("9", 1)), "9").then();
    assert_eq!(count(&world), 0, "a success");
}

/// Its runbook speaks of what Ironic refuses of a host's description; those of other errors lead elsewhere.
#[rstest]
#[case("registering", "enroll")]
#[case("inspecting", "manageable")]
#[case("available", "manageable")]
#[case("provisioned", "active")]
fn a_refused_port_to_boot_from_is_an_error_of_the_registration(#[case] state: &str, #[case] node_state: &str) {
    let mut world = World::at(state, node_state).edited();
    world.ports = Vec::new();
    let plan = world.decide().plan;
    let asks = plan
        .effects
        .iter()
        .any(|effect| matches!(effect, Effect::CreatePort { is_needed: true, .. }));
    assert!(asks, "{:?}", plan.effects);
    assert_eq!(plan.refusal, ErrorType::Registration);
}

/// Only an inspection takes ports back, so that only an inspection can tell that it is not refused any more.
#[test]
fn a_refused_removal_stays_told_until_an_inspection() {
    let told = |world: World| {
        let conditions = world.decide().plan.status.conditions;
        let told = conditions.into_iter().find(|c| c.type_ == "PortsComplete");
        told.map(|c| (c.reason, c.message))
    };
    let later = || with_ports(World::at("available", "manageable").edited(), &nics());
    let (reason, message) = told(told_of_refusal(later())).unwrap();
    assert_eq!(reason, "ChangeRefused");
    let kept = format!("{GONE} (cannot delete port: a VIF is attached)");
    assert!(message.ends_with(&kept), "{message}");
    // Another refusal comes and goes.
    let second = "52:54:00:00:00:09";
    let mut both = told_of_refusal(later());
    both.ports.retain(|mac| mac != second);
    both.memory.refused_ports = refused("create port", second, "2026-01-02T11:59:00Z");
    let of_both = both.decide().plan;
    let words = told(both.clone()).unwrap().1;
    let expected = format!("{second} (cannot create port: a VIF is attached), {kept}");
    assert!(words.ends_with(&expected), "{words}");
    assert_eq!(of_both.events.len(), 1, "{:?}", of_both.events);
    let mut mended = both.then().edited_again();
    mended.memory.refused_ports.clear();
    mended.ports.push(second.to_owned());
    assert_eq!(told(mended.clone()), Some((reason, message)));
    assert!(mended.decide().plan.events.is_empty());
    // Where the BMC is asked, nobody takes the port back.
    let through_bmc = inspected(&nics()).with_node(&json!({"inspect_interface": "redfish"}));
    assert_eq!(
        told(told_of_refusal(
            through_bmc.with_spec(&json!({"inspectionMode": "fast"}))
        )),
        None
    );
    let without_it = |mut world: World| {
        world.ports.retain(|mac| mac != GONE);
        world
    };
    assert_eq!(
        told(without_it(told_of_refusal(later()))),
        None,
        "somebody has removed it"
    );

    let mut again = told_of_refusal(inspected(&nics()));
    assert_eq!(told(without_it(again.clone())), None);
    again.memory.refused_ports = refused("delete port", GONE, "2026-01-02T11:59:00Z");
    let (reason, message) = told(again).unwrap();
    assert_eq!(reason, "ChangeRefused");
    for mut gone in [provisioned(), provisioned().annotated(DETACHED, "")] {
        (gone.node, gone.sight) = (None, Sight::Live);
        assert_eq!(told(told_of_refusal(gone)), None, "no node, no ports");
    }
    assert!(
        message.contains(&format!("{GONE} (cannot delete port: a VIF is attached)")),
        "{message}"
    );
}

/// Upstream's conditions are of the generation that was looked at; whether the node has it already is told by another.
#[test]
fn an_edit_that_waits_for_the_node_is_told() {
    let generations = |world: &World| {
        let status = world.decide().plan.status;
        ["Configured", "Manageable"].map(|type_| {
            let condition = status.conditions.iter().find(|c| c.type_ == type_).unwrap();
            (condition.status.to_string(), condition.observed_generation.unwrap())
        })
    };
    let busy = wanting("provisioning", "cleaning").edited();
    assert_eq!(generations(&busy), [("False".into(), 3), ("True".into(), 4)]);
    let idle = provisioned().edited();
    assert_eq!(generations(&idle), [("True".into(), 4), ("True".into(), 4)]);
}

/// While a BMC is asked, no config drive takes memory: see OWN 31wk.
#[test]
fn a_config_drive_is_read_after_all_that_waits_for_a_bmc() {
    let mut world = wanting("provisioning", "available").with_node(&instance(IMAGE));
    let reads = world.decide().reads;
    assert_eq!(reads[reads.len() - 2..], [Read::Validation, Read::ConfigDrive]);
    world.problems = vec!["deploy: no kernel".into()];
    assert!(!world.decide().reads.contains(&Read::ConfigDrive));
}

/// A host at rest asks for nothing, whether Ironic is there or not.
#[test]
fn a_settled_host_needs_no_look() {
    let worlds: [fn() -> World; 3] = [
        provisioned,
        || World::at("available", "manageable"),
        || World::at("available", "available"),
    ];
    for world in worlds {
        let mut world = world();
        for sight in [Sight::Listed, Sight::ListedThenDown, Sight::Unknown] {
            world.sight = sight;
            world = world.then();
            let outcome = world.decide();
            assert_eq!(
                (show::line(&outcome).as_str(), outcome.plan.events.len()),
                ("settled", 0),
                "{sight:?}"
            );
            assert!(world.is_stored(&outcome.plan), "{sight:?}");
        }
    }
}

table! {
    queued_available_stays_available => queued(wanting("available", "manageable"));
    queued_before_all_hosts_are_listed_says_so => { let mut w = queued(wanting("available", "manageable")); w.slot = Slot::Unsorted; w };
    queued_before_inspection_stays_registering => queued(World::at("registering", "manageable"));
    queued_inspection_begins_nothing => queued(World::at("inspecting", "manageable"))
        .annotated("inspect.metal3.io", "").annotated(REBOOT, "");
    queued_cleaned_waits_with_the_deployment => queued(wanting("provisioning", "available").with_node(&instance(IMAGE)));
    queued_retry_keeps_its_error =>
        queued(World::at("inspecting", "inspect failed").failed("inspection error", 2, LONG_AGO));
    queued_error_is_recorded_at_once =>
        queued(World::at("inspecting", "inspect failed").with_node(&json!({"last_error": "no ramdisk"})));
    // DEFECT 5 of upstream's: a host that waits for capacity can be neither deleted nor detached.
    queued_deletion_does_not_wait =>
        queued(provisioned().with_status(&json!({"provisioning": {"state": "deprovisioning"}})).deleting());
    queued_delayed_deletion_waits_like_any_deployment =>
        queued(wanting("provisioning", "available").with_node(&instance(IMAGE)).deleting().annotated(DETACHED, DELAY));
    queued_no_more_is_not_delayed =>
        queued(World::at("available", "manageable")).with_status(&json!({"operationalStatus": "delayed"}));
    queued_working_node_is_waited_for => queued(wanting("provisioning", "cleaning"));
    queued_available_keeps_its_place_without_ironic => cut_off(queued(wanting("available", "manageable")));
    queued_deprovisioning_keeps_its_place_without_ironic => cut_off(queued(provisioned().with_spec(&json!({"image": null}))));
    queued_edited_keeps_its_place_without_ironic => cut_off(queued(wanting("available", "manageable"))).edited();
    queued_edited_keeps_its_place_while_locked => locked_for_long(queued(wanting("available", "manageable")).then().edited());
    queued_virtual_media_needs_no_slot => {
        let mut world = wanting("available", "manageable");
        world.slot = Slot::Queued(Place { number: 3, limit: 2, reserved: 0 });
        world
    };
}
