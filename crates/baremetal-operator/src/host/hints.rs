//! The disk that an image is written to: hints from the specification or the hardware profile, in Ironic's format.

use metal3_api::metal3::{BareMetalHostSpec, BareMetalHostStatus, HardwareProfile, RootDeviceHints};
use serde_json::{Map, Value};

/// The hardware profile's name; `None` if the specification names one that does not exist.
pub fn profile(spec: &BareMetalHostSpec, status: &BareMetalHostStatus) -> Option<&'static str> {
    HardwareProfile::choose(&status.hardware_profile, spec)
        .ok()
        .map(HardwareProfile::name)
}

/// The hints that should be in effect.
pub fn wanted(spec: &BareMetalHostSpec, status: &BareMetalHostStatus) -> Option<RootDeviceHints> {
    let profile = HardwareProfile::choose(&status.hardware_profile, spec).unwrap_or(HardwareProfile::Unknown);
    spec.effective_root_device_hints(profile)
}

/// Ironic's `root_device`: operators precede values, as its matcher expects.
pub fn root_device(hints: Option<&RootDeviceHints>) -> Value {
    let mut out = Map::new();
    let Some(hints) = hints else { return Value::Object(out) };
    let device_key = if hints.device_name.starts_with("/dev/disk/by-path/") {
        "by_path"
    } else {
        "name"
    };
    for (key, operator, value) in [
        (device_key, "s==", &hints.device_name),
        ("hctl", "s==", &hints.hctl),
        ("model", "<in>", &hints.model),
        ("vendor", "<in>", &hints.vendor),
        ("serial", "s==", &hints.serial_number),
        ("wwn", "s==", &hints.wwn),
        ("wwn_with_extension", "s==", &hints.wwn_with_extension),
        ("wwn_vendor_extension", "s==", &hints.wwn_vendor_extension),
    ] {
        if !value.is_empty() {
            out.insert(key.to_owned(), format!("{operator} {value}").into());
        }
    }
    if hints.min_size_gigabytes != 0 {
        out.insert("size".to_owned(), format!(">= {}", hints.min_size_gigabytes).into());
    }
    if let Some(rotational) = hints.rotational {
        out.insert("rotational".to_owned(), rotational.to_string().into());
    }
    Value::Object(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;
    use serde_json::json;

    #[rstest]
    #[case::none(json!({}), json!({}))]
    #[case::name(json!({"deviceName": "/dev/sda"}), json!({"name": "s== /dev/sda"}))]
    #[case::path(json!({"deviceName": "/dev/disk/by-path/pci-1"}), json!({"by_path": "s== /dev/disk/by-path/pci-1"}))]
    #[case::words(json!({"model": "QEMU", "vendor": "Acme"}), json!({"model": "<in> QEMU", "vendor": "<in> Acme"}))]
    #[case::exact(json!({"hctl": "0:0:0:0", "serialNumber": "S", "wwn": "w"}),
        json!({"hctl": "s== 0:0:0:0", "serial": "s== S", "wwn": "s== w"}))]
    #[case::size_and_kind(json!({"minSizeGigabytes": 40, "rotational": false}), json!({"size": ">= 40", "rotational": "false"}))]
    fn hints_in_ironics_words(#[case] hints: Value, #[case] expected: Value) {
        let hints: RootDeviceHints = serde_json::from_value(hints).unwrap();
        assert_eq!(root_device(Some(&hints)), expected);
    }
}
