//! The plainest correct map, and the ways to break it: how the suite proves that it can fail. Never a fast one.

use std::any::Any;
use std::borrow::Borrow;
use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicIsize, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use cache_api::{
    BulkLoad, Cache, ClosureRuns, Consistency, DefaultHashBuilder, Fork, GetBatch, Iterate,
    REENTRANT, Routed, Snapshot, SnapshotView, Update,
};

use crate::fault;
use crate::lab::LabValue;
use crate::rng::jitter;
use crate::run::thread_number;

type Entry<K, V> = Arc<(K, V)>;
type Buckets<K, V> = HashMap<u64, Vec<Entry<K, V>>>;

/// The content: entries by hash, so that user `Hash` code runs once per operation and never under the lock.
struct Table<K, V> {
    buckets: Buckets<K, V>,
    len: usize,
    /// Old tables that nobody needs, for [`fault::SNAPSHOTS_STAY`].
    attic: Vec<Buckets<K, V>>,
    /// Hashes whose `init` runs, for [`fault::INIT_MARK_STAYS`].
    marks: Vec<u64>,
    /// For [`fault::POISON`].
    poisoned: bool,
}

impl<K, V> Table<K, V> {
    fn new() -> Self {
        Self {
            buckets: HashMap::new(),
            len: 0,
            attic: Vec::new(),
            marks: Vec::new(),
            poisoned: false,
        }
    }

    fn copy(&self) -> Self {
        Self {
            buckets: self.buckets.clone(),
            len: self.len,
            ..Self::new()
        }
    }

    fn find<Q, const FAULT: u32>(&self, hash: u64, key: &Q) -> Option<&Entry<K, V>>
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        self.buckets
            .get(&hash)?
            .iter()
            .find(|entry| FAULT == fault::COLLISION_BLIND || entry.0.borrow() == key)
    }

    fn put<const FAULT: u32>(&mut self, hash: u64, entry: Entry<K, V>) -> Option<Entry<K, V>>
    where
        K: Eq,
    {
        if FAULT == fault::PANIC_SPOILS_LEN {
            self.len += 1;
        }
        // The search, which runs user code that may panic, comes before the first change.
        let same = |old: &Entry<K, V>| FAULT == fault::COLLISION_BLIND || old.0 == entry.0;
        let place = self
            .buckets
            .get(&hash)
            .and_then(|bucket| bucket.iter().position(same));
        if FAULT == fault::PANIC_SPOILS_LEN {
            self.len -= 1;
        }
        let bucket = self.buckets.entry(hash).or_default();
        match place {
            Some(index) => Some(std::mem::replace(&mut bucket[index], entry)),
            None => {
                bucket.push(entry);
                self.len += 1;
                None
            }
        }
    }

    fn take<Q, const FAULT: u32>(&mut self, hash: u64, key: &Q) -> Option<Entry<K, V>>
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        let bucket = self.buckets.get_mut(&hash)?;
        let index = bucket
            .iter()
            .position(|old| FAULT == fault::COLLISION_BLIND || old.0.borrow() == key)?;
        self.len -= 1;
        let entry = bucket.swap_remove(index);
        if bucket.is_empty() && FAULT != fault::KEEPS_PLACES {
            self.buckets.remove(&hash);
        }
        Some(entry)
    }
}

/// What the handles of one map share. There is one handle, but for [`fault::FORK_SHARES`].
struct Shared<K, V> {
    table: Mutex<Table<K, V>>,
    /// The thread that holds the lock, or 0.
    owner: AtomicU64,
    /// For [`fault::LEN_APART`].
    racing_len: AtomicIsize,
    /// What reads see, for [`fault::STALE_READ`].
    published: Mutex<Table<K, V>>,
}

impl<K, V> Shared<K, V> {
    fn lock<const FAULT: u32>(&self) -> Locked<'_, K, V> {
        let me = thread_number();
        assert!(
            self.owner.load(Ordering::Relaxed) != me || FAULT == fault::HANG_ON_REENTRY,
            "{REENTRANT} call into a map from user code that it runs under its lock"
        );
        let guard = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        assert!(!guard.poisoned, "poisoned");
        self.owner.store(me, Ordering::Relaxed);
        Locked {
            guard: Some(guard),
            owner: &self.owner,
            poison: FAULT == fault::POISON,
        }
    }
}

/// Holds the lock; on drop gives it back. What was removed goes out of scope in the callers, after this.
struct Locked<'a, K, V> {
    guard: Option<MutexGuard<'a, Table<K, V>>>,
    owner: &'a AtomicU64,
    poison: bool,
}

impl<K, V> Drop for Locked<'_, K, V> {
    fn drop(&mut self) {
        if self.poison && std::thread::panicking() {
            self.poisoned = true;
        }
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

/// The gap between two steps that should be one.
fn gap() {
    std::thread::yield_now();
    jitter();
}

/// A `HashMap` behind a `Mutex`. `FAULT` is one of [`fault`]'s numbers; 0 is the correct map.
///
/// Correct, and slow: it exists to test the tests.
pub struct Reference<K, V, S = DefaultHashBuilder, const FAULT: u32 = 0> {
    shared: Arc<Shared<K, V>>,
    hasher: S,
}

impl<K, V, S, const FAULT: u32> Reference<K, V, S, FAULT> {
    /// An empty map; the capacity is ignored.
    pub fn with_capacity_and_hasher(capacity: usize, hasher: S) -> Self {
        if FAULT == fault::CAPACITY_OVERFLOW {
            assert!(
                capacity.checked_add(1).is_some(),
                "attempt to add with overflow"
            );
        }
        let shared = Shared {
            table: Mutex::new(Table::new()),
            owner: AtomicU64::new(0),
            racing_len: AtomicIsize::new(0),
            published: Mutex::new(Table::new()),
        };
        Self {
            shared: Arc::new(shared),
            hasher,
        }
    }

    fn lock(&self) -> Locked<'_, K, V> {
        self.shared.lock::<FAULT>()
    }

    /// What follows each write, outside the lock; the lengths are those before and after it.
    fn wrote(&self, before: usize, after: usize) {
        if FAULT == fault::LEN_APART {
            gap();
            self.shared
                .racing_len
                .fetch_add(after as isize - before as isize, Ordering::Relaxed);
        }
        if FAULT == fault::STALE_READ {
            let copy = self.lock().copy();
            gap();
            *self
                .shared
                .published
                .lock()
                .unwrap_or_else(PoisonError::into_inner) = copy;
        }
        if FAULT == fault::GROWTH_WINDOW && after > before && after.is_power_of_two() {
            let mut moving = std::mem::take(&mut self.lock().buckets);
            gap();
            let mut table = self.lock();
            for (hash, mut entries) in table.buckets.drain() {
                moving.entry(hash).or_default().append(&mut entries);
            }
            table.buckets = moving;
        }
    }

    /// Drops an entry that a write has replaced.
    fn discard(&self, entry: Option<Entry<K, V>>)
    where
        V: 'static,
    {
        if FAULT == fault::LEAKS {
            std::mem::forget(entry);
        } else if FAULT == fault::DROPS_TWICE {
            let value = entry.as_ref().map(|entry| &entry.1 as &dyn Any);
            if let Some(value) = value.and_then(<dyn Any>::downcast_ref::<LabValue>) {
                value.lab().pretend_dropped_twice(value);
            }
        } else if FAULT == fault::DROP_UNDER_LOCK {
            let _locked = self.lock();
            drop(entry);
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
    V: 'static,
    S: BuildHasher,
{
    fn get_with<Q, F, R>(&self, key: &Q, f: F) -> Option<R>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + Sync + ?Sized,
        F: FnOnce(&V) -> R + Send,
        R: Send,
    {
        if FAULT == fault::HASHES_TWICE {
            self.hasher.hash_one(key);
        }
        let hash = self.hasher.hash_one(key);
        if FAULT == fault::STALE_READ {
            let table = self
                .shared
                .published
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            return table.find::<_, FAULT>(hash, key).map(|entry| f(&entry.1));
        }
        let table = self.lock();
        table.find::<_, FAULT>(hash, key).map(|entry| f(&entry.1))
    }

    fn insert(&self, key: K, value: V) {
        let hash = self.hasher.hash_one(&key);
        let entry = Arc::new((key, value));
        let mut table = self.lock();
        let before = table.len;
        let old = table.put::<FAULT>(hash, entry);
        let after = table.len;
        drop(table);
        self.wrote(before, after);
        self.discard(old);
    }

    fn remove<Q>(&self, key: &Q)
    where
        K: Borrow<Q>,
        Q: Hash + Eq + Sync + ?Sized,
    {
        let hash = self.hasher.hash_one(key);
        let mut table = self.lock();
        let before = table.len;
        let old = table.take::<_, FAULT>(hash, key);
        let after = table.len;
        drop(table);
        self.wrote(before, after);
        drop(old);
    }

    fn len(&self) -> usize {
        if FAULT == fault::LEN_APART {
            return self.shared.racing_len.load(Ordering::Relaxed) as usize;
        }
        self.lock().len
    }
}

impl<K, V, S, const FAULT: u32> Update<K, V> for Reference<K, V, S, FAULT>
where
    K: Hash + Eq,
    V: 'static,
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
        let before = table.len;
        let found = table.find::<_, FAULT>(hash, &key);
        if FAULT == fault::CLOSURE_TWICE {
            f(found.map(|entry| &entry.1));
        }
        let value = f(found.map(|entry| &entry.1));
        if FAULT == fault::LOST_UPDATE {
            drop(table);
            gap();
            table = self.lock();
        }
        let old = table.put::<FAULT>(hash, Arc::new((key, value)));
        let after = table.len;
        drop(table);
        self.wrote(before, after);
        drop(old);
    }

    fn get_or_insert_with<F>(&self, key: K, init: F) -> V
    where
        F: FnOnce() -> V + Send,
        V: Clone + Send,
    {
        let hash = self.hasher.hash_one(&key);
        let mut table = self.lock();
        let before = table.len;
        if let Some(value) = table
            .find::<_, FAULT>(hash, &key)
            .map(|entry| entry.1.clone())
        {
            // `key` is a parameter: it is dropped after `table`, by the order of declaration.
            return value;
        }
        let value = if FAULT == fault::INIT_TWICE || FAULT == fault::LOSER_KEEPS_ITS_VALUE {
            drop(table);
            gap();
            let value = init();
            table = self.lock();
            match table
                .find::<_, FAULT>(hash, &key)
                .map(|entry| entry.1.clone())
            {
                Some(_) if FAULT == fault::LOSER_KEEPS_ITS_VALUE => return value,
                Some(winner) => return winner,
                None => value,
            }
        } else if FAULT == fault::INIT_MARK_STAYS {
            while table.marks.contains(&hash) {
                drop(table);
                gap();
                table = self.lock();
            }
            table.marks.push(hash);
            drop(table);
            let value = init();
            table = self.lock();
            table.marks.retain(|mark| *mark != hash);
            value
        } else {
            init()
        };
        let answer = value.clone();
        table.put::<FAULT>(hash, Arc::new((key, value)));
        let after = table.len;
        drop(table);
        self.wrote(before, after);
        answer
    }

    fn swap(&self, key: K, value: V) -> Option<V>
    where
        V: Clone + Send,
    {
        let hash = self.hasher.hash_one(&key);
        let mut table = self.lock();
        let before = table.len;
        // Cloned before the change, so that a panic of the clone leaves the entry as it was.
        let answer = table
            .find::<_, FAULT>(hash, &key)
            .map(|entry| entry.1.clone());
        if FAULT == fault::SWAP_RACE {
            drop(table);
            gap();
            table = self.lock();
        }
        let old = table.put::<FAULT>(hash, Arc::new((key, value)));
        let after = table.len;
        drop(table);
        self.wrote(before, after);
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
        let before = table.len;
        let answer = table
            .find::<_, FAULT>(hash, key)
            .map(|entry| entry.1.clone());
        if FAULT == fault::TAKE_RACE {
            drop(table);
            gap();
            table = self.lock();
        }
        let old = table.take::<_, FAULT>(hash, key);
        let after = table.len;
        drop(table);
        self.wrote(before, after);
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
        let before = table.len;
        let holds = table
            .find::<_, FAULT>(hash, key)
            .is_some_and(|entry| condition(&entry.1));
        if FAULT == fault::REMOVES_UNTESTED {
            drop(table);
            gap();
            table = self.lock();
        }
        let old = if holds {
            table.take::<_, FAULT>(hash, key)
        } else {
            None
        };
        let after = table.len;
        drop(table);
        self.wrote(before, after);
        drop(old);
        holds
    }
}

impl<K, V, S, const FAULT: u32> BulkLoad<K, V> for Reference<K, V, S, FAULT>
where
    K: Hash + Eq,
    V: 'static,
    S: BuildHasher,
{
    fn bulk_load<I>(&self, entries: I)
    where
        I: IntoIterator<Item = (K, V)>,
    {
        if FAULT == fault::FIRST_WINS {
            let entries: Vec<(K, V)> = entries.into_iter().collect();
            entries
                .into_iter()
                .rev()
                .for_each(|(key, value)| self.insert(key, value));
            return;
        }
        for (key, value) in entries {
            self.insert(key, value);
        }
    }
}

impl<K, V, S, const FAULT: u32> GetBatch<K, V> for Reference<K, V, S, FAULT>
where
    K: Hash + Eq,
    V: 'static,
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
        let mut keys: Vec<(u64, &Q)> = keys
            .into_iter()
            .map(|key| (self.hasher.hash_one(key), key))
            .collect();
        if FAULT == fault::BATCH_ORDER {
            keys.sort_by_key(|(hash, _)| *hash);
        }
        let mut table = self.lock();
        for (position, (hash, key)) in keys.into_iter().enumerate() {
            if FAULT == fault::BATCH_TORN {
                drop(table);
                gap();
                table = self.lock();
            }
            f(
                position,
                table.find::<_, FAULT>(hash, key).map(|entry| &entry.1),
            );
        }
    }
}

impl<K, V, S, const FAULT: u32> Iterate<K, V> for Reference<K, V, S, FAULT>
where
    K: Hash + Eq,
    V: 'static,
    S: BuildHasher,
{
    fn for_each<F>(&self, mut f: F)
    where
        F: FnMut(&K, &V) + Send,
    {
        if FAULT == fault::VISIT_BY_NUMBER {
            for number in 0.. {
                let entry = self.lock().buckets.values().flatten().nth(number).cloned();
                match entry {
                    Some(entry) => f(&entry.0, &entry.1),
                    None => return,
                }
            }
        }
        let table = self.lock();
        for entry in table.buckets.values().flatten() {
            if FAULT == fault::SWALLOWS_PANICS {
                let _ = catch_unwind(AssertUnwindSafe(|| f(&entry.0, &entry.1)));
            } else {
                f(&entry.0, &entry.1);
            }
        }
    }

    fn retain<F>(&self, mut keep: F)
    where
        F: FnMut(&K, &V) -> bool + Send,
    {
        let mut removed = Vec::new();
        let mut locked = self.lock();
        let table: &mut Table<K, V> = &mut locked;
        let before = table.len;
        if FAULT == fault::RETAIN_LOSES {
            let old = std::mem::take(&mut table.buckets);
            table.len = 0;
            for (hash, bucket) in old {
                for entry in bucket {
                    if keep(&entry.0, &entry.1) {
                        table.put::<FAULT>(hash, entry);
                    } else {
                        removed.push(entry);
                    }
                }
            }
        }
        let hashes: Vec<u64> = table.buckets.keys().copied().collect();
        for hash in hashes {
            if FAULT == fault::RETAIN_LOSES {
                break;
            }
            let Some(bucket) = table.buckets.get_mut(&hash) else {
                continue;
            };
            let mut index = 0;
            while index < bucket.len() {
                if keep(&bucket[index].0, &bucket[index].1) {
                    index += 1;
                } else {
                    removed.push(bucket.swap_remove(index));
                    table.len -= 1;
                }
            }
            if bucket.is_empty() {
                table.buckets.remove(&hash);
            }
        }
        let after = table.len;
        drop(locked);
        self.wrote(before, after);
        drop(removed);
    }

    fn clear(&self) {
        for time in 0..2 {
            let mut table = self.lock();
            let before = table.len;
            let old = std::mem::take(&mut table.buckets);
            table.len = 0;
            drop(table);
            self.wrote(before, 0);
            drop(old);
            if FAULT != fault::CLEARS_TWICE || time == 1 {
                break;
            }
            gap();
        }
    }
}

impl<K, V, S, const FAULT: u32> Routed<K> for Reference<K, V, S, FAULT>
where
    K: Hash + Eq,
    V: 'static,
    S: BuildHasher,
{
    fn partitions(&self) -> usize {
        16
    }

    fn partition_of<Q>(&self, key: &Q) -> usize
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let shift = if FAULT == fault::ROUTE_MOVES {
            self.len() / 100
        } else {
            0
        };
        (self.hasher.hash_one(key) as usize).wrapping_add(shift) % 16
    }
}

/// A copy of a [`Reference`]'s table. Not O(1); the suite does not measure.
pub struct ReferenceView<K, V, S> {
    table: OnceLock<Table<K, V>>,
    /// Where the table comes from at the first read, for [`fault::SNAPSHOT_LATE`].
    source: Option<Arc<Shared<K, V>>>,
    hasher: S,
}

impl<K, V, S> ReferenceView<K, V, S> {
    fn table(&self) -> &Table<K, V> {
        self.table.get_or_init(|| {
            let source = self
                .source
                .as_ref()
                .expect("a view has a table or a source");
            source.lock::<{ fault::NONE }>().copy()
        })
    }
}

impl<K, V, S> fmt::Debug for ReferenceView<K, V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReferenceView").finish_non_exhaustive()
    }
}

impl<K, V, S, const FAULT: u32> Snapshot<K, V> for Reference<K, V, S, FAULT>
where
    K: Hash + Eq,
    V: 'static,
    S: BuildHasher + Clone,
{
    type View = ReferenceView<K, V, S>;
    const CONSISTENCY: Consistency = Consistency::Snapshot;

    fn snapshot(&self) -> ReferenceView<K, V, S> {
        let hasher = self.hasher.clone();
        if FAULT == fault::SNAPSHOT_LATE {
            return ReferenceView {
                table: OnceLock::new(),
                source: Some(Arc::clone(&self.shared)),
                hasher,
            };
        }
        let mut copy = self.lock().copy();
        if FAULT == fault::SNAPSHOT_TORN {
            gap();
            let later = self.lock().copy();
            copy.buckets.retain(|hash, _| hash % 2 == 0);
            copy.buckets
                .extend(later.buckets.into_iter().filter(|(hash, _)| hash % 2 == 1));
            copy.len = copy.buckets.values().map(Vec::len).sum();
        }
        if FAULT == fault::SNAPSHOTS_STAY {
            let kept = copy.buckets.clone();
            self.lock().attic.push(kept);
        }
        ReferenceView {
            table: OnceLock::from(copy),
            source: None,
            hasher,
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
        self.table()
            .find::<_, { fault::NONE }>(self.hasher.hash_one(key), key)
            .map(|entry| &entry.1)
    }

    fn len(&self) -> usize {
        self.table().len
    }

    fn iter<'a>(&'a self) -> impl Iterator<Item = (&'a K, &'a V)>
    where
        K: 'a,
        V: 'a,
    {
        self.table()
            .buckets
            .values()
            .flatten()
            .map(|entry| (&entry.0, &entry.1))
    }
}

impl<K, V, S: Clone, const FAULT: u32> Fork for Reference<K, V, S, FAULT> {
    fn fork(&self) -> Self {
        if FAULT == fault::FORK_SHARES {
            return Self {
                shared: Arc::clone(&self.shared),
                hasher: self.hasher.clone(),
            };
        }
        let copy = Self::with_capacity_and_hasher(0, self.hasher.clone());
        *copy
            .shared
            .table
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = self.lock().copy();
        copy
    }
}
