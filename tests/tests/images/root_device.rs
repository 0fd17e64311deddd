//! A server's boot mode and root disk.

use metal3_api::metal3::{BootMode, ProvisioningState};
use metal3_scenarios::{TestEnv, deployed_at_once, description, run, status};
use metal3_testkit::namespace;
use serde_json::{Value, json};

use super::IRONIC;

#[test]
fn boot_mode_and_secure_boot_reach_the_bmc() {
    run(async {
        let env = TestEnv::shared(namespace!().await, &IRONIC, 3).await;
        let cases = [
            (None, BootMode::Uefi, "boot_mode:uefi", json!({})),
            (Some("legacy"), BootMode::Legacy, "boot_mode:bios", json!({})),
            (
                Some("UEFISecureBoot"),
                BootMode::UefiSecureBoot,
                "boot_mode:uefi,secure_boot:true",
                json!({"secure_boot": "true"}),
            ),
        ];
        let mut names = Vec::new();
        for (number, (mode, ..)) in cases.iter().enumerate() {
            let change = |host: &mut Value| {
                deployed_at_once(env.image())(host);
                if let Some(mode) = mode {
                    host["spec"]["bootMode"] = json!(mode);
                }
            };
            names.push(env.apply_host(number, change).await);
        }
        for (number, (mode, recorded, of_server, of_instance)) in cases.into_iter().enumerate() {
            let name = &names[number];
            let host = env.expect_state(name, ProvisioningState::Provisioned).await;
            assert_eq!(status(&host).provisioning.boot_mode, Some(recorded));
            let node = env.node(name).await;
            assert_eq!(node["properties"]["capabilities"], of_server, "{mode:?}");
            assert_eq!(description(&node)["capabilities"], of_instance, "{mode:?}");
            let wanted = if mode == Some("legacy") { "bios" } else { "uefi" };
            assert_eq!(node["boot_mode"], wanted, "{mode:?}");
            assert_eq!(node["secure_boot"], json!(mode == Some("UEFISecureBoot")), "{mode:?}");
        }
    });
}

#[test]
fn root_device_hints_reach_ironic_and_new_ones_count_for_the_next_image() {
    run(async {
        let env = TestEnv::shared(namespace!().await, &IRONIC, 1).await;
        let change = |host: &mut Value| {
            deployed_at_once(env.image())(host);
            host["spec"]["rootDeviceHints"] = json!({
                "deviceName": "/dev/disk/by-path/pci-0000:00:05.0-scsi-0:0:0:0", "hctl": "0:0:0:0", "model": "Fake",
                "vendor": "FakeVendor", "serialNumber": "DSK1", "minSizeGigabytes": 50, "wwn": "0x5000c500",
                "wwnWithExtension": "0x5000c500", "wwnVendorExtension": "0x1", "rotational": false,
            });
        };
        let name = env.apply_host(0, change).await;
        let host = env.expect_state(&name, ProvisioningState::Provisioned).await;
        let expected = json!({
            "by_path": "s== /dev/disk/by-path/pci-0000:00:05.0-scsi-0:0:0:0", "hctl": "s== 0:0:0:0", "model": "<in> Fake",
            "vendor": "<in> FakeVendor", "serial": "s== DSK1", "size": ">= 50", "wwn": "s== 0x5000c500",
            "wwn_with_extension": "s== 0x5000c500", "wwn_vendor_extension": "s== 0x1", "rotational": "false",
        });
        assert_eq!(description(&env.node(&name).await)["root_device"], expected);
        let hints = status(&host).provisioning.root_device_hints;
        assert_eq!(json!(hints), json!(host.spec.root_device_hints));

        // A provisioned host keeps its deployment settings.
        env.patch(&name, json!({"spec": {"rootDeviceHints": null}})).await;
        env.patch(
            &name,
            json!({"spec": {"rootDeviceHints": {"deviceName": "/dev/nvme0n1"}}}),
        )
        .await;
        let url = format!("{}?version=2", env.image()["url"].as_str().unwrap());
        env.patch(&name, json!({"spec": {"image": {"url": url}}})).await;
        env.expect(&name, "has the other image", |host| {
            let provisioning = status(host).provisioning;
            provisioning.state == ProvisioningState::Provisioned && provisioning.image.is_some_and(|i| i.url == url)
        })
        .await;
        let found = description(&env.node(&name).await)["root_device"].clone();
        assert_eq!(found, json!({"name": "s== /dev/nvme0n1"}));
    });
}
