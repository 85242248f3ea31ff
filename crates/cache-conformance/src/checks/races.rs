//! Races that users of concurrent maps ran into: lost updates, values handed out twice, wrong lengths, deadlocks.

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use cache_api::{
    BulkLoad, Cache, ClosureRuns, Consistency, DefaultHashBuilder, GetBatch, Iterate, Update,
};

use crate::design::Design;
use crate::keys::{HashPlan, PassThrough, PlanKey};
use crate::lab::{Event, Lab, LabKey, LabValue};
use crate::rng::{Rng, jitter, set_jitter};
use crate::run::{CountDown, Raise, ignore, scaled, threads};

fn hasher() -> DefaultHashBuilder {
    DefaultHashBuilder::with_seed(5)
}

/// A value got from the map stays what it was while its entry is replaced and removed, and blocks nothing.
pub fn a_kept_value_blocks_nothing<D: Design>() {
    let map = D::build::<String, Arc<str>, _>(None, hasher());
    map.insert("k1".into(), "old".into());
    let kept = map.get("k1").expect("just inserted");
    map.insert("k1".into(), "new".into());
    map.insert("k2".into(), "other".into());
    map.remove("k1");
    assert_eq!(map.len(), 1);
    assert_eq!(&*kept, "old", "the kept value changed");
}

/// Two threads each hold (in a closure or a clone) their own key's value and write the other's key.
pub fn crossed_writes_do_not_deadlock<D: Design>() {
    let rounds = scaled(20_000) as u64;
    let map = D::build::<u64, u64, _>(None, hasher());
    threads(2, |thread| {
        let thread = thread as u64;
        for round in 0..rounds {
            // Keys spread over all shards; two per round.
            let pair = [round % 509 * 2, round % 509 * 2 + 1];
            let (own, other) = (pair[thread as usize], pair[1 - thread as usize]);
            let held = map.get(&own);
            map.insert(other, round << 1 | thread);
            assert!(
                held.is_none_or(|value| value >> 1 <= rounds),
                "a value that nobody wrote"
            );
        }
    });
    map.for_each(|key, value| {
        assert!(
            *key < 1_018 && value >> 1 < rounds,
            "key {key} holds {value}, which nobody wrote"
        );
        // Thread 0 writes odd keys, thread 1 even ones.
        assert_eq!(
            value & 1,
            1 - key % 2,
            "key {key} holds a value written for another key"
        );
    });
    assert_eq!(map.len(), 1_018.min(2 * rounds as usize));
}

/// `clear` of an empty map, twice and by four threads at once, returns and leaves a map that works.
pub fn clearing_an_empty_map<D: Design>() {
    for _ in 0..scaled(50) {
        let map = D::build::<u64, u64, _>(None, hasher());
        map.clear();
        map.clear();
        threads(4, |_| map.clear());
        assert_eq!(map.len(), 0);
        map.insert(1, 1);
        assert_eq!(
            (map.len(), map.get(&1)),
            (1, Some(1)),
            "an insert after clear is lost"
        );
        threads(4, |_| map.clear());
        assert!(
            map.is_empty() && map.get(&1).is_none(),
            "clear leaves an entry behind"
        );
    }
}

/// Entries inserted before a clear are gone after it; entries inserted after it stay, whoever clears.
pub fn clear_takes_effect_during_the_call<D: Design>() {
    let rounds = if D::LINEAR_WRITES {
        scaled(200)
    } else {
        scaled(1_000)
    } as u64;
    let map = D::build::<u64, u64, _>(None, hasher());
    threads(3, |thread| {
        let mut rng = Rng::new(thread as u64);
        set_jitter(rng.draw());
        for round in 0..rounds {
            if thread == 0 {
                // Only this thread inserts keys below 1000, and only this thread clears.
                let key = round % 1_000;
                map.insert(key, round);
                map.clear();
                assert!(!map.contains_key(&key), "an entry survives a later clear");
                map.insert(key, round);
                jitter();
                assert_eq!(
                    map.get(&key),
                    Some(round),
                    "an entry is lost to an earlier clear"
                );
            } else {
                map.insert(1_000 + rng.draw() % 64, round);
                jitter();
            }
        }
    });
    map.clear();
    assert_eq!(
        (map.len(), map.entries()),
        (0, Vec::new()),
        "clear of a quiet map leaves entries"
    );
}

/// Counters incremented by `upsert` from four threads lose nothing; the closure runs once where that is promised.
pub fn upsert_loses_no_update<D: Design>() {
    const KEYS: u64 = 3;
    let rounds = scaled(3_000) as u64;
    let map = D::build::<PlanKey, u64, _>(None, PassThrough);
    let runs = AtomicU64::new(0);
    threads(4, |thread| {
        set_jitter(thread as u64);
        for round in 0..rounds {
            map.upsert(PlanKey::new(round % KEYS, HashPlan::HalfHigh), |old| {
                runs.fetch_add(1, Ordering::Relaxed);
                jitter();
                old.map_or(1, |n| n + 1)
            });
        }
    });
    let total: u64 = map.values().iter().sum();
    assert_eq!(total, 4 * rounds, "increments are lost");
    let runs = runs.into_inner();
    match <D::Map<PlanKey, u64, PassThrough> as Update<PlanKey, u64>>::CLOSURE_RUNS {
        ClosureRuns::Once => {
            assert_eq!(runs, 4 * rounds, "the closure runs more than once per call")
        }
        ClosureRuns::PerAttempt => assert!(runs >= 4 * rounds),
    }
}

/// Eight threads swap one key: exactly one gets nothing, and every value but the last is handed out once.
pub fn swap_hands_out_each_value_once<D: Design>() {
    const THREADS: u64 = 8;
    let rounds = scaled(5_000) as u64;
    let map = D::build::<PlanKey, u64, _>(None, PassThrough);
    let key = || PlanKey::new(1, HashPlan::Good);
    let got = threads(THREADS as usize, |thread| {
        set_jitter(thread as u64);
        (0..rounds)
            .map(|round| map.swap(key(), thread as u64 * rounds + round))
            .collect::<Vec<_>>()
    });
    let got: Vec<Option<u64>> = got.into_iter().flatten().collect();
    assert_eq!(
        got.iter().filter(|value| value.is_none()).count(),
        1,
        "swaps that found nothing"
    );
    let mut values: Vec<u64> = got.into_iter().flatten().chain(map.get(&key())).collect();
    values.sort_unstable();
    assert!(
        values.into_iter().eq(0..THREADS * rounds),
        "values are handed out twice, or never"
    );
    assert_eq!(map.len(), 1);
}

/// Tokens are inserted by two threads and taken by two others: each is taken exactly once.
pub fn take_takes_each_value_once<D: Design>() {
    const KEYS: u64 = 4;
    let rounds = scaled(4_000) as u64;
    let map = D::build::<PlanKey, u64, _>(None, PassThrough);
    let key = |n| PlanKey::new(n % KEYS, HashPlan::HalfLow);
    let inserting = AtomicUsize::new(2);
    let logs = threads(4, |thread| {
        let thread = thread as u64;
        set_jitter(thread);
        let mut mine = Vec::new();
        if thread < 2 {
            let _counted = CountDown(&inserting);
            for round in 0..rounds {
                // `swap` tells which token it pushed out: that one counts as taken, too.
                mine.extend(map.swap(key(round), thread * rounds + round));
            }
        } else {
            let mut n = thread;
            loop {
                // Read before the round of takes: when it says 0, this round sees all there will be.
                let last = inserting.load(Ordering::Acquire) == 0;
                for _ in 0..KEYS {
                    n += 1;
                    mine.extend(map.take(&key(n)));
                }
                if last {
                    break;
                }
            }
        }
        mine
    });
    let mut taken: Vec<u64> = logs.into_iter().flatten().chain(map.values()).collect();
    taken.sort_unstable();
    assert!(
        taken.into_iter().eq(0..2 * rounds),
        "a token is taken twice, or lost"
    );
}

/// `remove_if` never removes a value that it did not test: values that fail the condition are never lost.
pub fn remove_if_removes_only_what_it_tested<D: Design>() {
    let rounds = scaled(4_000) as u64;
    let map = D::build::<PlanKey, u64, _>(None, PassThrough);
    let key = || PlanKey::new(1, HashPlan::Good);
    let over = AtomicBool::new(false);
    threads(3, |thread| {
        set_jitter(thread as u64);
        if thread > 0 {
            while !over.load(Ordering::Acquire) {
                map.remove_if(&key(), |value| {
                    jitter();
                    value % 2 == 1
                });
            }
            return;
        }
        let _over = Raise(&over);
        for round in 0..rounds {
            map.insert(key(), 2 * round + 1);
            jitter();
            map.insert(key(), 2 * round);
            jitter();
            assert_eq!(
                map.get(&key()),
                Some(2 * round),
                "remove_if removed a value that fails its condition"
            );
        }
    });
}

/// Eight threads ask for the same missing keys with different values: all get the same one, and `init` runs once
/// per key where that is promised.
pub fn get_or_insert_agrees<D: Design>() {
    const THREADS: usize = 8;
    let keys = scaled(if D::LINEAR_WRITES { 300 } else { 1_500 });
    let map = D::build::<PlanKey, u64, _>(None, PassThrough);
    let runs: Vec<AtomicUsize> = (0..keys).map(|_| AtomicUsize::new(0)).collect();
    let barrier = Barrier::new(THREADS);
    let answers = threads(THREADS, |thread| {
        set_jitter(thread as u64);
        let mut answers = Vec::with_capacity(keys);
        for (key, runs) in runs.iter().enumerate() {
            if key % 16 == 0 {
                barrier.wait();
            }
            answers.push(
                map.get_or_insert_with(PlanKey::new(key as u64, HashPlan::Good), || {
                    runs.fetch_add(1, Ordering::Relaxed);
                    jitter();
                    thread as u64
                }),
            );
        }
        answers
    });
    let exactly_once =
        <D::Map<PlanKey, u64, PassThrough> as Update<PlanKey, u64>>::INIT_EXACTLY_ONCE;
    for (key, runs) in runs.iter().enumerate() {
        let stored = map.get(&PlanKey::new(key as u64, HashPlan::Good));
        for answers in &answers {
            assert_eq!(
                Some(answers[key]),
                stored,
                "a thread got another value than the one stored for key {key}"
            );
        }
        let runs = runs.load(Ordering::Relaxed);
        assert!(
            runs >= 1 && (!exactly_once || runs == 1),
            "init ran {runs} times for key {key}"
        );
    }
    assert_eq!(map.len(), keys);
}

/// A panicking `init` of one thread: that thread alone sees the panic, the others get one common value.
pub fn a_panicking_init_releases_the_waiters<D: Design>() {
    const THREADS: usize = 8;
    for round in 0..scaled(60) as u64 {
        let map = D::build::<PlanKey, u64, _>(None, PassThrough);
        let key = || PlanKey::new(round, HashPlan::Good);
        let ran = AtomicBool::new(false);
        let answers = threads(THREADS, |thread| {
            set_jitter(round << 4 | thread as u64);
            // In every second round nobody is before thread 0; in the others, whoever comes first.
            while round % 2 == 0 && thread > 0 && !ran.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
            catch_unwind(AssertUnwindSafe(|| {
                map.get_or_insert_with(key(), || {
                    if thread == 0 {
                        ran.store(true, Ordering::Relaxed);
                    }
                    // The others come in meanwhile, and wait where the design makes them wait.
                    (0..8).for_each(|_| std::thread::yield_now());
                    jitter();
                    if thread == 0 {
                        std::panic::resume_unwind(Box::new("planned"));
                    }
                    thread as u64
                })
            }))
        });
        let panicked: Vec<usize> = (0..THREADS)
            .filter(|thread| answers[*thread].is_err())
            .collect();
        let expected: &[usize] = if ran.into_inner() { &[0] } else { &[] };
        assert_eq!(
            panicked, expected,
            "threads that saw the panic of thread 0's closure"
        );
        let stored = map.get(&key()).expect("seven good closures ran or waited");
        for answer in answers.into_iter().flatten() {
            assert_eq!(answer, stored, "the others do not get one common value");
        }
        assert_eq!(map.len(), 1, "len counts the key once");
    }
}

/// A closure panics; then eight threads use keys all around it. The caller saw the panic, nobody waits.
pub fn a_panicking_closure_leaves_the_others_served<D: Design>() {
    let map = D::build::<u64, u64, _>(None, hasher());
    (0..64).for_each(|key| map.insert(key, key));
    let panics = |name: &str, call: &dyn Fn()| {
        assert!(
            catch_unwind(AssertUnwindSafe(call)).is_err(),
            "the caller of {name} does not see its closure's panic"
        );
        threads(8, |thread| {
            for key in 0..64 {
                assert_eq!(map.get(&key), Some(key), "after a panic in {name}");
                if key as usize % 8 == thread {
                    map.insert(key, key);
                }
            }
            assert_eq!(map.len(), 64, "after a panic in {name}");
        });
    };
    fn boom() -> ! {
        std::panic::resume_unwind(Box::new("planned"))
    }
    panics("get_with", &|| {
        ignore(map.get_with(&7, |_| -> u64 { boom() }))
    });
    panics("upsert", &|| map.upsert(7, |_| boom()));
    panics("upsert of a new key", &|| map.upsert(700, |_| boom()));
    panics("get_or_insert_with", &|| {
        ignore(map.get_or_insert_with(700, || boom()))
    });
    panics("remove_if", &|| ignore(map.remove_if(&7, |_| boom())));
    panics("get_batch_with", &|| {
        map.get_batch_with(&[1, 7, 9], |_, _| boom())
    });
    panics("for_each", &|| map.for_each(|_, _| boom()));
    panics("retain", &|| map.retain(|_, _| boom()));
    panics("bulk_load", &|| {
        map.bulk_load((0..64).map(|key| if key < 32 { (key, key) } else { boom() }))
    });
}

/// Threads insert and remove disjoint ranges while readers call `len`: never above what is possible.
pub fn len_stays_possible<D: Design>() {
    const WRITERS: usize = 3;
    let rounds = if D::LINEAR_WRITES {
        scaled(60)
    } else {
        scaled(400)
    };
    let each = 32_u64;
    let map = D::build::<u64, u64, _>(None, hasher());
    let writing = AtomicUsize::new(WRITERS);
    // A fourth range stays for good: the length never falls below it.
    (1_000..1_010).for_each(|key| map.insert(key, 0));
    threads(WRITERS + 1, |thread| {
        if thread < WRITERS {
            let _counted = CountDown(&writing);
            let range = thread as u64 * each..(thread as u64 + 1) * each;
            for round in 0..rounds {
                range.clone().for_each(|key| map.insert(key, 0));
                if round % 2 == 0 {
                    range.clone().for_each(|key| map.remove(&key));
                } else {
                    assert_eq!(
                        range.clone().filter_map(|key| map.take(&key)).count(),
                        each as usize
                    );
                }
            }
            range.clone().for_each(|key| map.insert(key, 0));
        } else {
            while writing.load(Ordering::Acquire) > 0 {
                let len = map.len();
                assert!(
                    (10..=10 + WRITERS * each as usize).contains(&len),
                    "len {len} was never possible"
                );
                assert!(!map.is_empty(), "is_empty of a map that never is");
            }
        }
    });
    assert_eq!(
        map.len(),
        10 + WRITERS * each as usize,
        "len of the quiet map"
    );
    assert_eq!(
        map.keys().len(),
        map.len(),
        "len differs from the number of keys"
    );
}

/// Two threads insert and remove one key: the length is 0 or 1, and never wraps below 0.
pub fn len_of_one_contended_key<D: Design>() {
    let rounds = scaled(1_500);
    let map = D::build::<PlanKey, u64, _>(None, PassThrough);
    let key = || PlanKey::new(1, HashPlan::Good);
    let writing = AtomicUsize::new(2);
    threads(3, |thread| {
        set_jitter(thread as u64);
        if thread < 2 {
            let _counted = CountDown(&writing);
            for _ in 0..rounds {
                if thread == 0 {
                    map.insert(key(), 0)
                } else {
                    map.remove(&key())
                }
                jitter();
            }
            return;
        }
        while writing.load(Ordering::Acquire) > 0 {
            let len = map.len();
            assert!(len <= 1, "len {len} of a map of one key was never possible");
        }
    });
    assert_eq!(
        map.len(),
        usize::from(map.contains_key(&key())),
        "len of the quiet map"
    );
}

/// A token goes back and forth between two keys, inserted in the new place before it leaves the old: whoever sees
/// one moment sees it.
pub fn a_moving_token_is_never_out_of_sight<D: Design>() {
    let rounds = scaled(3_000) as u64;
    let batch_in_one_moment =
        <D::Map<PlanKey, u64, PassThrough> as GetBatch<PlanKey, u64>>::CONSISTENCY
            == Consistency::Snapshot;
    for plan in [HashPlan::Good, HashPlan::HalfMiddle] {
        let map = D::build::<PlanKey, u64, _>(None, PassThrough);
        let keys = [PlanKey::new(1, plan), PlanKey::new(2, plan)];
        map.insert(keys[0].clone(), 0);
        let over = AtomicBool::new(false);
        threads(2, |thread| {
            set_jitter(thread as u64);
            if thread == 0 {
                let _over = Raise(&over);
                for round in 0..rounds {
                    let (from, to) = (round as usize % 2, (round as usize + 1) % 2);
                    map.insert(keys[to].clone(), round);
                    jitter();
                    map.remove(&keys[from]);
                    jitter();
                }
                return;
            }
            while !over.load(Ordering::Acquire) {
                if batch_in_one_moment {
                    let seen = map.get_batch(&keys).into_iter().flatten().count();
                    assert!(seen >= 1, "a batch of one moment misses the token");
                }
                if D::LEN == Consistency::Snapshot {
                    let len = map.len();
                    assert!(
                        (1..=2).contains(&len),
                        "len {len}, of a token in one or two places"
                    );
                }
                if D::VISIT == Consistency::Snapshot {
                    let seen = map.keys().len();
                    assert!(
                        (1..=2).contains(&seen),
                        "a visit of one moment sees {seen} entries"
                    );
                }
            }
        });
    }
}

/// One thread writes version n to k1, then to k2, for several such pairs; another makes the keys between them come and
/// go; a third reads all in batches.
///
/// Each answer is its own key's. A batch of one moment never shows k1 behind k2. A batch that promises less does show
/// it sooner or later, which proves that this check can fail; it may take a while on a busy machine, so it is given
/// half a minute.
pub fn batches_among_writers<D: Design>() {
    const BETWEEN: u64 = 1_000;
    const PAIRS: u64 = 8;
    let in_one_moment = <D::Map<u64, u64, DefaultHashBuilder> as GetBatch<u64, u64>>::CONSISTENCY
        == Consistency::Snapshot;
    let map = D::build::<u64, u64, _>(None, DefaultHashBuilder::with_seed(1));
    // The firsts, those between, the seconds: far apart in a batch that is answered in the order asked, and some pair
    // of them for any other order.
    let keys: Vec<u64> = (0..BETWEEN + 2 * PAIRS).collect();
    let (firsts, seconds) = (0..PAIRS, BETWEEN + PAIRS..BETWEEN + 2 * PAIRS);
    let between = PAIRS..BETWEEN + PAIRS;
    // The high half of a value tells its key.
    let value = |key: u64, version: u64| key << 32 | version;
    map.bulk_load(keys.iter().map(|&key| (key, value(key, 0))));
    let over = AtomicBool::new(false);
    threads(3, |thread| match thread {
        0 => {
            let mut version = 0;
            while !over.load(Ordering::Acquire) {
                version += 1;
                for (first, second) in firsts.clone().zip(seconds.clone()) {
                    map.insert(first, value(first, version));
                    map.insert(second, value(second, version));
                }
            }
        }
        1 => {
            for key in between.clone().cycle() {
                if over.load(Ordering::Acquire) {
                    return;
                }
                map.remove(&key);
                std::thread::yield_now();
                map.insert(key, value(key, 1));
            }
        }
        _ => {
            let _over = Raise(&over);
            let start = Instant::now();
            let mut shown = false;
            for batch in 0.. {
                let answers = map.get_batch(&keys);
                assert_eq!(answers.len(), keys.len(), "one slot per key");
                for (key, answer) in keys.iter().zip(&answers) {
                    match answer {
                        Some(value) => assert_eq!(value >> 32, *key, "another key's value"),
                        None => assert!(between.contains(key), "{key} is always there"),
                    }
                }
                let version = |key: u64| answers[key as usize].map_or(0, |value| value as u32);
                let mut pairs = firsts.clone().zip(seconds.clone());
                shown |= pairs.any(|(first, second)| version(first) < version(second));
                if in_one_moment {
                    assert!(!shown, "a batch of one moment shows k1 behind k2");
                }
                if batch >= scaled(200) && (shown || in_one_moment) {
                    return;
                }
                assert!(
                    start.elapsed() < Duration::from_secs(30),
                    "after {batch} batches none has shown k1 behind k2: either they are of one moment and should \
                     promise it, or nothing happens beside them"
                );
            }
        }
    });
}

/// One thread writes version n to k1, then to k2; another reads k2, then k1: k1 is never behind.
pub fn versions_never_run_backwards<D: Design>() {
    let versions = scaled(10_000) as u64;
    for plan in [HashPlan::Good, HashPlan::Constant] {
        let map = D::build::<PlanKey, u64, _>(None, PassThrough);
        let (first, second) = (PlanKey::new(1, plan), PlanKey::new(2, plan));
        map.insert(first.clone(), 0);
        map.insert(second.clone(), 0);
        let over = AtomicBool::new(false);
        threads(3, |thread| {
            if thread == 0 {
                let _over = Raise(&over);
                for version in 1..=versions {
                    map.insert(first.clone(), version);
                    map.insert(second.clone(), version);
                }
                return;
            }
            let mut last = 0;
            while !over.load(Ordering::Acquire) {
                let later = map.get(&second).expect("always there");
                let earlier = map.get(&first).expect("always there");
                assert!(
                    earlier >= later,
                    "k1 = {earlier} was written before k2 = {later}, and is behind it"
                );
                assert!(later >= last, "k2 went back from {last} to {later}");
                last = later;
            }
        });
        assert_eq!(map.get(&second), Some(versions));
    }
}

/// A value that keeps something alive, whatever it is.
#[derive(Clone)]
struct Holder(#[allow(dead_code, reason = "held, never read")] Option<Arc<dyn Any + Send + Sync>>);

impl fmt::Debug for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Holder")
    }
}

/// Handles are dropped by eight threads in the midst of requests: every request is answered, everything is dropped
/// once.
pub fn handles_dropped_amid_requests<D: Design>() {
    for round in 0..scaled(20) as u64 {
        let lab = Lab::open();
        let map = Arc::new(D::build::<LabKey, LabValue, _>(None, PassThrough));
        (0..32).for_each(|id| map.insert(lab.key(id, HashPlan::Good), lab.value(id)));
        let handles: Vec<_> = (0..8)
            .map(|_| std::sync::Mutex::new(Some(Arc::clone(&map))))
            .collect();
        drop(map);
        threads(8, |thread| {
            let map = handles[thread]
                .lock()
                .expect("one user")
                .take()
                .expect("once");
            let mut rng = Rng::new(round << 4 | thread as u64);
            for _ in 0..rng.below(60) {
                let id = rng.draw() % 32;
                match rng.below(4) {
                    0 => map.insert(lab.key(id, HashPlan::Good), lab.value(id)),
                    1 => map.remove(&lab.key(id, HashPlan::Good)),
                    2 => ignore(map.swap(lab.key(id, HashPlan::Good), lab.value(id))),
                    _ => {
                        let got = map.get(&lab.key(id, HashPlan::Good));
                        assert!(got.is_none_or(|value| value.number == id));
                    }
                }
            }
        });
        lab.assert_living::<D>(0, 0);
    }
}

/// The last handle of a map is inside one of its own values, or inside a value of another map.
pub fn the_last_handle_is_dropped_by_the_map<D: Design>() {
    for round in 0..scaled(10) as u64 {
        let lab = Lab::open();
        // Its own value: the map dies by an operation on itself, wherever that drops the value.
        let map = Arc::new(D::build::<u64, Holder, _>(None, hasher()));
        let witness = Arc::new(lab.value(round));
        map.insert(
            1,
            Holder(Some(Arc::clone(&map) as Arc<dyn Any + Send + Sync>)),
        );
        map.insert(2, Holder(Some(witness as Arc<dyn Any + Send + Sync>)));
        match round % 3 {
            0 => map.remove(&1),
            1 => map.insert(1, Holder(None)),
            _ => map.clear(),
        }
        if !D::FREES_UNUSED_MAPS {
            D::quiesce(&map);
        }
        drop(map);
        // A value of another map, dropped together with that one.
        let inner = Arc::new(D::build::<u64, Arc<LabValue>, _>(None, hasher()));
        inner.insert(1, Arc::new(lab.value(1)));
        let outer = D::build::<u64, Holder, _>(None, hasher());
        outer.insert(1, Holder(Some(inner as Arc<dyn Any + Send + Sync>)));
        if round % 2 == 0 {
            outer.remove(&1);
        }
        drop(outer);
        lab.assert_living::<D>(0, 0);
    }
}

/// Something that runs at the exit of its thread.
struct AtExit(Box<dyn FnMut() + Send>);

impl Drop for AtExit {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Destructors of thread-locals use the map while their thread ends, created before and after its first use.
pub fn usable_while_a_thread_ends<D: Design>() {
    thread_local! {
        static EARLY: std::cell::RefCell<Option<AtExit>> = const { std::cell::RefCell::new(None) };
        static LATE: std::cell::RefCell<Option<AtExit>> = const { std::cell::RefCell::new(None) };
    }
    let map = Arc::new(D::build::<u64, u64, _>(None, hasher()));
    for round in 0..4_u64 {
        let at_exit = |key: u64| {
            let map = Arc::clone(&map);
            AtExit(Box::new(move || {
                map.insert(key, key);
                assert_eq!(map.get(&key), Some(key));
                map.upsert(key, |old| old.map_or(0, |n| n + 1));
            }))
        };
        let (early, late) = (at_exit(2 * round), at_exit(2 * round + 1));
        let user = Arc::clone(&map);
        std::thread::spawn(move || {
            EARLY.with(|cell| *cell.borrow_mut() = Some(early));
            user.insert(100, 1);
            LATE.with(|cell| *cell.borrow_mut() = Some(late));
        })
        .join()
        .expect("the thread ends well");
    }
    assert_eq!(map.len(), 9, "writes made while a thread ended are lost");
    assert!(
        (0..8).all(|key| map.get(&key) == Some(key + 1)),
        "writes made while a thread ended are lost"
    );
}

/// Nothing panics twice: the fuse of one thread leaves the same call of others alone.
pub fn one_clone_panics_among_many<D: Design>() {
    let lab = Lab::open();
    let map = D::build::<LabKey, LabValue, _>(None, PassThrough);
    (0..8).for_each(|id| map.insert(lab.key(id, HashPlan::Good), lab.value(id)));
    map.len();
    lab.arm(Event::Clone, 20);
    let panics = threads(4, |_| {
        let once = |id: u64| {
            let outcome = catch_unwind(AssertUnwindSafe(|| {
                let key = lab.key(id, HashPlan::Good);
                let got = map.get(&key).expect("never removed");
                assert_eq!(got.number, id);
            }));
            usize::from(outcome.is_err())
        };
        (0..64).map(|n| once(n % 8)).sum::<usize>()
    });
    assert!(lab.disarm(), "the fuse has not blown");
    assert_eq!(
        panics.into_iter().sum::<usize>(),
        1,
        "threads that saw the one panic"
    );
    assert_eq!(map.len(), 8);
    drop(map);
    lab.assert_living::<D>(0, 0);
}
