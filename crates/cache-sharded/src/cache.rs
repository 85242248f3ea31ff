//! The sharded map; it never holds two locks at a time, and never calls user destructors under one.

use std::borrow::Borrow;
use std::error::Error;
use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::mem;
use std::ops::{Deref, DerefMut};
use std::panic::{RefUnwindSafe, UnwindSafe};

use cache_api::DefaultHashBuilder;
use cache_table::{Held, Lock, LockKind, MutexLock, ProbeHint, ReadGuard, Table, WriteGuard};

use crate::broken::broken;
use crate::padding::{Padded128, Padding};

/// The number of shards unless told otherwise.
///
/// Many more than threads, so that two threads rarely want the same shard: with t threads inside the map at random
/// shards, the chance that some pair meets is about t² / 512.
pub const DEFAULT_SHARDS: usize = 256;

/// The largest number of shards: the shard is chosen by 24 bits of the hash at most.
pub const MAX_SHARDS: usize = 1 << 24;

/// The first bit of the hash that chooses the shard.
///
/// hashbrown takes the bucket from the lowest bits (from the lower 32 only, on 32-bit targets) and its 7-bit tags from
/// the highest (bits 57 to 63; on 32-bit targets 25 to 31). Bits 32 to 55 are neither, as long as a shard has less than
/// 2^32 buckets. If both used the same bits, all entries of a shard would crowd into a fraction of its buckets, or
/// share one tag.
const SHARD_SHIFT: u32 = 32;

/// A map cut into shards, each behind a lock of its own.
///
/// Usually named through [`ShardedCache`](crate::ShardedCache) or [`ShardedRwCache`](crate::ShardedRwCache), which fix
/// the lock `L` and the padding `P`; [`DEFAULT_SHARDS`] shards unless told otherwise. What holds for all of its methods
/// (consistency, panics, re-entry) is in the [crate's documentation](crate#guarantees). Costs are O(1) expected unless
/// stated, plus waiting for the lock of one shard.
///
/// `Send` and `Sync` where the locks make it so: for mutexes, `Sync` when `K` and `V` are `Send` and `S` is `Sync`; for
/// read-write locks, when all are `Send + Sync`:
///
/// ```compile_fail,E0277
/// fn shared<T: Sync>() {}
/// shared::<cache_sharded::ShardedRwCache<u8, std::cell::Cell<u8>>>(); // error: a Cell cannot be shared
/// ```
///
/// Invariant in `K` and `V`, as everything that can be changed through a shared reference must be:
///
/// ```compile_fail
/// use cache_sharded::ShardedCache;
/// fn shorten<'a>(map: &'a ShardedCache<&'static str, u8>) -> &'a ShardedCache<&'a str, u8> {
///     map // error: lifetime may not live long enough
/// }
/// ```
pub struct StripedCache<
    K,
    V,
    S = DefaultHashBuilder,
    L: LockKind = MutexLock,
    P: Padding = Padded128,
> {
    hasher: S,
    /// The number of shards minus one.
    mask: usize,
    shards: Shards<K, V, L, P>,
}

/// As many as the mask says.
type Shards<K, V, L, P> = Box<[<P as Padding>::Padded<Shard<K, V, L>>]>;

/// One shard.
pub(crate) struct Shard<K, V, L: LockKind> {
    /// Where the table lies, to be asked for before the lock is taken.
    hint: ProbeHint<(K, V)>,
    table: L::Lock<Table<K, V>>,
}

/// A lock and the note that this thread holds it. The order of the fields is that of their release.
pub(crate) struct Guard<G> {
    lock: G,
    _held: Option<Held>,
}

impl<G: Deref> Deref for Guard<G> {
    type Target = G::Target;

    #[inline]
    fn deref(&self) -> &G::Target {
        &self.lock
    }
}

impl<G: DerefMut> DerefMut for Guard<G> {
    #[inline]
    fn deref_mut(&mut self) -> &mut G::Target {
        &mut self.lock
    }
}

/// A number of shards that cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShardsError {
    wanted: usize,
}

impl ShardsError {
    /// The number that was asked for.
    #[must_use]
    pub fn wanted(&self) -> usize {
        self.wanted
    }
}

impl fmt::Display for ShardsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { wanted } = self;
        write!(
            f,
            "{wanted} shards: the number must be a power of two from 1 to {MAX_SHARDS}, such as "
        )?;
        let above = wanted
            .checked_next_power_of_two()
            .unwrap_or(MAX_SHARDS)
            .min(MAX_SHARDS);
        match above {
            1 => write!(f, "1"),
            _ if above < *wanted => write!(f, "{MAX_SHARDS}"),
            _ => write!(f, "{} or {above}", above / 2),
        }
    }
}

impl Error for ShardsError {}

impl<K, V, L: LockKind, P: Padding> StripedCache<K, V, DefaultHashBuilder, L, P> {
    /// An empty map of [`DEFAULT_SHARDS`] with a hasher seeded at random.
    #[must_use]
    pub fn new() -> Self {
        Self::with_hasher(DefaultHashBuilder::new())
    }

    /// An empty map of [`DEFAULT_SHARDS`] with room for about `capacity` entries and a hasher seeded at random.
    ///
    /// The capacity is a hint: see [`with_capacity_and_hasher`](Self::with_capacity_and_hasher).
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        Self::with_capacity_and_hasher(capacity, DefaultHashBuilder::new())
    }

    /// An empty map of `shards` shards with a hasher seeded at random.
    ///
    /// # Panics
    ///
    /// Unless `shards` is a power of two from 1 to [`MAX_SHARDS`], with the text of [`ShardsError`].
    #[must_use]
    #[track_caller]
    pub fn with_shards(shards: usize) -> Self {
        Self::with_shards_capacity_and_hasher(shards, 0, DefaultHashBuilder::new())
    }

    /// An empty map of `shards` shards with a hasher seeded at random.
    ///
    /// # Errors
    ///
    /// Unless `shards` is a power of two from 1 to [`MAX_SHARDS`].
    pub fn try_with_shards(shards: usize) -> Result<Self, ShardsError> {
        Self::try_with_shards_capacity_and_hasher(shards, 0, DefaultHashBuilder::new())
    }
}

impl<K, V, S, L: LockKind, P: Padding> StripedCache<K, V, S, L, P> {
    /// An empty map of [`DEFAULT_SHARDS`] that hashes with `hasher`.
    #[must_use]
    pub fn with_hasher(hasher: S) -> Self {
        Self::build(DEFAULT_SHARDS, 0, hasher)
    }

    /// An empty map of [`DEFAULT_SHARDS`] with room for about `capacity` entries that hashes with `hasher`.
    ///
    /// The capacity is a hint. It is divided evenly among the shards, so that a shard that gets more than its share of
    /// the keys may still have to grow; what the allocator refuses counts as 0.
    #[must_use]
    pub fn with_capacity_and_hasher(capacity: usize, hasher: S) -> Self {
        Self::build(DEFAULT_SHARDS, capacity, hasher)
    }

    /// An empty map of `shards` shards with room for about `capacity` entries that hashes with `hasher`.
    ///
    /// # Panics
    ///
    /// Unless `shards` is a power of two from 1 to [`MAX_SHARDS`], with the text of [`ShardsError`].
    #[must_use]
    #[track_caller]
    pub fn with_shards_capacity_and_hasher(shards: usize, capacity: usize, hasher: S) -> Self {
        match Self::try_with_shards_capacity_and_hasher(shards, capacity, hasher) {
            Ok(cache) => cache,
            Err(error) => panic!("{error}"),
        }
    }

    /// An empty map of `shards` shards with room for about `capacity` entries that hashes with `hasher`.
    ///
    /// # Errors
    ///
    /// Unless `shards` is a power of two from 1 to [`MAX_SHARDS`].
    pub fn try_with_shards_capacity_and_hasher(
        shards: usize,
        capacity: usize,
        hasher: S,
    ) -> Result<Self, ShardsError> {
        if shards.is_power_of_two() && shards <= MAX_SHARDS {
            Ok(Self::build(shards, capacity, hasher))
        } else {
            Err(ShardsError { wanted: shards })
        }
    }

    /// `shards` is valid.
    fn build(shards: usize, capacity: usize, hasher: S) -> Self {
        let each = capacity.div_ceil(shards);
        let shard = || Shard {
            hint: ProbeHint::new(),
            table: L::Lock::new(Table::with_capacity(each)),
        };
        let shards: Box<[_]> = (0..shards).map(|_| shard().into()).collect();
        Self {
            hasher,
            mask: shards.len() - 1,
            shards,
        }
    }

    /// The builder of the hashers.
    pub fn hasher(&self) -> &S {
        &self.hasher
    }

    /// The number of shards.
    #[must_use]
    pub fn shards(&self) -> usize {
        self.shards.len()
    }

    /// The number of entries: a sum over shards that are locked one after another. O(shards).
    ///
    /// Exact when nobody writes meanwhile, and never above the number of entries ever inserted.
    #[must_use]
    pub fn len(&self) -> usize {
        self.indices().map(|index| self.read(index).len()).sum()
    }

    /// Whether no shard holds an entry. O(shards), and O(1) if there are many entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.indices().all(|index| self.read(index).is_empty())
    }

    /// How many entries fit without growth if they are spread as they are now: a sum as [`len`](Self::len) is.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.indices()
            .map(|index| self.read(index).capacity())
            .fold(0, usize::saturating_add)
    }

    /// Runs `f` on every entry, shard by shard, each under its lock. O(n + shards).
    pub fn for_each<F>(&self, mut f: F)
    where
        F: FnMut(&K, &V),
    {
        for index in self.indices() {
            self.read(index)
                .iter()
                .for_each(|(key, value)| f(key, value));
        }
    }

    /// Removes the entries for which `keep` is false, shard by shard, each under its lock. O(n + shards).
    ///
    /// The removed entries of a shard are dropped together after its lock is released, which needs memory for them
    /// meanwhile. If `keep` panics, the entries refused until then are removed and the others stay.
    pub fn retain<F>(&self, mut keep: F)
    where
        F: FnMut(&K, &V) -> bool,
    {
        for index in self.indices() {
            let mut removed = Vec::new();
            self.write(index).retain(&mut keep, &mut removed);
        }
    }

    /// Removes all entries, shard by shard, and gives their memory back. O(n + shards), O(1) under each lock.
    ///
    /// An entry inserted meanwhile may survive.
    pub fn clear(&self) {
        for index in self.indices() {
            let entries;
            let mut table = self.write(index);
            entries = mem::take(&mut *table);
            table.publish(&self.shards[index].hint);
            drop(table);
            drop(entries);
        }
    }

    pub(crate) fn indices(&self) -> std::ops::Range<usize> {
        0..self.shards.len()
    }

    /// The shard of a hash, an index within bounds.
    #[inline]
    pub(crate) fn index_of(&self, hash: u64) -> usize {
        if broken("shard bits overlap the buckets'") {
            return hash as usize & self.mask;
        }
        if broken("shard bits overlap the tags'") {
            return (hash >> 56) as usize & self.mask;
        }
        (hash >> SHARD_SHIFT) as usize & self.mask
    }

    #[inline]
    pub(crate) fn held(&self) -> Option<Held> {
        // The whole map and not the shard: a call that happens to need another shard is refused as well, so that the
        // mistake does not wait for an unlucky key to show.
        (L::BLOCKS && !broken("no re-entry guard"))
            .then(|| Held::enter(self.address(), "sharded cache"))
    }

    /// What identifies this map among those that a thread holds.
    fn address(&self) -> usize {
        self.shards.as_ptr().addr()
    }

    #[inline]
    pub(crate) fn shard(&self, index: usize) -> &Shard<K, V, L> {
        &self.shards[index]
    }

    #[inline]
    pub(crate) fn read(&self, index: usize) -> Guard<ReadGuard<'_, L, Table<K, V>>> {
        let held = self.held();
        Guard {
            lock: self.shards[index].table.read(),
            _held: held,
        }
    }

    #[inline]
    fn write(&self, index: usize) -> Guard<WriteGuard<'_, L, Table<K, V>>> {
        let held = self.held();
        Guard {
            lock: self.shards[index].table.write(),
            _held: held,
        }
    }
}

impl<K, V, L: LockKind> Shard<K, V, L> {
    /// The lock without the re-entry guard, for callers that hold a [`Held`] already.
    #[inline]
    pub(crate) fn read_held(&self) -> ReadGuard<'_, L, Table<K, V>> {
        self.table.read()
    }

    /// Asks the memory for what a lookup of `hash` will touch, without the lock.
    #[inline]
    pub(crate) fn prefetch(&self, hash: u64) {
        self.hint.prefetch(hash);
    }
}

// Throughout: parameters and the variables declared before a guard are dropped after it, so whatever a panic leaves
// in them is destroyed with the lock released. That is why keys and values stay in the parameters until nothing can
// fail any more.
impl<K, V, S, L, P> StripedCache<K, V, S, L, P>
where
    K: Hash + Eq,
    S: BuildHasher,
    L: LockKind,
    P: Padding,
{
    /// The shard of `key`: less than [`shards`](Self::shards), the same for the map's whole life.
    #[must_use]
    pub fn shard_of<Q>(&self, key: &Q) -> usize
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.index_of(self.hasher.hash_one(key))
    }

    /// Runs `f` on the value stored for `key`, under the lock of its shard, and returns the result.
    #[inline]
    pub fn get_with<Q, F, R>(&self, key: &Q, f: F) -> Option<R>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
        F: FnOnce(&V) -> R,
    {
        let (hash, index) = self.route(key);
        self.read(index).get(hash, key).map(f)
    }

    /// A clone of the value stored for `key`, made under the lock of its shard.
    #[inline]
    pub fn get<Q>(&self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
        V: Clone,
    {
        self.get_with(key, V::clone)
    }

    /// Whether a value is stored for `key`.
    #[inline]
    pub fn contains_key<Q>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.get_with(key, |_| ()).is_some()
    }

    /// Stores `value` for `key`. An earlier value is dropped after the lock is released; the earlier key stays.
    #[inline]
    pub fn insert(&self, key: K, value: V) {
        drop(self.swap(key, value));
    }

    /// Stores `value` for `key` and returns the value that it replaced. The earlier key stays.
    #[inline]
    pub fn swap(&self, key: K, value: V) -> Option<V> {
        let (hash, index) = self.route(&key);
        let mut table = self.write(index);
        if let Some(slot) = table.get_mut(hash, &key) {
            let old = mem::replace(slot, value);
            if broken("drop under the lock") {
                drop(old);
                return None;
            }
            return Some(old);
        }
        self.insert_new(&mut table, index, hash, key, value);
        None
    }

    /// Removes `key`; its value is dropped after the lock is released.
    #[inline]
    pub fn remove<Q>(&self, key: &Q)
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        drop(self.take(key));
    }

    /// Removes `key` and returns the value that was stored for it.
    #[inline]
    pub fn take<Q>(&self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let (hash, index) = self.route(key);
        let entry = self.write(index).remove(hash, key);
        entry.map(|(_, value)| value)
    }

    /// Removes `key` if `condition`, run under the lock at most once, holds for its value; returns whether it did.
    pub fn remove_if<Q, F>(&self, key: &Q, condition: F) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
        F: FnOnce(&V) -> bool,
    {
        let (hash, index) = self.route(key);
        if broken("the condition is not tested under the removing lock") {
            let holds = self.read(index).get(hash, key).is_some_and(condition);
            std::thread::sleep(std::time::Duration::from_millis(20));
            return holds && self.write(index).remove(hash, key).is_some();
        }
        let entry = self.write(index).remove_if(hash, key, condition);
        entry.is_some()
    }

    /// Stores `f(current)` for `key`, where `current` is the stored value or `None`.
    ///
    /// `f` runs exactly once, under the lock. If it panics, the entry stays as it was.
    pub fn upsert<F>(&self, key: K, f: F)
    where
        F: FnOnce(Option<&V>) -> V,
    {
        let (hash, index) = self.route(&key);
        let _old;
        let mut table = self.write(index);
        if let Some(slot) = table.get_mut(hash, &key) {
            let new = f(Some(slot));
            _old = mem::replace(slot, new);
        } else {
            let buckets = table.buckets();
            let room = table.room(&self.hasher);
            let new = f(None);
            room.insert(hash, key, new);
            self.note_move(&table, index, buckets);
        }
    }

    /// Returns a clone of the value for `key`, storing `init()` first where there is none.
    ///
    /// `init` runs under the lock of the key's shard: exactly one runs per absent key, and calls for other keys of the
    /// shard wait for it.
    pub fn get_or_insert_with<F>(&self, key: K, init: F) -> V
    where
        F: FnOnce() -> V,
        V: Clone,
    {
        let (hash, index) = self.route(&key);
        let made;
        let mut table = self.write(index);
        if let Some(value) = table.get_mut(hash, &key) {
            return value.clone();
        }
        if broken("init outside the lock") {
            drop(table);
            let made = init();
            self.insert(key, made.clone());
            return made;
        }
        let buckets = table.buckets();
        let room = table.room(&self.hasher);
        made = init();
        let answer = made.clone();
        room.insert(hash, key, made);
        self.note_move(&table, index, buckets);
        answer
    }

    /// Makes room for about `additional` more entries, as a hint, in equal parts in all shards. O(n + shards).
    pub fn reserve(&self, additional: usize) {
        let each = additional.div_ceil(self.shards());
        self.rebuild(|table| table.reserve(each, &self.hasher));
    }

    /// Gives back memory that the present entries do not need, shard by shard. O(n + shards).
    pub fn shrink_to_fit(&self) {
        self.rebuild(|table| table.shrink_to_fit(&self.hasher));
    }

    /// Stores all `entries`, taking a lock for each; the last one wins where a key repeats.
    pub fn bulk_load<I>(&self, entries: I)
    where
        I: IntoIterator<Item = (K, V)>,
    {
        // The iterator is user code and may call this map: it never runs under a lock.
        let entries = entries.into_iter();
        self.reserve(entries.size_hint().0);
        entries.for_each(|(key, value)| self.insert(key, value));
    }

    /// The hash of `key` and its shard. What a lookup of it will touch is asked for on the way.
    #[inline]
    fn route<Q>(&self, key: &Q) -> (u64, usize)
    where
        Q: Hash + ?Sized,
    {
        let hash = self.hasher.hash_one(key);
        if broken("hash twice") {
            self.hasher.hash_one(key);
        }
        let index = self.index_of(hash);
        self.shards[index].hint.prefetch(hash);
        (hash, index)
    }

    /// Stores a key that is absent.
    #[cold]
    #[inline(never)]
    fn insert_new(&self, table: &mut Table<K, V>, index: usize, hash: u64, key: K, value: V) {
        let buckets = table.buckets();
        table.room(&self.hasher).insert(hash, key, value);
        self.note_move(table, index, buckets);
    }

    /// Keeps the hint right after an insertion into a table that had `buckets` before.
    #[inline]
    fn note_move(&self, table: &Table<K, V>, index: usize, buckets: usize) {
        if table.buckets() != buckets || table.len() == 1 {
            table.publish(&self.shards[index].hint);
        }
    }

    /// Runs `change` on each shard's table.
    fn rebuild<F>(&self, change: F)
    where
        F: Fn(&mut Table<K, V>),
    {
        for index in self.indices() {
            let mut table = self.write(index);
            change(&mut table);
            table.publish(&self.shards[index].hint);
        }
    }
}

/// A panic of user code leaves the map whole: see the [crate's documentation](crate#guarantees).
impl<K, V, S, L, P> RefUnwindSafe for StripedCache<K, V, S, L, P>
where
    K: RefUnwindSafe,
    V: RefUnwindSafe,
    S: RefUnwindSafe,
    L: LockKind,
    P: Padding,
{
}

/// A panic of user code leaves the map whole: see the [crate's documentation](crate#guarantees).
impl<K, V, S, L, P> UnwindSafe for StripedCache<K, V, S, L, P>
where
    K: UnwindSafe,
    V: UnwindSafe,
    S: UnwindSafe,
    L: LockKind,
    P: Padding,
{
}

impl<K, V, S, L, P> Default for StripedCache<K, V, S, L, P>
where
    S: Default,
    L: LockKind,
    P: Padding,
{
    fn default() -> Self {
        Self::with_hasher(S::default())
    }
}

/// The clone has as many shards; each holds one moment of its original. O(n + shards).
impl<K, V, S, L, P> Clone for StripedCache<K, V, S, L, P>
where
    K: Clone,
    V: Clone,
    S: Clone,
    L: LockKind,
    P: Padding,
{
    fn clone(&self) -> Self {
        let shards: Box<[_]> = self
            .indices()
            .map(|index| {
                let table = self.read(index).clone();
                let hint = ProbeHint::new();
                table.publish(&hint);
                Shard {
                    hint,
                    table: L::Lock::new(table),
                }
                .into()
            })
            .collect();
        Self {
            hasher: self.hasher.clone(),
            mask: self.mask,
            shards,
        }
    }
}

/// The entries, shard by shard. From inside a closure of the same map, a note instead of them.
impl<K, V, S, L, P> fmt::Debug for StripedCache<K, V, S, L, P>
where
    K: fmt::Debug,
    V: fmt::Debug,
    L: LockKind,
    P: Padding,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if L::BLOCKS && Held::is_held(self.address()) {
            return write!(f, "<{} of a shard held by this thread>", L::NAME);
        }
        let mut map = f.debug_map();
        self.for_each(|key, value| {
            map.entry(key, value);
        });
        map.finish()
    }
}

impl<K, V, S, L, P> FromIterator<(K, V)> for StripedCache<K, V, S, L, P>
where
    K: Hash + Eq,
    S: BuildHasher + Default,
    L: LockKind,
    P: Padding,
{
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut cache = Self::default();
        cache.extend(entries);
        cache
    }
}

/// Without locking: nobody else can hold a reference.
impl<K, V, S, L, P> Extend<(K, V)> for StripedCache<K, V, S, L, P>
where
    K: Hash + Eq,
    S: BuildHasher,
    L: LockKind,
    P: Padding,
{
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, entries: I) {
        let entries = entries.into_iter();
        self.reserve(entries.size_hint().0);
        for (key, value) in entries {
            let hash = self.hasher.hash_one(&key);
            let index = self.index_of(hash);
            let shard = self.shards[index].as_mut();
            let table = shard.table.get_mut();
            if let Some(slot) = table.get_mut(hash, &key) {
                *slot = value;
            } else {
                let buckets = table.buckets();
                table.room(&self.hasher).insert(hash, key, value);
                if table.buckets() != buckets || table.len() == 1 {
                    table.publish(&shard.hint);
                }
            }
        }
    }
}

/// As [`bulk_load`](StripedCache::bulk_load).
impl<K, V, S, L, P> Extend<(K, V)> for &StripedCache<K, V, S, L, P>
where
    K: Hash + Eq,
    S: BuildHasher,
    L: LockKind,
    P: Padding,
{
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, entries: I) {
        self.bulk_load(entries);
    }
}
