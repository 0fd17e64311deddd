//! The tables that people see: aligned text without lines, as `kubectl` prints it.

use comfy_table::presets::NOTHING;
use comfy_table::{ColumnConstraint, ContentArrangement, Table};

/// A table that fits into so many columns, whether or not it goes to a terminal.
pub fn fitted<const N: usize>(width: u16, header: [impl Into<comfy_table::Cell>; N]) -> Table {
    let mut table = Table::new();
    table
        .load_style(NOTHING)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(width)
        .force_no_tty()
        .set_truncation_indicator("…");
    table.set_header(header);
    table
}

/// Adds a row that is one line whatever the width: the last column is cut.
pub fn add_line(table: &mut Table, cells: impl Into<comfy_table::Row>) {
    let mut row = cells.into();
    row.max_height(1);
    table.add_row(row);
}

/// The text, where every column but the last has the room that it needs.
pub fn with_open_end(mut table: Table) -> String {
    let last = table.column_count().saturating_sub(1);
    for column in table.column_iter_mut().take(last) {
        column.set_constraint(ColumnConstraint::ContentWidth);
    }
    table.trim_fmt()
}
