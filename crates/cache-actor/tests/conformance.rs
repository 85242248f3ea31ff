//! The shared corpus of tests, for the default arrangement (some shards per owner) and for the study's (one owner per
//! shard).
//!
//! Adaptations, and why each is honest:
//!
//! - `ASYNC_WRITES`: `insert` and `remove` take effect, in the sense of linearizability, when their message is
//!   enqueued; that happens between call and return, so histories are checked unchanged. Only a panic of user code
//!   inside them cannot reach the caller, who has gone on: it is counted instead (`failed_writes`).
//! - `DEFERRED_DROPS`: what a blind write replaces or removes is dropped when its message is worked off, and a map
//!   whose last handle goes on an owner thread ends right after. `quiesce` is `flush`: one round trip to every owner.
//! - `STORES_HASHES`: each entry keeps its hash, so that `Hash` runs once per operation and never on an owner.

use cache_actor::{Builder, Map};
use cache_conformance::{Design, Hashing, Key, RoutedDesign, Value, routed_suite, suite};

/// What the two designs have in common.
macro_rules! design {
    ($design:ident, $name:literal, $builder:expr) => {
        struct $design;

        impl Design for $design {
            const NAME: &'static str = $name;
            const ASYNC_WRITES: bool = true;
            const DEFERRED_DROPS: bool = true;
            const STORES_HASHES: bool = true;
            type Map<K: Key, V: Value, S: Hashing> = Map<K, V, S>;

            fn build<K: Key, V: Value, S: Hashing>(
                capacity: Option<usize>,
                hasher: S,
            ) -> Map<K, V, S> {
                $builder
                    .capacity(capacity.unwrap_or(0))
                    .hasher(hasher)
                    .build()
            }

            fn quiesce<K: Key, V: Value, S: Hashing>(map: &Map<K, V, S>) {
                map.flush();
            }
        }

        impl RoutedDesign for $design {
            fn partitions<K: Key, V: Value, S: Hashing>(map: &Map<K, V, S>) -> usize {
                cache_api::Routed::partitions(map)
            }

            fn partition_of<K: Key, V: Value, S: Hashing>(map: &Map<K, V, S>, key: &K) -> usize {
                cache_api::Routed::partition_of(map, key)
            }
        }
    };
}

// 64 shards instead of the default 256, since every bulk load and batch sends one message per shard touched.
design!(Grouped, "actor", Builder::new().shards(64).owners(2));
// The study's arrangement, and mailboxes so small that most writes meet a full one.
design!(
    OnePerShard,
    "actor, one owner per shard",
    Builder::new().shards(8).shards_per_owner(1).mailbox(2)
);

suite!(mod grouped, Grouped);
routed_suite!(mod grouped_routed, Grouped);
routed_suite!(mod one_per_shard_routed, OnePerShard);

/// What depends on the arrangement: order, waiting, ends. The rest of the corpus cannot tell the two apart.
mod one_per_shard {
    use cache_conformance::{HashPlan, checks};

    use super::*;

    fn run(name: &str, check: fn()) {
        cache_conformance::run(OnePerShard::NAME, name, check);
    }

    #[test]
    fn each_key_is_linearizable() {
        run("each_key_is_linearizable", || {
            checks::linear::each_key::<OnePerShard>(HashPlan::Good)
        });
    }

    #[test]
    fn crossed_writes_do_not_deadlock() {
        run(
            "crossed_writes_do_not_deadlock",
            checks::races::crossed_writes_do_not_deadlock::<OnePerShard>,
        );
    }

    #[test]
    fn a_panicking_closure_leaves_the_others_served() {
        let check = checks::races::a_panicking_closure_leaves_the_others_served::<OnePerShard>;
        run("a_panicking_closure_leaves_the_others_served", check);
    }

    #[test]
    fn handles_dropped_amid_requests() {
        run(
            "handles_dropped_amid_requests",
            checks::races::handles_dropped_amid_requests::<OnePerShard>,
        );
    }

    #[test]
    fn the_last_handle_is_dropped_by_the_map() {
        run(
            "the_last_handle_is_dropped_by_the_map",
            checks::races::the_last_handle_is_dropped_by_the_map::<OnePerShard>,
        );
    }

    #[test]
    fn each_is_dropped_once_under_threads() {
        run(
            "each_is_dropped_once_under_threads",
            checks::drops::each_is_dropped_once_under_threads::<OnePerShard>,
        );
    }
}
