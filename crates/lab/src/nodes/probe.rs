//! Whether servers can really boot on this machine. Costs nothing and leaves nothing.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use super::cgroup;
use crate::{cache, debian};

/// Free memory for a control plane, some workers, and what makes them.
const MEMORY: u64 = 4_000_000;

/// What is missing if a command fails. The commands leave nothing behind: their namespaces end with them.
pub(crate) type Try = (&'static str, &'static [&'static str]);
/// What it takes to have servers plugged into a network.
pub(crate) const BRIDGE: Try = (
    "there is no bridge or no veth pair to be had (iproute2 is needed, and the kernel's modules)",
    &[
        "--net",
        "sh",
        "-ec",
        "ip link add br0 type bridge; ip link add veth0 type veth peer name veth1; ip link set veth1 master br0",
    ],
);
const TRIES: [Try; 2] = [
    (
        "namespaces cannot be made",
        &["--net", "--mount", "--pid", "--fork", "--kill-child", "true"],
    ),
    (
        "an overlay cannot be mounted in the lab's cache",
        &[
            "--mount",
            "--propagation",
            "private",
            "sh",
            "-ec",
            r#"cd "$0"; mkdir -p lower upper work root; mount -t overlay overlay -o lowerdir=lower,upperdir=upper,workdir=work root"#,
        ],
    ),
];

/// Fails, with the reason, where servers cannot really boot.
pub fn probe() -> Result<()> {
    probe_machine(&[BRIDGE], MEMORY)?;
    let cgroups = cgroup::parents()?;
    let refused = cgroups.iter().find_map(|folder| {
        let trial = folder.join(format!("metal3-lab-probe-{}", std::process::id()));
        fs::create_dir(&trial).and_then(|()| fs::remove_dir(&trial)).err()
    });
    if let Some(error) = refused {
        bail!("it delegates no cgroups: {error}");
    }
    Ok(())
}

/// Fails, with the reason, where nothing of the image can run: for that `memory` kilobytes must be free, and what `also` says be
/// possible.
pub(crate) fn probe_machine(also: &[Try], memory: u64) -> Result<()> {
    ensure!(cfg!(target_os = "linux"), "it does not run Linux");
    ensure!(cfg!(target_arch = "x86_64"), "the image is for amd64");
    ensure!(
        rustix::process::geteuid().is_root(),
        "only root may make the image, and namespaces"
    );
    debian::probe()?;
    let folder = cache::root()?.join(format!(
        "probe-{}-{:?}",
        std::process::id(),
        std::thread::current().id()
    ));
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let mut tries = TRIES.iter().chain(also);
    let outcome = tries.try_for_each(|(lack, args)| attempt(lack, args, &folder));
    fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display()))?;
    outcome?;
    let text = fs::read_to_string("/proc/meminfo").context("the free memory is not known")?;
    let free = available(&text).context("the free memory is not known")?;
    ensure!(
        free >= memory,
        "{} MB of memory are free, and {} are needed",
        free / 1000,
        memory / 1000
    );
    Ok(())
}

fn attempt(lack: &str, args: &[&str], folder: &Path) -> Result<()> {
    // A shell's first argument after its script is this folder; `true` does not mind.
    let output = Command::new("unshare").args(args).arg(folder).output();
    let output = output.context("there is no unshare, which is part of util-linux")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{lack}: {}", said.trim());
    Ok(())
}

/// In kilobytes, from the text of `/proc/meminfo`.
fn available(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_memory_is_read() {
        assert_eq!(available("MemTotal: 9 kB\nMemAvailable:   42 kB\n"), Some(42));
        assert_eq!(available("MemTotal: 9 kB\n"), None);
    }
}
