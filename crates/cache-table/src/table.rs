//! A hash table that is told the hash, and that loses nothing when user code panics; it never stores a hash.

use std::borrow::Borrow;
use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::mem;

use hashbrown::HashTable;
use hashbrown::hash_table;

use crate::ProbeHint;
use crate::broken::broken;
use crate::prefetch::prefetch_probe;

/// An unordered table of `(K, V)` pairs over [`hashbrown::HashTable`], addressed by a hash that the caller computes.
///
/// # Guarantees
///
/// - Every operation takes the key's hash. It must be the one that the `hasher` given to [`room`](Table::room) and
///   [`reserve`](Table::reserve) yields for the key; otherwise the key is not found (nothing worse happens).
/// - Growth first hashes all stored keys by reference, then moves the entries. A panicking `Hash` therefore leaves
///   the table exactly as it was. (hashbrown's own rehashing drops entries when the hasher panics.)
/// - `Eq` runs before anything is changed.
/// - No operation drops a key or a value that was in the table, except [`clear`](Table::clear) and the table's own
///   `Drop`. What is replaced or removed is returned, so that the caller decides when user destructors run.
///
/// Hashes are not stored: an entry takes `size_of::<(K, V)>()` plus one control byte.
///
/// # Cost
///
/// Lookups, insertions and removals are O(1) expected, growth O(n) amortised over the insertions. Growth also needs 8
/// temporary bytes per entry.
pub struct Table<K, V> {
    entries: HashTable<(K, V)>,
    /// The address of the first control byte, for [`prefetch`](Table::prefetch) alone: 0 while unknown, which it is
    /// from when buckets are allocated until the first insertion into them.
    control: usize,
}

/// Iterator over the entries of a [`Table`].
pub struct Iter<'a, K, V> {
    entries: hash_table::Iter<'a, (K, V)>,
}

/// Room for one more entry in a [`Table`]: putting it there runs no user code and cannot fail.
pub struct Room<'a, K, V> {
    table: &'a mut Table<K, V>,
}

impl<K, V> Table<K, V> {
    /// An empty table without buckets. O(1), no allocation.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            entries: HashTable::new(),
            control: 0,
        }
    }

    /// An empty table with buckets for `capacity` entries.
    ///
    /// The capacity is a hint: where it overflows or the allocator refuses it, the table starts without buckets.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        let mut entries = HashTable::new();
        // There is nothing to rehash in an empty table. A refused hint changes nothing: see above.
        let _ = entries.try_reserve(capacity, |_| {
            unreachable!("an empty table has no keys to hash")
        });
        Self {
            entries,
            control: 0,
        }
    }

    /// The number of entries.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is no entry.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// How many entries fit without growth.
    #[inline]
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.entries.capacity()
    }

    /// The number of buckets: 0 or a power of two.
    #[inline]
    #[must_use]
    pub fn buckets(&self) -> usize {
        // A table that has not allocated yet shares one static, always empty bucket with all others.
        if self.entries.allocation_size() == 0 {
            0
        } else {
            self.entries.num_buckets()
        }
    }

    /// The bytes that the buckets take, empty ones included.
    #[must_use]
    pub fn allocation_size(&self) -> usize {
        self.entries.allocation_size()
    }

    /// The value stored for `key`.
    ///
    /// # Panics
    ///
    /// Only those of `Eq`.
    #[inline]
    pub fn get<Q>(&self, hash: u64, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        self.entries
            .find(hash, |entry| entry.0.borrow() == key)
            .map(|entry| &entry.1)
    }

    /// The value stored for `key`, to be changed or replaced in place.
    ///
    /// # Panics
    ///
    /// Only those of `Eq`.
    #[inline]
    pub fn get_mut<Q>(&mut self, hash: u64, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        self.entries
            .find_mut(hash, |entry| entry.0.borrow() == key)
            .map(|entry| &mut entry.1)
    }

    /// Takes the entry of `key` out.
    ///
    /// # Panics
    ///
    /// Only those of `Eq`; the table is unchanged then.
    #[inline]
    pub fn remove<Q>(&mut self, hash: u64, key: &Q) -> Option<(K, V)>
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        self.remove_if(hash, key, |_| true)
    }

    /// Takes the entry of `key` out if `condition` holds for its value.
    ///
    /// # Panics
    ///
    /// Only those of `Eq` and `condition`; the table is unchanged then.
    #[inline]
    pub fn remove_if<Q, F>(&mut self, hash: u64, key: &Q, condition: F) -> Option<(K, V)>
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
        F: FnOnce(&V) -> bool,
    {
        let entry = self
            .entries
            .find_entry(hash, |entry| entry.0.borrow() == key)
            .ok()?;
        condition(&entry.get().1).then(|| entry.remove().0)
    }

    /// Makes sure that one more entry fits.
    ///
    /// Call it before running other user code (a closure that computes the value), so that nothing can fail between
    /// that code and the insertion.
    ///
    /// # Panics
    ///
    /// Only those of `Hash`, while growing; the table is unchanged then.
    #[inline]
    pub fn room<S>(&mut self, hasher: &S) -> Room<'_, K, V>
    where
        K: Hash,
        S: BuildHasher,
    {
        // hashbrown counts what is left: the capacity is the length plus the insertions that fit.
        if self.entries.len() == self.entries.capacity() {
            self.grow(hasher);
        }
        Room { table: self }
    }

    /// Makes room for `additional` more entries, as a hint: where the sum overflows or the allocator refuses it, the
    /// table stays as it is.
    ///
    /// # Panics
    ///
    /// Only those of `Hash`; the table is unchanged then.
    pub fn reserve<S>(&mut self, additional: usize, hasher: &S)
    where
        K: Hash,
        S: BuildHasher,
    {
        let wanted = self.len().saturating_add(additional);
        if wanted > self.capacity() {
            self.rebuild(wanted, hasher);
        }
    }

    /// Gives back buckets that the present entries do not need.
    ///
    /// # Panics
    ///
    /// Only those of `Hash`; the table is unchanged then.
    pub fn shrink_to_fit<S>(&mut self, hasher: &S)
    where
        K: Hash,
        S: BuildHasher,
    {
        let mut fitting = Self::with_capacity(self.len());
        if fitting.buckets() < self.buckets() && fitting.capacity() >= self.len() {
            self.move_into(mem::take(&mut fitting.entries), hasher);
        }
    }

    /// All entries, in no particular order.
    #[inline]
    pub fn iter(&self) -> Iter<'_, K, V> {
        Iter {
            entries: self.entries.iter(),
        }
    }

    /// Moves the entries for which `keep` is false to `removed`.
    ///
    /// # Panics
    ///
    /// Only those of `keep`; entries moved until then stay moved.
    pub fn retain<F>(&mut self, mut keep: F, removed: &mut Vec<(K, V)>)
    where
        F: FnMut(&K, &V) -> bool,
    {
        removed.extend(self.entries.extract_if(|(key, value)| !keep(key, value)));
    }

    /// Drops all entries; the buckets stay.
    ///
    /// # Panics
    ///
    /// Those of the entries' destructors; all other entries are dropped nevertheless, and the table is empty.
    pub fn clear(&mut self) {
        // Not `HashTable::clear`, which leaks the rest where a destructor panics.
        self.entries.drain().for_each(drop);
    }

    /// Asks the processor for what a lookup of `hash` will touch first: the control bytes where the probe begins, and
    /// the bucket that goes with the first of them. O(1), waits for nothing, and never changes an answer.
    ///
    /// Ask for some dozen keys before looking the first of them up, and their cache misses overlap (group prefetching:
    /// Chen, Ailamaki, Gibbons and Mowry, *Improving Hash Join Performance through Prefetching*, ICDE 2004).
    ///
    /// hashbrown does not tell where its buckets lie. The place is derived from the address of an entry and the number
    /// of its bucket, both of which it does tell; with another layout the wrong lines would be loaded, at no other harm.
    #[inline(always)]
    pub fn prefetch(&self, hash: u64) {
        if self.control != 0 {
            prefetch_probe::<(K, V)>(self.control, self.entries.num_buckets() - 1, hash);
        }
    }

    /// Notes in `hint` where this table lies now; to be called after each change of [`buckets`](Table::buckets) and
    /// after the first insertion. O(1).
    pub fn publish(&self, hint: &ProbeHint<(K, V)>) {
        hint.set(self.layout());
    }

    /// The address of the first control byte and the number of buckets minus one; `None` while unknown, and for
    /// zero-sized entries.
    pub(crate) fn layout(&self) -> Option<(usize, usize)> {
        (self.control != 0).then(|| (self.control, self.entries.num_buckets() - 1))
    }

    /// Called when no further entry fits.
    #[cold]
    #[inline(never)]
    fn grow<S>(&mut self, hasher: &S)
    where
        K: Hash,
        S: BuildHasher,
    {
        // Full of entries: to the next size. Half full of entries and the rest of removals' traces: the same size.
        let full = match self.buckets() {
            0 => 0,
            small @ 1..8 => small - 1,
            large => large / 8 * 7,
        };
        let wanted = if self.len() < full / 2 {
            full
        } else {
            full.max(self.len()) + 1
        };
        self.rebuild(wanted, hasher);
        if self.entries.len() == self.entries.capacity() {
            // The allocator refused. Let hashbrown ask again, for one entry only, and report it as collections do.
            let entries = HashTable::with_capacity(self.len() + 1);
            self.move_into(entries, hasher);
        }
    }

    /// Moves all entries to a table for `wanted` entries, if there can be one.
    fn rebuild<S>(&mut self, wanted: usize, hasher: &S)
    where
        K: Hash,
        S: BuildHasher,
    {
        let mut bigger = Self::with_capacity(wanted);
        if bigger.capacity() > self.len() {
            self.move_into(mem::take(&mut bigger.entries), hasher);
        }
    }

    /// Replaces the buckets by those of `target`, which is empty and has room for all entries.
    fn move_into<S>(&mut self, mut target: HashTable<(K, V)>, hasher: &S)
    where
        K: Hash,
        S: BuildHasher,
    {
        if broken("hashing while moving") {
            for entry in mem::take(&mut self.entries) {
                target.insert_unique(hasher.hash_one(&entry.0), entry, |_| {
                    unreachable!("there is room")
                });
            }
            self.entries = target;
            self.control = 0;
            return;
        }
        // The only user code, and nothing has moved yet.
        let hashes: Vec<u64> = self
            .entries
            .iter()
            .map(|(key, _)| hasher.hash_one(key))
            .collect();
        // Taking a table apart visits it in the order in which iterating by reference does.
        let mut control = 0;
        for (entry, hash) in mem::take(&mut self.entries).into_iter().zip(hashes) {
            let place = target.insert_unique(hash, entry, |_| {
                unreachable!("the target has room for all entries")
            });
            if control == 0 {
                control = control_of(place.get(), place.bucket_index());
            }
        }
        self.entries = target;
        self.control = control;
    }
}

impl<K, V> Drop for Table<K, V> {
    /// Drops all entries, and frees the buckets, even where a destructor panics. (hashbrown's own leaks them and the
    /// rest of the entries then.)
    fn drop(&mut self) {
        if mem::needs_drop::<(K, V)>() {
            mem::take(&mut self.entries).into_iter().for_each(drop);
        }
    }
}

impl<K, V> Room<'_, K, V> {
    /// Puts an entry there. The key must be absent, and `hash` be its hash.
    #[inline]
    pub fn insert(self, hash: u64, key: K, value: V) {
        let place = self.table.entries.insert_unique(hash, (key, value), |_| {
            unreachable!("there is room for one more entry")
        });
        if self.table.control == 0 {
            self.table.control = control_of(place.get(), place.bucket_index());
        }
    }
}

/// Where the control bytes begin, given an entry and the number of its bucket; 0 for zero-sized entries.
///
/// Buckets lie in reverse order directly below the control bytes: bucket 0 ends where those begin.
fn control_of<T>(entry: &T, index: usize) -> usize {
    let size = size_of::<T>();
    if size == 0 {
        return 0;
    }
    std::ptr::from_ref(entry)
        .addr()
        .wrapping_add((index + 1).wrapping_mul(size))
}

/// As many buckets as the original has. O(buckets).
impl<K: Clone, V: Clone> Clone for Table<K, V> {
    fn clone(&self) -> Self {
        let entries = self.entries.clone();
        let control = match entries.iter_buckets().next() {
            Some(index) => entries
                .get_bucket(index)
                .map_or(0, |entry| control_of(entry, index)),
            None => 0,
        };
        Self { entries, control }
    }
}

impl<K, V> Default for Table<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: fmt::Debug, V: fmt::Debug> fmt::Debug for Table<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self).finish()
    }
}

impl<K, V> fmt::Debug for Room<'_, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Room").finish_non_exhaustive()
    }
}

impl<'a, K, V> IntoIterator for &'a Table<K, V> {
    type Item = (&'a K, &'a V);
    type IntoIter = Iter<'a, K, V>;

    fn into_iter(self) -> Iter<'a, K, V> {
        self.iter()
    }
}

impl<'a, K, V> Iterator for Iter<'a, K, V> {
    type Item = (&'a K, &'a V);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.entries.next().map(|(key, value)| (key, value))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.entries.size_hint()
    }
}

impl<K, V> ExactSizeIterator for Iter<'_, K, V> {}

impl<K, V> Clone for Iter<'_, K, V> {
    fn clone(&self) -> Self {
        Self {
            entries: self.entries.clone(),
        }
    }
}

impl<K: fmt::Debug, V: fmt::Debug> fmt::Debug for Iter<'_, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.clone()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broken::switch;
    use std::cell::Cell;
    use std::collections::HashMap;
    use std::hash::{BuildHasherDefault, DefaultHasher, Hasher, RandomState};
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::rc::Rc;

    thread_local!(static HASHES_LEFT: Cell<usize> = const { Cell::new(usize::MAX) });

    /// Panics when [`HASHES_LEFT`] runs out.
    #[derive(PartialEq, Eq, Debug, Clone)]
    struct Fragile(u64);

    impl Hash for Fragile {
        fn hash<H: Hasher>(&self, state: &mut H) {
            let left = HASHES_LEFT.get();
            assert!(left > 0, "no hashes left");
            HASHES_LEFT.set(left - 1);
            self.0.hash(state);
        }
    }

    fn put<K: Hash + Eq, V, S: BuildHasher>(
        table: &mut Table<K, V>,
        s: &S,
        key: K,
        value: V,
    ) -> Option<V> {
        let hash = s.hash_one(&key);
        match table.get_mut(hash, &key) {
            Some(slot) => Some(mem::replace(slot, value)),
            None => {
                table.room(s).insert(hash, key, value);
                None
            }
        }
    }

    #[test]
    fn a_hash_that_panics_in_growth_loses_nothing() {
        growth_survives_panics();
        let _on = switch::on("hashing while moving");
        assert!(
            catch_unwind(growth_survives_panics).is_err(),
            "the broken variant goes unnoticed"
        );
    }

    fn growth_survives_panics() {
        let build = BuildHasherDefault::<DefaultHasher>::default();
        let mut table = Table::new();
        for (stored, key) in (0..500).enumerate() {
            // Let growth, where it happens, fail at several of its hashes before it succeeds.
            for allowed in [0, 1, table.len() / 2, table.len().saturating_sub(1)] {
                let hash = build.hash_one(Fragile(key));
                HASHES_LEFT.set(allowed);
                let full = table.len() == table.capacity();
                let grown = catch_unwind(AssertUnwindSafe(|| _ = table.room(&build))).is_ok();
                HASHES_LEFT.set(usize::MAX);
                assert_eq!(grown, !full || allowed >= table.len(), "{key} {allowed}");
                assert_eq!(table.len(), stored);
                assert!(
                    (0..key)
                        .all(|k| table.get(build.hash_one(Fragile(k)), &Fragile(k)) == Some(&k))
                );
                assert!(table.get(hash, &Fragile(key)).is_none());
            }
            put(&mut table, &build, Fragile(key), key);
        }
    }

    #[test]
    fn behaves_like_a_hash_map() {
        let s = RandomState::new();
        let mut table = Table::new();
        let mut model = HashMap::new();
        let mut random = 1_u64;
        for step in 0..60_000_u64 {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            // The key space widens and narrows, so that the table grows and fills with traces of removals.
            let key = (random >> 33) % (1 + step % 3_000);
            let hash = s.hash_one(key);
            match random >> 61 {
                0..=3 => assert_eq!(put(&mut table, &s, key, step), model.insert(key, step)),
                4..=6 => assert_eq!(table.remove(hash, &key), model.remove_entry(&key)),
                _ => {
                    let even = |v: &u64| v.is_multiple_of(2);
                    let expected = model
                        .get(&key)
                        .is_some_and(even)
                        .then(|| model.remove_entry(&key).expect("there"));
                    assert_eq!(table.remove_if(hash, &key, even), expected);
                }
            }
            assert_eq!(table.get(hash, &key), model.get(&key));
            assert_eq!(table.len(), model.len());
            if step % 10_000 == 0 {
                table.shrink_to_fit(&s);
            }
        }
        assert_eq!(
            table
                .iter()
                .map(|(k, v)| (*k, *v))
                .collect::<HashMap<_, _>>(),
            model
        );
        let mut removed = Vec::new();
        table.retain(|k, _| k % 2 == 0, &mut removed);
        assert!(removed.iter().all(|(k, _)| k % 2 == 1) && table.iter().all(|(k, _)| k % 2 == 0));
        assert_eq!(removed.len() + table.len(), model.len());
    }

    #[test]
    fn inserting_and_removing_for_ever_does_not_grow() {
        let s = RandomState::new();
        let mut table = Table::with_capacity(100);
        let buckets = table.buckets();
        for key in 0..100_000_u64 {
            put(&mut table, &s, key, ());
            if key >= 40 {
                table
                    .remove(s.hash_one(key - 40), &(key - 40))
                    .expect("inserted forty rounds ago");
            }
        }
        assert_eq!(table.buckets(), buckets);
    }

    #[test]
    fn capacities_are_hints() {
        let s = RandomState::new();
        for hint in [0, 1, usize::MAX, usize::MAX / 2, isize::MAX as usize / 33] {
            let mut table: Table<u64, u64> = Table::with_capacity(hint);
            table.reserve(usize::MAX, &s);
            put(&mut table, &s, 1, 1);
            table.reserve(usize::MAX - 1, &s);
            assert_eq!(table.len(), 1);
        }
        let mut table: Table<u64, u64> = Table::with_capacity(1000);
        assert!(table.capacity() >= 1000);
        table.reserve(2000, &s);
        assert!(table.capacity() >= 2000);
        table.shrink_to_fit(&s);
        assert_eq!(table.buckets(), 0);
        let mut units: Table<(), ()> = Table::with_capacity(3);
        assert_eq!(put(&mut units, &s, (), ()), None);
        assert_eq!(put(&mut units, &s, (), ()), Some(()));
        assert_eq!((units.len(), units.layout()), (1, None));
    }

    /// The layout that [`Table::prefetch`] relies on for speed (never for correctness), however the table came about.
    #[test]
    fn the_control_bytes_follow_the_buckets() {
        let s = RandomState::new();
        let mut table = Table::with_capacity(10);
        assert_eq!(table.layout(), None);
        table.prefetch(1);
        for key in 0..1_000_u64 {
            put(&mut table, &s, key, key);
            assert_layout(&table);
        }
        assert_layout(&table.clone());
        table.reserve(10_000, &s);
        assert_layout(&table);
        table.retain(|key, _| key % 2 == 0, &mut Vec::new());
        table.shrink_to_fit(&s);
        assert_layout(&table);
        table.clear();
        assert_eq!(table.clone().layout(), None);
        put(&mut table, &s, 1, 1);
        assert_layout(&table);
        assert_eq!(mem::take(&mut table).len(), 1);
        assert_eq!(table.layout(), None);
    }

    fn assert_layout(table: &Table<u64, u64>) {
        let (control, mask) = table.layout().expect("it is not empty");
        assert_eq!(mask + 1, table.buckets());
        for index in table.entries.iter_buckets() {
            let entry = table.entries.get_bucket(index).expect("it is listed");
            let expected = control - (index + 1) * size_of::<(u64, u64)>();
            assert_eq!(std::ptr::from_ref(entry).addr(), expected);
        }
    }

    #[test]
    fn an_entry_costs_its_size_and_one_byte() {
        let table: Table<&str, &str> = Table::with_capacity(7 * 1024);
        assert_eq!(table.buckets(), 8 * 1024);
        assert!(table.allocation_size() <= 33 * 8 * 1024 + 64);
    }

    /// One that counts its death, and panics at the number it is given.
    struct Mortal(Rc<Cell<usize>>, usize);

    impl Drop for Mortal {
        fn drop(&mut self) {
            self.0.set(self.0.get() + 1);
            assert!(self.0.get() != self.1, "dropped as number {}", self.1);
        }
    }

    #[test]
    fn one_panic_of_a_destructor_keeps_no_entry_alive() {
        let hasher = RandomState::new();
        for clear in [false, true] {
            for at in [1, 50, 100] {
                let deaths = Rc::<Cell<usize>>::default();
                let mut table = Table::new();
                for key in 0..100_u32 {
                    let hash = hasher.hash_one(key);
                    let value = Mortal(Rc::clone(&deaths), at);
                    table.room(&hasher).insert(hash, key, value);
                }
                let outcome = catch_unwind(AssertUnwindSafe(|| {
                    if clear {
                        table.clear();
                        unreachable!("a destructor panics");
                    }
                    drop(table);
                }));
                assert!(outcome.is_err());
                assert_eq!(deaths.get(), 100);
            }
        }
    }
}
