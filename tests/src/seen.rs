//! A user's view of a host.

use metal3_api::condition::{Condition, ConditionStatus};
use metal3_api::metal3::names::annotation::REBOOT;
use metal3_api::metal3::{BareMetalHost, BareMetalHostStatus, OperationalStatus, ProvisioningState};

/// The status; empty for a host without one.
pub fn status(host: &BareMetalHost) -> BareMetalHostStatus {
    host.status.clone().unwrap_or_default()
}

/// The state.
pub fn state(host: &BareMetalHost) -> ProvisioningState {
    status(host).provisioning.state
}

/// The UUID of its node in Ironic.
pub fn id(host: &BareMetalHost) -> String {
    status(host).provisioning.id
}

/// The resource version.
pub fn version(host: &BareMetalHost) -> String {
    host.metadata.resource_version.clone().unwrap_or_default()
}

/// A condition by its type.
pub fn condition(host: &BareMetalHost, type_: &str) -> Option<Condition> {
    status(host).conditions.into_iter().find(|c| c.type_ == type_)
}

/// The message of the waiting condition, if it has this reason.
pub fn waits(host: &BareMetalHost, reason: &str) -> Option<String> {
    condition(host, "Waiting")
        .filter(|c| c.status == ConditionStatus::True && c.reason == reason)
        .map(|c| c.message)
}

/// Whether a host waits for nothing.
pub fn waits_for_nothing(host: &BareMetalHost) -> bool {
    condition(host, "Waiting").is_some_and(|waiting| waiting.reason == "NotWaiting")
}

/// An available host that is on and waits for nothing.
pub fn is_available_and_on(host: &BareMetalHost) -> bool {
    state(host) == ProvisioningState::Available && status(host).powered_on && waits_for_nothing(host)
}

/// A provisioned host that is on and waits for nothing, also for no restart that an annotation asks for.
pub fn is_running(host: &BareMetalHost) -> bool {
    let restarts = host.metadata.annotations.iter().flatten().any(|(key, _)| key == REBOOT);
    let status = status(host);
    let is_well = status.operational_status == OperationalStatus::Ok && status.powered_on;
    status.provisioning.state == ProvisioningState::Provisioned && is_well && !restarts && waits_for_nothing(host)
}

/// A host that matches its spec and about which Ironic has reported everything: its health comes with Ironic's first power sync,
/// which can be a minute after everything else.
pub fn is_at_rest(host: &BareMetalHost) -> bool {
    let is = |type_, reason| condition(host, type_).is_some_and(|c| c.reason == reason);
    let at_rest = [ProvisioningState::Available, ProvisioningState::Provisioned];
    at_rest.contains(&state(host)) && status(host).powered_on && is("Waiting", "NotWaiting") && is("Healthy", "Healthy")
}
