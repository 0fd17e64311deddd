//! The figures of hosts' lives, next to upstream's.

#![expect(clippy::cast_precision_loss, reason = "counts are small")]

use super::{Figures, Phase, Rest};
use crate::bench::table::empty;

/// Wall seconds, share, calls and requests of one phase.
type Reference = (&'static str, &'static str, u16, u16);

/// Upstream's wall seconds, share of the time that Ironic waited for it, calls to Ironic and requests to the API server
/// per host, measured with the same Ironic and simulated servers with default flags.
const UPSTREAM: [(u16, [Reference; 4]); 3] = [
    (
        1,
        [
            ("8.6–18", "63 %", 44, 23),
            ("28.5–30", "72 %", 36, 8),
            ("15.5", "72 %", 30, 8),
            ("1.4", "", 10, 6),
        ],
    ),
    (
        10,
        [
            ("26.6", "57 %", 46, 24),
            ("36.9", "46 %", 30, 6),
            ("19.2", "29 %", 30, 8),
            ("6.6", "", 16, 7),
        ],
    ),
    (
        30,
        [
            ("52", "53 %", 44, 24),
            ("100", "35 %", 29, 5),
            ("69", "24 %", 37, 9),
            ("13", "", 14, 7),
        ],
    ),
];

/// Prints one run.
pub fn print(figures: &Figures) {
    println!("\n{} host(s) at once", figures.hosts);
    let mut table = empty();
    table.set_header([
        "phase",
        "wall s",
        "(upstream)",
        "ours s/host",
        "our share",
        "(upstream)",
        "Ironic/host",
        "(upstream)",
        "lists",
        "API/host",
        "(upstream)",
    ]);
    let n = f64::from(figures.hosts);
    let (mut ironic_sum, mut api_sum) = (0.0, 0.0);
    for (index, phase) in figures.phases.iter().enumerate() {
        let upstream = UPSTREAM
            .iter()
            .find(|(hosts, _)| *hosts == figures.hosts)
            .and_then(|(_, rows)| rows.get(index));
        let (ironic, api) = (phase.ironic.sum() as f64, phase.kubernetes.sum() as f64);
        ironic_sum += ironic / n;
        api_sum += api / n;
        table.add_row(cells(phase, [ironic / n, api / n], upstream));
    }
    println!("{table}");
    println!("whole life: {ironic_sum:.1} calls to Ironic and {api_sum:.1} API requests per host");
    for phase in &figures.phases {
        let (ironic, api) = (&phase.ironic, &phase.kubernetes.counts);
        println!("  {}: Ironic {ironic}; API {api}", phase.name);
    }
    figures.rest.iter().for_each(print_rest);
    println!(
        "operator: CPU {:.2} s, RSS {:.1} MiB, peak {:.1} MiB",
        figures.usage.cpu, figures.usage.rss, figures.usage.peak
    );
}

/// A phase with its calls to Ironic and requests to the API server per host.
fn cells(phase: &Phase, [ironic, api]: [f64; 2], upstream: Option<&Reference>) -> [String; 11] {
    let text = |f: fn(&Reference) -> String| upstream.map(f).unwrap_or_default();
    [
        phase.name.to_owned(),
        format!("{:.1}", phase.wall),
        text(|u| u.0.to_owned()),
        format!("{:.2}", phase.own),
        format!("{:.0} %", phase.own_share * 100.0),
        text(|u| u.1.to_owned()),
        format!("{ironic:.1}"),
        text(|u| u.2.to_string()),
        phase.shared.to_string(),
        format!("{api:.1}"),
        text(|u| u.3.to_string()),
    ]
}

fn print_rest(rest: &Rest) {
    let (cost, minutes) = (&rest.cost, rest.cost.minutes());
    println!(
        "at rest for {:.0} s: API writes {}, API reads {}, calls to Ironic {:.1} a minute, CPU {:.2} s a minute, RSS {:.1} MiB",
        cost.seconds,
        cost.requests.writes(),
        cost.requests.reads(),
        rest.ironic as f64 / minutes,
        cost.cpu() / minutes,
        cost.after.rss
    );
}
