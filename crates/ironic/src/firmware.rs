//! BIOS settings and firmware versions of a node.

use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::view::View;

/// A BIOS setting with what its values may be.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BiosSetting {
    /// The vendor's name for it.
    pub name: String,
    /// Its value. Empty if the BMC reports none.
    pub value: String,
    /// What kind of value it has: `Enumeration`, `String`, `Integer`, `Boolean`, `Password`.
    pub attribute_type: Option<String>,
    /// The values to choose from.
    pub allowable_values: Vec<String>,
    /// The smallest number.
    pub lower_bound: Option<i64>,
    /// The largest number.
    pub upper_bound: Option<i64>,
    /// The least length.
    pub min_length: Option<i64>,
    /// The greatest length.
    pub max_length: Option<i64>,
    /// Whether it cannot be changed.
    pub read_only: Option<bool>,
    /// Whether its value is particular to each server.
    pub unique: Option<bool>,
}

/// The answer to `GET …/bios?detail=true`.
pub(crate) struct BiosSettings(pub Vec<BiosSetting>);

impl<'de> Deserialize<'de> for BiosSettings {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let record = Value::deserialize(deserializer)?;
        let setting = |s: View<'_>| {
            Some(BiosSetting {
                name: s.text("name")?,
                value: s.text("value").unwrap_or_default(),
                attribute_type: s.text("attribute_type"),
                allowable_values: s.texts("allowable_values"),
                lower_bound: s.integer("lower_bound"),
                upper_bound: s.integer("upper_bound"),
                min_length: s.integer("min_length"),
                max_length: s.integer("max_length"),
                read_only: s.boolean("read_only"),
                unique: s.boolean("unique"),
            })
        };
        Ok(Self(View::of(&record).list("bios").filter_map(setting).collect()))
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
    fn settings_without_a_value_are_empty() {
        let answer = json!({"bios": [{"name": "A", "value": "Enabled"}, {"name": "B", "value": null},
            {"name": "C", "value": "7", "links": []}, {"value": "x"}, 3]});
        let found: BiosSettings = serde_json::from_value(answer).unwrap();
        let found: Vec<_> = found.0.iter().map(|s| (s.name.as_str(), s.value.as_str())).collect();
        assert_eq!(found, [("A", "Enabled"), ("B", ""), ("C", "7")]);
    }

    #[test]
    fn what_a_bmc_does_not_say_of_a_setting_is_absent() {
        let answer = json!({"bios": [
            {"name": "A", "value": "On", "attribute_type": "Enumeration", "allowable_values": ["On", "Off"],
             "lower_bound": null, "read_only": false, "unique": null},
            {"name": "N", "value": null, "attribute_type": "Integer", "allowable_values": null, "lower_bound": 1, "upper_bound": 9}]});
        let found: BiosSettings = serde_json::from_value(answer).unwrap();
        let a = BiosSetting {
            name: "A".to_owned(),
            value: "On".to_owned(),
            attribute_type: Some("Enumeration".to_owned()),
            allowable_values: vec!["On".to_owned(), "Off".to_owned()],
            read_only: Some(false),
            ..BiosSetting::default()
        };
        let n = BiosSetting {
            name: "N".to_owned(),
            attribute_type: Some("Integer".to_owned()),
            lower_bound: Some(1),
            upper_bound: Some(9),
            ..BiosSetting::default()
        };
        assert_eq!(found.0, [a, n]);
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
