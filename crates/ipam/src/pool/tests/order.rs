//! What comes before what: the reservation and the finalizer before the address.

use std::time::Duration;

use rstest::rstest;

use super::invariants::{everything_is_in_order, settle};
use super::manager::Manager;
use super::world::{CONSUMER, World, key};
use crate::pool::effect::Effect;
use crate::pool::objects::{ClaimKey, Family};

fn claim_of(family: Family) -> ClaimKey {
    ClaimKey {
        family,
        name: "c".into(),
    }
}

/// Managers that know the pool and have nothing to do.
fn at_rest<const N: usize>(world: &mut World) -> [Manager; N] {
    let mut managers = std::array::from_fn(|number| Manager::start(world, number as u64, [1; 3], 0));
    settle(world, &mut managers);
    managers
}

/// The server has not seen the reservations yet.
fn until_reservations_are_on_their_way(world: &mut World, manager: &mut Manager) {
    let is_on_its_way = |manager: &Manager| manager.flights.iter().any(|f| matches!(f.effect, Effect::Record(_)));
    for _ in 0..100 {
        manager.watch_all(world);
        manager.decide(world);
        if is_on_its_way(manager) {
            return;
        }
        while !manager.flights.is_empty() {
            manager.serve(world, 0);
            manager.answer(world, 0, false);
        }
        world.clock += Duration::from_millis(50);
    }
    panic!("nothing is reserved");
}

/// An address is about to be reserved, and on its way, when its pool changes: it is not given.
#[rstest]
#[case::of_the_ranges(|world: &mut World| world.change_pool(|pool| pool.spec.pools[0].start = "10.0.0.4".into()))]
#[case::of_what_is_kept(|world: &mut World| world.change_pool(|pool| {
    pool.spec.pre_allocations.insert("somebody".into(), "10.0.0.1".into());
}))]
fn what_was_only_intended_is_chosen_again_after_a_change(#[case] change: fn(&mut World)) {
    let mut world = World::new(6);
    let mut managers = at_rest::<1>(&mut world);
    let key = claim_of(Family::Metal3);
    world.claim(&key, "", false);
    until_reservations_are_on_their_way(&mut world, &mut managers[0]);
    change(&mut world);
    settle(&mut world, &mut managers);
    everything_is_in_order(&world, 6);
    let given = world.claims[&key].address.clone();
    assert!(given.is_some() && given.as_deref() != Some("p-10-0-0-1"), "{given:?}");
}

/// As many claims as may be under way at once come to rest, or are deleted and kept, when they have been reserved addresses.
#[rstest]
#[case::paused(|world: &mut World, key: &ClaimKey| world.change_claim(key, |claim| claim.is_paused = true))]
#[case::deleted_and_kept(|world: &mut World, key: &ClaimKey| {
    world.change_claim(key, |claim| claim.meta.finalizers.push(CONSUMER.to_owned()));
    world.delete(key);
})]
fn claims_that_rest_take_no_room_from_others(#[case] stop: fn(&mut World, &ClaimKey)) {
    let mut world = World::new(8);
    let mut managers = at_rest::<1>(&mut world);
    (0..3).for_each(|n| world.claim(&key(n), "", false));
    until_reservations_are_on_their_way(&mut world, &mut managers[0]);
    while !managers[0].flights.is_empty() {
        managers[0].serve(&mut world, 0);
        managers[0].answer(&world, 0, false);
    }
    let reserved = |world: &World| {
        let status = world.pool.as_ref().and_then(|pool| pool.status.as_ref());
        status.map_or(0, |status| status.allocating.len())
    };
    assert_eq!(reserved(&world), 3);
    (0..3).for_each(|n| stop(&mut world, &key(n)));
    world.claim(&key(3), "", false);
    settle(&mut world, &mut managers);
    assert_eq!(reserved(&world), 3, "what was reserved stays reserved");
    assert!(world.claims[&key(3)].address.is_some(), "the others go on");
    for n in 0..3 {
        world.change_claim(&key(n), |claim| {
            claim.is_paused = false;
            claim.meta.finalizers.retain(|finalizer| finalizer != CONSUMER);
        });
    }
    settle(&mut world, &mut managers);
    everything_is_in_order(&world, 8);
}

/// A claim is deleted between any two requests that serve it. No address is there without its claim, not even for a moment.
#[test]
fn a_claim_stays_while_its_address_is_there() {
    let is_deleted_in_time = |requests: usize| {
        let mut world = World::new(2);
        let [mut manager] = at_rest::<1>(&mut world);
        let key = claim_of(Family::Metal3);
        world.claim(&key, "", false);
        let mut count = 0;
        for _ in 0..30 {
            manager.watch_all(&world);
            manager.decide(&world);
            while !manager.flights.is_empty() {
                if count == requests {
                    world.delete(&key);
                }
                count += 1;
                manager.serve(&mut world, 0);
                let is_there = world.claims.contains_key(&key);
                assert!(is_there || world.addresses.is_empty(), "after {requests} requests");
                manager.answer(&world, 0, false);
            }
        }
        count > requests
    };
    let cuts = (0..100).take_while(|requests| is_deleted_in_time(*requests)).count();
    assert!(cuts > 3, "only {cuts} requests for a claim");
}
