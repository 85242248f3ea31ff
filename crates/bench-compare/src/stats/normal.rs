//! The standard normal distribution.

use std::f64::consts::SQRT_2;

/// P(Z <= z).
pub fn cdf(z: f64) -> f64 {
    libm::erfc(-z / SQRT_2) / 2.0
}

/// The z with P(Z <= z) = p, for 0 < p < 1; infinite at the ends.
///
/// Halves an interval until it cannot be halved: some fifty steps, exact to the last bits of [`cdf`].
pub fn quantile(p: f64) -> f64 {
    if p.is_nan() || p <= 0.0 {
        return if p.is_nan() {
            f64::NAN
        } else {
            f64::NEG_INFINITY
        };
    }
    if p >= 1.0 {
        return f64::INFINITY;
    }
    let (mut lo, mut hi) = (-40.0, 40.0);
    loop {
        let mid = (lo + hi) / 2.0;
        if mid <= lo || mid >= hi {
            return mid;
        }
        if cdf(mid) < p {
            lo = mid;
        } else {
            hi = mid;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_quantiles() {
        for (p, z) in [
            (0.5, 0.0),
            (0.025, -1.959963984540054),
            (0.995, 2.5758293035489004),
        ] {
            assert!((quantile(p) - z).abs() < 1e-12, "{p}");
            assert!((cdf(z) - p).abs() < 1e-15, "{z}");
        }
        assert_eq!(quantile(0.0), f64::NEG_INFINITY);
        assert_eq!(quantile(1.0), f64::INFINITY);
    }
}
