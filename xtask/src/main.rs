//! `cargo xtask VERB`: parse, match, call. One file per verb; none of them measures anything itself.
//!
//! Exit codes, the same for every verb: 0 done, 1 something failed (a cell, a check, a file),
//! 2 the command line or its files make no sense, 3 undecided (`compare --strict` alone), 130 interrupted.

mod check;
mod claims;
mod compare;
mod cpuinfo;
mod errors;
mod experiments;
mod harness;
mod list;
mod readme;
mod reference;
mod report;
mod soak;
mod splice;
mod stats;
mod sweep;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::errors::one_line;

/// Measures and compares ways of synchronising a concurrent in-memory map.
#[derive(Parser)]
#[command(
    name = "cargo xtask",
    bin_name = "cargo xtask",
    version,
    disable_help_subcommand = true
)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Measure designs and peers side by side, in interleaved rounds, into one folder.
    Sweep(Box<sweep::Args>),
    Compare(Box<compare::Args>),
    /// Render a sweep's folder again: the table here, summary.txt and by-impl.txt beside its bench.txt.
    Report(report::Args),
    /// Set what published texts claim against what was measured here, in results/README.md.
    Claims(claims::Args),
    /// What can be measured: designs, phases, experiments.
    List(list::Args),
    /// The machine as the kernel describes it, and the cores that a sweep would pin its threads to.
    Cpuinfo(cpuinfo::Args),
    /// Write from many threads to the trie while it is frozen every millisecond, and check every snapshot, the memory
    /// and that each value is dropped once.
    Soak(soak::Args),
    /// Run the model checkers on the lock-free crates, with the broken variants that they must notice.
    Model(check::ModelArgs),
    /// Run the crates' tests under a sanitizer, after it has proved that it reports a planted fault.
    Sanitize(check::SanitizeArgs),
    /// Put the headline table of a committed data set into README.md, or check that it is up to date.
    Readme(readme::Args),
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        // Help and version go to standard output with code 0; every mistake is one line and code 2.
        Err(error) if !error.use_stderr() => {
            let _ = error.print();
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            eprintln!("{}", one_line(&error));
            return ExitCode::from(2);
        }
    };
    let outcome = match cli.verb {
        Verb::Sweep(args) => sweep::run(&args),
        Verb::Compare(args) => Ok(compare::run(&args)),
        Verb::Report(args) => report::run(&args),
        Verb::Claims(args) => claims::run(&args),
        Verb::List(args) => list::run(&args),
        Verb::Cpuinfo(args) => cpuinfo::run(&args),
        Verb::Model(args) => check::model(&args),
        Verb::Sanitize(args) => check::sanitize(&args),
        Verb::Soak(args) => soak::run(&args),
        Verb::Readme(args) => readme::run(&args),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::from(errors::exit_code(&error))
    })
}
