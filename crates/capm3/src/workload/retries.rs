//! The backoff of a cluster that exceeded a limit. Each attempt may cost as much as the limit allows.

use std::time::Duration;

use metal3_runtime::timing::provider::{WORKLOAD_EXCEEDED, WORKLOAD_GOOD};

/// Consecutive interruptions without a backoff: an API server restarts now and then during an upgrade.
const FREE: u32 = 3;

/// Consecutive times that a cluster exceeded a limit, or that its watch was interrupted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Retries {
    exceeded: u32,
    interrupted: u32,
}

impl Retries {
    /// It exceeded a limit after its Nodes were known for this time: returns when to retry.
    pub fn next(&mut self, was_good_for: Duration, seed: u64) -> Duration {
        next(&mut self.exceeded, was_good_for, 0, seed)
    }

    /// Its watch was interrupted after this time: returns when to list again. Each list costs this process work, which a cluster
    /// could cause without end.
    pub fn after_interruption(&mut self, lasted: Duration, seed: u64) -> Duration {
        next(&mut self.interrupted, lasted, FREE, seed)
    }
}

fn next(count: &mut u32, was_good_for: Duration, free: u32, seed: u64) -> Duration {
    if was_good_for >= WORKLOAD_GOOD {
        *count = 0;
    }
    let delay = count
        .checked_sub(free)
        .map_or(Duration::ZERO, |more| WORKLOAD_EXCEEDED.delay(more, seed));
    *count = count.saturating_add(1);
    delay
}

#[cfg(test)]
mod tests {
    use super::*;

    // OWN 23f: a cluster that exceeded a limit was read again every 20 s for ever.
    #[test]
    fn each_try_of_a_cluster_that_exceeds_bounds_comes_later() {
        let mut retries = Retries::default();
        for most in [20, 40, 80, 160, 320, 600, 600].map(Duration::from_secs) {
            let delay = retries.next(Duration::from_secs(899), u64::from(retries.exceeded));
            assert!(delay > most / 2 && delay <= most, "{delay:?} of {most:?}");
        }
        assert!(
            retries.next(WORKLOAD_GOOD, 1) <= WORKLOAD_EXCEEDED.base,
            "it stayed good meanwhile"
        );
        assert!(retries.next(Duration::ZERO, 1) > WORKLOAD_EXCEEDED.base / 2);
    }

    // OWN 23i: a cluster that broke its watch repeatedly had its Nodes listed every 5 s for ever.
    #[test]
    fn each_list_after_many_interruptions_comes_later() {
        let mut retries = Retries::default();
        for _ in 0..FREE {
            assert_eq!(retries.after_interruption(Duration::ZERO, 1), Duration::ZERO);
        }
        for most in [20, 40, 80].map(Duration::from_secs) {
            let delay = retries.after_interruption(Duration::ZERO, 1);
            assert!(delay > most / 2 && delay <= most, "{delay:?} of {most:?}");
        }
        assert_eq!(retries.after_interruption(WORKLOAD_GOOD, 1), Duration::ZERO);
    }
}
