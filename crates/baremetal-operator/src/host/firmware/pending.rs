//! What makes a pending change of settings or firmware happen: the message of `ChangeDetected`. Pure.
//!
//! The host's passes and the controllers of the objects write that condition. Both take the message from here, of what both know
//! without a request, so that neither undoes what the other has written.

use metal3_api::metal3::names::annotation::REBOOT;
use metal3_api::metal3::{BareMetalHost, HostUpdatePolicy, OperationalStatus, ProvisioningState};
use metal3_runtime::store::ObjectKey;

use super::Kinds;
use crate::host::ownership::{Ownership, ownership};

/// What is pending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// BIOS settings.
    Settings,
    /// Firmware.
    Updates,
}

impl Kind {
    /// The field of HostUpdatePolicy that allows it on a host in use.
    const fn field(self) -> &'static str {
        match self {
            Self::Settings => "firmwareSettings",
            Self::Updates => "firmwareUpdates",
        }
    }

    const fn is_allowed(self, kinds: Kinds) -> bool {
        match self {
            Self::Settings => kinds.settings,
            Self::Updates => kinds.updates,
        }
    }
}

/// Said of a change that cannot be made.
pub const INVALID: &str = "nothing is changed while Valid is False: correct the spec";

/// What a user does about settings that the BMC accepted and did not apply. The same for hosts in any state.
pub const TRY_AGAIN: &str = "They are not tried again by themselves. Read the BMC's own log: a setting may depend on another one. Then \
    correct the spec, or retry the same values: on a host in use, with a HostUpdatePolicy that says firmwareSettings: onReboot, \
    annotate the host with reboot.metal3.io; before it is in use, take the setting out of the spec and add it again";

/// When a host makes a change that is possible, and what a user has to do for that.
pub fn pending(host: &BareMetalHost, policy: Option<&HostUpdatePolicy>, kind: Kind) -> String {
    let key = ObjectKey::of(host);
    let status = host.status.clone().unwrap_or_default();
    let is_external = status.provisioning.state == ProvisioningState::ExternallyProvisioned;
    if !is_external && status.provisioning.state != ProvisioningState::Provisioned {
        return format!("BareMetalHost {key} makes the change while it is prepared, before it is provisioned next");
    }
    let policy = policy.filter(|policy| ownership(&policy.metadata, host) != Ownership::Former);
    let field = kind.field();
    let start = match (host.spec.online, is_external) {
        (false, _) => "set its spec.online".to_owned(),
        (true, false) => format!("annotate the host with {REBOOT}"),
        // A host that was registered by hand may have a node without an instance, which Ironic cannot service.
        (true, true) => format!("annotate the host with {REBOOT}, if its node is active in Ironic"),
    };
    if policy.map(Kinds::on_reboot).is_some_and(|kinds| kind.is_allowed(kinds)) {
        return if status.operational_status == OperationalStatus::Servicing {
            format!("BareMetalHost {key} is being serviced for its changes")
        } else {
            format!("BareMetalHost {key} makes the change at its next start: {start}")
        };
    }
    format!(
        "BareMetalHost {key} is in use, and is changed only if a HostUpdatePolicy allows it: set {field}: onReboot in the spec of \
         HostUpdatePolicy {key}, then {start}"
    )
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    fn host(state: &str, change: &Value) -> BareMetalHost {
        let mut host = json!({"apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost",
            "metadata": {"name": "h", "namespace": "n"}, "spec": {"online": true},
            "status": {"provisioning": {"state": state, "ID": "u"}}});
        json_patch::merge(&mut host, change);
        serde_json::from_value(host).unwrap()
    }

    #[rstest]
    #[case::off("provisioned", json!({"spec": {"online": false}}), "at its next start: set its spec.online")]
    #[case::serviced("provisioned", json!({"status": {"operationalStatus": "servicing"}}), "is being serviced")]
    #[case::external("externally provisioned", json!({}), "if its node is active in Ironic")]
    fn what_is_advised_would_help(#[case] state: &str, #[case] change: Value, #[case] words: &str) {
        let policy = json!({"apiVersion": "metal3.io/v1alpha1", "kind": "HostUpdatePolicy",
            "metadata": {"name": "h", "namespace": "n"}, "spec": {"firmwareSettings": "onReboot"}});
        let policy = serde_json::from_value(policy).unwrap();
        let told = pending(&host(state, &change), Some(&policy), Kind::Settings);
        assert!(told.contains(words) && !told.contains("HostUpdatePolicy"), "{told}");
    }

    // OWN 31xq: an object with a pending change did not say what makes it happen.
    #[rstest]
    #[case::available("available", None, Kind::Settings, "while it is prepared")]
    #[case::preparing("preparing", None, Kind::Updates, "while it is prepared")]
    #[case::in_use("provisioned", None, Kind::Settings, "set firmwareSettings: onReboot")]
    #[case::external("externally provisioned", None, Kind::Updates, "set firmwareUpdates: onReboot")]
    #[case::allowed("provisioned", Some(json!({"firmwareSettings": "onReboot"})), Kind::Settings, "at its next start: annotate the host with reboot.metal3.io")]
    #[case::the_other_is_allowed("provisioned", Some(json!({"firmwareSettings": "onReboot"})), Kind::Updates, "set firmwareUpdates: onReboot")]
    #[case::while_prepared("provisioned", Some(json!({"firmwareSettings": "onPreparing"})), Kind::Settings, "set firmwareSettings: onReboot")]
    fn a_pending_change_says_what_makes_it_happen(
        #[case] state: &str,
        #[case] policy: Option<Value>,
        #[case] kind: Kind,
        #[case] words: &str,
    ) {
        let host = host(state, &json!({}));
        let policy = policy.map(|spec| {
            let policy = json!({"apiVersion": "metal3.io/v1alpha1", "kind": "HostUpdatePolicy",
                "metadata": {"name": "h", "namespace": "n"}, "spec": spec});
            serde_json::from_value(policy).unwrap()
        });
        let told = pending(&host, policy.as_ref(), kind);
        assert!(told.starts_with("BareMetalHost n/h ") && told.contains(words), "{told}");
    }
}
