//! Readable figures, next to upstream's on a similar machine and our goals.

use std::fmt::Display;

use comfy_table::{Table, presets::UTF8_FULL_CONDENSED};

/// One figure. Upstream's figure and our goal are empty where there is none.
pub struct Row {
    figure: &'static str,
    measured: String,
    upstream: &'static str,
    goal: &'static str,
}

pub fn row(figure: &'static str, measured: impl Display, upstream: &'static str, goal: &'static str) -> Row {
    Row {
        figure,
        measured: measured.to_string(),
        upstream,
        goal,
    }
}

/// Prints figures. `upstream` is the heading of upstream's column, and says under which conditions they were measured.
pub fn print(upstream: &str, rows: impl IntoIterator<Item = Row>) {
    let mut table = empty();
    table.set_header(["figure", "measured", upstream, "goal"]);
    for row in rows {
        table.add_row([row.figure, &row.measured, row.upstream, row.goal]);
    }
    println!("{table}");
}

/// A table as all of ours look.
pub fn empty() -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED);
    table
}
