//! A health check of Cluster API asks us to remedy a machine.

use kube::api::{Patch, PatchParams};
use metal3_api::capi::Machine;
use metal3_api::condition::Condition;
use metal3_api::condition::ConditionStatus::{False, True};
use metal3_api::infra::v1beta2::{Metal3Remediation, Metal3RemediationTemplate, RemediationPhase};

use super::*;
use crate::support::says;

const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

/// A template, and a health check that makes remediations from it for workers that are silent for a second.
fn health_check() -> [Value; 2] {
    let group = "infrastructure.cluster.x-k8s.io/v1beta2";
    let template = json!({"apiVersion": group, "kind": "Metal3RemediationTemplate", "metadata": {"name": "reboot"},
        "spec": {"template": {"spec": {"strategy": {"type": "Reboot", "retryLimit": 1, "timeoutSeconds": 600}}}}});
    let check = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineHealthCheck",
        "metadata": {"name": "workers"},
        "spec": {"clusterName": "c", "selector": {"matchLabels": {"cluster.x-k8s.io/cluster-name": "c"}},
            "checks": {"unhealthyNodeConditions": [{"type": "Ready", "status": "Unknown", "timeoutSeconds": 1}]},
            "remediation": {"templateRef": {"apiVersion": group, "kind": "Metal3RemediationTemplate",
                "name": "reboot"}}}});
    [template, check]
}

/// What is played: which kubelets are silent, and how often each host was asked to be off.
struct Play<'a> {
    site: &'a Site,
    nodes: Api<Node>,
}

impl Play<'_> {
    fn node(&self, host: &str) -> String {
        format!("{}-{host}", self.site.namespace.name)
    }

    /// The operator, and the kubelets of the hosts that are on; `silent` ones say nothing, whether on or off.
    async fn round(&self, silent: Option<&str>) {
        play(self.site, &self.nodes).await;
        let hosts: Api<BareMetalHost> = self.site.namespace.api();
        for host in hosts.list(&ListParams::default()).await.unwrap() {
            let name = host.name_any();
            let is_deployed = host
                .status
                .as_ref()
                .is_some_and(|s| s.provisioning.state.as_str() == "provisioned");
            if !is_deployed {
                continue;
            }
            let is_on = !host
                .annotations()
                .keys()
                .any(|key| key.starts_with("reboot.metal3.io/"));
            if host.status.is_some_and(|status| status.powered_on) != is_on {
                let seen = json!({"status": {"poweredOn": is_on}});
                self.site.patch_status::<BareMetalHost>(&name, seen).await;
            }
            let is_heard = is_on && silent != Some(name.as_str());
            self.kubelet(&self.node(&name), if is_heard { "True" } else { "Unknown" })
                .await;
        }
    }

    async fn kubelet(&self, node: &str, ready: &str) {
        let Some(present) = self.nodes.get_opt(node).await.unwrap() else {
            return;
        };
        let conditions = present.status.and_then(|status| status.conditions).unwrap_or_default();
        if conditions.iter().any(|c| c.type_ == "Ready" && c.status == ready) {
            return;
        }
        let now = metal3_runtime::Clock::system().now();
        let ready = json!({"status": {"conditions": [{"type": "Ready", "status": ready, "reason": "Test", "message": "",
            "lastHeartbeatTime": now, "lastTransitionTime": now}]}});
        let (params, patch) = (PatchParams::default(), Patch::Merge(ready));
        self.nodes.patch_status(node, &params, &patch).await.unwrap();
    }

    async fn machines(&self) -> Vec<Machine> {
        let machines: Api<Machine> = self.site.namespace.api();
        machines.list(&ListParams::default()).await.unwrap().items
    }

    async fn remediations(&self) -> Vec<Metal3Remediation> {
        let remediations: Api<Metal3Remediation> = self.site.namespace.api();
        remediations.list(&ListParams::default()).await.unwrap().items
    }

    /// The host on which the one machine runs.
    async fn host_in_use(&self) -> String {
        let hosts: Api<BareMetalHost> = self.site.namespace.api();
        let hosts = hosts.list(&ListParams::default()).await.unwrap();
        let mut used = hosts.iter().filter(|host| host.spec.consumer_ref.is_some());
        used.next().unwrap().name_any()
    }

    async fn is_out_of_service(&self, host: &str) -> bool {
        let node = self.nodes.get(&self.node(host)).await.unwrap();
        let taints = node.spec.and_then(|spec| spec.taints).unwrap_or_default();
        taints.iter().any(|taint| taint.key == OUT_OF_SERVICE)
    }

    /// Until the one machine runs, is healthy, and nobody remedies anything.
    async fn well(&self) -> Machine {
        eventually(LIMIT, "the machine runs and is healthy", || async {
            self.round(None).await;
            let (machines, left) = (self.machines().await, self.remediations().await.len());
            let is_unhealthy =
                |condition: &Condition| condition.type_ == "HealthCheckSucceeded" && condition.status == False;
            let is_well = |machine: &Machine| {
                let status = &machine.status;
                status.phase == "Running" && !status.conditions.iter().any(is_unhealthy)
            };
            match machines.as_slice() {
                [machine] if is_well(machine) && left == 0 => Ok(machine.clone()),
                _ => {
                    let states: Vec<_> = machines.iter().map(|machine| &machine.status.conditions).collect();
                    Err(format!("{states:?}, {left} remediations"))
                }
            }
        })
        .await
    }

    /// Says that the control plane is there, of which Cluster API sees no machine: workers are not checked before.
    async fn has_control_plane(&self) {
        let clusters: Api<Cluster> = self.site.namespace.api();
        eventually(LIMIT, "Cluster API knows that the control plane is there", || async {
            let conditions = clusters
                .get("c")
                .await
                .map_err(|error| error.to_string())?
                .status
                .conditions;
            let type_ = "ControlPlaneInitialized";
            if says(&conditions, type_, &True, "Initialized") {
                return Ok(());
            }
            let there = json!({"type": type_, "status": "True", "reason": "Initialized", "message": "",
                "lastTransitionTime": metal3_runtime::Clock::system().now()});
            let others = conditions.iter().filter(|condition| condition.type_ != type_);
            let all: Vec<Value> = others.map(|condition| json!(condition)).chain([there]).collect();
            self.site
                .patch_status::<Cluster>("c", json!({"status": {"conditions": all}}))
                .await;
            Err(format!("{conditions:?}"))
        })
        .await;
    }

    /// Until the remediation has got so far, with a kubelet that stays silent.
    async fn remedied(&self, silent: &str, phase: RemediationPhase, retries: i32) {
        eventually(LIMIT, "the remediation has got so far", || async {
            self.round(Some(silent)).await;
            let all = self.remediations().await;
            let status = all
                .first()
                .and_then(|remediation| remediation.status.clone())
                .unwrap_or_default();
            if status.phase == Some(phase.clone()) && status.retry_count == retries {
                Ok(())
            } else {
                Err(format!("{all:?}"))
            }
        })
        .await;
    }
}

#[tokio::test]
async fn a_silent_machine_is_power_cycled_and_replaced_if_that_does_not_help() {
    let _alone = ALONE.lock().await;
    with_controller_manager();
    let stage = Stage::new(namespace!().await, &["h0", "h1"]).await;
    let site = &stage.site;
    for object in health_check() {
        site.apply(object).await;
    }
    site.apply(deployment(1)).await;
    let nodes: Api<Node> = Api::all(site.namespace.client.clone());
    let play = Play { site, nodes };
    play.has_control_plane().await;
    let machine = play.well().await;
    play.has_control_plane().await;
    let host = play.host_in_use().await;

    // Its kubelet is silent: the host is off until its Node is empty, and on again.
    play.kubelet(&play.node(&host), "Unknown").await;
    let hosts: Api<BareMetalHost> = site.namespace.api();
    eventually(LIMIT, "the host is to be off", || async {
        let host = hosts.get(&host).await.map_err(|error| error.to_string())?;
        let annotations = host.annotations();
        let is_asked = annotations
            .keys()
            .any(|key| key.starts_with("reboot.metal3.io/metal3-remediation-"));
        if is_asked {
            Ok(())
        } else {
            Err(format!("{annotations:?}"))
        }
    })
    .await;
    assert_eq!(play.remediations().await[0].name_any(), machine.name_any());
    play.remedied(&host, RemediationPhase::Waiting, 0).await;
    assert!(
        play.is_out_of_service(&host).await,
        "its kubelet has not been heard of yet"
    );
    let same = play.well().await;
    assert_eq!(same.metadata.uid, machine.metadata.uid);
    assert!(!play.is_out_of_service(&host).await);

    // It is silent again, and no power cycle helps.
    play.kubelet(&play.node(&host), "Unknown").await;
    for retries in [0, 1] {
        play.remedied(&host, RemediationPhase::Waiting, retries).await;
        let past = json!({"status": {"lastRemediated": "2020-01-01T00:00:00Z"}});
        site.patch_status::<Metal3Remediation>(&machine.name_any(), past).await;
    }
    eventually(LIMIT, "Cluster API replaces the machine", || async {
        play.round(Some(&host)).await;
        let machines = play.machines().await;
        let is_other = |other: &Machine| other.metadata.uid != machine.metadata.uid;
        if machines.iter().any(is_other) {
            Ok(())
        } else {
            Err(format!("{machines:?}"))
        }
    })
    .await;
    let other = play.well().await;
    assert_ne!(other.metadata.uid, machine.metadata.uid);
    assert!(!says(
        &other.status.conditions,
        "OwnerRemediated",
        &False,
        "WaitingForRemediation"
    ));
    assert_ne!(play.host_in_use().await, host);
    let left = hosts.get(&host).await.unwrap();
    let marks: Vec<_> = left.annotations().iter().collect();
    assert_eq!(
        marks,
        [(
            &"capm3.metal3.io/unhealthy".to_owned(),
            &"capm3/UnhealthyNode".to_owned()
        )]
    );
    let template: Metal3RemediationTemplate = site.namespace.api().get("reboot").await.unwrap();
    assert_eq!(template.status, None, "nobody writes it, here or upstream");
    stage.stop().await;
}
