//! The correct reference map passes the whole suite.

use cache_api::{Consistency, Fork, Routed, Snapshot};
use cache_conformance::reference::{Reference, ReferenceView};
use cache_conformance::{Design, ForkDesign, Hashing, Key, RoutedDesign, SnapshotDesign, Value};

struct Correct;

impl Design for Correct {
    const NAME: &'static str = "reference";
    const LEN: Consistency = Consistency::Snapshot;
    const CLEAR: Consistency = Consistency::Snapshot;
    const VISIT: Consistency = Consistency::Snapshot;
    type Map<K: Key, V: Value, S: Hashing> = Reference<K, V, S>;
    fn build<K: Key, V: Value, S: Hashing>(
        capacity: Option<usize>,
        hasher: S,
    ) -> Reference<K, V, S> {
        Reference::with_capacity_and_hasher(capacity.unwrap_or(0), hasher)
    }
}

impl SnapshotDesign for Correct {
    const SNAPSHOT: Consistency = <Reference<u64, u64> as Snapshot<u64, u64>>::CONSISTENCY;
    type View<K: Key, V: Value, S: Hashing> = ReferenceView<K, V, S>;
    fn snapshot<K: Key, V: Value, S: Hashing>(map: &Reference<K, V, S>) -> ReferenceView<K, V, S> {
        map.snapshot()
    }
}

impl ForkDesign for Correct {
    fn fork<K: Key, V: Value, S: Hashing>(map: &Reference<K, V, S>) -> Reference<K, V, S> {
        map.fork()
    }
}

impl RoutedDesign for Correct {
    fn partitions<K: Key, V: Value, S: Hashing>(map: &Reference<K, V, S>) -> usize {
        map.partitions()
    }
    fn partition_of<K: Key, V: Value, S: Hashing>(map: &Reference<K, V, S>, key: &K) -> usize {
        map.partition_of(key)
    }
}

cache_conformance::suite!(Correct);
cache_conformance::snapshot_suite!(Correct);
cache_conformance::fork_suite!(Correct);
cache_conformance::routed_suite!(Correct);
