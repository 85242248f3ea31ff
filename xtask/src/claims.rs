//! `cargo xtask claims`: what published texts on this subject say, set against what was measured here. Each claim is a
//! bound on quantities of a data set (`claims/study.rs`), and an interval over rounds decides. No figure is written by
//! hand, and no figure of one data set is divided by one of another.

mod data;
mod judge;
mod study;

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};

use crate::errors::{say, usage};
use crate::harness::workspace_root;
use crate::reference::{self, Place};
use crate::splice::Block;
use data::Data;
use judge::{Judged, Unfit, Verdict, judge};
use study::{CLAIMS, Claim};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Data sets to judge by: folders of sweeps, folders of such folders, or files of benchmark lines. The table is
    /// then printed [default: the reference data sets, and the table goes into results/README.md].
    #[arg(value_name = "DIR|FILE")]
    sets: Vec<PathBuf>,
    /// Change nothing; fail if results/README.md is not what the reference data sets say.
    #[arg(long, conflicts_with = "sets")]
    check: bool,
}

/// The document that holds the table.
const DOCUMENT: &str = "results/README.md";

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    if !args.sets.is_empty() {
        let mut places = Vec::new();
        for path in &args.sets {
            places.extend(reference::expand(path, &path.to_string_lossy())?);
        }
        say!("{}", table(&read(&places)?, false).trim_end());
        return Ok(ExitCode::SUCCESS);
    }
    let root = workspace_root();
    let path = root.join(DOCUMENT);
    let Ok(old) = std::fs::read_to_string(&path) else {
        usage!("cannot read {DOCUMENT}");
    };
    let block = Block::find(&old, DOCUMENT, "claims")?;
    let sets = read(&reference::sets(&root)?)?;
    let new = block.with("made by `cargo xtask claims`", &table(&sets, true));
    if new == old {
        say!("{DOCUMENT} is up to date: {}", summary(&judge_all(&sets)));
    } else if args.check {
        eprintln!(
            "error: {DOCUMENT} is not what the reference data sets say; run `cargo xtask claims`"
        );
        return Ok(ExitCode::from(1));
    } else {
        std::fs::write(&path, new).with_context(|| format!("cannot write {DOCUMENT}"))?;
        say!("{DOCUMENT} now shows {}", summary(&judge_all(&sets)));
    }
    Ok(ExitCode::SUCCESS)
}

fn read(places: &[Place]) -> Result<Vec<Data>> {
    places.iter().map(Data::read).collect()
}

/// What became of a claim, and the data set that says so.
struct Row<'a> {
    claim: &'static Claim,
    judged: Judged,
    set: Option<&'a Data>,
}

/// Every claim on the first data set that has all it takes.
fn judge_all(sets: &[Data]) -> Vec<Row<'_>> {
    CLAIMS.iter().map(|claim| judge_one(claim, sets)).collect()
}

fn judge_one<'a>(claim: &'static Claim, sets: &'a [Data]) -> Row<'a> {
    let without = |verdict: Verdict| Row {
        claim,
        judged: Judged {
            verdict,
            figure: String::new(),
        },
        set: None,
    };
    let mut not_here = None;
    for set in sets {
        match (claim.checks)(set).and_then(|checks| judge(&checks, set)) {
            Ok(judged) => {
                return Row {
                    claim,
                    judged,
                    set: Some(set),
                };
            }
            Err(Unfit::NotHere(why)) => not_here = not_here.or(Some(why)),
            Err(Unfit::NoData(_)) => {}
        }
    }
    if claim.command.is_empty()
        && let Err(Unfit::NotHere(why)) = (claim.checks)(&Data::default())
    {
        return without(Verdict::NotHere(why));
    }
    without(match not_here {
        Some(why) => Verdict::NotHere(why),
        None => Verdict::NoData(claim.command.to_owned()),
    })
}

/// `55 claims: 30 confirmed, 12 refuted, …`
fn summary(rows: &[Row<'_>]) -> String {
    let count =
        |of: fn(&Verdict) -> bool| rows.iter().filter(|row| of(&row.judged.verdict)).count();
    format!(
        "{} claims: {} confirmed, {} refuted, {} undecided, {} not testable on this machine, {} without data",
        rows.len(),
        count(|verdict| *verdict == Verdict::Confirmed),
        count(|verdict| *verdict == Verdict::Refuted),
        count(|verdict| matches!(verdict, Verdict::Undecided(_))),
        count(|verdict| matches!(verdict, Verdict::NotHere(_))),
        count(|verdict| matches!(verdict, Verdict::NoData(_))),
    )
}

/// The whole text between the markers.
fn table(sets: &[Data], linked: bool) -> String {
    let name = |set: &Data| {
        if linked {
            format!("[{0}]({0})", set.label)
        } else {
            format!("`{}`", set.label)
        }
    };
    let rows = judge_all(sets);
    let mut text = format!("\n{}.\n\n", summary(&rows));
    for set in sets {
        let fact = |key: &str| set.facts.get(key).map_or("unknown", String::as_str);
        let _ = writeln!(
            text,
            "- {}: {}, {} cores, {} keys, allocator {}, commit {}",
            name(set),
            fact("cpu"),
            fact("cores"),
            fact("keys"),
            fact("allocator"),
            fact("commit"),
        );
    }
    if !sets.is_empty() {
        text.push('\n');
    }
    text.push_str("| claim | source | our figure | verdict |\n|---|---|---|---|\n");
    for Row { claim, judged, set } in &rows {
        let verdict = match &judged.verdict {
            Verdict::Confirmed => "**confirmed**".to_owned(),
            Verdict::Refuted => "**refuted**".to_owned(),
            Verdict::Undecided(why) => format!("undecided: {why}"),
            Verdict::NotHere(why) => format!("not testable on this machine: {why}"),
            Verdict::NoData(command) => format!("no data: `{command}`"),
        };
        let figure = match set {
            Some(set) if sets.len() > 1 => format!("{} (in {})", judged.figure, name(set)),
            _ => judged.figure.clone(),
        };
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} |",
            claim.words,
            claim.source,
            if figure.is_empty() { "–" } else { &figure },
            verdict
        );
    }
    text.push_str(
        "\n× is a ratio of medians within one data set; times unless it says bytes. In parentheses: its 95 % interval \
         over the rounds (Hodges and Lehmann, on the rounds' own ratios), and where the claim puts it. \
         A claim is confirmed when all its intervals lie where it says, refuted when one lies outside.\n\n",
    );
    text
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::judge::{Bound, Check};
    use super::*;

    type Figures = BTreeMap<(String, String), f64>;

    const FACTS: &[(&str, &str)] = &[("cores", "32"), ("cpu", "Example"), ("keys", "1000")];
    const UNITS: [&str; 3] = ["ns/op", "B/op", "allocs/op"];

    /// A data set with every cell that a claim may ask for, all figures alike.
    fn universe() -> Figures {
        let designs = [
            "naive",
            "mutex",
            "rwlock",
            "sharded",
            "sharded-rw",
            "cow",
            "hamt",
            "hamt256",
            "ctrie",
            "actor",
        ];
        let mixes = ["r100", "r90", "r50", "r10"];
        let mut paths: Vec<(String, &[usize])> = Vec::new();
        for design in designs {
            for mix in mixes {
                for dist in ["uniform", "zipf"] {
                    paths.push((
                        format!("Cache/impl={design}/dist={dist}/mix={mix}"),
                        &[1, 8, 32],
                    ));
                    paths.push((
                        format!("Sequential/impl={design}/dist={dist}/mix={mix}"),
                        &[1],
                    ));
                }
                for attack in ["none", "sharded-1", "sharded-8", "hamt256-1"] {
                    let path = format!("Adversarial/impl={design}/attack={attack}/mix={mix}");
                    paths.push((path, &[1, 8, 32, 128]));
                }
                for size in [16, 64, 4096] {
                    paths.push((
                        format!("ValueSize/impl={design}/size={size}/mix={mix}"),
                        &[1, 32],
                    ));
                }
                for shards in [1, 16, 64, 256, 1024, 4096] {
                    let path = format!("ShardCount/impl={design}/shards={shards}/mix={mix}");
                    paths.push((path, &[1, 32]));
                }
                for width in [8, 16, 32, 64] {
                    paths.push((
                        format!("TrieWidth/impl={design}/width={width}/mix={mix}"),
                        &[1, 32],
                    ));
                }
                for ablation in ABLATIONS {
                    let path = format!("Ablation/impl={design}/{ablation}/mix={mix}");
                    paths.push((path, &[1, 32]));
                }
                paths.push((
                    format!("Oversubscribe/impl={design}/mix={mix}"),
                    &[8, 64, 1024],
                ));
            }
            for reads in [100, 90, 50, 10] {
                paths.push((
                    format!("StudyLocks/impl={design}/reads={reads}"),
                    &[1, 2, 4, 8],
                ));
            }
            for mode in [
                "loop", "serial", "prefetch", "parallel", "actor", "snapshot",
            ] {
                for size in [16, 4096, 65_536] {
                    paths.push((format!("Batch/impl={design}/mode={mode}/size={size}"), &[1]));
                }
            }
        }
        paths.extend(ZEROINGS.map(|path| (path.to_owned(), &[1][..])));
        let mut figures = Figures::new();
        for (path, threads) in paths {
            for &threads in threads {
                for unit in UNITS {
                    let cell = data::cell(path.clone(), threads);
                    figures.insert((cell, unit.to_owned()), 100.0);
                }
            }
        }
        figures
    }

    const ABLATIONS: [&str; 6] = [
        "what=padding/variant=on",
        "what=padding/variant=off",
        "what=unlock/variant=early",
        "what=unlock/variant=scope",
        "what=bits/variant=apart",
        "what=bits/variant=bucket",
    ];
    const ZEROINGS: [&str; 8] = [
        "Zeroing/impl=zeroed/where=alone/allocator=mimalloc",
        "Zeroing/impl=extend/where=alone/allocator=mimalloc",
        "Zeroing/impl=zeroed/where=alone/allocator=system",
        "Zeroing/impl=extend/where=alone/allocator=system",
        "Zeroing/impl=zeroed/where=insert/allocator=mimalloc",
        "Zeroing/impl=extend/where=insert/allocator=mimalloc",
        "Zeroing/impl=zeroed/where=insert/allocator=system",
        "Zeroing/impl=extend/where=insert/allocator=system",
    ];

    /// Moves figures until every check holds: each one that does not is moved to the middle of its bound, along the
    /// powers of its cells.
    fn solve(mut figures: Figures, checks: impl Fn(&Data) -> Vec<(Check, Bound)>) -> Figures {
        for _ in 0..2000 {
            // One round: which cells a claim looks at may depend on medians, never on intervals.
            let data = Data::made_up(FACTS, &figures, 1);
            let mut moved = false;
            for (check, bound) in checks(&data) {
                let unit = check.quantity.unit.to_owned();
                let log = |(cell, power): &(String, f64)| {
                    power
                        * figures[&(cell.clone(), unit.clone())]
                            .max(check.quantity.least())
                            .ln()
                };
                let value: f64 = check.quantity.terms.iter().map(log).sum();
                let (target, inside) = match bound {
                    Bound::Above(least) => (least.ln() + 0.1, value > least.ln() + 0.05),
                    Bound::Below(most) => (most.ln() - 0.1, value < most.ln() - 0.05),
                    Bound::Within(least, most) => {
                        let (middle, half) = ((least * most).ln() / 2.0, (most / least).ln() / 2.0);
                        (middle, (value - middle).abs() < 0.7 * half)
                    }
                };
                if inside {
                    continue;
                }
                moved = true;
                let length: f64 = check
                    .quantity
                    .terms
                    .iter()
                    .map(|(_, power)| power * power)
                    .sum();
                for (cell, power) in &check.quantity.terms {
                    let figure = figures
                        .get_mut(&(cell.clone(), check.quantity.unit.to_owned()))
                        .expect("all cells are there");
                    *figure *= ((target - value) * power / length).exp();
                }
            }
            if !moved {
                break;
            }
        }
        figures
    }

    /// The bound that a check breaks when it lies in this one.
    fn opposite(bound: Bound) -> Bound {
        match bound {
            Bound::Above(least) => Bound::Below(least),
            Bound::Below(most) => Bound::Above(most),
            Bound::Within(_, most) => Bound::Above(most),
        }
    }

    /// The part of the universe that a claim is about: all cells of the bases that it looks at.
    fn about(claim: &Claim, universe: &Figures) -> Figures {
        let data = Data::made_up(FACTS, universe, 1);
        let base = |cell: &str| cell.split('/').next().unwrap_or_default().to_owned();
        let bases: BTreeSet<String> = checks_of(claim, &data)
            .iter()
            .flat_map(|check| check.quantity.terms.iter().map(|(cell, _)| base(cell)))
            .collect();
        let part = universe
            .iter()
            .filter(|((cell, _), _)| bases.contains(&base(cell)));
        part.map(|(key, &figure)| (key.clone(), figure)).collect()
    }

    fn checks_of(claim: &Claim, data: &Data) -> Vec<Check> {
        (claim.checks)(data).unwrap_or_else(|unfit| panic!("{}: {unfit:?}", claim.id))
    }

    fn testable() -> impl Iterator<Item = &'static Claim> {
        CLAIMS.iter().filter(|claim| !claim.command.is_empty())
    }

    #[test]
    fn every_claim_can_be_confirmed() {
        let universe = universe();
        for claim in testable() {
            let figures = solve(about(claim, &universe), |data| {
                let with_bound = |check: Check| (check.clone(), check.bound);
                checks_of(claim, data).into_iter().map(with_bound).collect()
            });
            let sets = [Data::made_up(FACTS, &figures, 10)];
            let judged = judge_one(claim, &sets).judged;
            assert_eq!(
                judged.verdict,
                Verdict::Confirmed,
                "{}: {}",
                claim.id,
                judged.figure
            );
            assert!(
                judged.figure.contains("claim: "),
                "{}: {}",
                claim.id,
                judged.figure
            );
        }
    }

    #[test]
    fn every_claim_can_be_refuted_by_its_first_check() {
        let universe = universe();
        for claim in testable() {
            let figures = solve(about(claim, &universe), |data| {
                let first = checks_of(claim, data).remove(0);
                let bound = opposite(first.bound);
                vec![(first, bound)]
            });
            let sets = [Data::made_up(FACTS, &figures, 10)];
            let judged = judge_one(claim, &sets).judged;
            assert_eq!(
                judged.verdict,
                Verdict::Refuted,
                "{}: {}",
                claim.id,
                judged.figure
            );
        }
    }

    #[test]
    fn few_rounds_decide_nothing() {
        let sets = [Data::made_up(FACTS, &universe(), 5)];
        for claim in testable() {
            let verdict = judge_one(claim, &sets).judged.verdict;
            assert!(
                matches!(verdict, Verdict::Undecided(_)),
                "{}: {verdict:?}",
                claim.id
            );
        }
    }

    #[test]
    fn claims_without_data_name_the_command_that_makes_it() {
        for row in judge_all(&[]) {
            match row.judged.verdict {
                Verdict::NoData(command) => {
                    assert!(
                        command.starts_with("cargo xtask sweep "),
                        "{}",
                        row.claim.id
                    );
                }
                Verdict::NotHere(why) => assert!(
                    row.claim.command.is_empty() && !why.is_empty(),
                    "{}",
                    row.claim.id
                ),
                verdict => panic!("{}: {verdict:?}", row.claim.id),
            }
        }
    }

    #[test]
    fn small_machines_are_not_asked_what_takes_many_cores() {
        let facts = [("cores", "2")];
        let few: Figures = universe()
            .into_iter()
            .map(|((cell, unit), figure)| ((cell.replace("-32", "-2"), unit), figure))
            .filter(|((cell, _), _)| !cell.starts_with("Cache/") || !cell.ends_with("-8"))
            .collect();
        let sets = [Data::made_up(&facts, &few, 10)];
        let not_here: BTreeSet<&str> = judge_all(&sets)
            .iter()
            .filter(|row| matches!(row.judged.verdict, Verdict::NotHere(_)))
            .map(|row| row.claim.id)
            .collect();
        let expected = [
            "attack-crossover",
            "convoy-worsens",
            "ctrie-near-sharded",
            "http-converges",
            "http-hides-it",
            "rwlock-plateau",
            "sharded-saturates",
            "sync-map-geomean",
            "sync-map-reads",
        ];
        assert_eq!(not_here, BTreeSet::from(expected));
    }

    #[test]
    fn a_claim_is_judged_within_one_data_set() {
        let claim = CLAIMS
            .iter()
            .find(|claim| claim.id == "cow-writes")
            .expect("it is there");
        let half = |design: &str| -> Data {
            let wanted = format!("/impl={design}/");
            let part = universe()
                .into_iter()
                .filter(|((cell, _), _)| cell.contains(&wanted));
            Data::made_up(FACTS, &part.collect(), 10)
        };
        let sets = [half("cow"), half("sharded")];
        let verdict = judge_one(claim, &sets).judged.verdict;
        assert!(matches!(verdict, Verdict::NoData(_)), "{verdict:?}");
        let sets = [half("cow"), Data::made_up(FACTS, &universe(), 10)];
        let row = judge_one(claim, &sets);
        assert_eq!(row.judged.verdict, Verdict::Refuted);
        assert!(std::ptr::eq(row.set.expect("a set"), &sets[1]));
    }

    #[test]
    fn claims_are_told_apart_and_fit_a_table() {
        let ids: BTreeSet<&str> = CLAIMS.iter().map(|claim| claim.id).collect();
        assert_eq!(ids.len(), CLAIMS.len(), "an id stands twice");
        assert!(CLAIMS.len() >= 20);
        let sources: BTreeSet<&str> = CLAIMS.iter().map(|claim| claim.source).collect();
        assert_eq!(sources.len(), 4, "every text has its claims");
        let sets = [Data::made_up(FACTS, &universe(), 10)];
        let text = table(&sets, true);
        let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("| ")).collect();
        assert_eq!(rows.len(), CLAIMS.len() + 1);
        for row in rows {
            assert_eq!(row.matches(" | ").count(), 3, "{row}");
        }
        assert!(
            text.contains("[made-up](made-up): Example, 32 cores, 1000 keys"),
            "{text}"
        );
    }
}
