//! Reports as JSON: every sample and every figure, at full precision. Infinite and undefined numbers are null.

use serde_json::{Map, Value, json};

use crate::format::Corpus;
use crate::report::{Cell, Label, Report, Table};
use crate::sample::{Comparison, holm_adjusted, shift_between};
use crate::stats::shift::Shift;
use crate::unit::{Better, UnitTable};

/// The whole report as one JSON object. `schema` is raised when a field changes its meaning.
pub fn json(report: &Report, corpus: &Corpus) -> Value {
    let request = &report.request;
    json!({
        "schema": 1,
        "alpha": request.alpha,
        "confidence": request.confidence,
        "sources": corpus.sources.iter().map(|s| json!({ "label": s.label, "path": s.path, "lines": s.records }))
            .collect::<Vec<_>>(),
        "units": units(&corpus.units),
        "tables": json_tables(report),
        "failures": report.failures.iter().map(|f| json!({
            "cell": f.cell, "round": f.round, "reason": f.reason, "file": corpus.sources[f.source].label,
        })).collect::<Vec<_>>(),
        "problems": corpus.problems.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "notes": report.notes,
    })
}

/// The tables alone, with Holm-adjusted p over all comparisons of the report.
pub fn json_tables(report: &Report) -> Value {
    let comparisons: Vec<&Comparison> = report
        .tables
        .iter()
        .flat_map(Table::comparisons)
        .map(|(.., c)| c)
        .collect();
    let mut adjusted = holm_adjusted(&comparisons).into_iter();
    let tables = report.tables.iter().map(|table| {
        let mut rows = Vec::new();
        for (row, label) in table.rows.iter().enumerate() {
            let cells = (0..table.cols.len()).map(|col| {
                let Some(cell) = table.cell(row, col) else { return Value::Null };
                let comparison = cell.comparison.as_ref().map(|c| {
                    let base = table.cell(row, 0).and_then(|base| shift(base, cell, report.request.confidence));
                    comparison(c, adjusted.next().unwrap_or(1.0), base, table.better)
                });
                json!({
                    "n": cell.sample.sorted().len(),
                    "center": number(cell.summary.center),
                    "lo": number(cell.summary.lo),
                    "hi": number(cell.summary.hi),
                    "confidence": number(cell.summary.confidence),
                    "values": cell.sample.observations().iter().map(|o| number(o.value)).collect::<Vec<_>>(),
                    "rounds": cell.sample.observations().iter().map(|o| o.round.map(|r| r.number)).collect::<Vec<_>>(),
                    "warnings": cell.warnings.iter().chain(&cell.summary.warnings).collect::<Vec<_>>(),
                    "comparison": comparison,
                })
            });
            rows.push(json!({ "key": key(&report.row_fields, label), "cells": cells.collect::<Vec<_>>() }));
        }
        json!({
            "key": key(&report.table_fields, &table.key),
            "unit": table.unit,
            "better": better(table.better),
            "columns": table.cols.iter().map(|c| key(&report.col_fields, c)).collect::<Vec<_>>(),
            "rows": rows,
            "geomean": table.totals.iter().map(|t| json!({
                "center": t.geomean.map(number), "ratio": t.ratio.map(number), "warnings": t.warnings,
            })).collect::<Vec<_>>(),
        })
    });
    Value::Array(tables.collect())
}

fn shift(base: &Cell, cell: &Cell, confidence: f64) -> Option<Shift> {
    shift_between(&base.sample, &cell.sample, confidence)
}

fn comparison(c: &Comparison, holm: f64, shift: Option<Shift>, direction: Option<Better>) -> Value {
    let verdict = match (c.is_significant(), c.delta(), direction) {
        (false, ..) | (_, Some(0.0), _) => "same",
        (_, Some(delta), Some(better)) if (delta < 0.0) == (better == Better::Lower) => "better",
        (_, Some(_), Some(_)) => "worse",
        _ => "different",
    };
    json!({
        "p": number(c.p),
        "p_holm": number(holm),
        "exact": c.test.map(|t| t.exact),
        "u": c.test.map(|t| number(t.u)),
        "delta": c.delta().map(number),
        "superiority": c.superiority().map(number),
        "shift": shift.map(|s| json!({
            "ratio": number(s.ratio), "lo": number(s.lo), "hi": number(s.hi), "paired": s.paired,
        })),
        "significant": c.is_significant(),
        "verdict": verdict,
        "warnings": c.warnings,
    })
}

fn key(fields: &[String], label: &Label) -> Value {
    let pairs = fields
        .iter()
        .zip(label)
        .map(|(f, v)| (f.clone(), Value::String(v.clone())));
    Value::Object(pairs.collect::<Map<_, _>>())
}

fn units(table: &UnitTable) -> Value {
    let mut out = Map::new();
    for (unit, key, value) in table.iter() {
        let entry = out.entry(unit).or_insert_with(|| json!({}));
        entry[key] = json!(value);
    }
    Value::Object(out)
}

fn better(better: Option<Better>) -> Value {
    match better {
        Some(Better::Lower) => json!("lower"),
        Some(Better::Higher) => json!("higher"),
        None => Value::Null,
    }
}

pub(crate) fn number(value: f64) -> Value {
    serde_json::Number::from_f64(value).map_or(Value::Null, Value::Number)
}
