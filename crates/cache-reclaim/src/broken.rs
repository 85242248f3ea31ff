//! Deliberately broken variants, compiled into this crate's unit tests only: each breaks one rule of the protocol,
//! and a test shows that it is noticed. Never part of a library build.

/// Whether the variant `name` is switched on. `false`, at no cost, outside the unit tests.
#[inline(always)]
pub(crate) fn broken(name: &str) -> bool {
    #[cfg(all(test, not(loom)))]
    return switch::is_on(name);
    #[cfg(not(all(test, not(loom))))]
    {
        let _ = name;
        false
    }
}

#[cfg(all(test, not(loom)))]
pub(crate) mod switch {
    use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};

    static TURN: Mutex<()> = Mutex::new(());
    static ACTIVE: RwLock<Option<&'static str>> = RwLock::new(None);

    pub(crate) fn is_on(name: &str) -> bool {
        ACTIVE
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .is_some_and(|active| active == name)
    }

    /// Switches `name` on until the result is dropped; other tests that do so wait for their turn.
    pub(crate) fn on(name: &'static str) -> On {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        *ACTIVE.write().unwrap_or_else(PoisonError::into_inner) = Some(name);
        On { _turn: turn }
    }

    pub(crate) struct On {
        _turn: MutexGuard<'static, ()>,
    }

    impl Drop for On {
        fn drop(&mut self) {
            *ACTIVE.write().unwrap_or_else(PoisonError::into_inner) = None;
        }
    }
}
