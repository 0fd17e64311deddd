//! The life of the process: its tasks, and how it ends.
//!
//! ```text
//!  run ──▶ SIGTERM/SIGINT ──▶ `stop` ──▶ tasks drain (6 s) ──▶ `drained` ──▶ final tasks end (8 s) ──▶ Ok
//!   │                          └─ second signal: Err(Forced) at once
//!   └──▶ a task ends by itself (Ok, Err or panic): Err naming it, at once
//! ```

use std::{collections::HashMap, time::Duration};

use tokio::{
    signal::unix::{SignalKind, signal},
    task::{Id, JoinError, JoinSet},
    time,
};
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use crate::BoxError;

/// How long tasks may take to end after a signal. With [`FINAL_GRACE`] it stays well below the 10 seconds that
/// upstream's manifests give (`terminationGracePeriodSeconds`): a killed process has not released its lease.
pub const GRACE: Duration = Duration::from_secs(6);

/// How long final tasks (the release of the lease, the last reviews) may take after that, at least. What the others leave of
/// their time is theirs, too.
pub const FINAL_GRACE: Duration = Duration::from_secs(2);

/// Why the process ends, other than a completed shutdown.
#[derive(Debug, thiserror::Error)]
pub enum Ended {
    /// A task that should run forever returned.
    #[error("task {0} ended")]
    Returned(&'static str),
    /// A task failed.
    #[error("task {task} failed")]
    Failed {
        /// Its name.
        task: &'static str,
        /// Why.
        #[source]
        source: BoxError,
    },
    /// A task panicked. The panic message has been printed to standard error.
    #[error("task {0} panicked")]
    Panicked(&'static str),
    /// A second signal arrived before the tasks had ended.
    #[error("second signal: ended without waiting")]
    Forced,
    /// Tasks were still running when the grace period was over.
    #[error("still running after the grace period: {0}")]
    Overdue(String),
    /// The signal handlers could not be installed.
    #[error("cannot listen for signals")]
    Signals(#[source] std::io::Error),
}

/// The tasks of the process and the tokens that stop them.
///
/// After an error, leave `main` through `std::process::exit`: a hanging task would otherwise keep the runtime from
/// closing.
#[derive(Debug, Default)]
pub struct Tasks {
    normal: Group,
    last: Group,
    stop: CancellationToken,
    drained: CancellationToken,
}

#[derive(Debug, Default)]
struct Group {
    set: JoinSet<Result<(), BoxError>>,
    names: HashMap<Id, &'static str>,
}

impl Tasks {
    /// No tasks yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Cancelled when the process starts to shut down. Tasks then end gracefully.
    pub fn stop(&self) -> CancellationToken {
        self.stop.clone()
    }

    /// Cancelled when all normal tasks have ended. Final tasks then end.
    pub fn drained(&self) -> CancellationToken {
        self.drained.clone()
    }

    /// Starts a task that runs until [`Tasks::stop`] is cancelled. If it ends earlier, the process ends.
    pub fn spawn<E: Into<BoxError>>(
        &mut self,
        name: &'static str,
        task: impl Future<Output = Result<(), E>> + Send + 'static,
    ) {
        self.normal.spawn(name, task);
    }

    /// Starts a task that outlives the normal ones, until [`Tasks::drained`] is cancelled: leader election, the
    /// webhook. If it ends before [`Tasks::stop`], or fails at any time, the process ends.
    pub fn spawn_final<E: Into<BoxError>>(
        &mut self,
        name: &'static str,
        task: impl Future<Output = Result<(), E>> + Send + 'static,
    ) {
        self.last.spawn(name, task);
    }

    /// Runs until a signal has arrived and everything has ended, or until a failure.
    pub async fn run(self) -> Result<(), Ended> {
        let mut terminate = signal(SignalKind::terminate()).map_err(Ended::Signals)?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(Ended::Signals)?;
        self.run_until(async move || {
            let name = tokio::select! {
                _ = terminate.recv() => "SIGTERM",
                _ = interrupt.recv() => "SIGINT",
            };
            info!(signal = name, "signal received");
        })
        .await
    }

    /// Like [`Tasks::run`], calling `signal` to wait for the next signal.
    pub async fn run_until(mut self, mut signal: impl AsyncFnMut()) -> Result<(), Ended> {
        let result = tokio::select! {
            () = signal() => Ok(()),
            ended = self.normal.next() => Err(ended),
            ended = self.last.next() => Err(ended),
        };
        // Cancelled on failure too, so that tasks can stop gracefully before the exit.
        self.stop.cancel();
        if let Err(early) = result {
            return Err(early.unwrap_or(Ended::Returned("main")));
        }
        tokio::select! {
            () = signal() => Err(Ended::Forced),
            ended = self.drain() => ended,
        }
    }

    async fn drain(&mut self) -> Result<(), Ended> {
        let end = time::Instant::now() + GRACE + FINAL_GRACE;
        let drained = tokio::select! {
            drained = time::timeout(GRACE, self.normal.finish()) => drained,
            failed = self.last.failure() => return Err(failed),
        };
        match drained {
            Ok(result) => result?,
            Err(_) => {
                // Do not release the lease while a controller may still be writing: let it expire.
                return Err(Ended::Overdue(self.normal.running()));
            }
        }
        self.drained.cancel();
        match time::timeout_at(end, self.last.finish()).await {
            Ok(result) => result,
            Err(_) => Err(Ended::Overdue(self.last.running())),
        }
    }
}

impl Group {
    fn spawn<E: Into<BoxError>>(
        &mut self,
        name: &'static str,
        task: impl Future<Output = Result<(), E>> + Send + 'static,
    ) {
        let handle = self.set.spawn(async move { task.await.map_err(Into::into) });
        self.names.insert(handle.id(), name);
    }

    /// The next task that ends, as an error. It never yields `None` while tasks run; an empty group waits forever.
    async fn next(&mut self) -> Option<Ended> {
        match self.set.join_next_with_id().await {
            None => std::future::pending().await,
            Some(joined) => Some(self.judge(joined).unwrap_or_else(Ended::Returned)),
        }
    }

    /// The first task that fails; at this point tasks may end without an error.
    async fn failure(&mut self) -> Ended {
        loop {
            match self.next().await {
                Some(Ended::Returned(name)) => info!(task = name, "ended"),
                Some(failed) => return failed,
                None => std::future::pending().await,
            }
        }
    }

    /// Waits until all tasks have ended; returns the first failure.
    async fn finish(&mut self) -> Result<(), Ended> {
        let mut result = Ok(());
        while let Some(joined) = self.set.join_next_with_id().await {
            if let Ok(failed) = self.judge(joined) {
                warn!(error = %crate::error::chain(&failed), "task failed while the process was stopping");
                result = result.and(Err(failed));
            }
        }
        result
    }

    /// `Ok` with the error of a failed task, `Err` with the name of one that ended without an error.
    fn judge(&mut self, joined: Result<(Id, Result<(), BoxError>), JoinError>) -> Result<Ended, &'static str> {
        let id = joined.as_ref().map_or_else(JoinError::id, |(id, _)| *id);
        let task = self.names.remove(&id).unwrap_or("unknown");
        match joined {
            Ok((_, Ok(()))) => Err(task),
            Ok((_, Err(source))) => Ok(Ended::Failed { task, source }),
            Err(join) => {
                error!(task, error = %join, "task panicked");
                Ok(Ended::Panicked(task))
            }
        }
    }

    fn running(&self) -> String {
        let mut names: Vec<_> = self.names.values().copied().collect();
        names.sort_unstable();
        names.join(", ")
    }
}

#[cfg(test)]
mod tests;
