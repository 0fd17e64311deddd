//! A system that boots a kernel of its own, to show what becomes of network data on a real server.
//!
//! It is the image's root tree ([`crate::image`]) on User-mode Linux, a kernel that is an ordinary program, so it has bonds and VLANs
//! whether this machine's kernel has them or not. systemd is its first process. For one network data after another it gets network
//! interfaces with the MAC addresses of a host, and a config drive. Real cloud-init reads that, and real systemd-networkd, netplan
//! or ifupdown applies it. The scripts are in `lab/network`.
//!
//! All of it, the mounts included, is in namespaces that end with the process that started them, however that ends. So nothing is
//! recorded, and nothing is left.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::cache::{self, Making};
use crate::image::{self, SUITE};
use crate::instance::Scratch;
use crate::process::{Child, Program};
use crate::{debian, nodes};

/// Free memory, in kilobytes, for the systems of a test.
const MEMORY: u64 = 1_500_000;
/// To be changed with what is done with the packages.
const STEPS: &str = "1";
/// Layers over the root tree, with their packages. What these depend on is in the tree, or listed.
const LAYERS: [(&str, &[&str]); 4] = [
    ("kernel", &["user-mode-linux"]),
    ("peer", &["dnsmasq-base"]),
    (
        "netplan",
        &[
            "netplan.io",
            "netplan-generator",
            "libnetplan1",
            "libglib2.0-0t64",
            "libatomic1",
            "python3-netplan",
            "python3-cffi-backend",
        ],
    ),
    ("eni", &["ifupdown", "ifenslave", "vlan", "net-tools"]),
];

/// What writes and applies the configuration of the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Renderer {
    /// cloud-init's files for systemd-networkd.
    Networkd,
    /// netplan, which writes files for systemd-networkd.
    Netplan,
    /// `/etc/network/interfaces` and ifupdown.
    Eni,
}

impl Renderer {
    /// As cloud-init calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Networkd => "networkd",
            Self::Netplan => "netplan",
            Self::Eni => "eni",
        }
    }
}

/// A server's network interfaces and its config drive.
#[derive(Debug, Clone)]
pub struct Case {
    /// The name of a folder.
    pub name: String,
    /// Names and MAC addresses of the network interfaces.
    pub nics: Vec<(String, String)>,
    /// What answers at the other ends.
    pub segments: Vec<Segment>,
    /// What Ironic builds the drive from: `meta_data` and `network_data`.
    pub config_drive: Value,
}

/// A part of a site, with a router.
#[derive(Debug, Clone)]
pub struct Segment {
    /// The interfaces whose cables end here, such as those of a bond.
    pub nics: &'static [&'static str],
    /// The VLAN that it is, if it is one.
    pub vlan: Option<u16>,
    /// The router's addresses with their prefix lengths.
    pub router: &'static [&'static str],
    /// What it offers, as dnsmasq's `--dhcp-range` names it.
    pub ranges: &'static [&'static str],
}

/// What `ip` and systemd-networkd say in the system.
#[derive(Debug, Clone, Deserialize)]
pub struct Facts {
    /// `ip -d address`.
    pub links: Vec<Value>,
    /// `ip route` for IPv4 and IPv6.
    pub routes: [Vec<Value>; 2],
    /// The name servers of each interface, as networkd or ifupdown has them.
    pub dns: Map<String, Value>,
    /// What cloud-init warned of, and its errors.
    pub said: String,
}

/// A running system. Dropping it ends it.
#[derive(Debug)]
pub struct Guest {
    process: Child,
    folder: Scratch,
}

/// Fails, with the reason, where there can be no such system.
pub fn probe() -> Result<()> {
    nodes::probe_machine(&[], MEMORY)?;
    let cpu = fs::read_to_string("/proc/cpuinfo").context("the processor is not known")?;
    ensure!(
        !has_tiles(&cpu),
        "its processor has AMX, and Debian's User-mode Linux has no room for such registers: its first process dies"
    );
    Ok(())
}

/// Whether the registers of a process are larger than User-mode Linux before 6.14 can hand back to the machine's kernel, which
/// takes all of them or none. The text is that of `/proc/cpuinfo`.
fn has_tiles(cpu: &str) -> bool {
    let mut flags = cpu.lines().filter(|line| line.starts_with("flags"));
    flags.any(|flags| flags.split_whitespace().any(|flag| flag == "amx_tile"))
}

/// Makes the image and fetches the packages, where they are not there yet, which takes minutes. Blocks meanwhile.
pub fn ensure() -> Result<()> {
    image::ensure()?;
    packages().map(drop)
}

impl Guest {
    /// Boots a system that goes through the cases in the order of their names. Blocks as [`ensure`] does.
    pub fn boot(renderer: Renderer, cases: &[Case]) -> Result<Self> {
        let tree = image::ensure()?.tree;
        let packages = packages()?;
        let folder = Scratch::new("metal3-lab-guest")?;
        write(folder.folder(), "renderer", renderer.name())?;
        for case in cases {
            lay_out(&folder.folder().join("cases").join(&case.name), case)?;
        }
        let mut args: Vec<OsString> = "--mount --pid --fork --kill-child --propagation private"
            .split(' ')
            .map(Into::into)
            .collect();
        args.extend([scripts()?.join("boot.sh"), folder.folder().to_owned()].map(Into::into));
        args.push(scripts()?.join("guest").into());
        let layers = ["kernel", "peer", renderer.name()].map(|layer| packages.join(layer));
        // systemd-networkd is in the tree.
        args.extend(layers.into_iter().filter(|layer| layer.is_dir()).map(Into::into));
        args.push(tree.into());
        let process = Child::spawn(&Program {
            name: format!("the system with {}", renderer.name()),
            executable: "unshare".into(),
            args,
            log: folder.folder().join("console.log"),
            ..Program::default()
        })?;
        Ok(Self { process, folder })
    }

    /// Waits until what has become of a case satisfies `check`, at most for the limit, and goes on to the next one. Fails with what
    /// `check` said last.
    pub async fn expect(&self, case: &str, limit: Duration, check: impl Fn(Facts) -> Result<()>) -> Result<()> {
        let folder = self.folder.folder().join("cases").join(case);
        let checked = async || {
            let text = fs::read(folder.join("facts")).context("cloud-init has not run yet")?;
            check(serde_json::from_slice(&text).context("facts that are not JSON")?)
        };
        let outcome = self.process.wait_until(case, limit, checked).await;
        write(&folder, "done", "")?;
        outcome
    }
}

fn lay_out(folder: &Path, case: &Case) -> Result<()> {
    let mut nics = String::new();
    for (name, mac) in &case.nics {
        writeln!(nics, "{name} {mac}").context("cannot write a line")?;
    }
    let mut segments = String::new();
    for segment in &case.segments {
        let vlan = segment.vlan.map_or_else(|| "-".to_owned(), |vlan| vlan.to_string());
        let words = [
            segment.nics.join(","),
            vlan,
            segment.router.join(","),
            segment.ranges.join(" "),
        ];
        writeln!(segments, "{}", words.join(" ")).context("cannot write a line")?;
    }
    write(folder, "nics", &nics)?;
    write(folder, "segments", &segments)?;
    let drive = case
        .config_drive
        .as_object()
        .context("a config drive that is not JSON")?;
    for (part, content) in drive {
        let file = format!("{part}.json");
        write(&folder.join("openstack/latest"), &file, &content.to_string())?;
    }
    Ok(())
}

fn write(folder: &Path, name: &str, text: &str) -> Result<()> {
    let file = folder.join(name);
    let written = fs::create_dir_all(folder).and_then(|()| fs::write(&file, text));
    written.with_context(|| format!("cannot write {}", file.display()))
}

fn scripts() -> Result<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../lab/network");
    path.canonicalize()
        .with_context(|| format!("the scripts of the lab's systems are not at {}", path.display()))
}

/// The folder with a folder for each layer.
fn packages() -> Result<PathBuf> {
    let names = LAYERS
        .iter()
        .flat_map(|(layer, packages)| packages.iter().chain([layer]));
    let parts = [STEPS, SUITE].into_iter().chain(names.copied());
    let name = format!("network-{}", cache::checksum(parts));
    cache::once(&name, "the packages of networks", true, |making| {
        LAYERS
            .iter()
            .try_for_each(|(layer, packages)| debian::unpack(making, SUITE, packages, &making.folder.join(layer)))?;
        link_modules(making)
    })
}

/// The package has the kernel's modules where `modprobe` does not look.
fn link_modules(making: &Making) -> Result<()> {
    let usr = making.folder.join("kernel/usr/lib");
    let versions = fs::read_dir(usr.join("uml/modules")).context("a kernel without modules")?;
    let versions: Vec<_> = versions.flatten().map(|entry| entry.file_name()).collect();
    ensure!(versions.len() == 1, "one kernel is expected: {versions:?}");
    fs::create_dir(usr.join("modules")).context("cannot make a folder for modules")?;
    versions.iter().try_for_each(|version| {
        let target = Path::new("../uml/modules").join(version);
        symlink(target, usr.join("modules").join(version)).context("cannot link the modules")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_processor_with_tiles_is_known_by_its_flags() {
        let cpu = |flags: &str| format!("processor\t: 0\nmodel name\t: amx_tile\nflags\t\t: fpu {flags}\n");
        assert!(has_tiles(&cpu("avx512f amx_tile amx_int8")));
        assert!(!has_tiles(&cpu("avx512f")));
    }
}
