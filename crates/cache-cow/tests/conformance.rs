//! The shared corpus of tests over copy-on-write; no test of its own.

use cache_api::{Consistency, Fork};
use cache_conformance::{Design, ForkDesign, Hashing, Key, SnapshotDesign, Value};
use cache_cow::{CowCache, CowView};

struct Cow;

impl Design for Cow {
    const NAME: &'static str = "cow";
    type Map<K: Key, V: Value, S: Hashing> = CowCache<K, V, S>;

    fn build<K: Key, V: Value, S: Hashing>(
        capacity: Option<usize>,
        hasher: S,
    ) -> CowCache<K, V, S> {
        match capacity {
            Some(capacity) => CowCache::with_capacity_and_hasher(capacity, hasher),
            None => CowCache::with_hasher(hasher),
        }
    }

    const LEN: Consistency = Consistency::Snapshot;
    const CLEAR: Consistency = Consistency::Snapshot;
    const VISIT: Consistency = Consistency::Snapshot;
    const BULK_LOAD_AT_ONCE: bool = true;
    const LINEAR_WRITES: bool = true;
    const STORES_HASHES: bool = false;
    // A version that somebody reads while it is replaced is dropped by a later writer.
    const DEFERRED_DROPS: bool = true;

    fn quiesce<K: Key, V: Value, S: Hashing>(map: &CowCache<K, V, S>) {
        map.reclaim();
    }
}

impl SnapshotDesign for Cow {
    const SNAPSHOT: Consistency = Consistency::Snapshot;
    type View<K: Key, V: Value, S: Hashing> = CowView<K, V, S>;

    fn snapshot<K: Key, V: Value, S: Hashing>(map: &CowCache<K, V, S>) -> CowView<K, V, S> {
        map.snapshot()
    }
}

impl ForkDesign for Cow {
    fn fork<K: Key, V: Value, S: Hashing>(map: &CowCache<K, V, S>) -> CowCache<K, V, S> {
        Fork::fork(map)
    }
}

cache_conformance::suite!(Cow);
cache_conformance::snapshot_suite!(mod snapshots, Cow);
cache_conformance::fork_suite!(mod forks, Cow);
