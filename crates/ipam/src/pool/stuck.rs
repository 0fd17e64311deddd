//! Requests for the pool itself that fail, again and again: a pause that grows, and words for those who wait.

use std::time::Duration;

use metal3_runtime::backoff::Backoff;

use super::effect::Effect;

/// A hiccup is nothing to tell: so many failures take some seconds. More is told only when their number has doubled, because
/// the text may be another one each time, and there may be thousands of claims.
const TOLD_AFTER: u32 = 4;

/// What stands in the way of a pool.
#[derive(Debug, Default)]
pub(super) struct Stuck {
    failures: u32,
    until: Duration,
    /// What failed last.
    label: &'static str,
    words: Option<String>,
}

impl Stuck {
    /// A request has failed. Returns whether there is something new to tell.
    pub(super) fn failed(&mut self, effect: &Effect, why: &str, now: Duration, seed: u64) -> bool {
        self.until = now + Backoff::TRANSIENT.delay(self.failures, seed);
        self.failures = self.failures.saturating_add(1);
        self.label = effect.label();
        let is_told = self.failures >= TOLD_AFTER && self.failures.is_power_of_two();
        if is_told {
            self.words = Some(words(effect, why));
        }
        is_told
    }

    /// A request has succeeded. That a pool can be read does not mean that it can be written again.
    pub(super) fn succeeded(&mut self, effect: &Effect) {
        if *effect != Effect::Adopt || self.label == effect.label() {
            *self = Self::default();
        }
    }

    /// For how long the pool itself is left alone.
    pub(super) fn left(&self, now: Duration) -> Option<Duration> {
        let left = self.until.saturating_sub(now);
        (!left.is_zero()).then_some(left)
    }

    /// What there is to tell while the pool is left alone.
    pub(super) fn words(&self, now: Duration) -> Option<&str> {
        self.words.as_deref().filter(|_| self.left(now).is_some())
    }
}

fn words(effect: &Effect, why: &str) -> String {
    let what = match effect {
        Effect::Adopt => "its addresses cannot be read",
        Effect::Pool(_) => "its metadata cannot be written",
        _ => "its status cannot be written",
    };
    // Of etcd, and of the API server when it talks to etcd.
    let is_too_big = ["too large", "larger than max"].iter().any(|text| why.contains(text));
    let way_out = if is_too_big {
        "; it holds as many addresses as one object can: delete claims, or take another pool for new ones"
    } else {
        ""
    };
    format!("{what}, without which no address is given: {why}{way_out}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVER: Duration = Duration::from_secs(3600);

    /// The numbers of the failures that are told, out of some.
    fn told(stuck: &mut Stuck, effect: &Effect) -> Vec<u32> {
        let tries = 1..=40;
        tries
            .filter(|n| stuck.failed(effect, &format!("failure {n}"), EVER, 1))
            .collect()
    }

    #[test]
    fn what_fails_for_long_is_told_and_not_each_time() {
        let mut stuck = Stuck::default();
        assert_eq!(told(&mut stuck, &Effect::Adopt), [4, 8, 16, 32]);
        let words = "its addresses cannot be read, without which no address is given: failure 32";
        assert_eq!(stuck.words(EVER), Some(words));
        let left = stuck.left(EVER).unwrap();
        assert!(
            left > Duration::from_secs(29) && left <= Duration::from_secs(60),
            "{left:?}"
        );
        assert_eq!(stuck.words(EVER + left), None, "it is being tried again");
        stuck.succeeded(&Effect::Adopt);
        assert_eq!((stuck.left(EVER), stuck.words(EVER)), (None, None));
    }

    #[test]
    fn a_pool_that_is_full_says_what_helps() {
        for why in [
            "etcdserver: request is too large",
            "rpc error: trying to send message larger than max (2400000 vs. 2097152)",
        ] {
            let words = words(&Effect::Adopt, why);
            assert!(
                words.ends_with("delete claims, or take another pool for new ones"),
                "{words}"
            );
        }
    }
}
