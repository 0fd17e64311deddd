//! Candidates in a world of delays, lost messages, crashes and clocks that disagree: never two leaders.

use std::collections::BTreeMap;

use jiff::Timestamp;
use proptest::prelude::*;

use super::*;
use k8s_openapi::api::coordination::v1::Lease;

/// The lease, as an API server keeps it.
#[derive(Default)]
struct Server {
    lease: Option<Lease>,
    version: u64,
}

impl Server {
    fn write(&mut self, lease: &Lease) -> Option<Lease> {
        let present = self
            .lease
            .as_ref()
            .and_then(|lease| lease.metadata.resource_version.clone());
        if present != lease.metadata.resource_version {
            return None; // 409, or AlreadyExists for a create
        }
        self.version += 1;
        let mut stored = lease.clone();
        stored.metadata.resource_version = Some(self.version.to_string());
        self.lease = Some(stored.clone());
        Some(stored)
    }
}

/// How badly the world behaves.
#[derive(Clone, Debug)]
struct World {
    seed: u64,
    candidates: usize,
    /// Longest way of a message in either direction, in milliseconds.
    delay: u64,
    /// Of 1,000 messages in either direction, so many are lost.
    loss: u64,
    /// Of 100,000 steps of a candidate, so many end in a crash and a new process.
    crash: u64,
    /// Of 100,000 steps of a candidate, so many begin a time without requests or answers getting through, or either.
    outage: u64,
    /// Clocks run faster or slower by up to this share.
    skew: f64,
    /// From here on nothing goes wrong any more.
    calm_after: u64,
    /// The times that all candidates are told to keep.
    timing: Timing,
}

struct Player {
    candidate: Candidate,
    /// Its monotonic clock shows `offset + time · rate`.
    offset: u64,
    rate: f64,
    /// When it gives up on the request that it waits for, on its own clock.
    waiting: Option<Waiting>,
    generation: u64,
    /// Until when no request leaves it, and no answer reaches it. A new process on the same machine inherits both.
    cut_off: [u64; 2],
}

struct Waiting {
    give_up: Duration,
    write: bool,
}

enum Message {
    Read,
    Write(Box<Lease>),
    ReadAnswer(Option<Lease>),
    WriteAnswer(Option<Lease>),
}

impl Player {
    fn new(index: usize, generation: u64, random: &mut Random, world: &World) -> Self {
        let candidate = Candidate::new(format!("{index}-{generation}"), world.timing, random.next());
        let rate = 1.0 + world.skew * (2.0 * crate::backoff::unit(random.next()) - 1.0);
        Self {
            candidate,
            offset: random.below(1_000_000),
            rate,
            waiting: None,
            generation,
            cut_off: [0; 2],
        }
    }

    /// A new process takes the place of this one.
    fn restart(&mut self, index: usize, random: &mut Random, world: &World) {
        *self = Self {
            cut_off: self.cut_off,
            ..Self::new(index, self.generation + 1, random, world)
        };
    }

    fn now(&self, time: u64) -> Duration {
        #[expect(clippy::cast_precision_loss, reason = "a simulated hour has few milliseconds")]
        Duration::from_millis(self.offset).saturating_add(Duration::from_secs_f64(time as f64 * self.rate / 1000.0))
    }

    fn answer(&mut self, now: Duration, message: Option<Message>) {
        let Some(waiting) = self.waiting.take() else { return };
        match (message, waiting.write) {
            (Some(Message::ReadAnswer(lease)), _) => self.candidate.on_read(now, Some(lease)),
            (Some(Message::WriteAnswer(lease)), _) => self.candidate.on_written(now, lease),
            (_, false) => self.candidate.on_read(now, None),
            (_, true) => self.candidate.on_written(now, None),
        }
    }
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        crate::backoff::unit(self.0).to_bits() ^ self.0.rotate_left(17)
    }

    fn below(&mut self, end: u64) -> u64 {
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "small"
        )]
        let number = (crate::backoff::unit(self.next()) * end as f64) as u64;
        number
    }
}

/// What happened in a run.
#[derive(Debug, Default)]
struct Report {
    two_leaders_at: Option<u64>,
    terms: usize,
    led_at_end: bool,
    transitions: i32,
}

const TICK: u64 = 50;
const CALM: u64 = 60_000;
const TO_SERVER: usize = 0;
const FROM_SERVER: usize = 1;

/// A message under way: which direction, between the server and which process, about which of its requests.
struct Letter {
    direction: usize,
    player: usize,
    generation: u64,
    request: u64,
    message: Message,
}

struct Simulation<'a> {
    world: &'a World,
    random: Random,
    server: Server,
    players: Vec<Player>,
    /// The number of each player's last request.
    requests: Vec<u64>,
    /// By arrival.
    under_way: BTreeMap<(u64, u64), Letter>,
    sent: u64,
}

impl Simulation<'_> {
    fn calm(&self, time: u64) -> bool {
        time >= self.world.calm_after
    }

    fn send(&mut self, time: u64, letter: Letter) {
        let calm = self.calm(time);
        let delay = if calm {
            5
        } else {
            self.random.below(self.world.delay + 1)
        };
        let cut_off = self.players[letter.player].cut_off[letter.direction] > time;
        if calm || (!cut_off && self.random.below(1000) >= self.world.loss) {
            self.sent += 1;
            self.under_way.insert((time + delay, self.sent), letter);
        }
    }

    fn deliver(&mut self, time: u64) {
        while let Some(entry) = self.under_way.first_entry().filter(|entry| entry.key().0 <= time) {
            let letter = entry.remove();
            if letter.direction == TO_SERVER {
                let message = match letter.message {
                    Message::Read => Message::ReadAnswer(self.server.lease.clone()),
                    Message::Write(lease) => Message::WriteAnswer(self.server.write(&lease)),
                    Message::ReadAnswer(_) | Message::WriteAnswer(_) => unreachable!("the server gets no answers"),
                };
                self.send(
                    time,
                    Letter {
                        direction: FROM_SERVER,
                        message,
                        ..letter
                    },
                );
            } else {
                let player = &mut self.players[letter.player];
                if player.generation == letter.generation && self.requests[letter.player] == letter.request {
                    player.answer(player.now(time), Some(letter.message));
                }
            }
        }
    }

    fn misfortune(&mut self, index: usize, time: u64) {
        if self.random.below(100_000) < self.world.crash {
            self.players[index].restart(index, &mut self.random, self.world);
        }
        if self.random.below(100_000) < self.world.outage {
            let until = time + self.random.below(60_000);
            let directions = self.random.below(3) + 1; // requests, answers, or both
            for direction in [TO_SERVER, FROM_SERVER] {
                if directions & (1 << direction) != 0 {
                    self.players[index].cut_off[direction] = until;
                }
            }
        }
    }

    fn act(&mut self, index: usize, time: u64) {
        let player = &mut self.players[index];
        let now = player.now(time);
        if player.waiting.as_ref().is_some_and(|waiting| waiting.give_up <= now) {
            player.answer(now, None);
        }
        for _ in 0..10 {
            let player = &mut self.players[index];
            if player.waiting.is_some() {
                return;
            }
            let message = match player.candidate.step(now, Timestamp::UNIX_EPOCH) {
                Step::Sleep(pause) => {
                    assert!(!pause.is_zero());
                    return;
                }
                // The process ends, and its container is started again.
                Step::Lost(_) => return player.restart(index, &mut self.random, self.world),
                Step::Read => Message::Read,
                Step::Write(lease) => Message::Write(lease),
            };
            let write = matches!(message, Message::Write(_));
            player.waiting = Some(Waiting {
                give_up: now + player.candidate.patience(now),
                write,
            });
            self.requests[index] += 1;
            let (generation, request) = (player.generation, self.requests[index]);
            self.send(
                time,
                Letter {
                    direction: TO_SERVER,
                    player: index,
                    generation,
                    request,
                    message,
                },
            );
        }
        panic!("a candidate must not spin");
    }

    fn leaders(&self, time: u64) -> Vec<(usize, u64)> {
        let players = self.players.iter().enumerate();
        let leading = players.filter(|(_, player)| player.candidate.leads(player.now(time)));
        leading.map(|(index, player)| (index, player.generation)).collect()
    }
}

fn simulate(world: &World) -> Report {
    let mut random = Random(world.seed);
    let players = (0..world.candidates)
        .map(|index| Player::new(index, 0, &mut random, world))
        .collect();
    let requests = vec![0; world.candidates];
    let under_way = BTreeMap::new();
    let mut simulation = Simulation {
        world,
        random,
        server: Server::default(),
        players,
        requests,
        under_way,
        sent: 0,
    };
    let mut report = Report::default();
    let mut last = None;
    for time in (0..world.calm_after + CALM).step_by(usize::try_from(TICK).unwrap()) {
        simulation.deliver(time);
        for index in 0..world.candidates {
            if !simulation.calm(time) {
                simulation.misfortune(index, time);
            }
            simulation.act(index, time);
        }
        let leaders = simulation.leaders(time);
        if leaders.len() > 1 {
            report.two_leaders_at.get_or_insert(time);
        }
        if let Some(leader) = leaders.first() {
            report.terms += usize::from(last != Some(*leader));
            last = Some(*leader);
        }
        report.led_at_end = !leaders.is_empty();
    }
    let spec = simulation.server.lease.and_then(|lease| lease.spec);
    report.transitions = spec.and_then(|spec| spec.lease_transitions).unwrap_or_default();
    report
}

fn worlds() -> impl Strategy<Value = World> {
    let chances = (0_u64..400, 0_u64..60, 0_u64..1_000);
    (
        any::<u64>(),
        2_usize..5,
        0_u64..9_000,
        chances,
        0.0..0.15,
        30_000_u64..300_000,
    )
        .prop_map(
            |(seed, candidates, delay, (loss, crash, outage), skew, calm_after)| World {
                seed,
                candidates,
                delay,
                loss,
                crash,
                outage,
                skew,
                calm_after,
                timing: Timing::default(),
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn there_are_never_two_leaders_and_calm_brings_one(world in worlds()) {
        let report = simulate(&world);
        prop_assert_eq!(report.two_leaders_at, None, "{:?}", report);
        prop_assert!(report.led_at_end, "nobody leads a minute after the trouble ended: {:?}", report);
        prop_assert!(report.transitions + 1 >= i32::try_from(report.terms).unwrap(), "{:?}", report);
    }
}

/// The simulation sees changes of leadership, and two leaders where there must be some: otherwise the property above
/// would say nothing.
#[test]
fn the_simulation_notices() {
    let harsh = |seed, timing, skew| World {
        seed,
        candidates: 3,
        delay: 1_000,
        loss: 100,
        crash: 20,
        outage: 200,
        skew,
        calm_after: 300_000,
        timing,
    };
    let runs = |timing, skew| (0..100).map(move |seed| simulate(&harsh(seed, timing, skew)));
    let good = Timing::default();
    let terms: usize = runs(good, 0.1).map(|report| report.terms).sum();
    assert!(terms > 300, "only {terms} terms in 100 runs");
    assert_eq!(
        runs(good, 0.1).filter(|report| report.two_leaders_at.is_some()).count(),
        0
    );
    // A leader that holds on for longer than its lease, and clocks that run at half and one and a half times the speed.
    let greedy = Timing {
        renew: Duration::from_secs(20),
        ..good
    };
    let greedy = runs(greedy, 0.0)
        .filter(|report| report.two_leaders_at.is_some())
        .count();
    let skewed = runs(good, 0.6).filter(|report| report.two_leaders_at.is_some()).count();
    assert!(
        greedy > 5 && skewed > 3,
        "two leaders in {greedy} and {skewed} runs of 100"
    );
}
