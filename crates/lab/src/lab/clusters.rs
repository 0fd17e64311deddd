//! Everything needed to create clusters of a lab's hosts.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result};

use super::{grant, took};
use crate::cluster_api::ClusterApi;
use crate::control_plane::ControlPlane;
use crate::image;
use crate::ironic::IronicLab;
use crate::manager::{Manager, ManagerConfig};
use crate::nodes::Nodes;
use crate::workload::WorkloadCluster;

/// Our programs beside the operator: their name, namespace and service account, as `config/rbac` has them.
const PROGRAMS: [(&str, &str, &str); 2] = [
    ("ip-address-manager", "metal3-ipam-system", "ipam-manager"),
    ("cluster-api-provider-metal3", "capm3-system", "capm3-manager"),
];

/// What happens when a server boots the image that was written to its disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Boots {
    /// Its kubelet is played, and joins a workload cluster that is there beforehand.
    Played,
    /// A system container starts, and does what the user data say ([`crate::nodes`]).
    Really,
}

/// What there is of a workload cluster.
#[derive(Debug)]
enum Workload {
    Played(Box<WorkloadCluster>),
    Real(Box<Nodes>),
}

/// Our other programs, Cluster API's managers, and what servers become Nodes of. Dropping it kills them.
#[derive(Debug)]
pub struct Clusters {
    managers: Vec<(Manager, PathBuf)>,
    capi: ClusterApi,
    workload: Workload,
}

impl Clusters {
    /// Starts them for a management cluster that has the definitions of our kinds. `binaries` is the folder of our
    /// programs; `say` is told of every step that is done.
    pub(super) async fn start(
        control_plane: &ControlPlane,
        ironic: &IronicLab,
        boots: Boots,
        binaries: &Path,
        folder: &Path,
        say: &(dyn Fn(&str) + Sync),
    ) -> Result<Self> {
        let workload = Workload::start(control_plane, ironic, boots, folder, say).await?;
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

    /// The workload cluster, where kubelets are played.
    pub fn workload(&self) -> Option<&WorkloadCluster> {
        match &self.workload {
            Workload::Played(workload) => Some(workload),
            Workload::Real(_) => None,
        }
    }

    /// The servers, where they really boot.
    pub fn nodes(&self) -> Option<&Nodes> {
        match &self.workload {
            Workload::Played(_) => None,
            Workload::Real(nodes) => Some(nodes),
        }
    }

    /// What our programs and the servers write.
    pub fn logs(&self) -> Vec<PathBuf> {
        let servers = match &self.workload {
            Workload::Played(workload) => workload.control_plane().folder().join("logs/kubelets.log"),
            Workload::Real(nodes) => nodes.access().log.clone(),
        };
        let managers = self.managers.iter().map(|(_, log)| log.clone());
        managers.chain([servers]).collect()
    }

    /// An error with the end of its log if one of them has ended.
    pub fn ensure_alive(&self) -> Result<()> {
        match &self.workload {
            Workload::Played(workload) => workload.control_plane().ensure_alive()?,
            Workload::Real(nodes) => nodes.ensure_alive()?,
        }
        self.capi.ensure_alive()?;
        self.managers
            .iter()
            .try_for_each(|(manager, _)| manager.process().ensure_alive())
    }

    /// Stops them in good order.
    pub(super) async fn stop(self) -> Result<()> {
        for (manager, _) in self.managers {
            manager.stop().await;
        }
        self.capi.stop().await;
        match self.workload {
            Workload::Played(workload) => workload.stop().await,
            Workload::Real(nodes) => nodes.stop().await?,
        }
        Ok(())
    }
}

impl Workload {
    async fn start(
        control_plane: &ControlPlane,
        ironic: &IronicLab,
        boots: Boots,
        folder: &Path,
        say: &(dyn Fn(&str) + Sync),
    ) -> Result<Self> {
        let start = Instant::now();
        if boots == Boots::Really {
            let image = tokio::task::spawn_blocking(image::ensure).await;
            let image = image.context("making the image was cut off")??;
            let nodes = Nodes::start(&folder.join("servers"), &image, ironic.hosts(), ironic.servers()).await?;
            say(&format!(
                "the servers will really boot, into Kubernetes {} {}",
                image.version,
                took(start)
            ));
            return Ok(Self::Real(Box::new(nodes)));
        }
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
        Ok(Self::Played(Box::new(workload)))
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
