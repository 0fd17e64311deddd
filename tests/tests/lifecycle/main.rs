//! Operations on a host besides its image: detaching it from Ironic and attaching it again, reboots, moves to another cluster,
//! adoption while it runs, reinspection. A real API server and a real Ironic; the servers count what was done to them.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helper functions too"
)]

mod moved;
mod never_off;
mod serviced;

use metal3_api::metal3::{BareMetalHost, OperationalStatus, ProvisioningState, names};
use metal3_lab::ironic::{Credentials, IronicConfig, Machine};
use metal3_scenarios::{Pool, TestEnv, condition, id, run, state, status, waits_for_nothing};
use metal3_testkit::namespace;
use serde_json::{Value, json};

static IRONIC: Pool = Pool::new(|| IronicConfig {
    hosts: 9,
    ..IronicConfig::default()
});

/// Sets or removes an annotation.
async fn annotate(env: &TestEnv, name: &str, key: &str, value: Value) {
    env.patch(name, json!({"metadata": {"annotations": {key: value}}}))
        .await;
}

fn annotation<'h>(host: &'h BareMetalHost, key: &str) -> Option<&'h String> {
    host.metadata.annotations.as_ref()?.get(key)
}

/// Deployments, inspections, cleanings, and power cycles.
fn history(machine: &Machine) -> [u64; 5] {
    [
        machine.deploys.try_into().unwrap_or(u64::MAX),
        machine.inspections(),
        machine.cleans(),
        machine.times_switched_off(),
        machine.times_switched_on(),
    ]
}

fn requests(machine: &Machine, kind: &str) -> u64 {
    machine.counters.power_requests.get(kind).copied().unwrap_or_default()
}

#[test]
fn a_detached_host_runs_on_and_comes_back_as_it_is() {
    run(async {
        let env = TestEnv::shared(namespace!().await, &IRONIC, 1).await;
        let name = env.apply_with_image(0).await;
        let host = env.expect_state(&name, ProvisioningState::Provisioned).await;
        let (before, node) = (env.machine(0).await, id(&host));
        annotate(&env, &name, names::annotation::DETACHED, json!("{}")).await;
        let host = env.expect_waiting(&name, "Detached", &["remove the annotation"]).await;
        assert_eq!(status(&host).operational_status, OperationalStatus::Detached);
        assert_eq!(state(&host), ProvisioningState::Provisioned);
        assert_eq!(condition(&host, "Ready").map(|c| c.reason), Some("Detached".to_owned()));
        assert_eq!(env.nodes().await.len(), 0);

        annotate(&env, &name, names::annotation::DETACHED, json!(null)).await;
        let host = env
            .expect(&name, "is back", |host| {
                status(host).operational_status == OperationalStatus::Ok && waits_for_nothing(host)
            })
            .await;
        assert_eq!((state(&host), id(&host)), (ProvisioningState::Provisioned, node));
        let nodes = env.nodes().await;
        assert_eq!((nodes.len(), nodes[0]["provision_state"].as_str()), (1, Some("active")));
        assert_eq!(
            history(&env.machine(0).await),
            history(&before),
            "nobody touched the server"
        );

        // Detached again, it can be deleted without being powered off.
        annotate(&env, &name, names::annotation::DETACHED, json!("{}")).await;
        env.expect_waiting(&name, "Detached", &[]).await;
        env.delete(&name).await;
        env.expect_gone(&name).await;
        assert_eq!(
            history(&env.machine(0).await),
            history(&before),
            "nobody touched the server"
        );
    });
}

#[test]
fn a_reboot_is_made_once_and_a_held_host_stays_off() {
    run(async {
        let env = TestEnv::shared(namespace!().await, &IRONIC, 1).await;
        let name = env.apply_with_image(0).await;
        env.expect_state(&name, ProvisioningState::Provisioned).await;
        let is_rebooted = |host: &BareMetalHost| {
            annotation(host, names::annotation::REBOOT).is_none() && status(host).powered_on && waits_for_nothing(host)
        };
        let start = env.expect(&name, "is on", is_rebooted).await;
        assert_eq!(state(&start), ProvisioningState::Provisioned);

        let before = env.machine(0).await;
        annotate(&env, &name, names::annotation::REBOOT, json!("")).await;
        env.expect(&name, "was rebooted softly", is_rebooted).await;
        let soft = env.machine(0).await;
        assert_eq!(soft.times_switched_off(), before.times_switched_off() + 1);
        assert_eq!(soft.times_switched_on(), before.times_switched_on() + 1);
        assert_eq!(
            requests(&soft, "GracefulShutdown"),
            requests(&before, "GracefulShutdown") + 1
        );
        assert_eq!(requests(&soft, "ForceOff"), requests(&before, "ForceOff"));

        annotate(&env, &name, names::annotation::REBOOT, json!(r#"{"mode":"hard"}"#)).await;
        env.expect(&name, "was rebooted hard", is_rebooted).await;
        let hard = env.machine(0).await;
        assert_eq!(hard.times_switched_off(), soft.times_switched_off() + 1);
        assert_eq!(hard.times_switched_on(), soft.times_switched_on() + 1);
        assert_eq!(requests(&hard, "GracefulShutdown"), requests(&soft, "GracefulShutdown"));
        assert_eq!(requests(&hard, "ForceOff"), requests(&soft, "ForceOff") + 1);

        let held = format!("{}tests", names::annotation::REBOOT_PREFIX);
        annotate(&env, &name, &held, json!("not JSON")).await;
        let host = env.expect_waiting(&name, "RebootAnnotation", &[&held]).await;
        assert!(!status(&host).powered_on && !env.machine(0).await.is_on);
        assert!(annotation(&host, &held).is_some(), "only its owner removes it");
        assert!(condition(&host, "AnnotationsValid").is_some_and(|c| c.message.contains(&held)));
        env.expect_event(&name, "InvalidAnnotationValue", &held).await;
        annotate(&env, &name, &held, json!(null)).await;
        let host = env.expect(&name, "is on again", is_rebooted).await;
        assert_eq!(condition(&host, "AnnotationsValid"), None);
        let after = env.machine(0).await;
        assert_eq!(after.times_switched_off(), hard.times_switched_off() + 1);
        assert_eq!((after.deploys, after.is_on), (1, true));
    });
}

#[test]
fn a_foreign_host_is_taken_over_without_being_set_up() {
    run(async {
        let env = TestEnv::shared(namespace!().await, &IRONIC, 1).await;
        let name = env
            .apply_host(0, |host| host["spec"]["externallyProvisioned"] = json!(true))
            .await;
        let host = env
            .expect(&name, "is taken over and on", |host| {
                state(host) == ProvisioningState::ExternallyProvisioned
                    && status(host).powered_on
                    && waits_for_nothing(host)
            })
            .await;
        assert_eq!(status(&host).error_type, None);
        let nodes = env.nodes().await;
        assert_eq!(nodes[0]["provision_state"], "active");
        let machine = env.machine(0).await;
        assert_eq!(
            [machine.inspections(), machine.cleans(), machine.times_switched_off()],
            [0, 0, 0]
        );
        assert_eq!((machine.deploys, machine.is_on), (0, true));
        env.delete(&name).await;
        env.expect_gone(&name).await;
        let machine = env.machine(0).await;
        assert_eq!(
            (machine.is_on, machine.cleans()),
            (false, 0),
            "it is switched off and not erased"
        );
    });
}

#[test]
fn an_available_host_is_inspected_again_on_demand() {
    run(async {
        let env = TestEnv::shared(namespace!().await, &IRONIC, 1).await;
        let name = env.apply_host(0, |host| host["spec"]["online"] = json!(false)).await;
        env.expect_state(&name, ProvisioningState::Available).await;
        assert_eq!(env.machine(0).await.inspections(), 1);
        annotate(&env, &name, names::annotation::INSPECT, json!("")).await;
        env.expect(&name, "is inspected again", |host| {
            annotation(host, names::annotation::INSPECT).is_none()
                && state(host) == ProvisioningState::Available
                && waits_for_nothing(host)
        })
        .await;
        let machine = env.machine(0).await;
        assert_eq!((machine.inspections(), machine.deploys), (2, 0));
    });
}

#[test]
fn new_credentials_count_when_the_bmc_takes_them() {
    run(async {
        let env = TestEnv::shared(namespace!().await, &IRONIC, 1).await;
        let name = env.apply_host(0, |host| host["spec"]["online"] = json!(false)).await;
        env.expect_state(&name, ProvisioningState::Available).await;
        let host = env.expect(&name, "is at rest", waits_for_nothing).await;
        let (before, good) = (env.machine(0).await, status(&host).good_credentials);
        let right = env.server(0).credentials.clone();

        env.apply_credentials(0, &Credentials::new("admin", "letmein")).await;
        let words = ["registration error", "does not answer Ironic"];
        let host = env.expect_waiting(&name, "BackOff", &words).await;
        let seen = status(&host);
        println!("{}", seen.error_message);
        assert_eq!(
            (seen.good_credentials, seen.provisioning.state),
            (good.clone(), ProvisioningState::Available)
        );
        assert_ne!(seen.tried_credentials, good);

        env.apply_credentials(0, &right).await;
        let host = env
            .expect(&name, "has its access back", |host| {
                status(host).error_type.is_none() && status(host).good_credentials != good && waits_for_nothing(host)
            })
            .await;
        assert_eq!(status(&host).good_credentials, status(&host).tried_credentials);
        assert_eq!(
            history(&env.machine(0).await),
            history(&before),
            "nobody touched the server"
        );
    });
}
