//! Maps that come and go, handles that go at awkward moments, threads that end: no thread, no value is left over.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use cache_actor::{Builder, Map};
use cache_api::{Cache, Consistency, GetBatch, Iterate, Routed, Update};

/// Runs `body` on a thread of its own; a hang is a failure.
fn in_time(body: impl FnOnce() + Send + 'static) {
    let (done, ended) = channel();
    let worker = thread::spawn(move || {
        body();
        let _ = done.send(());
    });
    if ended.recv_timeout(Duration::from_secs(60))
        == Err(std::sync::mpsc::RecvTimeoutError::Timeout)
    {
        panic!("the test hangs");
    }
    if let Err(payload) = worker.join() {
        std::panic::resume_unwind(payload);
    }
}

/// Counts the living.
#[derive(Debug)]
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(living: &Arc<AtomicUsize>) -> Self {
        living.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(living))
    }
}

impl Clone for Counted {
    fn clone(&self) -> Self {
        Self::new(&self.0)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The owner threads of this process whose names start with `prefix`, as the kernel lists them.
#[cfg(target_os = "linux")]
fn owner_threads() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").expect("Linux lists threads");
    let names =
        tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.filter(|name| name.starts_with("cache-actor")).count()
}

/// Everything that counts threads of the whole process is one test; the others of this file use maps as well, so this
/// one waits for a quiet moment at its end.
#[test]
#[cfg(target_os = "linux")]
fn ten_maps_created_and_dropped_a_hundred_times_leave_no_thread() {
    in_time(|| {
        let living = Arc::new(AtomicUsize::new(0));
        for round in 0..100_u64 {
            let maps: Vec<Map<u64, Counted>> =
                (0..10).map(|_| Builder::new().owners(2).build()).collect();
            for map in &maps {
                (0..8).for_each(|key| map.insert(key, Counted::new(&living)));
                assert!(round % 10 != 0 || map.len() == 8);
            }
            drop(maps);
            assert_eq!(living.load(Ordering::SeqCst), 0);
        }
        // A joined thread may stay listed for a moment, and the other tests' maps come and go.
        let end = Instant::now() + Duration::from_secs(40);
        while owner_threads() > 0 {
            assert!(
                Instant::now() < end,
                "{} owner threads are left",
                owner_threads()
            );
            thread::sleep(Duration::from_millis(5));
        }
    });
}

#[test]
fn handles_dropped_in_the_middle_of_requests() {
    in_time(|| {
        for round in 0..50_u64 {
            let living = Arc::new(AtomicUsize::new(0));
            let map = Builder::new().owners(2).mailbox(8).build();
            let barrier = Arc::new(Barrier::new(9));
            let busy: Vec<_> = (0..8_u64)
                .map(|caller| {
                    let (map, barrier, living) =
                        (map.clone(), Arc::clone(&barrier), Arc::clone(&living));
                    thread::spawn(move || {
                        barrier.wait();
                        // Each ends, and drops its handle, at another moment; one of them is the last.
                        for n in 0..(caller + round) % 9 * 5 {
                            map.insert(n, Counted::new(&living));
                            assert!(map.get(&n).is_some());
                            map.get_batch(&[n, n + 1, n]);
                        }
                        let last = map.clone();
                        last.get_with(&0, move |_| drop(map));
                    })
                })
                .collect();
            barrier.wait();
            drop(map);
            for caller in busy {
                caller.join().expect("every request is answered");
            }
            // The last handle may have gone on an owner, which then ends on its own.
            let end = Instant::now() + Duration::from_secs(10);
            while living.load(Ordering::SeqCst) > 0 {
                assert!(
                    Instant::now() < end,
                    "{} values are left",
                    living.load(Ordering::SeqCst)
                );
                thread::yield_now();
            }
        }
    });
}

#[test]
fn shared_by_reference_and_dropped_while_the_mailboxes_are_full() {
    in_time(|| {
        let living = Arc::new(AtomicUsize::new(0));
        for _ in 0..50 {
            let map = Builder::new().owners(2).mailbox(16).build();
            thread::scope(|scope| {
                for caller in 0..4_u64 {
                    let (map, living) = (&map, &living);
                    scope.spawn(move || {
                        (0..100).for_each(|n| map.insert(caller * 50 + n, Counted::new(living)));
                        (0..50).for_each(|n| map.remove(caller * 50 + n));
                    });
                }
            });
            drop(map);
            assert_eq!(living.load(Ordering::SeqCst), 0);
        }
    });
}

thread_local! {
    /// Set before the map is first used on a thread, so that it is destroyed after the crate's own locals.
    static EARLY: RefCell<Option<AtExit>> = const { RefCell::new(None) };
    /// Set after, so that it is destroyed before them.
    static LATE: RefCell<Option<AtExit>> = const { RefCell::new(None) };
}

/// Uses the map when its thread ends.
struct AtExit(Map<u64, u64>, u64);

impl Drop for AtExit {
    fn drop(&mut self) {
        let AtExit(map, key) = self;
        map.insert(*key, 1);
        assert_eq!(map.get(key), Some(1));
        map.upsert(*key, |n| n.map_or(0, |n| n + 1));
        assert_eq!(map.get_batch(&[*key, *key]), [Some(2), Some(2)]);
        // Fills the mailbox: blocking works here too.
        (0..100).for_each(|n| map.insert(1_000 + n, n));
    }
}

#[test]
fn destructors_of_thread_locals_may_use_the_map() {
    in_time(|| {
        let map = Builder::new().owners(2).mailbox(4).build();
        for n in 0..20 {
            let map = map.clone();
            let ended = thread::spawn(move || {
                EARLY.with(|slot| *slot.borrow_mut() = Some(AtExit(map.clone(), n * 2)));
                assert_eq!(map.get(&999), None);
                LATE.with(|slot| *slot.borrow_mut() = Some(AtExit(map.clone(), n * 2 + 1)));
            });
            ended.join().expect("the thread ends");
        }
        for key in 0..40 {
            assert_eq!(map.get(&key), Some(2), "key {key}");
        }
        assert_eq!(map.len(), 140);
    });
}

#[test]
fn the_last_handle_may_go_with_its_thread() {
    in_time(|| {
        let map: Map<u64, u64> = Builder::new().owners(2).build();
        let ended = thread::spawn(move || {
            EARLY.with(|slot| *slot.borrow_mut() = Some(AtExit(map.clone(), 0)));
            drop(map);
        });
        // Joins the owners while the thread's locals are being destroyed.
        ended.join().expect("the thread ends");
    });
}

/// Threads that end right after their blind writes: the writes are the map's, not the thread's.
#[test]
fn writes_outlive_their_threads() {
    in_time(|| {
        let map = Builder::new().owners(2).mailbox(8).build();
        for n in 0..200_u64 {
            let map = map.clone();
            thread::spawn(move || map.insert(n, n))
                .join()
                .expect("the thread ends");
        }
        assert_eq!(map.len(), 200);
        assert!((0..200).all(|n| map.get(&n) == Some(n)));
    });
}

/// Writes of several threads to one key: whoever reads sees each thread's writes in the order of their enqueuing.
#[test]
fn each_writers_writes_are_observed_in_order() {
    in_time(|| {
        let map = Builder::new()
            .shards(4)
            .owners(2)
            .mailbox(16)
            .build::<u64, (u64, u64)>();
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let mut newest: HashMap<(u64, u64), u64> = HashMap::new();
                    while !stop.load(Ordering::Relaxed) {
                        for key in 0..4 {
                            if let Some((writer, n)) = map.get(&key) {
                                let seen = newest.entry((key, writer)).or_insert(0);
                                assert!(
                                    n >= *seen,
                                    "key {key}: {n} after {seen} of writer {writer}"
                                );
                                *seen = n;
                            }
                        }
                    }
                });
            }
            let writers: Vec<_> = (0..2)
                .map(|writer| {
                    let map = &map;
                    scope.spawn(move || (1..=4_000).for_each(|n| map.insert(n % 4, (writer, n))))
                })
                .collect();
            for writer in writers {
                writer.join().expect("the writer ends");
            }
            stop.store(true, Ordering::Relaxed);
        });
        // The last write that was enqueued for a key is some writer's last one for it.
        assert!((0..4).all(|key| map.get(&key).is_some_and(|(_, n)| n > 3_996)));
    });
}

/// Two keys of different shards, written one after the other: a per-shard batch can show the second write without the
/// first, which no snapshot may. This is what `Consistency::PerShard` warns of.
#[test]
fn a_per_shard_batch_is_not_a_snapshot() {
    assert_eq!(
        <Map<u64, u64> as GetBatch<u64, u64>>::CONSISTENCY,
        Consistency::PerShard
    );
    in_time(|| {
        let map = Builder::new().shards(2).owners(2).build::<u64, u64>();
        let in_shard = |shard| {
            (0..)
                .find(|key| map.partition_of(key) == shard)
                .expect("keys spread")
        };
        let (k1, k2) = (in_shard(0), in_shard(1));
        map.insert(k1, 0);
        map.insert(k2, 0);
        let (go, start) = channel();
        let (written, both) = channel();
        let writer = {
            let map = map.clone();
            thread::spawn(move || {
                start.recv().expect("the batch has read k1");
                map.insert(k1, 1);
                map.insert(k2, 1);
                written.send(()).expect("the batch is waiting");
            })
        };
        let mut seen = [None; 2];
        let answers = &mut seen;
        map.get_batch_with(&[k1, k2], move |position, value| {
            answers[position] = value.copied();
            if position == 0 {
                // After the first shard's answer and before the second's, both writes happen, k1 first.
                go.send(()).expect("the writer is waiting");
                both.recv().expect("blind writes return once enqueued");
            }
        });
        writer.join().expect("the writer ends");
        assert_eq!(
            seen,
            [Some(0), Some(1)],
            "k2's write without k1's, which came before it"
        );
    });
}

#[test]
fn collections_face() {
    let map: Map<u32, u32> = (0..10).map(|n| (n, n)).collect();
    let mut handle = map.clone();
    handle.extend([(10, 10), (3, 33)]);
    (&map).extend([(11, 11)]);
    assert_eq!((map.len(), map.get(&3)), (12, Some(33)));
    let mut keys = map.keys();
    keys.sort_unstable();
    assert_eq!(keys, (0..12).collect::<Vec<_>>());
    assert!(format!("{map:?}").starts_with("Map { shards: 256, owners: "));
    assert!(Map::<u32, u32>::default().is_empty());
}
