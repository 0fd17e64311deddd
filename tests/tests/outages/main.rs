//! Ironic goes down, and comes back with or without its database.

mod amnesia;
mod announced;

use std::time::{Duration, Instant};

use metal3_api::metal3::{BareMetalHost, ProvisioningState};
use metal3_lab::ironic::{IronicConfig, Machine};
use metal3_scenarios::{
    LIMIT, TestEnv, id, is_at_rest, power_compared_often, run, state, status, version, waits, waits_for_nothing,
};
use metal3_testkit::{eventually, namespace};
use serde_json::json;

/// How soon a host says that Ironic is down: the operator gives Ironic three seconds for its first answer.
const TOLD: Duration = Duration::from_secs(10);
/// How soon hosts are back in an Ironic that lost its database.
const RECREATED: Duration = Duration::from_secs(20);

#[test]
fn hosts_say_that_ironic_is_down_and_go_on_when_it_is_back() {
    // D23 of upstream's: Ironic errors are never reported.
    run(async {
        let mut env = TestEnv::without_operator(namespace!().await, IronicConfig::default()).await;
        env.ironic.stop_ironic().await;
        env.start_operator().await;
        let start = Instant::now();
        let name = env.apply_host(0, |_| {}).await;
        let words = ["Ironic cannot be reached", "refused", "goes on by itself"];
        let host = env.expect_waiting(&name, "IronicUnreachable", &words).await;
        let told = start.elapsed();
        println!("told in {told:?}: {}", waits(&host, "IronicUnreachable").unwrap());
        assert!(told < TOLD);
        assert_eq!(
            (status(&host).error_type, status(&host).error_count),
            (None, 0),
            "not the host's fault"
        );
        env.ironic.start_ironic().await.unwrap();
        let start = Instant::now();
        env.expect(&name, "is enrolled", |host| !id(host).is_empty()).await;
        println!("enrolled {:?} after Ironic's return", start.elapsed());
        env.expect_state(&name, ProvisioningState::Available).await;
        assert_eq!(env.nodes().await.len(), 1);

        // Its deletion waits as well, and reports that.
        env.ironic.stop_ironic().await;
        let start = Instant::now();
        env.delete(&name).await;
        let host = env.expect_waiting(&name, "IronicUnreachable", &words).await;
        println!("its deletion: told in {:?}", start.elapsed());
        assert!(host.metadata.deletion_timestamp.is_some());
        env.ironic.start_ironic().await.unwrap();
        env.expect_gone(&name).await;
    });
}

/// Waits until a server has begun a clean or deploy step.
async fn expect_step(env: &TestEnv, number: usize, step: &str) {
    eventually(LIMIT, &format!("server {number} is in step {step}"), || async {
        let machine = env.machine(number).await;
        let commands = machine.agent.map(|agent| agent.commands).unwrap_or_default();
        let is_in = |c: &metal3_lab::ironic::Command| c.step.as_deref() == Some(step) && c.status == "RUNNING";
        if commands.iter().any(is_in) {
            Ok(())
        } else {
            Err(format!("{commands:?}"))
        }
    })
    .await;
}

#[test]
fn an_outage_in_every_state_ends_well() {
    run(async {
        let config = power_compared_often(9);
        let env = TestEnv::start(namespace!().await, config).await;
        let hang = |step: &str| json!({"hangs_in_step": step});
        let [
            verifying,
            inspecting,
            cleaning,
            deploying,
            provisioned,
            deprovisioning,
            deleting,
            available,
            setting,
        ] = std::array::from_fn(|number| number);
        env.agent(cleaning, hang("erase_devices_metadata")).await;
        env.agent(deploying, hang("write_image")).await;
        let mut names = vec![String::new(); 9];
        for number in [cleaning, deploying, provisioned, deprovisioning] {
            names[number] = env.apply_with_image(number).await;
        }
        for number in [deleting, available] {
            names[number] = env.apply_host(number, |_| {}).await;
        }
        for number in [provisioned, deprovisioning] {
            env.expect_state(&names[number], ProvisioningState::Provisioned).await;
        }
        env.agent(deprovisioning, hang("erase_devices_metadata")).await;
        env.patch(&names[deprovisioning], json!({"spec": {"image": null}}))
            .await;
        for number in [deleting, available, provisioned] {
            env.expect(&names[number], "is at rest", is_at_rest).await;
        }
        env.bmc(deleting, json!({"power_ignored": true})).await;
        env.delete(&names[deleting]).await;
        expect_step(&env, cleaning, "erase_devices_metadata").await;
        expect_step(&env, deploying, "write_image").await;
        expect_step(&env, deprovisioning, "erase_devices_metadata").await;
        env.expect_waiting(&names[deleting], "Removing", &["is being switched off"])
            .await;
        // Its firmware settings are changed on the way to available.
        let settings = json!({
            "apiVersion": "metal3.io/v1alpha1", "kind": "HostFirmwareSettings", "metadata": {"name": env.server(setting).name},
            "spec": {"settings": {"ProcTurboMode": "Disabled"}},
        });
        env.namespace.apply(&settings.to_string()).await;
        names[setting] = env.apply_host(setting, |_| {}).await;
        env.expect_state(&names[setting], ProvisioningState::Preparing).await;
        // Long enough for two more hosts to get where they shall be when Ironic ends.
        env.agent(setting, json!({"boot_delay": 60})).await;
        // An Ironic that is killed between its write and the restart has to write again, and that is not what is counted.
        eventually(LIMIT, "the settings are in force, and the ramdisk boots", || async {
            match env.machine(setting).await.bios.remove("ProcTurboMode") {
                Some(mode) if mode == "Disabled" => Ok(()),
                seen => Err(format!("{seen:?}")),
            }
        })
        .await;
        env.bmc(verifying, json!({"delay": 20})).await;
        names[verifying] = env.apply_host(verifying, |_| {}).await;
        env.expect_waiting(&names[verifying], "Verifying", &["node "]).await;
        // Last, because the ramdisk reports after this time whether or not Ironic is down.
        env.agent(inspecting, json!({"boot_delay": 25})).await;
        names[inspecting] = env.apply_host(inspecting, |_| {}).await;
        env.expect_waiting(&names[inspecting], "Inspecting", &["node "]).await;

        let mut rest = Vec::new();
        for number in [provisioned, available] {
            rest.push(env.host(&names[number]).await);
        }
        let start = Instant::now();
        env.ironic.kill_ironic();
        for number in [
            verifying,
            inspecting,
            cleaning,
            deploying,
            deprovisioning,
            deleting,
            setting,
        ] {
            let host = env
                .expect_waiting(&names[number], "IronicUnreachable", &["Ironic cannot be reached"])
                .await;
            assert_eq!(status(&host).error_type, None, "{}", names[number]);
        }
        println!("all who wait were told of the outage in {:?}", start.elapsed());
        let subscription = json!({
            "apiVersion": "metal3.io/v1alpha1", "kind": "BMCEventSubscription", "metadata": {"name": "events"},
            "spec": {"hostName": names[deploying], "destination": "http://192.0.2.1/events"},
        });
        env.namespace.apply(&subscription.to_string()).await;
        env.ironic.clear_faults().await.unwrap();
        env.ironic.start_ironic().await.unwrap();
        let start = Instant::now();
        for number in [verifying, inspecting, deprovisioning, setting] {
            env.expect_state(&names[number], ProvisioningState::Available).await;
        }
        for number in [cleaning, deploying] {
            env.expect_state(&names[number], ProvisioningState::Provisioned).await;
        }
        env.expect_gone(&names[deleting]).await;
        println!("all had ended well {:?} after Ironic's return", start.elapsed());
        eventually(
            LIMIT,
            "the subscription that was asked for in the outage is made",
            || async {
                match env.machine(deploying).await.event_subscriptions {
                    1 => Ok(()),
                    count => Err(count.to_string()),
                }
            },
        )
        .await;
        for before in &rest {
            let after = env.host(before.metadata.name.as_deref().unwrap()).await;
            assert_eq!(
                version(before),
                version(&after),
                "at rest throughout: {:?}",
                status(&after)
            );
        }
        let requests = env.machine(setting).await.counters.bmc_requests;
        let writes = requests
            .iter()
            .filter(|(request, _)| request.starts_with("PATCH") && request.contains("/BIOS/Settings"));
        assert_eq!(writes.map(|(_, count)| count).sum::<u64>(), 1, "{requests:?}");
        let mut deploys = Vec::new();
        for number in 0..9 {
            deploys.push(env.machine(number).await.deploys);
        }
        assert_eq!(deploys, [0, 0, 1, 1, 1, 1, 0, 0, 0]);
        let mut nodes: Vec<_> = env.nodes().await.iter().map(|n| n["name"].to_string()).collect();
        nodes.sort();
        nodes.dedup();
        assert_eq!((nodes.len(), env.nodes().await.len()), (8, 8));
    });
}

/// What must not happen to a server while its node is made anew.
fn disturbances(machine: &Machine) -> (usize, u64, u64, u64, u64, u64) {
    let boots = machine.counters.agent.get("boots").copied().unwrap_or_default();
    (
        machine.deploys,
        machine.cleans(),
        machine.inspections(),
        machine.times_switched_on(),
        machine.times_switched_off(),
        boots,
    )
}

#[test]
fn an_ironic_that_lost_its_database_gets_its_hosts_back_undisturbed() {
    run(async {
        let config = IronicConfig {
            hosts: 2,
            ..IronicConfig::default()
        };
        let env = TestEnv::start(namespace!().await, config).await;
        let names = [env.apply_with_image(0).await, env.apply_host(1, |_| {}).await];
        let wanted = [ProvisioningState::Provisioned, ProvisioningState::Available];
        let mut before = Vec::new();
        for (number, name) in names.iter().enumerate() {
            let is_at_rest = |host: &BareMetalHost| {
                state(host) == wanted[number] && status(host).powered_on && waits(host, "PowerChanging").is_none()
            };
            let host = env.expect(name, "is at rest", is_at_rest).await;
            before.push((id(&host), disturbances(&env.machine(number).await)));
        }
        env.ironic.stop_ironic().await;
        assert!(env.ironic.wipe_database().await.unwrap() > 0);
        env.ironic.start_ironic().await.unwrap();
        let start = Instant::now();
        for (number, name) in names.iter().enumerate() {
            env.expect_node(name, ["active", "manageable"][number]).await;
            assert_eq!(
                id(&env.host(name).await),
                before[number].0,
                "it is enrolled under the host's UID again"
            );
            println!("{name} re-created {:?} after Ironic's return", start.elapsed());
        }
        for name in &names {
            env.expect(name, "waits for nothing", waits_for_nothing).await;
        }
        let took = start.elapsed();
        println!("all at rest again {took:?} after Ironic's return");
        assert!(took < RECREATED);
        let nodes = env.nodes().await;
        assert_eq!(nodes.len(), 2);
        for (number, name) in names.iter().enumerate() {
            let host = env.host(name).await;
            let node = nodes
                .iter()
                .find(|n| n["uuid"] == json!(id(&host)))
                .expect("the node that the status names");
            let provision_state = node["provision_state"].as_str().unwrap();
            assert_eq!(provision_state, if number == 0 { "active" } else { "manageable" });
            assert_eq!((state(&host), status(&host).error_type), (wanted[number].clone(), None));
            let after = disturbances(&env.machine(number).await);
            assert_eq!(
                after, before[number].1,
                "{name}: deploys, cleans, inspections, on, off, boots"
            );
        }
    });
}
