//! Packages of npm that our documents need.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// Copies a package's own files into a folder, and installs there what its `package-lock.json` pins, unless that is done.
pub fn installed(sources: &Path, folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let listing = fs::read_dir(sources).with_context(|| format!("cannot list {}", sources.display()))?;
    for entry in listing.flatten() {
        fs::copy(entry.path(), folder.join(entry.file_name())).context("cannot copy the files of a package")?;
    }
    let lock = fs::read(sources.join("package-lock.json")).context("a package has no package-lock.json")?;
    let done = folder.join("installed");
    if fs::read(&done).is_ok_and(|installed| installed == lock) {
        return Ok(());
    }
    let install = ["ci", "--ignore-scripts", "--no-audit", "--no-fund"];
    let status = Command::new("npm").args(install).current_dir(folder).status();
    ensure!(
        status.is_ok_and(|status| status.success()),
        "npm, which comes with Node.js, cannot install packages in {}",
        folder.display()
    );
    fs::write(&done, lock).context("cannot note that packages are installed")
}
