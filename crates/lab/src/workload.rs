//! A workload cluster for Cluster API: its own API server and etcd, and the objects of booted servers.
//!
//! ```text
//!   Ironic ──▶ simulated servers ──config drive──▶ boot ──▶ Nodes, Pods ──▶ API server of the workload cluster
//!                                  (kubelets)                                 ▲ ▲
//!                       Cluster API's managers, the infrastructure provider ──┘ └── <cluster>-kubeconfig
//! ```
//!
//! Nothing runs on the servers, so no images are pulled and no containers started. The objects that Cluster API reads exist:
//! Nodes with the name, labels and taints from the user data on the config drive, the ConfigMap `kubeadm-config`, and the mirror
//! Pods of a control plane. `lab/README.md` says why each is needed.

mod boot;
mod fit;
mod kubelets;
mod objects;
mod steps;

use std::path::PathBuf;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub(crate) use boot::addresses;
pub use boot::{Boot, Role};
pub use fit::{fit, fit_to_nodes};
pub use kubelets::{join, leave};
pub use steps::Silence;

use crate::binaries::Binaries;
use crate::control_plane::{ControlPlane, ControlPlaneConfig};
use crate::ironic::Servers;
use crate::pki::Pair;
use kubelets::Kubelets;

/// A running workload cluster. Dropping it kills it.
#[derive(Debug)]
pub struct WorkloadCluster {
    kubelets: Option<Kubelets>,
    control_plane: ControlPlane,
    access: Access,
}

/// How to reach a workload cluster: what the manifests of a cluster say of it. It holds private keys, which its `Debug`
/// hides.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Access {
    /// The API server's port on 127.0.0.1.
    pub port: u16,
    /// The address of its etcd.
    pub etcd_url: String,
    /// Its Kubernetes version, such as `v1.36.3`.
    pub version: String,
    /// The administrator's kubeconfig.
    pub kubeconfig: PathBuf,
    /// The authority that it believes clients by.
    pub authority: Pair,
    /// What the API server shows to etcd.
    pub etcd_client: Pair,
}

impl WorkloadCluster {
    /// Starts it in `folder`, or in a temporary one. The servers join it when they boot with user data for kubeadm; without
    /// any, the caller plays them with [`join`].
    pub async fn start(folder: Option<PathBuf>, binaries: Option<Binaries>, servers: Option<Servers>) -> Result<Self> {
        let config = ControlPlaneConfig {
            folder,
            binaries,
            ..ControlPlaneConfig::default()
        };
        let control_plane = ControlPlane::start(config)
            .await
            .context("the workload cluster did not start")?;
        let client = control_plane.client().await?;
        let version = client.apiserver_version().await.context("no version")?.git_version;
        let access = Access {
            port: control_plane.port(),
            etcd_url: control_plane.etcd_url(),
            version: version.clone(),
            kubeconfig: control_plane.admin_kubeconfig(),
            authority: control_plane.authority().pair(),
            etcd_client: control_plane.authority().client("kube-apiserver-etcd-client", &[])?,
        };
        let log = control_plane.folder().join("logs/kubelets.log");
        Ok(Self {
            kubelets: servers.map(|servers| Kubelets::start(client, version, servers, log)),
            control_plane,
            access,
        })
    }

    /// The API server.
    pub fn control_plane(&self) -> &ControlPlane {
        &self.control_plane
    }

    /// How to reach it.
    pub fn access(&self) -> &Access {
        &self.access
    }

    /// Lets the kubelet of a server, by the server's name, fall silent while the server runs on: its Node is not ready.
    /// Fails where no servers join.
    pub fn silence(&self, server: &str, silence: Silence) -> Result<()> {
        let kubelets = self.kubelets.as_ref().context("no servers join this cluster")?;
        kubelets.silence(server, silence);
        Ok(())
    }

    /// Stops it.
    pub async fn stop(self) {
        drop(self.kubelets);
        self.control_plane.stop().await;
    }
}

impl Access {
    /// The Secrets that a user makes for a cluster whose certificates are there before it: its own authority, and how
    /// to reach its etcd. From the first, Cluster API makes a kubeconfig that works.
    pub fn secrets(&self, cluster: &str) -> [Value; 3] {
        let secret = |purpose: &str, data: Value| {
            json!({
                "apiVersion": "v1", "kind": "Secret", "type": "cluster.x-k8s.io/secret",
                "metadata": {
                    "name": format!("{cluster}-{purpose}"),
                    "labels": {"cluster.x-k8s.io/cluster-name": cluster},
                },
                "stringData": data,
            })
        };
        let pair = |pair: &Pair| json!({"tls.crt": pair.certificate, "tls.key": pair.key});
        [
            secret("ca", pair(&self.authority)),
            // Without a key: nothing signs for an external etcd, and Cluster API would put the key
            // into a file without a name.
            secret("etcd", json!({"tls.crt": self.authority.certificate})),
            secret("apiserver-etcd-client", pair(&self.etcd_client)),
        ]
    }
}
