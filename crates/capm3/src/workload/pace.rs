//! How fast one workload cluster is read. Each byte and each change costs this process work: its API server may send as many as the
//! network carries.
//!
//! Beyond the limit reading pauses, so that TCP holds the server back. Nothing is lost: changes come later, and other clusters have
//! connections of their own.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use metal3_runtime::store::ObjectKey;
use metal3_runtime::timing::provider::WORKLOAD_SLOWED;
use parking_lot::Mutex;
use tokio::time::Instant;

/// What one change costs: 100 of them are read in a second. 10,000 Nodes, whose kubelets report every five minutes, change 33 times
/// in a second.
const CHANGE: Duration = Duration::from_millis(10);
/// What a byte of a connection costs: 4 MiB are read in a second.
const BYTE: Duration = Duration::from_nanos(238);
/// What a part of an answer costs, besides its bytes: a chunk of one byte takes about a microsecond of this process.
const PART: Duration = Duration::from_micros(2);
/// What a watch costs when it begins. Usually one takes five minutes.
const WATCH: Duration = Duration::from_secs(1);
/// What may be read at once after a time with few changes: 5000 changes, when all Nodes of a large cluster get a label.
const BURST: Duration = Duration::from_secs(50);
/// A change has more bytes than this. Shorter lines are no changes.
const LEAST: usize = 32;
/// The clusters of a namespace may together be read as fast as this many.
const SHARED: u32 = 10;

/// A rate limiter: what was read is paid for until this time.
#[derive(Clone, Copy, Debug, Default)]
struct Due(Duration);

impl Due {
    /// Pays for what was just read. Returns how long to pause.
    fn pay(&mut self, cost: Duration, now: Duration) -> Duration {
        self.0 = self.0.max(now).saturating_add(cost);
        self.0.saturating_sub(now + BURST)
    }
}

/// The paces of all clusters, and what the clusters of each namespace share.
#[derive(Debug)]
pub struct Paces {
    begin: Instant,
    /// Of each namespace that has a cluster, or whose last one was read faster than the limit a short time ago: clusters that are
    /// deleted and created again would otherwise have no limit.
    namespaces: Mutex<HashMap<String, Arc<Mutex<Due>>>>,
}

impl Default for Paces {
    fn default() -> Self {
        Self {
            begin: Instant::now(),
            namespaces: Mutex::default(),
        }
    }
}

impl Paces {
    /// A pace for one more cluster.
    pub fn of(&self, cluster: ObjectKey) -> Pace {
        let now = self.begin.elapsed();
        let mut namespaces = self.namespaces.lock();
        namespaces.retain(|_, due| Arc::strong_count(due) > 1 || due.lock().0 > now);
        let shared = namespaces.entry(cluster.namespace.clone()).or_default().clone();
        Pace(Arc::new(Inner {
            cluster,
            begin: self.begin,
            shared,
            state: Mutex::default(),
        }))
    }
}

/// The pace of one workload cluster, whatever kubeconfig and connection it has. Clones share the state.
#[derive(Clone, Debug)]
pub struct Pace(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    cluster: ObjectKey,
    begin: Instant,
    /// Of the cluster's namespace.
    shared: Arc<Mutex<Due>>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    due: Due,
    /// Until when the cluster counts as slowed down.
    slowed: Duration,
    /// How long reading will have paused by `paused_until`.
    paused: Duration,
    paused_until: Duration,
}

fn times(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

impl Pace {
    /// Of which cluster it is.
    pub fn cluster(&self) -> &ObjectKey {
        &self.0.cluster
    }

    /// A watch begins. Returns how long to wait before it is read.
    pub fn begin(&self) -> Duration {
        self.pay(WATCH)
    }

    /// A connection has delivered so many bytes, of whatever kind. Returns how long to wait before more is read.
    pub fn received(&self, bytes: usize) -> Duration {
        self.pay(BYTE.saturating_mul(times(bytes)))
    }

    /// A part of an answer with so many lines, of so many bytes, was read. Returns how long to wait before more is read.
    pub fn read(&self, lines: usize, bytes: usize) -> Duration {
        self.pay(
            CHANGE
                .saturating_mul(times(lines.min(bytes / LEAST)))
                .saturating_add(PART),
        )
    }

    /// How long reading has paused until now.
    pub fn paused(&self) -> Duration {
        let state = self.0.state.lock();
        let left = state.paused_until.saturating_sub(self.0.begin.elapsed());
        state.paused.saturating_sub(left)
    }

    /// Whether reading has paused lately.
    pub fn is_slowed(&self) -> bool {
        self.0.begin.elapsed() < self.0.state.lock().slowed
    }

    fn pay(&self, cost: Duration) -> Duration {
        let now = self.0.begin.elapsed();
        let shared = self.0.shared.lock().pay(cost / SHARED, now);
        let mut state = self.0.state.lock();
        let pause = state.due.pay(cost, now).max(shared);
        if !pause.is_zero() {
            if state.slowed <= now {
                tracing::warn!(
                    cluster = %self.0.cluster,
                    "a workload cluster, or those of its namespace together, send Nodes and changes of them faster than they are read; they \
                     come later, and other namespaces are not affected: see what changes its Nodes more than 100 times in a second"
                );
            }
            // Pauses of several connections at a time count once.
            let until = now + pause;
            let from = state.paused_until.max(now);
            state.paused += until.saturating_sub(from);
            state.paused_until = state.paused_until.max(until);
            state.slowed = until + WORKLOAD_SLOWED;
        }
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: usize = 100;

    fn cluster(namespace: &str, number: usize) -> ObjectKey {
        ObjectKey::new(namespace, number.to_string())
    }

    #[test]
    fn so_many_changes_are_read_at_once_and_so_many_in_a_second() {
        let (mut due, mut now) = (Due::default(), Duration::ZERO);
        let at_once = (0..10_000).take_while(|_| due.pay(CHANGE, now).is_zero()).count();
        assert_eq!(at_once, 5000);
        for _ in 0..1000 {
            now += due.pay(CHANGE, now);
        }
        assert!((9..=11).contains(&now.as_secs()), "{now:?}");
        now += BURST;
        assert_eq!(due.pay(BURST, now), Duration::ZERO, "it has been silent");
    }

    #[tokio::test(start_paused = true)]
    async fn a_cluster_counts_as_slowed_for_a_while() {
        let pace = Paces::default().of(cluster("ns", 0));
        assert_eq!(pace.read(4900, 4900 * LEAST), Duration::ZERO);
        assert!(!pace.is_slowed());
        let pause = pace.read(200, 200 * LEAST);
        assert_eq!(pause.as_secs(), 1);
        assert!(pace.is_slowed());
        tokio::time::advance(pause + WORKLOAD_SLOWED).await;
        assert!(!pace.is_slowed());
        tokio::time::advance(BURST).await;
        let pause = pace.received(300 << 20);
        assert!(pause > Duration::from_secs(20), "large ones are fewer: {pause:?}");
        tokio::time::advance(pause + BURST).await;
        let pause = pace.read(320_000, 320_000);
        assert_eq!(pause.as_secs(), 50, "empty lines are no changes");
    }

    #[tokio::test(start_paused = true)]
    async fn pauses_at_the_same_time_count_once() {
        let pace = Paces::default().of(cluster("ns", 0));
        let first = pace.received(300 << 20);
        let both = pace.received(1 << 20);
        assert!(first > Duration::ZERO && both > first);
        assert_eq!(pace.paused(), Duration::ZERO);
        tokio::time::advance(first / 2).await;
        assert_eq!(pace.paused(), first / 2);
        tokio::time::advance(both).await;
        assert_eq!(pace.received(0), Duration::ZERO);
        assert_eq!(pace.paused(), both);
    }

    // A tenant with a thousand hostile clusters would be read a thousand times as fast.
    #[tokio::test(start_paused = true)]
    async fn the_clusters_of_a_namespace_share_a_pace() {
        let paces = Paces::default();
        let hostile: Vec<_> = (0..20).map(|number| paces.of(cluster("hostile", number))).collect();
        let pauses: Vec<_> = hostile
            .iter()
            .map(|pace| pace.read(4900, 4900 * LINE).is_zero())
            .collect();
        let at_once = pauses.iter().take_while(|is_read| **is_read).count();
        assert!((9..=10).contains(&at_once), "{at_once}");
        assert!(pauses[at_once..].iter().all(|is_read| !is_read));
        assert!(paces.of(cluster("other", 0)).read(4000, 4000 * LINE).is_zero());
    }

    // OWN 30xi: the limit began anew with each cluster that was deleted and created again.
    #[tokio::test(start_paused = true)]
    async fn what_a_namespace_owes_outlives_its_clusters() {
        let paces = Paces::default();
        // Each is the only one of its namespace, and deleted before the next is created.
        let pauses = (0..40).map(|number| paces.of(cluster("hostile", number)).read(4900, 4900 * LINE));
        let at_once = pauses.take_while(Duration::is_zero).count();
        assert!((9..=11).contains(&at_once), "{at_once}");
        assert_eq!(paces.namespaces.lock().len(), 1);
        tokio::time::advance(2 * BURST).await;
        assert!(paces.of(cluster("hostile", 0)).read(4000, 4000 * LINE).is_zero());
        tokio::time::advance(BURST).await;
        drop(paces.of(cluster("other", 0)));
        assert_eq!(paces.namespaces.lock().len(), 1, "nothing is owed by the first");
    }
}
