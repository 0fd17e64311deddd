//! Trouble with the calls themselves: something about a host cannot be read, or its status cannot be stored. The host says
//! so as well as it can.

use jiff::Timestamp;
use metal3_api::metal3::{BareMetalHost, BareMetalHostStatus};
use metal3_runtime::backoff::Backoff;
use metal3_runtime::error::{Class, Classified, chain};

use super::budget::{self, Budgets};
use super::conditions::{self, WAITING};
use super::context::Context;
use super::error::{ObserveError, Reply};
use super::observe;
use super::observed::Observed;
use super::plan::{EventReason, Note, Wait, WaitReason};
use super::report;
use super::text::for_people;

/// A status that tells of trouble, and an event, if the host is overdue now.
type Told = (BareMetalHostStatus, Option<Note>);

/// Stores what keeps the host from being judged.
pub(super) async fn tell_unreadable(
    ctx: &Context,
    seen: &Observed,
    stored: Option<&BareMetalHostStatus>,
    cause: &ObserveError,
) {
    let Some(wait) = unreadable(cause) else { return };
    let told = tell(&seen.host, stored, &seen.settings.budgets, &wait, ctx.clock.now());
    if let Err(error) = store(ctx, &seen.host, stored, &told).await {
        tracing::warn!(host = %seen.host_name(), error = %chain(&error), "cannot tell what keeps the host");
    }
}

/// Stores that the status could not be stored, beside what was stored of it last. Where not even that is possible, an event
/// tells it.
pub(super) async fn tell_unstored(ctx: &Context, cached: &BareMetalHost, cause: &kube::Error) {
    let Some(wait) = unstored(cause) else { return };
    let seen = observe::begin(ctx, cached);
    let stored = seen.host.status.clone();
    let told = tell(
        &seen.host,
        stored.as_ref(),
        &seen.settings.budgets,
        &wait,
        ctx.clock.now(),
    );
    match store(ctx, &seen.host, stored.as_ref(), &told).await {
        Ok(()) => return,
        // Only what was judged is old, by this very status where its answer was lost: the next look has the new one.
        Err(error) if error.class() == Class::Stale => return,
        Err(error) => {
            tracing::warn!(host = %seen.host_name(), error = %chain(&error), "cannot tell that the status cannot be stored");
        }
    }
    let note = Note {
        reason: EventReason::StatusNotStored,
        message: wait.message,
    };
    report::publish(ctx, &seen.host, &[note]).await;
}

async fn store(
    ctx: &Context,
    host: &BareMetalHost,
    stored: Option<&BareMetalHostStatus>,
    (status, overdue): &Told,
) -> Result<(), kube::Error> {
    report::store(ctx, host, stored, status).await?;
    report::publish(ctx, host, overdue.as_slice()).await;
    Ok(())
}

/// Such a host is looked at again like any other after an error, at the latest after the longest of these pauses.
fn wait(reason: WaitReason, message: &str) -> Wait {
    Wait::for_time(reason, Backoff::TRANSIENT.max, for_people(message))
}

/// The wait of a host about which this could not be read; `None` where another look follows at once.
fn unreadable(cause: &ObserveError) -> Option<Wait> {
    let words = chain(cause);
    let by_itself = format!("{words}; the host goes on by itself when this ends");
    let by_hand = format!(
        "{words}. This does not end by itself: correct what it names in the host's specification, or look at Ironic's version and \
         log where that is right"
    );
    match cause {
        ObserveError::Kube(error) if error.class() == Class::Stale => None,
        ObserveError::Kube(error) if is_of_forbidden_secret(error) => {
            let role = crate::rbac::SECRETS.role;
            let binding = format!(
                "{words}. Bind the ClusterRole {role} to the operator in this namespace; the host goes on by itself"
            );
            Some(wait(WaitReason::KubernetesFailing, &binding))
        }
        ObserveError::Kube(_) => Some(wait(WaitReason::KubernetesFailing, &by_itself)),
        ObserveError::Ironic(error) => Some(match error.class().into() {
            Reply::Refused | Reply::Taken => wait(WaitReason::IronicRefusing, &by_hand),
            Reply::Lost | Reply::Unusable | Reply::Gone | Reply::Later | Reply::OutOfTurn => {
                wait(WaitReason::IronicFailing, &by_itself)
            }
        }),
    }
}

/// Secrets are bound to the operator in single namespaces.
fn is_of_forbidden_secret(error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else { return false };
    let kind = status.details.as_ref().map(|details| details.kind.as_str());
    status.is_forbidden() && kind == Some("secrets")
}

/// The wait of a host whose status could not be stored; `None` where another look follows at once.
fn unstored(cause: &kube::Error) -> Option<Wait> {
    let message = format!("cannot store the status: {}", chain(cause));
    (cause.class() != Class::Stale).then(|| wait(WaitReason::KubernetesFailing, &message))
}

/// The stored status with this trouble in it. Where the condition says since when a back-off or a place in the queue counts,
/// it keeps saying so.
fn tell(
    host: &BareMetalHost,
    stored: Option<&BareMetalHostStatus>,
    budgets: &Budgets,
    trouble: &Wait,
    now: Timestamp,
) -> Told {
    let mut status = stored.cloned().unwrap_or_default();
    let waiting = metal3_runtime::conditions::get(&status.conditions, WAITING);
    let waits_for = |reason: WaitReason| waiting.is_some_and(|waiting| waiting.reason == reason.as_str());
    let is_queued = waits_for(WaitReason::Queued);
    if is_queued || waits_for(WaitReason::BackOff) {
        conditions::interrupt(&mut status, host, None, trouble, now);
    } else {
        conditions::compute(&mut status, host, None, Some(trouble), now);
    }
    let (state, generation) = (status.provisioning.state.clone(), host.metadata.generation);
    let overdue = budget::judge(&mut status, Some(&state), budgets, is_queued, generation, now);
    (status, overdue)
}

#[cfg(test)]
#[path = "trouble/tests.rs"]
mod tests;
