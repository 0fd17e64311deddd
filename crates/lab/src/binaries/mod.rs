//! Where the lab's programs come from.
//!
//! In this order: matching binaries already installed on the machine ([`found`]), a cache folder, a build from the pinned Go
//! modules in `lab/` ([`build`]), which fills the cache. Only Go modules are downloaded, by the ordinary Go command.

mod build;
mod found;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// The programs of a control plane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binaries {
    /// etcd.
    pub etcd: PathBuf,
    /// kube-apiserver.
    pub kube_apiserver: PathBuf,
    /// kube-controller-manager. Kubebuilder's assets have none.
    pub kube_controller_manager: Option<PathBuf>,
    /// kubectl.
    pub kubectl: Option<PathBuf>,
}

/// Cluster API's managers, and what installs them.
#[derive(Debug, Clone)]
pub struct ClusterApiBinaries {
    folder: PathBuf,
    /// Our own control plane binary, whose `manifests` command renders what a provider installs.
    pub controlplane: PathBuf,
}

impl ClusterApiBinaries {
    /// The executable of this name, such as `capi-core` or `clusterctl`.
    pub fn executable(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The folder with the definitions of the kinds of a provider, or of clusterctl itself.
    pub fn definitions(&self, provider: &str) -> PathBuf {
        self.folder.join("config").join(provider).join("crd/bases")
    }

    /// The kustomization of a provider, such as `core`, as it is shipped in the module.
    pub fn kustomization(&self, provider: &str) -> PathBuf {
        self.folder.join("config").join(provider).join("default")
    }
}

/// etcd and kube-apiserver, and the others if they are at hand. Builds for minutes if nothing fits; blocks meanwhile.
pub fn ensure() -> Result<Binaries> {
    match found::search()? {
        Some(found) => Ok(found),
        None => built(),
    }
}

/// The same, with kube-controller-manager and kubectl for certain.
pub fn ensure_complete() -> Result<Binaries> {
    match found::search()? {
        Some(found) if found.kube_controller_manager.is_some() && found.kubectl.is_some() => Ok(found),
        _ => built(),
    }
}

/// Cluster API's managers of the version in `lab/cluster-api/go.mod`. Builds for minutes if the cache has none.
pub fn ensure_cluster_api() -> Result<ClusterApiBinaries> {
    let controlplane = build::control_plane()?.join("controlplane");
    Ok(ClusterApiBinaries {
        folder: build::cluster_api()?,
        controlplane,
    })
}

/// Helm of the version in `lab/helm/go.mod`. Builds for minutes if the cache has none; blocks meanwhile.
pub fn ensure_helm() -> Result<PathBuf> {
    Ok(build::helm()?.join("helm"))
}

/// Prometheus' tool for rules, of the version in `lab/prometheus/go.mod`. Builds for minutes if the cache has none; blocks meanwhile.
pub fn ensure_promtool() -> Result<PathBuf> {
    Ok(build::promtool()?.join("promtool"))
}

/// Folders with the definitions of Cluster API's kinds, of the same version. Seconds where the managers would take minutes:
/// enough where no manager has to act on the objects. Blocks.
///
/// They convert nothing and admit what the schema admits, because that is the managers' part.
pub fn cluster_api_definitions() -> Result<Vec<PathBuf>> {
    build::cluster_api_definitions()
}

/// The folder with the programs of a node, see [`build::node`].
pub(crate) fn ensure_node() -> Result<PathBuf> {
    build::node()
}

fn built() -> Result<Binaries> {
    Ok(built_at(&build::control_plane()?))
}

fn built_at(folder: &Path) -> Binaries {
    Binaries {
        etcd: folder.join("etcd"),
        kube_apiserver: folder.join("kube-apiserver"),
        kube_controller_manager: Some(folder.join("kube-controller-manager")),
        kubectl: Some(folder.join("kubectl")),
    }
}

/// The folder of a Go module of the lab.
fn module(name: &str) -> Result<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../lab").join(name);
    path.canonicalize()
        .with_context(|| format!("the sources of the lab are not at {}", path.display()))
}
