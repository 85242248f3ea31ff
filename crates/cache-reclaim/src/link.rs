//! The links of lists that only grow, through which the records of all threads are found.

use std::marker::PhantomData;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// A reference that is set once.
///
/// A `OnceLock` would serve, but its atomics are compiled into the standard library, where ThreadSanitizer does not see
/// them.
pub(crate) struct Link<T: 'static> {
    pointer: AtomicPtr<T>,
    lent: PhantomData<&'static T>,
}

impl<T> Link<T> {
    pub(crate) const fn new() -> Self {
        Self {
            pointer: AtomicPtr::new(ptr::null_mut()),
            lent: PhantomData,
        }
    }

    pub(crate) fn get(&self) -> Option<&'static T> {
        // Acquire: the target was initialised before it was linked.
        let target = self.pointer.load(Ordering::Acquire);
        // SAFETY: not null, it came from a `&'static T` in `set`.
        unsafe { target.as_ref() }
    }

    /// Sets the link; an error says what it is set to already.
    pub(crate) fn set(&self, target: &'static T) -> Result<(), &'static T> {
        let new = ptr::from_ref(target).cast_mut();
        // Release: see `get`. Acquire on failure for the same reason.
        match self.pointer.compare_exchange(
            ptr::null_mut(),
            new,
            Ordering::Release,
            Ordering::Acquire,
        ) {
            Ok(_) => Ok(()),
            // SAFETY: it is not null, so it came from a `&'static T` in `set`.
            Err(present) => Err(unsafe { &*present }),
        }
    }
}
