//! The published pointer: readers announce, writers look before they free; nobody ever waits for a reader.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr;
use std::sync::{Arc, Mutex, PoisonError};

use crate::barrier;
use crate::broken::broken;
use crate::slots::{self, Lease, Slot};
use crate::sync::{AtomicPtr, Ordering};

/// A value that many threads read and that a writer replaces as a whole.
///
/// Reads never wait, whatever writers do; writers never wait for readers. A value that was replaced while somebody
/// still reads it is kept, and freed by a later [`replace`](Published::replace) or [`reclaim`](Published::reclaim), or
/// with the `Published`: never more values than there were readers inside at the time.
///
/// `Send` and `Sync` when `T` is both:
///
/// ```compile_fail,E0277
/// fn shared<T: Sync>() {}
/// shared::<cache_reclaim::Published<std::cell::Cell<u8>>>(); // error: a Cell cannot be shared
/// ```
pub struct Published<T> {
    /// From `Arc::into_raw`; owns one count of it.
    pointer: AtomicPtr<T>,
    /// Replaced values that somebody was reading when last looked at.
    retired: Mutex<Vec<Arc<T>>>,
    _owns: PhantomData<Arc<T>>,
}

/// A value being read: it stays, whatever is published meanwhile.
///
/// Keep it as briefly as the reading takes. Forgetting it (`mem::forget`) keeps the value until the `Published` is
/// dropped (and after that, whatever published value comes to lie at the same address, until *its* `Published` is
/// dropped), and makes later reads of this thread slower. It belongs to the thread that made it:
///
/// ```compile_fail,E0277
/// fn sent<T: Send>() {}
/// sent::<cache_reclaim::Reading<'static, u8>>(); // error: it cannot be sent between threads
/// ```
pub struct Reading<'a, T> {
    pointer: *const T,
    lease: Lease,
    _published: PhantomData<&'a Published<T>>,
}

impl<T> Published<T> {
    /// Publishes `value`.
    #[must_use]
    pub fn new(value: Arc<T>) -> Self {
        Self {
            pointer: AtomicPtr::new(Arc::into_raw(value).cast_mut()),
            retired: Mutex::new(Vec::new()),
            _owns: PhantomData,
        }
    }

    /// The value published now. Wait-free except for a writer that publishes between two looks: then it looks again.
    ///
    /// A thread's first read, a read inside of another and one from a thread-local's destructor at the end of the
    /// thread take a longer way, with atomic operations on shared lines; the first one may allocate.
    #[inline]
    pub fn read(&self) -> Reading<'_, T> {
        let lease = slots::lease();
        let pointer = announce(&self.pointer, lease.slot, lease.fenced);
        Reading {
            pointer,
            lease,
            _published: PhantomData,
        }
    }

    /// The value published now, to be kept as long as one likes. It costs an atomic increment.
    #[must_use]
    pub fn snapshot(&self) -> Arc<T> {
        let reading = self.read();
        // SAFETY: the pointer came from `Arc::into_raw`. The count that goes with it is held by `self.pointer` or
        // `self.retired` as long as the announcement of `reading` stands, so it is at least 1.
        unsafe {
            Arc::increment_strong_count(reading.pointer);
            Arc::from_raw(reading.pointer)
        }
    }

    /// Publishes `value`, and returns those of the values replaced until now that nobody is reading any more.
    ///
    /// The caller decides where they are dropped. One system call where [readers run without a
    /// fence](crate::readers_are_fence_free), and a look at seven slots for each thread that ever read.
    #[must_use = "the values replaced are dropped with the result"]
    pub fn replace(&self, value: Arc<T>) -> Vec<Arc<T>> {
        let new = Arc::into_raw(value).cast_mut();
        // AcqRel: release, so that whoever reads the new pointer sees the value; acquire, so that we see the old one.
        // That the slots are read only after this is the task of the barrier in `reclaim_with`.
        let old = self.pointer.swap(new, Ordering::AcqRel);
        // SAFETY: the pointer came from `Arc::into_raw`, and the swap has taken it out, so its count is ours alone.
        let old = unsafe { Arc::from_raw(old) };
        self.reclaim_with(Some(old))
    }

    /// Those of the values replaced earlier that nobody is reading any more. Costs as [`replace`](Published::replace),
    /// and nothing where there are none.
    #[must_use = "the values replaced are dropped with the result"]
    pub fn reclaim(&self) -> Vec<Arc<T>> {
        self.reclaim_with(None)
    }

    /// How many replaced values were still being read when last looked at.
    #[must_use]
    pub fn retired(&self) -> usize {
        self.retired
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .len()
    }

    fn reclaim_with(&self, newly_retired: Option<Arc<T>>) -> Vec<Arc<T>> {
        // No user code runs under this lock: Arcs are moved and compared by address, not dropped.
        let mut retired = self.retired.lock().unwrap_or_else(PoisonError::into_inner);
        retired.extend(newly_retired);
        // Without the barrier nothing is known about readers: all are kept then.
        if retired.is_empty() || !barrier::heavy() {
            return Vec::new();
        }
        retired
            .extract_if(.., |value| {
                slots::all_slots().all(|slot| !shows(slot, Arc::as_ptr(value)))
            })
            .collect()
    }
}

/// The reader's half of the protocol: the pointer that `source` holds, announced in `slot`.
///
/// After it returns, and until the slot is overwritten, `shows(slot, pointer)` holds for everyone who takes the pointer
/// out of `source`, then passes `barrier::heavy`, then looks.
///
/// Three interleavings with a writer that swaps the pointer out, passes the barrier, and looks into the slot:
/// 1. Our second look comes before the swap. Then our announcement, before it in program order, is visible after the
///    writer's barrier: the writer sees it and keeps the value.
/// 2. The second look comes after the swap: we see another pointer, and begin anew with that. What we announced for the
///    former pointer is not used.
/// 3. The former pointer was freed, allocated again and published again between our two looks: then it is what is
///    published now, and case 1 applies to the next swap.
///
/// So a pointer that is returned is not freed while the slot shows it.
#[inline]
pub(crate) fn announce<T>(source: &AtomicPtr<T>, slot: &Slot, fenced: bool) -> *mut T {
    // Relaxed: this value is announced, not used.
    let mut pointer = source.load(Ordering::Relaxed);
    loop {
        // Release: if the slot showed another pointer before, our reads through it come before a writer that sees this.
        slot.store(pointer.cast(), Ordering::Release);
        barrier::light(fenced);
        // Acquire: what the writer put into the value is visible to us.
        let again = source.load(Ordering::Acquire);
        if again == pointer {
            return pointer;
        }
        pointer = again;
    }
}

/// The writer's half: whether `slot` announces `pointer`. To be asked after `barrier::heavy`.
#[inline]
pub(crate) fn shows<T>(slot: &Slot, pointer: *const T) -> bool {
    if broken("nobody looks at the slots") {
        return false;
    }
    if broken("any reader keeps everything") {
        return !slot.load(Ordering::Acquire).is_null();
    }
    // Acquire: if it does not, the reads of a reader that has left come before what we do with the value.
    ptr::addr_eq(slot.load(Ordering::Acquire), pointer)
}

impl<T> Reading<'_, T> {
    /// Whether this and `other` are the same value, not merely equal ones.
    #[must_use]
    pub fn is(&self, other: &Arc<T>) -> bool {
        ptr::eq(self.pointer, Arc::as_ptr(other))
    }
}

impl<T> Deref for Reading<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: `announce` returned the pointer, and the slot shows it until we are dropped, so no writer has dropped
        // the count that goes with it. The `Published` itself, which drops its counts unasked, outlives us by the
        // lifetime.
        unsafe { &*self.pointer }
    }
}

impl<T> Drop for Reading<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.lease.end();
    }
}

impl<T> Drop for Published<T> {
    fn drop(&mut self) {
        // Relaxed: whoever gave us the `&mut self` has synchronised with all others.
        let pointer = self.pointer.load(Ordering::Relaxed);
        // SAFETY: it came from `Arc::into_raw` and its count is ours. Nobody reads it: a `Reading` borrows `self`.
        drop(unsafe { Arc::from_raw(pointer) });
    }
}

impl<T: fmt::Debug> fmt::Debug for Published<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Published").field(&*self.read()).finish()
    }
}

impl<T: fmt::Debug> fmt::Debug for Reading<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Reading").field(&**self).finish()
    }
}
