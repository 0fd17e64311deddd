//! Turns: how many calls are in progress at once, and which is next.
//!
//! Calls that wait for a slow BMC take up to minutes. So the next call is for the tenant with the fewest in progress,
//! and ties go to the tenant served longest ago. The last few slots are reserved for tenants with none in progress.
//! Calls outside of [`on_behalf_of`] belong to a tenant of its own: the operator.

use parking_lot::{Mutex, MutexGuard};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use tokio::sync::oneshot;

/// One call in this many is reserved for tenants with none in progress.
const PER_RESERVED: usize = 8;

tokio::task_local! {
    static TENANT: Arc<str>;
}

/// Makes every call of a future for this tenant, so that one tenant's calls do not delay another's.
pub fn on_behalf_of<F: Future>(tenant: &str, calls: F) -> impl Future<Output = F::Output> + use<F> {
    TENANT.scope(tenant.into(), calls)
}

/// The tenant of the current task.
pub(crate) fn tenant() -> Arc<str> {
    TENANT.try_with(Arc::clone).unwrap_or_default()
}

/// So many calls at once. Clones are the same.
#[derive(Clone)]
pub(crate) struct Turns(Arc<Mutex<State>>);

struct State {
    free: usize,
    reserved: usize,
    /// How many turns were given.
    given: u64,
    /// Those who have calls under way, or wait for a turn.
    tenants: BTreeMap<Arc<str>, Tenant>,
}

struct Tenant {
    under_way: usize,
    /// How many turns had been given when it got its last one, or when it came.
    served: u64,
    waiting: VecDeque<oneshot::Sender<Permit>>,
}

/// A call that may be made. The next one may when this is dropped.
pub(crate) struct Permit {
    turns: Turns,
    tenant: Arc<str>,
}

impl Turns {
    pub fn new(most: usize) -> Self {
        Self(Arc::new(Mutex::new(State {
            free: most,
            reserved: most / PER_RESERVED,
            given: 0,
            tenants: BTreeMap::new(),
        })))
    }

    /// Waits for a turn of this tenant.
    pub async fn take(&self, tenant: Arc<str>) -> Option<Permit> {
        let (caller, turn) = oneshot::channel();
        {
            let mut state = self.lock();
            let served = state.given;
            let tenant = state.tenants.entry(tenant).or_insert_with(|| Tenant {
                under_way: 0,
                served,
                waiting: VecDeque::new(),
            });
            tenant.waiting.push_back(caller);
        }
        self.give();
        turn.await.ok()
    }

    /// Starts all calls that may start.
    fn give(&self) {
        loop {
            let Some((tenant, caller)) = self.lock().next() else {
                return;
            };
            let turns = self.clone();
            // A permit without a waiting caller is returned when it is dropped.
            caller.send(Permit { turns, tenant }).ok();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock()
    }
}

impl State {
    /// The next call, if one may be made. It counts as in progress from now on.
    fn next(&mut self) -> Option<(Arc<str>, oneshot::Sender<Permit>)> {
        let waiting = self.tenants.iter_mut().filter_map(|(name, tenant)| {
            while tenant.waiting.front().is_some_and(oneshot::Sender::is_closed) {
                tenant.waiting.pop_front();
            }
            (!tenant.waiting.is_empty()).then_some((name, tenant))
        });
        let (name, tenant) = waiting.min_by_key(|(_, tenant)| (tenant.under_way, tenant.served))?;
        let kept = if tenant.under_way > 0 { self.reserved } else { 0 };
        if self.free <= kept {
            return None;
        }
        let caller = tenant.waiting.pop_front()?;
        self.free -= 1;
        self.given += 1;
        tenant.under_way += 1;
        tenant.served = self.given;
        Some((name.clone(), caller))
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        {
            let mut state = self.turns.lock();
            state.free += 1;
            if let Some(tenant) = state.tenants.get_mut(&self.tenant) {
                tenant.under_way -= 1;
            }
            // Those who wait in vain are gone with the last call.
            state
                .tenants
                .retain(|_, tenant| tenant.under_way > 0 || tenant.waiting.iter().any(|caller| !caller.is_closed()));
        }
        self.turns.give();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::task::JoinSet;
    use tokio::time::{Instant, sleep, timeout};

    use super::*;

    /// Tasks of a tenant that each want a turn and hold it so long.
    fn call(tasks: &mut JoinSet<()>, turns: &Turns, tenant: &str, calls: usize, took: u64) {
        for _ in 0..calls {
            let (turns, tenant) = (turns.clone(), Arc::from(tenant));
            tasks.spawn(async move {
                let _permit = turns.take(tenant).await;
                sleep(Duration::from_secs(took)).await;
            });
        }
    }

    #[tokio::test(start_paused = true)]
    async fn calls_that_hang_leave_turns_to_other_tenants() {
        // OWN 22c: calls were made in the order of arrival.
        let (turns, mut tasks) = (Turns::new(16), JoinSet::new());
        call(&mut tasks, &turns, "tarpit", 100, 60);
        sleep(Duration::from_secs(1)).await;
        let start = Instant::now();
        for tenant in ["a", "b"] {
            let permit = turns.take(tenant.into()).await;
            assert!(permit.is_some() && start.elapsed().is_zero(), "{tenant}");
        }
        assert_eq!(turns.lock().free, 2, "these are kept for tenants without any");
        // A minute later, those that were kept go on, and half of what is free is theirs.
        call(&mut tasks, &turns, "a", 1000, 1);
        sleep(Duration::from_secs(60)).await;
        let under_way = |tenant: &str| turns.lock().tenants[tenant].under_way;
        assert_eq!([under_way("a"), under_way("tarpit")], [7, 7]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_turn_that_nobody_waits_for_is_another_ones() {
        let turns = Turns::new(1);
        let first = turns.take("a".into()).await;
        for _ in 0..3 {
            assert!(timeout(Duration::from_secs(1), turns.take("a".into())).await.is_err());
        }
        let mut given_late = Box::pin(turns.take("a".into()));
        assert!(timeout(Duration::from_secs(1), &mut given_late).await.is_err());
        drop(first);
        drop(given_late);
        assert!(turns.take("b".into()).await.is_some());
        let state = turns.lock();
        assert_eq!((state.free, state.tenants.len()), (1, 0));
    }
}
