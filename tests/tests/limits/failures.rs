//! Repeated failures: how often something is retried, and how it recovers.

use metal3_api::metal3::{ErrorType, OperationalStatus, ProvisioningState};
use metal3_scenarios::{TestEnv, deployed_at_once, run, status};
use metal3_testkit::namespace;
use serde_json::json;

use super::IRONIC;

#[test]
fn an_inspection_that_times_out_is_told_and_made_again() {
    run(async {
        let env = TestEnv::shared(namespace!().await, &IRONIC, 1).await;
        env.agent(0, json!({"never": "boot"})).await;
        let name = env.apply_host(0, |_| {}).await;
        let host = env
            .expect(&name, "has an inspection error", |host| {
                status(host).error_type == Some(ErrorType::Inspection)
            })
            .await;
        let seen = status(&host);
        println!("{}", seen.error_message);
        assert_eq!(
            (seen.error_count, seen.provisioning.state, seen.operational_status),
            (1, ProvisioningState::Inspecting, OperationalStatus::Error)
        );
        // Ironic may lose the text when it switches the server off.
        let words = &seen.error_message;
        assert!(
            words.contains("imeout") || words.contains("Ironic gives no reason"),
            "{words}"
        );
        env.expect_event(&name, "InspectionError", words).await;

        env.agent(0, json!({})).await;
        let host = env.expect_state(&name, ProvisioningState::Available).await;
        let seen = status(&host);
        assert_eq!((seen.error_type, seen.error_count), (None, 0));
        assert!(seen.hardware.is_some());
        assert_eq!(env.machine(0).await.inspections(), 1);
    });
}

#[test]
fn a_deployment_is_given_up_after_as_many_failures_as_are_allowed() {
    run(async {
        let env = TestEnv::shared_with(namespace!().await, &IRONIC, 1, |config, _| {
            config.args.push("--max-provisioning-retries=2".to_owned());
        })
        .await;
        let mut image = env.image();
        let right = image["url"].clone();
        image["url"] = json!(format!("{}-of-nobody", right.as_str().unwrap()));
        let name = env.apply_host(0, deployed_at_once(image)).await;
        let words = ["-of-nobody", "2 times", "spec.image"];
        let host = env.expect_waiting(&name, "RetryLimitReached", &words).await;
        let seen = status(&host);
        assert_eq!(
            (seen.provisioning.state, seen.error_type, seen.provisioning_fail_count),
            (ProvisioningState::Available, Some(ErrorType::Provisioning), 2)
        );
        env.patch(&name, json!({"spec": {"image": {"url": right}}})).await;
        let host = env.expect_state(&name, ProvisioningState::Provisioned).await;
        let seen = status(&host);
        assert_eq!(
            (seen.error_type, seen.error_count, seen.provisioning_fail_count),
            (None, 0, 0)
        );
        assert_eq!(env.machine(0).await.deploys, 1);
    });
}
