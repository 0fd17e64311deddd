//! RAID: volumes are created once, before a host is available.

use metal3_api::metal3::ProvisioningState;
use metal3_scenarios::{TestEnv, at_once, run, status};
use metal3_testkit::namespace;
use serde_json::{Value, json};

use super::IRONIC;

#[test]
fn software_volumes_are_made_by_the_agent_once_and_go_with_the_wish() {
    run(async {
        let env = TestEnv::shared(namespace!().await, &IRONIC, 1).await;
        let change = |host: &mut Value| {
            at_once(host);
            host["spec"]["raid"] = json!({"softwareRAIDVolumes": [
                {"level": "1", "rootVolume": true, "sizeGibibytes": 50,
                 "physicalDisks": [{"deviceName": "/dev/sda"}, {"serialNumber": "X"}]},
                {"level": "0"},
            ]});
        };
        let name = env.apply_host(0, change).await;
        let host = env.expect_state(&name, ProvisioningState::Available).await;
        let expected = json!([
            {"size_gb": 50, "raid_level": "1", "controller": "software", "is_root_volume": true,
             "physical_disks": [{"name": "s== /dev/sda"}, {"serial": "s== X"}]},
            {"size_gb": "MAX", "raid_level": "0", "controller": "software"},
        ]);
        let node = env.node(&name).await;
        assert_eq!(node["raid_interface"], "agent");
        assert_eq!(node["target_raid_config"]["logical_disks"], expected);
        // The agent's report of the created volumes.
        assert_eq!(node["raid_config"]["logical_disks"], expected);
        let provisioning = status(&host).provisioning;
        assert_eq!(json!(provisioning.raid), json!(host.spec.raid));
        assert_eq!(provisioning.root_device_hints, None, "the volume is the root device");
        let steps = env.machine(0).await.counters.clean_steps;
        assert_eq!((steps["delete_configuration"], steps["create_configuration"]), (1, 1));
        assert_eq!(steps["erase_devices_metadata"], 1, "what is left of former volumes");

        env.patch(&name, json!({"spec": {"raid": null}})).await;
        let host = env
            .expect(&name, "is available without volumes", |host| {
                let provisioning = status(host).provisioning;
                let raid = provisioning.raid.unwrap_or_default();
                provisioning.state == ProvisioningState::Available && raid.software_raid_volumes == Some(Vec::new())
            })
            .await;
        assert_eq!(status(&host).error_count, 0);
        let steps = env.machine(0).await.counters.clean_steps;
        assert_eq!((steps["delete_configuration"], steps["create_configuration"]), (2, 1));
    });
}

/// The simulated controller creates the volumes but does not report them, so Ironic's own record of them stays empty.
#[test]
fn volumes_of_a_controller_are_made_through_the_bmc() {
    run(async {
        let env = TestEnv::shared(namespace!().await, &IRONIC, 1).await;
        let change = |host: &mut Value| {
            at_once(host);
            host["spec"]["raid"] =
                json!({"hardwareRAIDVolumes": [{"level": "1", "name": "root", "sizeGibibytes": 50}]});
        };
        let name = env.apply_host(0, change).await;
        let host = env.expect_state(&name, ProvisioningState::Available).await;
        let node = env.node(&name).await;
        assert_eq!(node["raid_interface"], "redfish");
        let expected = json!([{"size_gb": 50, "raid_level": "1", "volume_name": "root"}]);
        assert_eq!(node["target_raid_config"]["logical_disks"], expected);
        assert_eq!(json!(status(&host).provisioning.raid), json!(host.spec.raid));
        let made = |machine: &metal3_lab::ironic::Machine| {
            let requests = machine.counters.bmc_requests.iter();
            let posts = requests.filter(|(request, _)| request.starts_with("POST ") && request.ends_with("/Volumes"));
            posts.map(|(_, count)| count).sum::<u64>()
        };
        assert_eq!(made(&env.machine(0).await), 1);

        // They outlive images, and are not recreated for each.
        env.patch(&name, json!({"spec": {"image": env.image()}})).await;
        env.expect_state(&name, ProvisioningState::Provisioned).await;
        env.patch(&name, json!({"spec": {"image": null}})).await;
        let host = env.expect_state(&name, ProvisioningState::Available).await;
        assert_eq!(json!(status(&host).provisioning.raid), json!(host.spec.raid));
        assert_eq!(made(&env.machine(0).await), 1);
    });
}
