//! A whole lab: a control plane, an Ironic with simulated servers, and the operator under its own service account with the rights
//! that it ships; optionally everything to create clusters of the servers.
//!
//! ```text
//!   .lab/NAME/            the lab's folder, held by the process that started it (crate::instance)
//!     lab.json           how to reach everything, passwords included; written when all of it runs
//!     kubectl             for the administrator, with admin.kubeconfig
//!     ironic.curl         for `curl -K`: credentials and trust for Ironic's API
//!     control-plane/ ironic/ operator/   each with its logs
//!     workload/ managers/                the same of what makes clusters
//!     servers/            a folder for each server that really boots, with its console's log
//! ```
//!
//! Every start begins from scratch: Ironic's database and the servers' disks end with their programs, so an older cluster would
//! reference servers that do not exist.

mod access;
mod clusters;
mod programs;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use kube::Client;

pub use access::Access;
pub use clusters::{Boots, Clusters};
pub use programs::Programs;

use crate::apply;
use crate::control_plane::{ControlPlane, ControlPlaneConfig};
use crate::instance::Claim;
use crate::ironic::{IronicConfig, IronicLab};
use crate::manager::Manager;
use crate::operator::{self, OperatorConfig};

/// The operator's namespace and service account, as `config/rbac` has them.
const OPERATOR: (&str, &str) = ("baremetal-operator-system", "baremetal-operator-controller-manager");
/// What a lab makes in its folder, and removes before it starts.
const CONTENTS: [&str; 10] = [
    access::FILE,
    access::KUBECONFIG,
    access::CURL,
    access::KUBECTL,
    "control-plane",
    "ironic",
    "operator",
    "workload",
    "managers",
    "servers",
];

/// What to start.
#[derive(Debug, Clone)]
pub struct LabConfig {
    /// Where everything goes. What an earlier lab left there is removed.
    pub folder: PathBuf,
    /// How many simulated servers there are.
    pub servers: u16,
    /// Whether clusters are to be made of them, and what boots then.
    pub clusters: Option<Boots>,
    /// The programs, see [`Programs::ensure`].
    pub programs: Programs,
}

/// A running lab. Dropping it kills all of it; [`Lab::stop`] is gentler.
#[derive(Debug)]
pub struct Lab {
    // Fields are dropped in this order: clients of a program go before it, the folder last.
    clusters: Option<Clusters>,
    operator: Manager,
    operator_config: OperatorConfig,
    ironic: IronicLab,
    control_plane: ControlPlane,
    claim: Claim,
}

impl Lab {
    /// Starts everything and returns when the operator is ready. Calls `say` after each step.
    pub async fn start(config: LabConfig, say: &(dyn Fn(&str) + Sync)) -> Result<Self> {
        let claim = Claim::take(&config.folder)?;
        clear(claim.folder())?;
        let folder = claim.folder().to_owned();
        let LabConfig {
            servers,
            programs,
            clusters,
            ..
        } = config;

        let control_plane = async {
            let start = Instant::now();
            let config = ControlPlaneConfig {
                folder: Some(folder.join("control-plane")),
                controller_manager: true,
                binaries: Some(programs.binaries.clone()),
                ..ControlPlaneConfig::default()
            };
            let control_plane = ControlPlane::start(config)
                .await
                .context("the control plane did not start")?;
            say(&format!("Kubernetes serves at {} {}", control_plane.url(), took(start)));
            anyhow::Ok(control_plane)
        };
        let ironic = async {
            let start = Instant::now();
            let config = IronicConfig {
                folder: Some(folder.join("ironic")),
                hosts: servers,
                ..IronicConfig::default()
            };
            let ironic = IronicLab::start(config).await.context("Ironic did not start")?;
            say(&format!(
                "Ironic serves at {} with {servers} simulated servers {}",
                ironic.endpoint(),
                took(start)
            ));
            anyhow::Ok(ironic)
        };
        let (control_plane, ironic) = tokio::try_join!(control_plane, ironic)?;

        let start = Instant::now();
        install(&control_plane).await?;
        say(&format!(
            "custom resource definitions and the operator's rights are applied {}",
            took(start)
        ));

        let start = Instant::now();
        let kubeconfig = control_plane.service_account_kubeconfig(OPERATOR.0, OPERATOR.1).await?;
        let mut operator_config = OperatorConfig::new(programs.operator(), folder.join("operator"), kubeconfig);
        // A single replica needs no election, but the rights for it are shipped, so they are exercised.
        operator_config.args = vec![
            "--enable-leader-election".to_owned(),
            "--retry-base-seconds=5".to_owned(),
        ];
        let operator = operator::start(&operator_config, &(&ironic).into())
            .await
            .context("the operator did not start")?;
        say(&format!(
            "the operator runs as service account {}/{} {}",
            OPERATOR.0,
            OPERATOR.1,
            took(start)
        ));
        let clusters = match clusters {
            Some(boots) => Some(Clusters::start(&control_plane, &ironic, boots, &programs.folder, &folder, say).await?),
            None => None,
        };
        let lab = Self {
            clusters,
            operator,
            operator_config,
            ironic,
            control_plane,
            claim,
        };
        lab.write_access()?;
        Ok(lab)
    }

    /// The lab's folder, as an absolute path.
    pub fn folder(&self) -> &Path {
        self.claim.folder()
    }

    /// The control plane.
    pub fn control_plane(&self) -> &ControlPlane {
        &self.control_plane
    }

    /// Ironic and its servers.
    pub fn ironic(&self) -> &IronicLab {
        &self.ironic
    }

    /// The operator.
    pub fn operator(&self) -> &Manager {
        &self.operator
    }

    /// What makes clusters, if it was asked for.
    pub fn clusters(&self) -> Option<&Clusters> {
        self.clusters.as_ref()
    }

    /// An error if something has ended without which the lab makes no sense: anything but the operator.
    pub fn ensure_alive(&self) -> Result<()> {
        self.control_plane.ensure_alive()?;
        self.ironic.ensure_alive()?;
        self.clusters.as_ref().map_or(Ok(()), Clusters::ensure_alive)
    }

    /// How to reach it all.
    pub fn access(&self) -> Result<Access> {
        Access::of(self)
    }

    /// Starts the operator again, as its Deployment would do if it ended.
    pub async fn restart_operator(&mut self) -> Result<()> {
        self.operator = operator::start(&self.operator_config, &(&self.ironic).into()).await?;
        self.write_access()
    }

    fn write_access(&self) -> Result<()> {
        let kubectl = self.control_plane.binaries().kubectl.as_deref();
        let kubectl = kubectl.context("a lab needs a kubectl")?;
        Access::of(self)?.write(self.folder(), kubectl)
    }

    /// Stops all of it in good order. Fails if something of it is left on the machine.
    pub async fn stop(self) -> Result<()> {
        // From now on the lab cannot be found.
        fs::remove_file(self.folder().join(access::FILE)).ok();
        let clean = match self.clusters {
            Some(clusters) => clusters.stop().await,
            None => Ok(()),
        };
        self.operator.stop().await;
        tokio::join!(self.ironic.stop(), self.control_plane.stop());
        clean
    }
}

/// Removes what labs make in their folder, and nothing else. The caller must hold the folder.
pub fn clear(folder: &Path) -> Result<()> {
    for name in CONTENTS {
        let path = folder.join(name);
        let removed = if path.is_dir() {
            fs::remove_dir_all(&path)
        } else {
            fs::remove_file(&path)
        };
        match removed {
            Err(err) if err.kind() != std::io::ErrorKind::NotFound => {
                return Err(err).with_context(|| format!("cannot remove {}", path.display()));
            }
            _ => {}
        }
    }
    Ok(())
}

async fn install(control_plane: &ControlPlane) -> Result<()> {
    let client = control_plane.client().await?;
    let config = config_folder();
    apply::apply_crds(&client, &config.join("crd")).await?;
    grant(&client, "baremetal-operator").await
}

/// Gives a program what `config/rbac` has for it, with the Secrets of all namespaces: a lab's users make hosts in any.
async fn grant(client: &Client, program: &str) -> Result<()> {
    for set in ["", "secrets-in-all-namespaces"] {
        let rights = config_folder().join("rbac").join(set).join(format!("{program}.yaml"));
        if set.is_empty() || rights.exists() {
            let text = fs::read_to_string(&rights).with_context(|| format!("cannot read {}", rights.display()))?;
            apply::apply(client, &apply::parse(&text)?, None).await?;
        }
    }
    Ok(())
}

/// What users install.
fn config_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config")
}

fn took(start: Instant) -> String {
    let elapsed: Duration = start.elapsed();
    format!("({:.1} s)", elapsed.as_secs_f64())
}
