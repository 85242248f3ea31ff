//! The lines that a run prints: results in the format that Go's `benchstat` reads, everything else behind `#`.
//! Each line is flushed when it is written, so that what was measured survives whatever comes next.

use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use serde::Serialize;

use crate::programs::{Bench, Sample};
use crate::registry::Design;
use crate::sweeps::Cell;
use crate::timing::{one_line, panic_message};

/// What did not fit the result line of a sample.
#[derive(Serialize)]
struct SideData<'a> {
    cell: &'a str,
    round: u64,
    phase: &'a str,
    ops: u64,
    writes: u64,
    cpu_ns: u64,
    wall_ns: u64,
    nvcsw: u64,
    nivcsw: u64,
    steal_ticks: u64,
    hits: u64,
    expected_hits: u64,
}

/// One run: a design's cells in one phase or experiment, in one round.
pub struct Run<'a> {
    /// The row of the registry.
    pub design: &'a Design,
    /// The phase's letter, or the experiment's name.
    pub sweep: &'a str,
    /// The number of the round.
    pub round: u64,
    /// What is left to measure.
    pub cells: &'a [Cell],
}

impl Run<'_> {
    /// Measures all cells and writes their lines. Returns how many failed.
    ///
    /// # Errors
    ///
    /// Where a line cannot be written.
    pub fn write(&self, bench: &Bench, out: &mut impl Write) -> io::Result<usize> {
        let (design, round) = (self.design.name, self.round);
        let process = std::process::id();
        let seed = bench.seed;
        writeln!(
            out,
            "# begin design={design} phase={} round={round} seed={seed} pid={process}",
            self.sweep
        )?;
        out.flush()?;
        let mut failed = 0;
        for cell in self.cells {
            // Filling and dropping a map is user code too: what the timed threads did not catch is caught here.
            let outcome = catch_unwind(AssertUnwindSafe(|| cell.job.run(self.design, bench)))
                .unwrap_or_else(|panic| Err(panic_message(panic.as_ref())));
            match outcome {
                Ok(sample) => self.write_sample(cell, &sample, out)?,
                Err(reason) => {
                    failed += 1;
                    writeln!(
                        out,
                        "# failed {} round={round}: {}",
                        cell.name,
                        one_line(&reason)
                    )?;
                }
            }
            out.flush()?;
        }
        writeln!(out, "# end design={design} round={round}")?;
        out.flush()?;
        Ok(failed)
    }

    /// The comment with the side data, then the result.
    fn write_sample(&self, cell: &Cell, sample: &Sample, out: &mut impl Write) -> io::Result<()> {
        let measured = &sample.measured;
        let side = SideData {
            cell: &cell.name,
            round: self.round,
            phase: self.sweep,
            ops: measured.ops,
            writes: measured.writes,
            cpu_ns: measured.usage.cpu_ns,
            wall_ns: nanoseconds(measured.wall),
            nvcsw: measured.usage.voluntary_switches,
            nivcsw: measured.usage.involuntary_switches,
            steal_ticks: measured.usage.steal_ticks,
            hits: measured.hits,
            expected_hits: measured.expected_hits,
        };
        for (kind, note) in &sample.notes {
            let mut note = note.clone();
            note["cell"] = cell.name.as_str().into();
            note["round"] = self.round.into();
            writeln!(out, "# {kind} {note}")?;
        }
        writeln!(out, "# sample {}", serde_json::to_string(&side)?)?;
        let ns_per_op = measured.wall.as_nanos() as f64 / measured.ops.max(1) as f64;
        if let Some(line) = cell.job.csv(ns_per_op) {
            writeln!(out, "# csv {line}")?;
        }
        writeln!(out, "{}", result_line(&cell.name, sample))
    }
}

/// `Benchmark<name>`, the operations, and a value per unit.
fn result_line(name: &str, sample: &Sample) -> String {
    let measured = &sample.measured;
    let ops = measured.ops.max(1);
    let mut line = format!("Benchmark{name}\t{}", measured.ops);
    let mut push = |value: f64, unit: &str| line.push_str(&format!("\t{} {unit}", digits(value)));
    push(measured.wall.as_nanos() as f64 / ops as f64, "ns/op");
    // Go rounds these two down to whole numbers. A hundredth still shows what one operation in a hundred allocates,
    // and hides the few bytes that a lock allocates once when two threads first meet at it.
    push(hundredths(measured.allocated.allocated, ops), "B/op");
    push(hundredths(measured.allocated.allocations, ops), "allocs/op");
    for &(value, unit) in &sample.extra {
        push(value, unit);
    }
    line
}

/// A quotient, rounded down to hundredths.
fn hundredths(count: u64, ops: u64) -> f64 {
    (count as f64 / ops as f64 * 100.0).floor() / 100.0
}

/// At least seven significant digits: fewer make ties where there are none, and ties weaken every rank test.
fn digits(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return format!("{value}");
    }
    let whole_digits = value.abs().log10().floor() as i32 + 1;
    let decimals = usize::try_from(7 - whole_digits).unwrap_or(0);
    let text = format!("{value:.decimals$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

/// Whole nanoseconds; 584 years are enough.
fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timing::Measured;

    #[test]
    fn numbers_keep_seven_digits() {
        assert_eq!(digits(123.456789), "123.4568");
        assert_eq!(digits(1.23456789), "1.234568");
        assert_eq!(digits(12_345_678.9), "12345679");
        assert_eq!(digits(0.001_234_567_8), "0.001234568");
        assert_eq!(digits(48.0), "48");
        assert_eq!(digits(0.0), "0");
    }

    #[test]
    fn results_are_benchmark_lines() {
        let mut measured = Measured {
            ops: 1000,
            wall: Duration::from_nanos(123_457),
            ..Measured::default()
        };
        measured.allocated.allocated = 48_000;
        measured.allocated.allocations = 1000;
        let sample = Sample {
            measured,
            extra: vec![(1.5, "p99-ns")],
            notes: Vec::new(),
        };
        let line = result_line("Cache/impl=x/dist=zipf/mix=r90-2", &sample);
        assert_eq!(
            line,
            "BenchmarkCache/impl=x/dist=zipf/mix=r90-2\t1000\t123.457 ns/op\t48 B/op\t1 allocs/op\t1.5 p99-ns"
        );
    }
}
