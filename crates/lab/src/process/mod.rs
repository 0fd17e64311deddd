//! Child processes that never outlive the process that started them.
//!
//! A test that is killed, even by `kill -9`, must not leave an API server behind. Two measures ensure that:
//!
//! - every program is started through `setpriv --pdeathsig KILL`, so the kernel ends it when its parent dies, however
//!   the parent dies. (Setting that from Rust would need `unsafe` code between fork and exec.)
//! - the kernel watches the *thread* that forked, and a test's thread ends long before the test binary does. So one
//!   thread that lives as long as the process does all the forking.
//!
//! If the parent dies before `setpriv` has requested the signal, the kernel sends none. So a line of shell between `setpriv` and
//! the program checks that the parent still exists, after the signal was requested, and otherwise exits.
//!
//! The kernel does not apply this to grandchildren: programs that fork must watch their own parent.

mod spawner;

use parking_lot::{Mutex, MutexGuard};
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};

/// How often a condition that nothing announces is looked at again.
pub(crate) const POLL: Duration = Duration::from_millis(20);

/// The line of shell between `setpriv` and a program. Its first argument is the number of the process that must be its
/// parent; the rest is the program.
pub const GUARD: &str = r#"[ "$PPID" = "$0" ] || exit 125; exec "$@""#;

/// What to start, and how.
#[derive(Debug, Clone, Default)]
pub struct Program {
    /// What messages call it, such as `etcd`.
    pub name: String,
    /// The executable: a path, or a name that is looked up in `PATH`.
    pub executable: PathBuf,
    /// Its arguments, without the executable itself.
    pub args: Vec<OsString>,
    /// Environment variables on top of the inherited ones.
    pub env: Vec<(OsString, OsString)>,
    /// Its working folder; that of this process if `None`.
    pub cwd: Option<PathBuf>,
    /// Where its standard output and error go, appended. The folder is made if it is missing.
    pub log: PathBuf,
}

/// A running program. Dropping it kills it.
///
/// It is the leader of a process group of its own, so that an interrupt typed at the terminal reaches only the owner,
/// which can then stop its programs in a good order. What is left of the group is killed once the leader has ended.
#[derive(Debug)]
pub struct Child {
    name: String,
    log: PathBuf,
    pid: Pid,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    process: std::process::Child,
    /// Set once the process has been reaped. Until then its number cannot be given to another process, which is what
    /// makes signalling by number safe.
    status: Option<ExitStatus>,
}

impl Child {
    /// Starts `program`. Fails if the executable of `setpriv` is missing or the log cannot be opened; a missing
    /// `program` shows as one that ends at once.
    pub fn spawn(program: &Program) -> Result<Self> {
        let name = &program.name;
        if let Some(folder) = program.log.parent() {
            fs::create_dir_all(folder).with_context(|| format!("cannot make the folder {}", folder.display()))?;
        }
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&program.log)
            .with_context(|| format!("cannot open the log {}", program.log.display()))?;
        let mut command = Command::new(spawner::setpriv()?);
        command
            .args(["--pdeathsig", "KILL", "--", "/bin/sh", "-c", GUARD])
            .arg(std::process::id().to_string())
            .arg(&program.executable)
            .args(&program.args)
            .envs(program.env.iter().map(|(key, value)| (key, value)))
            .stdin(Stdio::null())
            .stdout(log.try_clone().context("cannot share the log between two streams")?)
            .stderr(log)
            .process_group(0);
        if let Some(cwd) = &program.cwd {
            command.current_dir(cwd);
        }
        let process = spawner::spawn(command).with_context(|| format!("cannot start {name}"))?;
        let pid = i32::try_from(process.id())
            .ok()
            .and_then(Pid::from_raw)
            .context("a process without a number")?;
        tracing::debug!(name, pid = process.id(), "started");
        Ok(Self {
            name: name.clone(),
            log: program.log.clone(),
            pid,
            state: Mutex::new(State { process, status: None }),
        })
    }

    /// The name given at the start.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The process number. The number stays this program's until the value is stopped or dropped.
    pub fn pid(&self) -> u32 {
        self.pid.as_raw_nonzero().get().unsigned_abs()
    }

    /// The file that its output goes to.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// Whether it runs. A zombie does not count as alive.
    pub fn is_alive(&self) -> bool {
        !self.has_ended(&self.state())
    }

    /// How it ended, if it has. Kills what is left of its process group then.
    pub fn exit_status(&self) -> Option<ExitStatus> {
        let mut state = self.state();
        if self.has_ended(&state) {
            self.reap(&mut state)
        } else {
            None
        }
    }

    /// An error with the end of the log if it no longer runs.
    pub fn ensure_alive(&self) -> Result<()> {
        match self.exit_status() {
            None => Ok(()),
            Some(status) => Err(anyhow!("{} ended ({status}){}", self.name, self.log_tail())),
        }
    }

    /// Asks `probe` again and again until it succeeds. Fails when the program ends meanwhile or after `limit`, with
    /// the last answer of the probe and the end of the log.
    pub async fn wait_until<F, Fut>(&self, what: &str, limit: Duration, mut probe: F) -> Result<()>
    where
        F: FnMut() -> Fut,
        Fut: Future<Output = Result<()>>,
    {
        let start = Instant::now();
        loop {
            self.ensure_alive()?;
            let Err(seen) = probe().await else { return Ok(()) };
            if start.elapsed() >= limit {
                bail!(
                    "{}: {what} did not come about in {limit:?}; last seen: {seen:#}{}",
                    self.name,
                    self.log_tail()
                );
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Ends it: SIGTERM to the program, and after `grace` SIGKILL to its whole group. Returns when it is gone, and
    /// whether it has ended by itself.
    pub async fn stop(&self, grace: Duration) -> bool {
        {
            let state = self.state();
            if state.status.is_none() {
                rustix::process::kill_process(self.pid, Signal::TERM).ok(); // fails only for one that is gone
            }
        }
        let start = Instant::now();
        while self.is_alive() && start.elapsed() < grace {
            tokio::time::sleep(POLL).await;
        }
        let has_ended = !self.is_alive();
        if !has_ended {
            tracing::warn!(name = self.name, ?grace, "did not end when asked to; killed");
        }
        self.kill();
        has_ended
    }

    /// Ends it and its group at once with SIGKILL, and reaps it.
    pub fn kill(&self) {
        self.reap(&mut self.state());
    }

    /// The last lines of its log for an error message, with a heading; empty if there is nothing.
    pub fn log_tail(&self) -> String {
        match tail(&self.log, 20) {
            Ok(lines) if !lines.is_empty() => format!("\nend of {}:\n{lines}", self.log.display()),
            _ => format!("\n{} is empty", self.log.display()),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Asks the kernel without reaping, so that the number stays ours until the group has been killed.
    fn has_ended(&self, state: &State) -> bool {
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        state.status.is_some() || !matches!(rustix::process::waitid(WaitId::Pid(self.pid), look), Ok(None))
    }

    fn reap(&self, state: &mut State) -> Option<ExitStatus> {
        if state.status.is_none() {
            rustix::process::kill_process_group(self.pid, Signal::KILL).ok(); // fails only if all are gone
            state.process.kill().ok();
            state.status = state.process.wait().ok();
        }
        state.status
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The executable of this name, by `PATH`.
pub fn in_path(name: &str) -> Option<PathBuf> {
    std::env::split_paths(&std::env::var_os("PATH")?)
        .map(|folder| folder.join(name))
        .find(|path| path.is_file())
}

/// The last `lines` lines of the file, read from its last 16 KiB.
fn tail(path: &Path, lines: usize) -> std::io::Result<String> {
    const WINDOW: u64 = 16 * 1024;
    let mut file = File::open(path)?;
    let size = file.metadata()?.len();
    file.seek(SeekFrom::Start(size.saturating_sub(WINDOW)))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let all: Vec<&str> = text.lines().collect();
    Ok(all[all.len().saturating_sub(lines)..].join("\n"))
}
