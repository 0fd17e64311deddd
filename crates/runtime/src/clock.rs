//! Time as a value that can be replaced.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::{Mutex, MutexGuard};

use jiff::Timestamp;

/// The source of time. Cheap to clone; clones of a manual clock stay in sync.
#[derive(Clone, Debug)]
pub struct Clock(Source);

#[derive(Clone, Debug)]
enum Source {
    System { started: Instant },
    Manual(Arc<Mutex<Hands>>),
}

#[derive(Debug)]
struct Hands {
    wall: Timestamp,
    elapsed: Duration,
}

impl Clock {
    /// The system clock.
    pub fn system() -> Self {
        Self(Source::System {
            started: Instant::now(),
        })
    }

    /// A clock for tests that starts at `start` and only moves when advanced.
    pub fn manual(start: Timestamp) -> Self {
        Self(Source::Manual(Arc::new(Mutex::new(Hands {
            wall: start,
            elapsed: Duration::ZERO,
        }))))
    }

    /// The time of day. It may jump in either direction; use it for timestamps that people read, not for measuring.
    pub fn now(&self) -> Timestamp {
        match &self.0 {
            #[expect(clippy::disallowed_methods, reason = "the one place where the wall clock is read")]
            Source::System { .. } => Timestamp::now(),
            Source::Manual(hands) => lock(hands).wall,
        }
    }

    /// Time since this clock was made. Never goes backwards; two values of the same clock can be subtracted.
    pub fn elapsed(&self) -> Duration {
        match &self.0 {
            Source::System { started } => started.elapsed(),
            Source::Manual(hands) => lock(hands).elapsed,
        }
    }

    /// Advances both times of a manual clock. It has no effect on the system clock.
    pub fn advance(&self, by: Duration) {
        if let Source::Manual(hands) = &self.0 {
            let mut hands = lock(hands);
            hands.elapsed += by;
            hands.wall = hands.wall.saturating_add(by).unwrap_or(Timestamp::MAX);
        }
    }
}

fn lock(hands: &Mutex<Hands>) -> MutexGuard<'_, Hands> {
    hands.lock()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_of_a_manual_clock_move_together() {
        let clock = Clock::manual(Timestamp::UNIX_EPOCH);
        let other = clock.clone();
        clock.advance(Duration::from_secs(90));
        assert_eq!(other.now().as_second(), 90);
        assert_eq!(other.elapsed(), Duration::from_secs(90));
    }

    #[test]
    fn the_system_clock_runs_and_cannot_be_moved() {
        let clock = Clock::system();
        clock.advance(Duration::from_secs(3600));
        assert!(clock.elapsed() < Duration::from_secs(60));
        assert!(clock.now() > "2025-01-01T00:00:00Z".parse().unwrap());
    }
}
