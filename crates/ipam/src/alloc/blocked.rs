//! The addresses that no claim may get.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::address::{Version, number};

/// A set of addresses that finds the next address outside of it. Adjacent addresses are merged into one interval, so this takes
/// one look-up, whatever the size.
#[derive(Clone, Debug, Default)]
pub(super) struct Blocked {
    /// The last number of each interval, by its first.
    intervals: BTreeMap<(Version, u128), u128>,
}

impl Blocked {
    pub(super) fn contains(&self, address: IpAddr) -> bool {
        let (version, number) = (Version::of(address), number(address));
        self.first_free(version, number, number).is_none()
    }

    pub(super) fn insert(&mut self, address: IpAddr) {
        if self.contains(address) {
            return;
        }
        let (version, number) = (Version::of(address), number(address));
        let (mut first, mut last) = (number, number);
        if let Some((&(before, start), &end)) = self.intervals.range(..(version, number)).next_back()
            && before == version
            && end.checked_add(1) == Some(number)
        {
            first = start;
        }
        if let Some(next) = number.checked_add(1)
            && let Some(end) = self.intervals.remove(&(version, next))
        {
            last = end;
        }
        self.intervals.insert((version, first), last);
    }

    /// The first free number from `from` to `last`, both included.
    pub(super) fn first_free(&self, version: Version, from: u128, last: u128) -> Option<u128> {
        let free = match self.intervals.range(..=(version, from)).next_back() {
            // Intervals are merged, so the number after the end of one is free.
            Some((&(at, _), &end)) if at == version && end >= from => end.checked_add(1)?,
            Some(_) | None => from,
        };
        (free <= last).then_some(free)
    }
}
