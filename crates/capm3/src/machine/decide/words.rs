//! A host's progress, errors and waits as text.

use kube::ResourceExt;
use metal3_api::condition::ConditionStatus;
use metal3_api::metal3::names::annotation::{DETACHED, PAUSED};
use metal3_api::metal3::names::condition::host::WAITING;
use metal3_api::metal3::{BareMetalHost, ProvisioningState};
use metal3_runtime::conditions;

/// Reasons of a host's [`WAITING`] that only repeat its state, or that change with every other host (its place in a queue) and
/// would cause constant writes to machines.
const ON_ITS_WAY: [&str; 14] = [
    "Adopting",
    "Cleaning",
    "DataImageChanging",
    "Deploying",
    "Inspecting",
    "NodeLocked",
    "PowerChanging",
    "Preparing",
    "Queued",
    "Rebooting",
    "Removing",
    "Servicing",
    "TearingDown",
    "Verifying",
];

/// The state of a host.
pub(super) fn state(host: &BareMetalHost) -> ProvisioningState {
    let status = host.status.as_ref();
    status.map_or(ProvisioningState::None, |status| status.provisioning.state.clone())
}

/// A state as text.
pub(super) fn word(state: &ProvisioningState) -> &str {
    match state.as_str() {
        "" => "not looked at yet",
        known => known,
    }
}

/// A host's error, with its type.
pub(super) fn error_of(host: &BareMetalHost) -> Option<String> {
    let status = host.status.as_ref().filter(|status| !status.error_message.is_empty())?;
    let kind = status.error_type.as_ref().map_or("error", |kind| kind.as_str());
    Some(format!("{kind}: {}", status.error_message))
}

/// What blocks a host, to be appended to its state; empty if nothing is known to block it.
pub(super) fn held_up(host: &BareMetalHost) -> String {
    let mut words = String::new();
    if host.metadata.deletion_timestamp.is_some() {
        words.push_str("; it is being deleted");
    }
    let annotations = host.annotations();
    let kept = [PAUSED, DETACHED]
        .into_iter()
        .find(|key| annotations.contains_key(*key));
    if let Some(key) = kept {
        // An earlier report of the host may be outdated.
        return words + "; its annotation " + key + " keeps it from going on";
    }
    let status = host.status.as_ref();
    let waiting = status.and_then(|status| conditions::get(&status.conditions, WAITING));
    let waiting = waiting.filter(|waiting| waiting.status == ConditionStatus::True && !waiting.message.is_empty());
    if let Some(waiting) = waiting.filter(|waiting| !ON_ITS_WAY.contains(&&*waiting.reason)) {
        words.push_str("; ");
        words.push_str(&waiting.message);
    }
    words
}
