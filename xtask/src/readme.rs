//! `cargo xtask readme`: puts the headline table of the first reference data set between two markers in README.md.
//! The figures come from that data set and from nowhere else; `--check` tells whether they still do.

use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};

use crate::errors::{say, usage};
use crate::harness::workspace_root;
use crate::reference;
use crate::report::{Set, Workload, designs, number, workloads};
use crate::splice::Block;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Make this folder in results/ the first reference data set [default: as results/README.md has it].
    #[arg(long, value_name = "NAME", conflicts_with = "check")]
    from: Option<String>,
    /// Change nothing; fail if README.md is not what the data says.
    #[arg(long)]
    check: bool,
}

/// The base name of the core grid's cells.
const GRID: &str = "Cache";

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let root = workspace_root();
    if let Some(name) = &args.from {
        // Looked at before the list changes, so that a mistake changes nothing.
        let path = root.join("results").join(name);
        if !reference::expand(&path, &format!("results/{name}"))?
            .iter()
            .any(|place| place.path.join("plan.json").is_file())
        {
            usage!("results/{name} is no data set of a sweep: it has no plan.json");
        }
        reference::put_first(&root, name)?;
    }
    let path = root.join("README.md");
    let Ok(old) = std::fs::read_to_string(&path) else {
        usage!("cannot read {}", path.display());
    };
    let block = Block::find(&old, "README.md", "headline")?;
    let Some((set, label)) = headline_set(&root)? else {
        if args.check {
            say!(
                "results/README.md names no reference data set with a core grid, so there is nothing to check"
            );
            return Ok(ExitCode::SUCCESS);
        }
        usage!(
            "results/README.md names no data set with a core grid; name one with --from NAME, a folder in results/"
        );
    };
    let new = block.with("made by `cargo xtask readme`", &headline(&set, &label));
    if new == old {
        say!("README.md is up to date with results/{label}");
    } else if args.check {
        eprintln!("error: README.md is not what results/{label} says; run `cargo xtask readme`");
        return Ok(ExitCode::from(1));
    } else {
        std::fs::write(&path, new).with_context(|| format!("cannot write {}", path.display()))?;
        say!("README.md now shows results/{label}");
    }
    Ok(ExitCode::SUCCESS)
}

/// The first reference data set that has core grid cells, and its name.
fn headline_set(root: &Path) -> Result<Option<(Set, String)>> {
    for place in reference::sets(root)? {
        if place.path.join("plan.json").is_file() {
            let set = Set::read(&place.path)?;
            if workloads(&set).iter().any(|workload| workload.base == GRID) {
                return Ok(Some((set, place.label)));
            }
        }
    }
    Ok(None)
}

/// Medians of the core grid at its highest number of threads, as a Markdown table with the fastest of each column in bold.
fn headline(set: &Set, name: &str) -> String {
    let all: Vec<Workload<'_>> = workloads(set)
        .into_iter()
        .filter(|workload| workload.base == GRID)
        .collect();
    let most = all
        .iter()
        .map(|workload| workload.threads)
        .max()
        .unwrap_or(1);
    let columns: Vec<&Workload<'_>> = all
        .iter()
        .filter(|workload| workload.threads == most)
        .collect();
    let mut text = String::from("\n| ns/op |");
    for column in &columns {
        let values: Vec<&str> = column
            .axes
            .iter()
            .filter_map(|axis| Some(axis.split_once('=')?.1))
            .collect();
        let _ = write!(text, " {} |", values.join(" "));
    }
    text.push_str("\n|---|");
    text.push_str(&"--:|".repeat(columns.len()));
    text.push('\n');
    // A design without a figure here (it takes part in other phases alone) has no row.
    let shown = |design: &&str| columns.iter().any(|column| column.median(design).is_some());
    for design in designs(set).into_iter().filter(shown) {
        let _ = write!(text, "| {design} |");
        for column in &columns {
            let best = column.best(&set.plan.floors) == Some(design);
            let figure = column.median(design).map_or(String::new(), number);
            let bold = if best { "**" } else { "" };
            let _ = write!(text, " {bold}{figure}{bold} |");
        }
        text.push('\n');
    }
    let plan = &set.plan;
    let fact = |key: &str| plan.fact(key).unwrap_or("unknown");
    let floors = plan.floors.join(", ");
    let _ = write!(
        text,
        "\nMedians of {} rounds with {most} {} on {} ({}), {} keys, allocator {}, commit {}; \
         `{floors}` is the loop itself. \
         Intervals, the other thread counts and every sample: [results/{name}](results/{name}).\n\n",
        plan.count,
        if most == 1 { "thread" } else { "threads" },
        fact("cpu"),
        fact("os"),
        plan.keys,
        plan.allocator,
        fact("commit"),
    );
    text
}
