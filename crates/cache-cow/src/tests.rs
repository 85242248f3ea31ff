//! One test per rule of the protocol: it holds, and the variant of this crate that breaks it is noticed.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use cache_api::REENTRANT;

use crate::CowCache;
use crate::broken::switch;

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

#[test]
fn a_write_from_inside_a_write_is_refused() {
    rule("no re-entry guard", || {
        let (done, ended) = mpsc::channel();
        thread::spawn(move || {
            let map = CowCache::new();
            let outcome = catch_unwind(AssertUnwindSafe(|| {
                map.upsert(1, |_| {
                    map.insert(2, 2);
                    1
                });
            }));
            let panic = outcome.map_err(|payload| {
                payload
                    .downcast_ref::<String>()
                    .cloned()
                    .unwrap_or_default()
            });
            let _ = done.send((panic, map.len()));
        });
        let (outcome, len) = ended
            .recv_timeout(Duration::from_secs(5))
            .expect("the call hangs");
        let message = outcome.expect_err("the call is not refused");
        assert!(message.contains(REENTRANT), "{message}");
        assert_eq!(len, 0);
    });
}

#[test]
fn reads_from_inside_work_and_writes_from_inside_reads_too() {
    let _as_is = switch::on("nothing");
    let map: CowCache<_, _> = (0..20).map(|key| (key, key)).collect();
    map.update_many(|draft| {
        draft.insert(1, 100);
        // The draft shows the change, the map does not yet.
        assert_eq!(
            (draft.get(&1), map.get(&1), map.len()),
            (Some(&100), Some(1), 20)
        );
    });
    // As deep as one likes: more than a thread has slots.
    fn nested(map: &CowCache<i32, i32>, depth: i32) -> i32 {
        map.get_with(&depth, |value| {
            if depth == 0 {
                *value
            } else {
                value + nested(map, depth - 1)
            }
        })
        .unwrap_or(0)
    }
    assert_eq!(nested(&map, 19), (0..20).sum::<i32>() - 1 + 100);
    // A reader that writes goes on reading what it found.
    let seen = map.get_with(&2, |value| {
        map.insert(2, 200);
        map.clear();
        *value
    });
    assert_eq!((seen, map.len()), (Some(2), 0));
    map.for_each(|_, _| unreachable!("it is empty"));
}

/// Writes to its map when dropped.
#[derive(Clone)]
struct Caller(Weak<CowCache<u8, Caller>>);

impl Drop for Caller {
    fn drop(&mut self) {
        if let Some(map) = self.0.upgrade() {
            map.remove(&99);
        }
    }
}

#[test]
fn replaced_values_are_dropped_without_the_lock() {
    rule("drop under the lock", || {
        let map = Arc::new(CowCache::new());
        let value = || Caller(Arc::downgrade(&map));
        map.insert(1, value());
        map.insert(1, value());
        map.upsert(1, |_| value());
        map.bulk_load([(1, value()), (2, value()), (2, value())]);
        map.retain(|key, _| *key == 1);
        map.remove(&1);
        map.insert(1, value());
        map.clear();
    });
}

#[test]
fn no_update_is_lost() {
    rule("read before the lock", || {
        let map = CowCache::new();
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    (0..50).for_each(|_| map.upsert(1, |seen| seen.map_or(1, |n| n + 1)))
                });
            }
        });
        assert_eq!(map.get(&1), Some(100));
    });
}

#[test]
fn init_runs_once_per_absent_key() {
    rule("no second look", || {
        let (map, runs) = (CowCache::new(), AtomicUsize::new(0));
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

#[test]
fn a_panic_publishes_nothing() {
    let _as_is = switch::on("nothing");
    let map: CowCache<_, _> = (0..10).map(|key| (key, key)).collect();
    let calls: [&dyn Fn(); 4] = [
        &|| {
            map.update_many(|draft| {
                draft.clear();
                panic!("half done");
            });
        },
        &|| map.bulk_load((0..5).map(|n| if n < 3 { (n, 100) } else { panic!("no more") })),
        &|| map.retain(|key, _| if *key < 100 { panic!("never") } else { false }),
        &|| map.upsert(1, |_| panic!("no value")),
    ];
    for call in calls {
        assert!(catch_unwind(AssertUnwindSafe(call)).is_err());
        assert_eq!(map.len(), 10);
        assert!((0..10).all(|key| map.get(&key) == Some(key)));
    }
    map.insert(1, 2);
    assert_eq!(map.get(&1), Some(2));
}

/// Counts copies and drops of values.
struct Counted(Arc<(AtomicUsize, AtomicUsize)>);

impl Clone for Counted {
    fn clone(&self) -> Self {
        self.0.0.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(&self.0))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.1.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn many_changes_cost_one_copy_and_no_change_costs_none() {
    let _as_is = switch::on("nothing");
    let counts = Arc::new((AtomicUsize::new(0), AtomicUsize::new(0)));
    let value = || Counted(Arc::clone(&counts));
    let copies = |call: &dyn Fn()| {
        let before = counts.0.load(Ordering::Relaxed);
        call();
        counts.0.load(Ordering::Relaxed) - before
    };
    let map = CowCache::new();
    assert_eq!(
        copies(&|| map.bulk_load((0..100).map(|key| (key, value())))),
        0
    );
    assert_eq!(
        copies(&|| map.bulk_load((0..50).map(|key| (key, value())))),
        100
    );
    assert_eq!(
        copies(&|| map.update_many(|draft| (0..90).for_each(|key| drop(draft.remove(&key))))),
        100
    );
    assert_eq!((map.len(), copies(&|| map.insert(99, value()))), (10, 10));
    assert_eq!(copies(&|| map.remove(&1)), 0);
    assert_eq!(copies(&|| assert!(!map.remove_if(&99, |_| false))), 0);
    assert_eq!(copies(&|| map.retain(|_, _| true)), 0);
    assert_eq!(
        copies(&|| map.update_many(|draft| assert!(draft.contains_key(&99)))),
        0
    );
    assert_eq!(copies(&|| map.clear()), 0);
    // Nobody reads: every version went with the write that replaced it.
    assert_eq!(map.reclaim(), 0);
    let (copied, dropped) = (
        counts.0.load(Ordering::Relaxed),
        counts.1.load(Ordering::Relaxed),
    );
    assert_eq!(dropped, copied + 151);
}

#[test]
fn an_old_version_lives_as_long_as_somebody_looks() {
    let _as_is = switch::on("nothing");
    let counts = Arc::new((AtomicUsize::new(0), AtomicUsize::new(0)));
    let map = CowCache::new();
    map.insert(1, Counted(Arc::clone(&counts)));
    let view = map.snapshot();
    map.clear();
    assert_eq!((view.len(), counts.1.load(Ordering::Relaxed)), (1, 0));
    let fork = map.clone();
    drop(view);
    assert_eq!(counts.1.load(Ordering::Relaxed), 1);
    fork.insert(2, Counted(Arc::clone(&counts)));
    assert_eq!((map.len(), fork.len()), (0, 1));
    // A reader inside: the version waits for the next writer, or for `reclaim`.
    fork.get_with(&2, |_| {
        fork.clear();
        assert_eq!((fork.reclaim(), counts.1.load(Ordering::Relaxed)), (0, 1));
    });
    assert_eq!((fork.reclaim(), counts.1.load(Ordering::Relaxed)), (1, 2));
}

/// Compiles: what may be sent and shared. (What may not is in doctests.)
#[test]
fn thread_safety_of_the_types() {
    fn send_and_sync<T: Send + Sync>() {}
    send_and_sync::<CowCache<String, Vec<u8>>>();
    send_and_sync::<crate::CowView<String, Vec<u8>>>();
}
