//! `cargo xtask bench ipam`: the ip-address-manager's process with its default flags, a real API server, and the requested number
//! of claims. It prints figures and does not judge them.

mod load;
mod report;

use self::load::Load;

use super::program::{ADDRESS_MANAGER, ProgramArgs};

/// Arguments of `cargo xtask bench ipam`.
#[derive(clap::Args)]
pub struct Args {
    /// Claims that one pool has to serve at once, one run for each number
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..), default_value = "1000,10000")]
    claims: Vec<u32>,

    /// Pools that have to serve --claims-per-pool each, all at once; 0 leaves this run out
    #[arg(long, default_value_t = 100)]
    pools: u32,

    /// See --pools
    #[arg(long, default_value_t = 100)]
    claims_per_pool: u32,

    /// Claims that are made while their pool is served; 0 leaves this run out
    #[arg(long, default_value_t = 1000)]
    arriving: u32,

    /// Claims of a full pool that are deleted while as many new ones are made; 0 leaves this run out
    #[arg(long, default_value_t = 1000)]
    churn: u32,

    #[command(flatten)]
    program: ProgramArgs,
}

/// Runs the benchmark.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let manager = ADDRESS_MANAGER.build(&args.program)?;
    let at_once = args.claims.iter().map(|claims| Load::AtOnce {
        pools: 1,
        claims_each: *claims,
    });
    let pools = (args.pools > 0).then_some(Load::AtOnce {
        pools: args.pools,
        claims_each: args.claims_per_pool,
    });
    let arriving = (args.arriving > 0).then_some(Load::Arriving { claims: args.arriving });
    let churn = (args.churn > 0).then_some(Load::Churn { claims: args.churn });
    let mut all = Vec::new();
    for load in at_once.chain(pools).chain(arriving).chain(churn) {
        let figures = manager.run(load::run(&manager, load))?;
        report::print(&figures);
        all.push(figures);
    }
    report::print_growth(&all);
    Ok(())
}
