//! A persistent hash trie published by compare-and-swap: hamt and hamt256.
//!
//! [`HamtCache`] is one immutable trie behind one root. Readers walk the trie of the moment: they never wait, and write
//! nothing to shared memory, not even a reference count. A writer copies the O(log n) nodes on the path of its key and
//! publishes root and length in one compare-and-swap; if another writer came first, it fits its copy onto the new root.
//! A snapshot is the root itself, in O(1). [`Hamt256Cache`] is 256 such tries, so that writers rarely meet, and still
//! takes a snapshot of all of them at one moment.
//!
//! ```
//! use cache_persistent_trie::{Hamt256Cache, HamtCache};
//!
//! let prices: HamtCache<&str, u32> = HamtCache::from([("tea", 4), ("coffee", 5)]);
//! let report = prices.snapshot();
//!
//! std::thread::scope(|scope| {
//!     scope.spawn(|| prices.upsert("tea", |old| old.map_or(4, |price| price + 1)));
//!     scope.spawn(|| prices.remove("coffee"));
//! });
//! assert_eq!((prices.get("tea"), prices.len()), (Some(5), 1));
//! // The report is what it was, and lends out references for as long as it lives.
//! assert_eq!((report.get_ref("tea"), report.len()), (Some(&4), 2));
//!
//! let sessions = Hamt256Cache::new();
//! sessions.insert(17_u64, "open".to_owned());
//! assert_eq!(sessions.get_or_insert_with(17, || "new".to_owned()), "open");
//! ```
//!
//! # When to use it, when not
//!
//! * Many readers, point-in-time views, consistent batches, or forks: yes. [`HamtCache`] where reads dominate,
//!   [`Hamt256Cache`] where several threads write.
//! * Mostly writes and no need for snapshots: no; a sharded table changes its entries in place, while a persistent
//!   trie allocates and frees a path per write.
//! * A handful of writes per minute to a small map: copy-on-write of a plain table has the faster reads.
//!
//! # Memory
//!
//! What a write replaces is freed when no operation can look at it any more: a grace period of `cache-reclaim` later,
//! in batches, by the writes of the same map. Entries are counted by the tries that own them; the counts are touched
//! only where a snapshot can share them. It follows that
//!
//! * a snapshot keeps what it shows and nothing else; what only it showed is freed when it is dropped, at once;
//! * removed entries may wait for later writes to the map, for [`reclaim`](HamtCache::reclaim), or for the drop of
//!   the map, which frees all. A removed value that itself owns the last handle of its map (an `Arc` cycle) waits for
//!   ever unless `reclaim` is called before that handle is let go;
//! * a thread that stays inside an operation (a long closure) stops reclamation for all maps of this crate, and
//!   of `cache-ctrie`, which counts the same grace periods. Snapshots do not;
//! * keys and values need not be `'static`: none outlives its map and snapshots.
//!
//! # User code
//!
//! No lock is held, ever. `Eq`, `Hash`, `Clone`, `Drop` and closures may panic: the write did not happen, or did, as a
//! whole. They may read the map. A *write* to a map from inside the closure of a write to the same map would be
//! repeated for ever and panics at once, with a message that contains `re-entrant`; other closures (`get_with`,
//! `for_each`, `retain`, the `init` of `get_or_insert_with`) may write. (`retain` on
//! entries of plain types may test again inside its write; see there.)
//!
//! # Features
//!
//! * `stats`: counts attempts that lost a race (`lost_races()`). Without it there is no counter and no cost.
//!
//! # Sources
//!
//! Bagwell, *Ideal Hash Trees* (2001), for the trie; Steindorfer and Vinju, *Optimizing Hash-Array Mapped Tries for
//! Fast and Lean Immutable JVM Collections* (OOPSLA 2015), for the two bitmaps and the canonical shape; Prokopec,
//! Bronson, Bagwell and Odersky, *Concurrent Tries with Efficient Non-Blocking Snapshots* (PPoPP 2012), for the
//! generation test; Chen, Ailamaki, Gibbons and Mowry, *Improving Hash Join Performance through Prefetching* (ICDE
//! 2004), for batches. The arguments are where the code is: `raw/cell.rs` (publication), `raw/path.rs` (ownership),
//! `raw/limbo.rs` (grace periods).

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
