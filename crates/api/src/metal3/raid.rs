//! RAID that is set up before a host becomes available.

use super::RootDeviceHints;
use crate::wire::{int, never, wire_enum};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

wire_enum! {
    /// RAID level of a controller's volume.
    closed enum HardwareRaidLevel {
        /// Striping.
        Raid0 = "0",
        /// Mirroring.
        Raid1 = "1",
        /// Striping with bit-level parity.
        Raid2 = "2",
        /// Striping with distributed parity.
        Raid5 = "5",
        /// Striping with two distributed parities.
        Raid6 = "6",
        /// Striped mirrors.
        Raid10 = "1+0",
        /// Striped RAID 5.
        Raid50 = "5+0",
        /// Striped RAID 6.
        Raid60 = "6+0",
    }
}

wire_enum! {
    /// RAID level of a software volume.
    closed enum SoftwareRaidLevel {
        /// Striping.
        Raid0 = "0",
        /// Mirroring.
        Raid1 = "1",
        /// Striped mirrors.
        Raid10 = "1+0",
    }
}

/// RAID volumes of a host.
///
/// For both lists, null (or absence) and an empty list differ: null leaves the disks as they are, an empty list deletes
/// what is there. Go writes the null, and so do we: these two are the only fields of all kinds that serialise as null,
/// so that an object which travels through us stays what it was, byte for byte.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RaidConfig {
    /// Volumes of the RAID controllers. Null leaves hardware RAID untouched, an empty list deletes all its volumes.
    /// Excludes software volumes.
    #[serde(rename = "hardwareRAIDVolumes", skip_serializing_if = "never")]
    #[schemars(extend("x-metal3-nullable" = true))]
    pub hardware_raid_volumes: Option<Vec<HardwareRaidVolume>>,

    /// Software RAID volumes, at most two. Null leaves software RAID untouched, an empty list deletes it. Excludes
    /// hardware volumes.
    #[serde(rename = "softwareRAIDVolumes", skip_serializing_if = "never")]
    #[schemars(length(max = 2), extend("x-metal3-nullable" = true))]
    pub software_raid_volumes: Option<Vec<SoftwareRaidVolume>>,
}

impl RaidConfig {
    /// Whether a software volume is marked to take the operating system.
    pub fn has_software_root_volume(&self) -> bool {
        self.software_raid_volumes
            .iter()
            .flatten()
            .any(|volume| volume.root_volume)
    }
}

/// One volume of a RAID controller.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HardwareRaidVolume {
    /// RAID level.
    pub level: HardwareRaidLevel,

    /// Name of the volume, unique on the host. Absent lets the controller choose.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 64))]
    pub name: String,

    /// Size in GiB. Absent or 0 takes all that is free.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "int", range(min = 0))]
    pub size_gibibytes: Option<i64>,

    /// true for spinning disks only, false for solid-state disks only, absent for either.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rotational: Option<bool>,

    /// How many disks to use. Absent takes as many as the level needs at least.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "int", range(min = 1))]
    pub number_of_physical_disks: Option<i64>,

    /// Name of the RAID controller. Needed with physicalDisks.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub controller: String,

    /// Names of the disks to use, as the controller knows them. Needs controller.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub physical_disks: Vec<String>,
}

impl HardwareRaidVolume {
    /// A volume of this level that leaves all else to the controller.
    pub fn new(level: HardwareRaidLevel) -> Self {
        Self {
            level,
            name: String::new(),
            size_gibibytes: None,
            rotational: None,
            number_of_physical_disks: None,
            controller: String::new(),
            physical_disks: Vec::new(),
        }
    }
}

/// One software RAID volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SoftwareRaidVolume {
    /// RAID level.
    pub level: SoftwareRaidLevel,

    /// Whether the operating system goes to this volume. At most one may be marked; it must be of level 1, and
    /// rootDeviceHints must be absent then.
    #[serde(default, skip_serializing_if = "never")]
    #[schemars(extend("x-metal3-default" = false))]
    pub root_volume: bool,

    /// Size in GiB. Absent or 0 takes all that is free.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "int", range(min = 0))]
    pub size_gibibytes: Option<i64>,

    /// Hints for the disks to use, one entry for each, at least two. Absent takes all disks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 2))]
    pub physical_disks: Vec<RootDeviceHints>,
}

impl SoftwareRaidVolume {
    /// A volume of this level over all disks.
    pub fn new(level: SoftwareRaidLevel) -> Self {
        Self {
            level,
            root_volume: false,
            size_gibibytes: None,
            physical_disks: Vec::new(),
        }
    }
}
