//! A persistent hash trie published by compare-and-swap: hamt and hamt256.
mod hamt;
mod hamt256;
mod ops;
mod raw;
mod stats;
#[cfg(not(shuttle))]
mod sync;
#[cfg(shuttle)]
pub mod sync;

pub use crate::hamt::{HamtBatch, HamtCache, HamtSnapshot};
pub use crate::hamt256::{Hamt256Cache, Hamt256Snapshot};
