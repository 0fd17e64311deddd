//! The addresses and credentials of a running lab, for its owner and for other processes.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::{Clusters, Lab};
use crate::ironic::{Host, Machine, Mark, Moment, Request, Servers};
use crate::{lines, nodes, private_file, workload};

pub(super) const FILE: &str = "lab.json";
pub(super) const KUBECONFIG: &str = "admin.kubeconfig";
pub(super) const CURL: &str = "ironic.curl";
pub(super) const KUBECTL: &str = "kubectl";

/// Addresses and credentials of a lab. It holds passwords, so it has no `Debug`.
#[derive(Clone, Serialize, Deserialize)]
pub struct Access {
    /// The process that owns the lab.
    pub process: u32,
    /// The administrator's kubeconfig.
    pub kubeconfig: PathBuf,
    /// A kubectl of the server's version that needs no kubeconfig.
    pub kubectl: PathBuf,
    /// The API server.
    pub kubernetes_url: String,
    /// Ironic, without `/v1`.
    pub ironic_url: String,
    /// Whom to trust for Ironic's certificate.
    pub ironic_ca: PathBuf,
    /// Ironic's user.
    pub ironic_username: String,
    /// Their password.
    pub ironic_password: String,
    /// A file for `curl -K` with credentials and trust for Ironic's API.
    pub curl_config: PathBuf,
    /// What the operator writes.
    pub operator_log: PathBuf,
    /// The operator's metrics, in plain HTTP.
    pub metrics_url: String,
    /// An image that servers can be given.
    pub image_url: String,
    /// Its checksum.
    pub image_sha256: String,
    /// The simulated servers.
    pub servers: Vec<Host>,
    /// The folder of Ironic's logs.
    pub ironic_logs: PathBuf,
    /// How to reach the workload cluster, where clusters are made and kubelets are played.
    pub workload: Option<workload::Access>,
    /// The servers, where clusters are made and servers really boot.
    pub nodes: Option<nodes::Access>,
    /// What our programs besides the operator, and the servers, write, where clusters are made.
    pub manager_logs: Vec<PathBuf>,
    /// Where the simulated servers tell what they went through.
    control_url: String,
}

impl Access {
    pub(super) fn of(lab: &Lab) -> Result<Self> {
        let (ironic, folder) = (lab.ironic(), lab.folder());
        let image = ironic.image()?;
        let user = ironic.credentials().context("a lab's Ironic wants credentials")?;
        Ok(Self {
            process: std::process::id(),
            kubeconfig: folder.join(KUBECONFIG),
            kubectl: folder.join(KUBECTL),
            kubernetes_url: lab.control_plane().url(),
            ironic_url: ironic.endpoint(),
            ironic_ca: ironic.ca_file().context("a lab's Ironic speaks TLS")?,
            ironic_username: user.username.clone(),
            ironic_password: user.password.clone(),
            curl_config: folder.join(CURL),
            operator_log: lab.operator().process().log().to_owned(),
            metrics_url: lab.operator().metrics_url(),
            image_url: image.url,
            image_sha256: image.sha256,
            servers: ironic.hosts().to_vec(),
            ironic_logs: ironic.folder().join("log"),
            workload: lab
                .clusters()
                .and_then(Clusters::workload)
                .map(|workload| workload.access().clone()),
            nodes: lab
                .clusters()
                .and_then(Clusters::nodes)
                .map(|nodes| nodes.access().clone()),
            manager_logs: lab.clusters().map(Clusters::logs).unwrap_or_default(),
            control_url: ironic.control_url(),
        })
    }

    /// Writes the files of a lab that others read; `lab.json` last, so that a lab that is found is complete.
    pub(super) fn write(&self, folder: &Path, kubectl: &Path) -> Result<()> {
        let kubeconfig = folder.join("control-plane/admin.kubeconfig");
        let text = fs::read_to_string(&kubeconfig).with_context(|| format!("cannot read {}", kubeconfig.display()))?;
        private_file::write(&self.kubeconfig, &text)?;
        let script = format!(
            "#!/bin/sh\nexec \"{}\" --kubeconfig \"{}\" \"$@\"\n",
            kubectl.display(),
            self.kubeconfig.display()
        );
        private_file::write(&self.kubectl, &script)?;
        fs::set_permissions(&self.kubectl, fs::Permissions::from_mode(0o700))
            .context("cannot make kubectl runnable")?;
        let curl = format!(
            "user = \"{}:{}\"\ncacert = \"{}\"\nheader = \"X-OpenStack-Ironic-API-Version: 1.95\"\nsilent\nshow-error\n",
            self.ironic_username,
            self.ironic_password,
            self.ironic_ca.display()
        );
        private_file::write(&self.curl_config, &curl)?;
        let unfinished = folder.join("lab.json.unfinished");
        private_file::write(
            &unfinished,
            &serde_json::to_string_pretty(self).context("cannot write JSON")?,
        )?;
        fs::rename(&unfinished, folder.join(FILE)).context("cannot move lab.json to its place")
    }

    /// Of the lab in this folder, if one is complete there. It may have ended without removing the file: only
    /// believe it while [`crate::instance::owner`] is [`Access::process`].
    pub fn read(folder: &Path) -> Result<Option<Self>> {
        let path = folder.join(FILE);
        match fs::read(&path) {
            Ok(text) => serde_json::from_slice(&text)
                .map(Some)
                .with_context(|| format!("cannot read {}", path.display())),
            Err(err) if err.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(err) => Err(err).with_context(|| format!("cannot read {}", path.display())),
        }
    }

    /// What a server is doing and went through, with its deployments.
    pub async fn machine(&self, server: &Host) -> Result<Machine> {
        Servers::at(&self.control_url)?.machine(&server.uuid).await
    }

    /// What nodes went through since the lab was started, see [`crate::ironic::IronicLab::moments`].
    pub fn moments(&self) -> Result<Vec<Moment>> {
        Ok(lines::read(&self.ironic_logs.join("states.jsonl"), Mark::default())?.0)
    }

    /// The requests that Ironic answered since the lab was started, see [`crate::ironic::IronicLab::requests`].
    pub fn requests(&self) -> Result<Vec<Request>> {
        Ok(lines::read(&self.ironic_logs.join("requests.jsonl"), Mark::default())?.0)
    }
}
