//! A whole life, cut off at each of its requests in turn; and one without any disturbance.

use std::collections::BTreeSet;
use std::time::Duration;

use kube::ResourceExt;

use super::invariants::{everything_is_in_order, settle};
use super::manager::Manager;
use super::world::{POOL, World, key};
use crate::pool::objects::{ClaimKey, Family};
use crate::pool::report;

/// Watches that do not lag.
const PROMPT: super::Laziness = [1; 3];

/// The stages of a life, so that every kind of request occurs in it.
const LIFE: [fn(&mut World); 6] = [
    // The pool waits for its Cluster.
    |world| {
        world.change_pool(|pool| pool.spec.cluster_name = "missing".into());
        (0..6).for_each(|n| world.claim(&key(n), "", false));
    },
    // Claims of both families with equal names, and one too many. An address has been made for one of them by hand.
    |world| {
        world.by_hand(key(0), 4, POOL);
        world.change_pool(|pool| pool.spec.cluster_name = String::new());
    },
    // A claim and an address are taken away by force.
    |world| {
        world.vanish(&key(2));
        let told = world.claims.values().find(|claim| claim.address.is_some()).cloned();
        let objects: Vec<_> = world.addresses.values().cloned().collect();
        let taken = objects
            .iter()
            .find(|object| told.as_ref().is_some_and(|claim| claim.key == object.claim));
        let mut taken = (**taken.unwrap()).clone();
        taken.meta.finalizers.clear();
        taken.meta.is_deleting = true;
        world.write_address(taken);
    },
    |world| [0, 1, 3].into_iter().for_each(|n| world.delete(&key(n))),
    |world| (0..6).for_each(|n| world.claim(&key(n), "", false)),
    |world| {
        (0..6).for_each(|n| world.delete(&key(n)));
        world.delete_pool();
    },
];

/// Lives through everything with one manager that is killed once, at its `cut`-th request: before the server has it, or
/// after it and before the answer. Returns whether there was such a request, and of which kind it was.
fn walk(cut: usize, is_served: bool) -> Option<&'static str> {
    let mut world = World::new(5);
    let mut manager = [Manager::start(&world, 7, PROMPT, 0)];
    let mut count = 0;
    let mut was_cut = None;
    for (stage, happens) in LIFE.iter().enumerate() {
        happens(&mut world);
        for _ in 0..200 {
            manager[0].watch_all(&world);
            manager[0].decide(&world);
            while !manager[0].flights.is_empty() {
                count += 1;
                if count == cut {
                    was_cut = manager[0].flights.first().map(|flight| flight.effect.label());
                    if is_served {
                        manager[0].serve(&mut world, 0);
                    }
                    manager[0] = Manager::start(&world, 8, PROMPT, 0);
                    break;
                }
                manager[0].serve(&mut world, 0);
                manager[0].answer(&world, 0, false);
            }
            world.clock += Duration::from_millis(50);
        }
        settle(&mut world, &mut manager);
        if (1..LIFE.len() - 1).contains(&stage) {
            everything_is_in_order(&world, 5);
        }
    }
    assert!(
        world.pool.is_none() && world.claims.is_empty() && world.addresses.is_empty(),
        "something is left: {:?}",
        world.addresses
    );
    was_cut
}

/// Every kind of request there is.
const ALL: [&str; 10] = [
    "address_create",
    "address_delete",
    "address_own",
    "address_unlock",
    "adopt",
    "claim_finalizer",
    "claim_release",
    "claim_status",
    "pool_metadata",
    "pool_status",
];

#[test]
fn a_kill_at_any_request_changes_nothing_in_the_end() {
    for is_served in [false, true] {
        let cuts: Vec<&str> = (1..10_000).map_while(|cut| walk(cut, is_served)).collect();
        let kinds: BTreeSet<&str> = cuts.iter().copied().collect();
        assert_eq!(kinds, BTreeSet::from(ALL), "after {} requests", cuts.len());
    }
}

/// One manager alone never meets a conflict: its own writes do not get into each other's way.
#[test]
fn no_conflict_of_our_own_making() {
    let mut world = World::new(200);
    let key = |n: usize| ClaimKey {
        family: Family::ALL[n % 2],
        name: format!("c{n}"),
    };
    (0..100).for_each(|n| world.claim(&key(n), "", false));
    let mut manager = [Manager::start(&world, 3, PROMPT, 0)];
    settle(&mut world, &mut manager);
    everything_is_in_order(&world, 200);
    (0..100).for_each(|n| world.delete(&key(n)));
    settle(&mut world, &mut manager);
    assert!(world.addresses.is_empty() && world.claims.is_empty());
    assert_eq!(world.conflicts, 0);
}

/// When addresses were last given or freed is what `lastUpdated` says, and not when the pool was last written.
#[test]
fn last_updated_follows_the_addresses() {
    let mut world = World::new(5);
    let mut manager = [Manager::start(&world, 3, PROMPT, 0)];
    let mut after = |change: fn(&mut World)| {
        // It counts in seconds.
        world.clock += Duration::from_secs(2);
        change(&mut world);
        settle(&mut world, &mut manager);
        let status = world.pool.as_ref().and_then(|pool| pool.status.clone());
        status.and_then(|status| status.last_updated).unwrap().0
    };
    let made = after(|_| {});
    assert_eq!(made, jiff::Timestamp::UNIX_EPOCH, "when the pool was made");
    let given = after(|world| world.claim(&key(0), "", false));
    assert!(given > made);
    assert_eq!(after(|world| world.resize(6)), given);
    assert!(after(|world| world.delete(&key(0))) > given);
}

/// Nothing is given on trust in a status that the server does not keep; and not much is tried, either.
#[test]
fn a_definition_without_our_fields_is_told_and_gives_nothing_away() {
    let mut world = World::new(5);
    world.is_upstreams = true;
    (0..4).for_each(|n| world.claim(&key(n), "", false));
    let mut manager = [Manager::start(&world, 5, PROMPT, 0)];
    ten_minutes(&mut world, &mut manager[0]);
    assert!(world.addresses.is_empty());
    assert!(manager[0].told.contains(report::OUTDATED));
    assert!(
        world.logs[0].len() < 40,
        "{} writes in ten minutes",
        world.logs[0].len()
    );
    world.is_upstreams = false;
    settle(&mut world, &mut manager);
    everything_is_in_order(&world, 5);
}

/// Nor are claims told again and again what such a definition drops.
#[test]
fn a_definition_without_conditions_does_not_keep_anybody_busy() {
    let mut world = World::new(5);
    world.is_upstreams = true;
    let mut pool = (*world.pool.clone().unwrap()).clone();
    pool.annotations_mut()
        .insert("cluster.x-k8s.io/paused".to_owned(), String::new());
    world.write_pool(pool);
    (0..4).for_each(|n| world.claim(&key(n), "", false));
    let of_others = world.logs[1].len();
    let mut manager = Manager::start(&world, 5, PROMPT, 0);
    ten_minutes(&mut world, &mut manager);
    assert!(manager.told.contains(report::OUTDATED));
    let tries = world.logs[1].len() - of_others;
    assert!(tries < 4 * 40, "{tries} writes in ten minutes");
}

fn ten_minutes(world: &mut World, manager: &mut Manager) {
    for _ in 0..600 {
        manager.turn(world);
        world.clock += Duration::from_secs(1);
    }
}
