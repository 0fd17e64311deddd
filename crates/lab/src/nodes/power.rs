//! Follows the power and the disks of the simulated servers.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::sync::watch;

use super::steps::{Known, Step, next};
use super::{cgroup, disk, script};
use crate::image::Image;
use crate::ironic::{ConfigDrive, Host, Machine, Servers};
use crate::process::{Child, Program};
use crate::workload::addresses;

/// How often the servers are looked at.
const LOOK: Duration = Duration::from_millis(250);
/// How systemd-nspawn ends when the system in it restarts.
const RESTARTS: i32 = 133;

/// A server's body.
pub struct Body {
    name: String,
    uuid: String,
    mac: String,
    folder: PathBuf,
    cgroups: Vec<PathBuf>,
    known: Known,
    process: Option<Child>,
    addresses: Vec<IpAddr>,
    /// What went wrong last, so that it is said once.
    said: Option<String>,
}

impl Body {
    /// Of a server that is off and has an empty disk.
    pub fn new(host: &Host, folder: &Path, cgroups: Vec<PathBuf>) -> Self {
        Self {
            name: host.name.clone(),
            uuid: host.uuid.clone(),
            mac: host.boot_mac().to_owned(),
            folder: folder.join(&host.name),
            cgroups,
            known: Known::default(),
            process: None,
            addresses: Vec::new(),
            said: None,
        }
    }
}

/// All bodies.
pub struct Power {
    tree: PathBuf,
    /// Process 1 of the servers' namespaces.
    network: i32,
    log: PathBuf,
    bodies: Vec<Body>,
    servers: Servers,
    /// The addresses of those that run.
    running: watch::Sender<Vec<IpAddr>>,
}

impl Power {
    pub fn new(
        image: &Image,
        network: i32,
        log: PathBuf,
        bodies: Vec<Body>,
        servers: Servers,
        running: watch::Sender<Vec<IpAddr>>,
    ) -> Self {
        Self {
            tree: image.tree.clone(),
            network,
            log,
            bodies,
            servers,
            running,
        }
    }

    /// Never ends.
    pub async fn run(mut self) {
        let mut bodies = std::mem::take(&mut self.bodies);
        loop {
            let seen = self.servers.machines().await;
            if let Err(error) = &seen {
                self.note("all servers", &format!("{error:#}"));
            }
            for machine in seen.unwrap_or_default() {
                let Some(body) = bodies.iter_mut().find(|body| body.uuid == machine.uuid) else {
                    continue;
                };
                let outcome = self.follow(body, &machine).await;
                let said = outcome.err().map(|error| format!("{error:#}"));
                if let Some(text) = said.as_ref().filter(|_| said != body.said) {
                    self.note(&body.name, text);
                }
                body.said = said;
            }
            let up = bodies.iter().filter(|body| body.process.is_some());
            let up = up.flat_map(|body| body.addresses.iter().copied()).collect();
            self.running.send_replace(up);
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Takes every step that there is for a server.
    async fn follow(&self, body: &mut Body, machine: &Machine) -> Result<()> {
        self.look_after(body)?;
        loop {
            match next(&body.known, machine) {
                Step::Nothing => return Ok(()),
                Step::Cut => {
                    self.cut(body).await?;
                    body.known.running = None;
                    self.note(&body.name, "the power is off");
                }
                Step::Erase => {
                    let folder = body.folder.clone();
                    block(move || disk::erase(&folder)).await?;
                    body.known.disk = None;
                    self.note(&body.name, "the disk is empty");
                }
                Step::Write(content) => {
                    let drive = self.config_drive(&body.uuid).await?;
                    body.addresses = addresses(drive.network_data.as_ref())
                        .iter()
                        .filter_map(|address| address.parse().ok())
                        .collect();
                    let (folder, tree) = (body.folder.clone(), self.tree.clone());
                    block(move || disk::write(&folder, &tree, &drive)).await?;
                    body.known.disk = Some(content);
                    self.note(&body.name, "the image is on the disk, with the config drive");
                }
                Step::Boot(start) => {
                    body.process = Some(self.boot(body)?);
                    body.known.running = Some(start);
                    self.note(&body.name, "boots");
                }
            }
        }
    }

    /// A system that restarts is started again; one that has ended stays so until its power is switched.
    fn look_after(&self, body: &mut Body) -> Result<()> {
        let Some(status) = body.process.as_ref().and_then(Child::exit_status) else {
            return Ok(());
        };
        body.process = None;
        if status.code() == Some(RESTARTS) {
            body.process = Some(self.boot(body)?);
            self.note(&body.name, "restarts");
        } else {
            self.note(&body.name, &format!("the system has ended ({status})"));
        }
        Ok(())
    }

    async fn cut(&self, body: &mut Body) -> Result<()> {
        let (process, cgroups) = (body.process.take(), body.cgroups.clone());
        block(move || {
            process.iter().for_each(Child::kill);
            cgroup::end(&cgroups)
        })
        .await
    }

    async fn config_drive(&self, uuid: &str) -> Result<ConfigDrive> {
        let mut machine = self.servers.machine(uuid).await?;
        let last = machine.deployments.pop().context("nothing was deployed")?;
        Ok(last.config_drive.unwrap_or_default())
    }

    fn boot(&self, body: &Body) -> Result<Child> {
        body.cgroups.iter().try_for_each(|folder| cgroup::make(folder))?;
        let mut args: Vec<_> = ["--target", &self.network.to_string(), "--net", "--mount", "--pid", "--"]
            .map(Into::into)
            .to_vec();
        args.extend([script("power-on.sh")?.into(), self.tree.clone().into()]);
        args.extend([disk::path(&body.folder).into(), (&body.name).into(), (&body.mac).into()]);
        args.extend(body.cgroups.iter().map(Into::into));
        Child::spawn(&Program {
            name: body.name.clone(),
            executable: "nsenter".into(),
            args,
            log: body.folder.join("console.log"),
            ..Program::default()
        })
    }

    /// Logs it. A log that cannot be written is ignored: the servers are what counts.
    fn note(&self, server: &str, text: &str) {
        tracing::info!(server, "{text}");
        let file = OpenOptions::new().create(true).append(true).open(&self.log);
        file.and_then(|mut file| writeln!(file, "{server}: {text}")).ok();
    }
}

async fn block(work: impl FnOnce() -> Result<()> + Send + 'static) -> Result<()> {
    tokio::task::spawn_blocking(work).await.context("cut off")?
}
