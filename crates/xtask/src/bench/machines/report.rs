//! The figures of machines.

#![expect(clippy::cast_precision_loss, reason = "counts are small")]

use super::life::Figures;
use crate::bench::table::{self, Row, row};
use crate::bench::times::{growth, per_second, percentiles};

/// Prints one run. Upstream's figures are for 50 Machines that claim from 200 hosts.
pub fn print(figures: &Figures) {
    let load = figures.load;
    let data = if load.has_data { "with" } else { "without" };
    println!(
        "\n{} machines claim from {} hosts, {data} metadata and network data",
        load.machines,
        load.machines + load.spare
    );
    println!("(machine: {})", figures.arrivals.cost.machine);
    let rows = pace(figures)
        .into_iter()
        .chain(effort(figures))
        .chain(rest(figures))
        .chain(waiting(figures));
    table::print("upstream, 50 from 200", rows);
    for (what, count) in &figures.arrivals.cost.requests.counts.0 {
        let each = *count as f64 / f64::from(load.machines);
        println!("  {count:>6} {what}: {each:.2} per machine");
    }
    for (what, count) in &figures.rest.requests.counts.0 {
        println!("  {count:>6} {what} at rest");
    }
}

fn pace(figures: &Figures) -> [Row; 3] {
    let arrivals = &figures.arrivals;
    let per_second = format!("{:.1}", per_second(&arrivals.seconds));
    let growth = growth(&arrivals.seconds);
    [
        row("wall", format!("{:.1} s", arrivals.wall()), "27 s", ""),
        row("machines per second", per_second, "1.9", ""),
        row("time per machine, last tenth / first tenth", growth, "", "≤ 1.2"),
    ]
}

fn effort(figures: &Figures) -> [Row; 6] {
    let (arrivals, cost) = (&figures.arrivals, &figures.arrivals.cost);
    let each = format!("{:.2}", arrivals.requests_each());
    let reactions = percentiles(&figures.reactions);
    [
        row("API requests", cost.requests.sum(), "987", ""),
        row("API requests per machine", each, "20", "≤ 14"),
        row("conflicts", cost.requests.conflicts, "14", "0"),
        row("CPU", format!("{:.1} s", cost.cpu()), "5.8 s", ""),
        row("RSS before / after / peak", cost.memory(), "– / 71 / – MB", ""),
        row(
            "host free → claimed, p50 / p99 / max",
            reactions,
            "up to 30 s",
            "p99 < 1 s",
        ),
    ]
}

fn rest(figures: &Figures) -> [Row; 5] {
    let (rest, minutes) = (&figures.rest, figures.rest.minutes());
    let (writes, workload) = (rest.requests.writes(), figures.rest_workload);
    let per_minute = format!("{:.1}", rest.requests.sum() as f64 / minutes);
    let cpu = format!("{:.2} s", rest.cpu() / minutes);
    [
        row("at rest, Nodes missing: API writes", writes, "", "0"),
        row("at rest: API reads", rest.requests.reads(), "", "0"),
        row("at rest: calls to the workload cluster", workload, "", "0"),
        row("at rest: API requests per minute", per_minute, "1,747", "0"),
        row("at rest: CPU per minute", cpu, "3.5 s", ""),
    ]
}

fn waiting(figures: &Figures) -> Vec<Row> {
    let Some(retold) = &figures.retold else {
        return Vec::new();
    };
    let (writes, reads) = (retold.requests.writes(), retold.requests.reads());
    vec![
        row("machines that wait", figures.load.waiting, "", ""),
        row("hosts then", figures.load.hosts_at_last(), "", ""),
        row("one more host is busy: API writes", writes, "", "0"),
        row("one more host is busy: API reads", reads, "", "0"),
        row("one more host is busy: CPU", format!("{:.2} s", retold.cpu()), "", ""),
    ]
}

/// Prints how a machine's share grows with the number of machines.
pub fn print_growth(all: &[Figures]) {
    if let (Some(first), Some(last)) = (all.first(), all.last())
        && first.load.machines != last.load.machines
    {
        let growth = last.arrivals.growth_from(&first.arrivals);
        let (from, to) = (first.load.machines, last.load.machines);
        println!("\nper machine, from {from} to {to}: {growth}");
    }
}
