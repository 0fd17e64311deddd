//! What a tenant says of his host's past, in its annotation or in its status, against the node of somebody else: field by field, as
//! docs/security.md lists them.

use std::time::Duration;

use baremetal_operator::host::observed::{Memory, SecretView};
use baremetal_operator::host::plan::{Then, WaitReason};
use baremetal_operator::host::{OwnNode, own_node};
use metal3_ironic::ProvisionState;
use metal3_runtime::controller::Next;
use metal3_runtime::timing::operator::PROOF_AGAIN;
use rstest::rstest;
use serde_json::{Value, json};

use crate::show;
use crate::world::{IMAGE, MAC, NODE, Sight, UID, World, host, image, instance, node, secret};

const STATUS: &str = "baremetalhost.metal3.io/status";
const DETACHED: &str = "baremetalhost.metal3.io/detached";
/// A UUID, as nothing else is restored.
const THEIRS: &str = "7d0c1f8e-1111-4222-8333-944455566677";

/// Every state that leads somewhere.
const STATES: [&str; 13] = [
    "",
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
];

/// The node of somebody else, in the state that fits.
fn theirs(state: &str, name: Option<&str>, address: &str) -> metal3_ironic::Node {
    let node_state = match state {
        "provisioning" | "provisioned" | "externally provisioned" | "deprovisioning" => "active",
        "" | "registering" => "enroll",
        _ => "manageable",
    };
    let mut description = instance(IMAGE);
    description["uuid"] = json!(THEIRS);
    description["name"] = json!(name);
    description["extra"] = json!(null);
    description["driver_info"]["redfish_address"] = json!(address);
    node(node_state, &description)
}

/// Until the host rests, or is gone: nothing may be asked of the node, and its UUID, name and BMC are told to nobody. Of a node of the
/// host's own name its UUID is told to who knew it before.
fn leave_alone(mut world: World, is_known: bool) -> String {
    for _ in 0..12 {
        let outcome = world.decide();
        let text = show::full(&outcome);
        let asked = outcome.plan.effects.iter().find(|effect| effect.is_ironic_mutation());
        assert_eq!(asked, None, "{text}");
        let mut told: Vec<&str> = outcome.plan.events.iter().map(|event| event.message.as_str()).collect();
        told.push(&outcome.plan.status.error_message);
        if let Then::Wait(wait) = &outcome.plan.then {
            told.push(&wait.message);
        }
        for told in told {
            assert!(is_known || !told.contains(THEIRS), "{text}");
            assert!(!told.contains("192.0.2.99") && !told.contains("theirs"), "{text}");
        }
        for effect in &outcome.plan.effects {
            if let baremetal_operator::host::plan::Effect::RemoveAnnotation { key, .. } = effect {
                world = world.with_host(&json!({"metadata": {"annotations": {key: null}}}));
            }
        }
        world.store(&outcome.plan);
        if matches!(outcome.plan.then, Then::Gone) {
            break;
        }
    }
    let status = world.host.status.as_ref();
    status.map(|status| status.provisioning.id.clone()).unwrap_or_default()
}

/// As a tenant can have it: with a Secret of his own or without one, deleted, detached by force, told to be off or to run an image.
fn ways(world: &World) -> Vec<World> {
    let mut ways = Vec::new();
    for has_secret in [false, true] {
        let mut world = world.clone();
        if !has_secret {
            world.secret = SecretView::Missing;
            world.watched_version = None;
        }
        ways.push(world.clone().edited());
        ways.push(world.clone().deleting());
        ways.push(world.clone().annotated(DETACHED, r#"{"force": true}"#));
        ways.push(world.clone().with_spec(&json!({"online": false})));
        ways.push(
            world
                .clone()
                .with_spec(&json!({"image": image("http://images/mine.qcow2")}))
                .edited(),
        );
        ways.push(world.with_spec(&json!({"externallyProvisioned": true})).edited());
    }
    ways
}

// OWN 29b: the same namespace and name in another cluster, and the UUID, were enough to have a node wiped.
#[rstest]
#[case::of_a_namesake(Some("n~h"), "https://192.0.2.99")]
#[case::of_another_host(Some("theirs~h"), "https://192.0.2.1")]
#[case::without_a_name(None, "https://192.0.2.1")]
#[case::of_the_old_name(Some("h"), "https://192.0.2.1")]
#[case::of_another_name(Some("theirs"), "https://192.0.2.1")]
fn attack_no_state_that_a_user_writes_has_a_foreign_node_changed(#[case] name: Option<&str>, #[case] address: &str) {
    for state in STATES {
        let status = json!({"provisioning": {"ID": THEIRS, "image": image(IMAGE)}});
        let mut world = World::at(state, "manageable").with_status(&status);
        world.node = Some(theirs(state, name, address));
        for sight in [Sight::Live, Sight::Listed] {
            for mut world in ways(&world) {
                world.sight = sight;
                leave_alone(world, name == Some("n~h"));
            }
        }
    }
}

// OWN 31wi: who had a host of the same namespace, name and BMC address in another cluster took the node over: its UUID was
// told, the password that Ironic has was replaced, and a deletion took it along, before any BMC had judged the Secret.
#[rstest]
#[case::a_fresh_host(json!({}))]
#[case::credentials_of_his_own_called_good(json!({"goodCredentials": {"credentials": {"name": "bmc", "namespace": "n"},
    "credentialsVersion": "7"}, "triedCredentials": {"credentials": {"name": "bmc", "namespace": "n"}, "credentialsVersion": "7"}}))]
#[case::a_registration_that_failed(json!({"errorType": "registration error", "errorCount": 9, "errorMessage": "x"}))]
fn attack_no_namesake_with_the_address_of_the_bmc_gets_the_node(#[case] status: Value) {
    for state in STATES {
        for name in ["n~h", "h"] {
            let mut world = World::at(state, "manageable")
                .with_status(&json!({"provisioning": {"ID": ""}}))
                .with_status(&status);
            world.settings.adopts_unnamed_nodes = true;
            world.node = Some(theirs(state, Some(name), "https://192.0.2.1"));
            world.memory.accepted_digest = None;
            world.bmc_refuses = Some("401 Unauthorized".to_owned());
            for sight in [Sight::Live, Sight::Listed] {
                for mut world in ways(&world) {
                    world.sight = sight;
                    assert_eq!(leave_alone(world, false), "", "the UUID is not in the status: {state}");
                }
            }
        }
    }
}

// OWN 31xa: of several systems behind one BMC, credentials that a tenant has for his own proved a node that names none.
#[test]
fn attack_credentials_for_another_system_prove_no_node_that_names_none() {
    for state in STATES {
        let mut world = World::at(state, "manageable")
            .with_status(&json!({"provisioning": {"ID": ""}}))
            .with_spec(&json!({"bmc": {"address": "redfish://192.0.2.1/redfish/v1/Systems/2"}}));
        world.settings.adopts_unnamed_nodes = true;
        let mut foreign = theirs(state, Some("n~h"), "https://192.0.2.1");
        let detail = foreign.detail.as_mut().unwrap();
        detail.driver_info = serde_json::from_value(json!({"redfish_address": "https://192.0.2.1"})).unwrap();
        world.node = Some(foreign);
        world.memory.accepted_digest = None;
        for sight in [Sight::Live, Sight::Listed] {
            for mut world in ways(&world) {
                world.sight = sight;
                assert_eq!(leave_alone(world, false), "", "the UUID is not in the status: {state}");
            }
        }
    }
}

// OWN 31wj: the UUID of a host's node, which its server and the Node of its cluster show to their users, was enough.
#[test]
fn attack_the_uuid_of_a_node_is_no_password() {
    let known = json!({"credentials": {"name": "bmc", "namespace": "n"}, "credentialsVersion": "7"});
    for state in STATES {
        let mut world = World::at(state, "manageable").with_status(&json!({
            "provisioning": {"ID": THEIRS, "image": image(IMAGE)}, "goodCredentials": known, "triedCredentials": known,
        }));
        world.node = Some(theirs(state, Some("n~h"), "https://192.0.2.1"));
        world.memory = Memory::default();
        world.bmc_refuses = Some("401 Unauthorized".to_owned());
        for sight in [Sight::Live, Sight::Listed] {
            for mut world in ways(&world) {
                world.sight = sight;
                let found = node_for_companions(&world).0;
                assert!(!matches!(found, OwnNode::Own(_)), "{found:?} in {state} {sight:?}");
                leave_alone(world, true);
            }
        }
    }
}

/// Before the status is restored from the annotation, nothing of the node is told; where the annotation cannot be read, it never is.
#[test]
fn attack_an_annotation_that_cannot_be_read_tells_nothing_of_a_foreign_node() {
    let mut world = World::at("powering off before delete", "available").with_status(&json!({
        "provisioning": {"ID": THEIRS}, "poweredOn": true, "lastUpdated": null,
    }));
    let mut foreign = theirs("available", Some("n~h"), "https://192.0.2.1");
    foreign.power_state = Some("power off".into());
    world.node = Some(foreign);
    world.memory = Memory::default();
    world.bmc_refuses = Some("401 Unauthorized".to_owned());
    let metadata =
        json!({"annotations": {"baremetalhost.metal3.io/status": "{"}, "deletionTimestamp": "2026-01-01T00:00:00Z"});
    let mut world = world.with_host(&json!({ "metadata": metadata }));
    for _ in 0..6 {
        let outcome = world.decide();
        assert!(outcome.plan.status.powered_on, "{}", show::full(&outcome));
        world.store(&outcome.plan);
    }
}

// OWN 31wp: who knew the UUID of a node, and had its name and BMC address, was told its hardware, its power and its last error.
#[test]
fn attack_nothing_of_a_foreign_node_is_told() {
    let known = json!({"credentials": {"name": "bmc", "namespace": "n"}, "credentialsVersion": "7"});
    let cases = STATES.into_iter().flat_map(|state| {
        let failed = [
            "manageable",
            "active",
            "inspect failed",
            "clean failed",
            "deploy failed",
            "error",
        ];
        failed.map(|node_state| (state, node_state))
    });
    for (state, node_state) in cases {
        for is_told_on in [false, true] {
            let status = json!({"provisioning": {"ID": THEIRS, "image": image(IMAGE)}, "poweredOn": is_told_on,
                "goodCredentials": known, "triedCredentials": known, "errorMessage": ""});
            let mut world = World::at(state, "manageable").with_status(&status);
            let mut foreign = theirs(state, Some("n~h"), "https://192.0.2.1");
            foreign.provision_state = ProvisionState::from(node_state);
            foreign.last_error = Some("theirs is broken".to_owned());
            world.node = Some(foreign);
            world.memory = Memory::default();
            world.bmc_refuses = Some("401 Unauthorized".to_owned());
            let found = json!({"hostname": "theirs", "systemVendor": {"serialNumber": "theirs"}});
            world.inventory = Some(serde_json::from_value(found).unwrap());
            for mut world in ways(&world) {
                for _ in 0..6 {
                    let outcome = world.decide();
                    assert!(
                        !format!("{:?}", outcome.plan).contains("theirs"),
                        "{state}, {node_state}: {}",
                        show::full(&outcome)
                    );
                    assert_eq!(outcome.plan.status.powered_on, is_told_on, "{state}, {node_state}");
                    if let Then::Wait(wait) = &outcome.plan.then {
                        let is_of_node = matches!(
                            wait.reason,
                            WaitReason::UnexpectedNodeState
                                | WaitReason::Inspecting
                                | WaitReason::Cleaning
                                | WaitReason::PowerUnknown
                        );
                        assert!(!is_of_node, "{state}, {node_state}: {}", show::full(&outcome));
                    }
                    world.store(&outcome.plan);
                }
            }
        }
    }
}

// OWN 31wz: whose host leads to the node of another was told its health, its BMC's failures, what is done to it and who has locked it,
// and could find out its power by guessing it.
#[rstest]
#[case::of_a_namesake("n~h")]
#[case::of_another_host("theirs~h")]
fn attack_what_happens_to_a_foreign_node_changes_nothing_that_is_told(#[case] name: &str) {
    let known = json!({"credentials": {"name": "bmc", "namespace": "n"}, "credentialsVersion": "7"});
    for state in STATES {
        for is_told_on in [false, true] {
            let status = json!({"provisioning": {"ID": THEIRS, "image": image(IMAGE)}, "poweredOn": is_told_on,
                "goodCredentials": known, "triedCredentials": known, "errorMessage": ""});
            let mut world = World::at(state, "manageable").with_status(&status);
            world.memory = Memory::default();
            world.bmc_refuses = Some("401 Unauthorized".to_owned());
            world.node = Some(theirs(state, Some(name), "https://192.0.2.1"));
            for quiet in ways(&world) {
                let changes: [fn(&mut metal3_ironic::Node); 6] = [
                    |node| node.power_state = Some("power off".into()),
                    |node| node.power_state = None,
                    |node| node.target_power_state = Some("power off".into()),
                    |node| node.health = Some("Critical".into()),
                    |node| node.fault = Some("power failure".into()),
                    |node| node.last_error = Some("broken".into()),
                ];
                let expected = told(quiet.clone());
                for change in changes {
                    let mut other = quiet.clone();
                    change(other.node.as_mut().unwrap());
                    assert_eq!(told(other), expected, "{state}");
                }
            }
        }
    }
}

/// What a host's owner is told in its next passes. Not when, and by which line: the way to the answer may differ.
fn told(mut world: World) -> Vec<String> {
    let next = |_| {
        let plan = world.decide().plan;
        let wait = match &plan.then {
            Then::Wait(wait) => Some((wait.reason, wait.message.clone())),
            Then::Idle | Then::Again | Then::Gone => None,
        };
        let status = &plan.status;
        let conditions = status.conditions.iter();
        let conditions = conditions
            .map(|c| (&c.type_, &c.reason, &c.message))
            .collect::<Vec<_>>();
        let rest = (&status.provisioning, &status.error_message, status.powered_on);
        let text = format!("{wait:?} {conditions:?} {rest:?} {:?}", plan.events);
        world.store(&plan);
        text
    };
    (0..6).map(next).collect()
}

/// A moved host, or one of upstream's operator, has its node once the BMC has accepted its Secret, and is not asked again.
#[test]
fn a_moved_host_is_proven_once() {
    let mut world = World::at("available", "manageable").with_status(&json!({"provisioning": {"ID": THEIRS}}));
    world.node = Some(theirs("available", Some("n~h"), "https://192.0.2.1"));
    world.memory = Memory::default();
    let outcome = world.decide();
    let text = show::full(&outcome);
    assert!(
        text.contains("CredentialCheck") && text.contains("/extra/metal3_host_uid"),
        "{text}"
    );
    assert!(
        !text.contains("/driver_info"),
        "it keeps the access that Ironic has: {text}"
    );
    if let Some(node) = world.node.as_mut()
        && let Some(detail) = node.detail.as_mut()
    {
        detail.extra.insert("metal3_host_uid".to_owned(), json!(UID));
    }
    let text = show::full(&world.decide());
    assert!(!text.contains("CredentialCheck") && !text.contains("patch"), "{text}");
}

/// A moved host, whose node is not marked yet, and whose BMC is away.
fn moved(state: &str) -> World {
    let known = json!({"credentials": {"name": "bmc", "namespace": "n"}, "credentialsVersion": "7"});
    let status =
        json!({"provisioning": {"ID": THEIRS}, "poweredOn": true, "goodCredentials": known, "triedCredentials": known});
    let mut world = World::at(state, "manageable").with_status(&status);
    world.node = Some(theirs(state, Some("n~h"), "https://192.0.2.1"));
    world.memory = Memory::default();
    world.bmc_refuses = Some("timed out".to_owned());
    world
}

#[test]
fn a_moved_host_whose_bmc_was_away_is_proven_later() {
    let mut world = moved("available");
    let first = world.decide();
    let text = show::full(&first);
    assert!(
        text.contains("CredentialCheck") && first.plan.then == Then::Idle,
        "{text}"
    );
    world.memory = first.seen.memory.clone();
    world.store(&first.plan);
    let Next::After(delay) = first.plan.next else {
        panic!("{:?}", first.plan.next);
    };
    assert!(delay <= PROOF_AGAIN + Duration::from_secs(1), "{delay:?}");

    world.now = world.now.saturating_add(Duration::from_secs(60)).unwrap();
    let text = show::full(&world.decide());
    assert!(!text.contains("CredentialCheck"), "{text}");
    world.now = world.now.saturating_add(delay).unwrap();
    world.bmc_refuses = None;
    let text = show::full(&world.decide());
    assert!(text.contains("/extra/metal3_host_uid"), "{text}");
}

/// While a node works by itself, an answer of its BMC that is late is no reason for an error, nor to give the node up.
#[rstest]
#[case("inspecting", ProvisionState::InspectWait)]
#[case("preparing", ProvisionState::CleanWait)]
#[case("provisioning", ProvisionState::DeployWait)]
#[case("deprovisioning", ProvisionState::CleanWait)]
#[case("deprovisioning", ProvisionState::Cleaning)]
#[case("deprovisioning", ProvisionState::Deleting)]
fn what_the_node_of_a_moved_host_does_is_waited_for(#[case] state: &str, #[case] node_state: ProvisionState) {
    let mut world = moved(state).with_spec(&json!({"image": image(IMAGE)}));
    // Also on the way to the end of the host.
    if state == "deprovisioning" {
        world = world.deleting();
    }
    world.node.as_mut().unwrap().provision_state = node_state;
    for _ in 0..3 {
        let outcome = world.decide();
        let text = show::full(&outcome);
        let Then::Wait(wait) = &outcome.plan.then else {
            panic!("{text}");
        };
        assert_eq!(wait.reason, WaitReason::Verifying, "{text}");
        assert!(
            outcome.plan.events.is_empty() && outcome.plan.status.error_type.is_none(),
            "{text}"
        );
        world.memory = outcome.seen.memory.clone();
        world.store(&outcome.plan);
    }
}

/// The same host with the BMC's password has the node.
#[rstest]
#[case::of_its_name("n~h")]
#[case::of_the_old_name("h")]
fn a_namesake_whose_secret_the_bmc_accepts_has_the_node(#[case] name: &str) {
    let mut world = World::at("available", "manageable").with_status(&json!({"provisioning": {"ID": ""}}));
    world.settings.adopts_unnamed_nodes = true;
    world.node = Some(theirs("available", Some(name), "https://192.0.2.1"));
    world.memory.accepted_digest = None;
    let outcome = world.decide();
    assert_eq!(outcome.plan.status.provisioning.id, THEIRS, "{}", show::full(&outcome));
    assert!(
        show::full(&outcome).contains("/driver_info"),
        "{}",
        show::full(&outcome)
    );
}

/// With the UUID, which the status of a moved host has, other credentials still need the BMC's consent.
#[test]
fn attack_credentials_that_the_bmc_refuses_replace_none_in_ironic() {
    for state in STATES {
        let mut world = World::at(state, "manageable").with_status(&json!({"provisioning": {"ID": THEIRS}}));
        world.node = Some(theirs(state, Some("n~h"), "https://192.0.2.1"));
        world.memory.accepted_digest = None;
        world.bmc_refuses = Some("401 Unauthorized".to_owned());
        world.secret = SecretView::Found(secret("8", 2));
        world.watched_version = Some("8".to_owned());
        for mut world in ways(&world) {
            for _ in 0..6 {
                let outcome = world.decide();
                let text = show::full(&outcome);
                assert!(
                    !text.contains("redfish_password") && !text.contains("/driver_info;"),
                    "{text}"
                );
                world.store(&outcome.plan);
            }
        }
    }
}

// OWN 29e: which fields of a restored status count was not said, and not each was attacked.
#[rstest]
#[case::id(json!({"provisioning": {"ID": THEIRS}}))]
#[case::a_name_as_id(json!({"provisioning": {"ID": "theirs~h"}}))]
#[case::image(json!({"provisioning": {"image": image(IMAGE)}}))]
#[case::custom_deploy(json!({"provisioning": {"customDeploy": {"method": "erase"}}}))]
#[case::raid(json!({"provisioning": {"raid": {"hardwareRAIDVolumes": [{"level": "0"}]}}}))]
#[case::firmware(json!({"provisioning": {"firmware": {"virtualizationEnabled": true}}}))]
#[case::root_device(json!({"provisioning": {"rootDeviceHints": {"deviceName": "/dev/sdz"}, "bootMode": "legacy"}}))]
#[case::credentials(json!({"goodCredentials": {"credentials": {"name": "bmc", "namespace": "theirs"}, "credentialsVersion": "7"},
    "triedCredentials": {"credentials": {"name": "bmc", "namespace": "theirs"}, "credentialsVersion": "7"}}))]
#[case::history(json!({"operationHistory": {"provision": {"start": "2020-01-01T00:00:00Z", "end": null},
    "deprovision": {"start": "2020-01-01T00:00:00Z", "end": null}}}))]
#[case::hardware(json!({"hardware": {"nics": [{"name": "eth0", "mac": "52:54:00:00:00:99"}], "cpu": {"arch": "x86_64"}}}))]
#[case::failures(json!({"errorCount": 1_000_000, "errorType": "registration error", "provisioningFailCount": 1_000_000}))]
#[case::conditions(json!({"conditions": [{"type": "Configured", "status": "True", "reason": "Configured", "message": "",
    "observedGeneration": 4, "lastTransitionTime": "2026-01-01T00:00:00Z"}]}))]
#[case::operational_status(json!({"operationalStatus": "servicing"}))]
#[case::detached(json!({"operationalStatus": "detached"}))]
#[case::power(json!({"poweredOn": false}))]
#[case::last_attempt(json!({"lastAttemptedImage": image("http://images/mine.qcow2")}))]
fn attack_no_field_of_a_restored_status_has_a_foreign_node_changed(#[case] field: Value) {
    for state in STATES {
        let mut status = json!({"provisioning": {"ID": THEIRS, "state": state, "image": image(IMAGE)}, "operationalStatus": "OK",
            "errorMessage": "", "poweredOn": true, "hardwareProfile": "unknown", "lastUpdated": "2026-01-01T00:00:00Z"});
        crate::world::merge(&mut status, &field);
        let text = status.to_string();
        for name in ["n~h", "theirs~h"] {
            let moved = host("", &json!({"status": null}));
            let mut world = World::new(
                moved,
                Some(theirs(state, Some(name), "https://192.0.2.99")),
                Sight::Live,
            )
            .annotated(STATUS, &text);
            world.memory.accepted_digest = None;
            for world in ways(&world) {
                leave_alone(world, name == "n~h");
            }
        }
    }
}

/// A state is one of those that the operator knows: text of a user's own would stand in messages and metrics.
#[test]
fn attack_a_state_of_free_text_is_not_restored() {
    let status = json!({"provisioning": {"ID": THEIRS, "state": "canary"}, "operationalStatus": "OK", "errorMessage": "",
        "poweredOn": true, "hardwareProfile": ""});
    let world =
        World::new(host("", &json!({"status": null})), None, Sight::Live).annotated(STATUS, &status.to_string());
    let outcome = world.decide();
    assert_eq!(
        outcome.plan.status.provisioning.state.as_str(),
        "",
        "{}",
        show::full(&outcome)
    );
    assert!(!outcome.plan.status.error_message.contains("canary"));
    assert!(outcome.plan.status.error_message.contains("provisioning.state"));
}

/// The host of a moved cluster, whose annotation says the truth, has its node all the same.
#[test]
fn a_host_that_was_moved_keeps_its_node() {
    let mut world = World::at("provisioned", "active")
        .with_spec(&json!({"image": image(IMAGE)}))
        .with_status(&json!({"provisioning": {"image": image(IMAGE)}}))
        .with_node(&instance(IMAGE))
        .deleting();
    world.secret = SecretView::Found(secret("7", 1));
    let mut verbs = Vec::new();
    for _ in 0..3 {
        let outcome = world.decide();
        verbs.extend(
            outcome
                .plan
                .effects
                .iter()
                .filter(|e| e.is_ironic_mutation())
                .map(|e| format!("{e:?}")),
        );
        world.store(&outcome.plan);
    }
    assert!(
        verbs.iter().any(|verb| verb.contains("Deleted") && verb.contains(NODE)),
        "{verbs:?}, {MAC}"
    );
}

/// The node that the controllers of companions call Ironic about, and how many reads that took.
fn node_for_companions(world: &World) -> (OwnNode, usize) {
    let mut seen = world.seen();
    for reads in 0..5 {
        match own_node(&seen) {
            Ok(node) => return (node, reads),
            Err(need) => world.answer(&mut seen, need),
        }
    }
    panic!("no end of reads");
}

// OWN 31fg: subscriptions and the look for a disc went to whatever node the status named, of a paused host too.
#[rstest]
#[case::of_a_namesake(Some("n~h"), "https://192.0.2.99", "put the former address back")]
#[case::of_another_host(Some("theirs~h"), "https://192.0.2.1", "")]
#[case::without_a_name(None, "https://192.0.2.1", "")]
#[case::of_the_old_name(Some("h"), "https://192.0.2.1", "")]
fn attack_no_status_leads_companions_to_a_foreign_node(
    #[case] name: Option<&str>,
    #[case] address: &str,
    #[case] missing: &str,
) {
    for state in STATES {
        let mut world = World::at(state, "manageable").with_status(&json!({"provisioning": {"ID": THEIRS}}));
        world.node = Some(theirs(state, name, address));
        for sight in [Sight::Live, Sight::Listed, Sight::Unlisted] {
            for mut world in ways(&world) {
                world.sight = sight;
                match node_for_companions(&world).0 {
                    OwnNode::Own(node) => panic!("{node} in {state} {sight:?}"),
                    OwnNode::None => {}
                    OwnNode::Unproven(why) => {
                        assert!(
                            !missing.is_empty() && why.contains(missing),
                            "{why} in {state} {sight:?}"
                        );
                        assert!(!why.contains(THEIRS), "{why}");
                    }
                }
            }
        }
    }
    let named = World::at("available", "manageable").with_status(&json!({"provisioning": {"ID": "theirs~h"}}));
    assert_eq!(
        node_for_companions(&named),
        (OwnNode::None, 0),
        "a name is not looked up"
    );
}

#[test]
fn companions_find_the_node_of_their_host() {
    let mut world = World::at("available", "manageable").with_status(&json!({"provisioning": {"ID": THEIRS}}));
    world.node = Some(theirs("available", Some("n~h"), "https://192.0.2.1"));
    assert_eq!(
        node_for_companions(&world).0,
        OwnNode::Own(THEIRS.to_owned()),
        "proven by its BMC and the Secret"
    );
    world.secret = SecretView::Missing;
    world.watched_version = None;
    // OWN 31fm
    let OwnNode::Unproven(why) = node_for_companions(&world).0 else {
        panic!("the Secret is missing")
    };
    assert!(why.contains("Secret n/") && why.contains("is missing"), "{why}");
    // Enrolled under the host's own UID.
    let world = world.with_host(&json!({"metadata": {"uid": THEIRS}}));
    let listed = World {
        sight: Sight::Listed,
        ..world.clone()
    };
    assert_eq!(
        node_for_companions(&listed),
        (OwnNode::Own(THEIRS.to_owned()), 0),
        "nothing is read"
    );
    let detached = world.annotated(DETACHED, "");
    assert_eq!(node_for_companions(&detached), (OwnNode::None, 0));
}
