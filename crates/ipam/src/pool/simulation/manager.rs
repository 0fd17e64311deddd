//! A manager: a book, how far its watches have come, and its requests on their way.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;

use super::Laziness;
use super::server::list;
use super::world::{Event, POOL, World};
use crate::pool::book::{Book, ClusterSeen, Policy};
use crate::pool::effect::{Effect, Moment, Outcome};
use crate::pool::seen::ClaimKey;

/// A request on its way: sent, or answered by the server and the answer under way.
pub struct Flight {
    pub effect: Effect,
    answer: Option<Outcome>,
}

pub struct Manager {
    book: Book,
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
            promises: 3,
            settle: Duration::from_millis(100),
            is_filtered: shows != [true; 3],
        };
        let mut manager = Self {
            book: Book::new("ns", POOL, policy),
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
        match event.clone() {
            Event::Pool(Some(pool), _) => self.book.see_pool(pool, None),
            Event::Pool(None, uid) => {
                self.book.lose_pool(&uid);
                self.book.departed(&uid);
            }
            Event::Claim(Some(claim), ..) => self.book.see_claim(claim),
            Event::Claim(None, key, uid) => {
                self.book.lose_claim(&key, &uid);
                self.book.departed(&uid);
            }
            Event::Address(Some(address), ..) => {
                if address.pool == POOL {
                    self.book.see_address(address);
                }
            }
            Event::Address(None, id, uid) => {
                self.book.lose_address(&id, &uid);
                self.book.lose_foreign(&id);
                self.book.departed(&uid);
            }
        }
        true
    }

    /// What the watch of Clusters shows.
    pub fn see_cluster(&mut self, name: &str, is_paused: bool) {
        let uid = name.to_owned();
        self.book.see_cluster(name, Some(&ClusterSeen { uid, is_paused }));
    }

    /// Everything is looked at again.
    pub fn resync(&mut self) {
        self.book.resync();
    }

    /// How many claims it would look at for any event.
    pub fn open(&self) -> usize {
        self.book.dirty.len()
    }

    /// All watches catch up.
    pub fn watch_all(&mut self, world: &World) {
        for log in 0..3 {
            while self.watch(world, log) {}
        }
    }

    /// The watch of one kind of claim is ahead of the other's: a claim is seen before everything that came earlier.
    pub fn watch_claim(&mut self, world: &World, key: &ClaimKey) {
        self.book.see_claim(world.claims[key].clone());
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
        let round = self.book.decide(Self::now(world), self.seed);
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
        if let Outcome::Adopted(adopted) = &mut outcome {
            (adopted.addresses, adopted.as_of) = list(world);
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

    /// The server refuses a request.
    pub fn refuse(&mut self, world: &World, which: usize, why: String) {
        if let Some(n) = self.pick(which, false) {
            let flight = self.flights.swap_remove(n);
            self.done(world, &flight.effect, Outcome::Failed(why));
        }
    }

    fn done(&mut self, world: &World, effect: &Effect, outcome: Outcome) {
        self.book.done(effect, outcome, Self::now(world), TOOK);
        self.told
            .extend(self.book.take_notes().iter().map(|told| told.note.reason));
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
