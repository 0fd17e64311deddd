//! Slots: how many nodes may be inspected, cleaned, deployed or torn down at once, and which host is next. Pure.
//!
//! If a host counted busy nodes first and acted later, many hosts would see the same free slot. So a slot is granted
//! before the act, and stays taken until a list that was *requested after* the act shows the result:
//!
//! ```text
//!   ask ──▶ queued ──▶ granted ──▶ acted ──▶ seen busy in the list ──▶ seen idle
//!             ▲           │ no act after all                              │
//!             └───────────┴──────────── free: the next in the queue is called
//! ```
//!
//! A node that another client drives in Ironic is busy in the list, and takes a slot like any other.
//!
//! Namespaces share the slots. The next slot goes to the namespace that holds the fewest. Ties go to the namespace
//! served longest ago. Within a namespace it goes to the host that is first by [`Turn`].
//!
//! A slot is never revoked: hosts that hang keep theirs until Ironic gives up on them, but their namespace gets no
//! other before those that wait with fewer. So hosts in the middle of an operation go first only within their own
//! namespace; otherwise a namespace with a thousand deployments in progress would hold every slot. Some slots are
//! reserved for namespaces that hold none; see [`reserve`].

mod line;
mod reserve;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap, HashSet};
use std::time::Duration;

use jiff::Timestamp;
use metal3_ironic::{Node, ProvisionState};
use metal3_runtime::store::ObjectKey;
use metal3_runtime::timing::operator::RETELL;

use self::line::{Entry, Line};

/// From this place on every step forward is reported; before it, only when the place has halved. Otherwise a long queue
/// would write each host once for each host ahead of it.
const NEARLY_THERE: usize = 3;

/// The answer to a request for a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    /// The host may act.
    Granted,
    /// Other hosts come first.
    Queued(Place),
    /// The order is not known yet.
    Unsorted,
}

/// A host's place in the queue of its namespace; other namespaces are not visible in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Place 1 is the next of the namespace to be served. The number is as last reported: it may be better by now, or
    /// temporarily worse, because hosts in the middle of an operation go first.
    pub number: usize,
    /// The number of slots.
    pub limit: usize,
    /// How many of them are kept for namespaces that hold none.
    pub reserved: usize,
}

/// Whether this node takes a slot: its current operation loads the provisioning network.
pub fn is_counted(node: &Node) -> bool {
    let busy = matches!(
        node.provision_state,
        ProvisionState::Cleaning
            | ProvisionState::CleanWait
            | ProvisionState::Inspecting
            | ProvisionState::InspectWait
            | ProvisionState::Deploying
            | ProvisionState::DeployWait
            | ProvisionState::Deleting
    );
    // The same nodes that need no slot. Upstream exempts those with HTTP boot, but still counts them for the others.
    let is_exempt = node
        .boot_interface
        .as_deref()
        .is_some_and(|boot| boot.contains("virtual-media") || boot == "redfish-https");
    busy && !is_exempt
}

/// The nodes that take a slot, and how many belong to each namespace.
#[derive(Clone, Debug, Default)]
pub struct Busy {
    /// With the namespace that the node's name begins with. Nodes with other names belong to no namespace.
    nodes: HashMap<String, Option<String>>,
    held: HashMap<String, usize>,
}

impl Busy {
    /// Records the current state of a node.
    pub fn note(&mut self, node: &Node) {
        self.forget(&node.uuid);
        if is_counted(node) {
            let named = node.name.as_deref().and_then(|name| name.split_once('~'));
            self.add(&node.uuid, named.map(|(namespace, _)| namespace));
        }
    }

    /// How many nodes are busy.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    fn add(&mut self, node: &str, namespace: Option<&str>) {
        self.nodes.insert(node.to_owned(), namespace.map(str::to_owned));
        if let Some(namespace) = namespace {
            *self.held.entry(namespace.to_owned()).or_default() += 1;
        }
    }

    fn forget(&mut self, node: &str) {
        let Some(Some(namespace)) = self.nodes.remove(node) else {
            return;
        };
        if let Some(held) = self.held.get_mut(&namespace) {
            *held -= 1;
            if *held == 0 {
                self.held.remove(&namespace);
            }
        }
    }

    fn contains(&self, node: &str) -> bool {
        self.nodes.contains_key(node)
    }

    /// Whether the node is busy and may belong to this namespace. A host's claim alone does not suffice.
    fn is_of(&self, namespace: &str, node: &str) -> bool {
        let named = self.nodes.get(node);
        named.is_some_and(|named| named.as_ref().is_none_or(|named| named == namespace))
    }
}

/// The order within a namespace: hosts in the middle of an operation come before those that would start one, and each
/// group is first come, first served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Turn {
    /// The host is in an operation that began at this time.
    Begun(Timestamp),
    /// The host has waited to start an operation since this time.
    Wanted(Timestamp),
}

/// One host in the queue.
#[derive(Debug)]
struct Waiter {
    turn: Turn,
    ticket: u64,
    shown: Option<usize>,
    /// The current reconciliation of the host has asked.
    has_asked: bool,
    /// It was woken because it is its turn.
    is_called: bool,
    /// Its turn came, but something kept it from asking: other hosts pass it until it asks.
    is_aside: bool,
}

/// A granted slot that no list shows yet.
#[derive(Debug)]
struct Taken {
    node: String,
    /// When the act was answered; `None` before.
    acted: Option<Duration>,
}

/// The waiting hosts of one namespace.
#[derive(Debug)]
struct Queue {
    line: Line,
    /// The total number of grants when this namespace was last served. A new namespace starts with the current number,
    /// so that a namespace that comes and goes is not served before those that stay.
    served: u64,
}

impl Queue {
    fn head(&self) -> Option<(u64, Entry)> {
        Some((self.served, self.line.first()?.clone()))
    }
}

/// The slots, their queues, and the known busy nodes.
#[derive(Debug, Default)]
pub struct Slots {
    limit: usize,
    /// By namespace, without hosts that are aside. No line is empty.
    queues: BTreeMap<String, Queue>,
    /// The first host of each line, by when its namespace was last served.
    heads: BTreeSet<(u64, Entry)>,
    /// How many hosts stand in all lines, and how many slots were granted so far.
    in_line: usize,
    grants: u64,
    waiters: HashMap<ObjectKey, Waiter>,
    taken: HashMap<ObjectKey, Taken>,
    tickets: u64,
    told: Duration,
    /// The number of watches that have not delivered their hosts yet; the first in line may be among those.
    unlisted: usize,
    /// Namespaces that have had hosts.
    namespaces: HashSet<String>,
}

impl Slots {
    /// This many slots; with none, nothing may start.
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            ..Self::default()
        }
    }

    /// This many watches will deliver hosts; no slot is granted before all of them have.
    pub fn expect_lists(&mut self, watches: usize) {
        self.unlisted = watches;
    }

    /// One watch has completed its list.
    pub fn hosts_listed(&mut self) {
        self.unlisted = self.unlisted.saturating_sub(1);
    }

    /// The number of slots.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// The number of waiting hosts.
    pub fn waiting(&self) -> usize {
        self.waiters.len()
    }

    /// Whether this host waits.
    pub fn has(&self, host: &ObjectKey) -> bool {
        self.waiters.contains_key(host)
    }

    /// The number of slots in use, by busy nodes and by hosts that are about to act.
    pub fn used(&self, busy: &Busy) -> usize {
        busy.len() + self.unseen(busy).count()
    }

    /// Restores the place of a host that was waiting when the last process ended, regardless of which host asks first
    /// now.
    pub fn remember(&mut self, host: &ObjectKey, turn: Turn) {
        if !self.taken.contains_key(host) {
            self.enqueue(host, turn);
        }
    }

    /// A host requests a slot. A host that already waits keeps its place. Nothing is granted before the first list.
    pub fn ask(&mut self, host: &ObjectKey, node: &str, turn: Turn, busy: Option<&Busy>) -> Slot {
        if self.taken.contains_key(host) {
            return Slot::Granted;
        }
        let place = self.enqueue(host, turn);
        if self.unlisted > 0 {
            if let Some(waiter) = self.waiters.get_mut(host) {
                waiter.has_asked = true;
            }
            return Slot::Unsorted;
        }
        // Its node is already busy and therefore holds a slot.
        let may_act = busy.is_some_and(|busy| busy.is_of(&host.namespace, node) || self.is_next(host, busy));
        if may_act {
            self.grants += 1;
            let served = self.grants;
            self.change(&host.namespace, |queue| queue.served = served);
            self.leave(host);
            let taken = Taken {
                node: node.to_owned(),
                acted: None,
            };
            self.taken.insert(host.clone(), taken);
            return Slot::Granted;
        }
        let place = place + 1;
        let mut number = place;
        if let Some(waiter) = self.waiters.get_mut(host) {
            waiter.has_asked = true;
            waiter.is_called = false;
            number = match waiter.shown {
                Some(shown) if !is_news(shown, place) => shown,
                _ => place,
            };
            waiter.shown = Some(number);
        }
        Slot::Queued(Place {
            number,
            limit: self.limit,
            reserved: self.reserve(),
        })
    }

    /// Ironic answered the act, or failed to answer: a list requested from now on shows the result.
    pub fn acted(&mut self, host: &ObjectKey, now: Duration) {
        if let Some(taken) = self.taken.get_mut(host) {
            taken.acted = Some(now);
        }
    }

    /// A reconciliation of the host has ended. A slot that it was granted and did not use becomes free. If it did not
    /// ask, it leaves the queue, unless its status still says that it waits (`is_told`): then something kept it from
    /// asking, and it keeps its place as long as it holds up no other host. Returns whether another host may have moved
    /// up.
    pub fn done(&mut self, host: &ObjectKey, is_told: bool) -> bool {
        let unused = self.taken.get(host).is_some_and(|t| t.acted.is_none());
        if unused {
            self.taken.remove(host);
        }
        let Some(waiter) = self.waiters.get_mut(host) else {
            return unused;
        };
        if std::mem::take(&mut waiter.has_asked) {
            return unused;
        }
        if !is_told {
            self.leave(host);
            return true;
        }
        let steps_aside = waiter.is_called && !waiter.is_aside;
        if steps_aside {
            waiter.is_aside = true;
            let entry = (waiter.turn, waiter.ticket, host.clone());
            self.leave_line(&entry);
        }
        unused || steps_aside
    }

    /// The host is gone. The operation on its node continues.
    pub fn forget(&mut self, host: &ObjectKey) {
        self.leave(host);
        if self.taken.get(host).is_some_and(|t| t.acted.is_none()) {
            self.taken.remove(host);
        }
    }

    /// A list requested at this moment shows every act that was answered before.
    pub fn listed(&mut self, asked: Duration) {
        self.taken
            .retain(|_, taken| taken.acted.is_none_or(|acted| acted >= asked));
    }

    /// Like [`Self::listed`], for these nodes only.
    pub fn glimpsed(&mut self, nodes: &HashSet<String>, asked: Duration) {
        self.taken
            .retain(|_, taken| taken.acted.is_none_or(|acted| acted >= asked) || !nodes.contains(&taken.node));
    }

    /// The hosts to wake: those whose turn it is, each once, and now and then those whose place has improved
    /// considerably.
    pub fn calls(&mut self, busy: &Busy, now: Duration) -> Vec<ObjectKey> {
        if self.unlisted > 0 {
            return Vec::new();
        }
        let mut woken = Vec::new();
        for host in self.next(self.free(busy), busy) {
            if let Some(waiter) = self.waiters.get_mut(&host)
                && !std::mem::replace(&mut waiter.is_called, true)
            {
                woken.push(host);
            }
        }
        if now.saturating_sub(self.told) < RETELL {
            return woken;
        }
        self.told = now;
        for queue in self.queues.values() {
            for (index, (_, _, host)) in queue.line.iter().enumerate() {
                let waiter = self.waiters.get(host).filter(|waiter| !waiter.is_called);
                let shown = waiter.and_then(|waiter| waiter.shown);
                if shown.is_some_and(|shown| is_news(shown, index + 1)) {
                    woken.push(host.clone());
                }
            }
        }
        woken
    }

    /// The granted slots that no list shows yet.
    fn unseen<'a>(&'a self, busy: &'a Busy) -> impl Iterator<Item = &'a ObjectKey> {
        let is_unseen = |(_, taken): &(_, &Taken)| !busy.contains(&taken.node);
        self.taken.iter().filter(is_unseen).map(|(host, _)| host)
    }

    fn is_next(&self, host: &ObjectKey, busy: &Busy) -> bool {
        let free = self.free(busy);
        free >= self.in_line + self.reserve() || self.next(free, busy).contains(host)
    }

    /// The next hosts to serve, at most `most`, and fewer where slots are reserved. The cost depends on the number of
    /// namespaces that hold or get slots, not on the number of waiting hosts.
    fn next(&self, most: usize, busy: &Busy) -> Vec<ObjectKey> {
        if most == 0 {
            return Vec::new();
        }
        let held = self.held(busy);
        let has_none = |(_, (_, _, host)): &&(u64, Entry)| !held.contains_key(host.namespace.as_str());
        let first = self.heads.iter().filter(has_none).take(most);
        let mut turns: BinaryHeap<_> = first.map(|(served, entry)| Reverse((0, *served, entry))).collect();
        for (name, held) in &held {
            let queue = self.queues.get(*name);
            let turn = queue.and_then(|queue| Some((*held, queue.served, queue.line.first()?)));
            turns.extend(turn.map(Reverse));
        }
        let mut lines: HashMap<&str, _> = HashMap::new();
        let mut next = Vec::new();
        while next.len() < most
            && let Some(Reverse((held, _, (_, _, host)))) = turns.pop()
        {
            // All following namespaces hold at least as many.
            if held > 0 && next.len() + self.reserve() >= most {
                break;
            }
            next.push(host.clone());
            let Some(queue) = self.queues.get(&host.namespace) else {
                continue;
            };
            let line = lines
                .entry(&*host.namespace)
                .or_insert_with(|| queue.line.iter().skip(1));
            // As it will be once the previous host has its slot.
            let served = self.grants + next.len() as u64;
            turns.extend(line.next().map(|entry| Reverse((held + 1, served, entry))));
        }
        next
    }

    /// Returns the number of hosts of the namespace that come before.
    fn enqueue(&mut self, host: &ObjectKey, turn: Turn) -> usize {
        let waiter = self.waiters.entry(host.clone()).or_insert_with(|| {
            self.tickets += 1;
            Waiter {
                turn,
                ticket: self.tickets,
                shown: None,
                has_asked: false,
                is_called: false,
                is_aside: true,
            }
        });
        let entry = (waiter.turn, waiter.ticket, host.clone());
        if std::mem::take(&mut waiter.is_aside) {
            self.in_line += 1;
            self.change(&host.namespace, |queue| queue.line.insert(entry.clone()));
        }
        let queue = self.queues.get(&host.namespace);
        queue.map_or(0, |queue| queue.line.place(&entry))
    }

    fn leave(&mut self, host: &ObjectKey) {
        if let Some(waiter) = self.waiters.remove(host) {
            self.leave_line(&(waiter.turn, waiter.ticket, host.clone()));
        }
    }

    fn leave_line(&mut self, entry: &Entry) {
        let mut was_there = false;
        self.change(&entry.2.namespace, |queue| was_there = queue.line.remove(entry));
        self.in_line -= usize::from(was_there);
    }

    /// Changes a namespace's queue, and updates the entry of its first host.
    fn change(&mut self, namespace: &str, change: impl FnOnce(&mut Queue)) {
        let mut queue = self.queues.remove(namespace).unwrap_or_else(|| Queue {
            line: Line::default(),
            served: self.grants,
        });
        if let Some(head) = queue.head() {
            self.heads.remove(&head);
        }
        change(&mut queue);
        if let Some(head) = queue.head() {
            self.heads.insert(head);
            self.queues.insert(namespace.to_owned(), queue);
        }
    }
}

/// Whether the step from one place to another is worth reporting.
fn is_news(shown: usize, place: usize) -> bool {
    place > shown || (place < shown && (place <= NEARLY_THERE || place <= shown / 2))
}

#[cfg(test)]
#[path = "slots/tests.rs"]
mod tests;
