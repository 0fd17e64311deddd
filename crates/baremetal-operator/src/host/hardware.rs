//! Converts Ironic's inventory to the hardware details that users and other controllers read.

use metal3_api::metal3::HardwareDetails;
use metal3_api::metal3::hardware::{Bios, Cpu, DiskType, Firmware, Lldp, Nic, Storage, SystemVendor, Vlan};
use metal3_ironic::{Disk, Interface, Inventory, ParsedLldp};

const MBPS_PER_GBPS: i64 = 1000;

/// The details of an inventory. What the ramdisk or the BMC did not report stays empty.
pub fn details(inventory: &Inventory) -> HardwareDetails {
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let vendor = &inventory.system_vendor;
    HardwareDetails {
        system_vendor: SystemVendor {
            manufacturer: text(&vendor.manufacturer),
            product_name: text(&vendor.product_name),
            serial_number: text(&vendor.serial_number),
        },
        firmware: Firmware {
            bios: Bios {
                date: text(&vendor.firmware_date),
                vendor: text(&vendor.firmware_vendor),
                version: text(&vendor.firmware_version),
            },
        },
        ram_mebibytes: inventory.memory_mib.unwrap_or_default(),
        nics: inventory
            .interfaces
            .iter()
            .flat_map(|nic| nics(nic, inventory))
            .collect(),
        storage: inventory.disks.iter().map(storage).collect(),
        cpu: Cpu {
            arch: text(&inventory.cpu.architecture),
            model: text(&inventory.cpu.model_name),
            clock_megahertz: inventory.cpu.frequency_mhz.unwrap_or_default().round(),
            flags: inventory.cpu.flags.clone(),
            count: inventory.cpu.count.unwrap_or_default(),
        },
        hostname: text(&inventory.hostname),
    }
}

/// One entry per address family: a NIC with both has two entries of the same name.
fn nics(nic: &Interface, inventory: &Inventory) -> Vec<Nic> {
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let name = text(&nic.name);
    let lldp = inventory.plugin_data.parsed_lldp.get(&name);
    let one = |ip: String| Nic {
        // The blank between vendor and an empty product is upstream's; matching strings depend on it.
        model: format!("{} {}", text(&nic.vendor), text(&nic.product))
            .trim_start()
            .to_owned(),
        mac: text(&nic.mac_address),
        ip,
        speed_gbps: nic.speed_mbps.unwrap_or_default() / MBPS_PER_GBPS,
        vlans: lldp.map(vlans).unwrap_or_default(),
        vlan_id: lldp
            .and_then(|l| l.untagged_vlan_id)
            .and_then(|id| i32::try_from(id).ok())
            .unwrap_or_default(),
        pxe: inventory
            .plugin_data
            .pxe_enabled
            .get(&name)
            .copied()
            .unwrap_or_default(),
        lldp: lldp.and_then(neighbour),
        pci_address: text(&nic.pci_address),
        name: name.clone(),
    };
    // Link-local addresses may include the interface's name, which means nothing outside the host.
    let v6 = nic
        .ipv6_address
        .as_deref()
        .map(|a| a.split('%').next().unwrap_or(a))
        .filter(|a| !a.is_empty());
    std::iter::once(one(text(&nic.ipv4_address)))
        .chain(v6.map(|address| one(address.to_owned())))
        .collect()
}

fn vlans(lldp: &ParsedLldp) -> Vec<Vlan> {
    lldp.vlans
        .iter()
        .filter_map(|vlan| {
            Some(Vlan {
                id: i32::try_from(vlan.id).ok()?,
                name: vlan.name.clone().unwrap_or_default(),
            })
        })
        .collect()
}

fn neighbour(lldp: &ParsedLldp) -> Option<Lldp> {
    let found = Lldp {
        switch_id: lldp.switch_chassis_id.clone().unwrap_or_default(),
        port_id: lldp.switch_port_id.clone().unwrap_or_default(),
        switch_system_name: lldp.switch_system_name.clone().unwrap_or_default(),
    };
    (found != Lldp::default()).then_some(found)
}

fn storage(disk: &Disk) -> Storage {
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let name = text(&disk.name);
    let rotational = disk.rotational.unwrap_or_default();
    let kind = if rotational {
        DiskType::Hdd
    } else if name.starts_with("/dev/nvme") {
        DiskType::Nvme
    } else {
        DiskType::Ssd
    };
    let by_path = text(&disk.by_path);
    Storage {
        name: if by_path.is_empty() {
            name.clone()
        } else {
            by_path.clone()
        },
        alternate_names: [name, by_path].into_iter().filter(|n| !n.is_empty()).collect(),
        rotational,
        type_: Some(kind),
        size_bytes: disk.size.unwrap_or_default(),
        vendor: text(&disk.vendor),
        model: text(&disk.model),
        serial_number: text(&disk.serial),
        wwn: text(&disk.wwn),
        wwn_vendor_extension: text(&disk.wwn_vendor_extension),
        wwn_with_extension: text(&disk.wwn_with_extension),
        hctl: text(&disk.hctl),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_dual_stack_nic_has_two_entries_and_its_vlans() {
        let inventory: Inventory = serde_json::from_value(json!({
            "inventory": {
                "interfaces": [{"name": "eth0", "mac_address": "52:54:00:12:34:56", "ipv4_address": "192.0.2.5",
                    "ipv6_address": "fe80::1%eth0", "vendor": "0x1af4", "product": "", "speed_mbps": 10000}],
                "disks": [
                    {"name": "/dev/nvme0n1", "size": 100, "rotational": false},
                    {"name": "/dev/sda", "by_path": "/dev/disk/by-path/p", "rotational": true, "size": 5}],
                "cpu": {"frequency": "2394.374", "count": 4, "architecture": "x86_64", "flags": ["b", "a"]},
            },
            "plugin_data": {
                "all_interfaces": {"eth0": {"pxe_enabled": true}},
                "parsed_lldp": {"eth0": {"switch_port_vlans": [{"id": 7, "name": "v7"}],
                    "switch_port_untagged_vlan_id": 3, "switch_system_name": "leaf1"}},
            },
        }))
        .unwrap();
        let found = details(&inventory);
        let ips: Vec<_> = found.nics.iter().map(|n| n.ip.as_str()).collect();
        assert_eq!(ips, ["192.0.2.5", "fe80::1"]);
        let nic = &found.nics[0];
        assert_eq!(
            (nic.model.as_str(), nic.speed_gbps, nic.pxe, nic.vlan_id),
            ("0x1af4 ", 10, true, 3)
        );
        assert_eq!(
            nic.vlans,
            [Vlan {
                id: 7,
                name: "v7".to_owned()
            }]
        );
        assert_eq!(nic.lldp.as_ref().map(|l| l.switch_system_name.as_str()), Some("leaf1"));
        let disks: Vec<_> = found
            .storage
            .iter()
            .map(|d| (d.name.as_str(), d.type_.clone()))
            .collect();
        assert_eq!(
            disks,
            [
                ("/dev/nvme0n1", Some(DiskType::Nvme)),
                ("/dev/disk/by-path/p", Some(DiskType::Hdd))
            ]
        );
        assert_eq!(found.storage[1].alternate_names, ["/dev/sda", "/dev/disk/by-path/p"]);
        assert!((found.cpu.clock_megahertz - 2394.0).abs() < f64::EPSILON);
    }
}
