//! The copy-on-write map; its reads take no lock, its writes never wait for readers.

use std::borrow::Borrow;
use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;

use cache_api::DefaultHashBuilder;
use cache_reclaim::Published;
use cache_table::{Held, Table};
use parking_lot::Mutex;

use crate::broken::broken;
use crate::draft::Draft;
use crate::view::CowView;

/// A map whose readers share one immutable version, and whose writers publish the next.
///
/// What holds for all of its methods (consistency, panics, re-entry, when values are dropped) is in the [crate's
/// documentation](crate#guarantees). Reads are O(1) expected; a write is O(n) unless it says otherwise.
///
/// `Send` and `Sync` when `K`, `V` and `S` are both:
///
/// ```compile_fail,E0277
/// fn shared<T: Sync>() {}
/// shared::<cache_cow::CowCache<u8, std::cell::Cell<u8>>>(); // error: a Cell cannot be shared
/// ```
///
/// Invariant in `K` and `V`, as everything that can be changed through a shared reference must be:
///
/// ```compile_fail
/// use cache_cow::CowCache;
/// fn shorten<'a>(map: &'a CowCache<&'static str, u8>) -> &'a CowCache<&'a str, u8> {
///     map // error: lifetime may not live long enough
/// }
/// ```
pub struct CowCache<K, V, S = DefaultHashBuilder> {
    hasher: S,
    current: Published<Table<K, V>>,
    /// Held by the one writer at work. Whoever holds it is the only one to replace `current`.
    writer: Mutex<()>,
}

impl<K, V> CowCache<K, V, DefaultHashBuilder> {
    /// An empty map with a hasher seeded at random.
    #[must_use]
    pub fn new() -> Self {
        Self::with_hasher(DefaultHashBuilder::new())
    }

    /// An empty map with room for `capacity` entries and a hasher seeded at random.
    ///
    /// The capacity is a hint: what overflows or is refused by the allocator counts as 0. Every copy has the capacity
    /// of its original, so an exaggerated hint makes every write dearer.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        Self::with_capacity_and_hasher(capacity, DefaultHashBuilder::new())
    }
}

impl<K, V, S> CowCache<K, V, S> {
    /// An empty map that hashes with `hasher`.
    #[must_use]
    pub fn with_hasher(hasher: S) -> Self {
        Self::with_capacity_and_hasher(0, hasher)
    }

    /// An empty map with room for `capacity` entries that hashes with `hasher`: see
    /// [`with_capacity`](CowCache::with_capacity).
    #[must_use]
    pub fn with_capacity_and_hasher(capacity: usize, hasher: S) -> Self {
        Self::from_table(Arc::new(Table::with_capacity(capacity)), hasher)
    }

    fn from_table(table: Arc<Table<K, V>>, hasher: S) -> Self {
        Self {
            hasher,
            current: Published::new(table),
            writer: Mutex::new(()),
        }
    }

    /// The builder of the hashers.
    pub fn hasher(&self) -> &S {
        &self.hasher
    }

    /// The number of entries, exact at one moment. O(1).
    #[must_use]
    pub fn len(&self) -> usize {
        self.current.read().len()
    }

    /// Whether there is no entry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.current.read().is_empty()
    }

    /// How many entries the current version has room for.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.current.read().capacity()
    }

    /// The present content, for as long as one likes. O(1): one atomic increment and a clone of the hasher's builder.
    #[must_use]
    pub fn snapshot(&self) -> CowView<K, V, S>
    where
        S: Clone,
    {
        CowView {
            table: self.current.snapshot(),
            hasher: self.hasher.clone(),
        }
    }

    /// Runs `f` on every entry of one version. No lock is held. O(n).
    pub fn for_each<F>(&self, mut f: F)
    where
        F: FnMut(&K, &V),
    {
        self.current
            .read()
            .iter()
            .for_each(|(key, value)| f(key, value));
    }

    /// Removes all entries, in one moment. O(1), and O(n) to drop them if no snapshot shows them.
    pub fn clear(&self) {
        self.write(|draft| draft.clear());
    }

    /// Drops versions that were still being read when they were replaced, and are not any more. Returns how many.
    ///
    /// Every write does this too; it matters only where no further write comes and the memory is missed.
    pub fn reclaim(&self) -> usize {
        self.current.reclaim().len()
    }

    /// Runs `change` on a draft under the writers' lock, and publishes the draft if there is anything new in it.
    fn write<R>(&self, change: impl FnOnce(&mut Draft<'_, K, V, S>) -> R) -> R {
        // Dropped in the reverse order: lock, guard, then what needs user destructors.
        let _replaced;
        let mut next = None;
        let _held = self.held();
        let _lock = self.writer.lock();
        let current = self.current.read();
        let result = change(&mut Draft::new(&current, &mut next, &self.hasher));
        // Before the publication looks for readers: we are one no more.
        drop(current);
        if let Some(next) = next.take() {
            _replaced = self.current.replace(Arc::new(next));
            if broken("drop under the lock") {
                drop(_replaced);
            }
        }
        result
    }

    fn held(&self) -> Option<Held> {
        (!broken("no re-entry guard"))
            .then(|| Held::enter(self.address(), "copy-on-write cache (or its writer)"))
    }

    /// What identifies this map among those that a thread holds.
    fn address(&self) -> usize {
        std::ptr::from_ref(&self.writer).addr()
    }
}

impl<K, V, S> CowCache<K, V, S>
where
    K: Hash + Eq,
    S: BuildHasher,
{
    /// Runs `f` on the value stored for `key` and returns its result. No lock is held.
    #[inline]
    pub fn get_with<Q, F, R>(&self, key: &Q, f: F) -> Option<R>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
        F: FnOnce(&V) -> R,
    {
        let hash = self.hasher.hash_one(key);
        self.current.read().get(hash, key).map(f)
    }

    /// A clone of the value stored for `key`.
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

    /// Calls `f(i, value)` for each of `keys` in the order given, all answers from one version.
    ///
    /// No lock is held. A few hundred keys are taken at a time; while one is looked up, the memory is asked for what the
    /// next dozen will touch, so that cache misses overlap. O(1) expected per key, O(1) memory.
    pub fn get_batch_with<'k, Q, I, F>(&self, keys: I, f: F)
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized + 'k,
        I: IntoIterator<Item = &'k Q>,
        F: FnMut(usize, Option<&V>),
    {
        let version = self.current.read();
        version.get_batch::<Q, S, I, F, true>(keys, &self.hasher, f);
    }

    /// As [`get_batch_with`](Self::get_batch_with), without asking the memory early: for measuring what that is worth.
    #[doc(hidden)]
    pub fn get_batch_serial_with<'k, Q, I, F>(&self, keys: I, f: F)
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized + 'k,
        I: IntoIterator<Item = &'k Q>,
        F: FnMut(usize, Option<&V>),
    {
        let version = self.current.read();
        version.get_batch::<Q, S, I, F, false>(keys, &self.hasher, f);
    }

    /// Clones of the values for `keys`, in the order given and all from one version.
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
}

// Throughout: parameters are dropped after the lock is released, so whatever a panic leaves in them is destroyed then.
// That is why keys and values are handed to the draft only when nothing can fail but the copy itself.
impl<K, V, S> CowCache<K, V, S>
where
    K: Hash + Eq + Clone,
    V: Clone,
    S: BuildHasher,
{
    /// Makes any number of changes to a private [`Draft`] and publishes them in one moment, with one copy of the map.
    ///
    /// `change` runs once, under the writers' lock. Readers go on with the version before, which is also what reads of
    /// this map from inside `change` see; the draft shows its own changes. If `change` panics, nothing is published; if
    /// it changes nothing, nothing is copied. O(n + changes).
    ///
    /// ```
    /// use cache_cow::CowCache;
    ///
    /// let stock = CowCache::new();
    /// stock.update_many(|draft| {
    ///     draft.extend([("apple", 3), ("pear", 0)]);
    ///     draft.retain(|_, count| *count > 0);
    /// });
    /// let moved = stock.update_many(|draft| {
    ///     let apples = draft.remove("apple")?;
    ///     draft.insert("fruit", apples);
    ///     Some(apples)
    /// });
    /// assert_eq!((moved, stock.len(), stock.get("fruit")), (Some(3), 1, Some(3)));
    /// ```
    pub fn update_many<F, R>(&self, change: F) -> R
    where
        F: FnOnce(&mut Draft<'_, K, V, S>) -> R,
    {
        self.write(change)
    }

    /// Stores all `entries` with one copy and in one moment; the last one wins where a key repeats. O(n + m).
    ///
    /// The iterator runs first, without a lock: if it panics, nothing is stored.
    pub fn bulk_load<I>(&self, entries: I)
    where
        I: IntoIterator<Item = (K, V)>,
    {
        let hash = |(key, value): (K, V)| (self.hasher.hash_one(&key), Some(key), Some(value));
        let mut entries: Vec<(u64, Option<K>, Option<V>)> = entries.into_iter().map(hash).collect();
        if entries.is_empty() {
            return;
        }
        self.write(|draft| {
            draft.reserve(entries.len());
            for (hash, key, value) in &mut entries {
                draft.put(*hash, key, value);
            }
        });
        // What was replaced is in `entries` now, and dropped here without the lock.
    }

    /// Stores `value` for `key`. The earlier key stays. O(n).
    pub fn insert(&self, key: K, value: V) {
        drop(self.swap(key, value));
    }

    /// Stores `value` for `key` and returns (a clone of) the value that it replaced. The earlier key stays. O(n).
    pub fn swap(&self, key: K, value: V) -> Option<V> {
        let hash = self.hasher.hash_one(&key);
        let (mut key, mut value) = (Some(key), Some(value));
        self.write(|draft| draft.put(hash, &mut key, &mut value));
        value
    }

    /// Removes `key`. O(n), or O(1) where there is no such key.
    pub fn remove<Q>(&self, key: &Q)
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        drop(self.take(key));
    }

    /// Removes `key` and returns (a clone of) its value. O(n), or O(1) where there is no such key.
    pub fn take<Q>(&self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let hash = self.hasher.hash_one(key);
        let entry = self.write(|draft| draft.remove_if(hash, key, |_| true));
        entry.map(|(_, value)| value)
    }

    /// Removes `key` if `condition` holds for its value; returns whether it did. O(n), or O(1) where it does not.
    ///
    /// `condition` runs at most once, under the writers' lock.
    pub fn remove_if<Q, F>(&self, key: &Q, condition: F) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
        F: FnOnce(&V) -> bool,
    {
        let hash = self.hasher.hash_one(key);
        let entry = self.write(|draft| draft.remove_if(hash, key, condition));
        entry.is_some()
    }

    /// Stores `f(current)` for `key`, where `current` is the stored value or `None`. O(n).
    ///
    /// `f` runs exactly once, under the writers' lock and before anything is copied. If it panics, nothing changes.
    pub fn upsert<F>(&self, key: K, f: F)
    where
        F: FnOnce(Option<&V>) -> V,
    {
        let hash = self.hasher.hash_one(&key);
        let (mut key, mut value) = (Some(key), None);
        if broken("read before the lock") {
            let new = f(key.as_ref().and_then(|key| self.get(key)).as_ref());
            std::thread::sleep(std::time::Duration::from_millis(1));
            value = Some(new);
            self.write(|draft| draft.put(hash, &mut key, &mut value));
            return;
        }
        self.write(|draft| {
            value = Some(f(key.as_ref().and_then(|key| draft.table().get(hash, key))));
            draft.put(hash, &mut key, &mut value);
        });
    }

    /// Returns a clone of the value for `key`, storing `init()` first where there is none.
    ///
    /// O(1) where the key is there. Otherwise `init` runs under the writers' lock, exactly one per absent key, and the
    /// call is O(n).
    pub fn get_or_insert_with<F>(&self, key: K, init: F) -> V
    where
        F: FnOnce() -> V,
    {
        let hash = self.hasher.hash_one(&key);
        if let Some(value) = self.current.read().get(hash, &key) {
            return value.clone();
        }
        let (mut key, mut made, mut init) = (Some(key), None, Some(init));
        self.write(|draft| {
            let found = key.as_ref().and_then(|key| draft.table().get(hash, key));
            // Another writer may have been here since we looked.
            if let Some(found) = found.filter(|_| !broken("no second look")) {
                return found.clone();
            }
            let init = init.take().expect("it was put there above and is run once");
            let answer = made.insert(init()).clone();
            draft.put(hash, &mut key, &mut made);
            answer
        })
    }

    /// Removes the entries for which `keep` is false, in one moment. O(n).
    ///
    /// `keep` runs once per entry, under the writers' lock. If it panics, or is never false, nothing is published.
    pub fn retain<F>(&self, keep: F)
    where
        F: FnMut(&K, &V) -> bool,
    {
        let mut removed = Vec::new();
        self.write(|draft| draft.retain_into(keep, &mut removed));
    }

    /// Makes room for `additional` more entries, as a hint, in the current version and its later copies. O(n).
    pub fn reserve(&self, additional: usize) {
        self.write(|draft| draft.reserve(additional));
    }

    /// Gives back memory that the present entries do not need. O(n).
    pub fn shrink_to_fit(&self) {
        self.write(|draft| draft.shrink_to_fit());
    }
}

/// O(1): both maps share the present version; the first write to either copies it, as every write does.
impl<K, V, S: Clone> Clone for CowCache<K, V, S> {
    fn clone(&self) -> Self {
        Self::from_table(self.current.snapshot(), self.hasher.clone())
    }
}

/// A panic of user code leaves the map whole: see the [crate's documentation](crate#guarantees).
impl<K, V, S> RefUnwindSafe for CowCache<K, V, S>
where
    K: RefUnwindSafe,
    V: RefUnwindSafe,
    S: RefUnwindSafe,
{
}

/// A panic of user code leaves the map whole: see the [crate's documentation](crate#guarantees).
impl<K, V, S> UnwindSafe for CowCache<K, V, S>
where
    K: UnwindSafe,
    V: UnwindSafe,
    S: UnwindSafe,
{
}

impl<K, V, S> Default for CowCache<K, V, S>
where
    S: Default,
{
    fn default() -> Self {
        Self::with_hasher(S::default())
    }
}

/// The entries of one version.
impl<K: fmt::Debug, V: fmt::Debug, S> fmt::Debug for CowCache<K, V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.current.read().iter()).finish()
    }
}

impl<K, V, S> FromIterator<(K, V)> for CowCache<K, V, S>
where
    K: Hash + Eq,
    S: BuildHasher + Default,
{
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let hasher = S::default();
        let entries = entries.into_iter();
        let mut table = Table::with_capacity(entries.size_hint().0);
        for (key, value) in entries {
            let hash = hasher.hash_one(&key);
            match table.get_mut(hash, &key) {
                Some(slot) => *slot = value,
                None => table.room(&hasher).insert(hash, key, value),
            }
        }
        Self::from_table(Arc::new(table), hasher)
    }
}

/// As [`bulk_load`](CowCache::bulk_load).
impl<K, V, S> Extend<(K, V)> for CowCache<K, V, S>
where
    K: Hash + Eq + Clone,
    V: Clone,
    S: BuildHasher,
{
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, entries: I) {
        self.bulk_load(entries);
    }
}

/// As [`bulk_load`](CowCache::bulk_load).
impl<K, V, S> Extend<(K, V)> for &CowCache<K, V, S>
where
    K: Hash + Eq + Clone,
    V: Clone,
    S: BuildHasher,
{
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, entries: I) {
        self.bulk_load(entries);
    }
}
