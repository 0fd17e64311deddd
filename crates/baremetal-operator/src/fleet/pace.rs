//! How often Ironic is listed, and how many nodes.

use std::time::Duration;

use metal3_runtime::timing::operator::{LIST_BUSY, LIST_FAST, LIST_FULL, LIST_LONGEST, LIST_PATIENT, LIST_SLOW};

/// How often Ironic is listed. The interval follows the cost of a list, so that listing never takes more than a fixed
/// share of Ironic: both the size of the list and Ironic's observed response time. On a busy Ironic the response time
/// is mostly queueing, and more frequent lists would not make its hosts any faster.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// Interval while a host waits for a node.
    pub fast: Duration,
    /// Interval while no host waits.
    pub slow: Duration,
    /// Minimum interval of full lists while incremental lists run in between.
    pub full: Duration,
    /// The longest pause, whatever a list costs.
    pub longest: Duration,
    /// Upper bound on the pause derived from Ironic's response time while a host waits.
    pub busy: Duration,
    /// Ironic's CPU time for an empty list.
    pub per_list: Duration,
    /// Ironic's CPU time for each node of a list: measured, 0.17 s for 500.
    pub per_node: Duration,
    /// While a host waits, a pause is at least this many times a list's CPU time: a tenth of one core. Twice that
    /// between full lists while incremental lists run in between.
    pub fast_factor: u32,
    /// The same while no host waits.
    pub slow_factor: u32,
    /// A pause is at least this many times Ironic's response time for a list.
    pub busy_factor: u32,
    /// The size of an incremental list, plus one node for every second waiting host.
    pub recent: usize,
}

/// While a host waits and nothing changes, a pause is at least this part of the time since the last change.
const PATIENCE: u32 = 50;

/// Whether lists are less frequent because nothing has changed for this long.
pub(super) fn is_patient(quiet: Duration) -> bool {
    quiet / PATIENCE > LIST_FAST
}

/// A list of the most recently changed nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recent {
    /// How many nodes.
    pub nodes: usize,
    /// The pause after the previous list.
    pub pause: Duration,
}

impl Pace {
    /// Ironic's cost of a list of this many nodes, times a factor.
    pub(super) fn cost(&self, nodes: usize, factor: u32) -> Duration {
        let nodes = u32::try_from(nodes).unwrap_or(u32::MAX);
        let list = self.per_list.saturating_add(self.per_node.saturating_mul(nodes));
        list.saturating_mul(factor)
    }

    /// The pause before a list of this many nodes while a host waits, given Ironic's response time, and how long nothing has
    /// changed.
    pub(super) fn while_waiting(&self, nodes: usize, answer: Duration, quiet: Duration) -> Duration {
        let busy = answer.saturating_mul(self.busy_factor).min(self.busy);
        let patient = (quiet / PATIENCE).min(LIST_PATIENT);
        self.cost(nodes, self.fast_factor).max(busy).max(self.fast).max(patient)
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
