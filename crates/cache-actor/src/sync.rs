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

/// Steps of waiting that spin: an owner that is awake and idle answers within them.
#[cfg(not(shuttle))]
const SPINS: u32 = 32;
/// Steps after those that yield the processor: where owner and caller share one, this is what lets the owner run, and
/// it costs less than being parked and woken.
#[cfg(not(shuttle))]
const YIELDS: u32 = 8;

/// A short bounded wait before parking.
pub(crate) struct Patience {
    #[cfg(not(shuttle))]
    steps: u32,
}

impl Patience {
    pub(crate) fn new() -> Self {
        Self {
            #[cfg(not(shuttle))]
            steps: 0,
        }
    }

    /// Waits a little; `false` once it is time to park instead.
    #[cfg(not(shuttle))]
    pub(crate) fn wait(&mut self) -> bool {
        self.steps += 1;
        if self.steps <= SPINS {
            std::hint::spin_loop();
        } else {
            std::thread::yield_now();
        }
        self.steps < SPINS + YIELDS
    }

    /// A model gains nothing from spinning: each spin is one more schedule that differs in nothing.
    #[cfg(shuttle)]
    pub(crate) fn wait(&mut self) -> bool {
        false
    }
}
