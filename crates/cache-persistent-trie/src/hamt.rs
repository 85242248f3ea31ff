//! `hamt`: one trie behind one root.

use std::borrow::Borrow;
use std::fmt;
use std::hash::{BuildHasher, Hash};

use cache_api::{
    BulkLoad, Cache, ClosureRuns, Consistency, DefaultHashBuilder, Fork, GetBatch, Iterate, Routed,
    Snapshot, SnapshotView, Update,
};

use crate::ops::{Compute, Delete, Put, PutNew, hash_of, shared_methods, shared_view};
use crate::raw::{Draft, Fresh, NoClock, Single, Site, Whole, batch_in};

/// A concurrent map whose whole content is one immutable trie, replaced by compare-and-swap.
///
/// Reads walk the trie of the moment and never wait, nor write to shared memory. A write copies the path of its key and
/// publishes root and length in one step; it is repeated if another write came first. Snapshots are O(1).
///
/// `WIDTH` is the number of children per node: 8, 16, 32 or 64; anything else does not compile. Wider nodes make
/// shallower tries (faster reads) and longer copies (slower writes).
///
/// Writers serialise at the one root: on several threads that write most of the time,
/// [`Hamt256Cache`](crate::Hamt256Cache) is the faster map.
///
/// ```
/// use cache_persistent_trie::HamtCache;
///
/// let stock = HamtCache::new();
/// stock.insert("apples", 3);
/// let monday = stock.snapshot();
/// stock.insert("apples", 2);
/// assert_eq!(stock.get("apples"), Some(2));
/// assert_eq!(monday.get_ref("apples"), Some(&3));
/// ```
///
/// Keys and values are shared with readers on other threads, so the map is `Send` and `Sync` only if they are both:
///
/// ```compile_fail,E0277
/// fn shareable<T: Sync>() {}
/// shareable::<cache_persistent_trie::HamtCache<u64, std::cell::Cell<u64>>>();
/// ```
///
/// ```compile_fail,E0277
/// fn sendable<T: Send>() {}
/// // A snapshot on this thread would share the cells with the map on another.
/// sendable::<cache_persistent_trie::HamtCache<u64, std::cell::Cell<u64>>>();
/// ```
///
/// It is invariant in both:
///
/// ```compile_fail
/// fn shorten<'a>(map: cache_persistent_trie::HamtCache<&'static str, u64>) -> cache_persistent_trie::HamtCache<&'a str, u64> {
///     map
/// }
/// ```
pub struct HamtCache<K, V, S = DefaultHashBuilder, const WIDTH: usize = 64> {
    raw: Single<K, V, WIDTH>,
    hasher: S,
}

/// A frozen [`HamtCache`]: every answer is that of the moment it was taken. Owns what it shows, and outlives the map.
///
/// Cloning it is O(1). Dropping it frees what only it could still see, at once, on the dropping thread.
pub struct HamtSnapshot<K, V, S = DefaultHashBuilder, const WIDTH: usize = 64> {
    whole: Whole<K, V, WIDTH>,
    hasher: S,
}

/// Several writes that become visible in one step; see [`HamtCache::update_many`].
pub struct HamtBatch<'a, K, V, S = DefaultHashBuilder, const WIDTH: usize = 64> {
    draft: &'a mut Draft<K, V, WIDTH>,
    hasher: &'a S,
    changed: bool,
}

impl<K, V> HamtCache<K, V> {
    /// An empty map of 64-way nodes with a random seed for the hasher.
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

impl<K, V, S, const WIDTH: usize> HamtCache<K, V, S, WIDTH> {
    const VALID: () = assert!(
        WIDTH == 8 || WIDTH == 16 || WIDTH == 32 || WIDTH == 64,
        "the width of a HamtCache must be 8, 16, 32 or 64"
    );

    /// An empty map with a hasher of one's own.
    #[must_use]
    pub fn with_hasher(hasher: S) -> Self {
        let () = Self::VALID;
        Self {
            raw: Single::new(),
            hasher,
        }
    }

    /// The same as [`with_hasher`](Self::with_hasher); see [`with_capacity`](HamtCache::with_capacity).
    #[must_use]
    pub fn with_capacity_and_hasher(capacity: usize, hasher: S) -> Self {
        let _ = capacity;
        Self::with_hasher(hasher)
    }

    /// The number of entries, of one moment: it is published together with the root. O(1).
    pub fn len(&self) -> usize {
        self.raw.len()
    }

    #[inline(always)]
    fn site(&self, hash: u64) -> Site<'_, K, V, NoClock, WIDTH> {
        self.raw.site(hash)
    }

    /// The shape of the trie: level, node map and leaf map of each node, depth first. Equal sets of hashes have equal
    /// shapes, whatever the history. For tests.
    #[doc(hidden)]
    pub fn shape(&self) -> Vec<(usize, u64, u64)> {
        self.site(0).shape()
    }

    /// Calls `f` for every entry of one moment. O(n). `f` may call back into the map.
    ///
    /// While it runs, nothing that is removed from any map of this crate is freed. For a long visit, take a
    /// [`snapshot`](Self::snapshot) and iterate over that.
    pub fn for_each(&self, mut f: impl FnMut(&K, &V)) {
        self.raw.visit(|leaf| f(&leaf.key, &leaf.value));
    }

    /// Removes all entries in one step. Freeing them, a grace period later, is O(n) on some writing thread.
    pub fn clear(&self) {
        self.site(0).clear();
    }

    /// Freezes the present content. O(1): the root is shared, and copied path by path as later writes touch it.
    ///
    /// The first write to each node after a snapshot counts the owners of its children, once per node and snapshot;
    /// a snapshot that follows another one without a write in between costs later writes nothing.
    pub fn snapshot(&self) -> HamtSnapshot<K, V, S, WIDTH>
    where
        S: Clone,
    {
        HamtSnapshot {
            whole: self.site(0).freeze(),
            hasher: self.hasher.clone(),
        }
    }
}

impl<K: Hash + Eq, V, S: BuildHasher, const WIDTH: usize> HamtCache<K, V, S, WIDTH> {
    /// Tests every entry of one moment once, and then removes those for which `keep` was false, in one step; an entry
    /// that was replaced in between stays. O(n).
    ///
    /// An entry of small plain types (numbers, `&str`) is tested again, inside the write, where another write to its neighbourhood came
    /// between; a write to the map from inside `keep` then panics (a message with `re-entrant`).
    pub fn retain(&self, mut keep: impl FnMut(&K, &V) -> bool) {
        self.raw.retain(|leaf| keep(&leaf.key, &leaf.value), K::eq);
    }

    /// Stores all `entries`, in one step; of equal keys the last one wins.
    ///
    /// The entries are first built into a trie aside, in place and without copying paths. An empty map takes that as it
    /// is, in O(n); otherwise its entries are added to a draft of the map, which is repeated when another write comes
    /// first. If the iterator panics, nothing is stored.
    pub fn bulk_load(&self, entries: impl IntoIterator<Item = (K, V)>) {
        self.site(0).merge(self.draft(entries), K::eq);
    }

    fn draft(&self, entries: impl IntoIterator<Item = (K, V)>) -> Draft<K, V, WIDTH> {
        build(&self.hasher, entries)
    }

    /// Runs `edit` on a draft of the map and publishes what it made of it in one step: readers see all of the writes
    /// or none.
    ///
    /// `edit` runs again, on a fresh draft, if another write comes first, so it should have no effect but on the batch
    /// and its result. A panic in it leaves the map as it was. While it runs, nothing that is removed from a map of
    /// this crate is freed. Each node touched is copied once, whatever the number of writes, and its children's owners
    /// are counted, so that few large batches are cheaper than many small ones, and for single writes the plain
    /// methods are.
    ///
    /// # Panics
    ///
    /// On a write to the map itself, instead of the batch, from inside `edit` (a message with `re-entrant`).
    ///
    /// ```
    /// use cache_persistent_trie::HamtCache;
    ///
    /// let accounts = HamtCache::from([("alice", 10), ("bob", 5)]);
    /// let moved = accounts.update_many(|batch| {
    ///     let (Some(&from), Some(&to)) = (batch.get("alice"), batch.get("bob")) else { return false };
    ///     batch.insert("alice", from - 7);
    ///     batch.insert("bob", to + 7);
    ///     true
    /// });
    /// assert!(moved);
    /// assert_eq!(accounts.get("bob"), Some(12));
    /// ```
    pub fn update_many<R>(
        &self,
        mut edit: impl FnMut(&mut HamtBatch<'_, K, V, S, WIDTH>) -> R,
    ) -> R {
        self.site(0).transact(|draft| {
            let mut batch = HamtBatch {
                draft,
                hasher: &self.hasher,
                changed: false,
            };
            let result = edit(&mut batch);
            (batch.changed, result)
        })
    }

    /// Calls `f` with the position and value of each key, all of one moment. See [`GetBatch`].
    ///
    /// The keys are looked up in groups of 32 that go down the trie together, so that their memory accesses overlap.
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
            |key, k| k.borrow() == key,
            f,
        );
    }
}

/// Builds a trie aside.
fn build<K: Hash + Eq, V, S: BuildHasher, const W: usize>(
    hasher: &S,
    entries: impl IntoIterator<Item = (K, V)>,
) -> Draft<K, V, W> {
    let mut draft = Draft::new(0);
    for (key, value) in entries {
        draft.put(Fresh::new(hasher.hash_one(&key), key, value));
    }
    draft
}

impl<K: Hash + Eq, V, S: BuildHasher, const WIDTH: usize> HamtBatch<'_, K, V, S, WIDTH> {
    /// The value for `key`, with the batch's own writes.
    pub fn get<Q>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.draft
            .get(hash_of(self.hasher, key), |k| k.borrow() == key)
            .map(|leaf| &leaf.value)
    }

    /// Whether there is an entry for `key`.
    pub fn contains_key<Q>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.get(key).is_some()
    }

    /// Stores `value` for `key`; returns whether the key is new.
    pub fn insert(&mut self, key: K, value: V) -> bool {
        self.changed = true;
        self.draft
            .put(Fresh::new(hash_of(self.hasher, &key), key, value))
    }

    /// Removes `key`; returns whether it was there.
    pub fn remove<Q>(&mut self, key: &Q) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let hash = hash_of(self.hasher, key);
        let removed = self.draft.remove(hash, |leaf| leaf.key.borrow() == key);
        self.changed |= removed;
        removed
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.draft.len()
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All entries, in the order of their hashes' digits.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.draft.leaves().map(|leaf| (&leaf.key, &leaf.value))
    }
}

impl<K: Hash + Eq, V, S: BuildHasher, const WIDTH: usize> Extend<(K, V)>
    for HamtBatch<'_, K, V, S, WIDTH>
{
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, entries: I) {
        for (key, value) in entries {
            self.insert(key, value);
        }
    }
}

impl<K: fmt::Debug, V: fmt::Debug, S, const WIDTH: usize> fmt::Debug
    for HamtBatch<'_, K, V, S, WIDTH>
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map()
            .entries(self.draft.leaves().map(|leaf| (&leaf.key, &leaf.value)))
            .finish()
    }
}

impl<K, V, S, const WIDTH: usize> HamtSnapshot<K, V, S, WIDTH> {
    fn whole(&self, _hash: u64) -> &Whole<K, V, WIDTH> {
        &self.whole
    }

    fn wholes(&self) -> &[Whole<K, V, WIDTH>] {
        std::slice::from_ref(&self.whole)
    }

    fn route(_hash: u64) -> usize {
        0
    }

    /// A map that starts with the content of this view, in O(1); neither sees later changes of the other.
    #[must_use]
    pub fn to_map(&self) -> HamtCache<K, V, S, WIDTH>
    where
        S: Clone,
    {
        HamtCache {
            raw: Single::from_whole(self.whole.share()),
            hasher: self.hasher.clone(),
        }
    }
}

impl<K, V, S: Clone, const WIDTH: usize> Clone for HamtSnapshot<K, V, S, WIDTH> {
    fn clone(&self) -> Self {
        Self {
            whole: self.whole.share(),
            hasher: self.hasher.clone(),
        }
    }
}

shared_methods!(HamtCache<K, V, S, const WIDTH>);
shared_view!(HamtSnapshot<K, V, S, const WIDTH>);

impl<K: Hash + Eq, V, S: BuildHasher, const WIDTH: usize> GetBatch<K, V>
    for HamtCache<K, V, S, WIDTH>
{
    const CONSISTENCY: Consistency = Consistency::Snapshot;

    fn get_batch_with<'k, Q, I, F>(&self, keys: I, f: F)
    where
        K: Borrow<Q>,
        Q: Hash + Eq + Sync + ?Sized + 'k,
        I: IntoIterator<Item = &'k Q>,
        F: FnMut(usize, Option<&V>) + Send,
    {
        HamtCache::get_batch_with(self, keys, f);
    }
}

impl<K: Hash + Eq, V, S: BuildHasher + Clone, const WIDTH: usize> Snapshot<K, V>
    for HamtCache<K, V, S, WIDTH>
{
    type View = HamtSnapshot<K, V, S, WIDTH>;
    const CONSISTENCY: Consistency = Consistency::Snapshot;

    fn snapshot(&self) -> Self::View {
        HamtCache::snapshot(self)
    }
}

impl<K, V, S: Clone, const WIDTH: usize> Fork for HamtCache<K, V, S, WIDTH> {
    fn fork(&self) -> Self {
        Self {
            raw: Single::from_whole(self.site(0).freeze()),
            hasher: self.hasher.clone(),
        }
    }
}

/// The first level of the trie: which of the root's children a key is under.
impl<K: Hash + Eq, V, S: BuildHasher, const WIDTH: usize> Routed<K> for HamtCache<K, V, S, WIDTH> {
    fn partitions(&self) -> usize {
        WIDTH
    }

    fn partition_of<Q>(&self, key: &Q) -> usize
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        (hash_of(&self.hasher, key) & (WIDTH as u64 - 1)) as usize
    }
}

impl<K, V, S: Default, const WIDTH: usize> Default for HamtCache<K, V, S, WIDTH> {
    fn default() -> Self {
        Self::with_hasher(S::default())
    }
}

impl<K: Hash + Eq, V, S: BuildHasher + Default, const WIDTH: usize> FromIterator<(K, V)>
    for HamtCache<K, V, S, WIDTH>
{
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let () = Self::VALID;
        let hasher = S::default();
        Self {
            raw: Single::from_draft(build(&hasher, entries)),
            hasher,
        }
    }
}

impl<K: Hash + Eq, V, const N: usize> From<[(K, V); N]> for HamtCache<K, V> {
    fn from(entries: [(K, V); N]) -> Self {
        Self::from_iter(entries)
    }
}
