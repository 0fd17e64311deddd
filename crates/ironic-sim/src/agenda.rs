//! Scheduled events in a heap, so that an idle fleet costs nothing and an event costs the same in a fleet of any size.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

/// Something that is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Item {
    /// The task of a node goes on, if the node's epoch is still this one.
    Task { node: u32, epoch: u32 },
    /// The power state of a server's nodes is compared for the n-th time since its BMC was lost.
    PowerSync { machine: u32, failures: u32 },
    /// A server whose BMC was lost is looked at.
    PowerRecovery { machine: u32 },
}

/// The heap. Items of the same moment come in the order in which they were put in.
#[derive(Debug, Default)]
pub(crate) struct Agenda {
    items: BinaryHeap<Reverse<(Duration, u64, Item)>>,
    count: u64,
}

impl Agenda {
    pub fn put(&mut self, at: Duration, item: Item) {
        self.count += 1;
        self.items.push(Reverse((at, self.count, item)));
    }

    /// When the next one is due.
    pub fn next(&self) -> Option<Duration> {
        self.items.peek().map(|Reverse((at, _, _))| *at)
    }

    /// Takes the next one if it is due by now, with its moment.
    pub fn take(&mut self, now: Duration) -> Option<(Duration, Item)> {
        if self.next()? > now {
            return None;
        }
        self.items.pop().map(|Reverse((at, _, item))| (at, item))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_come_in_order() {
        let mut agenda = Agenda::default();
        let task = |node| Item::Task { node, epoch: 0 };
        for (at, node) in [(3, 1), (1, 2), (2, 3), (1, 4)] {
            agenda.put(Duration::from_secs(at), task(node));
        }
        let mut order = Vec::new();
        while let Some((_, item)) = agenda.take(Duration::from_secs(2)) {
            order.push(item);
        }
        assert_eq!(order, [task(2), task(4), task(3)]);
        assert_eq!(agenda.next(), Some(Duration::from_secs(3)));
    }
}
