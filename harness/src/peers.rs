//! The crates that the designs are measured against, each through the calls its documentation recommends.
//!
//! All get the same keys, values and hasher. Where a crate offers several ways, the fastest documented one is used and
//! the choice is stated at the type. None of them is tuned beyond that, or held back.

use std::borrow::Borrow;
use std::hash::Hash;
use std::sync::Arc;

use arc_swap::ArcSwap;
use cache_api::{Cache, DefaultHashBuilder as Hasher};

use crate::family::{Family, Key, Value};

/// Declares a family: its map type and how to build one.
macro_rules! peer {
    ($(#[$doc:meta])* $family:ident, $map:ident, $inner:ty, |$capacity:ident, $hasher:ident| $build:expr) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $family;

        #[doc = concat!("The map of [`", stringify!($family), "`].")]
        #[allow(missing_debug_implementations, reason = "not all of the peers have one")]
        pub struct $map<K: Key, V: Value>($inner);

        impl Family for $family {
            type Map<K: Key, V: Value> = $map<K, V>;

            fn build<K: Key, V: Value>($capacity: usize, $hasher: Hasher) -> $map<K, V> {
                $map($build)
            }
        }
    };
}

/// Implements the contract by four expressions.
macro_rules! calls {
    ($map:ident, $this:ident, $key:ident, $value:ident, $f:ident,
     get: $get:expr, insert: $insert:expr, remove: $remove:expr, len: $len:expr) => {
        impl<K: Key, V: Value> Cache<K, V> for $map<K, V> {
            #[inline]
            fn get_with<Q, F, R>(&self, $key: &Q, $f: F) -> Option<R>
            where
                K: Borrow<Q>,
                Q: Hash + Eq + Sync + ?Sized,
                F: FnOnce(&V) -> R + Send,
                R: Send,
            {
                let $this = &self.0;
                $get
            }

            #[inline]
            fn insert(&self, $key: K, $value: V) {
                let $this = &self.0;
                $insert;
            }

            fn remove<Q>(&self, $key: &Q)
            where
                K: Borrow<Q>,
                Q: Hash + Eq + Sync + ?Sized,
            {
                let $this = &self.0;
                $remove;
            }

            fn len(&self) -> usize {
                let $this = &self.0;
                $len
            }
        }
    };
}

peer!(
    /// dashmap with its own number of shards (four for each core, rounded up to a power of two).
    DashMap, DashMapMap, dashmap::DashMap<K, V, Hasher>,
    |capacity, hasher| dashmap::DashMap::with_capacity_and_hasher(capacity, hasher));
calls!(DashMapMap, map, key, value, f,
    get: map.get(key).map(|guard| f(&guard)),
    insert: map.insert(key, value),
    remove: map.remove(key),
    len: map.len());

peer!(
    /// dashmap with as many shards as `cache-sharded`.
    DashMap256, DashMap256Map, dashmap::DashMap<K, V, Hasher>,
    |capacity, hasher| dashmap::DashMap::with_capacity_and_hasher_and_shard_amount(capacity, hasher, 256));
calls!(DashMap256Map, map, key, value, f,
    get: map.get(key).map(|guard| f(&guard)),
    insert: map.insert(key, value),
    remove: map.remove(key),
    len: map.len());

peer!(
    /// papaya, pinned for each operation, as a service that handles one request at a time would.
    Papaya, PapayaMap, papaya::HashMap<K, V, Hasher>,
    |capacity, hasher| papaya::HashMap::builder().capacity(capacity).hasher(hasher).build());
calls!(PapayaMap, map, key, value, f,
    get: map.pin().get(key).map(f),
    insert: map.pin().insert(key, value),
    remove: map.pin().remove(key),
    len: map.len());

peer!(
    /// scc's `HashMap`, read under the bucket's shared lock (`read_sync`).
    SccHashMap, SccHashMapMap, scc::HashMap<K, V, Hasher>,
    |capacity, hasher| scc::HashMap::with_capacity_and_hasher(capacity, hasher));
calls!(SccHashMapMap, map, key, value, f,
    get: map.read_sync(key, |_, value| f(value)),
    insert: map.upsert_sync(key, value),
    remove: map.remove_sync(key),
    len: map.len());

peer!(
    /// scc's `HashIndex`, read without a lock (`peek_with`) and written through an entry (it has no upsert).
    SccHashIndex, SccHashIndexMap, scc::HashIndex<K, V, Hasher>,
    |capacity, hasher| scc::HashIndex::with_capacity_and_hasher(capacity, hasher));
calls!(SccHashIndexMap, map, key, value, f,
    get: map.peek_with(key, |_, value| f(value)),
    insert: match map.entry_sync(key) {
        scc::hash_index::Entry::Occupied(mut entry) => entry.update(value),
        scc::hash_index::Entry::Vacant(entry) => drop(entry.insert_entry(value)),
    },
    remove: map.remove_sync(key),
    len: map.len());

/// A key as flurry stores it: flurry wants an order for bins with many collisions, which the contract's borrowed keys
/// do not have. Ordering by hash is one.
#[repr(transparent)]
#[derive(Clone, PartialEq, Eq, Hash)]
struct Stored<K>(K);

/// The borrowed form of [`Stored`].
#[repr(transparent)]
#[derive(PartialEq, Eq, Hash)]
struct Asked<Q: ?Sized>(Q);

/// Orders keys by a hash of their own. Two different keys with one 64-bit hash count as less, either way; flurry asks
/// only where it has already found the keys to differ.
fn order<Q: Hash + Eq + ?Sized>(a: &Q, b: &Q) -> std::cmp::Ordering {
    use std::hash::BuildHasher;
    if a == b {
        return std::cmp::Ordering::Equal;
    }
    let build = Hasher::with_seed(1);
    build
        .hash_one(a)
        .cmp(&build.hash_one(b))
        .then(std::cmp::Ordering::Less)
}

impl<K: Hash + Eq> Ord for Stored<K> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        order(&self.0, &other.0)
    }
}

impl<K: Hash + Eq> PartialOrd for Stored<K> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<Q: Hash + Eq + ?Sized> Ord for Asked<Q> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        order(&self.0, &other.0)
    }
}

impl<Q: Hash + Eq + ?Sized> PartialOrd for Asked<Q> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<Q: ?Sized> Asked<Q> {
    fn new(key: &Q) -> &Self {
        let key: *const Q = key;
        // SAFETY: `Asked` is a transparent wrapper, so a valid `&Q` is a valid `&Asked<Q>` of the same lifetime.
        unsafe { &*(key as *const Self) }
    }
}

impl<K: Borrow<Q>, Q: ?Sized> Borrow<Asked<Q>> for Stored<K> {
    fn borrow(&self) -> &Asked<Q> {
        Asked::new(self.0.borrow())
    }
}

peer!(
    /// flurry, with a guard for each operation.
    Flurry, FlurryMap, flurry::HashMap<Stored<K>, V, Hasher>,
    |capacity, hasher| flurry::HashMap::with_capacity_and_hasher(capacity, hasher));
calls!(FlurryMap, map, key, value, f,
    get: map.get(Asked::new(key), &map.guard()).map(f),
    insert: map.insert(Stored(key), value, &map.guard()),
    remove: map.remove(Asked::new(key), &map.guard()),
    len: map.len());

peer!(
    /// moka's synchronous cache without a bound, so that it never evicts. Reads clone the value.
    Moka, MokaMap, moka::sync::Cache<K, V, Hasher>,
    |capacity, hasher| moka::sync::Cache::builder().initial_capacity(capacity).build_with_hasher(hasher));
calls!(MokaMap, map, key, value, f,
    get: map.get(key).map(|value| f(&value)),
    insert: map.insert(key, value),
    remove: map.invalidate(key),
    len: {
        // Its count is kept up to date by maintenance tasks.
        map.run_pending_tasks();
        map.entry_count() as usize
    });

peer!(
    /// quick_cache with four times the room that it needs, so that it never evicts. Reads clone the value.
    QuickCache, QuickCacheMap, quick_cache::sync::Cache<K, V, quick_cache::UnitWeighter, Hasher>,
    |capacity, hasher| quick_cache::sync::Cache::with(
        capacity,
        // Room is divided among shards that fill unevenly; small caches need more slack.
        (capacity as u64).saturating_mul(4).max(4096),
        quick_cache::UnitWeighter,
        hasher,
        quick_cache::sync::DefaultLifecycle::default(),
    ));
calls!(QuickCacheMap, map, key, value, f,
    get: map.get(key).map(|value| f(&value)),
    insert: map.insert(key, value),
    remove: map.remove(key),
    len: map.len());

peer!(
    /// contrie's `CloneConMap`, the variant for types that are cheap to clone.
    Contrie, ContrieMap, contrie::CloneConMap<K, V, Hasher>,
    |_capacity, hasher| contrie::CloneConMap::with_hasher(hasher));
calls!(ContrieMap, map, key, value, f,
    get: map.get(key).map(|(_, value)| f(&value)),
    insert: map.insert(key, value),
    remove: map.remove(key),
    len: map.iter().count());

type Imbl<K, V> = imbl::GenericHashMap<K, V, Hasher, imbl::shared_ptr::DefaultSharedPtr>;

peer!(
    /// imbl's persistent map behind an arc-swap: reads `load`, writes `rcu`, both as arc-swap's documents show them.
    ImblArcSwap, ImblArcSwapMap, ArcSwap<Imbl<K, V>>,
    |_capacity, hasher| ArcSwap::from_pointee(Imbl::with_hasher(hasher)));
calls!(ImblArcSwapMap, map, key, value, f,
    get: map.load().get(key).map(f),
    insert: map.rcu(|old| old.update(key.clone(), value.clone())),
    remove: map.rcu(|old| old.without(key)),
    len: map.load().len());

type Rpds<K, V> = rpds::HashTrieMap<K, V, archery::ArcTK, Hasher>;

peer!(
    /// rpds's persistent map behind an arc-swap, used like imbl's.
    RpdsArcSwap, RpdsArcSwapMap, ArcSwap<Rpds<K, V>>,
    |_capacity, hasher| ArcSwap::from_pointee(Rpds::new_with_hasher_and_ptr_kind(hasher)));
calls!(RpdsArcSwapMap, map, key, value, f,
    get: map.load().get(key).map(f),
    insert: map.rcu(|old| old.insert(key.clone(), value.clone())),
    remove: map.rcu(|old| old.remove(key)),
    len: map.load().size());

/// A hash map behind an arc-swap, and the lock of its writers.
#[allow(missing_debug_implementations, reason = "it is a field of a peer")]
pub struct Copied<K, V> {
    map: ArcSwap<hashbrown::HashMap<K, V, Hasher>>,
    writer: parking_lot::Mutex<()>,
}

impl<K: Key, V: Value> Copied<K, V> {
    fn change(&self, change: impl FnOnce(&mut hashbrown::HashMap<K, V, Hasher>)) {
        let _writer = self.writer.lock();
        let mut copy = hashbrown::HashMap::clone(&self.map.load());
        change(&mut copy);
        self.map.store(Arc::new(copy));
    }
}

/// A hash map behind an arc-swap: reads `load`; writers copy it and `store`, one at a time. (With `rcu`, two writers
/// would each copy the whole map and one of the copies would be thrown away.)
#[derive(Debug)]
pub struct HashMapArcSwap;

/// The map of [`HashMapArcSwap`].
#[allow(missing_debug_implementations, reason = "like the other peers")]
pub struct HashMapArcSwapMap<K: Key, V: Value>(Copied<K, V>);

impl Family for HashMapArcSwap {
    type Map<K: Key, V: Value> = HashMapArcSwapMap<K, V>;

    fn build<K: Key, V: Value>(capacity: usize, hasher: Hasher) -> HashMapArcSwapMap<K, V> {
        HashMapArcSwapMap(Copied {
            map: ArcSwap::from_pointee(hashbrown::HashMap::with_capacity_and_hasher(capacity, hasher)),
            writer: parking_lot::Mutex::new(()),
        })
    }

    fn load<K: Key, V: Value>(map: &HashMapArcSwapMap<K, V>, entries: impl Iterator<Item = (K, V)>) {
        map.0.change(|copy| copy.extend(entries));
    }
}
calls!(HashMapArcSwapMap, this, key, value, f,
    get: this.map.load().get(key).map(f),
    insert: this.change(|copy| drop(copy.insert(key, value))),
    remove: this.change(|copy| drop(copy.remove(key))),
    len: this.map.load().len());

#[cfg(test)]
mod tests {
    use super::*;

    fn behaves_like_a_map<F: Family>() {
        let map = F::build::<String, u64>(100, crate::family::hasher());
        F::load(&map, (0..100).map(|n| (format!("key-{n}"), n)));
        assert_eq!(map.len(), 100);
        map.insert("key-7".to_owned(), 700);
        map.insert("new".to_owned(), 1);
        map.remove("key-8");
        map.remove("absent");
        assert_eq!(map.len(), 100);
        for n in 0..100 {
            let expected = match n {
                7 => Some(700),
                8 => None,
                n => Some(n),
            };
            assert_eq!(map.get_with(format!("key-{n}").as_str(), |v| *v), expected, "{n}");
        }
        assert_eq!(map.get("new"), Some(1));
        assert!(!map.contains_key("absent"));
    }

    #[test]
    fn peers_behave_like_maps() {
        behaves_like_a_map::<DashMap>();
        behaves_like_a_map::<DashMap256>();
        behaves_like_a_map::<Papaya>();
        behaves_like_a_map::<SccHashMap>();
        behaves_like_a_map::<SccHashIndex>();
        behaves_like_a_map::<Flurry>();
        behaves_like_a_map::<Moka>();
        behaves_like_a_map::<QuickCache>();
        behaves_like_a_map::<Contrie>();
        behaves_like_a_map::<ImblArcSwap>();
        behaves_like_a_map::<RpdsArcSwap>();
        behaves_like_a_map::<HashMapArcSwap>();
    }

    /// The order that flurry needs, where its bins become trees: many keys, few bins.
    #[test]
    fn flurry_survives_collisions() {
        let map = Flurry::build::<u64, u64>(0, crate::family::hasher());
        for n in 0..50_000 {
            map.insert(n, n);
        }
        assert!((0..50_000).all(|n| map.get(&n) == Some(n)));
    }
}
