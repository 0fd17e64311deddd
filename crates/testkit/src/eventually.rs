//! Waiting for something that has to be polled.

use std::fmt::Display;
use std::panic::Location;
use std::time::{Duration, Instant};

/// What the `expect…` helpers allow. Generous, because a test that fails on a busy machine is worse than one that takes
/// its time to fail; what comes about is seen at once.
pub const DEADLINE: Duration = Duration::from_secs(30);

const POLL: Duration = Duration::from_millis(25);

/// Asks `probe` until it answers `Ok`, and returns that. An `Err` says what was seen instead; the last one is in the
/// message when `limit` is over and the test fails, with the line that waited.
///
/// A closure such as `async || …` will do as long as it only reads what it captures. (`AsyncFnMut` would allow more, but
/// the compiler cannot see then that the result may be spawned.)
#[track_caller]
pub fn eventually<T, E, F, Fut>(limit: Duration, what: &str, probe: F) -> impl Future<Output = T>
where
    E: Display,
    F: FnMut() -> Fut,
    Fut: Future<Output = Result<T, E>>,
{
    // Taken here and not in the future, which is polled from elsewhere.
    at(Location::caller(), limit, what.to_owned(), probe)
}

/// [`eventually`] for a caller that is known already.
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
        // A probe that hangs must not hide what was seen before.
        match tokio::time::timeout(left.max(POLL), probe()).await {
            Ok(Ok(reached)) => return reached,
            Ok(Err(seen)) => last = seen.to_string(),
            Err(_) => {}
        }
        assert!(
            start.elapsed() < limit,
            "{caller}: {what}: not within {limit:?} (asked {asked} times); last seen: {last}"
        );
        tokio::time::sleep(POLL).await;
    }
}
