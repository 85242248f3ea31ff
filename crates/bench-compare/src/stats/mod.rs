//! The arithmetic of samples: medians and their intervals, the U test, shifts, trends, corrections for many
//! comparisons, resampling. Pure functions of numbers; knows nothing of benchmarks.

pub mod median;
pub mod multiple;
pub mod normal;
pub mod resample;
pub mod shift;
pub mod trend;
pub mod utest;

/// The geometric mean; `None` without values or when one is not positive. O(n).
///
/// ```
/// let mean = bench_compare::stats::geometric_mean([2.0, 8.0]).unwrap();
/// assert!((mean - 4.0).abs() < 1e-12);
/// ```
pub fn geometric_mean(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    // A running mean of logarithms, so that a long column neither overflows nor loses digits.
    let (mut mean, mut n) = (0.0, 0.0);
    for value in values {
        if value <= 0.0 {
            return None;
        }
        n += 1.0;
        mean += (value.ln() - mean) / n;
    }
    (n > 0.0).then(|| mean.exp()).filter(|g| !g.is_nan())
}

/// Binomial coefficient C(n, k), exact.
///
/// # Panics
/// When the result does not fit 128 bits; n <= 120 always fits.
pub(crate) fn choose(n: usize, k: usize) -> u128 {
    if k > n {
        return 0;
    }
    // Each partial product is itself a binomial coefficient, so the division is exact.
    (0..k.min(n - k)).fold(1u128, |c, i| c * (n - i) as u128 / (i + 1) as u128)
}
