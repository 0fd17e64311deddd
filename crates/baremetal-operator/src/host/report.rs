//! Telling: one status write on success and on failure, then events and figures.

use std::time::Duration;

use kube::api::PostParams;
use kube::{Api, Resource, ResourceExt};
use metal3_api::metal3::{BareMetalHost, BareMetalHostStatus};
use metal3_ironic::{ErrorClass, PowerTarget};
use metal3_runtime::cache;
use metal3_runtime::error::{Class, Classified, chain};
use metal3_runtime::events;

use super::conditions;
use super::context::Context;
use super::draft::seconds;
use super::error::{ApplyError, ObserveError};
use super::observed::Observed;
use super::plan::{Effect, Next, Note, Plan, Wait, WaitReason};
use super::text::for_people;
use crate::fleet::outage_of;

/// How soon a locked node, or a failed write, is tried again.
const RECHECK: Duration = Duration::from_secs(3);

/// What follows a failed effect: pure, like a decision.
pub struct Aftermath {
    /// The status to store.
    pub status: BareMetalHostStatus,
    /// Events.
    pub notes: Vec<Note>,
    /// What ends the trouble.
    pub next: Next,
}

/// Judges a failed effect. The status is the one before the plan, because not everything of the plan came true.
pub fn after_failure(seen: &Observed, plan: &Plan, error: &ApplyError, now: jiff::Timestamp) -> Aftermath {
    let wait = match error {
        // Somebody else was faster: look again.
        ApplyError::Kube { .. } if error.class() == Class::Stale => return look_again(seen),
        ApplyError::Kube { .. } => Wait::for_time(
            WaitReason::KubernetesFailing,
            RECHECK,
            for_people(&chain(error).to_string()),
        ),
        ApplyError::Ironic { source, .. } => match source.class() {
            // The node went away meanwhile: the next look finds out what that means.
            ErrorClass::NotFound => return look_again(seen),
            ErrorClass::BadRequest if seen.memory.no_soft_power_off && asks_softly(plan) => return look_again(seen),
            ErrorClass::BadRequest | ErrorClass::Duplicate => {
                let message = for_people(&chain(error).to_string());
                return super::decide::refused(seen, plan, message, now);
            }
            ErrorClass::Locked | ErrorClass::InvalidState | ErrorClass::Conflict | ErrorClass::Busy => {
                let after = source.retry_after().unwrap_or(RECHECK);
                Wait::for_time(WaitReason::NodeLocked, after, for_people(&source.message()))
            }
            ErrorClass::Unreachable
            | ErrorClass::Timeout
            | ErrorClass::Unauthorized
            | ErrorClass::Forbidden
            | ErrorClass::VersionUnsupported
            | ErrorClass::Server
            | ErrorClass::Protocol => super::decide::outage(outage_of(source).as_ref()),
        },
    };
    let mut status = seen.host.status.clone().unwrap_or_default();
    conditions::compute(&mut status, &seen.host, None, Some(&wait), now);
    Aftermath {
        status,
        notes: Vec::new(),
        next: Next::Wait(wait),
    }
}

/// What to store of a host that could not be judged, because something could not be read. `None` where the condition says since
/// when a back-off or a place in the queue counts: that must outlive the trouble.
pub fn unreadable(
    host: &BareMetalHost,
    stored: Option<&BareMetalHostStatus>,
    error: &ObserveError,
    now: jiff::Timestamp,
) -> Option<BareMetalHostStatus> {
    let mut status = stored.cloned().unwrap_or_default();
    let counts_since = [WaitReason::BackOff, WaitReason::Queued].map(WaitReason::as_str);
    let waiting = metal3_runtime::conditions::get(&status.conditions, conditions::WAITING);
    if waiting.is_some_and(|waiting| counts_since.contains(&waiting.reason.as_str())) {
        return None;
    }
    let reason = match error {
        ObserveError::Kube(_) if error.class() == Class::Stale => return None,
        ObserveError::Kube(_) => WaitReason::KubernetesFailing,
        ObserveError::Ironic(_) => WaitReason::IronicFailing,
    };
    let message = format!("{}; the host goes on by itself when this ends", chain(error));
    let wait = Wait::for_time(reason, RECHECK, for_people(&message));
    conditions::compute(&mut status, host, None, Some(&wait), now);
    Some(status)
}

fn look_again(seen: &Observed) -> Aftermath {
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

/// Writes the status if it differs from what is stored, and returns the host as it is stored then. The whole status is replaced, against the version that was
/// read: a forced apply would leave behind the fields that an earlier operator wrote and that no longer hold.
pub async fn store(
    ctx: &Context,
    host: &BareMetalHost,
    stored: Option<&BareMetalHostStatus>,
    status: &BareMetalHostStatus,
) -> Result<Option<BareMetalHost>, kube::Error> {
    if stored.is_some_and(|stored| same(stored, status))
        || (stored.is_none() && *status == BareMetalHostStatus::default())
    {
        return Ok(None);
    }
    let mut status = status.clone();
    status.last_updated = (!super::decide::awaits_status(host)).then(|| seconds(ctx.clock.now()));
    let namespace = host.namespace().unwrap_or_default();
    let api: Api<BareMetalHost> = Api::namespaced(ctx.kube.clone(), &namespace);
    let mut body = BareMetalHost::new(&host.name_any(), metal3_api::metal3::BareMetalHostSpec::default());
    body.metadata.namespace = Some(namespace);
    body.metadata.resource_version = host.resource_version();
    body.metadata.uid.clone_from(&host.metadata.uid);
    body.status = Some(status);
    let mut written = api
        .replace_status(&host.name_any(), &PostParams::default(), &body)
        .await?;
    cache::trim(&mut written);
    ctx.written
        .record(&host.resource_version().unwrap_or_default(), written.clone());
    Ok(Some(written))
}

/// Equal but for the time of the last write.
fn same(a: &BareMetalHostStatus, b: &BareMetalHostStatus) -> bool {
    let (mut a, mut b) = (a.clone(), b.clone());
    a.last_updated = None;
    b.last_updated = None;
    a == b
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

#[cfg(test)]
mod tests {
    use super::*;
    use kube::core::Status;
    use serde_json::json;

    fn host(reason: &str) -> BareMetalHost {
        serde_json::from_value(json!({
            "apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost", "metadata": {"name": "h", "namespace": "n"},
            "spec": {"online": true},
            "status": {"operationalStatus": "OK", "errorMessage": "", "poweredOn": false,
                "provisioning": {"state": "registering", "ID": ""},
                "conditions": [{"type": "Waiting", "status": "True", "reason": reason, "message": "waits",
                    "lastTransitionTime": "2026-01-02T11:00:00Z"}]}
        }))
        .unwrap()
    }

    #[test]
    fn what_cannot_be_read_is_told() {
        let words = "secrets \"bmc\" is forbidden: User \"bmo\" cannot get resource";
        let status = Status::failure(words, "Forbidden").with_code(403);
        let error = ObserveError::Kube(kube::Error::Api(Box::new(status)));
        let told = |reason: &str| {
            let host = host(reason);
            unreadable(&host, host.status.as_ref(), &error, jiff::Timestamp::UNIX_EPOCH)
        };
        let status = told("Verifying").unwrap();
        let waiting = metal3_runtime::conditions::get(&status.conditions, conditions::WAITING).unwrap();
        assert_eq!(waiting.reason, "KubernetesFailing");
        assert!(waiting.message.contains(words), "{}", waiting.message);
        assert_eq!(told("BackOff"), None, "the back-off would begin anew");
        assert_eq!(told("Queued"), None, "the place would be lost");
    }
}
