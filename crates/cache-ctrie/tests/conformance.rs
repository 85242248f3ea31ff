//! The shared corpus of tests, for [`cache_ctrie::Map`].

use cache_api::{Consistency, Routed};
use cache_conformance::{Design, ForkDesign, Hashing, Key, RoutedDesign, SnapshotDesign, Value};
use cache_ctrie::{Map, Snapshot};

/// The trie as the suite sees it.
struct Ctrie;

impl Design for Ctrie {
    const NAME: &'static str = "ctrie";
    type Map<K: Key, V: Value, S: Hashing> = Map<K, V, S>;

    const LEN: Consistency = Consistency::Snapshot;
    const CLEAR: Consistency = Consistency::Snapshot;
    const VISIT: Consistency = Consistency::Snapshot;
    const DEFERRED_DROPS: bool = true;

    fn build<K: Key, V: Value, S: Hashing>(capacity: Option<usize>, hasher: S) -> Map<K, V, S> {
        match capacity {
            Some(capacity) => Map::with_capacity_and_hasher(capacity, hasher),
            None => Map::with_hasher(hasher),
        }
    }

    fn collect() {
        cache_reclaim::epoch::pin().flush();
    }

    fn quiesce<K: Key, V: Value, S: Hashing>(_map: &Map<K, V, S>) {
        cache_reclaim::epoch::pin().flush();
    }
}

impl SnapshotDesign for Ctrie {
    const SNAPSHOT: Consistency = Consistency::Snapshot;
    type View<K: Key, V: Value, S: Hashing> = Snapshot<K, V, S>;

    fn snapshot<K: Key, V: Value, S: Hashing>(map: &Map<K, V, S>) -> Snapshot<K, V, S> {
        map.snapshot()
    }
}

impl ForkDesign for Ctrie {
    fn fork<K: Key, V: Value, S: Hashing>(map: &Map<K, V, S>) -> Map<K, V, S> {
        map.fork()
    }
}

impl RoutedDesign for Ctrie {
    fn partitions<K: Key, V: Value, S: Hashing>(map: &Map<K, V, S>) -> usize {
        Routed::<K>::partitions(map)
    }

    fn partition_of<K: Key, V: Value, S: Hashing>(map: &Map<K, V, S>, key: &K) -> usize {
        map.partition_of(key)
    }
}

cache_conformance::suite!(Ctrie);
cache_conformance::snapshot_suite!(Ctrie);
cache_conformance::fork_suite!(Ctrie);
cache_conformance::routed_suite!(Ctrie);

/// The bounds of the public types, positive side; the negative ones are `compile_fail` examples in the docs.
#[test]
fn public_types_are_send_sync_and_unwind_safe() {
    fn all<T: Send + Sync + std::panic::UnwindSafe + std::panic::RefUnwindSafe>() {}
    all::<Map<String, Vec<u8>>>();
    all::<Snapshot<String, Vec<u8>>>();
}
