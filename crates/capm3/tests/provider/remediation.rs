//! Metal3Remediations. What Cluster API, the baremetal-operator and kubelets would do, the tests do; time passes by a
//! `status.lastRemediated` that is put back.

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use metal3_api::capi::Machine;
use metal3_api::condition::ConditionStatus::False;
use metal3_api::infra::v1beta2::{Metal3Remediation, RemediationPhase};
use metal3_api::metal3::BareMetalHost;
use metal3_testkit::{DEADLINE, eventually, namespace};
use serde_json::{Value, json};

use crate::support::{Running, Site, says};

const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";
const LONG_AGO: &str = "2020-01-01T00:00:00Z";

/// Machine m of cluster c on host h, with Node n in the workload cluster, which is the same API server.
struct Ward {
    site: Site,
    provider: Running,
    nodes: Api<Node>,
    node: String,
    uid: Option<String>,
}

async fn ward(namespace: metal3_testkit::TestNamespace, is_reachable: bool) -> Ward {
    let site = Site::new(namespace).await;
    site.ready_cluster("c").await;
    site.secret("b").await;
    site.secret("bmc").await;
    site.host("h", json!({}), "available").await;
    if is_reachable {
        let admin = std::fs::read_to_string(site.namespace.server().admin_kubeconfig()).unwrap();
        site.apply(
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "c-kubeconfig"},
            "stringData": {"value": admin}}),
        )
        .await;
    }
    let nodes: Api<Node> = Api::all(site.namespace.client.clone());
    let node = format!("{}-n", site.namespace.name);
    let object = json!({"metadata": {"name": node}});
    nodes
        .create(&PostParams::default(), &serde_json::from_value(object).unwrap())
        .await
        .unwrap();
    let provider = site.provider().await;
    site.machine("m", json!({})).await;
    let is_told = |host: &BareMetalHost| host.spec.image.is_some();
    site.namespace.expect("h", "is to be provisioned", is_told).await;
    site.host_becomes("h", "provisioned").await;
    let there = json!({"status": {"nodeRef": {"name": node}}});
    let machine: Machine = site.patch_status("m", there).await;
    let ward = Ward {
        uid: machine.metadata.uid,
        site,
        provider,
        nodes,
        node,
    };
    ward.kubelet("Unknown").await;
    ward
}

impl Ward {
    /// What a health check makes.
    async fn remedy(&self) {
        let owner = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", "name": "m", "uid": self.uid});
        self.site
            .apply(
                json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "Metal3Remediation",
                "metadata": {"name": "m", "labels": {"cluster.x-k8s.io/cluster-name": "c"}, "ownerReferences": [owner]},
                "spec": {"strategy": {"type": "Reboot", "retryLimit": 1, "timeoutSeconds": 600}}}),
            )
            .await;
    }

    async fn kubelet(&self, ready: &str) {
        let ready = json!({"status": {"conditions": [{"type": "Ready", "status": ready, "reason": "Test", "message": "",
            "lastHeartbeatTime": LONG_AGO, "lastTransitionTime": LONG_AGO}]}});
        let params = PatchParams::default();
        let patched = self.nodes.patch_status(&self.node, &params, &Patch::Merge(ready)).await;
        patched.unwrap();
    }

    /// The operator sees the host on or off.
    async fn power(&self, is_on: bool) {
        let seen = json!({"status": {"poweredOn": is_on}});
        self.site.patch_status::<BareMetalHost>("h", seen).await;
    }

    async fn time_passes(&self) {
        let past = json!({"status": {"lastRemediated": LONG_AGO}});
        self.site.patch_status::<Metal3Remediation>("m", past).await;
    }

    async fn held_off(&self) -> BareMetalHost {
        self.site.namespace.expect("h", "is to be off", is_held).await
    }

    async fn let_go(&self) {
        let is_free = |host: &BareMetalHost| !is_held(host);
        self.site.namespace.expect("h", "may be on", is_free).await;
    }

    async fn in_phase(&self, phase: RemediationPhase, retries: i32) -> Metal3Remediation {
        let holds = move |remediation: &Metal3Remediation| {
            let status = remediation.status.clone().unwrap_or_default();
            status.phase == Some(phase.clone()) && status.retry_count == retries
        };
        self.site.namespace.expect("m", "is in its phase", holds).await
    }

    async fn taint(&self, is_there: bool) {
        eventually(DEADLINE, "the taint comes or goes", || async {
            let node = self.nodes.get(&self.node).await.map_err(|error| error.to_string())?;
            let taints = node.spec.and_then(|spec| spec.taints).unwrap_or_default();
            let found = taints.iter().find(|taint| taint.key == OUT_OF_SERVICE);
            let words = found.map(|taint| (taint.value.as_deref(), taint.effect.as_str()));
            if words == is_there.then_some((Some("nodeshutdown"), "NoExecute")) {
                Ok(())
            } else {
                Err(format!("{taints:?}"))
            }
        })
        .await;
    }
}

fn is_held(host: &BareMetalHost) -> bool {
    host.annotations()
        .keys()
        .any(|key| key.starts_with("reboot.metal3.io/metal3-remediation-"))
}

fn pod(namespace: &str, node: &str) -> Value {
    json!({"metadata": {"name": "p", "namespace": namespace}, "spec": {"nodeName": node,
        "serviceAccountName": "capm3-manager", "automountServiceAccountToken": false,
        "containers": [{"name": "c", "image": "localhost/c:1"}]}})
}

#[tokio::test]
async fn a_machine_is_power_cycled_and_gets_well() {
    let ward = ward(namespace!().await, true).await;
    let pods: Api<Pod> = ward.site.namespace.api();
    let running = serde_json::from_value(pod(&ward.site.namespace.name, &ward.node)).unwrap();
    pods.create(&PostParams::default(), &running).await.unwrap();
    ward.remedy().await;
    let host = ward.held_off().await;
    let remediation = ward.in_phase(RemediationPhase::Running, 0).await;
    let key = format!("reboot.metal3.io/metal3-remediation-{}", remediation.uid().unwrap());
    assert_eq!(host.annotations()[&key], r#"{"mode":"hard","force":false}"#);
    ward.power(false).await;
    ward.taint(true).await;
    ward.site.namespace.expect_event("m", "WaitingForNodeToEmpty").await;
    assert!(is_held(&ward.held_off().await), "the Pod has not gone yet");
    let now = DeleteParams::default().grace_period(0);
    pods.delete("p", &now).await.unwrap();
    ward.in_phase(RemediationPhase::Waiting, 0).await;
    ward.let_go().await;
    ward.power(true).await;
    ward.site.namespace.expect_event("m", "WaitingForKubelet").await;
    ward.taint(true).await;
    ward.kubelet("True").await;
    ward.taint(false).await;
    let is_free = |remediation: &Metal3Remediation| remediation.finalizers().is_empty();
    ward.site.namespace.expect("m", "has undone everything", is_free).await;
    ward.site.namespace.expect_event("m", "NodeInService").await;

    // What waits costs nothing.
    let settled = ward.site.settled().await;
    ward.kubelet("True").await;
    assert_eq!(ward.site.settled().await, settled);
    ward.site.delete::<Metal3Remediation>("m").await;
    ward.site.namespace.expect_gone::<Metal3Remediation>("m").await;
    ward.provider.stop().await;
}

#[tokio::test]
async fn a_machine_that_does_not_get_well_is_to_be_replaced() {
    let ward = ward(namespace!().await, true).await;
    ward.kubelet("True").await;
    ward.remedy().await;
    for attempt in 0..2 {
        ward.held_off().await;
        ward.power(false).await;
        ward.in_phase(RemediationPhase::Waiting, attempt).await;
        ward.let_go().await;
        ward.power(true).await;
        ward.taint(false).await;
        ward.time_passes().await;
    }
    let is_asked = |machine: &Machine| {
        let status = &machine.status;
        let deprecated = &status.deprecated.v1beta1.conditions;
        says(&status.conditions, "OwnerRemediated", &False, "WaitingForRemediation")
            && deprecated
                .iter()
                .any(|c| c.type_ == "OwnerRemediated" && c.severity == "Warning")
    };
    let machines: Api<Machine> = ward.site.namespace.api();
    eventually(DEADLINE, "the Machine is to be replaced", || async {
        let machine = machines.get("m").await.map_err(|error| error.to_string())?;
        if is_asked(&machine) {
            Ok(())
        } else {
            Err(format!("{:?}", machine.status))
        }
    })
    .await;
    ward.in_phase(RemediationPhase::DeletingMachine, 1).await;
    let is_free = |remediation: &Metal3Remediation| remediation.finalizers().is_empty();
    ward.site.namespace.expect("m", "has undone everything", is_free).await;
    let host: BareMetalHost = ward.site.namespace.api().get("h").await.unwrap();
    assert_eq!(host.annotations()["capm3.metal3.io/unhealthy"], "capm3/UnhealthyNode");
    ward.site.namespace.expect_event("m", "GivenUp").await;
    ward.provider.stop().await;
}

/// Its API server could run on the very host. Deletion does not wait for it where the Machine goes, too.
#[tokio::test]
async fn a_workload_cluster_that_cannot_be_asked_holds_nothing_up_for_ever() {
    let mut ward = ward(namespace!().await, false).await;
    ward.remedy().await;
    ward.held_off().await;
    ward.power(false).await;
    ward.site
        .namespace
        .expect_event("m", "WorkloadClusterKubeconfigMissing")
        .await;
    // Half of the time is over, as a manager sees it that comes now.
    ward.provider.stop().await;
    let now = metal3_runtime::Clock::system().now();
    let begun = json!({"status": {"lastRemediated": now - jiff::SignedDuration::from_secs(400)}});
    ward.site.patch_status::<Metal3Remediation>("m", begun).await;
    ward.provider = ward.site.provider().await;
    ward.in_phase(RemediationPhase::Waiting, 0).await;
    ward.let_go().await;
    ward.power(true).await;
    ward.site.delete::<Metal3Remediation>("m").await;
    let is_held = |remediation: &Metal3Remediation| remediation.metadata.deletion_timestamp.is_some();
    ward.site.namespace.expect("m", "is asked to go", is_held).await;
    ward.site.delete::<Machine>("m").await;
    ward.site.namespace.expect_gone::<Metal3Remediation>("m").await;
    ward.provider.stop().await;
}
