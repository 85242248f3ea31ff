//! The benchmark text format and the comparison of its samples, without any I/O.
//!
//! The figures are those of Go's `benchstat` on the same input: medians with intervals by order statistics, the
//! Mann-Whitney U test, geometric means, the same rounding and the same layout. Beyond it: a gate for regressions
//! ([`gate`]), a ranking of designs ([`rank`]), a check of the noise by comparing things with themselves
//! ([`noise`]), pairing by round, and the refusal to compare what cannot be compared.
//!
//! ```
//! use bench_compare::{format::Corpus, render, report::{Request, analyze}};
//!
//! let mut corpus = Corpus::default();
//! for (label, times) in [("old", [10.0, 10.1, 10.2, 9.9]), ("new", [11.0, 11.1, 11.2, 10.9])] {
//!     let lines: String = times.iter().map(|t| format!("BenchmarkGet-2\t100\t{t} ns/op\n")).collect();
//!     corpus.read(label, label, lines.as_bytes());
//! }
//! let report = analyze(&corpus, &Request::default())?;
//! assert!(render::text(&report).contains("+9.95% (p=0.029 n=4)"));
//! # Ok::<(), bench_compare::error::Error>(())
//! ```
//!
//! # When to use it, when not
//!
//! For samples of independent runs, at least six of each (ten are better): everything here is distribution-free and
//! needs no normality, but it needs samples. It says nothing about the inside of one run (use a histogram), and a
//! difference within one launch of a program is not a difference between programs (sample over launches).

#![forbid(unsafe_code)]

mod analysis;
pub mod error;
pub mod format;
pub mod gate;
pub mod name;
pub mod noise;
pub mod number;
pub mod query;
pub mod rank;
pub mod render;
pub mod report;
pub mod sample;
pub mod stats;
pub mod unit;

use error::Error;
use format::Corpus;
use report::{Report, Request, analyze};

/// What a sweep writes as `summary.txt`: every cell by its full name, then the samples that failed.
///
/// Without failures this is what `benchstat` prints for the same text under the name `label`.
///
/// # Errors
/// [`Error`] for a text without benchmarks, or one that mixes machines, revisions or units.
pub fn render_summary(text: &[u8], label: &str) -> Result<String, Error> {
    let (corpus, report) = single(text, label, Request::default())?;
    Ok(with_failures(render::text(&report), &report, &corpus))
}

/// What a sweep writes as `by-impl.txt`: one column per design, compared with `base` (the first design if `None`),
/// then the samples that failed.
///
/// # Errors
/// As for [`render_summary`], and if no column is called `base`.
pub fn render_by_impl(text: &[u8], label: &str, base: Option<&str>) -> Result<String, Error> {
    let request = Request {
        col: "/impl".to_owned(),
        base: base.map(str::to_owned),
        ..Request::default()
    };
    let (corpus, report) = single(text, label, request)?;
    Ok(with_failures(render::text(&report), &report, &corpus))
}

fn single(text: &[u8], label: &str, request: Request) -> Result<(Corpus, Report), Error> {
    let mut corpus = Corpus::default();
    corpus.read(label, label, text);
    let report = analyze(&corpus, &request)?;
    Ok((corpus, report))
}

fn with_failures(mut out: String, report: &Report, corpus: &Corpus) -> String {
    let failures = render::failures(report, corpus);
    if !failures.is_empty() {
        out.push('\n');
        out += &failures;
    }
    out
}
