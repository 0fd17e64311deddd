//! `cargo xtask lab`: labs in the background.
//!
//! Each belongs to one supervisor process in a session of its own, which holds the lab's folder and starts everything in
//! it. What it started dies with it, however it dies, so a lab is either up as a whole or not there:
//!
//! ```text
//!   lab up ──starts──▶ lab supervise ──▶ Kubernetes, Ironic, operator
//!      │ waits for .lab/NAME/lab.json     │ its log: .lab/NAME/supervisor.log
//!   lab down ───SIGTERM────────────────────┘
//! ```

mod background;
mod status;
mod supervisor;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Subcommand;
use metal3_lab::instance;
use metal3_lab::lab::Programs;
use tokio::signal::unix::{Signal, SignalKind, signal};

pub use background::{Next, Size, end, hints, start, stop};

use crate::demo::screen::Screen;

/// The lab that is meant when none is named.
pub const DEFAULT_NAME: &str = "metal3";

/// Arguments of `cargo xtask lab`.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Starts a lab in the background
    Up {
        /// How many simulated servers it has
        #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=200))]
        hosts: u16,
        #[command(flatten)]
        name: Name,
    },
    /// Shows the labs and their hosts
    Status,
    /// Ends a lab and removes its folder
    Down {
        #[command(flatten)]
        name: Name,
    },
    /// Owns a lab; `up` starts this
    #[command(hide = true)]
    Supervise {
        #[arg(long)]
        hosts: u16,
        #[arg(long)]
        clusters: bool,
        #[arg(long)]
        programs: PathBuf,
        /// The process that the lab ends with
        #[arg(long)]
        owner: Option<i32>,
        #[command(flatten)]
        name: Name,
    },
}

#[derive(clap::Args)]
struct Name {
    /// The name of the lab: everything is in .lab/NAME
    #[arg(long, default_value = DEFAULT_NAME, value_parser = name)]
    name: String,
}

/// Runs a subcommand. What goes wrong is told on standard error.
pub fn run(args: &Args) -> ExitCode {
    or_tell(dispatch(args))
}

/// The exit code; an error is told with its causes. (What `main` does with one shows a backtrace where those are on.)
pub fn or_tell(outcome: Result<ExitCode>) -> ExitCode {
    outcome.unwrap_or_else(|error| {
        eprintln!("error: {error}");
        error.chain().skip(1).for_each(|cause| eprintln!("because: {cause}"));
        ExitCode::FAILURE
    })
}

fn dispatch(args: &Args) -> Result<ExitCode> {
    match &args.command {
        Command::Up { hosts, name } => block_on(background::up(&name.name, *hosts)),
        Command::Status => block_on(status::show()).map(|()| ExitCode::SUCCESS),
        Command::Down { name } => background::down(&name.name).map(|()| ExitCode::SUCCESS),
        Command::Supervise {
            hosts,
            clusters,
            programs,
            owner,
            name,
        } => {
            let owner = owner.and_then(rustix::process::Pid::from_raw);
            let held = supervisor::run(&name.name, *hosts, *clusters, programs.clone(), owner);
            block_on(held).map(|()| ExitCode::SUCCESS)
        }
    }
}

/// A lab's name: it becomes that of a folder.
pub fn name(text: &str) -> Result<String, String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if text.is_empty() || text.len() > 60 || !text.chars().all(is_plain) {
        return Err("a name is of letters, digits, - and _".to_owned());
    }
    Ok(text.to_owned())
}

/// The folder of all labs.
fn root() -> Result<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    Ok(root
        .canonicalize()
        .context("the repository is not where it was built")?
        .join(".lab"))
}

/// A lab's folder.
pub fn folder(name: &str) -> Result<PathBuf> {
    Ok(root()?.join(name))
}

/// An error if the lab runs.
pub fn ensure_down(name: &str) -> Result<()> {
    if let Some(pid) = instance::owner(&folder(name)?)? {
        bail!(
            "lab {name} runs already (process {pid}). `cargo xtask lab status` shows it, \
             `cargo xtask lab down --name {name}` ends it, another --name starts another"
        );
    }
    Ok(())
}

/// The programs of a lab, built if they are missing.
pub async fn programs(folder: &Path, clusters: bool) -> Result<Programs> {
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let log = folder.join("build.log");
    tokio::task::spawn_blocking(move || Programs::ensure(&log, clusters))
        .await
        .context("the build was cut off")?
}

/// Runs to the end, without waiting for threads that still build something: their programs die with this process.
pub fn block_on<T>(future: impl Future<Output = Result<T>>) -> Result<T> {
    rustls::crypto::ring::default_provider().install_default().ok(); // fails if there is one, which is as well
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("no runtime")?;
    let outcome = runtime.block_on(future);
    runtime.shutdown_background();
    outcome
}

/// Says every few seconds that something is still under way.
pub async fn with_progress<T>(screen: &Screen, what: &str, work: impl Future<Output = Result<T>>) -> Result<T> {
    let start = Instant::now();
    let mut tick = tokio::time::interval(Duration::from_secs(1));
    let mut work = std::pin::pin!(work);
    loop {
        tokio::select! {
            outcome = &mut work => {
                screen.clear();
                return outcome;
            }
            _ = tick.tick() => screen.progress(&format!("{what}: {} s", start.elapsed().as_secs())),
        }
    }
}

/// The wish of a person, or of a supervisor's `down`, that this ends.
pub struct Interrupt {
    typed: Signal,
    asked: Signal,
    hung_up: Signal,
}

impl Interrupt {
    /// From now on the signals do not end the process by themselves.
    pub fn new() -> Result<Self> {
        let of = |kind| signal(kind).context("cannot wait for signals");
        Ok(Self {
            typed: of(SignalKind::interrupt())?,
            asked: of(SignalKind::terminate())?,
            hung_up: of(SignalKind::hangup())?,
        })
    }

    /// When it comes.
    pub async fn come(&mut self) {
        tokio::select! {
            _ = self.typed.recv() => {}
            _ = self.asked.recv() => {}
            _ = self.hung_up.recv() => {}
        }
    }

    /// The work's outcome, or none if the wish came first; the work is dropped then.
    pub async fn or<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            outcome = work => Some(outcome),
            () = self.come() => None,
        }
    }
}
