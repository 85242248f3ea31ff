//! What the locking designs share: a hash-once [`Table`], the re-entry guard ([`Held`]), lock kinds and prefetching.
//!
//! This crate is a building block, not a cache: nothing here synchronises anything. A design owns a [`Table`],
//! decides when it may be touched, and keeps the promises of `cache-api`:
//!
//! - Each operation computes the key's hash once and hands it in (a batch may have [`hash_keys`] or
//!   [`Table::get_batch`] do so); [`Table`] never hashes the key again, except all stored keys when it grows.
//! - User code never runs while entries are on the move, so a panicking `Hash`, `Eq` or closure loses nothing.
//! - Whatever an operation takes out of the table is handed to the caller, who drops it after releasing the lock.
//! - A thread that calls back into a map whose lock it holds is refused by [`Held::enter`] instead of hanging.
//!
//! # When to use it, when not
//!
//! Use it to build another design that protects one or more tables by some means of its own. For a map, take
//! `cache-locked`, `cache-sharded` or `cache-cow`, or [`hashbrown::HashMap`] where only one thread is involved.
//!
//! # Examples
//!
//! ```
//! use std::hash::{BuildHasher, RandomState};
//! use cache_table::Table;
//!
//! let hasher = RandomState::new();
//! let mut table = Table::new();
//! let hash = hasher.hash_one("k");
//! assert!(table.get_mut(hash, "k").is_none());
//! table.room(&hasher).insert(hash, "k", 1);
//! assert_eq!(table.get(hash, "k"), Some(&1));
//! assert_eq!(table.remove(hash, "k"), Some(("k", 1)));
//! ```

mod batch;
mod broken;
mod held;
#[cfg(feature = "locks")]
mod lock;
mod prefetch;
mod table;

pub use crate::batch::{PROBES_AHEAD, Wanted, hash_keys};
pub use crate::held::{Held, MAX_NESTED};
#[cfg(feature = "locks")]
pub use crate::lock::{Lock, LockKind, MutexLock, ReadGuard, RwLock, WriteGuard};
pub use crate::prefetch::{ProbeHint, prefetch_read};
pub use crate::table::{Iter, Room, Table};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExamples;
