//! The lock that is none: a borrow flag for one thread, which makes the unsynchronised baseline; it never waits.

use std::cell::{Ref, RefCell, RefMut};

use cache_table::{Lock, LockKind};

/// The lock kind of [`NaiveCache`](crate::NaiveCache): no lock, but a flag that refuses conflicting access.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unsynchronised;

/// A [`RefCell`] as a lock for one thread: where it would have to wait, it panics.
#[derive(Debug, Default)]
pub struct UnsynchronisedLock<T>(RefCell<T>);

impl LockKind for Unsynchronised {
    type Lock<T> = UnsynchronisedLock<T>;

    const NAME: &'static str = "unsynchronised";
    const BLOCKS: bool = false;
}

impl<T> Lock<T> for UnsynchronisedLock<T> {
    type Read<'a>
        = Ref<'a, T>
    where
        T: 'a;
    type Write<'a>
        = RefMut<'a, T>
    where
        T: 'a;

    fn new(value: T) -> Self {
        Self(RefCell::new(value))
    }

    #[inline]
    fn read(&self) -> Ref<'_, T> {
        self.0.try_borrow().unwrap_or_else(|_| refuse())
    }

    #[inline]
    fn write(&self) -> RefMut<'_, T> {
        self.0.try_borrow_mut().unwrap_or_else(|_| refuse())
    }

    #[inline]
    fn get_mut(&mut self) -> &mut T {
        self.0.get_mut()
    }

    fn into_inner(self) -> T {
        self.0.into_inner()
    }
}

#[cold]
fn refuse() -> ! {
    panic!(
        "re-entrant call: this cache was written to from inside one of its own closures, or called from inside one \
         that writes. Take what you need out of the closure (a clone, a flag) and call the map after it has returned"
    );
}
