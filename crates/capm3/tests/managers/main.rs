//! The provider with Cluster API's own managers, unmodified: they make Machines and find their Nodes, we find hosts. What the
//! baremetal-operator would do to hosts, and a kubelet in the workload cluster, the test does.

#![expect(clippy::unwrap_used, reason = "what goes wrong in a test fails the test")]

mod class;
mod hosts;
#[path = "../provider/support.rs"]
#[expect(dead_code, reason = "the other program uses the rest")]
mod support;

mod remediation;

use std::time::Duration;

use hosts::turns;
use k8s_openapi::api::core::v1::Node;
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::{Api, ResourceExt};
use metal3_api::capi::Cluster;
use metal3_api::infra::v1beta2::Metal3Machine;
use metal3_api::metal3::{BareMetalHost, ProvisioningState};
use metal3_lab::ControlPlane;
use metal3_lab::cluster_api::ClusterApi;
use metal3_testkit::{TestNamespace, eventually, namespace, server, with_controller_manager};
use serde_json::{Value, json};
use support::{Running, Site};
use tokio::sync::{Mutex, OnceCell};

/// Cluster API's managers look again at what failed after up to half a minute.
const LIMIT: Duration = Duration::from_secs(150);

/// Cluster API's managers, which all tests here share. They end with this process.
async fn cluster_api(server: &ControlPlane) {
    static RUNNING: OnceCell<ClusterApi> = OnceCell::const_new();
    let start = async { ClusterApi::start(server).await.unwrap() };
    RUNNING.get_or_init(|| start).await.ensure_alive().unwrap();
}

/// Plays the operator and the kubelets for a while: a host that is told what to run runs it, and its node joins.
async fn play(site: &Site, nodes: &Api<Node>) {
    for (host, state) in turns(site).await {
        let name = host.name_any();
        site.host_becomes(&name, state.as_str()).await;
        let node = format!("{}-{name}", site.namespace.name);
        if state == ProvisioningState::Provisioned {
            let made = json!({"metadata": {"name": node, "labels": {"metal3.io/uuid": host.uid()}}});
            let made = serde_json::from_value(made).unwrap();
            nodes.create(&PostParams::default(), &made).await.unwrap();
        } else {
            nodes.delete(&node, &DeleteParams::default()).await.ok();
        }
    }
}

fn deployment(replicas: u32) -> Value {
    let of_cluster = json!({"cluster.x-k8s.io/cluster-name": "c"});
    let reference =
        json!({"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "Metal3MachineTemplate", "name": "t"});
    json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineDeployment",
        "metadata": {"name": "workers", "labels": of_cluster},
        "spec": {"clusterName": "c", "replicas": replicas, "selector": {"matchLabels": of_cluster},
            "template": {"metadata": {"labels": of_cluster}, "spec": {"clusterName": "c", "version": "v1.35.0",
                "bootstrap": {"dataSecretName": "b"}, "infrastructureRef": reference}}}})
}

async fn phases(site: &Site) -> Vec<String> {
    let machines = site.namespace.api::<metal3_api::capi::Machine>();
    let resource = kube::api::ApiResource::erase::<metal3_api::capi::Machine>(&());
    let all: Api<kube::api::DynamicObject> =
        Api::namespaced_with(machines.into_client(), &site.namespace.name, &resource);
    let listed = all.list(&ListParams::default()).await.unwrap();
    let phase = |machine: kube::api::DynamicObject| {
        let status = &machine.data["status"];
        format!(
            "{} {}",
            status["phase"].as_str().unwrap_or_default(),
            status["nodeRef"]["name"].as_str().is_some()
        )
    };
    listed.into_iter().map(phase).collect()
}

/// One test at a time: two cores have enough to do with one.
static ALONE: Mutex<()> = Mutex::const_new(());

/// The provider, hosts, and Cluster c, whose workload cluster is the same API server.
struct Stage {
    site: Site,
    provider: Running,
}

impl Stage {
    async fn new(namespace: TestNamespace, hosts: &[&str]) -> Self {
        cluster_api(server().await).await;
        let site = Site::beside_managers(namespace).await;
        let provider = site.provider().await;
        for name in hosts {
            site.host(name, json!({}), "available").await;
        }
        site.secret("bmc").await;
        site.secret("b").await;
        let admin = std::fs::read_to_string(site.namespace.server().admin_kubeconfig()).unwrap();
        site.apply(
            json!({"apiVersion": "v1", "kind": "Secret", "type": "cluster.x-k8s.io/secret",
            "metadata": {"name": "c-kubeconfig", "labels": {"cluster.x-k8s.io/cluster-name": "c"}},
            "stringData": {"value": admin}}),
        )
        .await;
        let group = "infrastructure.cluster.x-k8s.io";
        site.apply(
            json!({"apiVersion": format!("{group}/v1beta2"), "kind": "Metal3Cluster", "metadata": {"name": "c"},
            "spec": {"controlPlaneEndpoint": {"host": "192.0.2.1", "port": 6443}}}),
        )
        .await;
        let reference = json!({"apiGroup": group, "kind": "Metal3Cluster", "name": "c"});
        site.apply(
            json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": {"name": "c"},
            "spec": {"infrastructureRef": reference}}),
        )
        .await;
        site.apply(
            json!({"apiVersion": format!("{group}/v1beta2"), "kind": "Metal3MachineTemplate", "metadata": {"name": "t"},
            "spec": {"template": {"spec": {"image": {"url": "http://images/i.qcow2", "checksum": "abc"}}}}}),
        )
        .await;
        // Nobody brings up a control plane here: that of the workload cluster is there already.
        let there = json!({"status": {"initialization": {"controlPlaneInitialized": true}}});
        site.patch_status::<Cluster>("c", there).await;
        Self { site, provider }
    }

    async fn stop(self) {
        self.provider.stop().await;
    }
}

#[tokio::test]
async fn machines_of_a_deployment_become_nodes_and_go_again() {
    let _alone = ALONE.lock().await;
    with_controller_manager();
    let stage = Stage::new(namespace!().await, &["h0", "h1", "h2"]).await;
    let site = &stage.site;
    site.apply(deployment(2)).await;

    let nodes: Api<Node> = Api::all(site.namespace.client.clone());
    eventually(LIMIT, "both Machines run with their Nodes", || async {
        play(site, &nodes).await;
        let phases = phases(site).await;
        if phases == ["Running true", "Running true"] {
            Ok(())
        } else {
            Err(format!("{phases:?}"))
        }
    })
    .await;
    let machines: Api<Metal3Machine> = site.namespace.api();
    for machine in machines.list(&ListParams::default()).await.unwrap() {
        let id = machine.spec.provider_id;
        let with_it = nodes.list(&ListParams::default()).await.unwrap();
        let with_it = with_it
            .iter()
            .filter(|node| node.spec.as_ref().and_then(|spec| spec.provider_id.as_ref()) == Some(&id));
        assert_eq!(with_it.count(), 1, "{id}");
    }

    // One more, and then none: every host is free again, and nothing of ours is left.
    site.apply(deployment(3)).await;
    eventually(LIMIT, "the third runs", || async {
        play(site, &nodes).await;
        let phases = phases(site).await;
        if phases == ["Running true"; 3] {
            Ok(())
        } else {
            Err(format!("{phases:?}"))
        }
    })
    .await;
    let clusters: Api<Cluster> = site.namespace.api();
    clusters.delete("c", &DeleteParams::default()).await.unwrap();
    eventually(LIMIT, "the Cluster is gone, and every host is free", || async {
        play(site, &nodes).await;
        let left = clusters.get_opt("c").await.unwrap();
        let hosts: Api<BareMetalHost> = site.namespace.api();
        let hosts = hosts.list(&ListParams::default()).await.unwrap();
        let used: Vec<_> = hosts
            .iter()
            .filter(|host| host.spec.consumer_ref.is_some())
            .map(ResourceExt::name_any)
            .collect();
        let machines = machines.list(&ListParams::default()).await.unwrap().items.len();
        if left.is_none() && used.is_empty() && machines == 0 {
            Ok(())
        } else {
            Err(format!(
                "cluster: {}, hosts in use: {used:?}, Metal3Machines: {machines}",
                left.is_some()
            ))
        }
    })
    .await;
    stage.stop().await;
}
