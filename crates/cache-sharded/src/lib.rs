//! Lock striping: a map cut into shards, each a hash table behind a lock of its own.
//!
//! A key belongs to one shard, chosen by some bits of its hash. Threads that work on different shards never meet; two
//! that meet wait only for each other. With 256 shards and a few dozen threads, meetings are rare unless one single
//! key is hot.
//!
//! # When to use it, when not
//!
//! Use it as the default for a map that several threads read and write: single-key operations, predictable latency,
//! no memory overhead per entry, no allocation except for growth. Do not use it
//!
//! - where you need one consistent view of the whole map (take `cache-cow`, `cache-persistent-trie` or
//!   `cache-ctrie`): visiting all entries here goes shard by shard;
//! - for a map that is read by many threads and hardly ever written: `cache-cow` reads without writing to any shared
//!   line;
//! - for a few entries, or a single thread: `cache-locked` is smaller and as fast.
//!
//! # Guarantees
//!
//! - Operations on one key are linearizable. [`len`](StripedCache::len) is a sum over shards read one after another;
//!   [`for_each`](StripedCache::for_each), [`retain`](StripedCache::retain) and [`clear`](StripedCache::clear) go
//!   shard by shard, and see each entry that is present throughout exactly once.
//! - Closures run under the lock of one shard, at most once per call. Two locks are never held at the same time.
//! - The key is hashed once per operation. The shard is chosen by bits of the hash that the tables inside the shards
//!   do not use, so these stay uniform.
//! - User code may panic anywhere: the lock is released, never poisoned, and the shard is as before the call
//!   ([`retain`](StripedCache::retain): without the entries refused until then).
//! - A call on the same map from inside a closure, or from a `Hash`, `Eq` or `Clone` under a lock, panics at once with
//!   a message that contains `re-entrant`, whichever shards are involved. Replaced and removed keys and values are
//!   dropped after the lock is released, so their destructors may call the map.
//! - Each shard grows on its own, in powers of two, so no growth stops the whole map. Memory is given back by
//!   [`shrink_to_fit`](StripedCache::shrink_to_fit) and [`clear`](StripedCache::clear) only.
//!
//! # Examples
//!
//! ```
//! use std::thread;
//! use cache_sharded::ShardedCache;
//!
//! let hits = ShardedCache::new();
//! thread::scope(|scope| {
//!     for page in ["/", "/about", "/"] {
//!         let hits = &hits;
//!         scope.spawn(move || hits.upsert(page.to_owned(), |seen| seen.map_or(1, |n| n + 1)));
//!     }
//! });
//! assert_eq!(hits.get("/"), Some(2));
//! ```
//!
//! The lock and the padding are type parameters, the number of shards is a run-time value:
//!
//! ```
//! use cache_sharded::{DefaultHashBuilder, RwLock, ShardsError, StripedCache, Unpadded};
//!
//! type Compact = StripedCache<u64, u64, DefaultHashBuilder, RwLock, Unpadded>;
//! let cache = Compact::try_with_shards(16)?;
//! cache.insert(1, 10);
//! let error = Compact::try_with_shards(12).unwrap_err();
//! assert_eq!(error.to_string(), "12 shards: the number must be a power of two from 1 to 16777216, such as 8 or 16");
//! # Ok::<(), ShardsError>(())
//! ```
#![forbid(unsafe_code)]

mod batch;
mod broken;
mod cache;
mod contract;
mod padding;
#[cfg(test)]
mod tests;

pub use crate::cache::{DEFAULT_SHARDS, MAX_SHARDS, ShardsError, StripedCache};
pub use crate::padding::{Aligned128, Padded128, Padding, Plain, Unpadded};
pub use cache_api::DefaultHashBuilder;
pub use cache_table::{Lock, LockKind, MutexLock, RwLock};

/// Shards behind mutexes, padded to 128 bytes: see [`StripedCache`] for its operations.
///
/// ```
/// use cache_sharded::ShardedCache;
///
/// let cache = ShardedCache::with_shards(64);
/// cache.insert("k", 1);
/// assert_eq!((cache.get("k"), cache.shards()), (Some(1), 64));
/// ```
pub type ShardedCache<K, V, S = DefaultHashBuilder> = StripedCache<K, V, S, MutexLock, Padded128>;

/// Shards behind read-write locks, padded to 128 bytes: see [`StripedCache`] for its operations.
///
/// Readers of one shard run side by side. That pays where closures run long or one key is read by all; otherwise a
/// read-write lock costs readers as much as the mutex does.
///
/// ```
/// use cache_sharded::ShardedRwCache;
///
/// let cache: ShardedRwCache<_, _> = [("a", 1), ("b", 2)].into_iter().collect();
/// assert_eq!(cache.get("b"), Some(2));
/// ```
pub type ShardedRwCache<K, V, S = DefaultHashBuilder> = StripedCache<K, V, S, RwLock, Padded128>;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExamples;
