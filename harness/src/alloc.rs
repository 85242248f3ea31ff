//! The counting global allocator: what each cell allocates, and from whom. It never decides what is measured.
//!
//! # What it costs
//!
//! Each thread counts in a slot of its own with plain loads and stores, so that counting never shares a cache line
//! between threads; a design that does not allocate does not come here at all. [`Totals::now`] sums the slots, and
//! is called outside the clock.
//!
//! # Whose memory it is
//!
//! The backend is chosen once, at the first allocation of the process, from the environment variable
//! [`ALLOCATOR_VARIABLE`]; `--allocator` therefore restarts the program with that variable set (see
//! [`ensure_backend`]). It never changes afterwards, so that each block goes back to where it came from.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};

use cache_reclaim::pool;
use mimalloc::MiMalloc;

/// The environment variable that names the backend: `mimalloc` (also when unset) or `system`.
pub const ALLOCATOR_VARIABLE: &str = "HARNESS_ALLOCATOR";

/// The same name for C.
const VARIABLE_FOR_C: &std::ffi::CStr = c"HARNESS_ALLOCATOR";

/// Where memory comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// Microsoft's mimalloc: the default, since it disturbs the designs that allocate least.
    Mimalloc,
    /// The C library's allocator.
    System,
}

impl Backend {
    /// The name on the command line and in the results.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mimalloc => "mimalloc",
            Self::System => "system",
        }
    }

    /// The backend of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Mimalloc, Self::System]
            .into_iter()
            .find(|backend| backend.name() == name)
    }
}

/// No allocation has happened yet.
const UNDECIDED: u8 = 0;
/// [`Backend::Mimalloc`].
const MIMALLOC: u8 = 1;
/// [`Backend::System`].
const SYSTEM: u8 = 2;

/// One of the three constants above; leaves [`UNDECIDED`] once and never changes again.
static BACKEND: AtomicU8 = AtomicU8::new(UNDECIDED);

/// The backend in use.
#[must_use]
pub fn backend() -> Backend {
    // Relaxed: the value depends on the environment alone, so every thread that decides, decides the same.
    match BACKEND.load(Ordering::Relaxed) {
        UNDECIDED => decide(),
        SYSTEM => Backend::System,
        _ => Backend::Mimalloc,
    }
}

/// Reads the environment without allocating, which the standard library cannot.
#[cold]
fn decide() -> Backend {
    // SAFETY: `getenv` is called with a nul-terminated name. Nothing in this program sets variables in its own
    // environment, and the first allocation happens before the runtime starts a second thread.
    let value = unsafe { libc::getenv(VARIABLE_FOR_C.as_ptr()) };
    let is_system = !value.is_null() && {
        // SAFETY: a non-null answer of `getenv` points to a nul-terminated string that stays valid as long as
        // the environment is not changed, which nothing here does.
        unsafe { std::ffi::CStr::from_ptr(value) }.to_bytes() == Backend::System.name().as_bytes()
    };
    BACKEND.store(if is_system { SYSTEM } else { MIMALLOC }, Ordering::Relaxed);
    if is_system {
        Backend::System
    } else {
        Backend::Mimalloc
    }
}

/// How many threads can count without sharing a slot; later ones share [`OVERFLOW`].
const SLOTS: usize = 4096;

/// What one thread has allocated. 128 bytes, so that neighbours do not share a line or an adjacent pair.
#[repr(align(128))]
struct Slot {
    allocations: AtomicU64,
    allocated: AtomicU64,
    freed: AtomicU64,
}

impl Slot {
    const fn new() -> Self {
        Self {
            allocations: AtomicU64::new(0),
            allocated: AtomicU64::new(0),
            freed: AtomicU64::new(0),
        }
    }

    /// For the only thread that writes to this slot: a load and a store instead of a locked addition.
    fn bump(counter: &AtomicU64, by: u64) {
        // Relaxed: readers sum the slots at points that are ordered with the counting thread by a barrier or join.
        counter.store(
            counter.load(Ordering::Relaxed).wrapping_add(by),
            Ordering::Relaxed,
        );
    }
}

static TABLE: [Slot; SLOTS] = [const { Slot::new() }; SLOTS];
/// The next slot that was never given out.
static NEXT: AtomicUsize = AtomicUsize::new(0);
/// Shared by the threads that came too late for a slot of their own; counted with locked additions.
static OVERFLOW: Slot = Slot::new();

/// Slots handed back by [`retire_thread`], as a stack that never grows.
static RETIRED: std::sync::Mutex<Retired> = std::sync::Mutex::new(Retired {
    slots: [0; SLOTS],
    len: 0,
});

/// A stack of slot indices.
struct Retired {
    slots: [u16; SLOTS],
    len: usize,
}

/// This thread has no slot yet.
const NONE: usize = usize::MAX;

thread_local! {
    /// The index of this thread's slot; `SLOTS` stands for [`OVERFLOW`]. Const-initialised and without a
    /// destructor, so that the allocator may use it at any moment of a thread's life.
    static MINE: Cell<usize> = const { Cell::new(NONE) };
}

/// Gives this thread a slot: a retired one, else a fresh one, else the shared one.
#[cold]
fn claim() -> usize {
    // Until the slot is known, this thread counts in the shared one: the standard lock allocates on some systems.
    MINE.set(SLOTS);
    let reused = RETIRED.lock().ok().and_then(|mut retired| {
        retired.len = retired.len.checked_sub(1)?;
        Some(usize::from(retired.slots[retired.len]))
    });
    let index = reused.unwrap_or_else(|| NEXT.fetch_add(1, Ordering::Relaxed).min(SLOTS));
    MINE.set(index);
    index
}

/// Hands this thread's slot back for another thread to go on counting in. Call it last in a thread's life: what it
/// allocates afterwards is counted in the shared slot, more slowly.
pub fn retire_thread() {
    let index = MINE.get();
    if index < SLOTS {
        MINE.set(SLOTS);
        if let Ok(mut retired) = RETIRED.lock() {
            let len = retired.len;
            retired.slots[len] = index as u16;
            retired.len = len + 1;
        }
    }
}

/// Counts one allocation of `bytes`, and `freed` bytes given back.
#[inline]
fn count(allocations: u64, bytes: usize, freed: usize) {
    let mut index = MINE.get();
    if index == NONE {
        index = claim();
    }
    match TABLE.get(index) {
        Some(slot) => {
            if allocations != 0 {
                Slot::bump(&slot.allocations, allocations);
                Slot::bump(&slot.allocated, bytes as u64);
            }
            if freed != 0 {
                Slot::bump(&slot.freed, freed as u64);
            }
        }
        None => {
            OVERFLOW
                .allocations
                .fetch_add(allocations, Ordering::Relaxed);
            OVERFLOW
                .allocated
                .fetch_add(bytes as u64, Ordering::Relaxed);
            OVERFLOW.freed.fetch_add(freed as u64, Ordering::Relaxed);
        }
    }
}

/// Counts memory that a design used again by itself as if it had gone through the allocator: what an operation uses up is
/// the question, and not who hands it out. From the first call on.
pub fn count_reuse() {
    pool::observe(|event| match event {
        pool::Event::Taken(bytes) => count(1, bytes, 0),
        pool::Event::Given(bytes) => count(0, 0, bytes),
        // It was counted when it was given, and the allocator counts it now.
        pool::Event::Emptied(bytes) => count(0, 0, bytes.wrapping_neg()),
    });
}

/// What the whole process has allocated since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Calls of `alloc`, `alloc_zeroed` and `realloc`, and what was used again (see [`count_reuse`]).
    pub allocations: u64,
    /// Bytes asked for by those calls.
    pub allocated: u64,
    /// Bytes given back by `dealloc` and `realloc`.
    pub freed: u64,
}

impl Totals {
    /// The sum over all threads, those of the designs included. O(threads that ever allocated).
    ///
    /// Exact for what is ordered before the call; threads that allocate meanwhile are counted in part.
    #[must_use]
    pub fn now() -> Self {
        let used = NEXT.load(Ordering::Relaxed).min(SLOTS);
        let mut sum = Self::default();
        for slot in TABLE[..used].iter().chain([&OVERFLOW]) {
            sum.allocations = sum
                .allocations
                .wrapping_add(slot.allocations.load(Ordering::Relaxed));
            sum.allocated = sum
                .allocated
                .wrapping_add(slot.allocated.load(Ordering::Relaxed));
            sum.freed = sum.freed.wrapping_add(slot.freed.load(Ordering::Relaxed));
        }
        sum
    }

    /// What was counted after `earlier`.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            allocations: self.allocations.wrapping_sub(earlier.allocations),
            allocated: self.allocated.wrapping_sub(earlier.allocated),
            freed: self.freed.wrapping_sub(earlier.freed),
        }
    }

    /// Bytes asked for and not given back.
    #[must_use]
    pub fn live(self) -> i64 {
        self.allocated.wrapping_sub(self.freed) as i64
    }
}

/// The allocator of the `harness` program, its tests and its benches.
pub struct Counting;

/// One for the whole program: the library is only ever used to measure.
#[global_allocator]
static GLOBAL: Counting = Counting;

// SAFETY: every call is passed on unchanged to one of two sound allocators. `backend` never changes after the first
// allocation, so a block returns to the allocator that it came from. Counting neither allocates nor unwinds: the
// thread-local is const-initialised without a destructor, and `claim` cannot call itself.
unsafe impl GlobalAlloc for Counting {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(1, layout.size(), 0);
        // SAFETY: the caller keeps the contract of `GlobalAlloc::alloc`, which is passed on.
        unsafe {
            match backend() {
                Backend::Mimalloc => MiMalloc.alloc(layout),
                Backend::System => System.alloc(layout),
            }
        }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(1, layout.size(), 0);
        // SAFETY: as for `alloc`.
        unsafe {
            match backend() {
                Backend::Mimalloc => MiMalloc.alloc_zeroed(layout),
                Backend::System => System.alloc_zeroed(layout),
            }
        }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        count(0, 0, layout.size());
        // SAFETY: the block came from this allocator, so from the one backend of this process.
        unsafe {
            match backend() {
                Backend::Mimalloc => MiMalloc.dealloc(block, layout),
                Backend::System => System.dealloc(block, layout),
            }
        }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: as for `dealloc`, and the new size keeps the caller's promise.
        let moved = unsafe {
            match backend() {
                Backend::Mimalloc => MiMalloc.realloc(block, layout, new_size),
                Backend::System => System.realloc(block, layout, new_size),
            }
        };
        if !ptr::eq(moved, ptr::null_mut()) {
            count(1, new_size, layout.size());
        }
        moved
    }
}

/// Makes sure that `wanted` is the backend of this process, by starting the program again where it is not.
///
/// # Errors
///
/// Where the program cannot be started again.
pub fn ensure_backend(wanted: Backend) -> anyhow::Result<()> {
    if backend() == wanted {
        return Ok(());
    }
    let program = std::env::current_exe()?;
    let mut command = std::process::Command::new(program);
    command
        .args(std::env::args_os().skip(1))
        .env(ALLOCATOR_VARIABLE, wanted.name());
    #[cfg(unix)]
    {
        use std::os::unix::process::CommandExt;
        // `exec` only returns where it failed.
        Err(command.exec().into())
    }
    #[cfg(not(unix))]
    {
        let status = command.status()?;
        std::process::exit(status.code().unwrap_or(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Other tests allocate at the same time, so the totals are bounded from below only; a slot of one thread is
    /// exact.
    fn mine() -> (u64, u64, u64) {
        drop(Vec::<u8>::with_capacity(1));
        let slot = &TABLE[MINE.get()];
        (
            slot.allocations.load(Ordering::Relaxed),
            slot.allocated.load(Ordering::Relaxed),
            slot.freed.load(Ordering::Relaxed),
        )
    }

    #[test]
    fn a_thread_counts_what_it_allocates() {
        let before = mine();
        let mut block = Vec::<u8>::with_capacity(1000);
        block.resize(1000, 1);
        block.reserve_exact(1000);
        let held = mine();
        // One allocation, one reallocation, and the probe of `mine` itself.
        assert_eq!(held.0 - before.0, 3);
        assert_eq!(held.1 - before.1, 1000 + 2000 + 1);
        assert_eq!(held.2 - before.2, 1000 + 1);
        drop(block);
        assert_eq!(mine().2 - held.2, 2000 + 1);
    }

    #[test]
    fn retired_slots_are_used_again_and_keep_their_counts() {
        let before = Totals::now();
        for _ in 0..3 * SLOTS {
            std::thread::spawn(|| {
                drop(std::hint::black_box(vec![0_u8; 100]));
                retire_thread();
            })
            .join()
            .unwrap();
        }
        let counted = Totals::now().since(before);
        assert!(counted.allocations >= 3 * SLOTS as u64);
        assert!(
            NEXT.load(Ordering::Relaxed) < SLOTS,
            "the slots were not reused"
        );
    }

    #[test]
    fn backends_have_names() {
        assert_eq!(Backend::from_name("system"), Some(Backend::System));
        assert_eq!(Backend::from_name("mimalloc"), Some(Backend::Mimalloc));
        assert_eq!(Backend::from_name("jemalloc"), None);
    }
}
