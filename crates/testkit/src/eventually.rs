//! Polling with a timeout.

use std::fmt::Display;
use std::panic::Location;
use std::time::{Duration, Instant};

/// The timeout of the `expect…` helpers. Generous, because a test that fails on a busy machine is worse than one that takes long
/// to fail; success is noticed at once.
pub const DEADLINE: Duration = Duration::from_secs(30);

/// The interval of probes at first. It grows with the time that a test has waited, by which it stays small: dozens of scenarios
/// that look at an API server forty times a second take half of the machine from what they test.
const POLL: Duration = Duration::from_millis(25);

/// The longest interval: what a test has to see on its way, such as a state, lasts longer.
const SELDOM: Duration = Duration::from_millis(100);

/// Polls `probe` until it returns `Ok`, and returns that value. An `Err` describes what was observed instead; after `limit` the
/// test fails at the caller's line with the last one.
///
/// A closure such as `async || …` works if it only reads what it captures. (`AsyncFnMut` would allow more, but then the compiler
/// cannot prove that the future is `Send`.)
#[track_caller]
pub fn eventually<T, E, F, Fut>(limit: Duration, what: &str, probe: F) -> impl Future<Output = T>
where
    E: Display,
    F: FnMut() -> Fut,
    Fut: Future<Output = Result<T, E>>,
{
    // Captured here, because the future is polled elsewhere.
    at(Location::caller(), limit, what.to_owned(), probe)
}

/// [`eventually`] with a given caller.
pub(crate) async fn at<T, E, F, Fut>(
    caller: &'static Location<'static>,
    limit: Duration,
    what: String,
    mut probe: F,
) -> T
where
    E: Display,
    F: FnMut() -> Fut,
    Fut: Future<Output = Result<T, E>>,
{
    let start = Instant::now();
    let mut last = "nothing: no answer came".to_owned();
    let mut asked = 0_u32;
    loop {
        asked += 1;
        let left = limit.saturating_sub(start.elapsed());
        // A hanging probe must not hide the earlier observation.
        match tokio::time::timeout(left.max(POLL), probe()).await {
            Ok(Ok(reached)) => return reached,
            Ok(Err(seen)) => last = seen.to_string(),
            Err(_) => {}
        }
        assert!(
            start.elapsed() < limit,
            "{caller}: {what}: not within {limit:?} (asked {asked} times); last seen: {last}"
        );
        tokio::time::sleep((start.elapsed() / 20).clamp(POLL, SELDOM)).await;
    }
}
