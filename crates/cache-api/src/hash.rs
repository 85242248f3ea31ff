//! The default hasher: xxh3, one-shot per `write`, seeded at random per map.

use std::hash::{BuildHasher, Hasher, RandomState};

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// 2^64 divided by the golden ratio, made odd: a multiplier whose bits are well spread.
const PHI: u64 = 0x9e37_79b9_7f4a_7c15;
/// A second odd multiplier, unrelated to [`PHI`].
const MIX: u64 = 0xd6e8_feb8_6659_fd93;

/// The hasher builder that every design uses unless told otherwise: [`OneShotHasher`]s with one seed.
///
/// # What the seed protects and what it does not
///
/// [`new`](DefaultHashBuilder::new) and `default` draw the seed from the operating system, a new one for each
/// builder. Someone who can only choose keys therefore cannot prepare keys that all collide in a map whose seed
/// they do not know. xxh3 is not a keyed cryptographic function: someone who can also measure how long lookups
/// take, or see hashes, may recover enough of the seed to build collisions. Where keys come from such a person, use
/// a SipHash builder ([`std::hash::RandomState`]) instead: every design takes any [`BuildHasher`].
///
/// # Examples
///
/// ```
/// use std::hash::BuildHasher;
/// use cache_api::DefaultHashBuilder;
///
/// let fixed = DefaultHashBuilder::with_seed(7);
/// assert_eq!(fixed.hash_one("key"), DefaultHashBuilder::with_seed(7).hash_one("key"));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct DefaultHashBuilder {
    seed: u64,
}

impl DefaultHashBuilder {
    /// A builder with a random seed of its own.
    #[must_use]
    pub fn new() -> Self {
        // `RandomState` is the standard library's door to the operating system's randomness: its keys differ for
        // each instance, and hashing nothing with them yields 64 unpredictable bits.
        Self::with_seed(RandomState::new().build_hasher().finish())
    }

    /// A builder with a fixed seed: the same hashes in every run, as reproducible measurements need.
    ///
    /// Do not use it where keys come from outside: a known seed lets anyone prepare colliding keys.
    #[must_use]
    pub const fn with_seed(seed: u64) -> Self {
        Self { seed }
    }

    /// The seed.
    #[must_use]
    pub const fn seed(&self) -> u64 {
        self.seed
    }
}

impl Default for DefaultHashBuilder {
    fn default() -> Self {
        Self::new()
    }
}

impl BuildHasher for DefaultHashBuilder {
    type Hasher = OneShotHasher;

    #[inline]
    fn build_hasher(&self) -> OneShotHasher {
        OneShotHasher { state: self.seed }
    }
}

/// Hashes each `write` at once with xxh3 (64 bits), seeded by what was written before.
///
/// The streaming form of xxh3 keeps a 256-byte buffer whose initialisation alone costs tens of nanoseconds, more
/// than a lookup. Keys are nearly always one slice, so each slice is hashed in one shot, and its hash seeds the
/// next. Integers are mixed in by a folded multiplication (the high half of the 128-bit product xor the low half).
///
/// The stream of `write`s is part of the hash: `write(b"ab")` differs from `write(b"a")` and `write(b"b")`, as
/// [`Hasher`] permits.
#[derive(Clone, Copy, Debug)]
pub struct OneShotHasher {
    state: u64,
}

/// High half xor low half of the 128-bit product.
#[inline]
const fn fold(a: u64, b: u64) -> u64 {
    let product = (a as u128).wrapping_mul(b as u128);
    (product as u64) ^ ((product >> 64) as u64)
}

impl Hasher for OneShotHasher {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        self.state = xxh3_64_with_seed(bytes, self.state);
    }

    #[inline]
    fn write_u8(&mut self, i: u8) {
        // `str` ends each of its hashes with such a byte. The state is well mixed by then: one fold keeps it so.
        self.write_u64(u64::from(i));
    }

    #[inline]
    fn write_u16(&mut self, i: u16) {
        self.write_u64(u64::from(i));
    }

    #[inline]
    fn write_u32(&mut self, i: u32) {
        self.write_u64(u64::from(i));
    }

    #[inline]
    fn write_u64(&mut self, i: u64) {
        // Two rounds of multiply and fold: after one, flipping a high input bit does not reach every output bit.
        let once = fold(self.state ^ i, PHI);
        self.state = fold(once ^ (once >> 32) ^ self.state.rotate_left(32), MIX);
    }

    #[inline]
    fn write_u128(&mut self, i: u128) {
        self.write_u64(i as u64);
        self.write_u64((i >> 64) as u64);
    }

    #[inline]
    fn write_usize(&mut self, i: usize) {
        self.write_u64(i as u64);
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.state
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fixed_seeds_reproduce_and_seeds_matter() {
        let a = DefaultHashBuilder::with_seed(1);
        assert_eq!(a.hash_one("key"), a.hash_one(String::from("key")));
        assert_ne!(
            a.hash_one("key"),
            DefaultHashBuilder::with_seed(2).hash_one("key")
        );
        assert_ne!(
            DefaultHashBuilder::new().seed(),
            DefaultHashBuilder::new().seed()
        );
    }

    /// Flips each input bit of many integers: every output bit should flip about half the time.
    #[test]
    fn integers_avalanche() {
        let build = DefaultHashBuilder::with_seed(0);
        let samples = 2_000_u64;
        for bit in 0..64 {
            let mut flips = [0_u32; 64];
            for n in 0..samples {
                let difference = build.hash_one(n) ^ build.hash_one(n ^ (1 << bit));
                for (out, count) in flips.iter_mut().enumerate() {
                    *count += (difference >> out & 1) as u32;
                }
            }
            for (out, count) in flips.into_iter().enumerate() {
                let share = f64::from(count) / samples as f64;
                // Six standard deviations of a fair coin over the samples.
                let bound = 3.0 / (samples as f64).sqrt();
                assert!(
                    (share - 0.5).abs() < bound,
                    "input bit {bit}, output bit {out}: {share}"
                );
            }
        }
    }

    /// Chi-square over every 8-bit window of the hash for the sequential keys that the benchmarks use.
    #[test]
    fn windows_of_sequential_keys_are_uniform() {
        let build = DefaultHashBuilder::with_seed(0);
        let hashes: Vec<u64> = (0..65_536)
            .map(|n| build.hash_one(format!("{n:016}").as_str()))
            .collect();
        for shift in 0..=56 {
            let mut counts = [0_f64; 256];
            for hash in &hashes {
                counts[(hash >> shift & 255) as usize] += 1.0;
            }
            let expected = 256.0;
            let chi: f64 = counts
                .iter()
                .map(|c| (c - expected) * (c - expected) / expected)
                .sum();
            // 255 degrees of freedom: mean 255, standard deviation 22.6; six of them above the mean.
            assert!(chi < 391.0, "bits {shift}..{}: chi-square {chi}", shift + 8);
        }
    }
}
