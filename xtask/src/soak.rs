//! `cargo xtask soak`: builds the soak of the trie, runs it and passes its exit code on. It checks nothing itself.

use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, bail};

use crate::errors::usage;
use crate::harness::workspace_root;

/// Names a soak that is already built; nothing is built then.
const OVERRIDE: &str = "CACHE_SOAK";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// How long the writers write.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: u64,
    /// How many threads write.
    #[arg(long, value_name = "THREADS", default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..=1_024))]
    writers: u64,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let mut command = match std::env::var_os(OVERRIDE) {
        Some(path) => {
            if !Path::new(&path).is_file() {
                usage!("{OVERRIDE} names {}, which is not a file", path.display());
            }
            Command::new(path)
        }
        None => {
            let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
            cargo.current_dir(workspace_root()).args([
                "run",
                "--quiet",
                "--release",
                "--package",
                "cache-ctrie",
                "--example",
                "soak",
                "--",
            ]);
            cargo
        }
    };
    let status = command
        .args([args.seconds.to_string(), args.writers.to_string()])
        .env("RUST_BACKTRACE", "0")
        .stdin(Stdio::null())
        .status()
        .with_context(|| format!("cannot start {}", command.get_program().display()))?;
    match status.code() {
        Some(0) => Ok(ExitCode::SUCCESS),
        Some(1) => Ok(ExitCode::FAILURE),
        _ => bail!("the soak did not end as it should: {status}"),
    }
}
