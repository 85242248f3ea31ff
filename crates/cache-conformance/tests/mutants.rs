//! The suite can fail: for each deliberate fault of the reference map, the check that finds it.

use std::time::Duration;

use cache_api::{Consistency, Fork, Routed, Snapshot};
use cache_conformance::checks::{
    drops, forks, growth, linear, panics, races, reentry, routed, sequential, smoke, snapshots,
};
use cache_conformance::lab::Event;
use cache_conformance::reference::{Reference, ReferenceView};
use cache_conformance::{
    Design, Failure, ForkDesign, HashPlan, Hashing, Key, RoutedDesign, SnapshotDesign, Value,
    attempt, fault, run_alone,
};

/// A reference map with one fault.
struct Broken<const FAULT: u32>;

impl<const FAULT: u32> Design for Broken<FAULT> {
    const NAME: &'static str = "broken";
    const LEN: Consistency = Consistency::Snapshot;
    const CLEAR: Consistency = Consistency::Snapshot;
    const VISIT: Consistency = Consistency::Snapshot;
    type Map<K: Key, V: Value, S: Hashing> = Reference<K, V, S, FAULT>;
    fn build<K: Key, V: Value, S: Hashing>(
        capacity: Option<usize>,
        hasher: S,
    ) -> Self::Map<K, V, S> {
        Reference::with_capacity_and_hasher(capacity.unwrap_or(0), hasher)
    }
}

impl<const FAULT: u32> SnapshotDesign for Broken<FAULT> {
    const SNAPSHOT: Consistency = Consistency::Snapshot;
    type View<K: Key, V: Value, S: Hashing> = ReferenceView<K, V, S>;
    fn snapshot<K: Key, V: Value, S: Hashing>(map: &Self::Map<K, V, S>) -> ReferenceView<K, V, S> {
        map.snapshot()
    }
}

impl<const FAULT: u32> ForkDesign for Broken<FAULT> {
    fn fork<K: Key, V: Value, S: Hashing>(map: &Self::Map<K, V, S>) -> Self::Map<K, V, S> {
        map.fork()
    }
}

impl<const FAULT: u32> RoutedDesign for Broken<FAULT> {
    fn partitions<K: Key, V: Value, S: Hashing>(map: &Self::Map<K, V, S>) -> usize {
        map.partitions()
    }
    fn partition_of<K: Key, V: Value, S: Hashing>(map: &Self::Map<K, V, S>, key: &K) -> usize {
        map.partition_of(key)
    }
}

/// The correct map, claiming that its bulk load is published at once.
struct ClaimsBulkLoadAtOnce;

impl Design for ClaimsBulkLoadAtOnce {
    const NAME: &'static str = "claims too much";
    const BULK_LOAD_AT_ONCE: bool = true;
    type Map<K: Key, V: Value, S: Hashing> = Reference<K, V, S>;
    fn build<K: Key, V: Value, S: Hashing>(
        capacity: Option<usize>,
        hasher: S,
    ) -> Self::Map<K, V, S> {
        Reference::with_capacity_and_hasher(capacity.unwrap_or(0), hasher)
    }
}

/// Asserts that `check` fails with a message that contains `symptom`. Races are given a few attempts: what one
/// schedule hides, the next shows.
fn caught(check: fn(), symptom: &str) {
    let mut outcomes = Vec::new();
    for _ in 0..5 {
        match attempt(Duration::from_secs(50), check) {
            Err(Failure::Panicked(message)) if message.contains(symptom) => return,
            outcome => outcomes.push(outcome),
        }
    }
    panic!("no failure that says `{symptom}`: {outcomes:?}");
}

/// Asserts that `check` hangs. Races are given a few attempts, as in [`caught`].
fn hangs(check: fn()) {
    let mut outcomes = Vec::new();
    for _ in 0..5 {
        match attempt(Duration::from_secs(3), check) {
            Err(Failure::Hung(_)) => return,
            outcome => outcomes.push(outcome),
        }
    }
    panic!("no hang: {outcomes:?}");
}

macro_rules! mutants {
    ($($name:ident: $fault:ident, $verdict:ident(|$design:ident| $check:expr $(, $symptom:literal)?);)*) => {
        $(
            #[test]
            fn $name() {
                type $design = Broken<{ fault::$fault }>;
                $verdict(|| $check $(, $symptom)?);
            }
        )*
        /// The faults above, so that none is forgotten.
        const COVERED: &[u32] = &[$(fault::$fault),*];
    };
}

mutants! {
    hang_on_reentry_is_caught_by_the_watchdog: HANG_ON_REENTRY, hangs(|D| reentry::from::<D>(Event::Closure));
    hang_on_the_same_call_is_caught_by_the_watchdog: HANG_ON_REENTRY,
        hangs(|D| reentry::the_same_call_inside_itself::<D>());
    len_apart_is_caught_by_the_whole_map_search: LEN_APART, caught(|D| linear::whole_map::<D>(), "no linearization");
    len_apart_is_caught_by_its_bounds: LEN_APART, caught(|D| races::len_of_one_contended_key::<D>(), "never possible");
    lost_update_is_caught_by_counters: LOST_UPDATE,
        caught(|D| races::upsert_loses_no_update::<D>(), "increments are lost");
    lost_update_is_caught_by_the_search_per_key: LOST_UPDATE,
        caught(|D| linear::each_key::<D>(HashPlan::Good), "no linearization");
    lost_update_is_caught_by_the_smoke_test: LOST_UPDATE,
        caught(|D| smoke::four_threads_use_every_method::<D>(), "increments are lost");
    double_drop_is_caught_by_the_register: DROPS_TWICE,
        caught(|D| drops::each_is_dropped_once::<D>(), "dropped twice");
    leak_is_caught_by_the_register: LEAKS, caught(|D| drops::each_is_dropped_once::<D>(), "dropped exactly once");
    leak_is_caught_under_threads: LEAKS,
        caught(|D| drops::each_is_dropped_once_under_threads::<D>(), "dropped exactly once");
    miss_under_growth_is_caught_by_acknowledged_keys: GROWTH_WINDOW,
        caught(|D| growth::acknowledged_keys_are_never_missed::<D>(), "acknowledged");
    miss_under_growth_is_caught_by_the_search_per_key: GROWTH_WINDOW,
        caught(|D| linear::each_key::<D>(HashPlan::Good), "no linearization");
    batch_order_is_caught_by_the_model: BATCH_ORDER,
        caught(|D| sequential::model::<D>(HashPlan::Good), "get_batch");
    batch_order_is_caught_by_the_edges: BATCH_ORDER,
        caught(|D| sequential::batch_and_bulk_edges::<D>(), "left == right");
    second_clear_is_caught_by_the_whole_map_search: CLEARS_TWICE,
        caught(|D| linear::whole_map::<D>(), "no linearization");
    late_snapshot_is_caught_by_the_model: SNAPSHOT_LATE,
        caught(|D| snapshots::many_at_once::<D>(), "later write shows");
    late_snapshot_is_caught_by_the_whole_map_search: SNAPSHOT_LATE,
        caught(|D| linear::whole_map_with_snapshots::<D>(), "no linearization");
    torn_snapshot_is_caught_by_two_keys: SNAPSHOT_TORN, caught(|D| snapshots::cut_of_two_keys::<D>(), "torn view");
    torn_snapshot_is_caught_by_a_token: SNAPSHOT_TORN,
        caught(|D| snapshots::a_moving_token_is_in_every_view::<D>(), "misses the token");
    torn_snapshot_is_caught_by_the_whole_map_search: SNAPSHOT_TORN,
        caught(|D| linear::whole_map_with_snapshots::<D>(), "no linearization");
    spoiled_len_is_caught_by_panics_in_eq: PANIC_SPOILS_LEN,
        caught(|D| panics::at_every_call::<D>(HashPlan::Constant, Event::Eq), "len");
    second_init_is_caught_by_counting: INIT_TWICE, caught(|D| races::get_or_insert_agrees::<D>(), "init ran");
    stale_read_is_caught_by_the_search_per_key: STALE_READ,
        caught(|D| linear::each_key::<D>(HashPlan::Good), "no linearization");
    stale_read_is_caught_by_two_versions: STALE_READ,
        caught(|D| linear::whole_map::<D>(), "no linearization");
    poison_is_caught_by_panics: POISON,
        caught(|D| panics::at_every_call::<D>(HashPlan::Good, Event::Closure), "poisoned");
    poison_is_caught_by_panicking_closures: POISON,
        caught(|D| races::a_panicking_closure_leaves_the_others_served::<D>(), "poisoned");
    losers_value_is_caught_by_agreement: LOSER_KEEPS_ITS_VALUE,
        caught(|D| races::get_or_insert_agrees::<D>(), "another value");
    untested_removal_is_caught_by_replacement: REMOVES_UNTESTED,
        caught(|D| races::remove_if_removes_only_what_it_tested::<D>(), "fails its condition");
    first_wins_is_caught_by_the_model: FIRST_WINS, caught(|D| sequential::model::<D>(HashPlan::Good), "expected");
    skipping_visit_is_caught_by_what_stays: VISIT_BY_NUMBER,
        caught(|D| growth::visits_see_what_stays_exactly_once::<D>(), "visit");
    drop_under_lock_is_caught_by_reentry: DROP_UNDER_LOCK,
        caught(|D| reentry::from::<D>(Event::Drop), "destructor runs under a lock");
    sharing_fork_is_caught_by_the_model: FORK_SHARES,
        caught(|D| forks::model::<D>(HashPlan::Good), "relative");
    sharing_fork_is_caught_by_cuts: FORK_SHARES, caught(|D| forks::cut_of_two_keys::<D>(), "fork");
    staying_init_mark_hangs: INIT_MARK_STAYS, hangs(|D| races::a_panicking_init_releases_the_waiters::<D>());
    swap_race_is_caught_by_handing_out: SWAP_RACE,
        caught(|D| races::swap_hands_out_each_value_once::<D>(), "");
    take_race_is_caught_by_tokens: TAKE_RACE,
        caught(|D| races::take_takes_each_value_once::<D>(), "taken twice, or lost");
    losing_retain_is_caught_by_panics: RETAIN_LOSES,
        caught(|D| panics::at_every_call::<D>(HashPlan::HalfHigh, Event::Closure), "retain");
    collision_blindness_is_caught_by_constant_hashes: COLLISION_BLIND,
        caught(|D| sequential::model::<D>(HashPlan::Constant), "expected");
    collision_blindness_is_caught_by_near_collisions: COLLISION_BLIND,
        caught(|D| sequential::model::<D>(HashPlan::HalfMiddle), "expected");
    second_hash_is_caught_by_counting: HASHES_TWICE,
        caught(|D| sequential::each_operation_hashes_once::<D>(), "hashes taken");
    torn_batch_is_caught_by_the_whole_map_search: BATCH_TORN,
        caught(|D| linear::whole_map::<D>(), "no linearization");
    torn_batch_is_caught_by_a_token: BATCH_TORN,
        caught(|D| races::a_moving_token_is_never_out_of_sight::<D>(), "misses the token");
    second_closure_is_caught_by_counting: CLOSURE_TWICE,
        caught(|D| races::upsert_loses_no_update::<D>(), "more than once");
    overflowing_capacity_is_caught_by_extremes: CAPACITY_OVERFLOW,
        caught(|D| sequential::capacity_extremes::<D>(), "does not say why");
    moving_route_is_caught: ROUTE_MOVES, caught(|D| routed::keys_have_one_partition::<D>(), "partition changes");
    staying_snapshots_are_caught_by_living_values: SNAPSHOTS_STAY,
        caught(|D| snapshots::views_keep_only_what_they_show::<D>(), "keeps more");
    swallowed_panic_is_caught_by_the_caller: SWALLOWS_PANICS,
        caught(|D| panics::at_every_call::<D>(HashPlan::HalfHigh, Event::Closure), "does not see the panic");
}

#[test]
fn kept_places_are_caught_by_resident_memory() {
    // As in the suite: in a process of its own, whose memory no other test changes.
    run_alone(
        module_path!(),
        "kept_places_are_caught_by_resident_memory",
        || {
            type Keeper = Broken<{ fault::KEEPS_PLACES }>;
            caught(
                drops::resident_memory_does_not_grow::<Keeper>,
                "resident pages",
            );
        },
    );
}

#[test]
fn claimed_bulk_load_at_once_is_caught_by_the_whole_map_search() {
    caught(
        linear::whole_map::<ClaimsBulkLoadAtOnce>,
        "no linearization",
    );
}

#[test]
fn every_fault_has_its_test() {
    for (number, name) in fault::ALL {
        assert!(
            COVERED.contains(&number) || number == fault::KEEPS_PLACES,
            "no test shows which check finds `{name}`"
        );
    }
}
