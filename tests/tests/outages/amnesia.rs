//! Ironic loses its database while hosts are in transient states.

use std::time::Instant;

use metal3_api::metal3::{BareMetalHost, OperationalStatus, ProvisioningState, names};
use metal3_lab::ironic::IronicConfig;
use metal3_scenarios::{LIMIT, TestEnv, at_once, deployed_at_once, id, run, state, status, waits_for_nothing};
use metal3_testkit::{eventually, namespace};
use serde_json::{Value, json};

use super::{disturbances, expect_step};

fn hang(step: &str) -> Value {
    json!({"hangs_in_step": step})
}

#[test]
fn hosts_in_every_state_survive_an_ironic_that_forgets_them() {
    run(async {
        let config = IronicConfig {
            hosts: 12,
            ..IronicConfig::default()
        };
        let env = TestEnv::start(namespace!().await, config).await;
        let [
            verifying,
            inspecting,
            preparing,
            available,
            cleaning,
            deploying,
            running,
            off,
            external,
            deprovisioning,
            detached,
            deleting,
        ] = std::array::from_fn(|number| number);
        let image = env.image();
        let mut names = vec![String::new(); 12];
        env.agent(cleaning, hang("erase_devices_metadata")).await;
        env.agent(deploying, hang("write_image")).await;
        env.agent(preparing, hang("create_configuration")).await;
        for number in [deploying, running, off, deprovisioning, detached] {
            names[number] = env.apply_host(number, deployed_at_once(image.clone())).await;
        }
        let cleaned = |host: &mut Value| {
            host["spec"]["inspectionMode"] = json!("disabled");
            host["spec"]["image"] = image.clone();
        };
        names[cleaning] = env.apply_host(cleaning, cleaned).await;
        for number in [available, deleting] {
            names[number] = env.apply_host(number, at_once).await;
        }
        let taken_over = |host: &mut Value| host["spec"]["externallyProvisioned"] = json!(true);
        names[external] = env.apply_host(external, taken_over).await;
        let with_volumes = |host: &mut Value| {
            at_once(host);
            host["spec"]["raid"] = json!({"softwareRAIDVolumes": [{"level": "1"}]});
        };
        names[preparing] = env.apply_host(preparing, with_volumes).await;

        for number in [running, off, deprovisioning, detached] {
            env.expect_state(&names[number], ProvisioningState::Provisioned).await;
        }
        env.agent(deprovisioning, hang("erase_devices_metadata")).await;
        let given_up = json!({"spec": {"image": null, "automatedCleaningMode": "metadata"}});
        env.patch(&names[deprovisioning], given_up).await;
        env.patch(&names[off], json!({"spec": {"online": false}})).await;
        let annotation = json!({"metadata": {"annotations": {names::annotation::DETACHED: "{}"}}});
        env.patch(&names[detached], annotation).await;
        env.expect(&names[deleting], "is on", |host| status(host).powered_on)
            .await;
        env.bmc(deleting, json!({"power_ignored": true})).await;
        env.delete(&names[deleting]).await;

        expect_step(&env, preparing, "create_configuration").await;
        expect_step(&env, cleaning, "erase_devices_metadata").await;
        expect_step(&env, deploying, "write_image").await;
        expect_step(&env, deprovisioning, "erase_devices_metadata").await;
        env.expect_waiting(&names[deleting], "Removing", &["is being switched off"])
            .await;
        env.expect_waiting(&names[detached], "Detached", &[]).await;
        let is_off = |host: &BareMetalHost| !status(host).powered_on && waits_for_nothing(host);
        env.expect(&names[off], "is off and at rest", is_off).await;
        let is_on = |host: &BareMetalHost| status(host).powered_on && waits_for_nothing(host);
        for number in [available, running, external] {
            env.expect(&names[number], "is on and at rest", is_on).await;
        }
        env.bmc(verifying, json!({"delay": 20})).await;
        names[verifying] = env.apply_host(verifying, at_once).await;
        env.expect_waiting(&names[verifying], "Verifying", &["node "]).await;
        env.agent(inspecting, json!({"never": "boot"})).await;
        names[inspecting] = env.apply_host(inspecting, |_| {}).await;
        env.expect_waiting(&names[inspecting], "Inspecting", &["node "]).await;

        let resting = [
            (available, ProvisioningState::Available, "manageable"),
            (running, ProvisioningState::Provisioned, "active"),
            (off, ProvisioningState::Provisioned, "active"),
            (external, ProvisioningState::ExternallyProvisioned, "active"),
        ];
        let mut before = Vec::new();
        for (number, ..) in &resting {
            let node = id(&env.host(&names[*number]).await);
            before.push((node, disturbances(&env.machine(*number).await)));
        }
        let untouched = disturbances(&env.machine(detached).await);
        env.ironic.kill_ironic();
        assert!(env.ironic.wipe_database().await.unwrap() > 0);
        env.ironic.clear_faults().await.unwrap();
        eventually(LIMIT, "the ramdisk that hung writes its image, for nobody", || async {
            let machine = env.machine(deploying).await;
            (machine.deploys == 1).then_some(()).ok_or(format!("{machine:?}"))
        })
        .await;
        env.ironic.start_ironic().await.unwrap();
        let start = Instant::now();

        for ((number, wanted, node_state), (node, went)) in resting.into_iter().zip(before) {
            env.expect_node(&names[number], node_state).await;
            let is_back = |host: &BareMetalHost| state(host) == wanted && waits_for_nothing(host);
            let host = env.expect(&names[number], "is back and at rest", is_back).await;
            assert_eq!(id(&host), node, "it is enrolled under the host's UID again");
            assert_eq!(env.node(&names[number]).await["provision_state"], node_state);
            assert_eq!(
                disturbances(&env.machine(number).await),
                went,
                "{}: deploys, cleans, inspections, on, off, boots",
                names[number]
            );
        }
        for (number, deploys) in [(cleaning, 1), (deploying, 2)] {
            env.expect_state(&names[number], ProvisioningState::Provisioned).await;
            assert_eq!(env.machine(number).await.deploys, deploys, "{}", names[number]);
        }
        for number in [verifying, inspecting, preparing, deprovisioning] {
            let host = env.expect_state(&names[number], ProvisioningState::Available).await;
            let volumes = status(&host)
                .provisioning
                .raid
                .and_then(|raid| raid.software_raid_volumes);
            assert_eq!(
                volumes.is_some_and(|v| v.len() == 1),
                number == preparing,
                "{}",
                names[number]
            );
        }
        assert_eq!(env.machine(inspecting).await.inspections(), 1);
        env.expect_gone(&names[deleting]).await;
        assert!(!env.machine(deleting).await.is_on);
        println!("all had ended well {:?} after Ironic's return", start.elapsed());

        let host = env.host(&names[detached]).await;
        assert_eq!(status(&host).operational_status, OperationalStatus::Detached);
        assert_eq!(disturbances(&env.machine(detached).await), untouched);
        for name in names.iter().filter(|name| **name != names[deleting]) {
            let host = env.host(name).await;
            assert_eq!(
                (status(&host).error_type, status(&host).error_count),
                (None, 0),
                "{name}"
            );
        }
        assert_eq!(env.nodes().await.len(), 10, "all but the detached and the deleted one");
    });
}
