//! A pool of which nothing can be read or written for a while, or which rests.

use kube::ResourceExt;
use metal3_runtime::conditions;

use super::faults::{PROMPT, address, refusing, said};
use super::invariants::{everything_is_in_order, settle};
use super::manager::Manager;
use super::world::{World, key};
use crate::pool::effect::Effect;
use crate::pool::report;

fn reason(world: &World, n: u16) -> String {
    let ready = conditions::get(&world.claims[&key(n)].conditions, conditions::READY);
    ready.map(|ready| ready.reason.clone()).unwrap_or_default()
}

/// A pool with one claim that is served, when requests of a kind begin to be refused; then come more claims, and that one
/// goes. What they are told meanwhile, and that all is well as soon as it can be.
fn stuck(what: fn(&Effect) -> bool, words: &str) -> World {
    let mut world = World::new(5);
    let mut manager = [Manager::start(&world, 7, PROMPT, 0)];
    world.claim(&key(0), "", false);
    settle(&mut world, &mut manager);
    // Somebody writes the pool, which has to be read anew then.
    world.change_pool(|_| {});
    world.delete(&key(0));
    (1..5).for_each(|n| world.claim(&key(n), "", false));
    let before = world.logs[1].len();
    let tries = refusing(&mut world, &mut manager[0], 5, what);
    assert!((5..30).contains(&tries), "{tries} tries in five minutes");
    for n in 1..5 {
        let said = said(&world, &key(n));
        assert!(said.starts_with("IPPool ns/pool: ") && said.contains(words), "{said}");
        assert!(said.contains("refused: request "), "{said}");
        assert_eq!(reason(&world, n), "PoolNotReady");
    }
    assert!(manager[0].told.contains(report::WAITING));
    let writes = world.logs[1].len() - before;
    // A finalizer, and the second, fourth, eighth failure.
    assert!(writes <= 4 * 5, "{writes} writes of claims: they are told once");
    let meanwhile = World {
        claims: world.claims.clone(),
        ..World::default()
    };
    settle(&mut world, &mut manager);
    everything_is_in_order(&world, 5);
    assert!((1..5).all(|n| address(&world, &key(n)).is_some()));
    meanwhile
}

#[test]
fn claims_are_told_why_the_status_of_their_pool_cannot_be_written() {
    let is_record = |effect: &Effect| matches!(effect, Effect::Record(_));
    let meanwhile = stuck(is_record, "its status cannot be written");
    // A status that is too big becomes smaller by nothing else.
    assert!(!meanwhile.claims.contains_key(&key(0)), "its release does not wait");
}

#[test]
fn claims_are_told_why_addresses_cannot_be_read() {
    let meanwhile = stuck(
        |effect| matches!(effect, Effect::Refresh(_)),
        "its addresses cannot be read",
    );
    assert!(
        meanwhile.claims.contains_key(&key(0)),
        "nothing is done for what is not known"
    );
}

/// Thousands of claims may wait for a pool that rests. Who has been told is not looked at for each event of another one.
#[test]
fn claims_that_know_why_their_pool_rests_are_left_alone_until_that_changes() {
    let mut world = World::new(5);
    world.pause(true);
    (0..4).for_each(|n| world.claim(&key(n), "", false));
    let mut manager = [Manager::start(&world, 7, PROMPT, 0)];
    settle(&mut world, &mut manager);
    assert!(said(&world, &key(3)).contains("is paused by its annotation"));
    world.pause(false);
    world.change_pool(|pool| pool.spec.cluster_name = "missing".into());
    settle(&mut world, &mut manager);
    for n in 0..4 {
        let said = said(&world, &key(n));
        assert!(said.contains("waits for its Cluster ns/missing"), "{said}");
    }
    world.change_pool(|pool| pool.spec.cluster_name = String::new());
    settle(&mut world, &mut manager);
    everything_is_in_order(&world, 5);
    assert!(world.pool.as_ref().is_some_and(|pool| pool.finalizers().len() == 1));
}

/// Its objects may be on their way to another API server, whatever annotation there is besides.
#[test]
fn nothing_is_written_while_the_cluster_of_a_pool_is_paused() {
    let mut world = World::new(5);
    world.change_pool(|pool| pool.spec.cluster_name = "c".into());
    world.pause(true);
    (0..4).for_each(|n| world.claim(&key(n), "", false));
    let written = |world: &World| world.logs.each_ref().map(Vec::len);
    let before = written(&world);
    let mut manager = [Manager::start(&world, 7, PROMPT, 0)];
    manager[0].see_cluster("c", true);
    settle(&mut world, &mut manager);
    assert_eq!(written(&world), before);
    manager[0].see_cluster("c", false);
    settle(&mut world, &mut manager);
    assert!(said(&world, &key(3)).contains("is paused by its annotation"));
}
