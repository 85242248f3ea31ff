//! The primitives of the rendezvous: the standard library's, or the model checker's under `--cfg shuttle`.
//! Never a lock.

#[cfg(not(shuttle))]
pub(crate) use std::{
    sync::atomic::{AtomicUsize, Ordering},
    thread::{Thread, current, park},
};

#[cfg(shuttle)]
pub(crate) use shuttle::{
    sync::atomic::{AtomicUsize, Ordering},
    thread::{Thread, current, park},
};

/// A short bounded wait before parking: some spins, then some yields of the processor.
pub(crate) struct Patience {
    #[cfg(not(shuttle))]
    backoff: crossbeam_utils::Backoff,
}

impl Patience {
    pub(crate) fn new() -> Self {
        Self {
            #[cfg(not(shuttle))]
            backoff: crossbeam_utils::Backoff::new(),
        }
    }

    /// Waits a little; `false` once it is time to park instead.
    pub(crate) fn wait(&self) -> bool {
        // A model gains nothing from spinning: each spin is one more schedule that differs in nothing.
        #[cfg(shuttle)]
        return false;
        #[cfg(not(shuttle))]
        {
            self.backoff.snooze();
            !self.backoff.is_completed()
        }
    }
}
