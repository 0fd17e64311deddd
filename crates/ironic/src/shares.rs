//! Memory that tenants share. Who has some may take more as long as it leaves as much to the others: the first half of all, the next
//! half of the rest. So something is left for the next tenant.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

/// So many bytes. Clones are the same.
#[derive(Clone, Debug)]
pub struct Shares(Arc<State>);

#[derive(Debug)]
struct State {
    /// For all together, in bytes.
    most: usize,
    /// How much of it no tenant gets, only the operator itself.
    reserved: usize,
    /// Those who have taken any.
    taken: Mutex<BTreeMap<Arc<str>, usize>>,
    returned: Notify,
}

/// What a tenant has taken, until this is dropped.
#[derive(Debug)]
pub struct Share {
    shares: Shares,
    tenant: Arc<str>,
    size: usize,
}

impl Shares {
    /// So many bytes, all of them for tenants.
    pub fn new(most: usize) -> Self {
        Self::with_reserve(most, 0)
    }

    /// So many bytes, of which a part is reserved for the operator: the tenant with the empty name, to which the rest is open, too.
    pub(crate) fn with_reserve(most: usize, reserved: usize) -> Self {
        Self(Arc::new(State {
            most,
            reserved,
            taken: Mutex::default(),
            returned: Notify::new(),
        }))
    }

    /// The share of this tenant's next use, with nothing in it.
    pub fn none(&self, tenant: Arc<str>) -> Share {
        let (shares, size) = (self.clone(), 0);
        Share { shares, tenant, size }
    }

    /// Waits until this tenant may have so many bytes.
    pub async fn wait(&self, tenant: &str, size: usize) -> Share {
        let mut share = self.none(tenant.into());
        loop {
            // Before the look, so that nothing returned after it is missed.
            let returned = self.0.returned.notified();
            if share.grow(size) {
                return share;
            }
            returned.await;
        }
    }
}

impl Share {
    /// How many bytes it has.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Takes so many more, if the tenant may have them.
    #[must_use]
    pub fn grow(&mut self, more: usize) -> bool {
        let state = &*self.shares.0;
        let mut taken = state.taken.lock();
        let all: usize = taken.values().sum();
        let own = taken.get(&self.tenant).copied().unwrap_or_default();
        let is_left = if self.tenant.is_empty() {
            more <= state.most - all
        } else {
            let operators = taken.get("").copied().unwrap_or_default();
            let tenants = all - operators;
            let free = state.most.saturating_sub(tenants + operators.max(state.reserved));
            more <= free && (own == 0 || own + more <= free - more)
        };
        if !is_left {
            return false;
        }
        taken.insert(self.tenant.clone(), own + more);
        self.size += more;
        true
    }

    /// Returns all beyond so many bytes.
    pub fn keep(&mut self, size: usize) {
        let spare = self.size.saturating_sub(size);
        if spare == 0 {
            return;
        }
        self.size -= spare;
        let state = &*self.shares.0;
        let mut taken = state.taken.lock();
        if let Some(own) = taken.get_mut(&self.tenant) {
            *own -= spare;
        }
        taken.retain(|_, own| *own > 0);
        drop(taken);
        state.returned.notify_waiters();
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.keep(0);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    /// Takes by ones all that this tenant may have.
    fn all(shares: &Shares, tenant: &str) -> Share {
        let mut share = shares.none(tenant.into());
        while share.grow(1) {}
        share
    }

    #[test]
    fn each_tenant_leaves_as_much_as_it_takes() {
        let shares = Shares::new(120);
        let first = all(&shares, "a");
        let second = all(&shares, "b");
        let third = all(&shares, "c");
        assert_eq!([first.size(), second.size(), third.size()], [60, 30, 15]);
        drop(first);
        let mut first = all(&shares, "a");
        assert_eq!(first.size(), 37);
        first.keep(7);
        assert_eq!(all(&shares, "c").size(), 26);
    }

    #[test]
    fn the_operator_has_a_part_that_no_tenant_takes() {
        let shares = Shares::with_reserve(120, 20);
        let tenants = ["a", "b", "c", "d", "e", "f", "g", "h"].map(|tenant| all(&shares, tenant));
        assert_eq!(tenants[0].size(), 50);
        let operator = all(&shares, "");
        assert_eq!(operator.size(), 20);
        assert!(!shares.none("i".into()).grow(1));
        drop(operator);
        drop(tenants);
        assert_eq!(all(&shares, "").size(), 120);
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_gets_what_is_returned() {
        let shares = Shares::new(120);
        let mut first = shares.wait("a", 60).await;
        let second = timeout(Duration::from_secs(9), shares.wait("a", 10)).await;
        assert!(second.is_err());
        let waiting = timeout(Duration::from_secs(9), shares.wait("a", 10));
        let (got, ()) = tokio::join!(waiting, async {
            tokio::task::yield_now().await;
            first.keep(50);
        });
        assert_eq!(got.unwrap().size(), 10);
        drop(first);
        assert!(shares.0.taken.lock().is_empty());
    }
}
