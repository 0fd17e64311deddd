//! The cluster that servers make which really boot, as its user sees it: by kubectl.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use metal3_lab::nodes::Access;

use super::screen::Screen;

/// Where its kubeconfig is.
pub fn kubeconfig(nodes: &Access) -> PathBuf {
    nodes.folder.join("kubeconfig")
}

/// Writes the kubeconfig, waits for the Nodes to be ready, lets Pods run, and shows all of it. Each wait takes `limit` seconds at
/// most.
pub async fn show(screen: &Screen, nodes: &Access, text: &str, limit: u64) -> Result<()> {
    let path = kubeconfig(nodes);
    let mut file = OpenOptions::new();
    let file = file.create(true).write(true).truncate(true).mode(0o600).open(&path);
    file.and_then(|mut file| file.write_all(text.as_bytes()))
        .with_context(|| format!("cannot write {}", path.display()))?;
    for command in [
        format!("wait nodes --all --for=condition=Ready --timeout={limit}s"),
        "get nodes -o wide".to_owned(),
        "create deployment hello --image=registry.k8s.io/pause:lab --replicas=2".to_owned(),
        format!("rollout status deployment/hello --timeout={limit}s"),
        "get pods --all-namespaces -o wide".to_owned(),
    ] {
        screen.print(&format!("$ kubectl {command}"));
        let (kubectl, path) = (nodes.kubectl.clone(), path.clone());
        let said = tokio::task::spawn_blocking(move || kubectl_says(&kubectl, &path, &command)).await;
        screen.print(said.context("kubectl was cut off")??.trim_end());
    }
    Ok(())
}

fn kubectl_says(kubectl: &Path, kubeconfig: &Path, command: &str) -> Result<String> {
    let mut program = Command::new(kubectl);
    program.arg("--kubeconfig").arg(kubeconfig).args(command.split(' '));
    let output = program.output().context("cannot run kubectl")?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "kubectl {command}: {}", errors.trim());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
