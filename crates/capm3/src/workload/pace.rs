//! How fast the watch of one workload cluster is read. Each change costs this process work: its API server may send as many as the
//! network carries.
//!
//! Beyond the limit reading pauses, so that TCP holds the server back. Nothing is lost: changes come later, and other clusters have
//! connections of their own.

use std::sync::Arc;
use std::time::Duration;

use metal3_runtime::store::ObjectKey;
use metal3_runtime::timing::provider::{WORKLOAD_PAUSE, WORKLOAD_SLOWED};
use parking_lot::Mutex;
use tokio::time::Instant;

/// What one change costs: 100 of them are read in a second. 10,000 Nodes, whose kubelets report every five minutes, change 33 times
/// in a second.
const CHANGE: Duration = Duration::from_millis(10);
/// What a KiB costs: 4 MiB are read in a second.
const KIB: Duration = Duration::from_micros(244);
/// What a watch costs that begins. Usually one takes five minutes.
const WATCH: Duration = Duration::from_secs(1);
/// What may be read at once after a time with few changes: 5000 changes, when all Nodes of a large cluster get a label.
const BURST: Duration = Duration::from_secs(50);

/// A rate limiter: what was read is paid for until this time.
#[derive(Clone, Copy, Debug, Default)]
struct Due(Duration);

impl Due {
    /// Pays for what was just read. Returns how long to pause.
    fn pay(&mut self, cost: Duration, now: Duration) -> Duration {
        let pause = (self.0.max(now) + cost).saturating_sub(now + BURST).min(WORKLOAD_PAUSE);
        // What was read already is not paid for beyond the longest pause.
        self.0 = (self.0.max(now) + cost).min(now + BURST + pause);
        pause
    }
}

/// The pace of one workload cluster, whatever kubeconfig and connection it has. Clones share the state.
#[derive(Clone, Debug)]
pub struct Pace(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    cluster: ObjectKey,
    begin: Instant,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    due: Due,
    /// Until when the cluster counts as slowed down.
    slowed: Duration,
}

impl Pace {
    /// Of which cluster it is.
    pub fn cluster(&self) -> &ObjectKey {
        &self.0.cluster
    }

    /// For this cluster, from now on.
    pub fn new(cluster: ObjectKey) -> Self {
        let state = Mutex::default();
        let begin = Instant::now();
        Self(Arc::new(Inner { cluster, begin, state }))
    }

    /// A watch begins. Returns how long to wait before it is read.
    pub fn begin(&self) -> Duration {
        self.pay(WATCH)
    }

    /// So many changes, of so many bytes, were read. Returns how long to wait before more is read.
    pub fn read(&self, changes: u32, bytes: usize) -> Duration {
        let kibibytes = u32::try_from(bytes / 1024).unwrap_or(u32::MAX);
        self.pay(
            CHANGE
                .saturating_mul(changes)
                .saturating_add(KIB.saturating_mul(kibibytes)),
        )
    }

    /// Whether reading has paused lately.
    pub fn is_slowed(&self) -> bool {
        self.0.begin.elapsed() < self.0.state.lock().slowed
    }

    fn pay(&self, cost: Duration) -> Duration {
        let now = self.0.begin.elapsed();
        let mut state = self.0.state.lock();
        let pause = state.due.pay(cost, now);
        if !pause.is_zero() {
            if state.slowed <= now {
                tracing::warn!(
                    cluster = %self.0.cluster,
                    "a workload cluster sends changes of its Nodes faster than they are read; they come later, and other clusters are not \
                     affected: see what changes its Nodes more than 100 times in a second"
                );
            }
            state.slowed = now + pause + WORKLOAD_SLOWED;
        }
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // OWN 23l: a workload cluster that streamed changes as fast as it could took the CPU of the provider.
    #[test]
    fn so_many_changes_are_read_at_once_and_so_many_in_a_second() {
        let (mut due, mut now) = (Due::default(), Duration::ZERO);
        let at_once = (0..10_000).take_while(|_| due.pay(CHANGE, now).is_zero()).count();
        assert_eq!(at_once, 5000);
        let begin = now;
        for _ in 0..1000 {
            now += due.pay(CHANGE, now);
        }
        let took = now - begin;
        assert!((9..=11).contains(&took.as_secs()), "{took:?}");
        now += BURST;
        assert_eq!(due.pay(BURST, now), Duration::ZERO, "it has been silent");
    }

    #[test]
    fn a_pause_is_not_longer_than_the_longest() {
        let mut due = Due::default();
        assert_eq!(due.pay(Duration::from_secs(100_000), Duration::ZERO), WORKLOAD_PAUSE);
        assert_eq!(due.pay(CHANGE, WORKLOAD_PAUSE), CHANGE);
    }

    #[tokio::test(start_paused = true)]
    async fn a_cluster_counts_as_slowed_for_a_while() {
        let pace = Pace::new(ObjectKey::new("ns", "c"));
        assert_eq!(pace.read(5000, 0), Duration::ZERO);
        assert!(!pace.is_slowed());
        let pause = pace.read(100, 0);
        assert_eq!(pause.as_secs(), 1);
        assert!(pace.is_slowed());
        tokio::time::advance(pause + WORKLOAD_SLOWED).await;
        assert!(!pace.is_slowed());
        // Large ones are fewer.
        tokio::time::advance(BURST).await;
        assert!(pace.read(0, 300 << 20) > Duration::from_secs(10));
    }
}
