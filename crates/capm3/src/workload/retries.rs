//! How long a cluster that exceeded a bound is left alone. Each try may cost all that the bound allows.

use std::time::Duration;

use metal3_runtime::backoff::Backoff;

const DELAYS: Backoff = Backoff {
    base: Duration::from_secs(20),
    max: Duration::from_secs(600),
};

/// Whoever stayed within the bounds for so long begins anew.
const GOOD: Duration = Duration::from_secs(900);

/// How often a cluster has exceeded a bound in a row.
#[derive(Clone, Copy, Debug, Default)]
pub struct Retries(u32);

impl Retries {
    /// It exceeded a bound after its Nodes were known for this time: when it is tried again.
    pub fn next(&mut self, was_good_for: Duration, seed: u64) -> Duration {
        if was_good_for >= GOOD {
            self.0 = 0;
        }
        let delay = DELAYS.delay(self.0, seed);
        self.0 = self.0.saturating_add(1);
        delay
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // OWN 23f: a cluster that exceeded a bound was read again every 20 s for ever.
    #[test]
    fn each_try_of_a_cluster_that_exceeds_bounds_comes_later() {
        let mut retries = Retries::default();
        for most in [20, 40, 80, 160, 320, 600, 600].map(Duration::from_secs) {
            let delay = retries.next(Duration::from_secs(899), u64::from(retries.0));
            assert!(delay > most / 2 && delay <= most, "{delay:?} of {most:?}");
        }
        assert!(retries.next(GOOD, 1) <= DELAYS.base, "it stayed good meanwhile");
        assert!(retries.next(Duration::ZERO, 1) > DELAYS.base / 2);
    }
}
