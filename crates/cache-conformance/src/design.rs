//! How a design introduces itself to the suite: [`Design`] and its companions; never a test.

use std::fmt::Debug;
use std::hash::{BuildHasher, Hash};

use cache_api::{BulkLoad, Cache, Consistency, GetBatch, Iterate, SnapshotView, Update};

/// What the suite asks of a key type. Implemented for every type that fits.
pub trait Key: Hash + Eq + Clone + Debug + Send + Sync + 'static {}
impl<T: Hash + Eq + Clone + Debug + Send + Sync + 'static> Key for T {}

/// What the suite asks of a value type. Implemented for every type that fits.
pub trait Value: Clone + Debug + Send + Sync + 'static {}
impl<T: Clone + Debug + Send + Sync + 'static> Value for T {}

/// What the suite asks of a hasher builder. Implemented for every type that fits.
pub trait Hashing: BuildHasher + Clone + Send + Sync + 'static {}
impl<T: BuildHasher + Clone + Send + Sync + 'static> Hashing for T {}

/// The traits of `cache-api` that every design implements.
pub trait FullMap<K, V>:
    Cache<K, V> + Update<K, V> + BulkLoad<K, V> + GetBatch<K, V> + Iterate<K, V> + 'static
{
}
impl<K, V, M> FullMap<K, V> for M where
    M: Cache<K, V> + Update<K, V> + BulkLoad<K, V> + GetBatch<K, V> + Iterate<K, V> + 'static
{
}

/// A concurrent design under test.
///
/// The constants have defaults that promise the least; a design that promises more says so and is held to it.
///
/// ```
/// # use std::hash::{BuildHasher, Hash};
/// # use cache_conformance::{Design, Hashing, Key, Value};
/// # mod my { pub use cache_conformance::reference::Reference as MyCache; }
/// use my::MyCache;
///
/// struct Mine;
/// impl Design for Mine {
///     const NAME: &'static str = "mine";
///     type Map<K: Key, V: Value, S: Hashing> = MyCache<K, V, S>;
///     fn build<K: Key, V: Value, S: Hashing>(capacity: Option<usize>, hasher: S) -> MyCache<K, V, S> {
///         MyCache::with_capacity_and_hasher(capacity.unwrap_or(0), hasher)
///     }
/// }
/// cache_conformance::suite!(Mine);
/// # fn main() {}
/// ```
pub trait Design: 'static {
    /// The name in reports and failures.
    const NAME: &'static str;

    /// The map.
    type Map<K: Key, V: Value, S: Hashing>: FullMap<K, V> + Send + Sync;

    /// An empty map; `capacity` is the argument of the `with_capacity_and_hasher` constructor, `None` asks for
    /// the plain one.
    fn build<K: Key, V: Value, S: Hashing>(
        capacity: Option<usize>,
        hasher: S,
    ) -> Self::Map<K, V, S>;

    /// [`Consistency::Snapshot`] where `len` belongs to one moment; anything else where it is a sum.
    const LEN: Consistency = Consistency::PerShard;

    /// [`Consistency::Snapshot`] where `clear` removes all entries in one moment.
    const CLEAR: Consistency = Consistency::PerShard;

    /// [`Consistency::Snapshot`] where `for_each`, `keys`, `values` and `entries` show one moment.
    const VISIT: Consistency = Consistency::PerKey;

    /// Whether `bulk_load` publishes all its entries in one moment.
    const BULK_LOAD_AT_ONCE: bool = false;

    /// Whether blind writes (`insert`, `remove`) may still be under way when they return, so that a panic of user
    /// code in them cannot reach the caller. Everything else about them must look as if they were done.
    const ASYNC_WRITES: bool = false;

    /// Whether one write costs O(n) (copy-on-write): sizes of tests that fill big maps shrink accordingly.
    const LINEAR_WRITES: bool = false;

    /// Whether keys and values may be dropped some time after they were removed (epochs, snapshots, queues).
    /// The suite then polls, calling [`collect`](Design::collect), before it compares drop counts.
    const DEFERRED_DROPS: bool = false;

    /// Whether each operation hashes its key once and stored keys never again, growth included.
    const STORES_HASHES: bool = true;

    /// Whether the garbage of a map is freed even if that map is never used again. Where it is not (a map that keeps
    /// its own garbage), a removed value that owns the last handle of the map waits for a call that frees it, and the
    /// suite quiesces the map before it lets go of its own handle.
    const FREES_UNUSED_MAPS: bool = true;

    /// Lets deferred reclamation make progress, such as pinning and flushing an epoch. Called repeatedly (also
    /// after maps are dropped), from any thread, until the counts settle or some seconds have passed.
    fn collect() {}

    /// Waits for writes under way in `map` and pushes out whatever it has deferred.
    fn quiesce<K: Key, V: Value, S: Hashing>(map: &Self::Map<K, V, S>) {
        let _ = map;
    }
}

/// A design that cannot be shared between threads (the unsynchronised baseline), or any [`Design`].
pub trait SequentialDesign: 'static {
    /// The name in reports and failures.
    const NAME: &'static str;

    /// See [`Design::ASYNC_WRITES`].
    const ASYNC_WRITES: bool = false;

    /// See [`Design::LINEAR_WRITES`].
    const LINEAR_WRITES: bool = false;

    /// See [`Design::DEFERRED_DROPS`].
    const DEFERRED_DROPS: bool = false;

    /// See [`Design::STORES_HASHES`].
    const STORES_HASHES: bool = true;

    /// The map.
    type Map<K: Key, V: Value, S: Hashing>: FullMap<K, V>;

    /// See [`Design::build`].
    fn build<K: Key, V: Value, S: Hashing>(
        capacity: Option<usize>,
        hasher: S,
    ) -> Self::Map<K, V, S>;

    /// See [`Design::collect`].
    fn collect() {}

    /// See [`Design::quiesce`].
    fn quiesce<K: Key, V: Value, S: Hashing>(map: &Self::Map<K, V, S>) {
        let _ = map;
    }
}

impl<D: Design> SequentialDesign for D {
    const NAME: &'static str = D::NAME;
    const ASYNC_WRITES: bool = D::ASYNC_WRITES;
    const LINEAR_WRITES: bool = D::LINEAR_WRITES;
    const DEFERRED_DROPS: bool = D::DEFERRED_DROPS;
    const STORES_HASHES: bool = D::STORES_HASHES;
    type Map<K: Key, V: Value, S: Hashing> = D::Map<K, V, S>;

    fn build<K: Key, V: Value, S: Hashing>(
        capacity: Option<usize>,
        hasher: S,
    ) -> Self::Map<K, V, S> {
        <D as Design>::build(capacity, hasher)
    }

    fn collect() {
        <D as Design>::collect();
    }

    fn quiesce<K: Key, V: Value, S: Hashing>(map: &Self::Map<K, V, S>) {
        <D as Design>::quiesce(map);
    }
}

/// A design with [`cache_api::Snapshot`].
pub trait SnapshotDesign: Design {
    /// Over what a view is consistent: copy `Snapshot::CONSISTENCY` of the map.
    const SNAPSHOT: Consistency;

    /// The view.
    type View<K: Key, V: Value, S: Hashing>: SnapshotView<K, V> + Send + Sync + 'static;

    /// Calls `map.snapshot()`.
    fn snapshot<K: Key, V: Value, S: Hashing>(map: &Self::Map<K, V, S>) -> Self::View<K, V, S>;

    /// The partition of `key`, where [`SNAPSHOT`](SnapshotDesign::SNAPSHOT) is per shard and the design has
    /// [`cache_api::Routed`]; the tests of consistent cuts then aim at keys of one partition.
    fn partition_of<K: Key, V: Value, S: Hashing>(
        map: &Self::Map<K, V, S>,
        key: &K,
    ) -> Option<usize> {
        let _ = (map, key);
        None
    }
}

/// A design with [`cache_api::Fork`].
pub trait ForkDesign: Design {
    /// Calls `map.fork()`.
    fn fork<K: Key, V: Value, S: Hashing>(map: &Self::Map<K, V, S>) -> Self::Map<K, V, S>;
}

/// A design with [`cache_api::Routed`].
pub trait RoutedDesign: Design {
    /// Calls `map.partitions()`.
    fn partitions<K: Key, V: Value, S: Hashing>(map: &Self::Map<K, V, S>) -> usize;

    /// Calls `map.partition_of(key)`.
    fn partition_of<K: Key, V: Value, S: Hashing>(map: &Self::Map<K, V, S>, key: &K) -> usize;
}
