//! Whether servers can really boot on this machine. Costs nothing and leaves nothing.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use super::cgroup;
use crate::{cache, debian};

/// Free memory for a control plane, some workers, and what makes them.
const MEMORY: u64 = 4_000_000;

/// What must be possible, and how to try it. The commands leave nothing behind: their namespaces end with them.
const TRIES: [(&str, &[&str]); 3] = [
    (
        "namespaces cannot be made",
        &["--net", "--mount", "--pid", "--fork", "--kill-child", "true"],
    ),
    (
        "there is no bridge or no veth pair to be had (iproute2 is needed, and the kernel's modules)",
        &[
            "--net",
            "sh",
            "-ec",
            "ip link add br0 type bridge; ip link add veth0 type veth peer name veth1; ip link set veth1 master br0",
        ],
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
    ensure!(cfg!(target_os = "linux"), "it does not run Linux");
    ensure!(cfg!(target_arch = "x86_64"), "the image is for amd64");
    ensure!(
        rustix::process::geteuid().is_root(),
        "only root may make the namespaces and cgroups of a system container"
    );
    let cgroups = cgroup::parents()?;
    let refused = cgroups.iter().find_map(|folder| {
        let trial = folder.join(format!("metal3-lab-probe-{}", std::process::id()));
        fs::create_dir(&trial).and_then(|()| fs::remove_dir(&trial)).err()
    });
    if let Some(error) = refused {
        bail!("it delegates no cgroups: {error}");
    }
    debian::probe()?;
    let folder = cache::root()?.join("probe");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let tried = TRIES.iter().try_for_each(|(lack, args)| attempt(lack, args, &folder));
    fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display()))?;
    tried?;
    let text = fs::read_to_string("/proc/meminfo").context("the free memory is not known")?;
    let free = available(&text).context("the free memory is not known")?;
    ensure!(
        free >= MEMORY,
        "{} MB of memory are free, and {} are needed",
        free / 1000,
        MEMORY / 1000
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
