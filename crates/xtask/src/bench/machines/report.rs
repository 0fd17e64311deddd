//! The figures as people read them, beside those of upstream on such a machine and our goals.

#![expect(clippy::cast_precision_loss, reason = "counts are small")]

use comfy_table::{Table, presets::UTF8_FULL_CONDENSED};

use super::life::Figures;
use crate::bench::times::{growth, per_second, percentiles};

/// Prints one run. Upstream's figures are for 50 Machines that claim from 200 hosts.
pub fn print(figures: &Figures) {
    let load = figures.load;
    let machines = f64::from(load.machines);
    let data = if load.has_data { "with" } else { "without" };
    println!(
        "\n{} machines claim from {} hosts, {data} metadata and network data",
        load.machines,
        load.machines + load.spare
    );
    println!("(machine: {})", figures.machine);
    let minutes = load.rest.as_secs_f64() / 60.0;
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED);
    table.set_header(["figure", "measured", "upstream, 50 from 200", "goal"]);
    let cpu = figures.after.cpu - figures.before.cpu;
    let requests = &figures.requests;
    let each = requests.sum() as f64 / machines;
    let rows: [(&str, String, &str, &str); 14] = [
        ("wall", format!("{:.1} s", wall(figures)), "27 s", ""),
        (
            "machines per second",
            format!("{:.1}", per_second(&figures.arrivals)),
            "1.9",
            "",
        ),
        (
            "time per machine, last tenth / first tenth",
            growth(&figures.arrivals),
            "",
            "≤ 1.2",
        ),
        ("API requests", requests.sum().to_string(), "987", ""),
        ("API requests per machine", format!("{each:.2}"), "20", "≤ 14"),
        ("conflicts", requests.conflicts.to_string(), "14", "0"),
        ("CPU", format!("{cpu:.1} s"), "5.8 s", ""),
        (
            "RSS before / after / peak",
            format!(
                "{:.0} / {:.0} / {:.0} MiB",
                figures.before.rss, figures.after.rss, figures.after.peak
            ),
            "– / 71 / – MB",
            "",
        ),
        (
            "host free → claimed, p50 / p99 / max",
            percentiles(&figures.reactions),
            "up to 30 s",
            "p99 < 1 s",
        ),
        (
            "at rest, Nodes missing: API writes",
            figures.rest.writes().to_string(),
            "",
            "0",
        ),
        ("at rest: API reads", figures.rest.reads().to_string(), "", "0"),
        (
            "at rest: calls to the workload cluster",
            figures.rest_workload.to_string(),
            "",
            "0",
        ),
        (
            "at rest: API requests per minute",
            format!("{:.1}", figures.rest.sum() as f64 / minutes),
            "1,747",
            "0",
        ),
        (
            "at rest: CPU per minute",
            format!("{:.2} s", figures.rest_cpu / minutes),
            "3.5 s",
            "",
        ),
    ];
    for (figure, measured, upstream, goal) in rows {
        table.add_row([figure, measured.as_str(), upstream, goal]);
    }
    println!("{table}");
    for (what, count) in &requests.counts {
        println!("  {count:>6} {what}: {:.2} per machine", *count as f64 / machines);
    }
    for (what, count) in &figures.rest.counts {
        println!("  {count:>6} {what} at rest");
    }
}

/// Prints how a machine's share grows with the number of machines.
pub fn print_growth(all: &[Figures]) {
    let (Some(first), Some(last)) = (all.first(), all.last()) else {
        return;
    };
    if first.load.machines == last.load.machines {
        return;
    }
    let growth = |of: fn(&Figures) -> f64| {
        let each = |figures: &Figures| of(figures) / f64::from(figures.load.machines);
        each(last) / each(first)
    };
    println!(
        "\nper machine, from {} to {}: time × {:.2}, requests × {:.2}, CPU × {:.2} (goal ≤ 1.2)",
        first.load.machines,
        last.load.machines,
        growth(wall),
        growth(|figures| figures.requests.sum() as f64),
        growth(|figures| figures.after.cpu - figures.before.cpu),
    );
}

fn wall(figures: &Figures) -> f64 {
    figures.arrivals.last().copied().unwrap_or_default()
}
