//! One thing after another, drawn from numbers.

use std::sync::Arc;
use std::time::Duration;

use metal3_api::ipam::IPPool;

use super::Step;
use super::manager::Manager;
use super::world::{CONSUMER, World, key};
use crate::pool::effect::Effect;

/// Requests whose sender does not wait for them any more.
#[derive(Default)]
pub struct Ghosts(Vec<Effect>);

impl Ghosts {
    fn one_arrives(&mut self, world: &mut World, which: usize) {
        if !self.0.is_empty() {
            let effect = self.0.swap_remove(which % self.0.len());
            world.execute(&effect);
        }
    }

    pub fn all_arrive(&mut self, world: &mut World) {
        for effect in self.0.drain(..) {
            world.execute(&effect);
        }
    }
}

pub fn happen(world: &mut World, managers: &mut [Manager], ghosts: &mut Ghosts, (what, who, n): Step) {
    let which = usize::from(n);
    let who = usize::from(who) % managers.len();
    let manager = &mut managers[who];
    let small = u8::try_from(n % 3 + 1).unwrap();
    world.clock += Duration::from_millis(20);
    match what {
        0..=39 => {
            let log = which % 3;
            if n / 3 % manager.laziness[log] == 0 {
                while manager.watch(world, log) && n.is_multiple_of(2) {}
            }
        }
        40..=70 => {
            manager.decide(world);
        }
        // One is fast while its watches sleep, and so the others see much of it at once, or nothing.
        71..=74 => manager.burst(world, 1 + which % 8),
        75..=129 => manager.serve(world, which),
        130..=179 => manager.answer(world, which, false),
        180..=184 => manager.answer(world, which, true),
        185..=190 => ghosts.0.extend(manager.give_up(world, which)),
        191..=210 => {
            let requested = if n.is_multiple_of(5) { "10.0.0.2" } else { "" };
            world.claim(&key(n), requested, n.is_multiple_of(7));
        }
        211..=223 => world.delete(&key(n)),
        224..=226 => world.change_claim(&key(n), |claim| claim.meta.finalizers.retain(|f| f != CONSUMER)),
        227..=228 => world.change_claim(&key(n), |_| {}),
        229..=230 => world.change_pool(|_| {}),
        231..=233 => world.resize(small),
        234 => world.pause(n.is_multiple_of(4)),
        235 => match world.pool {
            Some(_) if n.is_multiple_of(3) => world.delete_pool(),
            Some(_) => {}
            None => world.make_pool(2),
        },
        236 => world.by_hand(key(n / 5), small, "other"),
        237..=239 => world.by_hand(key(n / 5), small, super::world::POOL),
        // Killed; what it had sent arrives when it arrives. The next one begins with lists that may be old.
        240..=245 => {
            let lag = if n.is_multiple_of(2) { 0 } else { which % 8 };
            let next = Manager::start(world, n.into(), manager.laziness, lag);
            ghosts.0.extend(std::mem::replace(manager, next).unserved());
        }
        246..=251 => ghosts.one_arrives(world, which),
        252 => world.clock += Duration::from_secs(3),
        253 if n.is_multiple_of(2) => world.vanish(&key(n / 2)),
        253 => world.keep(which),
        _ => {
            let is_idle = managers.iter().all(|manager| manager.flights.is_empty()) && ghosts.0.is_empty();
            let is_settled = |pool: &Arc<IPPool>| pool.status.as_ref().is_none_or(|s| s.allocating.is_empty());
            // It happens to a pool that is at rest.
            if is_idle && world.pool.as_ref().is_some_and(is_settled) {
                world.wipe();
            }
        }
    }
}
