//! The objects that the demo applies, and its clients for the lab.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use metal3_lab::lab::Access;
use serde_json::json;

use super::rack::{self, Entry};

/// The namespace that the hosts are applied to.
pub const NAMESPACE: &str = "metal3";

/// What to read when something goes wrong.
pub fn logs(access: &Access) -> Vec<PathBuf> {
    let mut logs = vec![access.operator_log.clone(), access.ironic_logs.join("ironic.out")];
    logs.extend(access.manager_logs.iter().cloned());
    logs
}

/// The hosts of an example with the lab's servers.
pub fn entries(file: &str, count: usize, access: &Access) -> Result<Vec<Entry>> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").join(file);
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let entries = rack::take(rack::read(&text)?, count)?;
    ensure!(
        access.servers.len() >= count,
        "the lab has {} servers",
        access.servers.len()
    );
    let pairs = entries.iter().zip(&access.servers);
    pairs
        .map(|(entry, server)| rack::adapt(entry, server, &access.image_url, &access.image_sha256))
        .collect()
}

pub fn namespace() -> serde_json::Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
}

/// What the demo of hosts applies, for `kubectl apply`.
pub fn manifest(count: usize, access: &Access) -> Result<String> {
    let mut text = serde_saphyr::to_string(&namespace())?;
    for object in entries(rack::FILE, count, access)?
        .iter()
        .flat_map(|entry| &entry.objects)
    {
        text.push_str("---\n");
        text.push_str(&serde_saphyr::to_string(object)?);
    }
    Ok(text)
}

/// A client by a kubeconfig file.
pub async fn client(kubeconfig: &Path) -> Result<Client> {
    let kubeconfig = Kubeconfig::read_from(kubeconfig).context("cannot read the lab's kubeconfig")?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    Client::try_from(config).context("cannot make a client")
}
