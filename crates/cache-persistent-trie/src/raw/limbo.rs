//! Limbo: where replaced versions wait for their grace period. Never decides what is garbage.
//!
//! The epochs only tell *when*: a batch notes at which of them its grace period began. The garbage itself stays in lists
//! that belong to the map, and is freed by the map's own writers, or when the map is dropped. Three things follow:
//!
//! * keys and values may borrow from their surroundings (no `'static`), since none is dropped after its map and the
//!   map's snapshots are;
//! * user code (`Drop`) never runs on a thread that does not use the map;
//! * the barrier that readers are spared is paid once for [`BATCH`] writes.
//!
//! All lists are stacks with push and take-all only, so that no pointer is compared after its object was freed: there
//! is no ABA.

use std::cell::Cell;
use std::ptr;

use crossbeam_utils::CachePadded;

use super::read::prefetch;
use super::version::Version;
use crate::sync::{AtomicPtr, Grace, Guard, Mutant, Ordering, advance, mutant};

/// How many versions share a grace period. Small in builds with assertions, so that tests see every path.
pub(crate) const BATCH: usize = if cfg!(shuttle) {
    1
} else if cfg!(debug_assertions) {
    4
} else {
    32
};

/// How often [`Limbo::reclaim`] tries to advance the epoch before it gives up (another thread may be pinned).
const RECLAIM_ROUNDS: usize = 64;

/// A map's replaced versions.
pub(crate) struct Limbo<K, V, const W: usize> {
    /// A power of two; each thread uses one, so that threads that write at the same time do not share a line.
    stripes: Box<[CachePadded<Stripe<K, V, W>>]>,
}

struct Stripe<K, V, const W: usize> {
    /// Versions whose grace period has not begun yet, newest first.
    open: AtomicPtr<Version<K, V, W>>,
    /// Batches whose grace period has.
    sealed: AtomicPtr<Sealed<K, V, W>>,
}

/// A batch whose grace period is under way or over.
struct Sealed<K, V, const W: usize> {
    list: *mut Version<K, V, W>,
    grace: Grace,
    next: *mut Sealed<K, V, W>,
}

/// Frees a list of versions, and the rest of it where a `Drop` panics.
struct Rest<K, V, const W: usize>(*mut Version<K, V, W>);

impl<K, V, const W: usize> Rest<K, V, W> {
    fn run(&mut self) {
        while !self.0.is_null() {
            let version = self.0;
            // SAFETY: the list is exclusively ours, and its grace period over.
            unsafe {
                self.0 = *(*version).next.get();
                if !self.0.is_null() {
                    prefetch((*self.0).node);
                    prefetch(*(*self.0).next.get());
                }
                Version::free(version);
            }
        }
    }
}

impl<K, V, const W: usize> Drop for Rest<K, V, W> {
    fn drop(&mut self) {
        // Only finds work while a panic of a key's or value's `Drop` unwinds.
        self.run();
    }
}

/// What is left to do after the guard is gone: freeing, which runs user code.
#[must_use]
pub(crate) struct Due<'a, K, V, const W: usize>(Option<&'a Stripe<K, V, W>>);

impl<K, V, const W: usize> Due<'_, K, V, W> {
    pub(crate) const NOTHING: Self = Self(None);

    /// Leaves the freeing to the next write of the stripe.
    pub(crate) fn discard(self) {}

    /// Has the epochs go on, and frees the batches whose grace period is over. To be called without a guard.
    #[inline]
    pub(crate) fn settle(self) {
        if let Some(stripe) = self.0 {
            advance();
            stripe.collect();
        }
    }
}

/// The stripe of the current thread, before the mask.
fn thread_number() -> usize {
    use std::sync::atomic::{AtomicUsize, Ordering};
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static NUMBER: Cell<usize> = const { Cell::new(usize::MAX) };
    }
    // Without a destructor the variable is accessible until the thread is gone.
    NUMBER.with(|number| {
        if number.get() == usize::MAX {
            // Relaxed: a number, and nothing else, is handed over.
            number.set(NEXT.fetch_add(1, Ordering::Relaxed) & (usize::MAX >> 1));
        }
        number.get()
    })
}

impl<K, V, const W: usize> Limbo<K, V, W> {
    pub(crate) fn new() -> Self {
        let threads = if cfg!(shuttle) {
            1
        } else {
            crate::raw::processors()
        };
        let stripes = threads.next_power_of_two().min(64);
        let stripe = || {
            CachePadded::new(Stripe {
                open: AtomicPtr::default(),
                sealed: AtomicPtr::default(),
            })
        };
        Self {
            stripes: (0..stripes).map(|_| stripe()).collect(),
        }
    }

    fn stripe(&self) -> &Stripe<K, V, W> {
        &self.stripes[thread_number() & (self.stripes.len() - 1)]
    }

    /// Takes over a version that was just replaced; `heavy` where much memory hangs on it, so that it should not wait
    /// for others.
    ///
    /// # Safety
    ///
    /// The version is unreachable for threads that pin from now on, it is retired once, and the caller is pinned by
    /// `guard` since before it was replaced.
    #[inline]
    pub(crate) unsafe fn retire(
        &self,
        guard: &Guard,
        version: *mut Version<K, V, W>,
        heavy: bool,
    ) -> Due<'_, K, V, W> {
        // It only shows that the caller is pinned.
        let _ = guard;
        if mutant(Mutant::ReleaseNotDeferred) {
            // SAFETY: none: this is the mutant.
            unsafe { Version::free(version) };
            return Due::NOTHING;
        }
        let stripe = self.stripe();
        let mut head = stripe.open.load(Ordering::Acquire);
        loop {
            // SAFETY: `version` is ours until the push succeeds. `head` was retired by a thread pinned like us, or
            // earlier; it cannot be freed before our guard is dropped, because the batch it ends up in is sealed, and
            // its grace period begins, after we loaded it from the open list.
            let pending = unsafe {
                *(*version).next.get() = head;
                let before = if head.is_null() {
                    0
                } else {
                    *(*head).pending.get()
                };
                *(*version).pending.get() = before + 1;
                before + 1
            };
            // Release: the sealer reads the links, the freeing thread everything else. Acquire: the links of `head`.
            match stripe.open.compare_exchange_weak(
                head,
                version,
                Ordering::Release,
                Ordering::Acquire,
            ) {
                Ok(_) if pending < BATCH && !heavy => return Due::NOTHING,
                Ok(_) => break,
                Err(now) => head = now,
            }
        }
        stripe.seal();
        Due(Some(stripe))
    }

    /// Tries to free all that waits, and returns whether nothing is left. Gives this thread's pool back, too.
    pub(crate) fn reclaim(&self) -> bool {
        for _ in 0..RECLAIM_ROUNDS {
            let mut left = false;
            for stripe in &self.stripes {
                stripe.seal();
                advance();
                stripe.collect();
                // Relaxed: advice only.
                left |= !stripe.sealed.load(Ordering::Relaxed).is_null();
            }
            if !left {
                super::memory::trim();
                return true;
            }
            std::thread::yield_now();
        }
        super::memory::trim();
        false
    }
}

impl<K, V, const W: usize> Stripe<K, V, W> {
    /// Has a grace period begin for all that is open.
    #[cold]
    fn seal(&self) {
        // Acquire: the links that other threads pushed. Release is not needed: nothing is handed over by the null.
        let list = self.open.swap(ptr::null_mut(), Ordering::Acquire);
        if list.is_null() {
            return;
        }
        #[cfg(shuttle)]
        if crate::sync::model::eager() {
            // The most adversarial collector: frees at the first moment that the rules allow.
            crate::sync::pin().defer(move || Rest(list).run());
            return;
        }
        // The versions were unlinked before they were pushed, and so before this.
        self.push_sealed(Box::into_raw(Box::new(Sealed {
            list,
            grace: Grace::begin(),
            next: ptr::null_mut(),
        })));
    }

    fn push_sealed(&self, batch: *mut Sealed<K, V, W>) {
        // Relaxed: only the value is compared.
        let mut head = self.sealed.load(Ordering::Relaxed);
        loop {
            // SAFETY: ours until the push succeeds.
            unsafe { (*batch).next = head };
            // Release: the batch's fields.
            match self.sealed.compare_exchange_weak(
                head,
                batch,
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    /// Frees the batches whose grace period is over. Runs user code.
    fn collect(&self) {
        // Acquire: the batches' fields. Taking all makes them exclusively ours.
        let mut batch = self.sealed.swap(ptr::null_mut(), Ordering::Acquire);
        let mut ready = Vec::new();
        while !batch.is_null() {
            // SAFETY: made by `Box::into_raw` in `seal`, and ours since the swap.
            unsafe {
                let next = (*batch).next;
                if (*batch).grace.is_over() {
                    ready.push(Rest(Box::from_raw(batch).list));
                } else {
                    self.push_sealed(batch);
                }
                batch = next;
            }
        }
        for mut rest in ready {
            rest.run();
        }
    }
}

impl<K, V, const W: usize> Drop for Limbo<K, V, W> {
    fn drop(&mut self) {
        // No operation of this map is under way any more, so all grace periods are over: nobody but an operation of
        // this map ever looks at its versions, or at a node on the strength of its claims.
        let mut lists = Vec::new();
        for stripe in &self.stripes {
            // Relaxed loads would do, `&mut self` orders them; swaps leave the stripe empty.
            lists.push(Rest(stripe.open.swap(ptr::null_mut(), Ordering::Acquire)));
            let mut batch = stripe.sealed.swap(ptr::null_mut(), Ordering::Acquire);
            while !batch.is_null() {
                // SAFETY: made by `Box::into_raw` in `seal`, and ours.
                let sealed = unsafe { Box::from_raw(batch) };
                lists.push(Rest(sealed.list));
                batch = sealed.next;
            }
        }
        drop(lists);
    }
}
