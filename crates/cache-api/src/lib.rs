//! The contract: what every design in this workspace promises, and the vocabulary it promises it in.
//!
//! A *design* is one way of synchronising a concurrent in-memory map. All of them implement [`Cache`], the
//! smallest thing they share and the thing that is timed. What only some designs truly have is a trait of its
//! own, implemented where it is real and never faked:
//!
//! | trait | what it adds |
//! |---|---|
//! | [`Update`] | atomic read-modify-write on one key |
//! | [`BulkLoad`] | filling a map at once, O(n) where the design allows |
//! | [`GetBatch`] | many reads in one call, with a stated consistency |
//! | [`Iterate`] | visiting, filtering and clearing the whole map |
//! | [`Snapshot`], [`SnapshotView`] | a point-in-time view in O(1) |
//! | [`Fork`] | a point-in-time copy in O(1) that can be written to |
//! | [`Routed`] | which shard a key goes to (for tests and adversarial workloads) |
//! | [`DynCache`] | an object-safe face for choosing a design by name at run time |
//!
//! # Why closures and not guards
//!
//! The most reported fault of maps that return guards is a live guard plus a second call on the same map: a
//! deadlock. So no guard escapes here: a value is seen inside a closure, or cloned out. The price is that a
//! closure cannot return a reference into the map; a [`SnapshotView`] can hand those out.
//!
//! # What holds for every closure and every method
//!
//! User code (`Hash`, `Eq`, `Clone`, `Drop`, closures) may panic: the panic reaches the caller, the map stays
//! usable, [`Cache::len`] stays right, no value is dropped twice, and no other caller waits for ever.
//! User code may call back into the same map: the call completes, or it panics at once with a message that
//! contains the word `re-entrant` (see [`REENTRANT`]). It never hangs.
//! Replaced and removed keys and values are dropped after the design has released its locks.
//!
//! # Examples
//!
//! ```
//! use cache_api::Cache;
//!
//! /// Works with every design.
//! fn hit_rate<C: Cache<String, u32>>(cache: &C, wanted: &[&str]) -> f64 {
//!     let hits = wanted.iter().filter(|key| cache.contains_key(**key)).count();
//!     hits as f64 / wanted.len() as f64
//! }
//! ```
#![forbid(unsafe_code)]

mod batch;
mod bulk;
mod cache;
mod dynamic;
mod hash;
mod iterate;
mod snapshot;
mod update;

pub use crate::batch::GetBatch;
pub use crate::bulk::BulkLoad;
pub use crate::cache::{Cache, Consistency, REENTRANT, Routed};
pub use crate::dynamic::DynCache;
pub use crate::hash::{DefaultHashBuilder, OneShotHasher};
pub use crate::iterate::Iterate;
pub use crate::snapshot::{Fork, Snapshot, SnapshotView};
pub use crate::update::{ClosureRuns, Update};
