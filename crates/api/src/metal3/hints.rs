//! Which disk an operating system goes to.

use crate::wire::{int, is_default};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Properties of the disk to use. All that are given must match; the first disk that does is taken.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RootDeviceHints {
    /// Device name such as /dev/vda, or a link under /dev/disk/by-path. Must match exactly.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub device_name: String,

    /// SCSI address such as 0:0:0:0. Must match exactly.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub hctl: String,

    /// Model of the disk. A part of it is enough.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub model: String,

    /// Vendor of the disk. A part of it is enough.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub vendor: String,

    /// Serial number of the disk. Must match exactly.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub serial_number: String,

    /// Smallest size in gigabytes. Absent or 0 means any size.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(schema_with = "int", range(min = 0))]
    pub min_size_gigabytes: i64,

    /// World wide name. Must match exactly.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub wwn: String,

    /// World wide name with the vendor's extension. Must match exactly.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub wwn_with_extension: String,

    /// The vendor's extension of the world wide name. Must match exactly.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub wwn_vendor_extension: String,

    /// true for a spinning disk, false for one that is not, absent for either.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rotational: Option<bool>,
}
