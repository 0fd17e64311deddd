//! How often Ironic is listed, and how much of it.

use std::time::Duration;

use metal3_runtime::timing::operator::{LIST_FAST, LIST_LONGEST, LIST_SLOW};

/// How often Ironic is listed. The interval follows what a list costs Ironic, which grows with the number of nodes, so that
/// listing never takes more than a fixed share of it. Ironic's answer time alone would mislead: on a busy Ironic it is mostly
/// queueing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// Between lists while somebody waits for a node.
    pub fast: Duration,
    /// Between lists while nobody does.
    pub slow: Duration,
    /// The longest pause, whatever a list costs.
    pub longest: Duration,
    /// Ironic's CPU time for one node of a list: measured, 0.17 s for 500.
    pub per_node: Duration,
    /// A pause is at least this many times a list's CPU time while somebody waits: a tenth of one core. Twice that between
    /// lists of all nodes, where some are listed in between.
    pub fast_factor: u32,
    /// The same while nobody does.
    pub slow_factor: u32,
    /// How many nodes are listed between two lists of all nodes, beside those that are waited for.
    pub glance: usize,
}

/// A list of the nodes that were changed last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Glance {
    /// How many.
    pub nodes: usize,
    /// How long after the list before.
    pub pause: Duration,
}

impl Pace {
    /// So many times the time that a list of these nodes costs Ironic.
    pub(super) fn cost(&self, nodes: usize, factor: u32) -> Duration {
        let nodes = u32::try_from(nodes).unwrap_or(u32::MAX);
        self.per_node.saturating_mul(nodes).saturating_mul(factor)
    }
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            fast: LIST_FAST,
            slow: LIST_SLOW,
            longest: LIST_LONGEST,
            per_node: Duration::from_micros(350),
            fast_factor: 10,
            slow_factor: 50,
            glance: 40,
        }
    }
}
