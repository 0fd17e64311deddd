//! Entries of a template's metadata.

use super::SourceObject;
use super::source::{group_or_default, kind_or_default};
use crate::infra::names::pool;
use crate::wire::{clamped, clamped_option, is_default, never};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A fixed text.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MetaDataString {
    /// Key of the entry.
    #[schemars(length(min = 1, max = 512))]
    pub key: String,

    /// Value of the entry.
    #[schemars(length(min = 1, max = 512))]
    pub value: String,
}

/// The name of one of the objects behind a server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MetaDataObjectName {
    /// Key of the entry.
    #[schemars(length(min = 1, max = 512))]
    pub key: String,

    /// Whose name it is: machine, metal3machine or baremetalhost.
    pub object: SourceObject,
}

/// A text made of the index of the data: prefix, offset + index * step, suffix.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MetaDataIndex {
    /// Key of the entry.
    #[schemars(length(min = 1, max = 512))]
    pub key: String,

    /// Number that index 0 gives. Absent means 0.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "clamped_option")]
    #[schemars(range(min = 0))]
    pub offset: Option<i32>,

    /// By how much the number grows from one index to the next. The default is 1.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "clamped")]
    #[schemars(range(min = 1), extend("x-metal3-default" = 1))]
    pub step: i32,

    /// Text before the number.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 512))]
    pub prefix: String,

    /// Text after the number.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 512))]
    pub suffix: String,
}

/// The namespace of the data.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MetaDataNamespace {
    /// Key of the entry.
    #[schemars(length(min = 1, max = 512))]
    pub key: String,
}

/// The MAC address of one of a host's network interfaces.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MetaDataHostInterface {
    /// Key of the entry.
    #[schemars(length(min = 1, max = 512))]
    pub key: String,

    /// Name of the interface in the host's inventory. Required unless fromBootMAC is true, and forbidden then.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 512))]
    pub interface: String,

    /// Whether the MAC address is the one that the host boots from. Absent means false.
    #[serde(rename = "fromBootMAC", skip_serializing_if = "Option::is_none")]
    pub from_boot_mac: Option<bool>,
}

/// The value of a label, empty where the object has no such label.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MetaDataLabel {
    /// Key of the entry.
    #[schemars(length(min = 1, max = 512))]
    pub key: String,

    /// The object that carries the label: machine, metal3machine or baremetalhost.
    pub object: SourceObject,

    /// Key of the label.
    #[schemars(length(min = 1, max = 512))]
    pub label: String,
}

/// The value of an annotation, empty where the object has no such annotation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MetaDataAnnotation {
    /// Key of the entry.
    #[schemars(length(min = 1, max = 512))]
    pub key: String,

    /// The object that carries the annotation: machine, metal3machine or baremetalhost.
    pub object: SourceObject,

    /// Key of the annotation.
    #[schemars(length(min = 1, max = 512))]
    pub annotation: String,
}

/// Something that an address pool says, of any kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-metal3-v1beta1" = { "required": ["apiGroup", "key", "kind", "name"] }))]
pub struct MetaDataFromPool {
    /// Key of the entry.
    #[schemars(length(min = 1, max = 512))]
    pub key: String,

    /// Name of the pool.
    #[schemars(length(min = 1, max = 512))]
    pub name: String,

    /// API group of the pool. The default is ipam.metal3.io.
    #[serde(skip_serializing_if = "never", deserialize_with = "group_or_default")]
    #[schemars(
        length(min = 1, max = 512),
        extend("x-metal3-default" = "ipam.metal3.io", "x-metal3-v1beta1" = {
            "x-metal3-default": null,
            "description": "API group of the pool. In v1beta2 the default is ipam.metal3.io.",
        })
    )]
    pub api_group: String,

    /// Kind of the pool. The default is IPPool.
    #[serde(skip_serializing_if = "never", deserialize_with = "kind_or_default")]
    #[schemars(
        length(min = 1, max = 512),
        extend("x-metal3-default" = "IPPool", "x-metal3-v1beta1" = {
            "x-metal3-default": null,
            "description": "Kind of the pool. In v1beta2 the default is IPPool.",
        })
    )]
    pub kind: String,
}

impl Default for MetaDataFromPool {
    fn default() -> Self {
        Self {
            key: String::new(),
            name: String::new(),
            api_group: pool::GROUP.to_owned(),
            kind: pool::KIND.to_owned(),
        }
    }
}
