//! Memory reclamation whose readers take no reference count, no lock and no fence: a published pointer, [`Published`],
//! grace periods for structures of many nodes, [`epoch`], and a [`pool`] for the memory of such nodes.
//!
//! A writer replaces the value that all threads read; readers go on reading the value they found, and nobody frees it
//! under them. The read side is two loads, two stores and a comparison, all on lines that this thread has to itself
//! or shares with readers only, so that the processor can overlap independent reads. The price is paid by the writer.
//!
//! # How it works
//!
//! Hazard pointers (M. M. Michael, *Hazard Pointers: Safe Memory Reclamation for Lock-Free Objects*, IEEE TPDS 15(6),
//! 2004) with an asymmetric barrier. A reader announces the pointer it is about to use in a slot of its thread, and
//! looks again whether it is still the published one. A writer publishes a new pointer, then looks through the slots
//! of all threads, and frees what no slot shows. For this to be right, the reader's announcement must be visible
//! before its second look, which on every common processor takes a full fence: as dear as a reference count, and a
//! wall between neighbouring reads.
//!
//! On Linux the fence moves to the writer: `membarrier(2)` makes every thread of the process that is running execute
//! a full barrier at some moment between its call and return. Readers keep the two accesses in program order, which
//! costs nothing. Where the call does not exist or is forbidden, readers use a fence of their own.
//!
//! # When to use it, when not
//!
//! For a value that is read far more often than replaced, and whose replacement costs more than a few microseconds
//! anyway. Each replacement makes a system call that interrupts the other running threads of the process; a pointer
//! replaced hundreds of thousands of times a second wants [`epoch`].
//!
//! # Examples
//!
//! ```
//! use std::sync::Arc;
//! use cache_reclaim::Published;
//!
//! let settings = Published::new(Arc::new(vec![1, 2, 3]));
//! let before = settings.snapshot();
//! drop(settings.replace(Arc::new(vec![4])));
//! assert_eq!(*settings.read(), [4]);
//! assert_eq!(*before, [1, 2, 3]);
//! ```
//!
//! # Where `unsafe` is used and why
//!
//! - `published`: turning the published pointer into a reference or an `Arc`, which is what the protocol proves valid.
//! - `barrier`: the system call.
//! - `epoch`: calling the functions that free, once the epochs say so; records that are shared between threads.
//! - `pool`: lists of free memory.
//! - `link`: following a pointer to a record, which is never freed.

mod barrier;
mod broken;
pub mod epoch;
mod link;
#[cfg(all(test, loom))]
mod model;
pub mod pool;
mod published;
mod slots;
mod sync;
#[cfg(all(test, not(loom)))]
mod tests;

pub use crate::published::{Published, Reading};

/// Whether readers of this process run without a fence, the writer's system call standing in for it.
///
/// Decided once, at the first read or replacement.
#[must_use]
pub fn readers_are_fence_free() -> bool {
    !barrier::readers_fence()
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExamples;
