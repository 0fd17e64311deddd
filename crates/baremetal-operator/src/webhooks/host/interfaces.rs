//! Network interfaces: each is selected by its name or by its MAC address.

use std::collections::HashSet;

use metal3_api::metal3::NetworkInterface;
use metal3_runtime::webhook::FieldError;

pub fn errors(interfaces: &[NetworkInterface]) -> Vec<FieldError> {
    let mut selected = HashSet::new();
    let mut errors = Vec::new();
    for (index, interface) in interfaces.iter().enumerate() {
        let message = match (interface.name.as_str(), interface.mac_address.as_str()) {
            ("", "") => "needs a name or a macAddress".to_owned(),
            (selector, "") | ("", selector) if selected.insert(selector.to_lowercase()) => continue,
            (selector, "") | ("", selector) => format!("{selector:?} is selected by another entry, too"),
            _ => "must not have both a name and a macAddress".to_owned(),
        };
        errors.push(FieldError::new(format!("spec.networkInterfaces[{index}]"), message));
    }
    errors
}
