//! Where Ironic is, as a resource of the ironic-standalone-operator tells it.

use kube::Api;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams};
use metal3_api::metal3::ProvisioningState;
use metal3_scenarios::{FleetSite, LIMIT, PASSWORD, USER, condition, run, waits_for_nothing};
use metal3_testkit::{eventually, namespace};
use serde_json::{Value, json};

/// The kind with as much of its schema as matters.
fn definition() -> Value {
    let anything = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "ironics.ironic.metal3.io"},
        "spec": {
            "group": "ironic.metal3.io", "scope": "Namespaced",
            "names": {"kind": "Ironic", "plural": "ironics", "singular": "ironic", "listKind": "IronicList"},
            "versions": [{"name": "v1alpha1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": anything, "status": anything}}}}],
        },
    })
}

fn ironic(spec: &Value) -> String {
    json!({"apiVersion": "ironic.metal3.io/v1alpha1", "kind": "Ironic", "metadata": {"name": "ironic"}, "spec": spec})
        .to_string()
}

fn secret(password: &str) -> String {
    let data = json!({"username": USER, "password": password});
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "ironic-api"}, "stringData": data}).to_string()
}

/// What the ironic-standalone-operator says of the resource.
async fn say(site: &FleetSite, status: &str, generation: i64) {
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("ironic.metal3.io", "v1alpha1", "Ironic"));
    let api: Api<DynamicObject> = Api::namespaced_with(site.namespace.client.clone(), &site.namespace.name, &kind);
    let ready = json!({"type": "Ready", "status": status, "reason": "Deployment", "message": "as the test says",
        "observedGeneration": generation, "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let change = Patch::Merge(json!({"status": {"conditions": [ready]}}));
    let written = api.patch_status("ironic", &PatchParams::default(), &change).await;
    written.expect("the status is accepted");
}

/// The name by which the resource announces Ironic means nothing on this machine: a proxy leads to it, whatever the name.
#[test]
fn ironic_is_found_by_its_resource_and_every_lack_of_it_is_told() {
    run(async {
        let mut site = FleetSite::new(namespace!().await, 1, 11).await;
        site.config.args.push("--ironic-name=ironic".to_owned());
        site.config
            .args
            .push(format!("--ironic-namespace={}", site.namespace.name));
        let proxy = site.endpoint();
        site.config.env.push(("ALL_PROXY".to_owned(), proxy));
        let name = site.sim.server(0).name;
        let full = format!("Ironic {}/ironic", site.namespace.name);
        site.start_operator().await;
        let not_ready = async |words: &str| site.expect_waiting(&name, "IronicNotReady", words).await;
        site.apply_hosts().await;
        not_ready(&format!("{full} cannot be read")).await;
        site.namespace.apply(&definition().to_string()).await;
        not_ready(&format!(
            "{full}, which IRONIC_NAME and IRONIC_NAMESPACE name, does not exist"
        ))
        .await;
        site.namespace.apply(&ironic(&json!({}))).await;
        not_ready("has no condition Ready yet").await;
        say(&site, "False", 1).await;
        not_ready("is not ready: Deployment: as the test says").await;
        say(&site, "True", 1).await;
        not_ready("spec.apiCredentialsName").await;
        site.namespace
            .apply(&ironic(&json!({"apiCredentialsName": "ironic-api"})))
            .await;
        not_ready("generation 1 of 2").await;
        say(&site, "True", 2).await;
        not_ready(&format!("Secret {}/ironic-api", site.namespace.name)).await;
        assert_eq!(site.sim.requests().values().sum::<u64>(), 0, "nobody knew where it is");

        site.namespace.apply(&secret("wrong")).await;
        site.expect_waiting(&name, "IronicUnauthorized", "").await;
        site.namespace.apply(&secret(PASSWORD)).await;
        site.expect_all(ProvisioningState::Available).await;

        // Hosts at rest are left alone; who needs Ironic waits until it is ready again.
        say(&site, "False", 2).await;
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
        say(&site, "True", 2).await;
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
