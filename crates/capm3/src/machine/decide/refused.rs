//! What an API server refuses for good, told by the machine.

use jiff::Timestamp;
use metal3_api::capi::names::condition;
use metal3_runtime::events::Severity;

use super::draft::{Draft, Why};
use super::{Decision, NODE};
use crate::conditions::LegacySeverity;
use crate::machine::Observed;
use crate::refusals::{UPDATE_ERROR, is_told};

/// Reason of [`NODE`]: the workload cluster does not let its Node have the provider ID.
pub(super) const NODE_REFUSED: &str = "NodeRefused";

/// Whose refusal it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Of the management cluster: the machine comes no further.
    Write,
    /// Of the workload cluster.
    Gift,
}

/// Says what was refused, with an event if that is news. Nothing else is done: the pass is tried again as usual, and what it
/// says when it succeeds takes the place of this.
pub fn refused(seen: &Observed, what: Refused, message: &str, now: Timestamp) -> Decision {
    let mut draft = Draft::new(seen, now);
    let (type_, reason) = match what {
        Refused::Write => (condition::READY, UPDATE_ERROR),
        Refused::Gift => (NODE, NODE_REFUSED),
    };
    if is_told(&draft.status.conditions, type_, reason, message) {
        return Decision::Nothing;
    }
    draft.note(Severity::Warning, reason, message.to_owned());
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
