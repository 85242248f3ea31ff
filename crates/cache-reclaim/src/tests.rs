//! One test per rule of the protocol: it holds, and the variant of this crate that breaks it is noticed. The rule of
//! the barrier needs a weak memory model: see `model.rs`.

use std::any::Any;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crate::broken::switch;
use crate::{Published, epoch};

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
fn what_is_read_is_not_given_away() {
    rule("nobody looks at the slots", || {
        let published = Published::new(Arc::new(1));
        let reading = published.read();
        let freed = published.replace(Arc::new(2));
        // The broken variant hands it out, and only this test's not dropping it keeps `reading` valid.
        let kept = (freed.len(), *reading);
        assert_eq!((kept, published.retired()), ((0, 1), 1));
        drop(reading);
        assert_eq!(published.reclaim(), [Arc::new(1)]);
        assert_eq!((*published.read(), published.retired()), (2, 0));
    });
}

#[test]
fn only_what_is_read_is_kept() {
    rule("any reader keeps everything", || {
        let (a, b) = (Published::new(Arc::new(1)), Published::new(Arc::new(2)));
        let _reading = a.read();
        assert_eq!(b.replace(Arc::new(3)).len(), 1);
        let _other = b.read();
        assert_eq!(b.replace(Arc::new(4)).len(), 0);
        assert_eq!(b.replace(Arc::new(5)).len(), 1);
    });
}

#[test]
fn a_snapshot_outlives_everything() {
    let _as_is = switch::on("nothing");
    let published = Published::new(Arc::new(String::from("old")));
    let snapshot = published.snapshot();
    assert_eq!(Arc::strong_count(&snapshot), 2);
    drop(published.replace(Arc::new(String::from("new"))));
    assert_eq!(Arc::strong_count(&snapshot), 1);
    drop(published);
    assert_eq!(*snapshot, "old");
}

#[test]
fn readings_nest_deeper_than_a_thread_has_slots_and_end_in_any_order() {
    let _as_is = switch::on("nothing");
    let published = Published::new(Arc::new(0));
    let mut readings = Vec::new();
    for n in 1..=40 {
        readings.push(published.read());
        assert!(published.replace(Arc::new(n)).is_empty());
    }
    assert_eq!(
        (
            readings.iter().map(|reading| **reading).sum::<i32>(),
            published.retired()
        ),
        ((0..40).sum(), 40)
    );
    while !readings.is_empty() {
        readings.swap_remove(readings.len() / 2);
        assert_eq!(published.reclaim().len(), 1);
    }
    assert_eq!(published.retired(), 0);
}

#[test]
fn a_forgotten_reading_costs_memory_only() {
    let _as_is = switch::on("nothing");
    // Never freed: the forgotten slot shows its first value for ever, and would keep whatever another test puts there.
    let published = keep(Box::new(Published::new(Arc::new(1))));
    std::mem::forget(published.read());
    assert!(published.replace(Arc::new(2)).is_empty());
    assert_eq!((*published.read(), published.retired()), (2, 1));
}

#[test]
fn a_panic_ends_the_reading() {
    let _as_is = switch::on("nothing");
    let published = Published::new(Arc::new(1));
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let _reading = published.read();
        panic!("user code");
    }));
    assert!(panicked.is_err());
    assert_eq!(published.replace(Arc::new(2)).len(), 1);
}

#[test]
fn thread_local_destructors_may_read() {
    let _as_is = switch::on("nothing");
    static PUBLISHED: std::sync::LazyLock<Published<u8>> =
        std::sync::LazyLock::new(|| Published::new(Arc::new(7)));
    static READ: AtomicUsize = AtomicUsize::new(0);
    struct Late;
    impl Drop for Late {
        fn drop(&mut self) {
            let (outer, inner) = (PUBLISHED.read(), PUBLISHED.read());
            READ.fetch_add(usize::from(*outer + *inner), Ordering::Relaxed);
        }
    }
    thread_local!(static LATE: RefCell<Vec<Late>> = const { RefCell::new(Vec::new()) });
    thread_local!(static LATER: RefCell<Vec<Late>> = const { RefCell::new(Vec::new()) });
    // Registered before and after this thread's first read: one of the two runs after the record was given back.
    thread::spawn(|| {
        LATE.with_borrow_mut(|late| late.push(Late));
        assert_eq!(*PUBLISHED.read(), 7);
        LATER.with_borrow_mut(|late| late.push(Late));
    })
    .join()
    .expect("both may read");
    assert_eq!(READ.load(Ordering::Relaxed), 28);
    assert_eq!(PUBLISHED.replace(Arc::new(8)).len(), 1);
}

/// A value that knows whether it is alive.
struct Canary {
    alive: AtomicBool,
    number: usize,
}

impl Drop for Canary {
    fn drop(&mut self) {
        self.alive.store(false, Ordering::Relaxed);
    }
}

#[test]
fn readers_never_see_the_dead_and_never_go_back() {
    let _as_is = switch::on("nothing");
    let new = |number| {
        Arc::new(Canary {
            alive: AtomicBool::new(true),
            number,
        })
    };
    let published = Published::new(new(0));
    let writes = 3_000;
    thread::scope(|scope| {
        for snapshots in [false, true] {
            let published = &published;
            scope.spawn(move || {
                let mut last = 0;
                while last < writes {
                    let number = if snapshots {
                        let value = published.snapshot();
                        assert!(value.alive.load(Ordering::Relaxed));
                        value.number
                    } else {
                        let value = published.read();
                        assert!(value.alive.load(Ordering::Relaxed));
                        value.number
                    };
                    assert!(number >= last, "{number} after {last}");
                    last = number;
                }
            });
        }
        for number in 1..=writes {
            drop(published.replace(new(number)));
        }
    });
    drop(published.reclaim());
    assert_eq!(published.retired(), 0);
}

#[test]
fn thread_safety_of_the_types() {
    fn send_and_sync<T: Send + Sync>() {}
    send_and_sync::<Published<Vec<u8>>>();
}

/// Counts what is buried; the object is the counter.
unsafe fn count(counter: *mut ()) {
    // SAFETY: the tests below retire references to counters that are never freed.
    unsafe { &*counter.cast::<AtomicUsize>() }.fetch_add(1, Ordering::SeqCst);
}

/// Leaks what must outlive its test, and remembers it, so that a leak sanitizer finds it reachable.
fn keep<T: Send + Sync>(value: Box<T>) -> &'static T {
    static KEPT: Mutex<Vec<&(dyn Any + Send + Sync)>> = Mutex::new(Vec::new());
    let kept: &'static T = Box::leak(value);
    KEPT.lock().unwrap().push(kept);
    kept
}

fn counter() -> (&'static AtomicUsize, *mut ()) {
    let counter: &'static AtomicUsize = keep(Box::default());
    (counter, std::ptr::from_ref(counter).cast_mut().cast())
}

fn flush_until(done: impl Fn() -> bool) {
    // Other tests of this process may be pinned for a moment, and longer where their thread is not running.
    let start = Instant::now();
    while !done() && start.elapsed() < Duration::from_secs(30) {
        epoch::pin().flush();
        thread::yield_now();
    }
}

#[test]
fn what_is_retired_is_buried_once_and_not_before_the_guards_are_gone() {
    let (counter, object) = counter();
    let outer = epoch::pin();
    let inner = epoch::pin();
    // SAFETY: see `count`.
    unsafe { inner.retire(object, count) };
    drop(inner);
    for _ in 0..100 {
        epoch::pin().flush();
        thread::spawn(|| epoch::pin().flush()).join().unwrap();
    }
    assert_eq!(counter.load(Ordering::SeqCst), 0);
    drop(outer);
    flush_until(|| counter.load(Ordering::SeqCst) == 1);
    (0..10).for_each(|_| epoch::pin().flush());
    assert_eq!(counter.load(Ordering::SeqCst), 1);
}

#[test]
fn a_thread_that_ends_leaves_its_work_to_others() {
    let (counter, _) = counter();
    thread::spawn(move || {
        let object = std::ptr::from_ref(counter).cast_mut().cast();
        let guard = epoch::pin();
        // SAFETY: see `count`.
        (0..1_000).for_each(|_| unsafe { guard.retire(object, count) });
    })
    .join()
    .unwrap();
    flush_until(|| counter.load(Ordering::SeqCst) == 1_000);
    assert_eq!(counter.load(Ordering::SeqCst), 1_000);
}

#[test]
fn a_steady_stream_is_freed_as_it_comes() {
    let (counter, object) = counter();
    for _ in 0..100_000 {
        // SAFETY: see `count`.
        unsafe { epoch::pin().retire(object, count) };
    }
    flush_until(|| counter.load(Ordering::SeqCst) > 90_000);
    assert!(counter.load(Ordering::SeqCst) > 90_000);
    flush_until(|| counter.load(Ordering::SeqCst) == 100_000);
    assert_eq!(counter.load(Ordering::SeqCst), 100_000);
}

#[test]
fn a_guard_that_repins_lets_the_epoch_go_on() {
    let (counter, object) = counter();
    let mut guard = epoch::pin();
    // SAFETY: see `count`.
    unsafe { guard.retire(object, count) };
    for _ in 0..10_000 {
        if counter.load(Ordering::SeqCst) == 1 {
            return;
        }
        guard.flush();
        guard.repin();
        thread::yield_now();
    }
    panic!("nothing was freed");
}

#[test]
fn burying_may_pin_and_retire() {
    /// Retires the counter once more before it counts.
    unsafe fn again(counter: *mut ()) {
        // SAFETY: see `count`.
        unsafe { epoch::pin().retire(counter, count) };
    }
    let (counter, object) = counter();
    // SAFETY: see `count`.
    unsafe { epoch::pin().retire(object, again) };
    flush_until(|| counter.load(Ordering::SeqCst) == 1);
    assert_eq!(counter.load(Ordering::SeqCst), 1);
}

#[test]
fn thread_locals_may_pin_while_their_thread_ends() {
    struct Late(&'static AtomicUsize);
    impl Drop for Late {
        fn drop(&mut self) {
            let object = std::ptr::from_ref(self.0).cast_mut().cast();
            // SAFETY: see `count`.
            unsafe { epoch::pin().retire(object, count) };
        }
    }
    thread_local!(static LATE: std::cell::RefCell<Option<Late>> = const { std::cell::RefCell::new(None) });
    let (counter, _) = counter();
    for pins_first in [true, false] {
        thread::spawn(move || {
            if pins_first {
                drop(epoch::pin());
            }
            LATE.set(Some(Late(counter)));
            drop(epoch::pin());
        })
        .join()
        .unwrap();
    }
    flush_until(|| counter.load(Ordering::SeqCst) == 2);
    assert_eq!(counter.load(Ordering::SeqCst), 2);
}

/// A thread that stops between reading the epoch and looking through what others have left finds bags there that are
/// younger than the epoch it has read.
#[test]
fn what_is_younger_than_the_epoch_in_hand_is_not_over() {
    rule("the epoch in hand is the newest", || {
        for now in [0, 2, 96, usize::MAX - 1] {
            let over = |steps: isize| epoch::is_over(now.wrapping_add_signed(-2 * steps), now);
            assert!(over(3) && over(1_000));
            assert!((-1_000..3).all(|steps| !over(steps)));
        }
    });
}

#[test]
fn the_pool_keeps_what_fits_and_gives_it_back() {
    use crate::pool::{self, Event};
    use std::alloc::{Layout, alloc, dealloc};
    use std::cell::Cell;

    thread_local!(static TOLD: Cell<[usize; 3]> = const { Cell::new([0; 3]) });
    pool::observe(|event| {
        let (at, bytes) = match event {
            Event::Taken(bytes) => (0, bytes),
            Event::Given(bytes) => (1, bytes),
            Event::Emptied(bytes) => (2, bytes),
        };
        let mut told = TOLD.get();
        told[at] += bytes;
        TOLD.set(told);
    });
    let layout = |size, align| Layout::from_size_align(size, align).unwrap();
    for odd in [layout(48, 8), layout(40, 16), layout(1_040, 16)] {
        assert!(pool::take(odd).is_null());
        // SAFETY: made with this layout, and freed once, since the pool does not take it.
        unsafe {
            let memory = alloc(odd);
            assert!(!pool::give(memory, odd));
            dealloc(memory, odd);
        }
    }
    let fits = layout(1_024, 16);
    // SAFETY: the pool takes the memory over, hands it out once, and takes it again.
    unsafe {
        let memory = alloc(fits);
        assert!(pool::give(memory, fits));
        assert!(pool::take(layout(512, 16)).is_null());
        assert_eq!(pool::take(fits), memory);
        assert!(pool::take(fits).is_null());
        assert!(pool::give(memory, fits));
        // It keeps 256 KiB of a size, and the first piece is one of them.
        let kept = (0..300).filter(|_| {
            let memory = alloc(fits);
            let kept = pool::give(memory, fits);
            if !kept {
                dealloc(memory, fits);
            }
            kept
        });
        assert_eq!(kept.count(), 255);
    }
    pool::trim();
    assert!(pool::take(fits).is_null());
    assert_eq!(TOLD.get(), [1_024, 257 * 1_024, 256 * 1_024]);

    // Of many sizes it keeps 2 MiB, and less than one piece short of that.
    for size in (16..=1_024).step_by(16).map(|size| layout(size, 16)) {
        for _ in 0..300 {
            // SAFETY: as above.
            unsafe {
                let memory = alloc(size);
                if !pool::give(memory, size) {
                    dealloc(memory, size);
                }
            }
        }
    }
    TOLD.set([0; 3]);
    pool::trim();
    let [.., kept] = TOLD.get();
    assert!(((2 << 20) - 1_024..=2 << 20).contains(&kept), "{kept}");
}
