//! Automated cleaning: before an image and after it, or not at all.

use metal3_api::metal3::ProvisioningState;
use metal3_scenarios::{TestEnv, run};
use metal3_testkit::namespace;
use serde_json::{Value, json};

use super::IRONIC;

#[test]
fn disks_are_cleaned_as_the_cleaning_mode_says_at_the_moment() {
    run(async {
        let env = TestEnv::shared(namespace!().await, &IRONIC, 4).await;
        // The mode before and after the deployment, and how often the disks are cleaned until then.
        let cases = [
            ("metadata", 1, "metadata", 2),
            ("disabled", 0, "disabled", 0),
            ("disabled", 0, "metadata", 1),
            ("metadata", 1, "disabled", 1),
        ];
        let image = env.image();
        let mut names = Vec::new();
        for (number, (mode, ..)) in cases.iter().enumerate() {
            let image = image.clone();
            let change = |host: &mut Value| {
                host["spec"]["inspectionMode"] = json!("disabled");
                host["spec"]["automatedCleaningMode"] = json!(mode);
                host["spec"]["image"] = image;
            };
            names.push(env.apply_host(number, change).await);
        }
        for (number, (before, cleans, after, _)) in cases.into_iter().enumerate() {
            let name = &names[number];
            env.expect_state(name, ProvisioningState::Provisioned).await;
            assert_eq!(env.node(name).await["automated_clean"], json!(before == "metadata"));
            assert_eq!(env.machine(number).await.cleans(), cleans, "{before}");
            // Together: there is no moment for the node to be configured before it is torn down.
            env.patch(name, json!({"spec": {"automatedCleaningMode": after, "image": null}}))
                .await;
        }
        for (number, (before, _, after, cleans)) in cases.into_iter().enumerate() {
            let name = &names[number];
            env.expect_state(name, ProvisioningState::Available).await;
            assert_eq!(env.node(name).await["automated_clean"], json!(after == "metadata"));
            assert_eq!(env.machine(number).await.cleans(), cleans, "{before}, then {after}");
        }
    });
}
