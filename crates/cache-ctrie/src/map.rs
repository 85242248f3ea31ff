//! The map: hashing, closures and the traits of the contract, around the [`Trie`]. No protocol here.
#![forbid(unsafe_code)]

use std::borrow::Borrow;
use std::fmt;
use std::hash::{BuildHasher, Hash};

use cache_api::{
    BulkLoad, Cache, ClosureRuns, Consistency, DefaultHashBuilder, Fork, GetBatch, Iterate, Routed,
    Update,
};

use crate::node::Pending;
use crate::reentry;
use crate::session::Session;
use crate::snapshot::Snapshot;
use crate::sync::epoch;
use crate::trie::{Act, Trie};

/// Hash bits that the root array takes: 256 slots, 2 KiB.
const ROOT_BITS: u32 = 8;

/// A concurrent hash trie: lock-free reads and writes, snapshots and writable forks in O(1).
///
/// The [crate documentation](crate) tells how it works, what it guarantees and what each operation costs.
///
/// # Examples
///
/// ```
/// use cache_ctrie::Map;
///
/// let map = Map::new();
/// map.insert("a", 1);
/// let before = map.snapshot();
/// map.insert("a", 2);
/// map.insert("b", 3);
/// assert_eq!(map.get("a"), Some(2));
/// assert_eq!(before.get_ref("a"), Some(&1));
/// assert_eq!(before.len(), 1);
/// assert_eq!(map.len(), 2);
/// ```
///
/// Entries are dropped by whichever thread reaches the end of their grace period, so writing needs keys and values
/// that can be sent and shared, and that borrow nothing:
///
/// ```compile_fail
/// let map = cache_ctrie::Map::new();
/// map.insert(1, std::rc::Rc::new(2)); // `Rc` is neither `Send` nor `Sync`
/// ```
///
/// ```compile_fail
/// let word = String::from("short-lived");
/// let map = cache_ctrie::Map::new();
/// map.insert(1, word.as_str()); // not `'static`
/// ```
///
/// A map is `Sync` only where its entries are `Send` and `Sync`:
///
/// ```compile_fail
/// fn share<T: Sync>(_: &T) {}
/// share(&cache_ctrie::Map::<u32, std::cell::Cell<u32>>::new());
/// ```
///
/// It is invariant in keys and values:
///
/// ```compile_fail
/// fn shorten<'a>(map: cache_ctrie::Map<u32, &'static str>) -> cache_ctrie::Map<u32, &'a str> {
///     map
/// }
/// ```
pub struct Map<K, V, S = DefaultHashBuilder> {
    trie: Trie<K, V>,
    hasher: S,
}

/// [`Map`] under the name that tells it from the other designs' maps.
///
/// ```
/// use cache_ctrie::CtrieCache;
///
/// let cache: CtrieCache<_, _> = [("a", 1), ("b", 2)].into_iter().collect();
/// assert_eq!(cache.snapshot().len(), 2);
/// ```
pub type CtrieCache<K, V, S = DefaultHashBuilder> = Map<K, V, S>;

impl<K, V> Map<K, V> {
    /// An empty map, hashed with a random seed of its own. O(1): one array of 256 slots.
    #[must_use]
    pub fn new() -> Self {
        Self::with_hasher(DefaultHashBuilder::new())
    }

    /// An empty map. The trie grows and shrinks with its entries, so the capacity is a hint that changes nothing; any
    /// number is accepted.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        Self::with_capacity_and_hasher(capacity, DefaultHashBuilder::new())
    }
}

impl<K, V, S> Map<K, V, S> {
    /// An empty map that hashes with `hasher`. O(1).
    #[must_use]
    pub fn with_hasher(hasher: S) -> Self {
        Self {
            trie: Trie::new(ROOT_BITS),
            hasher,
        }
    }

    /// As [`with_capacity`](Map::with_capacity), hashing with `hasher`.
    #[must_use]
    pub fn with_capacity_and_hasher(_capacity: usize, hasher: S) -> Self {
        Self::with_hasher(hasher)
    }

    /// The hasher builder.
    pub fn hasher(&self) -> &S {
        &self.hasher
    }

    pub(crate) fn trie(&self) -> &Trie<K, V> {
        &self.trie
    }

    pub(crate) fn from_parts(trie: Trie<K, V>, hasher: S) -> Self {
        Self { trie, hasher }
    }
}

impl<K, V, S> Map<K, V, S>
where
    K: Hash + Eq,
    S: BuildHasher,
{
    /// Runs `f` on the value stored for `key` and returns its result.
    ///
    /// Linearizable. O(log n) with base 64, no allocation, no write to shared memory. No lock is held: `f` may call
    /// anything. While it runs nothing that any thread retires is freed, so it should not run for long; take a
    /// [snapshot](Map::snapshot) for that.
    ///
    /// # Panics
    ///
    /// Only if `f`, or `Hash` or `Eq` of the key, does.
    #[inline]
    pub fn get_with<Q, F, R>(&self, key: &Q, f: F) -> Option<R>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
        F: FnOnce(&V) -> R,
    {
        let hash = self.hasher.hash_one(key);
        let guard = epoch::pin();
        self.trie
            .find(&guard, hash, key)
            .map(|leaf| f(leaf.value()))
    }

    /// A clone of the value stored for `key`. As [`get_with`](Map::get_with).
    #[inline]
    pub fn get<Q>(&self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
        V: Clone,
    {
        self.get_with(key, V::clone)
    }

    /// Whether a value is stored for `key`. As [`get_with`](Map::get_with).
    #[inline]
    pub fn contains_key<Q>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.get_with(key, |_| ()).is_some()
    }

    /// A handle that stays pinned: its operations skip the cost of entering and leaving a grace period each time, and
    /// its reads can return references. See [`Session`].
    #[must_use]
    pub fn pin(&self) -> Session<'_, K, V, S> {
        Session::new(self)
    }
}

impl<K, V, S> Map<K, V, S>
where
    K: Hash + Eq + Send + Sync + 'static,
    V: Send + Sync + 'static,
    S: BuildHasher,
{
    /// Stores `value` for `key`.
    ///
    /// Linearizable and lock-free. O(log n); an overwrite allocates one leaf and nothing else. The replaced entry is
    /// dropped after a grace period, by whichever thread comes by.
    ///
    /// # Panics
    ///
    /// Only if `Hash` or `Eq` of the key does; the map is then unchanged.
    #[inline]
    pub fn insert(&self, key: K, value: V) {
        let guard = epoch::pin();
        self.insert_pinned(&guard, key, value);
    }

    #[inline]
    pub(crate) fn insert_pinned(&self, guard: &epoch::Guard, key: K, value: V) {
        let hash = self.hasher.hash_one(&key);
        let mut pending = Pending::full(hash, key, value);
        self.trie
            .edit(guard, hash, &mut pending, same_key, |_, _| Act::Put);
    }

    /// Removes `key` and drops its value after a grace period.
    ///
    /// Linearizable and lock-free. O(log n). What the removal makes superfluous in the trie goes with it.
    ///
    /// # Panics
    ///
    /// Only if `Hash` or `Eq` of the key does; the map is then unchanged.
    #[inline]
    pub fn remove<Q>(&self, key: &Q)
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let guard = epoch::pin();
        self.remove_pinned(&guard, key);
    }

    #[inline]
    pub(crate) fn remove_pinned<Q>(&self, guard: &epoch::Guard, key: &Q)
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let hash = self.hasher.hash_one(key);
        let same = |stored: &K, _: &Pending<K, V>| stored.borrow() == key;
        self.trie
            .edit(guard, hash, &mut Pending::none(), same, |_, _| Act::Remove);
    }

    /// The number of entries at one moment between call and return.
    ///
    /// Linearizable: it counts a frozen view. Parts that have not changed since they were last counted are not
    /// visited again, so the cost is O(1) without writes in between, and O(changed part) otherwise: O(n) the first
    /// time. Writes after it pay as they do after a [snapshot](Map::snapshot).
    #[must_use]
    pub fn len(&self) -> usize {
        self.trie.len(&epoch::pin())
    }

    /// Whether there was no entry at one moment between call and return. Nearly always O(1): as soon as one entry is
    /// seen, the answer is no; otherwise as [`len`](Map::len).
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.trie.is_empty(&epoch::pin())
    }

    /// A frozen view of the present content: O(1), whatever the size, without stopping anyone.
    ///
    /// Linearizable: it holds exactly the writes that took effect before one moment between call and return. The
    /// first write to each array afterwards copies that array; each is copied once per snapshot.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot<K, V, S>
    where
        S: Clone,
    {
        Snapshot::new(self.trie.view(&epoch::pin()), self.hasher.clone())
    }

    /// A second, independent map with the present content: O(1), linearizable. Writes to either copy what they touch
    /// first, as after a [snapshot](Map::snapshot).
    ///
    /// ```
    /// let map = cache_ctrie::Map::new();
    /// map.insert(1, "one");
    /// let fork = map.fork();
    /// fork.insert(2, "two");
    /// map.remove(&1);
    /// assert_eq!((map.len(), fork.len()), (0, 2));
    /// ```
    #[must_use]
    pub fn fork(&self) -> Self
    where
        S: Clone,
    {
        Self::from_parts(self.trie.fork(&epoch::pin()), self.hasher.clone())
    }

    /// Stores `f(current)` for `key`, atomically. `f` runs again when another thread changed the entry meanwhile, and
    /// only its last result is stored.
    ///
    /// # Panics
    ///
    /// If `f` panics, the map is unchanged. A call inside `f` that stores something for the same key of the same map
    /// (or for a key with the same 64-bit hash), which would defeat every attempt, panics with a message that
    /// contains `re-entrant`, and stores nothing. Anything else may be called.
    pub fn upsert<F>(&self, key: K, mut f: F)
    where
        F: FnMut(Option<&V>) -> V,
    {
        let guard = epoch::pin();
        let hash = self.hasher.hash_one(&key);
        let mut pending = Pending::new(hash, key);
        // Guarded, the address of a leaf is not used again: an equal address is the same, unchanged entry. So a
        // retry for another reason (a snapshot, a neighbour) does not run the closure again.
        let mut seen = None;
        self.trie
            .edit(&guard, hash, &mut pending, same_key, |current, pending| {
                let identity = current.map(std::ptr::from_ref);
                if !pending.is_valued() || seen != Some(identity) {
                    let value =
                        reentry::run(self.trie.id(), hash, || f(current.map(|leaf| leaf.value())));
                    pending.set(value);
                    seen = Some(identity);
                }
                Act::Put
            });
    }

    /// A clone of the value for `key`, after storing `init()` if there is none.
    ///
    /// All callers that find the key absent at the same time get the same value. Each of them may run its `init`;
    /// the values of those that lose are dropped.
    ///
    /// # Panics
    ///
    /// If `init` or `V::clone` panics, nothing is stored.
    pub fn get_or_insert_with<F>(&self, key: K, init: F) -> V
    where
        F: FnOnce() -> V,
        V: Clone,
    {
        let guard = epoch::pin();
        let hash = self.hasher.hash_one(&key);
        if let Some(leaf) = self.trie.find(&guard, hash, &key) {
            return leaf.value().clone();
        }
        let mut pending = Pending::new(hash, key);
        let mut init = Some(init);
        let mut stored = None;
        let found = self
            .trie
            .edit(&guard, hash, &mut pending, same_key, |current, pending| {
                if current.is_some() {
                    return Act::Keep;
                }
                if let Some(init) = init.take() {
                    let value = init();
                    stored = Some(value.clone());
                    pending.set(value);
                }
                Act::Put
            });
        match found {
            Some(leaf) => leaf.value().clone(),
            None => stored.expect("an absent key was given a value"),
        }
    }

    /// Stores `value` for `key` and returns a clone of the value that it replaced. Linearizable.
    pub fn swap(&self, key: K, value: V) -> Option<V>
    where
        V: Clone,
    {
        let guard = epoch::pin();
        let hash = self.hasher.hash_one(&key);
        let mut pending = Pending::full(hash, key, value);
        let old = self
            .trie
            .edit(&guard, hash, &mut pending, same_key, |_, _| Act::Put);
        old.map(|leaf| leaf.value().clone())
    }

    /// Removes `key` and returns a clone of its value. Linearizable.
    pub fn take<Q>(&self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
        V: Clone,
    {
        let guard = epoch::pin();
        let hash = self.hasher.hash_one(key);
        let same = |stored: &K, _: &Pending<K, V>| stored.borrow() == key;
        let old = self
            .trie
            .edit(&guard, hash, &mut Pending::none(), same, |_, _| Act::Remove);
        old.map(|leaf| leaf.value().clone())
    }

    /// Removes `key` if `condition` holds for its value, atomically; returns whether it did. `condition` runs again
    /// when another thread changed the entry meanwhile.
    ///
    /// # Panics
    ///
    /// As [`upsert`](Map::upsert).
    pub fn remove_if<Q, F>(&self, key: &Q, mut condition: F) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
        F: FnMut(&V) -> bool,
    {
        let guard = epoch::pin();
        let hash = self.hasher.hash_one(key);
        let same = |stored: &K, _: &Pending<K, V>| stored.borrow() == key;
        let mut tested = None;
        let mut removes = false;
        self.trie
            .edit(&guard, hash, &mut Pending::none(), same, |current, _| {
                let Some(leaf) = current else {
                    removes = false;
                    return Act::Keep;
                };
                if tested != Some(std::ptr::from_ref(leaf)) {
                    removes = reentry::run(self.trie.id(), hash, || condition(leaf.value()));
                    tested = Some(std::ptr::from_ref(leaf));
                }
                if removes { Act::Remove } else { Act::Keep }
            });
        removes
    }

    /// Stores all `entries`; the last of equal keys wins. O(n). Readers may see a part of it; take a
    /// [fork](Map::fork) and load into that if they must not.
    pub fn bulk_load<I>(&self, entries: I)
    where
        I: IntoIterator<Item = (K, V)>,
    {
        /// Garbage can be freed, and other threads' with it, after so many insertions.
        const PER_PIN: usize = 64;
        let mut entries = entries.into_iter().peekable();
        while entries.peek().is_some() {
            let guard = epoch::pin();
            for (key, value) in entries.by_ref().take(PER_PIN) {
                self.insert_pinned(&guard, key, value);
            }
        }
    }

    /// Calls `f(i, value)` for each key, `i` being its position in `keys`, in order. All answers belong to one moment
    /// between call and return.
    ///
    /// One frozen world serves the whole batch, and the cache misses of 32 lookups at a time overlap. Writes after it
    /// pay as they do after a [snapshot](Map::snapshot). While it runs nothing that any thread retires is freed.
    pub fn get_batch_with<'k, Q, I, F>(&self, keys: I, mut f: F)
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized + 'k,
        I: IntoIterator<Item = &'k Q>,
        F: FnMut(usize, Option<&V>),
    {
        let guard = epoch::pin();
        let hash = |key: &Q| self.hasher.hash_one(key);
        self.trie
            .find_batch(&guard, keys.into_iter(), hash, |i, leaf| {
                f(i, leaf.map(|leaf| leaf.value()))
            });
    }

    /// The values for `keys`, in order, all of one moment. As [`get_batch_with`](Map::get_batch_with).
    pub fn get_batch<'k, Q, I>(&self, keys: I) -> Vec<Option<V>>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized + 'k,
        I: IntoIterator<Item = &'k Q>,
        V: Clone,
    {
        let keys = keys.into_iter();
        let mut answers = Vec::with_capacity(keys.size_hint().0);
        self.get_batch_with(keys, |_, value| answers.push(value.cloned()));
        answers
    }

    /// Calls `f` for every entry of one moment, each exactly once. O(n). Nothing is held meanwhile: `f` may call
    /// anything and take its time.
    pub fn for_each<F>(&self, mut f: F)
    where
        F: FnMut(&K, &V),
    {
        let view = self.trie.view(&epoch::pin());
        for leaf in view.iter() {
            f(leaf.key(), leaf.value());
        }
    }

    /// Removes every entry for which `keep` is false. Tests the entries of one moment; an entry that was replaced
    /// since stays. O(n).
    pub fn retain<F>(&self, mut keep: F)
    where
        F: FnMut(&K, &V) -> bool,
    {
        let view = self.trie.view(&epoch::pin());
        for leaf in view.iter() {
            if keep(leaf.key(), leaf.value()) {
                continue;
            }
            // The view owns the leaf, so its address identifies the entry, with the value that was tested.
            let tested = std::ptr::from_ref(leaf);
            let same = |stored: &K, _: &Pending<K, V>| stored == leaf.key();
            self.trie.edit(
                &epoch::pin(),
                leaf.hash,
                &mut Pending::none(),
                same,
                |current, _| {
                    if current.map(std::ptr::from_ref) == Some(tested) {
                        Act::Remove
                    } else {
                        Act::Keep
                    }
                },
            );
        }
    }

    /// Removes all entries in one moment: the root is swapped for an empty one. O(1); what nobody else sees is freed
    /// after a grace period, which takes O(n) on the thread that comes by.
    pub fn clear(&self) {
        self.trie.clear(&epoch::pin());
    }
}

/// Compares a stored key with that of the leaf that is to be stored.
#[inline]
fn same_key<K: Eq, V>(stored: &K, pending: &Pending<K, V>) -> bool {
    pending.key().is_some_and(|key| stored == key)
}

impl<K, V, S: Default> Default for Map<K, V, S> {
    fn default() -> Self {
        Self::with_hasher(S::default())
    }
}

impl<K, V, S> fmt::Debug for Map<K, V, S>
where
    K: fmt::Debug + Send + Sync + 'static,
    V: fmt::Debug + Send + Sync + 'static,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let view = self.trie.view(&epoch::pin());
        f.debug_map()
            .entries(view.iter().map(|leaf| (leaf.key(), leaf.value())))
            .finish()
    }
}

impl<K, V, S> FromIterator<(K, V)> for Map<K, V, S>
where
    K: Hash + Eq + Send + Sync + 'static,
    V: Send + Sync + 'static,
    S: BuildHasher + Default,
{
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let map = Self::default();
        map.bulk_load(entries);
        map
    }
}

impl<K, V, S> Extend<(K, V)> for Map<K, V, S>
where
    K: Hash + Eq + Send + Sync + 'static,
    V: Send + Sync + 'static,
    S: BuildHasher,
{
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, entries: I) {
        self.bulk_load(entries);
    }
}

impl<K, V, S> Extend<(K, V)> for &Map<K, V, S>
where
    K: Hash + Eq + Send + Sync + 'static,
    V: Send + Sync + 'static,
    S: BuildHasher,
{
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, entries: I) {
        self.bulk_load(entries);
    }
}

impl<K, V, S> Cache<K, V> for Map<K, V, S>
where
    K: Hash + Eq + Send + Sync + 'static,
    V: Send + Sync + 'static,
    S: BuildHasher,
{
    #[inline]
    fn get_with<Q, F, R>(&self, key: &Q, f: F) -> Option<R>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + Sync + ?Sized,
        F: FnOnce(&V) -> R + Send,
        R: Send,
    {
        Self::get_with(self, key, f)
    }

    #[inline]
    fn insert(&self, key: K, value: V) {
        Self::insert(self, key, value);
    }

    #[inline]
    fn remove<Q>(&self, key: &Q)
    where
        K: Borrow<Q>,
        Q: Hash + Eq + Sync + ?Sized,
    {
        Self::remove(self, key);
    }

    fn len(&self) -> usize {
        Self::len(self)
    }

    fn is_empty(&self) -> bool {
        Self::is_empty(self)
    }
}

impl<K, V, S> Update<K, V> for Map<K, V, S>
where
    K: Hash + Eq + Send + Sync + 'static,
    V: Send + Sync + 'static,
    S: BuildHasher,
{
    const CLOSURE_RUNS: ClosureRuns = ClosureRuns::PerAttempt;
    const INIT_EXACTLY_ONCE: bool = false;

    fn upsert<F>(&self, key: K, f: F)
    where
        F: FnMut(Option<&V>) -> V + Send,
    {
        Self::upsert(self, key, f);
    }

    fn get_or_insert_with<F>(&self, key: K, init: F) -> V
    where
        F: FnOnce() -> V + Send,
        V: Clone + Send,
    {
        Self::get_or_insert_with(self, key, init)
    }

    fn swap(&self, key: K, value: V) -> Option<V>
    where
        V: Clone + Send,
    {
        Self::swap(self, key, value)
    }

    fn take<Q>(&self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + Sync + ?Sized,
        V: Clone + Send,
    {
        Self::take(self, key)
    }

    fn remove_if<Q, F>(&self, key: &Q, condition: F) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + Eq + Sync + ?Sized,
        F: FnMut(&V) -> bool + Send,
    {
        Self::remove_if(self, key, condition)
    }
}

impl<K, V, S> BulkLoad<K, V> for Map<K, V, S>
where
    K: Hash + Eq + Send + Sync + 'static,
    V: Send + Sync + 'static,
    S: BuildHasher,
{
    fn bulk_load<I>(&self, entries: I)
    where
        I: IntoIterator<Item = (K, V)>,
    {
        Self::bulk_load(self, entries);
    }
}

impl<K, V, S> GetBatch<K, V> for Map<K, V, S>
where
    K: Hash + Eq + Send + Sync + 'static,
    V: Send + Sync + 'static,
    S: BuildHasher,
{
    const CONSISTENCY: Consistency = Consistency::Snapshot;

    fn get_batch_with<'k, Q, I, F>(&self, keys: I, f: F)
    where
        K: Borrow<Q>,
        Q: Hash + Eq + Sync + ?Sized + 'k,
        I: IntoIterator<Item = &'k Q>,
        F: FnMut(usize, Option<&V>) + Send,
    {
        Self::get_batch_with(self, keys, f);
    }

    fn get_batch<'k, Q, I>(&self, keys: I) -> Vec<Option<V>>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + Sync + ?Sized + 'k,
        I: IntoIterator<Item = &'k Q>,
        V: Clone + Send,
    {
        Self::get_batch(self, keys)
    }
}

impl<K, V, S> Iterate<K, V> for Map<K, V, S>
where
    K: Hash + Eq + Send + Sync + 'static,
    V: Send + Sync + 'static,
    S: BuildHasher,
{
    fn for_each<F>(&self, f: F)
    where
        F: FnMut(&K, &V) + Send,
    {
        Self::for_each(self, f);
    }

    fn retain<F>(&self, keep: F)
    where
        F: FnMut(&K, &V) -> bool + Send,
    {
        Self::retain(self, keep);
    }

    fn clear(&self) {
        Self::clear(self);
    }
}

impl<K, V, S> cache_api::Snapshot<K, V> for Map<K, V, S>
where
    K: Hash + Eq + Send + Sync + 'static,
    V: Send + Sync + 'static,
    S: BuildHasher + Clone,
{
    type View = Snapshot<K, V, S>;
    const CONSISTENCY: Consistency = Consistency::Snapshot;

    fn snapshot(&self) -> Snapshot<K, V, S> {
        Self::snapshot(self)
    }
}

impl<K, V, S> Fork for Map<K, V, S>
where
    K: Hash + Eq + Send + Sync + 'static,
    V: Send + Sync + 'static,
    S: BuildHasher + Clone,
{
    fn fork(&self) -> Self {
        Self::fork(self)
    }
}

impl<K, V, S> Routed<K> for Map<K, V, S>
where
    K: Hash + Eq,
    S: BuildHasher,
{
    /// The slots of the root array.
    fn partitions(&self) -> usize {
        1 << self.trie.bits()
    }

    fn partition_of<Q>(&self, key: &Q) -> usize
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.hasher.hash_one(key) as usize & ((1 << self.trie.bits()) - 1)
    }
}
