//! How often Ironic is listed, and how much of it.

use std::time::Duration;

use metal3_runtime::timing::operator::{LIST_BUSY, LIST_FAST, LIST_FULL, LIST_LONGEST, LIST_SLOW};

/// How often Ironic is listed. The interval follows what a list costs Ironic, so that listing never takes more than a fixed
/// share of it: by its size, and by how long Ironic was seen to take. That time is mostly queueing where Ironic is busy, and then
/// its hosts do not go on faster for being looked at more often.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// Between lists while somebody waits for a node.
    pub fast: Duration,
    /// Between lists while nobody does.
    pub slow: Duration,
    /// Between lists of all nodes at least, where the nodes that were changed last are listed in between.
    pub full: Duration,
    /// The longest pause, whatever a list costs.
    pub longest: Duration,
    /// The longest pause that the answer time of a busy Ironic makes while somebody waits.
    pub busy: Duration,
    /// Ironic's CPU time for a list, whatever is in it.
    pub per_list: Duration,
    /// Ironic's CPU time for one node of a list: measured, 0.17 s for 500.
    pub per_node: Duration,
    /// A pause is at least this many times a list's CPU time while somebody waits: a tenth of one core. Twice that between
    /// lists of all nodes, where some are listed in between.
    pub fast_factor: u32,
    /// The same while nobody does.
    pub slow_factor: u32,
    /// A pause is at least this many times as long as Ironic has taken for a list.
    pub busy_factor: u32,
    /// How many nodes are listed between two lists of all nodes, beside one for every second host that waits.
    pub recent: usize,
}

/// A list of the nodes that were changed last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recent {
    /// How many.
    pub nodes: usize,
    /// How long after the list before.
    pub pause: Duration,
}

impl Pace {
    /// So many times the time that a list of these nodes costs Ironic.
    pub(super) fn cost(&self, nodes: usize, factor: u32) -> Duration {
        let nodes = u32::try_from(nodes).unwrap_or(u32::MAX);
        let list = self.per_list.saturating_add(self.per_node.saturating_mul(nodes));
        list.saturating_mul(factor)
    }

    /// The pause before a list of these nodes while somebody waits, where Ironic takes so long for one.
    pub(super) fn while_waiting(&self, nodes: usize, answer: Duration) -> Duration {
        let busy = answer.saturating_mul(self.busy_factor).min(self.busy);
        self.cost(nodes, self.fast_factor).max(busy).max(self.fast)
    }
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            fast: LIST_FAST,
            slow: LIST_SLOW,
            full: LIST_FULL,
            longest: LIST_LONGEST,
            busy: LIST_BUSY,
            per_list: Duration::from_millis(10),
            per_node: Duration::from_micros(350),
            fast_factor: 10,
            slow_factor: 50,
            busy_factor: 5,
            recent: 6,
        }
    }
}
