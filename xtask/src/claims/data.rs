//! The samples of one data set, by cell and unit, and the quantities made of them. It judges nothing.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;
use bench_compare::format::Corpus;
use bench_compare::name;
use bench_compare::sample::{Observation, Round, Sample};
use bench_compare::stats::median::median;
use bench_compare::stats::shift;

use crate::errors::usage;
use crate::reference::Place;

/// One data set.
#[derive(Clone, Debug, Default)]
pub(crate) struct Data {
    /// What it is called in tables.
    pub(crate) label: String,
    /// The `key: value` lines at its head.
    pub(crate) facts: BTreeMap<String, String>,
    /// The samples by cell, then by unit as it was written.
    cells: BTreeMap<String, BTreeMap<String, Sample>>,
}

impl Data {
    /// Reads the data set at `place`.
    ///
    /// # Errors
    ///
    /// A usage error where it cannot be read, or has no samples.
    pub(crate) fn read(place: &Place) -> Result<Data> {
        let file = if place.path.is_dir() {
            place.path.join("bench.txt")
        } else {
            place.path.clone()
        };
        let Ok(bytes) = std::fs::read(&file) else {
            usage!("cannot read {}", file.display());
        };
        let mut data = Data::parse(&bytes, &place.label);
        if data.cells.is_empty() {
            usage!("{} has no samples", file.display());
        }
        // The folder of a sweep knows more than its lines do, but may be a lone file.
        if !data.facts.contains_key("cores") {
            let plan = Path::new(&file).with_file_name("machine.json");
            let machine = std::fs::read(plan)
                .ok()
                .and_then(|text| serde_json::from_slice::<serde_json::Value>(&text).ok());
            if let Some(cores) = machine.and_then(|machine| machine.get("physical_cores")?.as_u64())
            {
                data.facts.insert("cores".to_owned(), cores.to_string());
            }
        }
        Ok(data)
    }

    /// The samples in a text of benchmark lines.
    pub(crate) fn parse(bytes: &[u8], label: &str) -> Data {
        let mut corpus = Corpus::default();
        corpus.read(label, label, bytes);
        let mut observed: BTreeMap<String, BTreeMap<String, Vec<Observation>>> = BTreeMap::new();
        let mut data = Data {
            label: label.to_owned(),
            ..Data::default()
        };
        for record in corpus.records {
            for (key, value) in record.config.iter() {
                data.facts.insert(key.clone(), value.clone());
            }
            let units = observed.entry(record.name).or_default();
            for measurement in record.measurements {
                let round = record.round.map(|number| Round { source: 0, number });
                let value = measurement.written_value;
                units
                    .entry(measurement.written_unit)
                    .or_default()
                    .push(Observation { value, round });
            }
        }
        let samples = |units: BTreeMap<String, Vec<Observation>>| {
            units
                .into_iter()
                .map(|(unit, values)| (unit, Sample::new(values)))
                .collect()
        };
        data.cells = observed
            .into_iter()
            .map(|(cell, units)| (cell, samples(units)))
            .collect();
        data
    }

    /// The physical cores of the machine, where the data tells.
    pub(crate) fn cores(&self) -> Option<usize> {
        self.facts.get("cores")?.parse().ok()
    }

    /// The names of all cells.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.cells.keys().map(String::as_str)
    }

    /// The sample of a cell in a unit.
    pub(crate) fn sample(&self, cell: &str, unit: &str) -> Option<&Sample> {
        self.cells.get(cell)?.get(unit)
    }

    /// The numbers of threads of the cells below `path`, smallest first.
    pub(crate) fn threads(&self, path: &str) -> Vec<usize> {
        let mut threads: Vec<usize> = self
            .names()
            .filter(|cell| cell.starts_with(path))
            .map(threads_of)
            .collect();
        threads.sort_unstable();
        threads.dedup();
        threads
    }

    /// The values that the axis `key` (with its slash) takes below `path`.
    pub(crate) fn values(&self, path: &str, key: &str) -> Vec<&str> {
        let mut values: Vec<&str> = Vec::new();
        for cell in self.names().filter(|cell| cell.starts_with(path)) {
            if let Some(value) = name::part(cell, key)
                && !values.contains(&value)
            {
                values.push(value);
            }
        }
        values
    }
}

/// The number of threads in a cell's name.
fn threads_of(cell: &str) -> usize {
    name::split_threads(cell)
        .1
        .and_then(|suffix| suffix[1..].parse().ok())
        .unwrap_or(1)
}

/// The name of a cell: its path, and the number of threads where it is not one.
pub(crate) fn cell(path: impl Into<String>, threads: usize) -> String {
    let mut path = path.into();
    if threads != 1 {
        path.push_str(&format!("-{threads}"));
    }
    path
}

/// A product of powers of cells' figures: mostly one cell's figure over another's.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Quantity {
    /// The cells and their exponents.
    pub(crate) terms: Vec<(String, f64)>,
    /// The unit that is read.
    pub(crate) unit: &'static str,
}

/// A quantity as the data has it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Estimate {
    /// From the medians of the cells.
    pub(crate) value: f64,
    /// The 95 % interval, over rounds; from 0 to infinity where there are too few.
    pub(crate) lo: f64,
    /// Its upper end.
    pub(crate) hi: f64,
    /// The rounds that all cells have.
    pub(crate) rounds: usize,
}

impl Quantity {
    /// The time of `over` as a multiple of that of `under`.
    pub(crate) fn ratio(over: impl Into<String>, under: impl Into<String>) -> Quantity {
        Quantity {
            terms: vec![(over.into(), 1.0), (under.into(), -1.0)],
            unit: "ns/op",
        }
    }

    /// The figure of one cell.
    pub(crate) fn of(cell: impl Into<String>, unit: &'static str) -> Quantity {
        Quantity {
            terms: vec![(cell.into(), 1.0)],
            unit,
        }
    }

    /// The same of another unit.
    pub(crate) fn in_unit(mut self, unit: &'static str) -> Quantity {
        self.unit = unit;
        self
    }

    /// This quantity divided by another.
    pub(crate) fn over(mut self, other: Quantity) -> Quantity {
        self.terms
            .extend(other.terms.into_iter().map(|(cell, power)| (cell, -power)));
        self
    }

    /// The geometric mean of several.
    pub(crate) fn mean(quantities: Vec<Quantity>) -> Quantity {
        let n = quantities.len().max(1) as f64;
        let unit = quantities.first().map_or("ns/op", |first| first.unit);
        let terms = quantities.into_iter().flat_map(|quantity| quantity.terms);
        Quantity {
            terms: terms.map(|(cell, power)| (cell, power / n)).collect(),
            unit,
        }
    }

    /// Figures below this count as this much: nothing divided by nothing says nothing.
    pub(crate) fn least(&self) -> f64 {
        match self.unit {
            "B/op" => 1.0,
            "allocs/op" => 0.01,
            _ => f64::MIN_POSITIVE,
        }
    }

    /// What the data says; the name of the first cell that is missing otherwise.
    pub(crate) fn estimate(&self, data: &Data) -> Result<Estimate, String> {
        let mut rounds: BTreeMap<Round, (usize, f64)> = BTreeMap::new();
        let mut value = 1.0;
        for (cell, power) in &self.terms {
            let sample = data.sample(cell, self.unit).ok_or_else(|| cell.clone())?;
            value *= median(sample.sorted()).max(self.least()).powf(*power);
            for (round, figure) in sample.in_order() {
                let (seen, log) = rounds.entry(round).or_default();
                *seen += 1;
                *log += power * figure.max(self.least()).ln();
            }
        }
        // Rounds that a cell missed say nothing about the product.
        let pairs: Vec<(f64, f64)> = rounds
            .values()
            .filter(|(seen, _)| *seen == self.terms.len())
            .map(|(_, log)| (1.0, log.exp()))
            .collect();
        let shift = shift::paired(&pairs, 0.95);
        let (lo, hi) = shift.map_or((0.0, f64::INFINITY), |shift| (shift.lo, shift.hi));
        Ok(Estimate {
            value,
            lo,
            hi,
            rounds: pairs.len(),
        })
    }
}

#[cfg(test)]
impl Data {
    /// A data set of made-up figures, with as many rounds.
    pub(crate) fn made_up(
        facts: &[(&str, &str)],
        figures: &BTreeMap<(String, String), f64>,
        rounds: u64,
    ) -> Data {
        let mut data = Data {
            label: "made-up".to_owned(),
            ..Data::default()
        };
        for (key, value) in facts {
            data.facts.insert((*key).to_owned(), (*value).to_owned());
        }
        for (at, ((cell, unit), &figure)) in figures.iter().enumerate() {
            let observation = |number: u64| Observation {
                // Some noise, different in each cell: half a per cent at most.
                value: figure * (1.0 + ((number * 7 + at as u64 * 3) % 11) as f64 / 2000.0),
                round: Some(Round { source: 0, number }),
            };
            let sample = Sample::new((1..=rounds).map(observation).collect());
            data.cells
                .entry(cell.clone())
                .or_default()
                .insert(unit.clone(), sample);
        }
        data
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "cores: 2\ncpu: Example\n\
        # begin design=a round=1\nBenchmarkCache/impl=a/mix=r90-2\t10\t100 ns/op\t8 B/op\n\
        BenchmarkCache/impl=b/mix=r90-2\t10\t50 ns/op\t0 B/op\n# end\n\
        # begin design=a round=2\nBenchmarkCache/impl=a/mix=r90-2\t10\t110 ns/op\t8 B/op\n# end\n\
        # begin design=a round=3\nBenchmarkCache/impl=b/mix=r90-2\t10\t60 ns/op\t0 B/op\n# end\n";

    #[test]
    fn quantities_are_of_common_rounds() {
        let data = Data::parse(TEXT.as_bytes(), "x");
        assert_eq!(data.cores(), Some(2));
        assert_eq!(data.threads("Cache/"), [2]);
        assert_eq!(data.values("Cache/", "/impl"), ["a", "b"]);
        let (a, b) = ("Cache/impl=a/mix=r90-2", "Cache/impl=b/mix=r90-2");
        let estimate = Quantity::ratio(a, b).estimate(&data).unwrap();
        assert!((estimate.value - 105.0 / 55.0).abs() < 1e-12);
        assert_eq!(
            (estimate.rounds, estimate.lo, estimate.hi),
            (1, 0.0, f64::INFINITY)
        );
        let bytes = Quantity::ratio(a, b)
            .in_unit("B/op")
            .estimate(&data)
            .unwrap();
        assert_eq!(bytes.value, 8.0, "no bytes count as one");
        let missing = Quantity::ratio(a, "Cache/impl=c").estimate(&data);
        assert_eq!(missing, Err("Cache/impl=c".to_owned()));
    }

    #[test]
    fn an_interval_takes_six_rounds() {
        let figures = [("a", 10.0), ("b", 20.0)]
            .map(|(cell, ns)| ((cell.to_owned(), "ns/op".to_owned()), ns));
        let figures = BTreeMap::from(figures);
        let estimate = |rounds| {
            Quantity::ratio("b", "a")
                .estimate(&Data::made_up(&[], &figures, rounds))
                .unwrap()
        };
        assert_eq!(estimate(5).hi, f64::INFINITY);
        let ten = estimate(10);
        assert!(1.9 < ten.lo && ten.lo <= ten.hi && ten.hi < 2.1, "{ten:?}");
        assert_eq!(cell("Cache/x", 1), "Cache/x");
        assert_eq!(cell("Cache/x", 2), "Cache/x-2");
    }
}
