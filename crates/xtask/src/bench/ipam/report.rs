//! The figures of claims.

use super::load::{Figures, Load};
use crate::bench::table::{self, row};

/// Prints one run. Upstream's figures are for 1,000 claims at once on one pool.
pub fn print(figures: &Figures) {
    let title = match figures.load {
        Load::AtOnce { pools: 1, claims_each } => format!("{claims_each} claims at once on one pool"),
        Load::AtOnce { pools, claims_each } => format!("{pools} pools with {claims_each} claims each, all at once"),
        Load::Arriving { claims } => format!("{claims} claims made while their pool is served"),
        Load::Churn { claims } => format!("{claims} claims of a full pool deleted, and as many others made"),
    };
    println!("\n{title}");
    let (arrivals, cost) = (&figures.arrivals, &figures.arrivals.cost);
    println!("(machine: {})", cost.machine);
    let time = match figures.load {
        Load::AtOnce {
            pools: 1,
            claims_each: 1000,
        } => "< 6 s",
        Load::AtOnce {
            pools: 1,
            claims_each: 10_000,
        } => "< 60 s",
        Load::AtOnce { .. } | Load::Arriving { .. } | Load::Churn { .. } => "",
    };
    let most = match figures.load {
        Load::AtOnce { .. } | Load::Arriving { .. } => "≤ 4",
        Load::Churn { .. } => "",
    };
    let wall = arrivals.wall();
    let per_second = format!("{:.0}", f64::from(figures.load.claims()) / wall);
    let each = format!("{:.2}", arrivals.requests_each());
    let rows = [
        row("wall", format!("{wall:.1} s"), "105 s", time),
        row("claims per second", per_second, "9.5", ""),
        row("API requests", cost.requests.sum(), "4,058", ""),
        row("API requests per claim", each, "4.1", most),
        row("conflicts", cost.requests.conflicts, "481", "0"),
        row("CPU", format!("{:.1} s", cost.cpu()), "19 s", ""),
        row("RSS before / after / peak", cost.memory(), "– / 65 / – MB", ""),
    ];
    table::print("upstream, 1,000 at once", rows);
    for (what, count) in &cost.requests.counts.0 {
        println!("  {count:>6} {what}");
    }
}

/// Prints how the time and the requests of one claim grow with the number of claims on one pool.
pub fn print_growth(all: &[Figures]) {
    let on_one = |figures: &&Figures| matches!(figures.load, Load::AtOnce { pools: 1, .. });
    let runs: Vec<&Figures> = all.iter().filter(on_one).collect();
    if let (Some(first), Some(last)) = (runs.first(), runs.last())
        && first.load != last.load
    {
        let growth = last.arrivals.growth_from(&first.arrivals);
        let (from, to) = (first.load.claims(), last.load.claims());
        println!("\nper claim, from {from} to {to} claims: {growth}");
    }
}
