//! What the machine adds: comparisons of things with themselves (A/A), and drift over the rounds of a sweep. Judges
//! no design.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::analysis::analyze;
use crate::error::Error;
use crate::format::{Corpus, Record};
use crate::name;
use crate::render::number;
use crate::report::{Report, Request, Table, label_text};
use crate::sample::{ByRound, Comparison, Observation, Sample, Summary, shift_between};
use crate::stats::geometric_mean;
use crate::stats::multiple::holm;
use crate::stats::resample::quantile;
use crate::stats::trend::{Trend, mann_kendall};
use crate::unit::Assumption;

/// The share of cells that must show no difference for an A/A check to pass.
pub const QUIET_SHARE: f64 = 0.95;

/// What stands behind the name of a design in a sweep that measures each against itself.
pub const AGAIN: &str = ".again";

/// How the two sides of an A/A check came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sides {
    /// The columns of the report, all of which measure the same.
    Columns,
    /// Each design and its second run under the name with [`AGAIN`] behind it.
    Twins,
    /// The rounds of each cell, dealt to two sides in turn.
    Rounds,
}

/// What an A/A check found in one unit.
#[derive(Clone, Debug, PartialEq)]
pub struct UnitNoise {
    /// Comparisons made.
    pub cells: usize,
    /// Comparisons that showed a difference although there is none.
    pub alarms: usize,
    /// The median size of the shift, as a fraction.
    pub median_shift: f64,
    /// The shift that 95 % of the comparisons stay below, as a fraction: the floor under which nothing is real. It
    /// is scaled to comparisons of full samples where the sides had half of them.
    pub floor: f64,
}

impl UnitNoise {
    /// The share of comparisons that showed no difference.
    pub fn quiet_share(&self) -> f64 {
        if self.cells == 0 {
            1.0
        } else {
            1.0 - self.alarms as f64 / self.cells as f64
        }
    }
}

/// The outcome of an A/A check.
#[derive(Clone, Debug, PartialEq)]
pub struct Noise {
    /// How the sides came about.
    pub sides: Sides,
    /// The threshold of the comparisons.
    pub alpha: f64,
    /// What was found, by unit.
    pub units: BTreeMap<String, UnitNoise>,
    /// The cells that showed a difference: (row, column, unit, what the table shows).
    pub alarms: Vec<(String, String, String, String)>,
}

impl Noise {
    /// Whether every unit shows no difference in at least [`QUIET_SHARE`] of its cells.
    pub fn passes(&self) -> bool {
        self.units.values().all(|u| u.quiet_share() >= QUIET_SHARE)
    }

    /// The floor of a unit; 0 where it was not measured.
    pub fn floor(&self, unit: &str) -> f64 {
        self.units.get(unit).map_or(0.0, |u| u.floor)
    }
}

/// Makes the A/A check that the input holds: each design against its twin (`/impl=NAME` and `/impl=NAME.again`), else
/// the columns of `request` against the first, else the rounds of each cell against each other.
///
/// # Errors
/// As [`analyze`]; and if no cell has samples enough.
pub fn check(corpus: &Corpus, request: &Request) -> Result<Noise, Error> {
    let is_twin = |r: &Record| name::part(&r.name, "/impl").is_some_and(|i| i.ends_with(AGAIN));
    let mut request = Request {
        base: None,
        ..request.clone()
    };
    let twins = corpus.records.iter().any(is_twin);
    if twins && request.col == Request::default().col {
        "/impl".clone_into(&mut request.col);
    }
    let report = analyze(corpus, &request)?;
    let noise = if twins {
        from_twins(&report)
    } else if report
        .tables
        .iter()
        .any(|t| t.comparisons().next().is_some())
    {
        from_columns(&report)
    } else {
        from_rounds(&report, |_| true)
    };
    if noise.units.is_empty() {
        return Err(Error::option(
            "A/A check: no cell has samples enough to compare",
        ));
    }
    Ok(noise)
}

/// Compares every column with the one of the same name and [`AGAIN`] behind it, row by row.
pub fn from_twins(report: &Report) -> Noise {
    let mut tally = Tally::new(Sides::Twins, report.request.alpha);
    for table in &report.tables {
        let labels: Vec<String> = table.cols.iter().map(|c| label_text(c)).collect();
        for (col, label) in labels.iter().enumerate() {
            let Some(twin) = labels
                .iter()
                .position(|l| l.strip_suffix(AGAIN) == Some(label))
            else {
                continue;
            };
            for row in 0..table.rows.len() {
                let (Some(a), Some(b)) = (table.cell(row, col), table.cell(row, twin)) else {
                    continue;
                };
                let assumption = if table.exact {
                    Assumption::Exact
                } else {
                    Assumption::Nothing
                };
                let (old, new) = ((&a.sample, &a.summary), (&b.sample, &b.summary));
                let comparison = Comparison::of(
                    old,
                    new,
                    assumption,
                    report.request.alpha,
                    report.request.compat,
                );
                tally.add(
                    table,
                    (row, col),
                    &comparison,
                    &a.sample,
                    &b.sample,
                    report.request.confidence,
                );
            }
        }
    }
    tally.finish()
}

/// Compares every cell with its baseline, given that both measure the same (two runs of one thing).
pub fn from_columns(report: &Report) -> Noise {
    let mut tally = Tally::new(Sides::Columns, report.request.alpha);
    for table in &report.tables {
        for (row, col, cell, comparison) in table.comparisons() {
            let Some(base) = table.cell(row, 0) else {
                continue;
            };
            tally.add(
                table,
                (row, col),
                comparison,
                &base.sample,
                &cell.sample,
                report.request.confidence,
            );
        }
    }
    tally.finish()
}

/// Deals the rounds of every cell (its samples, where rounds are unknown) to two sides in turn and compares them:
/// an A/A check that any run contains, at half the sample size. `columns` restricts it to columns by index.
///
/// Rounds that alternate share the machine's slow changes, so this shows the noise within a run; two runs at
/// different times differ by more.
pub fn from_rounds(report: &Report, columns: impl Fn(usize) -> bool) -> Noise {
    let mut tally = Tally::new(Sides::Rounds, report.request.alpha);
    for table in report.tables.iter().filter(|t| !t.exact) {
        for (row, col, cell) in table.cells().filter(|(_, col, _)| columns(*col)) {
            let (a, b) = deal(&cell.sample);
            if a.sorted().len() < 2 || b.sorted().len() < 2 {
                continue;
            }
            let confidence = report.request.confidence;
            let summary = |s: &Sample| Summary::of(s, Assumption::Nothing, confidence, false);
            let (old, new) = ((&a, &summary(&a)), (&b, &summary(&b)));
            let comparison =
                Comparison::of(old, new, Assumption::Nothing, report.request.alpha, false);
            tally.add(table, (row, col), &comparison, &a, &b, confidence);
        }
    }
    tally.finish()
}

fn deal(sample: &Sample) -> (Sample, Sample) {
    let mut values: ByRound = sample.in_order();
    // An odd one out would make the sides unequal.
    values.truncate(values.len() / 2 * 2);
    let side = |rest: usize| {
        let dealt = values.iter().enumerate().filter(|(at, _)| at % 2 == rest);
        // Rounds are forgotten: the sides have none in common.
        Sample::new(
            dealt
                .map(|(_, (_, value))| Observation {
                    value: *value,
                    round: None,
                })
                .collect(),
        )
    };
    (side(0), side(1))
}

struct Tally {
    noise: Noise,
    shifts: BTreeMap<String, Vec<f64>>,
}

impl Tally {
    fn new(sides: Sides, alpha: f64) -> Tally {
        let noise = Noise {
            sides,
            alpha,
            units: BTreeMap::new(),
            alarms: Vec::new(),
        };
        Tally {
            noise,
            shifts: BTreeMap::new(),
        }
    }

    fn add(
        &mut self,
        table: &Table,
        (row, col): (usize, usize),
        comparison: &Comparison,
        old: &Sample,
        new: &Sample,
        confidence: f64,
    ) {
        // An exact unit has no noise to measure: any difference is an alarm.
        let alarm = if table.exact {
            comparison.delta() != Some(0.0)
        } else {
            comparison.is_significant()
        };
        let empty = UnitNoise {
            cells: 0,
            alarms: 0,
            median_shift: 0.0,
            floor: 0.0,
        };
        let unit = self.noise.units.entry(table.unit.clone()).or_insert(empty);
        unit.cells += 1;
        if alarm {
            unit.alarms += 1;
            let shown = format!("{} ({})", comparison.delta_text(), comparison.p_text());
            let (row, col) = (label_text(&table.rows[row]), label_text(&table.cols[col]));
            self.noise
                .alarms
                .push((row, col, table.unit.clone(), shown));
        }
        if let Some(shift) = shift_between(old, new, confidence) {
            self.shifts
                .entry(table.unit.clone())
                .or_default()
                .push((shift.ratio.ln().abs()).exp() - 1.0);
        }
    }

    fn finish(mut self) -> Noise {
        // The deviation of a shift falls with the root of the sample size.
        let scale = if self.noise.sides == Sides::Rounds {
            std::f64::consts::FRAC_1_SQRT_2
        } else {
            1.0
        };
        for (unit, mut shifts) in self.shifts {
            shifts.sort_by(f64::total_cmp);
            if let Some(noise) = self.noise.units.get_mut(&unit) {
                noise.median_shift = quantile(&shifts, 0.5) * scale;
                noise.floor = quantile(&shifts, 0.95) * scale;
            }
        }
        self.noise
    }
}

/// The check as text, with every false alarm.
pub fn text(noise: &Noise) -> String {
    let how = match noise.sides {
        Sides::Columns => "each column against the baseline",
        Sides::Twins => "each design against itself",
        Sides::Rounds => "alternating rounds of each cell",
    };
    let mut out = format!("A/A check: {how}, alpha {}\n", noise.alpha);
    for (unit, u) in &noise.units {
        out += &format!(
            "  {unit}: {} of {} cells show no difference ({:.1}%); median shift {:.2}%, noise floor {:.2}%\n",
            u.cells - u.alarms,
            u.cells,
            100.0 * u.quiet_share(),
            100.0 * u.median_shift,
            100.0 * u.floor,
        );
    }
    if !noise.alarms.is_empty() {
        out += "false alarms:\n";
    }
    for (row, col, unit, shown) in &noise.alarms {
        out += &format!("  {row} [{col}] {unit}: {shown}\n");
    }
    let percent = 100.0 * QUIET_SHARE;
    out += &if noise.passes() {
        format!("passed: no difference in at least {percent}% of the cells\n")
    } else {
        format!(
            "FAILED: a difference in more than {:.0}% of the cells of a unit\n",
            100.0 - percent
        )
    };
    out
}

/// The check as JSON.
pub fn json(noise: &Noise) -> Value {
    let units: serde_json::Map<String, Value> = noise
        .units
        .iter()
        .map(|(unit, u)| {
            let value = json!({
                "cells": u.cells,
                "alarms": u.alarms,
                "quiet_share": number(u.quiet_share()),
                "median_shift": number(u.median_shift),
                "floor": number(u.floor),
            });
            (unit.clone(), value)
        })
        .collect();
    let alarms = noise.alarms.iter().map(|(row, col, unit, shown)| {
        json!({ "row": row, "column": col, "unit": unit, "shown": shown })
    });
    json!({
        "sides": match noise.sides {
            Sides::Columns => "columns",
            Sides::Twins => "twins",
            Sides::Rounds => "rounds",
        },
        "alpha": noise.alpha,
        "units": units,
        "alarms": alarms.collect::<Vec<_>>(),
        "passed": noise.passes(),
    })
}

/// The drift of one unit over the rounds.
#[derive(Clone, Debug, PartialEq)]
pub struct Drift {
    /// The unit.
    pub unit: String,
    /// The number of rounds.
    pub rounds: usize,
    /// The common trend of all cells: of each round's geometric mean of value over cell median.
    pub common: Trend,
    /// Cells with enough rounds for a trend of their own.
    pub cells: usize,
    /// Cells whose own trend is significant after correction for their number.
    pub drifting: usize,
}

/// Looks for trends over the rounds of `report` (over the order of samples where rounds are unknown), by unit.
/// Units without noise, and cells with fewer than six rounds, are left out. O(cells * rounds^2).
pub fn drift(report: &Report) -> Vec<Drift> {
    let mut series: BTreeMap<&str, Vec<ByRound>> = BTreeMap::new();
    for table in report.tables.iter().filter(|t| !t.exact) {
        // Cells that mix several benchmarks have no order in time that means anything.
        for (.., cell) in table.cells().filter(|(.., cell)| cell.warnings.is_empty()) {
            let by_round = cell.sample.in_order();
            let usable =
                by_round.len() >= 6 && by_round.iter().all(|(_, v)| *v > 0.0 && v.is_finite());
            if usable {
                series.entry(&table.unit).or_default().push(by_round);
            }
        }
    }
    series
        .into_iter()
        .filter_map(|(unit, cells)| drift_of(unit, &cells))
        .collect()
}

fn drift_of(unit: &str, cells: &[ByRound]) -> Option<Drift> {
    let mut rounds: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    let mut own = Vec::new();
    for cell in cells {
        let values: Vec<f64> = cell.iter().map(|(_, v)| *v).collect();
        let mut sorted = values.clone();
        sorted.sort_by(f64::total_cmp);
        let middle = crate::stats::median::median(&sorted);
        for (round, value) in cell {
            rounds.entry(round.number).or_default().push(value / middle);
        }
        own.extend(mann_kendall(&values).map(|t| t.p));
    }
    let common: Vec<f64> = rounds
        .values()
        .filter_map(|r| geometric_mean(r.iter().copied()))
        .collect();
    let drifting = holm(&own).iter().filter(|p| **p <= 0.05).count();
    let common = mann_kendall(&common)?;
    Some(Drift {
        unit: unit.to_owned(),
        rounds: rounds.len(),
        common,
        cells: cells.len(),
        drifting,
    })
}

/// What the reader should know about drift: one line for each unit in which there is some.
pub fn drift_notes(report: &Report) -> Vec<String> {
    let mut notes = Vec::new();
    for d in drift(report) {
        // A common trend below a thousandth changes no decision, however regular it is.
        if d.common.p <= 0.01 && d.common.change.abs() >= 0.001 {
            notes.push(format!(
                "rounds drift: {} changes by {:+.1}% from the first to the last of {} rounds (p={:.4}); compare designs \
                 within rounds, not runs of different times",
                d.unit,
                100.0 * d.common.change,
                d.rounds,
                d.common.p,
            ));
        }
        if d.drifting > 0 {
            notes.push(format!(
                "rounds drift: {} of {} cells have a trend of their own in {}",
                d.drifting, d.cells, d.unit
            ));
        }
    }
    notes
}
