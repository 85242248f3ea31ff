//! The plainest correct map, and the ways to break it: how the suite proves that it can fail. Never a fast one.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cache_api::{
    BulkLoad, Cache, ClosureRuns, Consistency, DefaultHashBuilder, Fork, GetBatch, Iterate,
    REENTRANT, Snapshot, SnapshotView, Update,
};

use crate::fault;
use crate::run::thread_number;

type Entry<K, V> = Arc<(K, V)>;

/// The content: entries by hash, so that user `Hash` code runs once per operation and never under the lock.
struct Table<K, V> {
    buckets: HashMap<u64, Vec<Entry<K, V>>>,
    len: usize,
}

impl<K, V> Clone for Table<K, V> {
    fn clone(&self) -> Self {
        Self {
            buckets: self.buckets.clone(),
            len: self.len,
        }
    }
}

impl<K, V> Table<K, V> {
    fn find<Q>(&self, hash: u64, key: &Q) -> Option<&Entry<K, V>>
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        self.buckets
            .get(&hash)?
            .iter()
            .find(|entry| entry.0.borrow() == key)
    }

    fn put(&mut self, hash: u64, entry: Entry<K, V>) -> Option<Entry<K, V>>
    where
        K: Eq,
    {
        let bucket = self.buckets.entry(hash).or_default();
        // The search, which runs user code that may panic, comes before the first change.
        match bucket.iter().position(|old| old.0 == entry.0) {
            Some(index) => Some(std::mem::replace(&mut bucket[index], entry)),
            None => {
                bucket.push(entry);
                self.len += 1;
                None
            }
        }
    }

    fn take<Q>(&mut self, hash: u64, key: &Q) -> Option<Entry<K, V>>
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        let bucket = self.buckets.get_mut(&hash)?;
        let index = bucket.iter().position(|old| old.0.borrow() == key)?;
        self.len -= 1;
        Some(bucket.swap_remove(index))
    }
}

/// A `HashMap` behind a `Mutex`. `FAULT` is one of [`fault`](crate::fault)'s numbers; 0 is the correct map.
///
/// Correct, and slow: it exists to test the tests.
pub struct Reference<K, V, S = DefaultHashBuilder, const FAULT: u32 = 0> {
    table: Mutex<Table<K, V>>,
    /// The thread that holds the lock, or 0.
    owner: AtomicU64,
    /// A length kept beside the map, for [`fault::LEN_APART`].
    racing_len: AtomicUsize,
    hasher: S,
}

/// Holds the lock; on drop gives it back. What was removed goes out of scope in the callers, after this.
struct Locked<'a, K, V> {
    guard: Option<MutexGuard<'a, Table<K, V>>>,
    owner: &'a AtomicU64,
}

impl<K, V> Drop for Locked<'_, K, V> {
    fn drop(&mut self) {
        self.owner.store(0, Ordering::Relaxed);
        self.guard = None;
    }
}

impl<K, V> std::ops::Deref for Locked<'_, K, V> {
    type Target = Table<K, V>;
    fn deref(&self) -> &Table<K, V> {
        self.guard.as_ref().expect("held until dropped")
    }
}

impl<K, V> std::ops::DerefMut for Locked<'_, K, V> {
    fn deref_mut(&mut self) -> &mut Table<K, V> {
        self.guard.as_mut().expect("held until dropped")
    }
}

impl<K, V, S, const FAULT: u32> Reference<K, V, S, FAULT> {
    /// An empty map; the capacity is ignored.
    pub fn with_capacity_and_hasher(_capacity: usize, hasher: S) -> Self {
        let table = Table {
            buckets: HashMap::new(),
            len: 0,
        };
        Self {
            table: Mutex::new(table),
            owner: AtomicU64::new(0),
            racing_len: AtomicUsize::new(0),
            hasher,
        }
    }

    fn lock(&self) -> Locked<'_, K, V> {
        let me = thread_number();
        assert!(
            self.owner.load(Ordering::Relaxed) != me || FAULT == fault::HANG_ON_REENTRY,
            "{REENTRANT} call into a map from user code that it runs under its lock"
        );
        let guard = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        self.owner.store(me, Ordering::Relaxed);
        Locked {
            guard: Some(guard),
            owner: &self.owner,
        }
    }
}

impl<K, V, S, const FAULT: u32> fmt::Debug for Reference<K, V, S, FAULT> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reference").finish_non_exhaustive()
    }
}

impl<K, V, S, const FAULT: u32> Cache<K, V> for Reference<K, V, S, FAULT>
where
    K: Hash + Eq,
    S: BuildHasher,
{
    fn get_with<Q, F, R>(&self, key: &Q, f: F) -> Option<R>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + Sync + ?Sized,
        F: FnOnce(&V) -> R + Send,
        R: Send,
    {
        let hash = self.hasher.hash_one(key);
        let table = self.lock();
        table.find(hash, key).map(|entry| f(&entry.1))
    }

    fn insert(&self, key: K, value: V) {
        let hash = self.hasher.hash_one(&key);
        let entry = Arc::new((key, value));
        let old = self.lock().put(hash, entry);
        drop(old);
    }

    fn remove<Q>(&self, key: &Q)
    where
        K: Borrow<Q>,
        Q: Hash + Eq + Sync + ?Sized,
    {
        let hash = self.hasher.hash_one(key);
        let old = self.lock().take(hash, key);
        drop(old);
    }

    fn len(&self) -> usize {
        self.lock().len
    }
}

impl<K, V, S, const FAULT: u32> Update<K, V> for Reference<K, V, S, FAULT>
where
    K: Hash + Eq,
    S: BuildHasher,
{
    const CLOSURE_RUNS: ClosureRuns = ClosureRuns::Once;
    const INIT_EXACTLY_ONCE: bool = true;

    fn upsert<F>(&self, key: K, mut f: F)
    where
        F: FnMut(Option<&V>) -> V + Send,
    {
        let hash = self.hasher.hash_one(&key);
        let mut table = self.lock();
        let value = f(table.find(hash, &key).map(|entry| &entry.1));
        let old = table.put(hash, Arc::new((key, value)));
        drop(table);
        drop(old);
    }

    fn get_or_insert_with<F>(&self, key: K, init: F) -> V
    where
        F: FnOnce() -> V + Send,
        V: Clone + Send,
    {
        let hash = self.hasher.hash_one(&key);
        let mut table = self.lock();
        if let Some(entry) = table.find(hash, &key) {
            let value = entry.1.clone();
            // `key` is a parameter: it is dropped after `table`, by the order of declaration.
            return value;
        }
        let value = init();
        let answer = value.clone();
        table.put(hash, Arc::new((key, value)));
        answer
    }

    fn swap(&self, key: K, value: V) -> Option<V>
    where
        V: Clone + Send,
    {
        let hash = self.hasher.hash_one(&key);
        let mut table = self.lock();
        // Cloned before the change, so that a panic of the clone leaves the entry as it was.
        let answer = table.find(hash, &key).map(|entry| entry.1.clone());
        let old = table.put(hash, Arc::new((key, value)));
        drop(table);
        drop(old);
        answer
    }

    fn take<Q>(&self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + Sync + ?Sized,
        V: Clone + Send,
    {
        let hash = self.hasher.hash_one(key);
        let mut table = self.lock();
        let answer = table.find(hash, key).map(|entry| entry.1.clone());
        let old = table.take(hash, key);
        drop(table);
        drop(old);
        answer
    }

    fn remove_if<Q, F>(&self, key: &Q, mut condition: F) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + Eq + Sync + ?Sized,
        F: FnMut(&V) -> bool + Send,
    {
        let hash = self.hasher.hash_one(key);
        let mut table = self.lock();
        let holds = table
            .find(hash, key)
            .is_some_and(|entry| condition(&entry.1));
        let old = if holds { table.take(hash, key) } else { None };
        drop(table);
        drop(old);
        holds
    }
}

impl<K, V, S, const FAULT: u32> BulkLoad<K, V> for Reference<K, V, S, FAULT>
where
    K: Hash + Eq,
    S: BuildHasher,
{
    fn bulk_load<I>(&self, entries: I)
    where
        I: IntoIterator<Item = (K, V)>,
    {
        for (key, value) in entries {
            self.insert(key, value);
        }
    }
}

impl<K, V, S, const FAULT: u32> GetBatch<K, V> for Reference<K, V, S, FAULT>
where
    K: Hash + Eq,
    S: BuildHasher,
{
    const CONSISTENCY: Consistency = Consistency::Snapshot;

    fn get_batch_with<'k, Q, I, F>(&self, keys: I, mut f: F)
    where
        K: Borrow<Q>,
        Q: Hash + Eq + Sync + ?Sized + 'k,
        I: IntoIterator<Item = &'k Q>,
        F: FnMut(usize, Option<&V>) + Send,
    {
        let keys: Vec<(u64, &Q)> = keys
            .into_iter()
            .map(|key| (self.hasher.hash_one(key), key))
            .collect();
        let table = self.lock();
        for (position, (hash, key)) in keys.into_iter().enumerate() {
            f(position, table.find(hash, key).map(|entry| &entry.1));
        }
    }
}

impl<K, V, S, const FAULT: u32> Iterate<K, V> for Reference<K, V, S, FAULT>
where
    K: Hash + Eq,
    S: BuildHasher,
{
    fn for_each<F>(&self, mut f: F)
    where
        F: FnMut(&K, &V) + Send,
    {
        let table = self.lock();
        table
            .buckets
            .values()
            .flatten()
            .for_each(|entry| f(&entry.0, &entry.1));
    }

    fn retain<F>(&self, mut keep: F)
    where
        F: FnMut(&K, &V) -> bool + Send,
    {
        let mut removed = Vec::new();
        let mut locked = self.lock();
        let table: &mut Table<K, V> = &mut locked;
        for bucket in table.buckets.values_mut() {
            let mut index = 0;
            while index < bucket.len() {
                if keep(&bucket[index].0, &bucket[index].1) {
                    index += 1;
                } else {
                    removed.push(bucket.swap_remove(index));
                    table.len -= 1;
                }
            }
        }
        drop(locked);
        drop(removed);
    }

    fn clear(&self) {
        let mut table = self.lock();
        let old = std::mem::take(&mut table.buckets);
        table.len = 0;
        drop(table);
        drop(old);
    }
}

/// A copy of a [`Reference`]'s table. Not O(1); the suite does not measure.
pub struct ReferenceView<K, V, S> {
    table: Table<K, V>,
    hasher: S,
}

impl<K, V, S> fmt::Debug for ReferenceView<K, V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReferenceView").finish_non_exhaustive()
    }
}

impl<K, V, S, const FAULT: u32> Snapshot<K, V> for Reference<K, V, S, FAULT>
where
    K: Hash + Eq,
    S: BuildHasher + Clone,
{
    type View = ReferenceView<K, V, S>;
    const CONSISTENCY: Consistency = Consistency::Snapshot;

    fn snapshot(&self) -> ReferenceView<K, V, S> {
        ReferenceView {
            table: self.lock().clone(),
            hasher: self.hasher.clone(),
        }
    }
}

impl<K, V, S> GetBatch<K, V> for ReferenceView<K, V, S>
where
    K: Hash + Eq,
    S: BuildHasher,
{
    const CONSISTENCY: Consistency = Consistency::Snapshot;

    fn get_batch_with<'k, Q, I, F>(&self, keys: I, mut f: F)
    where
        K: Borrow<Q>,
        Q: Hash + Eq + Sync + ?Sized + 'k,
        I: IntoIterator<Item = &'k Q>,
        F: FnMut(usize, Option<&V>) + Send,
    {
        for (position, key) in keys.into_iter().enumerate() {
            f(position, self.get_ref(key));
        }
    }
}

impl<K, V, S> SnapshotView<K, V> for ReferenceView<K, V, S>
where
    K: Hash + Eq,
    S: BuildHasher,
{
    fn get_ref<Q>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.table
            .find(self.hasher.hash_one(key), key)
            .map(|entry| &entry.1)
    }

    fn len(&self) -> usize {
        self.table.len
    }

    fn iter<'a>(&'a self) -> impl Iterator<Item = (&'a K, &'a V)>
    where
        K: 'a,
        V: 'a,
    {
        self.table
            .buckets
            .values()
            .flatten()
            .map(|entry| (&entry.0, &entry.1))
    }
}

impl<K, V, S: Clone, const FAULT: u32> Fork for Reference<K, V, S, FAULT> {
    fn fork(&self) -> Self {
        let copy = Self::with_capacity_and_hasher(0, self.hasher.clone());
        *copy.table.lock().unwrap_or_else(PoisonError::into_inner) = self.lock().clone();
        copy
    }
}
