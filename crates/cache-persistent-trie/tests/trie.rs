//! What is particular to these tries: shapes, routing, snapshots under fire, memory. The shared corpus is in
//! `conformance.rs`.

use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hasher};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicIsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use cache_api::{DefaultHashBuilder, Fork, GetBatch, Routed, Snapshot, SnapshotView};
use cache_persistent_trie::{Hamt256Cache, Hamt256Snapshot, HamtCache, HamtSnapshot};

/// Counts the bytes that are allocated.
struct Counting;

static ALLOCATED: AtomicIsize = AtomicIsize::new(0);
/// One test at a time, so that the count is its own.
static ALONE: Mutex<()> = Mutex::new(());

// SAFETY: forwards to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.fetch_add(layout.size() as isize, Ordering::Relaxed);
        // SAFETY: the caller's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        ALLOCATED.fetch_sub(layout.size() as isize, Ordering::Relaxed);
        // SAFETY: the caller's.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn alone() -> impl Drop {
    ALONE
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// A small generator (xorshift), the same in each run.
struct Random(u64);

impl Random {
    fn draw(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % below
    }
}

/// Hashes a number to itself, masked: few bits make collisions, at whatever depth the mask leaves.
#[derive(Clone, Copy, Default)]
struct Masked<const MASK: u64>;
struct MaskedHasher(u64, u64);

impl<const MASK: u64> BuildHasher for Masked<MASK> {
    type Hasher = MaskedHasher;
    fn build_hasher(&self) -> MaskedHasher {
        MaskedHasher(0, MASK)
    }
}

impl Hasher for MaskedHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes
            .iter()
            .for_each(|byte| self.write_u64(u64::from(*byte)));
    }
    fn write_u64(&mut self, number: u64) {
        // Spread over the whole word, so that masks of high bits leave something.
        self.0 = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17);
    }
    fn finish(&self) -> u64 {
        self.0 & self.1
    }
}

fn shapes_follow_content<const WIDTH: usize, const MASK: u64>() {
    let mut random = Random((0x5eed + WIDTH as u64) ^ MASK.rotate_left(9));
    for round in 0..30 {
        let lived = HamtCache::<u64, u64, Masked<MASK>, WIDTH>::with_hasher(Masked);
        let mut model = BTreeMap::new();
        for step in 0..random.draw(600) {
            let key = random.draw(120);
            match random.draw(8) {
                0..4 => {
                    lived.insert(key, step);
                    model.insert(key, step);
                }
                4..7 => {
                    lived.remove(&key);
                    model.remove(&key);
                }
                _ => lived.update_many(|batch| {
                    for other in key..key + 20 {
                        if other % 3 == 0 {
                            batch.insert(other, step);
                            model.insert(other, step);
                        } else {
                            batch.remove(&other);
                            model.remove(&other);
                        }
                    }
                }),
            }
            if random.draw(20) == 0 {
                drop(lived.snapshot());
            }
        }
        // The same content, in descending order at once, and in ascending order one by one.
        let loaded: HamtCache<u64, u64, Masked<MASK>, WIDTH> =
            model.iter().rev().map(|(k, v)| (*k, *v)).collect();
        let inserted = HamtCache::<u64, u64, Masked<MASK>, WIDTH>::with_hasher(Masked);
        model.iter().for_each(|(k, v)| inserted.insert(*k, *v));
        assert_eq!(
            lived.shape(),
            inserted.shape(),
            "width {WIDTH}, mask {MASK:x}, round {round}: by writes"
        );
        assert_eq!(
            lived.shape(),
            loaded.shape(),
            "width {WIDTH}, mask {MASK:x}, round {round}: by a load"
        );
        assert_eq!(lived.len(), model.len());
    }
}

#[test]
fn the_shape_is_a_function_of_the_content() {
    let _alone = alone();
    // Good hashes; only high bits; a few scattered bits; equal for all.
    shapes_follow_content::<8, { u64::MAX }>();
    shapes_follow_content::<64, { u64::MAX }>();
    shapes_follow_content::<8, { 7 << 61 }>();
    shapes_follow_content::<16, { 7 << 61 }>();
    shapes_follow_content::<32, { 3 << 62 }>();
    shapes_follow_content::<64, { 15 << 60 }>();
    shapes_follow_content::<32, 0x0100_0400_0000_0001>();
    shapes_follow_content::<64, 0>();
}

#[test]
fn sequential_keys_fill_all_partitions_evenly() {
    let map = Hamt256Cache::<String, u64, _>::with_hasher(DefaultHashBuilder::with_seed(1));
    let mut counts = vec![0_u32; map.partitions()];
    let keys = 256 * 400;
    for n in 0..keys {
        counts[map.partition_of(format!("{n:016}").as_str())] += 1;
    }
    assert_eq!(counts.len(), 256);
    let expected = f64::from(keys) / 256.0;
    let chi: f64 = counts
        .iter()
        .map(|&c| (f64::from(c) - expected).powi(2) / expected)
        .sum();
    // 255 degrees of freedom: mean 255, standard deviation 22.6; six of them above the mean.
    assert!(chi < 391.0, "chi-square {chi}");
    assert!(counts.iter().all(|&count| count > 0));
}

#[test]
fn sequential_hashes_fill_all_partitions_too() {
    // The weakest hasher: a number hashes to itself. Fibonacci hashing spreads even that.
    let map = Hamt256Cache::<u64, u64, Identity>::with_hasher(Identity);
    let mut counts = vec![0_u32; 256];
    (0..2_000_u64).for_each(|n| counts[map.partition_of(&n)] += 1);
    assert!(
        counts.iter().all(|&count| (4..=12).contains(&count)),
        "{counts:?}"
    );
}

/// A number hashes to itself.
#[derive(Clone, Copy, Default)]
struct Identity;

impl BuildHasher for Identity {
    type Hasher = IdentityHasher;
    fn build_hasher(&self) -> IdentityHasher {
        IdentityHasher(0)
    }
}

struct IdentityHasher(u64);

impl Hasher for IdentityHasher {
    fn write(&mut self, _: &[u8]) {
        unreachable!("numbers only");
    }
    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }
    fn finish(&self) -> u64 {
        self.0
    }
}

#[test]
fn partitions_are_independent_of_the_digits() {
    let hasher = DefaultHashBuilder::with_seed(2);
    let map = Hamt256Cache::<u64, u64, _>::with_hasher(hasher);
    let mut keys_of: Vec<Vec<u64>> = vec![Vec::new(); 256];
    (0..256 * 512_u64).for_each(|n| keys_of[map.partition_of(&n)].push(hasher.hash_one(n)));
    for (partition, hashes) in keys_of.iter().enumerate().step_by(17) {
        for level in 0..4 {
            let mut counts = [0_f64; 32];
            hashes
                .iter()
                .for_each(|hash| counts[(hash >> (5 * level)) as usize & 31] += 1.0);
            let expected = hashes.len() as f64 / 32.0;
            let chi: f64 = counts
                .iter()
                .map(|c| (c - expected).powi(2) / expected)
                .sum();
            // 31 degrees of freedom: mean 31, standard deviation 7.9; six of them above the mean.
            assert!(
                chi < 79.0,
                "partition {partition}, level {level}: chi-square {chi}"
            );
        }
    }
}

/// What the tests below need of both maps.
trait Subject: Snapshot<u64, u64> + Fork + Sync + Send {
    fn make() -> Self;
    fn put(&self, key: u64, value: u64);
    fn delete(&self, key: u64);
    fn empty(&self);
    fn load(&self, entries: Vec<(u64, u64)>);
    fn settle(&self);
}

macro_rules! subject {
    ($map:ty) => {
        impl Subject for $map {
            fn make() -> Self {
                Self::with_hasher(DefaultHashBuilder::with_seed(3))
            }
            fn put(&self, key: u64, value: u64) {
                self.insert(key, value);
            }
            fn delete(&self, key: u64) {
                self.remove(&key);
            }
            fn empty(&self) {
                self.clear();
            }
            fn load(&self, entries: Vec<(u64, u64)>) {
                self.bulk_load(entries);
            }
            fn settle(&self) {
                let start = Instant::now();
                while !self.reclaim() && start.elapsed() < Duration::from_secs(20) {
                    thread::sleep(Duration::from_millis(1));
                }
            }
        }
    };
}
subject!(HamtCache<u64, u64>);
subject!(Hamt256Cache<u64, u64>);

/// Iteration, lookups, batch and length of a view agree with `expected`.
fn shows<V: SnapshotView<u64, u64>>(view: &V, expected: &BTreeMap<u64, u64>) {
    assert_eq!(view.len(), expected.len());
    let seen: BTreeMap<u64, u64> = view.iter().map(|(k, v)| (*k, *v)).collect();
    assert!(seen == *expected, "iteration");
    assert_eq!(
        view.iter().count(),
        expected.len(),
        "iteration repeats itself"
    );
    let step = (expected.len() / 2_000).max(1);
    for (key, value) in expected.iter().step_by(step) {
        assert_eq!(view.get_ref(key), Some(value));
    }
    assert_eq!(view.get_ref(&u64::MAX), None);
    let keys: Vec<u64> = expected
        .keys()
        .step_by(step)
        .copied()
        .chain([u64::MAX])
        .collect();
    let values: Vec<Option<u64>> = keys.iter().map(|key| expected.get(key).copied()).collect();
    assert_eq!(view.get_batch(&keys), values);
}

fn views_outlive_everything<M: Subject>()
where
    M::View: Sync,
{
    for size in [0, 1, 2, 33, 100_000_u64] {
        let map = M::make();
        let expected: BTreeMap<u64, u64> = (0..size).map(|key| (key, key + 1)).collect();
        map.load(expected.iter().map(|(k, v)| (*k, *v)).collect());
        let view = map.snapshot();
        let span = size.max(64);
        // Joined one by one, here and below, since ThreadSanitizer does not see the scope's own way of waiting.
        let work = |part| {
            let mine = || (part..span).step_by(4);
            mine().for_each(|key| map.put(key, 0));
            if part == 0 {
                map.empty();
            }
            mine().for_each(|key| map.delete(key));
            mine().for_each(|key| map.put(key, key));
        };
        let work = &work;
        thread::scope(|scope| {
            let workers: Vec<_> = (0..4).map(|part| scope.spawn(move || work(part))).collect();
            shows(&view, &expected);
            shows(&view, &expected);
            for worker in workers {
                worker.join().unwrap();
            }
        });
        shows(&view, &expected);
        drop(map);
        shows(&view, &expected);
    }
}

#[test]
fn views_of_hamt_outlive_everything() {
    let _alone = alone();
    views_outlive_everything::<HamtCache<u64, u64>>();
}

#[test]
fn views_of_hamt256_outlive_everything() {
    let _alone = alone();
    views_outlive_everything::<Hamt256Cache<u64, u64>>();
}

/// One writer raises the version of a cause, then that of its effect, for ever; no view shows it the other way round.
fn no_effect_without_cause<M: Subject>(pairs: &[(u64, u64)]) {
    for &(cause, effect) in pairs {
        let map = M::make();
        map.put(cause, 0);
        map.put(effect, 0);
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            let writer = scope.spawn(|| {
                let mut version = 0;
                while !over.load(Ordering::Relaxed) {
                    version += 1;
                    map.put(cause, version);
                    map.put(effect, version);
                }
            });
            for _ in 0..2_000 {
                let view = map.snapshot();
                let (a, b) = (view.get(&cause).unwrap(), view.get(&effect).unwrap());
                assert!(
                    a >= b && a <= b + 1,
                    "version {a} of the cause, {b} of the effect"
                );
            }
            over.store(true, Ordering::Relaxed);
            writer.join().unwrap();
        });
    }
}

#[test]
fn no_view_shows_an_effect_without_its_cause() {
    let _alone = alone();
    no_effect_without_cause::<HamtCache<u64, u64>>(&[(1, 2), (2, 1)]);
    let map = Hamt256Cache::<u64, u64>::make();
    let other = (2..)
        .find(|key| map.partition_of(key) > map.partition_of(&1))
        .unwrap();
    // In either order of the partitions, as the snapshot visits them one after another.
    no_effect_without_cause::<Hamt256Cache<u64, u64>>(&[(1, other), (other, 1)]);
}

/// A thousand views taken between writes, dropped in random order, and all memory comes back.
fn memory_comes_back<M: Subject>() {
    let mut random = Random(7);
    // Whatever is allocated once per process or thread is there before the count begins.
    M::make().settle();
    let start = ALLOCATED.load(Ordering::Relaxed);
    {
        let map = M::make();
        map.load((0..1_000).map(|key| (key, 0)).collect());
        let mut views = Vec::with_capacity(1_000);
        for round in 0..1_000 {
            views.push((map.snapshot(), round));
            map.put(random.draw(1_000), round);
            map.delete(random.draw(1_000));
        }
        while !views.is_empty() {
            let (view, _) = views.swap_remove(random.draw(views.len() as u64) as usize);
            if views.len() % 100 == 0 {
                assert_eq!(view.iter().count(), view.len());
            }
        }
        map.settle();
        let live = ALLOCATED.load(Ordering::Relaxed) - start;
        drop(views);
        let fresh = map.fork();
        drop(map);
        assert!(live < 400_000, "{live} bytes for a thousand entries");
        drop(fresh);
    }
    // The collector's own deferred calls, for this thread.
    M::make().settle();
    let left = ALLOCATED.load(Ordering::Relaxed) - start;
    assert!(left < 20_000, "{left} bytes are left");
}

#[test]
fn all_memory_comes_back() {
    let _alone = alone();
    // The test runner's own threads allocate in this process too, whenever they like. What a map leaks is there every
    // time; what the runner keeps is not.
    let balanced = || {
        std::panic::catch_unwind(|| {
            memory_comes_back::<HamtCache<u64, u64>>();
            memory_comes_back::<Hamt256Cache<u64, u64>>();
        })
        .is_ok()
    };
    assert!(
        (0..8).any(|_| balanced()),
        "memory is left after each of eight runs"
    );
}

#[test]
fn memory_stays_bounded_under_writes() {
    let _alone = alone();
    let map = HamtCache::<u64, u64>::make();
    map.load((0..1_000).map(|key| (key, 0)).collect());
    let start = ALLOCATED.load(Ordering::Relaxed);
    let mut most = 0;
    for round in 0..100_000_u64 {
        map.put(round % 1_000, round);
        most = most.max(ALLOCATED.load(Ordering::Relaxed) - start);
    }
    assert!(most < 4_000_000, "{most} bytes of garbage at one time");
}

#[test]
fn batches_of_writes_are_seen_whole() {
    let _alone = alone();
    let map = HamtCache::<u64, u64>::make();
    map.load((0..100).map(|key| (key, 0)).collect());
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let batches = scope.spawn(|| {
            for round in 1..400 {
                map.update_many(|batch| {
                    (0..100).for_each(|key| assert!(!batch.insert(key, round)))
                });
            }
            over.store(true, Ordering::Relaxed);
        });
        let singles = scope.spawn(|| {
            let mut round = 0;
            // All ten keys at least, however late this thread starts.
            while round < 10 || !over.load(Ordering::Relaxed) {
                map.insert(1_000 + round % 10, round);
                round += 1;
            }
        });
        let keys: Vec<u64> = (0..100).collect();
        while !over.load(Ordering::Relaxed) {
            let values = map.get_batch(&keys);
            assert!(values.iter().all(|value| *value == values[0]), "{values:?}");
        }
        batches.join().unwrap();
        singles.join().unwrap();
    });
    assert_eq!(map.len(), 110);
}

#[test]
fn batches_of_reads_answer_in_the_order_asked() {
    let map = HamtCache::<u64, u64, Masked<{ 0xff << 56 }>, 8>::with_hasher(Masked);
    (0..500).for_each(|key| map.insert(key, key * 2));
    for size in [0, 1, 31, 32, 33, 64, 1_000] {
        let keys: Vec<u64> = (0..size).map(|at| at * 7 % 600).collect();
        let expected: Vec<Option<u64>> = keys
            .iter()
            .map(|key| (*key < 500).then_some(key * 2))
            .collect();
        assert_eq!(map.get_batch(&keys), expected);
    }
}

#[test]
fn a_panic_inside_a_batch_of_writes_changes_nothing() {
    let map = HamtCache::<u64, String>::new();
    map.insert(1, "one".to_owned());
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        map.update_many(|batch| {
            batch.insert(1, "uno".to_owned());
            batch.insert(2, "due".to_owned());
            panic!("on purpose");
        })
    }));
    assert!(outcome.is_err());
    assert_eq!((map.get(&1), map.len()), (Some("one".to_owned()), 1));
}

#[test]
fn values_may_borrow() {
    let text = String::from("a b c b");
    let map = HamtCache::<&str, Vec<&str>>::new();
    for word in text.split(' ') {
        map.upsert(word, |seen| {
            let mut seen = seen.cloned().unwrap_or_default();
            seen.push(word);
            seen
        });
    }
    assert_eq!(map.get("b").map(|seen| seen.len()), Some(2));
}

#[test]
fn a_write_inside_a_write_of_the_same_map_is_refused() {
    let (map, other) = (HamtCache::<u64, u64>::new(), HamtCache::<u64, u64>::new());
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        map.upsert(1, |_| {
            other.insert(1, 1);
            map.insert(2, 2);
            1
        });
    }));
    let message = *outcome.unwrap_err().downcast::<String>().unwrap();
    assert!(message.contains(cache_api::REENTRANT), "{message}");
    assert_eq!((map.len(), other.len()), (0, 1));
    // Recursion by `get_or_insert_with` works: its closure runs outside the attempt.
    fn fibonacci(memo: &HamtCache<u64, u64>, n: u64) -> u64 {
        if n < 2 {
            n
        } else {
            memo.get_or_insert_with(n, || fibonacci(memo, n - 1) + fibonacci(memo, n - 2))
        }
    }
    assert_eq!(fibonacci(&map, 50), 12_586_269_025);
}

#[cfg(feature = "stats")]
#[test]
fn lost_races_are_counted() {
    let map = HamtCache::<u64, u64>::new();
    assert_eq!(map.lost_races(), 0);
    let mut first = true;
    map.upsert(1, |_| {
        if std::mem::take(&mut first) {
            // Another thread comes first.
            thread::scope(|scope| scope.spawn(|| map.insert(1, 1)).join()).unwrap();
        }
        2
    });
    assert_eq!(map.lost_races(), 1);
}

#[test]
fn auto_traits() {
    fn shareable<T: Send + Sync>() {}
    shareable::<HamtCache<String, Vec<u8>>>();
    shareable::<Hamt256Cache<String, Vec<u8>>>();
    shareable::<HamtSnapshot<String, Vec<u8>>>();
    shareable::<Hamt256Snapshot<String, Vec<u8>>>();
}
