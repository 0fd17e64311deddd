//! What stands in the way of some claims, and must not stand in the way of the others.

use metal3_runtime::conditions;

use super::checks::settle;
use super::manager::Manager;
use super::world::{World, key};
use crate::pool::seen::ClaimKey;

/// Watches that do not lag.
const PROMPT: super::Laziness = [1; 3];

/// What a claim's condition says.
fn said(world: &World, key: &ClaimKey) -> String {
    let ready = conditions::get(&world.claims[key].conditions, conditions::READY);
    ready.map(|ready| ready.message.clone()).unwrap_or_default()
}

fn address(world: &World, key: &ClaimKey) -> Option<String> {
    world.claims[key].address.clone()
}

/// Objects of another pool with the same prefix, which come when this pool has been read already.
fn neighbour(world: &mut World, last: u8) {
    (1..=last).for_each(|n| world.by_hand(key(0), n, "other"));
}

#[test]
fn names_that_another_pool_has_taken_are_found_at_once() {
    let mut world = World::new(60);
    let mut manager = [Manager::start(&world, 7, PROMPT, 0)];
    settle(&mut world, &mut manager);
    neighbour(&mut world, 50);
    (0..6).for_each(|n| world.claim(&key(n), "", false));
    settle(&mut world, &mut manager);
    for n in 0..6 {
        assert!(
            address(&world, &key(n)).is_some(),
            "{}: {}",
            key(n),
            said(&world, &key(n))
        );
    }
    let tries = world.conflicts;
    assert!(
        tries <= 3,
        "{tries} objects were tried in vain: one for each promise of one round would do"
    );
    let status = world.pool.as_ref().and_then(|pool| pool.status.clone()).unwrap();
    assert_eq!((status.allocating.len(), status.usage.unwrap().used), (0, 6));
    manager[0].resync();
    world.claim(
        &ClaimKey {
            name: "later".to_owned(),
            ..key(0)
        },
        "",
        false,
    );
    settle(&mut world, &mut manager);
    assert_eq!(world.conflicts, tries, "what is known is not tried again");
}

#[test]
fn a_claim_that_finds_no_free_name_says_so_and_gets_the_first_one() {
    let mut world = World::new(6);
    let mut manager = [Manager::start(&world, 7, PROMPT, 0)];
    settle(&mut world, &mut manager);
    neighbour(&mut world, 6);
    for n in [0, 2, 4] {
        world.claim(&key(n), "", false);
    }
    settle(&mut world, &mut manager);
    for n in [0, 2, 4] {
        let said = said(&world, &key(n));
        assert!(
            said.contains("is taken by ipam.metal3.io/v1alpha1 IPAddress p-10-0-0-1"),
            "{said}"
        );
    }
    // The second call takes an object away.
    neighbour(&mut world, 6);
    settle(&mut world, &mut manager);
    super::checks::everything_is_in_order(&world, 6);
}
