//! The environment for measuring a program: its own control plane with our CRDs, its rights, and a namespace for the objects.

use std::path::{Path, PathBuf};

use anyhow::Context;
use kube::{Api, Client};
use metal3_lab::audit::AuditLog;
use metal3_lab::manager::{Manager, ManagerConfig};
use metal3_lab::{ControlPlane, ControlPlaneConfig, apply};
use serde_json::json;

use super::program::{Built, Program};

/// The namespace of all objects.
pub const BENCH: &str = "bench";

/// An environment on which the program does not run yet.
pub struct TestEnv {
    pub client: Client,
    /// The program's access to the API server.
    pub kubeconfig: PathBuf,
    pub control_plane: ControlPlane,
    user: String,
}

impl TestEnv {
    pub async fn start(program: &Program) -> anyhow::Result<Self> {
        let config = ControlPlaneConfig {
            audit: true,
            ..ControlPlaneConfig::default()
        };
        let control_plane = ControlPlane::start(config).await?;
        let client = control_plane.client().await?;
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        apply::apply_crds(&client, &root.join("config/crd")).await?;
        let rights = root.join("config/rbac");
        let secrets = rights
            .join("secrets-in-one-namespace")
            .join(format!("{}.yaml", program.package));
        let rights = std::fs::read_to_string(rights.join(format!("{}.yaml", program.package)))?;
        apply::apply(&client, &apply::parse(&rights)?, None).await?;
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": BENCH}}).to_string();
        apply::apply(&client, &apply::parse(&namespace)?, None).await?;
        if secrets.exists() {
            let secrets = std::fs::read_to_string(secrets)?;
            apply::apply(&client, &apply::parse(&secrets)?, Some(BENCH)).await?;
        }
        let (home, account) = (program.namespace, program.account);
        Ok(Self {
            client,
            kubeconfig: control_plane.service_account_kubeconfig(home, account).await?,
            control_plane,
            user: format!("system:serviceaccount:{home}:{account}"),
        })
    }

    /// Starts a program that needs nothing but the API server, and waits until it is ready.
    pub async fn run(self, built: &Built) -> anyhow::Result<Measured> {
        let (program, folder) = (built.program, self.control_plane.folder().join("logs"));
        let config = ManagerConfig {
            args: built.flags.clone(),
            env: vec![("POD_NAMESPACE".into(), program.namespace.into())],
            ..ManagerConfig::new(program.name, &built.executable, folder, &self.kubeconfig)
        };
        self.with(Manager::start(&config).await?)
    }

    /// The environment with the program that has been started on it.
    pub fn with(self, program: Manager) -> anyhow::Result<Measured> {
        Ok(Measured {
            client: self.client,
            audit: self.control_plane.audit_log().context("the audit log is on")?.clone(),
            user: self.user,
            program,
            control_plane: self.control_plane,
        })
    }
}

/// A program at work. How its work is measured stands in [`super::measure`].
pub struct Measured {
    pub client: Client,
    /// What the API server was asked.
    pub(super) audit: AuditLog,
    /// The program's user.
    pub(super) user: String,
    program: Manager,
    control_plane: ControlPlane,
}

impl Measured {
    /// The objects of a kind.
    pub fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.client.clone(), BENCH)
    }

    /// The program's process.
    pub fn pid(&self) -> u32 {
        self.program.process().pid()
    }

    /// Where its webhooks are, in HTTPS.
    pub fn webhooks_url(&self) -> String {
        self.program.webhooks_url()
    }

    /// The end of the program's log, for errors.
    pub fn log(&self) -> String {
        self.program.process().log_tail()
    }

    pub async fn stop(self) {
        self.program.stop().await;
        self.control_plane.stop().await;
    }
}
