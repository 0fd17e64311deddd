//! Requests to one workload cluster with a waiting caller.

use std::sync::Arc;
use std::time::Duration;

use metal3_runtime::timing::provider::{WORKLOAD_ANSWER, WORKLOAD_TURN};
use tokio::sync::{Notify, Semaphore};
use tokio::time::timeout;

/// Maximum concurrent waiters for one cluster, so that other clusters are still reconciled.
const AT_ONCE: usize = 2;

/// Why there is no response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoAnswer {
    /// It timed out.
    #[error("the workload cluster gave no answer within {} s", WORKLOAD_ANSWER.as_secs())]
    Late,
    /// The request was not sent.
    #[error("earlier requests to the workload cluster have not been answered yet")]
    Busy,
}

/// Limits concurrent requests, and notifies the cluster's task when one times out. Clones share the state.
#[derive(Clone, Debug)]
pub struct Turns {
    free: Arc<Semaphore>,
    unanswered: Arc<Notify>,
    limit: Duration,
    turn: Duration,
}

impl Default for Turns {
    fn default() -> Self {
        Self {
            free: Arc::new(Semaphore::new(AT_ONCE)),
            unanswered: Arc::default(),
            limit: WORKLOAD_ANSWER,
            turn: WORKLOAD_TURN,
        }
    }
}

impl Turns {
    /// Sends a request when it is its turn.
    pub async fn ask<T>(&self, request: impl Future<Output = Result<T, kube::Error>>) -> Result<T, kube::Error> {
        let failed = |why: NoAnswer| kube::Error::Service(Box::new(why));
        let turn = timeout(self.turn, self.free.acquire()).await;
        let Ok(Ok(_turn)) = turn else {
            return Err(failed(NoAnswer::Busy));
        };
        timeout(self.limit, request).await.unwrap_or_else(|_| {
            self.unanswered.notify_one();
            Err(failed(NoAnswer::Late))
        })
    }

    /// Completes when a request has timed out.
    pub async fn unanswered(&self) {
        self.unanswered.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use metal3_runtime::error::chain;

    async fn never() -> Result<(), kube::Error> {
        std::future::pending().await
    }

    fn told(answer: Result<(), kube::Error>) -> String {
        chain(&answer.unwrap_err()).to_string()
    }

    #[tokio::test]
    async fn few_wait_for_a_silent_cluster() {
        let turns = Turns {
            turn: Duration::from_millis(1),
            ..Turns::default()
        };
        tokio::select! {
            biased;
            _ = turns.ask(never()) => unreachable!("there is no answer"),
            _ = turns.ask(never()) => unreachable!("there is no answer"),
            third = turns.ask(never()) => {
                let third = told(third);
                assert!(third.contains("have not been answered yet"), "{third}");
            }
        }
        turns.ask(async { Ok(()) }).await.unwrap();
    }

    #[tokio::test]
    async fn whoever_follows_the_cluster_is_told_that_it_is_silent() {
        let turns = Turns {
            limit: Duration::from_millis(1),
            ..Turns::default()
        };
        let late = told(turns.ask(never()).await);
        assert!(late.contains("no answer within 10 s"), "{late}");
        turns.unanswered().await;
    }
}
