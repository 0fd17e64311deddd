//! `cargo xtask bench machines`: the infrastructure provider's process with its default flags, a real API server, and the
//! requested number of machines and hosts. It prints figures and does not judge them.
//!
//! To measure only the provider, the benchmark plays the others, as fast as it can:
//!
//! | | |
//! |---|---|
//! | Cluster API | its Machines, their owners and their bootstrap data are written beforehand; the machines may begin when their Cluster says that its infrastructure is there |
//! | baremetal-operator | a host is provisioned the moment that it is told what to run |
//! | workload cluster | the same API server under another name; Nodes never appear |

mod life;
mod objects;
mod player;
mod report;

use super::program::{PROVIDER, ProgramArgs};

/// Arguments of `cargo xtask bench machines`.
#[derive(clap::Args)]
pub struct Args {
    /// Machines that claim as many hosts at once, one run for each number
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..), default_value = "100,1000")]
    machines: Vec<u32>,

    /// Hosts besides those that are claimed
    #[arg(long, default_value_t = 0)]
    spare: u32,

    /// Machines without a Metal3DataTemplate: no metadata and network data are rendered
    #[arg(long)]
    without_data: bool,

    /// Seconds at rest after each run
    #[arg(long, default_value_t = 60)]
    rest: u64,

    /// Machines that wait for a host after each run, of which one after the other gets one; 0 leaves this out
    #[arg(long, default_value_t = 100)]
    waiting: u32,

    /// Hosts that are not available while machines wait
    #[arg(long, default_value_t = 0)]
    busy: u32,

    #[command(flatten)]
    program: ProgramArgs,
}

/// Runs the benchmark.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let provider = PROVIDER.build(&args.program)?;
    let mut all = Vec::new();
    for machines in &args.machines {
        let load = life::Load {
            machines: *machines,
            spare: args.spare,
            has_data: !args.without_data,
            rest: std::time::Duration::from_secs(args.rest),
            waiting: args.waiting,
            busy: args.busy,
        };
        let figures = provider.run(life::run(&provider, load))?;
        report::print(&figures);
        all.push(figures);
    }
    report::print_growth(&all);
    Ok(())
}
