//! Model checking of publication, snapshots and retirement, and of the mutants that it must find.
//!
//! ```text
//! RUSTFLAGS="--cfg shuttle" cargo test -p cache-persistent-trie --test model --target-dir target/shuttle
//! ```
//!
//! `correct::*` are the scenarios themselves, `mutants::*` show for each broken rule that a scenario catches it.
#![cfg(shuttle)]

use std::panic::{AssertUnwindSafe, catch_unwind};

use cache_persistent_trie::HamtCache;
use cache_persistent_trie::sync::Mutant;
use cache_persistent_trie::sync::model::{Identity, Pair, Schedules, explore};
use shuttle::sync::Arc;
use shuttle::thread;

type Map = HamtCache<u64, u64, Identity, 8>;

/// Two writers whose keys share a path (1, 9, 17) and one whose does not (2), and a reader.
fn two_writers() {
    let map = Arc::new(Map::with_hasher(Identity));
    map.insert(1, 0);
    let a = {
        let map = Arc::clone(&map);
        thread::spawn(move || {
            map.insert(9, 1);
            assert_eq!(map.get(&9), Some(1), "an acknowledged write is missing");
            map.insert(2, 1);
            map.remove(&9);
        })
    };
    let b = {
        let map = Arc::clone(&map);
        thread::spawn(move || {
            map.insert(17, 2);
            assert_eq!(map.get(&17), Some(2), "an acknowledged write is missing");
            map.insert(1, 2);
        })
    };
    assert!(
        map.get(&1).is_some(),
        "a key that is always there is missing"
    );
    assert!(map.len() <= 4);
    a.join().unwrap();
    b.join().unwrap();
    assert_eq!(
        (map.get(&1), map.get(&2), map.get(&9), map.get(&17)),
        (Some(2), Some(1), None, Some(2))
    );
    assert_eq!(map.len(), 3);
}

/// A writer of every kind of change, and a thread that holds snapshots, past the end of the map.
fn frozen() {
    let map = Arc::new(Map::with_hasher(Identity));
    for key in [1, 9, 2] {
        map.insert(key, 0);
    }
    let writer = {
        let map = Arc::clone(&map);
        thread::spawn(move || {
            map.insert(9, 1);
            map.remove(&1);
            map.insert(17, 1);
        })
    };
    let view = map.snapshot();
    let before: Vec<(u64, u64)> = view.iter().map(|(k, v)| (*k, *v)).collect();
    assert_eq!(
        view.len(),
        before.len(),
        "length and content of a snapshot disagree"
    );
    let second = map.snapshot();
    let in_second = second.iter().count();
    assert_eq!(
        second.len(),
        in_second,
        "length and content of a snapshot disagree"
    );
    writer.join().unwrap();
    map.insert(9, 2);
    let after: Vec<(u64, u64)> = view.iter().map(|(k, v)| (*k, *v)).collect();
    assert_eq!(before, after, "a snapshot changed");
    drop(second);
    assert_eq!(
        (map.get(&9), map.get(&17), map.get(&1)),
        (Some(2), Some(1), None)
    );
    drop(map);
    assert_eq!(view.iter().count(), before.len());
}

/// Two writers on a trie whose nodes are all shared, so that each copies with claims and one takes them back.
fn shared_writers() {
    let map = Arc::new(Map::with_hasher(Identity));
    for key in [1, 9, 2, 10] {
        map.insert(key, 0);
    }
    let view = map.snapshot();
    let threads: Vec<_> = [1_u64, 2]
        .into_iter()
        .map(|key| {
            let map = Arc::clone(&map);
            thread::spawn(move || map.insert(key, key))
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    assert_eq!(
        (map.get(&1), map.get(&2), map.get(&9)),
        (Some(1), Some(2), Some(0)),
        "a write was lost"
    );
    assert_eq!(view.get_ref(&1), Some(&0), "a snapshot changed");
}

/// As `frozen` and `shared_writers`, with entries that lie in their nodes: writers of every kind of change on shared
/// nodes, `retain`, and snapshots past the end of the map.
fn in_nodes() {
    let map = Arc::new(HamtCache::<u64, u32, Identity, 8>::with_hasher(Identity));
    for key in [1, 9, 2, 73] {
        map.insert(key, 0);
    }
    let view = map.snapshot();
    let a = {
        let map = Arc::clone(&map);
        thread::spawn(move || {
            map.insert(9, 1);
            map.insert(17, 1);
            map.remove(&2);
        })
    };
    let b = {
        let map = Arc::clone(&map);
        thread::spawn(move || {
            map.insert(1, 2);
            map.retain(|key, value| *key != 73 || *value != 0);
        })
    };
    let second = map.snapshot();
    let seen: Vec<(u64, u32)> = second.iter().map(|(k, v)| (*k, *v)).collect();
    assert_eq!(
        second.len(),
        seen.len(),
        "length and content of a snapshot disagree"
    );
    a.join().unwrap();
    b.join().unwrap();
    let found = [1, 2, 9, 17, 73].map(|key| map.get(&key));
    assert_eq!(found, [Some(2), None, Some(1), Some(1), None]);
    assert_eq!(map.len(), 3);
    drop(map);
    assert!(
        second.iter().map(|(k, v)| (*k, *v)).eq(seen),
        "a snapshot changed"
    );
    assert!(
        view.len() == 4 && view.iter().all(|(_, v)| *v == 0),
        "a snapshot changed"
    );
}

/// Clearing, a batch of writes, and a plain write, all at once.
fn whole_trie() {
    let map = Arc::new(Map::with_hasher(Identity));
    map.insert(1, 0);
    map.insert(9, 0);
    let a = {
        let map = Arc::clone(&map);
        thread::spawn(move || {
            map.update_many(|batch| {
                batch.insert(1, 1);
                batch.insert(2, 1);
                batch.remove(&9);
            });
        })
    };
    let b = {
        let map = Arc::clone(&map);
        thread::spawn(move || map.insert(17, 1))
    };
    let view = map.snapshot();
    assert_eq!(
        view.get_ref(&1) == Some(&1),
        view.contains_key(&2),
        "a batch is seen in part"
    );
    map.clear();
    a.join().unwrap();
    b.join().unwrap();
    assert_eq!(map.len(), map.snapshot().iter().count());
}

/// Cause before effect, over two partitions; and what a reader has seen is in its next snapshot.
fn partitions() {
    let map = Arc::new(Pair::new());
    map.insert(0, 0);
    map.insert(1, 0);
    let writer = {
        let map = Arc::clone(&map);
        thread::spawn(move || {
            map.insert(0, 1);
            map.insert(1, 1);
            map.insert(0, 2);
        })
    };
    let other = {
        let map = Arc::clone(&map);
        thread::spawn(move || {
            let view = map.snapshot();
            let first = (view.get(0), view.get(1));
            assert!(
                first.0 >= first.1,
                "a snapshot shows an effect without its cause: {first:?}"
            );
            (view, first)
        })
    };
    let seen = map.get(0);
    let view = map.snapshot();
    let pair = (view.get(0), view.get(1));
    assert!(
        pair.0 >= pair.1,
        "a snapshot shows an effect without its cause: {pair:?}"
    );
    assert!(
        pair.0 >= seen,
        "a snapshot is behind what was read before it: {pair:?} after {seen:?}"
    );
    writer.join().unwrap();
    let (old, first) = other.join().unwrap();
    assert_eq!(
        (map.get(0), map.get(1)),
        (Some(2), Some(1)),
        "a write was lost"
    );
    drop(map);
    assert_eq!((old.get(0), old.get(1)), first, "a snapshot changed");
    assert_eq!((view.get(0), view.get(1)), pair, "a snapshot changed");
}

/// Equal content, equal shape; on one thread.
fn canonical() {
    let (a, b) = (Map::with_hasher(Identity), Map::with_hasher(Identity));
    for key in [1, 9, 73, 2, 1 + 512, 9 + 512] {
        a.insert(key, 0);
    }
    for key in [1 + 512, 73, 9 + 512, 9] {
        a.remove(&key);
    }
    b.insert(2, 0);
    b.insert(1, 0);
    assert_eq!(a.shape(), b.shape(), "the shape depends on the history");
}

mod correct {
    use super::*;

    /// Per scenario, way of drawing schedules, and way of freeing garbage.
    const SCHEDULES: usize = 4_000;

    fn holds(scenario: fn()) {
        for lists in [false, true] {
            explore(None, lists, Schedules::Random(SCHEDULES), scenario);
            explore(None, lists, Schedules::Pct(4, SCHEDULES), scenario);
        }
    }

    #[test]
    fn two_writers_and_a_reader() {
        holds(two_writers);
    }

    #[test]
    fn snapshots_stay_as_they_are() {
        holds(frozen);
    }

    #[test]
    fn writers_on_shared_nodes() {
        holds(shared_writers);
    }

    #[test]
    fn entries_in_nodes() {
        holds(in_nodes);
    }

    #[test]
    fn clear_batch_and_write() {
        holds(whole_trie);
    }

    #[test]
    fn one_moment_over_partitions() {
        holds(partitions);
    }

    #[test]
    fn shapes_are_canonical() {
        explore(None, false, Schedules::Random(1), canonical);
    }
}

mod mutants {
    use super::*;

    /// Asserts that some schedule of some scenario fails with the mutant.
    fn killed(mutant: Mutant, scenarios: &[fn()]) {
        let found = scenarios.iter().any(|&scenario| {
            [Schedules::Pct(4, 3_000), Schedules::Random(3_000)]
                .into_iter()
                .any(|schedules| {
                    catch_unwind(AssertUnwindSafe(|| {
                        explore(Some(mutant), false, schedules, scenario)
                    }))
                    .is_err()
                })
        });
        assert!(found, "no schedule shows {mutant:?}");
    }

    macro_rules! mutants {
        ($($name:ident: $mutant:ident by $($scenario:ident),+;)*) => {
            $(
                #[test]
                fn $name() {
                    killed(Mutant::$mutant, &[$($scenario),+]);
                }
            )*
        };
    }

    mutants! {
        lost_race_ignored: LostRaceIgnored by two_writers;
        retain_missing_on_a_shared_copy: RetainMissing by frozen, shared_writers;
        release_not_deferred: ReleaseNotDeferred by two_writers;
        retain_missing_with_entries_in_nodes: RetainMissing by in_nodes;
        shared_node_retired: SharedNodeRetired by frozen, shared_writers;
        shared_node_retired_with_entries_in_nodes: SharedNodeRetired by in_nodes;
        blind_rebase_with_entries_in_nodes: BlindRebase by in_nodes;
        len_published_apart_from_the_root: LenApart by frozen;
        torn_root: TornRoot by two_writers;
        no_collapse: NoCollapse by canonical;
        tentative_root_not_decided: TentativeNotDecided by partitions;
        generation_not_reread: GenerationNotReread by partitions;
        snapshot_unclaimed: SnapshotUnclaimed by frozen;
        base_not_bumped: BaseNotBumped by frozen, partitions;
        blind_rebase: BlindRebase by two_writers;
        undo_forgotten: UndoForgotten by shared_writers;
    }
}
