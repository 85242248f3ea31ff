//! `cargo xtask list`: what the harness says it can measure. Adds nothing to it.

use std::process::ExitCode;

use anyhow::Result;

use crate::cpuinfo::Format;
use crate::errors::say;
use crate::harness::Harness;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// How to print it.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let format = match args.format {
        Format::Text => "text",
        Format::Json => "json",
    };
    say!(
        "{}",
        Harness::build()?
            .ask(&["list", "--format", format])?
            .trim_end()
    );
    Ok(ExitCode::SUCCESS)
}
