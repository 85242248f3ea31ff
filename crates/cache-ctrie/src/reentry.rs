//! Notices when the closure of a read-modify-write changes, on the same thread, the very entry that it is computing:
//! each attempt would defeat itself, for ever. Such a call panics instead. (Removals need no notice: the next attempt
//! finds nothing to remove, so they end by themselves.)

#[cfg(not(shuttle))]
mod frames {
    use std::cell::{Cell, RefCell};

    struct Frame {
        map: usize,
        hash: u64,
        disturbed: bool,
    }

    thread_local! {
        /// How many frames there are: the one thing that every write looks at.
        static DEPTH: Cell<usize> = const { Cell::new(0) };
        static FRAMES: RefCell<Vec<Frame>> = const { RefCell::new(Vec::new()) };
    }

    #[inline]
    pub(crate) fn note(map: usize, hash: u64) {
        if DEPTH.get() != 0 {
            disturb(map, hash);
        }
    }

    #[cold]
    fn disturb(map: usize, hash: u64) {
        // Where the list is already gone, at the end of a thread, there are no frames either.
        let _ = FRAMES.try_with(|frames| {
            for frame in frames.borrow_mut().iter_mut() {
                if frame.map == map && frame.hash == hash {
                    frame.disturbed = true;
                }
            }
        });
    }

    /// Takes the frame away, also when the closure panics.
    struct Pop;

    impl Pop {
        fn pop(&self) -> bool {
            DEPTH.set(DEPTH.get() - 1);
            FRAMES
                .try_with(|frames| {
                    frames
                        .borrow_mut()
                        .pop()
                        .is_some_and(|frame| frame.disturbed)
                })
                .unwrap_or(false)
        }
    }

    impl Drop for Pop {
        fn drop(&mut self) {
            self.pop();
        }
    }

    pub(crate) fn run<R>(map: usize, hash: u64, closure: impl FnOnce() -> R) -> R {
        let pushed = FRAMES
            .try_with(|frames| {
                frames.borrow_mut().push(Frame {
                    map,
                    hash,
                    disturbed: false,
                })
            })
            .is_ok();
        if !pushed {
            return closure();
        }
        DEPTH.set(DEPTH.get() + 1);
        let pop = Pop;
        let result = closure();
        let disturbed = pop.pop();
        std::mem::forget(pop);
        if disturbed {
            drop(result);
            panic!(
                "{}: the closure changed the entry that it was computing",
                cache_api::REENTRANT
            );
        }
        result
    }
}

#[cfg(shuttle)]
mod frames {
    //! All threads of a model share the system's thread, so that thread-local frames would mix them up.

    pub(crate) fn note(_map: usize, _hash: u64) {}

    pub(crate) fn run<R>(_map: usize, _hash: u64, closure: impl FnOnce() -> R) -> R {
        closure()
    }
}

pub(crate) use frames::{note, run};
