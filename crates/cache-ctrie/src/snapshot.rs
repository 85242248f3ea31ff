//! The handle on a frozen view, and its iterator. Reads need no pin and no protocol here: what it shows is owned.
#![forbid(unsafe_code)]

use std::borrow::Borrow;
use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::iter::FusedIterator;
use std::sync::Arc;

use cache_api::{Consistency, DefaultHashBuilder, GetBatch, SnapshotView};

use crate::map::Map;
use crate::trie::{Leaves, View};

/// A frozen view of a [`Map`]: every answer, now and later, is that of the moment it was taken.
///
/// Made by [`Map::snapshot`] in O(1). It owns what it shows, so it outlives later writes and the map itself, and hands
/// out plain references. Cloning is O(1) too. Dropping the last clone gives back, after a grace period, the memory
/// that only it could still see; that takes time proportional to that memory, on the thread that comes by.
///
/// A long-lived snapshot holds back that memory and nothing else: it is not a pin.
pub struct Snapshot<K, V, S = DefaultHashBuilder> {
    view: Arc<View<K, V>>,
    hasher: S,
}

impl<K, V, S> Snapshot<K, V, S> {
    pub(crate) fn new(view: View<K, V>, hasher: S) -> Self {
        Self {
            view: Arc::new(view),
            hasher,
        }
    }

    /// All entries, each exactly once, in no particular order.
    pub fn iter(&self) -> Iter<'_, K, V> {
        Iter {
            leaves: self.view.iter(),
        }
    }

    /// The number of entries. O(1) once counted; the first time, O(part that was never counted before).
    #[must_use]
    pub fn len(&self) -> usize {
        self.view.len()
    }

    /// Whether there is no entry. O(1): one entry is looked for.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.view.iter().next().is_none()
    }

    /// A map that starts with this content and can be written to: O(1).
    #[must_use]
    pub fn fork(&self) -> Map<K, V, S>
    where
        S: Clone,
    {
        Map::from_parts(self.view.fork(), self.hasher.clone())
    }
}

impl<K, V, S> Snapshot<K, V, S>
where
    K: Hash + Eq,
    S: BuildHasher,
{
    /// The value for `key`, borrowed for as long as the view is. O(log n), no pin, no allocation.
    pub fn get_ref<Q>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.view
            .find(self.hasher.hash_one(key), key)
            .map(|leaf| leaf.value())
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

    /// Calls `f(i, value)` for each key, `i` being its position in `keys`, in order; the cache misses of 32 lookups at
    /// a time overlap.
    pub fn get_batch_with<'k, Q, I, F>(&self, keys: I, mut f: F)
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized + 'k,
        I: IntoIterator<Item = &'k Q>,
        F: FnMut(usize, Option<&V>),
    {
        let hash = |key: &Q| self.hasher.hash_one(key);
        self.view.find_batch(keys.into_iter(), hash, |i, leaf| {
            f(i, leaf.map(|leaf| leaf.value()))
        });
    }
}

impl<K, V, S: Clone> Clone for Snapshot<K, V, S> {
    fn clone(&self) -> Self {
        Self {
            view: Arc::clone(&self.view),
            hasher: self.hasher.clone(),
        }
    }
}

impl<K: fmt::Debug, V: fmt::Debug, S> fmt::Debug for Snapshot<K, V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<'a, K, V, S> IntoIterator for &'a Snapshot<K, V, S> {
    type Item = (&'a K, &'a V);
    type IntoIter = Iter<'a, K, V>;

    fn into_iter(self) -> Iter<'a, K, V> {
        self.iter()
    }
}

/// Iterates over the entries of a [`Snapshot`].
pub struct Iter<'a, K, V> {
    leaves: Leaves<'a, K, V>,
}

impl<'a, K, V> Iterator for Iter<'a, K, V> {
    type Item = (&'a K, &'a V);

    fn next(&mut self) -> Option<Self::Item> {
        self.leaves.next().map(|leaf| (leaf.key(), leaf.value()))
    }
}

impl<K, V> FusedIterator for Iter<'_, K, V> {}

impl<K, V> fmt::Debug for Iter<'_, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Iter").finish_non_exhaustive()
    }
}

impl<K, V, S> GetBatch<K, V> for Snapshot<K, V, S>
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
        Self::get_batch_with(self, keys, f);
    }
}

impl<K, V, S> SnapshotView<K, V> for Snapshot<K, V, S>
where
    K: Hash + Eq,
    S: BuildHasher,
{
    fn get_ref<Q>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        Self::get_ref(self, key)
    }

    fn len(&self) -> usize {
        Self::len(self)
    }

    fn is_empty(&self) -> bool {
        Self::is_empty(self)
    }

    fn iter<'a>(&'a self) -> impl Iterator<Item = (&'a K, &'a V)>
    where
        K: 'a,
        V: 'a,
    {
        Self::iter(self)
    }
}
