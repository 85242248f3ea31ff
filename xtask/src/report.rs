//! `cargo xtask report`: renders the folder of a sweep, as the sweep itself does at its end.
//!
//! Everything is derived from `bench.txt` and `plan.json`, and may be deleted and made again.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};

use crate::errors::{say, usage};
use crate::experiments;
use crate::stats::{self, Summary};
use crate::sweep::log::{Contents, Sample};
use crate::sweep::newest;
use crate::sweep::plan::Plan;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The folder of a sweep [default: the newest in results/local].
    folder: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let folder = match &args.folder {
        Some(folder) => folder.clone(),
        None => match newest()? {
            Some(folder) => folder,
            None => usage!("there is no sweep in results/local; name a folder"),
        },
    };
    let (text, failed) = render(&folder)?;
    say!("{text}");
    Ok(if failed {
        ExitCode::from(1)
    } else {
        ExitCode::SUCCESS
    })
}

/// A sweep's folder, read.
pub(crate) struct Set {
    pub(crate) plan: Plan,
    pub(crate) contents: Contents,
}

impl Set {
    /// Reads plan and samples.
    pub(crate) fn read(folder: &Path) -> Result<Set> {
        let plan = Plan::load(&folder.join("plan.json"))?;
        let path = folder.join("bench.txt");
        let Ok(text) = std::fs::read(&path) else {
            usage!("cannot read {}", path.display())
        };
        Ok(Set {
            plan,
            contents: Contents::parse(&String::from_utf8_lossy(&text)),
        })
    }
}

/// Writes `summary.txt`, `by-impl.txt` and `table.txt`; returns the table, and whether a cell failed.
pub(crate) fn render(folder: &Path) -> Result<(String, bool)> {
    let set = Set::read(folder)?;
    let mut text = table(&set);
    text.push_str(&experiments::sections(&set));
    let failed = failures(&set, &mut text);
    if set.plan.aa {
        text.push_str(&against_itself(&set));
    }
    write(folder, "table.txt", &text)?;
    let csv = published(&set);
    if !csv.is_empty() {
        write(folder, STUDY_LOCKS, &csv)?;
    }
    // The samples in the order of the plan: rows and columns follow first appearance, and rounds are shuffled.
    let bench = in_order(&set);
    let label = "bench.txt";
    // A sweep in which every cell failed has nothing to compare, and its reasons stand in table.txt.
    let or_reason = |rendered: Result<String, bench_compare::error::Error>| match rendered {
        Ok(text) => text,
        Err(error) => format!("{error}\n"),
    };
    write(
        folder,
        "summary.txt",
        &or_reason(bench_compare::render_summary(bench.as_bytes(), label)),
    )?;
    let base = measured(&set, &set.plan.base).then_some(set.plan.base.as_str());
    write(
        folder,
        "by-impl.txt",
        &or_reason(bench_compare::render_by_impl(bench.as_bytes(), label, base)),
    )?;
    Ok((text.trim_end().to_owned(), failed))
}

fn write(folder: &Path, name: &str, text: &str) -> Result<()> {
    let path = folder.join(name);
    std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// The lines of `bench.txt` by cell instead of by time; the figures are those that benchstat finds in the file.
fn in_order(set: &Set) -> String {
    let mut text = set.contents.head.clone();
    for cell in set.plan.units.iter().flat_map(|unit| &unit.cells) {
        for sample in set.contents.samples.get(&cell.name).into_iter().flatten() {
            let _ = writeln!(
                text,
                "# begin round={}\n{}\n# end",
                sample.round, sample.line
            );
        }
    }
    for ((cell, round), reason) in &set.contents.failed {
        let _ = writeln!(text, "# failed {cell} round={round}: {reason}");
    }
    text
}

/// The file with the lines of a published table; only where such a table was measured.
pub(crate) const STUDY_LOCKS: &str = "study-locks.csv";

/// A line per cell as the published program prints it, its time the median of our rounds.
fn published(set: &Set) -> String {
    let mut text = String::new();
    for cell in set.plan.units.iter().flat_map(|unit| &unit.cells) {
        let samples = set.contents.samples.get(&cell.name);
        let of = |sample: &Sample| {
            sample
                .csv()?
                .rsplit_once(',')
                .map(|(key, _)| key.to_owned())
        };
        if let Some(samples) = samples
            && let Some(key) = samples.iter().find_map(of)
            && let Some(Summary { median, .. }) = stats::summary(&times(samples))
        {
            let _ = writeln!(text, "{key},{median:.1}");
        }
    }
    text
}

/// Whether a design has any sample.
fn measured(set: &Set, design: &str) -> bool {
    set.contents
        .cells
        .iter()
        .any(|cell| Name::parse(cell).design == design)
}

/// A cell name taken apart.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Name<'a> {
    pub(crate) base: &'a str,
    pub(crate) design: &'a str,
    /// The axes behind the design, as `key=value`.
    pub(crate) axes: Vec<&'a str>,
    pub(crate) threads: usize,
}

impl<'a> Name<'a> {
    /// `Cache/impl=sharded/dist=zipf/mix=r90-2` as its parts.
    pub(crate) fn parse(cell: &'a str) -> Name<'a> {
        let suffix = cell
            .rsplit_once('-')
            .and_then(|(name, threads)| Some((name, threads.parse().ok()?)));
        let (name, threads) = suffix.unwrap_or((cell, 1));
        let mut parts = name.split('/');
        let base = parts.next().unwrap_or_default();
        let mut design = "";
        let mut axes = Vec::new();
        for part in parts {
            match part.strip_prefix("impl=") {
                Some(name) if design.is_empty() => design = name,
                _ => axes.push(part),
            }
        }
        Name {
            base,
            design,
            axes,
            threads,
        }
    }

    /// The values of the axes alone, with the threads where there are several: `zipf/r90-2`.
    pub(crate) fn short(&self) -> String {
        let values: Vec<&str> = self.axes.iter().map(|axis| value(axis)).collect();
        if self.threads == 1 {
            values.join("/")
        } else {
            format!("{}-{}", values.join("/"), self.threads)
        }
    }
}

fn value(axis: &str) -> &str {
    axis.split_once('=').map_or(axis, |(_, value)| value)
}

/// The nanoseconds of all samples.
pub(crate) fn times(samples: &[Sample]) -> Vec<f64> {
    samples.iter().map(|sample| sample.ns_per_op).collect()
}

/// What is shown of one design in one workload.
struct Shown {
    times: Vec<f64>,
    summary: Option<Summary>,
    failed: bool,
}

/// Designs measured under one workload: everything in a cell's name but the design.
pub(crate) struct Workload<'a> {
    pub(crate) base: &'a str,
    pub(crate) axes: Vec<&'a str>,
    pub(crate) threads: usize,
    shown: BTreeMap<&'a str, Shown>,
}

impl Workload<'_> {
    fn short(&self) -> String {
        Name {
            base: self.base,
            design: "",
            axes: self.axes.clone(),
            threads: self.threads,
        }
        .short()
    }

    /// Designs by median, the fastest first, without the floors.
    fn ranking(&self, floors: &[String]) -> Vec<(&str, Summary)> {
        let mut ranking: Vec<(&str, Summary)> = self
            .shown
            .iter()
            .filter(|(design, _)| !floors.iter().any(|floor| is_floor(design, floor)))
            .filter_map(|(design, shown)| Some((*design, shown.summary?)))
            .collect();
        ranking.sort_by(|a, b| a.1.median.total_cmp(&b.1.median));
        ranking
    }

    pub(crate) fn median(&self, design: &str) -> Option<f64> {
        self.shown
            .get(design)?
            .summary
            .map(|summary| summary.median)
    }

    pub(crate) fn best(&self, floors: &[String]) -> Option<&str> {
        self.ranking(floors).first().map(|(design, _)| *design)
    }

    fn p(&self, a: &str, b: &str) -> f64 {
        match (self.shown.get(a), self.shown.get(b)) {
            (Some(a), Some(b)) => stats::p_value(&a.times, &b.times),
            _ => 1.0,
        }
    }
}

fn is_floor(design: &str, floor: &str) -> bool {
    design.strip_suffix(".again").unwrap_or(design) == floor
}

/// Below this a difference counts as real.
const ALPHA: f64 = 0.05;

/// An interval wider than this, to either side, is marked.
const WIDE: f64 = 0.05;

/// The workloads in the order the plan names them.
pub(crate) fn workloads(set: &Set) -> Vec<Workload<'_>> {
    let mut workloads: Vec<Workload<'_>> = Vec::new();
    for cell in set.plan.units.iter().flat_map(|unit| &unit.cells) {
        let name = Name::parse(&cell.name);
        let known = workloads.iter().position(|workload| {
            workload.base == name.base
                && workload.axes == name.axes
                && workload.threads == name.threads
        });
        let at = known.unwrap_or_else(|| {
            let Name {
                base,
                axes,
                threads,
                ..
            } = name.clone();
            workloads.push(Workload {
                base,
                axes,
                threads,
                shown: BTreeMap::new(),
            });
            workloads.len() - 1
        });
        let times = set
            .contents
            .samples
            .get(&cell.name)
            .map(|samples| times(samples))
            .unwrap_or_default();
        let failed = (1..=set.plan.count).any(|round| {
            set.contents
                .failed
                .contains_key(&(cell.name.clone(), round))
        });
        let summary = stats::summary(&times);
        workloads[at].shown.insert(
            name.design,
            Shown {
                times,
                summary,
                failed,
            },
        );
    }
    workloads
}

/// What stands as `impl` in the names of cells, in the order of the plan, the floors last: designs, or what an
/// experiment compares instead.
pub(crate) fn designs(set: &Set) -> Vec<&str> {
    let mut designs: Vec<&str> = Vec::new();
    for cell in set.plan.units.iter().flat_map(|unit| &unit.cells) {
        let design = Name::parse(&cell.name).design;
        if !designs.contains(&design) {
            designs.push(design);
        }
    }
    designs.sort_by_key(|design| set.plan.floors.iter().any(|floor| is_floor(design, floor)));
    designs
}

/// Medians of designs by workload: a block for each of all axes but the last, and number of threads.
fn table(set: &Set) -> String {
    let workloads = workloads(set);
    let designs = designs(set);
    let floors = &set.plan.floors;
    let mut text = String::new();
    let mut blocks: Vec<(String, Vec<&Workload<'_>>)> = Vec::new();
    for workload in &workloads {
        let (_, outer) = workload.axes.split_last().unwrap_or((&"", &[]));
        let threads = if workload.threads == 1 {
            "1 thread".to_owned()
        } else {
            format!("{} threads", workload.threads)
        };
        let outer: String = outer.iter().map(|axis| format!("{axis}, ")).collect();
        let title = format!("{}, {outer}{threads}", workload.base);
        match blocks.iter_mut().find(|(known, _)| *known == title) {
            Some((_, block)) => block.push(workload),
            None => blocks.push((title, vec![workload])),
        }
    }
    for (title, block) in &blocks {
        let _ = write!(text, "{title}: ns/op\n{:<18}", "");
        for workload in block {
            let _ = write!(
                text,
                "{:>14}",
                workload.axes.last().map_or("", |axis| value(axis))
            );
        }
        text.push('\n');
        for design in &designs {
            let name = if floors.iter().any(|floor| is_floor(design, floor)) {
                format!("({design})")
            } else {
                (*design).to_owned()
            };
            let mut line = format!("{name:<18}");
            let mut any = false;
            for workload in block {
                any |= workload.shown.contains_key(design);
                let _ = write!(line, "{:>14}", entry(workload, design, floors));
            }
            if any {
                text.push_str(line.trim_end());
                text.push('\n');
            }
        }
        text.push('\n');
    }
    let marks = "* fastest   = not to be told from the fastest   ! interval wider than ± 5 %";
    let _ = writeln!(text, "{marks}");
    let floors = floors.join(", ");
    let _ = writeln!(
        text,
        "median ± half of the 95 % interval over {} rounds; ({floors}) is the loop itself\n",
        set.plan.count
    );
    text.push_str(&verdict(&workloads, &set.plan.floors));
    text
}

/// `61.30 ± 2%*`
fn entry(workload: &Workload<'_>, design: &str, floors: &[String]) -> String {
    let Some(shown) = workload.shown.get(design) else {
        return String::new();
    };
    let Some(Summary { median, spread }) = shown.summary else {
        return if shown.failed {
            "failed ".to_owned()
        } else {
            "- ".to_owned()
        };
    };
    let spread = if spread.is_finite() {
        format!("{:.0}%", spread * 100.0)
    } else {
        "∞".to_owned()
    };
    let ranking = workload.ranking(floors);
    let ranked = ranking.iter().any(|(name, _)| *name == design);
    let mark = match ranking.first() {
        Some((best, _)) if *best == design => "*",
        Some((best, _)) if ranked && workload.p(best, design) >= ALPHA => "=",
        _ => " ",
    };
    let wide = shown.summary.is_some_and(|summary| summary.spread > WIDE);
    let wide = if shown.failed {
        "†"
    } else if wide {
        "!"
    } else {
        ""
    };
    format!("{} ±{spread:>3}{wide}{mark}", number(median))
}

/// Four significant digits, with a unit from a microsecond on.
pub(crate) fn number(ns: f64) -> String {
    let (value, unit) = match ns {
        ..1e3 => (ns, ""),
        1e3..1e6 => (ns / 1e3, "µs"),
        1e6..1e9 => (ns / 1e6, "ms"),
        _ => (ns / 1e9, "s"),
    };
    let decimals = match value {
        ..10.0 => 2,
        10.0..100.0 => 1,
        _ => 0,
    };
    format!("{value:.decimals$}{unit}")
}

/// What wins where, and whether that is more than chance.
fn verdict(workloads: &[Workload<'_>], floors: &[String]) -> String {
    struct Wins<'a> {
        design: &'a str,
        cells: Vec<String>,
        leads: Vec<f64>,
        real: usize,
    }
    let mut wins: Vec<Wins<'_>> = Vec::new();
    let mut contested = 0;
    for workload in workloads {
        let ranking = workload.ranking(floors);
        let [(best, first), (next, second), ..] = ranking.as_slice() else {
            continue;
        };
        contested += 1;
        let at = wins
            .iter()
            .position(|wins| wins.design == *best)
            .unwrap_or_else(|| {
                wins.push(Wins {
                    design: best,
                    cells: Vec::new(),
                    leads: Vec::new(),
                    real: 0,
                });
                wins.len() - 1
            });
        wins[at].cells.push(workload.short());
        wins[at]
            .leads
            .push((second.median / first.median - 1.0) * 100.0);
        wins[at].real += usize::from(workload.p(best, next) < ALPHA);
    }
    wins.sort_by_key(|wins| std::cmp::Reverse(wins.cells.len()));
    let mut text = String::new();
    for Wins {
        design,
        cells,
        leads,
        real,
    } in wins
    {
        let count = cells.len();
        let least = leads.iter().copied().fold(f64::INFINITY, f64::min);
        let most = leads.iter().copied().fold(0.0, f64::max);
        let lead = if count == 1 {
            format!("{most:.0} %")
        } else {
            format!("{least:.0} to {most:.0} %")
        };
        let real = match real {
            0 => "a lead that may be chance".to_owned(),
            all if all == count => "a real difference".to_owned(),
            some => format!("a real difference in {some} of them"),
        };
        let cells = cells.join(", ");
        let _ = writeln!(
            text,
            "{design} is fastest in {count} of {contested} cells, by {lead} over the next, {real}: {cells}."
        );
    }
    if !text.is_empty() {
        let _ = writeln!(
            text,
            "(Real: Mann-Whitney U, p < 0.05 in that one comparison; on this machine, as set above.)"
        );
    }
    text
}

/// Appends the failed cells; true if there are any.
fn failures(set: &Set, text: &mut String) -> bool {
    let mut cells: BTreeMap<&str, (usize, &str)> = BTreeMap::new();
    for ((cell, _), reason) in &set.contents.failed {
        cells.entry(cell).or_insert((0, reason)).0 += 1;
    }
    if cells.is_empty() {
        return false;
    }
    let _ = writeln!(
        text,
        "\n{} cells failed († in the table: some rounds did):",
        cells.len()
    );
    for (cell, (rounds, reason)) in &cells {
        let _ = writeln!(
            text,
            "  {cell}: {rounds} of {} rounds: {reason}",
            set.plan.count
        );
    }
    true
}

/// How often a design differs from itself.
fn against_itself(set: &Set) -> String {
    let workloads = workloads(set);
    let (mut pairs, mut differ) = (0, Vec::new());
    for workload in &workloads {
        for design in workload.shown.keys() {
            let again = format!("{design}.again");
            if workload
                .shown
                .get(again.as_str())
                .is_some_and(|shown| shown.summary.is_some())
            {
                pairs += 1;
                if workload.p(design, &again) < ALPHA {
                    differ.push(format!("{design} {}", workload.short()));
                }
            }
        }
    }
    let share = differ.len() as f64 * 100.0 / f64::from(pairs.max(1));
    let list = if differ.is_empty() {
        String::new()
    } else {
        format!(": {}", differ.join(", "))
    };
    format!(
        "\nA/A: {} of {pairs} cells differ from themselves at p < 0.05, {share:.1} % (chance alone: 5 %){list}\n",
        differ.len()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_apart() {
        let name = Name::parse("Cache/impl=sharded/dist=zipf/mix=r90-2");
        assert_eq!(
            (name.base, name.design, name.threads),
            ("Cache", "sharded", 2)
        );
        assert_eq!(name.axes, ["dist=zipf", "mix=r90"]);
        assert_eq!(name.short(), "zipf/r90-2");
        assert_eq!(Name::parse("Cache/impl=dashmap-256/mix=r90").threads, 1);
    }

    #[test]
    fn numbers_fit_their_column() {
        let texts = [0.3141, 61.34, 173.2, 16_619.0, 16_619_550.0, 2.5e9].map(number);
        assert_eq!(texts, ["0.31", "61.3", "173", "16.6µs", "16.6ms", "2.50s"]);
    }
}
