//! `cargo xtask readme`: puts the headline table of a committed data set between two markers in README.md.
//! The figures come from that data set and from nowhere else; `--check` tells whether they still do.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

use crate::errors::{say, usage};
use crate::harness::workspace_root;
use crate::report::{Set, Workload, designs, number, workloads};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The data set, a folder in results/ [default: the one README.md names already].
    #[arg(long, value_name = "NAME")]
    from: Option<String>,
    /// Change nothing; fail if README.md is not what the data says.
    #[arg(long)]
    check: bool,
}

const BEGIN: &str = "<!-- BEGIN headline";
const END: &str = "<!-- END headline -->";

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let path = workspace_root().join("README.md");
    let old = std::fs::read_to_string(&path)
        .with_context(|| format!("cannot read {}", path.display()))?;
    let (Some(begin), Some(end)) = (old.find(BEGIN), old.find(END)) else {
        bail!("README.md has no line `{BEGIN} ... -->` with a line `{END}` after it");
    };
    if end < begin {
        bail!("README.md has its END marker before its BEGIN marker");
    }
    let marker = old[begin..end].lines().next().unwrap_or_default();
    let named = marker
        .split_whitespace()
        .find_map(|word| word.strip_prefix("results/"));
    let Some(name) = args.from.as_deref().or(named) else {
        if args.check {
            say!("README.md names no data set, so there is nothing to check");
            return Ok(ExitCode::SUCCESS);
        }
        usage!("README.md names no data set yet; name one with --from NAME, a folder in results/");
    };
    let folder: PathBuf = workspace_root().join("results").join(name);
    if !folder.join("plan.json").is_file() {
        usage!("results/{name} is no data set: it has no plan.json");
    }
    let table = headline(&Set::read(&folder)?, name);
    let new = format!(
        "{}{BEGIN} results/{name} (made by `cargo xtask readme`) -->\n{table}{}",
        &old[..begin],
        &old[end..]
    );
    if new == old {
        say!("README.md is up to date with results/{name}");
    } else if args.check {
        eprintln!("error: README.md is not what results/{name} says; run `cargo xtask readme`");
        return Ok(ExitCode::from(1));
    } else {
        std::fs::write(&path, new).with_context(|| format!("cannot write {}", path.display()))?;
        say!("README.md now shows results/{name}");
    }
    Ok(ExitCode::SUCCESS)
}

/// Medians at the highest number of threads, as a Markdown table with the fastest of each column in bold.
fn headline(set: &Set, name: &str) -> String {
    let all = workloads(set);
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
    for design in designs(set) {
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
