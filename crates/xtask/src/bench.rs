//! `cargo xtask bench`: measures the controllers' cost and latency. It prints figures and does not judge them.

mod claims;
mod env;
mod fleet;
mod host_life;
mod ipam;
mod machines;
mod many;
mod measure;
mod own_time;
mod process;
mod program;
mod requests;
mod table;
mod times;
mod watch;
mod webhooks;

use std::path::Path;

use anyhow::{Context, ensure};

/// Arguments of `cargo xtask bench`.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Args {
    #[command(subcommand)]
    what: Option<What>,

    /// How many hosts at once, one run for each number
    #[arg(long, value_delimiter = ',', default_value = "1,10,30")]
    hosts: Vec<u16>,

    /// Seconds at rest with the hosts of the last run provisioned
    #[arg(long, default_value_t = 300)]
    rest: u64,

    /// The operator's build profile
    #[arg(long, default_value = "lab")]
    profile: String,
}

/// Benchmarks other than the full life of hosts on a real Ironic.
#[derive(clap::Subcommand)]
enum What {
    /// Many hosts on a simulated Ironic, from nothing to available
    Fleet(fleet::Args),
    /// HostClaims on as many hosts of a simulated Ironic: requests, latency, and what a host costs that is handed on
    Claims(claims::Args),
    /// Claims on the ip-address-manager's pools, from nothing to served
    Ipam(ipam::Args),
    /// Machines on the infrastructure provider that claim hosts, from nothing to provisioned
    Machines(machines::Args),
    /// Reviews for the infrastructure provider's webhooks: latency, conversions per second, memory; takes a minute
    Webhooks(webhooks::Args),
    /// Time to choose a host among 10,000
    Choice {
        /// The build profile
        #[arg(long, default_value = "lab")]
        profile: String,
    },
    /// Bytes of memory that a watched object takes, by kind; takes seconds
    Sizes,
}

/// Runs the benchmark.
pub fn run(args: &Args) -> anyhow::Result<()> {
    match &args.what {
        Some(What::Fleet(args)) => fleet::run(args),
        Some(What::Claims(args)) => claims::run(args),
        Some(What::Ipam(args)) => ipam::run(args),
        Some(What::Machines(args)) => machines::run(args),
        Some(What::Webhooks(args)) => webhooks::run(args),
        Some(What::Choice { profile }) => example("cluster-api-provider-metal3", "choose", profile),
        // In its own program, because all its allocations are counted.
        Some(What::Sizes) => example("metal3-runtime", "sizes", "dev"),
        None => host_lives(args),
    }
}

fn host_lives(args: &Args) -> anyhow::Result<()> {
    let operator = program::OPERATOR.build_as(&args.profile, None, Vec::new())?;
    for (index, hosts) in args.hosts.iter().enumerate() {
        let rest = (index + 1 == args.hosts.len()).then_some(args.rest);
        let figures = operator.run(host_life::run(*hosts, rest, &operator))?;
        host_life::report::print(&figures);
    }
    Ok(())
}

/// Runs an example that measures.
fn example(package: &str, name: &str, profile: &str) -> anyhow::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let status = metal3_lab::cargo::command()
        .args([
            "run",
            "--quiet",
            "--package",
            package,
            "--example",
            name,
            "--profile",
            profile,
        ])
        .current_dir(root)
        .status()
        .context("cannot start cargo")?;
    ensure!(status.success(), "{name} of {package} cannot be measured");
    Ok(())
}
