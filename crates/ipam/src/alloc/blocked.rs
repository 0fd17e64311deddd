//! The addresses that nobody may get, found in no more time when there are many.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

use super::address::{Line, Version};

/// A set of addresses that can tell the next one that is not in it.
///
/// An address may be blocked for several reasons at once, a reservation and a holder for example; it is free when all
/// have gone. Neighbours are kept as one interval, so the first free address at or behind a given one takes one look-up.
#[derive(Clone, Debug, Default)]
pub struct Blocked {
    reasons: HashMap<IpAddr, u32>,
    v4: BTreeMap<u128, u128>,
    v6: BTreeMap<u128, u128>,
}

impl Blocked {
    /// Adds a reason. Returns whether the address was free before.
    pub fn block(&mut self, address: IpAddr) -> bool {
        let reasons = self.reasons.entry(address).or_insert(0);
        *reasons = reasons.saturating_add(1);
        if *reasons > 1 {
            return false;
        }
        let number = address.number();
        let intervals = self.intervals_mut(Version::of(address));
        let (mut first, mut last) = (number, number);
        if let Some((&before, &end)) = intervals.range(..number).next_back()
            && end.checked_add(1) == Some(number)
        {
            first = before;
        }
        if let Some(next) = number.checked_add(1)
            && let Some(end) = intervals.remove(&next)
        {
            last = end;
        }
        intervals.insert(first, last);
        true
    }

    /// Takes a reason away. Returns whether the address is free now; one that was free already stays so.
    pub fn unblock(&mut self, address: IpAddr) -> bool {
        let Some(reasons) = self.reasons.get_mut(&address) else {
            return false;
        };
        if *reasons > 1 {
            *reasons -= 1;
            return false;
        }
        self.reasons.remove(&address);
        let number = address.number();
        let intervals = self.intervals_mut(Version::of(address));
        if let Some((&first, &last)) = intervals.range(..=number).next_back() {
            intervals.remove(&first);
            if first < number {
                intervals.insert(first, number - 1);
            }
            if number < last {
                intervals.insert(number + 1, last);
            }
        }
        true
    }

    /// Whether an address is blocked.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.reasons.contains_key(&address)
    }

    /// For how many reasons an address is blocked.
    pub fn reasons(&self, address: IpAddr) -> u32 {
        self.reasons.get(&address).copied().unwrap_or_default()
    }

    /// The number of addresses that are blocked.
    pub fn len(&self) -> usize {
        self.reasons.len()
    }

    /// Whether nothing is blocked.
    pub fn is_empty(&self) -> bool {
        self.reasons.is_empty()
    }

    /// Every blocked address, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = IpAddr> {
        self.reasons.keys().copied()
    }

    /// The first free number from `from` to `last`, both included.
    pub fn first_free(&self, version: Version, from: u128, last: u128) -> Option<u128> {
        let free = match self.intervals(version).range(..=from).next_back() {
            // Intervals are merged, so behind the end of one is a free address.
            Some((_, &end)) if end >= from => end.checked_add(1)?,
            _ => from,
        };
        (free <= last).then_some(free)
    }

    fn intervals(&self, version: Version) -> &BTreeMap<u128, u128> {
        match version {
            Version::V4 => &self.v4,
            Version::V6 => &self.v6,
        }
    }

    fn intervals_mut(&mut self, version: Version) -> &mut BTreeMap<u128, u128> {
        match version {
            Version::V4 => &mut self.v4,
            Version::V6 => &mut self.v6,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against counting each address by itself, at both ends of both lines.
        #[test]
        fn it_is_a_set_with_reasons(steps in prop::collection::vec((any::<bool>(), 0_u8..4, 0_u8..12), 0..120)) {
            let mut blocked = Blocked::default();
            let mut model: HashMap<IpAddr, u32> = HashMap::new();
            let place = |line: u8, at: u8| {
                let version = if line < 2 { Version::V4 } else { Version::V6 };
                let number = if line.is_multiple_of(2) { u128::from(at) } else { version.max() - u128::from(at) };
                (version, number, version.address(number).unwrap())
            };
            for (adds, line, at) in steps {
                let address = place(line, at).2;
                let before = model.get(&address).copied().unwrap_or_default();
                if adds {
                    model.insert(address, before + 1);
                    prop_assert_eq!(blocked.block(address), before == 0);
                } else {
                    if before <= 1 { model.remove(&address); } else { model.insert(address, before - 1); }
                    prop_assert_eq!(blocked.unblock(address), before == 1);
                }
                prop_assert_eq!(blocked.len(), model.len());
                for line in 0..4 {
                    for at in 0..12 {
                        let (version, number, address) = place(line, at);
                        prop_assert_eq!(blocked.contains(address), model.contains_key(&address));
                        for last in [number, number.saturating_add(5).min(version.max()), version.max()] {
                            // Nothing but the two ends is ever blocked, so the naive search is short.
                            let free = (number..=last).take(16).find(|n| !model.contains_key(&version.address(*n).unwrap()));
                            prop_assert_eq!(blocked.first_free(version, number, last), free);
                        }
                    }
                }
            }
        }
    }
}
