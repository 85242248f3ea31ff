//! The few statistics the table on the terminal needs. No file, no clock.

/// Median and order-statistic interval of a sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Summary {
    pub(crate) median: f64,
    /// Half-width of the 95 % interval relative to the median; infinite below six values.
    pub(crate) spread: f64,
}

/// Median and the tightest symmetric order-statistic interval that covers it with 95 %.
pub(crate) fn summary(values: &[f64]) -> Option<Summary> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len();
    let median = (sorted.get(n.checked_sub(1)? / 2)? + sorted.get(n / 2)?) / 2.0;
    // How many values may be left out at each end: P(Binomial(n, 1/2) < k) on both sides stays under 5 %.
    let (mut tail, mut term, mut out) = (0.0, 0.5_f64.powi(n as i32), None);
    for k in 0..n / 2 {
        tail += term;
        if 2.0 * tail > 0.05 {
            break;
        }
        out = Some(k);
        term *= (n - k) as f64 / (k + 1) as f64;
    }
    let spread = match out {
        Some(k) if median > 0.0 => (median - sorted[k]).max(sorted[n - 1 - k] - median) / median,
        Some(_) => 0.0,
        None => f64::INFINITY,
    };
    Some(Summary { median, spread })
}

/// Two-sided p of the Mann-Whitney U test: exact without ties, else by the normal approximation.
pub(crate) fn p_value(a: &[f64], b: &[f64]) -> f64 {
    let (n, m) = (a.len(), b.len());
    if n == 0 || m == 0 {
        return 1.0;
    }
    let mut all: Vec<(f64, bool)> = a
        .iter()
        .map(|&x| (x, true))
        .chain(b.iter().map(|&x| (x, false)))
        .collect();
    all.sort_by(|x, y| x.0.total_cmp(&y.0));
    let (mut ranks, mut ties, mut at) = (0.0, 0.0, 0);
    while at < all.len() {
        let same = all[at..].iter().take_while(|x| x.0 == all[at].0).count();
        let rank = at as f64 + (same as f64 + 1.0) / 2.0;
        ranks += rank * all[at..at + same].iter().filter(|x| x.1).count() as f64;
        ties += (same * same * same - same) as f64;
        at += same;
    }
    let u = ranks - (n * (n + 1)) as f64 / 2.0;
    let u = u.min((n * m) as f64 - u);
    if ties == 0.0 && n * m <= 2500 {
        return (2.0 * exact_tail(n, m, u as usize)).min(1.0);
    }
    let total = (n + m) as f64;
    let variance = (n * m) as f64 / 12.0 * (total + 1.0 - ties / (total * (total - 1.0)));
    if variance <= 0.0 {
        return 1.0;
    }
    let z = ((n * m) as f64 / 2.0 - u - 0.5).max(0.0) / variance.sqrt();
    erfc(z / std::f64::consts::SQRT_2)
}

/// P(U <= u) when the two samples come from one source: counts of partitions, built up one value at a time.
fn exact_tail(n: usize, m: usize, u: usize) -> f64 {
    // ways[j][s]: arrangements with j of the first sample placed and U = s so far, after each of the second.
    let mut ways = vec![vec![0.0_f64; n * m + 1]; n + 1];
    ways[0][0] = 1.0;
    for placed in 1..=n + m {
        for j in (1..=n.min(placed)).rev() {
            // The value placed now, if it is one of the first sample, lies above all of the second placed before.
            let below = placed - j;
            if below > m {
                continue;
            }
            for s in (below..=n * m).rev() {
                ways[j][s] += ways[j - 1][s - below];
            }
        }
    }
    let all: f64 = ways[n].iter().sum();
    ways[n][..=u.min(n * m)].iter().sum::<f64>() / all
}

/// The complementary error function (Numerical Recipes' rational Chebyshev fit, error below 1.2e-7).
fn erfc(x: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.5 * x);
    let c = [
        -1.265_512_23,
        1.000_023_68,
        0.374_091_96,
        0.096_784_18,
        -0.186_288_06,
        0.278_868_07,
        -1.135_203_98,
        1.488_515_87,
        -0.822_152_23,
        0.170_872_77,
    ];
    let poly = c.iter().rev().fold(0.0, |sum, c| sum * t + c);
    t * (-x * x + poly).exp()
}
