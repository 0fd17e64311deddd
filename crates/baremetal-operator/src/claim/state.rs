//! In which state a claim is counted. Pure.

use std::time::Duration;

use jiff::Timestamp;
use metal3_api::condition::ConditionStatus;
use metal3_api::metal3::HostClaim;
use metal3_api::metal3::names::condition::host_claim::{ASSOCIATED, DELETION_FAILED, HOST_PAUSED, SYNCHRONIZED};
use metal3_runtime::conditions::get;

use super::observed::Observed;
use crate::metrics::companions::{DELETING, FAILED, INVALID, READY, WAITING};

/// The state of a claim after a pass.
pub fn of(seen: &Observed) -> &'static str {
    let status = seen.claim.status.as_ref();
    let conditions = status.map_or(&[][..], |status| &status.conditions);
    let reason = |type_: &str| get(conditions, type_).map(|found| found.reason.as_str());
    if seen.claim.metadata.deletion_timestamp.is_some() {
        let is_stuck = reason(ASSOCIATED) == Some(DELETION_FAILED);
        return if is_stuck { FAILED } else { DELETING };
    }
    if seen.own.is_empty() {
        return match &seen.request {
            // The host that it had is gone, or another's.
            _ if status.is_some_and(|status| status.bare_metal_host.is_some()) => FAILED,
            Some(Err(_)) => INVALID,
            Some(Ok(request)) if request.namespaces.is_empty() => INVALID,
            _ => WAITING,
        };
    }
    match get(conditions, SYNCHRONIZED).map(|found| &found.status) {
        Some(ConditionStatus::True) => READY,
        Some(ConditionStatus::False) if reason(SYNCHRONIZED) != Some(HOST_PAUSED) => FAILED,
        _ => WAITING,
    }
}

/// Since when a claim that waits has waited: for a host, or for what it asks of the one that it has.
pub fn since(claim: &HostClaim, now: Timestamp) -> Timestamp {
    let status = claim.status.as_ref();
    let conditions = status.map_or(&[][..], |status| &status.conditions);
    let false_since = |type_: &str| {
        let found = get(conditions, type_).filter(|found| found.status == ConditionStatus::False);
        found.map(|found| found.last_transition_time.0)
    };
    let since = false_since(ASSOCIATED).or_else(|| false_since(SYNCHRONIZED));
    since.unwrap_or_else(|| created(claim, now))
}

/// How old a claim is.
pub fn age(claim: &HostClaim, now: Timestamp) -> Duration {
    now.duration_since(created(claim, now)).try_into().unwrap_or_default()
}

fn created(claim: &HostClaim, now: Timestamp) -> Timestamp {
    claim.metadata.creation_timestamp.as_ref().map_or(now, |time| time.0)
}
