//! Workers whose servers boot and whose Nodes never come: what a user reads, what a health check does, and how he mends it.

use std::collections::BTreeMap;

use kube::ResourceExt;
use kube::api::DynamicObject;
use metal3_api::condition::ConditionStatus;
use metal3_api::infra::v1beta2::Metal3Machine;
use metal3_scenarios::{ClusterEnv, Kind};
use serde_json::{Value, json};

use super::{HEALTH_CHECK, NAME, is_ready};

/// The health check, and the label of the Machines that it looks at.
const CHECK: &str = "never-came";
const LABEL: &str = "example.org/broken";

/// How a worker is broken; also the name of its deployment.
const SYNTAX: &str = "syntax";
const KUBEADM: &str = "kubeadm";
const NETWORK: &str = "network";
/// How many there are: each takes a server.
pub const COUNT: usize = 3;

/// Three workers of which none joins: their user data are no YAML, their kubeadm fails, their network data are for a network card that
/// the server lacks. Waits until their machines say so, and until a health check has one replaced.
pub async fn workers_that_never_join(env: &ClusterEnv) {
    let syntax = "#cloud-config\nruncmd: [kubeadm join\n";
    let join = "kubeadm join 198.51.100.254:6443 --token abcdef.0123456789abcdef --discovery-token-unsafe-skip-ca-verification";
    let kubeadm = format!("#cloud-config\nruncmd:\n- timeout 20 {join}\n");
    for (name, data) in [(SYNTAX, syntax), (KUBEADM, &kubeadm)] {
        env.base.namespace.apply(&bootstrap(name, data).to_string()).await;
        deploy(env, name, |spec| {
            spec["template"]["spec"]["bootstrap"] = json!({"dataSecretName": name});
        })
        .await;
    }
    env.copy(Kind::DATA_TEMPLATE, NAME, NETWORK, |spec| {
        spec["networkData"]["links"]["ethernets"][0]["macAddress"] = json!({"string": "52:54:00:ff:ff:ff"});
    })
    .await;
    env.copy(Kind::MACHINE_TEMPLATE, "small-workers", NETWORK, |spec| {
        spec["template"]["spec"]["dataTemplate"]["name"] = json!(NETWORK);
    })
    .await;
    deploy(env, NETWORK, |spec| {
        spec["template"]["spec"]["infrastructureRef"]["name"] = json!(NETWORK);
    })
    .await;

    let first = env
        .until("three servers wait for Nodes", async || waiting(env).await)
        .await;
    for (name, (machine, message)) in &first {
        println!("READ {name}: {machine}: {message}");
        assert!(message.ends_with("the server is booting, or its console tells why it cannot join"));
    }

    // Who does nothing gets another try for each Machine, once the health check's time is over.
    let check = json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineHealthCheck", "metadata": {"name": CHECK},
        "spec": {
            "clusterName": NAME, "selector": {"matchLabels": {LABEL: KUBEADM}},
            "checks": {"nodeStartupTimeoutSeconds": 30},
        },
    });
    env.base.namespace.apply(&check.to_string()).await;
    env.until("the health check has the Machine replaced", async || {
        let machines = of(env, KUBEADM).await;
        let names: Vec<_> = machines.iter().map(ResourceExt::name_any).collect();
        if names.is_empty() || names.contains(&first[KUBEADM].0) {
            Err(format!("{names:?}"))
        } else {
            Ok(())
        }
    })
    .await;
    env.delete(HEALTH_CHECK, CHECK).await;
}

/// One is mended and joins; then all three are deleted. The control plane must stay as it is meanwhile: kubeadm joins once and soon
/// gives up, and a join beside a rollout may meet an API server that starts or ends.
pub async fn one_is_mended(env: &ClusterEnv) {
    // Who mends the user data gets a new Machine, because those of the old one were read at its first boot.
    let mended = json!({"spec": {"template": {"spec": {"bootstrap": {"dataSecretName": null, "configRef": {
        "apiGroup": "bootstrap.cluster.x-k8s.io", "kind": "KubeadmConfigTemplate", "name": "small-workers",
    }}}}}});
    env.patch(Kind::DEPLOYMENT, SYNTAX, mended).await;
    env.until("the mended worker has joined", async || {
        let machines = of(env, SYNTAX).await;
        let nodes = env.nodes().await;
        let joined = machines
            .iter()
            .filter_map(|machine| machine.data["status"]["nodeRef"]["name"].as_str());
        let is_here = |name: &str| nodes.iter().any(|node| node.name_any() == name && is_ready(node));
        match joined.filter(|name| is_here(name)).count() {
            1 if machines.len() == 1 => Ok(()),
            joined => Err(format!("{joined} of {}", machines.len())),
        }
    })
    .await;
    for name in [SYNTAX, KUBEADM, NETWORK] {
        env.delete(Kind::DEPLOYMENT, name).await;
    }
    env.until("all three are gone", async || match broken(env).await.len() {
        0 => Ok(()),
        left => Err(format!("{left} are left")),
    })
    .await;
    for (kind, name) in [(Kind::MACHINE_TEMPLATE, NETWORK), (Kind::DATA_TEMPLATE, NETWORK)] {
        env.delete(kind, name).await;
    }
    for name in [SYNTAX, KUBEADM] {
        env.delete(Kind("", "v1", "Secret"), name).await;
    }
}

/// Bootstrap data of the user's own.
fn bootstrap(name: &str, data: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret", "type": "cluster.x-k8s.io/secret",
        "metadata": {"name": name, "labels": {"cluster.x-k8s.io/cluster-name": NAME}},
        "stringData": {"value": data, "format": "cloud-config"},
    })
}

/// A deployment of one worker, like the others but for this.
async fn deploy(env: &ClusterEnv, name: &str, change: impl FnOnce(&mut Value)) {
    let labels = json!({"cluster.x-k8s.io/deployment-name": name, LABEL: name});
    env.copy(Kind::DEPLOYMENT, "small-workers", name, |spec| {
        spec["replicas"] = json!(1);
        spec["selector"]["matchLabels"] = labels.clone();
        spec["template"]["metadata"]["labels"] = labels;
        // There is no other server.
        spec["rollout"] =
            json!({"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}});
        change(spec);
    })
    .await;
}

async fn broken(env: &ClusterEnv) -> Vec<DynamicObject> {
    let machines = env.list(Kind::MACHINE).await.into_iter();
    machines
        .filter(|machine| machine.labels().contains_key(LABEL))
        .collect()
}

/// The Machines of a deployment.
async fn of(env: &ClusterEnv, name: &str) -> Vec<DynamicObject> {
    let machines = broken(env).await.into_iter();
    machines.filter(|machine| machine.labels()[LABEL] == name).collect()
}

/// The Machine of each deployment with what it waits for, once all wait for their Nodes on servers that run.
async fn waiting(env: &ClusterEnv) -> Result<BTreeMap<String, (String, String)>, String> {
    let mut found = BTreeMap::new();
    for machine in broken(env).await {
        let name = machine.data["spec"]["infrastructureRef"]["name"]
            .as_str()
            .unwrap_or_default();
        let ours = env.base.namespace.api::<Metal3Machine>().get_opt(name).await.unwrap();
        let conditions = ours
            .into_iter()
            .flat_map(|ours| ours.status.unwrap_or_default().conditions);
        let condition = conditions.into_iter().find(|one| one.type_ == "NodeProviderIDSet");
        let Some(condition) =
            condition.filter(|one| one.status == ConditionStatus::False && one.reason == "WaitingForNode")
        else {
            return Err(format!("{name} does not wait for a Node"));
        };
        found.insert(machine.labels()[LABEL].clone(), (machine.name_any(), condition.message));
    }
    if found.len() == COUNT {
        Ok(found)
    } else {
        Err(format!("{found:?}"))
    }
}
