//! Ironic goes down, and comes back with or without its database.

#![expect(
    clippy::expect_used,
    reason = "a test fails by panicking, in its helper functions too"
)]

mod amnesia;
mod announced;
mod subscriptions;

use std::time::{Duration, Instant};

use kube::api::DeleteParams;
use metal3_api::condition::{Condition, ConditionStatus};
use metal3_api::metal3::names::annotation::REBOOT;
use metal3_api::metal3::{
    BareMetalHost, DataImage, HostFirmwareComponents, HostFirmwareSettings, OperationalStatus, ProvisioningState,
};
use metal3_lab::ironic::{IronicConfig, Machine, Mark};
use metal3_scenarios::{
    LIMIT, TestEnv, deployed_at_once, id, is_at_rest, is_running, power_compared_often, run, state, status, version,
    waits, waits_for_nothing,
};
use metal3_testkit::{eventually, namespace};
use serde_json::{Value, json};

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

async fn apply(env: &TestEnv, kind: &str, name: &str, spec: &Value) {
    let object = json!({"apiVersion": "metal3.io/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec});
    env.namespace.apply(&object.to_string()).await;
}

/// How many requests of this method and path the BMC has been sent.
fn asked(machine: &Machine, method: &str, path: &str) -> u64 {
    let requests = machine.counters.bmc_requests.iter();
    let those = requests.filter(|(request, _)| request.starts_with(method) && request.contains(path));
    those.map(|(_, count)| count).sum()
}

/// Makes a server's BMC slow as soon as this holds.
async fn slow_once(env: &TestEnv, number: usize, what: &str, holds: impl Fn(&Machine) -> bool) {
    eventually(LIMIT, what, || async {
        let machine = env.machine(number).await;
        if holds(&machine) {
            Ok(())
        } else {
            Err(format!("{machine:?}"))
        }
    })
    .await;
    env.bmc(number, json!({"delay": 20})).await;
}

fn is_done(conditions: &[Condition]) -> bool {
    let mut conditions = conditions.iter();
    conditions.any(|condition| condition.type_ == "ChangeDetected" && condition.status == ConditionStatus::False)
}

/// Settings and firmware of a host are in force and in the status of their objects, and nothing is left to change.
async fn expect_served(env: &TestEnv, name: &str) {
    let settings = env.namespace.api::<HostFirmwareSettings>().get(name).await;
    let settings = settings.expect("its settings").status.unwrap_or_default();
    assert_eq!(settings.settings["ProcTurboMode"], "Disabled");
    assert!(is_done(&settings.conditions), "{settings:?}");
    expect_updated(env, name).await;
}

/// The firmware of a host is written and in the status of its object, and nothing is left to change.
async fn expect_updated(env: &TestEnv, name: &str) {
    let components = env.namespace.api::<HostFirmwareComponents>().get(name).await;
    let components = components.expect("its components");
    let (wanted, components) = (components.spec.updates, components.status.unwrap_or_default());
    assert_eq!(components.updates, wanted);
    let bios = components.components.iter().find(|found| found.component == "bios");
    assert_eq!(bios.map(|bios| bios.current_version.as_str()), Some("1.1.0"));
    assert!(is_done(&components.conditions), "{components:?}");
}

#[test]
fn an_outage_in_every_state_ends_well() {
    run(async {
        let config = power_compared_often(13);
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
            serving,
            ejecting,
            updating,
            inserting,
        ] = std::array::from_fn(|number| number);
        env.agent(cleaning, hang("erase_devices_metadata")).await;
        env.agent(deploying, hang("write_image")).await;
        let mut names = vec![String::new(); 13];
        for number in [serving, ejecting, inserting] {
            names[number] = env.apply_host(number, deployed_at_once(env.image())).await;
        }
        for number in [cleaning, deploying, provisioned, deprovisioning] {
            names[number] = env.apply_with_image(number).await;
        }
        for number in [deleting, available] {
            names[number] = env.apply_host(number, |_| {}).await;
        }
        for number in [serving, ejecting, inserting] {
            env.expect(&names[number], "runs", is_running).await;
        }
        let reboot = json!({"metadata": {"annotations": {REBOOT: ""}}});
        let disc = json!({"url": env.ironic.ramdisk_iso_url()});
        apply(&env, "DataImage", &names[ejecting], &disc).await;
        env.patch(&names[ejecting], reboot.clone()).await;
        for number in [provisioned, deprovisioning] {
            env.expect_state(&names[number], ProvisioningState::Provisioned).await;
        }
        env.agent(deprovisioning, hang("erase_devices_metadata")).await;
        env.patch(&names[deprovisioning], json!({"spec": {"image": null}}))
            .await;
        for number in [deleting, available, provisioned] {
            env.expect(&names[number], "is at rest", is_at_rest).await;
        }
        env.expect(&names[ejecting], "runs with its disc", is_running).await;
        env.expect_machine(ejecting, 1, true, true).await;
        env.patch(&names[ejecting], json!({"spec": {"online": false}})).await;
        env.bmc(deleting, json!({"power_ignored": true})).await;
        env.delete(&names[deleting]).await;
        expect_step(&env, cleaning, "erase_devices_metadata").await;
        expect_step(&env, deploying, "write_image").await;
        expect_step(&env, deprovisioning, "erase_devices_metadata").await;
        env.expect_waiting(&names[deleting], "Removing", &["is being switched off"])
            .await;
        env.expect(&names[ejecting], "is off", |host| !status(host).powered_on)
            .await;
        let discs = env.namespace.api::<DataImage>();
        let deleted = discs.delete(&names[ejecting], &DeleteParams::default()).await;
        deleted.expect("the deletion is accepted");
        // Its firmware settings are changed on the way to available.
        let wanted = json!({"settings": {"ProcTurboMode": "Disabled"}});
        apply(&env, "HostFirmwareSettings", &env.server(setting).name, &wanted).await;
        names[setting] = env.apply_host(setting, |_| {}).await;
        let updates = json!({"updates": [{"component": "bios", "url": "http://127.0.0.1:1/bios-1.1.0.bin"}]});
        apply(&env, "HostFirmwareComponents", &env.server(updating).name, &updates).await;
        names[updating] = env.apply_host(updating, |_| {}).await;
        // A host in use gets settings and firmware at its restart.
        let allowed = json!({"firmwareSettings": "onReboot", "firmwareUpdates": "onReboot"});
        apply(&env, "HostUpdatePolicy", &names[serving], &allowed).await;
        apply(&env, "HostFirmwareSettings", &names[serving], &wanted).await;
        apply(&env, "HostFirmwareComponents", &names[serving], &updates).await;
        let (_, served) = env.ironic.requests(Mark::default()).unwrap();
        env.patch(&names[serving], reboot.clone()).await;
        // From then on their BMCs are slow, until the others are where they shall be when Ironic ends. An Ironic that is killed
        // between its write and the restart has to write again, and that is not what is counted.
        tokio::join!(
            slow_once(&env, setting, "the settings are in force", |machine| {
                machine.bios.get("ProcTurboMode").is_some_and(|mode| mode == "Disabled")
            }),
            slow_once(&env, serving, "the firmware is written", |machine| {
                asked(machine, "POST", "SimpleUpdate") == 1
            }),
            slow_once(&env, updating, "the firmware is written", |machine| {
                asked(machine, "POST", "SimpleUpdate") == 1
            }),
        );
        env.bmc(verifying, json!({"delay": 20})).await;
        names[verifying] = env.apply_host(verifying, |_| {}).await;
        env.expect_waiting(&names[verifying], "Verifying", &["node "]).await;
        env.bmc(ejecting, json!({"slow_virtual_media": 30})).await;
        env.patch(&names[ejecting], json!({"spec": {"online": true}})).await;
        env.bmc(inserting, json!({"slow_virtual_media": 30})).await;
        let before = env.machine(inserting).await;
        apply(&env, "DataImage", &names[inserting], &disc).await;
        env.patch(&names[inserting], reboot).await;
        for number in [ejecting, inserting] {
            env.expect_waiting(&names[number], "DataImageChanging", &["changes the disc"])
                .await;
        }
        // Last, because the ramdisk reports after this time whether or not Ironic is down.
        env.agent(inspecting, json!({"boot_delay": 25})).await;
        names[inspecting] = env.apply_host(inspecting, |_| {}).await;
        env.expect_waiting(&names[inspecting], "Inspecting", &["node "]).await;
        let in_service = env
            .expect_waiting(&names[serving], "Servicing", &["while its system is down"])
            .await;
        assert_eq!(status(&in_service).operational_status, OperationalStatus::Servicing);

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
            serving,
            ejecting,
            updating,
            inserting,
        ] {
            let host = env
                .expect_waiting(&names[number], "IronicUnreachable", &["Ironic cannot be reached"])
                .await;
            assert_eq!(status(&host).error_type, None, "{}", names[number]);
        }
        println!("all who wait were told of the outage in {:?}", start.elapsed());
        let subscription = json!({"hostName": names[deploying], "destination": "http://192.0.2.1/events"});
        apply(&env, "BMCEventSubscription", "events", &subscription).await;
        env.ironic.clear_faults().await.unwrap();
        env.ironic.start_ironic().await.unwrap();
        let start = Instant::now();
        for number in [verifying, inspecting, deprovisioning, setting, updating] {
            env.expect_state(&names[number], ProvisioningState::Available).await;
        }
        for number in [cleaning, deploying] {
            env.expect_state(&names[number], ProvisioningState::Provisioned).await;
        }
        env.expect_gone(&names[deleting]).await;
        for number in [serving, ejecting, inserting] {
            env.expect(&names[number], "runs again", is_running).await;
        }
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
        for number in [setting, serving] {
            let machine = env.machine(number).await;
            assert_eq!(asked(&machine, "PATCH", "/BIOS/Settings"), 1, "{machine:?}");
        }
        expect_served(&env, &names[serving]).await;
        expect_updated(&env, &names[updating]).await;
        for number in [serving, updating] {
            let machine = env.machine(number).await;
            assert_eq!(asked(&machine, "POST", "SimpleUpdate"), 1, "{machine:?}");
        }
        let (requests, _) = env.ironic.requests(served).unwrap();
        let node = id(&env.host(&names[serving]).await);
        let services = requests
            .iter()
            .filter(|request| request.member == node && request.path.ends_with("/states/provision"));
        assert_eq!(services.filter(|request| request.method == "PUT").count(), 1);
        env.namespace.expect_gone::<DataImage>(&names[ejecting]).await;
        env.expect_machine(ejecting, 1, true, false).await;
        let after = env.expect_machine(inserting, 1, true, true).await;
        let inserts = |machine: &Machine| asked(machine, "POST", "VirtualMedia.InsertMedia");
        assert_eq!(inserts(&after), inserts(&before) + 1, "{after:?}");
        let mut deploys = Vec::new();
        for number in 0..13 {
            deploys.push(env.machine(number).await.deploys);
        }
        assert_eq!(deploys, [0, 0, 1, 1, 1, 1, 0, 0, 0, 1, 1, 0, 1]);
        let mut nodes: Vec<_> = env.nodes().await.iter().map(|n| n["name"].to_string()).collect();
        nodes.sort();
        nodes.dedup();
        assert_eq!((nodes.len(), env.nodes().await.len()), (12, 12));
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
