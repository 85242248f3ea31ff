//! One version of the map, kept: [`CowView`]; it never changes.

use std::borrow::Borrow;
use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

use cache_api::{Consistency, DefaultHashBuilder, GetBatch, SnapshotView};
use cache_table::Table;

/// A frozen version of a [`CowCache`](crate::CowCache), for as long as it is kept.
///
/// It shares the version's memory and keeps all of it. Cloning the view is O(1).
pub struct CowView<K, V, S = DefaultHashBuilder> {
    pub(crate) table: Arc<Table<K, V>>,
    pub(crate) hasher: S,
}

impl<K, V, S> CowView<K, V, S> {
    /// The number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether there is no entry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// All entries, in no particular order.
    pub fn iter(&self) -> cache_table::Iter<'_, K, V> {
        self.table.iter()
    }
}

impl<K, V, S> CowView<K, V, S>
where
    K: Hash + Eq,
    S: BuildHasher,
{
    /// The value for `key`, borrowed from the view.
    pub fn get_ref<Q>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.table.get(self.hasher.hash_one(key), key)
    }

    /// A clone of the value for `key`.
    pub fn get<Q>(&self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
        V: Clone,
    {
        self.get_ref(key).cloned()
    }

    /// Whether the view holds `key`.
    pub fn contains_key<Q>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.get_ref(key).is_some()
    }
}

impl<K, V, S: Clone> Clone for CowView<K, V, S> {
    fn clone(&self) -> Self {
        Self {
            table: Arc::clone(&self.table),
            hasher: self.hasher.clone(),
        }
    }
}

impl<K: fmt::Debug, V: fmt::Debug, S> fmt::Debug for CowView<K, V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<'a, K, V, S> IntoIterator for &'a CowView<K, V, S> {
    type Item = (&'a K, &'a V);
    type IntoIter = cache_table::Iter<'a, K, V>;

    fn into_iter(self) -> cache_table::Iter<'a, K, V> {
        self.iter()
    }
}

impl<K, V, S> SnapshotView<K, V> for CowView<K, V, S>
where
    K: Hash + Eq,
    S: BuildHasher,
{
    fn get_ref<Q>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.get_ref(key)
    }

    fn len(&self) -> usize {
        self.len()
    }

    fn iter<'a>(&'a self) -> impl Iterator<Item = (&'a K, &'a V)>
    where
        K: 'a,
        V: 'a,
    {
        self.iter()
    }
}

impl<K, V, S> GetBatch<K, V> for CowView<K, V, S>
where
    K: Hash + Eq,
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
        self.table
            .get_batch::<Q, S, I, F, true>(keys, &self.hasher, f);
    }
}
