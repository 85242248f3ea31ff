//! What the tables of `report` and `readme` need to know about one or two samples; the arithmetic itself is
//! `bench-compare`'s. No file, no clock.

use bench_compare::stats::{median, utest};

/// Median and order-statistic interval of a sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Summary {
    pub(crate) median: f64,
    /// The longer arm of the 95 % interval relative to the median; infinite below six values.
    pub(crate) spread: f64,
}

/// Median and interval, unless there are no values.
pub(crate) fn summary(values: &[f64]) -> Option<Summary> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len();
    let median = (n > 0).then(|| median::median(&sorted))?;
    let interval = median::interval(n, 0.95);
    let spread = match (interval.is_finite(n), median > 0.0) {
        (false, _) => f64::INFINITY,
        (true, true) => {
            (median - sorted[interval.lo - 1]).max(sorted[interval.hi - 1] - median) / median
        }
        (true, false) => 0.0,
    };
    Some(Summary { median, spread })
}

/// Two-sided p of the Mann-Whitney U test; 1 where it says nothing.
pub(crate) fn p_value(a: &[f64], b: &[f64]) -> f64 {
    utest::mann_whitney(a, b).map_or(1.0, |test| test.p)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn six_values_are_the_least_for_an_interval() {
        let five = summary(&[3.0, 1.0, 2.0, 5.0, 4.0]).unwrap();
        assert_eq!((five.median, five.spread), (3.0, f64::INFINITY));
        let six = summary(&[9.0, 10.0, 10.0, 10.0, 10.0, 12.0]).unwrap();
        assert!((six.spread - 0.2).abs() < 1e-12);
        assert_eq!(summary(&[]), None);
    }
}
