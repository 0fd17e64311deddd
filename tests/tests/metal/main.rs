//! A server that really boots, under a stock Ironic and our operator: what they do to firmware, virtual media, disks and an installed
//! system. Run by `cargo xtask test --metal`.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helper functions too"
)]

mod faults;
mod installed;

use metal3_api::metal3::{HardwareData, ProvisioningState};
use metal3_scenarios::{MetalEnv, PATIENCE, run, state, status};
use serde_json::json;

use installed::{Cluster, is_empty, network_data};

#[test]
#[ignore = "emulates a server for half an hour: cargo xtask test --metal"]
fn a_server_is_inspected_cleaned_installed_emptied_and_installed_again() {
    run(async {
        let env = MetalEnv::start("metal", PATIENCE).await;
        let server = env.metal.server();
        // Without hints the host's profile wants /dev/sda, which this server has not.
        env.apply_host(|host| host["spec"]["rootDeviceHints"] = json!({"serialNumber": server.serial}))
            .await;
        env.expect_state(ProvisioningState::Inspecting).await;
        env.expect("is inspected", |host| {
            state(host) == ProvisioningState::Preparing || state(host) == ProvisioningState::Available
        })
        .await;
        let hardware: HardwareData = env.namespace.api().get(env.name()).await.unwrap();
        let found = hardware.spec.hardware.unwrap();
        assert_eq!(found.cpu.count, i64::from(server.cpus));
        assert_eq!(found.cpu.arch, "x86_64");
        assert_eq!(found.ram_mebibytes, i64::try_from(server.memory).unwrap());
        let disk = found
            .storage
            .iter()
            .find(|disk| disk.serial_number == server.serial)
            .unwrap();
        assert_eq!(
            (disk.size_bytes, disk.alternate_names[0].as_str()),
            (8 << 30, "/dev/vda")
        );
        assert!(found.nics.iter().any(|nic| nic.mac == server.mac));
        assert_eq!(found.system_vendor.manufacturer, "QEMU");
        env.expect_state(ProvisioningState::Available).await;
        assert!(is_empty(&env.metal.disk()));

        // A qcow2 image by way of a redirect.
        let cluster = Cluster::new(&env);
        env.apply_secret("user", &[("userData", &cluster.user_data)]).await;
        env.apply_secret("network", &[("networkData", &network_data(&server))])
            .await;
        let image = MetalEnv::image(&env.metal.image("disk.qcow2").unwrap(), true);
        let change =
            json!({"spec": {"image": image, "userData": {"name": "user"}, "networkData": {"name": "network"}}});
        env.patch(change).await;
        env.expect_state(ProvisioningState::Provisioned).await;
        // Ironic follows the redirect, and tells the agent where it leads.
        let asked = env.metal.image_requests();
        assert!(asked.contains("HEAD /redirected/disk.qcow2") && asked.contains("GET /images/disk.qcow2"));
        assert!(!is_empty(&env.metal.disk()));
        cluster.expect_ready_node(&env).await;

        // Emptied, and looked at from outside.
        env.patch(json!({"spec": {"image": null, "userData": null, "networkData": null}}))
            .await;
        env.expect_state(ProvisioningState::Deprovisioning).await;
        env.expect_state(ProvisioningState::Available).await;
        assert!(is_empty(&env.metal.disk()));

        // The raw image, without any data.
        let mark = env.metal.console().len();
        let image = MetalEnv::image(&env.metal.image("disk.raw").unwrap(), false);
        env.patch(json!({"spec": {"image": image}})).await;
        let host = env.expect_state(ProvisioningState::Provisioned).await;
        assert_eq!(
            (status(&host).error_type, status(&host).error_message.as_str()),
            (None, "")
        );
        env.until("the system booted", async || {
            let console = env.metal.console();
            if console[mark..].contains(&format!("{} login:", env.name())) {
                Ok(())
            } else {
                Err("no login yet".to_owned())
            }
        })
        .await;
        for (reason, message) in env.events().await {
            println!("{reason}: {message}");
        }
    });
}
