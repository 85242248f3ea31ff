//! One test per rule of the protocol: it holds, and the variant of this crate that breaks it is noticed.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use cache_api::REENTRANT;

use crate::broken::switch;
use crate::{MutexCache, NaiveCache, RwLockCache};

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
            let map = MutexCache::new();
            map.insert(1, 1);
            map.get_with(&1, |_| map.len());
        });
        expect_refusal(|| {
            let map = RwLockCache::new();
            map.insert(1, 1);
            map.get_with(&1, |_| map.insert(1, 2));
        });
    });
}

#[test]
fn the_unsynchronised_map_lets_reads_nest_and_refuses_the_rest() {
    let _as_is = switch::on("nothing");
    let map = NaiveCache::new();
    map.insert(1, 1);
    assert_eq!(map.get_with(&1, |one| one + map.len()), Some(2));
    for call in [
        (|map| _ = map.get_with(&1, |_| map.insert(1, 2))) as fn(&NaiveCache<u8, usize>),
        |map| map.upsert(1, |_| map.len()),
        |map| map.retain(|_, _| map.is_empty()),
    ] {
        let panic = catch_unwind(AssertUnwindSafe(|| call(&map))).expect_err("it is refused");
        let message = panic.downcast_ref::<&str>().expect("a text");
        assert!(message.contains(REENTRANT), "{message}");
        assert_eq!(map.get(&1), Some(1));
    }
}

/// Asks its map for the length when dropped.
#[derive(Clone)]
struct Caller(Weak<MutexCache<u8, Caller>>);

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
        let map = Arc::new(MutexCache::new());
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

#[test]
fn what_a_panic_leaves_behind_is_dropped_without_the_lock() {
    let _as_is = switch::on("nothing");
    let map = Arc::new(MutexCache::new());
    let value = || Caller(Arc::downgrade(&map));
    map.insert(1, value());
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let mut keep = [true, false].into_iter();
        map.insert(2, value());
        map.retain(|_, _| keep.next().expect("the third call panics"));
        map.insert(3, value());
        map.retain(|_, _| keep.next().expect("this one panics"));
    }));
    assert!(panicked.is_err());
    assert!(map.len() < 3);
}

#[test]
fn init_runs_once_per_absent_key() {
    rule("init outside the lock", || {
        let (map, runs) = (RwLockCache::new(), AtomicUsize::new(0));
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

/// Compiles: what may be sent and shared. (What may not is in doctests.)
#[test]
fn thread_safety_of_the_types() {
    fn send_and_sync<T: Send + Sync>() {}
    fn send<T: Send>() {}
    send_and_sync::<RwLockCache<String, Vec<u8>>>();
    // A mutex lends its content to one thread at a time, so that need not be Sync.
    send_and_sync::<MutexCache<u8, std::cell::Cell<u8>>>();
    send::<NaiveCache<String, Vec<u8>>>();
}

#[test]
fn debug_clone_and_capacity() {
    let _as_is = switch::on("nothing");
    let map: MutexCache<_, _> = [("a", 1)].into_iter().collect();
    assert_eq!(format!("{map:?}"), r#"{"a": 1}"#);
    assert_eq!(
        map.get_with("a", |_| format!("{map:?}")).as_deref(),
        Some("<mutex held by this thread>")
    );
    let copy = map.clone();
    map.insert("a", 2);
    assert_eq!(copy.get("a"), Some(1));
    for capacity in [0, 1, 1000, usize::MAX] {
        let map = RwLockCache::with_capacity(capacity);
        map.reserve(usize::MAX);
        map.insert(1, 1);
        map.shrink_to_fit();
        assert_eq!((map.get(&1), map.capacity() < 100), (Some(1), true));
    }
}
