//! The protocol under a model checker (shuttle): tiny tries, every atomic access a point where threads may change,
//! and an epoch that frees as early as is legal. Run with
//!
//! ```text
//! RUSTFLAGS="--cfg shuttle" cargo test -p cache-ctrie --lib --target-dir target/shuttle
//! ```
//!
//! Each scenario runs under random schedules and under PCT (Burckhardt et al., ASPLOS 2010) of depth 3 and 4. At the
//! end of each execution no node lives and nothing waits to be freed. Freed nodes are kept until then, so that any
//! touch of one is seen. `CTRIE_SCHEDULES` sets how many schedules of each kind a scenario gets.
//!
//! Each mutant must be caught by a named scenario within a stated number of schedules of fixed seeds.

use std::panic::{AssertUnwindSafe, catch_unwind};

use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::thread;
use shuttle::{Config, FailurePersistence, MaxSteps, Runner};

use super::{Numbers, both_shapes, colliding, shallow};
use crate::mutants::{self, Mutant};
use crate::node::{BUCKETS, census};
use crate::sync::epoch;

/// Schedules of each kind for a scenario that must pass.
const SCHEDULES: usize = 800;
/// Schedules of each kind within which a mutant must be caught.
const MUTANT_SCHEDULES: usize = 20_000;

fn run(scenario: fn(), scheduler: impl Scheduler + 'static) {
    let mut config = Config::new();
    config.stack_size = 0x20_000;
    config.failure_persistence = FailurePersistence::None;
    config.max_steps = MaxSteps::FailAfter(20_000);
    config.silence_warnings = true;
    Runner::new(scheduler, config).run(move || {
        scenario();
        assert_eq!(epoch::backlog(), 0, "something still waits to be freed");
        assert_eq!(census::live(), 0, "live nodes at the end");
        census::release_quarantine();
    });
}

/// All schedules of all kinds; panics at the first that fails.
fn explore(scenario: fn(), schedules: usize) {
    // PCT first: it finds ownership faults that random schedules practically never do.
    for depth in [3, 4] {
        run(scenario, PctScheduler::new_from_seed(7, depth, schedules));
    }
    run(scenario, RandomScheduler::new_from_seed(7, schedules));
}

fn passes(scenario: fn()) {
    let schedules = std::env::var("CTRIE_SCHEDULES")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(SCHEDULES);
    both_shapes(|| explore(scenario, schedules));
}

/// The scenario must fail with the mutant on.
fn killed(mutant: Mutant, scenario: fn()) {
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        mutants::with(Some(mutant), || {
            both_shapes(|| explore(scenario, MUTANT_SCHEDULES))
        });
    }));
    BUCKETS.set(true);
    epoch::reset();
    census::reset();
    assert!(outcome.is_err(), "{mutant:?} survived");
}

fn join<T>(handle: thread::JoinHandle<T>) -> T {
    handle.join().expect("a thread of the model failed")
}

// The scenarios. Keys 0 to 15 share the root's slot 0 and differ in the second digit (`shallow`); two of them make an
// array below the root.

/// insert || insert || snapshot, in one array: cuts, re-reading, the live map is not behind.
fn insert_insert_snapshot() {
    let numbers = Numbers::new(shallow);
    numbers.put(1, 0);
    numbers.put(2, 0);
    let writer = numbers.clone();
    let writer = thread::spawn(move || {
        writer.put(1, 1);
        writer.put(2, 1);
    });
    let other = numbers.clone();
    let other = thread::spawn(move || other.put(3, 1));
    let still = numbers.still();
    let (a, b) = (still.get(1), still.get(2));
    assert!(b <= a, "torn: {a:?} {b:?}");
    let first = still.entries();
    assert_eq!((still.get(1), still.get(2)), (a, b), "a snapshot changed");
    assert_eq!(still.entries(), first, "a snapshot changed");
    assert_eq!(first.len(), still.view.len(), "the snapshot's length");
    assert!(numbers.get(1) >= a, "the live map is behind a snapshot");
    join(writer);
    join(other);
    assert_eq!(still.entries(), first, "a snapshot changed");
    assert_eq!(still.view.len(), first.len());
    let last = numbers.still().entries();
    assert_eq!(last, [(1, 1), (2, 1), (3, 1)], "a write was lost");
}

/// insert || snapshot || get: a reader and a snapshot agree on the order of things.
fn insert_snapshot_get() {
    let numbers = Numbers::new(shallow);
    numbers.put(1, 0);
    numbers.put(2, 0);
    let writer = numbers.clone();
    let writer = thread::spawn(move || {
        writer.put(1, 1);
    });
    let reader = numbers.clone();
    let reader = thread::spawn(move || {
        // This write renews the array after a snapshot, and so copies what it reads there.
        reader.put(2, 5);
        let first = reader.get(1);
        let second = reader.get(1);
        assert!(second >= first, "a read went back in time");
        first
    });
    let still = numbers.still();
    let before = still.get(1);
    let live = numbers.get(1);
    assert!(live >= before, "the live map is behind a snapshot");
    join(writer);
    join(reader);
    assert_eq!(still.get(1), before, "a snapshot changed");
    assert_eq!(numbers.get(1), Some(1), "a write was lost");
    assert_eq!(numbers.get(2), Some(5), "a write was lost");
}

/// remove || insert || snapshot, so that the array contracts while the other write is on its way into it.
fn remove_insert_snapshot() {
    let numbers = Numbers::new(shallow);
    numbers.put(1, 0);
    numbers.put(2, 0);
    let remover = numbers.clone();
    let remover =
        thread::spawn(move || assert_eq!(remover.remove(1), Some(0), "a removal found nothing"));
    let writer = numbers.clone();
    let writer = thread::spawn(move || {
        writer.put(3, 1);
        assert_eq!(writer.get(3), Some(1), "a write was lost");
    });
    let still = numbers.still();
    let first = still.entries();
    let back = numbers.get(1);
    assert!(
        still.get(1).is_some() || back.is_none(),
        "the live map is behind a snapshot"
    );
    join(remover);
    join(writer);
    assert_eq!(still.entries(), first, "a snapshot changed");
    assert_eq!(first.len(), still.view.len());
    assert_eq!(
        numbers.still().entries(),
        [(2, 0), (3, 1)],
        "a write was lost"
    );
}

/// fork || write both sides.
fn fork_write_both() {
    let numbers = Numbers::new(shallow);
    numbers.put(1, 0);
    numbers.put(2, 0);
    let fork = numbers.fork();
    let writer = numbers.clone();
    let writer = thread::spawn(move || {
        writer.put(1, 1);
        writer.remove(2);
    });
    let forker = fork.clone();
    let forker = thread::spawn(move || {
        forker.put(2, 2);
        forker.remove(1);
    });
    let second = numbers.fork();
    let seen = second.still().entries();
    join(writer);
    join(forker);
    assert_eq!(second.still().entries(), seen, "a fork changed");
    assert_eq!(numbers.still().entries(), [(1, 1)]);
    assert_eq!(fork.still().entries(), [(2, 2)]);
}

/// clear || insert: a clear takes effect once, so what was written after it was seen stays.
fn clear_insert() {
    let numbers = Numbers::new(shallow);
    numbers.put(1, 0);
    let writer = numbers.clone();
    let writer = thread::spawn(move || {
        let cleared = writer.get(1).is_none();
        writer.put(2, 2);
        cleared
    });
    let helper = numbers.clone();
    let helper = thread::spawn(move || helper.get(1));
    numbers.clear();
    let cleared = join(writer);
    join(helper);
    if cleared {
        assert_eq!(numbers.get(2), Some(2), "one clear took effect twice");
    }
    assert_eq!(numbers.get(1), None, "a clear was lost");
    assert_eq!(numbers.len(), numbers.still().entries().len());
}

/// A root swap against a renewal of the root array: the swap expects the array that it gives back.
fn clear_after_snapshot_insert() {
    let numbers = Numbers::new(shallow);
    numbers.put(1, 0);
    let still = numbers.still();
    let writer = numbers.clone();
    let writer = thread::spawn(move || {
        writer.put(2, 2);
    });
    numbers.clear();
    join(writer);
    assert_eq!(still.entries(), [(1, 0)], "a snapshot changed");
    assert_eq!(numbers.get(1), None);
}

/// Removals from two sides contract an array; an insertion is on its way into it. Nothing is lost, and the shape is
/// canonical at the end.
fn contraction() {
    let numbers = Numbers::new(shallow);
    numbers.put(1, 0);
    numbers.put(2, 0);
    let first = numbers.clone();
    let first =
        thread::spawn(move || assert_eq!(first.remove(1), Some(0), "a removal found nothing"));
    let second = numbers.clone();
    let second =
        thread::spawn(move || assert_eq!(second.remove(2), Some(0), "a removal found nothing"));
    numbers.put(3, 3);
    assert_eq!(numbers.get(3), Some(3), "a write was lost");
    join(first);
    join(second);
    assert_eq!(numbers.get(3), Some(3), "a write was lost");
    assert_eq!(numbers.remove(3), Some(3), "a write was lost");
    assert_eq!(
        census::live(),
        2,
        "an empty trie keeps nothing but its root"
    );
}

/// Contraction of an array that a snapshot shares, with a reader of the frozen side and one of the live side.
fn contraction_shared() {
    let numbers = Numbers::new(shallow);
    numbers.put(1, 0);
    numbers.put(2, 0);
    let remover = numbers.clone();
    let remover = thread::spawn(move || {
        remover.remove(1);
        remover.put(1, 7);
    });
    let writer = numbers.clone();
    let writer = thread::spawn(move || {
        writer.put(2, 1);
        writer.put(2, 2);
    });
    let still = numbers.still();
    let entries = still.entries();
    assert!(
        still.get(2).is_some(),
        "an entry that nobody removed is missing"
    );
    assert!(
        numbers.get(2) >= still.get(2),
        "the live map is behind a snapshot"
    );
    let fork = still.fork();
    fork.put(2, 9);
    drop(fork);
    join(remover);
    join(writer);
    assert_eq!(still.entries(), entries, "a snapshot changed");
    assert_eq!(
        numbers.still().entries(),
        [(1, 7), (2, 2)],
        "a write was lost"
    );
}

/// An entry that stays is read while its array is frozen and contracted around it.
fn read_through_contraction() {
    let numbers = Numbers::new(shallow);
    numbers.put(1, 1);
    numbers.put(2, 2);
    let remover = numbers.clone();
    let remover = thread::spawn(move || {
        remover.remove(1);
    });
    assert_eq!(
        numbers.get(2),
        Some(2),
        "an entry that nobody removed is missing"
    );
    let still = numbers.still();
    assert_eq!(
        still.get(2),
        Some(2),
        "an entry that nobody removed is missing"
    );
    join(remover);
    assert_eq!(still.get(2), Some(2));
    assert_eq!(numbers.len(), 1);
}

/// Two writers renew the same arrays after a snapshot; another snapshot refuses some of the renewals.
fn renewals_race() {
    let numbers = Numbers::new(shallow);
    numbers.put(1, 0);
    numbers.put(2, 0);
    let still = numbers.still();
    let first = numbers.clone();
    let first = thread::spawn(move || {
        first.put(1, 1);
    });
    let second = numbers.clone();
    let second = thread::spawn(move || {
        second.put(2, 1);
    });
    let later = numbers.still();
    drop(later);
    join(first);
    join(second);
    assert_eq!(still.entries(), [(1, 0), (2, 0)], "a snapshot changed");
    drop(still);
    assert_eq!(
        numbers.still().entries(),
        [(1, 1), (2, 1)],
        "a write was lost"
    );
}

/// A snapshot is dropped while readers and writers of the live map are on their way through what it owns.
fn snapshot_dropped_early() {
    let numbers = Numbers::new(shallow);
    numbers.put(1, 0);
    numbers.put(2, 0);
    let reader = numbers.clone();
    let reader = thread::spawn(move || {
        assert!(
            reader.get(2).is_some(),
            "an entry that nobody removed is missing"
        );
    });
    let writer = numbers.clone();
    let writer = thread::spawn(move || {
        writer.put(1, 1);
    });
    drop(numbers.still());
    numbers.put(2, 2);
    drop(numbers);
    join(reader);
    join(writer);
}

/// Collision lists: two keys of one hash written by two threads, a third removed, a snapshot.
fn collisions() {
    let numbers = Numbers::new(colliding);
    numbers.put(0, 0);
    numbers.put(4, 0);
    let first = numbers.clone();
    let first = thread::spawn(move || {
        first.put(8, 1);
        assert_eq!(first.remove(0), Some(0), "a removal found nothing");
    });
    let second = numbers.clone();
    let second = thread::spawn(move || {
        second.put(4, 1);
    });
    let still = numbers.still();
    let entries = still.entries();
    assert_eq!(entries.len(), still.view.len());
    join(first);
    join(second);
    assert_eq!(still.entries(), entries, "a snapshot changed");
    assert_eq!(
        numbers.still().entries(),
        [(4, 1), (8, 1)],
        "a write was lost"
    );
}

/// `len` and a batch, each of one moment, while entries move: one of the two is always there, and at most one more.
fn len_and_batch() {
    // Keys 1 and 33 are in different slots of the root.
    let numbers = Numbers::new(|key| key);
    numbers.put(1, 0);
    let mover = numbers.clone();
    let mover = thread::spawn(move || {
        mover.put(2, 0);
        mover.remove(1);
        mover.put(1, 0);
        mover.remove(2);
    });
    let len = numbers.len();
    assert!((1..=2).contains(&len), "a length that never was: {len}");
    let batch = numbers.batch(&[1, 2]);
    assert!(
        batch.iter().any(Option::is_some),
        "a batch from two moments"
    );
    join(mover);
    assert_eq!(numbers.len(), 1);
}

#[test]
fn model_insert_insert_snapshot() {
    passes(insert_insert_snapshot);
}

#[test]
fn model_insert_snapshot_get() {
    passes(insert_snapshot_get);
}

#[test]
fn model_remove_insert_snapshot() {
    passes(remove_insert_snapshot);
}

#[test]
fn model_fork_write_both() {
    passes(fork_write_both);
}

#[test]
fn model_clear_insert() {
    passes(clear_insert);
}

#[test]
fn model_clear_after_snapshot_insert() {
    passes(clear_after_snapshot_insert);
}

#[test]
fn model_contraction() {
    passes(contraction);
}

#[test]
fn model_contraction_shared() {
    passes(contraction_shared);
}

#[test]
fn model_read_through_contraction() {
    passes(read_through_contraction);
}

#[test]
fn model_renewals_race() {
    passes(renewals_race);
}

#[test]
fn model_snapshot_dropped_early() {
    passes(snapshot_dropped_early);
}

#[test]
fn model_collisions() {
    passes(collisions);
}

#[test]
fn model_len_and_batch() {
    passes(len_and_batch);
}

// The mutants, each with the scenario that catches it.

#[test]
fn mutant_late_deep_write() {
    killed(Mutant::LateDeepWrite, insert_insert_snapshot);
}

#[test]
fn mutant_no_generation_test() {
    killed(Mutant::NoGenerationTest, insert_insert_snapshot);
}

#[test]
fn mutant_passive_read() {
    killed(Mutant::PassiveRead, insert_snapshot_get);
}

#[test]
fn mutant_rdcss_flag() {
    killed(Mutant::RdcssFlag, clear_insert);
}

#[test]
fn mutant_rdcss_no_expected() {
    killed(Mutant::RdcssNoExpected, clear_after_snapshot_insert);
}

#[test]
fn mutant_read_only_commits() {
    killed(Mutant::ReadOnlyCommits, insert_insert_snapshot);
}

#[test]
fn mutant_renewal_without_retain() {
    killed(Mutant::RenewalWithoutRetain, renewals_race);
}

#[test]
fn mutant_release_not_deferred() {
    killed(Mutant::ReleaseNotDeferred, snapshot_dropped_early);
}

#[test]
fn mutant_undo_skipped() {
    killed(Mutant::UndoSkipped, renewals_race);
}

#[test]
fn mutant_undo_twice() {
    killed(Mutant::UndoTwice, renewals_race);
}

#[test]
fn mutant_contract_without_freezing() {
    killed(Mutant::ContractWithoutFreezing, contraction);
}

#[test]
fn mutant_freeze_occupied_only() {
    killed(Mutant::FreezeOccupiedOnly, contraction);
}

#[test]
fn mutant_no_contraction() {
    killed(Mutant::NoContraction, contraction);
}

#[test]
fn mutant_copy_without_deciding() {
    killed(Mutant::CopyWithoutDeciding, insert_snapshot_get);
}

#[test]
fn mutant_skipped_tomb() {
    killed(Mutant::SkippedTomb, remove_insert_snapshot);
}

#[test]
fn mutant_len_off_snapshot() {
    killed(Mutant::LenOffSnapshot, len_and_batch);
}

#[test]
fn mutant_frozen_mask_missing() {
    killed(Mutant::FrozenMaskMissing, read_through_contraction);
}

#[test]
fn mutant_renewal_skipped_on_overwrite() {
    killed(Mutant::RenewalSkippedOnOverwrite, renewals_race);
}

#[test]
fn mutant_snapshot_keeps_generation() {
    killed(Mutant::SnapshotKeepsGeneration, insert_insert_snapshot);
}

#[test]
fn mutant_shared_list_moved() {
    killed(Mutant::SharedListMoved, collisions);
}
