//! Results that take minutes are built once per machine: a folder in the user's cache, a lock, and progress messages on standard
//! error.

use std::fs::{self, File, TryLockError};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};

use crate::process::{Child, POLL, Program};

/// The interval of progress messages.
const REPORT: Duration = Duration::from_secs(5);
/// The file whose presence says that a folder which cannot be moved is complete.
const COMPLETE: &str = "metal3-lab.complete";

/// Where something is made.
pub(crate) struct Making {
    /// Its folder, which is empty.
    pub folder: PathBuf,
    /// What the programs say that make it.
    pub log: PathBuf,
}

/// The folder of everything that is kept.
pub(crate) fn root() -> Result<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let cache = set("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| set("HOME").map(|home| Path::new(&home).join(".cache")));
    let cache = cache.context("neither XDG_CACHE_HOME nor HOME is set: no place for a cache")?;
    Ok(cache.join("metal3-lab"))
}

/// A name that is another one whenever anything of this is: 24 hexadecimal digits.
pub(crate) fn checksum<P: AsRef<[u8]>>(parts: impl IntoIterator<Item = P>) -> String {
    let mut hash = Sha256::new();
    parts.into_iter().for_each(|part| hash.update(part));
    let digest = hash.finalize();
    let hex = digest.iter().take(12).map(|byte| format!("{byte:02x}"));
    hex.fold(String::new(), |text, digits| text + &digits)
}

/// The files below a folder that are `wanted`, for a [`checksum`]: names and contents, in a fixed order.
pub(crate) fn contents(folder: &Path, wanted: &dyn Fn(&Path) -> bool) -> Result<Vec<Vec<u8>>> {
    let listing = fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    let mut paths: Vec<PathBuf> = listing.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    let mut parts = Vec::new();
    for path in paths {
        if path.is_dir() {
            parts.extend(contents(&path, wanted)?);
        } else if wanted(&path) {
            let bytes = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
            let name = path.file_name().unwrap_or_default().as_encoded_bytes();
            parts.extend([name.to_vec(), vec![0], bytes.len().to_le_bytes().to_vec(), bytes]);
        }
    }
    Ok(parts)
}

/// The folder of this name, made by `make` if it is not there yet. Several processes may ask at once. One that knows its own
/// path (`can_move` is false) is made where it stays.
pub(crate) fn once(
    name: &str,
    what: &str,
    can_move: bool,
    make: impl FnOnce(&Making) -> Result<()>,
) -> Result<PathBuf> {
    let root = root()?;
    let done = root.join(name);
    let is_done = || {
        if can_move {
            done.is_dir()
        } else {
            done.join(COMPLETE).exists()
        }
    };
    if is_done() {
        return Ok(done);
    }
    fs::create_dir_all(&root).with_context(|| format!("cannot make the folder {}", root.display()))?;
    let lock = File::create(root.join(format!("{name}.lock"))).context("cannot open the lock of a cache folder")?;
    wait_for(&lock, what)?;
    if is_done() {
        return Ok(done); // made by the process that held the lock
    }
    let making = Making {
        folder: if can_move {
            root.join(format!("{name}.unfinished"))
        } else {
            done.clone()
        },
        log: root.join(format!("{name}.log")),
    };
    if making.folder.exists() {
        fs::remove_dir_all(&making.folder).context("cannot remove what an attempt that was cut off has left")?;
    }
    fs::create_dir_all(&making.folder)
        .with_context(|| format!("cannot make the folder {}", making.folder.display()))?;
    File::create(&making.log).with_context(|| format!("cannot open the log {}", making.log.display()))?;
    make(&making)?;
    if can_move {
        fs::rename(&making.folder, &done).context("cannot move a finished folder to its place")?;
    } else {
        File::create(done.join(COMPLETE)).context("cannot mark a folder as complete")?;
    }
    Ok(done)
}

/// Runs a program to its end, and says how far it is: how long it takes, and what `progress` adds.
pub(crate) fn run(program: &Program, progress: impl Fn() -> String) -> Result<()> {
    let what = &program.name;
    let child = Child::spawn(program)?;
    let start = Instant::now();
    let mut last = start;
    let status = loop {
        if let Some(status) = child.exit_status() {
            break status;
        }
        std::thread::sleep(POLL);
        if last.elapsed() >= REPORT {
            last = Instant::now();
            say(&format!("{what}: {} s{}", start.elapsed().as_secs(), progress()));
        }
    };
    if !status.success() {
        bail!("{what} failed ({status}){}", child.log_tail());
    }
    Ok(())
}

/// Writes past the capture of the test harness: minutes of silence look like a test that hangs.
pub(crate) fn say(text: &str) {
    writeln!(std::io::stderr(), "metal3-lab: {text}").ok();
}

fn wait_for(lock: &File, what: &str) -> Result<()> {
    let start = Instant::now();
    let mut last = None::<Instant>;
    loop {
        match lock.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(err)) => return Err(err).context("cannot lock a cache folder"),
        }
        if last.is_none_or(|last| last.elapsed() >= REPORT) {
            last = Some(Instant::now());
            let seconds = start.elapsed().as_secs();
            say(&format!("another process makes {what}; waiting for {seconds} s"));
        }
        std::thread::sleep(POLL);
    }
}
