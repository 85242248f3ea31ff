//! A small seeded generator for bootstrap draws. Results must be the same on every machine and in every release, so
//! it is spelled out here: splitmix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014).

/// A stream of numbers that depends on its seed alone.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The stream of `seed`.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`, which must not be 0. The bias is below 2^-32 for any bound that fits memory.
    pub fn below(&mut self, bound: usize) -> usize {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the product's upper half is below the bound"
        )]
        let draw = ((u128::from(self.bits()) * bound as u128) >> 64) as usize;
        draw
    }
}

/// The two ends of the middle `confidence` of `values`, which are sorted by this call. NaN without values.
pub fn percentile_interval(values: &mut [f64], confidence: f64) -> (f64, f64) {
    if values.is_empty() {
        return (f64::NAN, f64::NAN);
    }
    values.sort_by(f64::total_cmp);
    (
        quantile(values, (1.0 - confidence) / 2.0),
        quantile(values, (1.0 + confidence) / 2.0),
    )
}

/// The q-quantile of sorted values, by linear interpolation. NaN without values.
pub fn quantile(sorted: &[f64], q: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else {
        return f64::NAN;
    };
    let position = q.clamp(0.0, 1.0) * last as f64;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between 0 and the last index"
    )]
    let below = position as usize;
    let above = (below + 1).min(last);
    let (a, b) = (sorted[below], sorted[above]);
    if a == b {
        a
    } else {
        a + position.fract() * (b - a)
    }
}
