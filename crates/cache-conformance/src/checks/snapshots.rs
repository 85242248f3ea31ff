//! Views: frozen, whole, in order of time, and no heavier than what they show.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

use cache_api::{BulkLoad, Cache, Consistency, DefaultHashBuilder, Iterate, SnapshotView, Update};
use proptest::test_runner::TestCaseError;

use crate::checks::sequential::{apply, property, same, sorted};
use crate::design::SnapshotDesign;
use crate::keys::{HashPlan, PassThrough, PlanKey};
use crate::lab::{Lab, LabKey, LabValue};
use crate::rng::{Rng, jitter, set_jitter};
use crate::run::{Raise, scaled, threads};

/// Compares everything that a view answers with a model.
pub(crate) fn compare_view<W>(
    view: &W,
    model: &HashMap<u64, u64>,
    plan: HashPlan,
) -> Result<(), TestCaseError>
where
    W: SnapshotView<PlanKey, u64>,
{
    let mut entries: Vec<(u64, u64)> = view.iter().map(|(key, value)| (key.id, *value)).collect();
    entries.sort_unstable();
    same!(entries, sorted(model), "iter of a view");
    same!(view.len(), model.len(), "len of a view");
    same!(view.is_empty(), model.is_empty(), "is_empty of a view");
    let keys: Vec<PlanKey> = (0..100).map(|id| PlanKey::new(id, plan)).collect();
    for key in &keys {
        let expected = model.get(&key.id);
        same!(view.get_ref(key), expected, "get_ref of a view");
        same!(view.get(key).as_ref(), expected, "get of a view");
        same!(
            view.get_with(key, |v| v ^ 1),
            expected.map(|v| v ^ 1),
            "get_with of a view"
        );
        same!(
            view.contains_key(key),
            expected.is_some(),
            "contains_key of a view"
        );
    }
    let expected: Vec<Option<u64>> = keys.iter().map(|key| model.get(&key.id).copied()).collect();
    same!(view.get_batch(&keys), expected, "get_batch of a view");
    Ok(())
}

/// Random sequences with snapshots at random points: each view shows its moment, at once and at the end, when the
/// map itself is gone.
pub fn model<D: SnapshotDesign>(plan: HashPlan) {
    property(40, 100, &|steps| {
        let map = D::build::<PlanKey, u64, _>(None, PassThrough);
        let mut model = HashMap::new();
        let mut views = Vec::new();
        let mut rng = Rng::new(steps.len() as u64);
        for step in steps {
            apply(&map, &mut model, step, plan)?;
            if rng.below(6) == 0 {
                let view = D::snapshot(&map);
                // Half of the views are read for the first time when much has been written since.
                if rng.below(2) == 0 {
                    compare_view(&view, &model, plan)?;
                }
                views.push((view, model.clone()));
            }
        }
        drop(map);
        views
            .iter()
            .try_for_each(|(view, model)| compare_view(view, model, plan))
    });
}

/// Views can be sent to and shared with other threads.
pub fn send_and_sync<D: SnapshotDesign>() {
    fn assert_send_sync<T: Send + Sync + 'static>() {}
    assert_send_sync::<D::View<u64, String, DefaultHashBuilder>>();
}

/// A view, what it showed of two keys, and its length.
type Held<D> = (
    <D as SnapshotDesign>::View<PlanKey, u64, PassThrough>,
    u64,
    u64,
    usize,
);

/// Two keys of one cut: of the whole map where views are cuts of it, else of one partition, where the design tells.
fn pair<D: SnapshotDesign>(
    map: &D::Map<PlanKey, u64, PassThrough>,
    plan: HashPlan,
) -> Option<(PlanKey, PlanKey)> {
    let first = PlanKey::new(1, plan);
    if D::SNAPSHOT == Consistency::Snapshot {
        return Some((first, PlanKey::new(2, plan)));
    }
    let home = D::partition_of(map, &first)?;
    let second = (2..100_000)
        .map(|id| PlanKey::new(id, plan))
        .find(|key| D::partition_of(map, key) == Some(home))?;
    Some((first, second))
}

/// One thread writes version n to a, then to b: every view shows b <= a <= b + 1; later views are never behind
/// earlier ones, the live map never behind a view, and a held view reads the same again.
pub fn cut_of_two_keys<D: SnapshotDesign>() {
    let rounds = scaled(4_000) as u64;
    for plan in [HashPlan::Good, HashPlan::HalfHigh, HashPlan::Constant] {
        let map = D::build::<PlanKey, u64, _>(None, PassThrough);
        let Some((a, b)) = pair::<D>(&map, plan) else {
            continue;
        };
        map.insert(a.clone(), 0);
        map.insert(b.clone(), 0);
        let over = AtomicBool::new(false);
        threads(3, |thread| {
            set_jitter(thread as u64);
            let filler = |n: u64| PlanKey::new((1 << 40) | (n % 50), plan);
            if thread == 0 {
                let _over = Raise(&over);
                for n in 1..=rounds {
                    map.insert(a.clone(), n);
                    // Growth and shrinkage around the pair.
                    if n % 3 == 0 {
                        map.insert(filler(n), n)
                    } else {
                        map.remove(&filler(n))
                    }
                    map.insert(b.clone(), n);
                }
                return;
            }
            let mut last = (0, 0);
            let mut held: Option<Held<D>> = None;
            let mut turn = 0_u64;
            while !over.load(Ordering::Acquire) {
                turn += 1;
                let view = D::snapshot(&map);
                let live = map.get(&b).expect("always there");
                let (seen_a, seen_b) = (
                    view.get(&a).expect("always there"),
                    view.get(&b).expect("always there"),
                );
                assert!(
                    seen_b <= seen_a && seen_a <= seen_b + 1,
                    "a torn view: a = {seen_a}, b = {seen_b}"
                );
                assert!(
                    seen_a >= last.0 && seen_b >= last.1,
                    "a view is older than the one before"
                );
                assert!(
                    live >= seen_b,
                    "the live map ({live}) is behind a view taken before ({seen_b})"
                );
                last = (seen_a, seen_b);
                // All ways to read a view agree.
                let found = view
                    .iter()
                    .filter(|(key, _)| **key == a || **key == b)
                    .map(|(_, value)| *value)
                    .max();
                assert_eq!(found, Some(seen_a), "iter and get of one view differ");
                assert_eq!(
                    view.iter().count(),
                    view.len(),
                    "len and iter of one view differ"
                );
                if let Some((old, old_a, old_b, len)) = &held {
                    let again = (old.get(&a), old.get(&b), old.len());
                    assert_eq!(
                        again,
                        (Some(*old_a), Some(*old_b), *len),
                        "a held view changed"
                    );
                }
                if turn % 64 == 1 {
                    let len = view.len();
                    held = Some((view, seen_a, seen_b, len));
                }
            }
        });
    }
}

/// A token moves between two keys, always inserted before it is removed: every view holds it.
pub fn a_moving_token_is_in_every_view<D: SnapshotDesign>() {
    let rounds = scaled(4_000);
    for plan in [HashPlan::Good, HashPlan::Constant] {
        let map = D::build::<PlanKey, u64, _>(None, PassThrough);
        let Some((a, b)) = pair::<D>(&map, plan) else {
            continue;
        };
        map.insert(a.clone(), 0);
        let over = AtomicBool::new(false);
        threads(2, |thread| {
            set_jitter(thread as u64);
            if thread == 0 {
                let _over = Raise(&over);
                for round in 0..rounds {
                    let (from, to) = if round % 2 == 0 { (&a, &b) } else { (&b, &a) };
                    map.insert(to.clone(), round as u64);
                    jitter();
                    map.remove(from);
                    jitter();
                }
                return;
            }
            while !over.load(Ordering::Acquire) {
                let view = D::snapshot(&map);
                let (in_a, in_b) = (view.contains_key(&a), view.contains_key(&b));
                assert!(in_a || in_b, "a view misses the token");
                assert_eq!(
                    view.len(),
                    usize::from(in_a) + usize::from(in_b),
                    "len of the view"
                );
            }
        });
    }
}

/// Snapshots from four threads at once, amid writes: no writer loses anything, all views are frozen.
pub fn many_at_once<D: SnapshotDesign>() {
    let rounds = scaled(400) as u64;
    let map = D::build::<PlanKey, u64, _>(None, PassThrough);
    threads(4, |thread| {
        set_jitter(thread as u64);
        let mut views = Vec::new();
        for round in 0..rounds {
            let own = PlanKey::new(((thread as u64) << 32) | (round % 40), HashPlan::Good);
            map.insert(own.clone(), round);
            let view = D::snapshot(&map);
            // Every other view is only read after later writes.
            if round % 2 == 0 {
                assert_eq!(
                    view.get(&own),
                    Some(round),
                    "a view misses its own thread's write"
                );
            }
            map.upsert(PlanKey::new(1 << 50, HashPlan::Good), |old| {
                old.map_or(1, |n| n + 1)
            });
            map.remove(&own);
            assert!(
                !map.contains_key(&own),
                "a removed key is back in the live map"
            );
            assert_eq!(view.get(&own), Some(round), "a later write shows in a view");
            views.push((view, own, round));
            if views.len() > 20 {
                views.remove(0);
            }
        }
        for (view, own, round) in views {
            assert_eq!(view.get(&own), Some(round), "a later write shows in a view");
        }
    });
    assert_eq!(
        map.get(&PlanKey::new(1 << 50, HashPlan::Good)),
        Some(4 * rounds),
        "increments are lost amid snapshots"
    );
    assert_eq!(map.len(), 1);
}

/// A view keeps what it shows, and nothing else: with it dropped, all is gone.
pub fn views_keep_only_what_they_show<D: SnapshotDesign>() {
    let keys = if D::LINEAR_WRITES {
        scaled(200)
    } else {
        scaled(2_000)
    } as u64;
    for plan in [HashPlan::Good, HashPlan::HalfLow] {
        let keys = if plan == HashPlan::Good { keys } else { 128 };
        let lab = Lab::open();
        let map = D::build::<LabKey, LabValue, _>(None, PassThrough);
        (0..keys).for_each(|id| map.insert(lab.key(id, plan), lab.value(0)));
        let view = D::snapshot(&map);
        for round in 1..5 {
            (0..keys).for_each(|id| map.insert(lab.key(id, plan), lab.value(round)));
        }
        map.len();
        D::quiesce(&map);
        // Which of two equal keys is kept is unspecified, so only values can be counted exactly.
        settle::<D>(lab, 2 * keys as usize);
        drop(view);
        D::quiesce(&map);
        settle::<D>(lab, keys as usize);
        let view = D::snapshot(&map);
        map.clear();
        D::quiesce(&map);
        settle::<D>(lab, keys as usize);
        drop(map);
        assert_eq!(
            view.iter().filter(|(_, value)| value.number == 4).count(),
            keys as usize
        );
        drop(view);
        lab.assert_living::<D>(0, 0);
    }
}

fn settle<D: SnapshotDesign>(lab: &'static Lab, values: usize) {
    let start = std::time::Instant::now();
    while lab.living().1 != values && start.elapsed() < std::time::Duration::from_secs(10) {
        D::collect();
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    assert_eq!(
        lab.living().1,
        values,
        "living values: a view keeps more, or less, than it shows"
    );
    lab.assert_no_double_drop();
}

/// Views taken, read and dropped by four threads amid every kind of write: everything is dropped once.
pub fn each_is_dropped_once<D: SnapshotDesign>() {
    for plan in [HashPlan::Good, HashPlan::HalfHigh, HashPlan::Constant] {
        let lab = Lab::open();
        let map = D::build::<LabKey, LabValue, _>(None, PassThrough);
        let key = |id| lab.key(id, plan);
        let kept = threads(4, |thread| {
            set_jitter(thread as u64);
            let mut rng = Rng::new(thread as u64);
            let mut kept = None;
            for _ in 0..scaled(400) {
                let id = rng.draw() % 32;
                match rng.below(8) {
                    0 | 1 => map.insert(key(id), lab.value(id)),
                    2 => map.remove(&key(id)),
                    3 => map.upsert(key(id), |_| lab.value(id)),
                    4 => map.bulk_load((0..8).map(|n| (key(n), lab.value(n)))),
                    5 if rng.below(4) == 0 => map.clear(),
                    6 => kept = Some(D::snapshot(&map)),
                    _ => {
                        let view = D::snapshot(&map);
                        assert!(view.iter().all(|(key, value)| key.id == value.number));
                    }
                }
            }
            kept
        });
        drop(map);
        for view in kept.iter().flatten() {
            assert_eq!(view.iter().count(), view.len());
            assert!(
                view.iter().all(|(key, value)| key.id == value.number),
                "a view outlives the map unharmed"
            );
        }
        lab.assert_no_double_drop();
        drop(kept);
        lab.assert_living::<D>(0, 0);
    }
}
