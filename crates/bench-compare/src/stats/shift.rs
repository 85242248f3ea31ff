//! How far two samples lie apart: the Hodges-Lehmann estimate and its distribution-free interval.
//!
//! Hodges and Lehmann, "Estimates of location based on rank tests", 1963; the intervals invert the U test (Moses)
//! and, for pairs, the signed-rank test (Tukey). They are computed on logarithms, so that a shift is a ratio.

use super::{median, normal, utest};

/// A ratio of the second sample to the first with its interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shift {
    /// The estimate: 1.05 is five per cent more.
    pub ratio: f64,
    /// Lower end of the interval; 0 when the samples are too few for one.
    pub lo: f64,
    /// Upper end; infinite when the samples are too few for one.
    pub hi: f64,
    /// Whether it was computed from pairs.
    pub paired: bool,
}

/// The shift from `old` to `new`, from all pairs of values. O(nm log nm).
///
/// `None` when a sample is empty or has values that are not positive: a ratio says nothing about them.
pub fn two_sample(old: &[f64], new: &[f64], confidence: f64) -> Option<Shift> {
    let old = logarithms(old)?;
    let new = logarithms(new)?;
    let mut differences: Vec<f64> = new
        .iter()
        .flat_map(|b| old.iter().map(move |a| b - a))
        .collect();
    differences.sort_by(f64::total_cmp);
    let rank = rank_two_sample(old.len(), new.len(), confidence);
    Some(invert(&differences, rank, false))
}

/// The shift from `old` to `new` where both have one value per round, from the Walsh averages of the rounds' log
/// ratios. Drift that hits both sides of a round alike cancels. O(n^2 log n).
///
/// `None` without pairs or when a value is not positive.
pub fn paired(pairs: &[(f64, f64)], confidence: f64) -> Option<Shift> {
    let old = logarithms(&pairs.iter().map(|p| p.0).collect::<Vec<_>>())?;
    let new = logarithms(&pairs.iter().map(|p| p.1).collect::<Vec<_>>())?;
    let ratios: Vec<f64> = new.iter().zip(&old).map(|(b, a)| b - a).collect();
    let mut averages = Vec::with_capacity(ratios.len() * (ratios.len() + 1) / 2);
    for (i, x) in ratios.iter().enumerate() {
        averages.extend(ratios[..=i].iter().map(|y| (x + y) / 2.0));
    }
    averages.sort_by(f64::total_cmp);
    let rank = rank_paired(ratios.len(), confidence);
    Some(invert(&averages, rank, true))
}

/// The shift as a difference instead of a ratio: estimate and ends of the interval, infinite for too few values.
/// For samples that may hold zeros. NaN without values. O(nm log nm).
pub fn difference(old: &[f64], new: &[f64], confidence: f64) -> (f64, f64, f64) {
    let mut differences: Vec<f64> = new
        .iter()
        .flat_map(|b| old.iter().map(move |a| b - a))
        .collect();
    differences.sort_by(f64::total_cmp);
    let estimate = median::median(&differences);
    let rank = rank_two_sample(old.len(), new.len(), confidence);
    if rank == 0 || rank > differences.len() {
        return (estimate, f64::NEG_INFINITY, f64::INFINITY);
    }
    (
        estimate,
        differences[rank - 1],
        differences[differences.len() - rank],
    )
}

fn logarithms(values: &[f64]) -> Option<Vec<f64>> {
    let usable = !values.is_empty() && values.iter().all(|v| *v > 0.0 && v.is_finite());
    usable.then(|| values.iter().map(|v| v.ln()).collect())
}

/// The interval runs from the `rank`-th smallest to the `rank`-th largest difference; rank 0 means unbounded.
fn invert(sorted: &[f64], rank: usize, paired: bool) -> Shift {
    let ratio = median::median(sorted).exp();
    if rank == 0 || rank > sorted.len() {
        return Shift {
            ratio,
            lo: 0.0,
            hi: f64::INFINITY,
            paired,
        };
    }
    Shift {
        ratio,
        lo: sorted[rank - 1].exp(),
        hi: sorted[sorted.len() - rank].exp(),
        paired,
    }
}

/// The largest k with P(U <= k - 1) <= (1 - confidence) / 2 in the untied distribution.
fn rank_two_sample(n: usize, m: usize, confidence: f64) -> usize {
    let tail = (1.0 - confidence) / 2.0;
    if n.max(m) <= 50 {
        return rank_from_counts(&utest::untied_counts(n, m), tail);
    }
    let (n, m) = (n as f64, m as f64);
    rank_approximate(n * m / 2.0, (n * m * (n + m + 1.0) / 12.0).sqrt(), tail)
}

/// The same for the signed-rank statistic of n pairs.
fn rank_paired(n: usize, confidence: f64) -> usize {
    let tail = (1.0 - confidence) / 2.0;
    if n <= 50 {
        // Each rank joins the sum or not: coefficients of the product of (1 + q^i).
        let mut counts = vec![0u128; n * (n + 1) / 2 + 1];
        counts[0] = 1;
        for i in 1..=n {
            for w in (i..counts.len()).rev() {
                counts[w] += counts[w - i];
            }
        }
        return rank_from_counts(&counts, tail);
    }
    let n = n as f64;
    rank_approximate(
        n * (n + 1.0) / 4.0,
        (n * (n + 1.0) * (2.0 * n + 1.0) / 24.0).sqrt(),
        tail,
    )
}

fn rank_from_counts(counts: &[u128], tail: f64) -> usize {
    let total = counts.iter().sum::<u128>() as f64;
    let mut sum = 0u128;
    counts
        .iter()
        .take_while(|count| {
            sum += **count;
            sum as f64 / total <= tail
        })
        .count()
}

#[cold]
fn rank_approximate(mean: f64, deviation: f64, tail: f64) -> usize {
    let rank = (mean + deviation * normal::quantile(tail) + 0.5).floor();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "not negative, far below 2^53"
    )]
    let rank = rank.max(0.0) as usize;
    rank
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_ranks() {
        // Tables of Hollander and Wolfe: n = m = 10 at 95 % gives 24, ten pairs give 9, five pairs none.
        assert_eq!(rank_two_sample(10, 10, 0.95), 24);
        assert_eq!(rank_two_sample(3, 3, 0.95), 0);
        assert_eq!(rank_paired(10, 0.95), 9);
        assert_eq!(rank_paired(6, 0.95), 1);
        assert_eq!(rank_paired(5, 0.95), 0);
    }

    #[test]
    fn a_constant_ratio_is_found() {
        let old: Vec<f64> = (1..=10).map(|i| 100.0 + f64::from(i)).collect();
        let new: Vec<f64> = old.iter().map(|v| v * 1.05).collect();
        let pairs: Vec<(f64, f64)> = old.iter().copied().zip(new.iter().copied()).collect();
        let shift = paired(&pairs, 0.95).unwrap();
        assert!(
            (shift.ratio - 1.05).abs() < 1e-9
                && (shift.lo - 1.05).abs() < 1e-9
                && (shift.hi - 1.05).abs() < 1e-9
        );
        let shift = two_sample(&old, &new, 0.95).unwrap();
        assert!(shift.lo < 1.05 && 1.05 < shift.hi && (shift.ratio - 1.05).abs() < 0.005);
        assert!(two_sample(&[0.0], &[1.0], 0.95).is_none());
        assert!(paired(&[], 0.95).is_none());
        let few = two_sample(&[1.0], &[2.0], 0.95).unwrap();
        assert_eq!((few.lo, few.hi), (0.0, f64::INFINITY));
    }
}
