//! The map behind one lock, generic in the lock; it never calls user destructors while the lock is held.

use std::borrow::Borrow;
use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::mem;
use std::ops::{Deref, DerefMut};
use std::panic::{RefUnwindSafe, UnwindSafe};

use cache_api::DefaultHashBuilder;
use cache_table::{
    Held, Lock, LockKind, MutexLock, ReadGuard, Table, Wanted, WriteGuard, hash_keys,
};

use crate::broken::broken;

/// A map behind one lock of the kind `L`.
///
/// Usually named through [`MutexCache`](crate::MutexCache), [`RwLockCache`](crate::RwLockCache) or
/// [`NaiveCache`](crate::NaiveCache). What holds for all of its methods (consistency, panics, re-entry) is in the
/// [crate's documentation](crate#guarantees). Costs are O(1) expected unless stated, plus waiting for the lock.
///
/// `Send` and `Sync` where the lock makes it so: for the mutex, `Sync` when `K`, `V` and `S` are `Send`; for the
/// read-write lock, when they are `Send + Sync`; never for the unsynchronised one:
///
/// ```compile_fail,E0277
/// fn shared<T: Sync>() {}
/// shared::<cache_locked::RwLockCache<u8, std::cell::Cell<u8>>>(); // error: a Cell cannot be shared
/// ```
///
/// Invariant in `K` and `V`, as everything that can be changed through a shared reference must be:
///
/// ```compile_fail
/// use cache_locked::MutexCache;
/// fn shorten<'a>(map: &'a MutexCache<&'static str, u8>) -> &'a MutexCache<&'a str, u8> {
///     map // error: lifetime may not live long enough
/// }
/// ```
pub struct LockedCache<K, V, S = DefaultHashBuilder, L: LockKind = MutexLock> {
    hasher: S,
    table: L::Lock<Table<K, V>>,
}

/// The lock, and the note that this thread holds it. The order of the fields is that of their release.
struct Guard<G> {
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

impl<K, V, L: LockKind> LockedCache<K, V, DefaultHashBuilder, L> {
    /// An empty map with a hasher seeded at random. No allocation.
    #[must_use]
    pub fn new() -> Self {
        Self::with_hasher(DefaultHashBuilder::new())
    }

    /// An empty map with room for `capacity` entries and a hasher seeded at random.
    ///
    /// The capacity is a hint: what overflows or is refused by the allocator counts as 0.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        Self::with_capacity_and_hasher(capacity, DefaultHashBuilder::new())
    }
}

impl<K, V, S, L: LockKind> LockedCache<K, V, S, L> {
    /// An empty map that hashes with `hasher`. No allocation.
    #[must_use]
    pub fn with_hasher(hasher: S) -> Self {
        Self::with_capacity_and_hasher(0, hasher)
    }

    /// An empty map with room for `capacity` entries that hashes with `hasher`.
    ///
    /// The capacity is a hint: what overflows or is refused by the allocator counts as 0.
    #[must_use]
    pub fn with_capacity_and_hasher(capacity: usize, hasher: S) -> Self {
        Self {
            hasher,
            table: L::Lock::new(Table::with_capacity(capacity)),
        }
    }

    /// The builder of the hashers.
    pub fn hasher(&self) -> &S {
        &self.hasher
    }

    /// The number of entries, exact at one moment.
    #[must_use]
    pub fn len(&self) -> usize {
        self.read().len()
    }

    /// Whether there is no entry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.read().is_empty()
    }

    /// How many entries fit without growth.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.read().capacity()
    }

    /// Runs `f` on every entry, under the lock. O(n).
    ///
    /// All entries belong to one moment.
    pub fn for_each<F>(&self, mut f: F)
    where
        F: FnMut(&K, &V),
    {
        self.read().iter().for_each(|(key, value)| f(key, value));
    }

    /// Removes the entries for which `keep`, run under the lock, is false. O(n).
    ///
    /// The removed entries are dropped together after the lock is released, which needs memory for them meanwhile.
    /// If `keep` panics, the entries refused until then are removed and the others stay.
    pub fn retain<F>(&self, keep: F)
    where
        F: FnMut(&K, &V) -> bool,
    {
        let mut removed = Vec::new();
        self.write().retain(keep, &mut removed);
    }

    /// Removes all entries, in one moment, and gives their memory back. O(1) under the lock, O(n) after it.
    pub fn clear(&self) {
        let entries = mem::take(&mut *self.write());
        drop(entries);
    }

    fn held(&self) -> Option<Held> {
        (L::BLOCKS && !broken("no re-entry guard"))
            .then(|| Held::enter(self.address(), "locked cache"))
    }

    /// What identifies this map among those that a thread holds.
    fn address(&self) -> usize {
        std::ptr::from_ref(&self.table).addr()
    }

    #[inline]
    fn read(&self) -> Guard<ReadGuard<'_, L, Table<K, V>>> {
        let held = self.held();
        Guard {
            lock: self.table.read(),
            _held: held,
        }
    }

    #[inline]
    fn write(&self) -> Guard<WriteGuard<'_, L, Table<K, V>>> {
        let held = self.held();
        Guard {
            lock: self.table.write(),
            _held: held,
        }
    }
}

// Throughout: parameters and the variables declared before a guard are dropped after it, so whatever a panic leaves
// in them is destroyed with the lock released. That is why keys and values stay in the parameters until nothing can
// fail any more.
impl<K, V, S, L> LockedCache<K, V, S, L>
where
    K: Hash + Eq,
    S: BuildHasher,
    L: LockKind,
{
    /// Runs `f` on the value stored for `key`, under the lock, and returns its result.
    #[inline]
    pub fn get_with<Q, F, R>(&self, key: &Q, f: F) -> Option<R>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
        F: FnOnce(&V) -> R,
    {
        let hash = self.hasher.hash_one(key);
        self.read().get(hash, key).map(f)
    }

    /// A clone of the value stored for `key`, made under the lock.
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
        let hash = self.hasher.hash_one(&key);
        let mut table = self.write();
        if let Some(slot) = table.get_mut(hash, &key) {
            let old = mem::replace(slot, value);
            if broken("drop under the lock") {
                drop(old);
                return None;
            }
            return Some(old);
        }
        table.room(&self.hasher).insert(hash, key, value);
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
        let hash = self.hasher.hash_one(key);
        let entry = self.write().remove(hash, key);
        entry.map(|(_, value)| value)
    }

    /// Removes `key` if `condition`, run under the lock at most once, holds for its value; returns whether it did.
    pub fn remove_if<Q, F>(&self, key: &Q, condition: F) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
        F: FnOnce(&V) -> bool,
    {
        let hash = self.hasher.hash_one(key);
        let entry = self.write().remove_if(hash, key, condition);
        entry.is_some()
    }

    /// Stores `f(current)` for `key`, where `current` is the stored value or `None`.
    ///
    /// `f` runs exactly once, under the lock. If it panics, the entry stays as it was.
    pub fn upsert<F>(&self, key: K, f: F)
    where
        F: FnOnce(Option<&V>) -> V,
    {
        let hash = self.hasher.hash_one(&key);
        let _old;
        let mut table = self.write();
        if let Some(slot) = table.get_mut(hash, &key) {
            let new = f(Some(slot));
            _old = mem::replace(slot, new);
        } else {
            let room = table.room(&self.hasher);
            let new = f(None);
            room.insert(hash, key, new);
        }
    }

    /// Returns a clone of the value for `key`, storing `init()` first where there is none.
    ///
    /// `init` runs under the lock: at most one at a time in the whole map, and exactly one per absent key.
    pub fn get_or_insert_with<F>(&self, key: K, init: F) -> V
    where
        F: FnOnce() -> V,
        V: Clone,
    {
        let hash = self.hasher.hash_one(&key);
        let made;
        let mut table = self.write();
        if let Some(value) = table.get_mut(hash, &key) {
            return value.clone();
        }
        if broken("init outside the lock") {
            drop(table);
            let made = init();
            self.insert(key, made.clone());
            return made;
        }
        let room = table.room(&self.hasher);
        made = init();
        let answer = made.clone();
        room.insert(hash, key, made);
        answer
    }

    /// Makes room for `additional` more entries, as a hint. O(n) where the table has to move.
    pub fn reserve(&self, additional: usize) {
        self.write().reserve(additional, &self.hasher);
    }

    /// Gives back memory that the present entries do not need. O(n) where the table has to move.
    pub fn shrink_to_fit(&self) {
        self.write().shrink_to_fit(&self.hasher);
    }

    /// Calls `f(i, value)` for each of `keys`, all under one lock, in the order given: see
    /// [`GetBatch`](cache_api::GetBatch).
    ///
    /// The keys are collected and hashed before the lock is taken. While one is looked up, the memory is asked for what
    /// the next dozen will touch, so that cache misses overlap. O(1) expected and three words of memory per key.
    pub fn get_batch_with<'k, Q, I, F>(&self, keys: I, f: F)
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized + 'k,
        I: IntoIterator<Item = &'k Q>,
        F: FnMut(usize, Option<&V>),
    {
        let mut wanted: Vec<Wanted<'k, Q>> = keys.into_iter().map(Wanted::new).collect();
        hash_keys::<Q, S, true>(&mut wanted, &self.hasher, |_| {});
        self.read().get_each::<Q, F, true>(&wanted, f);
    }

    /// Clones of the values for `keys`, in the order given and all of one moment.
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

    /// Stores all `entries`, taking the lock for each; the last one wins where a key repeats.
    pub fn bulk_load<I>(&self, entries: I)
    where
        I: IntoIterator<Item = (K, V)>,
    {
        // The iterator is user code and may call this map: it never runs under the lock.
        let entries = entries.into_iter();
        self.reserve(entries.size_hint().0);
        entries.for_each(|(key, value)| self.insert(key, value));
    }
}

/// A panic of user code leaves the map whole: see the [crate's documentation](crate#guarantees).
impl<K, V, S, L> RefUnwindSafe for LockedCache<K, V, S, L>
where
    K: RefUnwindSafe,
    V: RefUnwindSafe,
    S: RefUnwindSafe,
    L: LockKind,
{
}

/// A panic of user code leaves the map whole: see the [crate's documentation](crate#guarantees).
impl<K, V, S, L> UnwindSafe for LockedCache<K, V, S, L>
where
    K: UnwindSafe,
    V: UnwindSafe,
    S: UnwindSafe,
    L: LockKind,
{
}

impl<K, V, S, L> Default for LockedCache<K, V, S, L>
where
    S: Default,
    L: LockKind,
{
    fn default() -> Self {
        Self::with_hasher(S::default())
    }
}

/// The clone holds one moment of the map: the entries are cloned under the lock. O(n).
impl<K, V, S, L> Clone for LockedCache<K, V, S, L>
where
    K: Clone,
    V: Clone,
    S: Clone,
    L: LockKind,
{
    fn clone(&self) -> Self {
        Self {
            hasher: self.hasher.clone(),
            table: L::Lock::new(self.read().clone()),
        }
    }
}

/// The entries of one moment. From inside a closure of the same map, a note instead of them.
impl<K, V, S, L> fmt::Debug for LockedCache<K, V, S, L>
where
    K: fmt::Debug,
    V: fmt::Debug,
    L: LockKind,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if L::BLOCKS && Held::is_held(self.address()) {
            return write!(f, "<{} held by this thread>", L::NAME);
        }
        f.debug_map().entries(self.read().iter()).finish()
    }
}

impl<K, V, S, L> FromIterator<(K, V)> for LockedCache<K, V, S, L>
where
    K: Hash + Eq,
    S: BuildHasher + Default,
    L: LockKind,
{
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut cache = Self::default();
        cache.extend(entries);
        cache
    }
}

/// Without locking: nobody else can hold a reference.
impl<K, V, S, L> Extend<(K, V)> for LockedCache<K, V, S, L>
where
    K: Hash + Eq,
    S: BuildHasher,
    L: LockKind,
{
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, entries: I) {
        let entries = entries.into_iter();
        self.table
            .get_mut()
            .reserve(entries.size_hint().0, &self.hasher);
        for (key, value) in entries {
            let hash = self.hasher.hash_one(&key);
            let table = self.table.get_mut();
            match table.get_mut(hash, &key) {
                Some(slot) => *slot = value,
                None => table.room(&self.hasher).insert(hash, key, value),
            }
        }
    }
}

/// As [`bulk_load`](LockedCache::bulk_load).
impl<K, V, S, L> Extend<(K, V)> for &LockedCache<K, V, S, L>
where
    K: Hash + Eq,
    S: BuildHasher,
    L: LockKind,
{
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, entries: I) {
        self.bulk_load(entries);
    }
}
