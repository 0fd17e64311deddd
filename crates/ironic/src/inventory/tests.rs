use proptest::prelude::*;
use rstest::rstest;
use serde_json::json;

use super::*;

fn read(value: Value) -> Inventory {
    serde_json::from_value(value).unwrap()
}

#[test]
fn a_ramdisk_inventory_is_read_in_full() {
    // D16 of upstream's: VLANs are never filled in.
    let inventory = read(json!({
        "inventory": {
            "hostname": "host-0", "bmc_address": "192.0.2.7", "bmc_v6address": "::/0",
            "boot": {"current_boot_mode": "uefi", "pxe_interface": "52:54:00:00:00:01"},
            "memory": {"total": 1, "physical_mb": 4096},
            "system_vendor": {"manufacturer": "Acme", "product_name": "Box", "serial_number": 12345,
                "firmware": {"vendor": "Bios Inc", "version": "1.2", "build_date": "2020-01-01"}},
            "cpu": {"architecture": "x86_64", "model_name": "Quick", "count": 8, "frequency": "2100.5000",
                "flags": ["sse", "aes"], "sockets": 1},
            "interfaces": [
                {"name": "eth0", "mac_address": "52:54:00:00:00:AB", "ipv4_address": "192.0.2.1",
                 "ipv6_address": "fe80::1%eth0", "has_carrier": true, "vendor": "0x1af4", "product": "0x0001",
                 "speed_mbps": 10000, "pci_address": "0000:00:01.0", "lldp": [[1, "00"]]},
                {"name": "eth1", "mac_address": null, "speed_mbps": null}],
            "disks": [
                {"name": "/dev/sda", "by_path": "/dev/disk/by-path/x", "size": 10_737_418_240_i64, "rotational": true,
                 "vendor": "V", "model": "M", "serial": "S", "wwn": "w", "wwn_vendor_extension": "e",
                 "wwn_with_extension": "we", "hctl": "0:0:0:0", "volume_name": null}]
        },
        "plugin_data": {
            "all_interfaces": {"eth0": {"pxe_enabled": true}, "eth1": {"pxe_enabled": false}},
            "parsed_lldp": {"eth0": {"switch_chassis_id": "aa:bb", "switch_port_id": "Eth1/1", "switch_system_name": "leaf",
                "switch_port_untagged_vlan_id": 101,
                "switch_port_vlans": [{"id": 101, "name": "vlan101"}, {"id": 102, "name": null}, {"name": "lost"}]}},
            "root_disk": {"name": "/dev/sda"}
        }
    }));
    assert_eq!(inventory.memory_mib, Some(4096));
    assert_eq!(inventory.boot_mode.as_deref(), Some("uefi"));
    assert_eq!(inventory.system_vendor.serial_number.as_deref(), Some("12345"));
    assert_eq!(inventory.system_vendor.firmware_date.as_deref(), Some("2020-01-01"));
    assert_eq!(inventory.cpu.frequency_mhz, Some(2100.5));
    assert_eq!(inventory.cpu.flags, ["aes", "sse"]);
    assert_eq!(
        inventory.interfaces[0].mac_address.as_deref(),
        Some("52:54:00:00:00:ab")
    );
    assert_eq!(inventory.interfaces[0].speed_mbps, Some(10_000));
    assert_eq!(
        inventory.interfaces[1],
        Interface {
            name: Some("eth1".to_owned()),
            ..Interface::default()
        }
    );
    assert_eq!(inventory.disks[0].size, Some(10_737_418_240));
    assert_eq!(inventory.disks[0].rotational, Some(true));
    assert!(inventory.plugin_data.pxe_enabled["eth0"]);
    let lldp = &inventory.plugin_data.parsed_lldp["eth0"];
    assert_eq!(lldp.untagged_vlan_id, Some(101));
    let vlans = [
        Vlan {
            id: 101,
            name: Some("vlan101".to_owned()),
        },
        Vlan { id: 102, name: None },
    ];
    assert_eq!(lldp.vlans, vlans);
}

#[rstest]
#[case::text(json!("2100.000"), Some(2100.0))]
#[case::text_with_unit(json!(" 2100.7 MHz"), Some(2100.7))]
#[case::whole(json!(2100), Some(2100.0))]
#[case::fraction(json!(2100.5), Some(2100.5))]
#[case::null(json!(null), None)]
#[case::words(json!("fast"), None)]
#[case::dots(json!("1.2.3"), None)]
#[case::empty(json!(""), None)]
#[case::negative(json!(-5), None)]
#[case::list(json!([2100]), None)]
fn frequencies(#[case] frequency: Value, #[case] expected: Option<f64>) {
    // D15 of upstream's: an inventory with a number for the frequency of the processor is refused.
    let inventory = read(json!({"inventory": {"cpu": {"frequency": frequency, "count": 4}}}));
    assert_eq!(inventory.cpu.frequency_mhz, expected);
    assert_eq!(inventory.cpu.count, Some(4));
}

#[rstest]
#[case(json!({}))]
#[case(json!({"inventory": null, "plugin_data": null}))]
#[case(json!({"inventory": {"cpu": null, "memory": null, "interfaces": null, "disks": null, "system_vendor": null}}))]
#[case(json!({"inventory": {"cpu": [], "memory": "much", "interfaces": {}, "disks": [null, 1], "boot": 2}, "plugin_data": 3}))]
fn nothing_is_no_failure(#[case] answer: Value) {
    assert_eq!(read(answer), Inventory::default());
}

/// Plugin data that makes no sense loses what it should have told, and nothing else.
#[rstest]
#[case(json!("garbage"))]
#[case(json!({"all_interfaces": [1], "parsed_lldp": "x"}))]
#[case(json!({"all_interfaces": {"eth0": null, "eth1": {"pxe_enabled": "perhaps"}}, "parsed_lldp": {"eth0": 7}}))]
fn odd_plugin_data_loses_itself_only(#[case] plugin_data: Value) {
    let inventory = read(json!({"inventory": {"hostname": "host-0"}, "plugin_data": plugin_data}));
    assert_eq!(inventory.hostname.as_deref(), Some("host-0"));
    assert_eq!(inventory.plugin_data, PluginData::default());
}

#[test]
fn half_readable_plugin_data_keeps_the_readable_half() {
    let inventory = read(json!({"inventory": {}, "plugin_data": {
        "all_interfaces": "x",
        "parsed_lldp": {"eth0": {"switch_port_id": "1", "switch_port_untagged_vlan_id": "7", "switch_port_vlans": "none"}},
    }}));
    let lldp = &inventory.plugin_data.parsed_lldp["eth0"];
    assert_eq!(
        (lldp.switch_port_id.as_deref(), lldp.untagged_vlan_id, lldp.vlans.len()),
        (Some("1"), Some(7), 0)
    );
}

/// An inventory through Redfish: numbers where a ramdisk writes texts, and much that is not known.
#[test]
fn a_redfish_inventory_is_read() {
    let inventory = read(json!({"inventory": {
        "memory": {"physical_mb": 98304.0},
        "cpu": {"count": 2, "architecture": "x86_64", "frequency": 3700, "model_name": "Multi-Core"},
        "disks": [{"name": "Drive Sample", "size": 899_527_000_000_i64, "serial": "1234"}],
        "interfaces": [{"mac_address": "00:11:22:33:44:55"}], "pci_devices": [{}],
        "system_vendor": {"product_name": "", "serial_number": null, "manufacturer": "Contoso"},
        "boot": {"current_boot_mode": null, "pxe_interface": null}
    }, "plugin_data": {}}));
    assert_eq!(inventory.memory_mib, Some(98_304));
    assert_eq!(inventory.cpu.frequency_mhz, Some(3700.0));
    assert_eq!(inventory.disks[0].rotational, None);
    assert_eq!(inventory.system_vendor.product_name, None);
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-z0-9.]{0,6}".prop_map(Value::from),
    ];
    let key = prop::sample::select(vec![
        "inventory",
        "plugin_data",
        "cpu",
        "frequency",
        "flags",
        "interfaces",
        "disks",
        "size",
        "memory",
        "physical_mb",
        "parsed_lldp",
        "eth0",
        "switch_port_vlans",
        "id",
        "all_interfaces",
        "pxe_enabled",
    ]);
    leaf.prop_recursive(5, 40, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((key.clone(), inner), 0..6).prop_map(Value::from_iter),
        ]
    })
}

proptest! {
    #[test]
    fn any_json_is_an_inventory(answer in any_json()) {
        prop_assert!(serde_json::from_value::<Inventory>(answer).is_ok());
    }
}
