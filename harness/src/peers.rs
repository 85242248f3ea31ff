//! The crates that the designs are measured against, each behind an adapter of a few lines that makes the crate's
//! best documented calls. An adapter adds nothing: no lock, no second lookup, no clone that the call itself does not
//! make. Which calls those are is written in the registry's rows, and printed by `harness list`.

use std::collections::HashMap;

use arc_swap::ArcSwap;
use cache_api::DefaultHashBuilder;

use crate::subject::{Frozen, MapKey, MapValue, Subject, hasher};

/// The hasher of every peer.
type H = DefaultHashBuilder;

/// Declares an adapter and writes the signatures of [`Subject`]'s methods around the peer's calls.
macro_rules! adapter {
    (
        $(#[$doc:meta])*
        $peer:ident($map_type:ty)
        read($read_map:ident, $read_key:ident, $f:ident) $read:block
        write($write_map:ident, $write_key:ident, $value:ident) $write:block
        erase($erase_map:ident, $erase_key:ident) $erase:block
        count($count_map:ident) $count:block
        $(misses_while_replaced: $misses:literal)?
    ) => {
        $(#[$doc])*
        pub struct $peer<K: MapKey, V: MapValue>($map_type);

        impl<K: MapKey, V: MapValue> Subject<K, V> for $peer<K, V> {
            $(const MISSES_WHILE_REPLACED: bool = $misses;)?

            #[inline]
            fn read<R: Send>(&self, $read_key: &K, $f: impl FnOnce(&V) -> R + Send) -> Option<R> {
                let $read_map = &self.0;
                $read
            }

            #[inline]
            fn write(&self, $write_key: K, $value: V) {
                let $write_map = &self.0;
                $write
            }

            #[inline]
            fn erase(&self, $erase_key: &K) {
                let $erase_map = &self.0;
                $erase
            }

            fn count(&self) -> usize {
                let $count_map = &self.0;
                $count
            }
        }
    };
}

adapter! {
    /// `dashmap`: shards of hashbrown tables behind read-write locks; reads hold a guard.
    Dashmap(dashmap::DashMap<K, V, H>)
    read(map, key, f) { map.get(key).map(|entry| f(entry.value())) }
    write(map, key, value) { map.insert(key, value); }
    erase(map, key) { map.remove(key); }
    count(map) { map.len() }
}

impl<K: MapKey, V: MapValue> Dashmap<K, V> {
    /// With the crate's default number of shards (four per core, rounded up to a power of two).
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        Self(dashmap::DashMap::with_capacity_and_hasher(
            capacity,
            hasher(),
        ))
    }

    /// With a number of shards of the caller's choice, a power of two above 1.
    #[must_use]
    pub fn with_shards(shards: usize, capacity: usize) -> Self {
        Self(dashmap::DashMap::with_capacity_and_hasher_and_shard_amount(
            capacity,
            hasher(),
            shards,
        ))
    }

    /// How many shards it has.
    #[must_use]
    pub fn shards(&self) -> usize {
        self.0.shards().len()
    }
}

adapter! {
    /// What people write by hand: a `parking_lot` mutex around a hashbrown map.
    HandMutex(parking_lot::Mutex<hashbrown::HashMap<K, V, H>>)
    read(map, key, f) { map.lock().get(key).map(f) }
    write(map, key, value) { map.lock().insert(key, value); }
    erase(map, key) { map.lock().remove(key); }
    count(map) { map.lock().len() }
}

impl<K: MapKey, V: MapValue> HandMutex<K, V> {
    /// With room for `capacity` entries.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        Self(parking_lot::Mutex::new(
            hashbrown::HashMap::with_capacity_and_hasher(capacity, hasher()),
        ))
    }
}

adapter! {
    /// The same with `parking_lot`'s read-write lock.
    HandRwLock(parking_lot::RwLock<hashbrown::HashMap<K, V, H>>)
    read(map, key, f) { map.read().get(key).map(f) }
    write(map, key, value) { map.write().insert(key, value); }
    erase(map, key) { map.write().remove(key); }
    count(map) { map.read().len() }
}

impl<K: MapKey, V: MapValue> HandRwLock<K, V> {
    /// With room for `capacity` entries.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        Self(parking_lot::RwLock::new(
            hashbrown::HashMap::with_capacity_and_hasher(capacity, hasher()),
        ))
    }
}

adapter! {
    /// `papaya`: a lock-free table; one pin for each operation, as its documentation begins with.
    Papaya(papaya::HashMap<K, V, H>)
    read(map, key, f) { map.pin().get(key).map(f) }
    write(map, key, value) { map.pin().insert(key, value); }
    erase(map, key) { map.pin().remove(key); }
    count(map) { map.len() }
}

impl<K: MapKey, V: MapValue> Papaya<K, V> {
    /// A map for `capacity` entries, with the default collector and resize mode.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        Self(papaya::HashMap::with_capacity_and_hasher(
            capacity,
            hasher(),
        ))
    }
}

adapter! {
    /// `scc::HashMap`: buckets with a lock each; the reader is a closure.
    SccHashMap(scc::HashMap<K, V, H>)
    read(map, key, f) { map.read_sync(key, |_, value| f(value)) }
    write(map, key, value) { map.upsert_sync(key, value); }
    erase(map, key) { map.remove_sync(key); }
    count(map) { map.len() }
}

impl<K: MapKey, V: MapValue> SccHashMap<K, V> {
    /// A map for `capacity` entries.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        Self(scc::HashMap::with_capacity_and_hasher(capacity, hasher()))
    }
}

adapter! {
    /// `scc::HashIndex`: reads without locks; a write of a key that is there retires the entry and makes a new one.
    ///
    /// `update` first adds the new entry and then marks the old one as removed; a `peek` that looks at the slots
    /// meanwhile may find neither. `read_sync` would lock the bucket and not miss, but is not what the type is for.
    SccHashIndex(scc::HashIndex<K, V, H>)
    read(map, key, f) { map.peek_with(key, |_, value| f(value)) }
    write(map, key, value) {
        match map.entry_sync(key) {
            scc::hash_index::Entry::Occupied(mut entry) => entry.update(value),
            scc::hash_index::Entry::Vacant(entry) => { entry.insert_entry(value); }
        }
    }
    erase(map, key) { map.remove_sync(key); }
    count(map) { map.len() }
    misses_while_replaced: true
}

impl<K: MapKey, V: MapValue> SccHashIndex<K, V> {
    /// A map for `capacity` entries.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        Self(scc::HashIndex::with_capacity_and_hasher(capacity, hasher()))
    }
}

adapter! {
    /// `flurry`: a port of Java's `ConcurrentHashMap`; one pin for each operation.
    Flurry(flurry::HashMap<K, V, H>)
    read(map, key, f) { map.pin().get(key).map(f) }
    write(map, key, value) { map.pin().insert(key, value); }
    erase(map, key) { map.pin().remove(key); }
    count(map) { map.len() }
}

impl<K: MapKey, V: MapValue> Flurry<K, V> {
    /// A map for `capacity` entries.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        Self(flurry::HashMap::with_capacity_and_hasher(
            capacity,
            hasher(),
        ))
    }
}

adapter! {
    /// `moka`: a cache with eviction and TinyLFU admission, here with room for twice the entries, so that it never
    /// evicts. Reads clone the value.
    Moka(moka::sync::Cache<K, V, H>)
    read(map, key, f) { map.get(key).as_ref().map(f) }
    write(map, key, value) { map.insert(key, value); }
    erase(map, key) { map.invalidate(key); }
    count(map) {
        // The count lags behind until the pending maintenance has run.
        map.run_pending_tasks();
        map.entry_count() as usize
    }
}

impl<K: MapKey, V: MapValue> Moka<K, V> {
    /// A cache for `capacity` entries that holds at most twice as many.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        let builder = moka::sync::Cache::builder()
            .max_capacity(2 * capacity as u64 + 1024)
            .initial_capacity(capacity);
        Self(builder.build_with_hasher(hasher()))
    }
}

adapter! {
    /// `quick_cache`: a cache with eviction (S3-FIFO), here with room for twice the entries, so that it never evicts.
    /// Reads clone the value.
    QuickCache(quick_cache::sync::Cache<K, V, quick_cache::UnitWeighter, H>)
    read(map, key, f) { map.get(key).as_ref().map(f) }
    write(map, key, value) { map.insert(key, value); }
    erase(map, key) { map.remove(key); }
    count(map) { map.len() }
}

impl<K: MapKey, V: MapValue> QuickCache<K, V> {
    /// A cache that never has to evict any of `capacity` entries.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        // The bound is divided evenly among the shards (at most four per core) while keys are not: placed by an
        // adversary, all of them are in one shard.
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let shards = (4 * cores).next_power_of_two();
        let bound = capacity.saturating_mul(2 * shards).max(4096);
        Self(quick_cache::sync::Cache::with(
            capacity,
            bound as u64,
            quick_cache::UnitWeighter,
            hasher(),
            quick_cache::sync::DefaultLifecycle::default(),
        ))
    }
}

adapter! {
    /// `contrie`: a concurrent hash trie; reads clone the `Arc` of an element.
    Contrie(contrie::ConMap<K, V, H>)
    read(map, key, f) { map.get(key).map(|element| f(element.value())) }
    write(map, key, value) { map.insert(key, value); }
    erase(map, key) { map.remove(key); }
    // It keeps no count: O(n).
    count(map) { map.iter().count() }
}

impl<K: MapKey, V: MapValue> Contrie<K, V> {
    /// An empty map; it cannot be pre-sized.
    #[must_use]
    pub fn new() -> Self {
        Self(contrie::ConMap::with_hasher(hasher()))
    }
}

impl<K: MapKey, V: MapValue> Default for Contrie<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

adapter! {
    /// `imbl::HashMap` behind `arc_swap`: reads hold a `load` guard, writes are `rcu` on an O(1) clone.
    ImblArcSwap(ArcSwap<imbl::GenericHashMap<K, V, H, imbl::shared_ptr::DefaultSharedPtr>>)
    read(map, key, f) { map.load().get(key).map(f) }
    write(map, key, value) { map.rcu(|current| current.update(key.clone(), value.clone())); }
    erase(map, key) { map.rcu(|current| current.without(key)); }
    count(map) { map.load().len() }
}

impl<K: MapKey, V: MapValue> ImblArcSwap<K, V> {
    /// A view: the map that is published now.
    pub fn frozen(&self) -> Frozen<K, V> {
        let view = self.0.load_full();
        Box::new(move |key| view.get(key).cloned())
    }

    /// A map of `entries`, published at once.
    pub fn filled(entries: impl Iterator<Item = (K, V)>) -> Self {
        let mut map = imbl::GenericHashMap::with_hasher(hasher());
        for (key, value) in entries {
            map.insert(key, value);
        }
        Self(ArcSwap::from_pointee(map))
    }
}

adapter! {
    /// `rpds::HashTrieMapSync` behind `arc_swap`: reads hold a `load` guard, writes are `rcu` on an O(1) clone.
    RpdsArcSwap(ArcSwap<rpds::HashTrieMapSync<K, V, H>>)
    read(map, key, f) { map.load().get(key).map(f) }
    write(map, key, value) { map.rcu(|current| current.insert(key.clone(), value.clone())); }
    erase(map, key) { map.rcu(|current| current.remove(key)); }
    count(map) { map.load().size() }
}

impl<K: MapKey, V: MapValue> RpdsArcSwap<K, V> {
    /// A view: the map that is published now.
    pub fn frozen(&self) -> Frozen<K, V> {
        let view = self.0.load_full();
        Box::new(move |key| view.get(key).cloned())
    }

    /// A map of `entries`, published at once.
    pub fn filled(entries: impl Iterator<Item = (K, V)>) -> Self {
        let mut map = rpds::HashTrieMapSync::new_with_hasher_and_ptr_kind(hasher());
        for (key, value) in entries {
            map.insert_mut(key, value);
        }
        Self(ArcSwap::from_pointee(map))
    }
}

adapter! {
    /// `std`'s `HashMap` behind `arc_swap`: reads hold a `load` guard, writes are `rcu` on a whole copy.
    HashMapArcSwap(ArcSwap<HashMap<K, V, H>>)
    read(map, key, f) { map.load().get(key).map(f) }
    write(map, key, value) {
        map.rcu(|current| {
            let mut copy = HashMap::clone(current);
            copy.insert(key.clone(), value.clone());
            copy
        });
    }
    erase(map, key) {
        map.rcu(|current| {
            let mut copy = HashMap::clone(current);
            copy.remove(key);
            copy
        });
    }
    count(map) { map.load().len() }
}

impl<K: MapKey, V: MapValue> HashMapArcSwap<K, V> {
    /// A view: the map that is published now.
    pub fn frozen(&self) -> Frozen<K, V> {
        let view = self.0.load_full();
        Box::new(move |key| view.get(key).cloned())
    }

    /// A map of `entries`, published at once.
    pub fn filled(entries: impl ExactSizeIterator<Item = (K, V)>) -> Self {
        let mut map = HashMap::with_capacity_and_hasher(entries.len(), hasher());
        map.extend(entries);
        Self(ArcSwap::from_pointee(map))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use rand::rngs::Xoshiro256PlusPlus;
    use rand::{RngExt, SeedableRng};

    use super::*;
    use crate::subject::one_by_one;

    /// Plays random operations on `map`, which holds the entries of [`entries`], and on `std`'s map.
    fn agrees_with_std(map: &impl Subject<String, u64>) {
        let mut model: HashMap<String, u64> = entries().collect();
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(5);
        for step in 0..5_000 {
            let key = rng.random_range(0..200).to_string();
            match rng.random_range(0..4) {
                0 => {
                    map.write(key.clone(), step);
                    model.insert(key.clone(), step);
                }
                1 => {
                    map.erase(&key);
                    model.remove(&key);
                }
                _ => {}
            }
            assert_eq!(
                map.read(&key, |value| *value),
                model.get(&key).copied(),
                "step {step}, key {key}"
            );
        }
        assert_eq!(map.count(), model.len());
        for key in (0..200).map(|key| key.to_string()) {
            assert_eq!(
                map.read(&key, |value| *value),
                model.get(&key).copied(),
                "key {key}"
            );
        }
    }

    fn entries() -> impl ExactSizeIterator<Item = (String, u64)> {
        (0..100_u32).map(|key| (key.to_string(), u64::from(key) << 32))
    }

    #[test]
    fn dashmap() {
        agrees_with_std(&one_by_one(Dashmap::with_capacity(100), entries()));
        agrees_with_std(&one_by_one(Dashmap::with_shards(256, 100), entries()));
    }

    #[test]
    fn papaya() {
        agrees_with_std(&one_by_one(Papaya::with_capacity(100), entries()));
    }

    #[test]
    fn scc() {
        agrees_with_std(&one_by_one(SccHashMap::with_capacity(100), entries()));
        agrees_with_std(&one_by_one(SccHashIndex::with_capacity(100), entries()));
    }

    #[test]
    fn flurry() {
        agrees_with_std(&one_by_one(Flurry::with_capacity(100), entries()));
    }

    #[test]
    fn caches_that_evict() {
        agrees_with_std(&one_by_one(Moka::with_capacity(100), entries()));
        agrees_with_std(&one_by_one(QuickCache::with_capacity(100), entries()));
    }

    #[test]
    fn contrie() {
        agrees_with_std(&one_by_one(Contrie::new(), entries()));
    }

    #[test]
    fn whole_map_publication() {
        agrees_with_std(&ImblArcSwap::filled(entries()));
        agrees_with_std(&RpdsArcSwap::filled(entries()));
        agrees_with_std(&HashMapArcSwap::filled(entries()));
    }
}
