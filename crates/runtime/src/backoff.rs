//! How long to wait before trying again. Pure: the attempt and a random seed go in, a duration comes out.

use std::{
    collections::HashMap,
    hash::{BuildHasher, Hash, Hasher, RandomState},
    time::Duration,
};

use parking_lot::{Mutex, MutexGuard};

/// Exponential growth with jitter, for errors that are likely to go away by themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// The longest delay after the first failure.
    pub base: Duration,
    /// The longest delay after any number of failures.
    pub max: Duration,
}

impl Backoff {
    /// For a busy or unreachable peer: half a second at first, never more than a minute.
    pub const TRANSIENT: Self = Self {
        base: Duration::from_millis(500),
        max: Duration::from_secs(60),
    };

    /// The delay after `attempt` earlier failures (0 is the first): between half and all of `base · 2^attempt`, capped.
    pub fn delay(&self, attempt: u32, seed: u64) -> Duration {
        let whole = self.base.saturating_mul(2_u32.saturating_pow(attempt)).min(self.max);
        jittered(whole, seed)
    }
}

/// The number of failures after which [`failure_delay`] stops growing.
pub const MAX_FAILURE_EXPONENT: u32 = 9;

/// Upstream's curve for failures that the hardware or Ironic reported: `base · 2^min(failures, 9) · (1 − 0.5·U)`.
///
/// With upstream's base of one minute the first failure waits one to two minutes and the ninth more than four hours.
pub fn failure_delay(base: Duration, failures: u32, seed: u64) -> Duration {
    jittered(base.saturating_mul(1 << failures.min(MAX_FAILURE_EXPONENT)), seed)
}

/// Upstream's base for [`failure_delay`].
pub const FAILURE_BASE: Duration = Duration::from_secs(60);

/// Between half (exclusive) and all of `whole`: spread enough that a thousand hosts do not come back at once.
fn jittered(whole: Duration, seed: u64) -> Duration {
    Duration::try_from_secs_f64(whole.as_secs_f64() * (1.0 - 0.5 * unit(seed))).unwrap_or(whole)
}

/// Maps a seed to [0, 1); neighbouring seeds yield very different values.
pub fn unit(seed: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "53 bits fit a double exactly")]
    let fraction = (mixed(seed) >> 11) as f64 / (1_u64 << 53) as f64;
    fraction
}

/// Spreads a seed over all 64 bits (splitmix64's finaliser).
pub fn mixed(seed: u64) -> u64 {
    let mut mixed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// The hash of a text (FNV-1a), the same in every process.
pub fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// A seed from the operating system's randomness, for the places that feed a seed into decisions.
pub fn random_seed() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// How often each object has failed in a row.
#[derive(Debug)]
pub struct Attempts<K>(Mutex<HashMap<K, u32>>);

impl<K> Default for Attempts<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Eq + Hash + Clone> Attempts<K> {
    /// Counts a failure of `key` and returns how many came before it.
    pub fn failed(&self, key: &K) -> u32 {
        let mut counts = self.lock();
        let Some(count) = counts.get_mut(key) else {
            counts.insert(key.clone(), 1);
            return 0;
        };
        let before = *count;
        *count = before.saturating_add(1);
        before
    }

    /// How often `key` has failed in a row.
    pub fn count(&self, key: &K) -> u32 {
        self.lock().get(key).copied().unwrap_or_default()
    }

    /// Forgets the failures of `key` after a success or a deletion. Without this the map would grow forever.
    pub fn reset(&self, key: &K) {
        self.lock().remove(key);
    }

    /// The number of objects that are failing now.
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// Whether nothing is failing now.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<K, u32>> {
        self.0.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rstest::rstest;

    #[rstest]
    #[case(0, 1)]
    #[case(1, 2)]
    #[case(2, 4)]
    #[case(5, 32)]
    #[case(9, 512)]
    #[case(10, 512)]
    #[case(u32::MAX, 512)]
    fn failures_follow_the_curve(#[case] failures: u32, #[case] minutes: u64) {
        let whole = Duration::from_secs(minutes * 60);
        for seed in 0..200 {
            let delay = failure_delay(FAILURE_BASE, failures, seed);
            assert!(delay > whole / 2 && delay <= whole, "{failures}: {delay:?}");
        }
    }

    proptest! {
        #[test]
        fn delays_stay_within_their_bounds(attempt in any::<u32>(), seed in any::<u64>()) {
            let backoff = Backoff::TRANSIENT;
            let delay = backoff.delay(attempt, seed);
            prop_assert!(delay >= backoff.base / 2 && delay <= backoff.max);
            prop_assert_eq!(delay, backoff.delay(attempt, seed));
            prop_assert!((0.0..1.0).contains(&unit(seed)));
        }
    }

    #[test]
    fn jitter_spreads() {
        let delays: std::collections::HashSet<_> = (0..100).map(|seed| Backoff::TRANSIENT.delay(9, seed)).collect();
        assert!(delays.len() > 95);
        assert_ne!(random_seed(), random_seed());
    }

    #[test]
    fn attempts_count_up_until_reset() {
        let attempts = Attempts::default();
        assert_eq!(
            (attempts.failed(&"a"), attempts.failed(&"a"), attempts.failed(&"b")),
            (0, 1, 0)
        );
        attempts.reset(&"a");
        assert_eq!(attempts.failed(&"a"), 0);
        attempts.reset(&"a");
        attempts.reset(&"b");
        assert!(attempts.is_empty());
    }
}
