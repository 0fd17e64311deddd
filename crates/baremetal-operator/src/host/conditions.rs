//! The conditions of a host: upstream's six, with upstream's meaning, and `Waiting` and `Configured`, which are ours.

use jiff::Timestamp;
use metal3_api::condition::{Condition, ConditionStatus};
pub use metal3_api::metal3::names::condition::host::WAITING;
use metal3_api::metal3::{BareMetalHost, BareMetalHostStatus, OperationalStatus, ProvisioningState};
use metal3_ironic::Node;
use metal3_runtime::conditions::{self, Claim};

use super::detach_error::error_type;
use super::observed::Observed;
use super::plan::{Wait, WaitReason};
use super::text::without_others;

const NOTHING: &str = "NotWaiting";

type Row = (ConditionStatus, &'static str);
const TRUE: ConditionStatus = ConditionStatus::True;
const FALSE: ConditionStatus = ConditionStatus::False;

const MANAGEABLE: &str = "Manageable";

/// Our own condition, on managed hosts: whether the node in Ironic matches the specification. Its `observedGeneration`
/// is the generation for which that was last true; an edit makes it `False` until the node can be changed.
const CONFIGURED: &str = "Configured";

/// Recomputes every condition. If the node is unknown, conditions that depend on it stay unchanged.
pub fn compute(
    status: &mut BareMetalHostStatus,
    seen: &Observed,
    node: Option<&Node>,
    wait: Option<&Wait>,
    now: Timestamp,
) {
    waiting(status, wait, seen, now);
    all_but_waiting(status, &seen.host, node, now);
}

fn all_but_waiting(status: &mut BareMetalHostStatus, host: &BareMetalHost, node: Option<&Node>, now: Timestamp) {
    let generation = host.metadata.generation;
    for (type_, (value, reason)) in [
        ("AvailableForProvisioning", available(&status.provisioning.state)),
        ("Progressing", progressing(status)),
        ("Provisioned", provisioned(&status.provisioning.state)),
        ("Ready", ready(status)),
    ] {
        set(status, type_, value, reason, "", generation, now);
    }
    let (value, reason) = manageable(status, node);
    set(status, MANAGEABLE, value, reason, "", generation, now);
    let (value, reason) = healthy(status, node);
    set(status, "Healthy", value, reason, "", generation, now);
    let state = &status.provisioning.state;
    let confirmed = confirmed(&status.conditions);
    if matches!(state, ProvisioningState::None | ProvisioningState::Unmanaged) {
        conditions::remove(&mut status.conditions, CONFIGURED);
    } else if confirmed.is_none() || confirmed != generation {
        set(status, CONFIGURED, FALSE, "NotConfigured", "", confirmed, now);
    }
}

/// The generation whose specification the node is known to have. So an edit that comes while the node is locked or
/// busy, or while Ironic is unavailable, stays pending, even over a restart.
pub fn confirmed(conditions: &[Condition]) -> Option<i64> {
    conditions::get(conditions, CONFIGURED)?.observed_generation
}

/// Records that the node has the specification of this generation; `None`: it is known not to.
pub fn confirm(status: &mut BareMetalHostStatus, generation: Option<i64>, now: Timestamp) {
    let (value, reason) = match generation {
        Some(_) => (TRUE, "Configured"),
        None => (FALSE, "NotConfigured"),
    };
    set(status, CONFIGURED, value, reason, "", generation, now);
}

fn set(
    status: &mut BareMetalHostStatus,
    type_: &str,
    value: ConditionStatus,
    reason: &str,
    message: &str,
    generation: Option<i64>,
    now: Timestamp,
) {
    conditions::set(
        &mut status.conditions,
        &Claim {
            type_,
            status: value,
            reason,
            message,
        },
        generation,
        now,
    );
}

fn waiting(status: &mut BareMetalHostStatus, wait: Option<&Wait>, seen: &Observed, now: Timestamp) {
    let host = &seen.host;
    let (value, reason, message) = match wait {
        Some(wait) => (TRUE, wait.reason.as_str(), told(wait, host)),
        None => (FALSE, NOTHING, String::new()),
    };
    // Each failure starts a new back-off, from which the time of the next attempt is counted.
    let failure = |status: &BareMetalHostStatus| (status.error_count, error_type(status));
    let is_new_failure = seen.stored.as_deref().map(failure) != Some(failure(status));
    let is_new_back_off = reason == WaitReason::BackOff.as_str() && is_new_failure;
    let before = conditions::get(&status.conditions, WAITING);
    if before.is_some_and(|before| before.reason != reason || is_new_back_off) {
        status.conditions.retain(|c| c.type_ != WAITING);
    }
    set(status, WAITING, value, reason, &message, host.metadata.generation, now);
}

/// The message about a wait for the host's owner.
fn told(wait: &Wait, host: &BareMetalHost) -> String {
    without_others(&wait.told(), host.metadata.namespace.as_deref().unwrap_or_default())
}

/// Separates a wait from the trouble that keeps the operator from seeing whether it is over.
const MEANWHILE: &str = "; meanwhile: ";

/// Like [`compute`], but adds the trouble to the message of the current wait. Reason, time and generation stay: a
/// back-off and a place in the queue count from them, and must outlive the trouble.
pub fn interrupt(status: &mut BareMetalHostStatus, host: &BareMetalHost, trouble: &Wait, now: Timestamp) {
    all_but_waiting(status, host, None, now);
    for waiting in status.conditions.iter_mut().filter(|c| c.type_ == WAITING) {
        let waits_for = waiting.message.split(MEANWHILE).next().unwrap_or_default();
        waiting.message = format!("{waits_for}{MEANWHILE}{}", told(trouble, host));
    }
}

fn available(state: &ProvisioningState) -> Row {
    match state {
        ProvisioningState::Ready | ProvisioningState::Available => (TRUE, "Available"),
        ProvisioningState::None
        | ProvisioningState::Unmanaged
        | ProvisioningState::Registering
        | ProvisioningState::MatchProfile
        | ProvisioningState::Inspecting
        | ProvisioningState::Preparing
        | ProvisioningState::Provisioning
        | ProvisioningState::Provisioned
        | ProvisioningState::ExternallyProvisioned
        | ProvisioningState::Deprovisioning
        | ProvisioningState::PoweringOffBeforeDelete
        | ProvisioningState::Deleting
        | ProvisioningState::Other(_) => (FALSE, "NotAvailable"),
    }
}

fn provisioned(state: &ProvisioningState) -> Row {
    match state {
        ProvisioningState::Provisioned | ProvisioningState::ExternallyProvisioned => (TRUE, "Provisioned"),
        ProvisioningState::None
        | ProvisioningState::Unmanaged
        | ProvisioningState::Registering
        | ProvisioningState::MatchProfile
        | ProvisioningState::Inspecting
        | ProvisioningState::Preparing
        | ProvisioningState::Ready
        | ProvisioningState::Available
        | ProvisioningState::Provisioning
        | ProvisioningState::Deprovisioning
        | ProvisioningState::PoweringOffBeforeDelete
        | ProvisioningState::Deleting
        | ProvisioningState::Other(_) => (FALSE, "NotProvisioned"),
    }
}

/// An available host is not ready: `kubectl wait --for=condition=Ready` waits for a provisioned host.
fn ready(status: &BareMetalHostStatus) -> Row {
    match &status.operational_status {
        OperationalStatus::Error => (FALSE, "Error"),
        OperationalStatus::Servicing => (FALSE, "Servicing"),
        OperationalStatus::Detached => (FALSE, "Detached"),
        OperationalStatus::None
        | OperationalStatus::Ok
        | OperationalStatus::Discovered
        | OperationalStatus::Delayed
        | OperationalStatus::Other(_) => provisioned(&status.provisioning.state),
    }
}

fn progressing(status: &BareMetalHostStatus) -> Row {
    if status.operational_status == OperationalStatus::Detached {
        return (FALSE, "Detached");
    }
    match &status.provisioning.state {
        ProvisioningState::Registering => (TRUE, "Registering"),
        ProvisioningState::Inspecting | ProvisioningState::MatchProfile => (TRUE, "Inspecting"),
        ProvisioningState::Preparing => (TRUE, "Preparing"),
        ProvisioningState::Provisioning => (TRUE, "Provisioning"),
        ProvisioningState::Deprovisioning => (TRUE, "Deprovisioning"),
        ProvisioningState::PoweringOffBeforeDelete => (TRUE, "PoweringOffBeforeDelete"),
        ProvisioningState::Deleting => (TRUE, "Deleting"),
        ProvisioningState::None
        | ProvisioningState::Unmanaged
        | ProvisioningState::Ready
        | ProvisioningState::Available
        | ProvisioningState::Provisioned
        | ProvisioningState::ExternallyProvisioned
        | ProvisioningState::Other(_) => (FALSE, "NotProgressing"),
    }
}

fn manageable(status: &BareMetalHostStatus, node: Option<&Node>) -> Row {
    match &status.provisioning.state {
        ProvisioningState::None | ProvisioningState::Unmanaged => (FALSE, "NotManaged"),
        ProvisioningState::Registering if status.operational_status == OperationalStatus::Error => {
            (FALSE, "RegistrationFailed")
        }
        ProvisioningState::Registering => (FALSE, "Registering"),
        ProvisioningState::Deleting => (TRUE, "Manageable"),
        ProvisioningState::MatchProfile
        | ProvisioningState::Inspecting
        | ProvisioningState::Preparing
        | ProvisioningState::Ready
        | ProvisioningState::Available
        | ProvisioningState::Provisioning
        | ProvisioningState::Provisioned
        | ProvisioningState::ExternallyProvisioned
        | ProvisioningState::Deprovisioning
        | ProvisioningState::PoweringOffBeforeDelete
        | ProvisioningState::Other(_) => match node {
            Some(node) if node.fault.as_deref() == Some("power failure") => (FALSE, "PowerFailure"),
            Some(_) => (TRUE, "Manageable"),
            None => match conditions::get(&status.conditions, MANAGEABLE) {
                Some(stored) if stored.reason == "PowerFailure" => (FALSE, "PowerFailure"),
                _ => (TRUE, "Manageable"),
            },
        },
    }
}

fn healthy(status: &BareMetalHostStatus, node: Option<&Node>) -> Row {
    match node.and_then(|n| n.health.as_deref()) {
        Some("OK") => (TRUE, "Healthy"),
        Some("Warning") => (FALSE, "Warning"),
        Some("Critical") => (FALSE, "CriticalError"),
        Some(other) if !other.is_empty() => (ConditionStatus::Unknown, "Unknown"),
        // The last known value stays; if nothing was ever known, the condition says so.
        _ => match conditions::get(&status.conditions, "Healthy") {
            Some(stored) => {
                let reason = ["Healthy", "Warning", "CriticalError"]
                    .into_iter()
                    .find(|r| *r == stored.reason);
                (stored.status.clone(), reason.unwrap_or("Unknown"))
            }
            None => (ConditionStatus::Unknown, "Unknown"),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // OWN 17: `kubectl wait --for=condition=Ready` returned before anything ran on the host.
    #[test]
    fn ready_means_that_the_host_is_provisioned() {
        for state in ProvisioningState::TEXTS {
            let mut status = BareMetalHostStatus::default();
            status.provisioning.state = ProvisioningState::from(*state);
            status.operational_status = OperationalStatus::Ok;
            let expected = if ["provisioned", "externally provisioned"].contains(state) {
                (TRUE, "Provisioned")
            } else {
                (FALSE, "NotProvisioned")
            };
            assert_eq!(ready(&status), expected, "{state}");
        }
    }
}
