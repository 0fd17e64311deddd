//! Settings of the operator that are not those with which a host was registered.

use baremetal_operator::host::plan::Effect;
use metal3_ironic::{PatchOp, PowerState, Verb};
use rstest::rstest;
use serde_json::json;

use crate::table::LONG_AGO;
use crate::world::{IMAGE, World, image, instance};

const ISO: &str = "http://images/ipa-2.iso";
const OWN_URL: &str = "http://[2001:db8::1]:6180";

fn wanting(node_state: &str) -> World {
    World::at("provisioning", node_state)
        .with_spec(&json!({"image": image(IMAGE)}))
        .with_node(&instance(IMAGE))
}

fn preparing() -> World {
    let mut world =
        World::at("preparing", "manageable").with_spec(&json!({"raid": {"softwareRAIDVolumes": [{"level": "1"}]}}));
    // Told what is coming, and what to create.
    for _ in 0..2 {
        let outcome = world.decide();
        for effect in outcome.plan.effects {
            carry_out(&mut world, &effect);
        }
    }
    world
}

fn serving() -> World {
    let status = json!({"operationalStatus": "servicing", "poweredOn": false, "provisioning": {"image": image(IMAGE)}});
    let mut world = World::at("provisioned", "active")
        .with_spec(&json!({"image": image(IMAGE)}))
        .with_status(&status)
        .with_node(&instance(IMAGE))
        .with_turbo("On", 3)
        .on_reboot();
    world.node.as_mut().unwrap().power_state = Some(PowerState::Off);
    let outcome = world.decide();
    for effect in outcome.plan.effects {
        carry_out(&mut world, &effect);
    }
    world
}

fn carry_out(world: &mut World, effect: &Effect) {
    let detail = world.node.as_mut().unwrap().detail.as_mut().unwrap();
    match effect {
        Effect::PatchNode { ops, .. } => {
            for PatchOp { path, value, .. } in ops {
                let (section, key) = path[1..].split_once('/').unwrap_or(("", &path[1..]));
                match (section, key) {
                    ("extra", key) => drop(detail.extra.insert(key.to_owned(), value.clone().unwrap())),
                    ("driver_info", key) => drop(detail.driver_info.insert(key.to_owned(), value.clone().unwrap())),
                    ("", "raid_interface") => detail.raid_interface = Some("agent".to_owned()),
                    _ => panic!("{path} is not known here"),
                }
            }
        }
        Effect::SetTargetRaid { logical_disks, .. } => {
            let config = &mut detail.target_raid_config;
            config.insert("logical_disks".to_owned(), json!(logical_disks));
        }
        Effect::ConfirmHost { .. } => {}
        other => panic!("{other:?} is not known here"),
    }
}

fn patch_of(world: &World) -> Option<Vec<PatchOp>> {
    let effects = world.decide().plan.effects;
    effects.into_iter().find_map(|effect| match effect {
        Effect::PatchNode { ops, .. } => Some(ops),
        _ => None,
    })
}

fn asks_for(world: &World) -> Option<Verb> {
    let effects = world.decide().plan.effects;
    effects.into_iter().find_map(|effect| match effect {
        Effect::Provision { request, .. } => Some(request.target),
        _ => None,
    })
}

/// Whatever starts a ramdisk starts the one that the settings of now name, and asks for nothing more where the node has it.
#[rstest]
#[case::inspection(World::at("inspecting", "manageable"), Verb::Inspect)]
#[case::inspection_again(
    World::at("inspecting", "inspect failed").failed("inspection error", 1, LONG_AGO),
    Verb::Inspect
)]
#[case::preparing(preparing(), Verb::Clean)]
#[case::cleaning_before_a_deployment(wanting("manageable"), Verb::Provide)]
#[case::tear_down(World::at("deprovisioning", "active"), Verb::Deleted)]
#[case::tear_down_of_a_failed_deployment(World::at("deprovisioning", "deploy failed"), Verb::Deleted)]
#[case::tear_down_again(
    World::at("deprovisioning", "error").failed("provisioning error", 1, LONG_AGO),
    Verb::Deleted
)]
#[case::cleaning_of_a_deleted_host(World::at("deprovisioning", "manageable").deleting(), Verb::Provide)]
#[case::service(serving(), Verb::Service)]
fn the_ramdisk_is_that_of_the_settings_of_now(#[case] mut world: World, #[case] verb: Verb) {
    assert_eq!(asks_for(&world), Some(verb), "{world:?}");
    world.settings.deploy_images.iso = Some(ISO.to_owned());
    assert_eq!(
        patch_of(&world),
        Some(vec![PatchOp::add("/driver_info/deploy_iso", ISO)])
    );
    assert_eq!(asks_for(&world), None, "one change at a time");
    for effect in world.decide().plan.effects {
        carry_out(&mut world, &effect);
    }
    assert_eq!((patch_of(&world), asks_for(&world)), (None, Some(verb)));
}

/// So does a deployment, which describes its image after that.
#[test]
fn a_deployment_follows_the_settings_of_now() {
    let mut world = wanting("available");
    assert_eq!(asks_for(&world), Some(Verb::Active));
    world.settings.deploy_images.iso = Some(ISO.to_owned());
    assert_eq!(
        patch_of(&world),
        Some(vec![PatchOp::add("/driver_info/deploy_iso", ISO)])
    );
}

/// Where the BMC fetches from follows the setting without its credentials being sent again.
#[test]
fn another_url_for_virtual_media_is_followed() {
    let address = json!({"bmc": {"address": "redfish-virtualmedia://[2001:db8::7]/redfish/v1/Systems/1"}});
    let mut world = World::at("inspecting", "manageable").with_spec(&address);
    world = world.with_node(&json!({"driver_info": {"redfish_address": "https://[2001:db8::7]"}}));
    assert_eq!(asks_for(&world), Some(Verb::Inspect));
    world.settings.external_url_v6 = Some(OWN_URL.to_owned());
    let add = PatchOp::add("/driver_info/external_http_url", OWN_URL);
    assert_eq!(patch_of(&world), Some(vec![add]));
}

/// A node that cannot be changed is torn down as it is.
#[test]
fn what_ironic_does_not_let_anybody_change_is_left() {
    let mut world = World::at("deprovisioning", "wait call-back");
    world.settings.deploy_images.iso = Some(ISO.to_owned());
    assert_eq!((patch_of(&world), asks_for(&world)), (None, Some(Verb::Deleted)));
}

/// Where no ramdisk is started, the node need not be read for that.
#[rstest]
#[case("available", "manageable")]
#[case("provisioned", "active")]
fn a_host_at_rest_is_left_alone(#[case] state: &str, #[case] node_state: &str) {
    let mut world = World::at(state, node_state);
    if state == "provisioned" {
        world = world
            .with_spec(&json!({"image": image(IMAGE)}))
            .with_status(&json!({"provisioning": {"image": image(IMAGE)}}))
            .with_node(&instance(IMAGE));
    }
    world.settings.deploy_images.iso = Some(ISO.to_owned());
    let outcome = world.decide();
    assert_eq!((outcome.reads, outcome.plan.effects), (Vec::new(), Vec::new()));
}

/// As with upstream: where no image is set, Ironic's own may count, and who has set the URL is not known.
#[test]
fn a_setting_that_is_taken_away_stays_in_the_nodes_that_have_it() {
    let info = json!({"driver_info": {"deploy_iso": ISO, "deploy_kernel": "k", "deploy_ramdisk": "r", "external_http_url": OWN_URL}});
    let mut world = World::at("available", "manageable").with_node(&info).edited();
    assert_eq!(patch_of(&world), None);
    world.settings.deploy_images.kernel = Some("k".to_owned());
    world.settings.deploy_images.ramdisk = Some("r".to_owned());
    assert_eq!(patch_of(&world), Some(vec![PatchOp::remove("/driver_info/deploy_iso")]));
}
