//! Failed deployments and their recovery, and the data that reaches the server.

use std::time::{Duration, Instant};

use metal3_api::metal3::{ErrorType, ProvisioningState};
use metal3_lab::ironic::{IronicConfig, Timeouts};
use metal3_scenarios::{Pool, TestEnv, condition, run, status, waits};
use metal3_testkit::namespace;
use serde_json::json;

static IRONIC: Pool = Pool::new(|| IronicConfig {
    hosts: 6,
    timeouts: Timeouts {
        // An agent that died is missed after this; one that lives reports more often even on a busy machine.
        callback: Duration::from_secs(45),
        ..Timeouts::short()
    },
    ..IronicConfig::default()
});

/// Waits for a deployment error, checks what the user sees, and returns its message.
async fn expect_failed_deployment(env: &TestEnv, name: &str) -> String {
    let words = ["provisioning error", "failure 1 in a row", "next check: at"];
    let host = env.expect_waiting(name, "BackOff", &words).await;
    let seen = status(&host);
    assert_eq!(
        (seen.error_type, seen.error_count),
        (Some(ErrorType::Provisioning), 1),
        "{}",
        seen.error_message
    );
    assert!(condition(&host, "Ready").is_some_and(|c| c.reason == "Error"));
    env.expect_event(name, "ProvisioningError", &seen.error_message).await;
    println!("{}", seen.error_message);
    seen.error_message
}

/// Waits until the host is provisioned with nothing left of its errors, after one image was written.
async fn assert_provisioned(env: &TestEnv, number: usize, name: &str) {
    let host = env.expect_state(name, ProvisioningState::Provisioned).await;
    let seen = status(&host);
    assert_eq!(
        (seen.error_type, seen.error_count, seen.provisioning_fail_count),
        (None, 0, 0)
    );
    assert_eq!(seen.error_message, "");
    let machine = env.machine(number).await;
    assert_eq!((machine.deploys, machine.inspections(), machine.is_on), (1, 1, true));
}

#[test]
fn a_failed_step_of_a_deployment_is_an_error_and_tried_again_by_itself() {
    run(async {
        let env = TestEnv::shared(namespace!().await, &IRONIC, 1).await;
        env.agent(0, json!({"fails_step": {"write_image": "the disk is read-only"}}))
            .await;
        let name = env.apply_with_image(0).await;
        let error = expect_failed_deployment(&env, &name).await;
        // Ironic loses the agent's message if it powers the server off afterwards.
        assert!(
            error.contains("the disk is read-only") || error.contains("Ironic gives no reason"),
            "{error}"
        );
        assert_eq!(env.machine(0).await.deploys, 0);
        env.agent(0, json!({})).await;
        env.expect(&name, "counts the failure", |host| {
            status(host).provisioning_fail_count == 1
        })
        .await;
        assert_provisioned(&env, 0, &name).await;
        assert_eq!(env.machine(0).await.counters.deploy_steps["write_image"], 2);
    });
}

#[test]
fn an_agent_that_dies_in_a_deployment_is_missed_and_the_deployment_tried_again() {
    run(async {
        let env = TestEnv::shared(namespace!().await, &IRONIC, 1).await;
        env.agent(0, json!({"dies_in_step": "write_image"})).await;
        let name = env.apply_with_image(0).await;
        let error = expect_failed_deployment(&env, &name).await;
        // Ironic misses it when no heartbeat comes or already when it asks for the step's result; and may lose the text.
        let texts = ["imeout", "Connection to agent failed", "Ironic gives no reason"];
        assert!(texts.iter().any(|text| error.contains(text)), "{error}");
        env.agent(0, json!({})).await;
        assert_provisioned(&env, 0, &name).await;
    });
}

#[test]
fn an_image_that_does_not_exist_is_told_and_its_correction_ends_the_back_off() {
    run(async {
        // The backoff is longer than the scenario.
        let mut env = TestEnv::shared(namespace!().await, &IRONIC, 1).await;
        env.kill_operator();
        env.config.args.retain(|arg| arg != "--retry-base-seconds=2");
        env.config.args.push("--retry-base-seconds=1200".to_owned());
        env.start_operator().await;
        let mut image = env.image();
        let right = image["url"].clone();
        let wrong = format!("{}-of-nobody", right.as_str().unwrap());
        image["url"] = json!(wrong);
        let name = env.apply_host(0, |host| host["spec"]["image"] = image).await;
        let error = expect_failed_deployment(&env, &name).await;
        assert!(error.contains(&wrong) && error.contains("404"), "{error}");
        env.patch(&name, json!({"spec": {"image": {"url": right}}})).await;
        assert_provisioned(&env, 0, &name).await;
    });
}

#[test]
fn the_config_drive_holds_what_the_secrets_say() {
    run(async {
        let env = TestEnv::shared(namespace!().await, &IRONIC, 2).await;
        // To the byte: neither line ends nor blanks nor other alphabets are touched, and no line end is added.
        let user_data = "#cloud-config\r\nhostname: \"on\"\n\n# \u{e9}\u{4e16} \t{{ ds.meta }} \\ ${HOME} \n  last: no # secret-of-user-data";
        env.apply_secret(
            "metadata",
            &[(
                "metaData",
                "rack: secret-of-metadata\nlocal-hostname: other\nanswer: no\n",
            )],
        )
        .await;
        let links = r#"{"links": [{"id": "secret-of-network-data", "type": "phy", "ethernet_mac_address": "52:54:00:12:34:56"}]}"#;
        env.apply_secret("network", &[("networkData", links)]).await;
        let image = env.image();
        let name = env
            .apply_host(0, |host| {
                host["spec"]["image"] = image;
                host["spec"]["userData"] = json!({"name": "user"});
                host["spec"]["metaData"] = json!({"name": "metadata"});
                host["spec"]["networkData"] = json!({"name": "network"});
            })
            .await;
        let plain = env.apply_with_image(1).await;
        let secret = format!("Secret {}/user", env.namespace.name);
        let host = env
            .expect_waiting(&name, "ConfigDriveIncomplete", &[&secret, "spec.userData", "create it"])
            .await;
        assert_eq!((status(&host).error_type, status(&host).error_count), (None, 0));
        assert_eq!(env.machine(0).await.deploys, 0);
        // At rest: whatever else might have woken the host is over. Only the Secret can wake it now.
        tokio::time::sleep(Duration::from_secs(8)).await;
        let start = Instant::now();
        env.apply_secret("user", &[("userData", user_data)]).await;
        env.expect(&name, "goes on", |host| waits(host, "ConfigDriveIncomplete").is_none())
            .await;
        // By itself it would look again after half an hour; a busy machine takes its seconds.
        assert!(start.elapsed() < Duration::from_secs(60), "after {:?}", start.elapsed());
        assert_provisioned(&env, 0, &name).await;

        let deployment = env.machine(0).await.deployments.remove(0);
        assert_eq!(json!(deployment.image_url), env.image()["url"]);
        let drive = deployment.config_drive.expect("a config drive");
        assert_eq!(drive.user_data.as_deref(), Some(user_data));
        assert_eq!(drive.network_data, Some(serde_json::from_str(links).unwrap()));
        let uid = env.host(&name).await.metadata.uid.unwrap();
        let expected = json!({
            "uuid": uid, "name": name, "local-hostname": "other", "local_hostname": name,
            "metal3-name": name, "metal3-namespace": env.namespace.name, "rack": "secret-of-metadata", "answer": "no",
        });
        assert_eq!(drive.meta_data, Some(expected));

        assert_provisioned(&env, 1, &plain).await;
        let drive = env
            .machine(1)
            .await
            .deployments
            .remove(0)
            .config_drive
            .expect("a config drive");
        assert_eq!((drive.user_data, drive.network_data), (None, None));
        assert_eq!(drive.meta_data.unwrap()["metal3-name"], json!(plain));
    });
}

// OWN 18b: cloud-init and Ignition unpack gzip; Ironic's JSON has no room for it.
#[test]
fn user_data_in_a_gzip_archive_reach_the_server_byte_by_byte() {
    run(async {
        let env = TestEnv::shared(namespace!().await, &IRONIC, 1).await;
        let archive = "H4sIAAAAAAAAA1NOzsnPS6ksSNdNzs9Ly0znAgDFHsb4DwAAAA//gIE=";
        let secret =
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "user"}, "data": {"userData": archive}});
        env.namespace.apply(&secret.to_string()).await;
        let image = env.image();
        let name = env
            .apply_host(0, |host| {
                host["spec"]["image"] = image;
                host["spec"]["userData"] = json!({"name": "user"});
            })
            .await;
        assert_provisioned(&env, 0, &name).await;
        let drive = env
            .machine(0)
            .await
            .deployments
            .remove(0)
            .config_drive
            .expect("a config drive");
        assert_eq!(drive.files["openstack/latest/user_data"], archive);
        assert_eq!(drive.meta_data.unwrap()["metal3-name"], json!(name));
    });
}
