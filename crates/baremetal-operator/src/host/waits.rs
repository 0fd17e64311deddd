//! Why did it wait, and for how long? The begin and the end of every wait are logged here, with the line that decided on it, and
//! their lengths are counted.

use std::panic::Location;
use std::time::Duration;

use metal3_runtime::store::ObjectKey;

use super::context::Context;
use super::plan::{Then, WaitReason};

/// A wait that has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    reason: WaitReason,
    /// On the scale of [`metal3_runtime::Clock::elapsed`].
    since: Duration,
    decided_at: &'static Location<'static>,
}

/// A pass has come to this. A lock that is too short to be shown neither begins nor ends a wait.
pub(super) fn changed(ctx: &Context, host: &ObjectKey, then: &Then) {
    let wait = then.wait();
    if wait.is_some_and(|wait| !wait.is_shown) {
        return;
    }
    let before = ctx.memory.waiting(host);
    if before.map(|before| before.reason) == wait.map(|wait| wait.reason) {
        return;
    }
    let now = ctx.clock.elapsed();
    let waiting = wait.map(|wait| Waiting {
        reason: wait.reason,
        since: now,
        decided_at: wait.decided_at,
    });
    if let Some(before) = ctx.memory.waits(host, waiting) {
        ended(ctx, host, before);
    }
    if let Some(wait) = wait {
        tracing::info!(%host, reason = wait.reason.as_str(), message = %wait.message, decided_at = %wait.decided_at, "waits");
    }
}

/// The wait is over.
pub(super) fn ended(ctx: &Context, host: &ObjectKey, wait: Waiting) {
    let took = ctx.clock.elapsed().saturating_sub(wait.since);
    ctx.metrics.waited(wait.reason, took);
    tracing::info!(%host, reason = wait.reason.as_str(), seconds = took.as_secs_f64(), decided_at = %wait.decided_at, "waited");
}
