//! Ironic's location from a resource of the ironic-standalone-operator.

use kube::Api;
use metal3_api::metal3::ProvisioningState;
use metal3_scenarios::{FleetEnv, LIMIT, PASSWORD, USER, announced, condition, run, waits_for_nothing};
use metal3_testkit::{eventually, namespace};
use serde_json::json;

fn secret(password: &str) -> String {
    let data = json!({"username": USER, "password": password});
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "ironic-api"}, "stringData": data}).to_string()
}

#[test]
fn ironic_is_found_by_its_resource_and_every_lack_of_it_is_told() {
    run(async {
        let mut env = FleetEnv::new(namespace!().await, 1, 11).await;
        let proxy = env.endpoint();
        announced::follow(&mut env.config, &env.namespace, proxy);
        let name = env.sim.server(0).name;
        let full = format!("Ironic {}/ironic", env.namespace.name);
        env.start_operator().await;
        let not_ready = async |words: &str| env.expect_waiting(&name, "IronicNotReady", words).await;
        env.apply_hosts().await;
        not_ready(&format!("{full} cannot be read")).await;
        announced::define(&env.namespace).await;
        not_ready(&format!(
            "{full}, which IRONIC_NAME and IRONIC_NAMESPACE name, does not exist"
        ))
        .await;
        announced::apply(&env.namespace, &json!({})).await;
        not_ready("has no condition Ready yet").await;
        announced::say(&env.namespace, "False", 1).await;
        not_ready("is not ready: Deployment: as the test says").await;
        announced::say(&env.namespace, "True", 1).await;
        not_ready("spec.apiCredentialsName").await;
        announced::apply(&env.namespace, &json!({"apiCredentialsName": "ironic-api"})).await;
        not_ready("generation 1 of 2").await;
        announced::say(&env.namespace, "True", 2).await;
        not_ready(&format!("Secret {}/ironic-api", env.namespace.name)).await;
        assert_eq!(env.sim.requests().values().sum::<u64>(), 0, "nobody knew where it is");

        env.namespace.apply(&secret("wrong")).await;
        env.expect_waiting(&name, "IronicUnauthorized", "").await;
        env.namespace.apply(&secret(PASSWORD)).await;
        env.expect_all(ProvisioningState::Available).await;

        // Idle hosts are left alone; hosts that need Ironic wait until it is ready again.
        announced::say(&env.namespace, "False", 2).await;
        let is_told = |line: &&str| line.contains("Ironic is not ready") && line.contains("as the test says");
        eventually(LIMIT, "the operator has heard it", || async {
            match env.operator_log().lines().filter(is_told).count() {
                2 => Ok(()),
                count => Err(format!("{count} times")),
            }
        })
        .await;
        env.patch_hosts(&json!({"spec": {"online": false}})).await;
        not_ready("is not ready").await;
        assert!(env.sim.is_on(0));
        announced::say(&env.namespace, "True", 2).await;
        eventually(LIMIT, "the server is off", || async {
            if env.sim.is_on(0) { Err("it is on") } else { Ok(()) }
        })
        .await;
        let hosts: Api<metal3_api::metal3::BareMetalHost> = env.namespace.api();
        eventually(LIMIT, "the host waits for nothing", || async {
            let host = hosts.get(&name).await.map_err(|error| error.to_string())?;
            if waits_for_nothing(&host) {
                Ok(())
            } else {
                Err(format!("{:?}", condition(&host, "Waiting")))
            }
        })
        .await;
        assert_eq!(env.sum().creates, 1);
    });
}
