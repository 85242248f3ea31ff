//! The gate: which differences from the baseline are regressions, kept honest over many comparisons. Decides; the
//! caller turns the verdict into an exit code.

use serde_json::{Value, json};

use crate::noise::Noise;
use crate::render::number;
use crate::report::{Cell, Report, Table, label_text};
use crate::sample::{Comparison, holm_adjusted, shift_between};
use crate::stats::{shift, utest};
use crate::unit::Better;

/// What a comparison means for the gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Worse by more than the limit, beyond chance.
    Regression,
    /// Better by more than the limit, beyond chance.
    Improvement,
    /// Not worse by more than the limit, as far as the interval tells.
    Unchanged,
    /// The samples do not tell.
    Inconclusive,
}

/// One comparison as the gate sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// The row's label, and the table's where there are several.
    pub row: String,
    /// The column's label.
    pub col: String,
    /// The unit.
    pub unit: String,
    /// The raw p.
    pub p: f64,
    /// The Holm-adjusted p over all findings.
    pub p_holm: f64,
    /// How much worse the new side is: 0.05 is five per cent. Negative is better.
    pub worse: f64,
    /// Lower end of its interval.
    pub worse_lo: f64,
    /// Upper end of its interval.
    pub worse_hi: f64,
    /// Whether the interval comes from pairs of one round each.
    pub paired: bool,
    /// What the lower end had to exceed: the larger of the threshold and the noise floor.
    pub limit: f64,
    /// The verdict.
    pub status: Status,
    /// Why it is inconclusive.
    pub reason: String,
}

/// The verdict over a report.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// The threshold asked for, as a fraction.
    pub threshold: f64,
    /// The level of the family of comparisons.
    pub alpha: f64,
    /// All comparisons in units whose better direction is known.
    pub findings: Vec<Finding>,
    /// What was left out, and why.
    pub notes: Vec<String>,
}

impl Verdict {
    /// The findings of a status.
    pub fn of(&self, status: Status) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(move |f| f.status == status)
    }
}

/// Judges every comparison of `report`.
///
/// A regression is real when its Holm-adjusted p is at most alpha **and** the interval of its shift (Hodges-Lehmann;
/// paired by round where six rounds are common) lies beyond the larger of `threshold` and the noise floor of its
/// unit. A row of the baseline that a column lacks is inconclusive, as is a comparison whose interval reaches beyond
/// the limit without proof.
pub fn judge(report: &Report, threshold: f64, noise: Option<&Noise>) -> Verdict {
    let mut verdict = Verdict {
        threshold,
        alpha: report.request.alpha,
        findings: Vec::new(),
        notes: Vec::new(),
    };
    let (mut missing, mut comparisons) = (Vec::new(), Vec::new());
    for table in &report.tables {
        let Some(better) = table.better else {
            let unit = &table.unit;
            verdict.notes.push(format!(
                "{unit} is not gated: add a line 'Unit {unit} better=lower' (or higher)"
            ));
            continue;
        };
        let limit = threshold.max(noise.map_or(0.0, |n| n.floor(&table.unit)));
        for (row, col, cell, comparison) in table.comparisons() {
            let Some(base) = table.cell(row, 0) else {
                continue;
            };
            comparisons.push(comparison);
            let (worse, lo, hi, paired) =
                worsening(table, base, cell, better, report.request.confidence);
            verdict.findings.push(Finding {
                row: row_text(report, table, row),
                col: label_text(&table.cols[col]),
                unit: table.unit.clone(),
                p: comparison.p,
                p_holm: 1.0,
                worse,
                worse_lo: lo,
                worse_hi: hi,
                paired,
                limit,
                status: Status::Unchanged,
                reason: String::new(),
            });
        }
        missing.extend(absent(report, table, limit));
    }
    decide(&mut verdict, &comparisons);
    verdict.findings.extend(missing);
    verdict.notes.dedup();
    verdict
}

fn decide(verdict: &mut Verdict, comparisons: &[&Comparison]) {
    let tested: Vec<&&Comparison> = comparisons.iter().filter(|c| c.test.is_some()).collect();
    let family = tested.len();
    for (finding, adjusted) in verdict.findings.iter_mut().zip(holm_adjusted(comparisons)) {
        finding.p_holm = adjusted;
        let real = adjusted <= verdict.alpha;
        let limit = finding.limit;
        if real && finding.worse_lo > limit {
            finding.status = Status::Regression;
        } else if real && finding.worse_hi < 1.0 / (1.0 + limit) - 1.0 {
            finding.status = Status::Improvement;
        } else if finding.worse_hi > limit {
            finding.status = Status::Inconclusive;
            finding.reason = if finding.worse_hi.is_infinite() {
                "too few samples for an interval".to_owned()
            } else if finding.worse_lo > limit {
                format!(
                    "p is too large for {family} comparisons; more samples or fewer comparisons decide it"
                )
            } else {
                "the interval reaches beyond the limit".to_owned()
            };
        }
    }
    let hopeless =
        |c: &&&&Comparison| utest::smallest_p(c.old_n, c.new_n) * family as f64 > verdict.alpha;
    let hopeless = tested.iter().filter(hopeless).count();
    if hopeless > 0 {
        let ten = (verdict.alpha / utest::smallest_p(10, 10)).floor();
        verdict.notes.push(format!(
            "{hopeless} of {family} comparisons have too few samples to be significant among so many even when fully \
             separated; 10 samples of each serve up to {ten} comparisons"
        ));
    }
}

/// How much worse `cell` is than `base`, with the ends of the interval.
fn worsening(
    table: &Table,
    base: &Cell,
    cell: &Cell,
    better: Better,
    confidence: f64,
) -> (f64, f64, f64, bool) {
    let as_worse = |ratio: f64, lo: f64, hi: f64| match better {
        Better::Lower => (ratio - 1.0, lo - 1.0, hi - 1.0),
        Better::Higher => (1.0 / ratio - 1.0, 1.0 / hi - 1.0, 1.0 / lo - 1.0),
    };
    let (old, new) = (base.summary.center, cell.summary.center);
    if table.exact || old == new && base.sample.sorted() == cell.sample.sorted() {
        let ratio = if old == new { 1.0 } else { new / old };
        let (worse, lo, hi) = as_worse(ratio, ratio, ratio);
        return (worse, lo, hi, false);
    }
    if let Some(s) = shift_between(&base.sample, &cell.sample, confidence) {
        let (worse, lo, hi) = as_worse(s.ratio, s.lo, s.hi);
        return (worse, lo, hi, s.paired);
    }
    // Values that are not positive have no logarithm: shift by differences, in units of the old centre.
    let d = shift::difference(base.sample.sorted(), cell.sample.sorted(), confidence);
    let relative = |d: f64| if d == 0.0 { 0.0 } else { d / old.abs() };
    let (worse, lo, hi) = (relative(d.0), relative(d.1), relative(d.2));
    match better {
        Better::Lower => (worse, lo, hi, false),
        Better::Higher => (-worse, -hi, -lo, false),
    }
}

/// Rows of the baseline that a column of the table lacks.
fn absent(report: &Report, table: &Table, limit: f64) -> Vec<Finding> {
    let mut findings = Vec::new();
    let rows = (0..table.rows.len()).filter(|row| table.has_base && table.cell(*row, 0).is_some());
    for row in rows {
        for col in (1..table.cols.len()).filter(|col| table.cell(row, *col).is_none()) {
            findings.push(Finding {
                row: row_text(report, table, row),
                col: label_text(&table.cols[col]),
                unit: table.unit.clone(),
                p: 1.0,
                p_holm: 1.0,
                worse: f64::NAN,
                worse_lo: f64::NEG_INFINITY,
                worse_hi: f64::INFINITY,
                paired: false,
                limit,
                status: Status::Inconclusive,
                reason: "no samples in this column".to_owned(),
            });
        }
    }
    findings
}

fn row_text(report: &Report, table: &Table, row: usize) -> String {
    let row = label_text(&table.rows[row]);
    let several = report.tables.iter().any(|t| t.key != table.key);
    if several {
        format!("{row} ({})", label_text(&table.key))
    } else {
        row
    }
}

/// The verdict as text: the regressions, what could not be decided, what got better.
pub fn text(verdict: &Verdict) -> String {
    let count = |status| verdict.of(status).count();
    let (regressions, inconclusive) = (count(Status::Regression), count(Status::Inconclusive));
    let mut out = format!(
        "gate: {regressions} regressions, {inconclusive} inconclusive, {} unchanged, {} improvements in {} \
         comparisons (Holm-adjusted alpha {}, threshold {:.2}%)\n",
        count(Status::Unchanged),
        count(Status::Improvement),
        verdict.findings.len(),
        verdict.alpha,
        100.0 * verdict.threshold,
    );
    for (title, status) in [
        ("REGRESSION", Status::Regression),
        ("inconclusive", Status::Inconclusive),
        ("improvement", Status::Improvement),
    ] {
        let mut findings: Vec<&Finding> = verdict.of(status).collect();
        findings.sort_by(|a, b| b.worse.abs().total_cmp(&a.worse.abs()));
        for f in findings {
            out += &format!("  {title}: {} [{}] {}", f.row, f.col, f.unit);
            if !f.worse.is_nan() {
                out += &format!(
                    " costs {}, interval {} to {}{}, p={:.4} (Holm {:.4}), limit {}",
                    percent(f.worse),
                    percent(f.worse_lo),
                    percent(f.worse_hi),
                    if f.paired { " by rounds" } else { "" },
                    f.p,
                    f.p_holm,
                    percent(f.limit),
                );
            }
            if !f.reason.is_empty() {
                out += &format!(": {}", f.reason);
            }
            out.push('\n');
        }
    }
    for note in &verdict.notes {
        out += &format!("  note: {note}\n");
    }
    out
}

fn percent(fraction: f64) -> String {
    if fraction.is_infinite() {
        return if fraction > 0.0 { "+∞" } else { "-∞" }.to_owned();
    }
    format!("{:+.2}%", 100.0 * fraction)
}

/// The verdict as JSON, with every finding.
pub fn json(verdict: &Verdict) -> Value {
    let findings = verdict.findings.iter().map(|f| {
        json!({
            "row": f.row,
            "column": f.col,
            "unit": f.unit,
            "p": number(f.p),
            "p_holm": number(f.p_holm),
            "worse": number(f.worse),
            "worse_lo": number(f.worse_lo),
            "worse_hi": number(f.worse_hi),
            "paired": f.paired,
            "limit": number(f.limit),
            "status": match f.status {
                Status::Regression => "regression",
                Status::Improvement => "improvement",
                Status::Unchanged => "unchanged",
                Status::Inconclusive => "inconclusive",
            },
            "reason": f.reason,
        })
    });
    json!({
        "threshold": number(verdict.threshold),
        "alpha": number(verdict.alpha),
        "regressions": verdict.of(Status::Regression).count(),
        "inconclusive": verdict.of(Status::Inconclusive).count(),
        "findings": findings.collect::<Vec<_>>(),
        "notes": verdict.notes,
    })
}
