//! The variants of the `ablation` and `trie-width` experiments: designs with one decision taken differently. None of
//! them is listed or measured anywhere else.
//!
//! The first variant of each decision is the one that ships.

use std::collections::hash_map::DefaultHasher;
use std::hash::{BuildHasher, BuildHasherDefault, Hasher};
use std::marker::PhantomData;

use cache_api::DefaultHashBuilder;
use cache_persistent_trie::HamtCache;
use cache_sharded::{MutexLock, Padded128, Padding, StripedCache, Unpadded};

use super::{CtrieRow, HamtRow, Program, ShardedRow};
use crate::alloc::Backend;
use crate::programs::{self, Grid, Variant, Work};
use crate::subject::{Cloning, Family, HASH_SEED, MapKey, MapValue, Subject, Via, hasher, in_bulk};

/// All of them, those of one decision side by side.
pub const VARIANTS: &[Variant] = &[
    // Whether shards lie on cache lines of their own.
    grid::<Striped<DefaultHashBuilder, Padded128>>("padding", "on"),
    grid::<Striped<DefaultHashBuilder, Unpadded>>("padding", "off"),
    // Whether a reader uses the value under the lock, or takes a clone of it and unlocks first. A clone of a header is
    // two words; with values of 1 KiB it is a reference count, and the use is 16 cache lines.
    grid::<ShardedRow>("unlock", "scope"),
    grid::<EarlyRow>("unlock", "early"),
    values::<ShardedRow>("unlock-large", "scope", 1024, None),
    values::<EarlyRow>("unlock-large", "early", 1024, None),
    // Which bits of the hash choose the shard: bits that the table inside it does not use, those that choose the
    // bucket, or those that tell the entries of a group apart.
    grid::<Striped<Copied<40>, Padded128>>("bits", "apart"),
    grid::<Striped<Copied<0>, Padded128>>("bits", "bucket"),
    grid::<Striped<Copied<56>, Padded128>>("bits", "tag"),
    // What hashes.
    grid::<Striped<DefaultHashBuilder, Padded128>>("hasher", "xxh3"),
    grid::<Striped<SipHash, Padded128>>("hasher", "siphash"),
    grid::<Striped<ahash::RandomState, Padded128>>("hasher", "ahash"),
    grid::<Striped<foldhash::fast::FixedState, Padded128>>("hasher", "foldhash"),
    grid::<Striped<rustc_hash::FxBuildHasher, Padded128>>("hasher", "fxhash"),
    // Who allocates the values.
    values::<ShardedRow>("allocator", "mimalloc", 256, Some(Backend::Mimalloc)),
    values::<ShardedRow>("allocator", "system", 256, Some(Backend::System)),
    // How a reader of the tries says that it reads: two plain stores, or in addition the pin of crossbeam-epoch, which
    // fences. (The same operations, since both structures free by the epochs of cache-reclaim alone.)
    pins::<HamtRow>("hamt", "store"),
    pins::<Pinning<HamtRow>>("hamt", "fence"),
    pins::<CtrieRow>("ctrie", "store"),
    pins::<Pinning<CtrieRow>>("ctrie", "fence"),
];

/// The persistent trie with nodes of so many children at most.
pub const WIDTHS: [(usize, Program<Grid>); 4] = [
    (8, programs::grid::<Wide<8>>),
    (16, programs::grid::<Wide<16>>),
    (32, programs::grid::<Wide<32>>),
    (64, programs::grid::<Wide<64>>),
];

/// That trie.
struct Wide<const WIDTH: usize>;

impl<const WIDTH: usize> Family for Wide<WIDTH> {
    type Map<K: MapKey, V: MapValue> = Via<HamtCache<K, V, DefaultHashBuilder, WIDTH>>;

    fn filled<K: MapKey, V: MapValue>(
        entries: impl ExactSizeIterator<Item = (K, V)>,
    ) -> Self::Map<K, V> {
        in_bulk(HamtCache::with_hasher(hasher()), entries)
    }
}

/// A variant of the sharded design in the core grid.
const fn grid<F: Family>(what: &'static str, name: &'static str) -> Variant
where
    F::Map<crate::keys::Key, crate::keys::Value>: Sync,
{
    Variant {
        of: "sharded",
        what,
        name,
        work: Work::Grid(programs::grid::<F>),
        allocator: None,
    }
}

/// A variant of it with values of `size` bytes, each allocated by itself.
const fn values<F: Family>(
    what: &'static str,
    name: &'static str,
    size: usize,
    allocator: Option<Backend>,
) -> Variant
where
    F::Map<crate::keys::Key, std::sync::Arc<[u8]>>: Sync,
{
    Variant {
        of: "sharded",
        what,
        name,
        work: Work::Values(size, programs::value_size::<F>),
        allocator,
    }
}

/// A variant of a trie in the core grid.
const fn pins<F: Family>(of: &'static str, name: &'static str) -> Variant
where
    F::Map<crate::keys::Key, crate::keys::Value>: Sync,
{
    Variant {
        of,
        what: "pin",
        name,
        work: Work::Grid(programs::grid::<F>),
        allocator: None,
    }
}

/// A design each of whose operations pins crossbeam-epoch as well.
struct Pinning<F>(PhantomData<fn() -> F>);

impl<F: Family> Family for Pinning<F> {
    type Map<K: MapKey, V: MapValue> = Fenced<F::Map<K, V>>;

    fn filled<K: MapKey, V: MapValue>(
        entries: impl ExactSizeIterator<Item = (K, V)>,
    ) -> Self::Map<K, V> {
        Fenced(F::filled(entries))
    }
}

/// See [`Pinning`].
struct Fenced<M>(M);

impl<K, V, M: Subject<K, V>> Subject<K, V> for Fenced<M> {
    #[inline]
    fn read<R: Send>(&self, key: &K, f: impl FnOnce(&V) -> R + Send) -> Option<R> {
        let _guard = crossbeam_epoch::pin();
        self.0.read(key, f)
    }

    #[inline]
    fn write(&self, key: K, value: V) {
        let _guard = crossbeam_epoch::pin();
        self.0.write(key, value);
    }

    #[inline]
    fn erase(&self, key: &K) {
        let _guard = crossbeam_epoch::pin();
        self.0.erase(key);
    }

    fn count(&self) -> usize {
        self.0.count()
    }
}

/// The sharded design with this hasher and this padding.
struct Striped<S, P>(PhantomData<fn() -> (S, P)>);

impl<S: Seeded, P: Padding + 'static> Family for Striped<S, P> {
    type Map<K: MapKey, V: MapValue> = Via<StripedCache<K, V, S, MutexLock, P>>;

    fn filled<K: MapKey, V: MapValue>(
        entries: impl ExactSizeIterator<Item = (K, V)>,
    ) -> Self::Map<K, V> {
        let map = StripedCache::with_capacity_and_hasher(entries.len(), S::seeded());
        in_bulk(map, entries)
    }
}

/// The sharded design, whose readers clone and unlock.
struct EarlyRow;

impl Family for EarlyRow {
    type Map<K: MapKey, V: MapValue> = Cloning<cache_sharded::ShardedCache<K, V>>;

    fn filled<K: MapKey, V: MapValue>(
        entries: impl ExactSizeIterator<Item = (K, V)>,
    ) -> Self::Map<K, V> {
        let map = cache_sharded::ShardedCache::with_capacity_and_hasher(entries.len(), hasher());
        Cloning(in_bulk(map, entries).0)
    }
}

/// A hasher that gives the same hashes in every run.
trait Seeded: BuildHasher + Send + Sync + 'static {
    /// With its fixed seed.
    fn seeded() -> Self;
}

impl Seeded for DefaultHashBuilder {
    fn seeded() -> Self {
        hasher()
    }
}

/// The standard library's hasher (SipHash-1-3), with a key of zeroes.
type SipHash = BuildHasherDefault<DefaultHasher>;

impl Seeded for SipHash {
    fn seeded() -> Self {
        Self::default()
    }
}

impl Seeded for ahash::RandomState {
    fn seeded() -> Self {
        Self::with_seeds(HASH_SEED, 1, 2, 3)
    }
}

impl Seeded for foldhash::fast::FixedState {
    fn seeded() -> Self {
        Self::with_seed(HASH_SEED)
    }
}

impl Seeded for rustc_hash::FxBuildHasher {
    fn seeded() -> Self {
        Self
    }
}

/// The first bit of the hash that chooses the shard, and how many follow.
const SHARD_BITS: (u32, u64) = (32, 0xff);

/// The default hasher with 8 bits of each hash, from number `FROM` on, copied over those that choose the shard. So
/// that all variants do the same work, the harmless one copies too, from bits that nobody else uses.
#[derive(Clone, Copy)]
struct Copied<const FROM: u32>(DefaultHashBuilder);

/// See [`Copied`].
struct CopiedHasher<const FROM: u32>(<DefaultHashBuilder as BuildHasher>::Hasher);

impl<const FROM: u32> Seeded for Copied<FROM> {
    fn seeded() -> Self {
        Self(hasher())
    }
}

impl<const FROM: u32> BuildHasher for Copied<FROM> {
    type Hasher = CopiedHasher<FROM>;

    #[inline]
    fn build_hasher(&self) -> CopiedHasher<FROM> {
        CopiedHasher(self.0.build_hasher())
    }
}

impl<const FROM: u32> Hasher for CopiedHasher<FROM> {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        self.0.write(bytes);
    }

    #[inline]
    fn write_u8(&mut self, i: u8) {
        self.0.write_u8(i);
    }

    #[inline]
    fn finish(&self) -> u64 {
        let hash = self.0.finish();
        let (at, mask) = SHARD_BITS;
        hash & !(mask << at) | (hash >> FROM & mask) << at
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::keys::{Key, Keys, Value};
    use crate::programs::{Ablation, Bench, Benchtime};
    use crate::workload::Mix;

    /// Whether the names say what the types do: the distance between two shards of a map.
    #[test]
    fn padding_changes_the_layout() {
        // What a shard holds: a table, the byte of its lock, two words that say where the table is.
        type Shard = ([usize; 2], parking_lot::Mutex<[usize; 4]>);
        type On = <Padded128 as Padding>::Padded<Shard>;
        type Off = <Unpadded as Padding>::Padded<Shard>;
        assert_eq!((size_of::<On>(), align_of::<On>()), (128, 128));
        assert_eq!(size_of::<Off>(), size_of::<Shard>());
        assert!(
            size_of::<Off>() < 64 + 1,
            "several unpadded shards share a pair of lines"
        );
    }

    #[test]
    fn the_shard_follows_the_bits_that_the_variant_names() {
        fn shards<const FROM: u32>(keys: &Keys) -> (usize, usize) {
            let map = StripedCache::<Key, Value, Copied<FROM>, MutexLock, Padded128>::with_hasher(
                Copied::seeded(),
            );
            let all: HashSet<usize> = keys.iter().map(|key| map.shard_of(&key)).collect();
            // Keys of one shard: how many values the named bits take among them.
            let bits = keys
                .iter()
                .filter(|key| map.shard_of(key) == 7)
                .map(|key| hasher().hash_one(key) >> FROM & 0xff);
            (all.len(), bits.collect::<HashSet<u64>>().len())
        }
        let keys = Keys::new(20_000, 16);
        for correlated in [shards::<0>(&keys), shards::<40>(&keys), shards::<56>(&keys)] {
            assert_eq!(
                correlated,
                (256, 1),
                "all shards are used, and each sees one value of the bits"
            );
        }
        // Under the harmless variant the bits of the bucket and the tag are as spread as ever.
        let map = StripedCache::<Key, Value, Copied<40>, MutexLock, Padded128>::with_hasher(
            Copied::seeded(),
        );
        let low = |key: &Key| hasher().hash_one(key) & 0xff;
        let seen: HashSet<u64> = keys
            .iter()
            .filter(|key| map.shard_of(key) == 7)
            .map(|key| low(&key))
            .collect();
        assert!(seen.len() > 40, "{}", seen.len());
    }

    #[test]
    fn hashers_differ_and_repeat() {
        fn hash<S: Seeded>() -> u64 {
            assert_eq!(S::seeded().hash_one("key"), S::seeded().hash_one("key"));
            S::seeded().hash_one("key")
        }
        let hashes = HashSet::from([
            hash::<DefaultHashBuilder>(),
            hash::<SipHash>(),
            hash::<ahash::RandomState>(),
            hash::<foldhash::fast::FixedState>(),
            hash::<rustc_hash::FxBuildHasher>(),
        ]);
        assert_eq!(hashes.len(), 5);
    }

    #[test]
    fn every_variant_measures_and_verifies() {
        let bench = Bench::new(
            Keys::new(3000, 16),
            64,
            1,
            Vec::new(),
            Benchtime::Ops(2000),
            2,
        );
        let mut names = HashSet::new();
        for variant in VARIANTS {
            let mix = Mix { reads: 50 };
            let cell = Ablation {
                variant,
                mix,
                threads: 2,
            };
            let sample = programs::ablation(&cell, &bench)
                .unwrap_or_else(|error| panic!("{} {}: {error}", variant.what, variant.name));
            assert_eq!(sample.measured.ops, 2000);
            assert!(
                names.insert((variant.of, variant.what, variant.name)),
                "{} {} twice",
                variant.what,
                variant.name
            );
            assert!(
                VARIANTS
                    .iter()
                    .filter(|other| (other.of, other.what) == (variant.of, variant.what))
                    .count()
                    > 1,
                "{}",
                variant.what
            );
        }
    }
}
