//! The programs of a lab, built if missing on this machine.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::Boots;
use crate::binaries::{self, Binaries};
use crate::cache;
use crate::image;
use crate::ironic::environment;
use crate::process::Program;

/// Our programs.
const OURS: [&str; 3] = [
    "baremetal-operator",
    "ip-address-manager",
    "cluster-api-provider-metal3",
];

/// What a lab is made of. Ironic's Python environment has no path here: [`crate::ironic`] finds it by itself, and so do
/// Cluster API's managers ([`crate::cluster_api`]).
#[derive(Debug, Clone)]
pub struct Programs {
    /// The control plane's.
    pub binaries: Binaries,
    /// The folder of our own.
    pub folder: PathBuf,
}

impl Programs {
    /// Builds what is missing: our programs from these sources (always brought up to date), the control plane (minutes
    /// when nothing is cached), the Python environment (a minute), and, where clusters are made, Cluster API's managers
    /// (three minutes) and, where servers really boot, their image (two minutes, and minutes more for what is compiled). Blocks meanwhile, and says to standard error how it goes, every ten seconds at least. `log` gets
    /// what cargo writes.
    pub fn ensure(log: &Path, clusters: Option<Boots>) -> Result<Self> {
        let folder = ours(log)?;
        if clusters.is_some() {
            binaries::ensure_cluster_api()?;
        }
        if clusters == Some(Boots::Really) {
            image::ensure().context("the image of the servers cannot be made (--played needs none)")?;
        }
        Self::with_ours(folder)
    }

    /// The same with our programs in this folder, built already, and without Cluster API's.
    pub fn with_ours(folder: PathBuf) -> Result<Self> {
        let binaries = binaries::ensure_complete()?;
        environment::ensure()?;
        Ok(Self { binaries, folder })
    }

    /// The operator's program.
    pub fn operator(&self) -> PathBuf {
        self.folder.join(OURS[0])
    }
}

/// The folder of our programs, built as their sources stand.
fn ours(log: &Path) -> Result<PathBuf> {
    fs::remove_file(log).ok(); // of an earlier build; mostly there is none
    let mut args: Vec<OsString> = Vec::new();
    for name in crate::cargo::variables_of_this_package() {
        args.extend(["-u".into(), name]);
    }
    args.push(crate::cargo::program());
    // Cargo turns on the features that the named packages want of their dependencies. With xtask, which needs them all
    // and was built a moment ago, every dependency is there already; without, half of them would be built once more.
    args.extend(["build", "--package", "xtask"].map(OsString::from));
    for name in OURS {
        args.extend(["--package", name, "--bin", name].map(OsString::from));
    }
    args.push("--message-format=json-render-diagnostics".into());
    let build = Program {
        name: "building our programs".to_owned(),
        executable: "env".into(),
        args,
        cwd: Some(Path::new(env!("CARGO_MANIFEST_DIR")).into()),
        log: log.to_owned(),
        ..Program::default()
    };
    // The log's last lines are JSON; what a person wants to read is the rest.
    cache::run(&build, || progress(log)).map_err(|error| error.context(words(log).join("\n")))?;
    let program = executable(log)?.with_context(|| format!("cargo named no executable in {}", log.display()))?;
    let folder = program.parent().context("a program without a folder")?;
    Ok(folder.to_owned())
}

/// What cargo said to people.
fn words(log: &Path) -> Vec<String> {
    let text = fs::read_to_string(log).unwrap_or_default();
    text.lines()
        .filter(|line| !line.starts_with('{'))
        .map(str::to_owned)
        .collect()
}

fn progress(log: &Path) -> String {
    match words(log).iter().rev().find(|line| !line.trim().is_empty()) {
        Some(line) => format!(", {}", line.trim()),
        None => String::new(),
    }
}

/// The path in cargo's last message of an executable: cargo alone knows where its target folder is.
fn executable(log: &Path) -> Result<Option<PathBuf>> {
    let text = fs::read_to_string(log).with_context(|| format!("cannot read {}", log.display()))?;
    let paths = text.lines().rev().filter_map(|line| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        Some(PathBuf::from(message["executable"].as_str()?))
    });
    Ok(paths.into_iter().next())
}
