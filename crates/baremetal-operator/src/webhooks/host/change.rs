//! What cannot change. The definition's rules say the same (`crates/api`), where no webhook answers.

use metal3_api::metal3::{BareMetalHost, OperationalStatus, ProvisioningState};
use metal3_bmc::BmcAddress;
use metal3_runtime::webhook::FieldError;

use super::super::field::error_if;

pub fn errors(old: &BareMetalHost, new: &BareMetalHost) -> Vec<FieldError> {
    let (before, after) = (&old.spec, &new.spec);
    let both = [old, new];
    let is_in = |state: &ProvisioningState| {
        let states = both.iter().filter_map(|host| host.status.as_ref());
        states.into_iter().any(|status| status.provisioning.state == *state)
    };
    let is_detached = both
        .iter()
        .filter_map(|host| host.status.as_ref())
        .any(|status| status.operational_status == OperationalStatus::Detached);
    // An address that cannot be used, which no webhook has seen, can always be mended.
    let address = BmcAddress::parse(&before.bmc.address).is_ok()
        && before.bmc.address != after.bmc.address
        && !is_detached
        && !is_in(&ProvisioningState::Registering);
    let mac =
        !before.boot_mac_address.is_empty() && !before.boot_mac_address.eq_ignore_ascii_case(&after.boot_mac_address);
    let external =
        after.externally_provisioned && !before.externally_provisioned && !is_in(&ProvisioningState::Available);
    [
        error_if(
            address,
            "spec.bmc.address",
            "can be changed only while the host is registering or detached: detach the host first (baremetalhost.metal3.io/detached)",
        ),
        error_if(mac, "spec.bootMACAddress", "cannot be changed once it is set"),
        error_if(
            external,
            "spec.externallyProvisioned",
            "can be set only at creation, or while the host is available",
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
}
