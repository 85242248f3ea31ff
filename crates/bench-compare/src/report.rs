//! What a comparison asks for and what it gives: requests, reports, tables, cells. Plain data.

use crate::format::Failure;
use crate::sample::{Comparison, Sample, Summary};
use crate::unit::{Better, Class};

pub use crate::analysis::analyze;

/// Configuration keys that tell machines apart.
pub const MACHINE_KEYS: [&str; 7] = ["machine", "os", "arch", "cpu", "cores", "goos", "goarch"];
/// Configuration keys that tell revisions of the measured code apart.
pub const REVISION_KEYS: [&str; 3] = ["commit", "revision", "harness-version"];

/// What to compare and how. `Default` is what `benchstat` does without flags.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// Projection whose values get a table each.
    pub table: String,
    /// Projection whose values get a row each.
    pub row: String,
    /// Projection whose values get a column each; the first is the baseline.
    pub col: String,
    /// Keys whose differences do not matter.
    pub ignore: String,
    /// Which benchmarks and units to use.
    pub filter: String,
    /// A difference counts if its p is at most this.
    pub alpha: f64,
    /// The confidence of intervals.
    pub confidence: f64,
    /// The column to compare with, by its label, instead of the first.
    pub base: Option<String>,
    /// Compare across machines and revisions.
    pub force: bool,
    /// Reproduce `benchstat` where we differ from it on purpose: zeros keep the unit as written, tables sort by
    /// text, intervals round as its gamma function does, p is one-sided under ties of unequal samples, unknown keys
    /// and columns without a common row are no errors, machines and revisions are not looked at.
    pub compat: bool,
}

impl Default for Request {
    fn default() -> Request {
        Request {
            table: ".config".to_owned(),
            row: ".fullname".to_owned(),
            col: ".file".to_owned(),
            ignore: String::new(),
            filter: "*".to_owned(),
            alpha: 0.05,
            confidence: 0.95,
            base: None,
            force: false,
            compat: false,
        }
    }
}

/// The values of a projection's fields for one table, row or column.
pub type Label = Vec<String>;

/// The values of a label that are not empty, joined by blanks.
pub fn label_text(label: &[String]) -> String {
    label
        .iter()
        .filter(|v| !v.is_empty())
        .map(String::as_str)
        .collect::<Vec<_>>()
        .join(" ")
}

/// All tables of a request.
#[derive(Clone, Debug)]
pub struct Report {
    /// The request.
    pub request: Request,
    /// Names of the fields of a table's key, `.unit` left out.
    pub table_fields: Vec<String>,
    /// Names of the fields of a row's key.
    pub row_fields: Vec<String>,
    /// Names of the fields of a column's key.
    pub col_fields: Vec<String>,
    /// The tables, one per value of the table projection and unit.
    pub tables: Vec<Table>,
    /// Samples that were tried and could not be taken, as far as the filter admits them.
    pub failures: Vec<Failure>,
    /// What a careful reader should know that is not a footnote of a cell.
    pub notes: Vec<String>,
}

/// One table: rows times columns in one unit.
#[derive(Clone, Debug)]
pub struct Table {
    /// Values of [`Report::table_fields`].
    pub key: Label,
    /// The unit.
    pub unit: String,
    /// Its family of prefixes.
    pub class: Class,
    /// Its better direction, if known.
    pub better: Option<Better>,
    /// Whether the unit's values have no noise.
    pub exact: bool,
    /// Labels of the rows.
    pub rows: Vec<Label>,
    /// Labels of the columns; the first is the baseline if `has_base`.
    pub cols: Vec<Label>,
    /// Whether the first column is a baseline: false only if `--base` names a column that this table lacks.
    pub has_base: bool,
    /// The bottom line, one per column.
    pub totals: Vec<Total>,
    pub(crate) cells: Vec<Option<Cell>>,
}

impl Table {
    /// The cell at a row and a column, by index.
    pub fn cell(&self, row: usize, col: usize) -> Option<&Cell> {
        self.cells[row * self.cols.len() + col].as_ref()
    }

    /// All comparisons as (row, column, cell, comparison), row by row.
    pub fn comparisons(&self) -> impl Iterator<Item = (usize, usize, &Cell, &Comparison)> {
        let width = self.cols.len();
        self.cells.iter().enumerate().filter_map(move |(at, cell)| {
            let cell = cell.as_ref()?;
            cell.comparison
                .as_ref()
                .map(|c| (at / width, at % width, cell, c))
        })
    }

    /// All cells as (row, column, cell), row by row.
    pub fn cells(&self) -> impl Iterator<Item = (usize, usize, &Cell)> {
        let width = self.cols.len();
        self.cells
            .iter()
            .enumerate()
            .filter_map(move |(at, cell)| Some((at / width, at % width, cell.as_ref()?)))
    }
}

/// One cell of a table.
#[derive(Clone, Debug)]
pub struct Cell {
    /// The samples.
    pub sample: Sample,
    /// Their summary.
    pub summary: Summary,
    /// The comparison with the baseline cell of the row, if there is one and this is another.
    pub comparison: Option<Comparison>,
    /// Warnings about the samples themselves.
    pub warnings: Vec<String>,
}

/// The bottom line of a column.
#[derive(Clone, Debug, Default)]
pub struct Total {
    /// The geometric mean of the column's centres.
    pub geomean: Option<f64>,
    /// The geometric mean of the rows' ratios to the baseline.
    pub ratio: Option<f64>,
    /// What the reader should know.
    pub warnings: Vec<String>,
}
