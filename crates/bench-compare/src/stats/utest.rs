//! The Mann-Whitney U test, two-sided, exact where that is affordable.
//!
//! Mann and Whitney, "On a test of whether one of two random variables is stochastically larger than the other",
//! 1947. The exact distribution under ties is that of U over all ways to deal the pooled values to the two samples.

use super::{choose, normal};

/// The outcome of a test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UTest {
    /// U of the first sample: the number of pairs in which it has the larger value, ties counting half.
    pub u: f64,
    /// The probability of a U at least as far from its mean, if both samples come from one distribution.
    pub p: f64,
    /// Whether `p` is exact rather than a normal approximation.
    pub exact: bool,
}

/// Why a test says nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UTestError {
    /// A sample has no values.
    Empty,
    /// All values of both samples are equal.
    AllEqual,
    /// A value is not a number.
    NotANumber,
}

/// Up to this size of both samples the test is exact without ties.
const EXACT_LIMIT: usize = 50;
/// Up to this size of both samples the test is exact with ties.
const EXACT_LIMIT_TIES: usize = 25;

/// Tests whether two samples (in any order) come from one distribution.
///
/// Exact up to 50 + 50 values without ties and 25 + 25 with ties, else by the normal approximation with corrections
/// for ties and continuity. The exact p is that of the symmetric test, P(|U - mean| >= |u - mean|), at most 1.
/// O(n log n), plus at most O(n^4) for the exact distribution.
///
/// # Errors
/// [`UTestError`] when no p can be given.
///
/// ```
/// let t = bench_compare::stats::utest::mann_whitney(&[1.0, 2.0, 3.0, 4.0], &[11.0, 12.0, 13.0, 14.0]).unwrap();
/// assert!((t.p - 2.0 / 70.0).abs() < 1e-15);
/// ```
pub fn mann_whitney(a: &[f64], b: &[f64]) -> Result<UTest, UTestError> {
    let ranked = Ranked::new(a, b)?;
    let (n, m) = (a.len(), b.len());
    if !ranked.is_exact(n, m) {
        return ranked.approximate(n, m);
    }
    // Twice U is an integer, as is twice its mean: comparisons below are exact.
    let distance = ranked.twice_u.abs_diff(n * m);
    let (mut tail, mut total) = (0u128, 0u128);
    for (twice_u, count) in ranked.distribution(n, m).into_iter().enumerate() {
        total += count;
        if twice_u.abs_diff(n * m) >= distance {
            tail += count;
        }
    }
    Ok(UTest {
        u: ranked.u(),
        p: tail as f64 / total as f64,
        exact: true,
    })
}

/// [`mann_whitney`] as the reference computes it: with ties and unequal sizes it doubles the lower tail of a
/// distribution that is not symmetric, so that p depends on the order of the samples and may exceed 1 or be 0.
pub(crate) fn mann_whitney_compat(a: &[f64], b: &[f64]) -> Result<UTest, UTestError> {
    let ranked = Ranked::new(a, b)?;
    let (n, m) = (a.len(), b.len());
    if !ranked.is_exact(n, m) || !ranked.has_ties() || n == m {
        return mann_whitney(a, b);
    }
    let smaller = ranked.twice_u.min(2 * n * m - ranked.twice_u);
    let p = if ranked.twice_u == n * m {
        1.0
    } else if let [low, high] = ranked.groups[..] {
        // With two distinct values it divides with truncation towards zero where the floor is meant.
        let spread = n as i64 * (low as i64 - n as i64);
        let most = (smaller as i64 - spread) / (low + high) as i64;
        let least = n.saturating_sub(low);
        let ways = |k: i64| match usize::try_from(k) {
            Ok(k) if k <= n => choose(low, n - k) * choose(high, k),
            _ => 0,
        };
        let count: u128 = (least as i64..=most).map(ways).sum();
        2.0 * count as f64 / choose(n + m, n) as f64
    } else {
        let distribution = ranked.distribution(n, m);
        let count: u128 = distribution.iter().take(smaller + 1).sum();
        2.0 * count as f64 / choose(n + m, n) as f64
    };
    Ok(UTest {
        u: ranked.u(),
        p,
        exact: true,
    })
}

/// The smallest p that two samples of sizes `n` and `m` can give: that of complete separation.
pub fn smallest_p(n: usize, m: usize) -> f64 {
    if n == 0 || m == 0 {
        return 1.0;
    }
    if n <= EXACT_LIMIT && m <= EXACT_LIMIT {
        return (2.0 / choose(n + m, n) as f64).min(1.0);
    }
    let (n, m) = (n as f64, m as f64);
    2.0 * normal::cdf((0.5 - n * m / 2.0) / (n * m * (n + m + 1.0) / 12.0).sqrt())
}

/// The least equal sample size, up to 9, at which complete separation gives p <= `alpha`.
pub fn samples_needed(alpha: f64) -> Option<usize> {
    (1..=9).find(|n| smallest_p(*n, *n) <= alpha)
}

/// The number of ways in which untied samples of sizes n and m have U = 0, 1, ..., n*m. O(n^2 m).
///
/// These are the coefficients of the Gaussian binomial, built as a product of (1 - q^(m+i)) / (1 - q^i).
pub(crate) fn untied_counts(n: usize, m: usize) -> Vec<u128> {
    let (n, m) = (n.min(m), n.max(m));
    let mut counts = vec![0u128; n * m + 1];
    counts[0] = 1;
    for i in 1..=n {
        // All arithmetic is modulo 2^128, in which the final coefficients fit.
        for u in (m + i..counts.len()).rev() {
            counts[u] = counts[u].wrapping_sub(counts[u - m - i]);
        }
        for u in i..counts.len() {
            counts[u] = counts[u].wrapping_add(counts[u - i]);
        }
    }
    counts
}

/// The pooled values of two samples, as far as the test needs them.
struct Ranked {
    /// Sizes of the groups of equal values, ascending by value.
    groups: Vec<usize>,
    /// Twice the U of the first sample.
    twice_u: usize,
}

impl Ranked {
    fn new(a: &[f64], b: &[f64]) -> Result<Ranked, UTestError> {
        if a.is_empty() || b.is_empty() {
            return Err(UTestError::Empty);
        }
        let mut pooled: Vec<(f64, bool)> = Vec::with_capacity(a.len() + b.len());
        pooled.extend(a.iter().map(|v| (*v, true)));
        pooled.extend(b.iter().map(|v| (*v, false)));
        if pooled.iter().any(|(v, _)| v.is_nan()) {
            return Err(UTestError::NotANumber);
        }
        pooled.sort_by(|x, y| x.0.total_cmp(&y.0));
        let (mut groups, mut twice_u, mut below) = (Vec::new(), 0, 0);
        // Equality is that of numbers, so that both zeros are one value.
        for group in pooled.chunk_by(|x, y| x.0 == y.0) {
            let first = group.iter().filter(|(_, first)| *first).count();
            let second = group.len() - first;
            twice_u += first * (2 * below + second);
            below += second;
            groups.push(group.len());
        }
        if groups.len() == 1 {
            return Err(UTestError::AllEqual);
        }
        Ok(Ranked { groups, twice_u })
    }

    fn u(&self) -> f64 {
        self.twice_u as f64 / 2.0
    }

    fn has_ties(&self) -> bool {
        self.groups.iter().any(|t| *t > 1)
    }

    fn is_exact(&self, n: usize, m: usize) -> bool {
        n.max(m)
            <= if self.has_ties() {
                EXACT_LIMIT_TIES
            } else {
                EXACT_LIMIT
            }
    }

    /// In how many of all C(n + m, n) deals of the pooled values twice the U of the first sample is 0, 1, ..., 2nm.
    fn distribution(&self, n: usize, m: usize) -> Vec<u128> {
        let width = 2 * n * m + 1;
        if !self.has_ties() {
            let mut spread = vec![0; width];
            for (u, count) in untied_counts(n, m).into_iter().enumerate() {
                spread[2 * u] = count;
            }
            return spread;
        }
        // ways[k * width + w]: deals of the groups so far in which the first sample took k values and has twice
        // U = w. A group of `size` adds to larger k only, or leaves a state as it is, so that the largest k first
        // lets one table serve for all groups.
        let mut ways = vec![0u128; (n + 1) * width];
        ways[0] = 1;
        let mut seen = 0;
        for &size in &self.groups {
            for k in (0..=n.min(seen)).rev() {
                let others = seen - k;
                let row = ways[k * width..(k + 1) * width].to_vec();
                ways[k * width..(k + 1) * width].fill(0);
                // The second sample has room for m values in all.
                let least = (others + size).saturating_sub(m);
                for take in least..=size.min(n - k) {
                    let (step, weight) = (take * (2 * others + size - take), choose(size, take));
                    let target = &mut ways[(k + take) * width + step..(k + take + 1) * width];
                    for (slot, count) in target.iter_mut().zip(&row) {
                        *slot += weight * count;
                    }
                }
            }
            seen += size;
        }
        ways.split_off(n * width)
    }

    #[cold]
    fn approximate(&self, n: usize, m: usize) -> Result<UTest, UTestError> {
        let (nf, mf) = (n as f64, m as f64);
        let total = nf + mf;
        let cube = |t: f64| t * t * t - t;
        let ties: f64 = self.groups.iter().map(|t| cube(*t as f64)).sum();
        let deviation = (nf * mf * ((total + 1.0) - ties / (total * (total - 1.0))) / 12.0).sqrt();
        if deviation == 0.0 || deviation.is_nan() {
            return Err(UTestError::AllEqual);
        }
        let offset = self.u() - nf * mf / 2.0;
        let toward_zero = if offset == 0.0 {
            0.0
        } else {
            offset.signum() * 0.5
        };
        let z = (offset - toward_zero) / deviation;
        Ok(UTest {
            u: self.u(),
            p: (2.0 * normal::cdf(-z.abs())).min(1.0),
            exact: false,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn p(a: &[f64], b: &[f64]) -> f64 {
        mann_whitney(a, b).unwrap().p
    }

    fn range(from: f64, n: usize) -> Vec<f64> {
        (0..n).map(|i| from + i as f64).collect()
    }

    #[test]
    fn vectors_of_the_reference() {
        let close = |got: f64, want: f64| {
            assert!((got - want).abs() <= 3e-9 * want.max(1e-3), "{got} {want}")
        };
        close(p(&range(1.0, 4), &range(11.0, 4)), 0.0285714286);
        close(p(&range(1.0, 5), &range(6.0, 5)), 0.00793650794);
        close(
            p(&[1., 3., 5., 7., 9., 11.], &[2., 4., 6., 8., 10., 12.]),
            0.699134199,
        );
        close(p(&range(0.0, 10), &range(3.0, 10)), 0.0557925047);
        close(p(&range(0.0, 10), &range(3.5, 10)), 0.0288055598);
        close(
            p(&[1., 1., 1., 2., 2., 3.], &[2., 3., 3., 3., 4., 4.]),
            0.0281385281,
        );
        let mut zeros = vec![0.0; 9];
        zeros.push(1.0);
        close(p(&zeros, &[1.0; 10]), 0.00011907597);
        close(p(&range(0.0, 60), &range(10.5, 55)), 0.0174662191);
        let thirds: Vec<f64> = (0..30).map(|i| f64::from(i / 3)).collect();
        let shifted: Vec<f64> = thirds.iter().map(|v| v + 2.0).collect();
        close(p(&thirds, &shifted), 0.016504477);
    }

    #[test]
    fn ties_with_unequal_sizes() {
        let (a, b) = ([2., 1., 3., 5.], [1., 1., 1., 1., 1.]);
        assert_eq!(p(&a, &b), p(&b, &a));
        assert!(p(&a, &b) > 0.0 && p(&a, &b) <= 1.0);
        assert_eq!(mann_whitney_compat(&a, &b).unwrap().p, 0.0);
        let swapped = mann_whitney_compat(&b, &a).unwrap().p;
        assert!((swapped - 0.095).abs() < 5e-4, "{swapped}");
    }

    #[test]
    fn no_answer() {
        assert_eq!(mann_whitney(&[], &[1.0]), Err(UTestError::Empty));
        assert_eq!(mann_whitney(&[1.0], &[1.0]), Err(UTestError::AllEqual));
        assert_eq!(
            mann_whitney(&[0.0; 60], &[-0.0; 60]),
            Err(UTestError::AllEqual)
        );
        assert_eq!(
            mann_whitney(&[f64::NAN], &[1.0]),
            Err(UTestError::NotANumber)
        );
        assert_eq!(samples_needed(0.05), Some(4));
        assert_eq!(samples_needed(1e-9), None);
    }

    #[test]
    fn counts_sum_to_all_deals() {
        for (n, m) in [(1, 1), (3, 5), (10, 10), (50, 50), (7, 50)] {
            assert_eq!(
                untied_counts(n, m).iter().sum::<u128>(),
                choose(n + m, n),
                "{n} {m}"
            );
        }
    }
}
