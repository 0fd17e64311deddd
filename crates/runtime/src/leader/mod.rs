//! Leader election on a Lease: at most one replica works at a time.
//!
//! ```text
//!  follower ──▶ sees the lease free, or unchanged for its whole duration ──▶ writes it ──▶ leader
//!  leader   ──▶ renews every `retry`; no success for `renew` ──▶ lost: the process ends
//!  shutdown ──▶ controllers drain ──▶ the lease is released, the next replica starts at once
//! ```
//!
//! Two things make this safe. Every write carries the resourceVersion that was seen, so of two writers one gets 409.
//! And no clock of another machine is trusted: a follower counts from when *it* first saw the present version of the
//! lease, and the leader counts from when it *sent* its last successful renewal; as `renew < lease`, the leader has
//! stopped before a follower may start, as long as the two monotonic clocks run at about the same speed.
//!
//! What remains, as with every lease: a process that is frozen for longer than the lease and then thawed may finish a
//! request that it had begun. Writes with a resourceVersion are the fence against that.

mod candidate;
#[cfg(test)]
mod simulation;
mod store;
#[cfg(test)]
mod tests;

use std::time::Duration;

use tokio::{sync::watch, time};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

pub use self::{
    candidate::{Candidate, Step, Timing, Verdict, evaluate},
    store::{KubeLease, LeaseStore, StoreError, identity},
};
use crate::{Clock, error::chain};

/// Leadership ended before it was given back; whatever depends on it must stop now, and the process must end.
#[derive(Debug, thiserror::Error)]
pub enum Lost {
    /// No renewal succeeded before the deadline.
    #[error("leadership lost: the lease could not be renewed within {} s", .0.as_secs_f64())]
    NotRenewed(Duration),
    /// Another replica holds the lease.
    #[error("leadership lost: the lease is held by {0}")]
    TakenBy(String),
}

/// The signals between the election and the process.
#[derive(Clone, Debug)]
pub struct Signals {
    /// Cancelled when the process begins to shut down: a follower stops trying to lead.
    pub stop: CancellationToken,
    /// Cancelled when everything that needs leadership has ended: a leader releases the lease.
    pub drained: CancellationToken,
    /// Becomes true when this process leads, and false when it no longer does.
    pub leading: watch::Sender<bool>,
}

/// Takes part in the election until the process shuts down, or leadership is lost.
///
/// Returns `Ok` after `stop` (as a follower), or after `drained` with the lease released (as leader). An `Err` has to
/// end the process at once; [`crate::shutdown::Tasks`] does that when this runs as one of its final tasks.
pub async fn run(
    store: &impl LeaseStore,
    mut candidate: Candidate,
    clock: Clock,
    signals: Signals,
) -> Result<(), Lost> {
    let result = campaign(store, &mut candidate, &clock, &signals).await;
    signals.leading.send_replace(false);
    result
}

async fn campaign(
    store: &impl LeaseStore,
    candidate: &mut Candidate,
    clock: &Clock,
    signals: &Signals,
) -> Result<(), Lost> {
    loop {
        let leads = candidate.leads(clock.elapsed());
        signals.leading.send_if_modified(|leading| {
            let changed = *leading != leads;
            if changed && leads {
                info!(identity = candidate.identity(), "leading");
            }
            *leading = leads;
            changed
        });
        let quit = if leads { &signals.drained } else { &signals.stop };
        if quit.is_cancelled() {
            release(store, candidate, clock).await;
            return Ok(());
        }
        match candidate.step(clock.elapsed(), clock.now()) {
            Step::Lost(lost) => return Err(lost),
            Step::Sleep(pause) => {
                tokio::select! {
                    () = time::sleep(pause) => {}
                    () = quit.cancelled() => {}
                }
            }
            Step::Read => {
                let result = within(candidate.patience(clock.elapsed()), store.read()).await;
                if let Err(error) = &result {
                    warn!(error = %chain(error), "cannot read the lease");
                }
                candidate.on_read(clock.elapsed(), result.ok());
            }
            Step::Write(lease) => {
                let result = within(candidate.patience(clock.elapsed()), store.write(&lease)).await;
                match &result {
                    Ok(_) => {}
                    Err(StoreError::Conflict) => debug!("somebody else wrote the lease first"),
                    Err(error) => warn!(error = %chain(error), "cannot write the lease"),
                }
                candidate.on_written(clock.elapsed(), result.ok());
            }
        }
    }
}

/// Lets the next replica start at once. Failure is harmless: the lease then runs out by itself.
async fn release(store: &impl LeaseStore, candidate: &Candidate, clock: &Clock) {
    let Some(lease) = candidate.released(clock.elapsed(), clock.now()) else {
        return;
    };
    match within(candidate.patience(clock.elapsed()), store.write(&lease)).await {
        Ok(_) => info!("lease released"),
        Err(error) => warn!(error = %chain(&error), "cannot release the lease; it will run out"),
    }
}

async fn within<T>(patience: Duration, call: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
    time::timeout(patience, call).await.unwrap_or(Err(StoreError::Timeout))
}
