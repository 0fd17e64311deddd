//! BMCs whose address is a name, where it matters whether it stands for an IPv6 address.

use std::time::Duration;

use baremetal_operator::host::observed::SecretView;
use baremetal_operator::host::plan::{Effect, Read, Then, WaitReason};
use metal3_api::metal3::ErrorType;
use rstest::rstest;
use serde_json::{Value, json};

use crate::table::{fresh, with_secret};
use crate::world::{Outcome, World, secret};

const OWN_URL: &str = "http://[2001:db8::1]:6180";

fn with_own_url(mut world: World, is_ipv6: Result<bool, String>) -> World {
    world.settings.external_url_v6 = Some(OWN_URL.into());
    world.bmc_is_ipv6 = is_ipv6;
    world
}

/// By the address as it is written, or by the first that its name stands for.
#[rstest]
#[case("[2001:db8::7]", false, true)]
#[case("192.0.2.7", true, false)]
#[case("bmc.example", true, true)]
#[case("bmc.example", false, false)]
fn bmcs_with_an_ipv6_address_fetch_from_a_url_of_their_own(
    #[case] host: &str,
    #[case] is_name_of_ipv6: bool,
    #[case] is_own: bool,
) {
    // D6 of upstream's: names of BMCs are resolved in every pass, to find out whether they have IPv6.
    let address = format!("redfish-virtualmedia://{host}/redfish/v1/Systems/1");
    let world = fresh(&json!({"bmc": {"address": address}}));
    let asks = |outcome: &Outcome| outcome.reads.contains(&Read::BmcName);
    assert!(!asks(&world.decide()), "it does not matter");
    let outcome = with_own_url(world, Ok(is_name_of_ipv6)).decide();
    assert_eq!(asks(&outcome), host == "bmc.example");
    let created = outcome.plan.effects.into_iter().find_map(|effect| match effect {
        Effect::CreateNode(body) => Some(body),
        _ => None,
    });
    let info = created.unwrap().driver_info;
    assert_eq!(info.get("external_http_url"), is_own.then(|| json!(OWN_URL)).as_ref());
}

/// Nobody knows what the name stands for: a host is not enrolled on a guess, and a node is left as it is.
#[test]
fn a_bmc_whose_name_cannot_be_resolved_is_told_and_costs_a_node_nothing() {
    let unknown = || Err("no such name".to_owned());
    let spec = json!({"bmc": {"address": "redfish-virtualmedia://bmc.example/redfish/v1/Systems/1"}});
    let outcome = with_own_url(fresh(&spec), unknown()).decide();
    assert!(
        !outcome.plan.effects.iter().any(Effect::is_ironic_mutation),
        "{:?}",
        outcome.plan.effects
    );
    let status = outcome.plan.status;
    assert_eq!(
        (status.error_type, status.error_count),
        (Some(ErrorType::Registration), 1)
    );
    for words in [
        "spec.bmc.address",
        "bmc.example",
        "IRONIC_EXTERNAL_URL_V6",
        "no such name",
    ] {
        assert!(status.error_message.contains(words), "{}", status.error_message);
    }

    let info = json!({"driver_info": {"redfish_address": "https://bmc.example", "external_http_url": OWN_URL}});
    let known = || {
        World::at("available", "manageable")
            .with_node(&info)
            .with_spec(&spec)
            .edited()
    };
    let sent = |world: World| {
        let effects = world.decide().plan.effects;
        effects.into_iter().find_map(|effect| match effect {
            Effect::PatchNode { ops, .. } => ops.into_iter().find(|op| op.path.starts_with("/driver_info")),
            _ => None,
        })
    };
    assert_eq!(sent(with_own_url(known(), unknown())), None);
    assert_eq!(sent(with_own_url(known(), Ok(true))), None);
    // The name stands for an IPv4 address by now.
    let moved = sent(with_own_url(known(), Ok(false))).unwrap().value.unwrap();
    assert_eq!(moved.get("external_http_url"), None);
    assert_eq!(
        sent(known()),
        None,
        "set by hand: without the variable it is left alone"
    );
    // It is told, and looked at again, until the name can be resolved.
    let waits = with_own_url(known(), unknown()).then();
    for world in [waits.clone(), waits.clone().then()] {
        let plan = world.decide().plan;
        let Then::Wait(wait) = &plan.then else {
            panic!("{:?}", plan.then);
        };
        assert_eq!(wait.reason, WaitReason::BMCNameUnresolved);
        assert!(wait.longest() <= Duration::from_secs(300), "{wait:?}");
        assert!(!plan.learned.is_configured && world.is_stored(&plan));
    }
    // Told for this generation already, it waits for nothing when something else has to be sent.
    let rotated = World::at("available", "manageable").with_node(&info).with_spec(&spec);
    let rotated = with_secret(rotated, SecretView::Found(secret("8", 2)), "8");
    let rotated =
        with_own_url(rotated, unknown()).with_status(&json!({"triedCredentials": {"credentialsVersion": "8"}}));
    let mut rotated = rotated;
    rotated.memory.accepted_digest = Some(2);
    assert_eq!(rotated.decide().plan.then, Then::Idle);
    let found = with_own_url(waits, Ok(true)).decide().plan;
    assert!(found.learned.is_configured);
    assert_eq!(found.then, Then::Idle);
    // One that is deleted is left as it is without a look: the name server may be away.
    let deleted = World::at("available", "manageable")
        .with_node(&info)
        .with_spec(&spec)
        .deleting();
    assert!(!with_own_url(deleted, Ok(false)).decide().reads.contains(&Read::BmcName));
    // New credentials are sent with everything else.
    let exchanged = || with_secret(known(), SecretView::Found(secret("8", 2)), "8");
    for (is_ipv6, url) in [(unknown(), Some(OWN_URL)), (Ok(true), Some(OWN_URL)), (Ok(false), None)] {
        let info = sent(with_own_url(exchanged(), is_ipv6)).unwrap().value.unwrap();
        assert_eq!(info.get("external_http_url").and_then(Value::as_str), url);
    }
}
