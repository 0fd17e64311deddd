//! What stands in the way of some claims, and must not stand in the way of the others.

use std::time::Duration;

use kube::ResourceExt;
use metal3_api::capi::names::label::WATCH_FILTER;
use metal3_runtime::conditions;

use super::invariants::settle;
use super::manager::Manager;
use super::world::{World, key};
use crate::pool::effect::Effect;
use crate::pool::objects::ClaimKey;

/// Watches that do not lag.
pub const PROMPT: super::Laziness = [1; 3];

/// What a claim's condition says.
pub fn said(world: &World, key: &ClaimKey) -> String {
    let ready = conditions::get(&world.claims[key].conditions, conditions::READY);
    ready.map(|ready| ready.message.clone()).unwrap_or_default()
}

pub fn address(world: &World, key: &ClaimKey) -> Option<String> {
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
        "{tries} objects were tried in vain: one for each reservation of one round would do"
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
    super::invariants::everything_is_in_order(&world, 6);
}

/// The only address of a pool is held by a claim; an older and a younger one wait for it.
fn two_wait(world: &mut World, manager: &mut [Manager; 1]) -> [ClaimKey; 3] {
    let [holder, older, younger] = [key(0), key(3), key(4)];
    for key in [&holder, &older, &younger] {
        world.claim(key, "", false);
        world.change_claim(&older, |claim| claim.cluster = "cl".to_owned());
        settle(world, manager);
    }
    assert!(said(world, &older).contains("all are in use") && said(world, &younger).contains("all are in use"));
    [holder, older, younger]
}

#[test]
fn a_claim_that_rests_does_not_keep_others_waiting() {
    let mut world = World::new(1);
    let mut manager = [Manager::start(&world, 7, PROMPT, 0)];
    manager[0].see_cluster("cl", false);
    let [holder, older, younger] = two_wait(&mut world, &mut manager);
    manager[0].see_cluster("cl", true);
    world.delete(&holder);
    settle(&mut world, &mut manager);
    assert!(address(&world, &younger).is_some(), "{}", said(&world, &younger));
    // It has lost nothing but its turn.
    manager[0].see_cluster("cl", false);
    settle(&mut world, &mut manager);
    assert_eq!(address(&world, &older), None);
    world.delete(&younger);
    settle(&mut world, &mut manager);
    assert!(address(&world, &older).is_some(), "{}", said(&world, &older));
}

#[test]
fn a_claim_that_cannot_have_what_is_free_does_not_keep_others_waiting() {
    let mut world = World::new(1);
    // Cluster API's claims cannot have such a prefix.
    world.change_pool(|pool| pool.spec.pools[0].prefix = -1);
    let mut manager = [Manager::start(&world, 7, PROMPT, 0)];
    manager[0].see_cluster("cl", false);
    let [holder, _, younger] = two_wait(&mut world, &mut manager);
    world.delete(&holder);
    settle(&mut world, &mut manager);
    assert!(address(&world, &younger).is_some(), "{}", said(&world, &younger));
}

/// Some minutes, in which the server refuses some requests with another text each time. Returns how many it has refused.
pub fn refusing(world: &mut World, manager: &mut Manager, minutes: u32, what: fn(&Effect) -> bool) -> usize {
    let mut count = 0;
    for _ in 0..minutes * 600 {
        manager.turn_with(world, |effect| {
            what(effect).then(|| {
                count += 1;
                format!("refused: request {count}")
            })
        });
        world.clock += Duration::from_millis(100);
    }
    count
}

#[test]
fn a_failure_that_is_told_anew_each_time_is_not_tried_without_a_pause() {
    let mut world = World::new(5);
    let mut manager = [Manager::start(&world, 7, PROMPT, 0)];
    world.claim(&key(0), "", false);
    let tries = refusing(&mut world, &mut manager[0], 1, |effect| {
        matches!(effect, Effect::Create(_))
    });
    assert!((2..20).contains(&tries), "{tries} tries in a minute");
    assert!(
        said(&world, &key(0)).contains("refused: request "),
        "{}",
        said(&world, &key(0))
    );
    settle(&mut world, &mut manager);
    assert!(address(&world, &key(0)).is_some());
}

#[test]
fn quoted_texts_of_any_length_leave_room_for_an_answer() {
    let mut world = World::new(5);
    world.change_pool(|pool| pool.spec.pools[0].start = "x".repeat(40_000));
    let mut manager = [Manager::start(&world, 7, PROMPT, 0)];
    world.claim(&key(0), &"y".repeat(40_000), false);
    settle(&mut world, &mut manager);
    let pool = world.pool.as_ref().and_then(|pool| pool.status.clone()).unwrap();
    let conditions = pool.conditions.iter().chain(&world.claims[&key(0)].conditions);
    let lengths: Vec<usize> = conditions.map(|condition| condition.message.len()).collect();
    // What the definitions allow is 32768.
    assert!(
        lengths.iter().any(|length| *length > 4000),
        "nothing is quoted: {lengths:?}"
    );
    assert!(lengths.iter().all(|length| *length <= 32_768), "{lengths:?}");
    assert!(said(&world, &key(0)).contains("Invalid ipAddress annotation"));
}

/// An hour of a manager with a watch filter. Returns what it asked for.
fn an_hour(world: &mut World, manager: &mut Manager) -> Vec<&'static str> {
    let mut asked = Vec::new();
    for _ in 0..3600 {
        asked.extend(manager.turn(world).iter().map(Effect::label));
        world.clock += Duration::from_secs(1);
    }
    asked
}

#[test]
fn what_a_watch_filter_hides_is_left_to_those_who_see_it() {
    let mut world = World::new(5);
    let mut others = [Manager::start(&world, 7, PROMPT, 0)];
    (0..4).for_each(|n| world.claim(&key(n), "", false));
    settle(&mut world, &mut others);
    let mut manager = Manager::start_filtered(&world, 8, false);
    assert_eq!(an_hour(&mut world, &mut manager), Vec::<&str>::new());
    // Nor is the address of a claim that vanished removed: the pool may be paused, or its manager be away.
    world.claims.remove(&key(0));
    let before = world.addresses.len();
    assert_eq!(an_hour(&mut world, &mut manager), Vec::<&str>::new());
    assert_eq!(world.addresses.len(), before);
}

#[test]
fn claims_that_a_watch_filter_hides_are_read_once() {
    let mut world = World::new(5);
    let mut others = [Manager::start(&world, 7, PROMPT, 0)];
    (0..4).for_each(|n| world.claim(&key(n), "", false));
    settle(&mut world, &mut others);
    world.change_pool(|pool| drop(pool.labels_mut().insert(WATCH_FILTER.to_owned(), "blue".to_owned())));
    let before = world.addresses.len();
    let mut manager = Manager::start_filtered(&world, 8, true);
    assert_eq!(an_hour(&mut world, &mut manager), ["adopt"]);
    assert_eq!(world.addresses.len(), before, "they are in use");
}
