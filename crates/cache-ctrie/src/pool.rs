//! Memory of leaves that have been freed, kept by the thread for its next ones. An overwrite frees as much as it
//! allocates, and what was just freed is in the cache; a general allocator hands out what has been cold for long.
//! Knows nothing of what is stored in it.

use std::alloc::Layout;
use std::cell::Cell;
use std::ptr::null_mut;

/// Sizes are multiples of this, and so is every address.
const UNIT: usize = 16;
/// One list for each multiple up to 128 bytes.
const CLASSES: usize = 8;
/// As much as two rounds of the collector free; what exceeds it goes back to the allocator.
const KEPT: usize = 1_024;

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
        }
    };
}

/// The class of a layout, if there is one.
#[inline]
fn class(layout: Layout) -> Option<usize> {
    let pooled = cfg!(not(any(test, shuttle, sanitizers)))
        && layout.align() == UNIT
        && layout.size() <= CLASSES * UNIT;
    pooled.then(|| layout.size() / UNIT - 1)
}

/// Memory of this layout that was freed on this thread, or null.
#[inline]
pub(crate) fn take(layout: Layout) -> *mut u8 {
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
        }
        first.cast()
    })
    .unwrap_or(null_mut())
}

/// Keeps the memory, or says no.
///
/// # Safety
///
/// The memory was allocated by the global allocator with this layout (whose size is a multiple of 16 above 0), and is
/// the caller's alone; if the answer is yes, it is not any more.
#[inline]
pub(crate) unsafe fn give(memory: *mut u8, layout: Layout) -> bool {
    let Some(class) = class(layout) else {
        return false;
    };
    POOL.try_with(|pool| {
        let class = &pool.classes[class];
        if class.count.get() >= KEPT {
            return false;
        }
        let free = memory.cast::<Free>();
        // SAFETY: large enough, aligned, and handed over by the caller.
        unsafe {
            free.write(Free {
                next: class.first.get(),
            });
        }
        class.first.set(free);
        class.count.set(class.count.get() + 1);
        true
    })
    .unwrap_or(false)
}

impl Drop for Pool {
    fn drop(&mut self) {
        for (i, class) in self.classes.iter().enumerate() {
            let layout =
                Layout::from_size_align((i + 1) * UNIT, UNIT).expect("small and a power of two");
            let mut next = class.first.replace(null_mut());
            while !next.is_null() {
                let free = next;
                // SAFETY: as in `take`; allocated with this layout.
                unsafe {
                    next = (*free).next;
                    std::alloc::dealloc(free.cast(), layout);
                }
            }
        }
    }
}
