//! The traits of `cache-api`, by way of the inherent methods; never behaviour of its own.

use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash};

use cache_api::{
    BulkLoad, Cache, ClosureRuns, Consistency, Fork, GetBatch, Iterate, Snapshot, Update,
};

use crate::{CowCache, CowView};

impl<K, V, S> Cache<K, V> for CowCache<K, V, S>
where
    K: Hash + Eq + Clone,
    V: Clone,
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
        self.get_with(key, f)
    }

    #[inline]
    fn insert(&self, key: K, value: V) {
        self.insert(key, value);
    }

    #[inline]
    fn remove<Q>(&self, key: &Q)
    where
        K: Borrow<Q>,
        Q: Hash + Eq + Sync + ?Sized,
    {
        self.remove(key);
    }

    fn len(&self) -> usize {
        self.len()
    }

    fn is_empty(&self) -> bool {
        self.is_empty()
    }
}

impl<K, V, S> Update<K, V> for CowCache<K, V, S>
where
    K: Hash + Eq + Clone,
    V: Clone,
    S: BuildHasher,
{
    const CLOSURE_RUNS: ClosureRuns = ClosureRuns::Once;
    const INIT_EXACTLY_ONCE: bool = true;

    fn upsert<F>(&self, key: K, f: F)
    where
        F: FnMut(Option<&V>) -> V + Send,
    {
        self.upsert(key, f);
    }

    fn get_or_insert_with<F>(&self, key: K, init: F) -> V
    where
        F: FnOnce() -> V + Send,
        V: Clone + Send,
    {
        self.get_or_insert_with(key, init)
    }

    fn swap(&self, key: K, value: V) -> Option<V>
    where
        V: Clone + Send,
    {
        self.swap(key, value)
    }

    fn take<Q>(&self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + Sync + ?Sized,
        V: Clone + Send,
    {
        self.take(key)
    }

    fn remove_if<Q, F>(&self, key: &Q, condition: F) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + Eq + Sync + ?Sized,
        F: FnMut(&V) -> bool + Send,
    {
        self.remove_if(key, condition)
    }
}

impl<K, V, S> BulkLoad<K, V> for CowCache<K, V, S>
where
    K: Hash + Eq + Clone,
    V: Clone,
    S: BuildHasher,
{
    fn bulk_load<I>(&self, entries: I)
    where
        I: IntoIterator<Item = (K, V)>,
    {
        self.bulk_load(entries);
    }
}

impl<K, V, S> GetBatch<K, V> for CowCache<K, V, S>
where
    K: Hash + Eq + Clone,
    V: Clone,
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
        self.get_batch_with(keys, f);
    }

    fn get_batch<'k, Q, I>(&self, keys: I) -> Vec<Option<V>>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + Sync + ?Sized + 'k,
        I: IntoIterator<Item = &'k Q>,
        V: Clone + Send,
    {
        self.get_batch(keys)
    }
}

impl<K, V, S> Iterate<K, V> for CowCache<K, V, S>
where
    K: Hash + Eq + Clone,
    V: Clone,
    S: BuildHasher,
{
    fn for_each<F>(&self, f: F)
    where
        F: FnMut(&K, &V) + Send,
    {
        self.for_each(f);
    }

    fn retain<F>(&self, keep: F)
    where
        F: FnMut(&K, &V) -> bool + Send,
    {
        self.retain(keep);
    }

    fn clear(&self) {
        self.clear();
    }
}

impl<K, V, S> Snapshot<K, V> for CowCache<K, V, S>
where
    K: Hash + Eq,
    S: BuildHasher + Clone,
{
    type View = CowView<K, V, S>;

    const CONSISTENCY: Consistency = Consistency::Snapshot;

    fn snapshot(&self) -> CowView<K, V, S> {
        self.snapshot()
    }
}

impl<K, V, S: Clone> Fork for CowCache<K, V, S> {
    fn fork(&self) -> Self {
        self.clone()
    }
}
