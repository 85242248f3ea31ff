//! `cargo xtask sweep`: measures designs and peers side by side, in interleaved rounds, into one folder.
//!
//! One child process per design, phase and round; every line a child prints is appended to `bench.txt` as it
//! comes. The order of business is: check, plan, say so, measure, render. Nothing is timed here.

mod child;
mod folder;
pub(crate) use folder::newest;
pub(crate) mod log;
mod noise;
pub(crate) mod plan;
mod progress;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::cpuinfo::{Machine, join};
use crate::errors::{say, usage};
use crate::experiments;
use crate::harness::{Harness, Inventory};
use crate::report;
use folder::Folder;
use log::{Line, Log};
use noise::Ticks;
use plan::{Cell, Part, Plan, Profile, Unit};
use progress::{Progress, duration};

#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Keys, rounds and time per cell in one word [default: quick].
    #[arg(long, value_enum)]
    profile: Option<Profile>,
    /// Number of entries in the map.
    #[arg(long, value_name = "N")]
    keys: Option<u64>,
    /// Digits of a key; keys are decimal numbers padded with zeros [default: 16].
    #[arg(long, value_name = "N")]
    key_length: Option<u32>,
    /// Bytes of the value [default: 64].
    #[arg(long, value_name = "N")]
    value_size: Option<u32>,
    /// Rounds, that is samples per cell; 6 is the least for a 95 % interval.
    #[arg(long, value_name = "N")]
    count: Option<u32>,
    /// Numbers of threads, as in 1,2 [default: one, and up to all physical cores].
    #[arg(long, value_delimiter = ',', value_name = "N,N")]
    threads: Option<Vec<usize>>,
    /// Time per sample (200ms), or a number of operations (5000x).
    #[arg(long, value_name = "TIME")]
    benchtime: Option<String>,
    /// Only these designs and peers; the floor is measured in any case.
    #[arg(long, value_delimiter = ',', value_name = "NAME,NAME")]
    designs: Option<Vec<String>>,
    /// Only these phases [default: all that are measured].
    #[arg(long, value_delimiter = ',', value_name = "A,B")]
    phases: Option<Vec<String>>,
    /// One named experiment instead of the phases.
    #[arg(long, value_name = "EXPERIMENT", conflicts_with = "phases")]
    only: Option<String>,
    /// Leave the foreign crates out.
    #[arg(long)]
    no_peers: bool,
    /// Folder for the results; it must be new or empty [default: results/local/DATE-N].
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Memory allocator of the measured processes: mimalloc or system [default: mimalloc].
    #[arg(long, value_parser = plan::ALLOCATORS)]
    allocator: Option<String>,
    /// The design that by-impl.txt compares the others with [default: mutex].
    #[arg(long, value_name = "NAME")]
    base: Option<String>,
    /// Cores for the threads: auto, none, or numbers in order, as in 0,1 [default: auto].
    #[arg(long, value_name = "CORES")]
    pin: Option<String>,
    /// Seed of the order of designs and of the operations drawn [default: 1].
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Seconds after which a child process counts as hung [default: ten times its estimate and a minute].
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    timeout: Option<u64>,
    /// Measure each design against itself under a second name: the share of false alarms of this machine.
    #[arg(long)]
    aa: bool,
    /// Finish an interrupted sweep: the one in --out, or the newest in results/local.
    #[arg(long, conflicts_with_all = [
        "profile", "keys", "key_length", "value_size", "count", "threads", "benchtime", "designs", "phases", "only",
        "no_peers", "allocator", "base", "pin", "seed", "timeout", "aa", "list",
    ])]
    resume: bool,
    /// Show the plan, its cells and what they cost, and measure nothing.
    #[arg(long)]
    list: bool,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let machine = Machine::read(Path::new("/"));
    let (folder, plan, harness) = if args.resume {
        let folder = Folder::begun(args.out.as_deref())?;
        let plan = Plan::load(&folder.file("plan.json"))?;
        let harness = Harness::build()?;
        if harness.fingerprint()? != plan.harness {
            usage!(
                "{} was begun with another build of the harness (commit {}); samples of two builds do not mix: \
                 go back to that state, or begin a new sweep",
                folder.path().display(),
                plan.fact("commit").unwrap_or("unknown"),
            );
        }
        (folder, plan, harness)
    } else {
        let draft = Plan::draft(args, &machine)?;
        // Claimed before the build, so that a folder that cannot be used shows at once; given back on failure.
        let folder = if args.list {
            None
        } else {
            Some(Folder::claim(args.out.as_deref())?)
        };
        let harness = Harness::build()?;
        let inventory = harness.inventory()?;
        let plan = draft.fill(args, &harness, &inventory)?;
        let Some(folder) = folder else {
            show_cells(&plan, &inventory);
            return Ok(ExitCode::SUCCESS);
        };
        plan.save(&folder.file("plan.json"))?;
        (folder, plan, harness)
    };
    let folder = folder.keep();
    let (mut log, contents) = Log::open(&folder.file("bench.txt"))?;
    let again = args
        .resume
        .then(|| contents.samples.values().map(Vec::len).sum::<usize>());
    show_plan(&plan, &folder, again);
    for warning in machine.warnings() {
        eprintln!("warning: {warning}");
    }
    if let Some(warning) = noise::preflight().and_then(|shares| shares.warning(machine.cpus.len()))
    {
        eprintln!("warning: {warning}");
    }
    if contents.samples.is_empty() && contents.failed.is_empty() {
        log.line(&head(&plan))?;
        std::fs::write(folder.file("machine.txt"), machine.to_text())
            .context("cannot write machine.txt")?;
        let json = serde_json::to_string_pretty(&machine)? + "\n";
        std::fs::write(folder.file("machine.json"), json).context("cannot write machine.json")?;
    }

    let stop = stop_on_signal()?;
    let todo: Vec<(u32, &Unit, Vec<&Cell>)> = (1..=plan.count)
        .flat_map(|round| plan.order(round).into_iter().map(move |at| (round, at)))
        .map(|(round, at)| {
            let unit = &plan.units[at];
            (
                round,
                unit,
                unit.cells
                    .iter()
                    .filter(|cell| !contents.has(&cell.name, round))
                    .collect(),
            )
        })
        .filter(|(_, _, cells): &(_, _, Vec<_>)| !cells.is_empty())
        .collect();
    let total = todo.iter().map(|(_, _, cells)| cells.len()).sum();
    let total_ms = todo
        .iter()
        .flat_map(|(_, _, cells)| cells)
        .map(|cell| cell.ms)
        .sum();
    let begun = Instant::now();
    let before = Ticks::now();
    let mut sweep = Sweep {
        plan: &plan,
        harness: &harness,
        folder: &folder,
        log,
        progress: Progress::new(total, total_ms),
        stop: &stop,
        given_up: HashMap::new(),
        told: HashSet::new(),
    };
    for (round, unit, cells) in todo {
        if !sweep.unit(round, unit, cells)? {
            let left = sweep.progress.left_over();
            sweep.progress.clear();
            drop(sweep);
            eprintln!(
                "interrupted with {left} of {} samples to go; what was measured is kept",
                plan.samples()
            );
            eprintln!(
                "go on with: cargo xtask sweep --resume --out {}",
                folder.path().display()
            );
            return Ok(ExitCode::from(130));
        }
    }
    sweep.progress.clear();
    drop(sweep);

    let (text, failed) = report::render(folder.path())?;
    say!("{text}");
    if let (Some(before), Some(after)) = (before, Ticks::now())
        && let Some(warning) = after.since(before).warning(machine.cpus.len())
    {
        eprintln!("warning: during the sweep {warning}");
    }
    say!(
        "measured in {}; written to {}:",
        duration(begun.elapsed()),
        folder.path().display()
    );
    for name in [
        "bench.txt",
        "summary.txt",
        "by-impl.txt",
        "table.txt",
        "machine.txt",
        "machine.json",
        "plan.json",
        report::STUDY_LOCKS,
    ] {
        // Not every sweep has every file.
        if folder.file(name).is_file() {
            say!("  {}", folder.file(name).display());
        }
    }
    Ok(if failed {
        ExitCode::from(1)
    } else {
        ExitCode::SUCCESS
    })
}

/// A flag that Ctrl-C, a hang-up or a polite kill raises. A second signal ends the program on the spot.
fn stop_on_signal() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    let raised = Arc::clone(&stop);
    ctrlc::set_handler(move || {
        if raised.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
    })
    .context("cannot watch for Ctrl-C")?;
    Ok(stop)
}

/// The lines at the head of `bench.txt`.
fn head(plan: &Plan) -> String {
    let mut lines: Vec<String> = plan
        .facts
        .iter()
        .map(|(key, value)| format!("{key}: {value}"))
        .collect();
    let experiments = plan.units.iter().filter_map(|unit| match &unit.part {
        Part::Experiment(name) => Some(name.as_str()),
        Part::Phase(_) => None,
    });
    let more: BTreeSet<&str> = experiments.flat_map(experiments::units).copied().collect();
    for unit in ["ns/op", "B/op", "allocs/op"].into_iter().chain(more) {
        lines.push(format!("Unit {unit} better=lower"));
    }
    lines.join("\n") + "\n"
}

/// A sweep under way.
struct Sweep<'a> {
    plan: &'a Plan,
    harness: &'a Harness,
    folder: &'a Folder,
    log: Log,
    progress: Progress,
    stop: &'a AtomicBool,
    /// Cells that ended their process, and how: trying them again each round would only cost time.
    given_up: HashMap<String, String>,
    /// Cells whose failure the user has seen; the file has every one.
    told: HashSet<String>,
}

/// After so many processes in a row that end without dealing with a single cell, the rest is left alone.
const BARREN: u32 = 3;

impl Sweep<'_> {
    /// Measures the given cells of one unit in one round; false if the user wants to stop.
    fn unit(&mut self, round: u32, unit: &Unit, cells: Vec<&Cell>) -> Result<bool> {
        let (given_up, mut todo): (Vec<&Cell>, Vec<&Cell>) = cells
            .into_iter()
            .partition(|cell| self.given_up.contains_key(&cell.name));
        for cell in given_up {
            let reason = format!("not tried again after {}", self.given_up[&cell.name]);
            self.fail(cell, round, &reason)?;
        }
        let mut barren = 0;
        while !todo.is_empty() {
            let before = todo.len();
            let outcome = self.child(round, unit, &mut todo)?;
            match outcome.end {
                child::End::Interrupted => return Ok(false),
                _ if todo.is_empty() => break,
                // A child that died of Ctrl-C may be buried before the handler has run.
                child::End::Exited(_) => std::thread::sleep(Duration::from_millis(20)),
                child::End::TimedOut(_) => {}
            }
            if self.stop.load(Ordering::Relaxed) {
                return Ok(false);
            }
            barren = if todo.len() == before { barren + 1 } else { 0 };
            // Cells are measured in the order they were planned, so the first without a sample is the culprit.
            let reason = outcome.reason();
            let culprit = todo.remove(0);
            self.give_up(culprit, round, &reason)?;
            let usage =
                matches!(outcome.end, child::End::Exited(status) if status.code() == Some(2));
            if usage || barren == BARREN {
                for cell in todo.drain(..) {
                    self.give_up(
                        cell,
                        round,
                        &format!("not tried, since cells before it failed: {reason}"),
                    )?;
                }
            }
        }
        Ok(true)
    }

    /// Runs one process and takes the cells it deals with off `todo`.
    fn child(&mut self, round: u32, unit: &Unit, todo: &mut Vec<&Cell>) -> Result<child::Outcome> {
        let mut command = self.harness.command();
        command.args(self.plan.run_args(unit, round));
        // Under another allocator than the sweep's, a design may have more cells than those of this unit.
        if todo.len() < unit.cells.len() || unit.allocator.is_some() {
            let list = self.folder.file("cells.tmp");
            let names: String = todo
                .iter()
                .map(|cell| unit.native(&cell.name) + "\n")
                .collect();
            std::fs::write(&list, names)
                .with_context(|| format!("cannot write {}", list.display()))?;
            command.arg("--cells-from").arg(list);
        }
        let estimate: f64 = todo.iter().map(|cell| cell.ms).sum();
        let limit = match self.plan.timeout_s {
            Some(seconds) => Duration::from_secs(seconds),
            None => Duration::from_secs(60) + Duration::from_secs_f64(estimate / 1000.0 * 10.0),
        };
        let part = unit.part.name();
        self.progress.begin(format!(
            "round {round}/{} {part} {}",
            self.plan.count,
            unit.label()
        ));
        let before = Ticks::now();
        let log = &mut self.log;
        let told = &mut self.told;
        // Both closures draw, one after the other.
        let progress = std::cell::RefCell::new(&mut self.progress);
        let take = |line: &str| {
            let line = unit.labelled(line);
            let (cell, failure) = match Line::parse(&line) {
                Some(Line::Sample { cell, .. }) => (cell, None),
                Some(Line::Failed { cell, reason, .. }) => (cell, Some(reason)),
                _ if line.starts_with('#') => return log.line(&line),
                _ => return log.line(&format!("# not understood: {line}")),
            };
            let Some(at) = todo.iter().position(|planned| planned.name == cell) else {
                return log.line(&format!("# not planned: {line}"));
            };
            log.line(&line)?;
            let done = todo.remove(at);
            let mut progress = progress.borrow_mut();
            if let Some(reason) = failure
                && told.insert(cell.to_owned())
            {
                progress.note(&format!("failed: {cell}, round {round}: {reason}"));
            }
            progress.advance(done.ms);
            Ok(())
        };
        let outcome = child::run(command, limit, self.stop, take, || {
            progress.borrow_mut().draw()
        })?;
        let mut facts = serde_json::json!({
            "design": unit.label(), "part": part, "round": round, "wall_ms": outcome.wall.as_millis() as u64,
        });
        if let (Some(before), Some(after)) = (before, Ticks::now()) {
            let shares = after.since(before);
            facts["steal_ticks"] = after.steal_since(before).into();
            facts["other_load"] = ((shares.other * 1000.0).round() / 1000.0).into();
        }
        self.log.line(&format!("# child {facts}"))?;
        self.log.sync()?;
        let _ = std::fs::remove_file(self.folder.file("cells.tmp"));
        if !outcome.complaint.trim().is_empty() {
            self.folder.append(
                "stderr.log",
                &format!(
                    "== {} {part} round {round}\n{}",
                    unit.label(),
                    outcome.complaint
                ),
            )?;
        }
        Ok(outcome)
    }

    fn give_up(&mut self, cell: &Cell, round: u32, reason: &str) -> Result<()> {
        self.given_up
            .insert(cell.name.clone(), format!("in round {round} {reason}"));
        self.fail(cell, round, reason)
    }

    fn fail(&mut self, cell: &Cell, round: u32, reason: &str) -> Result<()> {
        self.log
            .line(&format!("# failed {} round={round}: {reason}", cell.name))?;
        self.progress
            .note(&format!("failed: {} round {round}: {reason}", cell.name));
        self.progress.advance(cell.ms);
        Ok(())
    }
}

/// The plan in a few lines, before anything is measured.
fn show_plan(plan: &Plan, folder: &Folder, again: Option<usize>) {
    for (key, value) in plan_lines(plan) {
        say!("{key:<10} {value}");
    }
    let mut left = plan.round_ms() * f64::from(plan.count);
    if let Some(done) = again {
        say!(
            "resumed    {done} of {} samples are there already",
            plan.samples()
        );
        left *= 1.0 - done as f64 / plan.samples().max(1) as f64;
    }
    let time = duration(Duration::from_secs_f64(left / 1000.0));
    say!(
        "takes      about {time}, for {} samples in {} processes",
        plan.samples(),
        plan.units.len() * plan.count as usize
    );
    say!("into       {}", folder.path().display());
}

fn plan_lines(plan: &Plan) -> Vec<(&'static str, String)> {
    let mut parts: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for unit in &plan.units {
        let (designs, cells) = parts.entry(unit.part.name()).or_default();
        *designs += 1;
        *cells += unit.cells.len();
    }
    let part = |(name, (designs, cells)): (&&str, &(usize, usize))| {
        format!("{name} ({designs} designs, {cells} cells)")
    };
    let only = plan
        .units
        .iter()
        .any(|unit| matches!(unit.part, Part::Experiment(_)));
    let most = plan.threads.iter().copied().max().unwrap_or(1);
    let pinned = match plan.pin.len() {
        0 => ", not pinned".to_owned(),
        cores if most > cores => format!(
            " on cpus {} (more threads than cpus: oversubscribed)",
            join(&plan.pin)
        ),
        _ => format!(" on cpus {}", join(&plan.pin[..most])),
    };
    let sweep = plan.fact("sweep").unwrap_or("local").to_owned();
    vec![
        (
            "sweep",
            if plan.aa {
                format!("{sweep}, each design against itself")
            } else {
                sweep
            },
        ),
        (
            if only { "experiment" } else { "phases" },
            parts.iter().map(part).collect::<Vec<_>>().join(", "),
        ),
        (
            "rounds",
            format!(
                "{}, designs in seeded random order (seed {})",
                plan.count, plan.seed
            ),
        ),
        (
            "map",
            format!(
                "{} keys of {} digits, values of {} bytes",
                plan.keys, plan.key_length, plan.value_size
            ),
        ),
        ("threads", format!("{}{pinned}", join(&plan.threads))),
        (
            "sample",
            format!(
                "{} (phases D and E: {}), allocator {}",
                plan.benchtime, plan.small_benchtime, plan.allocator
            ),
        ),
        (
            "base",
            format!(
                "{}; the loop itself is {}",
                plan.base,
                plan.floors.join(", ")
            ),
        ),
    ]
}

/// What `--list` prints.
fn show_cells(plan: &Plan, inventory: &Inventory) {
    for (key, value) in plan_lines(plan) {
        say!("{key:<10} {value}");
    }
    let time = |ms: f64| duration(Duration::from_secs_f64(ms / 1000.0));
    say!(
        "takes      about {} a round, {} in all",
        time(plan.round_ms()),
        time(plan.round_ms() * f64::from(plan.count))
    );
    say!("\nphases");
    for phase in &inventory.phases {
        say!(
            "  {}  {}{}",
            phase.name,
            phase.what,
            if phase.measured {
                ""
            } else {
                " (not yet measured)"
            }
        );
    }
    if !inventory.experiments.is_empty() {
        let names: Vec<&str> = inventory
            .experiments
            .iter()
            .map(|experiment| experiment.name.as_str())
            .collect();
        say!("experiments (--only)\n  {}", names.join(", "));
    }
    say!("\ncells, and the estimated cost of a sample in ms");
    for unit in &plan.units {
        for cell in &unit.cells {
            say!("  {:<64} {:>8.1}", cell.name, cell.ms);
        }
    }
}
