//! Keys, values and streams of operations, all made before the clock starts. Never measures.

use std::fmt;
use std::sync::Arc;

use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use rand::{Rng, RngExt, SeedableRng};
use rand_distr::{Distribution, Zipf};

/// The skew of [`Dist::Zipf`], as in the Go study.
pub const ZIPF_EXPONENT: f64 = 1.1;

/// Operations in one thread's stream, at most. A longer run starts over: at a million keys a stream touches most of
/// them, so repeating it does not make the working set smaller than the distribution's.
pub const STREAM: usize = 1 << 20;

/// How keys are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dist {
    /// All keys equally often.
    Uniform,
    /// Key of rank r with a probability proportional to r^-1.1. Ranks are dealt to the keys at random, so hot keys
    /// are no neighbours.
    Zipf,
}

/// The share of reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mix {
    /// Reads per hundred operations.
    pub reads: u32,
}

/// The mixes of the core grid.
pub const MIXES: [Mix; 4] = [
    Mix { reads: 100 },
    Mix { reads: 90 },
    Mix { reads: 50 },
    Mix { reads: 10 },
];
/// The distributions of the core grid.
pub const DISTS: [Dist; 2] = [Dist::Uniform, Dist::Zipf];

impl fmt::Display for Dist {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Uniform => "uniform",
            Self::Zipf => "zipf",
        })
    }
}

impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "r{}", self.reads)
    }
}

/// One operation: which key, and whether it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Op(u32);

impl Op {
    /// The most keys an operation can tell apart.
    pub const MAX_KEYS: usize = 1 << 31;

    /// An operation on the key with this index.
    #[must_use]
    pub const fn new(key: usize, write: bool) -> Self {
        Self((key as u32) << 1 | write as u32)
    }

    /// The index of the key.
    #[inline]
    #[must_use]
    pub const fn key(self) -> usize {
        (self.0 >> 1) as usize
    }

    /// Whether it writes.
    #[inline]
    #[must_use]
    pub const fn is_write(self) -> bool {
        self.0 & 1 == 1
    }
}

/// The keys of a run: decimal numbers padded with zeros, one behind the other in memory.
///
/// A key is a `&'static str`, that is, a 16-byte header, as a Go string is: storing it copies no bytes. The bytes
/// live as long as the process.
#[must_use]
pub fn keys(count: usize, length: usize) -> Vec<&'static str> {
    let mut slab = String::with_capacity(count * length);
    for number in 0..count {
        use fmt::Write;
        write!(slab, "{number:0length$}").expect("a string takes every write");
    }
    let slab: &'static str = slab.leak();
    if length == 0 {
        return vec![""; count];
    }
    slab.as_bytes()
        .chunks_exact(length)
        .map(|key| std::str::from_utf8(key).expect("digits are valid UTF-8"))
        .collect()
}

/// The shared value number `which`: all writes of one cell store the same header. `size` bytes.
#[must_use]
pub fn value(which: usize, size: usize) -> &'static str {
    let mut text = format!("{which:0size$}");
    text.truncate(size);
    text.leak()
}

/// The generator of one purpose of one run: streams of different purposes and threads are unrelated.
#[must_use]
pub fn generator(seed: u64, purpose: u64) -> SmallRng {
    // SplitMix64's finaliser over both: neighbouring purposes give unrelated seeds.
    let mut z = seed ^ purpose.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    SmallRng::seed_from_u64(z ^ (z >> 31))
}

/// Which key has which rank: a permutation of `0..keys`, the same for all threads of a run.
#[must_use]
pub fn ranks(keys: usize, seed: u64) -> Arc<[u32]> {
    let mut order: Vec<u32> = (0..keys as u32).collect();
    order.shuffle(&mut generator(seed, u64::MAX));
    order.into()
}

/// Draws keys by one distribution.
#[derive(Debug)]
pub struct KeyDraw {
    keys: usize,
    zipf: Option<(Zipf<f64>, Arc<[u32]>)>,
}

impl KeyDraw {
    /// Draws among `ranks.len()` keys.
    #[must_use]
    pub fn new(dist: Dist, ranks: &Arc<[u32]>) -> Self {
        let zipf = match dist {
            Dist::Uniform => None,
            Dist::Zipf => {
                let zipf = Zipf::new(ranks.len() as f64, ZIPF_EXPONENT);
                Some((zipf.expect("there is at least one key"), Arc::clone(ranks)))
            }
        };
        Self {
            keys: ranks.len(),
            zipf,
        }
    }

    /// The index of a key.
    pub fn draw(&self, rng: &mut impl Rng) -> usize {
        match &self.zipf {
            None => rng.random_range(0..self.keys),
            // Samples are whole numbers from 1 to the number of keys.
            Some((zipf, ranks)) => ranks[zipf.sample(rng) as usize - 1] as usize,
        }
    }
}

/// A thread's stream for timed cells: each operation writes with the probability that the mix says.
#[must_use]
pub fn stream(draw: &KeyDraw, mix: Mix, length: usize, mut rng: SmallRng) -> Vec<Op> {
    (0..length)
        .map(|_| Op::new(draw.draw(&mut rng), rng.random_range(0..100) >= mix.reads))
        .collect()
}

/// A thread's stream for cells where a write takes milliseconds: exactly `writes` writes (or, for a mix without
/// writes, `writes` reads), and as many reads as the mix says, in random order.
///
/// Drawn independently, a handful of operations would hold an accidental number of writes, and that number, not the
/// design, would decide the figure.
#[must_use]
pub fn exact_stream(draw: &KeyDraw, mix: Mix, writes: usize, mut rng: SmallRng) -> Vec<Op> {
    let share = 100 - mix.reads as usize;
    let (writes, reads) = match share {
        0 => (0, writes),
        _ => (writes, (writes * mix.reads as usize).div_ceil(share)),
    };
    let mut kinds = vec![true; writes];
    kinds.resize(writes + reads, false);
    kinds.shuffle(&mut rng);
    kinds
        .into_iter()
        .map(|write| Op::new(draw.draw(&mut rng), write))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pearson's statistic and the bound that chance exceeds once in about a million runs (Wilson and Hilferty's
    /// approximation of the distribution's upper tail).
    fn chi_square(counts: &[u64], expected: impl Fn(usize) -> f64) -> (f64, f64) {
        let statistic = counts
            .iter()
            .enumerate()
            .map(|(i, &n)| (n as f64 - expected(i)).powi(2) / expected(i))
            .sum();
        let k = (counts.len() - 1) as f64;
        let bound = k * (1.0 - 2.0 / (9.0 * k) + 4.75 * (2.0 / (9.0 * k)).sqrt()).powi(3);
        (statistic, bound)
    }

    fn counts_by_rank(dist: Dist, keys: usize, draws: usize) -> Vec<u64> {
        let ranks = ranks(keys, 3);
        let mut rank_of = vec![0; keys];
        for (rank, &key) in ranks.iter().enumerate() {
            rank_of[key as usize] = rank;
        }
        let ops = stream(
            &KeyDraw::new(dist, &ranks),
            Mix { reads: 100 },
            draws,
            generator(3, 0),
        );
        let mut counts = vec![0; keys];
        for op in ops {
            counts[rank_of[op.key()]] += 1;
        }
        counts
    }

    #[test]
    fn uniform_keys_are_uniform() {
        let counts = counts_by_rank(Dist::Uniform, 500, 400_000);
        let (statistic, bound) = chi_square(&counts, |_| 800.0);
        assert!(statistic < bound, "{statistic} >= {bound}");
    }

    /// The ranks against the analytic distribution, and the check against a slightly wrong exponent.
    #[test]
    fn zipf_ranks_follow_the_analytic_distribution() {
        let (keys, draws) = (200, 400_000);
        let counts = counts_by_rank(Dist::Zipf, keys, draws);
        let expected = |exponent: f64| {
            let weights: Vec<f64> = (1..=keys).map(|r| (r as f64).powf(-exponent)).collect();
            let total: f64 = weights.iter().sum();
            move |rank: usize| weights[rank] / total * draws as f64
        };
        let (statistic, bound) = chi_square(&counts, expected(ZIPF_EXPONENT));
        assert!(statistic < bound, "{statistic} >= {bound}");
        let (statistic, bound) = chi_square(&counts, expected(1.07));
        assert!(
            statistic > bound,
            "the test would not notice a wrong exponent"
        );
    }

    #[test]
    fn hot_keys_are_no_neighbours() {
        let ranks = ranks(10_000, 1);
        let close = ranks[..100]
            .windows(2)
            .filter(|pair| pair[0].abs_diff(pair[1]) < 8)
            .count();
        assert!(close < 5, "{close} of the 100 hottest keys lie together");
    }

    #[test]
    fn mixes_hold_what_they_say() {
        let draw = KeyDraw::new(Dist::Uniform, &ranks(100, 1));
        for mix in MIXES {
            let ops = stream(&draw, mix, 100_000, generator(1, 0));
            let reads = ops.iter().filter(|op| !op.is_write()).count() as f64 / 1e5;
            // Six standard deviations.
            assert!(
                (reads - f64::from(mix.reads) / 100.0).abs() < 0.01,
                "{mix}: {reads}"
            );
            let exact = exact_stream(&draw, mix, 20, generator(1, 0));
            let writes = exact.iter().filter(|op| op.is_write()).count();
            assert_eq!(writes, if mix.reads == 100 { 0 } else { 20 }, "{mix}");
            let expected = [20, 200, 40, 23]
                [MIXES.iter().position(|m| *m == mix).expect("it is one of them")];
            assert_eq!(exact.len(), expected, "{mix}");
        }
    }

    #[test]
    fn streams_are_repeatable_and_differ_between_threads_and_seeds() {
        let draw = KeyDraw::new(Dist::Zipf, &ranks(1000, 1));
        let of = |seed, thread| stream(&draw, MIXES[2], 1000, generator(seed, thread));
        assert_eq!(of(1, 0), of(1, 0));
        assert_ne!(of(1, 0), of(1, 1));
        assert_ne!(of(1, 0), of(2, 0));
    }

    #[test]
    fn keys_are_padded_numbers_and_values_differ() {
        let keys = keys(1001, 16);
        assert_eq!(keys[0], "0000000000000000");
        assert_eq!(keys[1000], "0000000000001000");
        assert_eq!(value(7, 64).len(), 64);
        assert_ne!(value(7, 64), value(8, 64));
        let op = Op::new(123_456, true);
        assert_eq!((op.key(), op.is_write()), (123_456, true));
    }
}
