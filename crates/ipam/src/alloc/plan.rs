//! The parsed spec of a pool.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use super::address::{Version, number};
use super::entry::{Range, Size};

/// How to choose a free address within an entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strategy {
    /// The lowest free one.
    #[default]
    Sequential,
    /// The first free one from a random index on, wrapping around.
    Random,
}

/// The severity of a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The setting has no effect: an entry contains no addresses, a preallocation cannot be honoured.
    Error,
    /// It has an effect, but probably not the intended one.
    Warning,
}

/// Something wrong with a specification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The field's path, such as `spec.pools[0].start`.
    pub field: String,
    /// The message, to be appended to the path.
    pub message: String,
    /// Its severity.
    pub severity: Severity,
}

/// The settings of an address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Prefix length; 0 if none is given.
    pub prefix: i64,
    /// Gateway; empty if none is given.
    pub gateway: Arc<str>,
    /// DNS servers.
    pub dns_servers: Arc<[String]>,
}

/// An entry as the allocator uses it.
#[derive(Clone, Debug)]
pub(super) struct Usable {
    pub(super) range: Range,
    pub(super) size: Size,
    pub(super) settings: Settings,
}

/// A parsed spec: ranges, preallocations, settings and problems.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    pub(super) strategy: Strategy,
    pub(super) usable: Vec<Usable>,
    pub(super) reserved: BTreeMap<String, IpAddr>,
    /// All allocatable addresses, sorted, without overlaps.
    pub(super) union: Vec<Range>,
    pub(super) defaults: Settings,
    pub(super) problems: Vec<Problem>,
}

impl Plan {
    /// The problems of the spec, errors first.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// The number of addresses; all of IPv6 counts one less than it has.
    pub fn total(&self) -> u128 {
        self.union.iter().fold(0, |sum: u128, range| {
            sum.saturating_add((range.last - range.first).saturating_add(1))
        })
    }

    /// Whether an address can be allocated from one of the entries.
    pub fn contains(&self, address: IpAddr) -> bool {
        let behind = self
            .union
            .partition_point(|range| (range.version, range.first) <= (Version::of(address), number(address)));
        behind
            .checked_sub(1)
            .and_then(|at| self.union.get(at))
            .is_some_and(|range| range.contains(address))
    }

    /// The address preallocated for a claim of this name.
    pub fn reserved_for(&self, claim: &str) -> Option<IpAddr> {
        self.reserved.get(claim).copied()
    }

    /// Every preallocated address.
    pub fn reserved(&self) -> impl Iterator<Item = (&str, IpAddr)> {
        self.reserved.iter().map(|(name, address)| (name.as_str(), *address))
    }

    /// The settings of an address: those of the first entry that contains it, otherwise the pool's.
    pub fn settings(&self, address: IpAddr) -> Settings {
        self.entry_of(address)
            .map_or_else(|| self.defaults.clone(), |entry| entry.settings.clone())
    }

    pub(super) fn entry_of(&self, address: IpAddr) -> Option<&Usable> {
        self.usable.iter().find(|entry| entry.range.contains(address))
    }
}
