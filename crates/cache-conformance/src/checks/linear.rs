//! Linearizability of recorded histories: each key on its own, and the whole map for small histories.

use cache_api::{BulkLoad, Cache, Consistency, GetBatch, Iterate, SnapshotView};

use crate::design::{Design, ForkDesign, FullMap, SnapshotDesign};
use crate::keys::{HashPlan, PassThrough, PlanKey};
use crate::linearizability::{
    Call, Clock, Content, KEYS, KeyAnswer, KeyCall, Log, MapAnswer, MapCall, check_keys, check_map,
};
use crate::rng::{Rng, jitter, set_jitter};
use crate::run::{scaled, threads};

/// Calls `call` on `key` and returns the answer. Odd and even values both occur, as `RemoveIfOdd` needs.
fn perform<M: FullMap<PlanKey, u64>>(map: &M, key: &PlanKey, call: KeyCall) -> KeyAnswer {
    match call {
        KeyCall::Get => KeyAnswer::Value(map.get(key)),
        KeyCall::Contains => KeyAnswer::Flag(map.contains_key(key)),
        KeyCall::Insert(value) => {
            map.insert(key.clone(), value);
            KeyAnswer::Done
        }
        KeyCall::Remove => {
            map.remove(key);
            KeyAnswer::Done
        }
        KeyCall::Swap(value) => KeyAnswer::Value(map.swap(key.clone(), value)),
        KeyCall::Take => KeyAnswer::Value(map.take(key)),
        KeyCall::Upsert(value) => {
            let mut seen = None;
            map.upsert(key.clone(), |old| {
                seen = old.copied();
                jitter();
                value
            });
            KeyAnswer::Value(seen)
        }
        KeyCall::GetOrInsert(value) => {
            KeyAnswer::Value(Some(map.get_or_insert_with(key.clone(), || {
                jitter();
                value
            })))
        }
        KeyCall::RemoveIfOdd => KeyAnswer::Flag(map.remove_if(key, |value| {
            jitter();
            value % 2 == 1
        })),
    }
}

fn draw(rng: &mut Rng, value: u64) -> KeyCall {
    match rng.below(12) {
        0..=2 => KeyCall::Get,
        3 => KeyCall::Contains,
        4 | 5 => KeyCall::Insert(value),
        6 => KeyCall::Remove,
        7 => KeyCall::Swap(value),
        8 => KeyCall::Take,
        9 => KeyCall::Upsert(value),
        10 => KeyCall::GetOrInsert(value),
        _ => KeyCall::RemoveIfOdd,
    }
}

/// Every one-key operation is linearizable on every key, while the map grows from empty.
///
/// # Panics
///
/// With the history and its seed, where a history has no linearization.
pub fn each_key<D: Design>(plan: HashPlan) {
    const THREADS: usize = 4;
    const CALLS: usize = 60;
    // Under constant hashes every operation compares with every key: fewer rounds, fewer fillers.
    let constant = plan == HashPlan::Constant;
    let (rounds, one_in) = if constant { (60, 16) } else { (200, 4) };
    for seed in 0..scaled(rounds) as u64 {
        let map = D::build::<PlanKey, u64, _>(None, PassThrough);
        let clock = Clock::new();
        let logs = threads(THREADS, |thread| {
            let mut rng = Rng::new(seed << 8 | thread as u64);
            set_jitter(rng.draw());
            let mut log = Log::new(&clock, thread);
            for index in 0..CALLS {
                let key = rng.below(3) as u64;
                let value = (index * THREADS + thread + 1) as u64;
                let call = draw(&mut rng, value);
                log.record((key, call), |_| {
                    perform(&map, &PlanKey::new(key, plan), call)
                });
                jitter();
                // Unrecorded keys that make the map grow and shrink around the recorded ones.
                let filler = (1_000 * (thread + 1) + index) as u64;
                if rng.below(one_in) == 0 {
                    map.insert(PlanKey::new(filler, plan), 0);
                } else if rng.below(12) == 0 {
                    map.remove(&PlanKey::new(filler - 1, plan));
                }
            }
            log.into_calls()
        });
        let calls: Vec<Call<(u64, KeyCall), KeyAnswer>> = logs.into_iter().flatten().collect();
        if let Err(why) = check_keys(&calls) {
            panic!("seed {seed}, {plan:?} hashes: {why}");
        }
    }
}

/// What can be asked of a whole map in one moment: which extra calls a history may hold.
struct Whole<'a, M, V> {
    len: bool,
    clear: bool,
    visit: bool,
    batch: bool,
    bulk_load: bool,
    /// Takes a view, which is only read when the round is over, and reads it.
    #[allow(clippy::type_complexity, reason = "two closures, named right here")]
    snapshot: Option<(
        &'a (dyn Fn(&M) -> V + Sync),
        &'a (dyn Fn(&V) -> Content + Sync),
    )>,
}

fn content_of(entries: impl Iterator<Item = (u64, u64)>) -> Content {
    let mut content = [None; KEYS];
    for (key, value) in entries {
        let slot = content
            .get_mut(key as usize)
            .unwrap_or_else(|| panic!("key {key} was never inserted"));
        assert!(slot.is_none(), "key {key} is visited twice");
        *slot = Some(value);
    }
    content
}

fn whole<D: Design, V: Send>(
    whole: &Whole<'_, D::Map<PlanKey, u64, PassThrough>, V>,
    rounds: usize,
) {
    const THREADS: usize = 3;
    const CALLS: usize = 8;
    for seed in 0..scaled(rounds) as u64 {
        let plan = HashPlan::ALL[seed as usize % HashPlan::ALL.len()];
        // Under good hashes, keys spread over the shards differently in each round.
        let base = (seed % 50) * 100;
        let key = |index: usize| PlanKey::new(base + index as u64, plan);
        let map = D::build::<PlanKey, u64, _>(None, PassThrough);
        let clock = Clock::new();
        let logs = threads(THREADS, |thread| {
            let mut rng = Rng::new(seed << 8 | thread as u64);
            set_jitter(rng.draw());
            let mut log: Log<'_, MapCall, MapAnswer> = Log::new(&clock, thread);
            let mut views = Vec::new();
            for index in 0..CALLS {
                let value = (index * THREADS + thread + 1) as u64;
                let on_key = |rng: &mut Rng| MapCall::Key(rng.below(KEYS), draw(rng, value));
                let input = match rng.below(16) {
                    0 if whole.clear => MapCall::Clear,
                    1 | 2 if whole.len => MapCall::Len,
                    3 | 4 if whole.batch => {
                        MapCall::Batch((0..3).map(|_| rng.below(KEYS)).collect())
                    }
                    5 if whole.bulk_load => MapCall::BulkLoad(
                        (0..3)
                            .map(|n| (rng.below(KEYS), value + 100 * (n + 1)))
                            .collect(),
                    ),
                    6 if whole.visit => MapCall::Content,
                    7..=9 if whole.snapshot.is_some() => MapCall::Content,
                    10 | 11 => MapCall::Key(rng.below(KEYS), KeyCall::Insert(value)),
                    12 => MapCall::Key(rng.below(KEYS), KeyCall::Remove),
                    _ => on_key(&mut rng),
                };
                let mut view = None;
                // Snapshots and visits are one kind of call to the checker; which one is drawn here.
                let by_snapshot = whole.snapshot.filter(|_| !whole.visit || rng.below(4) > 0);
                log.record(input, |input| match input {
                    MapCall::Key(index, call) => MapAnswer::Key(perform(&map, &key(*index), *call)),
                    MapCall::Clear => {
                        map.clear();
                        MapAnswer::Done
                    }
                    MapCall::Len => MapAnswer::Len(map.len()),
                    MapCall::Batch(indices) => {
                        let keys: Vec<PlanKey> = indices.iter().map(|index| key(*index)).collect();
                        MapAnswer::Batch(map.get_batch(&keys))
                    }
                    MapCall::BulkLoad(entries) => {
                        map.bulk_load(entries.iter().map(|(index, value)| (key(*index), *value)));
                        MapAnswer::Done
                    }
                    MapCall::Content => match by_snapshot {
                        Some((take, _)) => {
                            view = Some(take(&map));
                            MapAnswer::Done
                        }
                        None => {
                            let mut entries = Vec::new();
                            map.for_each(|key, value| {
                                jitter();
                                entries.push((key.id - base, *value));
                            });
                            MapAnswer::Content(content_of(entries.into_iter()))
                        }
                    },
                });
                if let Some(view) = view {
                    views.push((log.calls_mut().len() - 1, view));
                }
                jitter();
            }
            // Views are read after the thread's last write: what was frozen then must still be so.
            if let Some((_, read)) = whole.snapshot {
                for (index, view) in &views {
                    let mut content = [None; KEYS];
                    for (slot, value) in content.iter_mut().zip(read(view)) {
                        *slot = value;
                    }
                    let end = log.calls_mut()[*index]
                        .end
                        .as_mut()
                        .expect("the snapshot returned");
                    end.1 = MapAnswer::Content(content);
                }
            }
            log.into_calls()
        });
        let calls: Vec<Call<MapCall, MapAnswer>> = logs.into_iter().flatten().collect();
        if let Err(why) = check_map(&calls) {
            panic!("seed {seed}, {plan:?} hashes: {why}");
        }
    }
}

fn promises<'a, D: Design, V>() -> Whole<'a, D::Map<PlanKey, u64, PassThrough>, V> {
    let batch = <D::Map<PlanKey, u64, PassThrough> as GetBatch<PlanKey, u64>>::CONSISTENCY;
    Whole {
        len: D::LEN == Consistency::Snapshot,
        clear: D::CLEAR == Consistency::Snapshot,
        visit: D::VISIT == Consistency::Snapshot,
        batch: batch == Consistency::Snapshot,
        bulk_load: D::BULK_LOAD_AT_ONCE,
        snapshot: None,
    }
}

/// Small histories of the whole map: `len`, `clear`, visits, batches and bulk loads (each where the design promises
/// one moment) among calls on single keys.
///
/// # Panics
///
/// With the history and its seed, where a history has no linearization.
pub fn whole_map<D: Design>() {
    whole::<D, ()>(&promises::<D, ()>(), 1_200);
}

/// As [`whole_map`], with snapshots; they are read only after later writes.
///
/// # Panics
///
/// With the history and its seed, where a history has no linearization.
pub fn whole_map_with_snapshots<D: SnapshotDesign>() {
    if D::SNAPSHOT != Consistency::Snapshot {
        // Views of partitioned designs are cuts of each partition only: `snapshots::cut_of_two_keys` looks at those.
        return;
    }
    type View<D> = <D as SnapshotDesign>::View<PlanKey, u64, PassThrough>;
    let read = |view: &View<D>| {
        let base = view
            .iter()
            .map(|(key, _)| key.id / 100 * 100)
            .min()
            .unwrap_or(0);
        content_of(view.iter().map(|(key, value)| (key.id - base, *value)))
    };
    let take = |map: &D::Map<PlanKey, u64, PassThrough>| D::snapshot(map);
    let mut promises = promises::<D, View<D>>();
    promises.snapshot = Some((&take, &read));
    whole::<D, View<D>>(&promises, 1_200);
}

/// As [`whole_map`], with forks; each is written to, and read only after later writes to the original.
///
/// # Panics
///
/// With the history and its seed, where a history has no linearization.
pub fn whole_map_with_forks<D: ForkDesign>() {
    type Map<D> = <D as Design>::Map<PlanKey, u64, PassThrough>;
    const MARK: u64 = u64::MAX;
    let take = |map: &Map<D>| {
        let fork = D::fork(map);
        // A write to the fork that the original must never show.
        fork.insert(PlanKey::new(MARK, HashPlan::Good), 1);
        fork
    };
    let read = |fork: &Map<D>| {
        let entries: Vec<(u64, u64)> = fork
            .entries()
            .iter()
            .map(|(key, value)| (key.id, *value))
            .filter(|(id, _)| *id != MARK)
            .collect();
        let base = entries
            .iter()
            .map(|(id, _)| id / 100 * 100)
            .min()
            .unwrap_or(0);
        content_of(entries.into_iter().map(|(id, value)| (id - base, value)))
    };
    let mut promises = promises::<D, Map<D>>();
    promises.snapshot = Some((&take, &read));
    whole::<D, Map<D>>(&promises, 800);
}
