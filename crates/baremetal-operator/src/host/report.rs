//! Reporting: the only place that stores the status of a host, publishes its events and updates its metrics.

use std::sync::Arc;

use json_patch::Patch as JsonPatch;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::api::{Patch, PatchParams};
use kube::{Api, Resource, ResourceExt};
use metal3_api::metal3::{BareMetalHost, BareMetalHostStatus};
use metal3_runtime::controller::Report;
use metal3_runtime::error::{Class, Classified};
use metal3_runtime::events;
use metal3_runtime::patch::status_changed;
use metal3_runtime::store::ObjectKey;

use super::builder::seconds;
use super::context::Context;
use super::error::ReconcileError;
use super::observed::{HardwareView, Observed};
use super::plan::{HostReport, Then};
use super::{cached, decide, waits};

/// Stores the result of a step and publishes its events. If another step follows immediately, the status is passed to
/// its decision and stored with it.
pub async fn report(
    ctx: &Context,
    key: &ObjectKey,
    seen: &mut Observed,
    report: Report<HostReport>,
) -> Result<(), ReconcileError> {
    let Some(told) = report.status else {
        publish(ctx, &seen.host, &report.events).await;
        return Ok(());
    };
    if let Some(learned) = told.learned {
        seen.learn(&told, learned, ctx.clock.now());
    }
    let is_stored = match &told.then {
        Then::Again => {
            seen.carry(told.status);
            Ok(())
        }
        Then::Gone => {
            ctx.forget(key);
            Ok(())
        }
        Then::Idle | Then::Wait(_) => {
            if !told.then.is_at_once() {
                // Before the status write, so that a change of the node in the meantime is not missed.
                ctx.fleet
                    .set_waiting(key, told.then.is_for_ironic(), ctx.clock.elapsed());
                waits::changed(ctx, key, &told.then);
            }
            save(ctx, seen, &told.status).await
        }
    };
    // Even if the status could not be stored: the effects have happened, and the next pass finds them done.
    publish(ctx, &seen.host, &report.events).await;
    if let Err(error) = is_stored {
        if let Some(event) = told.if_unstored.filter(|_| error.class() != Class::Stale) {
            publish(ctx, &seen.host, &[event.into()]).await;
        }
        return Err(ReconcileError::Report(error));
    }
    let is_deleting = seen.host.metadata.deletion_timestamp.is_some();
    if let (Some(status), false) = (&seen.stored, told.then.is_at_once()) {
        let reason = told.then.wait().map(|wait| wait.reason);
        ctx.metrics.upstream.waits(status, reason, is_deleting);
    }
    Ok(())
}

/// Stores a status if it differs; the cached host is then the stored one. The write is conditional on the
/// resourceVersion that was judged.
pub(super) async fn save(ctx: &Context, seen: &mut Observed, status: &BareMetalHostStatus) -> Result<(), kube::Error> {
    let host = &seen.host;
    let change = change(host, seen.stored.as_deref(), status, ctx.clock.now()).map_err(kube::Error::SerdeError)?;
    let Some(change) = change else { return Ok(()) };
    let api: Api<BareMetalHost> = Api::namespaced(ctx.kube.clone(), &host.namespace().unwrap_or_default());
    let change: Patch<()> = Patch::Json(change);
    let mut host = api
        .patch_status(&host.name_any(), &PatchParams::default(), &change)
        .await?;
    cached::trim(&mut host);
    ctx.metrics
        .status(&ObjectKey::of(&host), seen.stored.as_deref(), status);
    ctx.hosts.written(host.clone());
    cached::take_hardware(&mut host);
    let mut stored = host.status.clone();
    if let Some(details) = &status.hardware {
        if let Some(stored) = &mut stored {
            stored.hardware = Some(details.clone());
        }
        seen.hardware = HardwareView::Known(Arc::new((**details).clone()));
    }
    seen.stored = stored.map(Arc::new);
    seen.host = Arc::new(host);
    seen.is_confirmed = true;
    Ok(())
}

/// The patch that stores a decided status over the one that was read; `None` if they differ only in the time of the
/// last write. A decided status without hardware keeps the stored hardware.
pub fn change(
    host: &BareMetalHost,
    stored: Option<&BareMetalHostStatus>,
    decided: &BareMetalHostStatus,
    now: jiff::Timestamp,
) -> Result<Option<JsonPatch>, serde_json::Error> {
    let mut decided = decided.clone();
    let mut before = stored.cloned();
    let fallback = BareMetalHostStatus::default();
    if let Some(before) = before.as_mut() {
        decided.last_updated.clone_from(&before.last_updated);
        if decided.hardware.is_none() {
            before.hardware = None;
        }
    }
    if decided == *before.as_ref().unwrap_or(&fallback) {
        return Ok(None);
    }
    decided.last_updated = (!decide::awaits_status(host)).then(|| seconds(now));
    status_changed(&host.metadata, before.as_ref(), &decided)
}

/// Publishes events, in order.
pub(super) async fn publish(ctx: &Context, host: &BareMetalHost, events: &[events::Event]) {
    let regarding = host.object_ref(&());
    let related = host.spec.consumer_ref.as_ref().map(|consumer| {
        let (namespace, name) = consumer.anywhere();
        ObjectReference {
            api_version: Some(consumer.api_version.clone()),
            kind: Some(consumer.kind.clone()),
            name: Some(name.to_owned()),
            namespace: Some(namespace.to_owned()),
            ..Default::default()
        }
    });
    for event in events {
        ctx.recorder.publish(&regarding, related.as_ref(), event).await;
    }
}
