//! Asking the memory early for what a lookup will need: [`prefetch_read`], [`ProbeHint`]; it never reads or writes.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Asks the processor to load the cache line at `address`, without waiting for it.
///
/// A hint: any address is allowed, mapped or not; nothing is read as far as the program can tell. It does nothing
/// on architectures other than x86-64 and AArch64.
#[inline(always)]
pub fn prefetch_read(address: usize) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: PREFETCHT0 is part of the x86-64 baseline (SSE), does not fault for any address, and changes
        // nothing but the state of the caches.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::without_provenance(address)) };
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    {
        // SAFETY: PRFM does not fault for any address, and changes nothing but the state of the caches.
        unsafe {
            std::arch::asm!("prfm pldl1keep, [{0}]", in(reg) address, options(nostack, preserves_flags, readonly));
        }
    }
    #[cfg(not(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri))))]
    {
        let _ = address;
    }
}

/// Where the buckets of a [`Table`](crate::Table) with entries of type `T = (K, V)` lie in memory, readable without
/// the table's lock: see [`Table::publish`](crate::Table::publish).
///
/// A lookup misses the cache at least twice: for the control bytes and for the entry. Under a lock these two follow
/// one another. A thread that knows where the table lies can ask for both lines *before* it takes the lock, and the
/// misses overlap with each other and with the lock.
///
/// The hint may be stale, because the table was moved since: then the wrong lines are loaded, which costs time and
/// changes nothing else. The same holds if a later hashbrown lays its buckets out differently.
#[derive(Debug)]
pub struct ProbeHint<T> {
    /// The address of the first control byte, 0 while unknown. Buckets lie below it, the first one nearest.
    control: AtomicUsize,
    /// The number of buckets (a power of two) minus one.
    mask: AtomicUsize,
    /// It speaks about entries and holds none.
    _entries: PhantomData<fn(T) -> T>,
}

impl<T> Default for ProbeHint<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> ProbeHint<T> {
    /// The hint of an empty table: [`prefetch`](ProbeHint::prefetch) does nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            control: AtomicUsize::new(0),
            mask: AtomicUsize::new(0),
            _entries: PhantomData,
        }
    }

    /// Notes where the control bytes begin and the number of buckets minus one.
    pub(crate) fn set(&self, layout: Option<(usize, usize)>) {
        let (control, mask) = layout.unwrap_or((0, 0));
        // Relaxed, both: nothing is ever read through the address. A thread that sees a new address with an old
        // mask asks for a useless line.
        self.mask.store(mask, Ordering::Relaxed);
        self.control.store(control, Ordering::Relaxed);
    }

    /// Asks for the lines that a lookup of `hash` is likely to touch.
    #[inline(always)]
    pub fn prefetch(&self, hash: u64) {
        // Relaxed: see `set`.
        let control = self.control.load(Ordering::Relaxed);
        if control != 0 {
            prefetch_probe::<T>(control, self.mask.load(Ordering::Relaxed), hash);
        }
    }
}

/// Asks for the two lines that the probe for `hash` is likely to touch, in a table of `T` whose control bytes begin at
/// `control`.
#[inline(always)]
pub(crate) fn prefetch_probe<T>(control: usize, mask: usize, hash: u64) {
    // The low bits of the hash choose the bucket in hashbrown too.
    let bucket = hash as usize & mask;
    prefetch_read(control.wrapping_add(bucket));
    prefetch_read(control.wrapping_sub(bucket.wrapping_add(1).wrapping_mul(size_of::<T>())));
}
