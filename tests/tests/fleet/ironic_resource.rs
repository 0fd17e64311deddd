//! Where Ironic is, as a resource of the ironic-standalone-operator tells it.

use kube::Api;
use metal3_api::metal3::ProvisioningState;
use metal3_scenarios::{FleetSite, LIMIT, PASSWORD, USER, announced, condition, run, waits_for_nothing};
use metal3_testkit::{eventually, namespace};
use serde_json::json;

fn secret(password: &str) -> String {
    let data = json!({"username": USER, "password": password});
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "ironic-api"}, "stringData": data}).to_string()
}

#[test]
fn ironic_is_found_by_its_resource_and_every_lack_of_it_is_told() {
    run(async {
        let mut site = FleetSite::new(namespace!().await, 1, 11).await;
        let proxy = site.endpoint();
        announced::follow(&mut site.config, &site.namespace, proxy);
        let name = site.sim.server(0).name;
        let full = format!("Ironic {}/ironic", site.namespace.name);
        site.start_operator().await;
        let not_ready = async |words: &str| site.expect_waiting(&name, "IronicNotReady", words).await;
        site.apply_hosts().await;
        not_ready(&format!("{full} cannot be read")).await;
        announced::define(&site.namespace).await;
        not_ready(&format!(
            "{full}, which IRONIC_NAME and IRONIC_NAMESPACE name, does not exist"
        ))
        .await;
        announced::apply(&site.namespace, &json!({})).await;
        not_ready("has no condition Ready yet").await;
        announced::say(&site.namespace, "False", 1).await;
        not_ready("is not ready: Deployment: as the test says").await;
        announced::say(&site.namespace, "True", 1).await;
        not_ready("spec.apiCredentialsName").await;
        announced::apply(&site.namespace, &json!({"apiCredentialsName": "ironic-api"})).await;
        not_ready("generation 1 of 2").await;
        announced::say(&site.namespace, "True", 2).await;
        not_ready(&format!("Secret {}/ironic-api", site.namespace.name)).await;
        assert_eq!(site.sim.requests().values().sum::<u64>(), 0, "nobody knew where it is");

        site.namespace.apply(&secret("wrong")).await;
        site.expect_waiting(&name, "IronicUnauthorized", "").await;
        site.namespace.apply(&secret(PASSWORD)).await;
        site.expect_all(ProvisioningState::Available).await;

        // Hosts at rest are left alone; who needs Ironic waits until it is ready again.
        announced::say(&site.namespace, "False", 2).await;
        let is_told = |line: &&str| line.contains("Ironic is not ready") && line.contains("as the test says");
        eventually(LIMIT, "the operator has heard it", || async {
            match site.operator_log().lines().filter(is_told).count() {
                2 => Ok(()),
                count => Err(format!("{count} times")),
            }
        })
        .await;
        site.patch_hosts(&json!({"spec": {"online": false}})).await;
        not_ready("is not ready").await;
        assert!(site.sim.is_on(0));
        announced::say(&site.namespace, "True", 2).await;
        eventually(LIMIT, "the server is off", || async {
            if site.sim.is_on(0) { Err("it is on") } else { Ok(()) }
        })
        .await;
        let hosts: Api<metal3_api::metal3::BareMetalHost> = site.namespace.api();
        eventually(LIMIT, "the host waits for nothing", || async {
            let host = hosts.get(&name).await.map_err(|error| error.to_string())?;
            if waits_for_nothing(&host) {
                Ok(())
            } else {
                Err(format!("{:?}", condition(&host, "Waiting")))
            }
        })
        .await;
        assert_eq!(site.sum().creates, 1);
    });
}
