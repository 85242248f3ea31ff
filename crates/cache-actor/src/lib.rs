//! Owner threads and messages instead of locks.
//!
//! Sharding removes contention from a map; are locks then needed at all? This design keeps the shards and replaces
//! each lock by ownership: an owner thread holds the entries of its shards and nobody else ever sees them. Every
//! operation is a message in the owner's bounded mailbox. Mutual exclusion is a matter of structure: there is no
//! mutex, no reader-writer lock and no condition variable in this crate.
//!
//! ```
//! use cache_actor::ActorCache;
//! use cache_api::{Cache, GetBatch, Update};
//!
//! let map: ActorCache<String, u64> = ActorCache::new();
//! map.insert("a".to_owned(), 1); // Returns once enqueued,
//! assert_eq!(map.get("a"), Some(1)); // and every later request observes it.
//!
//! map.upsert("a".to_owned(), |n| n.map_or(1, |n| n + 1)); // Atomic: the owner runs the closure.
//! assert_eq!(map.get_batch(["a", "b"]), [Some(2), None]); // One message per shard touched.
//!
//! let handle = map.clone(); // Another handle to the same map.
//! std::thread::spawn(move || handle.remove("a".to_owned())).join().unwrap();
//! assert_eq!(map.len(), 0);
//! ```
//!
//! # How it works
//!
//! ```text
//!  handles (any thread)              mailboxes             owners
//!  insert, remove   --- Insert, Remove ---> [ | | | ] ---> shards 0 .. 127   nobody else ever touches them
//!  get, update, ... --- Call(closure) ----> [ | | | ] ---> shards 128 .. 255
//!         ^                                                    |
//!         +------------- answer, in the caller's frame --------+
//! ```
//!
//! A key's hash, computed once and by the caller, chooses the shard (256 by default), and the shard its owner (one
//! per core by default; see [`Builder`]). Blind writes move key and value into the message and are done, from the
//! caller's point of view. Everything else *lends* the owner a closure that stays in the caller's frame, together with
//! the place for its answer, while the caller waits: first some spins, then parked. So no request allocates, and
//! borrowed keys are compared where they are.
//!
//! # What is guaranteed
//!
//! - **Order.** The linearization point of a write is its enqueue: mailboxes are first-in, first-out, so whatever is
//!   asked after `insert` has returned, by whichever thread, observes it. All single-key operations are linearizable.
//! - **Atomicity.** Each closure runs once, alone on its shard. `get_or_insert_with` runs exactly one `init`.
//! - **Back-pressure.** A full mailbox makes its callers wait; [`Map::try_insert`] gives the entry back instead. What
//!   is in flight is bounded.
//! - **Panics.** A closure that panics answers its caller with that panic, and the shard goes on. A blind write that
//!   panics (in `Eq`, or in the destructor of what it replaced) has no caller left: it is counted by
//!   [`Map::failed_writes`].
//! - **Re-entry.** User code on an owner thread that calls the same map gets a panic that says `re-entrant`, also
//!   through another map of this crate in between, and never hangs. Closures that call *another* map must all do so in
//!   one order: two maps whose closures call each other at the same time wait for each other, as with locks.
//! - **End.** Dropping the last handle waits until the owners have worked off their mailboxes, dropped every entry and
//!   ended. On an owner thread (where a value's destructor drops the last handle) it does not wait: they end right
//!   after. A value that holds a handle to its own map keeps the map alive, as any cycle of reference counts does.
//! - **Memory.** Tables do not shrink by themselves; see [`Map::shrink_to_fit`] and [`cache_api::Iterate::clear`].
//!   Each entry carries its hash, 8 bytes.
//!
//! `len` is a sum over the owners, batches are consistent per shard, and `for_each` is weakly consistent.
//!
//! # When to use it, when not
//!
//! Use it where callers should not wait for their writes (bursts of writes to hot keys), where back-pressure is wanted,
//! where values are not `Sync`, where batches are large enough to keep all owners busy, or where per-shard work
//! (sweeps, compound updates) should need no thought about locks.
//!
//! Do not use it for single reads: each is two hand-overs between threads and often a wake-up, which costs many times
//! what a sharded lock costs. Take `cache-sharded` there. Nor in a child process after `fork`, where the owner threads
//! do not exist.
#![deny(unsafe_code)]

/// Code of one deliberately broken variant: compiled into this crate's own unit tests only, and run only by those
/// that show it being caught. See `mutants.rs`.
macro_rules! mutant {
    ($name:ident => $broken:block) => {
        #[cfg(test)]
        if $crate::mutants::is_active($crate::mutants::Mutant::$name) $broken
    };
}

mod batch;
mod builder;
mod map;
#[cfg(all(test, shuttle))]
mod model;
#[cfg(test)]
mod mutants;
mod owner;
mod reentry;
#[allow(
    unsafe_code,
    reason = "lends closures to other threads; argued at the top of the file"
)]
mod rendezvous;
mod routing;
mod shard;
mod sync;
#[cfg(all(test, not(shuttle)))]
mod tests;

pub use crate::builder::{BuildError, Builder};
pub use crate::map::{ActorCache, Map, TryInsertError};

/// The examples of the README are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeDoctests;
