//! A controller manager (a provider, in Cluster API's words) as a plain process, with its webhooks.
//!
//! It runs under its own service account with the RBAC that it ships, so that missing rights show. Its webhooks and conversions
//! are configured as local URLs with a certificate of the lab's CA.

use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use kube::ResourceExt;
use kube::api::DynamicObject;
use serde::Deserialize;

use crate::manager::is_ok;
use crate::ports::Port;
use crate::process::{Child, Program};
use crate::{ControlPlane, apply, clusterctl};

/// How long a manager may take to get ready; it takes half a second.
const READY: Duration = Duration::from_secs(60);
/// How long it may take to stop.
const GRACE: Duration = Duration::from_secs(15);

/// A manager, and what it brings.
#[derive(Debug)]
pub struct ProviderConfig {
    /// What logs and folders call it.
    pub name: String,
    /// The namespace that its manifests put it in.
    pub namespace: String,
    /// The service account that its manifests bind its roles to.
    pub service_account: String,
    /// The program.
    pub executable: PathBuf,
    /// Folders with the kustomizations of its components.
    pub kustomizations: Vec<PathBuf>,
    /// Its flags, by what the lab has chosen for it.
    pub flags: fn(&Endpoints) -> Vec<OsString>,
}

/// What the lab has chosen for a manager.
#[derive(Debug)]
pub struct Endpoints {
    /// Credentials of its service account.
    pub kubeconfig: PathBuf,
    /// The port that the API server calls its webhooks on.
    pub webhook_port: u16,
    /// A folder with `tls.crt` and `tls.key` for them.
    pub certificates: PathBuf,
    /// Where it must serve `/readyz`.
    pub health: SocketAddr,
}

/// A manager that is installed, and may be running. Dropping it kills it; what it has installed stays.
#[derive(Debug)]
pub struct Provider {
    child: Option<Child>,
    program: Program,
    health: Port,
    _webhook: Port,
}

impl Provider {
    /// Installs the definitions, roles and webhooks of a manager. From then on the API server refuses what it cannot
    /// ask the manager about. `controlplane` is our own binary, which renders the kustomizations.
    pub async fn install(lab: &ControlPlane, controlplane: &Path, config: &ProviderConfig) -> Result<Self> {
        let name = &config.name;
        let (webhook, health) = (Port::free()?, Port::free()?);
        let certificates = lab.folder().join("providers").join(name);
        std::fs::create_dir_all(&certificates)
            .with_context(|| format!("cannot make the folder {}", certificates.display()))?;
        lab.authority().server(name, &[])?.write(&certificates, "tls")?;

        let mut objects = render(lab, controlplane, webhook.number(), &config.kustomizations)
            .await
            .with_context(|| format!("cannot render what {name} installs"))?;
        // As `clusterctl init` does, which moves only objects of kinds that it finds by this label.
        for object in &mut objects {
            object.labels_mut().insert(clusterctl::LABEL.to_owned(), String::new());
        }
        let applied = apply::apply(&lab.client().await?, &objects, None)
            .await
            .with_context(|| format!("cannot install {name}"))?;
        tracing::info!(name, objects = applied.len(), "installed");

        let endpoints = Endpoints {
            kubeconfig: lab
                .service_account_kubeconfig(&config.namespace, &config.service_account)
                .await?,
            webhook_port: webhook.number(),
            certificates,
            health: (Ipv4Addr::LOCALHOST, health.number()).into(),
        };
        let program = Program {
            name: name.clone(),
            executable: config.executable.clone(),
            args: (config.flags)(&endpoints),
            env: vec![
                ("POD_NAMESPACE".into(), config.namespace.clone().into()),
                ("POD_NAME".into(), name.into()),
            ],
            cwd: None,
            log: lab.folder().join("logs").join(format!("{name}.log")),
        };
        Ok(Self {
            child: None,
            program,
            health,
            _webhook: webhook,
        })
    }

    /// Starts the manager and returns when `/readyz` says ok: its webhooks are served then.
    pub async fn start(&mut self) -> Result<()> {
        if self.child.is_some() {
            bail!("{} runs already", self.program.name);
        }
        let child = Child::spawn(&self.program)?;
        let probe = format!("http://127.0.0.1:{}/readyz", self.health.number());
        child.wait_until("readiness", READY, || is_ok(&probe)).await?;
        self.child = Some(child);
        Ok(())
    }

    /// Stops the manager. What it has installed stays, so the API server will miss its webhooks.
    pub async fn stop(&mut self) {
        if let Some(child) = self.child.take() {
            child.stop(GRACE).await;
        }
    }

    /// An error with the end of its log if it should run and does not.
    pub fn ensure_alive(&self) -> Result<()> {
        self.child.as_ref().map_or(Ok(()), Child::ensure_alive)
    }
}

async fn render(
    lab: &ControlPlane,
    controlplane: &Path,
    webhook_port: u16,
    kustomizations: &[PathBuf],
) -> Result<Vec<DynamicObject>> {
    #[derive(Deserialize)]
    struct List {
        items: Vec<DynamicObject>,
    }
    let output = tokio::process::Command::new(controlplane)
        .arg("manifests")
        .arg(format!("--webhook-url=https://127.0.0.1:{webhook_port}"))
        .arg("--ca-file")
        .arg(lab.folder().join("pki/ca.crt"))
        .args(kustomizations)
        .kill_on_drop(true)
        .output()
        .await
        .with_context(|| format!("cannot run {}", controlplane.display()))?;
    if !output.status.success() {
        bail!("{}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let list: List = serde_json::from_slice(&output.stdout).context("not a list of objects")?;
    Ok(list.items)
}
