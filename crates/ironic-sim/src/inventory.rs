//! A server's hardware, as inspection, BIOS and firmware calls report it.

use serde_json::{Map, Value, json};

use crate::server::{Machine, Server};

const GIB: u64 = 1 << 30;

/// The BIOS settings that every server has: name, value, choices.
const BIOS: &[(&str, &str, &[&str])] = &[
    ("BootMode", "Uefi", &["Bios", "Uefi"]),
    ("EmbeddedSata", "Raid", &["Off", "Ata", "Ahci", "Raid"]),
    ("L2Cache", "10x256 KB", &[]),
    ("NicBoot1", "NetworkBoot", &["None", "NetworkBoot"]),
    ("NumCores", "10", &[]),
    ("ProcTurboMode", "Enabled", &["Disabled", "Enabled"]),
    ("QuietBoot", "true", &[]),
    ("SecureBootStatus", "Enabled", &["Disabled", "Enabled"]),
    ("SysPassword", "", &[]),
];

/// What the inventory call shows after an inspection; what `more` says wins.
pub(crate) fn found(number: u32, is_fast: bool, more: Option<&Map<String, Value>>) -> Value {
    let server = Server::new(number);
    let serial = server.boot_mac().replace(':', "");
    let mut inventory = if is_fast {
        of_bmc(&server, &serial)
    } else {
        of_ramdisk(&server, &serial)
    };
    if let Some(more) = more {
        merge(&mut inventory, &Value::Object(more.clone()));
    }
    let names = server.macs.iter().enumerate().map(|(card, mac)| {
        let details = json!({"name": format!("eth{card}"), "mac_address": mac, "pxe_enabled": card == 0});
        (format!("eth{card}"), details)
    });
    let lldp = json!({"eth0": {"switch_chassis_id": "11:22:33:aa:bb:cc", "switch_port_id": "734", "switch_system_name": "switch-1"}});
    let plugin_data = if is_fast {
        json!({})
    } else {
        json!({"all_interfaces": names.collect::<Map<_, _>>(), "parsed_lldp": lldp})
    };
    json!({"inventory": inventory, "plugin_data": plugin_data})
}

/// The addresses of network cards in what inspection found, and whether each boots.
pub(crate) fn cards(found: &Value) -> Vec<(String, bool)> {
    let cards = found["inventory"]["interfaces"].as_array().cloned().unwrap_or_default();
    let addresses = cards.iter().filter_map(|card| card["mac_address"].as_str());
    addresses
        .enumerate()
        .map(|(card, mac)| (mac.to_ascii_lowercase(), card == 0))
        .collect()
}

fn of_ramdisk(server: &Server, serial: &str) -> Value {
    let cards: Vec<Value> = server
        .macs
        .iter()
        .enumerate()
        .map(|(card, mac)| {
            json!({
                "name": format!("eth{card}"), "mac_address": mac, "ipv4_address": null, "ipv6_address": null,
                "has_carrier": true, "lldp": null, "vendor": "0x1af4", "product": "0x0001", "client_id": null,
                "speed_mbps": 10_000, "pci_address": format!("0000:00:{:02x}.0", 3 + card), "driver": "virtio_net",
            })
        })
        .collect();
    json!({
        "interfaces": cards,
        "cpu": {
            "model_name": "Simulated CPU @ 2.10GHz", "frequency": "2100.0", "count": 8, "architecture": "x86_64",
            "flags": ["fpu", "mmx", "sse2", "vmx"], "socket_count": 1,
        },
        "disks": [{
            "name": "/dev/sda", "model": "SimDisk", "size": 100 * GIB, "rotational": false, "wwn": format!("0x5000c500{}", &serial[4..]),
            "serial": format!("DSK{serial}"), "vendor": "Sim", "hctl": "0:0:0:0", "by_path": "/dev/disk/by-path/pci-0000:00:05.0-scsi-0:0:0:0",
        }],
        "memory": {"total": 16 * GIB, "physical_mb": 16_384},
        "bmc_address": server.ip, "bmc_v6address": "::/0",
        "system_vendor": {
            "product_name": "SimServer", "serial_number": format!("SN{serial}"), "manufacturer": "Sim",
            "firmware": {"vendor": "EDK II", "version": "2024.02", "build_date": "02/01/2024"},
        },
        "boot": {"current_boot_mode": "uefi", "pxe_interface": server.boot_mac()},
        "hostname": server.name,
    })
}

fn of_bmc(server: &Server, serial: &str) -> Value {
    let cards: Vec<Value> = server
        .macs
        .iter()
        .enumerate()
        .map(|(card, mac)| json!({"name": format!("NIC.{card}"), "mac_address": mac, "speed_mbps": 10_000}))
        .collect();
    json!({
        "interfaces": cards,
        "cpu": {"model_name": "Simulated CPU", "frequency": 2100, "count": 8, "architecture": "x86_64"},
        "disks": [{"name": "Disk 1", "size": 100 * GIB, "model": "SimDisk", "serial": format!("DSK{serial}")}],
        "memory": {"physical_mb": 16_384},
        "system_vendor": {"product_name": "SimServer", "serial_number": format!("SN{serial}"), "manufacturer": "Sim"},
        "boot": {"current_boot_mode": "uefi"},
    })
}

fn merge(target: &mut Value, more: &Value) {
    match (target, more) {
        (Value::Object(target), Value::Object(more)) => {
            for (key, value) in more {
                merge(target.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (target, more) => *target = more.clone(),
    }
}

/// The BIOS settings of a server, whole or only names and values.
pub(crate) fn bios(machine: Option<&Machine>, is_detailed: bool) -> Vec<Value> {
    let changed = |name: &str| machine?.more.as_ref()?.bios.get(name).cloned();
    BIOS.iter()
        .map(|(name, value, choices)| {
            let value = changed(name).unwrap_or_else(|| (*value).to_owned());
            let mut setting = json!({"name": name, "value": value, "links": []});
            if is_detailed {
                let kind = match (*name, choices.is_empty()) {
                    (_, false) => "Enumeration",
                    ("NumCores", _) => "Integer",
                    ("QuietBoot", _) => "Boolean",
                    ("SysPassword", _) => "Password",
                    _ => "String",
                };
                let bounds = (kind == "Integer").then_some((10, 20));
                let more = json!({
                    "attribute_type": kind, "allowable_values": (!choices.is_empty()).then_some(choices),
                    "lower_bound": bounds.map(|b| b.0), "upper_bound": bounds.map(|b| b.1),
                    "min_length": (kind == "Password").then_some(0), "max_length": (kind == "Password").then_some(20),
                    "read_only": *name == "L2Cache", "reset_required": true, "unique": kind == "Password",
                });
                merge(&mut setting, &more);
            }
            setting
        })
        .collect()
}

/// The firmware components of a server.
pub(crate) fn firmware(machine: Option<&Machine>, with_identity: bool, stamp: &str) -> Vec<Value> {
    let current = |name: &str| machine?.more.as_ref()?.firmware.get(name).cloned();
    ["bios", "bmc", "nic:NIC.1"]
        .iter()
        .map(|name| {
            let flashed = current(name);
            let version = flashed.clone().unwrap_or_else(|| "1.0.0".to_owned());
            let mut component = json!({
                "component": name, "initial_version": "1.0.0", "current_version": version, "last_version_flashed": flashed,
                "created_at": stamp, "updated_at": null,
            });
            if with_identity {
                merge(&mut component, &json!({"vendor": null, "model": null, "serial_number": null}));
            }
            component
        })
        .collect()
}
