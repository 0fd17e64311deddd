//! One host from `kubectl apply` to provisioned and back, on a real API server and a real Ironic.

use metal3_api::metal3::{BareMetalHost, HardwareData, ProvisioningState};
use metal3_lab::ironic::IronicConfig;
use metal3_scenarios::{TestEnv, condition, run, status};
use serde_json::json;

/// Status and reason of the condition `Ready`.
fn ready(host: &BareMetalHost) -> Option<(String, String)> {
    let ready = condition(host, "Ready")?;
    Some((ready.status.to_string(), ready.reason))
}

#[test]
fn a_host_goes_from_apply_to_provisioned_and_back() {
    run(async {
        let env = TestEnv::start(metal3_testkit::namespace!().await, IronicConfig::default()).await;
        let name = env.apply_host(0, |_| {}).await;
        let host = env.expect_state(&name, ProvisioningState::Available).await;
        println!("{}", serde_json::to_string_pretty(&status(&host)).unwrap());
        assert_eq!(ready(&host), Some(("False".to_owned(), "NotProvisioned".to_owned())));
        env.patch(&name, json!({"spec": {"image": env.image()}})).await;
        let host = env.expect_state(&name, ProvisioningState::Provisioned).await;
        assert_eq!(ready(&host), Some(("True".to_owned(), "Provisioned".to_owned())));
        env.patch(&name, json!({"spec": {"image": null}})).await;
        env.expect_state(&name, ProvisioningState::Available).await;
        env.delete(&name).await;
        env.expect_gone(&name).await;
        let machine = env.machine(0).await;
        assert_eq!((machine.deploys, machine.inspections(), machine.is_on), (1, 1, false));
        for reason in [
            "Registered",
            "BMCAccessValidated",
            "InspectionStarted",
            "InspectionComplete",
            "ProvisioningStarted",
            "ProvisioningComplete",
            "DeprovisioningStarted",
            "DeprovisioningComplete",
        ] {
            env.expect_event(&name, reason, "").await;
        }
        // Its owner is gone and nothing of ours holds it: the garbage collector, which does not run here, may have it.
        let hardware: HardwareData = env.namespace.api().get(&name).await.unwrap();
        assert_eq!(hardware.metadata.finalizers.unwrap_or_default(), Vec::<String>::new());
    });
}
