//! A Kubernetes control plane on loopback: etcd, kube-apiserver and optionally kube-controller-manager.
//!
//! The files in an instance's folder:
//!
//! ```text
//!   instance.lock      held by the owner, with its process number (crate::instance)
//!   admin.kubeconfig   cluster-admin, for kubectl
//!   kubeconfigs/       of users and service accounts
//!   pki/               ca.crt, ca.key, apiserver.*, sa.key, sa.pub
//!   ports.json         the ports of the last start, taken again if they are free
//!   etcd/              the data: an instance that is started again in the folder goes on where it was
//!   logs/              one file per program
//!   audit/             policy.yaml and, if asked for, audit.log
//!   providers/         certificates and kubeconfigs of managers (crate::provider)
//! ```
//!
//! Without kube-controller-manager there are no default service accounts, no garbage collection by owner references, and
//! namespaces are never fully deleted.

mod flags;
mod identity;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use kube::Api;
use serde::{Deserialize, Serialize};

use crate::audit::AuditLog;
use crate::binaries::{self, Binaries};
use crate::instance::Folder;
use crate::pki::{self, Authority};
use crate::ports::Port;
use crate::process::{Child, Program};

/// How long a program may take to get ready. A start takes some four seconds on two busy cores.
const READY: Duration = Duration::from_secs(90);
/// How long a program may take to stop when asked to.
const GRACE: Duration = Duration::from_secs(10);

/// What to start.
#[derive(Debug, Clone, Default)]
pub struct ControlPlaneConfig {
    /// Where everything of the instance goes; it is kept. Without it, a temporary folder that goes with the instance.
    pub folder: Option<PathBuf>,
    /// Whether to start kube-controller-manager too.
    pub controller_manager: bool,
    /// Whether to write an audit log at level Metadata: the user, the request, and the answer's status.
    pub audit: bool,
    /// Where to write it; in the instance's folder if `None`.
    pub audit_log: Option<PathBuf>,
    /// The programs; found, taken from the cache or built if `None`.
    pub binaries: Option<Binaries>,
}

/// A running control plane. Dropping it kills it; [`ControlPlane::stop`] is gentler.
#[derive(Debug)]
pub struct ControlPlane {
    // Fields are dropped in this order: clients of a program go before it, the folder last.
    controller_manager: Option<Child>,
    api_server: Option<Child>,
    etcd: Child,
    api_server_program: Program,
    authority: Authority,
    api_port: Port,
    etcd_port: Port,
    binaries: Binaries,
    audit: Option<AuditLog>,
    folder: Folder,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Ports {
    api_server: u16,
    etcd: u16,
}

impl ControlPlane {
    /// Starts the programs and returns when `/readyz` says ok and the namespaces `default` and `kube-system` exist;
    /// with a controller manager, when that has begun to work. Builds the programs first if they are nowhere.
    pub async fn start(config: ControlPlaneConfig) -> Result<Self> {
        let binaries = if let Some(given) = &config.binaries {
            given.clone()
        } else {
            let ensure = if config.controller_manager {
                binaries::ensure_complete
            } else {
                binaries::ensure
            };
            tokio::task::spawn_blocking(ensure)
                .await
                .context("the search for binaries was cut off")??
        };
        let start = Instant::now();
        let folder = Folder::take(config.folder.as_deref(), "metal3-lab")?;
        let path = folder.path().to_owned();
        let (api_port, etcd_port) = take_ports(&path)?;

        let pki = path.join("pki");
        let authority = Authority::open_or_generate(&pki, "metal3-lab")?;
        pki::service_account_keys(&pki)?;
        authority
            .server("kube-apiserver", &flags::service_names())?
            .write(&pki, "apiserver")?;

        let audit = if config.audit {
            Some(flags::write_audit_policy(&path, &config)?)
        } else {
            None
        };
        let etcd = Child::spawn(&flags::etcd(&path, &binaries, etcd_port.number()))?;
        let api_server_program = flags::api_server(&path, &binaries, api_port.number(), etcd_port.number(), &config);
        let mut this = Self {
            controller_manager: None,
            api_server: None,
            etcd,
            api_server_program,
            authority,
            api_port,
            etcd_port,
            binaries,
            audit,
            folder,
        };
        identity::write(&this.admin_kubeconfig(), &this.admin()?)?;
        this.start_api_server().await?;
        if config.controller_manager {
            this.start_controller_manager().await?;
        }
        tracing::info!(folder = %path.display(), url = this.url(), took = ?start.elapsed(), "control plane is ready");
        Ok(this)
    }

    /// Stops the programs in order, each with time to finish. A temporary folder is removed.
    pub async fn stop(mut self) {
        if let Some(child) = self.controller_manager.take() {
            child.stop(GRACE).await;
        }
        self.stop_api_server().await;
        self.etcd.stop(GRACE).await;
    }

    /// Stops the API server alone: what its clients see when it is away. etcd and the data stay.
    pub async fn stop_api_server(&mut self) {
        if let Some(child) = self.api_server.take() {
            child.stop(GRACE).await;
        }
    }

    /// Starts the API server again on the same port, and returns when it is ready.
    pub async fn start_api_server(&mut self) -> Result<()> {
        if self.api_server.is_some() {
            bail!("the API server runs already");
        }
        let child = Child::spawn(&self.api_server_program)?;
        let client = self.client().await?;
        child
            .wait_until("readiness", READY, async || {
                self.etcd.ensure_alive()?;
                let request = http::Request::get("/readyz")
                    .body(Vec::new())
                    .context("a request that is none")?;
                let answer = client.request_text(request).await.context("/readyz")?;
                if answer != "ok" {
                    bail!("/readyz answers {answer}");
                }
                // A hook after readiness makes them, and everybody counts on them.
                let namespaces: Api<Namespace> = Api::all(client.clone());
                for name in ["default", "kube-system"] {
                    namespaces
                        .get(name)
                        .await
                        .with_context(|| format!("namespace {name}"))?;
                }
                Ok(())
            })
            .await?;
        self.api_server = Some(child);
        Ok(())
    }

    async fn start_controller_manager(&mut self) -> Result<()> {
        let kubeconfig = self.user_kubeconfig("system:kube-controller-manager", &[])?;
        let child = Child::spawn(&flags::controller_manager(self.folder(), &self.binaries, &kubeconfig)?)?;
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client().await?, "default");
        child
            .wait_until("the first service account", READY, async || {
                accounts
                    .get("default")
                    .await
                    .context("service account default/default")
                    .map(drop)
            })
            .await?;
        self.controller_manager = Some(child);
        Ok(())
    }

    /// The instance's folder, as an absolute path.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The API server's address, `https://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.api_port.number())
    }

    /// The API server's port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.api_port.number()
    }

    /// etcd's address.
    pub fn etcd_url(&self) -> String {
        flags::etcd_url(self.etcd_port.number())
    }

    /// The CA that has signed every certificate of the instance, and that the API server believes clients by.
    pub fn authority(&self) -> &Authority {
        &self.authority
    }

    /// The programs in use.
    pub fn binaries(&self) -> &Binaries {
        &self.binaries
    }

    /// Whether kube-controller-manager was asked for.
    pub fn has_controller_manager(&self) -> bool {
        self.controller_manager.is_some()
    }

    /// The audit log, if one was asked for.
    pub fn audit_log(&self) -> Option<&AuditLog> {
        self.audit.as_ref()
    }

    /// An error if a program that should run does not.
    pub fn ensure_alive(&self) -> Result<()> {
        let optional = [&self.controller_manager, &self.api_server].into_iter().flatten();
        optional.chain([&self.etcd]).try_for_each(Child::ensure_alive)
    }
}

/// The ports of the last start in this folder, or free ones.
fn take_ports(folder: &Path) -> Result<(Port, Port)> {
    let file = folder.join("ports.json");
    let last: Ports = fs::read(&file)
        .ok()
        .and_then(|text| serde_json::from_slice(&text).ok())
        .unwrap_or_default();
    let take = |number: u16| match number {
        0 => Port::free(),
        number => Port::take(number)?.map_or_else(Port::free, Ok),
    };
    let (api_server, etcd) = (take(last.api_server)?, take(last.etcd)?);
    let ports = Ports {
        api_server: api_server.number(),
        etcd: etcd.number(),
    };
    fs::write(&file, serde_json::to_vec(&ports)?).with_context(|| format!("cannot write {}", file.display()))?;
    Ok((api_server, etcd))
}
