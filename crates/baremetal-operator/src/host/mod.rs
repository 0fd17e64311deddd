//! The BareMetalHost controller: observe, decide, apply, report.

mod annotations;
mod apply;
pub mod bmc_names;
pub mod budget;
pub mod cached;
pub mod claim;
pub mod companions;
mod conditions;
pub mod config_drive;
pub mod context;
mod decide;
mod detach_error;
mod draft;
mod ending;
mod error;
pub mod firmware;
mod gone;
mod hardware;
pub mod held;
mod hints;
pub mod identity;
mod instance;
mod mark;
pub mod named_url;
pub mod next_check;
mod node_spec;
mod observe;
pub mod observed;
pub mod plan;
pub mod pull_secret;
pub mod queue;
pub mod quiet;
mod raid;
mod ramdisk;
mod report;
pub mod rights;
mod secret_marks;
pub(crate) mod text;
mod trouble;

use std::error::Error as _;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use metal3_api::metal3::{BareMetalHost, BareMetalHostStatus, ProvisioningState};
use metal3_ironic::ErrorClass;
use metal3_runtime::backoff::{Attempts, Backoff, random_seed};
use metal3_runtime::error::{Class, Classified, chain};
use metal3_runtime::store::ObjectKey;

pub use self::conditions::WAITING;
use self::context::Context;
pub use self::decide::{decide, is_exempt, takes_slot, unrecord_restart};
use self::ending::Ending;
pub use self::error::ReconcileError;
use self::error::{ApplyError, ObserveError, Reply};
pub use self::gone::{forget, vanished};
pub use self::identity::{key_of, port_mark};
pub use self::instance::deployment_mark;
use self::observed::{Conflict, HardwareView, Lookup, NodeView, Observed, RefusedPort, Unreleased};
use self::plan::{Decision, Effect, Next, Note, Plan, WaitReason, Wake};
pub use self::ramdisk::surroundings as ramdisk_surroundings;
pub use self::report::change as status_change;
pub use self::secret_marks::secret_versions;

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

/// Stops at the first effect that fails, unless nothing depends on it. False where what came of such a one is to be told, or to
/// be tried again, at once.
async fn apply_all(
    ctx: &Context,
    seen: &mut Observed,
    stored: &mut Option<BareMetalHostStatus>,
    plan: &Plan,
) -> Result<bool, Box<plan::Aftermath>> {
    let before = stored.clone();
    let mut is_complete = true;
    for effect in &plan.effects {
        let applied = match effect {
            Effect::ConfirmHost => confirm(ctx, seen, stored, plan).await,
            effect => apply::apply(ctx, seen, effect).await,
        };
        if let Effect::ReleaseFormerSecret(name) = effect {
            is_complete &= seen.remember_release(name, &applied, ctx.clock.now());
            continue;
        }
        if let Err(error) = applied {
            if error.class() != Class::Stale {
                tracing::warn!(host = %seen.host_name(), error = %chain(&error), "an effect failed");
            }
            if error.puts_in_doubt() {
                ctx.fleet.doubt();
            }
            if matches!(effect, Effect::Power { .. }) && error.is_refusal() {
                unrecord(ctx, seen, stored, before.as_ref()).await;
            }
            seen.remember_conflict(&error);
            let mut failed = if seen.remember_refused_port(effect, &error, ctx.clock.now()) {
                report::look_again(seen)
            } else {
                report::after_failure(seen, plan, &error, ctx.clock.now())
            };
            let told = report::stored_with_intent(plan, before.as_ref(), stored.as_ref());
            failed.notes.extend(told.cloned());
            return Err(Box::new(failed));
        }
        if effect.is_ironic_mutation() {
            seen.memory.conflict = None;
        }
        tracing::info!(host = %seen.host_name(), effect = effect.label(), "applied");
    }
    Ok(is_complete)
}

/// What was stored of a restart before Ironic was asked for it is taken back: Ironic has refused it.
async fn unrecord(
    ctx: &Context,
    seen: &mut Observed,
    stored: &mut Option<BareMetalHostStatus>,
    before: Option<&BareMetalHostStatus>,
) {
    let Some(mut status) = stored.clone() else { return };
    unrecord_restart(&mut status, before);
    if let Err(error) = save(ctx, seen, stored, &status).await {
        tracing::warn!(host = %seen.host_name(), error = %chain(&error), "a restart that Ironic refused may count as made");
    }
}

/// Makes sure that the host is as it was judged. Where the status changes anyway it is stored now instead of afterwards:
/// that succeeds on the judged version only, and states the intent before the effect.
async fn confirm(
    ctx: &Context,
    seen: &mut Observed,
    stored: &mut Option<BareMetalHostStatus>,
    plan: &Plan,
) -> Result<(), ApplyError> {
    let failed = |source| ApplyError::Kube {
        effect: Effect::ConfirmHost.label().into(),
        source,
    };
    if plan.next != Next::Again {
        let mut intent = plan.status.clone();
        // An error is over when Ironic accepts the next attempt, not before: cleared too early, a lock or a kill at this
        // point would have the same failure recorded a second time, and its back-off waited out again.
        let is_attempt = plan.effects.iter().any(Effect::is_ironic_mutation);
        if let Some(before) = stored.as_ref().filter(|s| is_attempt && s.error_type.is_some()) {
            intent.operational_status.clone_from(&before.operational_status);
            intent.error_type.clone_from(&before.error_type);
            intent.error_message.clone_from(&before.error_message);
        }
        save(ctx, seen, stored, &intent).await.map_err(failed)?;
    }
    if seen.is_confirmed {
        return Ok(());
    }
    apply::apply(ctx, seen, &Effect::ConfirmHost).await
}

/// Stores a status if it differs; the host is then at hand as it was stored.
async fn save(
    ctx: &Context,
    seen: &mut Observed,
    stored: &mut Option<BareMetalHostStatus>,
    status: &BareMetalHostStatus,
) -> Result<(), kube::Error> {
    if let Some(mut host) = report::store(ctx, &seen.host, stored.as_ref(), status).await? {
        ctx.metrics.status(&identity::key_of(&host), stored.as_ref(), status);
        cached::take_hardware(&mut host);
        stored.clone_from(&host.status);
        if let Some(details) = &status.hardware {
            if let Some(stored) = stored.as_mut() {
                stored.hardware = Some(details.clone());
            }
            seen.hardware = HardwareView::Known(Arc::new((**details).clone()));
        }
        seen.host = Arc::new(host);
        seen.stored_state = None;
        seen.is_confirmed = true;
    }
    Ok(())
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

/// Whether nothing was ever done about a host.
pub fn is_new(host: &BareMetalHost) -> bool {
    let mut status = host.status.iter();
    host.metadata.deletion_timestamp.is_none() && status.all(|s| s.provisioning.state == ProvisioningState::None)
}

/// The fleet has woken a host: to be called before the host is reconciled.
pub fn woken(ctx: &Context, key: &ObjectKey) {
    // What it sees may be what it saw: it is its turn, or its node has changed and come back to where it was.
    ctx.quiet.call(key);
}

/// The ramdisk that is built for a host has changed: the host looks at it again.
pub fn ramdisk_changed(ctx: &Context, key: &ObjectKey) {
    ctx.memory.ramdisk_changed(key);
    ctx.quiet.call(key);
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

impl Observed {
    fn host_name(&self) -> String {
        let metadata = &self.host.metadata;
        format!(
            "{}/{}",
            metadata.namespace.as_deref().unwrap_or_default(),
            metadata.name.as_deref().unwrap_or_default()
        )
    }

    /// An answer that is given again and again for the same node is no clash with somebody else.
    fn remember_conflict(&mut self, error: &ApplyError) {
        let ApplyError::Ironic { effect, source } = error else {
            return;
        };
        if Reply::from(source.class()) != Reply::OutOfTurn {
            return;
        }
        let node_since = match &self.node {
            NodeView::Live(node) | NodeView::Listed(node) => node.provision_updated_at.clone(),
            NodeView::Unknown { .. } | NodeView::Unlisted | NodeView::Gone => None,
        };
        let conflict = Conflict {
            effect,
            message: source.message(),
            node_since,
            times: 0,
        };
        self.memory.conflict = Some(conflict.after(self.memory.conflict.as_ref()));
    }

    /// What Ironic refuses for good of a port is done without, if the host can. True where that is so.
    fn remember_refused_port(&mut self, effect: &Effect, error: &ApplyError, now: Timestamp) -> bool {
        let (Some(mac), ApplyError::Ironic { source, .. }) = (effect.dispensable_port(), error) else {
            return false;
        };
        let is_final = match source.class().into() {
            Reply::Refused | Reply::Taken => true,
            Reply::OutOfTurn => self.memory.conflict.as_ref().is_some_and(Conflict::is_lasting),
            Reply::Lost | Reply::Unusable | Reply::Gone | Reply::Later => false,
        };
        if is_final {
            let refused = RefusedPort {
                change: effect.label(),
                why: text::for_tenant(&source.message(), self.namespace()),
                at: now,
            };
            self.memory.refused_ports.insert(mac.to_owned(), refused);
        }
        is_final
    }

    /// A Secret that the host has no use for any more keeps it from nothing, also where it cannot be let go. True where there is
    /// nothing new to tell.
    fn remember_release(&mut self, name: &str, released: &Result<(), ApplyError>, now: Timestamp) -> bool {
        let Err(error) = released else {
            tracing::info!(host = %self.host_name(), secret = name, "let go");
            return self.memory.unreleased.remove(name).is_none();
        };
        if error.class() != Class::Stale {
            tracing::warn!(host = %self.host_name(), error = %chain(error), "a Secret cannot be let go");
            let why = error
                .source()
                .map_or_else(|| error.to_string(), |cause| chain(cause).to_string());
            let unreleased = Unreleased {
                why: text::for_people(&why),
                at: now,
            };
            let before = self.memory.unreleased.insert(name.to_owned(), unreleased);
            let now = self.memory.unreleased.get(name);
            return before.as_ref().map(|before| &before.why) == now.map(|now| &now.why);
        }
        false
    }

    /// Goes into the next pass with the status that the last one arrived at.
    fn carry(&mut self, status: BareMetalHostStatus) {
        let mut host = (*self.host).clone();
        let stored = host.status.replace(status).unwrap_or_default();
        self.stored_state.get_or_insert(stored.provisioning.state);
        self.host = Arc::new(host);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A thousand hosts behind a policy that refuses their Secrets would ask hundreds of times a second.
    #[test]
    fn a_write_that_fails_for_good_is_tried_less_and_less_often() {
        let key = ObjectKey {
            namespace: "n".into(),
            name: "h".into(),
        };
        let attempts = Attempts::default();
        let failing = Next::Wait(plan::Wait::for_kubernetes("forbidden"));
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
