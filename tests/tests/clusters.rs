//! From a Cluster to Nodes and back, with everything real but the servers and their kubelets: Cluster API's managers, our
//! three programs, Ironic.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helper functions too"
)]

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube::api::{DynamicObject, ListParams};
use metal3_api::metal3::ProvisioningState;
use metal3_scenarios::{ClusterSite, Kind, description, run, state};
use serde_json::json;

const NAME: &str = "small";
const EXAMPLE: &str = "cluster/small.yaml";
/// Of the six hosts, those that may be chosen for the control plane come first.
const CONTROL_PLANE: usize = 2;

fn is_true(object: &DynamicObject, condition: &str) -> bool {
    let conditions = object.data["status"]["conditions"].as_array().into_iter().flatten();
    let mut found = conditions.filter(|one| one["type"] == condition);
    found.any(|one| one["status"] == "True")
}

/// How often an image was written to the servers, in their order.
async fn deploys(site: &ClusterSite) -> Vec<usize> {
    let machines = site.site.ironic.machines().await.unwrap();
    machines.iter().map(|machine| machine.deploys).collect()
}

async fn secrets(site: &ClusterSite) -> BTreeSet<String> {
    let secrets = site.site.namespace.api::<Secret>();
    let listed = secrets.list(&ListParams::default()).await.unwrap();
    listed.iter().map(ResourceExt::name_any).collect()
}

/// A second template like one of the example, which is what makes Cluster API replace machines.
async fn copy_template(site: &ClusterSite, of: &str, name: &str) {
    let kind = Kind("infrastructure.cluster.x-k8s.io", "v1beta2", "Metal3MachineTemplate");
    let mut template = site.api(kind).get(of).await.unwrap();
    template.metadata = kube::api::ObjectMeta {
        name: Some(name.to_owned()),
        ..Default::default()
    };
    let text = serde_json::to_string(&template).unwrap();
    site.site.namespace.apply(&text).await;
}

/// The Machines that come from a template, by the host that each runs on.
async fn hosts_of_template(site: &ClusterSite, template: &str) -> BTreeSet<String> {
    let kind = Kind("infrastructure.cluster.x-k8s.io", "v1beta2", "Metal3Machine");
    let machines = site.list(kind).await.into_iter();
    let from = |machine: &DynamicObject| {
        let of = machine.annotations().get("cluster.x-k8s.io/cloned-from-name");
        of.is_some_and(|of| of == template)
    };
    let names: BTreeSet<String> = machines.filter(from).map(|machine| machine.name_any()).collect();
    let users = site.users().await.into_iter();
    users
        .filter(|(_, user)| names.contains(user))
        .map(|(host, _)| host)
        .collect()
}

#[test]
fn a_cluster_is_made_scaled_rolled_over_and_deleted() {
    run(async {
        let site = ClusterSite::start("clusters", 6).await;
        for number in 0..6 {
            let role = if number < CONTROL_PLANE {
                "control-plane"
            } else {
                "worker"
            };
            let label = json!({"example.org/role": role});
            site.site
                .apply_host(number, |host| host["metadata"]["labels"] = label)
                .await;
        }
        let before = secrets(&site).await;
        site.apply_example(EXAMPLE, NAME, |_| {}).await;

        // One machine of a control plane and two workers, each on a host of the right kind.
        let made = site.expect_running(3).await;
        for node in made.values() {
            assert!(
                site.users().await.contains_key(node),
                "{node} is called as its host: {made:?}"
            );
        }
        let addresses = addresses(&site).await;
        assert_eq!(addresses.len(), 3, "an address each: {addresses:?}");
        site.until("the Cluster is available", async || {
            let cluster = site.api(Kind::CLUSTER).get(NAME).await.unwrap();
            let control_plane = site.api(Kind::CONTROL_PLANE).get(NAME).await.unwrap();
            if is_true(&cluster, "Available") && is_true(&control_plane, "Available") {
                Ok(())
            } else {
                Err(format!(
                    "{:#}\n{:#}",
                    cluster.data["status"], control_plane.data["status"]["conditions"]
                ))
            }
        })
        .await;
        assert_eq!(deploys(&site).await.iter().sum::<usize>(), 3);

        // Workers of a new template, one after the other, on the hosts that the old ones had.
        let hosts = hosts_of_template(&site, "small-workers").await;
        copy_template(&site, "small-workers", "small-workers-2").await;
        let change = json!({"spec": {
            "rollout": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}},
            "template": {"spec": {"infrastructureRef": {"name": "small-workers-2"}}},
        }});
        site.patch(Kind::DEPLOYMENT, "small-workers", change).await;
        site.until("both workers are replaced", async || {
            let reused = hosts_of_template(&site, "small-workers-2").await;
            let old = hosts_of_template(&site, "small-workers").await;
            if reused.len() == 2 && old.is_empty() {
                Ok(reused)
            } else {
                Err(format!("{reused:?}, {old:?}"))
            }
        })
        .await;
        site.expect_running(3).await;
        assert_eq!(hosts_of_template(&site, "small-workers-2").await, hosts);

        // Up and down. The host of the worker that goes is kept for the next one, as node reuse wants it.
        site.patch(Kind::DEPLOYMENT, "small-workers", json!({"spec": {"replicas": 3}}))
            .await;
        site.expect_running(4).await;
        site.patch(Kind::DEPLOYMENT, "small-workers", json!({"spec": {"replicas": 2}}))
            .await;
        site.expect_running(3).await;
        let kept = site.users().await.into_values().filter(|user| user == NAME).count();
        assert_eq!(kept, 1, "{}", site.overview().await);

        // A control plane of one machine gets its next one before the old one goes.
        let host = hosts_of_template(&site, "small-control-plane").await;
        copy_template(&site, "small-control-plane", "small-control-plane-2").await;
        let reference = json!({"infrastructureRef": {"name": "small-control-plane-2"}});
        let change = json!({"spec": {"machineTemplate": {"spec": reference}}});
        site.patch(Kind::CONTROL_PLANE, NAME, change).await;
        site.until("the control plane is replaced", async || {
            let new = hosts_of_template(&site, "small-control-plane-2").await;
            let old = hosts_of_template(&site, "small-control-plane").await;
            if new.len() == 1 && old.is_empty() {
                Ok(())
            } else {
                Err(format!("{new:?}, {old:?}"))
            }
        })
        .await;
        site.expect_running(3).await;
        assert!(
            hosts_of_template(&site, "small-control-plane-2")
                .await
                .is_disjoint(&host)
        );

        // And away with it.
        site.delete(Kind::CLUSTER, NAME).await;
        site.until("nothing is left", async || {
            let left = site.leftovers().await;
            // Those that were made by hand, too: Cluster API takes them for the cluster's.
            let secrets = secrets(&site).await;
            let secrets: BTreeSet<_> = secrets.difference(&before).collect();
            let users = site.users().await;
            let hosts = site.hosts().await;
            let free = hosts
                .iter()
                .filter(|host| state(host) == ProvisioningState::Available)
                .count();
            if left == json!({}) && secrets.is_empty() && users.is_empty() && free == 6 {
                Ok(())
            } else {
                Err(format!("{left}, {secrets:?}, in use: {users:?}, available: {free}"))
            }
        })
        .await;
        for node in site.site.nodes().await {
            assert_eq!(description(&node), json!({}), "{node}");
        }
        site.stop().await;
    });
}

/// The addresses that servers were given in their network data, by the name of the server.
async fn addresses(site: &ClusterSite) -> BTreeSet<String> {
    let mut addresses = BTreeSet::new();
    for number in 0..6 {
        for deployment in site.site.machine(number).await.deployments {
            let network = deployment.config_drive.and_then(|drive| drive.network_data).unwrap();
            let meta_data = network["networks"][0]["ip_address"].as_str().unwrap().to_owned();
            addresses.insert(meta_data);
        }
    }
    addresses
}
