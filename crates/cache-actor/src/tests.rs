//! What the protocol promises, one test per rule; `mutants.rs` shows that each catches a crate that breaks it.

use std::cell::RefCell;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use cache_api::{Cache, GetBatch, Iterate, REENTRANT, Update};

use crate::{Builder, Map, TryInsertError};

/// One owner thread for everything: what is said about it is then said about every request.
fn one_owner<K, V>() -> Map<K, V>
where
    K: std::hash::Hash + Eq + Send + 'static,
    V: Send + 'static,
{
    Builder::new().owners(1).build()
}

/// Runs `body` on a thread of its own; a hang is a failure, and leaves the thread behind.
fn in_time(body: impl FnOnce() + Send + 'static) {
    let (done, ended) = channel();
    let worker = thread::spawn(move || {
        let outcome = catch_unwind(AssertUnwindSafe(body));
        let _ = done.send(());
        outcome
    });
    ended
        .recv_timeout(Duration::from_secs(30))
        .expect("the test hangs");
    if let Err(payload) = worker.join().expect("the panic is caught") {
        std::panic::resume_unwind(payload);
    }
}

/// Keeps an owner busy until the returned sender is used or dropped; returns once it is busy.
fn occupy<V: Send + 'static>(map: &Map<u64, V>, key: u64) -> (Sender<()>, thread::JoinHandle<()>) {
    let (open, gate) = channel::<()>();
    let (entered, entry) = channel();
    let map = map.clone();
    let waiting = thread::spawn(move || {
        let gate: Receiver<()> = gate;
        map.ask(map.routing().owner_of(map.hash_of(&key)), move |_| {
            let _ = entered.send(());
            let _ = gate.recv();
        });
    });
    entry.recv().expect("the owner is asked");
    (open, waiting)
}

/// The text of the panic of `f`.
fn panic_of<R>(f: impl FnOnce() -> R) -> String {
    let payload = catch_unwind(AssertUnwindSafe(f))
        .map(|_| ())
        .expect_err("a panic is expected");
    match payload.downcast::<String>() {
        Ok(text) => *text,
        Err(payload) => payload
            .downcast_ref::<&str>()
            .map(|text| (*text).to_owned())
            .unwrap_or_default(),
    }
}

/// Counts the living.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(living: &Arc<AtomicUsize>) -> Self {
        living.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(living))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[test]
fn every_caller_gets_its_own_answer() {
    in_time(|| {
        let map = one_owner();
        (0..8_u64).for_each(|key| map.insert(key, key * 10));
        for _ in 0..3 {
            let (open, waiting) = occupy(&map, 0);
            // All are queued before the owner hears the first.
            let callers: Vec<_> = (0..8_u64)
                .map(|key| {
                    let map = map.clone();
                    let slowly = |value: &u64| {
                        // Long enough for a caller that is woken too early to look for its answer.
                        thread::sleep(Duration::from_millis(5));
                        *value
                    };
                    thread::spawn(move || (key, map.get_with(&key, slowly)))
                })
                .collect();
            map.wait_for_queued(0, 8);
            drop(open);
            waiting.join().expect("the gate opens");
            for caller in callers {
                let (key, answer) = caller.join().expect("an answer");
                assert_eq!(answer, Some(key * 10));
            }
        }
    });
}

#[test]
fn a_full_mailbox_loses_nothing() {
    in_time(|| {
        let map = Builder::new().owners(1).mailbox(2).build();
        let (open, waiting) = occupy(&map, 0);
        let mut kept = 0;
        while map.try_insert(kept, kept).is_ok() {
            kept += 1;
        }
        assert_eq!(kept, 2);
        // Gives back what it did not take, and says so.
        let refused = map.try_insert(1_000, 7).expect_err("full");
        assert!(
            refused.is_full() && refused.to_string().contains("full"),
            "{refused}"
        );
        assert_eq!(refused.into_entry(), (1_000, 7));
        let writer = {
            let map = map.clone();
            thread::spawn(move || (kept..100).for_each(|key| map.insert(key, key)))
        };
        thread::sleep(Duration::from_millis(20));
        assert!(!writer.is_finished(), "a full mailbox must hold the writer");
        drop(open);
        waiting.join().expect("the gate opens");
        writer.join().expect("room comes");
        assert_eq!(map.len(), 100);
        assert!((0..100).all(|key| map.get(&key) == Some(key)));
        assert_eq!(map.get(&1_000), None);
    });
}

#[test]
fn a_panicking_closure_answers_its_caller() {
    in_time(|| {
        let map = one_owner();
        map.insert(1_u64, 1_u64);
        assert_eq!(
            panic_of(|| map.get_with(&1, |_| -> u64 { panic!("get_with") })),
            "get_with"
        );
        assert_eq!(panic_of(|| map.upsert(1, |_| panic!("upsert"))), "upsert");
        assert_eq!(panic_of(|| map.upsert(2, |_| panic!("upsert"))), "upsert");
        assert_eq!(
            panic_of(|| map.get_or_insert_with(2, || panic!("init"))),
            "init"
        );
        assert_eq!(
            panic_of(|| map.remove_if(&1, |_| panic!("remove_if"))),
            "remove_if"
        );
        assert_eq!(
            panic_of(|| map.update(&1, |_| -> u64 { panic!("update") })),
            "update"
        );
        assert_eq!(
            panic_of(|| map.for_each(|_, _| panic!("for_each"))),
            "for_each"
        );
        assert_eq!(panic_of(|| map.retain(|_, _| panic!("retain"))), "retain");
        assert_eq!(
            panic_of(|| map.get_batch_with(&[1, 2], |_, _| panic!("batch"))),
            "batch"
        );
        // The shard lives on, for all.
        thread::scope(|scope| {
            for caller in 10..18 {
                let map = &map;
                scope.spawn(move || {
                    map.insert(caller, caller);
                    assert_eq!(map.get(&caller), Some(caller));
                    assert_eq!(map.get(&1), Some(1));
                });
            }
        });
        assert_eq!((map.len(), map.failed_writes()), (9, 0));
    });
}

#[test]
fn a_batch_answers_what_a_loop_answers() {
    in_time(|| {
        let map = Builder::new().shards(16).owners(3).build();
        (0..500_u64).for_each(|key| map.insert(key, key + 1));
        for len in [0, 1, 2, 3, 40, 1_000] {
            // Misses from 500 on; every third key repeats.
            let keys: Vec<u64> = (0..len)
                .map(|n| if n % 3 == 0 { 7 } else { n * 7_919 % 1_000 })
                .collect();
            let looped: Vec<_> = keys.iter().map(|key| map.get(key)).collect();
            assert_eq!(map.get_batch(&keys), looped);
            let mut closures = vec![None; keys.len()];
            map.get_batch_with(&keys, |position, value| {
                assert_eq!(closures[position], None);
                closures[position] = Some(value.copied());
            });
            assert_eq!(closures, looped.into_iter().map(Some).collect::<Vec<_>>());
        }
    });
}

#[test]
fn every_occurrence_of_a_key_is_answered() {
    let map = one_owner();
    map.insert(1_u64, 10);
    assert_eq!(map.get_batch(&[1; 9]), [Some(10); 9]);
    assert_eq!(map.get_batch(&[2; 9]), [None; 9]);
    assert_eq!(
        map.get_batch(&[1, 1, 2, 1, 2, 2]),
        [Some(10), Some(10), None, Some(10), None, None]
    );
    let mut seen = [0; 9];
    map.get_batch_with(&[1; 9], |position, _| seen[position] += 1);
    assert_eq!(seen, [1; 9]);
}

#[test]
fn dropping_the_map_drains_the_mailboxes() {
    in_time(|| {
        /// Counts, and may hold its owner up while it is dropped.
        struct Gated(
            #[allow(dead_code, reason = "counts by being dropped")] Counted,
            Option<Receiver<()>>,
        );
        impl Drop for Gated {
            fn drop(&mut self) {
                if let Some(gate) = &self.1 {
                    let _ = gate.recv();
                }
            }
        }
        let living = Arc::new(AtomicUsize::new(0));
        let map = one_owner();
        let (open, gate) = channel();
        map.insert(0, Gated(Counted::new(&living), Some(gate)));
        map.remove(0);
        // All of these wait behind the destructor.
        (0..200_u64).for_each(|key| map.insert(key % 50, Gated(Counted::new(&living), None)));
        (0..20_u64).for_each(|key| map.remove(key));
        let handles = map.handles();
        let dropped = thread::spawn(move || drop(map));
        while handles() > 0 {
            thread::yield_now();
        }
        thread::sleep(Duration::from_millis(20));
        assert!(!dropped.is_finished() && living.load(Ordering::SeqCst) == 201);
        drop(open);
        dropped.join().expect("the map drops");
        assert_eq!(living.load(Ordering::SeqCst), 0);
    });
}

#[test]
fn dropping_the_map_waits_for_the_owners() {
    in_time(|| {
        /// Takes its time, so that whoever does not wait is seen.
        struct Slow(#[allow(dead_code, reason = "counts by being dropped")] Counted);
        impl Drop for Slow {
            fn drop(&mut self) {
                thread::sleep(Duration::from_millis(20));
            }
        }
        let living = Arc::new(AtomicUsize::new(0));
        let map = Builder::new().owners(2).build();
        (0..4_u64).for_each(|key| map.insert(key, Slow(Counted::new(&living))));
        drop(map);
        assert_eq!(living.load(Ordering::SeqCst), 0);
    });
}

/// May hold a handle to the map that stores it, or hold its owner up while it is dropped.
struct Holder {
    map: Option<Map<u64, Holder>>,
    gate: Option<Receiver<()>>,
    told: Sender<thread::ThreadId>,
}

impl Drop for Holder {
    fn drop(&mut self) {
        if let Some(gate) = &self.gate {
            let _ = gate.recv();
        }
        // The last handle goes here, on the owner's thread.
        drop(self.map.take());
        let _ = self.told.send(thread::current().id());
    }
}

#[test]
fn the_last_handle_may_be_dropped_by_an_owner() {
    in_time(|| {
        for owners in [1, 2] {
            for _ in 0..20 {
                let (told, hear) = channel();
                let (open, gate) = channel();
                let map = Builder::new().owners(owners).build();
                let holder = move |map, gate| Holder {
                    map,
                    gate,
                    told: told.clone(),
                };
                map.insert(1, holder(None, Some(gate)));
                map.remove(1);
                map.insert(1, holder(Some(map.clone()), None));
                map.insert(2, holder(None, None));
                map.remove(1);
                let health = map.health_for_tests();
                drop(holder);
                drop(map);
                drop(open);
                let here = thread::current().id();
                // What is left in the map is dropped too, each exactly once, and the owners end.
                assert!((0..3).all(|_| hear.recv().expect("dropped") != here));
                assert!(hear.recv().is_err());
                let failed: u64 = health.iter().map(|health| health.failed_writes()).sum();
                assert_eq!(failed, 0);
            }
        }
    });
}

#[test]
fn a_parked_caller_is_woken() {
    in_time(|| {
        let map = one_owner::<u64, u64>();
        for key in 0..200 {
            map.insert(key, key);
            // Longer than any caller spins.
            let answer = map.get_with(&key, |value| {
                thread::sleep(Duration::from_millis(u64::from(key % 20 == 0)));
                *value
            });
            assert_eq!(answer, Some(key));
        }
    });
}

#[test]
fn a_dead_owner_is_an_error() {
    in_time(|| {
        let living = Arc::new(AtomicUsize::new(0));
        let map = Builder::new().owners(2).mailbox(4).build();
        (0..64_u64).for_each(|key| map.insert(key, Counted::new(&living)));
        let doomed = map.routing().owner_of(map.hash_of(&0_u64));
        let healthy = (0..64)
            .find(|key| map.routing().owner_of(map.hash_of(key)) != doomed)
            .expect("two owners");
        let (open, waiting) = occupy(&map, 0);
        map.kill_owner(doomed);
        // Requests that are already queued when it dies, and some that wait for room.
        let callers: Vec<_> = (0..8)
            .map(|_| {
                let map = map.clone();
                thread::spawn(move || panic_of(|| map.get_with(&0, |_| ())))
            })
            .collect();
        map.wait_for_queued(doomed, 4);
        drop(open);
        waiting.join().expect("the gate opens");
        for caller in callers {
            let message = caller.join().expect("told");
            assert!(message.contains("has died"), "{message}");
        }
        assert!(panic_of(|| map.insert(0, Counted::new(&living))).contains("has died"));
        assert!(panic_of(|| map.remove(0)).contains("has died"));
        assert!(panic_of(|| map.get_batch_with(&[0, healthy], |_, _| ())).contains("has died"));
        assert!(panic_of(|| map.len()).contains("has died"));
        let refused = map.try_insert(0, Counted::new(&living)).expect_err("dead");
        assert!(
            matches!(refused, TryInsertError::Dead(..)) && refused.to_string().contains("has died")
        );
        drop(refused);
        // The other owner knows nothing of it.
        map.insert(healthy, Counted::new(&living));
        assert!(map.contains_key(&healthy));
        drop(map);
        assert_eq!(living.load(Ordering::SeqCst), 0);
    });
}

#[test]
fn every_method_refuses_an_owner_of_the_map() {
    in_time(|| {
        let map = Builder::new().owners(2).build();
        (0..64_u64).for_each(|key| map.insert(key, key));
        let inner = map.clone();
        let refused = |call: &(dyn Fn(&Map<u64, u64>) + Sync)| {
            // From every owner, about every owner's keys.
            for key in 0..4 {
                let message = panic_of(|| map.get_with(&key, |_| call(&inner)));
                assert!(message.contains(REENTRANT), "{message}");
            }
        };
        refused(&|map| {
            map.get(&1);
        });
        refused(&|map| map.insert(1, 1));
        refused(&|map| {
            let _ = map.try_insert(1, 1);
        });
        refused(&|map| map.remove(1));
        refused(&|map| Cache::remove(map, &1));
        refused(&|map| {
            map.len();
        });
        refused(&|map| map.flush());
        refused(&|map| map.upsert(1, |_| 1));
        refused(&|map| {
            map.get_batch(&[1, 2]);
        });
        refused(&|map| map.clear());
        refused(&|map| {
            map.keys();
        });
        refused(&|map| map.shrink_to_fit());
        refused(&|map| map.retain(|_, _| true));
        // Through another map in between.
        let other = Builder::new().owners(1).build();
        other.insert(1_u64, 1_u64);
        let through = panic_of(|| {
            map.get_with(&1, |_| other.get_with(&1, |_| inner.len()));
        });
        assert!(through.contains(REENTRANT), "{through}");
        // Another map alone is fine, and so is the map itself afterwards.
        assert_eq!(
            map.get_with(&1, |one| other.get_with(&1, |other| one + other)),
            Some(Some(2))
        );
        assert_eq!((map.len(), map.failed_writes()), (64, 0));
    });
}

#[test]
fn a_later_get_observes_an_earlier_insert() {
    in_time(|| {
        let map = Builder::new().owners(2).mailbox(4).build();
        thread::scope(|scope| {
            for thread in 0..4_u64 {
                let map = &map;
                scope.spawn(move || {
                    for round in 0..200 {
                        let key = thread * 8 + round % 8;
                        map.insert(key, round);
                        assert_eq!(map.get(&key), Some(round));
                        map.remove(key);
                        assert_eq!(map.get(&key), None);
                    }
                });
            }
        });
        assert!(map.is_empty());
    });
}

/// A value whose destructor calls into the map it is stored in.
struct Rude {
    map: Option<Map<u64, Rude>>,
}

impl Drop for Rude {
    fn drop(&mut self) {
        if let Some(map) = &self.map {
            map.insert(99, Rude { map: None });
        }
    }
}

#[test]
fn a_destructor_on_the_owner_is_refused_counted_and_harmless() {
    in_time(|| {
        let map = one_owner();
        map.insert(
            1,
            Rude {
                map: Some(map.clone()),
            },
        );
        map.insert(1, Rude { map: None });
        map.flush();
        assert_eq!(
            (map.failed_writes(), map.len(), map.contains_key(&99)),
            (1, 1, false)
        );
        // A call that waits drops on its own thread, where calling the map is fine.
        map.insert(
            2,
            Rude {
                map: Some(map.clone()),
            },
        );
        Cache::remove(&map, &2);
        assert_eq!((map.failed_writes(), map.contains_key(&99)), (1, true));
        map.insert(
            3,
            Rude {
                map: Some(map.clone()),
            },
        );
        map.clear();
        assert_eq!((map.failed_writes(), map.contains_key(&99)), (1, true));
    });
}

/// A key whose comparison panics while `armed`.
#[derive(Clone)]
struct Touchy(u64, Arc<AtomicUsize>);

impl std::hash::Hash for Touchy {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        state.write_u64(7);
    }
}

impl PartialEq for Touchy {
    fn eq(&self, other: &Self) -> bool {
        assert!(self.1.swap(0, Ordering::SeqCst) == 0, "touchy");
        self.0 == other.0
    }
}

impl Eq for Touchy {}

#[test]
fn a_panicking_comparison_is_told_or_counted() {
    in_time(|| {
        let armed = Arc::new(AtomicUsize::new(0));
        let key = |n| Touchy(n, Arc::clone(&armed));
        let living = Arc::new(AtomicUsize::new(0));
        let map = one_owner();
        map.insert(key(1), Counted::new(&living));
        let arm = || armed.store(1, Ordering::SeqCst);
        arm();
        map.insert(key(1), Counted::new(&living));
        map.flush();
        assert_eq!(
            (
                map.failed_writes(),
                map.len(),
                living.load(Ordering::SeqCst)
            ),
            (1, 1, 1)
        );
        arm();
        map.remove(key(1));
        map.flush();
        assert_eq!((map.failed_writes(), map.len()), (2, 1));
        arm();
        assert_eq!(panic_of(|| Cache::remove(&map, &key(1))), "touchy");
        arm();
        assert_eq!(panic_of(|| map.contains_key(&key(1))), "touchy");
        arm();
        assert_eq!(
            panic_of(|| map.swap(key(2), Counted::new(&living))),
            "touchy"
        );
        assert_eq!(
            (
                map.failed_writes(),
                map.len(),
                living.load(Ordering::SeqCst)
            ),
            (2, 1, 1)
        );
        drop(map);
        assert_eq!(living.load(Ordering::SeqCst), 0);
    });
}

/// Values that may not be shared between threads are fine: only their owner ever looks at them.
#[test]
fn values_need_not_be_sync() {
    fn shared<T: Send + Sync>(_: &T) {}
    let map: Map<u64, RefCell<Vec<u64>>> = Map::new();
    shared(&map);
    map.insert(1, RefCell::new(Vec::new()));
    map.get_with(&1, |list| list.borrow_mut().push(5));
    assert_eq!(
        map.get_with(&1, |list| list.borrow().clone()),
        Some(vec![5])
    );
}

/// An answer may borrow from the caller, and a closure may write to the caller's variables.
#[test]
fn closures_may_borrow_from_the_caller() {
    let map = one_owner();
    map.insert(String::from("a"), 1_u64);
    let words = [String::from("zero"), String::from("one")];
    let mut calls = 0;
    let word: Option<&str> = map.get_with("a", |n| {
        calls += 1;
        words[*n as usize].as_str()
    });
    assert_eq!((word, calls), (Some("one"), 1));
}

#[test]
fn bulk_load_matches_a_loop() {
    in_time(|| {
        let map = Builder::new().shards(8).owners(3).build();
        let entries: Vec<(u64, u64)> = (0..5_000).map(|n| (n % 1_000, n)).collect();
        let model: HashMap<_, _> = entries.iter().copied().collect();
        cache_api::BulkLoad::bulk_load(&map, entries);
        assert_eq!(map.len(), model.len());
        assert_eq!(map.entries().into_iter().collect::<HashMap<_, _>>(), model);
        map.retain(|key, _| key % 2 == 0);
        assert_eq!(map.len(), 500);
        map.shrink_to_fit();
        assert_eq!(map.get(&2), model.get(&2).copied());
        map.clear();
        assert!(map.is_empty());
    });
}

#[test]
fn settings_out_of_range_are_refused_in_words() {
    let error = |builder: Builder| {
        builder
            .try_build::<u64, u64>()
            .expect_err("refused")
            .to_string()
    };
    assert!(error(Builder::new().shards(0)).contains("power of two"));
    assert!(error(Builder::new().shards(3)).contains("3 shards"));
    assert!(error(Builder::new().shards(1 << 17)).contains("65536"));
    assert!(error(Builder::new().owners(0)).contains("at least 1"));
    assert!(error(Builder::new().shards_per_owner(0)).contains("at least 1"));
    assert!(error(Builder::new().mailbox(0)).contains("at least 1"));
    assert_eq!(
        Builder::new()
            .shards(4)
            .owners(9)
            .build::<u64, u64>()
            .owners(),
        4
    );
    assert_eq!(
        Builder::new()
            .shards(16)
            .shards_per_owner(3)
            .build::<u64, u64>()
            .owners(),
        6
    );
    for capacity in [0, 1, usize::MAX] {
        let map = Map::with_capacity(capacity);
        map.insert((), ());
        assert_eq!(map.len(), 1);
    }
}
