//! BareMetalSwitches become the configuration of Ironic's networking service.

use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use kube::api::DeleteParams;
use metal3_api::condition::ConditionStatus;
use metal3_api::metal3::BareMetalSwitch;
use metal3_lab::audit::Request;
use metal3_scenarios::{FleetEnv, LIMIT, run};
use metal3_testkit::{TestNamespace, eventually, namespace};
use serde_json::json;

/// The Secrets of two switches, and the two that are written.
const SECRETS: usize = 4;

const HEADER: &str = "# This file is managed by the Baremetal Operator\n\n";

fn secret(name: &str, data: &serde_json::Value) -> String {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": data}).to_string()
}

fn switch(name: &str, number: u8) -> String {
    json!({"apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalSwitch", "metadata": {"name": name}, "spec": {
        "address": format!("192.0.2.{number}"), "macAddress": format!("00:00:5e:00:53:{number:02}"),
        "deviceType": "netmiko_cisco_ios", "credentials": {"name": format!("{name}-creds")},
    }})
    .to_string()
}

/// Waits until the text of the configuration fulfils a condition. Returns the Secret's version.
async fn configured(namespace: &TestNamespace, what: &str, holds: impl Fn(&str) -> bool) -> Option<String> {
    let secrets = namespace.api::<Secret>();
    eventually(LIMIT, what, || async {
        let secret = secrets.get("configs").await.map_err(|error| error.to_string())?;
        let data = secret.data.unwrap_or_default();
        let text = data.get("switch-configs.conf").map(|bytes| bytes.0.clone());
        let text = String::from_utf8(text.unwrap_or_default()).map_err(|error| error.to_string())?;
        holds(&text).then_some(secret.metadata.resource_version).ok_or(text)
    })
    .await
}

fn valid(switch: &BareMetalSwitch) -> Option<(&ConditionStatus, &str)> {
    let conditions = &switch.status.as_ref()?.conditions;
    let valid = conditions.iter().find(|condition| condition.type_ == "Valid")?;
    Some((&valid.status, &valid.message))
}

#[test]
fn switches_come_and_go_with_their_configuration() {
    run(async {
        let mut env = FleetEnv::new(namespace!().await, 1, 5).await;
        env.config.args.extend([
            "--ironic-networking-enabled".to_owned(),
            "--ironic-switch-configs-secret=configs".to_owned(),
            "--ironic-switch-credentials-secret=keys".to_owned(),
            "--ironic-switch-credentials-path=/keys".to_owned(),
        ]);
        env.start_operator().await;
        let namespace = env.namespace.clone();
        namespace.apply(&switch("a", 1)).await;
        let says = |words: &'static str| {
            move |switch: &BareMetalSwitch| {
                valid(switch)
                    .is_some_and(|(status, message)| *status == ConditionStatus::False && message.contains(words))
            }
        };
        namespace
            .expect("a", "names its missing Secret", says("Secret a-creds does not exist"))
            .await;
        namespace
            .apply(&secret("a-creds", &json!({"username": "admin", "password": "old"})))
            .await;
        namespace
            .expect("a", "names the missing target", says("Secret configs does not exist"))
            .await;
        for name in ["configs", "keys"] {
            namespace.apply(&secret(name, &json!({}))).await;
        }
        let is_valid =
            |switch: &BareMetalSwitch| valid(switch).is_some_and(|(status, _)| *status == ConditionStatus::True);
        namespace.expect("a", "is valid", is_valid).await;
        let has = |part: &'static str| move |text: &str| text.starts_with(HEADER) && text.contains(part);
        configured(
            &namespace,
            "the switch is there",
            has("[switch:a]\naddress=192.0.2.1\n"),
        )
        .await;

        namespace
            .apply(&secret("b-creds", &json!({"username": "u", "ssh-privatekey": "KEY"})))
            .await;
        namespace.apply(&switch("b", 2)).await;
        configured(
            &namespace,
            "the second is there",
            has("key_file=/keys/00-00-5e-00-53-02.key\n"),
        )
        .await;
        let has_key = |keys: &Secret| {
            keys.data
                .iter()
                .flatten()
                .any(|(name, _)| name == "00-00-5e-00-53-02.key")
        };
        namespace.expect("keys", "has the key", has_key).await;
        namespace
            .apply(&secret("a-creds", &json!({"username": "admin", "password": "new"})))
            .await;
        let version = configured(&namespace, "the password is new", has("password=new\n")).await;
        namespace.expect("b", "is valid", is_valid).await;

        // A restart alone writes nothing.
        env.kill_operator();
        let audit = namespace.server().audit_log().expect("the testkit has one");
        let from = audit.end().unwrap();
        env.start_operator().await;
        let user = namespace.service_account_user("operator");
        let asked = || {
            let (mut requests, _) = audit.since(from).unwrap();
            let is_single = |verb: &str| !matches!(verb, "list" | "watch");
            let is_of_secrets = |request: &Request| request.resource == "secrets" && is_single(&request.verb);
            requests.retain(|request| request.user == user && is_of_secrets(request));
            requests
        };
        eventually(LIMIT, "the operator has read the Secrets", || async {
            let found = asked();
            if found.len() >= SECRETS {
                Ok(())
            } else {
                Err(format!("{found:?}"))
            }
        })
        .await;
        // It would write at once.
        tokio::time::sleep(Duration::from_secs(1)).await;
        let writes: Vec<_> = asked().into_iter().filter(|request| request.verb != "get").collect();
        assert!(writes.is_empty(), "{writes:?}");
        assert_eq!(configured(&namespace, "it is as it was", |_| true).await, version);
        namespace
            .apply(&secret("b-creds", &json!({"username": "v", "ssh-privatekey": "KEY"})))
            .await;
        let after = configured(&namespace, "the user is new", has("username=v\n")).await;
        assert_ne!(version, after);
        // A switch that goes while no operator runs leaves nothing behind.
        env.kill_operator();
        let switches = namespace.api::<BareMetalSwitch>();
        for name in ["a", "b"] {
            switches.delete(name, &DeleteParams::default()).await.unwrap();
        }
        env.start_operator().await;
        configured(&namespace, "only the header is left", |text| text == HEADER).await;
        namespace
            .expect("keys", "is empty", |keys: &Secret| {
                keys.data.as_ref().is_none_or(std::collections::BTreeMap::is_empty)
            })
            .await;
    });
}
