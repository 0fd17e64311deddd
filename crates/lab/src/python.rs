//! Virtual environments of Python, made once per machine from a file that pins every package.

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
/// The file whose presence says that an environment is complete.
const COMPLETE: &str = "metal3-lab.complete";

/// What an environment is made of.
pub(crate) struct Recipe<'a> {
    /// Begins the name of the environment's folder, and says in messages what is being installed.
    pub name: &'static str,
    /// The packages with their checksums, as pip reads them.
    pub lock_file: &'a Path,
    /// Whatever else shall make another environment when it changes.
    pub also: &'a str,
    /// Adds what the environment holds besides the packages.
    pub finish: &'a dyn Fn(&Maker<'_>) -> Result<()>,
}

/// An environment that is being made.
pub(crate) struct Maker<'a> {
    /// Its folder.
    pub folder: &'a Path,
    log: &'a Path,
}

impl Maker<'_> {
    /// Runs a command to its end and says how it goes.
    pub fn run(&self, what: &str, executable: &Path, args: Vec<OsString>) -> Result<()> {
        run(self.log, what, executable, args)
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
    let root = cache_root()?;
    fs::create_dir_all(&root).with_context(|| format!("cannot make the folder {}", root.display()))?;
    let name = format!(
        "{}-{}",
        recipe.name,
        checksum(&requirements, recipe.also, &python.version)
    );
    let folder = root.join(&name);
    if folder.join(COMPLETE).exists() {
        return Ok(folder);
    }
    let lock = File::create(root.join(format!("{name}.lock"))).context("cannot open the lock of an environment")?;
    wait_for(&lock, recipe.name)?;
    if folder.join(COMPLETE).exists() {
        return Ok(folder); // made by whom we have waited for
    }
    // A virtual environment knows its own path, so it cannot be made under another name and moved: a marker, written
    // last, tells a complete one from the rest of an attempt that was cut off.
    if folder.exists() {
        fs::remove_dir_all(&folder).context("cannot remove an unfinished environment")?;
    }
    let log = root.join(format!("{name}.log"));
    File::create(&log).with_context(|| format!("cannot open the log {}", log.display()))?;
    let maker = Maker {
        folder: &folder,
        log: &log,
    };
    install(&maker, recipe, &python)?;
    (recipe.finish)(&maker)?;
    File::create(folder.join(COMPLETE)).context("cannot mark an environment as complete")?;
    Ok(folder)
}

fn install(maker: &Maker<'_>, recipe: &Recipe<'_>, python: &Python) -> Result<()> {
    maker.run(
        "making a Python environment",
        &python.path,
        vec!["-m".into(), "venv".into(), maker.folder.into()],
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
    args.push(recipe.lock_file.into());
    maker.run(
        &format!("installing the packages of {} (once per machine)", recipe.name),
        &interpreter(maker.folder),
        args,
    )
}

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

fn checksum(requirements: &[u8], also: &str, version: &str) -> String {
    let mut hash = Sha256::new();
    hash.update(also);
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

fn wait_for(lock: &File, what: &str) -> Result<()> {
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
                "another process installs {what}; waiting for {} s",
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
