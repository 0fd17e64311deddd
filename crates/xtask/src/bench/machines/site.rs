//! A control plane with the kinds, the rights and the provider's process.

use std::path::Path;

use anyhow::Context;
use cluster_api_provider_metal3::rbac::{NAMESPACE, SERVICE_ACCOUNT};
use kube::Client;
use metal3_lab::audit::AuditLog;
use metal3_lab::manager::{Manager, ManagerConfig};
use metal3_lab::{ControlPlane, ControlPlaneConfig, apply, cluster_api};
use serde_json::json;

/// The namespace of everything.
pub const BENCH: &str = "bench";
/// As whom the provider asks the workload cluster.
pub const IN_WORKLOAD: &str = "workload";

/// A running provider and what it runs against.
pub struct Site {
    pub client: Client,
    /// What the API server was asked.
    pub audit: AuditLog,
    /// As whom the provider asks.
    pub user: String,
    /// A kubeconfig of the workload cluster.
    pub workload: String,
    provider: Manager,
    control_plane: ControlPlane,
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
        let rights = std::fs::read_to_string(root.join("config/rbac/cluster-api-provider-metal3.yaml"))?;
        apply::apply(&client, &apply::parse(&rights)?, None).await?;
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": BENCH}}).to_string();
        apply::apply(&client, &apply::parse(&namespace)?, None).await?;
        let workload = control_plane.user_kubeconfig(IN_WORKLOAD, &["system:masters"])?;
        let kubeconfig = control_plane
            .service_account_kubeconfig(NAMESPACE, SERVICE_ACCOUNT)
            .await?;
        let mut config = ManagerConfig::new("provider", binary, control_plane.folder().join("logs"), kubeconfig);
        config.args = flags.to_vec();
        config.env = vec![("POD_NAMESPACE".into(), NAMESPACE.into())];
        Ok(Self {
            client,
            audit: control_plane.audit_log().context("the audit log is on")?.clone(),
            user: format!("system:serviceaccount:{NAMESPACE}:{SERVICE_ACCOUNT}"),
            workload: std::fs::read_to_string(workload)?,
            provider: Manager::start(&config).await?,
            control_plane,
        })
    }

    /// The provider's process.
    pub fn pid(&self) -> u32 {
        self.provider.process().pid()
    }

    /// The end of the provider's log, for errors.
    pub fn log(&self) -> String {
        self.provider.process().log_tail()
    }

    pub async fn stop(self) {
        self.provider.stop().await;
        self.control_plane.stop().await;
    }
}
