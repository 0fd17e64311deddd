//! What is kept of a host between reconciliations, and how a decision starts from it.
//!
//! The inspection data can be most of a host: 170 KB with 200 NICs and disks. Decisions need only the architecture, and
//! the rest only when ports are created or details are compared, so the rest is not kept. A trimmed host must never be
//! stored: [`take_hardware`] removes the hardware from the status before anything is decided, and a status without
//! hardware leaves the stored hardware unchanged (see [`super::report::store`]).

use metal3_api::metal3::BareMetalHost;
use metal3_runtime::cache;

use super::observed::HardwareView;

/// For stores of hosts: removes from a host what is read again on demand.
pub fn trim(host: &mut BareMetalHost) {
    cache::trim(host);
    if let Some(hardware) = host.status.as_mut().and_then(|status| status.hardware.as_mut()) {
        **hardware = hardware.outline();
    }
}

/// Removes the hardware from a host's status, and returns what is known of it.
pub fn take_hardware(host: &mut BareMetalHost) -> HardwareView {
    match host.status.as_mut().and_then(|status| status.hardware.take()) {
        None => HardwareView::None,
        Some(hardware) => HardwareView::Outlined {
            architecture: hardware.cpu.arch,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_the_architecture_is_kept_and_none_of_it_stays_in_the_status() {
        let hardware = json!({"hostname": "h", "cpu": {"arch": "aarch64", "count": 4}, "nics": [{"name": "eth0"}]});
        let mut host: BareMetalHost = serde_json::from_value(json!({
            "apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost",
            "metadata": {"name": "h", "managedFields": [{"manager": "kubectl"}]},
            "spec": {"online": true},
            "status": {"operationalStatus": "OK", "poweredOn": true, "hardware": hardware},
        }))
        .unwrap();
        trim(&mut host);
        assert_eq!(host.metadata.managed_fields, None);
        let kept = serde_json::to_value(&host.status.as_ref().unwrap().hardware).unwrap();
        assert_eq!(kept, json!({"cpu": {"arch": "aarch64"}}));
        let known = HardwareView::Outlined {
            architecture: "aarch64".to_owned(),
        };
        assert_eq!(take_hardware(&mut host), known);
        let status = host.status.as_ref().unwrap();
        assert!(status.hardware.is_none() && status.powered_on);
        assert_eq!(take_hardware(&mut host), HardwareView::None);
    }
}
