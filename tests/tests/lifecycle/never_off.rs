//! A server that must not be powered off: `spec.disablePowerOff`.

use metal3_api::metal3::{BareMetalHost, ProvisioningState, names};
use metal3_scenarios::{TestEnv, run, state, status, waits_for_nothing};
use metal3_testkit::namespace;
use serde_json::json;

use super::{IRONIC, annotate, annotation, requests};

#[test]
fn a_server_that_is_never_switched_off_restarts_instead_and_outlives_its_host() {
    run(async {
        let env = TestEnv::shared(namespace!().await, &IRONIC, 1).await;
        let name = env
            .apply_host(0, |host| {
                host["spec"]["externallyProvisioned"] = json!(true);
                host["spec"]["disablePowerOff"] = json!(true);
            })
            .await;
        let is_restarted = |host: &BareMetalHost| {
            let is_there = state(host) == ProvisioningState::ExternallyProvisioned && status(host).powered_on;
            is_there && annotation(host, names::annotation::REBOOT).is_none() && waits_for_nothing(host)
        };
        env.expect(&name, "is taken over and on", is_restarted).await;
        assert_eq!(env.node(&name).await["disable_power_off"], true);

        annotate(&env, &name, names::annotation::REBOOT, json!("")).await;
        env.expect(&name, "was restarted softly", is_restarted).await;
        assert_eq!(requests(&env.machine(0).await, "GracefulRestart"), 1);
        let hard = json!(r#"{"mode": "hard"}"#);
        annotate(&env, &name, names::annotation::REBOOT, hard.clone()).await;
        env.expect(&name, "was restarted hard", is_restarted).await;
        assert_eq!(requests(&env.machine(0).await, "ForceRestart"), 1);

        // Rebooted once instead, because it cannot be kept off.
        let held = format!("{}tests", names::annotation::REBOOT_PREFIX);
        annotate(&env, &name, &held, hard).await;
        let words = [held.as_str(), "spec.disablePowerOff"];
        let host = env.expect_waiting(&name, "RebootAnnotation", &words).await;
        assert!(status(&host).powered_on);
        assert_eq!(requests(&env.machine(0).await, "ForceRestart"), 2);
        annotate(&env, &name, &held, json!(null)).await;
        env.expect(&name, "waits for nothing", is_restarted).await;

        env.delete(&name).await;
        env.expect_gone(&name).await;
        let machine = env.machine(0).await;
        assert!(machine.is_on);
        for kind in ["ForceOff", "GracefulShutdown"] {
            assert_eq!(
                requests(&machine, kind),
                0,
                "{kind}: {:?}",
                machine.counters.power_requests
            );
        }
    });
}
