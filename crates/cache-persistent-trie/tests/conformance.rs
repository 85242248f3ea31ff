//! The shared corpus, for both maps and for the narrowest trie; nothing particular to this crate.

use std::time::{Duration, Instant};

use cache_api::{Consistency, Fork as _, Routed as _};
use cache_conformance::{Design, ForkDesign, Hashing, Key, RoutedDesign, SnapshotDesign, Value};
use cache_persistent_trie::{Hamt256Cache, Hamt256Snapshot, HamtCache, HamtSnapshot};

/// Calls `reclaim` until nothing is left: tests of other maps in this process may be pinned meanwhile.
fn reclaimed(reclaim: impl Fn() -> bool) {
    let start = Instant::now();
    while !reclaim() && start.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(1));
    }
}

struct Hamt<const WIDTH: usize>;

impl<const WIDTH: usize> Design for Hamt<WIDTH> {
    const NAME: &'static str = "hamt";
    const LEN: Consistency = Consistency::Snapshot;
    const CLEAR: Consistency = Consistency::Snapshot;
    const VISIT: Consistency = Consistency::Snapshot;
    const BULK_LOAD_AT_ONCE: bool = true;
    const DEFERRED_DROPS: bool = true;
    const FREES_UNUSED_MAPS: bool = false;

    type Map<K: Key, V: Value, S: Hashing> = HamtCache<K, V, S, WIDTH>;

    fn build<K: Key, V: Value, S: Hashing>(
        capacity: Option<usize>,
        hasher: S,
    ) -> Self::Map<K, V, S> {
        HamtCache::with_capacity_and_hasher(capacity.unwrap_or(0), hasher)
    }

    fn quiesce<K: Key, V: Value, S: Hashing>(map: &Self::Map<K, V, S>) {
        reclaimed(|| map.reclaim());
    }
}

impl<const WIDTH: usize> SnapshotDesign for Hamt<WIDTH> {
    const SNAPSHOT: Consistency = Consistency::Snapshot;
    type View<K: Key, V: Value, S: Hashing> = HamtSnapshot<K, V, S, WIDTH>;

    fn snapshot<K: Key, V: Value, S: Hashing>(map: &Self::Map<K, V, S>) -> Self::View<K, V, S> {
        map.snapshot()
    }
}

impl<const WIDTH: usize> ForkDesign for Hamt<WIDTH> {
    fn fork<K: Key, V: Value, S: Hashing>(map: &Self::Map<K, V, S>) -> Self::Map<K, V, S> {
        map.fork()
    }
}

impl<const WIDTH: usize> RoutedDesign for Hamt<WIDTH> {
    fn partitions<K: Key, V: Value, S: Hashing>(map: &Self::Map<K, V, S>) -> usize {
        map.partitions()
    }

    fn partition_of<K: Key, V: Value, S: Hashing>(map: &Self::Map<K, V, S>, key: &K) -> usize {
        map.partition_of(key)
    }
}

struct Hamt256;

impl Design for Hamt256 {
    const NAME: &'static str = "hamt256";
    const VISIT: Consistency = Consistency::Snapshot;
    const DEFERRED_DROPS: bool = true;
    const FREES_UNUSED_MAPS: bool = false;

    type Map<K: Key, V: Value, S: Hashing> = Hamt256Cache<K, V, S>;

    fn build<K: Key, V: Value, S: Hashing>(
        capacity: Option<usize>,
        hasher: S,
    ) -> Self::Map<K, V, S> {
        Hamt256Cache::with_capacity_and_hasher(capacity.unwrap_or(0), hasher)
    }

    fn quiesce<K: Key, V: Value, S: Hashing>(map: &Self::Map<K, V, S>) {
        reclaimed(|| map.reclaim());
    }
}

impl SnapshotDesign for Hamt256 {
    const SNAPSHOT: Consistency = Consistency::Snapshot;
    type View<K: Key, V: Value, S: Hashing> = Hamt256Snapshot<K, V, S>;

    fn snapshot<K: Key, V: Value, S: Hashing>(map: &Self::Map<K, V, S>) -> Self::View<K, V, S> {
        map.snapshot()
    }
}

impl ForkDesign for Hamt256 {
    fn fork<K: Key, V: Value, S: Hashing>(map: &Self::Map<K, V, S>) -> Self::Map<K, V, S> {
        map.fork()
    }
}

impl RoutedDesign for Hamt256 {
    fn partitions<K: Key, V: Value, S: Hashing>(map: &Self::Map<K, V, S>) -> usize {
        map.partitions()
    }

    fn partition_of<K: Key, V: Value, S: Hashing>(map: &Self::Map<K, V, S>, key: &K) -> usize {
        map.partition_of(key)
    }
}

mod hamt {
    use super::*;
    cache_conformance::suite!(Hamt<64>);
    cache_conformance::snapshot_suite!(Hamt<64>);
    cache_conformance::fork_suite!(Hamt<64>);
    cache_conformance::routed_suite!(Hamt<64>);
}

/// Eight-way nodes: the deepest paths, with a last digit of one bit.
mod narrow {
    use super::*;
    cache_conformance::sequential_suite!(Hamt<8>);
    cache_conformance::fork_suite!(Hamt<8>);
}

mod hamt256 {
    use super::*;
    cache_conformance::suite!(Hamt256);
    cache_conformance::snapshot_suite!(Hamt256);
    cache_conformance::fork_suite!(Hamt256);
    cache_conformance::routed_suite!(Hamt256);
}
