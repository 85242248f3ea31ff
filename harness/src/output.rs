//! The lines that a measuring process writes: see `results/FORMAT.md`. Each is flushed at once.

use std::io::{self, Write};

use serde_json::json;

use crate::drive::Done;

/// Side data of one sample.
#[derive(Clone, Copy, Debug)]
pub struct Sample<'a> {
    /// The row's name.
    pub cell: &'a str,
    /// The phase or experiment.
    pub part: &'a str,
    /// The round.
    pub round: u32,
    /// What was done.
    pub done: &'a Done,
    /// Clock ticks stolen from this machine meanwhile.
    pub steal_ticks: u64,
    /// What reads must have returned in sum.
    pub expected: u64,
    /// Further pairs of value and unit.
    pub more: &'a [(f64, &'a str)],
}

/// A number with at least six significant digits, so that rounding makes no ties.
#[must_use]
pub fn digits(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let before_point = value.abs().log10().floor() as i32 + 1;
    let decimals = (6 - before_point).max(0) as usize;
    format!("{value:.decimals$}")
}

/// A count per operation: whole numbers stay whole.
fn per_op(total: u64, operations: u64) -> String {
    if total.is_multiple_of(operations) {
        (total / operations).to_string()
    } else {
        digits(total as f64 / operations as f64)
    }
}

/// Writes a sample: its side data as a comment, then the line itself.
///
/// # Errors
///
/// When standard output is closed.
pub fn sample(sample: &Sample<'_>) -> io::Result<()> {
    let Sample {
        cell, round, done, ..
    } = sample;
    let side = json!({
        "cell": cell,
        "round": round,
        "phase": sample.part,
        "cpu_ns": done.usage.cpu.as_nanos() as u64,
        "wall_ns": done.wall.as_nanos() as u64,
        "nvcsw": done.usage.voluntary,
        "nivcsw": done.usage.involuntary,
        "steal_ticks": sample.steal_ticks,
        "hits": done.sum,
        "expected_hits": sample.expected,
    });
    let mut line = format!(
        "# sample {side}\nBenchmark{cell}\t{n}\t{ns} ns/op\t{bytes} B/op\t{allocations} allocs/op",
        n = done.operations,
        ns = digits(done.ns_per_op()),
        bytes = per_op(done.counts.bytes, done.operations),
        allocations = per_op(done.counts.allocations, done.operations),
    );
    for (value, unit) in sample.more {
        line += &format!("\t{} {unit}", digits(*value));
    }
    put(&line)
}

/// Writes that a cell failed, and why, in one line.
///
/// # Errors
///
/// When standard output is closed.
pub fn failed(cell: &str, round: u32, reason: &str) -> io::Result<()> {
    let reason = reason.split_whitespace().collect::<Vec<_>>().join(" ");
    put(&format!("# failed {cell} round={round}: {reason}"))
}

/// Writes a line and flushes it.
///
/// # Errors
///
/// When standard output is closed.
pub fn put(line: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn six_digits_whatever_the_size() {
        for (value, text) in [
            (0.0, "0"),
            (1.5, "1.50000"),
            (123.456_789, "123.457"),
            (0.012_345_678, "0.0123457"),
            (1_234_567.8, "1234568"),
        ] {
            assert_eq!(digits(value), text);
        }
        assert_eq!(per_op(64, 2), "32");
        assert_eq!(per_op(1, 3), "0.333333");
    }
}
