//! Since when a host wants a slot, by what is stored of it: so that a restart changes nobody's place.

use jiff::Timestamp;
use metal3_api::metal3::{BareMetalHost, ProvisioningState};
use metal3_runtime::conditions;

use super::conditions::WAITING;
use super::decide::{is_exempt, is_paused};
use super::plan::WaitReason;

/// When the host was first told to wait for a slot, if that is what it waits for.
pub fn queued_since(host: &BareMetalHost) -> Option<Timestamp> {
    let waiting = conditions::get(&host.status.as_ref()?.conditions, WAITING)?;
    (waiting.reason == WaitReason::Queued.as_str()).then_some(waiting.last_transition_time.0)
}

/// The host waits for a slot by what is stored of it, and nothing that a user asked for since takes it out of the queue.
pub(super) fn is_waiting(host: &BareMetalHost) -> bool {
    queued_since(host).is_some() && !is_paused(host) && !is_exempt(host)
}

/// When the host first wanted the slot that it asks for: when it was told to wait, or when it began what it is in the
/// middle of. A deployment that needs a second slot after the cleaning goes before those that have not begun.
pub(super) fn since(host: &BareMetalHost) -> Option<Timestamp> {
    let status = host.status.as_ref()?;
    let history = &status.operation_history;
    let begun = match &status.provisioning.state {
        ProvisioningState::Inspecting => history.inspect.start.as_ref(),
        ProvisioningState::Provisioning => history.provision.start.as_ref(),
        ProvisioningState::Deprovisioning => history.deprovision.start.as_ref(),
        _ => None,
    };
    queued_since(host).into_iter().chain(begun.map(|time| time.0)).min()
}

#[cfg(test)]
mod tests {
    use super::*;
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
        let hour = |host: &BareMetalHost| since(host).map(|t| t.to_string()[11..13].to_owned());
        assert_eq!(hour(&host("available", "Queued")).as_deref(), Some("11"));
        assert_eq!(hour(&host("available", "NotWaiting")), None);
        assert_eq!(hour(&host("provisioning", "Queued")).as_deref(), Some("10"));
        assert_eq!(hour(&host("provisioning", "Cleaning")).as_deref(), Some("10"));
    }
}
