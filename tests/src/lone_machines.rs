//! Machines without Cluster API, whose objects the test writes, and providers that may be killed.

use std::time::Duration;

use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use metal3_api::capi::Cluster;
use metal3_api::infra::v1beta2::Metal3Machine;
use metal3_lab::manager::{Manager, ManagerConfig};
use metal3_testkit::TestNamespace;
use serde_json::{Value, json};

use crate::clusters::installed;
use crate::env::bind_secrets;
use crate::unsteady::{Trouble, UnsteadyApi};
use crate::usual::show_end_after_failure;

const CORE: &str = "cluster.x-k8s.io/v1beta2";
const GROUP: &str = "infrastructure.cluster.x-k8s.io";
/// The Cluster of all machines.
const CLUSTER: &str = "c";

/// A cluster ready for machines.
pub async fn make_cluster(namespace: &TestNamespace) {
    metal3_lab::cluster_api::define(&namespace.client)
        .await
        .expect("Cluster API's definitions");
    let reference = json!({"apiGroup": GROUP, "kind": "Metal3Cluster", "name": CLUSTER});
    let cluster = json!({"apiVersion": CORE, "kind": "Cluster", "metadata": {"name": CLUSTER},
        "spec": {"infrastructureRef": reference}});
    let made = namespace.apply(&cluster.to_string()).await;
    let owner = json!({"apiVersion": CORE, "kind": "Cluster", "name": CLUSTER, "uid": made[0].metadata.uid});
    let ours = json!({"apiVersion": format!("{GROUP}/v1beta2"), "kind": "Metal3Cluster",
        "metadata": {"name": CLUSTER, "labels": labels(), "ownerReferences": [owner]},
        "spec": {"controlPlaneEndpoint": {"host": "192.0.2.1", "port": 6443}}});
    let bootstrap = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "bootstrap"},
        "stringData": {"value": "#cloud-config\n# secret-of-bootstrap-data\n"}});
    namespace.apply(&format!("{ours}\n---\n{bootstrap}")).await;
    let ready = Patch::Merge(json!({"status": {"initialization": {"infrastructureProvisioned": true}}}));
    let clusters: Api<Cluster> = namespace.api();
    let written = clusters.patch_status(CLUSTER, &PatchParams::default(), &ready).await;
    written.expect("the status is accepted");
}

/// A Machine with its bootstrap data, and its Metal3Machine.
pub async fn make_machine(namespace: &TestNamespace, name: &str) {
    let reference = json!({"apiGroup": GROUP, "kind": "Metal3Machine", "name": name});
    let machine = json!({"apiVersion": CORE, "kind": "Machine", "metadata": {"name": name, "labels": labels()},
        "spec": {"clusterName": CLUSTER, "bootstrap": {"dataSecretName": "bootstrap"}, "infrastructureRef": reference}});
    let made = namespace.apply(&machine.to_string()).await;
    let owner = json!({"apiVersion": CORE, "kind": "Machine", "name": name, "uid": made[0].metadata.uid});
    let image = json!({"url": "http://images.example/a.img", "checksum": "ab".repeat(32), "checksumType": "sha256",
        "diskFormat": "raw"});
    let ours = json!({"apiVersion": format!("{GROUP}/v1beta2"), "kind": "Metal3Machine",
        "metadata": {"name": name, "labels": labels(), "ownerReferences": [owner]}, "spec": {"image": image}});
    namespace.apply(&ours.to_string()).await;
}

/// Deletes a Metal3Machine, as Cluster API does when its Machine is deleted.
pub async fn delete_machine(namespace: &TestNamespace, name: &str) {
    let machines: Api<Metal3Machine> = namespace.api();
    let deleted = machines.delete(name, &DeleteParams::default()).await;
    deleted.expect("the deletion is accepted");
}

fn labels() -> Value {
    json!({"cluster.x-k8s.io/cluster-name": CLUSTER})
}

/// A provider behind a bad network, started and killed on demand.
pub struct ShakyProvider {
    /// Its way to the API server.
    pub network: UnsteadyApi,
    config: ManagerConfig,
    running: Option<Manager>,
}

impl ShakyProvider {
    /// The provider of this number, not started.
    pub async fn new(namespace: &TestNamespace, number: u64, seed: u64) -> Self {
        let mut config = installed(
            namespace,
            "cluster-api-provider-metal3",
            "capm3-manager-role",
            bind_secrets,
        )
        .await;
        let trouble = Trouble {
            late: Duration::from_secs(1),
            lost: 0.05,
            seed: seed + number,
        };
        let network = UnsteadyApi::start(namespace.server(), trouble).await;
        config.name = format!("provider-{number}");
        config.kubeconfig = network.kubeconfig(&config.kubeconfig, &format!("{}-{number}", namespace.name));
        config.wait = false;
        Self {
            network,
            config,
            running: None,
        }
    }

    /// Starts it. Kills a running one first, as `kill -9` does.
    pub async fn restart(&mut self) {
        self.running = None;
        self.running = Some(Manager::start(&self.config).await.expect("it starts"));
    }

    /// Kills it as `kill -9` does.
    pub fn kill(&mut self) {
        self.running = None;
    }

    /// Its log, over all its runs.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.config.log()).unwrap_or_default()
    }
}

impl Drop for ShakyProvider {
    /// A failed scenario prints the end of its providers' logs.
    fn drop(&mut self) {
        show_end_after_failure(&self.config.name, &self.log());
    }
}
