//! BMCs other than Redfish with virtual media.

use metal3_api::metal3::{ErrorType, ProvisioningState};
use metal3_lab::ironic::Credentials;
use metal3_scenarios::{TestEnv, network_ramdisk, over_network, run, status};
use metal3_testkit::namespace;
use serde_json::{Value, json};

use super::{IRONIC, REDFISH_HOSTS};

/// The medium from which Ironic starts the ramdisk.
fn ramdisk_of(node: &Value) -> Value {
    let keys = ["deploy_kernel", "deploy_ramdisk", "deploy_iso"];
    keys.iter().map(|key| node["driver_info"][key].clone()).collect()
}

#[test]
fn a_redfish_host_is_inspected_cleaned_and_deployed_over_the_network() {
    run(async {
        let env = TestEnv::shared_with(namespace!().await, &IRONIC, 1, network_ramdisk).await;
        let [kernel, ramdisk] = env.ironic.ramdisk_urls();
        let image = env.image();
        let change = |host: &mut Value| {
            over_network(host);
            host["spec"]["image"] = image;
        };
        let name = env.apply_host(0, change).await;
        env.expect_state(&name, ProvisioningState::Provisioned).await;
        let node = env.node(&name).await;
        assert_eq!(
            (&node["driver"], &node["boot_interface"]),
            (&json!("redfish"), &json!("ipxe"))
        );
        assert_eq!(ramdisk_of(&node), json!([kernel, ramdisk, null]));
        let machine = env.machine(0).await;
        assert_eq!(
            (machine.inspections(), machine.cleans(), machine.deploys, machine.is_on),
            (1, 1, 1, true)
        );
        let inserted = machine.counters.bmc_requests.keys().find(|r| r.contains("InsertMedia"));
        assert_eq!((inserted, machine.boot_device.as_str()), (None, "Hdd"));
    });
}

#[test]
fn an_ipmi_host_goes_all_the_way() {
    run(async {
        let mut env = TestEnv::at(namespace!().await, IRONIC.ironic().await, REDFISH_HOSTS.into()).await;
        network_ramdisk(&mut env.config, &env.ironic);
        env.start_operator().await;
        let [kernel, ramdisk] = env.ironic.ramdisk_urls();
        let right = env.server(0).credentials.clone();
        env.apply_credentials(0, &Credentials::new("admin", "letmein")).await;
        let image = env.image();
        let change = |host: &mut Value| {
            let address = format!(
                "{}?privilegelevel=OPERATOR",
                host["spec"]["bmc"]["address"].as_str().unwrap()
            );
            host["spec"]["bmc"]["address"] = json!(address);
            host["spec"]["image"] = image;
        };
        let name = env.apply_bare(0, change).await;
        let host = env.expect_waiting(&name, "BackOff", &["registration error"]).await;
        println!("{}", status(&host).error_message);
        assert_eq!(status(&host).error_type, Some(ErrorType::Registration));

        env.apply_credentials(0, &right).await;
        env.expect_state(&name, ProvisioningState::Provisioned).await;
        let node = env.node(&name).await;
        assert_eq!(
            (&node["driver"], &node["boot_interface"]),
            (&json!("ipmi"), &json!("ipxe"))
        );
        let info = &node["driver_info"];
        let keys = ["ipmi_address", "ipmi_port", "ipmi_username", "ipmi_priv_level"];
        let access: Vec<_> = keys.iter().map(|key| info[key].clone()).collect();
        let port = env.server(0).port.to_string();
        assert_eq!(json!(access), json!(["127.0.0.1", port, "admin", "OPERATOR"]));
        assert_eq!(ramdisk_of(&node), json!([kernel, ramdisk, null]));
        let machine = env.machine(0).await;
        assert_eq!(
            (machine.inspections(), machine.cleans(), machine.deploys, machine.is_on),
            (1, 1, 1, true)
        );
        env.delete(&name).await;
        env.expect_gone(&name).await;
        assert!(!env.machine(0).await.is_on);
    });
}
