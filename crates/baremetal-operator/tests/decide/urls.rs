//! URLs that users name: which are refused, and where their secrets are not shown.

use baremetal_operator::host::plan::Effect;
use metal3_api::metal3::{ErrorType, HostFirmwareComponents};
use rstest::rstest;
use serde_json::json;

use crate::show;
use crate::world::{IMAGE, Outcome, SUM, World, data_image, instance, live, ramdisk};

/// An address that answers with a cloud's credentials.
const METADATA: &str = "http://u:canary@169.254.169.254/a?sig=canary";
/// What users have today: Ironic logs in with it.
const SECRET: &str = "http://u:canary@images/a.iso?sig=canary";

fn wanting(url: &str, checksum: &str) -> World {
    World::at("available", "manageable").with_spec(&json!({"image": {"url": url, "checksum": checksum}}))
}

fn deploying(url: &str, checksum: &str) -> World {
    World::at("provisioning", "available").with_spec(&json!({"image": {"url": url, "checksum": checksum}}))
}

fn provisioned(url: &str) -> World {
    let image = json!({"url": url, "checksum": SUM});
    World::at("provisioned", "active")
        .with_spec(&json!({"image": image}))
        .with_status(&json!({"provisioning": {"image": image}}))
        .with_node(&instance(url))
}

fn with_disc(url: &str, status: &serde_json::Value, is_inserted: bool) -> World {
    let mut world = provisioned(IMAGE).with_node(&json!({"power_state": "power off"}));
    world.data_image = Some(data_image(url, status));
    world.disc = Ok(is_inserted);
    world
}

fn with_firmware(world: World, url: &str) -> World {
    let mut world = world.with_bios_update(None);
    let mut object: HostFirmwareComponents = world.firmware.updates.take().unwrap();
    object.spec.updates[0].url = url.into();
    world.firmware.updates = Some(object);
    world
}

fn serving(url: &str) -> World {
    let off = json!({"power_state": "power off"});
    with_firmware(provisioned(IMAGE).with_node(&off), url)
        .with_status(&json!({"operationalStatus": "servicing"}))
        .on_reboot()
}

fn built(change: &serde_json::Value) -> World {
    let mut world = World::at("inspecting", "manageable");
    world.settings.builds_ramdisks = true;
    world.ramdisk = Some(ramdisk(change));
    world
}

/// The address of a BMC.
fn at_bmc(world: World, ip: &str) -> World {
    let address = world.host.spec.bmc.address.replace("192.0.2.1", ip);
    world.with_spec(&json!({"bmc": {"address": address}})).edited()
}

fn without_node() -> World {
    let mut world = World::at("registering", "enroll");
    world.node = None;
    world
}

/// Whether anything is asked of Ironic.
fn asks_ironic(outcome: &Outcome) -> bool {
    let is_ours = |effect: &Effect| matches!(effect, Effect::RecordDataImage(_) | Effect::NoteDisc(_));
    !outcome.plan.effects.iter().all(is_ours)
}

/// All that leaves the operator for people: events, the error, the wait, conditions, and what a log would show.
fn shown(outcome: &Outcome) -> String {
    let status = &outcome.plan.status;
    let effects = outcome
        .plan
        .effects
        .iter()
        .filter(|effect| !matches!(effect, Effect::RecordDataImage(_) | Effect::NoteDisc(_)));
    let mut discs = outcome.plan.effects.iter().filter_map(|effect| match effect {
        Effect::RecordDataImage(record) | Effect::NoteDisc(record) => Some(record.status.error.message.clone()),
        _ => None,
    });
    format!(
        "{:?} {:?} {} {:?} {:?} {:?}",
        outcome.plan.events,
        outcome.plan.then,
        status.error_message,
        status.conditions,
        effects.collect::<Vec<_>>(),
        discs.next()
    )
}

// OWN 21a: any address and, but for images, any scheme was handed to Ironic.
// OWN 21e: so were kernel parameters of several lines.
#[rstest]
#[case::image("spec.image.url: address ", wanting(METADATA, SUM), ErrorType::Provisioning)]
#[case::image_of_a_deployment("spec.image.url: address ", deploying(METADATA, SUM), ErrorType::Provisioning)]
#[case::scheme(
    "spec.image.url: scheme ",
    wanting("nfs://u:canary@h/a", SUM),
    ErrorType::Provisioning
)]
#[case::line(
    "spec.image.url: it has a control",
    wanting("http://u:canary@h/a\n", SUM),
    ErrorType::Provisioning
)]
#[case::checksum("spec.image.checksum: address ", wanting(IMAGE, METADATA), ErrorType::Provisioning)]
#[case::checksum_file(
    "spec.image.checksum: scheme ",
    wanting(IMAGE, "file:///canary"),
    ErrorType::Provisioning
)]
#[case::checksum_lines("spec.image.checksum: it has", wanting(IMAGE, "canary\nb"), ErrorType::Provisioning)]
#[case::firmware(
    "HostFirmwareComponents: spec.updates[].url: address ",
    with_firmware(World::at("preparing", "manageable"), METADATA),
    ErrorType::Preparation
)]
#[case::firmware_of_a_service(
    "HostFirmwareComponents: spec.updates[].url: address ",
    serving(METADATA),
    ErrorType::Servicing
)]
#[case::kernel_parameters(
    "The ramdisk for this host cannot be built: its PreprovisioningImage cannot be used: status.extraKernelParams: it has",
    built(&json!({"status": {"format": "initrd", "kernelUrl": "http://images/k", "extraKernelParams": "a=1\nkernel canary"}})),
    ErrorType::Registration
)]
#[case::ramdisk(
    "The ramdisk for this host cannot be built: its PreprovisioningImage cannot be used: status.imageUrl: it has",
    built(&json!({"status": {"imageUrl": "http://images/a\ncanary"}})),
    ErrorType::Registration
)]
// OWN 29f: whoever may write the status of a PreprovisioningImage had Ironic read a file of its own, or a cloud's metadata.
#[case::ramdisk_of_the_metadata(
    "The ramdisk for this host cannot be built: its PreprovisioningImage cannot be used: status.imageUrl: address ",
    built(&json!({"status": {"imageUrl": METADATA}})),
    ErrorType::Registration
)]
#[case::kernel_from_a_file(
    "The ramdisk for this host cannot be built: its PreprovisioningImage cannot be used: status.kernelUrl: scheme ",
    built(&json!({"status": {"format": "initrd", "kernelUrl": "file:///etc/ironic/canary"}})),
    ErrorType::Registration
)]
// Ironic was given a BMC at any address.
#[case::bmc(
    "spec.bmc.address: 169.254.169.254 is in a range",
    at_bmc(without_node(), "169.254.169.254"),
    ErrorType::Registration
)]
#[case::bmc_in_other_words(
    "spec.bmc.address: 169.254.169.254 is in a range",
    at_bmc(without_node(), "0xa9fea9fe"),
    ErrorType::Registration
)]
#[case::bmc_of_a_node(
    "spec.bmc.address: 169.254.169.254 is in a range",
    at_bmc(World::at("available", "manageable"), "169.254.169.254"),
    ErrorType::Registration
)]
fn what_is_refused_is_told_with_its_field_and_nothing_is_asked_of_ironic(
    #[case] words: &str,
    #[case] world: World,
    #[case] kind: ErrorType,
) {
    let outcome = world.decide();
    let status = &outcome.plan.status;
    assert_eq!(status.error_type, Some(kind), "{}", show::full(&outcome));
    assert!(status.error_message.starts_with(words), "{}", status.error_message);
    assert!(!asks_ironic(&outcome), "{}", show::full(&outcome));
    assert!(!shown(&outcome).contains("canary"), "{}", shown(&outcome));
}

/// What a host said of a disc when it attached that.
fn seen_in_drive(url: &str) -> serde_json::Value {
    json!({"attachedImage": {"url": url}, "conditions": [{"type": "Attached", "status": "True", "reason": "Inserted", "message": "",
        "observedGeneration": 1, "lastTransitionTime": "2026-01-01T00:00:00Z"}]})
}

// OWN 21b: of a DataImage as well.
#[test]
fn a_disc_that_is_refused_is_told_and_not_attached() {
    let outcome = with_disc(METADATA, &json!({}), false).decide();
    assert!(!asks_ironic(&outcome), "{}", show::full(&outcome));
    let shown = shown(&outcome);
    assert!(
        shown.contains("spec.url: address 169.254.169.254 is in a range"),
        "{shown}"
    );
    assert!(!shown.contains("canary"), "{shown}");
}

// OWN 29o: Ironic was given a BMC at any address. A server that has it keeps it.
/// What runs was accepted once. Refusing its URL now must cost nobody a server.
#[rstest]
#[case::image(provisioned(METADATA))]
#[case::file(provisioned("file:///srv/a.img"))]
#[case::bmc(at_bmc(provisioned(IMAGE), "169.254.0.9").with_node(&json!({"driver_info": {"redfish_address": "https://169.254.0.9"}})))]
#[case::disc(with_disc(METADATA, &seen_in_drive(METADATA), true))]
fn a_host_that_runs_keeps_what_is_refused_now(#[case] mut world: World) {
    for _ in 0..3 {
        let outcome = world.decide();
        let (plan, shown) = (&outcome.plan, show::full(&outcome));
        assert_eq!(plan.status.provisioning.state.as_str(), "provisioned", "{shown}");
        assert_eq!(plan.status.error_type, None, "{shown}");
        let is_power = |effect: &Effect| matches!(effect, Effect::Power { .. });
        assert!(plan.effects.iter().all(is_power), "{shown}");
        world.store(&outcome.plan);
    }
}

#[test]
fn correcting_a_refused_image_heals_the_host() {
    let mut world = wanting(METADATA, SUM);
    let refused = world.decide();
    world.store(&refused.plan);
    let healed = world.with_spec(&json!({"image": {"url": IMAGE}})).edited().decide();
    assert_eq!(healed.plan.status.error_type, None, "{}", show::full(&healed));
    assert_eq!(healed.plan.status.provisioning.state.as_str(), "provisioning");
}

// OWN 21c: events, conditions and the log had the passwords of URLs.
/// User info and signatures reach Ironic; nobody else reads them.
#[rstest]
#[case::image(wanting(SECRET, SUM))]
#[case::described(deploying(SECRET, SUM))]
#[case::begun(deploying(SECRET, SUM).with_node(&instance(SECRET)))]
#[case::deployed(World::at("provisioning", "active").with_spec(&json!({"image": {"url": SECRET, "checksum": SUM}})).with_node(&instance(SECRET)))]
#[case::live_iso(
    World::at("provisioning", "active")
        .with_spec(&json!({"image": {"url": SECRET, "format": "live-iso"}}))
        .with_node(&live(SECRET))
)]
#[case::given_up(
    wanting(SECRET, SUM)
        .with_status(&json!({"provisioningFailCount": 5, "lastAttemptedImage": {"url": SECRET, "checksum": SUM}}))
)]
#[case::failed(
    World::at("provisioning", "deploy failed")
        .with_spec(&json!({"image": {"url": SECRET, "checksum": SUM}}))
        .with_node(&instance(SECRET))
        .with_node(&json!({"last_error": format!("cannot get {SECRET}\nGET /a?sig=canary")}))
)]
#[case::checksum(deploying(IMAGE, SECRET))]
#[case::disc(with_disc(SECRET, &json!({}), false))]
#[case::disc_refused_by_the_bmc({
    let mut world = with_disc(SECRET, &json!({}), false);
    world.disc = Err(format!("no {SECRET}"));
    world
})]
#[case::firmware(with_firmware(World::at("preparing", "manageable"), SECRET))]
#[case::firmware_of_a_service(serving(SECRET))]
#[case::registry({
    let mut world = deploying("oci://u:canary@registry/a", "").with_spec(&json!({"image": {"ociAuthSecretName": "pull"}}));
    world.pull_secret = Ok("user:secret-of-registry".into());
    world
})]
#[case::address(World::at("registering", "enroll").with_spec(&json!({"bmc": {"address": "redfish://u:canary@host:port/"}})))]
#[case::refused({
    let mut world = World::at("registering", "enroll");
    world.bmc_refuses = Some(format!("redirected to {SECRET}"));
    world
})]
fn secrets_in_urls_are_shown_nowhere(#[case] mut world: World) {
    for _ in 0..4 {
        let outcome = world.decide();
        assert!(!shown(&outcome).contains("canary"), "{}", shown(&outcome));
        world.store(&outcome.plan);
    }
}
