//! What inspection found in a host, and the kind that keeps it.

use std::collections::HashSet;

use crate::wire::{int, is_default, optional_spec, wire_enum};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What is recorded about a host's hardware.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "metal3.io",
    version = "v1alpha1",
    kind = "HardwareData",
    plural = "hardwaredata",
    shortname = "hd",
    namespaced,
    doc = "Inventory of a host's hardware. It has the name and namespace of its BareMetalHost and outlives its provisioning. Created before the host, it replaces inspection.",
    derive = "Default",
    derive = "PartialEq",
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp", "description": "Time since the HardwareData was created"}"#
)]
#[serde(rename_all = "camelCase", default, remote = "Self")]
#[schemars(!remote)]
pub struct HardwareDataSpec {
    /// The hardware that inspection found, or that a user has declared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hardware: Option<Box<HardwareDetails>>,
}

optional_spec!(HardwareDataSpec);

/// A host's hardware. Everything may be missing: inspection reports what it can see.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HardwareDetails {
    /// Who made the host.
    #[serde(skip_serializing_if = "is_default")]
    pub system_vendor: SystemVendor,

    /// Firmware of the host.
    #[serde(skip_serializing_if = "is_default")]
    pub firmware: Firmware,

    /// Memory in MiB.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(schema_with = "int")]
    pub ram_mebibytes: i64,

    /// Network interfaces. One with addresses of both IP families has two entries with the same name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nics: Vec<Nic>,

    /// Disks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub storage: Vec<Storage>,

    /// Processors.
    #[serde(skip_serializing_if = "is_default")]
    pub cpu: Cpu,

    /// Host name at the time of inspection.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub hostname: String,
}

impl HardwareDetails {
    /// What is enough for a store: that there are details, and the architecture. A host's NICs and disks can be most of
    /// what is kept of it, and are wanted rarely; they are read when they are.
    ///
    /// It must not be written back: every field but this one would be lost.
    #[must_use]
    pub fn outline(&self) -> Self {
        Self {
            cpu: Cpu {
                arch: self.cpu.arch.clone(),
                ..Cpu::default()
            },
            ..Self::default()
        }
    }

    /// What is enough to reach the host, for a store: its name and its addresses, each once and so many at most.
    ///
    /// It must not be written back: all else would be lost.
    #[must_use]
    pub fn reachability(&self, most: usize) -> Self {
        let mut seen = HashSet::new();
        let ips = self.nics.iter().map(|nic| &nic.ip).filter(|ip| !ip.is_empty());
        let nics = ips.filter(|ip| seen.insert(*ip)).take(most).map(|ip| Nic {
            ip: ip.clone(),
            ..Nic::default()
        });
        let mut nics: Vec<Nic> = nics.collect();
        nics.shrink_to_fit();
        Self {
            nics,
            hostname: self.hostname.clone(),
            ..Self::default()
        }
    }
}

/// Who made a host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SystemVendor {
    /// Manufacturer.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub manufacturer: String,

    /// Product name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub product_name: String,

    /// Serial number.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub serial_number: String,
}

/// Firmware of a host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Firmware {
    /// BIOS or UEFI firmware.
    #[serde(skip_serializing_if = "is_default")]
    pub bios: Bios,
}

/// BIOS or UEFI firmware of a host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Bios {
    /// Release date, as the firmware states it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub date: String,

    /// Vendor.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub vendor: String,

    /// Version.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub version: String,
}

/// Processors of a host.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Cpu {
    /// Architecture, such as x86_64 or aarch64.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub arch: String,

    /// Model.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub model: String,

    /// Clock speed in MHz.
    #[serde(skip_serializing_if = "is_default")]
    pub clock_megahertz: f64,

    /// Feature flags, sorted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub flags: Vec<String>,

    /// Number of processors that the operating system sees.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(schema_with = "int")]
    pub count: i64,
}

/// One network interface, with one of its addresses.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Nic {
    /// Name in the inspecting system, such as eth0.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,

    /// Vendor and product, as ids or as names.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub model: String,

    /// MAC address.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(regex(pattern = "[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}"))]
    pub mac: String,

    /// IP address. An interface with both IPv4 and IPv6 has one entry for each.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub ip: String,

    /// Speed in Gb/s, rounded down.
    #[serde(rename = "speedGbps", skip_serializing_if = "is_default")]
    #[schemars(schema_with = "int")]
    pub speed_gbps: i64,

    /// VLANs that a switch announced on this interface.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub vlans: Vec<Vlan>,

    /// The untagged VLAN.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(range(min = 0, max = 4094))]
    pub vlan_id: i32,

    /// Whether the host booted from the network through this interface.
    #[serde(skip_serializing_if = "is_default")]
    pub pxe: bool,

    /// What the switch told about itself by LLDP. Absent when it told nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lldp: Option<Lldp>,

    /// PCI address.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub pci_address: String,
}

/// A VLAN on a network interface.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Vlan {
    /// VLAN number.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(range(min = 0, max = 4094))]
    pub id: i32,

    /// VLAN name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
}

/// What a switch tells about itself by LLDP.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Lldp {
    /// Chassis id of the switch, usually a MAC address.
    #[serde(rename = "switchID", skip_serializing_if = "String::is_empty")]
    pub switch_id: String,

    /// Port of the switch.
    #[serde(rename = "portID", skip_serializing_if = "String::is_empty")]
    pub port_id: String,

    /// Name of the switch.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub switch_system_name: String,
}

wire_enum! {
    /// Kind of a disk.
    closed enum DiskType {
        /// Spinning disk.
        Hdd = "HDD",
        /// Solid-state disk.
        Ssd = "SSD",
        /// Solid-state disk on the NVMe bus.
        Nvme = "NVME",
    }
}

/// One disk.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Storage {
    /// The name that changes least: by-path where known, else the kernel's.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,

    /// Other names of this disk.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub alternate_names: Vec<String>,

    /// Whether the disk spins. Prefer type, which tells more.
    #[serde(skip_serializing_if = "is_default")]
    pub rotational: bool,

    /// Kind of the disk: HDD, SSD or NVME.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_: Option<DiskType>,

    /// Size in bytes.
    #[serde(skip_serializing_if = "is_default")]
    pub size_bytes: i64,

    /// Vendor.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub vendor: String,

    /// Model.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub model: String,

    /// Serial number.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub serial_number: String,

    /// World wide name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub wwn: String,

    /// The vendor's extension of the world wide name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub wwn_vendor_extension: String,

    /// World wide name with the vendor's extension.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub wwn_with_extension: String,

    /// SCSI address: host, channel, target, lun.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub hctl: String,
}
