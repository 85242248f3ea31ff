//! `hamt256`: 256 tries, each behind a root of its own, with one clock for snapshots of all.

use std::borrow::Borrow;
use std::fmt;
use std::hash::{BuildHasher, Hash};

use cache_api::{
    BulkLoad, Cache, ClosureRuns, Consistency, DefaultHashBuilder, Fork, GetBatch, Iterate, Routed,
    Snapshot, SnapshotView, Update,
};

use crate::ops::{Compute, Delete, Put, PutNew, hash_of, shared_methods, shared_view};
use crate::raw::{Draft, Epochs, Fresh, Parted, Site, Whole, batch_in};

/// The number of partitions.
const PARTITIONS: usize = 256;

/// Children per node: these tries hold a 256th of the keys each, and exist for writes; narrow nodes copy less.
const WIDTH: usize = 32;

/// 2^64 divided by the golden ratio.
const PHI: u64 = 0x9e37_79b9_7f4a_7c15;

/// The partition of a hash: Fibonacci hashing (Knuth, TAOCP volume 3, 6.4), the top byte of the product.
///
/// The tries consume the hash from its lowest bits upwards, so partitions must not be taken from those: every trie's root
/// would have a single child. The product's top byte depends on all bits.
#[inline(always)]
const fn partition(hash: u64) -> usize {
    (hash.wrapping_mul(PHI) >> 56) as usize
}

/// A concurrent map of 256 persistent tries, so that writers collide in one case out of 256.
///
/// Reads and writes are those of a [`HamtCache`](crate::HamtCache) on the key's partition. [`len`](Self::len) is a sum
/// over partitions read one after another, and [`clear`](Self::clear) and [`bulk_load`](Self::bulk_load) go partition
/// by partition. A [`snapshot`](Self::snapshot) nevertheless shows one moment of all 256: see there.
///
/// ```
/// use cache_persistent_trie::Hamt256Cache;
///
/// let versions = Hamt256Cache::new();
/// versions.insert("cause", 1);
/// versions.insert("effect", 1);
/// let view = versions.snapshot();
/// versions.insert("cause", 2);
/// // Whatever the partitions of the two keys, no view shows an effect without its cause.
/// assert!(view.get_ref("cause") >= view.get_ref("effect"));
/// ```
///
/// `Send` and `Sync` only if keys and values are both; invariant in both:
///
/// ```compile_fail,E0277
/// fn shareable<T: Sync>() {}
/// shareable::<cache_persistent_trie::Hamt256Cache<u64, std::cell::Cell<u64>>>();
/// ```
pub struct Hamt256Cache<K, V, S = DefaultHashBuilder> {
    raw: Parted<K, V, WIDTH>,
    hasher: S,
}

/// A frozen [`Hamt256Cache`]: all answers are those of one moment. Owns what it shows, and outlives the map.
///
/// Dropping it frees what only it could still see, at once, on the dropping thread.
pub struct Hamt256Snapshot<K, V, S = DefaultHashBuilder> {
    wholes: Box<[Whole<K, V, WIDTH>]>,
    hasher: S,
}

impl<K, V> Hamt256Cache<K, V> {
    /// An empty map with a random seed for the hasher.
    #[must_use]
    pub fn new() -> Self {
        Self::with_hasher(DefaultHashBuilder::new())
    }

    /// The same as [`new`](Self::new): a trie grows entry by entry, there is nothing to reserve. Any number is
    /// accepted.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        let _ = capacity;
        Self::new()
    }
}

impl<K, V, S> Hamt256Cache<K, V, S> {
    /// An empty map with a hasher of one's own.
    #[must_use]
    pub fn with_hasher(hasher: S) -> Self {
        Self {
            raw: Parted::from_drafts(drafts()),
            hasher,
        }
    }

    /// The same as [`with_hasher`](Self::with_hasher); see [`with_capacity`](Hamt256Cache::with_capacity).
    #[must_use]
    pub fn with_capacity_and_hasher(capacity: usize, hasher: S) -> Self {
        let _ = capacity;
        Self::with_hasher(hasher)
    }

    /// The number of entries: a sum over 256 partitions, read one after another. Exact when no write runs meanwhile;
    /// a [`snapshot`](Self::snapshot)'s is exact always.
    pub fn len(&self) -> usize {
        self.raw.len()
    }

    #[inline(always)]
    fn site(&self, hash: u64) -> Site<'_, K, V, Epochs, WIDTH> {
        self.raw.site(partition(hash))
    }

    /// Calls `f` for every entry of one moment: those of a [`snapshot`](Self::snapshot). O(n). `f` may call back into
    /// the map.
    pub fn for_each(&self, mut f: impl FnMut(&K, &V)) {
        let wholes = self.raw.freeze();
        wholes
            .iter()
            .flat_map(|whole| whole.leaves())
            .for_each(|leaf| f(&leaf.key, &leaf.value));
    }

    /// Removes all entries, partition by partition: an entry inserted meanwhile may stay.
    pub fn clear(&self) {
        for partition in 0..PARTITIONS {
            self.raw.site(partition).clear();
        }
    }

    /// Freezes all 256 partitions at one moment. O(1) whatever the number of entries: 256 roots are claimed.
    ///
    /// The moment is that at which the map's clock advances. A write is in the snapshot or not as a whole, and if a
    /// write that began after another one had returned is in it, so is the other one, whatever their partitions.
    /// Writes under way try again, as after a lost race. The first write to each node afterwards counts the owners of
    /// its children, once per node and snapshot.
    ///
    /// # Panics
    ///
    /// From inside a closure of a write to the same map, which it would abort for ever (a message with `re-entrant`).
    pub fn snapshot(&self) -> Hamt256Snapshot<K, V, S>
    where
        S: Clone,
    {
        Hamt256Snapshot {
            wholes: self.raw.freeze(),
            hasher: self.hasher.clone(),
        }
    }
}

impl<K: Hash + Eq, V, S: BuildHasher> Hamt256Cache<K, V, S> {
    /// Tests every entry, and removes those for which `keep` was false, partition by partition: each partition is
    /// tested as of one moment and then loses what was refused in one step. An entry that was replaced in between
    /// stays. O(n).
    ///
    /// An entry of small plain types (numbers, `&str`) is tested again, inside the write, where another write to its neighbourhood came
    /// between; a write to the map from inside `keep` then panics (a message with `re-entrant`).
    pub fn retain(&self, mut keep: impl FnMut(&K, &V) -> bool) {
        for partition in 0..PARTITIONS {
            self.raw
                .site(partition)
                .retain(|leaf| keep(&leaf.key, &leaf.value), K::eq);
        }
    }

    /// Stores all `entries`; of equal keys the last one wins.
    ///
    /// The entries are first built into 256 tries aside, in place and without copying paths; then each partition takes
    /// its part in one step. If the iterator panics, nothing is stored.
    pub fn bulk_load(&self, entries: impl IntoIterator<Item = (K, V)>) {
        for (partition, draft) in build(&self.hasher, entries).into_iter().enumerate() {
            self.raw.site(partition).merge(draft, K::eq);
        }
    }

    /// Calls `f` with the position and value of each key; all answers from one partition are of one moment. See
    /// [`GetBatch`]. A [`snapshot`](Self::snapshot) answers batches of one moment over all partitions.
    ///
    /// The keys are looked up in groups of 32 that go down the tries together, so that their memory accesses overlap.
    /// `f` is called under the same conditions as that of [`get_with`](Self::get_with).
    pub fn get_batch_with<'k, Q, I, F>(&self, keys: I, f: F)
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized + 'k,
        I: IntoIterator<Item = &'k Q>,
        F: FnMut(usize, Option<&V>),
    {
        self.raw.batch(
            keys.into_iter(),
            |key| hash_of(&self.hasher, key),
            partition,
            |key, k| k.borrow() == key,
            f,
        );
    }
}

/// One empty draft per partition.
fn drafts<K, V>() -> Vec<Draft<K, V, WIDTH>> {
    (0..PARTITIONS).map(|_| Draft::new(0)).collect()
}

/// Builds all tries aside.
fn build<K: Hash + Eq, V, S: BuildHasher>(
    hasher: &S,
    entries: impl IntoIterator<Item = (K, V)>,
) -> Vec<Draft<K, V, WIDTH>> {
    let mut drafts = drafts();
    for (key, value) in entries {
        let hash = hasher.hash_one(&key);
        drafts[partition(hash)].put(Fresh::new(hash, key, value));
    }
    drafts
}

impl<K, V, S> Hamt256Snapshot<K, V, S> {
    fn whole(&self, hash: u64) -> &Whole<K, V, WIDTH> {
        &self.wholes[partition(hash)]
    }

    fn wholes(&self) -> &[Whole<K, V, WIDTH>] {
        &self.wholes
    }

    fn route(hash: u64) -> usize {
        partition(hash)
    }

    /// A map that starts with the content of this view, in O(1); neither sees later changes of the other.
    #[must_use]
    pub fn to_map(&self) -> Hamt256Cache<K, V, S>
    where
        S: Clone,
    {
        Hamt256Cache {
            raw: Parted::from_wholes(self.wholes.iter().map(Whole::share)),
            hasher: self.hasher.clone(),
        }
    }
}

impl<K, V, S: Clone> Clone for Hamt256Snapshot<K, V, S> {
    fn clone(&self) -> Self {
        Self {
            wholes: self.wholes.iter().map(Whole::share).collect(),
            hasher: self.hasher.clone(),
        }
    }
}

shared_methods!(Hamt256Cache<K, V, S>);
shared_view!(Hamt256Snapshot<K, V, S>);

impl<K: Hash + Eq, V, S: BuildHasher> GetBatch<K, V> for Hamt256Cache<K, V, S> {
    const CONSISTENCY: Consistency = Consistency::PerShard;

    fn get_batch_with<'k, Q, I, F>(&self, keys: I, f: F)
    where
        K: Borrow<Q>,
        Q: Hash + Eq + Sync + ?Sized + 'k,
        I: IntoIterator<Item = &'k Q>,
        F: FnMut(usize, Option<&V>) + Send,
    {
        Hamt256Cache::get_batch_with(self, keys, f);
    }
}

impl<K: Hash + Eq, V, S: BuildHasher + Clone> Snapshot<K, V> for Hamt256Cache<K, V, S> {
    type View = Hamt256Snapshot<K, V, S>;
    const CONSISTENCY: Consistency = Consistency::Snapshot;

    fn snapshot(&self) -> Self::View {
        Hamt256Cache::snapshot(self)
    }
}

impl<K, V, S: Clone> Fork for Hamt256Cache<K, V, S> {
    fn fork(&self) -> Self {
        let wholes = self.raw.freeze().into_vec();
        Self {
            raw: Parted::from_wholes(wholes),
            hasher: self.hasher.clone(),
        }
    }
}

impl<K: Hash + Eq, V, S: BuildHasher> Routed<K> for Hamt256Cache<K, V, S> {
    fn partitions(&self) -> usize {
        PARTITIONS
    }

    fn partition_of<Q>(&self, key: &Q) -> usize
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        partition(hash_of(&self.hasher, key))
    }
}

impl<K, V, S: Default> Default for Hamt256Cache<K, V, S> {
    fn default() -> Self {
        Self::with_hasher(S::default())
    }
}

impl<K: Hash + Eq, V, S: BuildHasher + Default> FromIterator<(K, V)> for Hamt256Cache<K, V, S> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let hasher = S::default();
        Self {
            raw: Parted::from_drafts(build(&hasher, entries)),
            hasher,
        }
    }
}

impl<K: Hash + Eq, V, const N: usize> From<[(K, V); N]> for Hamt256Cache<K, V> {
    fn from(entries: [(K, V); N]) -> Self {
        Self::from_iter(entries)
    }
}
