//! The webhooks of our programs, as the API server asks them.

use cluster_api_provider_metal3::webhooks as of_provider;
use metal3_testkit::TestNamespace;

/// Lets the API server ask the webhooks of all programs about the objects of this namespace, until the test binary ends. They run in
/// this process.
pub async fn admit(namespace: &TestNamespace) {
    // Each breaks a rule that no definition has.
    let wrong = "{apiVersion: infrastructure.cluster.x-k8s.io/v1beta2, kind: Metal3Machine, metadata: {name: wrong}, \
        spec: {customDeploy: {method: m}, userData: {name: a, namespace: other}}}";
    namespace
        .serve(of_provider::all(), of_provider::installed::INSTALLED, wrong)
        .await;
    let wrong = "{apiVersion: ipam.metal3.io/v1alpha1, kind: IPClaim, \
        metadata: {name: wrong, annotations: {ipAddress: none}}, spec: {pool: {name: p}}}";
    let manager = ip_address_manager::webhooks::all();
    namespace
        .serve(manager, ip_address_manager::webhooks::INSTALLED, wrong)
        .await;
    let wrong = "{apiVersion: metal3.io/v1alpha1, kind: BareMetalHost, metadata: {name: wrong}, \
        spec: {online: true, userData: {name: a, namespace: other}}}";
    let operator = baremetal_operator::webhooks::all(|_| Ok(Vec::new()));
    namespace
        .serve(operator, baremetal_operator::webhooks::INSTALLED, wrong)
        .await;
}
