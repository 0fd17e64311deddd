//! clusterctl, unmodified: the inventory that it expects in a management cluster, and its moves between management clusters.
//!
//! `clusterctl init` downloads manifests from release pages. The lab installs the same manifests from the module
//! ([`crate::cluster_api`]) and from `config/`, and adds clusterctl's own inventory: its CRD, and one entry per provider, which a
//! move compares between the two clusters. The installation sets the labels that clusterctl looks for.

use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use kube::api::DynamicObject;
use serde_json::json;

use crate::binaries::{self, ClusterApiBinaries};
use crate::{ControlPlane, apply};

/// On everything that clusterctl has installed.
pub(crate) const LABEL: &str = "clusterctl.cluster.x-k8s.io";

/// How long a move may take. clusterctl itself waits for minutes until an object lets itself be moved.
const MOVE: Duration = Duration::from_secs(400);

/// A provider as clusterctl's inventory has it.
#[derive(Debug, Clone, Copy)]
pub struct Entry<'a> {
    /// `InfrastructureProvider` and so on.
    pub type_: &'a str,
    /// What `clusterctl init` calls it, such as `kubeadm`.
    pub provider: &'a str,
    /// The name that its type makes of that: the label `cluster.x-k8s.io/provider` of what it has installed.
    pub name: &'a str,
    /// The namespace that it runs in.
    pub namespace: &'a str,
    /// Its version, with a `v`.
    pub version: &'a str,
}

/// Cluster API's own providers: type, what `clusterctl init` calls them, name, namespace.
const CLUSTER_API: [[&str; 4]; 3] = [
    ["CoreProvider", "cluster-api", "cluster-api", "capi-system"],
    [
        "BootstrapProvider",
        "kubeadm",
        "bootstrap-kubeadm",
        "capi-kubeadm-bootstrap-system",
    ],
    [
        "ControlPlaneProvider",
        "kubeadm",
        "control-plane-kubeadm",
        "capi-kubeadm-control-plane-system",
    ],
];

/// The program.
#[derive(Debug)]
pub struct Clusterctl {
    built: ClusterApiBinaries,
    /// Its settings are looked for here and nowhere else: those of this machine's user are none of the lab's business.
    home: PathBuf,
}

impl Clusterctl {
    /// Builds it first if it is not in the cache. `home` is a folder of the lab's.
    pub async fn ensure(home: &Path) -> Result<Self> {
        let built = tokio::task::spawn_blocking(binaries::ensure_cluster_api)
            .await
            .context("the search for clusterctl was cut off")??;
        let home = home.to_owned();
        std::fs::create_dir_all(&home).with_context(|| format!("cannot make the folder {}", home.display()))?;
        Ok(Self { built, home })
    }

    /// Writes into a management cluster which providers are installed: Cluster API's, which must run there, and these.
    pub async fn take_stock(&self, lab: &ControlPlane, others: &[Entry<'_>]) -> Result<()> {
        let client = lab.client().await?;
        apply::apply_crds(&client, &self.built.definitions("clusterctl")).await?;
        let version = self.run(&["version", "-o", "short"]).await?;
        let version = version.lines().next().context("clusterctl has no version")?;
        let own = CLUSTER_API.map(|[type_, provider, name, namespace]| Entry {
            type_,
            provider,
            name,
            namespace,
            version,
        });
        let entries: Vec<DynamicObject> = own
            .iter()
            .chain(others)
            .map(|entry| serde_json::from_value(entry.object()))
            .collect::<Result<_, _>>()
            .context("an entry that is no object")?;
        apply::apply(&client, &entries, None)
            .await
            .context("clusterctl's inventory")?;
        Ok(())
    }

    /// Moves all clusters of a namespace, and what belongs to them. Returns what clusterctl has told, which is also part of
    /// the error when it fails.
    pub async fn move_namespace(&self, namespace: &str, from: &ControlPlane, to: &ControlPlane) -> Result<String> {
        let (from, to) = (text(&from.admin_kubeconfig())?, text(&to.admin_kubeconfig())?);
        self.run(&["move", "-n", namespace, "--kubeconfig", &from, "--to-kubeconfig", &to])
            .await
    }

    /// Writes the same objects to files in a folder. They stay where they are.
    pub async fn back_up(&self, namespace: &str, from: &ControlPlane, folder: &Path) -> Result<String> {
        let (from, folder) = (text(&from.admin_kubeconfig())?, text(folder)?);
        self.run(&[
            "move",
            "-n",
            namespace,
            "--kubeconfig",
            &from,
            "--to-directory",
            &folder,
        ])
        .await
    }

    /// Makes the objects of such files again.
    pub async fn restore(&self, folder: &Path, to: &ControlPlane) -> Result<String> {
        let (folder, to) = (text(folder)?, text(&to.admin_kubeconfig())?);
        // The namespace is that of each object.
        self.run(&["move", "--from-directory", &folder, "--to-kubeconfig", &to])
            .await
    }

    /// What it writes to both of its streams.
    async fn run(&self, args: &[&str]) -> Result<String> {
        let program = self.built.executable("clusterctl");
        let running = tokio::process::Command::new(&program)
            .args(args)
            .env("HOME", &self.home)
            .env("XDG_CONFIG_HOME", &self.home)
            // It would look for a newer one on the net.
            .env("CLUSTERCTL_DISABLE_VERSIONCHECK", "true")
            .kill_on_drop(true)
            .output();
        let Output { status, stdout, stderr } = tokio::time::timeout(MOVE, running)
            .await
            .with_context(|| format!("clusterctl {} did not end in {MOVE:?}", args.join(" ")))?
            .with_context(|| format!("cannot run {}", program.display()))?;
        let [stdout, stderr] = [stdout, stderr].map(|said| String::from_utf8_lossy(&said).into_owned());
        if !status.success() {
            bail!("clusterctl {} failed ({status}):\n{stdout}{stderr}", args.join(" "));
        }
        Ok(stdout + &stderr)
    }
}

fn text(path: &Path) -> Result<String> {
    path.to_str().map(str::to_owned).context("a path that is no text")
}

impl Entry<'_> {
    fn object(&self) -> serde_json::Value {
        json!({
            "apiVersion": "clusterctl.cluster.x-k8s.io/v1alpha3",
            "kind": "Provider",
            "metadata": {
                "name": self.name,
                "namespace": self.namespace,
                "labels": {
                    LABEL: "",
                    "clusterctl.cluster.x-k8s.io/core": "inventory",
                    "cluster.x-k8s.io/provider": self.name,
                },
            },
            "type": self.type_,
            "providerName": self.provider,
            "version": self.version,
        })
    }
}
