//! Slots: how many nodes may be inspected, cleaned, deployed or torn down at once, and who comes next. Pure.
//!
//! Counting first and acting later would let many hosts see the same free slot. So a slot is handed out before the act,
//! and stays taken until a list that was *asked for after* the act shows what became of the node:
//!
//! ```text
//!   ask ──▶ queued ──▶ granted ──▶ acted ──▶ seen busy in the list ──▶ seen idle
//!             ▲           │ no act after all                              │
//!             └───────────┴──────────── free: the next in the queue is called
//! ```
//!
//! A node that somebody else drives in Ironic is busy in the list, and takes a slot like any other.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Duration;

use jiff::Timestamp;
use metal3_ironic::{Node, ProvisionState};

use super::HostKey;

/// How often a host whose place has become better is told so at most.
const RETELL: Duration = Duration::from_secs(30);

/// From this place on every step forward is worth telling; before it, half the way is. A long queue that told every step
/// would write each host once for each host before it.
const NEARLY_THERE: usize = 3;

/// What became of the wish for a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    /// The host may act.
    Granted,
    /// Others come first.
    Queued(Place),
    /// Who comes first is not known yet.
    Unsorted,
}

/// Where a host stands in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The next to be served has place 1. It was so when the host was last told. What was begun and waits goes first: so it is
    /// better by now, or for a while worse.
    pub number: usize,
    /// How many slots there are.
    pub limit: usize,
}

/// Whether this node takes a slot: what Ironic does with it loads the provisioning network.
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
    // The same nodes that need no slot; upstream exempts those with HTTP boot, and yet counts them for the others.
    let is_exempt = node
        .boot_interface
        .as_deref()
        .is_some_and(|boot| boot.contains("virtual-media") || boot == "redfish-https");
    busy && !is_exempt
}

/// Whose turn it is first: whoever is in the middle of something comes before those who would begin anew, and in either group whoever
/// came first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Turn {
    /// The host is in an operation that began then.
    Begun(Timestamp),
    /// It wants to begin one since then.
    Wanted(Timestamp),
}

/// One host in the queue.
#[derive(Debug)]
struct Waiter {
    turn: Turn,
    ticket: u64,
    shown: Option<usize>,
    /// The present reconciliation of the host asked.
    has_asked: bool,
    /// It was woken because it is its turn.
    is_called: bool,
    /// Its turn has come, and something kept it from asking: nobody waits for it until it asks.
    is_aside: bool,
}

/// A slot that was handed out and is not known from a list yet.
#[derive(Debug)]
struct Taken {
    node: String,
    /// When the act was answered; none before.
    acted: Option<Duration>,
}

/// The slots, the queue before them, and what is known of busy nodes.
#[derive(Debug, Default)]
pub struct Slots {
    limit: usize,
    /// By turn, then by the order of asking; without those who are aside.
    order: BTreeSet<(Turn, u64, HostKey)>,
    waiters: HashMap<HostKey, Waiter>,
    taken: HashMap<HostKey, Taken>,
    tickets: u64,
    told: Duration,
    /// How many watches have not shown their hosts yet, of which one may come first.
    unlisted: usize,
}

impl Slots {
    /// As many slots as that; none means that nothing may start.
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            ..Self::default()
        }
    }

    /// So many watches will show hosts: nobody gets a slot before all of them have.
    pub fn expect_lists(&mut self, watches: usize) {
        self.unlisted = watches;
    }

    /// One of them has.
    pub fn hosts_listed(&mut self) {
        self.unlisted = self.unlisted.saturating_sub(1);
    }

    /// How many there are.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// How many hosts wait.
    pub fn waiting(&self) -> usize {
        self.waiters.len()
    }

    /// Whether this host waits.
    pub fn has(&self, host: &HostKey) -> bool {
        self.waiters.contains_key(host)
    }

    /// How many are taken, by nodes that are busy and by hosts that are about to act.
    pub fn used(&self, busy: &HashSet<String>) -> usize {
        let unseen = self.taken.values().filter(|t| !busy.contains(&t.node)).count();
        busy.len() + unseen
    }

    /// A host that was waiting when the last process ended keeps its place, whichever host asks first now.
    pub fn remember(&mut self, host: &HostKey, turn: Turn) {
        if !self.taken.contains_key(host) {
            self.enqueue(host, turn);
        }
    }

    /// A host wants to act on its node. A host that waits already keeps its place. Nothing is granted before Ironic was listed
    /// once.
    pub fn ask(&mut self, host: &HostKey, node: &str, turn: Turn, busy: Option<&HashSet<String>>) -> Slot {
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
        // Its node is at work already: that is its slot.
        let may_act = busy.is_some_and(|busy| busy.contains(node) || place < self.free(busy));
        if may_act {
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
        })
    }

    /// Ironic answered the act, or did not answer it: from now on a new list knows.
    pub fn acted(&mut self, host: &HostKey, now: Duration) {
        if let Some(taken) = self.taken.get_mut(host) {
            taken.acted = Some(now);
        }
    }

    /// A reconciliation of the host has ended. What it was granted and did not use is free again. If it did not ask, it does not
    /// want to act any more, unless it `is_told` to wait still: then something kept it from asking, and it stays where it is, as
    /// long as nobody has to wait for it. Returns whether somebody else may have come nearer.
    pub fn done(&mut self, host: &HostKey, is_told: bool) -> bool {
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
            self.order.remove(&(waiter.turn, waiter.ticket, host.clone()));
        }
        unused || steps_aside
    }

    /// The host is gone. What its node was set to goes on.
    pub fn forget(&mut self, host: &HostKey) {
        self.leave(host);
        if self.taken.get(host).is_some_and(|t| t.acted.is_none()) {
            self.taken.remove(host);
        }
    }

    /// A list that was asked for at this moment shows every act that was answered before.
    pub fn listed(&mut self, asked: Duration) {
        self.taken
            .retain(|_, taken| taken.acted.is_none_or(|acted| acted >= asked));
    }

    /// The same for these nodes only.
    pub fn glimpsed(&mut self, nodes: &HashSet<String>, asked: Duration) {
        self.taken
            .retain(|_, taken| taken.acted.is_none_or(|acted| acted >= asked) || !nodes.contains(&taken.node));
    }

    /// Whom to wake: those whose turn it is, each once, and now and then those who have come a good deal nearer.
    pub fn calls(&mut self, busy: &HashSet<String>, now: Duration) -> Vec<HostKey> {
        if self.unlisted > 0 {
            return Vec::new();
        }
        let free = self.free(busy);
        let retell = now.saturating_sub(self.told) >= RETELL;
        if retell {
            self.told = now;
        }
        let looked_at = if retell { usize::MAX } else { free };
        let mut woken = Vec::new();
        for (index, (_, _, host)) in self.order.iter().enumerate().take(looked_at) {
            let Some(waiter) = self.waiters.get_mut(host) else {
                continue;
            };
            let has_news = retell && waiter.shown.is_some_and(|shown| is_news(shown, index + 1));
            if !waiter.is_called && (index < free || has_news) {
                waiter.is_called = index < free;
                woken.push(host.clone());
            }
        }
        woken
    }

    fn free(&self, busy: &HashSet<String>) -> usize {
        self.limit.saturating_sub(self.used(busy))
    }

    /// The number of hosts that come before.
    fn enqueue(&mut self, host: &HostKey, turn: Turn) -> usize {
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
        let place = (waiter.turn, waiter.ticket, host.clone());
        if std::mem::take(&mut waiter.is_aside) {
            self.order.insert(place.clone());
        }
        self.order.range(..place).count()
    }

    fn leave(&mut self, host: &HostKey) {
        if let Some(waiter) = self.waiters.remove(host) {
            self.order.remove(&(waiter.turn, waiter.ticket, host.clone()));
        }
    }
}

/// Whether the way from one place to another is worth telling.
fn is_news(shown: usize, place: usize) -> bool {
    place > shown || (place < shown && (place <= NEARLY_THERE || place <= shown / 2))
}

#[cfg(test)]
#[path = "slots/tests.rs"]
mod tests;
