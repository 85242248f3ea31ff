//! Whether a series drifts: Kendall's rank correlation with time (Mann, "Nonparametric tests against trend", 1945)
//! and the slope of Theil and Sen.

use super::normal;

/// A monotone trend in a series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trend {
    /// Kendall's tau of value against position, from -1 to 1.
    pub tau: f64,
    /// The probability of a tau at least as far from 0 in a series without trend.
    pub p: f64,
    /// The estimated change from the first to the last position, as a fraction of the median.
    pub change: f64,
}

/// Up to this length an untied series is tested exactly.
const EXACT_LIMIT: usize = 30;

/// The trend of `series`, whose values are taken in order of time. O(n^2 log n).
///
/// `None` for fewer than 4 values, a value that is no number, or a median of zero.
pub fn mann_kendall(series: &[f64]) -> Option<Trend> {
    let n = series.len();
    if n < 4 || series.iter().any(|v| !v.is_finite()) {
        return None;
    }
    let (mut score, mut ties, mut slopes) = (0i64, false, Vec::with_capacity(n * (n - 1) / 2));
    for (i, x) in series.iter().enumerate() {
        for (j, y) in series.iter().enumerate().skip(i + 1) {
            slopes.push((y - x) / (j - i) as f64);
            score += i64::from(y > x) - i64::from(y < x);
            ties |= y == x;
        }
    }
    slopes.sort_by(f64::total_cmp);
    let mut sorted = series.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = super::median::median(&sorted);
    if middle == 0.0 {
        return None;
    }
    let change = super::median::median(&slopes) * (n - 1) as f64 / middle;
    let p = if ties || n > EXACT_LIMIT {
        approximate(&sorted, score)
    } else {
        exact(n, score)
    };
    Some(Trend {
        tau: score as f64 / (n * (n - 1) / 2) as f64,
        p,
        change,
    })
}

/// Counts permutations by their inversions: coefficients of the product of (1 + q + ... + q^(i-1)).
fn exact(n: usize, score: i64) -> f64 {
    let pairs = n * (n - 1) / 2;
    let mut counts = vec![0f64; pairs + 1];
    counts[0] = 1.0;
    for i in 2..=n {
        // Each factor is divided by i, so that the counts stay probabilities.
        let mut next = vec![0f64; pairs + 1];
        for (k, slot) in next.iter_mut().enumerate() {
            *slot = counts[k.saturating_sub(i - 1)..=k].iter().sum::<f64>() / i as f64;
        }
        counts = next;
    }
    // A permutation with k inversions scores pairs - 2k.
    let far = |k: usize| (pairs as i64 - 2 * k as i64).abs() >= score.abs();
    counts
        .iter()
        .enumerate()
        .filter(|(k, _)| far(*k))
        .map(|(_, p)| p)
        .sum::<f64>()
        .min(1.0)
}

fn approximate(sorted: &[f64], score: i64) -> f64 {
    let n = sorted.len() as f64;
    let term = |t: f64| t * (t - 1.0) * (2.0 * t + 5.0);
    let ties: f64 = sorted
        .chunk_by(|a, b| a == b)
        .map(|group| term(group.len() as f64))
        .sum();
    let variance = (term(n) - ties) / 18.0;
    if variance <= 0.0 || score == 0 {
        return 1.0;
    }
    (2.0 * normal::cdf(-((score.abs() - 1) as f64) / variance.sqrt())).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_tail_of_a_sorted_series() {
        let t = mann_kendall(&[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        assert!((t.p - 2.0 / 120.0).abs() < 1e-12 && t.tau == 1.0);
        assert!((t.change - 4.0 / 3.0).abs() < 1e-12);
    }

    #[test]
    fn flat_and_short_series() {
        let t = mann_kendall(&[2.0; 8]).unwrap();
        assert_eq!((t.tau, t.p, t.change), (0.0, 1.0, 0.0));
        assert!(mann_kendall(&[1.0, 2.0, 3.0]).is_none());
        assert!(mann_kendall(&[1.0, f64::NAN, 3.0, 4.0]).is_none());
    }

    #[test]
    fn both_ways_agree_roughly() {
        let series: Vec<f64> = (0..20)
            .map(|i| f64::from((i * 7) % 20) + f64::from(i) / 3.0)
            .collect();
        let mut sorted = series.clone();
        sorted.sort_by(f64::total_cmp);
        let score = (mann_kendall(&series).unwrap().tau * 190.0).round() as i64;
        assert!((exact(20, score) - approximate(&sorted, score)).abs() < 0.02);
    }
}
