//! The slots against a small Ironic: any order of wishes, acts, lists, deaths and strangers.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::json;

use super::*;
use metal3_runtime::store::ObjectKey;

fn key(n: usize) -> ObjectKey {
    key_in("ns", n)
}

fn key_in(namespace: &str, n: usize) -> ObjectKey {
    ObjectKey {
        namespace: namespace.into(),
        name: format!("h{n}"),
    }
}

fn at(second: i64) -> Turn {
    Turn::Wanted(Timestamp::from_second(1_700_000_000 + second).unwrap())
}

fn begun(second: i64) -> Turn {
    Turn::Begun(Timestamp::from_second(1_700_000_000 + second).unwrap())
}

fn none() -> Busy {
    Busy::default()
}

/// Nodes of that namespace, or of nobody.
fn busy<'n>(nodes: impl IntoIterator<Item = &'n str>, namespace: Option<&str>) -> Busy {
    let mut busy = none();
    for node in nodes {
        busy.add(node, namespace);
    }
    busy
}

fn stranger() -> Busy {
    busy(["stranger"], None)
}

fn place(slot: Slot) -> usize {
    match slot {
        Slot::Granted => 0,
        Slot::Queued(place) => place.number,
        Slot::Unsorted => panic!("all hosts are listed"),
    }
}

#[test]
fn busy_nodes_count_unless_their_ramdisk_comes_by_virtual_media() {
    let node = |state: &str, boot: Option<&str>| {
        let record = json!({"uuid": "u", "provision_state": state, "boot_interface": boot});
        is_counted(&serde_json::from_value(record).unwrap())
    };
    for state in [
        "cleaning",
        "clean wait",
        "inspecting",
        "inspect wait",
        "deploying",
        "wait call-back",
        "deleting",
    ] {
        assert!(node(state, Some("ipxe")), "{state}");
        assert!(node(state, None), "{state}");
        for boot in ["redfish-virtual-media", "idrac-redfish-virtual-media", "redfish-https"] {
            assert!(!node(state, Some(boot)), "{state} {boot}");
        }
    }
    for state in [
        "available",
        "manageable",
        "active",
        "servicing",
        "clean failed",
        "adopting",
        "verifying",
    ] {
        assert!(!node(state, Some("ipxe")), "{state}");
    }
}

#[test]
fn a_slot_is_taken_until_a_list_that_is_newer_than_the_act() {
    let mut slots = Slots::new(1);
    assert_eq!(slots.ask(&key(1), "u1", at(0), Some(&none())), Slot::Granted);
    slots.acted(&key(1), Duration::from_secs(5));
    assert!(!slots.done(&key(1), false));
    // A list that was on its way when the act was made shows the node as it was before.
    slots.listed(Duration::from_secs(4));
    assert_eq!(place(slots.ask(&key(2), "u2", at(1), Some(&none()))), 1);
    assert_eq!(slots.calls(&none(), Duration::ZERO), []);
    slots.done(&key(2), false);
    slots.listed(Duration::from_secs(6));
    assert_eq!(slots.calls(&busy(["u1"], Some("ns")), Duration::ZERO), []);
    assert_eq!(slots.calls(&none(), Duration::ZERO), [key(2)]);
    assert_eq!(slots.calls(&none(), Duration::ZERO), [], "called once");
    assert_eq!(slots.ask(&key(2), "u2", at(1), Some(&none())), Slot::Granted);
}

#[test]
fn whoever_gives_its_slot_back_or_goes_lets_the_next_come() {
    let mut slots = Slots::new(1);
    slots.ask(&key(1), "u1", at(0), Some(&none()));
    for n in 2..=4 {
        assert_eq!(place(slots.ask(&key(n), "", at(1), Some(&none()))), n - 1);
        slots.done(&key(n), false);
    }
    assert!(slots.done(&key(1), false), "nothing was done with it");
    assert_eq!(slots.calls(&none(), Duration::ZERO), [key(2)]);
    // The host has changed its mind: its reconciliation does not ask.
    assert!(slots.done(&key(2), false));
    assert_eq!(slots.calls(&none(), Duration::ZERO), [key(3)]);
    slots.forget(&key(3));
    assert_eq!(slots.calls(&none(), Duration::ZERO), [key(4)]);
    assert_eq!(slots.waiting(), 1);
}

/// An API server that refuses what comes before the wish, say.
#[test]
fn whoever_could_not_ask_keeps_its_place_and_holds_nobody_up() {
    let mut slots = Slots::new(1);
    slots.ask(&key(1), "u1", at(0), Some(&none()));
    for n in 2..=4 {
        slots.ask(&key(n), "", at(1), Some(&none()));
        slots.done(&key(n), true);
    }
    assert!(!slots.done(&key(2), true), "its turn has not come: nothing changes");
    assert_eq!(place(slots.ask(&key(3), "u3", at(1), Some(&none()))), 2);
    slots.done(&key(3), true);
    slots.done(&key(1), false);
    assert_eq!(slots.calls(&none(), Duration::ZERO), [key(2)]);
    assert!(slots.done(&key(2), true), "it stands aside");
    assert!(!slots.done(&key(2), true));
    assert_eq!(slots.waiting(), 3);
    assert_eq!(slots.calls(&none(), Duration::ZERO), [key(3)]);
    // Back in its place, also among those who came in the same second.
    assert_eq!(place(slots.ask(&key(4), "u4", at(1), Some(&none()))), 2);
    assert_eq!(place(slots.ask(&key(2), "u2", at(1), Some(&stranger()))), 1);
    assert_eq!(slots.ask(&key(2), "u2", at(1), Some(&none())), Slot::Granted);
    assert!(slots.done(&key(2), true), "not used");
    assert!(slots.done(&key(3), false), "it changed its mind");
    assert_eq!(slots.calls(&none(), Duration::ZERO), [key(4)]);
}

#[test]
fn a_restart_keeps_the_order_whoever_asks_first() {
    let mut slots = Slots::new(1);
    for (n, second) in [(1, 30), (2, 10), (3, 20)] {
        slots.remember(&key(n), at(second));
    }
    assert_eq!(slots.ask(&key(3), "u3", at(20), None), queued(2, 1), "not listed yet");
    assert_eq!(place(slots.ask(&key(1), "u1", at(30), Some(&none()))), 3);
    assert_eq!(place(slots.ask(&key(3), "u3", at(20), Some(&none()))), 2);
    assert_eq!(slots.ask(&key(2), "u2", at(10), Some(&none())), Slot::Granted);
}

#[test]
fn what_was_begun_is_brought_to_an_end_first() {
    let mut slots = Slots::new(0);
    for (n, turn, place) in [(1, at(0), 1), (2, begun(20), 1), (3, begun(10), 1), (4, at(30), 4)] {
        assert_eq!(slots.ask(&key(n), "", turn, Some(&none())), queued(place, 0));
        slots.done(&key(n), true);
    }
    assert_eq!(place(slots.ask(&key(1), "", at(0), Some(&none()))), 3);
}

fn queued(number: usize, limit: usize) -> Slot {
    Slot::Queued(Place {
        number,
        limit,
        reserved: 0,
    })
}

// OWN 29n: a host was told that all slots were taken while one was kept for other namespaces.
#[test]
fn a_host_is_told_how_many_slots_are_kept_for_others() {
    let mut slots = Slots::new(2);
    for namespace in ["a", "b"] {
        slots.meet(namespace);
    }
    let busy = busy(["u0"], Some("a"));
    let Slot::Queued(place) = slots.ask(&key_in("a", 1), "u1", at(1), Some(&busy)) else {
        panic!("it is kept for the other namespace");
    };
    assert_eq!((place.limit, place.reserved), (2, 1));
}

#[test]
fn a_long_queue_is_told_rarely() {
    let mut slots = Slots::new(0);
    for n in 1..=100 {
        slots.ask(&key(n), "", at(0), Some(&none()));
        slots.done(&key(n), false);
    }
    let mut told = Vec::new();
    for n in 1..100 {
        slots.forget(&key(n));
        if let Slot::Queued(place) = slots.ask(&key(100), "", at(0), Some(&none()))
            && told.last() != Some(&place.number)
        {
            told.push(place.number);
        }
        slots.done(&key(100), false);
    }
    assert_eq!(told, [100, 50, 25, 12, 6, 3, 2, 1]);
}

#[test]
fn those_who_come_nearer_are_woken_now_and_then() {
    let mut slots = Slots::new(1);
    let busy = stranger();
    for n in 1..=4 {
        slots.ask(&key(n), "", at(0), Some(&busy));
        slots.done(&key(n), false);
    }
    slots.forget(&key(1));
    assert_eq!(slots.calls(&busy, Duration::from_secs(29)), []);
    let woken = slots.calls(&busy, Duration::from_secs(31));
    assert_eq!(woken, [key(2), key(3), key(4)]);
    for host in &woken {
        slots.ask(host, "", at(0), Some(&busy));
        slots.done(host, false);
    }
    assert_eq!(slots.calls(&busy, Duration::from_secs(120)), []);
}

/// One thing that happens.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// A host is reconciled; whether it then acts.
    Reconcile(usize, bool),
    /// A host is reconciled, and something keeps it from asking.
    Fail(usize),
    /// What a host's node does is over.
    Finish(usize),
    /// Ironic is listed.
    List,
    /// A list is asked for now and taken later.
    AskForList,
    /// Somebody else sets a node to work.
    Stranger(usize),
    /// A host is deleted.
    Forget(usize),
    /// The process ends and begins anew.
    Restart,
}

fn event() -> impl Strategy<Value = Event> {
    let host = 0..12_usize;
    prop_oneof![
        6 => (host.clone(), any::<bool>()).prop_map(|(n, acts)| Event::Reconcile(n, acts)),
        2 => host.clone().prop_map(Event::Fail),
        3 => host.clone().prop_map(Event::Finish),
        3 => Just(Event::List),
        2 => Just(Event::AskForList),
        1 => (12..15_usize).prop_map(Event::Stranger),
        1 => host.prop_map(Event::Forget),
        1 => Just(Event::Restart),
    ]
}

/// Hosts, the real Ironic behind the lists, and one process.
struct Site {
    slots: Slots,
    limit: usize,
    /// Nodes at work, truly.
    busy: HashSet<String>,
    /// As the last list had them.
    listed: Option<Busy>,
    /// A list that is on its way: when it was asked for, and what it says.
    pending: Option<(Duration, HashSet<String>)>,
    /// When each host that waits was first told so, as its condition would have it.
    arrivals: BTreeMap<usize, Turn>,
    now: i64,
}

impl Site {
    fn clock(&self) -> Duration {
        Duration::from_secs(self.now.unsigned_abs())
    }

    fn reconcile(&mut self, n: usize, acts: bool) {
        let node = format!("u{n}");
        if self.busy.contains(&node) {
            self.slots.done(&key(n), false); // waits for its node
            return;
        }
        let since = self.arrivals.get(&n).copied().unwrap_or_else(|| at(self.now));
        match self.slots.ask(&key(n), &node, since, self.listed.as_ref()) {
            Slot::Granted => {
                self.arrivals.remove(&n);
                if acts {
                    let ours = self.busy.iter().filter(|b| !b.starts_with('s')).count();
                    // What is free is what a list, however old, left over: strangers may come at any time, we may not.
                    assert!(ours < self.limit, "{n} is one too many: {:?}", self.busy);
                    self.busy.insert(node);
                    self.slots.acted(&key(n), self.clock());
                }
            }
            Slot::Unsorted => panic!("all hosts are listed"),
            Slot::Queued(_) => {
                self.arrivals.entry(n).or_insert(since);
            }
        }
        self.slots.done(&key(n), self.arrivals.contains_key(&n));
    }

    fn take(&mut self, asked: Duration, list: &HashSet<String>) {
        let list = busy(list.iter().map(String::as_str), Some("ns"));
        self.slots.listed(asked);
        self.slots.calls(&list, self.clock());
        self.listed = Some(list);
    }

    fn live(&mut self, event: Event) {
        self.now += 1;
        match event {
            Event::Reconcile(n, acts) => self.reconcile(n, acts),
            Event::Fail(n) => {
                self.slots.done(&key(n), self.arrivals.contains_key(&n));
            }
            Event::Finish(n) => {
                self.busy.remove(&format!("u{n}"));
            }
            Event::List => match self.pending.take() {
                Some((asked, list)) => self.take(asked, &list),
                None => self.take(self.clock(), &self.busy.clone()),
            },
            Event::AskForList => {
                self.pending = Some((self.clock(), self.busy.clone()));
            }
            Event::Stranger(n) => {
                let node = format!("s{n}");
                if !self.busy.remove(&node) {
                    self.busy.insert(node);
                }
            }
            Event::Forget(n) => {
                self.slots.forget(&key(n));
                self.arrivals.remove(&n);
            }
            Event::Restart => {
                self.slots = Slots::new(self.limit);
                self.listed = None;
                self.pending = None;
                for (n, since) in &self.arrivals {
                    self.slots.remember(&key(*n), *since);
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    /// We never set more nodes to work than there are slots, and in the end everybody gets one, first come first served.
    #[test]
    fn never_one_too_many_and_nobody_forgotten(limit in 1..5_usize, events in prop::collection::vec(event(), 1..120)) {
        // D14 of upstream's: whoever counts free slots first and acts later overshoots; all nodes are listed for it.
        let mut site = Site { slots: Slots::new(limit), limit, busy: HashSet::new(), listed: None, pending: None,
            arrivals: BTreeMap::new(), now: 0 };
        for event in events {
            site.live(event);
        }
        // Whoever stands aside comes back when it can ask again.
        site.listed = None;
        for n in site.arrivals.clone().into_keys() {
            site.live(Event::Reconcile(n, false));
        }
        site.busy.clear();
        // Two lists: one may have been on its way.
        site.live(Event::List);
        site.live(Event::List);
        let mut waiting: Vec<_> = site.arrivals.iter().map(|(n, since)| (*since, *n)).collect();
        waiting.sort_unstable();
        let mut rounds = 0;
        while !site.arrivals.is_empty() {
            rounds += 1;
            prop_assert!(rounds < 50, "forgotten: {:?} {:?}", site.arrivals, site.slots);
            // Whoever asks out of turn is not served.
            let before = site.arrivals.clone();
            for (_, n) in waiting.iter().rev() {
                site.live(Event::Reconcile(*n, true));
            }
            let served: Vec<_> = before.keys().filter(|n| !site.arrivals.contains_key(n)).collect();
            let latest = served.iter().filter_map(|n| before.get(n)).max();
            let passed_over = site.arrivals.values().min();
            prop_assert!(latest.is_none() || passed_over.is_none() || latest <= passed_over, "{before:?} {served:?}");
            waiting.retain(|(_, n)| site.arrivals.contains_key(n));
            site.busy.clear();
            site.live(Event::List);
        }
    }
}

// OWN 22a: hosts of one tenant that hung in `clean wait` had every slot, and its other hosts came before those of the others.
#[test]
fn the_next_slot_goes_to_the_namespace_that_holds_the_fewest() {
    let mut slots = Slots::new(4);
    for n in 0..1000 {
        slots.ask(&key_in("tarpit", n), "", begun(0), Some(&none()));
        slots.done(&key_in("tarpit", n), n >= 4);
    }
    let hang = |nodes: usize| busy(["u0", "u1", "u2", "u3"].into_iter().take(nodes), Some("tarpit"));
    slots.listed(Duration::MAX);
    for n in 0..3 {
        let place = slots.ask(&key_in("other", n), "", at(50), Some(&hang(4)));
        assert_eq!(place, queued(n + 1, 4), "the place is that in its own namespace");
        slots.done(&key_in("other", n), true);
    }
    assert_eq!(slots.calls(&hang(4), Duration::ZERO), []);
    assert_eq!(slots.calls(&hang(3), Duration::ZERO), [key_in("other", 0)]);
    let asked = slots.ask(&key_in("tarpit", 4), "u4", begun(0), Some(&hang(3)));
    assert_eq!(asked, queued(1, 4));
    assert_eq!(
        slots.ask(&key_in("other", 0), "v0", at(50), Some(&hang(3))),
        Slot::Granted
    );
    slots.acted(&key_in("other", 0), Duration::ZERO);
    slots.done(&key_in("other", 0), false);
    // Two against one, then two against two: what was begun decides nothing between namespaces.
    assert_eq!(slots.calls(&hang(2), Duration::ZERO), [key_in("other", 1)]);
    assert_eq!(
        slots.ask(&key_in("other", 1), "v1", at(50), Some(&hang(2))),
        Slot::Granted
    );
    slots.acted(&key_in("other", 1), Duration::ZERO);
    slots.done(&key_in("other", 1), false);
    assert_eq!(slots.calls(&hang(1), Duration::ZERO), [key_in("tarpit", 4)]);
}

#[test]
fn whoever_names_the_busy_node_of_another_namespace_gets_no_slot_by_it() {
    let mut slots = Slots::new(1);
    let theirs = busy(["u1"], Some("theirs"));
    assert_eq!(place(slots.ask(&key_in("ns", 1), "u1", at(0), Some(&theirs))), 1);
    let own = busy(["u1"], Some("ns"));
    assert_eq!(slots.ask(&key_in("ns", 1), "u1", at(0), Some(&own)), Slot::Granted);
}

/// With one slot all namespaces hold as many when it is free: then they take turns.
#[test]
fn namespaces_take_turns_also_for_one_slot() {
    let mut slots = Slots::new(1);
    for n in 0..9 {
        slots.remember(&key_in("a", n), begun(0));
        slots.remember(&key_in("b", n), at(0));
    }
    slots.remember(&key_in("c", 0), at(100));
    let mut served = String::new();
    for round in 0..9 {
        // A namespace that had all that it wanted comes again, and is not first for that.
        if round > 2 {
            slots.remember(&key_in("c", round), at(100));
        }
        let next = slots.calls(&none(), Duration::ZERO).pop().unwrap();
        assert_eq!(slots.ask(&next, "u", at(0), Some(&none())), Slot::Granted);
        slots.acted(&next, Duration::ZERO);
        slots.done(&next, false);
        slots.listed(Duration::MAX);
        served += &next.namespace;
    }
    assert_eq!(served, "abcabcabc");
}

/// Many hosts of a few namespaces, which want slots as soon as they have none; `true` for namespaces that never end anything.
struct Tenants {
    slots: Slots,
    hang: Vec<bool>,
    /// Namespace and host of each node at work, oldest first.
    busy: Vec<(usize, usize)>,
    hosts: usize,
    clock: u64,
}

impl Tenants {
    fn held(&self, namespace: usize) -> usize {
        self.busy.iter().filter(|(n, _)| *n == namespace).count()
    }

    fn list(&self) -> Busy {
        let mut list = none();
        for (namespace, n) in &self.busy {
            list.add(&format!("u{namespace}-{n}"), Some(&format!("n{namespace}")));
        }
        list
    }

    /// One more host of the namespace waits.
    fn want(&mut self, namespace: usize, turn: Turn) {
        self.hosts += 1;
        self.slots.remember(&key_in(&format!("n{namespace}"), self.hosts), turn);
    }

    /// Those who are called take their slots; whose they were.
    fn serve(&mut self) -> Vec<usize> {
        self.clock += 1;
        let now = Duration::from_secs(self.clock);
        self.slots.listed(now);
        let list = self.list();
        let mut served = Vec::new();
        for host in self.slots.calls(&list, now) {
            let (namespace, n) = (host.namespace[1..].parse().unwrap(), host.name[1..].parse().unwrap());
            let slot = self.slots.ask(&host, &format!("u{namespace}-{n}"), at(0), Some(&list));
            assert_eq!(slot, Slot::Granted, "{host:?} was called");
            self.slots.acted(&host, now);
            self.slots.done(&host, false);
            let least = (0..self.hang.len()).map(|other| self.held(other)).min();
            assert_eq!(Some(self.held(namespace)), least, "{namespace} of {:?}", self.busy);
            self.busy.push((namespace, n));
            served.push(namespace);
        }
        served
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// Whatever ends when, a namespace that always wants slots has its share of those that do not hang, and gets it in turn.
    #[test]
    fn every_namespace_has_its_share(limit in 1..9_usize, hang in prop::collection::vec(any::<bool>(), 2..6),
        begun_first in any::<bool>(), ends in prop::collection::vec((any::<prop::sample::Index>(), 1..4_usize), 60)) {
        let tenants = hang.len();
        let mut site = Tenants { slots: Slots::new(limit), hang, busy: Vec::new(), hosts: 0, clock: 0 };
        // The first namespace is there before the others, and takes all.
        for _ in 0..limit {
            site.want(0, begun(0));
            site.busy.push((0, site.hosts));
            site.slots.forget(&key_in("n0", site.hosts));
        }
        for namespace in 0..tenants {
            for _ in 0..20 {
                site.want(namespace, if begun_first && namespace == 0 { begun(0) } else { at(0) });
            }
        }
        let mut waits = vec![0; tenants];
        for (which, many) in ends {
            let hangs = site.hang.clone();
            // Of what it held from the start nothing lasts for ever: what is tested is who gets it then.
            let may_end = |(namespace, n): &(usize, usize)| *n <= limit || !hangs[*namespace];
            for _ in 0..many {
                let ending: Vec<_> = site.busy.iter().copied().filter(may_end).collect();
                if !ending.is_empty() {
                    let ended = ending[which.index(ending.len())];
                    site.busy.retain(|one| *one != ended);
                }
            }
            let served = site.serve();
            prop_assert_eq!(site.busy.len(), limit);
            for namespace in &served {
                site.want(*namespace, at(0));
            }
            for (namespace, waits) in waits.iter_mut().enumerate() {
                let is_passed_over = !served.contains(&namespace) && site.held(namespace) == 0;
                *waits = if is_passed_over { *waits + served.len() } else { 0 };
                // Each other one at most once before it, unless all of them hang.
                prop_assert!(*waits < tenants + limit, "{} waits: {:?}", namespace, site.busy);
            }
            if site.busy.iter().all(|(_, n)| *n > limit) {
                let held: Vec<_> = (0..tenants).map(|namespace| site.held(namespace)).collect();
                prop_assert!(held.iter().all(|held| *held >= limit / tenants), "{:?}", held);
            }
        }
    }
}

// OWN 29i: hosts that are deleted ask for no slot and take one: those of one namespace held all of them.
#[test]
fn one_namespace_never_holds_every_slot() {
    for limit in [2, 8, 20] {
        let mut slots = Slots::new(limit);
        for namespace in ["tarpit", "other", "late"] {
            slots.meet(namespace);
        }
        let nodes: Vec<String> = (0..3 * limit).map(|n| format!("u{n}")).collect();
        let hang = busy(nodes.iter().map(String::as_str), Some("tarpit"));
        let ask = |slots: &mut Slots, namespace: &str, n: usize| {
            let slot = slots.ask(&key_in(namespace, n), &format!("{namespace}-{n}"), at(0), Some(&hang));
            slots.acted(&key_in(namespace, n), Duration::ZERO);
            slots.done(&key_in(namespace, n), false);
            slot == Slot::Granted
        };
        assert!(!ask(&mut slots, "tarpit", 0), "{limit}");
        assert!(ask(&mut slots, "other", 0), "{limit}");
        assert!(!ask(&mut slots, "other", 1), "the rest is kept for others, {limit}");
        assert_eq!(ask(&mut slots, "late", 0), limit > 8, "{limit}");
    }
}

/// Also where everybody asks: the last slots are for those who come later.
#[test]
fn some_slots_are_kept_for_namespaces_that_hold_none() {
    let granted = |slots: &mut Slots, namespace: &str| {
        let ask = |n| slots.ask(&key_in(namespace, n), &format!("{namespace}-{n}"), at(0), Some(&none()));
        (0..16).map(ask).filter(|slot| *slot == Slot::Granted).count()
    };
    let mut slots = Slots::new(16);
    slots.meet("first");
    assert_eq!(granted(&mut slots, "first"), 16, "it is alone");
    let mut slots = Slots::new(16);
    slots.meet("first");
    slots.meet("second");
    assert_eq!(granted(&mut slots, "first"), 14);
    assert_eq!(granted(&mut slots, "second"), 1);
}

#[test]
fn slots_that_are_kept_are_called_for_namespaces_that_hold_none_only() {
    let mut slots = Slots::new(4);
    for namespace in ["a", "b"] {
        slots.meet(namespace);
    }
    for n in 0..9 {
        slots.remember(&key_in("a", n), at(0));
    }
    assert_eq!(slots.calls(&none(), Duration::ZERO).len(), 3);
    slots.remember(&key_in("b", 0), at(9));
    assert_eq!(slots.calls(&none(), Duration::ZERO), [key_in("b", 0)]);
}
