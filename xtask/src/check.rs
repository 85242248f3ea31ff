//! `cargo xtask model` and `cargo xtask sanitize`: the test runs that need other flags than `cargo test` gives, one
//! table row each. Builds and runs; checks nothing itself but that a planted fault is reported.

use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, bail};
use clap::ValueEnum;

use crate::errors::{say, usage};
use crate::harness::workspace_root;

#[derive(clap::Args)]
pub(crate) struct ModelArgs {
    /// Only these crates [default: all that have a model].
    #[arg(long, value_delimiter = ',', value_name = "CRATE,CRATE")]
    package: Vec<String>,
    /// Show the commands and run none.
    #[arg(long)]
    list: bool,
}

#[derive(clap::Args)]
pub(crate) struct SanitizeArgs {
    /// What to look for.
    #[arg(value_enum)]
    what: Sanitizer,
    /// Only these crates [default: all that share memory between threads].
    #[arg(long, value_delimiter = ',', value_name = "CRATE,CRATE")]
    package: Vec<String>,
    /// Show the commands and run none.
    #[arg(long)]
    list: bool,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum Sanitizer {
    /// Addresses and leaks: use after free, out of bounds, memory that nobody frees.
    Address,
    /// Data races.
    Thread,
}

/// One run of `cargo test`.
struct Run {
    package: &'static str,
    /// Added to `RUSTFLAGS`.
    cfg: &'static str,
    /// After `cargo test --package …`.
    args: &'static [&'static str],
    /// After `--`.
    rest: &'static [&'static str],
    /// Added to the options of the sanitizer.
    options: &'static str,
}

impl Run {
    const fn new(package: &'static str, cfg: &'static str, args: &'static [&'static str]) -> Self {
        Self {
            package,
            cfg,
            args,
            rest: &[],
            options: "",
        }
    }
}

/// Model checking: loom goes through every execution of its small programs, shuttle through a stated number of random
/// and PCT schedules. Each suite holds the broken variants that it must notice.
const MODELS: &[Run] = &[
    Run::new("cache-reclaim", "--cfg loom", &["--lib"]),
    Run::new("cache-actor", "--cfg shuttle", &["--lib"]),
    Run::new("cache-ctrie", "--cfg shuttle", &["--lib"]),
    Run::new(
        "cache-persistent-trie",
        "--cfg shuttle",
        &["--test", "model"],
    ),
];

/// A hint of `usize::MAX` entries may be refused, as other allocators refuse it.
const REFUSE: &str = "allocator_may_return_null=1";

/// libtest's buffer of a test's output would be reported as a leak.
const UNBUFFERED: &[&str] = &["--nocapture"];

/// What the sanitizers run of the persistent trie.
const TRIES: &[&str] = &[
    "--features",
    "stats",
    "--test",
    "trie",
    "--test",
    "conformance",
];

const ADDRESS: &[Run] = &[
    Run::new("cache-reclaim", "", &["--lib", "--tests"]),
    Run::new("cache-table", "", &["--lib", "--tests"]),
    Run {
        options: REFUSE,
        rest: UNBUFFERED,
        ..Run::new("cache-locked", "", &["--lib", "--tests"])
    },
    Run {
        options: REFUSE,
        rest: UNBUFFERED,
        ..Run::new("cache-sharded", "", &["--lib", "--tests"])
    },
    // The quarantine of freed memory would look like growth of the resident memory, here and with the tries.
    Run {
        options: REFUSE,
        rest: &["--nocapture", "--skip", "resident_memory"],
        ..Run::new("cache-cow", "", &["--lib", "--tests"])
    },
    Run {
        options: REFUSE,
        rest: UNBUFFERED,
        ..Run::new("cache-actor", "", &["--lib", "--tests"])
    },
    // Here and below without the pool of freed nodes, which would hide a use after free.
    Run {
        options: "quarantine_size_mb=8",
        ..Run::new("cache-persistent-trie", "--cfg sanitizers", TRIES)
    },
    Run::new("cache-ctrie", "--cfg sanitizers", &["--lib"]),
    // A leak sanitizer takes a word with a hash tag for no address, so what still waits to be freed when the process
    // ends would look leaked; the library's own tests end with no node alive, and those look for leaks.
    Run {
        options: "detect_leaks=0",
        rest: &["--skip", "resident_memory"],
        ..Run::new(
            "cache-ctrie",
            "--cfg sanitizers",
            &["--test", "conformance"],
        )
    },
];

const THREAD: &[Run] = &[
    Run::new("cache-reclaim", "", &["--lib", "--tests"]),
    Run {
        options: REFUSE,
        ..Run::new("cache-locked", "", &["--lib", "--tests"])
    },
    Run {
        options: REFUSE,
        ..Run::new("cache-sharded", "", &["--lib", "--tests"])
    },
    Run {
        options: REFUSE,
        ..Run::new("cache-cow", "", &["--lib", "--tests"])
    },
    Run {
        options: REFUSE,
        rest: UNBUFFERED,
        ..Run::new("cache-actor", "", &["--lib", "--tests"])
    },
    Run::new("cache-persistent-trie", "--cfg sanitizers", TRIES),
    Run::new(
        "cache-ctrie",
        "--cfg sanitizers",
        &["--lib", "--test", "conformance"],
    ),
];

impl Sanitizer {
    const fn runs(self) -> &'static [Run] {
        match self {
            Self::Address => ADDRESS,
            Self::Thread => THREAD,
        }
    }

    const fn flags(self) -> &'static str {
        match self {
            Self::Address => "-Zsanitizer=address",
            Self::Thread => "-Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer",
        }
    }

    const fn target_dir(self) -> &'static str {
        match self {
            Self::Address => "asan",
            Self::Thread => "tsan",
        }
    }

    /// The planted fault's test, and what the sanitizer must say about it.
    const fn planted(self) -> (&'static str, &'static str) {
        match self {
            Self::Address => ("use_after_free", "heap-use-after-free"),
            Self::Thread => ("data_race", "data race"),
        }
    }

    /// The whole command of a run.
    fn command(self, run: &Run) -> Command {
        let flags = format!("{} {}", self.flags(), run.cfg);
        let mut command = test(run, flags.trim(), self.target_dir());
        // The standard library is the stable one and not instrumented; the target is named so that build scripts and
        // procedural macros are built without the sanitizer.
        command.env("RUSTC_BOOTSTRAP", "1");
        // Instrumented code is some ten times slower: shorter histories, in a like time.
        command.env("CACHE_CONFORMANCE_SCALE", "0.1");
        command.env("CACHE_CONFORMANCE_WATCHDOG", "600");
        command.env("RUST_BACKTRACE", "0");
        command.args(["--target", TARGET]);
        let mut options = run.options.to_owned();
        if self == Self::Thread {
            let suppressions = workspace_root().join("xtask").join("tsan.supp");
            options += &format!(" suppressions={}", suppressions.display());
        }
        let variable = match self {
            Self::Address => "ASAN_OPTIONS",
            Self::Thread => "TSAN_OPTIONS",
        };
        let separator = if self == Self::Address { ":" } else { " " };
        let options: Vec<&str> = options.split_whitespace().collect();
        if !options.is_empty() {
            command.env(variable, options.join(separator));
        }
        command
    }
}

/// Where the sanitizers are tried.
const TARGET: &str = "x86_64-unknown-linux-gnu";

pub(crate) fn model(args: &ModelArgs) -> Result<ExitCode> {
    let runs = chosen(MODELS, &args.package)?;
    let commands = runs.into_iter().map(|run| {
        let checker = run.cfg.trim_start_matches("--cfg ");
        let mut command = test(run, run.cfg, checker);
        command.args(rest(run));
        (run.package, command)
    });
    all(commands.collect(), args.list)
}

pub(crate) fn sanitize(args: &SanitizeArgs) -> Result<ExitCode> {
    let runs = chosen(args.what.runs(), &args.package)?;
    if cfg!(not(all(target_arch = "x86_64", target_os = "linux"))) {
        usage!("the sanitizers are set up for {TARGET} alone");
    }
    if !args.list {
        prove(args.what)?;
    }
    let commands = runs.into_iter().map(|run| {
        let mut command = args.what.command(run);
        command.args(rest(run));
        (run.package, command)
    });
    all(commands.collect(), args.list)
}

/// The rows for these crates; all for none.
fn chosen<'a>(table: &'a [Run], packages: &[String]) -> Result<Vec<&'a Run>> {
    if let Some(name) = packages
        .iter()
        .find(|name| !table.iter().any(|run| run.package == **name))
    {
        let mut known: Vec<&str> = table.iter().map(|run| run.package).collect();
        known.dedup();
        usage!("no such run for '{name}'; there are {}", known.join(", "));
    }
    let wanted =
        |run: &&Run| packages.is_empty() || packages.iter().any(|name| name == run.package);
    Ok(table.iter().filter(wanted).collect())
}

/// `cargo test` for one row, without what follows `--`.
fn test(run: &Run, flags: &str, target_dir: &str) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
    let target = std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| "target".into(), std::path::PathBuf::from);
    command
        .current_dir(workspace_root())
        .args(["test", "--no-fail-fast", "--package", run.package])
        .args(run.args)
        .arg("--target-dir")
        .arg(target.join(target_dir))
        .env("RUSTFLAGS", flags)
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env_remove("CARGO_TARGET_DIR")
        .stdin(Stdio::null());
    command
}

fn rest(run: &Run) -> Vec<&'static str> {
    let mark: &[&str] = if run.rest.is_empty() { &[] } else { &["--"] };
    [mark, run.rest].concat()
}

/// Runs them all, and tells at the end which failed.
fn all(commands: Vec<(&str, Command)>, list: bool) -> Result<ExitCode> {
    let mut failed = Vec::new();
    for (package, mut command) in commands {
        say!("{}", shown(&command));
        if list {
            continue;
        }
        let status = command.status().context("cannot start cargo")?;
        if !status.success() {
            failed.push(package);
        }
    }
    if failed.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    bail!("failed: {}", failed.join(", "))
}

/// A command as one would type it.
fn shown(command: &Command) -> String {
    let quoted = |text: &str| {
        if text.contains(' ') {
            format!("\"{text}\"")
        } else {
            text.to_owned()
        }
    };
    let mut words = Vec::new();
    for (name, value) in command.get_envs() {
        if let Some(value) = value {
            words.push(format!(
                "{}={}",
                name.display(),
                quoted(&value.to_string_lossy())
            ));
        }
    }
    words.push("cargo".to_owned());
    words.extend(command.get_args().map(|arg| quoted(&arg.to_string_lossy())));
    words.join(" ")
}

/// A clean run means something only if the sanitizer reports what is there to be reported.
fn prove(sanitizer: Sanitizer) -> Result<()> {
    let (test, report) = sanitizer.planted();
    let run = Run::new(
        "cache-reclaim",
        "--cfg planted_fault",
        &["--test", "planted"],
    );
    let mut command = sanitizer.command(&run);
    command.args(["--", "--exact", test, "--nocapture"]);
    say!("{}", shown(&command));
    let output = command.output().context("cannot start cargo")?;
    let said = String::from_utf8_lossy(&output.stderr) + String::from_utf8_lossy(&output.stdout);
    if output.status.success() || !said.contains(report) {
        let tail: Vec<&str> = said.lines().rev().take(5).collect();
        bail!(
            "the planted fault `{test}` was not reported as {report}, so a clean run would mean nothing: {}",
            tail.into_iter().rev().collect::<Vec<_>>().join(" | ")
        );
    }
    say!("the planted fault `{test}` is reported ({report}), as it must be");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_names_a_crate_that_is_there() {
        for run in MODELS.iter().chain(ADDRESS).chain(THREAD) {
            let folder = workspace_root().join("crates").join(run.package);
            assert!(folder.join("Cargo.toml").is_file(), "{}", run.package);
        }
    }

    #[test]
    fn commands_say_all_that_they_need() {
        let run = THREAD.iter().find(|run| run.package == "cache-ctrie");
        let text = shown(&Sanitizer::Thread.command(run.expect("a row")));
        assert!(
            text.contains("-Zsanitizer=thread") && text.contains("--cfg sanitizers"),
            "{text}"
        );
        assert!(
            text.contains("tsan.supp") && text.contains("RUSTC_BOOTSTRAP=1"),
            "{text}"
        );
    }

    #[test]
    fn an_unknown_crate_is_a_mistake() {
        assert!(chosen(MODELS, &["cache-cow".to_owned()]).is_err());
        assert_eq!(
            chosen(MODELS, &["cache-ctrie".to_owned()])
                .expect("known")
                .len(),
            1
        );
    }
}
