//! `lab status`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use kube::Api;
use kube::api::ListParams;
use metal3_api::metal3::BareMetalHost;
use metal3_lab::instance;
use metal3_lab::lab::Access;

use super::root;
use crate::demo::{columns, objects};

/// How long a lab may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Prints every lab that has a folder.
pub async fn show() -> Result<()> {
    let root = root()?;
    let mut names: Vec<String> = match fs::read_dir(&root) {
        Ok(listing) => listing
            .flatten()
            .filter(|entry| entry.path().is_dir())
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect(),
        Err(_) => Vec::new(), // no lab has been started yet
    };
    names.sort();
    if names.is_empty() {
        println!("there is no lab; cargo xtask lab up starts one");
        return Ok(());
    }
    let mut table = columns::table(["LAB", "STATE", "KUBERNETES", "IRONIC", "HOSTS"]);
    for name in names {
        let folder = root.join(&name);
        let row = row(&folder).await.with_context(|| format!("lab {name}"))?;
        table.add_row(std::iter::once(name).chain(row));
    }
    println!("{}", table.trim_fmt());
    Ok(())
}

async fn row(folder: &Path) -> Result<[String; 4]> {
    let none = || "-".to_owned();
    let Some(owner) = instance::owner(folder)? else {
        return Ok([format!("down, logs in {}", folder.display()), none(), none(), none()]);
    };
    let Some(access) = Access::read(folder)?.filter(|access| access.process == owner) else {
        return Ok([format!("starting or ending (process {owner})"), none(), none(), none()]);
    };
    let hosts = match tokio::time::timeout(PATIENCE, hosts(&access)).await {
        Ok(Ok(hosts)) => hosts,
        Ok(Err(error)) => format!("Kubernetes does not answer: {error:#}"),
        Err(_) => format!("Kubernetes does not answer within {} s", PATIENCE.as_secs()),
    };
    Ok([
        format!("up (process {owner})"),
        access.kubernetes_url,
        access.ironic_url,
        hosts,
    ])
}

/// How many hosts are in which state.
async fn hosts(access: &Access) -> Result<String> {
    let api: Api<BareMetalHost> = Api::all(objects::client(&access.kubeconfig).await?);
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for host in api.list(&ListParams::default()).await? {
        let state = host
            .status
            .map(|status| status.provisioning.state.as_str().to_owned())
            .unwrap_or_default();
        *counts
            .entry(if state.is_empty() { "new".to_owned() } else { state })
            .or_default() += 1;
    }
    let parts: Vec<_> = counts.iter().map(|(state, count)| format!("{count} {state}")).collect();
    Ok(if parts.is_empty() {
        format!("none of {} servers", access.servers.len())
    } else {
        parts.join(", ")
    })
}
