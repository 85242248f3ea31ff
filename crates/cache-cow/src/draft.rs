//! What a writer works on: a private copy, made when it is first changed; it is published by `CowCache` only.

use std::borrow::Borrow;
use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::mem;

use cache_table::Table;

/// The next version of a [`CowCache`](crate::CowCache), private to the closure of
/// [`update_many`](crate::CowCache::update_many) until that returns.
///
/// It begins as the current version and shows its own changes. The copy is made by the first operation that changes
/// something: O(n) once; all operations are O(1) expected apart from that.
pub struct Draft<'a, K, V, S> {
    current: &'a Table<K, V>,
    next: &'a mut Option<Table<K, V>>,
    hasher: &'a S,
}

impl<'a, K, V, S> Draft<'a, K, V, S> {
    /// `next` belongs to the caller, so that what a panic leaves there is dropped when the caller says.
    pub(crate) fn new(
        current: &'a Table<K, V>,
        next: &'a mut Option<Table<K, V>>,
        hasher: &'a S,
    ) -> Self {
        Self {
            current,
            next,
            hasher,
        }
    }

    pub(crate) fn table(&self) -> &Table<K, V> {
        self.next.as_ref().unwrap_or(self.current)
    }

    /// The number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.table().len()
    }

    /// Whether there is no entry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.table().is_empty()
    }

    /// All entries, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.table().iter()
    }

    /// Removes all entries; nothing is copied.
    ///
    /// What this draft held of its own is dropped now, under the writers' lock.
    pub fn clear(&mut self) {
        *self.next = Some(Table::new());
    }
}

impl<K, V, S> Draft<'_, K, V, S>
where
    K: Hash + Eq + Clone,
    V: Clone,
    S: BuildHasher,
{
    /// The value for `key`.
    pub fn get<Q>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.table().get(self.hasher.hash_one(key), key)
    }

    /// Whether there is a value for `key`.
    pub fn contains_key<Q>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.get(key).is_some()
    }

    /// Stores `value` for `key` and returns the value that it replaced. The earlier key stays.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        let hash = self.hasher.hash_one(&key);
        let (mut key, mut value) = (Some(key), Some(value));
        self.put(hash, &mut key, &mut value);
        value
    }

    /// Removes `key` and returns its value. Nothing is copied where there is no such key.
    pub fn remove<Q>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let hash = self.hasher.hash_one(key);
        self.remove_if(hash, key, |_| true).map(|(_, value)| value)
    }

    /// Removes the entries for which `keep` is false, and drops them, under the writers' lock. O(n).
    pub fn retain<F>(&mut self, keep: F)
    where
        F: FnMut(&K, &V) -> bool,
    {
        self.retain_into(keep, &mut Vec::new());
    }

    /// Makes room for `additional` more entries, as a hint.
    pub fn reserve(&mut self, additional: usize) {
        let hasher = self.hasher;
        self.table_mut().reserve(additional, hasher);
    }

    /// Gives back room that the present entries do not need. O(n).
    pub fn shrink_to_fit(&mut self) {
        let hasher = self.hasher;
        self.table_mut().shrink_to_fit(hasher);
    }

    /// Stores the value for the key. Where the key is there already, what was stored is in `value` afterwards and `key`
    /// stays; otherwise both are taken.
    ///
    /// Both belong to the caller until nothing can fail any more, so that it decides when they are dropped after a
    /// panic.
    pub(crate) fn put(&mut self, hash: u64, key: &mut Option<K>, value: &mut Option<V>) {
        let hasher = self.hasher;
        let table = self.table_mut();
        let found = key.as_ref().and_then(|key| table.get_mut(hash, key));
        if let (Some(slot), Some(value)) = (found, value.as_mut()) {
            mem::swap(slot, value);
            return;
        }
        let room = table.room(hasher);
        if let (Some(key), Some(value)) = (key.take(), value.take()) {
            room.insert(hash, key, value);
        }
    }

    pub(crate) fn remove_if<Q, F>(&mut self, hash: u64, key: &Q, condition: F) -> Option<(K, V)>
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
        F: FnOnce(&V) -> bool,
    {
        if !self.table().get(hash, key).is_some_and(condition) {
            return None;
        }
        self.table_mut().remove(hash, key)
    }

    pub(crate) fn retain_into<F>(&mut self, mut keep: F, removed: &mut Vec<(K, V)>)
    where
        F: FnMut(&K, &V) -> bool,
    {
        // Where nothing is to go, nothing is copied; and `keep` sees each entry once.
        let doomed: Vec<bool> = self
            .table()
            .iter()
            .map(|(key, value)| !keep(key, value))
            .collect();
        if doomed.contains(&true) {
            // A table and its copy are visited in the same order.
            let mut doomed = doomed.into_iter();
            self.table_mut()
                .retain(|_, _| !doomed.next().unwrap_or(false), removed);
        }
    }

    pub(crate) fn table_mut(&mut self) -> &mut Table<K, V> {
        self.next.get_or_insert_with(|| self.current.clone())
    }
}

impl<K: fmt::Debug, V: fmt::Debug, S> fmt::Debug for Draft<'_, K, V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.table().iter()).finish()
    }
}

impl<K, V, S> Extend<(K, V)> for Draft<'_, K, V, S>
where
    K: Hash + Eq + Clone,
    V: Clone,
    S: BuildHasher,
{
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, entries: I) {
        let entries = entries.into_iter();
        self.reserve(entries.size_hint().0);
        for (key, value) in entries {
            self.insert(key, value);
        }
    }
}
