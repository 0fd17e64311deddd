//! Effects on the host itself.

use std::collections::BTreeSet;
use std::sync::Arc;

use kube::api::{Patch, PatchParams};
use kube::core::Status;
use kube::{Api, ResourceExt};
use metal3_api::metal3::BareMetalHost;
use metal3_api::metal3::names::finalizer;
use metal3_runtime::patch::{self, Removal};

use crate::host::context::Context;
use crate::host::observed::Observed;
use crate::host::plan::{DiscRecord, Event, Intent};
use crate::host::{cached, disc, held, report};

pub(super) async fn add_finalizer(
    ctx: &Context,
    seen: &mut Observed,
    secrets: &BTreeSet<String>,
) -> Result<(), kube::Error> {
    let Some(mut change) = patch::finalizer_added(&seen.host.metadata, finalizer::HOST) else {
        return Ok(());
    };
    if let Some(note) = held::noted(&seen.host, secrets) {
        json_patch::merge(&mut change, &note);
    }
    write(ctx, seen, change).await
}

/// Records on the host which Secrets it may hold.
pub(in crate::host) async fn note_secrets(
    ctx: &Context,
    seen: &mut Observed,
    secrets: &BTreeSet<String>,
) -> Result<(), kube::Error> {
    match held::noted(&seen.host, secrets) {
        Some(note) => write(ctx, seen, note).await,
        None => Ok(()),
    }
}

/// Records on the host what is in its drive. What stands for the record follows it.
pub(super) async fn note_disc(ctx: &Context, seen: &mut Observed, record: &DiscRecord) -> Result<(), kube::Error> {
    write(ctx, seen, disc::noted(&seen.host, &record.status)).await?;
    seen.learn_note(record);
    Ok(())
}

async fn write(ctx: &Context, seen: &mut Observed, change: serde_json::Value) -> Result<(), kube::Error> {
    let api = hosts(ctx, &seen.host);
    let change = Patch::Merge(change);
    let host = api
        .patch(&seen.host.name_any(), &PatchParams::default(), &change)
        .await?;
    took(ctx, seen, host);
    Ok(())
}

pub(super) async fn remove_finalizer(ctx: &Context, seen: &mut Observed) -> Result<(), kube::Error> {
    let api: Api<BareMetalHost> = hosts(ctx, &seen.host);
    if let Some(mut host) = patch::remove_finalizer(&api, &*seen.host, finalizer::HOST).await? {
        // Removing the last finalizer deletes the object, and the server returns it as it was stored, with the
        // finalizer.
        host.finalizers_mut().retain(|f| f != finalizer::HOST);
        took(ctx, seen, host);
    }
    Ok(())
}

pub(super) async fn remove_annotation(
    ctx: &Context,
    seen: &mut Observed,
    key: &str,
    value: &str,
) -> Result<(), kube::Error> {
    let api = hosts(ctx, &seen.host);
    match patch::remove_annotation(&api, &seen.host.name_any(), key, value).await? {
        Removal::Removed(host) => {
            took(ctx, seen, host);
            Ok(())
        }
        Removal::Changed | Removal::Gone => Err(changed_meanwhile()),
    }
}

/// Stores the intent, or reads the host from the API server (not the cache) and compares it with the judged one. A
/// different version counts as a conflict, so that the host is reconciled again.
pub(super) async fn confirm(ctx: &Context, seen: &mut Observed, intent: Option<&Intent>) -> Result<(), kube::Error> {
    seen.before_intent.clone_from(&seen.stored);
    seen.has_refused_power = false;
    if let Some(Intent { status, events }) = intent {
        report::save(ctx, seen, status).await?;
        let events: Vec<_> = events.iter().cloned().map(Event::into).collect();
        report::publish(ctx, &seen.host, &events).await;
    }
    if seen.is_confirmed {
        return Ok(());
    }
    let host = &seen.host;
    let now = hosts(ctx, host).get_metadata(&host.name_any()).await?.metadata;
    if (&now.uid, &now.resource_version) == (&host.metadata.uid, &host.metadata.resource_version) {
        return Ok(());
    }
    Err(changed_meanwhile())
}

pub(in crate::host) fn changed_meanwhile() -> kube::Error {
    kube::Error::Api(Box::new(
        Status::failure("the host was changed meanwhile", "Conflict").with_code(409),
    ))
}

/// A write to the host returned it; the status being built stays as it is.
fn took(ctx: &Context, seen: &mut Observed, mut host: BareMetalHost) {
    cached::trim(&mut host);
    ctx.hosts.written(host.clone());
    host.status.clone_from(&seen.host.status);
    seen.host = Arc::new(host);
}

fn hosts(ctx: &Context, host: &BareMetalHost) -> Api<BareMetalHost> {
    Api::namespaced(ctx.kube.clone(), &host.namespace().unwrap_or_default())
}
