//! The hosts of one namespace that wait for a slot, in order.

use super::Turn;
use metal3_runtime::store::ObjectKey;

/// A host in the line: by turn, then by the order of asking.
pub type Entry = (Turn, u64, ObjectKey);

/// Longer parts are split. Finding a place costs the number of parts plus the length of one part.
const LONGEST: usize = 256;

/// A sorted list in non-empty parts: finding a host's place costs hardly more with 10,000 hosts than with ten.
#[derive(Debug, Default)]
pub struct Line(Vec<Vec<Entry>>);

impl Line {
    pub fn first(&self) -> Option<&Entry> {
        self.0.first()?.first()
    }

    pub fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.0.iter().flatten()
    }

    /// The number of entries before it.
    pub fn place(&self, entry: &Entry) -> usize {
        let at = self.part(entry);
        let before: usize = self.0.iter().take(at).map(Vec::len).sum();
        let within = self.0.get(at).map_or(0, |part| part.partition_point(|e| e < entry));
        before + within
    }

    /// Inserts an entry that is not in the line.
    pub fn insert(&mut self, entry: Entry) {
        let at = self.part(&entry).min(self.0.len().saturating_sub(1));
        let Some(part) = self.0.get_mut(at) else {
            return self.0.push(vec![entry]);
        };
        part.insert(part.partition_point(|e| *e < entry), entry);
        if part.len() > LONGEST {
            let second = part.split_off(LONGEST / 2);
            self.0.insert(at + 1, second);
        }
    }

    /// Removes an entry; returns whether it was in the line.
    pub fn remove(&mut self, entry: &Entry) -> bool {
        let at = self.part(entry);
        let Some(part) = self.0.get_mut(at) else { return false };
        let Ok(within) = part.binary_search(entry) else {
            return false;
        };
        part.remove(within);
        if part.is_empty() {
            self.0.remove(at);
        }
        true
    }

    /// The part that the entry is in, if any.
    fn part(&self, entry: &Entry) -> usize {
        self.0
            .partition_point(|part| part.last().is_some_and(|last| last < entry))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use jiff::Timestamp;
    use proptest::prelude::*;

    use super::*;

    fn entry(number: u64) -> Entry {
        let host = ObjectKey::new("ns", "h");
        (Turn::Wanted(Timestamp::UNIX_EPOCH), number, host)
    }

    proptest! {
        #[test]
        fn a_line_is_a_sorted_set(changes in prop::collection::vec((0..2000_u64, 0..4_u8), 0..3000)) {
            let (mut line, mut set) = (Line::default(), BTreeSet::new());
            for (number, kind) in changes {
                let entry = entry(number);
                if kind == 0 {
                    prop_assert_eq!(line.remove(&entry), set.remove(&entry));
                } else if set.insert(entry.clone()) {
                    line.insert(entry.clone());
                }
                prop_assert_eq!(line.place(&entry), set.range(..entry).count());
            }
            prop_assert_eq!(line.first(), set.first());
            prop_assert!(line.iter().eq(&set));
        }
    }
}
