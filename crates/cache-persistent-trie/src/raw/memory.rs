//! Where nodes and versions get their memory: from what this thread has freed, else from the allocator.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};

use cache_reclaim::pool;

/// Not under the sanitizers, from which reuse would hide a use after free, and not under the model checker, which keeps
/// what is freed.
const POOLED: bool = !cfg!(any(shuttle, sanitizers));

/// `size` bytes, not 0, with the alignment and the rounding that the pool wants.
pub(super) fn layout(size: usize) -> Layout {
    const UNIT: usize = 16;
    Layout::from_size_align(size.next_multiple_of(UNIT), UNIT).expect("a node fits in memory")
}

#[inline]
pub(super) fn allocate(layout: Layout) -> *mut u8 {
    if POOLED {
        let kept = pool::take(layout);
        if !kept.is_null() {
            return kept;
        }
    }
    // SAFETY: not empty: see `layout`.
    let fresh = unsafe { alloc(layout) };
    if fresh.is_null() {
        handle_alloc_error(layout);
    }
    fresh
}

/// # Safety
///
/// The memory was [allocated](allocate) with this layout, and nobody looks at it any more.
#[inline]
pub(super) unsafe fn free(memory: *mut u8, layout: Layout) {
    // SAFETY: the caller's.
    unsafe {
        if !POOLED || !pool::give(memory, layout) {
            dealloc(memory, layout);
        }
    }
}

/// Gives what this thread keeps back to the allocator.
pub(super) fn trim() {
    pool::trim();
}
