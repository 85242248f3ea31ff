//! The command line: verbs, their flags, and what is wrong with them, in one line. It measures nothing itself.

use std::collections::HashSet;
use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{Args, Parser, Subcommand, ValueEnum};
use serde::Serialize;

use crate::alloc::{self, Backend};
use crate::keys::Keys;
use crate::machine;
use crate::parking;
use crate::programs::{Bench, Benchtime};
use crate::registry::{self, Class, Design};
use crate::report::Run;
use crate::sweeps::{self, EXPERIMENTS, PHASES, Sweep};

/// All went well.
const OK: i32 = 0;
/// A cell failed, or the output could not be written.
const FAILED: i32 = 1;
/// The command line makes no sense.
const USAGE: i32 = 2;

/// The most threads of one cell.
const MOST_THREADS: usize = 65_536;

/// Measures one design or peer of a concurrent map in one process.
#[derive(Parser)]
#[command(name = "harness", version, about)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Lists designs, peers and how they are called, phases and experiments.
    List(ListArgs),
    /// Prints what is known of the machine and the program, as `key: value` lines.
    Facts(FactsArgs),
    /// Measures the cells of one design in one phase or experiment.
    Run(Box<RunArgs>),
}

#[derive(Args)]
struct ListArgs {
    /// How to print.
    #[arg(long, value_enum, default_value_t = ListFormat::Text)]
    format: ListFormat,
}

#[derive(Clone, Copy, ValueEnum)]
enum ListFormat {
    /// Tables for people.
    Text,
    /// One object for programs.
    Json,
}

#[derive(Args)]
struct FactsArgs {
    /// `mimalloc` or `system`.
    #[arg(long, value_parser = parse_allocator, default_value = "mimalloc")]
    allocator: Backend,
    /// The commit that the program was built from.
    #[arg(long, env = "HARNESS_COMMIT", default_value = "unknown")]
    commit: String,
}

#[derive(Args)]
struct RunArgs {
    /// The design or peer, by its name in `harness list`.
    #[arg(long)]
    design: String,
    /// A phase, A to E.
    #[arg(
        long,
        conflicts_with = "experiment",
        required_unless_present = "experiment"
    )]
    phase: Option<String>,
    /// A named experiment.
    #[arg(long)]
    experiment: Option<String>,
    /// The number of the round, for the records.
    #[arg(long, default_value_t = 1, allow_negative_numbers = true)]
    round: u64,
    /// The seed of all draws: the same seed gives all designs the same operations.
    #[arg(long, default_value_t = 1, allow_negative_numbers = true)]
    seed: u64,
    /// How many keys the map holds.
    #[arg(long, default_value_t = 1_000_000, allow_negative_numbers = true)]
    keys: u64,
    /// The characters of a key.
    #[arg(long, default_value_t = 16, allow_negative_numbers = true)]
    key_length: usize,
    /// The bytes of the shared value.
    #[arg(long, default_value_t = 64, allow_negative_numbers = true)]
    value_size: usize,
    /// The numbers of threads, separated by commas.
    #[arg(long, value_parser = parse_threads, default_value = "1", allow_negative_numbers = true)]
    threads: List<usize>,
    /// Time (`200ms`) or operations (`5000x`) per cell.
    #[arg(long, value_parser = parse_benchtime, default_value = "200ms")]
    benchtime: Benchtime,
    /// The cores to pin threads to, in order and separated by commas, or `none`.
    #[arg(long, value_parser = parse_pins, default_value = "none")]
    pin: List<usize>,
    /// `mimalloc` or `system`.
    #[arg(long, value_parser = parse_allocator, default_value = "mimalloc")]
    allocator: Backend,
    /// Measure only the cells named in this file, one per line.
    #[arg(long)]
    cells_from: Option<PathBuf>,
    /// Leave this cell out. May be repeated.
    #[arg(long)]
    skip: Vec<String>,
    /// Of phases D and E only what a short sweep has time for.
    #[arg(long)]
    brief: bool,
    /// Print the cells and about how many milliseconds each takes, and measure nothing.
    #[arg(long)]
    plan: bool,
}

/// A list that one flag gives; the type keeps clap from asking for the flag once per element.
#[derive(Clone, Debug)]
struct List<T>(Vec<T>);

fn parse_allocator(text: &str) -> Result<Backend, String> {
    Backend::from_name(text).ok_or_else(|| "expected `mimalloc` or `system`".to_owned())
}

fn parse_numbers(text: &str) -> Result<Vec<usize>, String> {
    let number = |part: &str| {
        part.trim()
            .parse()
            .map_err(|_| format!("`{}` is not a whole number", part.trim()))
    };
    text.split(',').map(number).collect()
}

fn parse_threads(text: &str) -> Result<List<usize>, String> {
    let threads = parse_numbers(text)?;
    if threads.contains(&0) {
        return Err("0 threads cannot measure anything; give 1 or more".to_owned());
    }
    if let Some(many) = threads.iter().find(|&&threads| threads > MOST_THREADS) {
        return Err(format!(
            "{many} threads are more than the {MOST_THREADS} that are possible"
        ));
    }
    if threads.iter().collect::<HashSet<_>>().len() < threads.len() {
        return Err("the same number of threads is given twice".to_owned());
    }
    Ok(List(threads))
}

fn parse_pins(text: &str) -> Result<List<usize>, String> {
    if text == "none" {
        Ok(List(Vec::new()))
    } else {
        parse_numbers(text).map(List)
    }
}

/// Reads `5000x`, `1.5s`, `200ms`, `300us` or `1000ns`.
fn parse_benchtime(text: &str) -> Result<Benchtime, String> {
    let wrong =
        || "expected a time such as `200ms` or a number of operations such as `5000x`".to_owned();
    if let Some(ops) = text.strip_suffix('x') {
        return match ops.parse() {
            Ok(0) | Err(_) => Err(wrong()),
            Ok(ops) => Ok(Benchtime::Ops(ops)),
        };
    }
    let units = [
        ("ns", 1e-9),
        ("us", 1e-6),
        ("µs", 1e-6),
        ("ms", 1e-3),
        ("s", 1.0),
    ];
    let (number, scale) = units
        .iter()
        .find_map(|(unit, scale)| Some((text.strip_suffix(unit)?, scale)))
        .ok_or_else(wrong)?;
    let seconds = number.parse::<f64>().map_err(|_| wrong())? * scale;
    let time = Duration::try_from_secs_f64(seconds).map_err(|_| wrong())?;
    if time.is_zero() || time > Duration::from_secs(3600) {
        return Err("a cell takes more than nothing and at most an hour".to_owned());
    }
    Ok(Benchtime::Time(time))
}

/// Runs the program on the arguments of the process, and returns its exit code.
#[must_use]
pub fn main() -> i32 {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) if !error.use_stderr() => {
            // Help and version were asked for.
            return if error.print().is_ok() { OK } else { FAILED };
        }
        Err(error) if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            return usage("a verb is needed: `list`, `facts` or `run`");
        }
        Err(error) => return usage(first_sentence(&error.render().to_string())),
    };
    let outcome = match cli.verb {
        Verb::List(args) => list(args.format, &mut io::stdout().lock()),
        Verb::Facts(args) => facts(&args, &mut io::stdout().lock()),
        Verb::Run(args) => run(&args, &mut io::stdout().lock()),
    };
    match outcome {
        Ok(code) => code,
        Err(Trouble::Usage(message)) => usage(message),
        Err(Trouble::Io(error)) if error.kind() == io::ErrorKind::BrokenPipe => FAILED,
        Err(Trouble::Io(error)) => {
            eprintln!("harness: {error}");
            FAILED
        }
    }
}

/// Why a verb ended early.
enum Trouble {
    /// The command line makes no sense.
    Usage(String),
    /// The output cannot be written, or the program cannot be restarted.
    Io(io::Error),
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Says what is wrong, in one line.
fn usage(message: impl AsRef<str>) -> i32 {
    eprintln!("harness: {} (see `harness --help`)", message.as_ref());
    USAGE
}

/// What clap says before it begins to explain, on one line.
fn first_sentence(rendered: &str) -> String {
    let end = rendered
        .find("\n\nUsage")
        .or_else(|| rendered.find("\n\nFor more"))
        .unwrap_or(rendered.len());
    let told = rendered[..end]
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    told.strip_prefix("error: ").unwrap_or(&told).to_owned()
}

/// Restarts the program with the allocator that is asked for.
fn use_allocator(wanted: Backend) -> Result<(), Trouble> {
    alloc::count_reuse();
    alloc::ensure_backend(wanted).map_err(|error| Trouble::Io(io::Error::other(error)))
}

/// `harness facts`.
fn facts(args: &FactsArgs, out: &mut impl Write) -> Result<i32, Trouble> {
    use_allocator(args.allocator)?;
    let lines = [
        ("os", std::env::consts::OS.to_owned()),
        ("arch", std::env::consts::ARCH.to_owned()),
        ("cpu", machine::cpu_name()),
        ("cores", machine::cores().to_string()),
        ("kernel", machine::kernel()),
        ("rustc", env!("HARNESS_RUSTC").to_owned()),
        ("profile", env!("HARNESS_PROFILE").to_owned()),
        ("harness-version", env!("CARGO_PKG_VERSION").to_owned()),
        ("commit", args.commit.clone()),
        ("allocator", alloc::backend().name().to_owned()),
    ];
    for (key, value) in lines {
        writeln!(out, "{key}: {value}")?;
    }
    Ok(OK)
}

/// A row of the registry for programs.
#[derive(Serialize)]
struct ListedDesign {
    name: &'static str,
    kind: &'static str,
    #[serde(rename = "crate")]
    package: &'static str,
    version: &'static str,
    phases: Vec<&'static str>,
    experiments: Vec<&'static str>,
    read: &'static str,
    write: &'static str,
    fill: &'static str,
    snapshot: &'static str,
    hasher: &'static str,
    idea: &'static str,
}

/// A phase or an experiment for programs.
#[derive(Serialize)]
struct ListedSweep {
    name: &'static str,
    what: &'static str,
    axes: &'static str,
    measured: bool,
}

/// All that `harness list` tells.
#[derive(Serialize)]
struct Listed {
    designs: Vec<ListedDesign>,
    phases: Vec<ListedSweep>,
    experiments: Vec<ListedSweep>,
}

/// The hasher of all rows but the one that hashes nothing.
const HASHER: &str = "xxh3, fixed seed";

fn listed_design(design: &Design) -> ListedDesign {
    let takes_part = |sweep: &&Sweep| {
        sweep
            .cells
            .is_some_and(|cells| !cells(design, &[1]).is_empty())
    };
    let names = |table: &'static [Sweep]| {
        table
            .iter()
            .filter(takes_part)
            .map(|sweep| sweep.name)
            .collect()
    };
    ListedDesign {
        name: design.name,
        kind: design.kind.name(),
        package: design.package,
        version: registry::version_of(design.package),
        phases: names(PHASES),
        experiments: names(EXPERIMENTS),
        read: design.read,
        write: design.write,
        fill: design.fill,
        snapshot: design.snapshot,
        hasher: if design.kind == registry::Kind::Floor {
            "none"
        } else {
            HASHER
        },
        idea: design.idea,
    }
}

fn listed_sweep(sweep: &Sweep) -> ListedSweep {
    ListedSweep {
        name: sweep.name,
        what: sweep.what,
        axes: sweep.axes,
        measured: sweep.cells.is_some(),
    }
}

/// `harness list`.
fn list(format: ListFormat, out: &mut impl Write) -> Result<i32, Trouble> {
    let listed = Listed {
        designs: registry::all().map(listed_design).collect(),
        phases: PHASES.iter().map(listed_sweep).collect(),
        experiments: EXPERIMENTS.iter().map(listed_sweep).collect(),
    };
    match format {
        ListFormat::Json => writeln!(
            out,
            "{}",
            serde_json::to_string_pretty(&listed).map_err(io::Error::from)?
        )?,
        ListFormat::Text => list_as_text(&listed, out)?,
    }
    Ok(OK)
}

/// Four tables: what there is, how it is called, phases, experiments.
fn list_as_text(listed: &Listed, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "Designs and peers (in the order of reports)")?;
    let mut rows = vec![["name", "kind", "crate", "phases", "snapshot", "idea"].map(str::to_owned)];
    for d in &listed.designs {
        let package = format!("{} {}", d.package, d.version);
        let phases = if d.phases.is_empty() {
            "-".to_owned()
        } else {
            d.phases.concat()
        };
        rows.push([
            d.name.into(),
            d.kind.into(),
            package,
            phases,
            d.snapshot.into(),
            d.idea.into(),
        ]);
    }
    write_table(&rows, out)?;
    writeln!(
        out,
        "\nHow each is called, and how its map is made before the clock starts"
    )?;
    let mut rows = vec![["name", "read", "write", "fill", "hasher"].map(str::to_owned)];
    for d in &listed.designs {
        rows.push([
            d.name.into(),
            d.read.into(),
            d.write.into(),
            d.fill.into(),
            d.hasher.into(),
        ]);
    }
    write_table(&rows, out)?;
    for (title, table) in [
        ("Phases", &listed.phases),
        ("Experiments", &listed.experiments),
    ] {
        writeln!(out, "\n{title}")?;
        let mut rows = Vec::new();
        for sweep in table {
            let state = if sweep.measured {
                ""
            } else {
                " (not yet measured)"
            };
            rows.push([sweep.name.to_owned(), format!("{}{state}", sweep.what)]);
            rows.push([String::new(), sweep.axes.to_owned()]);
        }
        write_table(&rows, out)?;
    }
    Ok(())
}

/// Columns as wide as their widest cell.
fn write_table<const N: usize>(rows: &[[String; N]], out: &mut impl Write) -> io::Result<()> {
    let width = |column: usize| {
        rows.iter()
            .map(|row| row[column].chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..N).map(width).collect();
    for row in rows {
        let cells = row
            .iter()
            .zip(&widths)
            .map(|(cell, &width)| format!("{cell:<width$}"));
        writeln!(out, "  {}", cells.collect::<Vec<_>>().join("  ").trim_end())?;
    }
    Ok(())
}

/// `harness run`.
fn run(args: &RunArgs, out: &mut impl Write) -> Result<i32, Trouble> {
    let design = registry::find(&args.design).map_err(Trouble::Usage)?;
    let sweep = find_sweep(args).map_err(Trouble::Usage)?;
    let keys = check_keys(args).map_err(Trouble::Usage)?;
    check_pins(&args.pin.0).map_err(Trouble::Usage)?;
    let wanted = wanted_cells(args).map_err(Trouble::Usage)?;
    let Some(cells) = sweep.cells else {
        return Err(Trouble::Usage(format!(
            "{} is not yet measured",
            sweep.name
        )));
    };
    let mut cells = cells(design, &args.threads.0);
    let takes_part = !cells.is_empty();
    // A process has one allocator: cells that ask for the other are planned and measured under its flag.
    cells.retain(|cell| {
        let allocator = cell.job.allocator();
        allocator.is_none_or(|needed| needed == args.allocator)
    });
    // A plan may be asked for any design; one that takes no part has an empty plan.
    if !takes_part && !args.plan {
        let reason = if design.class == Class::Alone {
            "it belongs to one thread"
        } else {
            "see `harness list`"
        };
        return Err(Trouble::Usage(format!(
            "`{}` takes no part in {}: {reason}",
            design.name, sweep.name
        )));
    }
    cells.retain(|cell| {
        wanted
            .as_ref()
            .is_none_or(|wanted| wanted.contains(&cell.name))
    });
    cells.retain(|cell| !args.skip.contains(&cell.name));
    if args.brief {
        let most = args.threads.0.iter().copied().max().unwrap_or(1);
        cells.retain(|cell| cell.job.is_brief(most));
    }
    if args.plan {
        for cell in &cells {
            let estimate = cell.job.estimate(keys, args.benchtime);
            writeln!(out, "{} {}", cell.name, estimate.as_millis().max(1))?;
        }
        return Ok(OK);
    }
    use_allocator(args.allocator)?;
    // Panics of a design are reported as failed cells; the default hook would print a backtrace besides.
    std::panic::set_hook(Box::new(|_| {}));
    let most = cells
        .iter()
        .map(|cell| cell.job.threads())
        .max()
        .unwrap_or(1);
    parking::prepare(most);
    let bench = Bench::new(
        Keys::new(keys, args.key_length),
        args.value_size,
        args.seed,
        args.pin.0.clone(),
        args.benchtime,
        most,
    );
    let failed = Run {
        design,
        sweep: sweep.name,
        round: args.round,
        cells: &cells,
    }
    .write(&bench, out)?;
    Ok(if failed == 0 { OK } else { FAILED })
}

/// The phase or experiment asked for.
fn find_sweep(args: &RunArgs) -> Result<&'static Sweep, String> {
    let (kind, table, name) = match (&args.phase, &args.experiment) {
        (Some(phase), _) => ("phase", PHASES, phase),
        (None, Some(experiment)) => ("experiment", EXPERIMENTS, experiment),
        (None, None) => return Err("one of --phase and --experiment is needed".to_owned()),
    };
    sweeps::find(table, name).ok_or_else(|| {
        let names: Vec<&str> = table.iter().map(|sweep| sweep.name).collect();
        let meant = registry::nearest(name, &names).filter(|_| kind == "experiment");
        let meant = meant.map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
        format!(
            "unknown {kind} `{name}`{meant} (known: {})",
            names.join(", ")
        )
    })
}

/// The number of keys, if they fit their length.
fn check_keys(args: &RunArgs) -> Result<usize, String> {
    if args.keys == 0 {
        return Err("--keys 0: a map needs at least 1 key".to_owned());
    }
    if args.value_size == 0 {
        return Err("--value-size 0: a read must find at least 1 byte".to_owned());
    }
    if args.key_length == 0 || args.key_length > 4096 {
        return Err(format!(
            "--key-length {}: expected 1 to 4096",
            args.key_length
        ));
    }
    let most = Keys::most(args.key_length);
    if args.keys > most {
        let (keys, length) = (args.keys, args.key_length);
        return Err(format!(
            "--keys {keys} does not fit --key-length {length}, which allows {most} keys at most"
        ));
    }
    usize::try_from(args.keys)
        .map_err(|_| format!("--keys {} is too large for this machine", args.keys))
}

/// Whether all cores exist.
fn check_pins(pins: &[usize]) -> Result<(), String> {
    if pins.is_empty() {
        return Ok(());
    }
    let known: Vec<usize> = core_affinity::get_core_ids()
        .unwrap_or_default()
        .into_iter()
        .map(|core| core.id)
        .collect();
    match pins.iter().find(|pin| !known.contains(pin)) {
        Some(pin) => Err(format!(
            "--pin {pin}: this process may not use that core (it may use {known:?})"
        )),
        None => Ok(()),
    }
}

/// The names of `--cells-from`.
fn wanted_cells(args: &RunArgs) -> Result<Option<HashSet<String>>, String> {
    let Some(path) = &args.cells_from else {
        return Ok(None);
    };
    let text = fs::read_to_string(path)
        .map_err(|error| format!("--cells-from {}: {error}", path.display()))?;
    let names = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    // A plan may be fed back as it is: the estimate after the name is not part of it.
    Ok(Some(
        names
            .filter_map(|line| Some(line.split_whitespace().next()?.to_owned()))
            .collect(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn benchtimes_are_times_or_counts() {
        assert_eq!(
            parse_benchtime("200ms"),
            Ok(Benchtime::Time(Duration::from_millis(200)))
        );
        assert_eq!(
            parse_benchtime("1.5s"),
            Ok(Benchtime::Time(Duration::from_millis(1500)))
        );
        assert_eq!(parse_benchtime("5000x"), Ok(Benchtime::Ops(5000)));
        for wrong in [
            "", "x", "0x", "-1x", "ms", "-5ms", "0s", "NaNs", "infs", "5", "5min", "2000000s",
        ] {
            assert!(parse_benchtime(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn threads_are_at_least_one_and_differ() {
        assert_eq!(parse_threads("1, 2").unwrap().0, [1, 2]);
        for wrong in ["", "0", "1,0", "two", "1,1", "99999999"] {
            assert!(parse_threads(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn clap_is_made_brief() {
        let rendered =
            "error: unexpected argument '--x' found\n\n  tip: y\n\nUsage: harness\n\nFor more …";
        assert_eq!(
            first_sentence(rendered),
            "unexpected argument '--x' found tip: y"
        );
    }
}
