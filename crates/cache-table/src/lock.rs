//! Lock kinds as type parameters: what a lock-based design needs of a lock; it never picks one.

use std::ops::{Deref, DerefMut};

/// A family of locks, chosen by a type parameter of a design: [`MutexLock`], [`RwLock`], or one of your own.
pub trait LockKind {
    /// The lock of this family around a `T`.
    type Lock<T>: Lock<T>;

    /// What `Debug` and reports call it.
    const NAME: &'static str;

    /// Whether a thread that holds a lock of this kind and asks for it again may wait for ever. Designs then ask
    /// [`Held`](crate::Held) first; `false` where the lock itself refuses such a call.
    const BLOCKS: bool = true;
}

/// A value behind a lock that is never poisoned.
pub trait Lock<T> {
    /// Access for reading; the lock is released when it is dropped.
    type Read<'a>: Deref<Target = T>
    where
        Self: 'a,
        T: 'a;

    /// Access for writing; the lock is released when it is dropped.
    type Write<'a>: DerefMut<Target = T>
    where
        Self: 'a,
        T: 'a;

    /// An unlocked lock.
    fn new(value: T) -> Self;

    /// Waits until no other thread writes (or, for a mutex, does anything at all).
    fn read(&self) -> Self::Read<'_>;

    /// Waits until no other thread holds the lock.
    fn write(&self) -> Self::Write<'_>;

    /// Access without locking, since nobody else can hold a reference.
    fn get_mut(&mut self) -> &mut T;

    /// The value.
    fn into_inner(self) -> T;
}

/// What [`Lock::read`] of the kind `L` around a `T` returns.
pub type ReadGuard<'a, L, T> = <<L as LockKind>::Lock<T> as Lock<T>>::Read<'a>;

/// What [`Lock::write`] of the kind `L` around a `T` returns.
pub type WriteGuard<'a, L, T> = <<L as LockKind>::Lock<T> as Lock<T>>::Write<'a>;

/// [`parking_lot::Mutex`]: one byte, readers exclude each other.
#[derive(Clone, Copy, Debug, Default)]
pub struct MutexLock;

/// [`parking_lot::RwLock`]: one word, readers run side by side but still write to the lock's word.
#[derive(Clone, Copy, Debug, Default)]
pub struct RwLock;

impl LockKind for MutexLock {
    type Lock<T> = parking_lot::Mutex<T>;

    const NAME: &'static str = "mutex";
}

impl LockKind for RwLock {
    type Lock<T> = parking_lot::RwLock<T>;

    const NAME: &'static str = "rwlock";
}

impl<T> Lock<T> for parking_lot::Mutex<T> {
    type Read<'a>
        = parking_lot::MutexGuard<'a, T>
    where
        T: 'a;
    type Write<'a>
        = parking_lot::MutexGuard<'a, T>
    where
        T: 'a;

    #[inline]
    fn new(value: T) -> Self {
        Self::new(value)
    }

    #[inline]
    fn read(&self) -> Self::Read<'_> {
        self.lock()
    }

    #[inline]
    fn write(&self) -> Self::Write<'_> {
        self.lock()
    }

    #[inline]
    fn get_mut(&mut self) -> &mut T {
        self.get_mut()
    }

    fn into_inner(self) -> T {
        self.into_inner()
    }
}

impl<T> Lock<T> for parking_lot::RwLock<T> {
    type Read<'a>
        = parking_lot::RwLockReadGuard<'a, T>
    where
        T: 'a;
    type Write<'a>
        = parking_lot::RwLockWriteGuard<'a, T>
    where
        T: 'a;

    #[inline]
    fn new(value: T) -> Self {
        Self::new(value)
    }

    #[inline]
    fn read(&self) -> Self::Read<'_> {
        self.read()
    }

    #[inline]
    fn write(&self) -> Self::Write<'_> {
        self.write()
    }

    #[inline]
    fn get_mut(&mut self) -> &mut T {
        self.get_mut()
    }

    fn into_inner(self) -> T {
        self.into_inner()
    }
}
