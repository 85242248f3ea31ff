//! Which operations a thread performs: keys drawn from a distribution, reads and writes from a mix. All drawing is
//! done before the clock starts.
//!
//! # The stream
//!
//! Each thread has a stream of its own, drawn from its own generator; the seeds depend on the run's seed, the
//! distribution and the thread, and on nothing else, so that all designs of a round meet the same operations.
//! An operation is one `u32`: the key's index shifted left by one, and 1 for a write in the lowest bit. The stream
//! is read in order (the prefetcher sees to it), and again from its start when a cell needs more operations.
//!
//! A stream holds the next power of two above twice the number of keys, between 2^14 and 2^21 operations. Replayed,
//! it touches the same keys again: with uniform keys 86 % of them or more. So the data that is touched is nearly as
//! large as the map, and far longer than what a branch predictor can learn. At 10 million keys and more the 2^21
//! operations touch a part of the map only (19 % at 10 million); that part is still many times any cache.

use rand::rngs::Xoshiro256PlusPlus;
use rand::seq::SliceRandom;
use rand::{Rng, RngExt, SeedableRng};
use rand_distr::Distribution;
use rand_distr::weighted::WeightedAliasIndex;

/// The exponent of the skewed distribution.
pub const ZIPF_EXPONENT: f64 = 1.1;

/// How the keys are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dist {
    /// Every key equally often.
    Uniform,
    /// The key of rank r with a weight of r^-1.1. Ranks are dealt to the keys at random, so that keys that are
    /// asked for often are not neighbours in memory.
    Zipf,
}

impl Dist {
    /// All of them, in the order in which they are measured.
    pub const ALL: [Self; 2] = [Self::Uniform, Self::Zipf];

    /// The name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Zipf => "zipf",
        }
    }
}

/// The share of reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mix {
    /// Reads in a hundred operations; the rest are writes.
    pub reads: u32,
}

impl Mix {
    /// The mixes of the core grid, in the order in which they are measured.
    pub const ALL: [Self; 4] = [
        Self { reads: 100 },
        Self { reads: 90 },
        Self { reads: 50 },
        Self { reads: 10 },
    ];

    /// The name in reports: `r90` for 90 % reads.
    #[must_use]
    pub fn name(self) -> String {
        format!("r{}", self.reads)
    }

    /// The share of writes.
    #[must_use]
    pub fn write_share(self) -> f64 {
        f64::from(100 - self.reads) / 100.0
    }
}

/// One read or write of one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Op(u32);

impl Op {
    /// An operation on key number `index`, which is below 2^31.
    #[must_use]
    pub const fn new(index: u32, is_write: bool) -> Self {
        Self(index << 1 | is_write as u32)
    }

    /// The key's number.
    #[inline]
    #[must_use]
    pub const fn index(self) -> usize {
        (self.0 >> 1) as usize
    }

    /// Whether it writes.
    #[inline]
    #[must_use]
    pub const fn is_write(self) -> bool {
        self.0 & 1 == 1
    }
}

/// Draws keys for one distribution over one number of keys.
#[derive(Clone, Debug)]
pub enum Sampler {
    /// See [`Dist::Uniform`].
    Uniform {
        /// How many keys.
        keys: u32,
    },
    /// See [`Dist::Zipf`]: the alias method (Walker 1977; Vose 1991), exact but for the rounding of `f64`.
    Zipf {
        /// Weighted by the rank of each key.
        table: Box<WeightedAliasIndex<f64>>,
        /// The key of each rank, most frequent first.
        key_of_rank: Vec<u32>,
    },
}

impl Sampler {
    /// A sampler over `keys` keys. O(`keys`) for zipf.
    ///
    /// # Panics
    ///
    /// Where `keys` is 0, or 2^31 or more.
    #[must_use]
    pub fn new(dist: Dist, keys: usize, seed: u64) -> Self {
        let count = u32::try_from(keys)
            .ok()
            .filter(|&count| 0 < count && count <= 1 << 31)
            .expect("1 to 2^31 keys");
        match dist {
            Dist::Uniform => Self::Uniform { keys: count },
            Dist::Zipf => {
                let mut key_of_rank: Vec<u32> = (0..count).collect();
                key_of_rank.shuffle(&mut generator(seed, Purpose::Ranks, 0));
                let mut weights = vec![0.0; keys];
                for (rank, &key) in key_of_rank.iter().enumerate() {
                    weights[key as usize] = (rank as f64 + 1.0).powf(-ZIPF_EXPONENT);
                }
                let table = WeightedAliasIndex::new(weights).expect("positive finite weights");
                Self::Zipf {
                    table: Box::new(table),
                    key_of_rank,
                }
            }
        }
    }

    /// One key.
    #[inline]
    pub fn draw(&self, rng: &mut impl Rng) -> u32 {
        match self {
            Self::Uniform { keys } => rng.random_range(0..*keys),
            Self::Zipf { table, .. } => table.sample(rng) as u32,
        }
    }
}

/// What a generator is for: each purpose has generators of its own.
#[derive(Clone, Copy, Debug)]
enum Purpose {
    Ranks = 1,
    Keys = 2,
    Mix = 3,
}

/// A generator that differs for each seed, purpose and number.
fn generator(seed: u64, purpose: Purpose, number: u64) -> Xoshiro256PlusPlus {
    // xoshiro's own seeding runs splitmix64 over the seed; an odd multiplier per field keeps the fields apart.
    let mixed = seed
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .wrapping_add((purpose as u64).wrapping_mul(0xbf58_476d_1ce4_e5b9))
        .wrapping_add(number.wrapping_mul(0x94d0_49bb_1331_11eb));
    Xoshiro256PlusPlus::seed_from_u64(mixed)
}

/// How many operations a stream over `keys` keys holds.
#[must_use]
pub fn stream_length(keys: usize) -> usize {
    (2 * keys).next_power_of_two().clamp(1 << 14, 1 << 21)
}

/// The operations of one thread.
#[derive(Clone, Debug)]
pub struct Stream {
    ops: Vec<Op>,
    /// The writes among them.
    writes: u64,
}

impl Stream {
    /// Draws the keys of thread `thread`'s stream of `length` reads.
    #[must_use]
    pub fn draw(sampler: &Sampler, length: usize, seed: u64, thread: usize) -> Self {
        let mut rng = generator(seed, Purpose::Keys, thread as u64);
        let ops = (0..length)
            .map(|_| Op::new(sampler.draw(&mut rng), false))
            .collect();
        Self { ops, writes: 0 }
    }

    /// A stream of exactly these operations.
    #[must_use]
    pub fn from_ops(ops: Vec<Op>) -> Self {
        let writes = ops.iter().filter(|op| op.is_write()).count() as u64;
        Self { ops, writes }
    }

    /// Turns each operation into a read or a write, independently with the probabilities of `mix`.
    #[must_use]
    pub fn mixed(mut self, mix: Mix, seed: u64, thread: usize) -> Self {
        let mut rng = generator(seed, Purpose::Mix, thread as u64);
        let threshold = u64::from(100 - mix.reads) * (1 << 32) / 100;
        for op in &mut self.ops {
            *op = Op::new(op.index() as u32, u64::from(rng.next_u32()) < threshold);
        }
        Self::from_ops(self.ops)
    }

    /// `length` operations from number `from` on; after the last one the first one follows.
    #[must_use]
    pub fn cut(&self, from: usize, length: usize) -> Self {
        let from = from % self.ops.len();
        Self::from_ops(
            self.ops
                .iter()
                .copied()
                .cycle()
                .skip(from)
                .take(length)
                .collect(),
        )
    }

    /// Turns exactly `writes` operations into writes, at random places, and the others into reads.
    ///
    /// For cells of few operations, where drawing each one would make the number of writes the noise.
    #[must_use]
    pub fn with_exact_writes(mut self, writes: usize, seed: u64, thread: usize) -> Self {
        let mut rng = generator(seed, Purpose::Mix, thread as u64);
        let mut is_write: Vec<bool> = (0..self.ops.len())
            .map(|position| position < writes)
            .collect();
        is_write.shuffle(&mut rng);
        for (op, write) in self.ops.iter_mut().zip(is_write) {
            *op = Op::new(op.index() as u32, write);
        }
        Self::from_ops(self.ops)
    }

    /// All operations, in order.
    #[must_use]
    pub fn ops(&self) -> &[Op] {
        &self.ops
    }

    /// The operations from number `cursor` on to the end of the stream, at most `most` of them.
    #[inline]
    #[must_use]
    pub fn part(&self, cursor: u64, most: usize) -> &[Op] {
        let from = (cursor % self.ops.len() as u64) as usize;
        let to = self.ops.len().min(from + most);
        &self.ops[from..to]
    }

    /// How many of the first `count` operations are writes, where the stream begins again after its end.
    #[must_use]
    pub fn writes_among_first(&self, count: u64) -> u64 {
        let length = self.ops.len() as u64;
        let rest = (count % length) as usize;
        count / length * self.writes
            + self.ops[..rest].iter().filter(|op| op.is_write()).count() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(dist: Dist, keys: usize, draws: usize, seed: u64) -> (Vec<f64>, Sampler) {
        let sampler = Sampler::new(dist, keys, seed);
        let stream = Stream::draw(&sampler, draws, seed, 0);
        let mut counts = vec![0.0; keys];
        for op in stream.ops() {
            counts[op.index()] += 1.0;
        }
        (counts, sampler)
    }

    /// Chi-square of `seen` against `expected`, as standard deviations above its mean.
    fn chi_square_excess(seen: &[f64], expected: &[f64]) -> f64 {
        assert_eq!(seen.len(), expected.len());
        let chi: f64 = seen
            .iter()
            .zip(expected)
            .map(|(s, e)| (s - e) * (s - e) / e)
            .sum();
        let freedom = seen.len() as f64 - 1.0;
        (chi - freedom) / (2.0 * freedom).sqrt()
    }

    #[test]
    fn uniform_keys_are_uniform() {
        let draws = 1 << 20;
        let (seen, _) = counts(Dist::Uniform, 1000, draws, 7);
        let excess = chi_square_excess(&seen, &vec![draws as f64 / 1000.0; 1000]);
        assert!(excess.abs() < 6.0, "{excess} standard deviations");
    }

    #[test]
    fn zipf_ranks_follow_the_analytic_distribution() {
        let (keys, draws) = (10_000, 1 << 20);
        let (seen, sampler) = counts(Dist::Zipf, keys, draws, 7);
        let Sampler::Zipf { key_of_rank, .. } = sampler else {
            panic!("not zipf")
        };
        let by_rank: Vec<f64> = key_of_rank.iter().map(|&key| seen[key as usize]).collect();
        let expected = |exponent: f64| -> Vec<f64> {
            let weights: Vec<f64> = (1..=keys)
                .map(|rank| (rank as f64).powf(-exponent))
                .collect();
            let sum: f64 = weights.iter().sum();
            weights
                .iter()
                .map(|weight| weight / sum * draws as f64)
                .collect()
        };
        let excess = chi_square_excess(&by_rank, &expected(ZIPF_EXPONENT));
        assert!(excess.abs() < 6.0, "{excess} standard deviations");
        // The test is sharp enough to tell a slightly different exponent from ours, and ranks from their neighbours.
        assert!(chi_square_excess(&by_rank, &expected(1.07)) > 6.0);
        let mut off_by_one = expected(ZIPF_EXPONENT);
        off_by_one.rotate_right(1);
        assert!(chi_square_excess(&by_rank, &off_by_one) > 6.0);
    }

    #[test]
    fn hot_keys_are_not_neighbours() {
        let Sampler::Zipf { key_of_rank, .. } = Sampler::new(Dist::Zipf, 100_000, 3) else {
            panic!("not zipf")
        };
        let close = key_of_rank[..1000]
            .windows(2)
            .filter(|pair| pair[0].abs_diff(pair[1]) < 100)
            .count();
        // Two random keys of 100,000 are that close with a probability of 0.2 %.
        assert!(
            close < 20,
            "{close} of the 1,000 hottest keys lie beside the next"
        );
        let mut sorted = key_of_rank.clone();
        sorted.sort_unstable();
        assert!(
            sorted
                .iter()
                .enumerate()
                .all(|(index, &key)| index == key as usize),
            "not a permutation"
        );
    }

    #[test]
    fn mixes_hold_their_share_of_writes_evenly() {
        let sampler = Sampler::new(Dist::Uniform, 1000, 1);
        for mix in Mix::ALL {
            let stream = Stream::draw(&sampler, 1 << 18, 1, 0).mixed(mix, 1, 0);
            for part in stream.ops().chunks(1 << 16) {
                let share =
                    part.iter().filter(|op| op.is_write()).count() as f64 / part.len() as f64;
                // Six standard deviations of the largest variance that a share of 65,536 draws can have.
                assert!(
                    (share - mix.write_share()).abs() < 0.012,
                    "{} writes {share}",
                    mix.name()
                );
            }
        }
        let pure = Stream::draw(&sampler, 1000, 1, 0).mixed(Mix { reads: 100 }, 1, 0);
        assert_eq!(pure.writes_among_first(1000), 0);
    }

    #[test]
    fn the_mix_changes_no_key() {
        let sampler = Sampler::new(Dist::Zipf, 1000, 1);
        let plain = Stream::draw(&sampler, 1000, 1, 0);
        let mixed = plain.clone().mixed(Mix { reads: 50 }, 1, 0);
        assert!(
            plain
                .ops()
                .iter()
                .zip(mixed.ops())
                .all(|(a, b)| a.index() == b.index())
        );
    }

    #[test]
    fn streams_depend_on_seed_and_thread_alone() {
        let draw = |seed, thread| {
            let sampler = Sampler::new(Dist::Zipf, 5000, seed);
            Stream::draw(&sampler, 4096, seed, thread)
                .mixed(Mix { reads: 50 }, seed, thread)
                .ops()
                .to_vec()
        };
        assert_eq!(draw(1, 0), draw(1, 0));
        assert_ne!(draw(1, 0), draw(1, 1));
        assert_ne!(draw(1, 0), draw(2, 0));
        let same = draw(1, 0)
            .iter()
            .zip(draw(1, 1))
            .filter(|(a, b)| a.is_write() == b.is_write())
            .count();
        // Independent halves agree half the time; six standard deviations are 192.
        assert!(same.abs_diff(2048) < 192, "{same} of 4,096");
    }

    #[test]
    fn exact_writes_are_exact_and_spread() {
        let sampler = Sampler::new(Dist::Uniform, 1000, 1);
        let stream = Stream::draw(&sampler, 64, 1, 0)
            .cut(3, 200)
            .with_exact_writes(20, 1, 0);
        assert_eq!(stream.ops().len(), 200);
        assert_eq!(stream.writes_among_first(200), 20);
        assert!(stream.ops()[..20].iter().any(|op| !op.is_write()));
    }

    #[test]
    fn counting_writes_wraps_as_the_stream_does() {
        let stream = Stream::from_ops(vec![Op::new(0, true), Op::new(1, false), Op::new(2, true)]);
        assert_eq!(
            [0, 1, 2, 3, 4, 7].map(|count| stream.writes_among_first(count)),
            [0, 1, 1, 2, 3, 5]
        );
        assert_eq!(stream.part(4, 10), &stream.ops()[1..]);
        assert_eq!(stream.part(3, 2), &stream.ops()[..2]);
    }

    #[test]
    fn streams_are_as_long_as_they_say() {
        assert_eq!(stream_length(10), 1 << 14);
        assert_eq!(stream_length(100_000), 1 << 18);
        assert_eq!(stream_length(1_000_000), 1 << 21);
        assert_eq!(stream_length(100_000_000), 1 << 21);
    }
}
