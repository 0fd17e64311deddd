//! Servers that really boot: what Cluster API, our programs and Ironic make of them is read by real cloud-init, networkd, kubeadm and
//! kubelets. One at a time on a machine; where they cannot boot, the reason is printed.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helper functions too"
)]

mod broken;

use std::collections::BTreeSet;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use kube::api::ListParams;
use kube::{Api, ResourceExt};
use metal3_api::infra::v1beta2::Metal3Remediation;
use metal3_api::metal3::names::annotation::REBOOT;
use metal3_lab::nodes;
use metal3_scenarios::{ClusterEnv, Kind, run};
use serde_json::{Value, json};

/// A cluster, and its file in `examples`.
const NAME: &str = "small";
const SMALL: &str = "cluster/small.yaml";
/// A health check of its workers.
const REMEDIATION: &str = "cluster/remediation.yaml";
const REMEDIATION_TEMPLATE: Kind = Kind(
    "infrastructure.cluster.x-k8s.io",
    "v1beta2",
    "Metal3RemediationTemplate",
);
const HEALTH_CHECK: Kind = Kind("cluster.x-k8s.io", "v1beta2", "MachineHealthCheck");

#[test]
fn three_control_planes_with_their_own_etcd_are_made_replaced_and_deleted() {
    let _turn = nodes::turn().unwrap();
    if let Err(reason) = nodes::probe() {
        println!("NOT RUN: servers cannot really boot here: {reason:#}");
        return;
    }
    run(async {
        let all = 4 + broken::COUNT;
        let env = ClusterEnv::start_real("nodes", u16::try_from(all).unwrap()).await;
        env.apply_hosts(3).await;
        env.expect_available(all).await;
        let before = env.names().await;
        env.apply_cluster(SMALL, NAME, |object| {
            let kind = object.types.as_ref().map_or("", |types| &types.kind);
            let spec = &mut object.data["spec"];
            if kind == "KubeadmControlPlane" {
                spec["replicas"] = json!(3);
                // The old machine is deleted first, so that its server is free for the new one.
                spec["rollout"] = json!({"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0}}});
            } else if kind == "MachineDeployment" {
                spec["replicas"] = json!(1);
            }
        })
        .await;
        let old = machines_after(&env, &BTreeSet::new()).await;
        expect_ready_as_deployed(&env).await;

        let users = env.users().await;
        let worker = users.iter().find(|(_, machine)| machine.starts_with("small-workers-"));
        let host = worker.unwrap().0;
        reboot(&env, host).await;
        remediate(&env, host).await;

        // Each member leaves etcd, and its successor joins it, while the others have the quorum.
        env.copy(
            Kind::MACHINE_TEMPLATE,
            "small-control-plane",
            "small-control-plane-2",
            |_| {},
        )
        .await;
        let reference = json!({"infrastructureRef": {"name": "small-control-plane-2"}});
        let change = json!({"spec": {"machineTemplate": {"spec": reference}}});
        env.patch(Kind::CONTROL_PLANE, NAME, change).await;
        tokio::join!(machines_after(&env, &old), broken::workers_that_never_join(&env));
        broken::one_is_mended(&env).await;
        expect_ready_as_deployed(&env).await;

        env.delete(Kind::CLUSTER, NAME).await;
        env.delete(Kind::DATA_TEMPLATE, NAME).await;
        env.expect_nothing_new(&before).await;
        env.stop().await;
    });
}

/// Waits until the control plane has three machines that were not there before, step by step, and is healthy with its etcd.
/// Returns the names of its machines.
async fn machines_after(env: &ClusterEnv, old: &BTreeSet<String>) -> BTreeSet<String> {
    for count in 1..=3 {
        env.until(
            &format!("{count} of the control plane's machines are new"),
            async || {
                let new: Vec<_> = running(env).await.difference(old).cloned().collect();
                if new.len() >= count {
                    Ok(())
                } else {
                    Err(format!("{new:?}\n{}", env.servers_log()))
                }
            },
        )
        .await;
    }
    env.until("the control plane and its etcd are healthy", async || {
        let control_plane = env.api(Kind::CONTROL_PLANE).get(NAME).await.unwrap();
        let conditions = control_plane.data["status"]["conditions"].as_array().cloned();
        let is_true = |wanted: &str| {
            let mut found = conditions.iter().flatten().filter(|one| one["type"] == wanted);
            found.any(|one: &Value| one["status"] == "True")
        };
        let new = running(env).await;
        let healthy = [
            "Available",
            "EtcdClusterHealthy",
            "ControlPlaneComponentsHealthy",
            "MachinesUpToDate",
        ];
        if new.len() == 3 && new.is_disjoint(old) && healthy.into_iter().all(is_true) {
            Ok(new)
        } else {
            Err(format!("{new:?} {conditions:#?}"))
        }
    })
    .await
}

/// The machines of the control plane that run.
async fn running(env: &ClusterEnv) -> BTreeSet<String> {
    let machines = env.list(Kind::MACHINE).await.into_iter();
    let of_control_plane = machines.filter(|machine| {
        let is_control_plane = machine.labels().contains_key("cluster.x-k8s.io/control-plane");
        is_control_plane && machine.data["status"]["phase"] == "Running"
    });
    of_control_plane.map(|machine| machine.name_any()).collect()
}

/// Waits until there are four Machines and every Node is ready, and checks that its address is that of the network data that its server was deployed with.
async fn expect_ready_as_deployed(env: &ClusterEnv) {
    env.expect_running(4).await;
    let nodes = env
        .until("all Nodes are ready", async || {
            let nodes = env.nodes().await;
            let ready = nodes.iter().filter(|node| is_ready(node)).count();
            if (nodes.len(), ready) == (4, 4) {
                Ok(nodes)
            } else {
                Err(format!("{ready} of {}", nodes.len()))
            }
        })
        .await;
    for node in nodes {
        let name = node.name_any();
        let servers = env.base.ironic.hosts();
        let server = servers.iter().find(|server| server.name == name).unwrap();
        let mut machine = env.base.ironic.machine(server).await.unwrap();
        let drive = machine.deployments.pop().unwrap().config_drive.unwrap();
        let addresses = node.status.unwrap().addresses.unwrap();
        let address = addresses.iter().find(|one| one.type_ == "InternalIP").unwrap();
        let deployed = &drive.network_data.unwrap()["networks"][0]["ip_address"];
        assert_eq!(json!(address.address), *deployed, "{name}");
    }
}

fn is_ready(node: &Node) -> bool {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions
        .into_iter()
        .any(|one| one.type_ == "Ready" && one.status == "True")
}

/// Power-cycles a host hard, and waits until its kubelet reports again.
async fn reboot(env: &ClusterEnv, host: &str) {
    let boots = || env.servers_log().matches(&format!("{host}: boots")).count();
    let leases: Api<Lease> = Api::namespaced(env.cluster_client().await.unwrap(), "kube-node-lease");
    let renewed = async || leases.get(host).await.unwrap().spec.unwrap().renew_time.unwrap();
    let before = boots();
    let change = json!({"metadata": {"annotations": {REBOOT: r#"{"mode":"hard"}"#}}});
    env.base.patch(host, change).await;
    env.until("the server boots again", async || {
        if boots() > before {
            Ok(())
        } else {
            Err(env.servers_log())
        }
    })
    .await;
    let last = renewed().await;
    env.until("its kubelet reports again", async || {
        let now = renewed().await;
        if now.0 > last.0 {
            Ok(())
        } else {
            Err(format!("{now:?}"))
        }
    })
    .await;
}

/// A kubelet hangs. The control plane misses it, Cluster API's health check asks for remediation, ours power-cycles the server, and
/// the Node is ready again, on the same Machine.
async fn remediate(env: &ClusterEnv, host: &str) {
    let machines = env.expect_running(4).await;
    let boots = || env.servers_log().matches(&format!("{host}: boots")).count();
    let before = boots();
    // The example is for another cluster, whose workers may be silent for five minutes.
    env.apply_example(REMEDIATION, |object| {
        let text = serde_json::to_string(object).unwrap().replace("production", NAME);
        *object = serde_json::from_str(&text).unwrap();
        let checks = object.data.pointer_mut("/spec/checks/unhealthyNodeConditions");
        for check in checks.and_then(Value::as_array_mut).into_iter().flatten() {
            check["timeoutSeconds"] = json!(1);
        }
    })
    .await;
    env.servers().hang_kubelet(host).unwrap();
    let remediations: Api<Metal3Remediation> = env.base.namespace.api();
    let list = async || remediations.list(&ListParams::default()).await.unwrap().items;
    env.until("the health check asks for remediation", async || {
        let found = list().await;
        if found.len() == 1 {
            Ok(())
        } else {
            Err(format!("{found:?}"))
        }
    })
    .await;
    env.until("the server boots again, and is healthy", async || {
        let nodes = env.nodes().await;
        let node = nodes.iter().find(|node| node.name_any() == host);
        let taints = node.and_then(|node| node.spec.as_ref()?.taints.clone());
        let is_well = node.is_some_and(is_ready) && taints.is_none() && list().await.is_empty();
        if boots() == before + 1 && is_well {
            Ok(())
        } else {
            Err(format!("{taints:?} {:?}\n{}", list().await, env.servers_log()))
        }
    })
    .await;
    env.delete(HEALTH_CHECK, &format!("{NAME}-workers")).await;
    env.delete(REMEDIATION_TEMPLATE, "reboot").await;
    assert_eq!(
        env.expect_running(4).await,
        machines,
        "the same Machines on the same hosts"
    );
}
