//! Folders owned by one running lab.
//!
//! The owner of a folder locks `instance.lock` in it and writes its process ID there. The kernel releases the lock when the
//! process ends, so "is it running?" has an exact answer. The ID is only trusted while the lock is held, so it never belongs to
//! an unrelated process. To stop the owner, another process sends SIGTERM and waits for the lock. Programs that the owner started
//! die with it ([`crate::process`]).

use std::fs::{self, File, TryLockError};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal};

use crate::process::POLL;

const LOCK: &str = "instance.lock";

/// Sole ownership of a folder while this value lives.
#[derive(Debug)]
pub struct Claim {
    folder: PathBuf,
    lock: File,
}

impl Claim {
    /// Makes the folder if needed and takes it. Fails if another process, or another part of this one, holds it.
    pub fn take(folder: &Path) -> Result<Self> {
        fs::create_dir_all(folder).with_context(|| format!("cannot make the folder {}", folder.display()))?;
        let folder = folder
            .canonicalize()
            .with_context(|| format!("cannot resolve {}", folder.display()))?;
        let mut lock = open(&folder)?;
        let start = Instant::now();
        while !try_lock(&lock)? {
            // A process that only asks for the owner holds the lock for a moment.
            if let Some(pid) = owner(&folder)? {
                bail!("{} is in use by process {pid}", folder.display());
            }
            if start.elapsed() > Duration::from_secs(2) {
                bail!("{} is in use", folder.display());
            }
            std::thread::sleep(POLL);
        }
        lock.set_len(0)
            .and_then(|()| writeln!(lock, "{}", std::process::id()))
            .with_context(|| format!("cannot write {LOCK} in {}", folder.display()))?;
        Ok(Self { folder, lock })
    }

    /// The folder, as an absolute path.
    pub fn folder(&self) -> &Path {
        &self.folder
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        // Closing alone would not do for the moment in which another thread has forked and not yet called exec.
        self.lock.unlock().ok();
    }
}

/// The process that holds the folder, if one does.
pub fn owner(folder: &Path) -> Result<Option<u32>> {
    if !folder.join(LOCK).exists() {
        return Ok(None);
    }
    let start = Instant::now();
    loop {
        let mut lock = open(folder)?;
        if try_lock(&lock)? {
            return Ok(None);
        }
        let mut text = String::new();
        lock.read_to_string(&mut text)
            .with_context(|| format!("cannot read {LOCK} in {}", folder.display()))?;
        // Between locking and writing the file holds nothing, or the number of the owner before.
        match text.trim().parse() {
            Ok(pid) if Path::new(&format!("/proc/{pid}")).exists() => return Ok(Some(pid)),
            _ if start.elapsed() > Duration::from_secs(2) => {
                bail!("{} is locked, but {LOCK} does not say by whom", folder.display())
            }
            _ => std::thread::sleep(POLL),
        }
    }
}

/// Asks the owner of the folder to stop and waits until it is gone, `limit` at most. `false` if it had no owner.
///
/// The owner must treat SIGTERM as the wish to stop; it gets no SIGKILL from here.
pub fn stop_owner(folder: &Path, limit: Duration) -> Result<bool> {
    let Some(pid) = owner(folder)? else { return Ok(false) };
    let number = i32::try_from(pid)
        .ok()
        .and_then(Pid::from_raw)
        .context("a process without a number")?;
    rustix::process::kill_process(number, Signal::TERM).with_context(|| format!("cannot signal process {pid}"))?;
    let start = Instant::now();
    while owner(folder)? == Some(pid) {
        if start.elapsed() > limit {
            bail!(
                "process {pid}, which holds {}, did not stop in {limit:?}",
                folder.display()
            );
        }
        std::thread::sleep(POLL);
    }
    Ok(true)
}

/// A new folder below the system's temporary one, removed when dropped.
///
/// A process that is killed, or that keeps the value in a static, never drops it. So the process that makes the next one removes
/// those whose owner is gone; until then logs of the last run can be read.
#[derive(Debug)]
pub struct Scratch {
    claim: Claim,
}

impl Scratch {
    /// A new folder among those of the same `family`, such as `metal3-testkit`.
    pub fn new(family: &str) -> Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let parent = std::env::temp_dir().join(format!("{family}-{}", rustix::process::getuid().as_raw()));
        fs::create_dir_all(&parent).with_context(|| format!("cannot make the folder {}", parent.display()))?;
        // Making one and sweeping exclude each other: a folder that is made but not yet claimed looks abandoned.
        let gate = File::create(parent.join("gate.lock")).context("cannot open the gate of scratch folders")?;
        gate.lock().context("cannot lock the gate of scratch folders")?;
        for entry in fs::read_dir(&parent).context("cannot list scratch folders")?.flatten() {
            let path = entry.path();
            if path.is_dir() && open(&path).and_then(|lock| try_lock(&lock)).unwrap_or(false) {
                fs::remove_dir_all(&path).ok(); // another try comes with the next folder
            }
        }
        let name = format!("{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        Ok(Self {
            claim: Claim::take(&parent.join(name))?,
        })
    }

    /// The folder, as an absolute path.
    pub fn folder(&self) -> &Path {
        self.claim.folder()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            fs::remove_dir_all(self.folder()).ok(); // swept later
        }
    }
}

/// The folder of an instance, for its programs' life: one that stays, or a temporary one.
#[derive(Debug)]
pub(crate) enum Folder {
    Given(Claim),
    Temporary(Scratch),
}

impl Folder {
    /// The given folder, or without one a new one of a `family`.
    pub fn take(given: Option<&Path>, family: &str) -> Result<Self> {
        Ok(match given {
            Some(folder) => Self::Given(Claim::take(folder)?),
            None => Self::Temporary(Scratch::new(family)?),
        })
    }

    /// As an absolute path.
    pub fn path(&self) -> &Path {
        match self {
            Self::Given(claim) => claim.folder(),
            Self::Temporary(scratch) => scratch.folder(),
        }
    }
}

fn open(folder: &Path) -> Result<File> {
    let path = folder.join(LOCK);
    File::options()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .open(&path)
        .with_context(|| format!("cannot open {}", path.display()))
}

fn try_lock(file: &File) -> Result<bool> {
    match file.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(err)) => Err(err).context("cannot lock a file"),
    }
}
