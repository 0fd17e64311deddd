//! User changes to a provisioned host: its image, its power, its deletion.

use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use metal3_api::metal3::{ProvisioningState, names};
use metal3_lab::ironic::{Credentials, IronicConfig};
use metal3_scenarios::{Pool, TestEnv, id, run, status, version};
use metal3_testkit::namespace;
use serde_json::json;

static IRONIC: Pool = Pool::new(|| IronicConfig {
    hosts: 10,
    ..IronicConfig::default()
});

#[test]
fn another_image_is_deployed_after_the_old_one_was_cleaned_away() {
    run(async {
        let env = TestEnv::shared(namespace!().await, &IRONIC, 1).await;
        let name = env.apply_with_image(0).await;
        let host = env.expect_state(&name, ProvisioningState::Provisioned).await;
        let before = env.machine(0).await;
        let node = id(&host);
        // The image server serves the same file; everything else sees another image.
        let url = format!("{}?version=2", env.image()["url"].as_str().unwrap());
        env.patch(&name, json!({"spec": {"image": {"url": url}}})).await;
        env.expect_state(&name, ProvisioningState::Deprovisioning).await;
        let host = env
            .expect(&name, "has the other image", |host| {
                let provisioning = status(host).provisioning;
                provisioning.state == ProvisioningState::Provisioned && provisioning.image.is_some_and(|i| i.url == url)
            })
            .await;
        assert_eq!((id(&host), status(&host).error_count), (node, 0));
        let after = env.machine(0).await;
        let urls: Vec<_> = after.deployments.iter().map(|d| d.image_url.as_str()).collect();
        assert_eq!(urls, [env.image()["url"].as_str().unwrap(), &url]);
        assert_eq!(after.cleans(), before.cleans() + 1, "once, when the old one went");
        assert_eq!(after.inspections(), 1);
        for reason in [
            "DeprovisioningStarted",
            "DeprovisioningComplete",
            "ProvisioningComplete",
        ] {
            env.expect_event(&name, reason, "").await;
        }
    });
}

#[test]
fn power_follows_the_specification_and_a_workload_may_shut_down() {
    run(async {
        let env = TestEnv::shared(namespace!().await, &IRONIC, 1).await;
        let name = env.apply_with_image(0).await;
        let host = env.expect_state(&name, ProvisioningState::Provisioned).await;
        assert!(status(&host).powered_on);
        let before = env.machine(0).await;
        env.patch(&name, json!({"spec": {"online": false}})).await;
        env.expect(&name, "is off", |host| !status(host).powered_on).await;
        let off = env.machine(0).await;
        assert!(!off.is_on);
        let requests = |machine: &metal3_lab::ironic::Machine, kind: &str| {
            machine.counters.power_requests.get(kind).copied().unwrap_or_default()
        };
        assert_eq!(
            requests(&off, "GracefulShutdown"),
            requests(&before, "GracefulShutdown") + 1
        );
        assert_eq!(
            requests(&off, "ForceOff"),
            requests(&before, "ForceOff"),
            "it was asked softly"
        );
        env.expect_event(&name, "PowerOff", "soft").await;
        env.patch(&name, json!({"spec": {"online": true}})).await;
        let host = env.expect(&name, "is on", |host| status(host).powered_on).await;
        assert_eq!(status(&host).provisioning.state, ProvisioningState::Provisioned);
        let on = env.machine(0).await;
        assert!(on.is_on);
        assert_eq!(
            (on.times_switched_off(), on.times_switched_on(), on.deploys),
            (before.times_switched_off() + 1, before.times_switched_on() + 1, 1)
        );
        env.expect_event(&name, "PowerOn", "").await;
    });
}

#[test]
fn a_host_can_be_deleted_in_every_state() {
    run(async {
        let env = TestEnv::shared(namespace!().await, &IRONIC, 5).await;
        let (registering, inspecting, available, provisioning, provisioned) = (0, 1, 2, 3, 4);
        // A finalizer holds them.
        env.agent(inspecting, json!({"boot_delay": 600})).await;
        env.agent(provisioning, json!({"hangs_in_step": "write_image"})).await;
        env.apply_credentials(registering, &Credentials::new("admin", "wrong"))
            .await;
        let names = [
            env.apply_bare(registering, |_| {}).await,
            env.apply_host(inspecting, |_| {}).await,
            env.apply_host(available, |_| {}).await,
            env.apply_with_image(provisioning).await,
            env.apply_with_image(provisioned).await,
        ];
        env.expect_waiting(&names[registering], "BackOff", &["401"]).await;
        env.expect_waiting(&names[inspecting], "Inspecting", &["node "]).await;
        env.expect_state(&names[available], ProvisioningState::Available).await;
        env.expect_state(&names[provisioned], ProvisioningState::Provisioned)
            .await;
        env.expect_waiting(&names[provisioning], "Deploying", &["node "]).await;
        metal3_testkit::eventually(metal3_scenarios::LIMIT, "the image is being written", || async {
            let begun = env.machine(provisioning).await.counters.deploy_steps;
            begun.get("write_image").map_or(Err(format!("{begun:?}")), |_| Ok(()))
        })
        .await;

        for name in &names {
            env.delete(name).await;
        }
        for (number, name) in names.iter().enumerate() {
            env.expect_gone(name).await;
            let secret: Secret = env.namespace.api().get(&env.secret_name(number)).await.unwrap();
            let held = secret.metadata.finalizers.unwrap_or_default();
            assert_eq!(held, Vec::<String>::new(), "the Secret of {name}");
            assert!(!env.machine(number).await.is_on, "{name} is off");
        }
        assert_eq!(env.machine(provisioned).await.deploys, 1);
        assert_eq!(env.machine(provisioning).await.deploys, 0);
        assert_eq!(env.machine(available).await.deploys, 0);
    });
}

#[test]
fn a_paused_host_is_left_alone() {
    run(async {
        let env = TestEnv::shared(namespace!().await, &IRONIC, 1).await;
        let annotate =
            |value: serde_json::Value| json!({"metadata": {"annotations": {names::annotation::PAUSED: value}}});
        let name = env
            .apply_host(0, |host| {
                host["metadata"]["annotations"] = json!({names::annotation::PAUSED: ""});
            })
            .await;
        let created = version(&env.host(&name).await);
        tokio::time::sleep(Duration::from_secs(3)).await; // nothing is to happen, which nothing announces
        assert_eq!(version(&env.host(&name).await), created);
        assert_eq!(env.nodes().await.len(), 0);
        env.patch(&name, annotate(json!(null))).await;
        env.expect_state(&name, ProvisioningState::Available).await;

        env.patch(&name, annotate(json!("by a person"))).await;
        env.patch(&name, json!({"spec": {"image": env.image()}})).await;
        let before = version(&env.host(&name).await);
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert_eq!(version(&env.host(&name).await), before);
        assert_eq!(env.machine(0).await.deploys, 0);
        env.patch(&name, annotate(json!(null))).await;
        env.expect_state(&name, ProvisioningState::Provisioned).await;
        assert_eq!(env.machine(0).await.deploys, 1);
    });
}

#[test]
fn hosts_that_share_a_secret_let_go_of_it_together() {
    run(async {
        let env = TestEnv::shared(namespace!().await, &IRONIC, 2).await;
        env.apply_secret("shared", &[("username", "admin"), ("password", "wrong")])
            .await;
        let mut names = Vec::new();
        for number in [0, 1] {
            let name = env
                .apply_bare(number, |host| host["spec"]["bmc"]["credentialsName"] = json!("shared"))
                .await;
            env.expect(&name, "has a registration error", |host| {
                status(host).error_type.is_some()
            })
            .await;
            names.push(name);
        }
        let finalizers = async || {
            let secret: Secret = env.namespace.api().get("shared").await.unwrap();
            secret.metadata.finalizers.unwrap_or_default()
        };
        assert_eq!(finalizers().await, [names::finalizer::SECRET]);
        for name in &names {
            env.delete(name).await;
        }
        for name in &names {
            env.expect_gone(name).await;
        }
        assert_eq!(finalizers().await, Vec::<String>::new(), "or it could never be deleted");
    });
}
