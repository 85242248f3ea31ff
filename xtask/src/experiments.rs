//! What `report` says of experiments whose question is not answered by ns/op alone: percentiles, bytes, variants of a
//! decision. Everything comes from the samples; nothing is measured or stored here.

use std::fmt::Write as _;

use crate::report::{Name, Set, designs, number, times};
use crate::stats;
use crate::sweep::log::Sample;

/// The units that an experiment's lines carry besides those of every line. Less is better in all of them.
pub(crate) fn units(experiment: &str) -> &'static [&'static str] {
    match experiment {
        "latency" => &[
            "p50-ns", "p90-ns", "p99-ns", "p99.9-ns", "max-ns", "timer-ns",
        ],
        "memory" => &[
            "B/entry",
            "RSS-B/entry",
            "peak-RSS-bytes",
            "settled-B/entry",
            "released-B/entry",
            "empty-bytes",
        ],
        "zeroing" => &["copy-ns"],
        _ => &[],
    }
}

/// The sections of the experiments that were measured.
pub(crate) fn sections(set: &Set) -> String {
    [latency(set), memory(set), ablation(set), zeroing(set)].concat()
}

/// The cells of a base, in the order of the plan.
fn cells<'a>(set: &'a Set, base: &'a str) -> impl Iterator<Item = (Name<'a>, &'a [Sample])> {
    let names = set.plan.units.iter().flat_map(|unit| &unit.cells);
    names
        .map(|cell| {
            (
                Name::parse(&cell.name),
                set.contents.samples.get(&cell.name),
            )
        })
        .filter(move |(name, _)| name.base == base)
        .filter_map(|(name, samples)| Some((name, samples?.as_slice())))
}

/// The values of one unit in all samples of a cell.
fn values(samples: &[Sample], unit: &str) -> Vec<f64> {
    let value = |sample: &Sample| {
        let line = sample.line.lines().last()?;
        let words: Vec<&str> = line.split_whitespace().collect();
        let pair = words
            .get(2..)?
            .chunks_exact(2)
            .find(|pair| pair[1] == unit)?;
        pair[0].parse().ok()
    };
    samples.iter().filter_map(value).collect()
}

/// The median of one unit over the rounds, if every round has it: a percentile that only the longer runs could tell
/// would be one of other runs than those beside it.
fn median(samples: &[Sample], unit: &str) -> Option<f64> {
    let values = values(samples, unit);
    let summary = stats::summary(&values).filter(|_| values.len() == samples.len());
    summary.map(|summary| summary.median)
}

/// The value of an axis in a name.
fn axis<'a>(name: &Name<'a>, key: &str) -> &'a str {
    let value = |axis: &&'a str| {
        axis.split_once('=')
            .filter(|(k, _)| *k == key)
            .map(|(_, value)| value)
    };
    name.axes.iter().find_map(value).unwrap_or("")
}

fn threads(count: usize) -> String {
    if count == 1 {
        "1 thread".to_owned()
    } else {
        format!("{count} threads")
    }
}

/// Width of the plotted scale.
const SCALE: usize = 56;

/// For each workload a table of percentiles and, beside it, where they lie on a logarithmic scale.
fn latency(set: &Set) -> String {
    const SHOWN: [&str; 5] = ["p50-ns", "p90-ns", "p99-ns", "p99.9-ns", "max-ns"];
    let mut groups: Vec<(&str, usize)> = Vec::new();
    let (mut least, mut most) = (f64::INFINITY, 0.0_f64);
    for (name, samples) in cells(set, "Latency") {
        let group = (axis(&name, "mix"), name.threads);
        if !groups.contains(&group) {
            groups.push(group);
        }
        for value in SHOWN.iter().filter_map(|unit| median(samples, unit)) {
            (least, most) = (least.min(value), most.max(value));
        }
    }
    if groups.is_empty() || most <= 0.0 {
        return String::new();
    }
    let decades = (least.max(1.0).log10().floor(), most.log10().ceil().max(1.0));
    let at = |value: f64| {
        let share = (value.max(1.0).log10() - decades.0) / (decades.1 - decades.0).max(1.0);
        ((share * (SCALE - 1) as f64).round() as usize).min(SCALE - 1)
    };
    let mut text =
        String::from("\nLatency of single operations: medians of the rounds' percentiles\n");
    for (mix, count) in groups {
        let _ = write!(text, "\nzipf, {mix}, {}\n{:<18}", threads(count), "");
        for unit in SHOWN {
            let _ = write!(text, "{:>9}", unit.trim_end_matches("-ns"));
        }
        let _ = writeln!(text, "{:>9}  {}", "timer", ruler(decades, at));
        for design in designs(set) {
            let Some((_, samples)) = cells(set, "Latency").find(|(name, _)| {
                (name.design, axis(name, "mix"), name.threads) == (design, mix, count)
            }) else {
                continue;
            };
            let shown = SHOWN.map(|unit| median(samples, unit));
            let floor = set.plan.floors.iter().any(|floor| floor == design);
            let label = if floor {
                format!("({design})")
            } else {
                design.to_owned()
            };
            let _ = write!(text, "{label:<18}");
            for value in shown.iter().chain([&median(samples, "timer-ns")]) {
                let _ = write!(text, "{:>9}", value.map_or_else(|| "-".to_owned(), number));
            }
            let _ = writeln!(text, "  {}", plot(&shown, at).trim_end());
        }
    }
    text.push_str(
        "\no p50   = to p99   - to p99.9   . to the maximum |   a dash: fewer than 10 samples lie beyond it\n\
         Each figure holds about one reading of the clock; `timer` is what two readings with nothing between them \
         differ by.\n",
    );
    text
}

/// The marks of the decades.
fn ruler(decades: (f64, f64), at: impl Fn(f64) -> usize) -> String {
    let mut line = String::new();
    let mut decade = decades.0;
    while decade <= decades.1 {
        let value = 10_f64.powf(decade);
        let label = match value {
            ..1e3 => format!("{value:.0}ns"),
            1e3..1e6 => format!("{:.0}µs", value / 1e3),
            1e6..1e9 => format!("{:.0}ms", value / 1e6),
            _ => format!("{:.0}s", value / 1e9),
        };
        let place = at(value);
        // The last mark ends at the end of the scale.
        let place = place.min(SCALE - label.chars().count());
        while line.chars().count() < place {
            line.push(' ');
        }
        if line.chars().count() == place {
            line.push_str(&label);
        }
        decade += 1.0;
    }
    line
}

/// One line of the plot: from the median to the maximum.
fn plot(shown: &[Option<f64>; 5], at: impl Fn(f64) -> usize) -> String {
    let mut line = vec![' '; SCALE];
    let [p50, _, p99, p999, max] = *shown;
    let Some(mut from) = p50.map(&at) else {
        return String::new();
    };
    for (end, mark) in [(p99, '='), (p999, '-'), (max, '.')] {
        let Some(end) = end.map(&at) else { continue };
        line[from..=end.max(from)].fill(mark);
        from = end.max(from);
    }
    if let Some(max) = max {
        line[at(max)] = '|';
    }
    if let Some(p50) = p50 {
        line[at(p50)] = 'o';
    }
    line.into_iter().collect()
}

/// Bytes by design: a row each, since the states have units of their own.
fn memory(set: &Set) -> String {
    const COLUMNS: [(&str, &str, &str); 7] = [
        ("filled", "B/entry", "B/entry"),
        ("filled", "RSS-B/entry", "RSS/entry"),
        ("filled", "peak-RSS-bytes", "peak RSS"),
        ("snapshot", "B/entry", "held"),
        ("snapshot", "released-B/entry", "released"),
        ("emptied", "B/entry", "emptied"),
        ("emptied", "settled-B/entry", "settled"),
    ];
    if cells(set, "Memory").next().is_none() {
        return String::new();
    }
    let mut text = format!("\nMemory: bytes, medians of the rounds\n{:<18}", "");
    for (.., title) in COLUMNS {
        let _ = write!(text, "{title:>11}");
    }
    text.push('\n');
    for design in designs(set) {
        let floor = set.plan.floors.iter().any(|floor| floor == design);
        let label = if floor {
            format!("({design})")
        } else {
            design.to_owned()
        };
        let mut line = format!("{label:<18}");
        for (state, unit, _) in COLUMNS {
            let mut found = cells(set, "Memory")
                .filter(|(name, _)| name.design == design && axis(name, "state") == state);
            let value = found.next().and_then(|(_, samples)| median(samples, unit));
            let _ = write!(line, "{:>11}", value.map_or_else(String::new, bytes));
        }
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text.push_str(
        "\nfilled: per entry of a full map (key and value headers are 32), asked of the allocator and resident; the \
         process's peak while filling\n\
         held: kept alive per entry by a view, all entries overwritten since (copying designs: 20 writes); released: \
         when the view is gone\n\
         emptied: per removed entry, beyond an empty map, at once and when garbage had time to go\n",
    );
    text
}

/// Bytes with a unit from a kibibyte on.
fn bytes(value: f64) -> String {
    let size = value.abs();
    match size {
        ..1024.0 => format!("{value:.1}"),
        1024.0..1_048_576.0 => format!("{:.1}Ki", value / 1024.0),
        1_048_576.0..1_073_741_824.0 => format!("{:.1}Mi", value / 1_048_576.0),
        _ => format!("{:.2}Gi", value / 1_073_741_824.0),
    }
}

/// Below this a difference counts as real.
const ALPHA: f64 = 0.05;

/// `61.3  +4% (p=0.002)`: a median, and what differs from the first of its kind.
fn against(first: Option<&[Sample]>, samples: &[Sample]) -> String {
    let times = times(samples);
    let Some(summary) = stats::summary(&times) else {
        return "-".to_owned();
    };
    let base = first.map(self::times).unwrap_or_default();
    let Some(base_summary) = stats::summary(&base) else {
        return number(summary.median);
    };
    let p = stats::p_value(&base, &times);
    let change = if p < ALPHA {
        format!(
            "{:+.1}%",
            (summary.median / base_summary.median - 1.0) * 100.0
        )
    } else {
        "~".to_owned()
    };
    format!("{} {change:>7} (p={p:.3})", number(summary.median))
}

/// For each decision its variants against the first, which is the one that ships.
fn ablation(set: &Set) -> String {
    let all: Vec<(Name<'_>, &[Sample])> = cells(set, "Ablation").collect();
    let mut text = String::new();
    let mut columns: Vec<(&str, usize)> = Vec::new();
    let mut rows: Vec<(&str, &str, &str)> = Vec::new();
    for (name, _) in &all {
        let column = (axis(name, "mix"), name.threads);
        let row = (name.design, axis(name, "what"), axis(name, "variant"));
        if !columns.contains(&column) {
            columns.push(column);
        }
        if !rows.contains(&row) {
            rows.push(row);
        }
    }
    if rows.is_empty() {
        return text;
    }
    let _ = write!(
        text,
        "\nAblation: ns/op, each variant against the first of its decision\n{:<34}",
        ""
    );
    for (mix, count) in &columns {
        let _ = write!(text, "{:>28}", format!("{mix}, {}", threads(*count)));
    }
    text.push('\n');
    let find = |(design, what, variant): (&str, &str, &str), (mix, count): (&str, usize)| {
        let found = all.iter().find(|(name, _)| {
            name.design == design
                && axis(name, "what") == what
                && axis(name, "variant") == variant
                && (axis(name, "mix"), name.threads) == (mix, count)
        });
        found.map(|(_, samples)| *samples)
    };
    for &row in &rows {
        let first = rows
            .iter()
            .find(|other| (other.0, other.1) == (row.0, row.1));
        let first = first.copied().filter(|first| *first != row);
        let (design, what, variant) = row;
        let _ = write!(text, "{:<34}", format!("{design} {what} {variant}"));
        for &column in &columns {
            let shown = find(row, column).map_or_else(String::new, |samples| {
                against(first.and_then(|first| find(first, column)), samples)
            });
            let _ = write!(text, "{shown:>28}");
        }
        text.push('\n');
    }
    text
}

/// Both ways of merging side by side, and the copying that neither avoids.
fn zeroing(set: &Set) -> String {
    let all: Vec<(Name<'_>, &[Sample])> = cells(set, "Zeroing").collect();
    let mut rows: Vec<(&str, &str, usize)> = Vec::new();
    for (name, _) in &all {
        let row = (axis(name, "where"), axis(name, "allocator"), name.threads);
        if !rows.contains(&row) {
            rows.push(row);
        }
    }
    if rows.is_empty() {
        return String::new();
    }
    let mut text = format!(
        "\nZeroing: ns/op, and copying alone into memory that is there\n{:<32}{:>12}{:>12}{:>28}\n",
        "", "copying", "extend", "zeroed"
    );
    for row in rows {
        let find = |merge: &str| {
            let found = all.iter().find(|(name, _)| {
                name.design == merge
                    && (axis(name, "where"), axis(name, "allocator"), name.threads) == row
            });
            found.map(|(_, samples)| *samples)
        };
        let (place, allocator, count) = row;
        let (extend, zeroed) = (find("extend"), find("zeroed"));
        let figure = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), number);
        let _ = writeln!(
            text,
            "{:<32}{:>12}{:>12}{:>28}",
            format!("{place}, {allocator}, {}", threads(count)),
            figure(extend.and_then(|samples| median(samples, "copy-ns"))),
            figure(extend.and_then(|samples| median(samples, "ns/op"))),
            zeroed.map_or_else(|| "-".to_owned(), |samples| against(extend, samples)),
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(line: &str) -> Sample {
        Sample {
            round: 1,
            ns_per_op: 1.0,
            line: format!("# sample {{\"p50-ns\":7}}\n{line}"),
        }
    }

    #[test]
    fn units_are_read_from_the_line() {
        let samples = [
            sample("BenchmarkLatency/impl=a/mix=r90\t10\t9.5 ns/op\t61 p50-ns\t80 p90-ns"),
            sample("BenchmarkLatency/impl=a/mix=r90\t10\t9.5 ns/op\t63 p50-ns"),
        ];
        assert_eq!(values(&samples, "p50-ns"), [61.0, 63.0]);
        assert_eq!(values(&samples, "p90-ns"), [80.0]);
        assert_eq!(median(&samples, "p50-ns"), Some(62.0));
        assert_eq!(median(&samples, "p90-ns"), None, "not in every round");
        assert_eq!(median(&samples, "p99-ns"), None);
    }

    #[test]
    fn a_plot_runs_from_the_median_to_the_maximum() {
        let at = |value: f64| value as usize;
        let line = plot(
            &[Some(2.0), Some(3.0), Some(5.0), Some(8.0), Some(12.0)],
            at,
        );
        assert_eq!(line.trim_end(), "  o==---....|");
        let few = plot(&[Some(2.0), Some(3.0), None, None, Some(5.0)], at);
        assert_eq!(few.trim_end(), "  o..|");
        assert_eq!(plot(&[None; 5], at), "");
    }

    #[test]
    fn the_ruler_marks_decades() {
        let at = |value: f64| ((value.log10() - 1.0) / 3.0 * (SCALE - 1) as f64).round() as usize;
        let line = ruler((1.0, 4.0), at);
        assert!(line.starts_with("10ns") && line.ends_with("10µs"), "{line}");
        assert_eq!(line.chars().count(), SCALE);
    }

    #[test]
    fn bytes_have_binary_units() {
        assert_eq!(
            [37.0, -2.04, 2048.0, 3e6, 3e9].map(bytes),
            ["37.0", "-2.0", "2.0Ki", "2.9Mi", "2.79Gi"]
        );
    }
}
