//! Slots that are reserved for namespaces that hold none.
//!
//! Deletions do not wait for a slot, but their nodes still take one, so a tenant with many hanging hosts could hold all
//! slots that way. The reserve ensures that such a namespace takes no more from the others than it could get by asking.

use std::collections::HashMap;

use super::{Busy, Slots};

/// One slot in this many is reserved, and at least one.
const ONE_IN: usize = 8;

impl Slots {
    /// Records that the namespace has hosts.
    pub fn meet(&mut self, namespace: &str) {
        if !self.namespaces.contains(namespace) {
            self.namespaces.insert(namespace.to_owned());
        }
    }

    /// The number of reserved slots. A single namespace can use all slots.
    pub(super) fn reserve(&self) -> usize {
        if self.limit > 1 && self.namespaces.len() > 1 {
            (self.limit / ONE_IN).max(1)
        } else {
            0
        }
    }

    /// The number of slots that each namespace holds.
    pub(super) fn held<'a>(&'a self, busy: &'a Busy) -> HashMap<&'a str, usize> {
        let mut held: HashMap<&str, usize> = busy.held.iter().map(|(name, held)| (name.as_str(), *held)).collect();
        for host in self.unseen(busy) {
            *held.entry(&host.namespace).or_default() += 1;
        }
        held
    }

    /// The number of free slots, including the reserved ones.
    pub(super) fn free(&self, busy: &Busy) -> usize {
        let reserve = self.reserve();
        let used = self.used(busy);
        let most = self.limit - reserve;
        if reserve == 0 || used <= most {
            return self.limit.saturating_sub(used);
        }
        let surplus: usize = self.held(busy).values().map(|held| held.saturating_sub(most)).sum();
        self.limit.saturating_sub(used - surplus)
    }
}
