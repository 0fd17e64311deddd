//! Permanent rejections by an API server, reported on the machine.

use jiff::Timestamp;
use metal3_api::capi::names::condition;
use metal3_api::infra::v1beta2::Metal3MachineStatus;
use metal3_runtime::controller::Report;
use metal3_runtime::events::Event;

use super::builder::{PlanBuilder, Why};
use crate::conditions::LegacySeverity;
use crate::machine::decide::plan::Decision;
use crate::machine::names::{CLAIMED, NODE, NODE_REFUSED};
use crate::machine::observed::{Host, Observed};
use crate::refusals::{UPDATE_ERROR, is_told};

/// The API server that rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The management cluster's: the machine is blocked.
    Write,
    /// The workload cluster's.
    ProviderId,
}

/// Reports a rejection, with an event if it is new. The pass is retried as usual, and its next report replaces this one.
/// `message` is empty for a failure that may be temporary: then only a claim made before it is reported.
pub fn refused(seen: &Observed, what: Refused, message: Option<&str>, now: Timestamp) -> Report<Metal3MachineStatus> {
    let mut builder = PlanBuilder::new(seen, now);
    let is_leaving = seen.machine.metadata.deletion_timestamp.is_some();
    if let Host::Ours(host) = &seen.host
        && !is_leaving
        && seen.cluster.found().is_some()
        && !seen.says_host()
    {
        builder.failure(None);
        builder.associated(host, CLAIMED, None);
    }
    if let Some(message) = message {
        report(&mut builder, what, message);
    }
    match builder.plan() {
        Decision::Act(plan) => plan.report,
        Decision::Fetch(_) => Report::default(),
    }
}

fn report(builder: &mut PlanBuilder<'_>, what: Refused, message: &str) {
    let seen = builder.seen;
    let (type_, reason) = match what {
        Refused::Write => (condition::READY, UPDATE_ERROR),
        Refused::ProviderId => (NODE, NODE_REFUSED),
    };
    if is_told(&builder.status.conditions, type_, reason, message) {
        return;
    }
    builder.event(Event::warning(reason, message.to_owned()));
    let why = Why::of(reason, LegacySeverity::Error, message);
    match what {
        Refused::ProviderId => builder.node(false, reason, message),
        Refused::Write if seen.has_host() || seen.machine.metadata.deletion_timestamp.is_some() => {
            builder.not_ready(why);
        }
        Refused::Write => builder.not_associated(why, None),
    }
}
