//! How far apart shards lie in memory, as a type parameter; it never changes what a shard does.

use std::fmt::Debug;
use std::ops::Deref;

/// What lies between the shards of a [`StripedCache`](crate::StripedCache).
pub trait Padding {
    /// A `T` with this padding.
    type Padded<T>: Deref<Target = T> + From<T> + AsMut<T>;

    /// What reports call it.
    const NAME: &'static str;
}

/// Shards on lines of their own: each begins at a multiple of 128 bytes.
///
/// 128 and not 64, because processors fetch lines in adjacent pairs: two shards on one pair would slow each other
/// down almost as if they shared a line.
#[derive(Clone, Copy, Debug, Default)]
pub struct Padded128;

/// Shards next to each other: smaller, and slower where neighbours are busy at the same time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unpadded;

/// A value at a multiple of 128 bytes.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Aligned128<T>(T);

/// A value where it happens to be.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct Plain<T>(T);

impl Padding for Padded128 {
    type Padded<T> = Aligned128<T>;

    const NAME: &'static str = "padded to 128 bytes";
}

impl Padding for Unpadded {
    type Padded<T> = Plain<T>;

    const NAME: &'static str = "unpadded";
}

macro_rules! wrapper {
    ($name:ident) => {
        impl<T> Deref for $name<T> {
            type Target = T;

            #[inline]
            fn deref(&self) -> &T {
                &self.0
            }
        }

        impl<T> AsMut<T> for $name<T> {
            #[inline]
            fn as_mut(&mut self) -> &mut T {
                &mut self.0
            }
        }

        impl<T> From<T> for $name<T> {
            fn from(value: T) -> Self {
                Self(value)
            }
        }
    };
}

wrapper!(Aligned128);
wrapper!(Plain);
