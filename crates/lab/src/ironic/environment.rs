//! The Python environment with the packages of `lab/ironic/requirements.lock`, built once per machine.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::cache::Making;
use crate::process::Program;
use crate::python::{self, Recipe};

/// Part of the checksum: to be changed with what an environment holds besides the packages.
const RECIPE: &str = "1";
/// An empty Ironic database, copied for every instance: making the tables takes seconds.
const EMPTY_DATABASE: &str = "empty.sqlite";

/// An environment that is ready for use.
#[derive(Debug, Clone)]
pub struct Environment {
    folder: PathBuf,
    sources: PathBuf,
}

impl Environment {
    /// The Python interpreter.
    pub fn python(&self) -> PathBuf {
        python::interpreter(&self.folder)
    }

    /// Its folder, with the packages' programs in `bin`.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// An Ironic database with tables and no rows.
    pub fn empty_database(&self) -> PathBuf {
        self.folder.join(EMPTY_DATABASE)
    }

    /// Our own Python sources.
    pub fn sources(&self) -> &Path {
        &self.sources
    }

    /// A program of ours: `python -m ironic_lab.MODULE ARGUMENT`.
    /// It works in the folder that the argument lies in.
    pub(super) fn program(&self, module: &str, argument: &Path, log: PathBuf) -> Program {
        let path = [self.sources.join("bin"), self.folder.join("bin")].map(PathBuf::into_os_string);
        let mut search = path.join(&OsString::from(":"));
        search.push(":");
        search.push(std::env::var_os("PATH").unwrap_or_default());
        Program {
            name: format!("ironic_lab.{module}"),
            executable: self.python(),
            args: vec!["-m".into(), format!("ironic_lab.{module}").into(), argument.into()],
            env: vec![
                ("PATH".into(), search),
                ("PYTHONPATH".into(), self.sources.clone().into()),
                ("PYTHONDONTWRITEBYTECODE".into(), "1".into()),
                ("PYTHONUNBUFFERED".into(), "1".into()),
            ],
            cwd: argument.parent().map(Path::to_owned),
            log,
        }
    }
}

/// The environment for the pinned packages; made if it is not there yet, which takes about a minute. Blocks meanwhile.
pub fn ensure() -> Result<Environment> {
    let sources = sources()?;
    let folder = python::ensure(&Recipe {
        name: "ironic",
        lock_file: &sources.join("requirements.lock"),
        also: RECIPE,
        finish: &make_empty_database,
    })?;
    Ok(Environment { folder, sources })
}

/// The folder of our Python sources.
pub(crate) fn sources() -> Result<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../lab/ironic");
    path.canonicalize()
        .with_context(|| format!("the sources of the lab's Ironic are not at {}", path.display()))
}

fn make_empty_database(making: &Making) -> Result<()> {
    let configuration = making.folder.join("empty.conf");
    let database = making.folder.join(EMPTY_DATABASE);
    fs::write(
        &configuration,
        format!("[database]\nconnection = sqlite:///{}\n", database.display()),
    )
    .with_context(|| format!("cannot write {}", configuration.display()))?;
    making.run(
        "making an empty Ironic database",
        &making.folder.join("bin/ironic-dbsync"),
        vec!["--config-file".into(), configuration.into(), "create_schema".into()],
    )
}
