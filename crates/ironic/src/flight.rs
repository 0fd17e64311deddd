//! One answer for all who ask at the same time.

use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::error::Error;

/// Runs a question once for all who ask while it is being answered, and hands its answer to all of them, failures
/// included: a hundred hosts that find Ironic silent must not wait for a hundred time-outs, one after the other.
pub(crate) struct Flight<T> {
    last: Mutex<Option<(Instant, Result<T, Error>)>>,
}

impl<T: Clone> Flight<T> {
    pub fn new() -> Self {
        Self { last: Mutex::new(None) }
    }

    /// An answer that came after this was called, or a success not older than `ttl`; else that of `question`.
    pub async fn ask(&self, ttl: Duration, question: impl AsyncFnOnce() -> Result<T, Error>) -> Result<T, Error> {
        let asked = Instant::now();
        // Held over the question on purpose: whoever comes meanwhile wants this very answer.
        let mut last = self.last.lock().await;
        match &*last {
            Some((when, answer)) if *when >= asked => return answer.clone(),
            Some((when, Ok(answer))) if when.elapsed() < ttl => return Ok(answer.clone()),
            _ => {}
        }
        let answer = question().await;
        *last = Some((Instant::now(), answer.clone()));
        answer
    }

    /// Forgets the last answer.
    pub async fn forget(&self) {
        *self.last.lock().await = None;
    }
}
