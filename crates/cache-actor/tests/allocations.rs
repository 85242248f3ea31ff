//! Steady-state requests allocate nothing, on no thread: counted by a global allocator of this binary's own.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use cache_actor::Builder;
use cache_api::{Cache, DefaultHashBuilder};

/// Counts allocations of the whole process, so that the owners' are counted too.
struct Counting;

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call goes to the system allocator unchanged; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.realloc(block, layout, new_size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The only test of this binary: another one would be counted with it.
#[test]
fn steady_state_requests_do_not_allocate() {
    static KEYS: LazyLock<Vec<String>> =
        LazyLock::new(|| (0..1_000).map(|n| format!("{n:016}")).collect());
    let keys: Vec<&'static str> = KEYS.iter().map(String::as_str).collect();
    let hasher = DefaultHashBuilder::with_seed(1);
    let map = Builder::new()
        .owners(2)
        .hasher(hasher)
        .build::<&'static str, &'static str>();
    let round = || {
        for key in &keys {
            map.insert(key, key);
            assert_eq!(map.get(*key), Some(*key));
            assert!(map.contains_key(*key));
            assert_eq!(map.update(*key, |value| value.len()), Some(16));
            assert_eq!(map.swap(key, key), Some(*key));
        }
        for key in &keys {
            map.remove(key);
        }
        // More blind writes than the mailboxes hold, so that senders block and wake.
        for _ in 0..10 {
            keys.iter().for_each(|key| map.insert(key, key));
        }
        assert_eq!(map.get(keys[0]), Some(keys[0]));
        map.flush();
    };
    // The tables grow, thread-locals and wait lists are set up.
    (0..5).for_each(|_| round());
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    (0..5).for_each(|_| {
        for key in &keys {
            assert_eq!(map.get(*key), Some(*key));
        }
    });
    assert_eq!(
        ALLOCATIONS.load(Ordering::Relaxed) - before,
        0,
        "5,000 gets"
    );
    // `flush` asks all owners at once, which takes a list of tasks: one allocation each. A mailbox's list of waiting
    // senders grows when somebody waits for the first time, which may have to happen twice for each of the two.
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    (0..5).for_each(|_| round());
    let allocations = ALLOCATIONS.load(Ordering::Relaxed) - before;
    assert!(
        allocations <= 5 + 4,
        "85,000 requests of all kinds: {allocations} allocations"
    );
}
