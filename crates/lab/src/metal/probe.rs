//! Whether a server can be emulated on this machine, and how quickly.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::recipes::{self, Parts};
use crate::nodes::{BRIDGE, probe_machine};
use crate::{cache, python};

/// Free memory in kilobytes, for the server, Ironic, and what makes images.
const MEMORY: u64 = 5_000_000;
/// Free room in the cache and in the folder for temporary files, in bytes: for what is made once, and for a disk.
const ROOM: u64 = 6 << 30;

/// Fails, with the reason, where no server can be emulated. Costs nothing and leaves nothing.
pub fn probe() -> Result<()> {
    probe_machine(&[BRIDGE], MEMORY)?;
    python::probe()?;
    let root = cache::root()?;
    fs::create_dir_all(&root).with_context(|| format!("cannot make the folder {}", root.display()))?;
    for folder in [root, std::env::temp_dir()] {
        let free = room(&folder)?;
        ensure!(
            free >= ROOM,
            "{} MB are free in {}, and {} are needed",
            free >> 20,
            folder.display(),
            ROOM >> 20
        );
    }
    Ok(())
}

/// The free room where a folder is, in bytes.
fn room(folder: &Path) -> Result<u64> {
    let output = Command::new("df")
        .args(["--block-size=1", "--output=avail"])
        .arg(folder)
        .output();
    let output = output.context("there is no df, which is part of coreutils")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let number = text.lines().nth(1).and_then(|line| line.trim().parse().ok());
    number.with_context(|| format!("the free room in {} is not known", folder.display()))
}

/// Whether a kernel boots under KVM. The device alone proves nothing: what is behind it may not run the code of a kernel.
pub(super) fn has_kvm(parts: &Parts, folder: &Path) -> Result<bool> {
    if !Path::new("/dev/kvm").exists() {
        return Ok(false);
    }
    let output = Command::new(recipes::scripts()?.join("has-kvm.sh"))
        .args([&parts.tools, &parts.ramdisk])
        .arg(folder)
        .output()
        .context("cannot try KVM")?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stdout);
        let why = said.lines().next().unwrap_or("no kernel boots in 15 s");
        cache::say(&format!(
            "/dev/kvm is of no use here ({why}): the server is emulated, which takes longer"
        ));
    }
    Ok(output.status.success())
}
