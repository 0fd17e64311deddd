//! The figures of a fleet.

#![expect(clippy::cast_precision_loss, reason = "counts are small")]

use super::Figures;
use crate::bench::measure::memory;
use crate::bench::requests::Counts;
use crate::bench::table::{self, Row, row};
use crate::bench::times::{growth, percentiles};

/// Prints one run. Upstream's figures are for 1,000 hosts with its own fixture instead of an Ironic.
pub fn print(figures: &Figures) {
    println!("\n{} hosts from nothing to available", figures.hosts);
    let rows = pace(figures).into_iter().chain(effort(figures));
    let rows = rows.chain(reactions(figures)).chain(rest(figures));
    table::print("upstream at 1,000", rows);
    let programs = figures.enrol.cost.programs.iter();
    let programs: Vec<String> = programs.map(|(program, cpu)| format!("{program} {cpu:.0} s")).collect();
    println!("CPU of all programs: {}", programs.join(", "));
    println!("API: {}", figures.enrol.cost.requests.counts);
    println!("Ironic: {}", figures.enrol_calls);
    let rest = &figures.rest.requests;
    if rest.writes() + rest.reads() > 0 {
        println!("API at rest: {}", rest.counts);
    }
}

/// Calls that serve all hosts at once, and the others.
fn split(calls: &Counts) -> [u64; 2] {
    let shared = calls.of(|kind| matches!(kind, "GET /v1/nodes" | "GET /v1/drivers" | "GET /v1"));
    [shared, calls.sum() - shared]
}

fn pace(figures: &Figures) -> [Row; 3] {
    let wall = figures.enrol.wall();
    let per_minute = f64::from(figures.hosts) / wall * 60.0;
    let growth = growth(&figures.enrol.seconds);
    [
        row("wall", format!("{wall:.1} s"), "474 s", ""),
        row("hosts per minute", format!("{per_minute:.0}"), "127", "≥ 1,500"),
        row(
            "time per host, last tenth / first tenth",
            growth,
            "superlinear",
            "≤ 1.2",
        ),
    ]
}

fn effort(figures: &Figures) -> [Row; 9] {
    let (arrivals, cost) = (&figures.enrol, &figures.enrol.cost);
    let requests = format!("{:.1}", arrivals.requests_each());
    let [shared, single] = split(&figures.enrol_calls);
    let calls = format!("{:.1}", single as f64 / f64::from(figures.hosts));
    // At its fullest is the program after the rest, when everything has been seen.
    let (before, after) = (&cost.before, &figures.rest.after);
    let file = format!("{:.0} / {:.0} / – MiB", before.file, after.file);
    [
        row("API requests per host", requests, "20.0", "≤ 16"),
        row("conflicts", cost.requests.conflicts, "1,080", "0"),
        row("calls to Ironic per host", calls, "", ""),
        row("lists of all nodes, pages and discovery", shared, "", ""),
        row(
            "settings / components / schemas / inventories",
            figures.companions.map(|count| count.to_string()).join(" / "),
            "",
            "",
        ),
        row("done twice", figures.doubled, "", "0"),
        row("CPU", format!("{:.1} s", cost.cpu()), "57 s", ""),
        row(
            "RSS before / after / peak",
            memory(before, after),
            "47 / 105 / – MB",
            "≤ 30 MB",
        ),
        row("of it the program's own file", file, "", ""),
    ]
}

fn reactions(figures: &Figures) -> [Row; 2] {
    let (all, single) = (percentiles(&figures.reactions), percentiles(&figures.wakes));
    [
        row("reaction with all at once, p50 / p99 / max", all, "", ""),
        row(
            "reaction in a fleet at rest, p50 / p99 / max",
            single,
            "",
            "p99 < 1 s + interval of lists",
        ),
    ]
}

fn rest(figures: &Figures) -> [Row; 5] {
    let minutes = figures.rest.minutes();
    let (writes, reads) = (figures.rest.requests.writes(), figures.rest.requests.reads());
    let requests = format!("{:.1}", (writes + reads) as f64 / minutes);
    let [shared, single] = split(&figures.rest_calls);
    let calls = format!("{:.1} / {:.1}", shared as f64 / minutes, single as f64 / minutes);
    let cpu = format!("{:.2} s", figures.rest.cpu() / minutes);
    [
        row("at rest: API writes", writes, "", "0"),
        row("at rest: API reads", reads, "", "0"),
        row("at rest: API requests per minute", requests, "148–188", ""),
        row("at rest: Ironic, pages / single calls per minute", calls, "", "– / 0"),
        row("at rest: CPU per minute", cpu, "", ""),
    ]
}
