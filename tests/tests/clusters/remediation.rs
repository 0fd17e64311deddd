//! A Cluster API health check whose remediation of a worker is ours. The kubelet is silent, while the server keeps running.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::storage::v1::VolumeAttachment;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use metal3_api::infra::names::annotation::UNHEALTHY;
use metal3_api::infra::v1beta2::{Metal3Remediation, RemediationPhase};
use metal3_api::metal3::names::annotation::REBOOT_PREFIX;
use metal3_api::metal3::{BareMetalHost, ProvisioningState};
use metal3_lab::ironic::{Machine, Mark};
use metal3_lab::workload::Silence;
use metal3_scenarios::{ClusterEnv, Kind, status};
use serde_json::{Value, json};

use crate::{NAME, SMALL, in_env, server};

const EXAMPLE: &str = "cluster/remediation.yaml";
const WORKERS: &str = "small-workers";
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";
const TEMPLATE: Kind = Kind(
    "infrastructure.cluster.x-k8s.io",
    "v1beta2",
    "Metal3RemediationTemplate",
);

#[test]
fn a_silent_worker_is_power_cycled_and_replaced_if_that_does_not_help() {
    in_env(async |env| {
        let before = env.names().await;
        env.apply_example(EXAMPLE, of_this_cluster).await;
        env.apply_cluster(SMALL, NAME, |object| {
            if object.metadata.name.as_deref() == Some(WORKERS) && object.data["spec"]["replicas"].is_number() {
                object.data["spec"]["replicas"] = json!(1);
            }
        })
        .await;
        let made = env.expect_running(2).await;
        let worker = Worker::of(env, &made).await;

        helped(&worker).await;
        assert_eq!(env.expect_running(2).await, made, "the same Machines on the same hosts");

        not_helped(&worker).await;
        let other = Worker::of(env, &env.expect_running(2).await).await;
        assert!(other.machine != worker.machine && other.host != worker.host);
        assert!(worker.remediation().await.is_none(), "it went with its Machine");
        env.base
            .expect_event(&worker.machine, "GivenUp", "2 power cycles")
            .await;

        // A person must look at the server that does not recover.
        let host = env.base.expect_state(&worker.host, ProvisioningState::Available).await;
        assert_eq!(host.annotations()[UNHEALTHY], "capm3/UnhealthyNode");
        env.delete(Kind::CLUSTER, NAME).await;
        env.delete(Kind::DATA_TEMPLATE, NAME).await;
        env.delete(TEMPLATE, "reboot").await;
        env.expect_nothing_new(&before).await;
        let repaired = json!({"metadata": {"annotations": {UNHEALTHY: null}}});
        env.base.patch(&worker.host, repaired).await;
    });
}

/// The example is for another cluster, whose workers may be silent for five minutes.
fn of_this_cluster(object: &mut DynamicObject) {
    let text = serde_json::to_string(object).unwrap().replace("production", NAME);
    *object = serde_json::from_str(&text).unwrap();
    let checks = object.data.pointer_mut("/spec/checks/unhealthyNodeConditions");
    for check in checks.and_then(Value::as_array_mut).into_iter().flatten() {
        check["timeoutSeconds"] = json!(1);
    }
}

/// Its kubelet hangs, and a power cycle helps.
async fn helped(worker: &Worker<'_>) {
    let env = &worker.env.base;
    // The workload cluster has no controllers that would detach it.
    let volumes: Api<VolumeAttachment> = Api::all(worker.client.clone());
    let volume = json!({"metadata": {"name": "volume"}, "spec": {
        "nodeName": worker.host, "attacher": "example.org", "source": {"persistentVolumeName": "volume"}}});
    let volume = serde_json::from_value(volume).unwrap();
    volumes.create(&PostParams::default(), &volume).await.unwrap();
    let before = worker.server().await;
    let requests = env.ironic.requests(Mark::default()).unwrap().1;
    let moments = env.ironic.moments(Mark::default()).unwrap().1;
    worker
        .env
        .workload()
        .silence(&worker.host, Silence::UntilRestart)
        .unwrap();

    // The server is off, and stays off while the volume is attached.
    let words = "1 attached volumes";
    env.expect_event(&worker.machine, "WaitingForNodeToEmpty", words).await;
    assert!(!worker.server().await.is_on);
    assert!(is_asked_to_be_off(&worker.host().await));
    assert!(is_out_of_service(&worker.node().await));
    let remediation = worker.remediation().await.unwrap();
    assert_eq!(progress(&remediation), (Some(RemediationPhase::Running), 0));

    volumes.delete("volume", &DeleteParams::default()).await.unwrap();
    let healthy = async || {
        let (node, remediation) = (worker.node().await, worker.remediation().await);
        if is_ready(&node) && !is_out_of_service(&node) && remediation.is_none() {
            Ok(())
        } else {
            Err(format!("{:?} {remediation:?}", node.spec))
        }
    };
    worker.env.until("the worker is healthy again", healthy).await;

    // Powered off once and on once, and nothing else, according to the server and Ironic.
    let after = worker.server().await;
    assert_eq!((cycles(&before, &after), after.deploys), (1, before.deploys));
    let node = env.node(&worker.host).await;
    let [uuid, name] = ["uuid", "name"].map(|field| node[field].as_str().unwrap());
    let (asked, _) = env.ironic.requests(requests).unwrap();
    let changes = asked.iter().filter(|request| {
        let is_of_node = request.member == uuid || request.member == name;
        // During Ironic's own power sync the node is locked, and the request is repeated.
        let is_refused = request.status == 409;
        is_of_node && request.method != "GET" && !request.is_of_a_ramdisk() && !is_refused
    });
    let changes: Vec<_> = changes.map(|request| request.path.as_str()).collect();
    assert_eq!(changes, ["/v1/nodes/{id}/states/power"; 2]);
    let (moments, _) = env.ironic.moments(moments).unwrap();
    let of_node = moments.iter().filter(|moment| moment.node == uuid);
    let mut states: Vec<_> = of_node
        .map(|moment| [&moment.provision_state, &moment.power_state].map(Option::as_deref))
        .collect();
    states.dedup();
    let seen = ["power on", "power off", "power on"].map(|power| [Some("active"), Some(power)]);
    assert_eq!(states, seen);
}

/// Its kubelet is silent however often the server starts.
async fn not_helped(worker: &Worker<'_>) {
    let env = worker.env;
    let before = worker.server().await;
    env.workload().silence(&worker.host, Silence::ForGood).unwrap();
    for (retries, attempts) in [(0, 1), (1, 2)] {
        env.until(&format!("power cycle {attempts}"), async || {
            let remediation = worker.remediation().await.ok_or("no remediation")?;
            let host = worker.host().await;
            let is_back = status(&host).powered_on && !is_asked_to_be_off(&host);
            if is_back && progress(&remediation) == (Some(RemediationPhase::Waiting), retries) {
                Ok(())
            } else {
                Err(format!("{:?}", remediation.status))
            }
        })
        .await;
        assert_eq!(cycles(&before, &worker.server().await), attempts);
        // Simulates that the ten minutes of this attempt have passed.
        let past = Patch::Merge(json!({"status": {"lastRemediated": "2026-01-01T00:00:00Z"}}));
        let (api, params) = (worker.remediations(), PatchParams::default());
        api.patch_status(&worker.machine, &params, &past).await.unwrap();
    }
    env.until("the Machine is gone", async || {
        match env.api(Kind::MACHINE).get_opt(&worker.machine).await.unwrap() {
            None => Ok(()),
            Some(machine) => Err(machine.data["status"]["conditions"].to_string()),
        }
    })
    .await;
}

/// The one worker.
struct Worker<'a> {
    env: &'a ClusterEnv,
    /// Of the workload cluster.
    client: Client,
    machine: String,
    /// Its Node has the same name.
    host: String,
}

impl<'a> Worker<'a> {
    /// Of these Machines, with their Nodes.
    async fn of(env: &'a ClusterEnv, machines: &BTreeMap<String, String>) -> Self {
        let mut workers = machines.iter().filter(|(machine, _)| machine.starts_with(WORKERS));
        let (machine, host) = workers.next().unwrap();
        Self {
            env,
            client: env.workload().control_plane().client().await.unwrap(),
            machine: machine.clone(),
            host: host.clone(),
        }
    }

    async fn node(&self) -> Node {
        Api::all(self.client.clone()).get(&self.host).await.unwrap()
    }

    async fn host(&self) -> BareMetalHost {
        self.env.base.host(&self.host).await
    }

    async fn server(&self) -> Machine {
        server(self.env, &self.host).await
    }

    /// Named after the Machine, as by health checks.
    async fn remediation(&self) -> Option<Metal3Remediation> {
        self.remediations().get_opt(&self.machine).await.unwrap()
    }

    fn remediations(&self) -> Api<Metal3Remediation> {
        self.env.base.namespace.api()
    }
}

/// The phase, and the number of failed attempts.
fn progress(remediation: &Metal3Remediation) -> (Option<RemediationPhase>, i32) {
    let status = remediation.status.clone().unwrap_or_default();
    (status.phase, status.retry_count)
}

fn is_asked_to_be_off(host: &BareMetalHost) -> bool {
    host.annotations().keys().any(|key| key.starts_with(REBOOT_PREFIX))
}

fn is_out_of_service(node: &Node) -> bool {
    let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    taints.into_iter().any(|taint| taint.key == OUT_OF_SERVICE)
}

fn is_ready(node: &Node) -> bool {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions
        .into_iter()
        .any(|one| one.type_ == "Ready" && one.status == "True")
}

/// How often a server was powered off and on again in between. Every request to its BMC took effect, and nothing else happened.
fn cycles(before: &Machine, after: &Machine) -> u64 {
    let since = |kind: fn(&Machine) -> &BTreeMap<String, u64>| {
        let more = kind(after).iter().map(|(what, count)| {
            let earlier = kind(before).get(what).copied().unwrap_or_default();
            (what.clone(), count - earlier)
        });
        more.filter(|(_, count)| *count > 0).collect::<BTreeMap<_, _>>()
    };
    let count = after.times_switched_off() - before.times_switched_off();
    let both = |off: &str, on: &str| BTreeMap::from([(off.to_owned(), count), (on.to_owned(), count)]);
    assert_eq!(
        since(|server| &server.counters.power),
        both("switched_off", "switched_on")
    );
    assert_eq!(since(|server| &server.counters.power_requests), both("ForceOff", "On"));
    count
}
