//! A manager: the state of a pool, how far its watches have come, and its requests on their way.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;

use super::Laziness;
use super::world::{POOL, World};
use crate::pool::effect::{Effect, Moment, Outcome, Snapshot};
use crate::pool::event::{ClusterSeen, Event, Tombstone};
use crate::pool::state::{Policy, PoolState};
use crate::pool::{decide, events, judge};

/// A request on its way: sent, or answered by the server and the answer under way.
pub struct Flight {
    pub effect: Effect,
    answer: Option<Outcome>,
}

pub struct Manager {
    state: PoolState,
    seen: [usize; 3],
    pub flights: Vec<Flight>,
    seed: u64,
    /// Reasons of everything that it has told users.
    pub told: BTreeSet<&'static str>,
    pub laziness: Laziness,
    /// Which of the watches show it something; addresses are never filtered.
    shows: [bool; 3],
}

/// How long a request took that was answered.
const TOOK: Duration = Duration::from_millis(5);

impl Manager {
    /// It begins with lists that lack the last `lag` events of each kind.
    pub fn start(world: &World, seed: u64, laziness: Laziness, lag: usize) -> Self {
        Self::start_with(world, seed, laziness, lag, [true; 3])
    }

    /// One whose watch filter hides the claims of the pool, and the pool unless `sees_pool`.
    pub fn start_filtered(world: &World, seed: u64, sees_pool: bool) -> Self {
        Self::start_with(world, seed, [1; 3], 0, [sees_pool, false, true])
    }

    fn start_with(world: &World, seed: u64, laziness: Laziness, lag: usize, shows: [bool; 3]) -> Self {
        let policy = Policy {
            orphan_grace: Duration::from_secs(5),
            batch: 5,
            reservations: 3,
            settle: Duration::from_millis(100),
        };
        let mut manager = Self {
            state: PoolState::new("ns", POOL, policy, if shows == [true; 3] { "" } else { "blue" }),
            seen: [0; 3],
            flights: Vec::new(),
            seed,
            told: BTreeSet::new(),
            laziness,
            shows,
        };
        for log in 0..3 {
            while manager.seen[log] + lag < world.logs[log].len() && manager.watch(world, log) {}
        }
        manager
    }

    fn now(world: &World) -> Moment {
        Moment {
            wall: Timestamp::from_second(world.seconds()).unwrap(),
            elapsed: world.clock,
        }
    }

    /// One event of a watch arrives.
    pub fn watch(&mut self, world: &World, log: usize) -> bool {
        let Some(event) = world.logs[log].get(self.seen[log]) else {
            return false;
        };
        self.seen[log] += 1;
        if !self.shows[log] {
            return true;
        }
        match event {
            Event::Address(address) if address.pool != POOL => {}
            event => {
                if let Event::Removed(Tombstone::Address { id, .. }, _) = event {
                    self.state.absorb(Event::NameFreed(id.clone()), world.clock);
                }
                self.state.absorb(event.clone(), world.clock);
            }
        }
        true
    }

    /// What the watch of Clusters shows.
    pub fn see_cluster(&mut self, name: &str, is_paused: bool) {
        let seen = ClusterSeen {
            uid: name.to_owned(),
            is_paused,
        };
        self.state
            .absorb(Event::Cluster(name.to_owned(), Some(seen)), Duration::ZERO);
    }

    /// Everything is looked at again.
    pub fn resync(&mut self) {
        self.state.absorb(Event::Resync, Duration::ZERO);
    }

    /// All watches catch up.
    pub fn watch_all(&mut self, world: &World) {
        for log in 0..3 {
            while self.watch(world, log) {}
        }
    }

    /// Its watches catch up, and all requests of the next round are answered. `refuses` says why one is refused.
    pub fn turn_with(&mut self, world: &mut World, mut refuses: impl FnMut(&Effect) -> Option<String>) -> Vec<Effect> {
        self.watch_all(world);
        self.decide(world);
        let effects = self.flights.iter().map(|flight| flight.effect.clone()).collect();
        while let Some(flight) = self.flights.first() {
            if let Some(why) = refuses(&flight.effect) {
                self.refuse(world, why);
            } else {
                self.serve(world, 0);
                self.answer(world, 0, false);
            }
        }
        effects
    }

    /// The same, and nothing is refused. Returns the requests.
    pub fn turn(&mut self, world: &mut World) -> Vec<Effect> {
        self.turn_with(world, |_| None)
    }

    /// Some rounds in a row, with all answers and without any news.
    pub fn burst(&mut self, world: &mut World, rounds: usize) {
        for _ in 0..rounds {
            self.decide(world);
            while !self.flights.is_empty() {
                self.serve(world, 0);
                self.answer(world, 0, false);
            }
        }
    }

    /// The next round, if the last one is over.
    pub fn decide(&mut self, world: &World) -> Option<Duration> {
        if !self.flights.is_empty() {
            return None;
        }
        self.seed = self.seed.wrapping_add(1);
        self.state.round_over();
        let round = decide(&self.state, Self::now(world), self.seed);
        let flight = |effect| Flight { effect, answer: None };
        self.flights = round.effects.into_iter().map(flight).collect();
        round.again
    }

    /// The server deals with one request.
    pub fn serve(&mut self, world: &mut World, which: usize) {
        if let Some(n) = self.pick(which, false) {
            let flight = &mut self.flights[n];
            flight.answer = Some(world.execute(&flight.effect));
        }
    }

    /// One answer arrives, or is lost on its way.
    pub fn answer(&mut self, world: &World, which: usize, is_lost: bool) {
        let Some(n) = self.pick(which, true) else { return };
        let flight = self.flights.swap_remove(n);
        let mut outcome = flight.answer.unwrap();
        if let Outcome::Snapshot(Snapshot { objects, .. }) = &mut outcome {
            // They are read after the pool: the addresses while the request is under way, the claims last.
            let last = world.listed();
            let read = std::sync::Arc::make_mut(objects);
            (read.claims, read.claims_as_of) = (last.claims, last.claims_as_of);
        }
        if is_lost {
            outcome = Outcome::Failed("the connection broke".into());
        }
        self.done(world, &flight.effect, outcome);
    }

    /// A request gets no answer in time. It may still arrive.
    pub fn give_up(&mut self, world: &World, which: usize) -> Option<Effect> {
        let n = self.pick(which, false)?;
        let flight = self.flights.swap_remove(n);
        self.done(world, &flight.effect, Outcome::Failed("no answer in time".into()));
        Some(flight.effect)
    }

    /// The server refuses the first request.
    fn refuse(&mut self, world: &World, why: String) {
        let flight = self.flights.swap_remove(0);
        self.done(world, &flight.effect, Outcome::Failed(why));
    }

    fn done(&mut self, world: &World, effect: &Effect, outcome: Outcome) {
        let answer = judge(effect, outcome);
        self.state.absorb_answer(effect, &answer, world.clock, TOOK);
        let event = events(&self.state, effect, &answer);
        self.told.extend(event.map(|event| event.event.reason));
    }

    /// What it had sent and what the server has not dealt with yet.
    pub fn unserved(self) -> impl Iterator<Item = Effect> {
        let flights = self.flights.into_iter();
        flights
            .filter(|flight| flight.answer.is_none())
            .map(|flight| flight.effect)
    }

    fn pick(&self, which: usize, is_answered: bool) -> Option<usize> {
        let fitting = |(n, flight): (usize, &Flight)| (flight.answer.is_some() == is_answered).then_some(n);
        let fitting: Vec<usize> = self.flights.iter().enumerate().filter_map(fitting).collect();
        fitting.get(which % fitting.len().max(1)).copied()
    }
}
