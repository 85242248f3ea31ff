//! The one door to atomics and to the epochs: the shipped ones, or the model checker's under
//! `--cfg shuttle`. Nothing else in the crate names either.
//!
//! The model checker's epoch is as adversarial as the contract allows: a deferred call runs at the first moment at
//! which every guard that was alive when it was queued is gone. The real collector is lazier, so whatever holds
//! here holds there.

#[cfg(not(shuttle))]
pub(crate) use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize};

#[cfg(shuttle)]
pub(crate) use shuttle::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize};

pub(crate) use std::sync::atomic::Ordering::{self, AcqRel, Relaxed, SeqCst};

#[cfg(not(shuttle))]
pub(crate) mod epoch {
    //! Grace periods, by the epochs of cache-reclaim.

    pub(crate) use cache_reclaim::epoch::{Guard, pin};
}

#[cfg(shuttle)]
pub(crate) mod epoch {
    //! Grace periods at their shortest: see the module above.

    use std::cell::RefCell;
    use std::collections::BTreeSet;
    use std::marker::PhantomData;

    /// All threads of a model run on one thread of the system, so thread-local state is global to the model.
    #[derive(Default)]
    struct Global {
        next: u64,
        alive: BTreeSet<u64>,
        queue: Vec<(BTreeSet<u64>, *mut (), unsafe fn(*mut ()))>,
    }

    thread_local! {
        static GLOBAL: RefCell<Global> = RefCell::default();
    }

    /// Forgets what an execution that ended in a panic left behind.
    #[cfg(test)]
    pub(crate) fn reset() {
        GLOBAL.with(|global| {
            let mut global = global.borrow_mut();
            global.alive.clear();
            // What waits is leaked: it may refer to nodes of the broken execution.
            std::mem::forget(std::mem::take(&mut global.queue));
        });
    }

    /// How many deferred calls have not run yet.
    #[cfg(test)]
    pub(crate) fn backlog() -> usize {
        GLOBAL.with(|global| global.borrow().queue.len())
    }

    /// While one lives, nothing that was deferred after its birth runs.
    pub(crate) struct Guard {
        id: u64,
        pinned: PhantomData<*mut ()>,
    }

    impl Guard {
        /// The real one leaves and enters; here, a new guard takes the place of the old.
        pub(crate) fn repin(&mut self) {
            *self = pin();
        }

        /// Nothing ever waits longer than it must.
        pub(crate) fn flush(&self) {}

        /// Runs `bury(object)` at the first legal moment.
        ///
        /// # Safety
        ///
        /// As for the real one.
        pub(crate) unsafe fn retire(&self, object: *mut (), bury: unsafe fn(*mut ())) {
            GLOBAL.with(|global| {
                let mut global = global.borrow_mut();
                let alive = global.alive.clone();
                global.queue.push((alive, object, bury));
            });
        }
    }

    /// A new guard.
    pub(crate) fn pin() -> Guard {
        GLOBAL.with(|global| {
            let mut global = global.borrow_mut();
            global.next += 1;
            let id = global.next;
            global.alive.insert(id);
            Guard {
                id,
                pinned: PhantomData,
            }
        })
    }

    impl Drop for Guard {
        fn drop(&mut self) {
            let due: Vec<(*mut (), unsafe fn(*mut ()))> = GLOBAL.with(|global| {
                let mut global = global.borrow_mut();
                global.alive.remove(&self.id);
                let mut due = Vec::new();
                for (mut waits, object, bury) in std::mem::take(&mut global.queue) {
                    waits.remove(&self.id);
                    if waits.is_empty() {
                        due.push((object, bury));
                    } else {
                        global.queue.push((waits, object, bury));
                    }
                }
                due
            });
            if std::thread::panicking() {
                return;
            }
            for (object, bury) in due {
                // SAFETY: every guard that was alive when the object was retired is gone.
                unsafe { bury(object) };
            }
        }
    }
}
