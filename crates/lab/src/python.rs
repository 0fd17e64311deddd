//! Python virtual environments, built once per machine from a file that pins every package.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::cache::{self, Making};
use crate::process::{Program, in_path};

/// What an environment is made of.
pub(crate) struct Recipe<'a> {
    /// Begins the name of the environment's folder, and says in messages what is being installed.
    pub name: &'static str,
    /// The packages with their checksums, as pip reads them.
    pub lock_file: &'a Path,
    /// Whatever else shall make another environment when it changes.
    pub also: &'a str,
    /// Adds what the environment holds besides the packages.
    pub finish: &'a dyn Fn(&Making) -> Result<()>,
}

impl Making {
    /// Runs a command to its end and says how it goes.
    pub fn run(&self, what: &str, executable: &Path, args: Vec<OsString>) -> Result<()> {
        cache::say(what);
        let program = Program {
            name: what.to_owned(),
            executable: executable.to_owned(),
            args,
            log: self.log.clone(),
            ..Program::default()
        };
        cache::run(&program, String::new)
    }
}

/// The Python interpreter of an environment.
pub(crate) fn interpreter(folder: &Path) -> PathBuf {
    folder.join("bin/python")
}

/// The folder of an environment; made if it is not there yet. Blocks meanwhile.
pub(crate) fn ensure(recipe: &Recipe<'_>) -> Result<PathBuf> {
    let requirements =
        fs::read(recipe.lock_file).with_context(|| format!("cannot read {}", recipe.lock_file.display()))?;
    let python = python(recipe.name)?;
    let parts = [recipe.also.as_bytes(), python.version.as_bytes(), &requirements];
    let name = format!("{}-{}", recipe.name, cache::checksum(parts));
    // A virtual environment knows its own path, so it cannot be made under another name and moved.
    cache::once(&name, recipe.name, false, |making| {
        install(making, recipe, &python)?;
        (recipe.finish)(making)
    })
}

fn install(making: &Making, recipe: &Recipe<'_>, python: &Python) -> Result<()> {
    let venv = vec!["-m".into(), "venv".into(), making.folder.clone().into()];
    making.run("making a Python environment", &python.path, venv)?;
    let pip = "-m pip install --disable-pip-version-check --no-input --require-hashes -r";
    let mut args: Vec<OsString> = pip.split(' ').map(Into::into).collect();
    args.push(recipe.lock_file.into());
    let what = format!("installing the packages of {} (once per machine)", recipe.name);
    making.run(&what, &interpreter(&making.folder), args)
}

/// Fails, with what to install, where there is no Python for environments.
pub(crate) fn probe() -> Result<()> {
    python("Ironic").map(drop)
}

/// A Python that can make environments.
#[derive(Debug)]
struct Python {
    path: PathBuf,
    /// Such as `3.11`: packages are compiled for one minor version.
    version: String,
}

fn python(what: &str) -> Result<Python> {
    const CHECK: &str = "import sys, venv, ensurepip, ssl, sqlite3; print('%d.%d' % sys.version_info[:2])";
    let path = in_path("python3").with_context(|| {
        format!(
            "there is no python3 on PATH. The lab's {what} needs Python 3.11 or newer with its venv module: apt-get \
             install python3 python3-venv"
        )
    })?;
    let output = Command::new(&path)
        .args(["-c", CHECK])
        .output()
        .context("cannot run python3")?;
    if !output.status.success() {
        bail!(
            "{} lacks a module that the lab's {what} needs (apt-get install python3-venv): {}",
            path.display(),
            String::from_utf8_lossy(&output.stderr)
                .lines()
                .last()
                .unwrap_or_default()
        );
    }
    let version = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    let minor = version.strip_prefix("3.").and_then(|minor| minor.parse::<u32>().ok());
    if minor.is_none_or(|minor| minor < 11) {
        bail!(
            "{} is Python {version}; the lab's {what} needs 3.11 or newer",
            path.display()
        );
    }
    Ok(Python { path, version })
}
