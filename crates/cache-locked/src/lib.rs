//! One lock, one map: [`MutexCache`], [`RwLockCache`], and the unsynchronised baseline [`NaiveCache`].
//!
//! The simplest correct concurrent map: a hash table behind one lock. Every operation hashes its key, takes the lock,
//! probes the table and releases the lock. Nothing else happens, which is why this is the yardstick for the others.
//!
//! # When to use it, when not
//!
//! - [`MutexCache`]: few threads, or operations that are rare in comparison with other work. On one thread nothing
//!   that can be shared is faster for mixed reads and writes.
//! - [`RwLockCache`]: reads whose closures run long, so that letting readers in side by side pays. For short reads
//!   it is no faster than the mutex: each reader still writes to the lock's word, and that cache line travels
//!   between the cores.
//! - Neither once several cores are busy in the map at the same time: take `cache-sharded`.
//! - [`NaiveCache`] cannot be shared between threads at all. It is the floor of the measurements, and a map with
//!   interior mutability for one thread.
//!
//! # Guarantees
//!
//! - Every operation is linearizable, [`len`](LockedCache::len), [`clear`](LockedCache::clear) and whole batches
//!   included: there is one lock. Closures run under it, at most once per call.
//! - User code may panic anywhere: the lock is released, never poisoned, and the map is as before the call
//!   ([`retain`](LockedCache::retain): without the entries refused until then).
//! - A call on the same map from inside a closure, or from a `Hash`, `Eq` or `Clone` under the lock, panics at once
//!   with a message that contains `re-entrant`. Replaced and removed keys and values are dropped after the lock is
//!   released, so their destructors may call the map.
//! - Memory grows in powers of two and is given back by [`shrink_to_fit`](LockedCache::shrink_to_fit) and
//!   [`clear`](LockedCache::clear) only.
//!
//! # Examples
//!
//! ```
//! use std::thread;
//! use cache_locked::MutexCache;
//!
//! let hits = MutexCache::new();
//! thread::scope(|scope| {
//!     for page in ["/", "/about", "/"] {
//!         let hits = &hits;
//!         scope.spawn(move || hits.upsert(page.to_owned(), |seen| seen.map_or(1, |n| n + 1)));
//!     }
//! });
//! assert_eq!(hits.get("/"), Some(2));
//! ```
#![forbid(unsafe_code)]

mod broken;
mod cache;
mod contract;
mod naive;
#[cfg(test)]
mod tests;

pub use crate::cache::LockedCache;
pub use crate::naive::{Unsynchronised, UnsynchronisedLock};
pub use cache_api::DefaultHashBuilder;
pub use cache_table::{Lock, LockKind, MutexLock, RwLock};

/// A map behind one [`parking_lot`](https://docs.rs/parking_lot) mutex: see [`LockedCache`] for its operations.
///
/// ```
/// use cache_locked::MutexCache;
///
/// let cache = MutexCache::with_capacity(100);
/// cache.insert("k", 1);
/// assert_eq!(cache.get("k"), Some(1));
/// ```
pub type MutexCache<K, V, S = DefaultHashBuilder> = LockedCache<K, V, S, MutexLock>;

/// A map behind one [`parking_lot`](https://docs.rs/parking_lot) read-write lock: see [`LockedCache`] for its
/// operations.
///
/// Readers run side by side; a waiting writer holds new readers back.
///
/// ```
/// use cache_locked::RwLockCache;
///
/// let cache: RwLockCache<_, _> = [("a", 1), ("b", 2)].into_iter().collect();
/// assert_eq!(cache.get_with("b", |value| value + 1), Some(3));
/// ```
pub type RwLockCache<K, V, S = DefaultHashBuilder> = LockedCache<K, V, S, RwLock>;

/// The unsynchronised baseline: the same map for one thread only. See [`LockedCache`] for its operations.
///
/// It may move to another thread, and Rust refuses to share it:
///
/// ```compile_fail,E0277
/// let cache = cache_locked::NaiveCache::new();
/// cache.insert(1, 1);
/// std::thread::scope(|scope| {
///     scope.spawn(|| cache.get(&1)); // error: it cannot be shared between threads safely
/// });
/// ```
///
/// Closures that only read may read the same map again; a write from inside a closure panics at once.
pub type NaiveCache<K, V, S = DefaultHashBuilder> = LockedCache<K, V, S, Unsynchronised>;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExamples;
