//! Every key and every value is dropped exactly once, and none is kept for ever.

use cache_api::{BulkLoad, Cache, Iterate};

use crate::design::{Design, FullMap, SequentialDesign};
use crate::keys::{HashPlan, PassThrough};
use crate::lab::{Lab, LabKey, LabValue};
use crate::rng::{Rng, set_jitter};
use crate::run::{scaled, threads};

/// One random operation that makes, replaces, removes or loses keys and values.
fn churn<M: FullMap<LabKey, LabValue>>(map: &M, lab: &'static Lab, plan: HashPlan, rng: &mut Rng) {
    let id = rng.draw() % 48;
    let key = |id| lab.key(id, plan);
    let number = rng.draw();
    match rng.below(16) {
        0..=2 => map.insert(key(id), lab.value(number)),
        3 => map.remove(&key(id)),
        4 => drop(map.swap(key(id), lab.value(number))),
        5 => drop(map.take(&key(id))),
        6 => map.upsert(key(id), |old| {
            lab.value(old.map_or(0, |old| old.number ^ 1))
        }),
        // Often a loser: the key is there, or another thread wins.
        7 | 8 => drop(map.get_or_insert_with(key(id), || lab.value(number))),
        9 => drop(map.remove_if(&key(id), |value| value.number % 2 == 0)),
        10 => map.bulk_load((0..12).map(|n| (key((id + n % 5) % 48), lab.value(n)))),
        11 => map.retain(|_, value| value.number % 5 > 0),
        12 if rng.below(8) == 0 => map.clear(),
        13 => drop(map.get_batch(&[key(id), key(id), key(99)])),
        14 => drop(map.entries()),
        _ => drop(map.get(&key(id))),
    }
}

/// Inserts, replacements, failed inserts, removals, losers of `get_or_insert_with`, bulk loads with repeats: when
/// the map is gone, so are all keys and values, each dropped once; before that, what lives is what it holds.
pub fn each_is_dropped_once<D: SequentialDesign>() {
    for (round, plan) in HashPlan::ALL.into_iter().enumerate() {
        let lab = Lab::open();
        let map = D::build::<LabKey, LabValue, _>(None, PassThrough);
        let mut rng = Rng::new(round as u64);
        for _ in 0..scaled(1_500) {
            churn(&map, lab, plan, &mut rng);
        }
        let len = map.len();
        D::quiesce(&map);
        lab.assert_living::<D>(len, len);
        map.clear();
        assert!(map.is_empty());
        D::quiesce(&map);
        lab.assert_living::<D>(0, 0);
        map.bulk_load((0..100).map(|id| (lab.key(id % 60, plan), lab.value(id))));
        drop(map);
        lab.assert_living::<D>(0, 0);
    }
}

/// The same under four threads.
pub fn each_is_dropped_once_under_threads<D: Design>() {
    for (round, plan) in HashPlan::ALL.into_iter().enumerate() {
        let lab = Lab::open();
        let map = D::build::<LabKey, LabValue, _>(None, PassThrough);
        threads(4, |thread| {
            let seed = (round * 4 + thread) as u64;
            set_jitter(seed);
            let mut rng = Rng::new(seed);
            for _ in 0..scaled(400) {
                churn(&map, lab, plan, &mut rng);
            }
        });
        let len = map.len();
        D::quiesce(&map);
        lab.assert_living::<D>(len, len);
        drop(map);
        lab.assert_living::<D>(0, 0);
    }
}

/// Fills and empties a map five times: each time the live keys and values go back to none.
pub fn emptied_maps_keep_nothing<D: SequentialDesign>() {
    let keys = if D::LINEAR_WRITES {
        scaled(500)
    } else {
        scaled(20_000)
    } as u64;
    let lab = Lab::open();
    let map = D::build::<LabKey, LabValue, _>(None, PassThrough);
    for round in 0..5 {
        (0..keys).for_each(|id| map.insert(lab.key(id, HashPlan::Good), lab.value(id)));
        assert_eq!(map.len(), keys as usize);
        match round % 3 {
            0 => (0..keys).for_each(|id| map.remove(&lab.key(id, HashPlan::Good))),
            1 => map.retain(|_, _| false),
            _ => map.clear(),
        }
        assert_eq!(map.len(), 0, "round {round}");
        D::quiesce(&map);
        lab.assert_living::<D>(0, 0);
    }
}

/// Fills and empties a map five times, alone in a process of its own: resident memory does not grow from round to
/// round. Only where the operating system tells (`/proc/self/statm`).
pub fn resident_memory_does_not_grow<D: SequentialDesign>() {
    let keys = if D::LINEAR_WRITES {
        scaled(600)
    } else {
        scaled(60_000)
    } as u64;
    let map = D::build::<u64, [u64; 8], _>(None, PassThrough);
    let mut pages = Vec::new();
    for round in 0..6_u64 {
        // Other keys in each round: growth by leftovers of dead keys shows as well.
        let key = |n: u64| crate::rng::mix(round << 32 | n);
        (0..keys).for_each(|n| map.insert(key(n), [n; 8]));
        (0..keys).for_each(|n| map.remove(&key(n)));
        assert_eq!(map.len(), 0);
        D::quiesce(&map);
        for _ in 0..64 {
            D::collect();
        }
        let Some(resident) = resident_pages() else {
            return;
        };
        pages.push(resident);
    }
    // Two rounds to warm up; a quarter and a mebibyte of slack for the allocator's habits.
    let (early, late) = (pages[1], pages[5]);
    assert!(
        late <= early + early / 4 + 256,
        "resident pages after each round: {pages:?}"
    );
}

fn resident_pages() -> Option<usize> {
    std::fs::read_to_string("/proc/self/statm")
        .ok()?
        .split_whitespace()
        .nth(1)?
        .parse()
        .ok()
}
