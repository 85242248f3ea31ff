//! Copy-on-write: an atomic pointer to an immutable map; reads write to nothing that another thread uses.
//!
//! A read finds the current version of the map behind one pointer and looks the key up in it, as it would in a map of
//! its own: no lock, no reference count, no fence. A write copies the whole map, changes the copy and publishes it.
//!
//! # When to use it, when not
//!
//! Use it for what is read all the time and changes rarely: configuration, routing tables, feature flags, reference
//! data reloaded every few minutes. Reads scale with the cores and keep the speed of an unsynchronised map, and a
//! [snapshot](CowCache::snapshot) of everything costs one increment.
//!
//! Do not use it where writes are more than a tiny share: each single write costs O(n), about a tenth of a second at a
//! million entries, whatever its kind. Put writes together with [`update_many`](CowCache::update_many) or
//! [`bulk_load`](CowCache::bulk_load), which copy once for all of them; and where that does not help, take
//! `cache-sharded`, or `cache-persistent-trie` for cheap writes *and* snapshots. Keys and values are cloned with the
//! map, so make them cheap to clone (`Arc<str>`, not `String`).
//!
//! # Guarantees
//!
//! - Every operation is linearizable: it takes effect when its version is published, or belongs to the version that
//!   was current when it looked. That includes [`len`](CowCache::len), [`clear`](CowCache::clear),
//!   [`retain`](CowCache::retain), [`bulk_load`](CowCache::bulk_load), [`update_many`](CowCache::update_many) and whole
//!   batches of reads.
//! - Reads never wait, not even for a writer in the middle of its copy. Writers wait for each other, never for readers.
//! - Closures of reads run on a version that stays as it is, without a lock: they may call the map, and write to it.
//!   Closures of writes run under the writers' lock, once per call; from there reads work (they see the version before
//!   the write), and another write panics at once with a message that contains `re-entrant`. The same holds for `Hash`,
//!   `Eq` and `Clone` inside of a write.
//! - User code may panic anywhere: the map is as before the call, and the lock is free.
//! - A version that was replaced is dropped by the writer that replaced it, after it has released the lock. If somebody
//!   is still reading it, a later writer drops it, or [`reclaim`](CowCache::reclaim), or the map's own end; if snapshots
//!   show it, the last of them. So memory for as many old versions as there are readers inside, and snapshots, may be
//!   needed for a time.
//!
//! # Examples
//!
//! ```
//! use cache_cow::CowCache;
//!
//! let routes: CowCache<&str, u16> = [("/", 80), ("/api", 8080)].into_iter().collect();
//! let before = routes.snapshot();
//! routes.update_many(|draft| {
//!     draft.insert("/api", 9090);
//!     draft.insert("/metrics", 9100);
//!     draft.remove("/");
//! });
//! assert_eq!(routes.get("/api"), Some(9090));
//! assert_eq!((before.get("/api"), before.len()), (Some(8080), 2));
//! ```
#![forbid(unsafe_code)]

mod broken;
mod cache;
mod contract;
mod draft;
#[cfg(test)]
mod tests;
mod view;

pub use crate::cache::CowCache;
pub use crate::draft::Draft;
pub use crate::view::CowView;
pub use cache_api::DefaultHashBuilder;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExamples;
