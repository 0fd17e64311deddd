//! `cargo xtask demo`: a live demonstration, from nothing to a cluster's Nodes and back.
//!
//! ```text
//!   programs (built if missing) ─▶ lab ─▶ clusters: Cluster → Machines → hosts → Nodes, and away ──▶ summary
//!                                   │  └─▶ hosts (--hosts-only): provisioned, one deprovisioned ──────▲
//!                                   │ in the background (crate::lab); with --keep it stays
//! ```

mod clusters;
pub mod columns;
mod hosts;
mod journey;
mod machines;
pub mod objects;
mod rack;
pub mod screen;
mod story;
mod summary;
mod workload;

use std::process::ExitCode;
use std::time::Instant;

use anyhow::Result;
use metal3_lab::lab::{Access, Boots};
use metal3_lab::nodes;

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
    /// Play the servers' kubelets instead of booting system containers, as on a machine where those cannot be had
    #[arg(long, conflicts_with = "hosts_only")]
    played: bool,
    /// Leave the lab running in the background; `cargo xtask lab down` ends it
    #[arg(long)]
    keep: bool,
    /// The name of the lab: everything is in .lab/NAME
    #[arg(long, default_value = lab::DEFAULT_NAME, value_parser = lab::name)]
    name: String,
    /// The timeout of each step, in seconds
    #[arg(long, default_value_t = 300, value_name = "SECONDS")]
    deadline: u64,
}

/// Runs the demo. On an interrupt it stops everything and exits with 130.
pub fn run(args: &Args) -> ExitCode {
    lab::or_tell(lab::block_on(async {
        let screen = Screen::new();
        lab::ensure_down(&args.name)?;
        let start = Instant::now();
        screen.heading("1  The lab");
        let mut interrupt = Interrupt::new()?;
        let folder = lab::folder(&args.name)?;
        let clusters = clusters(args, &screen);
        let programs = lab::programs(&folder, clusters);
        let Some(programs) = interrupt.or(programs).await.transpose()? else {
            return Ok(interrupted(&screen));
        };
        let took = start.elapsed().as_secs_f64();
        screen.say(&format!("the programs are there ({took:.1} s)"));
        let size = lab::Size {
            servers: if args.hosts_only { args.hosts } else { clusters::SERVERS },
            clusters,
            outlives_us: args.keep,
        };
        let Some(access) = lab::start(&args.name, size, &programs, &screen, &mut interrupt).await? else {
            return Ok(interrupted(&screen));
        };
        let outcome = interrupt.or(Box::pin(tell(args, &screen, &access))).await.transpose();
        screen.clear();
        end(args, &screen, &access, outcome)
    }))
}

/// What is to boot for clusters, and loudly why it is not the real thing.
fn clusters(args: &Args, screen: &Screen) -> Option<Boots> {
    if args.hosts_only {
        return None;
    }
    if args.played {
        return Some(Boots::Played);
    }
    match nodes::probe() {
        Ok(()) => Some(Boots::Really),
        Err(reason) => {
            screen.print(&format!(
                "\n  NOT REAL: servers cannot really boot on this machine: {reason:#}.\n  Their kubelets are played \
                 (--played); everything else is real.\n"
            ));
            Some(Boots::Played)
        }
    }
}

/// Stops the lab unless it is to be kept. After a failure its logs stay.
fn end(args: &Args, screen: &Screen, access: &Access, outcome: Result<Option<()>>) -> Result<ExitCode> {
    match outcome {
        Ok(Some(())) if args.keep => {
            screen.heading("The lab runs on");
            let host = if args.hosts_only { "rack2-node1" } else { "worker-0" };
            screen.print(&lab::hints(access, &args.name, lab::Next::Look(host)));
            if let Some(kubeconfig) = access.nodes.as_ref().map(workload::kubeconfig) {
                screen.print(&format!(
                    "\nThe cluster of the servers\n  KUBECONFIG={}",
                    kubeconfig.display()
                ));
            }
        }
        Ok(Some(())) => {
            lab::stop(&args.name)?;
            screen.say("the lab has ended; to keep one, use --keep");
        }
        Ok(None) => {
            lab::stop(&args.name)?;
            return Ok(interrupted(screen));
        }
        Err(error) if args.keep => {
            let down = format!("cargo xtask lab down --name {}", args.name);
            return Err(error.context(format!("the demo failed; the lab runs on: {down}")));
        }
        Err(error) => {
            lab::end(&args.name)?;
            let logs = lab::folder(&args.name)?;
            return Err(error.context(format!(
                "the demo failed; the lab's logs are kept in {}",
                logs.display()
            )));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn interrupted(screen: &Screen) -> ExitCode {
    screen.say("interrupted: everything has been ended");
    ExitCode::from(130)
}

/// The demo itself, on a running lab.
async fn tell(args: &Args, screen: &Screen, access: &Access) -> Result<()> {
    if args.hosts_only {
        hosts::tell(args, screen, access).await
    } else {
        clusters::tell(args, screen, access).await
    }
}

/// The table of the time spent in each host state.
fn timing(screen: &Screen, access: &Access, journey: &Journey<'_>) -> Result<()> {
    let busy = summary::busy(&access.moments()?, &access.requests()?, summary::unix(screen::now()));
    let rows = summary::rows(&journey.seen.hosts, &busy);
    screen.print(&summary::table(&rows));
    screen.print(&format!("\n{}\n", summary::METHOD));
    Ok(())
}
