//! Slots that are kept for namespaces that hold none.
//!
//! Deletions wait for no slot, and their nodes take one all the same: a tenant with many hosts that hang could hold all of them by
//! that. So one namespace takes no more from the others than it could get by asking.

use std::collections::HashMap;

use super::{Busy, Slots};

/// One slot in so many is kept, and at least one.
const ONE_IN: usize = 8;

impl Slots {
    /// The namespace has hosts.
    pub fn meet(&mut self, namespace: &str) {
        if !self.namespaces.contains(namespace) {
            self.namespaces.insert(namespace.to_owned());
        }
    }

    /// How many slots are kept. A namespace that is alone has all of them.
    pub(super) fn reserve(&self) -> usize {
        if self.limit > 1 && self.namespaces.len() > 1 {
            (self.limit / ONE_IN).max(1)
        } else {
            0
        }
    }

    /// How many slots each namespace holds.
    pub(super) fn held<'a>(&'a self, busy: &'a Busy) -> HashMap<&'a str, usize> {
        let mut held: HashMap<&str, usize> = busy.held.iter().map(|(name, held)| (name.as_str(), *held)).collect();
        for host in self.unseen(busy) {
            *held.entry(&host.namespace).or_default() += 1;
        }
        held
    }

    /// How many slots can be had, those that are kept among them.
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
