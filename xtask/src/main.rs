//! `cargo xtask VERB`: parse, match, call. One file per verb; none of them measures anything itself.

mod compare;

use std::process::ExitCode;

use clap::Parser;

/// The workspace's own tasks.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
enum Verb {
    Compare(compare::Args),
}

fn main() -> ExitCode {
    match Verb::parse() {
        Verb::Compare(args) => compare::run(&args),
    }
}
