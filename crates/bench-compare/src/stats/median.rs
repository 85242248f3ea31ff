//! Medians and their distribution-free confidence intervals by order statistics.
//!
//! The number of samples below the true median is binomial(n, 1/2), so the interval between two order statistics
//! holds the median with a probability that depends on n alone (Conover, Practical Nonparametric Statistics, 3.2).

use super::{choose, normal};

/// Which order statistics bound the interval of a median.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OrderInterval {
    /// The lower bound is the `lo`-th smallest sample, from 1; 0 stands for minus infinity.
    pub lo: usize,
    /// The upper bound is the `hi`-th smallest sample; n + 1 stands for infinity.
    pub hi: usize,
    /// The probability that the interval holds the median.
    pub confidence: f64,
}

impl OrderInterval {
    /// Whether both bounds are samples.
    pub fn is_finite(&self, n: usize) -> bool {
        self.lo >= 1 && self.hi <= n
    }
}

/// The largest n for which the binomial distribution itself is used.
const EXACT_LIMIT: usize = 30;

/// The median of `sorted`: the middle value, or the mean of the two middle ones (Hyndman and Fan, R8, whose
/// interpolation weight this evaluates as defined). NaN without values. O(1).
pub fn median(sorted: &[f64]) -> f64 {
    let n = sorted.len();
    if n == 0 {
        return f64::NAN;
    }
    let position = 1.0 / 3.0 + 0.5 * (n as f64 + 1.0 / 3.0);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between 0 and n"
    )]
    let below = position as usize;
    if below == 0 {
        sorted[0]
    } else if below >= n {
        sorted[n - 1]
    } else {
        let (a, b) = (sorted[below - 1], sorted[below]);
        // Equal neighbours need no weight, which would turn infinities into NaN.
        if a == b {
            a
        } else {
            a + position.fract() * (b - a)
        }
    }
}

/// The interval for the median of n samples that holds it with at least the probability `confidence`: the binomial
/// distribution up to n = 30, grown from its middle by the likelier side (the left one on a tie), the normal
/// approximation above. O(n).
///
/// ```
/// let i = bench_compare::stats::median::interval(10, 0.95);
/// assert_eq!((i.lo, i.hi), (2, 9));
/// ```
pub fn interval(n: usize, confidence: f64) -> OrderInterval {
    // Counts out of 2^n are exact in 53 bits up to the limit.
    interval_with(n, confidence, |n, k| {
        choose(n, k) as f64 / 2f64.powi(n as i32)
    })
}

/// [`interval`] as the reference computes it: above n = 20 its binomial coefficients go through logarithms of the
/// gamma function, whose rounding breaks ties between the two sides (n = 24 at 95 % is the first to differ).
pub(crate) fn interval_compat(n: usize, confidence: f64) -> OrderInterval {
    let coefficient = |n: usize, k: usize| {
        if n <= 20 || k == 0 || k == n {
            return choose(n, k) as f64;
        }
        let log_factorial = |m: usize| libm::lgamma((m + 1) as f64);
        (log_factorial(n) - log_factorial(k) - log_factorial(n - k)).exp()
    };
    interval_with(n, confidence, |n, k| {
        coefficient(n, k) * 0.5f64.powi(k as i32) * 0.5f64.powi((n - k) as i32)
    })
}

fn interval_with(n: usize, confidence: f64, mass: impl Fn(usize, usize) -> f64) -> OrderInterval {
    if confidence >= 1.0 || n == 0 {
        return OrderInterval {
            lo: 0,
            hi: n + 1,
            confidence: 1.0,
        };
    }
    if n > EXACT_LIMIT {
        return interval_approximate(n, confidence);
    }
    // [lo, hi) are the bins summed so far; bin k is the gap between the k-th and the next sample.
    let (mut lo, mut hi) = (n / 2, n / 2 + 1);
    let mut sum = mass(n, lo);
    while sum < confidence && (lo > 0 || hi <= n) {
        let left = if lo > 0 { mass(n, lo - 1) } else { 0.0 };
        let right = if hi <= n { mass(n, hi) } else { 0.0 };
        if left >= right && lo > 0 {
            sum += left;
            lo -= 1;
        } else {
            sum += right;
            hi += 1;
        }
    }
    OrderInterval {
        lo,
        hi,
        confidence: sum.min(1.0),
    }
}

#[cold]
fn interval_approximate(n: usize, confidence: f64) -> OrderInterval {
    let (mean, deviation) = (n as f64 / 2.0, (n as f64).sqrt() / 2.0);
    let left = mean + deviation * normal::quantile((1.0 - confidence) / 2.0);
    let right = 2.0 * mean - left;
    let (lo, hi) = ((left - 0.5).floor() + 1.0, (right - 0.5).ceil() + 1.0);
    let below = |x: f64| normal::cdf((x - 0.5 - mean) / deviation);
    let mass = |hi: f64| below(hi) - below(lo);
    let (full, shorter) = (mass(hi), mass(hi - 1.0));
    // The rounded interval is symmetric; one bin less on the right may already do.
    let (hi, sum) = if shorter >= confidence && shorter < full {
        (hi - 1.0, shorter)
    } else {
        (hi, full)
    };
    let clamp = |x: f64| x.clamp(0.0, (n + 1) as f64);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "clamped to 0..=n + 1"
    )]
    let (lo, hi) = (clamp(lo) as usize, clamp(hi) as usize);
    OrderInterval {
        lo,
        hi,
        confidence: if lo == 0 && hi == n + 1 { 1.0 } else { sum },
    }
}

/// The least number of samples, from 2 to 50, whose interval has two finite ends; `None` if 50 are too few.
pub fn samples_needed(confidence: f64) -> Option<usize> {
    (2..=50).find(|n| interval(*n, confidence).is_finite(*n))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_at_95_percent() {
        let expected = [
            (5, 0, 5),
            (6, 1, 6),
            (7, 1, 7),
            (8, 1, 7),
            (9, 2, 8),
            (10, 2, 9),
            (11, 2, 9),
            (12, 3, 10),
            (13, 3, 11),
            (14, 3, 11),
            (15, 4, 12),
            (16, 4, 12),
            (17, 5, 13),
            (18, 5, 14),
            (19, 5, 14),
            (20, 6, 15),
            (21, 6, 16),
            (22, 6, 16),
            (23, 7, 17),
            (24, 7, 17),
            (25, 8, 18),
            (26, 8, 19),
            (27, 8, 19),
            (28, 9, 20),
            (29, 9, 20),
            (30, 10, 21),
            (31, 10, 22),
            (32, 10, 22),
            (33, 11, 23),
            (34, 11, 23),
            (35, 12, 24),
            (36, 12, 24),
            (37, 13, 25),
            (38, 13, 26),
            (39, 13, 26),
            (40, 14, 27),
            (50, 18, 32),
        ];
        for (n, lo, hi) in expected {
            let i = interval(n, 0.95);
            assert_eq!((i.lo, i.hi), (lo, hi), "n = {n}");
        }
        for n in 1..=4 {
            let i = interval(n, 0.95);
            assert_eq!((i.lo, i.hi), (0, n + 1), "n = {n}");
        }
        assert_eq!(samples_needed(0.95), Some(6));
        assert_eq!(samples_needed(0.99), Some(8));
        assert_eq!(samples_needed(1.0), None);
    }

    #[test]
    fn the_reference_differs_where_its_logarithms_round() {
        let at = |i: OrderInterval| (i.lo, i.hi);
        let differing = |confidence: f64| -> Vec<usize> {
            (1..=30)
                .filter(|n| at(interval(*n, confidence)) != at(interval_compat(*n, confidence)))
                .collect()
        };
        assert_eq!(differing(0.95), [24]);
        assert_eq!(at(interval_compat(24, 0.95)), (8, 18));
        assert_eq!(differing(0.90), [22, 29]);
        assert_eq!(differing(0.99), [28]);
        assert_eq!(differing(0.50), [28, 30]);
    }

    #[test]
    fn medians() {
        assert!(median(&[]).is_nan());
        assert_eq!(median(&[3.0]), 3.0);
        assert_eq!(median(&[1.0, 2.0, 9.0]), 2.0);
        assert_eq!(median(&[1.0, 2.0, 4.0, 9.0]), 3.0);
        assert_eq!(median(&[f64::INFINITY, f64::INFINITY]), f64::INFINITY);
    }
}
