//! Every design and peer, one row each. This is the only file that names them.
//!
//! The order is the order of reports: the floor, the designs from the simplest synchronisation to the most involved,
//! then the peers by kind (lock striping, lock-free tables, caches that evict, tries, whole-map publication).
//!
//! A row is `Name(type) = how a full map is made; facts`. The type is written for `K` and `V`, since the value-size
//! phase measures other values than the core grid. A new design is one row here and one dependency in `Cargo.toml`.

mod variants;

use std::ops::RangeInclusive;
use std::sync::Arc;

use cache_api::Routed;
use cache_cow::CowCache;
use cache_locked::{MutexCache, NaiveCache, RwLockCache};
use cache_persistent_trie::{Hamt256Cache, HamtCache};
use cache_sharded::{ShardedCache, ShardedRwCache};

use crate::floor::{Fault, Faulty, Noop, Slowed};
use crate::keys::{Key, Keys, Value};
#[cfg(feature = "peers")]
use crate::peers;
use crate::programs::{
    self, Adversarial, Batch, Bench, Grid, Latency, Loop, Memory, Owners, PerOperation, Prefetch,
    Prepared, STUDY_SHARDS, Sample, ShardCount, SnapshotBatch, SnapshotLoop, Striped, StudyLocks,
    ValueSize, Way, Zeroing, all_of,
};
#[cfg(feature = "peers")]
use crate::subject::one_by_one;
use crate::subject::{Family, Freezes, Frozen, MapKey, MapValue, Via, frozen, hasher, in_bulk};
pub use variants::{VARIANTS, WIDTHS};

/// What kind of thing a row is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Stores nothing: the cost of the loop.
    Floor,
    /// One of this workspace's crates.
    Design,
    /// A crate that the designs are measured against.
    Peer,
}

impl Kind {
    /// The name in `harness list`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Floor => "floor",
            Self::Design => "design",
            Self::Peer => "peer",
        }
    }
}

/// Which cells a row takes part in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Writes cost about as much as reads: the whole core grid (phase A), and D and E.
    Grid,
    /// A write copies the map: reads in phase B, a fixed number of writes in phase C.
    Copying,
    /// Cannot be shared between threads: the `sequential` experiment alone.
    Alone,
}

/// Measures and verifies one cell of type `C`; the error is one line.
pub type Program<C> = fn(&C, &Bench) -> Result<Sample, String>;

/// What can be done with a row, compiled for it.
#[derive(Clone, Copy, Debug)]
pub struct Programs {
    /// One cell of the core grid.
    pub grid: Program<Grid>,
    /// One cell of the adversarial phase; none where threads cannot share the map.
    pub adversarial: Option<Program<Adversarial>>,
    /// One cell of the value-size phase; none where threads cannot share the map.
    pub value_size: Option<Program<ValueSize>>,
    /// One cell in which every operation is timed.
    pub latency: Program<Latency>,
    /// What a full map and an emptied one hold.
    pub memory: Program<Memory>,
    /// What a view keeps alive; none where there are no views.
    pub snapshot: Option<Program<Memory>>,
    /// One operation on one thread.
    pub per_operation: fn(PerOperation, usize, &Keys) -> Prepared,
}

impl Programs {
    /// Those of a design that threads can share.
    const fn shared<F: Family>() -> Self
    where
        F::Map<Key, Value>: Sync,
        F::Map<Key, Arc<[u8]>>: Sync,
    {
        Self {
            grid: programs::grid::<F>,
            adversarial: Some(programs::adversarial::<F>),
            value_size: Some(programs::value_size::<F>),
            latency: programs::latency::<F>,
            memory: programs::memory::<F>,
            snapshot: None,
            per_operation: programs::per_operation::<F>,
        }
    }

    /// Those of a design that threads can share, and that has point-in-time views.
    const fn freezing<F: Freezes>() -> Self
    where
        F::Map<Key, Value>: Sync,
        F::Map<Key, Arc<[u8]>>: Sync,
    {
        Self {
            snapshot: Some(programs::memory_snapshot::<F>),
            ..Self::shared::<F>()
        }
    }

    /// Those of a design that belongs to one thread.
    const fn alone<F: Family>() -> Self {
        Self {
            grid: programs::grid_alone::<F>,
            adversarial: None,
            value_size: None,
            latency: programs::latency_alone::<F>,
            memory: programs::memory::<F>,
            snapshot: None,
            per_operation: programs::per_operation::<F>,
        }
    }
}

/// One row of the registry.
#[derive(Clone, Copy, Debug)]
pub struct Design {
    /// The name in reports.
    pub name: &'static str,
    /// What kind of thing it is.
    pub kind: Kind,
    /// Which cells it takes part in.
    pub class: Class,
    /// The package it comes from.
    pub package: &'static str,
    /// What a read is, and whether the value is cloned, guarded or seen in place.
    pub read: &'static str,
    /// What a write is.
    pub write: &'static str,
    /// How the map is made before the clock starts: sized beforehand or not, in bulk or one by one.
    pub fill: &'static str,
    /// Whether it offers point-in-time views: `none`, `copy`, `whole map` or `per shard`.
    pub snapshot: &'static str,
    /// One line on how it synchronises.
    pub idea: &'static str,
    /// What can be done with it.
    pub programs: Programs,
}

/// Writes the families and the slice out of the rows.
macro_rules! rows {
    ($(#[$slice_doc:meta])* $slice:ident: $(
        $(#[$attribute:meta])*
        $family:ident($map:ty) = |$entries:ident| $fill:expr, $programs:ident { $($fact:ident: $value:expr),* $(,)? }
    )*) => {
        $(
            $(#[$attribute])*
            struct $family;

            $(#[$attribute])*
            impl Family for $family {
                type Map<K: MapKey, V: MapValue> = $map;

                fn filled<K: MapKey, V: MapValue>($entries: impl ExactSizeIterator<Item = (K, V)>) -> $map {
                    $fill
                }
            }
        )*

        $(#[$slice_doc])*
        pub const $slice: &[Design] = &[$(
            $(#[$attribute])*
            Design { $($fact: $value),*, programs: Programs::$programs::<$family>() },
        )*];
    };
}

rows! {
    /// All designs and peers; the order is that of reports.
    REGISTRY:

    NoopRow(Noop<V>) = |entries| Noop::filled(entries), shared {
        name: "noop", kind: Kind::Floor, class: Class::Grid, package: "harness",
        read: "one value, in place", write: "nothing", fill: "nothing", snapshot: "none",
        idea: "stores nothing: what the loop itself costs",
    }
    NaiveRow(Via<NaiveCache<K, V>>) = |entries| {
        in_bulk(NaiveCache::with_capacity_and_hasher(entries.len(), hasher()), entries)
    }, alone {
        name: "naive", kind: Kind::Design, class: Class::Alone, package: "cache-locked",
        read: "get_with, in place", write: "insert", fill: "sized, in bulk", snapshot: "none",
        idea: "no synchronisation: the sequential baseline",
    }
    MutexRow(Via<MutexCache<K, V>>) = |entries| {
        in_bulk(MutexCache::with_capacity_and_hasher(entries.len(), hasher()), entries)
    }, shared {
        name: "mutex", kind: Kind::Design, class: Class::Grid, package: "cache-locked",
        read: "get_with, in place", write: "insert", fill: "sized, in bulk", snapshot: "none",
        idea: "one mutex around one table",
    }
    RwLockRow(Via<RwLockCache<K, V>>) = |entries| {
        in_bulk(RwLockCache::with_capacity_and_hasher(entries.len(), hasher()), entries)
    }, shared {
        name: "rwlock", kind: Kind::Design, class: Class::Grid, package: "cache-locked",
        read: "get_with, in place", write: "insert", fill: "sized, in bulk", snapshot: "none",
        idea: "one read-write lock around one table",
    }
    ShardedRow(Via<ShardedCache<K, V>>) = |entries| {
        in_bulk(ShardedCache::with_capacity_and_hasher(entries.len(), hasher()), entries)
    }, shared {
        name: "sharded", kind: Kind::Design, class: Class::Grid, package: "cache-sharded",
        read: "get_with, in place", write: "insert", fill: "sized, in bulk", snapshot: "none",
        idea: "256 padded shards with a mutex each",
    }
    ShardedRwRow(Via<ShardedRwCache<K, V>>) = |entries| {
        in_bulk(ShardedRwCache::with_capacity_and_hasher(entries.len(), hasher()), entries)
    }, shared {
        name: "sharded-rw", kind: Kind::Design, class: Class::Grid, package: "cache-sharded",
        read: "get_with, in place", write: "insert", fill: "sized, in bulk", snapshot: "none",
        idea: "256 padded shards with a read-write lock each",
    }
    CowRow(Via<CowCache<K, V>>) = |entries| {
        in_bulk(CowCache::with_capacity_and_hasher(entries.len(), hasher()), entries)
    }, freezing {
        name: "cow", kind: Kind::Design, class: Class::Copying, package: "cache-cow",
        read: "get_with, in place", write: "insert, one copy each", fill: "sized, in bulk", snapshot: "whole map",
        idea: "an atomic pointer to an immutable table; writers copy it",
    }
    HamtRow(Via<HamtCache<K, V>>) = |entries| {
        in_bulk(HamtCache::with_hasher(hasher()), entries)
    }, freezing {
        name: "hamt", kind: Kind::Design, class: Class::Grid, package: "cache-persistent-trie",
        read: "get_with, in place", write: "insert, one path", fill: "in bulk", snapshot: "whole map",
        idea: "a persistent hash trie, 64-way, its root published by compare-and-swap",
    }
    Hamt256Row(Via<Hamt256Cache<K, V>>) = |entries| {
        in_bulk(Hamt256Cache::with_hasher(hasher()), entries)
    }, freezing {
        name: "hamt256", kind: Kind::Design, class: Class::Grid, package: "cache-persistent-trie",
        read: "get_with, in place", write: "insert, one path", fill: "in bulk", snapshot: "whole map",
        idea: "256 such tries, 32-way, each with its own root",
    }
    CtrieRow(Via<cache_ctrie::Map<K, V>>) = |entries| {
        in_bulk(cache_ctrie::Map::with_hasher(hasher()), entries)
    }, freezing {
        name: "ctrie", kind: Kind::Design, class: Class::Grid, package: "cache-ctrie",
        read: "get_with, in place", write: "insert, one leaf", fill: "in bulk", snapshot: "whole map",
        idea: "a concurrent hash trie on slot arrays, with snapshots and forks",
    }
    ActorRow(Via<cache_actor::Map<K, V>>) = |entries| {
        in_bulk(cache_actor::Map::with_capacity_and_hasher(entries.len(), hasher()), entries)
    }, shared {
        name: "actor", kind: Kind::Design, class: Class::Grid, package: "cache-actor",
        read: "get_with, run by the owner", write: "insert, a message", fill: "sized, in bulk", snapshot: "none",
        idea: "owner threads and messages instead of locks",
    }
    #[cfg(feature = "peers")]
    HandMutexRow(peers::HandMutex<K, V>) = |entries| {
        one_by_one(peers::HandMutex::with_capacity(entries.len()), entries)
    }, shared {
        name: "hand-mutex", kind: Kind::Peer, class: Class::Grid, package: "parking_lot",
        read: "lock().get, in place", write: "lock().insert", fill: "sized, one by one", snapshot: "none",
        idea: "a mutex around hashbrown's map, written by hand",
    }
    #[cfg(feature = "peers")]
    HandRwLockRow(peers::HandRwLock<K, V>) = |entries| {
        one_by_one(peers::HandRwLock::with_capacity(entries.len()), entries)
    }, shared {
        name: "hand-rwlock", kind: Kind::Peer, class: Class::Grid, package: "parking_lot",
        read: "read().get, in place", write: "write().insert", fill: "sized, one by one", snapshot: "none",
        idea: "a read-write lock around hashbrown's map, written by hand",
    }
    #[cfg(feature = "peers")]
    DashmapRow(peers::Dashmap<K, V>) = |entries| one_by_one(peers::Dashmap::with_capacity(entries.len()), entries),
    shared {
        name: "dashmap", kind: Kind::Peer, class: Class::Grid, package: "dashmap",
        read: "get, guard", write: "insert", fill: "sized, one by one", snapshot: "none",
        idea: "read-write-locked shards, four per core by default",
    }
    #[cfg(feature = "peers")]
    Dashmap256Row(peers::Dashmap<K, V>) = |entries| {
        one_by_one(peers::Dashmap::with_shards(256, entries.len()), entries)
    },
    shared {
        name: "dashmap-256", kind: Kind::Peer, class: Class::Grid, package: "dashmap",
        read: "get, guard", write: "insert", fill: "sized, one by one", snapshot: "none",
        idea: "the same with 256 shards",
    }
    #[cfg(feature = "peers")]
    SccHashMapRow(peers::SccHashMap<K, V>) = |entries| {
        one_by_one(peers::SccHashMap::with_capacity(entries.len()), entries)
    }, shared {
        name: "scc-hashmap", kind: Kind::Peer, class: Class::Grid, package: "scc",
        read: "read_sync, in place", write: "upsert_sync", fill: "sized, one by one", snapshot: "none",
        idea: "a lock per bucket",
    }
    #[cfg(feature = "peers")]
    PapayaRow(peers::Papaya<K, V>) = |entries| one_by_one(peers::Papaya::with_capacity(entries.len()), entries),
    shared {
        name: "papaya", kind: Kind::Peer, class: Class::Grid, package: "papaya",
        read: "pin().get, in place", write: "pin().insert", fill: "sized, one by one", snapshot: "none",
        idea: "a lock-free table with incremental resizing; one pin per operation",
    }
    #[cfg(feature = "peers")]
    SccHashIndexRow(peers::SccHashIndex<K, V>) = |entries| {
        one_by_one(peers::SccHashIndex::with_capacity(entries.len()), entries)
    }, shared {
        name: "scc-hashindex", kind: Kind::Peer, class: Class::Grid, package: "scc",
        read: "peek_with, in place; may miss a key that is being replaced",
        write: "entry_sync, then update or insert_entry", fill: "sized, one by one",
        snapshot: "none", idea: "lock-free reads, a lock per bucket for writes; made for reading",
    }
    #[cfg(feature = "peers")]
    FlurryRow(peers::Flurry<K, V>) = |entries| one_by_one(peers::Flurry::with_capacity(entries.len()), entries),
    shared {
        name: "flurry", kind: Kind::Peer, class: Class::Grid, package: "flurry",
        read: "pin().get, in place", write: "pin().insert", fill: "sized, one by one", snapshot: "none",
        idea: "Java's ConcurrentHashMap; one pin per operation",
    }
    #[cfg(feature = "peers")]
    QuickCacheRow(peers::QuickCache<K, V>) = |entries| {
        one_by_one(peers::QuickCache::with_capacity(entries.len()), entries)
    }, shared {
        name: "quick-cache", kind: Kind::Peer, class: Class::Grid, package: "quick_cache",
        read: "get, a clone", write: "insert", fill: "sized (bound: never reached), one by one", snapshot: "none",
        idea: "a sharded cache that evicts; never full here",
    }
    #[cfg(feature = "peers")]
    MokaRow(peers::Moka<K, V>) = |entries| one_by_one(peers::Moka::with_capacity(entries.len()), entries), shared {
        name: "moka", kind: Kind::Peer, class: Class::Grid, package: "moka",
        read: "get, a clone", write: "insert", fill: "sized (bound: never reached), one by one", snapshot: "none",
        idea: "a cache that evicts by frequency and recency; never full here",
    }
    #[cfg(feature = "peers")]
    ContrieRow(peers::Contrie<K, V>) = |entries| one_by_one(peers::Contrie::new(), entries), shared {
        name: "contrie", kind: Kind::Peer, class: Class::Grid, package: "contrie",
        read: "get, a clone of the element's Arc", write: "insert", fill: "one by one", snapshot: "none",
        idea: "a concurrent hash trie with epoch reclamation",
    }
    #[cfg(feature = "peers")]
    ImblRow(peers::ImblArcSwap<K, V>) = |entries| peers::ImblArcSwap::filled(entries), freezing {
        name: "imbl-arcswap", kind: Kind::Peer, class: Class::Grid, package: "imbl",
        read: "load().get, guard", write: "rcu(update)", fill: "one by one, published at once",
        snapshot: "whole map", idea: "a persistent trie behind arc-swap",
    }
    #[cfg(feature = "peers")]
    RpdsRow(peers::RpdsArcSwap<K, V>) = |entries| peers::RpdsArcSwap::filled(entries), freezing {
        name: "rpds-arcswap", kind: Kind::Peer, class: Class::Grid, package: "rpds",
        read: "load().get, guard", write: "rcu(insert)", fill: "one by one, published at once",
        snapshot: "whole map", idea: "a persistent trie behind arc-swap",
    }
    #[cfg(feature = "peers")]
    HashMapRow(peers::HashMapArcSwap<K, V>) = |entries| peers::HashMapArcSwap::filled(entries), freezing {
        name: "hashmap-arcswap", kind: Kind::Peer, class: Class::Copying, package: "arc-swap",
        read: "load().get, guard", write: "rcu(clone and insert)", fill: "sized, published at once",
        snapshot: "whole map", idea: "std's HashMap behind arc-swap; writers copy it",
    }
}

/// Says how the rows with views take one.
macro_rules! freezes {
    ($($(#[$attribute:meta])* $family:ident: |$map:ident| $view:expr;)*) => {$(
        $(#[$attribute])*
        impl Freezes for $family {
            fn freeze<K: MapKey, V: MapValue>($map: &Self::Map<K, V>) -> Frozen<K, V> {
                $view
            }
        }
    )*};
}

freezes! {
    CowRow: |map| frozen(map);
    HamtRow: |map| frozen(map);
    Hamt256Row: |map| frozen(map);
    CtrieRow: |map| frozen(map);
    #[cfg(feature = "peers")]
    ImblRow: |map| map.frozen();
    #[cfg(feature = "peers")]
    RpdsRow: |map| map.frozen();
    #[cfg(feature = "peers")]
    HashMapRow: |map| map.frozen();
}

/// The row whose map takes the merged slices of the `zeroing` experiment.
pub const MERGED_INTO: &str = "sharded";

/// One cell of that experiment.
pub const ZEROING: Program<Zeroing> = programs::zeroing::<ShardedRow>;

/// One way of answering batches, for the batch experiment.
#[derive(Clone, Copy, Debug)]
pub struct Batching {
    /// The row's name.
    pub design: &'static str,
    /// The way's name in reports.
    pub mode: &'static str,
    /// Measures and verifies one cell.
    pub program: Program<Batch>,
}

/// The way `W` of the row `F`.
const fn batching<F, W>(design: &'static str, mode: &'static str) -> Batching
where
    F: Family,
    F::Map<Key, Value>: Sync,
    W: Way<F::Map<Key, Value>>,
{
    Batching {
        design,
        mode,
        program: programs::batch::<F, W>,
    }
}

/// The batch grouped by shard, without asking the memory ahead.
struct ShardedSerial;

impl Way<Via<ShardedCache<Key, Value>>> for ShardedSerial {
    fn answer(
        map: &Via<ShardedCache<Key, Value>>,
        keys: &[Key],
        each: impl FnMut(usize, Option<&Value>) + Send,
    ) {
        map.0.get_batch_serial_with(keys.iter().copied(), each);
    }
}

/// The batch grouped by shard, on several threads.
struct ShardedParallel;

impl Way<Via<ShardedCache<Key, Value>>> for ShardedParallel {
    fn answer(
        map: &Via<ShardedCache<Key, Value>>,
        keys: &[Key],
        each: impl FnMut(usize, Option<&Value>) + Send,
    ) {
        all_of(&map.0.get_batch_parallel(keys.iter().copied()), each);
    }
}

/// The batch on one version, without asking the memory ahead.
struct CowSerial;

impl Way<Via<CowCache<Key, Value>>> for CowSerial {
    fn answer(
        map: &Via<CowCache<Key, Value>>,
        keys: &[Key],
        each: impl FnMut(usize, Option<&Value>) + Send,
    ) {
        map.0.get_batch_serial_with(keys.iter().copied(), each);
    }
}

/// The ways of answering batches that are measured, in the order of reports.
///
/// A trie's batch without prefetching is a snapshot and single reads of that; the batch *of* a snapshot is the way
/// called `snapshot`, which pays for one more than the map's own batch does.
pub const BATCHES: &[Batching] = &[
    batching::<ShardedRow, Loop>("sharded", "loop"),
    batching::<ShardedRow, ShardedSerial>("sharded", "serial"),
    batching::<ShardedRow, Prefetch>("sharded", "prefetch"),
    batching::<ShardedRow, ShardedParallel>("sharded", "parallel"),
    batching::<CowRow, Loop>("cow", "loop"),
    batching::<CowRow, CowSerial>("cow", "serial"),
    batching::<CowRow, Prefetch>("cow", "prefetch"),
    batching::<CowRow, SnapshotBatch>("cow", "snapshot"),
    batching::<HamtRow, Loop>("hamt", "loop"),
    batching::<HamtRow, SnapshotLoop>("hamt", "serial"),
    batching::<HamtRow, Prefetch>("hamt", "prefetch"),
    batching::<HamtRow, SnapshotBatch>("hamt", "snapshot"),
    batching::<Hamt256Row, Loop>("hamt256", "loop"),
    batching::<Hamt256Row, SnapshotLoop>("hamt256", "serial"),
    batching::<Hamt256Row, Prefetch>("hamt256", "prefetch"),
    batching::<Hamt256Row, SnapshotBatch>("hamt256", "snapshot"),
    batching::<CtrieRow, Loop>("ctrie", "loop"),
    batching::<CtrieRow, SnapshotLoop>("ctrie", "serial"),
    batching::<CtrieRow, Prefetch>("ctrie", "prefetch"),
    batching::<CtrieRow, SnapshotBatch>("ctrie", "snapshot"),
    batching::<ActorRow, Loop>("actor", "loop"),
    batching::<ActorRow, Owners>("actor", "actor"),
    #[cfg(feature = "peers")]
    batching::<DashmapRow, Loop>("dashmap", "loop"),
    #[cfg(feature = "peers")]
    batching::<Dashmap256Row, Loop>("dashmap-256", "loop"),
    #[cfg(feature = "peers")]
    batching::<PapayaRow, Loop>("papaya", "loop"),
    #[cfg(feature = "peers")]
    batching::<SccHashIndexRow, Loop>("scc-hashindex", "loop"),
    #[cfg(feature = "peers")]
    batching::<ContrieRow, Loop>("contrie", "loop"),
    #[cfg(feature = "peers")]
    batching::<ImblRow, Loop>("imbl-arcswap", "loop"),
    #[cfg(feature = "peers")]
    batching::<RpdsRow, Loop>("rpds-arcswap", "loop"),
    #[cfg(feature = "peers")]
    batching::<HashMapRow, Loop>("hashmap-arcswap", "loop"),
];

/// A design's way of choosing partitions, for the adversarial phase to aim at.
#[derive(Clone, Copy, Debug)]
pub struct Router {
    /// The name in reports.
    pub name: &'static str,
    /// The partition of each of these keys, under the hasher of all measurements.
    pub partitions_of: fn(&[Key]) -> Vec<usize>,
}

/// The routers that are attacked, in the order of reports. Each asks an empty map: routing depends on the hash alone.
pub const ROUTERS: &[Router] = &[
    Router {
        name: "sharded",
        partitions_of: |keys| partitions(&ShardedCache::<Key, Value>::with_hasher(hasher()), keys),
    },
    Router {
        name: "hamt",
        partitions_of: |keys| partitions(&HamtCache::<Key, Value>::with_hasher(hasher()), keys),
    },
    Router {
        name: "hamt256",
        partitions_of: |keys| partitions(&Hamt256Cache::<Key, Value>::with_hasher(hasher()), keys),
    },
    Router {
        name: "ctrie",
        partitions_of: |keys| {
            partitions(&cache_ctrie::Map::<Key, Value>::with_hasher(hasher()), keys)
        },
    },
    Router {
        name: "actor",
        partitions_of: |keys| {
            partitions(&cache_actor::Map::<Key, Value>::with_hasher(hasher()), keys)
        },
    },
];

/// Where `map` routes `keys`.
fn partitions(map: &impl Routed<Key>, keys: &[Key]) -> Vec<usize> {
    keys.iter().map(|key| map.partition_of(key)).collect()
}

/// A design or peer whose number of shards is chosen when it is made; those with one lock are the smallest case.
#[derive(Clone, Debug)]
pub struct StripedRow {
    /// The name of its row in [`REGISTRY`].
    pub name: &'static str,
    /// The numbers of shards it can have, powers of two.
    pub shards: RangeInclusive<usize>,
    /// What it is in the published table of lock designs, where it stands there.
    pub study: Option<StudyDesign>,
    /// One cell of the experiment with numbers of shards.
    pub shard_count: Program<ShardCount>,
    /// One cell of the published table of lock designs.
    pub study_locks: Program<StudyLocks>,
}

/// A design of the published table of lock designs.
#[derive(Clone, Copy, Debug)]
pub struct StudyDesign {
    /// The kind of lock, in that table's words.
    pub lock: &'static str,
    /// How many shards.
    pub shards: usize,
}

/// The row of that name among the striped ones, if the number of shards is a choice or part of the published table.
#[must_use]
pub fn striped(name: &str) -> Option<&'static StripedRow> {
    STRIPED.iter().find(|row| row.name == name)
}

/// Writes the striped families and their slice.
macro_rules! striped {
    ($(
        $(#[$attribute:meta])*
        $name:literal $family:ident($map:ty, $range:expr, $study:expr) =
            |$shards:ident, $entries:ident| $fill:expr, |$made:ident| $count:expr;
    )*) => {
        $(
            $(#[$attribute])*
            struct $family;

            $(#[$attribute])*
            impl Striped for $family {
                type Map = $map;

                fn filled($shards: usize, $entries: impl ExactSizeIterator<Item = (Key, Value)>) -> $map {
                    $fill
                }

                fn shards($made: &$map) -> usize {
                    $count
                }
            }
        )*

        /// Designs and peers by their number of shards, in the order of reports.
        pub const STRIPED: &[StripedRow] = &[$(
            $(#[$attribute])*
            StripedRow {
                name: $name,
                shards: $range,
                study: $study,
                shard_count: programs::shard_count::<$family>,
                study_locks: programs::study_locks::<$family>,
            },
        )*];
    };
}

striped! {
    "mutex" MutexStriped(Via<MutexCache<Key, Value>>, 1..=1, Some(StudyDesign { lock: "mutex", shards: 1 })) =
        |_shards, entries| in_bulk(MutexCache::with_capacity_and_hasher(entries.len(), hasher()), entries),
        |_map| 1;
    "rwlock" RwLockStriped(Via<RwLockCache<Key, Value>>, 1..=1, Some(StudyDesign { lock: "rwlock", shards: 1 })) =
        |_shards, entries| in_bulk(RwLockCache::with_capacity_and_hasher(entries.len(), hasher()), entries),
        |_map| 1;
    "sharded" ShardedStriped(
        Via<ShardedCache<Key, Value>>, 1..=4096, Some(StudyDesign { lock: "mutex", shards: STUDY_SHARDS })
    ) =
        |shards, entries| {
            let capacity = entries.len();
            in_bulk(ShardedCache::with_shards_capacity_and_hasher(shards, capacity, hasher()), entries)
        },
        |map| map.0.shards();
    "sharded-rw" ShardedRwStriped(
        Via<ShardedRwCache<Key, Value>>, 1..=4096, Some(StudyDesign { lock: "rwlock", shards: STUDY_SHARDS })
    ) =
        |shards, entries| {
            let capacity = entries.len();
            in_bulk(ShardedRwCache::with_shards_capacity_and_hasher(shards, capacity, hasher()), entries)
        },
        |map| map.0.shards();
    #[cfg(feature = "peers")]
    "dashmap" DashmapStriped(peers::Dashmap<Key, Value>, 2..=4096, None) =
        |shards, entries| one_by_one(peers::Dashmap::with_shards(shards, entries.len()), entries),
        |map| map.shards();
}

/// The environment variable that adds [`FAULTY`] to the registry, for the tests of the sweep.
pub const TEST_DESIGNS_VARIABLE: &str = "HARNESS_TEST_DESIGNS";

rows! {
    /// Designs that break on purpose; not listed unless [`TEST_DESIGNS_VARIABLE`] is `1`.
    FAULTY:

    FaultyPanicsRow(Faulty<Via<MutexCache<K, V>>>) = |entries| {
        Faulty::new(in_bulk(MutexCache::with_hasher(hasher()), entries), Fault::Panics)
    }, shared {
        name: "faulty-panics", kind: Kind::Design, class: Class::Grid, package: "harness",
        read: "get_with, in place", write: "insert, or a panic", fill: "in bulk", snapshot: "none",
        idea: "panics in every thousandth write, on purpose",
    }
    FaultySlowRow(Slowed<Via<MutexCache<K, V>>>) = |entries| {
        let capacity = entries.len();
        Slowed::new(in_bulk(MutexCache::with_capacity_and_hasher(capacity, hasher()), entries))
    }, shared {
        name: "faulty-slow", kind: Kind::Design, class: Class::Grid, package: "harness",
        read: "get_with, in place, and a delay", write: "insert, and a delay", fill: "sized, in bulk", snapshot: "none",
        idea: "mutex with a few steps of arithmetic more, on purpose",
    }
    FaultyWrongRow(Faulty<Via<MutexCache<K, V>>>) = |entries| {
        Faulty::new(in_bulk(MutexCache::with_hasher(hasher()), entries), Fault::LosesWrites)
    }, shared {
        name: "faulty-wrong", kind: Kind::Design, class: Class::Grid, package: "harness",
        read: "get_with, in place", write: "insert, or nothing", fill: "in bulk", snapshot: "none",
        idea: "loses every thousandth write, on purpose",
    }
}

/// The rows in use: [`REGISTRY`], and [`FAULTY`] where the environment asks for it.
pub fn all() -> impl Iterator<Item = &'static Design> {
    let with_faulty = std::env::var_os(TEST_DESIGNS_VARIABLE).is_some_and(|value| value == "1");
    REGISTRY
        .iter()
        .chain(FAULTY.iter().filter(move |_| with_faulty))
}

/// The row of that name.
///
/// # Errors
///
/// One line that names the known rows and the most similar one.
pub fn find(name: &str) -> Result<&'static Design, String> {
    if let Some(design) = all().find(|design| design.name == name) {
        return Ok(design);
    }
    let names: Vec<&str> = all().map(|design| design.name).collect();
    let meant =
        nearest(name, &names).map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
    Err(format!(
        "unknown design `{name}`{meant} (known: {})",
        names.join(", ")
    ))
}

/// The name that differs from `wanted` in the fewest letters, if it does not differ in nearly all of them.
#[must_use]
pub fn nearest<'a>(wanted: &str, names: &[&'a str]) -> Option<&'a str> {
    let (distance, name) = names
        .iter()
        .map(|name| (edits(wanted, name), *name))
        .min()?;
    (distance <= wanted.len().max(name.len()) / 2).then_some(name)
}

/// The letters to insert, delete or replace to turn `a` into `b` (Levenshtein).
fn edits(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

/// The version of `package` that this program was built with.
#[must_use]
pub fn version_of(package: &str) -> &'static str {
    const LOCK: &str = include_str!("../../Cargo.lock");
    let wanted = format!("name = \"{package}\"\n");
    LOCK.split("[[package]]\n")
        .find_map(|entry| {
            entry
                .strip_prefix(wanted.as_str())?
                .strip_prefix("version = \"")?
                .split('"')
                .next()
        })
        .unwrap_or("unknown")
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::keys::Values;
    use crate::programs::{Attack, Benchtime};
    use crate::workload::{Dist, Mix};

    #[test]
    fn names_are_unique_and_fit_into_benchmark_names() {
        let mut names: Vec<&str> = REGISTRY
            .iter()
            .chain(FAULTY)
            .map(|design| design.name)
            .collect();
        for name in &names {
            assert!(
                name.chars()
                    .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-'),
                "{name}"
            );
        }
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), REGISTRY.len() + FAULTY.len());
    }

    #[test]
    fn packages_have_versions() {
        for design in REGISTRY {
            assert_ne!(version_of(design.package), "unknown", "{}", design.package);
        }
        assert_eq!(version_of("no-such-package"), "unknown");
    }

    #[test]
    fn misspelt_names_are_understood() {
        assert!(
            find("shaded")
                .unwrap_err()
                .contains("did you mean `sharded`?")
        );
        assert!(!find("zzzzzzzzzzzz").unwrap_err().contains("did you mean"));
        assert_eq!(edits("kitten", "sitting"), 3);
        assert_eq!(edits("", "abc"), 3);
    }

    /// Every row, through the very programs that measure it: right answers, right contents.
    #[test]
    fn every_row_measures_and_verifies() {
        let keys = Keys::new(3000, 16);
        let bench = Bench::new(keys, 64, 1, Vec::new(), Benchtime::Ops(2000), 2);
        for design in REGISTRY {
            for mix in Mix::ALL {
                let threads = if design.class == Class::Alone { 1 } else { 2 };
                let least_writes = if design.class == Class::Copying && mix.reads < 100 {
                    20
                } else {
                    0
                };
                let cell = Grid {
                    dist: Dist::Zipf,
                    mix,
                    threads,
                    least_writes,
                };
                let sample = (design.programs.grid)(&cell, &bench)
                    .unwrap_or_else(|e| panic!("{}: {e}", design.name));
                assert_eq!(sample.measured.ops, 2000, "{}", design.name);
            }
        }
    }

    /// Sequential correctness of each row beyond the grid: new keys, removal, misses.
    #[test]
    fn every_row_inserts_removes_and_misses() {
        let keys = Keys::new(200, 16);
        for design in REGISTRY.iter().filter(|design| design.kind != Kind::Floor) {
            for operation in PerOperation::ALL {
                let mut prepared = (design.programs.per_operation)(operation, 100, &keys);
                let _ = (prepared(250), prepared(7));
            }
        }
    }

    /// The other regimes, through the programs that measure them.
    #[test]
    fn every_row_stands_attacks_and_large_values() {
        let bench = Bench::new(
            Keys::new(1000, 16),
            64,
            1,
            Vec::new(),
            Benchtime::Ops(300),
            2,
        );
        let mix = Mix { reads: 50 };
        for design in REGISTRY {
            if let Some(value_size) = design.programs.value_size {
                let cell = ValueSize {
                    size: 256,
                    mix,
                    threads: 2,
                };
                let sample =
                    value_size(&cell, &bench).unwrap_or_else(|e| panic!("{}: {e}", design.name));
                let per_write = sample.measured.allocated.allocated / sample.measured.writes;
                assert!(
                    per_write >= 256,
                    "{}: {per_write} bytes are no fresh value",
                    design.name
                );
            }
            if let Some(adversarial) = design.programs.adversarial {
                let cell = Adversarial {
                    attack: Attack::Spread,
                    mix,
                    threads: 2,
                };
                adversarial(&cell, &bench).unwrap_or_else(|e| panic!("{}: {e}", design.name));
            }
        }
    }

    /// Every striped row, with every number of shards it claims: the map has them, and answers rightly.
    #[test]
    fn striped_rows_have_the_shards_they_are_asked_for() {
        let bench = Bench::new(
            Keys::new(5000, 16),
            64,
            1,
            Vec::new(),
            Benchtime::Ops(500),
            2,
        );
        let mix = Mix { reads: 50 };
        for row in STRIPED {
            let design = find(row.name).unwrap();
            assert_eq!(design.name, row.name);
            for shards in programs::SHARDS {
                if !row.shards.contains(&shards) {
                    continue;
                }
                let cell = ShardCount {
                    shards,
                    mix,
                    threads: 2,
                };
                let sample = (row.shard_count)(&cell, &bench)
                    .unwrap_or_else(|e| panic!("{} {shards}: {e}", row.name));
                assert_eq!(sample.measured.ops, 500);
            }
            if let Some(StudyDesign { lock, shards }) = row.study {
                let cell = StudyLocks {
                    lock,
                    shards,
                    mix,
                    threads: 4,
                };
                let sample = (row.study_locks)(&cell, &bench)
                    .unwrap_or_else(|e| panic!("{} {shards}: {e}", row.name));
                assert_eq!(
                    (sample.measured.ops, sample.measured.cursors.len()),
                    (500, 4)
                );
                let share = sample.measured.writes as f64 / 500.0;
                assert!((0.35..0.65).contains(&share), "{share}");
                if row.shards.end() == &1 {
                    // A number of shards that the design does not have is told, not measured.
                    let wrong = StudyLocks { shards: 64, ..cell };
                    let told = (row.study_locks)(&wrong, &bench).unwrap_err();
                    assert_eq!(told, "wrong map: 1 shards instead of 64");
                }
            }
        }
    }

    /// Every way of answering batches, through the programs that measure it: right answers at the right positions.
    #[test]
    fn every_way_of_batches_is_right() {
        let keys = Keys::new(3000, 16);
        let bench = Bench::new(keys, 64, 1, Vec::new(), Benchtime::Ops(1), 2);
        for way in BATCHES {
            let cell = Batch {
                size: 4096,
                callers: 2,
                program: way.program,
            };
            let sample = (way.program)(&cell, &bench)
                .unwrap_or_else(|e| panic!("{} {}: {e}", way.design, way.mode));
            assert_eq!(sample.measured.ops, programs::BATCH_KEYS as u64);
        }
    }

    #[test]
    fn attacks_land_where_they_claim() {
        for router in ROUTERS {
            let control = programs::working_set(&Attack::Spread, 16).unwrap();
            let spread: HashSet<usize> = distinct(router, &control);
            for targets in [1, 8] {
                let (name, partitions_of) = (router.name, router.partitions_of);
                let keys = programs::working_set(
                    &Attack::Router {
                        name,
                        partitions_of,
                        targets,
                    },
                    16,
                )
                .unwrap();
                assert_eq!(keys.len(), programs::WORKING_SET);
                assert_eq!(keys.iter().collect::<HashSet<_>>().len(), keys.len());
                let hit = distinct(router, &keys);
                assert!(
                    hit.len() == targets && hit.iter().all(|&partition| partition < targets),
                    "{name}: {hit:?}"
                );
                assert!(
                    spread.len() > 4 * targets,
                    "{name}: the control falls into {} partitions",
                    spread.len()
                );
            }
        }
        assert!(
            programs::working_set(&Attack::Spread, 3)
                .unwrap_err()
                .contains("2048")
        );
    }

    fn distinct(router: &Router, keys: &Keys) -> HashSet<usize> {
        (router.partitions_of)(&keys.iter().collect::<Vec<_>>())
            .into_iter()
            .collect()
    }

    #[test]
    fn faults_are_noticed() {
        let bench = Bench::new(
            Keys::new(100, 16),
            64,
            1,
            Vec::new(),
            Benchtime::Ops(20_000),
            2,
        );
        let cell = Grid {
            dist: Dist::Uniform,
            mix: Mix { reads: 10 },
            threads: 2,
            least_writes: 0,
        };
        let panics = (FAULTY[0].programs.grid)(&cell, &bench).unwrap_err();
        assert!(
            panics.starts_with("panic: faulty on purpose: a panic in write"),
            "{panics}"
        );
        // A lost write shows where it was the only one of its key: many keys, few writes.
        let bench = Bench::new(
            Keys::new(100_000, 16),
            64,
            1,
            Vec::new(),
            Benchtime::Ops(50_000),
            2,
        );
        let wrong = (FAULTY[2].programs.grid)(&cell, &bench).unwrap_err();
        assert!(wrong.contains("lost a write"), "{wrong}");
        assert_ne!(Values::new(4).old, Values::new(4).new);
    }
}
