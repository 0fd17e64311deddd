//! `cargo xtask demo`: from nothing to the Nodes of a cluster and back, for a person to look at.
//!
//! ```text
//!   programs (built if missing) ─▶ site ─▶ clusters: Cluster → Machines → hosts → Nodes, and away ──▶ summary
//!                                   │  └─▶ hosts (--hosts-only): provisioned, one deprovisioned ──────▲
//!                                   │ in this process; with --keep in the background (crate::lab)
//! ```

mod clusters;
mod columns;
mod hosts;
mod journey;
mod machines;
pub mod objects;
mod rack;
pub mod screen;
mod story;
mod summary;

use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result};
use metal3_lab::site::{Access, Programs, Site, SiteConfig};

use self::screen::Screen;
use crate::lab::{self, Interrupt};
use journey::Journey;

/// Arguments of `cargo xtask demo`.
#[derive(clap::Args)]
pub struct Args {
    /// Hosts alone, without a cluster: they are provisioned, and one is deprovisioned and deleted
    #[arg(long)]
    hosts_only: bool,
    /// With --hosts-only, how many: the example's three, fewer of them, or more of the same form
    #[arg(long, default_value_t = 3, requires = "hosts_only", value_parser = clap::value_parser!(u16).range(1..=200))]
    hosts: u16,
    /// Leave the lab running in the background; `cargo xtask lab down` ends it
    #[arg(long)]
    keep: bool,
    /// The name of the lab: everything is in .lab/NAME
    #[arg(long, default_value = lab::DEFAULT_NAME, value_parser = lab::name)]
    name: String,
    /// How long each step may take, in seconds
    #[arg(long, default_value_t = 300, value_name = "SECONDS")]
    deadline: u64,
}

impl Args {
    fn servers(&self) -> u16 {
        if self.hosts_only { self.hosts } else { clusters::SERVERS }
    }
}

/// Runs the demo. Interrupted, it ends everything and exits with 130.
pub fn run(args: &Args) -> ExitCode {
    lab::or_tell(lab::block_on(async {
        let screen = Screen::new();
        let folder = lab::folder(&args.name)?;
        lab::ensure_down(&args.name)?;
        let start = Instant::now();
        screen.heading("1  The lab");
        let mut interrupt = Interrupt::new()?;
        let programs = lab::programs(&folder, !args.hosts_only);
        let Some(programs) = interrupt.or(programs).await.transpose()? else {
            return Ok(interrupted(&screen));
        };
        screen.say(&format!(
            "the programs are there ({:.1} s)",
            start.elapsed().as_secs_f64()
        ));
        if args.keep {
            Box::pin(in_the_background(args, &screen, &mut interrupt, &programs)).await
        } else {
            Box::pin(in_this_process(args, &screen, &mut interrupt, &folder, programs)).await
        }
    }))
}

async fn in_this_process(
    args: &Args,
    screen: &Screen,
    interrupt: &mut Interrupt,
    folder: &Path,
    programs: Programs,
) -> Result<ExitCode> {
    let config = SiteConfig {
        folder: folder.to_owned(),
        servers: args.servers(),
        clusters: !args.hosts_only,
        programs,
    };
    let say = |text: &str| screen.say(text);
    let starting = lab::with_beat(
        screen,
        "starting Kubernetes and Ironic",
        Box::pin(Site::start(config, &say)),
    );
    let site = match interrupt.or(starting).await.transpose() {
        Ok(Some(site)) => site,
        Ok(None) => {
            fs::remove_dir_all(folder).ok(); // what is left is removed at the next start
            return Ok(interrupted(screen));
        }
        Err(error) => return Err(error.context(format!("the lab did not start; its logs are in {}", folder.display()))),
    };
    let access = site.access()?;
    let outcome = interrupt.or(Box::pin(tell(args, screen, &access))).await.transpose();
    screen.clear();
    let stopping = lab::with_beat(
        screen,
        "ending the lab",
        Box::pin(async {
            site.stop().await;
            Ok(())
        }),
    );
    // A second interrupt does not wait for a good order: what was started dies with this process.
    if interrupt.or(stopping).await.is_none() {
        return Ok(interrupted(screen));
    }
    let outcome =
        outcome.with_context(|| format!("the demo failed; the lab's logs are kept in {}", folder.display()))?;
    fs::remove_dir_all(folder).with_context(|| format!("cannot remove {}", folder.display()))?;
    if outcome.is_none() {
        return Ok(interrupted(screen));
    }
    screen.say("the lab has ended; to keep one, use --keep");
    Ok(ExitCode::SUCCESS)
}

async fn in_the_background(
    args: &Args,
    screen: &Screen,
    interrupt: &mut Interrupt,
    programs: &Programs,
) -> Result<ExitCode> {
    let size = lab::Size {
        servers: args.servers(),
        clusters: !args.hosts_only,
    };
    let Some(access) = lab::start(&args.name, size, programs, screen, interrupt).await? else {
        return Ok(interrupted(screen));
    };
    let outcome = interrupt.or(Box::pin(tell(args, screen, &access))).await.transpose();
    screen.clear();
    let name = if args.name == lab::DEFAULT_NAME {
        String::new()
    } else {
        format!(" --name {}", args.name)
    };
    match outcome {
        Ok(Some(())) => {
            screen.heading("The lab runs on");
            screen.print(&lab::hints(
                &access,
                &args.name,
                lab::Next::Look(if args.hosts_only { "rack2-node1" } else { "worker-0" }),
            ));
            Ok(ExitCode::SUCCESS)
        }
        Ok(None) => {
            lab::stop(&args.name)?;
            Ok(interrupted(screen))
        }
        Err(error) => Err(error.context(format!("the demo failed; the lab runs on: cargo xtask lab down{name}"))),
    }
}

fn interrupted(screen: &Screen) -> ExitCode {
    screen.clear();
    screen.say("interrupted: everything has been ended");
    ExitCode::from(130)
}

/// The demo itself, on a lab that runs.
async fn tell(args: &Args, screen: &Screen, access: &Access) -> Result<()> {
    if args.hosts_only {
        hosts::tell(args, screen, access).await
    } else {
        clusters::tell(args, screen, access).await
    }
}

/// The table of how long the hosts' states took.
fn timing(screen: &Screen, access: &Access, journey: &Journey<'_>) -> Result<()> {
    let busy = summary::busy(&access.moments()?, &access.requests()?, summary::unix(screen::now()));
    let rows = summary::rows(&journey.seen.hosts, &busy);
    screen.print(&summary::table(&rows, screen.width()));
    screen.print(&format!("\n{}\n", summary::METHOD));
    Ok(())
}
