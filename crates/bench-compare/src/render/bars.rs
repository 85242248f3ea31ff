//! Bars of characters, so that a report without graphics still shows its proportions.

use super::headings;
use crate::report::{Report, label_text};
use crate::unit::Scale;

/// A bar of `width` characters at most for `value` out of `most`, in eighths of a character.
///
/// ```
/// assert_eq!(bench_compare::render::bar(5.0, 10.0, 4), "██");
/// ```
pub fn bar(value: f64, most: f64, width: usize) -> String {
    let share = value / most;
    if !share.is_finite() || share <= 0.0 {
        return String::new();
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between 0 and eight widths"
    )]
    let eighths = ((share.min(1.0) * width as f64 * 8.0).round() as usize).max(1);
    let mut out = "█".repeat(eighths / 8);
    out.extend(['▏', '▎', '▍', '▌', '▋', '▊', '▉'].get((eighths % 8).wrapping_sub(1)));
    out
}

/// Every row of every table as a group of bars, one per column, as long as its centre in proportion to the row's
/// largest.
pub fn bars(report: &Report) -> String {
    const WIDTH: usize = 40;
    let mut out = String::new();
    for (index, table) in report.tables.iter().enumerate() {
        if index > 0 {
            out.push('\n');
        }
        for heading in headings(report, index) {
            out += &heading;
            out.push('\n');
        }
        let labels: Vec<String> = table.cols.iter().map(|c| label_text(c)).collect();
        let widest = labels.iter().map(|l| l.chars().count()).max().unwrap_or(0);
        for (row, label) in table.rows.iter().enumerate() {
            out += &format!("{} ({})\n", label_text(label), table.unit);
            let centers: Vec<Option<f64>> = (0..table.cols.len())
                .map(|c| table.cell(row, c).map(|c| c.summary.center))
                .collect();
            let most = centers.iter().flatten().copied().fold(0.0, f64::max);
            let scale = Scale::common(centers.iter().flatten().copied(), table.class);
            let numbers: Vec<String> = centers
                .iter()
                .map(|c| c.map_or_else(|| "-".to_owned(), |c| scale.format(c)))
                .collect();
            let digits = numbers.iter().map(|n| n.chars().count()).max().unwrap_or(0);
            for (at, number) in numbers.iter().enumerate() {
                let bar = centers[at].map_or_else(String::new, |c| bar(c, most, WIDTH));
                let line = format!("  {:<widest$}  {number:>digits$}  {bar}", labels[at]);
                out += line.trim_end();
                out.push('\n');
            }
        }
    }
    out
}
