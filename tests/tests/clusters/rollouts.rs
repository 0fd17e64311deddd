//! A cluster of one control plane and its workers: creation, rollouts to other templates, scaling, deletion.

use std::collections::BTreeSet;

use kube::ResourceExt;
use kube::api::DynamicObject;
use metal3_scenarios::{ClusterEnv, Kind};
use serde_json::{Value, json};

use crate::{NAME, SMALL, config_drive, deploys, in_env};

fn is_true(object: &DynamicObject, condition: &str) -> bool {
    let conditions = object.data["status"]["conditions"].as_array().into_iter().flatten();
    let mut found = conditions.filter(|one| one["type"] == condition);
    found.any(|one| one["status"] == "True")
}

/// On a template: its machines get only hosts in their failure domain. None of the hosts here has one.
const STRICT: &str = "infrastructure.cluster.x-k8s.io/strict-failure-domain";

/// A copy of a template of the example, which makes Cluster API replace machines.
async fn copy_template(env: &ClusterEnv, of: &str, name: &str) {
    let strict = |spec: &mut Value| spec["template"]["metadata"]["annotations"] = json!({STRICT: "true"});
    env.copy(Kind::MACHINE_TEMPLATE, of, name, strict).await;
}

/// The Machines of a template, by host.
async fn hosts_of_template(env: &ClusterEnv, template: &str) -> BTreeSet<String> {
    let kind = Kind("infrastructure.cluster.x-k8s.io", "v1beta2", "Metal3Machine");
    let machines = env.list(kind).await.into_iter();
    let from = |machine: &DynamicObject| {
        let of = machine.annotations().get("cluster.x-k8s.io/cloned-from-name");
        of.is_some_and(|of| of == template)
    };
    let machines: Vec<_> = machines.filter(from).collect();
    for machine in &machines {
        let is_strict = machine.annotations().contains_key(STRICT);
        let is_copy = template.ends_with("-2");
        assert_eq!(is_strict, is_copy, "annotations come from the template");
    }
    let names: BTreeSet<String> = machines.iter().map(ResourceExt::name_any).collect();
    let users = env.users().await.into_iter();
    users
        .filter(|(_, user)| names.contains(user))
        .map(|(host, _)| host)
        .collect()
}

/// Gives the control plane of so many machines another template, and waits until there are three machines again, those of the
/// control plane from this one. The hosts of these.
async fn replace_control_plane(env: &ClusterEnv, machines: usize) -> BTreeSet<String> {
    copy_template(env, "small-control-plane", "small-control-plane-2").await;
    let reference = json!({"infrastructureRef": {"name": "small-control-plane-2"}});
    let change = json!({"spec": {"machineTemplate": {"spec": reference}}});
    env.patch(Kind::CONTROL_PLANE, NAME, change).await;
    env.until("the control plane is replaced", async || {
        let new = hosts_of_template(env, "small-control-plane-2").await;
        let old = hosts_of_template(env, "small-control-plane").await;
        if new.len() == machines && old.is_empty() {
            Ok(())
        } else {
            Err(format!("{new:?}, {old:?}"))
        }
    })
    .await;
    env.expect_running(3).await;
    hosts_of_template(env, "small-control-plane-2").await
}

#[test]
fn a_cluster_is_made_scaled_rolled_over_and_deleted() {
    in_env(async |env| {
        let (before, deploys_before) = (env.names().await, deploys(env).await);
        env.apply_cluster(SMALL, NAME, |_| {}).await;

        // One machine of a control plane and two workers, each on a host of the right kind.
        let made = env.expect_running(3).await;
        for node in made.values() {
            assert!(
                env.users().await.contains_key(node),
                "{node} is called as its host: {made:?}"
            );
        }
        let addresses = addresses(env, made.values()).await;
        assert_eq!(addresses.len(), 3, "an address each: {addresses:?}");
        env.until("the Cluster is available", async || {
            let cluster = env.api(Kind::CLUSTER).get(NAME).await.unwrap();
            let control_plane = env.api(Kind::CONTROL_PLANE).get(NAME).await.unwrap();
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
        assert_eq!(deploys(env).await - deploys_before, 3);

        // Workers of a new template, one after the other, on the hosts that the old ones had.
        let hosts = hosts_of_template(env, "small-workers").await;
        copy_template(env, "small-workers", "small-workers-2").await;
        let change = json!({"spec": {
            "rollout": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}},
            "template": {"spec": {"infrastructureRef": {"name": "small-workers-2"}}},
        }});
        env.patch(Kind::DEPLOYMENT, "small-workers", change).await;
        env.until("both workers are replaced", async || {
            let reused = hosts_of_template(env, "small-workers-2").await;
            let old = hosts_of_template(env, "small-workers").await;
            if reused.len() == 2 && old.is_empty() {
                Ok(reused)
            } else {
                Err(format!("{reused:?}, {old:?}"))
            }
        })
        .await;
        env.expect_running(3).await;
        assert_eq!(hosts_of_template(env, "small-workers-2").await, hosts);

        // Scales up and down. The removed worker's host is reserved for the next one, by node reuse.
        env.patch(Kind::DEPLOYMENT, "small-workers", json!({"spec": {"replicas": 3}}))
            .await;
        env.expect_running(4).await;
        env.patch(Kind::DEPLOYMENT, "small-workers", json!({"spec": {"replicas": 2}}))
            .await;
        env.expect_running(3).await;
        let kept = env.users().await.into_values().filter(|user| user == NAME).count();
        assert_eq!(kept, 1, "{}", env.overview().await);

        // A control plane of one machine gets a new machine before the old one is deleted.
        let host = hosts_of_template(env, "small-control-plane").await;
        let new = replace_control_plane(env, 1).await;
        assert!(new.is_disjoint(&host), "{new:?} after {host:?}");

        // Deletes the cluster.
        env.delete(Kind::CLUSTER, NAME).await;
        env.delete(Kind::DATA_TEMPLATE, NAME).await;
        env.expect_nothing_new(&before).await;
    });
}

/// All in v1beta1, Cluster API's kinds and ours, and each reference with a version.
const OLDER: &str = "../tests/tests/clusters/older.yaml";

#[test]
fn three_machines_of_a_control_plane_are_replaced_on_their_own_servers() {
    in_env(async |env| {
        let (before, deploys_before) = (env.names().await, deploys(env).await);
        env.apply_cluster(OLDER, NAME, |_| {}).await;
        env.expect_running(3).await;
        let hosts = hosts_of_template(env, "small-control-plane").await;
        // A fourth host would fit as well.
        assert_eq!(hosts.len(), 3, "{}", env.overview().await);

        let new = replace_control_plane(env, 3).await;
        assert_eq!(new, hosts);
        assert_eq!(deploys(env).await - deploys_before, 6, "each machine came once");

        env.delete(Kind::CLUSTER, NAME).await;
        env.delete(Kind::DATA_TEMPLATE, NAME).await;
        env.expect_nothing_new(&before).await;
    });
}

/// The addresses in the network data of these Nodes' servers.
async fn addresses(env: &ClusterEnv, nodes: impl Iterator<Item = &String>) -> BTreeSet<String> {
    let mut addresses = BTreeSet::new();
    for node in nodes {
        let network = config_drive(env, node).await.network_data.unwrap();
        addresses.insert(network["networks"][0]["ip_address"].as_str().unwrap().to_owned());
    }
    addresses
}
