//! Failed requests: when to retry them, and what claims and events report meanwhile.

use std::collections::HashMap;
use std::time::Duration;

use metal3_runtime::backoff::Backoff;

use super::effect::Effect;
use super::objects::ClaimKey;

/// A few consecutive failures pass within seconds and are not reported. After that, a pool's failure is reported whenever the
/// number of failures has doubled: its text may differ each time, and thousands of claims may repeat it.
const REPORTED_AFTER: u32 = 4;

/// Consecutive failures of one claim or of the pool itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Failure {
    /// How often.
    pub(super) count: u32,
    /// When to retry.
    pub(super) until: Duration,
    /// The effect that failed last, by its label.
    effect: &'static str,
    /// The reported message.
    pub(super) message: Option<String>,
}

impl Failure {
    /// The backoff.
    pub(super) fn left(&self, now: Duration) -> Option<Duration> {
        let left = self.until.saturating_sub(now);
        (!left.is_zero()).then_some(left)
    }

    fn again(&mut self, effect: &Effect, now: Duration, seed: u64) {
        self.until = now + Backoff::TRANSIENT.delay(self.count, seed);
        self.count = self.count.saturating_add(1);
        self.effect = effect.label();
    }
}

/// The failures of a pool and of its claims.
#[derive(Debug, Default)]
pub(super) struct Failures {
    pub(super) pool: Failure,
    pub(super) claims: HashMap<ClaimKey, Failure>,
    /// Varies the seeds of the delays.
    draws: u64,
}

impl Failures {
    /// Records a failed effect. Other claims continue.
    pub(super) fn failed(&mut self, effect: &Effect, why: &str, now: Duration) {
        self.draws = self.draws.wrapping_add(1);
        let Some(key) = effect.claim() else {
            self.pool.again(effect, now, self.draws);
            if self.is_pool_reported() {
                self.pool.message = Some(pool_message(effect, why));
            }
            return;
        };
        let failure = self.claims.entry(key.clone()).or_default();
        failure.again(effect, now, self.draws);
        if matches!(effect, Effect::Create(_)) {
            failure.message = Some(why.to_owned());
        }
    }

    /// The name of a new object is taken. The object in its way is known now; the claim is retried after a while.
    pub(super) fn collided(&mut self, effect: &Effect, now: Duration) {
        if let Some(key) = effect.claim() {
            self.draws = self.draws.wrapping_add(1);
            let failure = self.claims.entry(key.clone()).or_default();
            failure.again(effect, now, self.draws);
        }
    }

    /// Records a successful effect. A claim whose status could be written may still fail, and a pool that can be read may not be
    /// writable.
    pub(super) fn succeeded(&mut self, effect: &Effect) {
        let reports_failure = |failure: &Failure| {
            matches!(effect, Effect::Report(_, report) if report.address.is_none()) && failure.message.is_some()
        };
        match effect.claim() {
            Some(key) if self.claims.get(key).is_some_and(reports_failure) => {}
            Some(key) => {
                self.claims.remove(key);
            }
            None if matches!(effect, Effect::Refresh(_)) && self.pool.effect != effect.label() => {}
            None => self.pool = Failure::default(),
        }
    }

    /// Whether the last failure of the pool is reported.
    pub(super) fn is_pool_reported(&self) -> bool {
        self.pool.count >= REPORTED_AFTER && self.pool.count.is_power_of_two()
    }
}

fn pool_message(effect: &Effect, why: &str) -> String {
    let what = match effect {
        Effect::Refresh(_) => "its addresses cannot be read",
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

    #[test]
    fn what_fails_for_long_is_told_and_not_each_time() {
        let (mut failures, effect) = (Failures::default(), Effect::Refresh(0));
        let mut fail = |n: u32| {
            failures.failed(&effect, &format!("failure {n}"), EVER);
            failures.is_pool_reported().then_some(n)
        };
        let told: Vec<u32> = (1..=40).filter_map(&mut fail).collect();
        assert_eq!(told, [4, 8, 16, 32]);
        let message = "its addresses cannot be read, without which no address is given: failure 32";
        assert_eq!(failures.pool.message.as_deref(), Some(message));
        let left = failures.pool.left(EVER).unwrap();
        assert!(
            left > Duration::from_secs(29) && left <= Duration::from_secs(60),
            "{left:?}"
        );
        failures.succeeded(&effect);
        assert_eq!(failures.pool, Failure::default());
    }

    #[test]
    fn a_pool_that_is_full_says_what_helps() {
        for why in [
            "etcdserver: request is too large",
            "rpc error: trying to send message larger than max (2400000 vs. 2097152)",
        ] {
            let message = pool_message(&Effect::Refresh(0), why);
            assert!(
                message.ends_with("delete claims, or take another pool for new ones"),
                "{message}"
            );
        }
    }
}
