//! One reconciliation of a host: passes of observe, decide, apply, and one report at the end.

use std::sync::Arc;
use std::time::Duration;

use metal3_api::metal3::{BareMetalHost, BareMetalHostStatus};
use metal3_ironic::ErrorClass;
use metal3_runtime::backoff::{Attempts, Backoff, random_seed};
use metal3_runtime::error::{Class, Classified, chain};
use metal3_runtime::store::ObjectKey;

use super::carry_out::{apply_all, save};
use super::context::Context;
use super::decide::{self, decide};
use super::ending::Ending;
use super::error::{ObserveError, ReconcileError};
use super::gone::forget;
use super::observed::{Lookup, Observed};
use super::plan::{Decision, Next, Note, Plan, WaitReason, Wake};
use super::{budget, identity, next_check, observe, report, trouble};

/// More looks than there are things to look at, for one decision.
const MAX_LOOKS: usize = 24;
/// More passes than any chain of changes in Ironic needs without a wait.
const MAX_PASSES: usize = 64;
/// After so many failed calls of the Kubernetes API in a row the user is told: some three seconds. What Ironic says is told
/// at once, because its client has asked three times by then.
const WORTH_TELLING: u32 = 3;
/// When to look again at what was different from what it seemed: soon, and less and less often where it stays so. What the watch
/// shows meanwhile wakes the host at once.
const CONFLICT: Backoff = Backoff {
    base: Duration::from_millis(100),
    max: Duration::from_secs(30),
};

/// One reconciliation: passes follow each other at once as long as nothing has to be waited for; the status is stored
/// once, at the end. Tells when the host is to be looked at again if nothing happens; never, where it is gone.
pub async fn reconcile(cached: Arc<BareMetalHost>, ctx: Arc<Context>) -> Result<Option<Duration>, ReconcileError> {
    let key = identity::key_of(&cached);
    let heard = ctx.quiet.calls(&key);
    let seen = observe::begin(&ctx, &cached);
    ctx.metrics.see(&key, seen.host.status.as_ref());
    if let Some(left) = ctx.quiet.remaining(&key, &seen, ctx.clock.elapsed()) {
        return Ok(Some(left));
    }
    ctx.quiet.begin(&key, heard);
    let answer = {
        let _end = Ending::of(&ctx, &key, &cached);
        metal3_ironic::on_behalf_of(&key.namespace, Box::pin(passes(&ctx, &key, seen))).await
    };
    ctx.metrics.upstream.reconciled(&key, answer.is_ok());
    match &answer {
        Err(ReconcileError::Observe(ObserveError::Kube(_))) => ctx.metrics.upstream.unreadable(),
        Err(ReconcileError::Report(cause)) if ctx.attempts.count(&key) >= WORTH_TELLING => {
            trouble::tell_unstored(&ctx, &cached, cause).await;
        }
        _ => {}
    }
    answer
}

async fn passes(ctx: &Context, key: &ObjectKey, mut seen: Observed) -> Result<Option<Duration>, ReconcileError> {
    let mut stored = seen.host.status.clone();
    let mut notes = Vec::new();
    for _ in 0..MAX_PASSES {
        let plan = match decide_with_looks(ctx, &mut seen).await {
            Ok(plan) => plan,
            Err(error) => {
                // What the passes before did has happened.
                report::publish(ctx, &seen.host, &notes).await;
                if let ReconcileError::Observe(cause) = &error
                    && (cause.is_of_ironic() || ctx.attempts.count(key) >= WORTH_TELLING)
                {
                    trouble::tell_unreadable(ctx, &seen, stored.as_ref(), cause).await;
                }
                return match &error {
                    // Nothing failed: it has no time for us.
                    ReconcileError::Observe(ObserveError::Ironic(busy)) if busy.class() == ErrorClass::Busy => {
                        Ok(Some(busy.retry_after().unwrap_or(report::RECHECK)))
                    }
                    _ => Err(error),
                };
            }
        };
        tracing::debug!(host = %seen.host_name(), state = plan.status.provisioning.state.as_str(),
            effects = ?plan.effects, next = ?plan.next, "decided");
        let is_complete = match apply_all(ctx, &mut seen, &mut stored, &plan).await {
            Ok(is_complete) => is_complete,
            Err(failed) => {
                ctx.memory.set(key, seen.memory.clone());
                notes.extend(failed.notes);
                if failed.next == Next::Again {
                    report::publish(ctx, &seen.host, &notes).await;
                    return Ok(Some(after_conflict(ctx, key)));
                }
                return finish(ctx, key, seen, stored, &failed.status, &notes, &failed.next).await;
            }
        };
        seen.learn(&plan, ctx.clock.now());
        notes.extend(plan.notes);
        seen.memory.locked_since = match &plan.next {
            Next::Wait(wait) if wait.reason == WaitReason::NodeLocked => {
                seen.memory.locked_since.or_else(|| Some(ctx.clock.now()))
            }
            Next::Wait(_) | Next::Settled | Next::Gone | Next::Again => None,
        };
        if !matches!(seen.hardware_data, Lookup::NotLooked) {
            seen.memory.hardware_data = seen.hardware_data_edit;
        }
        // Of an attempt that an operator before this one has made: its Secrets are taken to be those of now.
        if matches!(&plan.next, Next::Wait(wait) if wait.reason == WaitReason::BackOff) {
            let now = || seen.deployment_secrets.clone();
            seen.memory.deployed_with.get_or_insert_with(now);
        }
        ctx.memory.set(key, seen.memory.clone());
        match &plan.next {
            Next::Again => seen.carry(plan.status),
            // The state had to be stored before what comes now.
            Next::Wait(wait) if wait.wake == Wake::After(Duration::ZERO) => {
                if let Err(error) = save(ctx, &mut seen, &mut stored, &plan.status).await {
                    report::publish(ctx, &seen.host, &notes).await;
                    return Err(ReconcileError::Report(error));
                }
            }
            next => {
                let again = finish(ctx, key, seen, stored, &plan.status, &notes, next).await?;
                if is_complete {
                    return Ok(again);
                }
                ctx.quiet.call(key);
                return Ok(Some(CONFLICT.delay(0, random_seed())));
            }
        }
    }
    Err(ReconcileError::Endless(MAX_PASSES))
}

async fn decide_with_looks(ctx: &Context, seen: &mut Observed) -> Result<Plan, ReconcileError> {
    for _ in 0..MAX_LOOKS {
        match decide(seen, ctx.clock.now()) {
            Decision::Act(plan) => return Ok(*plan),
            Decision::Look(need) => observe::fetch(ctx, seen, need).await?,
        }
    }
    Err(ReconcileError::Endless(MAX_LOOKS))
}

async fn finish(
    ctx: &Context,
    key: &ObjectKey,
    mut seen: Observed,
    mut stored: Option<BareMetalHostStatus>,
    status: &BareMetalHostStatus,
    notes: &[Note],
    next: &Next,
) -> Result<Option<Duration>, ReconcileError> {
    if *next == Next::Gone {
        report::publish(ctx, &seen.host, notes).await;
        forget(ctx, key);
        return Ok(None);
    }
    // Before the status, so that a change of the node that comes meanwhile is not missed.
    let waits = matches!(next, Next::Wait(wait) if matches!(wait.wake, Wake::Node | Wake::NodeOr(_) | Wake::Ironic));
    ctx.fleet.set_waiting(key, waits);
    let saved = save(ctx, &mut seen, &mut stored, status).await;
    // Also where the status could not be stored: the effects have happened, and the next pass finds them done.
    report::publish(ctx, &seen.host, notes).await;
    saved.map_err(ReconcileError::Report)?;
    ctx.conflicts.reset(key);
    let is_deleting = seen.host.metadata.deletion_timestamp.is_some();
    let reason = match next {
        Next::Wait(wait) => Some(wait.reason),
        Next::Settled | Next::Gone | Next::Again => None,
    };
    ctx.metrics.upstream.waits(status, reason, is_deleting);
    let mut again = until_next_look(&ctx.attempts, key, next);
    // Nobody judges a paused host: it does not get overdue.
    if !decide::is_paused(&seen.host)
        && let Some(left) = budget::left(status, &ctx.settings.budgets, ctx.clock.now())
    {
        // The condition has whole seconds: a moment later it is past for certain.
        again = again.min(left + Duration::from_secs(1));
    }
    // A clash with somebody else's write and a failing Ironic are looked at again whatever the world looks like.
    if matches!(next, Next::Settled) || matches!(next, Next::Wait(wait) if wait.wake != Wake::Ironic) {
        let listed = ctx
            .fleet
            .of(&status.provisioning.id, identity::own_uuid(&seen.host), key);
        ctx.quiet.left(key, &seen, &listed, ctx.clock.elapsed() + again);
    }
    Ok(Some(again))
}

/// What failed in a way that may last is tried less and less often.
fn until_next_look(attempts: &Attempts<ObjectKey>, key: &ObjectKey, next: &Next) -> Duration {
    let Next::Wait(wait) = next else {
        attempts.reset(key);
        return next_check::NET;
    };
    if matches!(wait.wake, Wake::Ironic | Wake::Kubernetes) {
        return Backoff::TRANSIENT.delay(attempts.failed(key), random_seed());
    }
    attempts.reset(key);
    wait.longest()
}

/// When to look again after a reconciliation that failed as a whole.
pub fn on_error(key: &ObjectKey, error: &ReconcileError, ctx: &Context) -> Duration {
    if error.class() == Class::Stale {
        tracing::debug!(host = %key, "the host changed meanwhile; looking again");
        return after_conflict(ctx, key);
    }
    let attempt = ctx.attempts.failed(key);
    tracing::warn!(host = %key, error = %chain(error), "reconciliation failed");
    Backoff::TRANSIENT.delay(attempt, random_seed())
}

/// Somebody else changed what was judged.
fn after_conflict(ctx: &Context, key: &ObjectKey) -> Duration {
    CONFLICT.delay(ctx.conflicts.failed(key), random_seed())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::plan::Wait;

    /// A thousand hosts behind a policy that refuses their Secrets would ask hundreds of times a second.
    #[test]
    fn a_write_that_fails_for_good_is_tried_less_and_less_often() {
        let key = ObjectKey {
            namespace: "n".into(),
            name: "h".into(),
        };
        let attempts = Attempts::default();
        let failing = Next::Wait(Wait::for_kubernetes("forbidden"));
        let pauses: Vec<_> = (0..10).map(|_| until_next_look(&attempts, &key, &failing)).collect();
        assert!(pauses[0] <= Duration::from_millis(500), "{pauses:?}");
        assert!(pauses[9] > Duration::from_secs(29), "{pauses:?}");
        until_next_look(&attempts, &key, &Next::Settled);
        assert!(
            until_next_look(&attempts, &key, &failing) <= pauses[0] * 2,
            "afresh after a success"
        );
    }
}
