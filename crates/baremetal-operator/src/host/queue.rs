//! How long a host has waited for a slot, derived from its stored status, so that a restart does not change the order.

use jiff::Timestamp;
use metal3_api::metal3::{BareMetalHost, ProvisioningState};
use metal3_runtime::conditions;

use super::conditions::WAITING;
use super::decide::{is_exempt, is_paused};
use super::plan::WaitReason;
use crate::fleet::Turn;

/// When the host was first reported as waiting for a slot, if it still waits for one.
pub fn queued_since(host: &BareMetalHost) -> Option<Timestamp> {
    let waiting = conditions::get(&host.status.as_ref()?.conditions, WAITING)?;
    (waiting.reason == WaitReason::Queued.as_str()).then_some(waiting.last_transition_time.0)
}

/// Whether the host waits for a slot according to its stored status, and no later user request takes it out of the
/// queue.
pub(super) fn is_waiting(host: &BareMetalHost) -> bool {
    queued_since(host).is_some() && !is_paused(host) && !is_exempt(host)
}

/// The turn of a host that was waiting for a slot at its last reconciliation.
pub fn turn_in_queue(host: &BareMetalHost) -> Option<Turn> {
    is_waiting(host).then(|| turn(host)).flatten()
}

/// The host's turn when it asks for a slot: the time since which it waits, unless it is in the middle of an operation.
/// A deployment that needs a second slot after the cleaning, or that could not start when it was granted one, goes
/// before those that have not started.
pub(super) fn turn(host: &BareMetalHost) -> Option<Turn> {
    let status = host.status.as_ref()?;
    let history = &status.operation_history;
    let begun = match &status.provisioning.state {
        ProvisioningState::Inspecting => history.inspect.start.as_ref(),
        ProvisioningState::Provisioning => history.provision.start.as_ref(),
        ProvisioningState::Deprovisioning => history.deprovision.start.as_ref(),
        ProvisioningState::None
        | ProvisioningState::Unmanaged
        | ProvisioningState::Registering
        | ProvisioningState::MatchProfile
        | ProvisioningState::Preparing
        | ProvisioningState::Ready
        | ProvisioningState::Available
        | ProvisioningState::Provisioned
        | ProvisioningState::ExternallyProvisioned
        | ProvisioningState::PoweringOffBeforeDelete
        | ProvisioningState::Deleting
        | ProvisioningState::Other(_) => None,
    };
    begun
        .map(|time| Turn::Begun(time.0))
        .or_else(|| queued_since(host).map(Turn::Wanted))
}

#[cfg(test)]
mod tests {
    use super::*;
    use metal3_api::metal3::names;
    use serde_json::json;

    fn host(state: &str, reason: &str) -> BareMetalHost {
        serde_json::from_value(json!({
            "apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost", "metadata": {"name": "h"},
            "spec": {"online": true},
            "status": {"operationalStatus": "OK", "errorMessage": "", "poweredOn": false, "hardwareProfile": "",
                "provisioning": {"state": state, "ID": "u"},
                "operationHistory": {"provision": {"start": "2026-01-02T10:00:00Z"}},
                "conditions": [{"type": "Waiting", "status": "True", "reason": reason, "message": "",
                    "lastTransitionTime": "2026-01-02T11:00:00Z"}]}
        }))
        .unwrap()
    }

    #[test]
    fn the_place_is_by_what_is_stored() {
        let at = |hour: &str| format!("2026-01-02T{hour}:00:00Z").parse().unwrap();
        let wanted = turn(&host("available", "Queued")).unwrap();
        assert_eq!(wanted, Turn::Wanted(at("11")));
        assert_eq!(turn(&host("available", "NotWaiting")), None);
        for reason in ["Queued", "Cleaning", "IronicUnreachable"] {
            assert_eq!(turn(&host("provisioning", reason)), Some(Turn::Begun(at("10"))));
        }
        assert!(
            Turn::Begun(at("23")) < wanted,
            "what was begun is brought to an end first"
        );
    }

    #[test]
    fn only_whoever_waits_is_remembered() {
        let mut queued = host("available", "Queued");
        assert!(turn_in_queue(&queued).is_some());
        assert_eq!(turn_in_queue(&host("provisioning", "Cleaning")), None);
        queued.metadata.annotations = Some([(names::annotation::PAUSED.to_owned(), String::new())].into());
        assert_eq!(turn_in_queue(&queued), None);
    }
}
