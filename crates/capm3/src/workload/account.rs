//! Memory shared by all workload clusters: bytes of stored Nodes, and of responses and watch lines being read. A limit per
//! cluster alone would not bound a namespace with a thousand clusters.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

use super::bounds::Exceeded;

/// The limits, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// For one namespace.
    pub namespace: usize,
    /// For all namespaces together, beyond each one's guaranteed share.
    pub all: usize,
    /// Guaranteed to each namespace, whatever others use.
    pub own: usize,
}

impl Limits {
    /// A site of 100 clusters with 1000 ordinary Nodes each takes some 900 MiB and may be in one namespace. Four namespaces that
    /// use their maximum leave 16 MiB to each other one, which is 1900 Nodes.
    pub const DEFAULT: Self = Self {
        namespace: 1 << 30,
        all: 4 << 30,
        own: 16 << 20,
    };
}

/// Counts the bytes. Clones share the account.
#[derive(Clone, Debug)]
pub struct Account(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    limits: Limits,
    used: Mutex<Used>,
}

#[derive(Debug, Default)]
struct Used {
    namespaces: HashMap<String, usize>,
    /// What the namespaces use beyond their guaranteed shares.
    beyond: usize,
}

impl Account {
    /// An empty account.
    pub fn new(limits: Limits) -> Self {
        let used = Mutex::default();
        Self(Arc::new(Inner { limits, used }))
    }

    /// A new, empty share of this namespace.
    pub fn share(&self, namespace: &str) -> Share {
        Share {
            account: self.clone(),
            namespace: namespace.to_owned(),
            bytes: 0,
        }
    }

    /// Replaces `less` bytes with `more`. A refusal changes nothing; a reduction is never refused.
    fn exchange(&self, namespace: &str, less: usize, more: usize) -> Result<(), Exceeded> {
        let Inner { limits, used } = &*self.0;
        let mut used = used.lock();
        let before = used.namespaces.get(namespace).copied().unwrap_or_default();
        let after = before - less + more;
        let beyond = used.beyond - before.saturating_sub(limits.own) + after.saturating_sub(limits.own);
        if more > less && after > limits.namespace {
            return Err(Exceeded::Namespace(limits.namespace));
        }
        if more > less && after > limits.own && beyond > limits.all {
            return Err(Exceeded::All(limits.all));
        }
        used.beyond = beyond;
        if after == 0 {
            used.namespaces.remove(namespace);
        } else {
            used.namespaces.insert(namespace.to_owned(), after);
        }
        Ok(())
    }
}

/// The bytes of one reader or store. Released on drop.
#[derive(Debug)]
pub struct Share {
    account: Account,
    namespace: String,
    bytes: usize,
}

impl Share {
    /// Sets the total of this share. If that is too much, the share keeps its previous size.
    pub fn set(&mut self, bytes: usize) -> Result<(), Exceeded> {
        if bytes != self.bytes {
            self.account.exchange(&self.namespace, self.bytes, bytes)?;
            self.bytes = bytes;
        }
        Ok(())
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.set(0).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SMALL: Limits = Limits {
        namespace: 100,
        all: 150,
        own: 10,
    };

    fn taken(account: &Account) -> (usize, usize) {
        let used = account.0.used.lock();
        (used.namespaces.values().sum(), used.beyond)
    }

    // OWN 23e: a limit per cluster did not bound a namespace with a thousand of them.
    #[test]
    fn a_namespace_takes_no_more_than_its_part_whatever_number_of_clusters_it_has() {
        let account = Account::new(SMALL);
        let mut shares: Vec<Share> = (0..1000).map(|_| account.share("hostile")).collect();
        let granted = shares.iter_mut().filter_map(|share| share.set(3).ok()).count();
        assert_eq!(granted, 33);
        assert_eq!(account.share("hostile").set(4), Err(Exceeded::Namespace(100)));
        account.share("other").set(60).unwrap();
        drop(shares);
        assert_eq!(taken(&account), (0, 0));
        account.share("hostile").set(100).unwrap();
    }

    #[test]
    fn all_together_take_no_more_than_all_may_and_each_has_its_own() {
        let account = Account::new(SMALL);
        let (mut first, mut second) = (account.share("a"), account.share("b"));
        first.set(100).unwrap();
        assert_eq!(second.set(71), Err(Exceeded::All(150)));
        second.set(70).unwrap();
        let mut small = account.share("c");
        small.set(10).unwrap();
        assert_eq!(small.set(11), Err(Exceeded::All(150)));
        second.set(69).unwrap();
        small.set(11).unwrap();
    }

    #[test]
    fn whoever_has_too_much_may_take_less() {
        let account = Account::new(SMALL);
        let mut shares = ["a", "b"].map(|namespace| account.share(namespace));
        shares[0].set(100).unwrap();
        assert_eq!(shares[0].set(101), Err(Exceeded::Namespace(100)));
        shares[0].set(99).unwrap();
        shares[1].set(70).unwrap();
        shares[0].set(1).unwrap();
        assert_eq!(taken(&account), (71, 60));
    }

    proptest! {
        #[test]
        fn what_is_taken_is_the_sum_of_the_shares(steps in prop::collection::vec((0..6_usize, 0..120_usize), 0..60)) {
            let account = Account::new(SMALL);
            let mut shares: Vec<Share> = (0..6).map(|n| account.share(["a", "b", "c"][n % 3])).collect();
            for (which, bytes) in steps {
                shares[which].set(bytes).ok();
                let of = |n: usize| shares[n].bytes + shares[n + 3].bytes;
                let beyond: usize = (0..3).map(|n| of(n).saturating_sub(SMALL.own)).sum();
                prop_assert_eq!(taken(&account), ((0..3).map(of).sum(), beyond));
                prop_assert!((0..3).all(|n| of(n) <= SMALL.namespace) && beyond <= SMALL.all);
            }
        }
    }
}
