//! What comes before what: the promise and the finalizer before the address.

use std::time::Duration;

use rstest::rstest;

use super::checks::{everything_is_in_order, settle};
use super::manager::Manager;
use super::world::World;
use crate::pool::effect::Effect;
use crate::pool::seen::{ClaimKey, Family};

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

/// Each of two managers sees one of two claims, of different families, whose addresses may have equal names. One serves
/// its claim in a burst, some way or to the end, while the other one sees nothing of it. Both would give the same address.
#[test]
fn what_one_manager_gives_another_one_that_sees_nothing_does_not() {
    for rounds in 0..8 {
        let mut world = World::new(2);
        let mut managers = at_rest::<2>(&mut world);
        for (manager, family) in managers.iter_mut().zip(Family::ALL) {
            world.claim(&claim_of(family), "", false);
            manager.watch_claim(&world, &claim_of(family));
        }
        let [first, second] = &mut managers;
        first.burst(&mut world, rounds);
        second.burst(&mut world, 8);
        first.burst(&mut world, 8);
        settle(&mut world, &mut managers);
        everything_is_in_order(&world, 2);
        assert_eq!(world.addresses.len(), 2);
    }
}

/// An address is about to be promised, and on its way, when its pool or its claim changes: it is not given.
#[rstest]
#[case::of_the_ranges(|world: &mut World| world.change_pool(|pool| pool.spec.pools[0].start = "10.0.0.4".into()))]
#[case::of_what_is_kept(|world: &mut World| world.change_pool(|pool| {
    pool.spec.pre_allocations.insert("somebody".into(), "10.0.0.1".into());
}))]
#[case::of_the_request(|world: &mut World| world.change_claim(&claim_of(Family::Metal3), |claim| claim.requested = "10.0.0.3".into()))]
fn what_was_only_intended_is_chosen_again_after_a_change(#[case] change: fn(&mut World)) {
    let mut world = World::new(6);
    let mut managers = at_rest::<1>(&mut world);
    let key = claim_of(Family::Metal3);
    world.claim(&key, "", false);
    let manager = &mut managers[0];
    let is_on_its_way = |manager: &Manager| manager.flights.iter().any(|f| matches!(f.effect, Effect::Record(_)));
    for _ in 0..100 {
        manager.watch_all(&world);
        manager.decide(&world);
        if is_on_its_way(manager) {
            break;
        }
        while !manager.flights.is_empty() {
            manager.serve(&mut world, 0);
            manager.answer(&world, 0, false);
        }
        world.clock += Duration::from_millis(50);
    }
    assert!(is_on_its_way(manager));
    change(&mut world);
    settle(&mut world, &mut managers);
    everything_is_in_order(&world, 6);
    let given = world.claims[&key].address.clone();
    assert!(given.is_some() && given.as_deref() != Some("p-10-0-0-1"), "{given:?}");
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
