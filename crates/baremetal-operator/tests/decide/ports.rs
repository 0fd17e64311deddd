//! The ports that a host gets, however many NICs its hardware details have.

use std::collections::BTreeMap;

use baremetal_operator::host::observed::ForeignPort;
use baremetal_operator::host::plan::Effect;
use metal3_api::metal3::HardwareDetails;
use serde_json::json;

use crate::world::{MAC, Outcome, World, now};

const MOST: usize = 128;

fn mac(number: usize) -> String {
    let octet = |shift: usize| (number >> shift) & 0xff;
    format!("02:00:00:{:02x}:{:02x}:{:02x}", octet(16), octet(8), octet(0))
}

/// A host with so many NICs, each listed twice, and these ports.
fn world(nics: usize, ports: Vec<String>) -> World {
    let nics: Vec<_> = (0..2 * nics).map(|number| json!({"mac": mac(number / 2)})).collect();
    let mut world = World::at("available", "manageable").edited();
    let hardware: Box<HardwareDetails> = serde_json::from_value(json!({"nics": nics})).unwrap();
    world.host.status.as_mut().unwrap().hardware = Some(hardware);
    world.ports = ports;
    world
}

fn ports(of: impl Iterator<Item = usize>) -> Vec<String> {
    [MAC.to_owned()].into_iter().chain(of.map(mac)).collect()
}

fn created(outcome: &Outcome) -> Vec<&str> {
    let effects = outcome.plan.effects.iter();
    effects
        .filter_map(|effect| match effect {
            Effect::CreatePort { mac, .. } => Some(mac.as_str()),
            _ => None,
        })
        .collect()
}

fn condition(outcome: &Outcome) -> Option<(&str, &str)> {
    let conditions = &outcome.plan.status.conditions;
    let told = conditions.iter().find(|condition| condition.type_ == "PortsComplete")?;
    Some((&told.reason, &told.message))
}

// OWN 30xb: a host with any number of NICs in its hardware details got as many ports, by a search of quadratic time.
#[test]
fn a_host_gets_a_bounded_number_of_ports() {
    let outcome = world(MOST - 1, ports(0..MOST - 2)).decide();
    assert_eq!(created(&outcome), [mac(MOST - 2)]);
    let outcome = world(MOST - 1, ports(0..MOST - 1)).decide();
    assert_eq!((created(&outcome), condition(&outcome)), (vec![], None));
    // By a search through all NICs for each of them, this would not end.
    let outcome = world(100_000, ports(0..MOST - 2)).decide();
    assert_eq!(created(&outcome), [mac(MOST - 2)]);
    let outcome = world(50_000, ports(0..MOST - 1)).decide();
    assert_eq!(created(&outcome), [""; 0]);
    let (reason, message) = condition(&outcome).unwrap();
    assert_eq!(reason, "TooManyNICs");
    assert!(message.starts_with("49873 NICs of this host get no port"), "{message}");
}

#[test]
fn ports_of_earlier_nics_count_until_they_are_removed() {
    let outcome = world(2, ports(100..100 + MOST - 1)).decide();
    assert_eq!(created(&outcome), [""; 0]);
    assert_eq!(condition(&outcome).unwrap().0, "TooManyNICs");
    let without_boot = (100..100 + MOST).map(mac).collect();
    let outcome = world(2, without_boot).decide();
    assert_eq!(created(&outcome), [MAC], "the host cannot do without it");
}

#[test]
fn nics_that_others_have_are_among_those_that_count() {
    let mut world = world(MOST, ports(0..MOST - 2));
    let owner = ForeignPort {
        owner: "n~other".to_owned(),
        at: now(),
    };
    world.memory.foreign_ports = BTreeMap::from([(mac(MOST - 2), owner)]);
    let outcome = world.decide();
    assert_eq!(created(&outcome), [""; 0]);
    let (reason, message) = condition(&outcome).unwrap();
    assert_eq!(reason, "AddressTaken");
    assert!(message.contains("1 NICs of this host get no port"), "{message}");
}
