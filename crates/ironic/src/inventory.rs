//! What inspection found out about a machine.
//!
//! Decoding never fails: agents, BMCs and Ironic releases differ in types and leave things out, and what one of them
//! garbled must not cost us the rest. Missing is `None` or an empty list.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::view::View;

/// The answer to `GET …/inventory`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Inventory {
    /// Host name of the ramdisk. Absent after an inspection through the BMC.
    pub hostname: Option<String>,
    /// Maker and model.
    pub system_vendor: SystemVendor,
    /// Memory in MiB.
    pub memory_mib: Option<i64>,
    /// Processors.
    pub cpu: Cpu,
    /// Network interfaces, in the order in which they came.
    pub interfaces: Vec<Interface>,
    /// Disks, in the order in which they came.
    pub disks: Vec<Disk>,
    /// Whether the machine booted in `bios` or `uefi` mode.
    pub boot_mode: Option<String>,
    /// Address of the BMC as seen from the machine.
    pub bmc_address: Option<String>,
    /// What Ironic's inspection hooks made of it; empty maps if there is nothing, or nothing readable.
    pub plugin_data: PluginData,
}

/// Maker and model of the machine and of its firmware.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SystemVendor {
    /// Maker.
    pub manufacturer: Option<String>,
    /// Model.
    pub product_name: Option<String>,
    /// Serial number.
    pub serial_number: Option<String>,
    /// Maker of the BIOS.
    pub firmware_vendor: Option<String>,
    /// Version of the BIOS.
    pub firmware_version: Option<String>,
    /// Date of the BIOS, as the maker writes it.
    pub firmware_date: Option<String>,
}

/// Processors.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Cpu {
    /// `x86_64`, `aarch64`.
    pub architecture: Option<String>,
    /// Model.
    pub model_name: Option<String>,
    /// Number of logical processors.
    pub count: Option<i64>,
    /// Clock in MHz. A text from the ramdisk, a number from a BMC; what is no number is left out.
    pub frequency_mhz: Option<f64>,
    /// Features, sorted.
    pub flags: Vec<String>,
}

/// A network interface.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Interface {
    /// Name in the ramdisk, or in the BMC.
    pub name: Option<String>,
    /// MAC address in lower case.
    pub mac_address: Option<String>,
    /// IPv4 address.
    pub ipv4_address: Option<String>,
    /// IPv6 address, possibly with `%interface`.
    pub ipv6_address: Option<String>,
    /// Maker, often as a PCI number.
    pub vendor: Option<String>,
    /// Model, often as a PCI number.
    pub product: Option<String>,
    /// Speed in Mbit/s.
    pub speed_mbps: Option<i64>,
    /// PCI address.
    pub pci_address: Option<String>,
    /// Whether there is a link.
    pub has_carrier: Option<bool>,
}

/// A disk.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Disk {
    /// Device path; after an inspection through the BMC perhaps only a label.
    pub name: Option<String>,
    /// Path below `/dev/disk/by-path`.
    pub by_path: Option<String>,
    /// Size in bytes.
    pub size: Option<i64>,
    /// Whether it spins. Unknown to BMCs.
    pub rotational: Option<bool>,
    /// Maker.
    pub vendor: Option<String>,
    /// Model.
    pub model: Option<String>,
    /// Serial number.
    pub serial: Option<String>,
    /// World-wide name.
    pub wwn: Option<String>,
    /// Vendor's part of it.
    pub wwn_vendor_extension: Option<String>,
    /// Both together.
    pub wwn_with_extension: Option<String>,
    /// SCSI host, channel, target, LUN.
    pub hctl: Option<String>,
}

/// What Ironic's inspection hooks made of the inventory, by interface name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PluginData {
    /// Whether the machine booted from the interface.
    pub pxe_enabled: BTreeMap<String, bool>,
    /// What the switch at the other end told.
    pub parsed_lldp: BTreeMap<String, ParsedLldp>,
}

/// What a switch told over LLDP.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ParsedLldp {
    /// Which switch, usually a MAC address.
    pub switch_chassis_id: Option<String>,
    /// Which of its ports.
    pub switch_port_id: Option<String>,
    /// Name of the switch.
    pub switch_system_name: Option<String>,
    /// VLAN of untagged frames.
    pub untagged_vlan_id: Option<i64>,
    /// Tagged VLANs.
    pub vlans: Vec<Vlan>,
}

/// A tagged VLAN.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vlan {
    /// Number.
    pub id: i64,
    /// Name, if the switch has one for it.
    pub name: Option<String>,
}

impl<'de> Deserialize<'de> for Inventory {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let answer = Value::deserialize(deserializer)?;
        let answer = View::of(&answer);
        Ok(Self::from_parts(answer.at("inventory"), answer.at("plugin_data")))
    }
}

impl Inventory {
    fn from_parts(found: View<'_>, plugin_data: View<'_>) -> Self {
        let (vendor, cpu) = (found.at("system_vendor"), found.at("cpu"));
        let firmware = vendor.at("firmware");
        let mut flags = cpu.texts("flags");
        flags.sort_unstable();
        Self {
            hostname: found.text("hostname"),
            system_vendor: SystemVendor {
                manufacturer: vendor.text("manufacturer"),
                product_name: vendor.text("product_name"),
                serial_number: vendor.text("serial_number"),
                firmware_vendor: firmware.text("vendor"),
                firmware_version: firmware.text("version"),
                firmware_date: firmware.text("build_date"),
            },
            memory_mib: found.at("memory").integer("physical_mb"),
            cpu: Cpu {
                architecture: cpu.text("architecture"),
                model_name: cpu.text("model_name"),
                count: cpu.integer("count"),
                frequency_mhz: cpu.text("frequency").as_deref().and_then(leading_number),
                flags,
            },
            interfaces: found.list("interfaces").map(Interface::from_view).collect(),
            disks: found.list("disks").map(Disk::from_view).collect(),
            boot_mode: found.at("boot").text("current_boot_mode"),
            bmc_address: found.text("bmc_address"),
            plugin_data: PluginData::from_view(plugin_data),
        }
    }
}

impl Interface {
    fn from_view(view: View<'_>) -> Self {
        Self {
            name: view.text("name"),
            mac_address: view.text("mac_address").map(|mac| mac.to_ascii_lowercase()),
            ipv4_address: view.text("ipv4_address"),
            ipv6_address: view.text("ipv6_address"),
            vendor: view.text("vendor"),
            product: view.text("product"),
            speed_mbps: view.integer("speed_mbps"),
            pci_address: view.text("pci_address"),
            has_carrier: view.boolean("has_carrier"),
        }
    }
}

impl Disk {
    fn from_view(view: View<'_>) -> Self {
        Self {
            name: view.text("name"),
            by_path: view.text("by_path"),
            size: view.integer("size"),
            rotational: view.boolean("rotational"),
            vendor: view.text("vendor"),
            model: view.text("model"),
            serial: view.text("serial"),
            wwn: view.text("wwn"),
            wwn_vendor_extension: view.text("wwn_vendor_extension"),
            wwn_with_extension: view.text("wwn_with_extension"),
            hctl: view.text("hctl"),
        }
    }
}

impl PluginData {
    fn from_view(view: View<'_>) -> Self {
        let pxe = view.object("all_interfaces").into_iter().flatten();
        let lldp = view.object("parsed_lldp").into_iter().flatten();
        Self {
            pxe_enabled: pxe
                .filter_map(|(name, data)| Some((name.clone(), View::of(data).boolean("pxe_enabled")?)))
                .collect(),
            parsed_lldp: lldp
                .filter(|(_, data)| data.is_object())
                .map(|(name, data)| (name.clone(), ParsedLldp::from_view(View::of(data))))
                .collect(),
        }
    }
}

impl ParsedLldp {
    fn from_view(view: View<'_>) -> Self {
        let vlan = |vlan: View<'_>| {
            Some(Vlan {
                id: vlan.integer("id")?,
                name: vlan.text("name"),
            })
        };
        Self {
            switch_chassis_id: view.text("switch_chassis_id"),
            switch_port_id: view.text("switch_port_id"),
            switch_system_name: view.text("switch_system_name"),
            untagged_vlan_id: view.integer("switch_port_untagged_vlan_id"),
            vlans: view.list("switch_port_vlans").filter_map(vlan).collect(),
        }
    }
}

/// The number at the start of a text: `2100.000 MHz` is 2100.
fn leading_number(text: &str) -> Option<f64> {
    let text = text.trim();
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    text[..end].parse().ok().filter(|number: &f64| number.is_finite())
}

#[cfg(test)]
mod tests;
