//! The shared corpus of tests over the three designs of this crate; no test of its own.

use cache_api::Consistency;
use cache_conformance::{Design, Hashing, Key, RoutedDesign, SequentialDesign, Value};
use cache_locked::{MutexCache, NaiveCache, RwLockCache};

macro_rules! locked_design {
    ($design:ident, $name:literal, $map:ident) => {
        struct $design;

        impl Design for $design {
            const NAME: &'static str = $name;
            type Map<K: Key, V: Value, S: Hashing> = $map<K, V, S>;

            fn build<K: Key, V: Value, S: Hashing>(
                capacity: Option<usize>,
                hasher: S,
            ) -> $map<K, V, S> {
                match capacity {
                    Some(capacity) => $map::with_capacity_and_hasher(capacity, hasher),
                    None => $map::with_hasher(hasher),
                }
            }

            const STORES_HASHES: bool = false;
            const LEN: Consistency = Consistency::Snapshot;
            const CLEAR: Consistency = Consistency::Snapshot;
            const VISIT: Consistency = Consistency::Snapshot;
        }

        impl RoutedDesign for $design {
            fn partitions<K: Key, V: Value, S: Hashing>(map: &Self::Map<K, V, S>) -> usize {
                cache_api::Routed::partitions(map)
            }

            fn partition_of<K: Key, V: Value, S: Hashing>(
                map: &Self::Map<K, V, S>,
                key: &K,
            ) -> usize {
                cache_api::Routed::partition_of(map, key)
            }
        }
    };
}

locked_design!(Mutex, "mutex", MutexCache);
locked_design!(RwLock, "rwlock", RwLockCache);

struct Naive;

impl SequentialDesign for Naive {
    const NAME: &'static str = "naive";
    const STORES_HASHES: bool = false;
    type Map<K: Key, V: Value, S: Hashing> = NaiveCache<K, V, S>;

    fn build<K: Key, V: Value, S: Hashing>(
        capacity: Option<usize>,
        hasher: S,
    ) -> NaiveCache<K, V, S> {
        match capacity {
            Some(capacity) => NaiveCache::with_capacity_and_hasher(capacity, hasher),
            None => NaiveCache::with_hasher(hasher),
        }
    }
}

cache_conformance::suite!(mod mutex, Mutex);
cache_conformance::suite!(mod rwlock, RwLock);
cache_conformance::sequential_suite!(mod naive, Naive);
cache_conformance::routed_suite!(mod mutex_routed, Mutex);
cache_conformance::routed_suite!(mod rwlock_routed, RwLock);
