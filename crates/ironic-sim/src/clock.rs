//! The simulator's clock: real time, real time multiplied by a factor, or manual for tests.

use parking_lot::Mutex;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;

/// How the simulator's time passes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pace {
    /// So many simulated seconds in one real second. 1 is real time.
    Times(f64),
    /// Advances only by [`crate::Sim::advance`].
    Manual,
}

/// The simulator's clock. Clones show the same time.
#[derive(Debug, Clone)]
pub(crate) struct Clock {
    pace: Pace,
    begin: Instant,
    epoch: Timestamp,
    hand: Arc<Mutex<Duration>>,
}

impl Clock {
    pub fn new(pace: Pace, epoch: Timestamp) -> Self {
        Self {
            pace,
            begin: Instant::now(),
            epoch,
            hand: Arc::default(),
        }
    }

    /// Time since the simulator began.
    pub fn now(&self) -> Duration {
        match self.pace {
            Pace::Times(factor) => self.begin.elapsed().mul_f64(factor.max(0.0)),
            Pace::Manual => *self.hand.lock(),
        }
    }

    /// Moves the hand of a manual clock to a moment; never back.
    pub fn set(&self, to: Duration) {
        let mut hand = self.hand.lock();
        *hand = (*hand).max(to);
    }

    pub fn is_manual(&self) -> bool {
        self.pace == Pace::Manual
    }

    /// How long a span of simulated time takes in real time. A manual clock takes none.
    pub fn real(&self, span: Duration) -> Duration {
        match self.pace {
            Pace::Times(factor) if factor > 0.0 => span.div_f64(factor),
            Pace::Times(_) => Duration::MAX,
            Pace::Manual => Duration::ZERO,
        }
    }

    /// A moment as the API shows it.
    pub fn stamp(&self, at: Duration) -> String {
        let at = self.epoch.saturating_add(at).unwrap_or(Timestamp::MAX);
        at.strftime("%Y-%m-%dT%H:%M:%S+00:00").to_string()
    }
}
