//! What an API server refuses for good, told by the machine.

use jiff::Timestamp;
use kube::ResourceExt;
use metal3_api::capi::names::condition;
use metal3_runtime::events::Severity;

use super::associate;
use super::draft::{Draft, Why};
use crate::conditions::LegacySeverity;
use crate::machine::decide::plan::Decision;
use crate::machine::names::{CLAIMED, NODE, NODE_REFUSED};
use crate::machine::observed::{Host, Observed};
use crate::refusals::{UPDATE_ERROR, is_told};

/// Whose refusal it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Of the management cluster: the machine comes no further.
    Write,
    /// Of the workload cluster.
    Gift,
}

/// Says what was refused, with an event if that is news. Nothing else is done: the pass is tried again as usual, and what it
/// says when it succeeds takes the place of this. Without a message it is whose the host is by then.
pub fn refused(seen: &Observed, what: Refused, message: Option<&str>, now: Timestamp) -> Decision {
    let mut draft = Draft::new(seen, now);
    let (type_, reason) = match what {
        Refused::Write => (condition::READY, UPDATE_ERROR),
        Refused::Gift => (NODE, NODE_REFUSED),
    };
    let has_news = say_whose_the_host_is(&mut draft);
    let Some(message) = message else {
        return if has_news { draft.plan() } else { Decision::Nothing };
    };
    if !is_told(&draft.status.conditions, type_, reason, message) {
        draft.note(Severity::Warning, reason, message.to_owned());
    } else if !has_news {
        return Decision::Nothing;
    }
    let why = Why {
        reason,
        legacy: reason,
        severity: LegacySeverity::Error,
        message,
    };
    match what {
        Refused::Gift => draft.node(false, reason, message),
        Refused::Write if seen.has_host() || seen.machine.metadata.deletion_timestamp.is_some() => draft.not_ready(why),
        Refused::Write => draft.not_associated(why, None),
    }
    draft.plan()
}

/// What was done before the refusal holds: the host may be the machine's since. Whether that was not told yet.
fn say_whose_the_host_is(draft: &mut Draft<'_>) -> bool {
    let seen = draft.seen;
    let Host::Ours(host) = &seen.host else { return false };
    let (is_leaving, cluster) = (seen.machine.metadata.deletion_timestamp.is_some(), seen.cluster.found());
    let Some(cluster) = cluster.filter(|_| !is_leaving && !seen.says_host()) else {
        return false;
    };
    draft.taken = Some(associate::taken(host, &cluster.name_any()));
    draft.failure(None);
    draft.associated(seen.untold.map_or(CLAIMED, |step| step.claim.reason));
    true
}
