//! The addresses within the bounds of a pool.

use std::net::IpAddr;

use super::entry::Entry;

/// The union of the bounds of all entries. A look-up takes the time of a binary search: a pool may have 10,000 entries, and as many
/// preallocations as fit into an object.
#[derive(Clone, Debug)]
pub struct Bounds {
    /// Lowest and highest address of each interval, sorted, without overlaps.
    intervals: Vec<(IpAddr, IpAddr)>,
}

impl Bounds {
    /// Those of these entries.
    pub fn of(entries: impl IntoIterator<Item = Entry>) -> Self {
        let mut all: Vec<_> = entries.into_iter().filter_map(|entry| entry.bounds()).collect();
        all.sort_unstable();
        let mut intervals: Vec<(IpAddr, IpAddr)> = Vec::new();
        for (first, last) in all {
            match intervals.last_mut() {
                Some(before) if first <= before.1 => before.1 = before.1.max(last),
                Some(_) | None => intervals.push((first, last)),
            }
        }
        Self { intervals }
    }

    /// Whether an address is in any of them.
    pub fn contain(&self, address: IpAddr) -> bool {
        let behind = self.intervals.partition_point(|(first, _)| *first <= address);
        let before = behind.checked_sub(1).and_then(|at| self.intervals.get(at));
        before.is_some_and(|(_, last)| address <= *last)
    }
}
