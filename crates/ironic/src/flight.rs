//! One answer for all concurrent callers.

use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::error::Error;

/// Runs a request once for all callers that arrive while it runs, and returns its result to all of them, including
/// failures: a hundred hosts that find Ironic unresponsive must not wait for a hundred time-outs in sequence.
pub(crate) struct Flight<T> {
    last: Mutex<Option<(Instant, Result<T, Error>)>>,
}

impl<T: Clone> Flight<T> {
    pub fn new() -> Self {
        Self { last: Mutex::new(None) }
    }

    /// A result that arrived after this was called, or a success not older than `ttl`; otherwise the result of
    /// `question`.
    pub async fn ask(&self, ttl: Duration, question: impl AsyncFnOnce() -> Result<T, Error>) -> Result<T, Error> {
        let asked = Instant::now();
        // Held during the request on purpose: callers that arrive in the meantime want this very result.
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
