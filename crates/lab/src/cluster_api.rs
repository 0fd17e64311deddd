//! Cluster API's managers, unmodified, with their webhooks: core, kubeadm bootstrap and kubeadm control plane.

use std::ffi::OsString;

use anyhow::{Context, Result, bail};

use crate::ControlPlane;
use crate::binaries;
use crate::provider::{Endpoints, Provider, ProviderConfig};

/// Installs the definitions of Cluster API's kinds and nothing else: no manager, no webhook, no conversion. For providers
/// that are to be seen alone.
pub async fn define(client: &kube::Client) -> Result<()> {
    let folders = tokio::task::spawn_blocking(binaries::cluster_api_definitions)
        .await
        .context("the search for Cluster API's definitions was cut off")??;
    for folder in folders {
        crate::apply::apply_crds(client, &folder).await?;
    }
    Ok(())
}

/// The running managers. Dropping it kills them.
#[derive(Debug)]
pub struct ClusterApi {
    providers: Vec<Provider>,
}

/// The executable, the namespace and the service account of each manager.
const MANAGERS: [(&str, &str, &str); 3] = [
    ("capi-core", "capi-system", "capi-manager"),
    (
        "capi-bootstrap-kubeadm",
        "capi-kubeadm-bootstrap-system",
        "capi-kubeadm-bootstrap-manager",
    ),
    (
        "capi-controlplane-kubeadm",
        "capi-kubeadm-control-plane-system",
        "capi-kubeadm-control-plane-manager",
    ),
];

impl ClusterApi {
    /// Installs and starts the managers; builds them first if they are not in the cache.
    ///
    /// The control plane needs its controller manager: the core manager's role is an aggregated one, which stays empty
    /// without the controller that aggregates, and owner references are of no use without garbage collection.
    pub async fn start(lab: &ControlPlane) -> Result<Self> {
        if !lab.has_controller_manager() {
            bail!("Cluster API needs a control plane with kube-controller-manager");
        }
        let built = tokio::task::spawn_blocking(binaries::ensure_cluster_api)
            .await
            .context("the search for Cluster API's binaries was cut off")??;
        let mut providers = Vec::new();
        for (name, namespace, service_account) in MANAGERS {
            let config = ProviderConfig {
                name: name.to_owned(),
                namespace: namespace.to_owned(),
                service_account: service_account.to_owned(),
                executable: built.executable(name),
                kustomizations: vec![built.kustomization(name)],
                flags,
            };
            providers.push(Provider::install(lab, &built.controlplane, &config).await?);
        }
        // Only now: the managers watch each other's kinds.
        for provider in &mut providers {
            provider.start().await?;
        }
        Ok(Self { providers })
    }

    /// Stops the managers.
    pub async fn stop(mut self) {
        for provider in &mut self.providers {
            provider.stop().await;
        }
    }

    /// An error with the end of its log if one of them has ended.
    pub fn ensure_alive(&self) -> Result<()> {
        self.providers.iter().try_for_each(Provider::ensure_alive)
    }
}

/// The same for all three. Without `--leader-elect`, which needs to run in a cluster. Their webhook server has no flag
/// for its address and listens on all of them; the one on a port that we choose is the only such listener of the lab.
fn flags(endpoints: &Endpoints) -> Vec<OsString> {
    let flag = |name: &str, value: OsString| {
        let mut flag = OsString::from(format!("--{name}="));
        flag.push(value);
        flag
    };
    vec![
        flag("kubeconfig", endpoints.kubeconfig.clone().into()),
        flag("webhook-port", endpoints.webhook_port.to_string().into()),
        flag("webhook-cert-dir", endpoints.certificates.clone().into()),
        flag("health-addr", endpoints.health.to_string().into()),
        flag("feature-gates", "ClusterTopology=true".into()),
        flag("diagnostics-address", "127.0.0.1:0".into()),
        flag("insecure-diagnostics", "true".into()),
    ]
}
