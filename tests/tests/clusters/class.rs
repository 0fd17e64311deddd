//! A cluster from a ClusterClass: Cluster API creates our templates and machines from it, and replaces them when the class
//! changes.

use std::collections::BTreeMap;

use kube::ResourceExt;
use metal3_scenarios::{ClusterEnv, Kind};
use serde_json::{Value, json};

use crate::{config_drive, deploys, in_env};

const NAME: &str = "from-class";
const EXAMPLE: &str = "cluster/cluster-class.yaml";
/// The class of the example, and the templates of its machines.
const CLASS: &str = "metal3";
const CLUSTER_CLASS: Kind = Kind("cluster.x-k8s.io", "v1beta2", "ClusterClass");

/// The workers of the topology. Those of a new template come all at once.
fn workers(replicas: u8) -> Value {
    json!({"machineDeployments": [{"class": "workers", "name": "workers", "replicas": replicas,
        "rollout": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": replicas}}}}]})
}

// OWN 20c: the patch that the example mentioned was missing. The workers join by an endpoint that only the patch sets.
#[test]
fn a_cluster_of_a_class_is_made_scaled_rotated_and_deleted() {
    in_env(async |env| {
        let (before, deploys_before) = (env.names().await, deploys(env).await);
        env.apply_cluster(EXAMPLE, NAME, |object| {
            // Half of the class names our kinds in the version of the older contract.
            if object.metadata.name.as_deref() == Some(CLASS)
                && let Some(workers) = object
                    .data
                    .pointer_mut("/spec/workers/machineDeployments/0/infrastructure/templateRef")
            {
                workers["apiVersion"] = json!("infrastructure.cluster.x-k8s.io/v1beta1");
            }
            if object.metadata.name.as_deref() == Some(NAME) {
                let topology = &mut object.data["spec"]["topology"];
                topology["controlPlane"]["replicas"] = json!(1);
                topology["workers"] = workers(1);
            }
        })
        .await;
        env.expect_running(2).await;

        let change = json!({"spec": {"topology": {"workers": workers(2)}}});
        env.patch(Kind::CLUSTER, NAME, change).await;
        let first = env.expect_running(3).await;
        assert_eq!(deploys(env).await - deploys_before, 3);

        rotate(env).await;
        env.until("all machines are replaced", async || {
            let machines = env.list(Kind::MACHINE).await;
            let names: Vec<_> = machines.iter().map(ResourceExt::name_any).collect();
            if names.len() == 3 && names.iter().all(|name| !first.contains_key(name)) {
                Ok(())
            } else {
                Err(format!("{names:?}"))
            }
        })
        .await;
        let second = env.expect_running(3).await;
        assert_eq!(generations(env, &second).await, ["2"; 3]);
        assert_eq!(deploys(env).await - deploys_before, 6, "each machine came once");

        // The class cannot be deleted while a cluster uses it, and its templates are deleted with it.
        env.delete(Kind::CLUSTER, NAME).await;
        env.until("the Cluster is gone", async || {
            match env.api(Kind::CLUSTER).get_opt(NAME).await.unwrap() {
                None => Ok(()),
                Some(cluster) => Err(cluster.data["status"]["conditions"].to_string()),
            }
        })
        .await;
        env.delete(CLUSTER_CLASS, CLASS).await;
        for template in [CLASS, "metal3-2"] {
            env.delete(Kind::DATA_TEMPLATE, template).await;
        }
        env.expect_nothing_new(&before).await;
    });
}

/// Gives the class other templates, whose machines get metadata that the old ones lack.
async fn rotate(env: &ClusterEnv) {
    env.copy(Kind::DATA_TEMPLATE, CLASS, "metal3-2", |spec| {
        spec["metaData"]["strings"] = json!([{"key": "generation", "value": "2"}]);
    })
    .await;
    for of in ["metal3-control-plane", "metal3-workers"] {
        env.copy(Kind::MACHINE_TEMPLATE, of, &format!("{of}-2"), |spec| {
            spec["template"]["spec"]["dataTemplate"]["name"] = json!("metal3-2");
        })
        .await;
    }
    let class = env.api(CLUSTER_CLASS).get(CLASS).await.unwrap();
    // A list is replaced as a whole.
    let mut deployments = class.data["spec"]["workers"]["machineDeployments"].clone();
    deployments[0]["infrastructure"]["templateRef"]["name"] = json!("metal3-workers-2");
    let control_plane = json!({"machineInfrastructure": {"templateRef": {"name": "metal3-control-plane-2"}}});
    let change = json!({"spec": {"controlPlane": control_plane, "workers": {"machineDeployments": deployments}}});
    env.patch(CLUSTER_CLASS, CLASS, change).await;
}

/// The generation in the metadata of the machines' servers.
async fn generations(env: &ClusterEnv, machines: &BTreeMap<String, String>) -> Vec<String> {
    let mut generations = Vec::new();
    for node in machines.values() {
        let meta_data = config_drive(env, node).await.meta_data.unwrap();
        generations.push(meta_data["generation"].as_str().unwrap_or("none").to_owned());
    }
    generations
}
