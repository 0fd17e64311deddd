//! A server deleted while Ironic services it.

use metal3_api::metal3::ProvisioningState;
use metal3_lab::ironic::Mark;
use metal3_scenarios::{LIMIT, TestEnv, run, state, waits_for_nothing};
use metal3_testkit::{eventually, namespace};
use reqwest::Method;
use serde_json::json;

use super::IRONIC;

const STEP: &str = "burnin_cpu";

#[test]
fn a_server_is_not_switched_off_in_the_middle_of_a_service_step() {
    // OWN 2b: the step might write firmware.
    run(async {
        let env = TestEnv::shared(namespace!().await, &IRONIC, 1).await;
        let external = |host: &mut serde_json::Value| host["spec"]["externallyProvisioned"] = json!(true);
        let name = env.apply_host(0, external).await;
        env.expect(&name, "is taken over", |host| {
            state(host) == ProvisioningState::ExternallyProvisioned && waits_for_nothing(host)
        })
        .await;
        env.agent(0, json!({"hangs_in_step": STEP})).await;
        let node = env.node(&name).await["uuid"].as_str().unwrap().to_owned();
        let service = json!({"target": "service", "service_steps": [{"interface": "deploy", "step": STEP}]});
        env.ironic
            .request(Method::PUT, &format!("/v1/nodes/{node}/states/provision"))
            .header("X-OpenStack-Ironic-API-Version", "1.95")
            .json(&service)
            .send()
            .await
            .and_then(reqwest::Response::error_for_status)
            .unwrap();
        eventually(LIMIT, "the step has begun", || async {
            let steps = env.machine(0).await.counters.service_steps;
            steps.contains_key(STEP).then_some(()).ok_or(format!("{steps:?}"))
        })
        .await;

        let (_, mark) = env.ironic.requests(Mark::default()).unwrap();
        env.delete(&name).await;
        env.expect_waiting(&name, "Removing", &["stops what it is doing"]).await;
        // It is asked again while the node is locked. Once Ironic has accepted that, the service fails when the step is over.
        eventually(LIMIT, "Ironic is to stop the service", || async {
            let (requests, _) = env.ironic.requests(mark).unwrap();
            let mut of_node = requests.iter().filter(|request| request.member == node);
            let is_accepted = of_node.any(|request| request.method == "PUT" && request.status == 202);
            is_accepted.then_some(()).ok_or("it was not accepted")
        })
        .await;
        assert!(env.machine(0).await.is_on);
        env.agent(0, json!({})).await;
        env.expect_gone(&name).await;
        assert!(!env.machine(0).await.is_on);
        let (moments, _) = env.ironic.moments(Mark::default()).unwrap();
        let states: Vec<_> = moments
            .iter()
            .filter(|moment| moment.node == node && moment.target_power_state.as_deref() == Some("power off"))
            .filter_map(|moment| moment.provision_state.as_deref())
            .collect();
        // Ironic itself powers it off to start the ramdisk, and we do after the service.
        assert!(
            !states.contains(&"service wait") && states.contains(&"service failed"),
            "{states:?}"
        );
    });
}
