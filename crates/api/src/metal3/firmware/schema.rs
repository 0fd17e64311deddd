//! FirmwareSchema: what values the firmware settings of a make of host may have.

use crate::wire::{int, optional_spec, wire_enum};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

wire_enum! {
    /// What kind of value a setting has.
    closed enum AttributeType {
        /// One of several texts.
        Enumeration = "Enumeration",
        /// Any text of a certain length.
        String = "String",
        /// A number within bounds.
        Integer = "Integer",
        /// The text true or the text false.
        Boolean = "Boolean",
        /// A secret text. Such settings are neither shown nor accepted.
        Password = "Password",
    }
}

/// What values the firmware settings of a make of host may have.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "metal3.io",
    version = "v1alpha1",
    kind = "FirmwareSchema",
    plural = "firmwareschemas",
    namespaced,
    doc = "What values the firmware settings of a make of host may have, as the BMC tells. Hosts with the same settings share one; it goes with the last HostFirmwareSettings that refers to it.",
    derive = "Default",
    derive = "PartialEq"
)]
#[serde(rename_all = "camelCase", default, remote = "Self")]
#[schemars(!remote)]
pub struct FirmwareSchemaSpec {
    /// Who made the hosts, from the inventory of the first one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub hardware_vendor: String,

    /// Model of the hosts, from the inventory of the first one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub hardware_model: String,

    /// Limits of each setting by its name. What is not in it cannot be set.
    pub schema: BTreeMap<String, SettingSchema>,
}

optional_spec!(FirmwareSchemaSpec);

/// Limits of one setting. What is absent is not limited.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)] // The fields are in snake case, as in the answers of BMCs.
pub struct SettingSchema {
    /// Kind of value: Enumeration, String, Integer, Boolean or Password. Absent when the BMC does not tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attribute_type: Option<AttributeType>,

    /// The texts to choose from, for an Enumeration.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allowable_values: Vec<String>,

    /// Smallest number, for an Integer.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "int")]
    pub lower_bound: Option<i64>,

    /// Largest number, for an Integer.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "int")]
    pub upper_bound: Option<i64>,

    /// Least length in bytes, for a String.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "int")]
    pub min_length: Option<i64>,

    /// Greatest length in bytes, for a String.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "int")]
    pub max_length: Option<i64>,

    /// Whether the setting cannot be changed. Absent when the BMC does not tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_only: Option<bool>,

    /// Whether the value is particular to each host, such as a serial number. Absent when the BMC does not tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unique: Option<bool>,
}
