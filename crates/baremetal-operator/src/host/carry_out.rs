//! Carries a plan out: its effects in their order, and what of the status has to be stored between them.

use std::sync::Arc;

use metal3_api::metal3::BareMetalHostStatus;
use metal3_runtime::error::{Class, Classified, chain};

use super::context::Context;
use super::decide::unrecord_restart;
use super::error::ApplyError;
use super::observed::{HardwareView, Observed};
use super::plan::{Aftermath, Effect, Next, Plan};
use super::{apply, cached, identity, report};

/// Stops at the first effect that fails, unless nothing depends on it. False where what came of such a one is to be told, or to
/// be tried again, at once.
pub(super) async fn apply_all(
    ctx: &Context,
    seen: &mut Observed,
    stored: &mut Option<BareMetalHostStatus>,
    plan: &Plan,
) -> Result<bool, Box<Aftermath>> {
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
pub(super) async fn save(
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
