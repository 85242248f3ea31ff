//! The counting global allocator: how many bytes and allocations an operation costs. It never takes a lock.
//!
//! Each thread counts in a cache line of its own with plain loads and stores, so counting costs an allocation about
//! a nanosecond, and an operation that allocates nothing costs nothing. Sums are exact when the threads that
//! allocate have been joined, or are known to be idle.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ffi::CStr;
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};

use mimalloc::MiMalloc;

/// The environment variable that chooses the backend before the first allocation: `mimalloc` or `system`.
pub const VARIABLE: &str = "HARNESS_ALLOCATOR";
const VARIABLE_C: &CStr = c"HARNESS_ALLOCATOR";

/// Threads beyond this number share the last line, and count there with read-modify-write instructions.
const LINES: usize = 4096;

/// Where one thread counts.
#[repr(align(64))]
struct Line {
    allocations: AtomicU64,
    bytes: AtomicU64,
    freed: AtomicU64,
}

static COUNTS: [Line; LINES] = [const {
    Line {
        allocations: AtomicU64::new(0),
        bytes: AtomicU64::new(0),
        freed: AtomicU64::new(0),
    }
}; LINES];
static NEXT_LINE: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// The line of this thread; `usize::MAX` until its first allocation. No destructor, so usable at any time.
    static MINE: Cell<usize> = const { Cell::new(usize::MAX) };
}

const UNDECIDED: u8 = 0;
const MIMALLOC: u8 = 1;
const SYSTEM: u8 = 2;
static BACKEND: AtomicU8 = AtomicU8::new(UNDECIDED);

/// The allocator of the measuring program.
#[derive(Debug)]
pub struct Counting;

/// What has been allocated until some moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Calls that allocated (a reallocation counts as one).
    pub allocations: u64,
    /// Bytes asked for.
    pub bytes: u64,
    /// Bytes given back.
    pub freed: u64,
}

impl Counts {
    /// What has been allocated by all threads until now.
    #[must_use]
    pub fn now() -> Self {
        let used = NEXT_LINE.load(Ordering::Relaxed).min(LINES);
        let mut sum = Self::default();
        for line in &COUNTS[..used] {
            sum.allocations += line.allocations.load(Ordering::Relaxed);
            sum.bytes += line.bytes.load(Ordering::Relaxed);
            sum.freed += line.freed.load(Ordering::Relaxed);
        }
        sum
    }

    /// What came on top since `earlier`.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            allocations: self.allocations - earlier.allocations,
            bytes: self.bytes - earlier.bytes,
            freed: self.freed - earlier.freed,
        }
    }

    /// Bytes that are allocated and not given back.
    #[must_use]
    pub fn live(self) -> u64 {
        self.bytes.wrapping_sub(self.freed)
    }
}

/// The backend in use.
#[must_use]
pub fn backend() -> &'static str {
    match decided() {
        SYSTEM => "system",
        _ => "mimalloc",
    }
}

#[inline]
fn decided() -> u8 {
    match BACKEND.load(Ordering::Relaxed) {
        UNDECIDED => decide(),
        backend => backend,
    }
}

#[cold]
fn decide() -> u8 {
    // SAFETY: the name is a valid C string. `getenv` races only with changes of the environment; the first
    // allocation happens before `main`, when there is one thread and nobody has changed anything.
    let value = unsafe { libc::getenv(VARIABLE_C.as_ptr()) };
    // SAFETY: where it is not null, `getenv` returns a C string that lives as long as nobody changes the environment.
    let system = !value.is_null() && unsafe { CStr::from_ptr(value) } == c"system";
    let backend = if system { SYSTEM } else { MIMALLOC };
    BACKEND.store(backend, Ordering::Relaxed);
    backend
}

#[inline]
fn count(add: impl Fn(&Line, fn(&AtomicU64, u64))) {
    /// Only the owner of a line writes it: a plain addition suffices, and readers see whole words.
    fn owned(counter: &AtomicU64, n: u64) {
        counter.store(
            counter.load(Ordering::Relaxed).wrapping_add(n),
            Ordering::Relaxed,
        );
    }
    fn shared(counter: &AtomicU64, n: u64) {
        counter.fetch_add(n, Ordering::Relaxed);
    }
    let mut mine = MINE.get();
    if mine == usize::MAX {
        mine = NEXT_LINE.fetch_add(1, Ordering::Relaxed);
        MINE.set(mine);
    }
    if mine < LINES - 1 {
        add(&COUNTS[mine], owned);
    } else {
        add(&COUNTS[LINES - 1], shared);
    }
}

fn count_new(bytes: usize) {
    count(|line, add| {
        add(&line.allocations, 1);
        add(&line.bytes, bytes as u64);
    });
}

fn count_freed(bytes: usize) {
    count(|line, add| add(&line.freed, bytes as u64));
}

// SAFETY: every request goes unchanged to one of two allocators, always the same one in one process (the choice is
// made at the first request and never again), so memory returns to where it came from. Counting does not allocate.
unsafe impl GlobalAlloc for Counting {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count_new(layout.size());
        if decided() == MIMALLOC {
            // SAFETY: the caller's promises are passed on.
            unsafe { MiMalloc.alloc(layout) }
        } else {
            // SAFETY: as above.
            unsafe { System.alloc(layout) }
        }
    }

    #[inline]
    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        count_freed(layout.size());
        if decided() == MIMALLOC {
            // SAFETY: the caller's promises are passed on, and `ptr` came from this backend.
            unsafe { MiMalloc.dealloc(ptr, layout) }
        } else {
            // SAFETY: as above.
            unsafe { System.dealloc(ptr, layout) }
        }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count_new(layout.size());
        if decided() == MIMALLOC {
            // SAFETY: the caller's promises are passed on.
            unsafe { MiMalloc.alloc_zeroed(layout) }
        } else {
            // SAFETY: as above.
            unsafe { System.alloc_zeroed(layout) }
        }
    }

    #[inline]
    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count_new(new_size);
        count_freed(layout.size());
        if decided() == MIMALLOC {
            // SAFETY: the caller's promises are passed on, and `ptr` came from this backend.
            unsafe { MiMalloc.realloc(ptr, layout, new_size) }
        } else {
            // SAFETY: as above.
            unsafe { System.realloc(ptr, layout, new_size) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[global_allocator]
    static COUNTING: Counting = Counting;

    /// Other tests allocate meanwhile, so only lower bounds hold, by amounts that they do not reach.
    #[test]
    fn counts_what_is_allocated_and_freed() {
        let before = Counts::now();
        let block = vec![0_u8; 64 << 20];
        let during = Counts::now().since(before);
        assert!(during.allocations >= 1 && during.bytes >= 64 << 20);
        drop(block);
        assert!(Counts::now().since(before).freed >= 64 << 20);
    }

    #[test]
    fn threads_beyond_the_lines_are_counted_too() {
        MINE.with(|mine| {
            let own = mine.replace(LINES + 5);
            let before = COUNTS[LINES - 1].bytes.load(Ordering::Relaxed);
            drop(std::hint::black_box(Vec::<u8>::with_capacity(100)));
            assert_eq!(
                COUNTS[LINES - 1].bytes.load(Ordering::Relaxed) - before,
                100
            );
            mine.set(own);
        });
    }
}
