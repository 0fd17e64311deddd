//! Everything needed to create clusters of a lab's hosts.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result};

use super::{grant, took};
use crate::cluster_api::ClusterApi;
use crate::control_plane::ControlPlane;
use crate::ironic::IronicLab;
use crate::manager::{Manager, ManagerConfig};
use crate::workload::WorkloadCluster;

/// Our programs beside the operator: their name, namespace and service account, as `config/rbac` has them.
const PROGRAMS: [(&str, &str, &str); 2] = [
    ("ip-address-manager", "metal3-ipam-system", "ipam-manager"),
    ("cluster-api-provider-metal3", "capm3-system", "capm3-manager"),
];

/// Our other programs, Cluster API's managers, and a workload cluster for one cluster. Dropping it kills them.
#[derive(Debug)]
pub struct Clusters {
    managers: Vec<(Manager, PathBuf)>,
    capi: ClusterApi,
    workload: WorkloadCluster,
}

impl Clusters {
    /// Starts them for a management cluster that has the definitions of our kinds. `binaries` is the folder of our
    /// programs; `say` is told of every step that is done.
    pub(super) async fn start(
        control_plane: &ControlPlane,
        ironic: &IronicLab,
        binaries: &Path,
        folder: &Path,
        say: &(dyn Fn(&str) + Sync),
    ) -> Result<Self> {
        let start = Instant::now();
        let workload = WorkloadCluster::start(
            Some(folder.join("workload")),
            Some(control_plane.binaries().clone()),
            Some(ironic.servers()),
        )
        .await?;
        say(&format!(
            "the workload cluster's API server, which the servers will join, serves at {} {}",
            workload.control_plane().url(),
            took(start)
        ));
        let start = Instant::now();
        let capi = ClusterApi::start(control_plane).await?;
        say(&format!(
            "Cluster API runs: core, kubeadm bootstrap and kubeadm control plane {}",
            took(start)
        ));
        let mut managers = Vec::new();
        for program in PROGRAMS {
            let start = Instant::now();
            managers.push(manager(control_plane, binaries, folder, program).await?);
            let (name, namespace, account) = program;
            say(&format!(
                "the {name} runs as service account {namespace}/{account} {}",
                took(start)
            ));
        }
        Ok(Self {
            managers,
            capi,
            workload,
        })
    }

    /// The workload cluster.
    pub fn workload(&self) -> &WorkloadCluster {
        &self.workload
    }

    /// What our programs and the kubelets write.
    pub fn logs(&self) -> Vec<PathBuf> {
        let kubelets = self.workload.control_plane().folder().join("logs/kubelets.log");
        let managers = self.managers.iter().map(|(_, log)| log.clone());
        managers.chain([kubelets]).collect()
    }

    /// An error with the end of its log if one of them has ended.
    pub fn ensure_alive(&self) -> Result<()> {
        self.workload.control_plane().ensure_alive()?;
        self.capi.ensure_alive()?;
        self.managers
            .iter()
            .try_for_each(|(manager, _)| manager.process().ensure_alive())
    }

    /// Stops them in good order.
    pub(super) async fn stop(self) {
        for (manager, _) in self.managers {
            manager.stop().await;
        }
        self.capi.stop().await;
        self.workload.stop().await;
    }
}

/// One of our programs with the rights that it ships, and its log.
async fn manager(
    control_plane: &ControlPlane,
    binaries: &Path,
    folder: &Path,
    (name, namespace, account): (&str, &str, &str),
) -> Result<(Manager, PathBuf)> {
    grant(&control_plane.client().await?, name).await?;
    let kubeconfig = control_plane.service_account_kubeconfig(namespace, account).await?;
    let mut config = ManagerConfig::new(name, binaries.join(name), folder.join("managers"), kubeconfig);
    // A single replica needs no election, but the rights for it are shipped, so they are exercised.
    config.args = vec!["--leader-elect".to_owned()];
    config.env = vec![("POD_NAMESPACE".into(), namespace.into())];
    let log = config.log();
    let manager = Manager::start(&config)
        .await
        .with_context(|| format!("the {name} did not start"))?;
    Ok((manager, log))
}
