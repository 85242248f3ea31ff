//! Reports as Markdown tables, for pages and pull requests.

use super::headings;
use super::text::Footnotes;
use crate::number::fixed_signed;
use crate::report::{Report, Table, label_text};
use crate::unit::{Scale, scaled};

/// The tables of `report` as Markdown: what the text form says, one pipe table each.
pub fn markdown(report: &Report) -> String {
    let mut out = String::new();
    for (index, table) in report.tables.iter().enumerate() {
        if index > 0 {
            out.push('\n');
        }
        let headings = headings(report, index);
        for heading in &headings {
            out += &format!("- {}\n", escaped(heading));
        }
        if !headings.is_empty() {
            out.push('\n');
        }
        out += &table_markdown(table);
    }
    out
}

fn table_markdown(table: &Table) -> String {
    let mut notes = Footnotes::default();
    let mut lines: Vec<Vec<String>> = Vec::new();
    let mut header = vec![table.unit.clone()];
    for (col, label) in table.cols.iter().enumerate() {
        header.push(label_text(label));
        if col > 0 {
            header.push("vs base".to_owned());
        }
    }
    for (row, label) in table.rows.iter().enumerate() {
        let mut line = vec![label_text(label)];
        let centers = (0..table.cols.len())
            .filter_map(|c| table.cell(row, c))
            .map(|c| c.summary.center);
        let scale = Scale::common(centers, table.class);
        for col in 0..table.cols.len() {
            let cell = table.cell(row, col);
            line.push(cell.map_or_else(String::new, |cell| {
                let center = scale.format(cell.summary.center);
                let marks = notes.marks(cell.warnings.iter().chain(&cell.summary.warnings));
                joined(&[
                    &format!("{center} ± {}", cell.summary.percent_text()),
                    &marks,
                ])
            }));
            if col > 0 {
                line.push(
                    cell.and_then(|c| c.comparison.as_ref())
                        .map_or_else(String::new, |c| {
                            joined(&[
                                &format!("{} ({})", c.delta_text(), c.p_text()),
                                &notes.marks(&c.warnings),
                            ])
                        }),
                );
            }
        }
        lines.push(line);
    }
    if table.rows.len() > 1 {
        let mut line = vec!["geomean".to_owned()];
        for (col, total) in table.totals.iter().enumerate() {
            let marks = notes.marks(&total.warnings);
            let geomean = total
                .geomean
                .map_or_else(String::new, |g| scaled(g, table.class));
            if col == 0 {
                line.push(joined(&[&geomean, &marks]));
                continue;
            }
            line.push(geomean);
            let ratio = total
                .ratio
                .map(|r| fixed_signed((r - 1.0) * 100.0, 2) + "%");
            let ratio = ratio.unwrap_or_else(|| if table.has_base { "?" } else { "" }.to_owned());
            line.push(joined(&[&ratio, &marks]));
        }
        lines.push(line);
    }
    let row = |cells: &[String]| {
        format!(
            "| {} |\n",
            cells
                .iter()
                .map(|c| escaped(c))
                .collect::<Vec<_>>()
                .join(" | ")
        )
    };
    let mut out = row(&header);
    out += "|:---|";
    out += &"---:|".repeat(header.len() - 1);
    out.push('\n');
    out.extend(lines.iter().map(|l| row(l)));
    if !notes.texts().is_empty() {
        out.push('\n');
    }
    for (at, text) in notes.texts().iter().enumerate() {
        out += &format!(
            "{} {}<br>\n",
            super::text::superscript(at + 1),
            escaped(text)
        );
    }
    out
}

fn joined(parts: &[&str]) -> String {
    parts
        .iter()
        .filter(|p| !p.is_empty())
        .copied()
        .collect::<Vec<_>>()
        .join(" ")
}

/// Text that a Markdown table shows as it is.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if matches!(c, '|' | '\\' | '*' | '_' | '`' | '<' | '[' | '~') {
            out.push('\\');
        }
        out.push(if c.is_control() { ' ' } else { c });
    }
    out
}
