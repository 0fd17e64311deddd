//! Simulates a minimal API server, one or several managers whose caches lag, requests that are lost or late, crashes at any
//! moment, and users.
//!
//! Invariants at every step: no address has two holders, a claim that was given an address never gets another one, and an address
//! is created only after it is reserved for a claim with our finalizer. At the end: every claim is served or reports why not,
//! every deleted claim is gone, and no address is left over.

mod faults;
mod happen;
mod invariants;
mod manager;
mod order;
mod others;
mod server;
mod stuck;
mod walk;
mod world;

use proptest::prelude::*;

use self::happen::{Ghosts, happen};
use self::invariants::{everything_is_in_order, settle};
use self::manager::Manager;
use self::world::World;

/// Schedules that are tried with each number of managers, or as many times more as `cargo xtask test --explore=TIMES`
/// asks for.
fn schedules() -> ProptestConfig {
    let times = std::env::var("EXPLORE_TIMES").map_or(1, |times| times.parse().unwrap());
    ProptestConfig {
        cases: 256 * times,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

/// What happens, to whom, and a number for the details.
type Step = (u8, u8, u16);

/// How lazy each of a manager's three watches is: of so many chances to catch up, it takes one.
type Laziness = [u16; 3];

/// Everything that is left to chance.
type Schedule = (Vec<Laziness>, Vec<Step>);

fn schedule() -> impl Strategy<Value = Schedule> {
    let laziness = || prop_oneof![3 => Just(1_u16), 1 => Just(4), 1 => Just(30)];
    let watches = (laziness(), laziness(), laziness()).prop_map(<[u16; 3]>::from);
    let step = (any::<u8>(), any::<u8>(), any::<u16>());
    (prop::collection::vec(watches, 3), prop::collection::vec(step, 100..900))
}

/// Lets things happen to some managers of one pool, and looks at what has become of it.
fn live(managers: usize, (laziness, steps): Schedule) {
    const LAST: u8 = 6;
    let mut world = World::new(2);
    let start = |number: usize| Manager::start(&world, 1000 * number as u64, laziness[number], 0);
    let mut managers: Vec<Manager> = (0..managers).map(start).collect();
    let mut ghosts = Ghosts::default();
    for step in steps {
        happen(&mut world, &mut managers, &mut ghosts, step);
    }
    // The late ones arrive at last, in the middle of everything else.
    ghosts.all_arrive(&mut world);
    world.calm_down(LAST);
    settle(&mut world, &mut managers);
    if world.pool.is_none() {
        world.make_pool(LAST);
        settle(&mut world, &mut managers);
    }
    everything_is_in_order(&world, LAST.into());
}

proptest! {
    #![proptest_config(schedules())]

    /// One manager, which is killed and started anew.
    #[test]
    fn one_manager_in_any_order(schedule in schedule()) {
        live(1, schedule);
    }

    /// Two at once, as when one goes on that has lost its lease.
    #[test]
    fn two_managers_in_any_order(schedule in schedule()) {
        live(2, schedule);
    }

    /// Nothing depends on there being only two.
    #[test]
    fn three_managers_in_any_order(schedule in schedule()) {
        live(3, schedule);
    }
}
