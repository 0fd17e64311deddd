//! A resource `Ironic` that announces where Ironic is. The ironic-standalone-operator does not run here: scenarios write its
//! status.

use kube::Api;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams};
use metal3_lab::operator::OperatorConfig;
use metal3_testkit::TestNamespace;
use serde_json::{Value, json};

/// The resource's name.
pub const NAME: &str = "ironic";

/// Makes the operator follow the resource of this namespace. The announced host name does not resolve on this machine: a proxy
/// leads to Ironic, whatever the name.
pub fn follow(config: &mut OperatorConfig, namespace: &TestNamespace, proxy: String) {
    config.args.push(format!("--ironic-name={NAME}"));
    config.args.push(format!("--ironic-namespace={}", namespace.name));
    config.env.push(("ALL_PROXY".into(), proxy.into()));
}

/// Installs the CRD, with the relevant part of its schema.
pub async fn define(namespace: &TestNamespace) {
    let anything = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "ironics.ironic.metal3.io"},
        "spec": {
            "group": "ironic.metal3.io", "scope": "Namespaced",
            "names": {"kind": "Ironic", "plural": "ironics", "singular": "ironic", "listKind": "IronicList"},
            "versions": [{"name": "v1alpha1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": anything, "status": anything}}}}],
        },
    });
    namespace.apply(&definition.to_string()).await;
}

/// Applies the resource.
pub async fn apply(namespace: &TestNamespace, spec: &Value) {
    let ironic =
        json!({"apiVersion": "ironic.metal3.io/v1alpha1", "kind": "Ironic", "metadata": {"name": NAME}, "spec": spec});
    namespace.apply(&ironic.to_string()).await;
}

/// Plays the ironic-standalone-operator: the status of the condition `Ready` for this generation.
pub async fn say(namespace: &TestNamespace, ready: &str, generation: i64) {
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("ironic.metal3.io", "v1alpha1", "Ironic"));
    let api: Api<DynamicObject> = Api::namespaced_with(namespace.client.clone(), &namespace.name, &kind);
    let condition = json!({"type": "Ready", "status": ready, "reason": "Deployment", "message": "as the test says",
        "observedGeneration": generation, "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let change = Patch::Merge(json!({"status": {"conditions": [condition]}}));
    let written = api.patch_status(NAME, &PatchParams::default(), &change).await;
    written.expect("the status is accepted");
}
