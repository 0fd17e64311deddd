//! Telling: one status write on success and on failure, then events and figures.

use std::time::Duration;

use json_patch::Patch as JsonPatch;
use kube::api::{Patch, PatchParams};
use kube::{Api, Resource, ResourceExt};
use metal3_api::metal3::{BareMetalHost, BareMetalHostStatus, ProvisioningState};
use metal3_ironic::PowerTarget;
use metal3_runtime::error::{Class, Classified, chain};
use metal3_runtime::events;
use metal3_runtime::patch::status_changed;

use super::budget;
use super::cached;
use super::conditions;
use super::context::Context;
use super::draft::{Draft, seconds};
use super::error::{ApplyError, Reply};
use super::observed::{Conflict, Observed};
use super::plan::{Effect, EventReason, Next, Note, Plan, Wait, WaitReason};
use super::text::{for_people, for_tenant};
use crate::fleet::outage_of;
use crate::host::plan::Aftermath;

/// How soon a locked node, or a busy Ironic, is tried again.
pub(super) const RECHECK: Duration = Duration::from_secs(3);

/// Judges a failed effect. The status is the one before the plan, because not everything of the plan came true.
pub fn after_failure(seen: &Observed, plan: &Plan, error: &ApplyError, now: jiff::Timestamp) -> Aftermath {
    let wait = match error {
        // Somebody else was faster: look again.
        ApplyError::Kube { .. } if error.class() == Class::Stale => return look_again(seen),
        ApplyError::Kube { .. } => Wait::for_kubernetes(for_people(&chain(error).to_string())),
        ApplyError::Ironic { source, .. } => match source.class().into() {
            // The node went away meanwhile: the next look finds out what that means.
            Reply::Gone => return look_again(seen),
            Reply::Refused if seen.memory.no_soft_power_off && asks_softly(plan) => return look_again(seen),
            Reply::Refused | Reply::Taken => return refused(seen, plan, error, now),
            Reply::OutOfTurn if seen.memory.conflict.as_ref().is_some_and(Conflict::is_lasting) => {
                return refused(seen, plan, error, now);
            }
            Reply::Later | Reply::OutOfTurn => {
                let after = source.retry_after().unwrap_or(RECHECK);
                Wait::for_time(
                    WaitReason::NodeLocked,
                    after,
                    for_tenant(&source.message(), seen.namespace()),
                )
            }
            Reply::Lost | Reply::Unusable => super::decide::outage(outage_of(source, seen.namespace()).as_ref()),
        },
    };
    let mut status = seen.host.status.clone().unwrap_or_default();
    begin(&mut status, &plan.status);
    let draft = Draft::new(seen, now);
    let is_queued = draft.is_in_queue();
    let is_held_back = draft.is_entered() && draft.back_off_left().is_some();
    if is_queued || is_held_back {
        conditions::interrupt(&mut status, &seen.host, None, &wait, now);
    } else {
        conditions::compute(&mut status, &seen.host, None, Some(&wait), now);
    }
    let overdue = super::decide::overdue(&mut status, seen, is_queued, now);
    Aftermath {
        status,
        notes: overdue.into_iter().collect(),
        next: Next::Wait(wait),
    }
}

fn refused(seen: &Observed, plan: &Plan, error: &ApplyError, now: jiff::Timestamp) -> Aftermath {
    super::decide::refused(seen, plan, for_people(&chain(error).to_string()), now)
}

/// A host whose very first step fails is being registered all the same: that is a state with a budget.
fn begin(status: &mut BareMetalHostStatus, planned: &BareMetalHostStatus) {
    let is_first = status.provisioning.state == ProvisioningState::None;
    if is_first && planned.provisioning.state == ProvisioningState::Registering {
        status.provisioning.state = ProvisioningState::Registering;
        status
            .provisioning
            .boot_mode
            .clone_from(&planned.provisioning.boot_mode);
        status.operation_history.register = planned.operation_history.register.clone();
    }
}

/// Events of a failed plan that nobody would tell again, because what they tell of was stored with the intent.
pub fn stored_with_intent<'a>(
    plan: &'a Plan,
    before: Option<&BareMetalHostStatus>,
    stored: Option<&BareMetalHostStatus>,
) -> impl Iterator<Item = &'a Note> + use<'a> {
    let is_overdue = |status: Option<&BareMetalHostStatus>| status.is_some_and(|s| budget::is_overdue(&s.conditions));
    let is_new = is_overdue(stored) && !is_overdue(before);
    plan.notes
        .iter()
        .filter(move |note| is_new && note.reason == EventReason::Overdue)
}

/// Nothing is changed of the status: what was seen leads elsewhere now.
pub fn look_again(seen: &Observed) -> Aftermath {
    Aftermath {
        status: seen.host.status.clone().unwrap_or_default(),
        notes: Vec::new(),
        next: Next::Again,
    }
}

fn asks_softly(plan: &Plan) -> bool {
    plan.effects.iter().any(|e| {
        matches!(
            e,
            Effect::Power {
                target: PowerTarget::SoftOff | PowerTarget::SoftReboot,
                ..
            }
        )
    })
}

/// Writes what a decision changed of the status, if anything, and returns the host as it is stored then, trimmed for a store.
/// The write insists on the version that was judged.
pub async fn store(
    ctx: &Context,
    host: &BareMetalHost,
    stored: Option<&BareMetalHostStatus>,
    status: &BareMetalHostStatus,
) -> Result<Option<BareMetalHost>, kube::Error> {
    let Some(change) = change(host, stored, status, ctx.clock.now()).map_err(kube::Error::SerdeError)? else {
        return Ok(None);
    };
    let namespace = host.namespace().unwrap_or_default();
    let api: Api<BareMetalHost> = Api::namespaced(ctx.kube.clone(), &namespace);
    let change: Patch<()> = Patch::Json(change);
    let mut written = api
        .patch_status(&host.name_any(), &PatchParams::default(), &change)
        .await?;
    cached::trim(&mut written);
    ctx.written
        .record(&host.resource_version().unwrap_or_default(), written.clone());
    Ok(Some(written))
}

/// The patch that stores a decided status over the one that was read; nothing where they differ in the time of the last
/// write only. A decided status without hardware says nothing of it: it stays as it is stored.
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
    decided.last_updated = (!super::decide::awaits_status(host)).then(|| seconds(now));
    status_changed(&host.metadata, before.as_ref(), &decided)
}

/// Publishes events, in order.
pub async fn publish(ctx: &Context, host: &BareMetalHost, notes: &[Note]) {
    let regarding = host.object_ref(&());
    let related = host
        .spec
        .consumer_ref
        .as_ref()
        .map(|r| k8s_openapi::api::core::v1::ObjectReference {
            api_version: Some(r.api_version.clone()),
            kind: Some(r.kind.clone()),
            name: Some(r.name.clone()),
            namespace: Some(r.namespace.clone()),
            ..Default::default()
        });
    for note in notes {
        let severity = if note.reason.is_warning() {
            events::Severity::Warning
        } else {
            events::Severity::Normal
        };
        let note = events::Note {
            reason: note.reason.as_str(),
            message: note.message.clone(),
            severity,
        };
        ctx.recorder.publish(&regarding, related.as_ref(), &note).await;
    }
}
