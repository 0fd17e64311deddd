//! A control plane with the kinds, the rights and the manager's process.

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use ip_address_manager::rbac::{NAMESPACE, SERVICE_ACCOUNT};
use kube::Client;
use metal3_lab::audit::AuditLog;
use metal3_lab::ports::Port;
use metal3_lab::process::{Child, Program};
use metal3_lab::{ControlPlane, ControlPlaneConfig, apply, cluster_api};
use serde_json::json;

/// The namespace of pools and claims.
pub const BENCH: &str = "bench";
/// How long the manager may take to stop.
const GRACE: Duration = Duration::from_secs(25);

/// A running manager and what it runs against.
pub struct Site {
    pub client: Client,
    /// What the API server was asked.
    pub audit: AuditLog,
    /// As whom the manager asks.
    pub user: String,
    manager: Child,
    control_plane: ControlPlane,
    _ports: [Port; 2],
}

impl Site {
    pub async fn start(binary: &Path, flags: &[String]) -> anyhow::Result<Self> {
        let config = ControlPlaneConfig {
            audit: true,
            ..ControlPlaneConfig::default()
        };
        let control_plane = ControlPlane::start(config).await?;
        let client = control_plane.client().await?;
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        apply::apply_crds(&client, &root.join("config/crd")).await?;
        cluster_api::define(&client).await?;
        let rights = std::fs::read_to_string(root.join("config/rbac/ip-address-manager.yaml"))?;
        apply::apply(&client, &apply::parse(&rights)?, None).await?;
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": BENCH}}).to_string();
        apply::apply(&client, &apply::parse(&namespace)?, None).await?;
        let kubeconfig = control_plane
            .service_account_kubeconfig(NAMESPACE, SERVICE_ACCOUNT)
            .await?;
        let (health, metrics) = (Port::free()?, Port::free()?);
        let mut args = vec![
            "--kubeconfig".into(),
            kubeconfig.into_os_string(),
            format!("--health-addr=127.0.0.1:{}", health.number()).into(),
            format!("--diagnostics-address=127.0.0.1:{}", metrics.number()).into(),
            "--insecure-diagnostics".into(),
        ];
        args.extend(flags.iter().map(Into::into));
        let manager = Child::spawn(&Program {
            name: "ip-address-manager".to_owned(),
            executable: binary.to_owned(),
            args,
            env: vec![("POD_NAMESPACE".into(), NAMESPACE.into())],
            cwd: None,
            log: control_plane.folder().join("ip-address-manager.log"),
        })?;
        Ok(Self {
            client,
            audit: control_plane.audit_log().context("the audit log is on")?.clone(),
            user: format!("system:serviceaccount:{NAMESPACE}:{SERVICE_ACCOUNT}"),
            manager,
            control_plane,
            _ports: [health, metrics],
        })
    }

    /// The manager's process.
    pub fn pid(&self) -> u32 {
        self.manager.pid()
    }

    /// The end of the manager's log, for errors.
    pub fn log(&self) -> String {
        self.manager.log_tail()
    }

    pub async fn stop(self) {
        self.manager.stop(GRACE).await;
        self.control_plane.stop().await;
    }
}
