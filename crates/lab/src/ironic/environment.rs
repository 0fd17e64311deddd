//! The Python environment with the packages of `lab/ironic/requirements.lock`, made once per machine.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::{self, File, TryLockError};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};

use crate::binaries::in_path;
use crate::process::{Child, Program};

/// How often something is said while packages are installed.
const REPORT: Duration = Duration::from_secs(10);
/// Part of the checksum: to be changed with what an environment holds besides the packages.
const RECIPE: &str = "1";
/// The file whose presence says that an environment is complete.
const COMPLETE: &str = "metal3-lab.complete";
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
        self.folder.join("bin/python")
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
    let lock_file = sources.join("requirements.lock");
    let requirements = fs::read(&lock_file).with_context(|| format!("cannot read {}", lock_file.display()))?;
    let python = python()?;
    let root = cache_root()?;
    fs::create_dir_all(&root).with_context(|| format!("cannot make the folder {}", root.display()))?;
    let name = format!("ironic-{}", checksum(&requirements, &python.version));
    let environment = Environment {
        folder: root.join(&name),
        sources,
    };
    if environment.folder.join(COMPLETE).exists() {
        return Ok(environment);
    }
    let lock = File::create(root.join(format!("{name}.lock"))).context("cannot open the lock of an environment")?;
    wait_for(&lock)?;
    if environment.folder.join(COMPLETE).exists() {
        return Ok(environment); // made by whom we have waited for
    }
    // A virtual environment knows its own path, so it cannot be made under another name and moved: a marker, written
    // last, tells a complete one from the rest of an attempt that was cut off.
    if environment.folder.exists() {
        fs::remove_dir_all(&environment.folder).context("cannot remove an unfinished environment")?;
    }
    let log = root.join(format!("{name}.log"));
    File::create(&log).with_context(|| format!("cannot open the log {}", log.display()))?;
    make(&environment, &python, &lock_file, &log)?;
    File::create(environment.folder.join(COMPLETE)).context("cannot mark an environment as complete")?;
    Ok(environment)
}

/// The folder of our Python sources.
pub(super) fn sources() -> Result<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../lab/ironic");
    path.canonicalize()
        .with_context(|| format!("the sources of the lab's Ironic are not at {}", path.display()))
}

fn make(environment: &Environment, python: &Python, lock_file: &Path, log: &Path) -> Result<()> {
    let folder = environment.folder.clone();
    run(
        log,
        "making a Python environment",
        &python.path,
        vec!["-m".into(), "venv".into(), folder.into()],
    )?;
    let pip = [
        "-m",
        "pip",
        "install",
        "--disable-pip-version-check",
        "--no-input",
        "--require-hashes",
        "-r",
    ];
    let mut args: Vec<OsString> = pip.iter().map(Into::into).collect();
    args.push(lock_file.into());
    run(
        log,
        "installing Ironic and its packages (once per machine, about a minute)",
        &environment.python(),
        args,
    )?;

    let configuration = environment.folder.join("empty.conf");
    let database = environment.empty_database();
    fs::write(
        &configuration,
        format!("[database]\nconnection = sqlite:///{}\n", database.display()),
    )
    .with_context(|| format!("cannot write {}", configuration.display()))?;
    let args = vec!["--config-file".into(), configuration.into(), "create_schema".into()];
    run(
        log,
        "making an empty Ironic database",
        &environment.folder.join("bin/ironic-dbsync"),
        args,
    )
}

/// Runs a command to its end and says how it goes.
fn run(log: &Path, what: &str, executable: &Path, args: Vec<OsString>) -> Result<()> {
    say(what);
    let child = Child::spawn(&Program {
        name: what.to_owned(),
        executable: executable.to_owned(),
        args,
        env: Vec::new(),
        cwd: None,
        log: log.to_owned(),
    })?;
    let start = Instant::now();
    let mut last = start;
    let status = loop {
        if let Some(status) = child.exit_status() {
            break status;
        }
        std::thread::sleep(Duration::from_millis(100));
        if last.elapsed() >= REPORT {
            last = Instant::now();
            say(&format!("{what}: {} s", start.elapsed().as_secs()));
        }
    };
    if !status.success() {
        bail!("{what} failed ({status}){}", child.log_tail());
    }
    Ok(())
}

/// A Python that can make environments.
#[derive(Debug)]
struct Python {
    path: PathBuf,
    /// Such as `3.11`: packages are compiled for one minor version.
    version: String,
}

fn python() -> Result<Python> {
    const CHECK: &str = "import sys, venv, ensurepip, ssl, sqlite3; print('%d.%d' % sys.version_info[:2])";
    let path = in_path("python3").context(
        "there is no python3 on PATH. The lab's Ironic needs Python 3.11 or newer with its venv module: \
         apt-get install python3 python3-venv",
    )?;
    let output = Command::new(&path)
        .args(["-c", CHECK])
        .output()
        .context("cannot run python3")?;
    if !output.status.success() {
        bail!(
            "{} lacks a module that the lab's Ironic needs (apt-get install python3-venv): {}",
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
            "{} is Python {version}; the lab's Ironic needs 3.11 or newer",
            path.display()
        );
    }
    Ok(Python { path, version })
}

fn checksum(requirements: &[u8], version: &str) -> String {
    let mut hash = Sha256::new();
    hash.update(RECIPE);
    hash.update(version);
    hash.update(requirements);
    hash.finalize().iter().take(12).fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").ok(); // writing to a string cannot fail
        text
    })
}

fn cache_root() -> Result<PathBuf> {
    let set = |name: &str| {
        std::env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    let cache = set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache")));
    Ok(cache
        .context("neither XDG_CACHE_HOME nor HOME is set: no place for a cache")?
        .join("metal3-lab"))
}

fn wait_for(lock: &File) -> Result<()> {
    let start = Instant::now();
    let mut last = None::<Instant>;
    loop {
        match lock.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(err)) => return Err(err).context("cannot lock an environment"),
        }
        if last.is_none_or(|last| last.elapsed() >= REPORT) {
            last = Some(Instant::now());
            say(&format!(
                "another process installs Ironic; waiting for {} s",
                start.elapsed().as_secs()
            ));
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Writes past the capture of the test harness: a minute of silence looks like a test that hangs.
fn say(text: &str) {
    writeln!(std::io::stderr(), "metal3-lab: {text}").ok();
}
