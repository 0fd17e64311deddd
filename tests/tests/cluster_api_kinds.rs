//! Reads Cluster API's kinds with its real CRDs: objects with all fields that Cluster API stores can be parsed, and our writes
//! lose none of them.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helper functions too"
)]

use kube::Api;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use metal3_api::capi::names::{condition, reason};
use metal3_api::capi::{
    Cluster, IPAddress, IPAddressClaim, IPAddressClaimStatus, IPAddressReference, KubeadmControlPlane, Machine,
    MachineDeployment, MachineSet,
};
use metal3_api::condition::{Condition, ConditionStatus};
use metal3_lab::{apply, binaries};
use metal3_testkit::{TestNamespace, namespace};
use serde_json::{Value, json};

async fn namespace_with_kinds(namespace: TestNamespace) -> TestNamespace {
    let folders = tokio::task::spawn_blocking(binaries::cluster_api_definitions);
    for folder in folders.await.unwrap().unwrap() {
        apply::apply_crds(&namespace.client, &folder).await.unwrap();
    }
    namespace
}

/// Access to everything in an object.
fn whole(namespace: &TestNamespace, group: &str, kind: &str) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1beta2", kind));
    Api::namespaced_with(namespace.client.clone(), &namespace.name, &resource)
}

const CLUSTER: &str = "
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: c, labels: {a: b}}
spec:
  paused: true
  controlPlaneEndpoint: {host: 192.0.2.1, port: 6443}
  clusterNetwork: {pods: {cidrBlocks: [192.168.0.0/18]}, serviceDomain: cluster.local}
  infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: Metal3Cluster, name: c}
  controlPlaneRef: {apiGroup: controlplane.cluster.x-k8s.io, kind: KubeadmControlPlane, name: c}
  topology: {classRef: {name: class}, version: v1.36.0, variables: [{name: x, value: {y: [1, 2]}}]}
";

#[tokio::test]
async fn a_cluster_keeps_all_that_a_merge_patch_does_not_name() {
    let namespace = namespace_with_kinds(namespace!().await).await;
    namespace.apply(CLUSTER).await;
    let clusters: Api<Cluster> = namespace.api();
    let cluster = clusters.get("c").await.unwrap();
    assert!(cluster.is_paused() && !cluster.is_infrastructure_ready());
    assert!(cluster.spec.control_plane_endpoint.is_complete());
    assert_eq!(cluster.spec.infrastructure_ref.unwrap().kind, "Metal3Cluster");
    let whole = whole(&namespace, "cluster.x-k8s.io", "Cluster");
    let before = whole.get("c").await.unwrap().data;
    let patch = json!({ "metadata": { "annotations": { "example.org/seen": "yes" } }, "spec": { "paused": false } });
    let patched = clusters
        .patch("c", &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .unwrap();
    assert!(!patched.is_paused());
    let mut expected = before;
    expected["spec"]["paused"] = json!(false);
    assert_eq!(whole.get("c").await.unwrap().data["spec"], expected["spec"]);
}

const MACHINE: &str = "
apiVersion: cluster.x-k8s.io/v1beta2
kind: Machine
metadata: {name: m}
spec:
  clusterName: c
  bootstrap: {dataSecretName: m-data}
  infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: Metal3Machine, name: m3}
  failureDomain: rack-1
  readinessGates: [{conditionType: Example}]
";

#[tokio::test]
async fn a_machine_takes_one_more_condition_and_keeps_the_others() {
    let namespace = namespace_with_kinds(namespace!().await).await;
    namespace.apply(MACHINE).await;
    let machines: Api<Machine> = namespace.api();
    let time = "2026-01-02T03:04:05Z";
    let unhealthy = json!({
        "type": "HealthCheckSucceeded", "status": "False", "reason": "NodeGone", "message": "for 5 minutes",
        "observedGeneration": 1, "lastTransitionTime": time,
    });
    let status = json!({ "status": {
        "phase": "Running", "nodeRef": { "name": "node-0" }, "addresses": [{ "type": "InternalIP", "address": "192.0.2.9" }],
        "conditions": [unhealthy],
        "deprecated": { "v1beta1": { "conditions": [{
            "type": "Ready", "status": "False", "severity": "Info", "reason": "R", "lastTransitionTime": time,
        }] } },
    } });
    let seen = machines
        .patch_status("m", &PatchParams::default(), &Patch::Merge(&status))
        .await
        .unwrap();
    assert_eq!(seen.spec.bootstrap.data_secret_name.as_deref(), Some("m-data"));
    assert_eq!(seen.spec.failure_domain, "rack-1");
    assert_eq!(seen.status.node_ref.name, "node-0");
    assert_eq!(seen.status.deprecated.v1beta1.conditions[0].severity, "Info");

    let mut conditions = seen.status.conditions.clone();
    conditions.push(Condition {
        type_: condition::OWNER_REMEDIATED.to_owned(),
        status: ConditionStatus::False,
        observed_generation: None,
        last_transition_time: conditions[0].last_transition_time.clone(),
        reason: reason::WAITING_FOR_REMEDIATION.to_owned(),
        message: String::new(),
    });
    let patch = json!({
        "metadata": { "resourceVersion": seen.metadata.resource_version },
        "status": { "conditions": conditions },
    });
    machines
        .patch_status("m", &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .unwrap();
    let stored = whole(&namespace, "cluster.x-k8s.io", "Machine")
        .get("m")
        .await
        .unwrap()
        .data;
    let mut expected = status["status"].clone();
    let added = json!({
        "type": "OwnerRemediated", "status": "False", "reason": "WaitingForRemediation", "message": "",
        "lastTransitionTime": time,
    });
    expected["conditions"] = json!([unhealthy, added]);
    assert_eq!(stored["status"], expected);
    // A concurrent write by another client must not be overwritten.
    let stale = machines
        .patch_status("m", &PatchParams::default(), &Patch::Merge(&patch))
        .await;
    assert!(stale.unwrap_err().to_string().contains("modified"));
}

const MAKERS: &str = "
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineDeployment
metadata: {name: d}
spec:
  clusterName: c
  replicas: 3
  selector: {matchLabels: {a: b}}
  template:
    metadata: {labels: {a: b}}
    spec:
      clusterName: c
      bootstrap: {dataSecretName: x}
      infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: Metal3MachineTemplate, name: workers}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineSet
metadata: {name: s}
spec:
  clusterName: c
  replicas: 3
  selector: {matchLabels: {a: b}}
  template:
    metadata: {labels: {a: b}}
    spec:
      clusterName: c
      bootstrap: {dataSecretName: x}
      infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: Metal3MachineTemplate, name: workers}
---
apiVersion: controlplane.cluster.x-k8s.io/v1beta2
kind: KubeadmControlPlane
metadata: {name: k}
spec:
  replicas: 1
  version: v1.36.0
  machineTemplate:
    spec:
      infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: Metal3MachineTemplate, name: control-plane}
";

#[tokio::test]
async fn what_makes_machines_tells_its_template() {
    let namespace = namespace_with_kinds(namespace!().await).await;
    namespace.apply(MAKERS).await;
    let deployment = namespace.api::<MachineDeployment>().get("d").await.unwrap();
    let set = namespace.api::<MachineSet>().get("s").await.unwrap();
    let control_plane = namespace.api::<KubeadmControlPlane>().get("k").await.unwrap();
    assert_eq!((deployment.spec.replicas, set.spec.replicas), (Some(3), Some(3)));
    let names = [
        &deployment.infrastructure_template().name,
        &set.infrastructure_template().name,
        &control_plane.infrastructure_template().name,
    ];
    assert_eq!(names, ["workers", "workers", "control-plane"]);
}

const CLAIM: &str = "
apiVersion: ipam.cluster.x-k8s.io/v1beta2
kind: IPAddressClaim
metadata: {name: a}
spec: {clusterName: c, poolRef: {apiGroup: ipam.metal3.io, kind: IPPool, name: p}}
";

const ADDRESS: &str = "
apiVersion: ipam.cluster.x-k8s.io/v1beta2
kind: IPAddress
metadata: {name: p-192-0-2-1}
spec:
  address: 192.0.2.1
  prefix: 24
  gateway: 192.0.2.254
  claimRef: {name: a}
  poolRef: {apiGroup: ipam.metal3.io, kind: IPPool, name: p}
";

#[tokio::test]
async fn claims_and_addresses_are_written_whole_without_a_loss() {
    let namespace = namespace_with_kinds(namespace!().await).await;
    namespace.apply(CLAIM).await;
    let claims: Api<IPAddressClaim> = namespace.api();
    let deprecated = json!({ "v1beta1": { "conditions": [{
        "type": "Ready", "status": "True", "lastTransitionTime": "2026-01-02T03:04:05Z",
    }] } });
    let patch = json!({ "status": { "deprecated": deprecated } });
    let mut claim = claims
        .patch_status("a", &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .unwrap();
    claim.status = Some(IPAddressClaimStatus {
        address_ref: Some(IPAddressReference {
            name: "p-192-0-2-1".to_owned(),
        }),
        ..claim.status.unwrap()
    });
    claims
        .replace_status("a", &PostParams::default(), &claim)
        .await
        .unwrap();
    let stored = whole(&namespace, "ipam.cluster.x-k8s.io", "IPAddressClaim");
    let expected = json!({ "addressRef": { "name": "p-192-0-2-1" }, "deprecated": deprecated });
    assert_eq!(stored.get("a").await.unwrap().data["status"], expected);

    let mut address = namespace.apply(ADDRESS).await.remove(0);
    let spec: Value = address.data["spec"].take();
    let addresses: Api<IPAddress> = namespace.api();
    let mut again = addresses.get("p-192-0-2-1").await.unwrap();
    assert_eq!(serde_json::to_value(&again.spec).unwrap(), spec);
    again.metadata.name = Some("p-192-0-2-2".to_owned());
    again.metadata.resource_version = None;
    again.metadata.managed_fields = None;
    let made = addresses.create(&PostParams::default(), &again).await.unwrap();
    assert_eq!(made.spec, again.spec);
}
