//! Reports as text, CSV, Markdown and JSON. Turns tables into strings; computes no statistics.

mod bars;
mod csv;
mod grid;
mod json;
mod markdown;
mod text;

pub use bars::{bar, bars};
pub use csv::{Csv, csv};
pub use json::{json, json_tables};
pub use markdown::markdown;
pub use text::text;

pub(crate) use csv::quoted;
pub(crate) use json::number;
pub(crate) use markdown::escaped;

use crate::format::{Corpus, Failure};
use crate::report::{Report, Table};

/// The lines `key: value` that stand before a table: the fields that differ from the table before it.
fn headings(report: &Report, index: usize) -> Vec<String> {
    let table = &report.tables[index];
    let before = index.checked_sub(1).map(|i| &report.tables[i].key);
    let fields = report.table_fields.iter().enumerate();
    fields
        .filter(|(at, _)| before.is_none_or(|before| before[*at] != table.key[*at]))
        .map(|(at, field)| format!("{field}: {}", table.key[at]))
        .collect()
}

/// The columns of each header line: runs of equal values as (value, first column, number of columns). Runs of a
/// lower line never cross the end of a run above.
fn header_levels(table: &Table) -> Vec<Vec<(String, usize, usize)>> {
    let depth = table.cols.first().map_or(0, Vec::len);
    let mut levels: Vec<Vec<(String, usize, usize)>> = Vec::new();
    for level in 0..depth {
        let mut runs: Vec<(String, usize, usize)> = Vec::new();
        for (at, col) in table.cols.iter().enumerate() {
            let starts_above = levels
                .last()
                .is_some_and(|above| above.iter().any(|(_, start, _)| *start == at));
            match runs.last_mut() {
                Some((value, _, length)) if *value == col[level] && !starts_above => *length += 1,
                _ => runs.push((col[level].clone(), at, 1)),
            }
        }
        levels.push(runs);
    }
    levels
}

/// The samples that could not be taken, one line for each cell and reason; empty if there are none. They are part of
/// every report.
pub fn failures(report: &Report, corpus: &Corpus) -> String {
    if report.failures.is_empty() {
        return String::new();
    }
    let mut groups: Vec<(&Failure, Vec<String>)> = Vec::new();
    for f in &report.failures {
        let round = f.round.map_or_else(|| "?".to_owned(), |r| r.to_string());
        let same = |(g, _): &(&Failure, Vec<String>)| {
            (&g.cell, &g.reason, g.source) == (&f.cell, &f.reason, f.source)
        };
        match groups.iter().position(same) {
            Some(at) => groups[at].1.push(round),
            None => groups.push((f, vec![round])),
        }
    }
    let mut out = format!(
        "failed samples ({}), which are in no figure above:\n",
        report.failures.len()
    );
    for (f, rounds) in groups {
        let label = &corpus.sources[f.source].label;
        let noun = if rounds.len() == 1 { "round" } else { "rounds" };
        out += &format!(
            "  {} ({label}, {noun} {}): {}\n",
            f.cell,
            rounds.join(" "),
            f.reason
        );
    }
    out
}
