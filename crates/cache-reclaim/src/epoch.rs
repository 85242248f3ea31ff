//! Grace periods for structures of many nodes: [`pin`], read whatever can be reached, [`retire`](Guard::retire) what
//! was taken out. Knows nothing of what it frees.
//!
//! Epochs (K. Fraser, *Practical lock-freedom*, 2004, section 5.2.3), with the fence on the other side. A thread
//! announces the epoch it read when it pins. The epoch moves on only when every announcement is of the present one, so
//! once it has moved twice, whoever was pinned before the first move is not any more, and what was unlinked by then can
//! be freed. Here it must move three times, since what is retired may carry the number of the epoch before.
//!
//! An announcement must be visible before the reads that it protects. Elsewhere each pin pays a full fence for that,
//! which also keeps the cache misses of consecutive reads from overlapping. Here whoever wants to move the epoch makes
//! all running threads execute a barrier (see the [crate documentation](crate)), once for some hundred retired nodes;
//! a pin is two plain stores. Where the system has no such call, each pin fences.
//!
//! ```
//! use std::sync::atomic::{AtomicPtr, Ordering};
//! use cache_reclaim::epoch;
//!
//! unsafe fn bury(number: *mut ()) {
//!     // SAFETY: made by `Box::into_raw` below, and retired once.
//!     drop(unsafe { Box::from_raw(number.cast::<u64>()) });
//! }
//!
//! let published = AtomicPtr::new(Box::into_raw(Box::new(1_u64)));
//! {
//!     let guard = epoch::pin();
//!     let old = published.swap(Box::into_raw(Box::new(2)), Ordering::SeqCst);
//!     // SAFETY: nobody can come by the old number any more; whoever has is pinned.
//!     unsafe { guard.retire(old.cast(), bury) };
//!     // SAFETY: this thread is pinned since before the number was taken out.
//!     assert_eq!(unsafe { *old }, 1);
//! }
//! // SAFETY: the last one, and nobody else is there.
//! unsafe { bury(published.into_inner().cast()) };
//! ```

use crate::barrier;
use crate::broken::broken;
use crate::sync::{AtomicUsize, Ordering};

#[cfg(not(loom))]
pub use self::threads::{Grace, Guard, advance, pin};

/// An announcement of this value: not pinned. Any other is that of an epoch, which is even, plus one.
const UNPINNED: usize = 0;
/// From one epoch to the next.
const STEP: usize = 2;

/// Announces the present epoch: the reader's half. What is read afterwards is protected.
#[inline(always)]
pub(crate) fn announce(epoch: &AtomicUsize, mine: &AtomicUsize, fenced: bool) {
    // Acquire: what is read under the announcement is read after the epoch. An outdated epoch only keeps the next from
    // coming. The barrier orders the announcement before what is read under it; Release, for whoever sees it in place of
    // the withdrawal before it has to come after what was read until then.
    mine.store(epoch.load(Ordering::Acquire) | 1, Ordering::Release);
    barrier::light(fenced);
}

/// Takes the announcement back.
#[inline(always)]
pub(crate) fn withdraw(mine: &AtomicUsize) {
    // Release: whoever sees it, and frees something, does so after all that was read under the announcement.
    mine.store(UNPINNED, Ordering::Release);
}

/// The epoch as of which something that was taken out before this call is retired: the present one, or the one before.
///
/// Whoever moved the epoch to `e` made every thread execute a barrier after it had seen `e - 1`. What was taken out
/// before that barrier is out for all who read `e`. What is taken out after it is stamped `e - 1` at least.
pub(crate) fn stamp(epoch: &AtomicUsize) -> usize {
    // What was taken out must be out for whoever moves the epoch on after this read of it.
    crate::sync::fence(Ordering::SeqCst);
    epoch.load(Ordering::Relaxed)
}

/// Moves the epoch on if all announcements are of the present one, and returns the epoch.
pub(crate) fn move_on<'a>(
    epoch: &AtomicUsize,
    announcements: impl Iterator<Item = &'a AtomicUsize>,
) -> usize {
    // Acquire: what was unlinked in an epoch that is over is unlinked for this thread too.
    let now = epoch.load(Ordering::Acquire);
    if !barrier::heavy() {
        return now;
    }
    for announcement in announcements {
        // Acquire: see `withdraw`.
        let announced = announcement.load(Ordering::Acquire);
        if announced != UNPINNED && announced != now | 1 {
            return now;
        }
    }
    let next = now.wrapping_add(STEP);
    // Release: what is freed in the next epochs is freed after what this thread has just seen the end of.
    match epoch.compare_exchange(now, next, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => next,
        Err(other) => other,
    }
}

/// Whether what was retired as of `stamp` can be freed. `now` was read from the epoch with acquire, or more; it may be
/// older than the stamp, if another thread has retired something since.
pub(crate) fn is_over(stamp: usize, now: usize) -> bool {
    // A thread may be pinned in the epoch before the present one, and the stamp may be one behind what that thread read:
    // the order between the stamp and a fence-free announcement is not one that the memory model gives.
    let age = now.wrapping_sub(stamp);
    if broken("the epoch in hand is the newest") {
        return age >= 3 * STEP;
    }
    age.cast_signed() >= (3 * STEP).cast_signed()
}

#[cfg(not(loom))]
mod threads {
    //! Who is pinned, and what waits: one record per thread, reused, never freed.

    use std::cell::{Cell, RefCell};
    use std::collections::VecDeque;
    use std::fmt;
    use std::iter;
    use std::marker::PhantomData;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::sync::{Mutex, PoisonError};

    use super::{UNPINNED, announce, is_over, move_on, stamp, withdraw};
    use crate::barrier;
    use crate::link::Link;

    /// So many retired objects are freed together: the barrier that this takes costs a few microseconds when other
    /// threads are running.
    const BAG: usize = 512;
    /// So many bags at most are freed by one unpinning, so that nobody pays for all that others left behind. More than
    /// one, since each may be preceded by one that had to wait.
    const PER_COLLECTION: usize = 8;
    /// A thread that keeps more bags than that hands them to all: they would wait for it alone otherwise.
    const KEPT: usize = 16;

    static EPOCH: AtomicUsize = AtomicUsize::new(0);

    /// What threads have left behind.
    static ORPHANS: Mutex<VecDeque<Sealed>> = Mutex::new(VecDeque::new());

    /// Something to be freed, and how.
    struct Retired {
        object: *mut (),
        bury: unsafe fn(*mut ()),
    }

    // SAFETY: who retires an object vouches that it may be freed on any thread.
    unsafe impl Send for Retired {}

    type Bag = Vec<Retired>;

    /// Retired as of an epoch.
    struct Sealed {
        stamp: usize,
        bag: Bag,
    }

    /// What a thread has retired.
    #[derive(Default)]
    struct Local {
        open: Bag,
        sealed: VecDeque<Sealed>,
        /// Emptied bags, to be filled again.
        spare: Vec<Bag>,
    }

    /// One thread's state, on cache lines of its own.
    #[repr(align(128))]
    struct Record {
        announcement: AtomicUsize,
        /// Guards that are alive. Like all cells here, the lessee's alone.
        depth: Cell<usize>,
        /// Whether the last guard has something to do when it goes.
        busy: Cell<bool>,
        /// Whether a collection is running, which frees objects whose destructors may pin.
        collecting: Cell<bool>,
        /// Whether the record was claimed for one pinning only: its thread is ending.
        borrowed: Cell<bool>,
        fenced: bool,
        local: RefCell<Local>,
        leased: AtomicBool,
        /// The record that was added after this one.
        next: Link<Record>,
    }

    // SAFETY: the cells are touched only by the thread that leases the record (guards cannot be sent), and the lease
    // passes on by a release of `leased` and an acquire of it. The rest is atomics.
    unsafe impl Sync for Record {}

    /// The first record, which leads to all others.
    static FIRST: Link<Record> = Link::new();

    thread_local! {
        /// This thread's record. No destructor, so it can be asked at any time.
        static MINE: Cell<Option<&'static Record>> = const { Cell::new(None) };
        /// Gives the record back when the thread ends.
        static AT_EXIT: AtExit = const { AtExit };
    }

    struct AtExit;

    impl Drop for AtExit {
        fn drop(&mut self) {
            if let Some(record) = MINE.take() {
                if record.depth.get() == 0 {
                    record.give_back();
                } else {
                    // Guards that are still alive belong to thread-locals; the last of them gives the record back.
                    record.borrowed.set(true);
                    record.busy.set(true);
                }
            }
        }
    }

    /// While one lives, nothing is freed that was reachable at its birth or later.
    ///
    /// Guards nest; only the outermost costs anything. They stay on their thread:
    ///
    /// ```compile_fail
    /// let guard = cache_reclaim::epoch::pin();
    /// std::thread::spawn(move || drop(guard));
    /// ```
    pub struct Guard {
        record: &'static Record,
        /// The thread's own.
        local: PhantomData<*mut ()>,
    }

    impl fmt::Debug for Guard {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.debug_struct("Guard").finish_non_exhaustive()
        }
    }

    /// A new guard. O(1): two plain stores to memory of this thread, where the system has the barrier (see
    /// [`readers_are_fence_free`](crate::readers_are_fence_free)).
    #[inline]
    #[must_use]
    pub fn pin() -> Guard {
        let record = match MINE.get() {
            Some(record) => record,
            None => first_pin(),
        };
        let depth = record.depth.get();
        record.depth.set(depth + 1);
        if depth == 0 {
            announce(&EPOCH, &record.announcement, record.fenced);
        }
        Guard {
            record,
            local: PhantomData,
        }
    }

    /// A grace period: over when every guard that was alive at its beginning is gone.
    ///
    /// For structures that keep what they have retired themselves, instead of [handing it over](Guard::retire): because
    /// it borrows from its surroundings, or is used again. As `start_poll_synchronize_rcu` in Linux.
    ///
    /// ```
    /// use cache_reclaim::epoch::{self, Grace};
    ///
    /// let grace = Grace::begin();
    /// // What was unlinked before this line may be freed as soon as `is_over` says so.
    /// while !grace.is_over() {
    ///     epoch::advance();
    ///     std::thread::yield_now();
    /// }
    /// ```
    #[derive(Clone, Copy, Debug)]
    pub struct Grace {
        stamp: usize,
    }

    impl Grace {
        /// Begins one. O(1): a fence and a load.
        #[must_use]
        pub fn begin() -> Self {
            Self {
                stamp: stamp(&EPOCH),
            }
        }

        /// Whether all guards that were alive at its beginning are gone. What their threads did under them then
        /// happens before what the caller does next. O(1): one load. It becomes true only if somebody
        /// [advances](advance).
        #[must_use]
        pub fn is_over(&self) -> bool {
            // Acquire: see `move_on`.
            is_over(self.stamp, EPOCH.load(Ordering::Acquire))
        }
    }

    /// Has grace periods go on, if every thread that is pinned now has pinned, or [repinned](Guard::repin), since the
    /// last success of this call. Three successes end a grace period. May be called pinned or not. O(threads), and one
    /// barrier in each running thread: a few microseconds.
    pub fn advance() {
        move_on(&EPOCH, all().map(|record| &record.announcement));
    }

    #[cold]
    #[inline(never)]
    fn first_pin() -> &'static Record {
        let record = Record::claim();
        // Touching it registers the destructor; where that has run already, the record is claimed for this guard.
        if AT_EXIT.try_with(|_| ()).is_ok() {
            MINE.set(Some(record));
        } else {
            record.borrowed.set(true);
            record.busy.set(true);
        }
        record
    }

    impl Guard {
        /// Frees `object` by `bury` once every guard that is alive now is gone. Amortised O(1): a push, and for every
        /// 512 objects one barrier, paid when the guard goes. They are freed by this thread when it retires more, or
        /// [flushes](Guard::flush); by others when it has ended or left too much waiting.
        ///
        /// # Safety
        ///
        /// Nobody who pins from now on can come by the object. `bury(object)` is sound on any thread at any time after
        /// the last guard of those that are alive now, is called by nobody else, and does not unwind (what was retired
        /// with it would be leaked).
        #[inline]
        pub unsafe fn retire(&self, object: *mut (), bury: unsafe fn(*mut ())) {
            let mut local = self.record.local.borrow_mut();
            local.open.push(Retired { object, bury });
            if local.open.len() >= BAG {
                self.record.seal(&mut local);
            }
        }

        /// Has what this thread has retired freed as soon as possible: after the guard, as far as the epoch allows.
        /// For objects that hold much memory, and for tests. Three to four calls free everything when no other thread
        /// is pinned.
        #[cold]
        pub fn flush(&self) {
            self.record.seal(&mut self.record.local.borrow_mut());
        }

        /// Leaves the grace period and enters a new one; if this is the only guard of its thread. What was read under
        /// it may be freed.
        #[inline]
        pub fn repin(&mut self) {
            if self.record.depth.get() != 1 {
                return;
            }
            withdraw(&self.record.announcement);
            if self.record.busy.get() && !self.record.borrowed.get() {
                self.record.depth.set(0);
                self.record.collect();
                self.record.depth.set(1);
            }
            announce(&EPOCH, &self.record.announcement, self.record.fenced);
        }
    }

    impl Drop for Guard {
        #[inline]
        fn drop(&mut self) {
            let record = self.record;
            let depth = record.depth.get() - 1;
            record.depth.set(depth);
            if depth == 0 {
                withdraw(&record.announcement);
                if record.busy.get() {
                    record.last_guard_gone();
                }
            }
        }
    }

    impl Record {
        /// A record for this thread: one given back, or a new one. O(records).
        fn claim() -> &'static Self {
            let unleased = all().find(|record| {
                // Acquire: whatever the last lessee did comes before what we do.
                !record.leased.load(Ordering::Relaxed)
                    && record
                        .leased
                        .compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed)
                        .is_ok()
            });
            unleased.unwrap_or_else(Self::append)
        }

        /// A new record at the end of the list, leased.
        fn append() -> &'static Self {
            let record: &'static Self = Box::leak(Box::new(Self {
                announcement: AtomicUsize::new(UNPINNED),
                depth: Cell::new(0),
                busy: Cell::new(false),
                collecting: Cell::new(false),
                borrowed: Cell::new(false),
                fenced: barrier::readers_fence(),
                local: RefCell::default(),
                leased: AtomicBool::new(true),
                next: Link::new(),
            }));
            let mut end = &FIRST;
            while let Err(before) = end.set(record) {
                // Somebody was there before: on to the end of the list, which only grows.
                end = &before.next;
            }
            record
        }

        /// Leaves everything to all, and lets another thread have the record.
        fn give_back(&self) {
            let mut local = self.local.take();
            let mut orphans = ORPHANS.lock().unwrap_or_else(PoisonError::into_inner);
            orphans.append(&mut local.sealed);
            if !local.open.is_empty() {
                orphans.push_back(Sealed {
                    stamp: stamp(&EPOCH),
                    bag: local.open,
                });
            }
            drop(orphans);
            self.busy.set(false);
            self.borrowed.set(false);
            // Release: see `claim`.
            self.leased.store(false, Ordering::Release);
        }

        /// Stamps the open bag; the last guard will collect.
        fn seal(&self, local: &mut Local) {
            if !local.open.is_empty() {
                let empty = local.spare.pop().unwrap_or_default();
                let bag = std::mem::replace(&mut local.open, empty);
                let stamp = stamp(&EPOCH);
                local.sealed.push_back(Sealed { stamp, bag });
            }
            self.busy.set(true);
        }

        #[cold]
        #[inline(never)]
        fn last_guard_gone(&self) {
            if self.borrowed.get() {
                self.give_back();
            } else {
                self.collect();
            }
        }

        /// Frees what can be freed, after an attempt to move the epoch on if that would help.
        #[cold]
        #[inline(never)]
        fn collect(&self) {
            if self.collecting.replace(true) {
                return;
            }
            self.busy.set(false);
            // Acquire: what is freed below is freed after all reads of those who were pinned.
            let mut now = EPOCH.load(Ordering::Acquire);
            let oldest = self
                .local
                .borrow()
                .sealed
                .front()
                .map(|sealed| sealed.stamp);
            if oldest.is_none_or(|stamp| !is_over(stamp, now)) {
                now = move_on(&EPOCH, all().map(|record| &record.announcement));
            }
            for _ in 0..PER_COLLECTION {
                let due = {
                    let mut local = self.local.borrow_mut();
                    pop_due(&mut local.sealed, now)
                };
                // The borrow has ended: destructors may retire.
                let Some(mut bag) = due else { break };
                bury_all(&mut bag);
                let mut local = self.local.borrow_mut();
                if local.spare.len() < 4 && bag.capacity() >= BAG {
                    local.spare.push(bag);
                }
            }
            self.share(now);
            self.collecting.set(false);
        }

        /// Frees what others left, and leaves to others what is too much.
        fn share(&self, now: usize) {
            for _ in 0..PER_COLLECTION {
                // Who finds it locked has nothing to wait for: somebody else is doing this.
                let Ok(mut orphans) = ORPHANS.try_lock() else {
                    break;
                };
                let mut local = self.local.borrow_mut();
                if local.sealed.len() > KEPT {
                    orphans.append(&mut local.sealed);
                }
                let due = pop_due(&mut orphans, now);
                drop((orphans, local));
                let Some(mut bag) = due else { break };
                bury_all(&mut bag);
            }
        }
    }

    /// The first of the bags, if its time has come. Those behind it are of later epochs, or have waited with it.
    fn pop_due(bags: &mut VecDeque<Sealed>, now: usize) -> Option<Bag> {
        if is_over(bags.front()?.stamp, now) {
            return bags.pop_front().map(|sealed| sealed.bag);
        }
        None
    }

    fn bury_all(bag: &mut Bag) {
        /// The objects were in use some hundred operations ago: fetched in time, most misses overlap.
        const AHEAD: usize = 6;
        for i in 0..bag.len() {
            if let Some(ahead) = bag.get(i + AHEAD) {
                prefetch(ahead.object);
            }
            let Retired { object, bury } = bag[i];
            // SAFETY: enough epochs have begun since the object was retired (`is_over`): every guard of that time is gone.
            unsafe { bury(object) };
        }
        bag.clear();
    }

    impl Clone for Retired {
        fn clone(&self) -> Self {
            *self
        }
    }

    impl Copy for Retired {}

    /// Asks for a cache line. Never faults, whatever the address.
    #[inline]
    fn prefetch(address: *mut ()) {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        // SAFETY: a prefetch is a hint: it has no effect on memory and does not fault.
        unsafe {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_T0>(address.cast_const().cast());
        }
        #[cfg(not(all(target_arch = "x86_64", not(miri))))]
        let _ = address;
    }

    /// All records. Whoever announces has its record in the list before that.
    fn all() -> impl Iterator<Item = &'static Record> {
        iter::successors(FIRST.get(), |record| record.next.get())
    }
}
