//! Reports as comma-separated values (RFC 4180), with numbers unscaled and warnings apart.

use super::headings;
use crate::number::{fixed_signed, shortest};
use crate::report::{Report, Table, label_text};

/// A report as CSV.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Csv {
    /// The records.
    pub records: String,
    /// Warnings, one line each, with the cell they belong to: `B6: ...`.
    pub warnings: String,
}

/// The tables of `report` as CSV.
pub fn csv(report: &Report) -> Csv {
    let mut writer = Writer {
        out: String::new(),
        warnings: String::new(),
        row: 1,
        record: Vec::new(),
    };
    for (index, table) in report.tables.iter().enumerate() {
        if index > 0 {
            writer.end();
        }
        for heading in headings(report, index) {
            writer.record.push(heading);
            writer.end();
        }
        table_csv(&mut writer, table);
    }
    Csv {
        records: writer.out,
        warnings: writer.warnings,
    }
}

/// The first CSV column of a table's column: centre and interval, then change and p.
fn start(col: usize) -> usize {
    if col == 0 { 1 } else { 3 + (col - 1) * 4 }
}

fn table_csv(w: &mut Writer, table: &Table) {
    let end = start(table.cols.len());
    for level in 0..table.cols.first().map_or(0, Vec::len) {
        for (col, label) in table.cols.iter().enumerate() {
            w.pad(start(col));
            w.record.push(label[level].clone());
        }
        w.pad(end);
        w.end();
    }
    for col in 0..table.cols.len() {
        w.pad(start(col));
        w.record.extend([table.unit.clone(), "CI".to_owned()]);
        if col > 0 {
            w.record.extend(["vs base".to_owned(), "P".to_owned()]);
        }
    }
    w.end();
    for (row, label) in table.rows.iter().enumerate() {
        w.record.push(label_text(label));
        for col in 0..table.cols.len() {
            let Some(cell) = table.cell(row, col) else {
                continue;
            };
            w.pad(start(col));
            w.warn(cell.warnings.iter().chain(&cell.summary.warnings));
            w.record
                .extend([shortest(cell.summary.center), cell.summary.percent_text()]);
            if let Some(comparison) = &cell.comparison {
                w.warn(&comparison.warnings);
                w.record
                    .extend([comparison.delta_text(), comparison.p_text()]);
            }
        }
        w.end();
    }
    w.record.push("geomean".to_owned());
    for (col, total) in table.totals.iter().enumerate() {
        w.pad(start(col));
        w.warn(&total.warnings);
        if let Some(geomean) = total.geomean {
            w.record.push(shortest(geomean));
        }
        if col > 0 && table.has_base {
            w.pad(start(col) + 2);
            let ratio = total
                .ratio
                .map(|r| fixed_signed((r - 1.0) * 100.0, 2) + "%");
            w.record.push(ratio.unwrap_or_else(|| "?".to_owned()));
        }
    }
    w.pad(end);
    w.end();
}

struct Writer {
    out: String,
    warnings: String,
    row: usize,
    record: Vec<String>,
}

impl Writer {
    fn pad(&mut self, col: usize) {
        while self.record.len() < col {
            self.record.push(String::new());
        }
    }

    fn end(&mut self) {
        let fields: Vec<String> = self.record.drain(..).map(|f| quoted(&f)).collect();
        self.out += &fields.join(",");
        self.out.push('\n');
        self.row += 1;
    }

    /// Warnings belong to the cell that is written next.
    fn warn<'a>(&mut self, warnings: impl IntoIterator<Item = &'a String>) {
        for warning in warnings {
            self.warnings += &format!("{}{}: {warning}\n", letters(self.record.len()), self.row);
        }
    }
}

pub(crate) fn quoted(field: &str) -> String {
    let needs = field == "\\."
        || field.contains(['"', ',', '\n', '\r'])
        || field.starts_with(char::is_whitespace);
    if needs {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}

/// The letters of a spreadsheet column, from 0: A, ..., Z, AA, AB, ...
fn letters(mut col: usize) -> String {
    let mut out = Vec::new();
    loop {
        out.push(b'A' + (col % 26) as u8);
        match (col / 26).checked_sub(1) {
            Some(next) => col = next,
            None => break,
        }
    }
    out.iter().rev().map(|b| char::from(*b)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn column_letters() {
        for (col, want) in [
            (0, "A"),
            (25, "Z"),
            (26, "AA"),
            (27, "AB"),
            (701, "ZZ"),
            (702, "AAA"),
        ] {
            assert_eq!(letters(col), want);
        }
    }

    #[test]
    fn quoting() {
        assert_eq!(quoted("a,b"), "\"a,b\"");
        assert_eq!(quoted("say \"x\""), "\"say \"\"x\"\"\"");
        assert_eq!(quoted(" x"), "\" x\"");
        assert_eq!(quoted("x y"), "x y");
    }
}
