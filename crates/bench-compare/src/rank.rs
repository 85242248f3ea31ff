//! The ranking: which design is best in each group of workloads, and which others cannot be told from it.

use serde_json::{Value, json};

use crate::analysis::analyze;
use crate::error::Error;
use crate::format::Corpus;
use crate::name;
use crate::render::{bar, number};
use crate::report::{Report, Request, Table, label_text};
use crate::sample::{ByRound, Round, Sample};
use crate::stats::median::median;
use crate::stats::resample::{Random, percentile_interval};
use crate::unit::Better;

/// How to rank.
#[derive(Clone, Debug, PartialEq)]
pub struct RankRequest {
    /// Projection whose values are groups of workloads, each ranked by itself; `None` takes the base name, `/mix` and
    /// the number of threads, as far as the benchmarks have them.
    pub group: Option<String>,
    /// Columns that are no contenders but floors: shown, never ranked.
    pub floors: Vec<String>,
    /// Number of bootstrap draws.
    pub draws: usize,
    /// Seed of the draws.
    pub seed: u64,
}

impl Default for RankRequest {
    fn default() -> RankRequest {
        RankRequest {
            group: None,
            floors: vec!["noop".to_owned()],
            draws: 1000,
            seed: 1,
        }
    }
}

/// The place of one design in one group.
#[derive(Clone, Debug, PartialEq)]
pub struct Place {
    /// The column's label.
    pub name: String,
    /// The place: 1 for all that are tied for best, then the position by score.
    pub place: usize,
    /// The geometric mean, over the common workloads, of the ratio to the best median of each. 1 is best in all.
    pub score: f64,
    /// Lower end of its bootstrap interval.
    pub lo: f64,
    /// Upper end of its bootstrap interval.
    pub hi: f64,
    /// Whether its interval overlaps that of the best.
    pub tied_for_best: bool,
}

/// One group of workloads.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// What the workloads have in common, as `key: value`.
    pub title: String,
    /// The unit.
    pub unit: String,
    /// The workloads that the scores average over.
    pub workloads: Vec<String>,
    /// Workloads that not all ranked designs have; they are in no score.
    pub left_out: Vec<String>,
    /// The designs, best first.
    pub places: Vec<Place>,
    /// Floors, with their score against the best design.
    pub floors: Vec<(String, f64)>,
    /// Designs that have no place, and why.
    pub unranked: Vec<(String, String)>,
    /// The number of rounds (or samples) that were drawn from.
    pub rounds: usize,
}

/// A ranking of all groups.
#[derive(Clone, Debug)]
pub struct Ranking {
    /// The groups, in the order of the tables.
    pub groups: Vec<Group>,
    /// The report that was ranked.
    pub report: Report,
}

/// Ranks the columns of `request` (`/impl` where the request leaves the default and names have it) in each group.
///
/// The bootstrap draws whole rounds, the same for all designs, so that what hits all of a round alike cancels; where
/// rounds are unknown it draws samples cell by cell. O(draws * cells * samples).
///
/// # Errors
/// As [`analyze`]; and if the selected units have no known better direction.
pub fn rank(corpus: &Corpus, request: &Request, how: &RankRequest) -> Result<Ranking, Error> {
    let mut request = request.clone();
    let has = |key: &str| {
        corpus
            .records
            .iter()
            .any(|r| name::part(&r.name, key).is_some())
    };
    if request.col == Request::default().col && has("/impl") {
        "/impl".clone_into(&mut request.col);
    }
    let group = how.group.clone().unwrap_or_else(|| {
        let present = [".name", "/mix", "/gomaxprocs"]
            .into_iter()
            .filter(|key| *key == ".name" || has(key));
        let apart = present.filter(|key| !request.row.contains(key) && !request.col.contains(key));
        apart.collect::<Vec<_>>().join(",")
    });
    request.table = format!("{},{group}", request.table);
    let report = analyze(corpus, &request)?;
    let selected = request.filter.contains(".unit");
    let times = report.tables.iter().any(|t| t.unit == "sec/op");
    let tables: Vec<&Table> = report
        .tables
        .iter()
        .filter(|t| selected || !times || t.unit == "sec/op")
        .collect();
    if let Some(table) = tables.iter().find(|t| t.better.is_none()) {
        let unit = &table.unit;
        return Err(Error::option(format!(
            "--rank: nothing says which direction of {unit} is better; add a line \
            'Unit {unit} better=lower' (or higher), or select another unit with --filter .unit:UNIT"
        )));
    }
    let groups = tables
        .into_iter()
        .map(|table| group_of(&report, table, how))
        .collect();
    Ok(Ranking { groups, report })
}

fn group_of(report: &Report, table: &Table, how: &RankRequest) -> Group {
    let named = report.table_fields.iter().zip(&table.key);
    // Configuration is the same for all groups of a run and would only repeat itself.
    let shown = named.filter(|(field, _)| field.starts_with(['/', '.']));
    let title: Vec<String> = shown
        .map(|(field, value)| match (field.as_str(), value.as_str()) {
            ("/gomaxprocs", "" | "1") => "1 thread".to_owned(),
            ("/gomaxprocs", n) => format!("{n} threads"),
            (".name", name) => name.to_owned(),
            (field, value) => format!("{}={value}", field.trim_start_matches('/')),
        })
        .collect();
    let mut group = Group {
        title: title.join(", "),
        unit: table.unit.clone(),
        workloads: Vec::new(),
        left_out: Vec::new(),
        places: Vec::new(),
        floors: Vec::new(),
        unranked: Vec::new(),
        rounds: 0,
    };
    let labels: Vec<String> = table.cols.iter().map(|c| label_text(c)).collect();
    let (floors, contenders): (Vec<usize>, Vec<usize>) =
        (0..table.cols.len()).partition(|c| how.floors.contains(&labels[*c]));
    let (ranked, rows) = common(table, &contenders, &labels, &mut group);
    // The base name is in the title, and a star in its place says nothing.
    let workload = |row: &usize| {
        let label = label_text(&table.rows[*row]);
        label
            .strip_prefix("*/")
            .map_or_else(|| label.clone(), str::to_owned)
    };
    group.workloads = rows.iter().map(workload).collect();
    group.left_out = (0..table.rows.len())
        .filter(|r| !rows.contains(r))
        .map(|r| workload(&r))
        .collect();
    if ranked.is_empty() {
        return group;
    }
    let cost = |sample: &[f64]| match table.better {
        Some(Better::Higher) => 1.0 / median(sample),
        _ => median(sample),
    };
    let sample = |row: usize, col: usize| table.cell(row, col).map(|c| &c.sample);
    let medians: Vec<Vec<f64>> = ranked
        .iter()
        .map(|col| {
            rows.iter()
                .map(|row| sample(*row, *col).map_or(f64::NAN, |s| cost(s.sorted())))
                .collect()
        })
        .collect();
    let scores = scores(&medians);
    for floor in floors {
        let best = |at: usize| medians.iter().map(|m| m[at]).fold(f64::INFINITY, f64::min);
        let ratios = rows
            .iter()
            .enumerate()
            .map(|(at, row)| sample(*row, floor).map_or(f64::NAN, |s| cost(s.sorted()) / best(at)));
        group.floors.push((
            labels[floor].clone(),
            crate::stats::geometric_mean(ratios).unwrap_or(f64::NAN),
        ));
    }
    let samples: Vec<Vec<&Sample>> = ranked
        .iter()
        .map(|col| rows.iter().filter_map(|row| sample(*row, *col)).collect())
        .collect();
    let (mut draws, rounds) = bootstrap(&samples, cost, how);
    group.rounds = rounds;
    let mut order: Vec<usize> = (0..ranked.len()).collect();
    order.sort_by(|a, b| scores[*a].total_cmp(&scores[*b]));
    let confidence = report.request.confidence;
    let intervals: Vec<(f64, f64)> = draws
        .iter_mut()
        .map(|scores| percentile_interval(scores, confidence))
        .collect();
    let best_hi = intervals[order[0]].1;
    for (at, design) in order.iter().enumerate() {
        let (lo, hi) = intervals[*design];
        // Without an interval nothing can be told apart.
        let tied = at == 0 || lo.is_nan() || best_hi.is_nan() || lo <= best_hi;
        group.places.push(Place {
            name: labels[ranked[*design]].clone(),
            place: if tied { 1 } else { at + 1 },
            score: scores[*design],
            lo,
            hi,
            tied_for_best: tied,
        });
    }
    // A tie further down must not stand below a design that is not tied.
    group.places.sort_by(|a, b| {
        b.tied_for_best
            .cmp(&a.tied_for_best)
            .then(a.score.total_cmp(&b.score))
    });
    let tied = group.places.iter().filter(|p| p.tied_for_best).count();
    for (at, place) in group.places.iter_mut().enumerate().skip(tied) {
        place.place = at + 1;
    }
    group
}

/// The designs that can be ranked and the workloads that all of them have. A design that misses a workload which most
/// designs have gets no place, rather than shrinking everybody's average.
fn common(
    table: &Table,
    contenders: &[usize],
    labels: &[String],
    group: &mut Group,
) -> (Vec<usize>, Vec<usize>) {
    let usable = |row: usize, col: usize| {
        table
            .cell(row, col)
            .is_some_and(|c| c.summary.center > 0.0 && c.summary.center.is_finite())
    };
    let has = |row: usize| contenders.iter().filter(|col| usable(row, **col)).count();
    let most: Vec<usize> = (0..table.rows.len())
        .filter(|row| 2 * has(*row) > contenders.len())
        .collect();
    let wanted = if most.is_empty() {
        (0..table.rows.len()).collect()
    } else {
        most
    };
    let mut ranked = Vec::new();
    for &col in contenders {
        let missing = wanted.iter().filter(|row| !usable(**row, col)).count();
        if missing == 0 {
            ranked.push(col);
        } else {
            let reason = format!("has no figure for {missing} of {} workloads", wanted.len());
            group.unranked.push((labels[col].clone(), reason));
        }
    }
    let rows = (0..table.rows.len())
        .filter(|row| !ranked.is_empty() && ranked.iter().all(|c| usable(*row, *c)));
    let rows = rows.collect();
    (ranked, rows)
}

/// The geometric mean of each design's ratio to the best of each workload.
fn scores(costs: &[Vec<f64>]) -> Vec<f64> {
    let workloads = costs.first().map_or(0, Vec::len);
    let best: Vec<f64> = (0..workloads)
        .map(|w| costs.iter().map(|c| c[w]).fold(f64::INFINITY, f64::min))
        .collect();
    let mean = |c: &Vec<f64>| {
        c.iter().zip(&best).map(|(c, b)| (c / b).ln()).sum::<f64>() / workloads as f64
    };
    costs.iter().map(|c| mean(c).exp()).collect()
}

/// Scores of each design over the draws, and the number of rounds drawn from.
fn bootstrap(
    samples: &[Vec<&Sample>],
    cost: impl Fn(&[f64]) -> f64,
    how: &RankRequest,
) -> (Vec<Vec<f64>>, usize) {
    let mut random = Random::new(how.seed);
    let by_round: Option<Vec<Vec<ByRound>>> = samples
        .iter()
        .map(|design| design.iter().map(|s| s.by_round()).collect())
        .collect();
    let mut rounds: Vec<Round> = by_round
        .iter()
        .flatten()
        .flatten()
        .flatten()
        .map(|(round, _)| *round)
        .collect();
    rounds.sort_unstable();
    rounds.dedup();
    let least = samples
        .iter()
        .flatten()
        .map(|s| s.sorted().len())
        .min()
        .unwrap_or(0);
    let mut draws: Vec<Vec<f64>> = vec![Vec::with_capacity(how.draws); samples.len()];
    let mut values: Vec<f64> = Vec::new();
    for _ in 0..how.draws {
        let drawn: Vec<Round> = rounds
            .iter()
            .map(|_| rounds[random.below(rounds.len())])
            .collect();
        let mut costs: Vec<Vec<f64>> = Vec::with_capacity(samples.len());
        for (design, cells) in samples.iter().enumerate() {
            let mut of_design = Vec::with_capacity(cells.len());
            for (at, sample) in cells.iter().enumerate() {
                values.clear();
                match &by_round {
                    Some(by_round) => {
                        let cell = &by_round[design][at];
                        let value = |r: &Round| {
                            cell.binary_search_by_key(r, |v| v.0)
                                .ok()
                                .map(|i| cell[i].1)
                        };
                        values.extend(drawn.iter().filter_map(value));
                    }
                    None => {
                        let sorted = sample.sorted();
                        values.extend(sorted.iter().map(|_| sorted[random.below(sorted.len())]));
                    }
                }
                if values.is_empty() {
                    values.extend(sample.sorted());
                }
                values.sort_by(f64::total_cmp);
                of_design.push(cost(&values));
            }
            costs.push(of_design);
        }
        for (draws, score) in draws.iter_mut().zip(scores(&costs)) {
            draws.push(score);
        }
    }
    (
        draws,
        if by_round.is_some() {
            rounds.len()
        } else {
            least
        },
    )
}

/// The ranking as text, one block per group with bars of relative speed.
pub fn text(ranking: &Ranking) -> String {
    let mut out = String::new();
    let percent = 100.0 * ranking.report.request.confidence;
    for group in &ranking.groups {
        if !out.is_empty() {
            out.push('\n');
        }
        out += &format!("{} ({})\n", group.title, group.unit);
        let noun = if group.workloads.len() == 1 {
            "workload"
        } else {
            "workloads"
        };
        out += &format!(
            "  {} {noun} in each score: {}\n",
            group.workloads.len(),
            group.workloads.join("; ")
        );
        let widest = group
            .places
            .iter()
            .map(|p| p.name.chars().count())
            .max()
            .unwrap_or(0)
            .max(6);
        let (design, interval) = ("design", format!("{percent}% interval"));
        out += &format!(
            "  place  {design:<widest$}  {:>10}  {interval:>22}  relative speed\n",
            "x best"
        );
        for p in &group.places {
            let place = if p.tied_for_best {
                "1=".to_owned()
            } else {
                p.place.to_string()
            };
            let range = format!("[{}, {}]", ratio(p.lo), ratio(p.hi));
            let line = format!(
                "  {place:<5}  {:<widest$}  {:>10}  {range:>22}  {}{}",
                p.name,
                ratio(p.score),
                bar(1.0, p.score, 20),
                if p.tied_for_best {
                    " tied for best"
                } else {
                    ""
                },
            );
            out += line.trim_end();
            out.push('\n');
        }
        for (name, score) in &group.floors {
            out += &format!("  floor  {name:<widest$}  {:>10}\n", ratio(*score));
        }
        for (name, reason) in &group.unranked {
            out += &format!("  not ranked: {name} {reason}\n");
        }
        if !group.left_out.is_empty() {
            out += &format!(
                "  in no score, since not all designs have it: {}\n",
                group.left_out.join("; ")
            );
        }
        if group.rounds < 6 {
            out += &format!(
                "  only {} rounds: the intervals are too narrow to trust\n",
                group.rounds
            );
        }
    }
    out
}

/// The ranking as Markdown, one table per group.
pub fn markdown(ranking: &Ranking) -> String {
    let escaped = crate::render::escaped;
    let mut out = String::new();
    for group in &ranking.groups {
        if !out.is_empty() {
            out.push('\n');
        }
        out += &format!(
            "**{}** ({}), over {}\n\n",
            escaped(&group.title),
            escaped(&group.unit),
            escaped(&group.workloads.join("; "))
        );
        out += "| place | design | x best | interval |\n|---:|:---|---:|:---|\n";
        for p in &group.places {
            let place = if p.tied_for_best {
                "1=".to_owned()
            } else {
                p.place.to_string()
            };
            let (score, lo, hi) = (ratio(p.score), ratio(p.lo), ratio(p.hi));
            out += &format!(
                "| {place} | {} | {score} | {lo} to {hi} |\n",
                escaped(&p.name)
            );
        }
        for (name, score) in &group.floors {
            out += &format!("| floor | {} | {} | |\n", escaped(name), ratio(*score));
        }
        for (name, reason) in &group.unranked {
            out += &format!("| - | {} | {} | |\n", escaped(name), escaped(reason));
        }
    }
    out
}

/// The ranking as CSV, one record per design and group.
pub fn csv(ranking: &Ranking) -> String {
    let mut out = "group,unit,place,design,score,lo,hi,tied\n".to_owned();
    for group in &ranking.groups {
        let (title, unit) = (
            crate::render::quoted(&group.title),
            crate::render::quoted(&group.unit),
        );
        for p in &group.places {
            let numbers = [p.score, p.lo, p.hi].map(crate::number::shortest).join(",");
            let name = crate::render::quoted(&p.name);
            out += &format!(
                "{title},{unit},{},{name},{numbers},{}\n",
                p.place, p.tied_for_best
            );
        }
    }
    out
}

/// The ranking as JSON.
pub fn json(ranking: &Ranking) -> Value {
    let groups = ranking.groups.iter().map(|g| {
        json!({
            "group": g.title,
            "unit": g.unit,
            "workloads": g.workloads,
            "left_out": g.left_out,
            "rounds": g.rounds,
            "places": g.places.iter().map(|p| json!({
                "design": p.name, "place": p.place, "score": number(p.score),
                "lo": number(p.lo), "hi": number(p.hi), "tied_for_best": p.tied_for_best,
            })).collect::<Vec<_>>(),
            "floors": g.floors.iter().map(|(n, s)| json!({ "design": n, "score": number(*s) })).collect::<Vec<_>>(),
            "unranked": g.unranked.iter().map(|(n, r)| json!({ "design": n, "reason": r })).collect::<Vec<_>>(),
        })
    });
    Value::Array(groups.collect())
}

/// A ratio with as many digits as help.
fn ratio(value: f64) -> String {
    match value {
        v if v.is_nan() => "-".to_owned(),
        v if v < 100.0 => format!("{v:.2}"),
        v if v < 1e6 => format!("{v:.0}"),
        v => format!("{v:.2e}"),
    }
}
