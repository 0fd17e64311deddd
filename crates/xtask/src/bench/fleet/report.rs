//! The figures of a fleet as people read them, beside those of upstream on such a machine and our goals.

#![expect(clippy::cast_precision_loss, reason = "counts are small")]

use std::collections::BTreeMap;

use comfy_table::{Table, presets::UTF8_FULL_CONDENSED};

use super::Figures;
use crate::bench::times::{growth, percentiles};

/// Prints one run. Upstream's figures are for 1,000 hosts with its own fixture instead of an Ironic.
pub fn print(figures: &Figures) {
    let n = f64::from(figures.hosts);
    let wall = figures.arrivals.last().copied().unwrap_or_default();
    let per_host = |counts: f64| format!("{:.1}", counts / n);
    let kubernetes = figures.enrol.kubernetes.sum() as f64;
    let (shared, single) = split(&figures.enrol.ironic);
    println!("\n{} hosts from nothing to available", figures.hosts);
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED);
    table.set_header(["figure", "measured", "upstream at 1,000", "goal"]);
    let minutes = figures.rest_seconds / 60.0;
    let (rest_shared, rest_single) = split(&figures.rest.ironic);
    let (writes, lists) = (figures.rest.kubernetes.writes(), figures.rest.kubernetes.reads());
    for row in [
        [
            "wall".to_owned(),
            format!("{wall:.1} s"),
            "474 s".to_owned(),
            String::new(),
        ],
        [
            "hosts per minute".to_owned(),
            format!("{:.0}", n / wall * 60.0),
            "127".to_owned(),
            "≥ 1,500".to_owned(),
        ],
        [
            "time per host, last tenth / first tenth".to_owned(),
            growth(&figures.arrivals),
            "superlinear".to_owned(),
            "≤ 1.2".to_owned(),
        ],
        [
            "API requests per host".to_owned(),
            per_host(kubernetes),
            "20.0".to_owned(),
            "≤ 12".to_owned(),
        ],
        [
            "conflicts".to_owned(),
            figures.enrol.kubernetes.conflicts.to_string(),
            "1,080".to_owned(),
            "0".to_owned(),
        ],
        [
            "calls to Ironic per host".to_owned(),
            per_host(single),
            String::new(),
            String::new(),
        ],
        [
            "lists of all nodes, pages and discovery".to_owned(),
            format!("{shared:.0}"),
            String::new(),
            String::new(),
        ],
        [
            "done twice".to_owned(),
            figures.doubled.to_string(),
            String::new(),
            "0".to_owned(),
        ],
        [
            "CPU".to_owned(),
            format!("{:.1} s", figures.enrol.cpu),
            "57 s".to_owned(),
            String::new(),
        ],
        [
            "RSS before / after / peak".to_owned(),
            format!(
                "{:.0} / {:.0} / {:.0} MiB",
                figures.empty.rss, figures.full.rss, figures.full.peak
            ),
            "47 / 105 / – MB".to_owned(),
            "≤ 30 MB".to_owned(),
        ],
        [
            "of it the program's own file".to_owned(),
            format!("{:.0} / {:.0} / – MiB", figures.empty.file, figures.full.file),
            String::new(),
            String::new(),
        ],
        [
            "reaction with all at once, p50 / p99 / max".to_owned(),
            percentiles(&figures.reactions),
            String::new(),
            String::new(),
        ],
        [
            "reaction in a fleet at rest, p50 / p99 / max".to_owned(),
            percentiles(&figures.wakes),
            String::new(),
            "p99 < 1 s + interval of lists".to_owned(),
        ],
        [
            "at rest: API writes".to_owned(),
            writes.to_string(),
            String::new(),
            "0".to_owned(),
        ],
        [
            "at rest: API reads".to_owned(),
            lists.to_string(),
            String::new(),
            "0".to_owned(),
        ],
        [
            "at rest: API requests per minute".to_owned(),
            format!("{:.1}", (writes + lists) as f64 / minutes),
            "148–188".to_owned(),
            String::new(),
        ],
        [
            "at rest: Ironic, pages / single calls per minute".to_owned(),
            format!("{:.1} / {:.1}", rest_shared / minutes, rest_single / minutes),
            String::new(),
            "– / 0".to_owned(),
        ],
        [
            "at rest: CPU per minute".to_owned(),
            format!("{:.2} s", figures.rest.cpu / minutes),
            String::new(),
            String::new(),
        ],
    ] {
        table.add_row(row);
    }
    println!("{table}");
    let machine = figures
        .enrol
        .machine
        .iter()
        .map(|(program, cpu)| format!("{program} {cpu:.0} s"));
    println!("CPU of all programs: {}", machine.collect::<Vec<_>>().join(", "));
    println!("API: {}", list(&figures.enrol.kubernetes.counts));
    println!("Ironic: {}", list(&figures.enrol.ironic));
    if writes + lists > 0 {
        println!("API at rest: {}", list(&figures.rest.kubernetes.counts));
    }
}

fn sum(counts: impl Iterator<Item = f64>) -> f64 {
    // The sum of nothing is a negative zero.
    counts.fold(0.0, |sum, count| sum + count)
}

/// Calls that serve all hosts at once, and the rest.
fn split(ironic: &BTreeMap<String, u64>) -> (f64, f64) {
    let is_shared = |kind: &str| matches!(kind, "GET /v1/nodes" | "GET /v1/drivers" | "GET /v1");
    let of = |shared: bool| {
        sum(ironic
            .iter()
            .filter(|(kind, _)| is_shared(kind) == shared)
            .map(|(_, count)| *count as f64))
    };
    (of(true), of(false))
}

fn list<N: std::fmt::Display>(counts: &BTreeMap<String, N>) -> String {
    counts
        .iter()
        .map(|(what, count)| format!("{count} {what}"))
        .collect::<Vec<_>>()
        .join(", ")
}
