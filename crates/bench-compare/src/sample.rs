//! Samples of one cell, their summary, and the comparison of two of them, in the words users read. Knows units'
//! assumptions, not tables.

use crate::number::{fixed, fixed_signed, shortest};
use crate::stats::median::{self, OrderInterval};
use crate::stats::multiple::holm;
use crate::stats::shift::{self, Shift};
use crate::stats::utest::{self, UTest, UTestError};
use crate::unit::Assumption;

/// A round of a sweep. Rounds of the same number in two inputs are two rounds: they share nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Round {
    /// Index of the input.
    pub source: usize,
    /// The number that the input gives it.
    pub number: u64,
}

/// One value with its place in time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Observation {
    /// The value, in the tidied unit.
    pub value: f64,
    /// The round in which it was measured, where the input tells.
    pub round: Option<Round>,
}

/// One value per round, by ascending round.
pub type ByRound = Vec<(Round, f64)>;

/// The values of one cell.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    observations: Vec<Observation>,
    sorted: Vec<f64>,
}

impl Sample {
    /// A sample of `observations`, which stay in the order of measurement. O(n log n).
    pub fn new(observations: Vec<Observation>) -> Sample {
        let mut sorted: Vec<f64> = observations.iter().map(|o| o.value).collect();
        sorted.sort_by(f64::total_cmp);
        Sample {
            observations,
            sorted,
        }
    }

    /// The values in ascending order.
    pub fn sorted(&self) -> &[f64] {
        &self.sorted
    }

    /// The values in the order of measurement.
    pub fn observations(&self) -> &[Observation] {
        &self.observations
    }

    /// [`Sample::by_round`], or the samples in the order of measurement, numbered from 0, where rounds are unknown.
    pub fn in_order(&self) -> ByRound {
        let numbered = || {
            let observations = self.observations.iter().enumerate();
            observations
                .map(|(at, o)| {
                    (
                        Round {
                            source: 0,
                            number: at as u64,
                        },
                        o.value,
                    )
                })
                .collect()
        };
        self.by_round().unwrap_or_else(numbered)
    }

    /// One value per round, by ascending round: the median where a round has several. `None` if a value has no
    /// round.
    pub fn by_round(&self) -> Option<ByRound> {
        let mut rounds = Vec::with_capacity(self.observations.len());
        for o in &self.observations {
            rounds.push((o.round?, o.value));
        }
        rounds.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
        let values = |group: &[(Round, f64)]| group.iter().map(|r| r.1).collect::<Vec<_>>();
        Some(
            rounds
                .chunk_by(|a, b| a.0 == b.0)
                .map(|group| (group[0].0, median::median(&values(group))))
                .collect(),
        )
    }
}

/// The centre of a sample with its interval.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// The median, or the most frequent value of an exact unit.
    pub center: f64,
    /// Lower end of the interval; minus infinity when there are too few samples.
    pub lo: f64,
    /// Upper end; infinity when there are too few samples.
    pub hi: f64,
    /// The confidence that the interval really has, at least the one asked for.
    pub confidence: f64,
    /// What the reader should know.
    pub warnings: Vec<String>,
}

impl Summary {
    /// Summarises a sample that is not empty.
    pub(crate) fn of(
        sample: &Sample,
        assumption: Assumption,
        confidence: f64,
        compat: bool,
    ) -> Summary {
        match assumption {
            Assumption::Nothing => Summary::median(sample.sorted(), confidence, compat),
            Assumption::Exact => Summary::exact(sample.sorted()),
        }
    }

    fn median(sorted: &[f64], confidence: f64, compat: bool) -> Summary {
        let n = sorted.len();
        let rule = if compat {
            median::interval_compat
        } else {
            median::interval
        };
        let OrderInterval {
            lo,
            hi,
            confidence: reached,
        } = rule(n, confidence);
        let mut warnings = Vec::new();
        if lo == 0 || hi > n {
            let need = match median::samples_needed(confidence) {
                Some(need) => format!(">= {need}"),
                None => "> 50".to_owned(),
            };
            let level = shortest(confidence);
            warnings.push(format!(
                "need {need} samples for confidence interval at level {level}"
            ));
        }
        Summary {
            center: median::median(sorted),
            lo: if lo == 0 {
                f64::NEG_INFINITY
            } else {
                sorted[lo - 1]
            },
            hi: if hi > n {
                f64::INFINITY
            } else {
                sorted[hi - 1]
            },
            confidence: reached,
            warnings,
        }
    }

    fn exact(sorted: &[f64]) -> Summary {
        let (lo, hi) = (sorted[0], sorted[sorted.len() - 1]);
        let groups = sorted.chunk_by(|a, b| a == b);
        // The first of the most frequent values, in ascending order.
        let mode = groups.fold((0, lo), |best, group| {
            if group.len() > best.0 {
                (group.len(), group[0])
            } else {
                best
            }
        });
        let mut warnings = Vec::new();
        if mode.0 != sorted.len() {
            let (from, to) = (shortest(lo), shortest(hi));
            warnings.push(format!(
                "exact distribution expected, but values range from {from} to {to}"
            ));
        }
        Summary {
            center: mode.1,
            lo,
            hi,
            confidence: 1.0,
            warnings,
        }
    }

    /// The larger distance of an end from the centre as a fraction of it; `None` where that has no meaning: an
    /// infinite end, or one of another sign than the centre.
    pub fn relative_width(&self) -> Option<f64> {
        let sign = |v: f64| (v > 0.0) as i8 - (v < 0.0) as i8;
        if self.lo.is_infinite() || self.hi.is_infinite() {
            return None;
        }
        if sign(self.center) != sign(self.lo) || sign(self.center) != sign(self.hi) {
            return None;
        }
        if self.center == 0.0 {
            return Some(0.0);
        }
        Some((self.hi / self.center - 1.0).max(1.0 - self.lo / self.center))
    }

    /// The interval as text: `3%`, `∞` for too few samples, `?` where a percentage has no meaning.
    pub fn percent_text(&self) -> String {
        if self.lo.is_infinite() || self.hi.is_infinite() {
            return "∞".to_owned();
        }
        self.relative_width()
            .map_or_else(|| "?".to_owned(), |width| fixed(100.0 * width, 0) + "%")
    }
}

/// The comparison of a sample with its baseline.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// The p of the U test; 1 if it could not be made, 0 for an exact unit.
    pub p: f64,
    /// The threshold.
    pub alpha: f64,
    /// Size of the baseline.
    pub old_n: usize,
    /// Size of the sample.
    pub new_n: usize,
    /// The centre of the baseline.
    pub old_center: f64,
    /// The centre of the sample.
    pub new_center: f64,
    /// The test behind `p`, where one was made.
    pub test: Option<UTest>,
    /// What the reader should know.
    pub warnings: Vec<String>,
}

impl Comparison {
    /// Compares `new` with `old` under the unit's assumption.
    pub(crate) fn of(
        (old, old_summary): (&Sample, &Summary),
        (new, new_summary): (&Sample, &Summary),
        assumption: Assumption,
        alpha: f64,
        compat: bool,
    ) -> Comparison {
        let mut comparison = Comparison {
            p: 0.0,
            alpha,
            old_n: old.sorted().len(),
            new_n: new.sorted().len(),
            old_center: old_summary.center,
            new_center: new_summary.center,
            test: None,
            warnings: Vec::new(),
        };
        if assumption == Assumption::Exact {
            return comparison;
        }
        let test = if compat {
            utest::mann_whitney_compat
        } else {
            utest::mann_whitney
        };
        match test(old.sorted(), new.sorted()) {
            Ok(test) => {
                comparison.p = test.p;
                comparison.test = Some(test);
                let need = utest::samples_needed(alpha);
                let short = |n: usize| need.map_or(n < 10, |need| n < need);
                if test.p > alpha && short(comparison.old_n) && short(comparison.new_n) {
                    let need = need.map_or_else(|| "> 10".to_owned(), |need| format!(">= {need}"));
                    let level = shortest(alpha);
                    let text = format!(
                        "need {need} samples to detect a difference at alpha level {level}"
                    );
                    comparison.warnings.push(text);
                }
            }
            Err(error) => {
                comparison.p = 1.0;
                comparison.warnings.push(
                    match error {
                        UTestError::AllEqual => "all samples are equal",
                        UTestError::NotANumber => "a sample is not a number",
                        UTestError::Empty => "a sample is empty",
                    }
                    .to_owned(),
                );
            }
        }
        comparison
    }

    /// Whether the difference counts: p is at most alpha (or the unit is exact).
    pub fn is_significant(&self) -> bool {
        self.p <= self.alpha
    }

    /// The relative change of the centres, as a fraction; `None` if the old one is 0 and the new one is not.
    pub fn delta(&self) -> Option<f64> {
        if self.old_center == self.new_center {
            return Some(0.0);
        }
        (self.old_center != 0.0).then(|| self.new_center / self.old_center - 1.0)
    }

    /// The change as text: `~` for none that counts, `?` where a percentage has no meaning.
    pub fn delta_text(&self) -> String {
        if !self.is_significant() {
            return "~".to_owned();
        }
        if self.old_center == self.new_center {
            return "0.00%".to_owned();
        }
        self.delta().map_or_else(
            || "?".to_owned(),
            |delta| fixed_signed(delta * 100.0, 2) + "%",
        )
    }

    /// p and the sizes as text: `p=0.002 n=10`, `n=4+5`.
    pub fn p_text(&self) -> String {
        let p = if self.p == 0.0 {
            String::new()
        } else {
            format!("p={} ", fixed(self.p, 3))
        };
        if self.old_n == self.new_n {
            format!("{p}n={}", self.old_n)
        } else {
            format!("{p}n={}+{}", self.old_n, self.new_n)
        }
    }

    /// The probability that a value of the sample exceeds one of the baseline, ties counting half (Vargha and
    /// Delaney's A): 0.5 is no effect, 0 and 1 are complete separation.
    pub fn superiority(&self) -> Option<f64> {
        self.test
            .map(|t| 1.0 - t.u / (self.old_n * self.new_n) as f64)
    }
}

/// The Holm-adjusted p of each comparison, in order, over the family of those that were tested.
///
/// Comparisons without a test keep their p and do not count: one whose samples are all equal can never be
/// significant, so correcting for it would only blunt the others (Tarone 1990), and an exact unit leaves nothing to
/// chance.
pub fn holm_adjusted(comparisons: &[&Comparison]) -> Vec<f64> {
    let tested: Vec<f64> = comparisons
        .iter()
        .filter(|c| c.test.is_some())
        .map(|c| c.p)
        .collect();
    let mut adjusted = holm(&tested).into_iter();
    let of = |c: &&Comparison| {
        if c.test.is_some() {
            adjusted.next().unwrap_or(1.0)
        } else {
            c.p
        }
    };
    comparisons.iter().map(of).collect()
}

/// The shift from `old` to `new` with its interval at `confidence`: paired by round where both have samples of at
/// least six rounds of one input, from all pairs of values otherwise. `None` where a value is not positive. O(nm log nm).
pub fn shift_between(old: &Sample, new: &Sample, confidence: f64) -> Option<Shift> {
    let pairs = pairs_by_round(old, new);
    if pairs.len() >= 6 {
        let values: Vec<(f64, f64)> = pairs.iter().map(|(_, old, new)| (*old, *new)).collect();
        return shift::paired(&values, confidence);
    }
    shift::two_sample(old.sorted(), new.sorted(), confidence)
}

/// The rounds that both samples have, as (round, old, new).
pub fn pairs_by_round(old: &Sample, new: &Sample) -> Vec<(Round, f64, f64)> {
    let (Some(old), Some(new)) = (old.by_round(), new.by_round()) else {
        return Vec::new();
    };
    old.iter()
        .filter_map(|(round, a)| {
            let at = new.binary_search_by_key(round, |r| r.0).ok()?;
            Some((*round, *a, new[at].1))
        })
        .collect()
}
