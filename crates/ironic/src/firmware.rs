//! BIOS settings and firmware versions of a node.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::view::View;

/// The answer to `GET …/bios`: values by name. A setting without a value is left out.
pub(crate) struct BiosSettings(pub BTreeMap<String, String>);

impl<'de> Deserialize<'de> for BiosSettings {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let record = Value::deserialize(deserializer)?;
        let settings = View::of(&record).list("bios");
        Ok(Self(
            settings
                .filter_map(|s| Some((s.text("name")?, s.text("value")?)))
                .collect(),
        ))
    }
}

/// Firmware of one component.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FirmwareComponent {
    /// Which: `bios`, `bmc`, `nic:…`, ….
    pub component: String,
    /// The version that it had when Ironic saw it first.
    pub initial_version: String,
    /// The version that it has.
    pub current_version: Option<String>,
    /// The version that Ironic wrote to it last.
    pub last_version_flashed: Option<String>,
    /// When this record changed, RFC 3339.
    pub updated_at: Option<String>,
}

/// The answer to `GET …/firmware`.
pub(crate) struct Firmware(pub Vec<FirmwareComponent>);

impl<'de> Deserialize<'de> for Firmware {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let record = Value::deserialize(deserializer)?;
        let components = View::of(&record).list("firmware");
        let component = |c: View<'_>| {
            Some(FirmwareComponent {
                component: c.text("component")?,
                initial_version: c.text("initial_version").unwrap_or_default(),
                current_version: c.text("current_version"),
                last_version_flashed: c.text("last_version_flashed"),
                updated_at: c.text("updated_at"),
            })
        };
        Ok(Self(components.filter_map(component).collect()))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn settings_without_a_value_are_left_out() {
        let answer = json!({"bios": [{"name": "A", "value": "Enabled"}, {"name": "B", "value": null},
            {"name": "C", "value": "7", "links": []}, {"value": "x"}, 3]});
        let found: BiosSettings = serde_json::from_value(answer).unwrap();
        let expected = [("A", "Enabled"), ("C", "7")].map(|(k, v)| (k.to_owned(), v.to_owned()));
        assert_eq!(found.0, BTreeMap::from(expected));
    }

    #[test]
    fn components_may_know_little_of_themselves() {
        let answer = json!({"firmware": [
            {"component": "bios", "initial_version": "1", "current_version": "2", "last_version_flashed": null,
             "updated_at": "2026-01-01T00:00:00+00:00"}, {"component": "bmc"}, {"initial_version": "1"}]});
        let found: Firmware = serde_json::from_value(answer).unwrap();
        assert_eq!(found.0.len(), 2);
        assert_eq!(found.0[0].current_version.as_deref(), Some("2"));
        assert_eq!(found.0[1].initial_version, "");
    }
}
