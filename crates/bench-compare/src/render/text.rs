//! Reports as aligned text, in the layout that `benchstat` prints.

use super::grid::{Align, Grid};
use super::{header_levels, headings};
use crate::number::fixed_signed;
use crate::report::{Report, Table, label_text};
use crate::unit::{Scale, scaled};

/// Columns of text per column of the table: centre, interval, footnotes; then change, p, footnotes.
const CENTER: usize = 3;
const DELTA: usize = 3;

/// The tables of `report` as text, one blank line between two.
///
/// The numbers of a row share one scale, chosen by the one closest to zero. Footnotes stand below their table.
pub fn text(report: &Report) -> String {
    let mut out = String::new();
    for (index, table) in report.tables.iter().enumerate() {
        if index > 0 {
            out.push('\n');
        }
        for heading in headings(report, index) {
            out += &heading;
            out.push('\n');
        }
        out += &table_text(table);
    }
    out
}

/// The first column of text of a table's column; the baseline has no change.
fn start(col: usize) -> usize {
    if col == 0 {
        1
    } else {
        1 + CENTER + (col - 1) * (CENTER + DELTA)
    }
}

fn table_text(table: &Table) -> String {
    let mut grid = Grid::default();
    let mut notes = Footnotes::default();
    header(table, &mut grid);
    for (row, label) in table.rows.iter().enumerate() {
        grid.next_row();
        grid.cell(label_text(label), Align::Left);
        let centers = (0..table.cols.len())
            .filter_map(|c| table.cell(row, c))
            .map(|c| c.summary.center);
        let scale = Scale::common(centers, table.class);
        for col in 0..table.cols.len() {
            let Some(cell) = table.cell(row, col) else {
                continue;
            };
            grid.go_to(start(col));
            grid.cell(scale.format(cell.summary.center), Align::Right);
            grid.span(1, cell.summary.percent_text(), Align::Right, " ± ");
            grid.cell(
                notes.marks(cell.warnings.iter().chain(&cell.summary.warnings)),
                Align::Left,
            );
            if let Some(comparison) = &cell.comparison {
                grid.cell(comparison.delta_text(), Align::Right);
                grid.cell(format!("({})", comparison.p_text()), Align::Left);
                grid.cell(notes.marks(&comparison.warnings), Align::Left);
            }
        }
    }
    if table.rows.len() > 1 {
        totals(table, &mut grid, &mut notes);
    }
    grid.finish() + &notes.text()
}

fn header(table: &Table, grid: &mut Grid) {
    let edge = start(table.cols.len() + 1);
    for runs in header_levels(table) {
        grid.next_row();
        for (value, first, length) in runs {
            let (left, right) = (start(first), start(first + length));
            grid.go_to(left);
            grid.span(right - left, value, Align::Center, " │ ");
        }
        grid.go_to(edge);
        grid.span(1, "", Align::Left, " │");
    }
    grid.next_row();
    for col in 0..table.cols.len() {
        let left = start(col);
        grid.go_to(left);
        grid.span(CENTER, table.unit.as_str(), Align::Center, " │ ");
        if col > 0 {
            grid.span(DELTA, "vs base", Align::Left, "  ");
        }
        for inner in left + 1..grid.column() {
            grid.fix(inner);
        }
    }
    grid.go_to(edge);
    grid.span(1, "", Align::Left, " │");
}

fn totals(table: &Table, grid: &mut Grid, notes: &mut Footnotes) {
    grid.next_row();
    grid.cell("geomean", Align::Left);
    for (col, total) in table.totals.iter().enumerate() {
        if let Some(geomean) = total.geomean {
            grid.go_to(start(col));
            grid.cell(scaled(geomean, table.class), Align::Right);
        }
        if col > 0 && table.has_base {
            grid.go_to(start(col) + CENTER);
            match total.ratio {
                Some(ratio) => {
                    grid.cell(fixed_signed((ratio - 1.0) * 100.0, 2) + "%", Align::Right)
                }
                None => grid.cell("?", Align::Left),
            }
        }
        grid.go_to(start(col + 1) - 1);
        grid.cell(notes.marks(&total.warnings), Align::Left);
    }
}

/// The footnotes of one table, numbered in order of first use.
#[derive(Default)]
pub(super) struct Footnotes {
    texts: Vec<String>,
}

impl Footnotes {
    /// The marks of `warnings`, joined by blanks.
    pub(super) fn marks<'a>(&mut self, warnings: impl IntoIterator<Item = &'a String>) -> String {
        let marks: Vec<String> = warnings
            .into_iter()
            .map(|w| superscript(self.number(w)))
            .collect();
        marks.join(" ")
    }

    fn number(&mut self, warning: &String) -> usize {
        let at = self
            .texts
            .iter()
            .position(|t| t == warning)
            .unwrap_or_else(|| {
                self.texts.push(warning.clone());
                self.texts.len() - 1
            });
        at + 1
    }

    fn text(&self) -> String {
        let line = |(at, text): (usize, &String)| format!("{} {text}\n", superscript(at + 1));
        self.texts.iter().enumerate().map(line).collect()
    }

    pub(super) fn texts(&self) -> &[String] {
        &self.texts
    }
}

pub(super) fn superscript(number: usize) -> String {
    const DIGITS: [char; 10] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
    number
        .to_string()
        .bytes()
        .map(|b| DIGITS[usize::from(b - b'0')])
        .collect()
}
