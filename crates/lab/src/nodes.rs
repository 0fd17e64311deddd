//! Servers that really boot: where Ironic has deployed an image to a simulated server and switched it on, a system container
//! starts with the image's root tree ([`crate::image`]) and exactly the config drive that Ironic delivered. Real systemd, networkd
//! and cloud-init run in it, and what the user data say: kubeadm, and with it a kubelet, containerd and Pods.
//!
//! ```text
//!   lab (network namespace of the machine)         one network and PID namespace for all servers
//!     Cluster API, our programs ─▶ balancer ── cable ── bridge ─┬─ host-1: systemd-nspawn, own network, cgroups, disk
//!     BMC off: SIGKILL; cleaning: empty disk                    └─ host-2
//! ```
//!
//! Addresses are those of `examples/cluster`, so one lab of a machine can have such servers at a time. Its programs end with it,
//! however it ends; for the rest there is a record ([`record`]), by which the next one cleans up.

mod balancer;
mod cgroup;
mod disk;
mod power;
mod probe;
mod record;
mod settings;
mod steps;

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

pub use probe::probe;
pub(crate) use probe::{BRIDGE, probe_machine};

use crate::cache;
use crate::image::Image;
use crate::instance::{self, Claim};
use crate::ironic::{Host, Servers};
use crate::process::{Child, Program};
use power::Power;
use record::{Process, Record};

/// The folder in the cache that the one lab with such servers holds.
const CLAIMED: &str = "servers";
/// The cable's end in the lab.
const PORT: &str = "metal3-lab";
/// The lab's address in the servers' network, which their network data have as the gateway.
const GATEWAY: &str = "198.51.100.1/24";
/// The address of the control plane.
const ENDPOINT: &str = "192.0.2.100";
/// The port of an API server.
const API: u16 = 6443;
/// How long namespaces and a bridge may take.
const START: Duration = Duration::from_secs(20);

/// Running servers. Dropping it kills them; [`Nodes::stop`] also cleans up.
#[derive(Debug)]
pub struct Nodes {
    // Dropped in this order.
    tasks: JoinSet<()>,
    network: Child,
    claim: Claim,
    access: Access,
    /// The folder in one hierarchy of cgroups below which each server has its own.
    hierarchy: PathBuf,
}

/// What there is to know of servers that really boot.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Access {
    /// The Kubernetes version of their image, such as `v1.36.3`.
    pub version: String,
    /// A kubectl of this version.
    pub kubectl: PathBuf,
    /// The folder with a folder for each server, in which its console's log is.
    pub folder: PathBuf,
    /// What they went through.
    pub log: PathBuf,
}

impl Nodes {
    /// Gives all of these servers a body, which boots when theirs does. `folder` gets a folder for each. Fails where another
    /// lab has such servers. Cleans up after one that was killed.
    pub async fn start(folder: &Path, image: &Image, hosts: &[Host], servers: Servers) -> Result<Self> {
        let claim = claim()?;
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let ready = folder.join("network.ready");
        fs::remove_file(&ready).ok(); // mostly there is none
        let parents = cgroup::parents()?;
        // Beside one another, so that a name says whose it is.
        let cgroups = |host: &Host| -> Vec<PathBuf> {
            let name = cgroup_of(&host.name);
            parents.iter().map(|parent| parent.join(&name)).collect()
        };
        let mut record = Record::new()?;
        record.cgroups = hosts.iter().flat_map(cgroups).collect();
        let hierarchy = parents.first().context("this machine has no cgroups")?.clone();
        record.servers = hosts.iter().map(|host| folder.join(&host.name)).collect();
        record.settings = settings::differing(Path::new("/proc/sys"))?;
        record.write(claim.folder())?;
        record.settings.iter().try_for_each(settings::Setting::change)?;

        let network = Child::spawn(&network(folder, &ready)?)?;
        let is_ready = || async { fs::read_to_string(&ready).context("no network yet") };
        let up = async || is_ready().await.map(drop);
        network.wait_until("the servers' network", START, up).await?;
        let process = is_ready().await?.trim().parse().context("a process without a number")?;
        record.network = Some(Process::of(process)?);
        record.write(claim.folder())?;

        let access = Access {
            version: image.version.clone(),
            kubectl: image.kubectl.clone(),
            folder: folder.to_owned(),
            log: folder.join("servers.log"),
        };
        let (running, addresses) = watch::channel(Vec::new());
        let listener = TcpListener::bind((ENDPOINT, API)).await;
        let listener = listener.with_context(|| format!("cannot serve {ENDPOINT}:{API}"))?;
        let mut tasks = JoinSet::new();
        tasks.spawn(balancer::serve(listener, addresses, balancer::Api::new(API)?));
        let bodies = hosts.iter().map(|host| power::Body::new(host, folder, cgroups(host)));
        tasks.spawn(Power::new(image, process, access.log.clone(), bodies.collect(), servers, running).run());
        Ok(Self {
            tasks,
            network,
            claim,
            access,
            hierarchy,
        })
    }

    /// Stops a server's kubelet where it is, as one that hangs, until the server starts again.
    pub fn hang_kubelet(&self, host: &str) -> Result<()> {
        let kubelet = self.running(host, "kubelet")?;
        kill_process(kubelet, Signal::STOP).with_context(|| format!("cannot stop the kubelet of {host}"))
    }

    /// Gives a server an image, as `docker save` writes it. Blocks.
    pub fn import_image(&self, host: &str, archive: &Path) -> Result<()> {
        let containerd = self.running(host, "containerd")?.as_raw_nonzero().to_string();
        let inside = "--root --mount --pid --net env PATH=/usr/sbin:/usr/bin ctr --namespace k8s.io images import -";
        let image = File::open(archive).with_context(|| format!("cannot open {}", archive.display()))?;
        let output = Command::new("nsenter")
            .args(["--target", &containerd])
            .args(inside.split(' '))
            .stdin(image)
            .output()
            .context("cannot start nsenter, which is part of util-linux")?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(
            output.status.success(),
            "{host} does not take {}: {said}",
            archive.display()
        );
        Ok(())
    }

    fn running(&self, host: &str, program: &str) -> Result<Pid> {
        let found = cgroup::running(&self.hierarchy.join(cgroup_of(host)), program)?;
        let first = found.first().copied();
        first.with_context(|| format!("no {program} runs on {host}"))
    }

    /// What there is to know of them.
    pub fn access(&self) -> &Access {
        &self.access
    }

    /// An error if their network has ended, and they with it.
    pub fn ensure_alive(&self) -> Result<()> {
        self.network.ensure_alive()
    }

    /// Ends all servers, and leaves nothing of them but their logs.
    pub async fn stop(self) -> Result<()> {
        let Self {
            mut tasks,
            network,
            claim,
            ..
        } = self;
        tasks.shutdown().await;
        network.kill();
        let undone = tokio::task::spawn_blocking(move || undo(&claim)).await;
        undone.context("cleaning up was cut off")?
    }
}

fn cgroup_of(host: &str) -> String {
    format!("metal3-lab-{host}")
}

/// Waits until no other program that takes turns has such servers: tests, which run beside one another. It is this caller's turn
/// until the file is dropped. Blocks.
pub fn turn() -> Result<File> {
    let root = cache::root()?;
    fs::create_dir_all(&root).with_context(|| format!("cannot make the folder {}", root.display()))?;
    let file = File::create(root.join("servers.turn")).context("cannot open the file for turns with servers")?;
    file.lock().context("cannot lock the file for turns with servers")?;
    Ok(file)
}

/// Cleans up after a lab that was killed, if there was one. The next lab with such servers does the same.
pub fn clean_up() -> Result<()> {
    let folder = cache::root()?.join(CLAIMED);
    let owner = instance::owner(&folder)?;
    if owner.is_some() || Record::read(&folder)?.is_none() {
        return Ok(());
    }
    claim().map(drop)
}

/// The right to have such servers, after the leftovers of a lab that was killed are gone.
fn claim() -> Result<Claim> {
    let claim = Claim::take(&cache::root()?.join(CLAIMED))
        .context("a machine can have one lab at a time whose servers really boot (--played has no such limit)")?;
    undo(&claim)?;
    Ok(claim)
}

fn undo(claim: &Claim) -> Result<()> {
    match Record::read(claim.folder())? {
        Some(record) => record.undo(claim.folder()).context("cannot clean up after servers"),
        None => Ok(()),
    }
}

fn network(folder: &Path, ready: &Path) -> Result<Program> {
    let endpoint = format!("{ENDPOINT}/32");
    let mut args: Vec<OsString> = "--net --mount --pid --fork --kill-child --propagation private"
        .split(' ')
        .map(Into::into)
        .collect();
    args.extend([
        script("network.sh")?.into(),
        ready.into(),
        std::process::id().to_string().into(),
    ]);
    args.extend([PORT, GATEWAY, &endpoint].map(OsString::from));
    Ok(Program {
        name: "the servers' network".to_owned(),
        executable: "unshare".into(),
        args,
        log: folder.join("network.log"),
        ..Program::default()
    })
}

fn script(name: &str) -> Result<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../lab/node/server")
        .join(name);
    path.canonicalize()
        .with_context(|| format!("the scripts of the lab's servers are not at {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_addresses_are_those_of_the_example() {
        let path = format!("{}/../../examples/cluster/small.yaml", env!("CARGO_MANIFEST_DIR"));
        let text = fs::read_to_string(path).unwrap();
        let (gateway, _) = GATEWAY.split_once('/').unwrap();
        assert!(text.contains(&format!("gateway: \"{gateway}\"")));
        assert!(text.contains(&format!("host: \"{ENDPOINT}\"\n    port: {API}")));
    }
}
