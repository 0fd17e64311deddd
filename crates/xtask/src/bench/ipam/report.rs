//! The figures as people read them, beside those of upstream on such a machine and our goals.

#![expect(clippy::cast_precision_loss, reason = "counts are small")]

use comfy_table::{Table, presets::UTF8_FULL_CONDENSED};

use super::load::{Figures, Load};

/// Prints one run. Upstream's figures are for 1,000 claims at once on one pool.
pub fn print(figures: &Figures) {
    let claims = f64::from(figures.load.claims());
    let title = match figures.load {
        Load::AtOnce { pools: 1, claims_each } => format!("{claims_each} claims at once on one pool"),
        Load::AtOnce { pools, claims_each } => format!("{pools} pools with {claims_each} claims each, all at once"),
        Load::Arriving { claims } => format!("{claims} claims made while their pool is served"),
        Load::Churn { claims } => format!("{claims} claims of a full pool deleted, and as many others made"),
    };
    println!("\n{title}");
    println!("(machine: {})", figures.machine);
    let goal = match figures.load {
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
    let requests = figures.requests.sum();
    let each = requests as f64 / claims;
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED);
    table.set_header(["figure", "measured", "upstream, 1,000 at once", "goal"]);
    table.add_row([
        "wall".to_owned(),
        format!("{:.1} s", wall(figures)),
        "105 s".into(),
        goal.into(),
    ]);
    table.add_row([
        "claims per second".to_owned(),
        format!("{:.0}", claims / wall(figures)),
        "9.5".into(),
        String::new(),
    ]);
    table.add_row([
        "API requests".to_owned(),
        requests.to_string(),
        "4,058".into(),
        String::new(),
    ]);
    let most = if matches!(figures.load, Load::AtOnce { .. } | Load::Arriving { .. }) {
        "≤ 4"
    } else {
        ""
    };
    table.add_row([
        "API requests per claim".to_owned(),
        format!("{each:.2}"),
        "4.1".into(),
        most.into(),
    ]);
    table.add_row([
        "conflicts".to_owned(),
        figures.requests.conflicts.to_string(),
        "481".into(),
        "0".into(),
    ]);
    let cpu = figures.after.cpu - figures.before.cpu;
    table.add_row(["CPU".to_owned(), format!("{cpu:.1} s"), "19 s".into(), String::new()]);
    table.add_row([
        "RSS before / after / peak".to_owned(),
        format!(
            "{:.0} / {:.0} / {:.0} MiB",
            figures.before.rss, figures.after.rss, figures.after.peak
        ),
        "– / 65 / – MB".into(),
        String::new(),
    ]);
    println!("{table}");
    for (what, count) in &figures.requests.counts {
        println!("  {count:>6} {what}");
    }
}

/// Prints how the time and the requests of one claim grow with the number of claims on one pool.
pub fn print_growth(all: &[Figures]) {
    let on_one = |figures: &&Figures| matches!(figures.load, Load::AtOnce { pools: 1, .. });
    let runs: Vec<&Figures> = all.iter().filter(on_one).collect();
    let (Some(first), Some(last)) = (runs.first(), runs.last()) else {
        return;
    };
    if first.load == last.load {
        return;
    }
    let growth = |of: fn(&Figures) -> f64| {
        let per_claim = |figures: &Figures| of(figures) / f64::from(figures.load.claims());
        per_claim(last) / per_claim(first)
    };
    println!(
        "\nper claim, from {} to {} claims: time × {:.2}, requests × {:.2}, CPU × {:.2} (goal ≤ 1.2)",
        first.load.claims(),
        last.load.claims(),
        growth(wall),
        growth(|figures| figures.requests.sum() as f64),
        growth(|figures| figures.after.cpu - figures.before.cpu),
    );
}

fn wall(figures: &Figures) -> f64 {
    figures.arrivals.last().copied().unwrap_or_default()
}
