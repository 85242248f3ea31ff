//! Memory of nodes that have been freed, kept by the thread for its next ones.
//!
//! A write to a structure of many nodes frees as much as it allocates, a grace period later, and what was just freed is
//! in the cache; a general allocator hands out what has been cold for long. Knows nothing of what is stored in it.
//!
//! What is kept is bounded: for each thread 256 KiB of each size, and 2 MiB in all. It goes back to the allocator when
//! the thread ends, or by [`trim`].

use std::alloc::Layout;
use std::cell::Cell;
use std::ptr::null_mut;
use std::sync::OnceLock;

/// Sizes are multiples of this.
const UNIT: usize = 16;
/// One list for each multiple up to 1,024 bytes.
const CLASSES: usize = 64;
/// As much as a few rounds of reclamation free; what exceeds it goes back to the allocator.
const KEPT_BYTES: usize = 256 << 10;
/// The same as a number of pieces, which is less where these are small.
const KEPT: usize = 1_024;
/// The bytes of all sizes together.
const KEPT_IN_ALL: usize = 2 << 20;

/// A piece of free memory.
struct Free {
    next: *mut Free,
}

struct Class {
    first: Cell<*mut Free>,
    count: Cell<usize>,
}

struct Pool {
    classes: [Class; CLASSES],
    /// What all classes keep.
    bytes: Cell<usize>,
}

/// What happens to memory here, for who counts allocations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// So many bytes are in use again, without a call to the allocator.
    Taken(usize),
    /// So many bytes are kept, and were not given to the allocator.
    Given(usize),
    /// So many bytes that were kept go to the allocator now.
    Emptied(usize),
}

static OBSERVER: OnceLock<fn(Event)> = OnceLock::new();

/// Has `observer` called at each event from now on, on the thread where it happens. For measurements, which would take
/// memory that is used again for none at all. The first call counts; returns whether this was it.
pub fn observe(observer: fn(Event)) -> bool {
    OBSERVER.set(observer).is_ok()
}

#[inline]
fn tell(event: Event) {
    if let Some(observer) = OBSERVER.get() {
        observer(event);
    }
}

thread_local! {
    static POOL: Pool = const {
        Pool {
            classes: [const {
                Class {
                    first: Cell::new(null_mut()),
                    count: Cell::new(0),
                }
            }; CLASSES],
            bytes: Cell::new(0),
        }
    };
}

/// The class of a layout, if there is one.
#[inline]
fn class(layout: Layout) -> Option<usize> {
    let fits = layout.align() == UNIT
        && layout.size().is_multiple_of(UNIT)
        && layout.size() > 0
        && layout.size() <= CLASSES * UNIT;
    fits.then(|| layout.size() / UNIT - 1)
}

const fn kept(class: usize) -> usize {
    let bytes = (class + 1) * UNIT;
    if KEPT_BYTES / bytes < KEPT {
        KEPT_BYTES / bytes
    } else {
        KEPT
    }
}

/// Memory of this layout that was [given](give) on this thread, or null. Only layouts that are aligned to 16, with a
/// size that is a multiple of 16 up to 1,024, are kept. O(1).
#[inline]
#[must_use]
pub fn take(layout: Layout) -> *mut u8 {
    let Some(class) = class(layout) else {
        return null_mut();
    };
    // A thread that is ending has no pool any more.
    POOL.try_with(|pool| {
        let class = &pool.classes[class];
        let first = class.first.get();
        if !first.is_null() {
            // SAFETY: what is in the list was given by `give`, wrote its link, and belongs to this thread alone.
            class.first.set(unsafe { (*first).next });
            class.count.set(class.count.get() - 1);
            pool.bytes.set(pool.bytes.get() - layout.size());
            tell(Event::Taken(layout.size()));
        }
        first.cast()
    })
    .unwrap_or(null_mut())
}

/// Keeps the memory, or says no. O(1).
///
/// # Safety
///
/// The memory was allocated by the global allocator with this layout, and is the caller's alone; if the answer is yes, it
/// is not any more.
#[inline]
pub unsafe fn give(memory: *mut u8, layout: Layout) -> bool {
    let Some(class) = class(layout) else {
        return false;
    };
    let kept = kept(class);
    POOL.try_with(|pool| {
        let class = &pool.classes[class];
        let bytes = pool.bytes.get() + layout.size();
        if class.count.get() >= kept || bytes > KEPT_IN_ALL {
            return false;
        }
        pool.bytes.set(bytes);
        let free = memory.cast::<Free>();
        // SAFETY: large enough, aligned, and handed over by the caller.
        unsafe {
            free.write(Free {
                next: class.first.get(),
            });
        }
        class.first.set(free);
        class.count.set(class.count.get() + 1);
        tell(Event::Given(layout.size()));
        true
    })
    .unwrap_or(false)
}

/// Gives all that this thread keeps back to the allocator. O(pieces).
pub fn trim() {
    let _ = POOL.try_with(Pool::empty);
}

impl Pool {
    fn empty(&self) {
        self.bytes.set(0);
        for (i, class) in self.classes.iter().enumerate() {
            let layout =
                Layout::from_size_align((i + 1) * UNIT, UNIT).expect("small and a power of two");
            let mut next = class.first.replace(null_mut());
            class.count.set(0);
            while !next.is_null() {
                let free = next;
                tell(Event::Emptied(layout.size()));
                // SAFETY: as in `take`; allocated with this layout.
                unsafe {
                    next = (*free).next;
                    std::alloc::dealloc(free.cast(), layout);
                }
            }
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.empty();
    }
}
