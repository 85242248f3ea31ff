//! One test per rule of the protocol: it holds, and the variant of this crate that breaks it is noticed.

use std::hash::{BuildHasher, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use cache_api::{DefaultHashBuilder, OneShotHasher, REENTRANT};

use crate::broken::switch;
use crate::{ShardedCache, ShardedRwCache};

/// `check` passes as things are, and fails with the variant `broken` switched on.
fn rule(broken: &'static str, check: fn()) {
    {
        let _on = switch::on("nothing");
        check();
    }
    let _on = switch::on(broken);
    // Races are given a few attempts: what one schedule hides, the next shows.
    assert!(
        (0..10).any(|_| catch_unwind(check).is_err()),
        "the broken variant `{broken}` goes unnoticed"
    );
}

/// Runs `call` on a thread of its own and expects it to be refused at once.
fn expect_refusal(call: impl FnOnce() + Send + 'static) {
    let (done, ended) = mpsc::channel();
    thread::spawn(move || {
        let outcome = catch_unwind(AssertUnwindSafe(call));
        let _ = done.send(outcome.map_err(|payload| {
            payload
                .downcast_ref::<String>()
                .cloned()
                .unwrap_or_default()
        }));
    });
    let outcome = ended
        .recv_timeout(Duration::from_secs(5))
        .expect("the call hangs");
    let message = outcome.expect_err("the call is not refused");
    assert!(message.contains(REENTRANT), "{message}");
}

#[test]
fn a_call_from_inside_is_refused() {
    rule("no re-entry guard", || {
        expect_refusal(|| {
            let map = ShardedCache::with_shards(1);
            map.insert(1, 1);
            map.get_with(&1, |_| map.get(&1));
        });
        expect_refusal(|| {
            let map = ShardedRwCache::with_shards(1);
            map.upsert(1, |_| map.len());
        });
        // Also where another shard would have done, and for batches on other threads.
        expect_refusal(|| {
            let map = ShardedCache::new();
            map.bulk_load((0..100).map(|key| (key, key)));
            let other = (1..100)
                .find(|key| map.shard_of(key) != map.shard_of(&0))
                .expect("keys spread");
            map.get_with(&0, |_| map.get(&other));
        });
        expect_refusal(|| {
            let map = ShardedCache::new();
            map.bulk_load((0..100).map(|key| (key, key)));
            map.get_with(&0, |_| map.get_batch_with_threads(2, &[1, 2, 3]));
        });
    });
}

/// Asks its map for the length when dropped.
#[derive(Clone)]
struct Caller(Weak<ShardedCache<u8, Caller>>);

impl Drop for Caller {
    fn drop(&mut self) {
        if let Some(map) = self.0.upgrade() {
            _ = map.len();
        }
    }
}

#[test]
fn replaced_values_are_dropped_without_the_lock() {
    rule("drop under the lock", || {
        let map = Arc::new(ShardedCache::with_shards(1));
        let value = || Caller(Arc::downgrade(&map));
        map.insert(1, value());
        map.insert(1, value());
        map.upsert(1, |_| value());
        map.remove(&1);
        map.insert(1, value());
        map.retain(|_, _| false);
        map.insert(1, value());
        map.clear();
    });
}

/// Counts the hashes that it finishes.
#[derive(Clone, Default)]
struct Counting(Arc<AtomicUsize>);

struct CountingHasher(OneShotHasher, Arc<AtomicUsize>);

impl BuildHasher for Counting {
    type Hasher = CountingHasher;

    fn build_hasher(&self) -> CountingHasher {
        CountingHasher(
            DefaultHashBuilder::with_seed(1).build_hasher(),
            Arc::clone(&self.0),
        )
    }
}

impl Hasher for CountingHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0.write(bytes);
    }

    fn finish(&self) -> u64 {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.finish()
    }
}

#[test]
fn an_operation_hashes_its_key_once() {
    rule("hash twice", || {
        let hasher = Counting::default();
        let map = ShardedCache::with_capacity_and_hasher(100_000, hasher.clone());
        let hashes = |operation: &dyn Fn()| {
            let before = hasher.0.load(Ordering::Relaxed);
            operation();
            hasher.0.load(Ordering::Relaxed) - before
        };
        assert_eq!(hashes(&|| map.insert("a", 1)), 1);
        assert_eq!(hashes(&|| map.insert("a", 2)), 1);
        assert_eq!(hashes(&|| assert_eq!(map.get("a"), Some(2))), 1);
        assert_eq!(hashes(&|| assert_eq!(map.get("z"), None)), 1);
        assert_eq!(hashes(&|| assert!(map.contains_key("a"))), 1);
        assert_eq!(hashes(&|| map.upsert("a", |_| 3)), 1);
        assert_eq!(hashes(&|| map.upsert("b", |_| 3)), 1);
        assert_eq!(hashes(&|| assert_eq!(map.swap("a", 4), Some(3))), 1);
        assert_eq!(
            hashes(&|| assert_eq!(map.get_or_insert_with("c", || 5), 5)),
            1
        );
        assert_eq!(hashes(&|| assert!(!map.remove_if("c", |_| false))), 1);
        assert_eq!(hashes(&|| assert_eq!(map.take("c"), Some(5))), 1);
        assert_eq!(hashes(&|| map.remove("b")), 1);
        let keys = ["a", "b", "a", "x"];
        assert_eq!(
            hashes(&|| assert_eq!(map.get_batch(keys), [Some(4), None, Some(4), None])),
            4
        );
    });
}

/// The chi-square statistic of `cells` over the keys of one shard among 256, for 127 degrees of freedom.
fn assert_uniform_inside_a_shard(cell: fn(u64) -> usize) {
    let map: ShardedCache<u64, ()> = ShardedCache::with_hasher(DefaultHashBuilder::with_seed(3));
    let hashes = (0..400_000_u64).map(|key| map.hasher().hash_one(key));
    let mut counts = [0_f64; 128];
    hashes
        .filter(|&hash| map.index_of(hash) == 77)
        .for_each(|hash| counts[cell(hash) % 128] += 1.0);
    let expected = counts.iter().sum::<f64>() / 128.0;
    assert!(
        expected > 8.0,
        "too few keys in the shard: {}",
        expected * 128.0
    );
    let chi: f64 = counts
        .iter()
        .map(|count| (count - expected) * (count - expected) / expected)
        .sum();
    // Mean 127, standard deviation 15.9; six of them above.
    assert!(chi < 223.0, "chi-square {chi}");
}

#[test]
fn buckets_are_uniform_inside_a_shard() {
    rule("shard bits overlap the buckets'", || {
        assert_uniform_inside_a_shard(|hash| hash as usize)
    });
}

#[test]
fn tags_are_uniform_inside_a_shard() {
    rule("shard bits overlap the tags'", || {
        assert_uniform_inside_a_shard(|hash| (hash >> 57) as usize)
    });
}

#[test]
fn the_value_tested_is_the_value_removed() {
    rule(
        "the condition is not tested under the removing lock",
        || {
            let map = ShardedCache::new();
            map.insert(1, 2);
            let (tested, go) = mpsc::channel();
            thread::scope(|scope| {
                let map = &map;
                scope.spawn(move || {
                    go.recv().expect("the condition runs");
                    map.insert(1, 3);
                });
                map.remove_if(&1, |value| {
                    tested.send(()).expect("the other thread waits");
                    value % 2 == 0
                });
            });
            assert_eq!(map.get(&1), Some(3), "an untested value is gone");
        },
    );
}

#[test]
fn init_runs_once_per_absent_key() {
    rule("init outside the lock", || {
        let (map, runs) = (ShardedCache::new(), AtomicUsize::new(0));
        let init = || {
            thread::sleep(Duration::from_millis(20));
            runs.fetch_add(1, Ordering::Relaxed)
        };
        thread::scope(|scope| {
            (0..4).for_each(|_| drop(scope.spawn(|| map.get_or_insert_with(1, init))))
        });
        assert_eq!((runs.load(Ordering::Relaxed), map.len()), (1, 1));
    });
}

/// A big batch and a small one, which are sorted in different ways.
fn batches_answer_as_single_reads_do() {
    let map: ShardedCache<u64, u64> = ShardedCache::with_hasher(DefaultHashBuilder::with_seed(5));
    map.bulk_load((0..1_000).map(|key| (key, key + 1)));
    for len in [20, 3_000] {
        // Misses and duplicates, next to one another and not.
        let keys: Vec<u64> = (0..len).map(|n| n / 2 * 7 % 1_100).collect();
        let expected: Vec<_> = keys.iter().map(|key| map.get(key)).collect();
        let mut answers = vec![Some(None); keys.len()];
        map.get_batch_with(&keys, |position, value| {
            answers[position] = Some(value.copied())
        });
        assert!(
            answers
                .into_iter()
                .map(Option::unwrap)
                .eq(expected.iter().copied())
        );
        let mut answers = vec![None; keys.len()];
        map.get_batch_serial_with(&keys, |position, value| answers[position] = value.copied());
        assert_eq!(answers, expected);
        assert_eq!(map.get_batch(&keys), expected);
        assert_eq!(map.get_batch_with_threads(2, &keys), expected);
    }
}

#[test]
fn batches_answer_in_the_order_asked() {
    rule("answers in shard order", batches_answer_as_single_reads_do);
}

#[test]
fn every_duplicate_in_a_batch_is_answered() {
    rule(
        "a coalesced key loses its position",
        batches_answer_as_single_reads_do,
    );
}

#[test]
fn threads_share_a_batch_between_groups() {
    rule("a turn ends inside a shard's group", || {
        // One key many times over, so that its group is longer than a turn, among others.
        let map: ShardedCache<u64, u64> = (0..1_000).map(|key| (key, key)).collect();
        let keys: Vec<u64> = (0..4_000)
            .map(|n| if n % 2 == 0 { 7 } else { n % 1_000 })
            .collect();
        let plan = map.plan::<u64, _, true>(&keys);
        let key_at = |place: usize| plan.keys[plan.order[place]].key;
        let mut end = 0;
        for turn in 0..keys.len().div_ceil(crate::batch::KEYS_PER_TURN) {
            let places = map.turn(&plan, turn);
            assert_eq!(places.start, end, "no place is left out or taken twice");
            end = places.end;
            if end > 0 && end < keys.len() {
                let shards = [end - 1, end].map(|place| map.shard_of(key_at(place)));
                assert_ne!(shards[0], shards[1], "two locks for one shard");
            }
        }
        assert_eq!(end, keys.len());
    });
}

/// With shards in the order a, b, c: while the batch is in b, version 1 is written to a key of a, then to one of c.
#[test]
fn a_batch_shows_different_moments_of_different_shards() {
    let map: ShardedCache<u64, u64> = ShardedCache::with_hasher(DefaultHashBuilder::with_seed(5));
    let mut keys: Vec<u64> = (0..3).collect();
    keys.sort_by_key(|key| map.shard_of(key));
    assert!(
        keys.windows(2)
            .all(|pair| map.shard_of(&pair[0]) < map.shard_of(&pair[1]))
    );
    let [first, pause, second] = keys[..] else {
        panic!("three keys")
    };
    map.bulk_load(keys.iter().map(|&key| (key, 0)));
    let mut answers = [None; 3];
    map.get_batch_with(&keys, |position, value| {
        answers[position] = value.copied();
        if keys[position] == pause {
            thread::scope(|scope| {
                scope.spawn(|| {
                    map.insert(first, 1);
                    map.insert(second, 1);
                });
            });
        }
    });
    assert_eq!(answers, [Some(0), Some(0), Some(1)]);
}
