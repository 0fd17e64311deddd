//! Whether the BMC type supports what the specification requests.

use metal3_api::metal3::{HardwareProfile, InspectionMode};
use metal3_bmc::BmcAddress;

use crate::host::builder::PlanBuilder;
use crate::host::decide::ports::is_mac;

/// What this specification requests and the driver does not support.
pub(super) fn unsupported(plan: &PlanBuilder<'_>, address: &BmcAddress) -> Option<String> {
    let access = address.access();
    let scheme = address.bmc_type();
    if plan.spec().inspection_mode == Some(InspectionMode::Fast) && access.fast_inspect_interface().is_none() {
        return Some(format!(
            "spec.inspectionMode: BMC type {scheme} has no inspection through the BMC; use agent"
        ));
    }
    if plan.spec().boot_mode == Some(metal3_api::metal3::BootMode::UefiSecureBoot) && !access.supports_secure_boot() {
        return Some(format!(
            "spec.bootMode: BMC type {scheme} has no secure boot; use UEFI or legacy"
        ));
    }
    if plan.seen.settings.provisioning_network_disabled && access.needs_provisioning_network() {
        return Some(format!(
            "spec.bmc.address: BMC type {scheme} needs a provisioning network, which is disabled here \
             (PROVISIONING_NETWORK_DISABLED); use a virtual-media type"
        ));
    }
    if plan.spec().boot_mac_address.is_empty() && (access.needs_boot_mac() || plan.is_inspection_disabled()) {
        return Some(format!(
            "spec.bootMACAddress is empty; it is needed {}",
            if access.needs_boot_mac() {
                format!("by BMC type {scheme}")
            } else {
                "where inspection is disabled".into()
            }
        ));
    }
    // The schema is more permissive than Ironic, which would reject the value without naming the field.
    let mac = &plan.spec().boot_mac_address;
    if !mac.is_empty() && !is_mac(mac) {
        return Some(format!(
            "spec.bootMACAddress: {mac:?} is no MAC address of six octets, such as 52:54:00:12:34:56"
        ));
    }
    if let Err(error) = HardwareProfile::choose(&plan.status.hardware_profile, plan.spec()) {
        return Some(format!("spec.hardwareProfile: {error}"));
    }
    if plan.spec().disable_power_off && !plan.seen.settings.can_disable_power_off {
        return Some("spec.disablePowerOff needs an Ironic with API version 1.95 or newer".into());
    }
    None
}
