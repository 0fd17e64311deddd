//! Users' mistakes at registration: the reported error, and the recovery after its correction.

use std::time::{Duration, Instant};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use metal3_api::metal3::{BareMetalHost, ErrorType, OperationalStatus, ProvisioningState};
use metal3_lab::ironic::{Credentials, IronicConfig};
use metal3_scenarios::{LIMIT, Pool, TestEnv, condition, id, run, state, status, version, waits, waits_for_nothing};
use metal3_testkit::{eventually, namespace};
use serde_json::{Value, json};

static IRONIC: Pool = Pool::new(|| IronicConfig {
    hosts: 17,
    ..IronicConfig::default()
});

/// What a corrected Secret may take to have an effect: a second, and what a busy machine needs.
const AT_ONCE: Duration = Duration::from_secs(3);

/// The host has one registration error with this message, and nothing has been tried since.
fn assert_refused(host: &BareMetalHost, words: &[&str]) {
    let status = status(host);
    assert_eq!(status.error_type, Some(ErrorType::Registration), "{status:?}");
    assert_eq!(status.error_count, 1, "{status:?}");
    for word in words {
        assert!(
            status.error_message.contains(word),
            "{word:?} in {:?}",
            status.error_message
        );
    }
    assert_eq!(status.provisioning.id, "", "nothing was enrolled");
}

/// A host that waits for its user is left alone: no write, no attempt.
async fn assert_at_rest(env: &TestEnv, name: &str) {
    let before = env.host(name).await;
    tokio::time::sleep(Duration::from_secs(5)).await; // nothing is to happen, which nothing announces
    let after = env.host(name).await;
    assert_eq!(version(&before), version(&after), "{:?}", status(&after));
}

async fn assert_well(env: &TestEnv, name: &str) {
    let host = env.expect_state(name, ProvisioningState::Available).await;
    let status = status(&host);
    assert_eq!(
        (status.error_type, status.error_message.as_str(), status.error_count),
        (None, "", 0)
    );
    assert_eq!(env.nodes().await.len(), 1);
    let writers = host.metadata.managed_fields.unwrap_or_default();
    let tells_who = |entry: &ManagedFieldsEntry| {
        entry.manager.as_deref() == Some("baremetal-operator") && entry.subresource.as_deref() == Some("status")
    };
    assert!(writers.iter().any(tells_who), "{writers:?}");
}

async fn wrong_address(env: &TestEnv, number: usize, address: &str, words: &[&str]) {
    let right = env.server(number).bmc_address();
    let name = env
        .apply_host(number, |host| host["spec"]["bmc"]["address"] = json!(address))
        .await;
    let host = env.expect_waiting(&name, "InvalidBMCDetails", words).await;
    assert_refused(&host, words);
    println!("{address}: {}", status(&host).error_message);
    env.expect_event(&name, "BMCCredentialError", words[0]).await;
    assert_at_rest(env, &name).await;
    env.patch(&name, json!({"spec": {"bmc": {"address": right}}})).await;
    assert_well(env, &name).await;
}

#[test]
fn an_unknown_bmc_type_waits_for_a_correction() {
    run(async {
        let env = TestEnv::shared(namespace!().await, &IRONIC, 1).await;
        let words = ["spec.bmc.address", "type \"ilo9\"", "redfish-virtualmedia"];
        wrong_address(&env, 0, "ilo9://192.0.2.1", &words).await;
    });
}

#[test]
fn a_malformed_address_waits_for_a_correction() {
    run(async {
        let env = TestEnv::shared(namespace!().await, &IRONIC, 1).await;
        let words = ["spec.bmc.address", "port \"99999\""];
        wrong_address(&env, 0, "redfish://192.0.2.1:99999/redfish/v1/Systems/1", &words).await;
    });
}

#[test]
fn a_missing_and_an_incomplete_secret_are_named_and_waited_for() {
    run(async {
        let env = TestEnv::shared(namespace!().await, &IRONIC, 1).await;
        let Credentials { username, password } = env.server(0).credentials.clone();
        let secret = env.secret_name(0);
        let full = format!("{}/{secret}", env.namespace.name);
        let name = env.apply_bare(0, |_| {}).await;
        let host = env
            .expect_waiting(
                &name,
                "SecretMissing",
                &[&full, "spec.bmc.credentialsName", "create it"],
            )
            .await;
        assert_refused(&host, &[&full]);
        env.expect_event(&name, "BMCCredentialError", &full).await;
        assert_at_rest(&env, &name).await;

        let start = Instant::now();
        env.apply_secret(&secret, &[("password", &password)]).await;
        let words = [full.as_str(), "key username is missing"];
        let host = env.expect_waiting(&name, "InvalidBMCDetails", &words).await;
        let noticed = start.elapsed();
        // A different error than before, encountered once.
        assert_eq!((status(&host).error_count, id(&host)), (2, String::new()));
        assert_at_rest(&env, &name).await;

        let start = Instant::now();
        let keys = [("username", username.as_str()), ("password", &password)];
        env.apply_secret(&secret, &keys).await;
        let host = env
            .expect(&name, "goes on", |host| waits(host, "InvalidBMCDetails").is_none())
            .await;
        let went_on = start.elapsed();
        assert_ne!(id(&host), "", "it was enrolled: {:?}", status(&host));
        println!("after the Secret's change: incomplete one named in {noticed:?}, right one used in {went_on:?}");
        assert!(
            noticed < AT_ONCE && went_on < AT_ONCE,
            "the Secret's change wakes the host"
        );
        assert_well(&env, &name).await;
    });
}

#[test]
fn a_secret_that_may_only_be_read_by_its_name_is_waited_for_too() {
    run(async {
        let env = TestEnv::shared(namespace!().await, &IRONIC, 1).await;
        env.only_secrets_by_name().await;
        let secret = env.secret_name(0);
        let full = format!("{}/{secret}", env.namespace.name);
        let name = env.apply_bare(0, |_| {}).await;
        let words = [full.as_str(), "create it"];
        env.expect_waiting(&name, "SecretMissing", &words).await;
        let Credentials { username, password } = env.server(0).credentials.clone();
        let keys = [("username", username.as_str()), ("password", &password)];
        let start = Instant::now();
        env.apply_secret(&secret, &keys).await;
        assert_well(&env, &name).await;
        println!("registered {:?} after its Secret was created", start.elapsed());
        assert!(
            env.operator_log().contains("may not be watched"),
            "Secrets were watched"
        );
    });
}

#[test]
fn a_wrong_bmc_password_is_told_in_ironics_words_and_its_correction_ends_the_back_off() {
    run(async {
        // With upstream's unit of a minute the backoff is longer than the scenario.
        let mut env = TestEnv::shared(namespace!().await, &IRONIC, 1).await;
        env.kill_operator();
        env.config.args.push("--retry-base-seconds=600".to_owned());
        env.config.args.retain(|arg| arg != "--retry-base-seconds=2");
        env.start_operator().await;
        let right = env.server(0).credentials.clone();
        env.apply_credentials(0, &Credentials::new("admin", "letmein")).await;
        let name = env.apply_bare(0, |_| {}).await;
        let words = ["registration error", "failure 1 in a row", "next check: at", "401"];
        let host = env.expect_waiting(&name, "BackOff", &words).await;
        let seen = status(&host);
        println!("{}", seen.error_message);
        assert_eq!(
            (seen.error_type, seen.error_count, seen.provisioning.state),
            (Some(ErrorType::Registration), 1, ProvisioningState::Registering)
        );
        assert!(
            seen.error_message.contains(&env.server(0).bmc_url()),
            "{}",
            seen.error_message
        );
        assert!(
            !format!("{:?}", host.status).contains("letmein"),
            "no password in the status"
        );
        assert_eq!(seen.good_credentials.credentials_version, "");
        let ready = condition(&host, "Ready").unwrap();
        assert_eq!(ready.reason, "Error");
        env.expect_event(&name, "RegistrationError", "401").await;
        assert_at_rest(&env, &name).await;

        let start = Instant::now();
        env.apply_credentials(0, &right).await;
        env.expect(&name, "goes on", |host| waits(host, "BackOff").is_none())
            .await;
        let went_on = start.elapsed();
        println!("after the Secret's correction: went on in {went_on:?}");
        assert!(went_on < AT_ONCE);
        assert_well(&env, &name).await;
        let host = env.host(&name).await;
        assert_eq!(status(&host).good_credentials, status(&host).tried_credentials);
    });
}

/// Another type can be another driver, which a node does not change, or another way to boot.
#[test]
fn a_wrong_bmc_type_can_be_corrected_until_the_bmc_has_answered() {
    run(async {
        let env = TestEnv::shared(namespace!().await, &IRONIC, 1).await;
        let right = env.server(0).bmc_address();
        let of_type = |name: &str| json!({"spec": {"bmc": {"address": right.replace("redfish-virtualmedia", name)}}});
        env.apply_credentials(0, &Credentials::new("admin", "letmein")).await;
        let name = env
            .apply_bare(0, |host| {
                host["spec"]["bmc"]["address"] = of_type("idrac-virtualmedia")["spec"]["bmc"]["address"].clone();
            })
            .await;
        let is_refused = |host: &BareMetalHost| status(host).error_type == Some(ErrorType::Registration);
        env.expect(&name, "is refused by its BMC", is_refused).await;
        let first = env.node(&name).await;
        assert_eq!(first["driver"], "idrac");

        // Ironic cannot change the driver: the node is recreated under the same UUID.
        env.patch(&name, of_type("redfish")).await;
        let second = eventually(LIMIT, "another node is there", || async {
            let nodes = env.nodes().await;
            let found = nodes
                .into_iter()
                .find(|node| node["name"].as_str().is_some_and(|it| it.ends_with(&name)));
            found
                .filter(|node| node["created_at"] != first["created_at"])
                .ok_or("none yet")
        })
        .await;
        assert_eq!(
            (&second["driver"], &second["boot_interface"], &second["uuid"]),
            (&json!("redfish"), &json!("ipxe"), &first["uuid"])
        );
        env.expect(&name, "is refused by its BMC", is_refused).await;

        env.patch(&name, of_type("redfish-virtualmedia")).await;
        let credentials = env.server(0).credentials.clone();
        env.apply_credentials(0, &credentials).await;
        assert_well(&env, &name).await;
        let third = env.node(&name).await;
        assert_eq!(third["created_at"], second["created_at"], "no third node was needed");
        assert_eq!(third["boot_interface"], "redfish-virtual-media");
    });
}

#[test]
fn a_password_that_changes_on_the_bmc_does_not_disturb_the_host() {
    run(async {
        let env = TestEnv::shared(namespace!().await, &IRONIC, 1).await;
        let name = env.apply_host(0, |_| {}).await;
        assert_well(&env, &name).await;
        // Ironic switches it on with the old password until then.
        env.expect(&name, "is on and at rest", |host| {
            status(host).powered_on && waits_for_nothing(host)
        })
        .await;
        // The user changes it on the BMC first, then in the Secret.
        let new = Credentials::new("admin", "changed");
        env.bmc(0, json!({"credentials": new})).await;
        let before = env.machine(0).await;
        let tried = status(&env.host(&name).await).tried_credentials;
        env.apply_credentials(0, &new).await;
        let host = env
            .expect(&name, "has tried the new credentials", |host| {
                status(host).good_credentials != tried && state(host) == ProvisioningState::Available
            })
            .await;
        assert_eq!(status(&host).error_count, 0);
        let after = env.machine(0).await;
        assert_eq!(
            (before.inspections(), before.counters.power),
            (after.inspections(), after.counters.power)
        );
    });
}

#[test]
fn an_operator_with_wrong_credentials_for_ironic_says_so() {
    run(async {
        let mut env = TestEnv::shared(namespace!().await, &IRONIC, 1).await;
        env.kill_operator();
        env.config.ironic_password = Some("wrong".to_owned());
        env.start_operator().await;
        let name = env.apply_host(0, |_| {}).await;
        let words = ["Ironic refuses the operator's credentials", "401"];
        let host = env.expect_waiting(&name, "IronicUnauthorized", &words).await;
        println!("{}", waits(&host, "IronicUnauthorized").unwrap());
        assert_eq!(
            (status(&host).error_type, status(&host).error_count),
            (None, 0),
            "not the host's fault"
        );
        assert_at_rest(&env, &name).await;
        env.kill_operator();
        env.config.ironic_password = None;
        env.start_operator().await;
        assert_well(&env, &name).await;
    });
}

/// A request to Ironic by another client than the operator; returns status and body.
#[expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "what cannot be asked fails the test"
)]
async fn ask(env: &TestEnv, method: &str, path: &str, body: Value) -> (u16, Value) {
    let request = env.ironic.request(method.parse().unwrap(), path);
    let request = request.header("X-OpenStack-Ironic-API-Version", "1.89");
    let answer = request.json(&body).send().await.expect("Ironic answers");
    let status = answer.status().as_u16();
    (status, answer.json().await.unwrap_or_default())
}

// OWN 3c: on the real Ironic, where two clusters may use one name, and people enrol nodes by hand.
#[test]
fn a_node_of_somebody_else_is_neither_taken_over_nor_removed() {
    run(async {
        let env = TestEnv::shared(namespace!().await, &IRONIC, 2).await;
        let (theirs, ours) = (env.server(1), env.server(0).name.clone());
        let name = format!("{}~{ours}", env.namespace.name);
        let access = json!({"redfish_address": theirs.bmc_url(), "redfish_username": theirs.credentials.username,
            "redfish_password": theirs.credentials.password, "redfish_verify_ca": false});
        let node = json!({"name": name, "driver": "redfish", "driver_info": access});
        let (status_code, made) = ask(&env, "POST", "/v1/nodes", node).await;
        assert_eq!(status_code, 201, "{made}");
        let path = format!("/v1/nodes/{}", made["uuid"].as_str().unwrap());

        env.apply_host(0, |_| {}).await;
        let host = env
            .expect_waiting(&ours, "NodeNotOurs", &["its BMC", "another cluster"])
            .await;
        assert_refused(&host, &["left alone"]);
        assert_at_rest(&env, &ours).await;
        env.delete(&ours).await;
        // Its node is not looked up, because it belongs to another tenant.
        let host_is_gone = || async {
            match env.hosts().get_opt(&ours).await.unwrap() {
                None => Ok(()),
                Some(host) => Err(format!("{:?}", host.status)),
            }
        };
        eventually(LIMIT, "the host is gone", host_is_gone).await;
        let (status_code, left) = ask(&env, "GET", &path, json!(null)).await;
        assert_eq!(
            (status_code, &left["name"], &left["driver_info"]["redfish_address"]),
            (200, &json!(name), &made["driver_info"]["redfish_address"]),
            "{left}"
        );
        assert_eq!(left["provision_state"], "enroll", "nobody has asked anything of it");

        // OWN 29b: not by its UUID either, which the tenant knows here.
        let uuid = made["uuid"].as_str().unwrap();
        let restored = json!({"provisioning": {"ID": uuid, "state": "provisioned"}, "poweredOn": true, "errorMessage": "",
            "operationalStatus": "OK", "lastUpdated": "2026-01-01T00:00:00Z"});
        env.apply_bare(0, |host| {
            host["metadata"]["annotations"]["baremetalhost.metal3.io/status"] = json!(restored.to_string());
        })
        .await;
        env.expect(&ours, "has errors", |host| status(host).error_count > 0)
            .await;
        env.delete(&ours).await;
        eventually(LIMIT, "the host is gone", host_is_gone).await;
        let (_, after) = ask(&env, "GET", &path, json!(null)).await;
        for field in [
            "name",
            "driver_info",
            "provision_state",
            "power_state",
            "target_provision_state",
        ] {
            assert_eq!(after[field], left[field], "{field}");
        }

        // OWN 29: nor a node that bears the name without its namespace, though its BMC is the host's.
        let access =
            json!({"redfish_address": env.server(0).bmc_url(), "redfish_username": "x", "redfish_password": "y"});
        let (status_code, bare) = ask(
            &env,
            "POST",
            "/v1/nodes",
            json!({"name": ours, "driver": "redfish", "driver_info": access}),
        )
        .await;
        assert_eq!(status_code, 201, "{bare}");
        let bare_path = format!("/v1/nodes/{}", bare["uuid"].as_str().unwrap());
        let rename = |to: String| json!([{"op": "replace", "path": "/name", "value": to}]);
        let (status_code, _) = ask(&env, "PATCH", &path, rename(format!("{name}-of-theirs"))).await;
        assert_eq!(status_code, 200);
        env.apply_host(0, |_| {}).await;
        let host = env
            .expect_waiting(&ours, "NodeNotOurs", &["--adopt-unnamed-nodes"])
            .await;
        assert!(!status(&host).error_message.contains(bare["uuid"].as_str().unwrap()));
        let (_, after) = ask(&env, "GET", &bare_path, json!(null)).await;
        assert_eq!(
            (&after["name"], &after["driver_info"]),
            (&bare["name"], &bare["driver_info"])
        );
        env.delete(&ours).await;
        eventually(LIMIT, "the host is gone", host_is_gone).await;
        let (status_code, _) = ask(&env, "DELETE", &bare_path, json!(null)).await;
        assert_eq!(status_code, 204);
        let (status_code, _) = ask(&env, "PATCH", &path, rename(name.clone())).await;
        assert_eq!(status_code, 200);

        // Its owner calls it something else: the host is enrolled under its own UID.
        env.apply_host(0, |_| {}).await;
        env.expect_waiting(&ours, "NodeNotOurs", &["its BMC"]).await;
        let rename = json!([{"op": "replace", "path": "/name", "value": format!("{name}-of-theirs")}]);
        let (status_code, answer) = ask(&env, "PATCH", &path, rename).await;
        assert_eq!(status_code, 200, "{answer}");
        let host = env.expect_state(&ours, ProvisioningState::Available).await;
        assert_eq!(Some(id(&host)), host.metadata.uid.clone());
        env.delete(&ours).await;
        env.expect_gone(&ours).await;
        let (status_code, _) = ask(&env, "DELETE", &path, json!(null)).await;
        assert_eq!(status_code, 204);
    });
}

/// A tenant writes hosts and Secrets in his own namespace. What he says of their past leads to the node of somebody else.
#[test]
fn a_status_that_a_user_wrote_leads_to_nobodys_node() {
    run(async {
        let env = TestEnv::shared(namespace!().await, &IRONIC, 2).await;
        // The victim's host is of another cluster here, which uses the same Ironic.
        let server = env.server(1);
        let access = json!({"redfish_address": server.bmc_url(), "redfish_username": server.credentials.username,
            "redfish_password": server.credentials.password, "redfish_verify_ca": false});
        let theirs = json!({"name": "victim~node-0", "driver": "redfish", "driver_info": access});
        let (status_code, made) = ask(&env, "POST", "/v1/nodes", theirs).await;
        assert_eq!(status_code, 201, "{made}");
        let uuid = made["uuid"].as_str().unwrap().to_owned();
        let path = format!("/v1/nodes/{uuid}");
        let (status_code, answer) = ask(
            &env,
            "PUT",
            &format!("{path}/states/provision"),
            json!({"target": "manage"}),
        )
        .await;
        assert_eq!(status_code, 202, "{answer}");
        eventually(LIMIT, "the victim's node is manageable", || async {
            let (_, node) = ask(&env, "GET", &path, json!(null)).await;
            let is_known = node["provision_state"] == "manageable" && node["power_state"].is_string();
            if is_known { Ok(()) } else { Err(node.to_string()) }
        })
        .await;
        let (_, before) = ask(&env, "GET", &path, json!(null)).await;
        let mut wrong = server.credentials.clone();
        wrong.password = "guessed".to_owned();

        // By its UUID, by its name, with the victim's BMC address, with and without an image, provisioned and available.
        for (id, state, is_detached) in [
            (uuid.as_str(), "provisioned", false),
            (uuid.as_str(), "available", false),
            (uuid.as_str(), "provisioned", true),
            ("victim~node-0", "provisioned", false),
            ("victim~node-0", "deprovisioning", true),
        ] {
            let credentials =
                json!({"credentials": {"name": "x", "namespace": env.namespace.name}, "credentialsVersion": "1"});
            let restored = json!({"provisioning": {"ID": id, "state": state}, "poweredOn": true, "errorMessage": "",
                "goodCredentials": credentials, "triedCredentials": credentials,
                "operationalStatus": "OK", "lastUpdated": "2026-01-01T00:00:00Z"});
            env.apply_credentials(1, &wrong).await;
            let name = env
                .apply_bare(1, |host| {
                    let annotations = &mut host["metadata"]["annotations"];
                    annotations["baremetalhost.metal3.io/status"] = json!(restored.to_string());
                    if is_detached {
                        annotations["baremetalhost.metal3.io/detached"] = json!(r#"{"force": true}"#);
                    }
                    host["spec"]["online"] = json!(false);
                })
                .await;
            match (id == uuid, is_detached) {
                (true, false) => {
                    env.expect_waiting(&name, "NodeNotOurs", &["the name of another host"])
                        .await
                }
                (false, false) => {
                    env.expect(&name, "is not registered", |host| status(host).error_count > 0)
                        .await
                }
                (_, true) => {
                    env.expect(&name, "is detached", |host| {
                        status(host).operational_status == OperationalStatus::Detached
                    })
                    .await
                }
            };
            env.delete(&name).await;
            env.expect_gone(&name).await;
            let (_, after) = ask(&env, "GET", &path, json!(null)).await;
            for field in [
                "name",
                "driver_info",
                "provision_state",
                "power_state",
                "target_power_state",
                "instance_info",
            ] {
                assert_eq!(
                    after[field], before[field],
                    "{field} after {id}, {state}, {is_detached}"
                );
            }
        }
        let (status_code, _) = ask(&env, "DELETE", &path, json!(null)).await;
        assert_eq!(status_code, 204);
    });
}

// OWN 31wi: a host of another cluster with the same name and BMC address took the node, whatever its password was.
#[test]
fn a_namesake_without_the_password_gets_no_node() {
    run(async {
        let env = TestEnv::shared(namespace!().await, &IRONIC, 1).await;
        let server = env.server(0);
        let name = format!("{}~{}", env.namespace.name, server.name);
        let access = json!({"redfish_address": server.bmc_url(), "redfish_system_id": server.system_id(), "redfish_username": server.credentials.username,
            "redfish_password": server.credentials.password, "redfish_verify_ca": false});
        let node = json!({"name": name, "driver": "redfish", "driver_info": access});
        let (status_code, made) = ask(&env, "POST", "/v1/nodes", node).await;
        assert_eq!(status_code, 201, "{made}");
        let uuid = made["uuid"].as_str().unwrap();
        let path = format!("/v1/nodes/{uuid}");
        let of_bmc = format!("{path}/management/boot_device");
        let (status_code, answer) = ask(&env, "GET", &of_bmc, json!(null)).await;
        assert_eq!(status_code, 200, "{answer}");

        let mut wrong = server.credentials.clone();
        wrong.password = "guessed".to_owned();
        env.apply_credentials(0, &wrong).await;
        let ours = env.apply_bare(0, |_| {}).await;
        let host = env
            .expect_waiting(&ours, "BackOff", &["accepts the credentials of Secret"])
            .await;
        assert_eq!(id(&host), "", "the UUID is told to nobody");
        assert!(!serde_json::to_string(&host).unwrap().contains(uuid));
        let nodes = || async {
            let (_, listed) = ask(&env, "GET", "/v1/nodes?fields=name", json!(null)).await;
            listed.to_string()
        };
        let check = format!("credential-check-{}", host.metadata.uid.as_deref().unwrap());
        assert!(!nodes().await.contains(&check), "the node of the check is removed");
        let (status_code, answer) = ask(&env, "GET", &of_bmc, json!(null)).await;
        assert_eq!(status_code, 200, "Ironic still has the owner's password: {answer}");
        let (_, after) = ask(&env, "GET", &path, json!(null)).await;
        for field in ["name", "driver_info", "provision_state"] {
            assert_eq!(after[field], made[field], "{field}");
        }

        // A check that was interrupted left its node behind; with the password the host gets its own.
        let node = json!({"name": check, "driver": "redfish", "driver_info": access});
        let (status_code, left) = ask(&env, "POST", "/v1/nodes", node).await;
        assert_eq!(status_code, 201, "{left}");
        env.apply_credentials(0, &server.credentials).await;
        let host = env.expect_state(&ours, ProvisioningState::Available).await;
        assert_eq!(id(&host), uuid);
        assert!(!nodes().await.contains(&check));
        env.delete(&ours).await;
        env.expect_gone(&ours).await;
        let (status_code, _) = ask(&env, "GET", &path, json!(null)).await;
        assert_eq!(status_code, 404);
    });
}

// OWN 3d: what upstream or a person has enrolled for this very BMC is still taken over.
#[test]
fn a_node_of_the_hosts_bmc_is_taken_over() {
    run(async {
        let env = TestEnv::shared(namespace!().await, &IRONIC, 1).await;
        let server = env.server(0);
        let name = format!("{}~{}", env.namespace.name, server.name);
        let access = json!({"redfish_address": server.bmc_url(), "redfish_system_id": server.system_id(), "redfish_username": "wrong", "redfish_password": "wrong"});
        let node = json!({"name": name, "driver": "redfish", "driver_info": access});
        let (status_code, made) = ask(&env, "POST", "/v1/nodes", node).await;
        assert_eq!(status_code, 201, "{made}");
        let name = env.apply_host(0, |_| {}).await;
        let host = env.expect_state(&name, ProvisioningState::Available).await;
        assert_eq!(json!(id(&host)), made["uuid"]);
        env.delete(&name).await;
        env.expect_gone(&name).await;
        let (status_code, _) = ask(
            &env,
            "GET",
            &format!("/v1/nodes/{}", made["uuid"].as_str().unwrap()),
            json!(null),
        )
        .await;
        assert_eq!(status_code, 404, "it was the host's, and is gone with it");
    });
}

/// Removes the rules that depend on a host's status from the definition.
async fn drop_rules_of_hosts(client: &Client) -> Result<(), Box<dyn std::error::Error>> {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let operation =
        json!([{"op": "remove", "path": "/spec/versions/0/schema/openAPIV3Schema/x-kubernetes-validations"}]);
    let patch: json_patch::Patch = serde_json::from_value(operation)?;
    let params = PatchParams::default();
    let patch = Patch::Json::<()>(patch);
    definitions.patch("baremetalhosts.metal3.io", &params, &patch).await?;
    Ok(())
}

// OWN 6b: on the real Ironic, where the next power action met another server.
#[test]
fn a_running_server_keeps_the_way_to_its_bmc() {
    run(async {
        // Upstream's definition of hosts has no rule that rejects the change.
        let namespace = namespace!().await.elsewhere().await;
        drop_rules_of_hosts(&namespace.client).await.unwrap();
        let env = TestEnv::shared(namespace, &IRONIC, 2).await;
        let name = env.apply_with_image(0).await;
        let host = env.expect_state(&name, ProvisioningState::Provisioned).await;
        let path = format!("/v1/nodes/{}", id(&host));
        let (_, before) = ask(&env, "GET", &path, json!(null)).await;
        let other = json!({"spec": {"online": false, "bmc": {"address": env.server(1).bmc_address()}}});
        env.patch(&name, other).await;
        env.expect_waiting(&name, "InvalidBMCDetails", &["another BMC", "detached"])
            .await;
        env.expect_event(&name, "RegistrationError", "another BMC").await;
        let (_, after) = ask(&env, "GET", &path, json!(null)).await;
        assert_eq!(after["driver_info"], before["driver_info"]);
        assert!(
            env.machine(0).await.is_on,
            "no power action until it is clear which server is meant"
        );
        env.patch(
            &name,
            json!({"spec": {"bmc": {"address": env.server(0).bmc_address()}}}),
        )
        .await;
        env.expect(&name, "is switched off", |host| !status(host).powered_on)
            .await;
        assert!(!env.machine(0).await.is_on);
        let host = env.host(&name).await;
        assert_eq!(
            (state(&host), status(&host).error_type),
            (ProvisioningState::Provisioned, None)
        );
    });
}

// OWN 7b: on the real Ironic, where the disks of such a host were cleaned.
#[test]
fn an_available_host_that_is_called_external_for_a_while_is_not_cleaned() {
    run(async {
        let env = TestEnv::shared(namespace!().await, &IRONIC, 1).await;
        // An image was on it: Ironic calls its node available.
        let name = env.apply_with_image(0).await;
        env.expect_state(&name, ProvisioningState::Provisioned).await;
        env.patch(&name, json!({"spec": {"image": null}})).await;
        let host = env.expect_state(&name, ProvisioningState::Available).await;
        let path = format!("/v1/nodes/{}", id(&host));
        let before = ask(&env, "GET", &path, json!(null)).await.1["provision_updated_at"].clone();
        env.patch(&name, json!({"spec": {"externallyProvisioned": true}})).await;
        env.expect_state(&name, ProvisioningState::ExternallyProvisioned).await;
        env.expect(&name, "is at rest", waits_for_nothing).await;
        env.patch(&name, json!({"spec": {"externallyProvisioned": false}}))
            .await;
        env.expect_state(&name, ProvisioningState::Available).await;
        let (_, node) = ask(&env, "GET", &path, json!(null)).await;
        assert_eq!(
            node["provision_updated_at"], before,
            "Ironic was asked for nothing: {node}"
        );
    });
}
