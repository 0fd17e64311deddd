//! Runs cloud-init on the data that we render for a machine.
//!
//! Nothing is installed: Debian's packages of two releases are unpacked into a Python environment, and our script
//! `lab/cloud-init/read.py` calls their parsers. Two releases, because images in use contain old and new ones.

use std::ffi::OsString;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::cache::Making;
use crate::process::in_path;
use crate::python::{self, Recipe};

/// A release of Debian and the version of cloud-init in it. Debian's own revisions of a version (fixes, mostly) may
/// change; apt checks that they are Debian's.
const RELEASES: [(&str, &str); 2] = [("bookworm", "22.4.2"), ("trixie", "25.1.4")];
/// Whom these releases are signed by.
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";
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
            RELEASES
                .iter()
                .try_for_each(|(suite, version)| fetch(making, suite, version))
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

/// Unpacks a release's package. apt works in a folder of its own: it needs no root, the machine may run another release,
/// and its lists stay as they are.
fn fetch(making: &Making, suite: &str, version: &str) -> Result<()> {
    let tool = |name: &str| {
        in_path(name).with_context(|| {
            format!(
                "there is no {name} on PATH: cloud-init comes as a package of Debian, so Debian or Ubuntu is needed"
            )
        })
    };
    let (apt, dpkg) = (tool("apt-get")?, tool("dpkg-deb")?);
    if !Path::new(KEYRING).exists() {
        bail!(
            "{KEYRING} does not exist, so Debian's packages cannot be checked: apt-get install debian-archive-keyring"
        );
    }
    let folder = making.folder.join(format!("apt-{suite}"));
    for below in ["lists/partial", "cache/archives/partial", "state"] {
        fs::create_dir_all(folder.join(below)).context("cannot make a folder for apt")?;
    }
    fs::write(folder.join("status"), "").context("cannot write a file for apt")?;
    let source = format!("deb [signed-by={KEYRING}] http://deb.debian.org/debian {suite} main\n");
    fs::write(folder.join("sources.list"), source).context("cannot write a file for apt")?;

    let lists = format!("reading Debian's list of packages ({suite})");
    making.run(&lists, &apt, apt_args(&folder, &["update"]))?;
    let package = format!("cloud-init={version}-*");
    let package_file = format!("fetching cloud-init {version}");
    // apt writes into the folder that it is started in, so it is started by a shell that has gone there.
    let mut download = vec![
        "-c".into(),
        r#"cd "$0" && exec "$@""#.into(),
        folder.clone().into_os_string(),
        apt.into_os_string(),
    ];
    download.extend(apt_args(&folder, &["download", &package]));
    making.run(&package_file, Path::new("/bin/sh"), download)?;

    let found = fs::read_dir(&folder)
        .context("cannot look for the package")?
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .find(|path| path.extension().is_some_and(|extension| extension == "deb"));
    let package = found.with_context(|| format!("apt-get has not left a package in {}", folder.display()))?;
    let unpacked = making.folder.join(version);
    let args = vec!["--extract".into(), package.into(), unpacked.into()];
    making.run(&format!("unpacking cloud-init {version}"), &dpkg, args)?;
    fs::remove_dir_all(&folder).context("cannot remove apt's folder")
}

fn apt_args(folder: &Path, command: &[&str]) -> Vec<OsString> {
    let at = |option: &str, below: &str| format!("Dir::{option}={}", folder.join(below).display());
    let options = [
        at("State", "state"),
        at("State::Lists", "lists"),
        at("State::status", "status"),
        at("Cache", "cache"),
        at("Etc::SourceList", "sources.list"),
        "Dir::Etc::SourceParts=/dev/null".to_owned(),
        "Acquire::Languages=none".to_owned(),
        "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false".to_owned(),
        "Acquire::Retries=3".to_owned(),
        "APT::Update::Error-Mode=any".to_owned(),
        "APT::Sandbox::User=root".to_owned(),
    ];
    let options = options.into_iter().flat_map(|option| ["-o".to_owned(), option]);
    options
        .chain(command.iter().map(|word| (*word).to_owned()))
        .map(OsString::from)
        .collect()
}
