//! The shared corpus of tests over both lock kinds, and over a single shard; no test of its own.

use cache_conformance::{Design, Hashing, Key, RoutedDesign, Value};
use cache_sharded::{ShardedCache, ShardedRwCache, StripedCache, Unpadded};

macro_rules! sharded_design {
    ($design:ident, $name:literal, $map:ty, $shards:literal) => {
        struct $design;

        impl Design for $design {
            const NAME: &'static str = $name;
            const STORES_HASHES: bool = false;
            type Map<K: Key, V: Value, S: Hashing> = $map;

            fn build<K: Key, V: Value, S: Hashing>(capacity: Option<usize>, hasher: S) -> $map {
                <$map>::with_shards_capacity_and_hasher($shards, capacity.unwrap_or(0), hasher)
            }
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

sharded_design!(Sharded, "sharded", ShardedCache<K, V, S>, 256);
sharded_design!(ShardedRw, "sharded-rw", ShardedRwCache<K, V, S>, 256);
sharded_design!(OneShard, "one unpadded shard", StripedCache<K, V, S, cache_sharded::MutexLock, Unpadded>, 1);

cache_conformance::suite!(mod sharded, Sharded);
cache_conformance::suite!(mod sharded_rw, ShardedRw);
cache_conformance::sequential_suite!(mod one_shard, OneShard);
cache_conformance::routed_suite!(mod sharded_routed, Sharded);
cache_conformance::routed_suite!(mod sharded_rw_routed, ShardedRw);
