//! Many comparisons at once: the step-down correction of Holm ("A simple sequentially rejective multiple test
//! procedure", 1979), which keeps the chance of even one false alarm below alpha whatever the dependence.

/// The Holm-adjusted p of each p, in the same order. O(n log n).
///
/// ```
/// let adjusted = bench_compare::stats::multiple::holm(&[0.01, 0.04, 0.03]);
/// assert_eq!(adjusted, [0.03, 0.06, 0.06]);
/// ```
pub fn holm(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|a, b| p[*a].total_cmp(&p[*b]));
    let mut adjusted = vec![1.0; p.len()];
    let mut floor = 0.0f64;
    for (done, index) in order.into_iter().enumerate() {
        floor = floor.max(((p.len() - done) as f64 * p[index]).min(1.0));
        adjusted[index] = floor;
    }
    adjusted
}
