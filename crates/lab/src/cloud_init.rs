//! Runs cloud-init on the data that we render for a machine.
//!
//! Nothing is installed: Debian's packages of two releases are unpacked into a Python environment, and our script
//! `lab/cloud-init/read.py` calls their parsers. Two releases, because images in use contain old and new ones.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::debian;
use crate::python::{self, Recipe};

/// A release of Debian and the version of cloud-init in it. Debian's own revisions of a version (fixes, mostly) may
/// change; apt checks that they are Debian's.
const RELEASES: [(&str, &str); 2] = [("bookworm", "22.4.2"), ("trixie", "25.1.4")];
/// To be changed with what is done with the packages.
const STEPS: &str = "1";

/// One version of cloud-init.
#[derive(Debug, Clone)]
pub struct CloudInit {
    /// Such as `22.4.2`.
    pub version: &'static str,
    environment: PathBuf,
    modules: PathBuf,
}

/// Both versions, the older one first. Fetched if this machine has not got them yet, which takes half a minute. Blocks
/// meanwhile.
pub fn ensure() -> Result<Vec<CloudInit>> {
    let also = format!("{STEPS} {RELEASES:?}");
    let environment = python::ensure(&Recipe {
        name: "cloud-init",
        lock_file: &sources()?.join("requirements.lock"),
        also: &also,
        finish: &|making| {
            RELEASES.iter().try_for_each(|(suite, version)| {
                let package = format!("cloud-init={version}-*");
                debian::unpack(making, suite, &[&package], &making.folder.join(version))
            })
        },
    })?;
    let installed = |(_, version): &(&str, &'static str)| CloudInit {
        version,
        environment: environment.clone(),
        modules: environment.join(version).join("usr/lib/python3/dist-packages"),
    };
    Ok(RELEASES.iter().map(installed).collect())
}

impl CloudInit {
    /// Gives a request to `read.py`, which says what requests there are, and returns its answer.
    pub fn ask(&self, request: &Value) -> Result<Value> {
        let mut child = Command::new(python::interpreter(&self.environment))
            .arg(sources()?.join("read.py"))
            .env("PYTHONPATH", &self.modules)
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .context("cannot start Python")?;
        // The script reads everything before it writes, so the pipes cannot block each other.
        let mut input = child.stdin.take().context("Python has no standard input")?;
        input
            .write_all(request.to_string().as_bytes())
            .context("cannot write to read.py")?;
        drop(input);
        let output = child.wait_with_output().context("cannot read from read.py")?;
        if !output.status.success() {
            bail!(
                "cloud-init {}: read.py failed ({}):\n{}",
                self.version,
                output.status,
                String::from_utf8_lossy(&output.stderr)
            );
        }
        serde_json::from_slice(&output.stdout).context("read.py has written something else than JSON")
    }
}

fn sources() -> Result<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../lab/cloud-init");
    path.canonicalize()
        .with_context(|| format!("the lab's files for cloud-init are not at {}", path.display()))
}
