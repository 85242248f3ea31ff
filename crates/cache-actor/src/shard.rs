//! One shard's entries, touched by its owner thread only: a table that keeps each entry's hash. Never a thread,
//! never a message.
//!
//! Hashes are computed on the calling threads and stored (8 bytes per entry), so that growth asks no key for its hash
//! again: a user's `Hash` never runs on an owner thread, where its panic would have no caller to go to.

use std::borrow::Borrow;
use std::mem;

use hashbrown::HashTable;

/// The entries of one shard.
pub(crate) struct Shard<K, V> {
    table: HashTable<Entry<K, V>>,
}

/// A key, its hash, its value.
pub(crate) struct Entry<K, V> {
    pub(crate) hash: u64,
    pub(crate) key: K,
    pub(crate) value: V,
}

impl<K, V> Shard<K, V> {
    /// An empty shard with room for `capacity` entries, or without where the allocator refuses that much.
    pub(crate) fn with_capacity(capacity: usize) -> Self {
        let mut table = HashTable::new();
        // A capacity is a hint: one that cannot be had is not worth dying for.
        let _ = table.try_reserve(capacity, |entry: &Entry<K, V>| entry.hash);
        Self { table }
    }

    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    pub(crate) fn get<Q>(&self, hash: u64, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        self.table
            .find(hash, |entry| {
                entry.hash == hash && entry.key.borrow() == key
            })
            .map(|entry| &entry.value)
    }

    pub(crate) fn get_mut<Q>(&mut self, hash: u64, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        self.table
            .find_mut(hash, |entry| {
                entry.hash == hash && entry.key.borrow() == key
            })
            .map(|entry| &mut entry.value)
    }

    /// Stores `value` under the key that `key` holds, leaving that key there if an equal one is already stored.
    /// Returns the replaced value. If the comparison panics, `key` and `value` still hold what they held.
    pub(crate) fn insert(
        &mut self,
        hash: u64,
        key: &mut Option<K>,
        value: &mut Option<V>,
    ) -> Option<V>
    where
        K: Eq,
    {
        let wanted = key.as_ref()?;
        match self
            .table
            .find_mut(hash, |entry| entry.hash == hash && entry.key == *wanted)
        {
            Some(entry) => value
                .take()
                .map(|value| mem::replace(&mut entry.value, value)),
            None => {
                if let (Some(key), Some(value)) = (key.take(), value.take()) {
                    self.insert_absent(hash, key, value);
                }
                None
            }
        }
    }

    /// Stores an entry whose key is known to be absent.
    pub(crate) fn insert_absent(&mut self, hash: u64, key: K, value: V) -> &mut V {
        let entry = self
            .table
            .insert_unique(hash, Entry { hash, key, value }, |entry| entry.hash);
        &mut entry.into_mut().value
    }

    pub(crate) fn remove<Q>(&mut self, hash: u64, key: &Q) -> Option<Entry<K, V>>
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        self.remove_if(hash, key, |_| true)
    }

    pub(crate) fn remove_if<Q>(
        &mut self,
        hash: u64,
        key: &Q,
        condition: impl FnOnce(&V) -> bool,
    ) -> Option<Entry<K, V>>
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        let found = self
            .table
            .find_entry(hash, |entry| {
                entry.hash == hash && entry.key.borrow() == key
            })
            .ok()?;
        condition(&found.get().value).then(|| found.remove().0)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Entry<K, V>> {
        self.table.iter()
    }

    /// Moves every entry that `keep` does not want into `removed`; those moved before a panic of `keep` stay moved.
    pub(crate) fn retain(
        &mut self,
        mut keep: impl FnMut(&K, &V) -> bool,
        removed: &mut Vec<Entry<K, V>>,
    ) {
        removed.extend(
            self.table
                .extract_if(|entry| !keep(&entry.key, &entry.value)),
        );
    }

    /// Leaves the shard empty and hands out what it held.
    pub(crate) fn take(&mut self) -> Self {
        mem::replace(
            self,
            Self {
                table: HashTable::new(),
            },
        )
    }

    pub(crate) fn reserve(&mut self, additional: usize) {
        self.table.reserve(additional, |entry| entry.hash);
    }

    pub(crate) fn shrink_to_fit(&mut self) {
        self.table.shrink_to_fit(|entry| entry.hash);
    }

    /// All entries, one after another.
    pub(crate) fn into_entries(mut self) -> impl Iterator<Item = Entry<K, V>> {
        mem::take(&mut self.table).into_iter()
    }
}
