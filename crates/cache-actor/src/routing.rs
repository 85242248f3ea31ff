//! Which shard a hash belongs to, and which owner a shard belongs to. Pure arithmetic.

use std::ops::Range;

/// The lowest of the hash bits that choose the shard.
///
/// hashbrown takes the bucket from the low bits and the tag from the top 7 (57 to 63). Bits 40 to 55 collide with
/// neither, for up to [`MAX_SHARDS`] shards of up to 2^40 buckets each.
const SHARD_BITS_FROM: u32 = 40;

/// The largest number of shards.
pub(crate) const MAX_SHARDS: usize = 1 << 16;

/// Keys to shards by hash bits; shards to owners by contiguous, equal (give or take one) ranges.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Routing {
    shards_log2: u32,
    owners: usize,
}

impl Routing {
    /// `shards` is a power of two up to [`MAX_SHARDS`]; `owners` is at least 1 and at most `shards`.
    pub(crate) fn new(shards: usize, owners: usize) -> Self {
        debug_assert!(
            shards.is_power_of_two() && shards <= MAX_SHARDS && (1..=shards).contains(&owners)
        );
        Self {
            shards_log2: shards.trailing_zeros(),
            owners,
        }
    }

    pub(crate) fn shards(self) -> usize {
        1 << self.shards_log2
    }

    pub(crate) fn owners(self) -> usize {
        self.owners
    }

    #[inline]
    pub(crate) fn shard_of(self, hash: u64) -> usize {
        (hash >> SHARD_BITS_FROM) as usize & (self.shards() - 1)
    }

    #[inline]
    pub(crate) fn owner_of_shard(self, shard: usize) -> usize {
        // At most 2^16 times 2^16: no overflow, even where usize has 32 bits (shard < 2^16, owners <= 2^16).
        (shard * self.owners) >> self.shards_log2
    }

    #[inline]
    pub(crate) fn owner_of(self, hash: u64) -> usize {
        self.owner_of_shard(self.shard_of(hash))
    }

    /// The shards of one owner.
    pub(crate) fn shards_of_owner(self, owner: usize) -> Range<usize> {
        let first = |owner: usize| (owner << self.shards_log2).div_ceil(self.owners);
        first(owner)..first(owner + 1)
    }
}

#[cfg(test)]
mod tests {
    use std::hash::BuildHasher;

    use cache_api::DefaultHashBuilder;

    use super::*;

    #[test]
    fn ranges_and_owners_agree_for_every_count() {
        for shards in [1, 2, 8, 64, 256] {
            for owners in 1..=shards {
                let routing = Routing::new(shards, owners);
                let mut next = 0;
                for owner in 0..owners {
                    let range = routing.shards_of_owner(owner);
                    assert_eq!(range.start, next);
                    assert!(!range.is_empty() && range.len() <= shards.div_ceil(owners));
                    assert!(
                        range
                            .clone()
                            .all(|shard| routing.owner_of_shard(shard) == owner)
                    );
                    next = range.end;
                }
                assert_eq!(next, shards);
            }
        }
        let largest = Routing::new(MAX_SHARDS, MAX_SHARDS);
        assert_eq!(largest.owner_of_shard(MAX_SHARDS - 1), MAX_SHARDS - 1);
        assert_eq!(
            largest.shards_of_owner(MAX_SHARDS - 1),
            MAX_SHARDS - 1..MAX_SHARDS
        );
    }

    /// Within each shard, the bits that the table uses must stay uniform: routing may not consume them.
    #[test]
    fn tags_and_buckets_stay_uniform_within_each_shard() {
        let routing = Routing::new(256, 1);
        let build = DefaultHashBuilder::with_seed(0);
        let mut tags = vec![[0_f64; 128]; 256];
        let mut buckets = vec![[0_f64; 128]; 256];
        for n in 0..256 * 128 * 16 {
            let hash = build.hash_one(format!("{n:016}").as_str());
            let shard = routing.shard_of(hash);
            tags[shard][(hash >> 57) as usize] += 1.0;
            buckets[shard][(hash & 127) as usize] += 1.0;
        }
        for counts in tags.iter().chain(&buckets) {
            let expected = counts.iter().sum::<f64>() / 128.0;
            let chi: f64 = counts
                .iter()
                .map(|c| (c - expected) * (c - expected) / expected)
                .sum();
            // 127 degrees of freedom: mean 127, standard deviation 16; seven of them above the mean, for 512 tests.
            assert!(chi < 239.0, "chi-square {chi}");
        }
    }
}
