//! Refuses a write that the closure of a read-modify-write makes, on the same thread, to the very entry that it is
//! computing: each attempt would defeat itself, for ever. (Removals need no refusal: the next attempt finds nothing to
//! remove, so they end by themselves.)

#[cfg(not(shuttle))]
mod frames {
    use std::cell::{Cell, RefCell};

    thread_local! {
        /// How many closures are running: the one thing that every write looks at.
        static DEPTH: Cell<usize> = const { Cell::new(0) };
        /// Map and hash of each.
        static FRAMES: RefCell<Vec<(usize, u64)>> = const { RefCell::new(Vec::new()) };
    }

    /// # Panics
    ///
    /// If this thread is inside a closure that computes the entry of this hash in this map.
    #[inline]
    pub(crate) fn refuse(map: usize, hash: u64) {
        if DEPTH.get() != 0 {
            refuse_inside(map, hash);
        }
    }

    #[cold]
    fn refuse_inside(map: usize, hash: u64) {
        // Where the list is already gone, at the end of a thread, there are no frames either.
        let inside = FRAMES
            .try_with(|frames| frames.borrow().contains(&(map, hash)))
            .unwrap_or(false);
        assert!(
            !inside,
            "{}: a closure writes to the entry that it computes",
            cache_api::REENTRANT
        );
    }

    /// Takes the frame away, also when the closure panics.
    struct Pop;

    impl Drop for Pop {
        fn drop(&mut self) {
            DEPTH.set(DEPTH.get() - 1);
            let _ = FRAMES.try_with(|frames| frames.borrow_mut().pop());
        }
    }

    pub(crate) fn run<R>(map: usize, hash: u64, closure: impl FnOnce() -> R) -> R {
        if FRAMES
            .try_with(|frames| frames.borrow_mut().push((map, hash)))
            .is_err()
        {
            return closure();
        }
        DEPTH.set(DEPTH.get() + 1);
        let _pop = Pop;
        closure()
    }
}

#[cfg(shuttle)]
mod frames {
    //! All threads of a model share the system's thread, so that thread-local frames would mix them up.

    pub(crate) fn refuse(_map: usize, _hash: u64) {}

    pub(crate) fn run<R>(_map: usize, _hash: u64, closure: impl FnOnce() -> R) -> R {
        closure()
    }
}

pub(crate) use frames::{refuse, run};
