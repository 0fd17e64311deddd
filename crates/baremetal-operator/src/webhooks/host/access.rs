//! The BMC address, and what depends on the kind of BMC.

use metal3_api::metal3::{BareMetalHost, BootMode, InspectionMode};
use metal3_bmc::BmcAddress;
use metal3_runtime::webhook::FieldError;

use super::super::field::error_if;
use crate::host::annotations::is_inspection_disabled;

const BOOT_MAC: &str = "spec.bootMACAddress";

pub fn errors(host: &BareMetalHost) -> Vec<FieldError> {
    let spec = &host.spec;
    if spec.bmc.address.is_empty() {
        return Vec::new();
    }
    let address = match BmcAddress::parse(&spec.bmc.address) {
        Ok(address) => address,
        Err(error) => return vec![FieldError::new("spec.bmc.address", error.to_string())],
    };
    let (access, kind) = (address.access(), address.bmc_type());
    let cannot = |what: &str| format!("BMCs of type {kind} {what}");
    let has_volumes = spec.raid.as_ref().and_then(|raid| raid.hardware_raid_volumes.as_ref());
    let has_volumes = has_volumes.is_some_and(|volumes| !volumes.is_empty());
    let is_fast = spec.inspection_mode == Some(InspectionMode::Fast);
    let is_secure = spec.boot_mode == Some(BootMode::UefiSecureBoot);
    [
        error_if(
            has_volumes && access.raid_interface == Some("no-raid"),
            "spec.raid.hardwareRAIDVolumes",
            cannot("give no access to RAID controllers; use softwareRAIDVolumes"),
        ),
        error_if(
            is_fast && access.fast_inspect_interface().is_none(),
            "spec.inspectionMode",
            cannot("cannot be inspected without a ramdisk; use agent"),
        ),
        error_if(
            is_secure && !access.supports_secure_boot(),
            "spec.bootMode",
            cannot("have no secure boot; use UEFI"),
        ),
        boot_mac(host, access.needs_boot_mac().then_some(&kind)),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// `needs` is the type of a BMC that always needs a MAC address.
fn boot_mac(host: &BareMetalHost, needs: Option<&String>) -> Option<FieldError> {
    let mac = &host.spec.boot_mac_address;
    if mac.is_empty() {
        let because = match needs {
            Some(kind) => format!("for BMCs of type {kind}"),
            None if is_inspection_disabled(host) => "because inspection is disabled".to_owned(),
            None => return None,
        };
        return Some(FieldError::new(BOOT_MAC, format!("is required {because}")));
    }
    let message = format!("{mac:?} must be a MAC address such as 52:54:00:12:34:56");
    error_if(!is_mac(mac), BOOT_MAC, message)
}

/// What Go's `net.ParseMAC` accepts: 6, 8 or 20 bytes, in pairs of digits with `:` or `-`, or in fours with `.`.
fn is_mac(text: &str) -> bool {
    let is_split = |separator: char, digits: usize| {
        let parts: Vec<&str> = text.split(separator).collect();
        let is_hex = |part: &&str| part.len() == digits && part.bytes().all(|byte| byte.is_ascii_hexdigit());
        matches!(parts.len() * digits / 2, 6 | 8 | 20) && parts.iter().all(is_hex)
    };
    is_split(':', 2) || is_split('-', 2) || is_split('.', 4)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    #[rstest]
    #[case("52:54:00:12:34:56", true)]
    #[case("52-54-00-12-34-5F", true)]
    #[case("5254.0012.3456", true)]
    #[case("02:00:5e:10:00:00:00:01", true)]
    #[case("x52:54:00:12:34:56", false)]
    #[case("52:54:00:12:34:56:78", false)]
    #[case("52:54:00:12:34-56", false)]
    #[case("525400123456", false)]
    fn macs_are_read_as_go_reads_them(#[case] text: &str, #[case] is_mac: bool) {
        assert_eq!(super::is_mac(text), is_mac);
    }
}
