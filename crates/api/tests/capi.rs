//! Cluster API's objects: what is read of them, and that nothing of them is lost.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use kube::Resource;
use metal3_api::capi::*;
use serde::Serialize;
use serde_json::{Value, json};
use std::marker::PhantomData;

/// Tells whether a type can be serialised: the constant of the implementation is found before that of the trait.
struct Probe<T>(PhantomData<T>);

impl<T: Serialize> Probe<T> {
    const WRITABLE: bool = true;
}

trait NotWritable {
    const WRITABLE: bool = false;
}

impl<T> NotWritable for Probe<T> {}

/// Who writes a part of an object back as a whole deletes the rest of it.
#[test]
fn what_is_read_in_part_cannot_be_written_whole() {
    let writable = [
        Probe::<Cluster>::WRITABLE,
        Probe::<Machine>::WRITABLE,
        Probe::<MachineSet>::WRITABLE,
        Probe::<MachineDeployment>::WRITABLE,
        Probe::<KubeadmControlPlane>::WRITABLE,
        Probe::<ClusterSpec>::WRITABLE,
        Probe::<MachineStatus>::WRITABLE,
        // And the probe can tell.
        Probe::<IPAddressClaim>::WRITABLE,
        Probe::<IPAddress>::WRITABLE,
    ];
    assert_eq!(writable, [false, false, false, false, false, false, false, true, true]);
}

#[test]
fn kinds_are_called_as_cluster_api_calls_them() {
    fn url<K: Resource<DynamicType = ()>>() -> String {
        K::url_path(&(), None)
    }
    assert_eq!(url::<Cluster>(), "/apis/cluster.x-k8s.io/v1beta2/clusters");
    assert_eq!(url::<Machine>(), "/apis/cluster.x-k8s.io/v1beta2/machines");
    assert_eq!(url::<MachineSet>(), "/apis/cluster.x-k8s.io/v1beta2/machinesets");
    assert_eq!(
        url::<MachineDeployment>(),
        "/apis/cluster.x-k8s.io/v1beta2/machinedeployments"
    );
    assert_eq!(
        url::<KubeadmControlPlane>(),
        "/apis/controlplane.cluster.x-k8s.io/v1beta2/kubeadmcontrolplanes"
    );
    assert_eq!(
        url::<IPAddressClaim>(),
        "/apis/ipam.cluster.x-k8s.io/v1beta2/ipaddressclaims"
    );
    assert_eq!(url::<IPAddress>(), "/apis/ipam.cluster.x-k8s.io/v1beta2/ipaddresses");
}

#[test]
fn a_cluster_says_whether_it_is_paused_and_ready() {
    let cluster: Cluster = serde_json::from_value(json!({
        "metadata": { "name": "c", "labels": { "a": "b" } },
        "spec": {
            "paused": true,
            "controlPlaneEndpoint": { "host": "192.0.2.1", "port": 6443 },
            "infrastructureRef": { "apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "Metal3Cluster", "name": "c" },
            "topology": { "classRef": { "name": "x" } },
        },
        "status": { "initialization": { "infrastructureProvisioned": true }, "phase": "Provisioned" },
    }))
    .unwrap();
    assert!(cluster.is_paused() && cluster.is_infrastructure_ready());
    assert!(!cluster.status.initialization.control_plane_initialized);
    assert!(cluster.spec.control_plane_endpoint.is_complete());
    let infrastructure = cluster.spec.infrastructure_ref.unwrap();
    assert!(infrastructure.is_of(names::group::INFRASTRUCTURE, "Metal3Cluster"));
    assert!(!infrastructure.is_of(names::group::CORE, "Metal3Cluster"));
    let empty: Cluster = serde_json::from_value(json!({ "metadata": { "name": "c" } })).unwrap();
    assert!(!empty.is_paused() && !empty.is_infrastructure_ready());
    assert!(!empty.spec.control_plane_endpoint.is_complete());
}

#[test]
fn a_machine_tells_what_its_infrastructure_waits_for() {
    let machine: Machine = serde_json::from_value(json!({
        "metadata": { "name": "m", "labels": { "cluster.x-k8s.io/control-plane": "" } },
        "spec": {
            "clusterName": "c",
            "bootstrap": { "dataSecretName": "m-data", "configRef": { "apiGroup": "g", "kind": "KubeadmConfig", "name": "m" } },
            "infrastructureRef": { "apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "Metal3Machine", "name": "m3" },
            "version": "v1.36.0", "providerID": "metal3://n/h/m", "failureDomain": "rack-1",
        },
        "status": {
            "nodeRef": { "name": "node-1" },
            "conditions": [{
                "type": "HealthCheckSucceeded", "status": "False", "reason": "R", "message": "", "observedGeneration": 3,
                "lastTransitionTime": "2026-01-02T03:04:05Z",
            }],
            "deprecated": { "v1beta1": { "conditions": [{
                "type": "OwnerRemediated", "status": "False", "severity": "Warning", "reason": "WaitingForRemediation",
                "lastTransitionTime": "2026-01-02T03:04:05Z",
            }] } },
        },
    }))
    .unwrap();
    assert_eq!(machine.spec.bootstrap.data_secret_name.as_deref(), Some("m-data"));
    assert_eq!(machine.spec.provider_id, "metal3://n/h/m");
    assert_eq!(machine.status.node_ref.name, "node-1");
    // Lists are written back as a whole, so their items must be complete.
    let conditions = serde_json::to_value(&machine.status.conditions).unwrap();
    assert_eq!(conditions[0]["observedGeneration"], 3);
    let legacy = serde_json::to_value(&machine.status.deprecated.v1beta1.conditions).unwrap();
    let expected = json!([{
        "type": "OwnerRemediated", "status": "False", "severity": "Warning", "reason": "WaitingForRemediation",
        "lastTransitionTime": "2026-01-02T03:04:05Z",
    }]);
    assert_eq!(legacy, expected);
}

#[test]
fn what_makes_machines_names_its_template() {
    let reference = json!({ "apiGroup": "g", "kind": "Metal3MachineTemplate", "name": "t" });
    let template = json!({ "spec": { "template": { "spec": { "infrastructureRef": reference } } } });
    let set: MachineSet = serde_json::from_value(template.clone()).unwrap();
    let deployment: MachineDeployment = serde_json::from_value(template).unwrap();
    let control_plane: KubeadmControlPlane = serde_json::from_value(
        json!({ "spec": { "machineTemplate": { "spec": { "infrastructureRef": reference } } } }),
    )
    .unwrap();
    for found in [
        set.infrastructure_template(),
        deployment.infrastructure_template(),
        control_plane.infrastructure_template(),
    ] {
        assert_eq!(found.name, "t");
    }
}

fn claim() -> Value {
    json!({
        "apiVersion": "ipam.cluster.x-k8s.io/v1beta2",
        "kind": "IPAddressClaim",
        "metadata": { "name": "a", "namespace": "n" },
        "spec": { "clusterName": "c", "poolRef": { "apiGroup": "ipam.metal3.io", "kind": "IPPool", "name": "p" } },
        "status": {
            "addressRef": { "name": "p-192-0-2-1" },
            "conditions": [{
                "type": "Ready", "status": "True", "reason": "Ready", "message": "",
                "lastTransitionTime": "2026-01-02T03:04:05Z",
            }],
        },
    })
}

fn address() -> Value {
    json!({
        "apiVersion": "ipam.cluster.x-k8s.io/v1beta2",
        "kind": "IPAddress",
        "metadata": { "name": "a", "namespace": "n" },
        "spec": {
            "claimRef": { "name": "c" },
            "poolRef": { "apiGroup": "ipam.metal3.io", "kind": "IPPool", "name": "p" },
            "address": "192.0.2.1", "prefix": 0, "gateway": "192.0.2.254",
        },
    })
}

#[test]
fn claims_and_addresses_keep_what_they_do_not_know() {
    let (mut claim, mut address) = (claim(), address());
    assert_eq!(serde_json::to_value(from::<IPAddressClaim>(&claim)).unwrap(), claim);
    assert_eq!(serde_json::to_value(from::<IPAddress>(&address)).unwrap(), address);
    claim["spec"]["fromTheFuture"] = json!([{ "a": null }]);
    claim["status"]["deprecated"] = json!({ "v1beta1": { "conditions": [{ "type": "Ready" }] } });
    address["spec"]["dnsServers"] = json!(["192.0.2.53"]);
    assert_eq!(serde_json::to_value(from::<IPAddressClaim>(&claim)).unwrap(), claim);
    assert_eq!(serde_json::to_value(from::<IPAddress>(&address)).unwrap(), address);
}

fn from<K: serde::de::DeserializeOwned>(value: &Value) -> K {
    serde_json::from_value(value.clone()).unwrap()
}

#[test]
fn defaults_write_no_null() {
    let claim = serde_json::to_string(&IPAddressClaim::default()).unwrap();
    let address = serde_json::to_string(&IPAddress::default()).unwrap();
    let status = serde_json::to_string(&IPAddressClaimStatus::default()).unwrap();
    assert!(
        !claim.contains("null") && !address.contains("null"),
        "{claim} {address}"
    );
    assert_eq!(status, "{}");
}
