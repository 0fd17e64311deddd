//! What others do to objects that are ours: they write them all the time, and keep them with finalizers.

use super::faults::{PROMPT, address, said};
use super::invariants::{everything_is_in_order, settle};
use super::manager::Manager;
use super::world::{CONSUMER, World, key};
use crate::pool::objects::AddressId;

/// Of so many requests, all but one meet an object that has been written since it was seen.
fn storm(spared: usize) {
    let mut world = World::new(4);
    let mut manager = [Manager::start(&world, 7, PROMPT, 0)];
    (0..6).for_each(|n| world.claim(&key(n), "", false));
    let mut requests = 0;
    for round in 0..300 {
        if round == 150 {
            (0..6).for_each(|n| world.delete(&key(n)));
        }
        manager[0].watch_all(&world);
        manager[0].decide(&world);
        while !manager[0].flights.is_empty() {
            requests += 1;
            if requests % spared != 0 {
                world.change_pool(|_| {});
                (0..6).for_each(|n| world.change_claim(&key(n), |_| {}));
            }
            manager[0].serve(&mut world, 0);
            manager[0].answer(&world, 0, false);
        }
        world.clock += std::time::Duration::from_millis(100);
    }
    assert!(world.conflicts > 30, "only {} conflicts", world.conflicts);
    (0..6).for_each(|n| world.claim(&key(n), "", false));
    settle(&mut world, &mut manager);
    everything_is_in_order(&world, 4);
}

#[test]
fn a_storm_of_conflicts_is_outlived() {
    // With the last one, nothing is spared.
    [2, 3, usize::MAX].into_iter().for_each(storm);
}

/// Somebody has yet to do something before an address may be used again: as long as its object is there, it is nobody's.
#[test]
fn an_address_that_others_keep_is_given_to_nobody() {
    let mut world = World::new(1);
    let mut manager = [Manager::start(&world, 7, PROMPT, 0)];
    let (holder, same_name, other_family) = (key(0), key(0), key(1));
    world.claim(&holder, "", false);
    settle(&mut world, &mut manager);
    let id = AddressId {
        family: holder.family,
        name: address(&world, &holder).unwrap(),
    };
    world.keep(0);
    world.delete(&holder);
    settle(&mut world, &mut manager);
    assert!(!world.claims.contains_key(&holder), "its own release waits for nobody");
    world.claim(&other_family, "", false);
    settle(&mut world, &mut manager);
    assert_eq!(address(&world, &other_family), None);
    world.claim(&same_name, "", false);
    settle(&mut world, &mut manager);
    for restarted in [false, true] {
        assert_eq!(address(&world, &other_family), None, "restarted: {restarted}");
        assert_eq!(address(&world, &same_name), None, "restarted: {restarted}");
        let said = said(&world, &same_name);
        assert!(
            said.contains(&format!("IPAddress {} of an earlier claim", id.name)),
            "{said}"
        );
        assert!(said.contains(CONSUMER), "{said}");
        manager = [Manager::start(&world, 8, PROMPT, 0)];
        settle(&mut world, &mut manager);
    }
    world.keep(0);
    settle(&mut world, &mut manager);
    everything_is_in_order(&world, 1);
}
