//! `cargo xtask lab`: labs in the background.
//!
//! Each lab has one supervisor process in its own session, which locks the lab's folder and starts all its programs. They die
//! with the supervisor, however it dies, so a lab is either completely up or gone:
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
use metal3_lab::lab::{Boots, Programs};
use tokio::signal::unix::{Signal, SignalKind, signal};

pub use background::{Next, Size, end, hints, start, stop};

use crate::demo::screen::Screen;

/// The default lab.
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
        /// The number of simulated servers
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
    /// Owns a lab; started by `up`
    #[command(hide = true)]
    Supervise {
        #[arg(long)]
        hosts: u16,
        #[arg(long, value_parser = background::boots)]
        clusters: Option<Boots>,
        #[arg(long)]
        programs: PathBuf,
        /// The process whose end stops the lab
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

/// Runs a subcommand. Errors go to standard error.
pub fn run(args: &Args) -> ExitCode {
    or_tell(dispatch(args))
}

/// The exit code; prints an error with its causes. (An error returned from `main` prints a backtrace if those are enabled.)
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

/// A lab's name, which is also its folder's name.
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

/// Fails if the lab is running.
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
pub async fn programs(folder: &Path, clusters: Option<Boots>) -> Result<Programs> {
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let log = folder.join("build.log");
    tokio::task::spawn_blocking(move || Programs::ensure(&log, clusters))
        .await
        .context("the build was cut off")?
}

/// Runs to the end without waiting for threads that are still building: their child processes die with this one.
pub fn block_on<T>(future: impl Future<Output = Result<T>>) -> Result<T> {
    rustls::crypto::ring::default_provider().install_default().ok(); // fails if one is installed, which is fine
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("no runtime")?;
    let outcome = runtime.block_on(future);
    runtime.shutdown_background();
    outcome
}

/// Prints every few seconds that something is still in progress.
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

/// A request to stop, by an interrupt or by `down`.
pub struct Interrupt {
    typed: Signal,
    asked: Signal,
    hung_up: Signal,
}

impl Interrupt {
    /// From now on the signals no longer end the process directly.
    pub fn new() -> Result<Self> {
        let of = |kind| signal(kind).context("cannot wait for signals");
        Ok(Self {
            typed: of(SignalKind::interrupt())?,
            asked: of(SignalKind::terminate())?,
            hung_up: of(SignalKind::hangup())?,
        })
    }

    /// Completes on the request.
    pub async fn come(&mut self) {
        tokio::select! {
            _ = self.typed.recv() => {}
            _ = self.asked.recv() => {}
            _ = self.hung_up.recv() => {}
        }
    }

    /// The work's result, or none if the request came first, which drops the work.
    pub async fn or<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            outcome = work => Some(outcome),
            () = self.come() => None,
        }
    }
}
