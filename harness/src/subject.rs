//! What the timed loop calls: [`Subject`]; and how a map is made for it: [`Family`]. No design is named here.

use std::hash::Hash;

use cache_api::{BulkLoad, Cache, DefaultHashBuilder, Snapshot, SnapshotView};

/// The seed of every map's hasher, the same for designs and peers, so that all of them meet the same hashes.
pub const HASH_SEED: u64 = 0x005e_ed0f_5eed;

/// The hasher that designs and peers are measured with.
#[must_use]
pub const fn hasher() -> DefaultHashBuilder {
    DefaultHashBuilder::with_seed(HASH_SEED)
}

/// What all measured keys can do. `Ord` is there for the peers that ask for it.
pub trait MapKey: Hash + Eq + Ord + Clone + Send + Sync + 'static {}
impl<K: Hash + Eq + Ord + Clone + Send + Sync + 'static> MapKey for K {}

/// What all measured values can do.
pub trait MapValue: Clone + Send + Sync + 'static {}
impl<V: Clone + Send + Sync + 'static> MapValue for V {}

/// A map as the timed loop sees it. Every [`Cache`] is one, through [`Via`].
///
/// It is not [`Cache`] itself for the sake of peers whose lookups ask more of a key than `Hash + Eq`, and of the
/// floor, which stores nothing. Every call is resolved at compile time.
pub trait Subject<K, V> {
    /// Whether it keeps what is written. Only the floor does not, and its contents are not compared.
    const STORES: bool = true;

    /// Whether a read may miss a key while another thread replaces its value. That is a fault of every design here, but
    /// what one of the peers does (it inserts the new entry, then retires the old one; seen at about one read in ten
    /// thousand with two threads and skewed keys). Such misses are left to its row, and shown with each sample's side
    /// data; any other wrong answer fails its cell as everybody's does.
    const MISSES_WHILE_REPLACED: bool = false;

    /// Runs `f` on the value for `key`.
    fn read<R: Send>(&self, key: &K, f: impl FnOnce(&V) -> R + Send) -> Option<R>;
    /// Stores `value` for `key`, whether or not there is one.
    fn write(&self, key: K, value: V);
    /// Removes `key`.
    fn erase(&self, key: &K);
    /// The number of entries, exact when nothing else runs.
    fn count(&self) -> usize;

    /// Each thread calls it when its warm-up is over and its clock is about to start. Maps that watch what is done
    /// with them begin to watch then.
    fn started(&self) {}
}

/// A design of this workspace as a [`Subject`]; it adds nothing.
#[derive(Debug)]
pub struct Via<C>(pub C);

impl<K: Hash + Eq + Sync, V, C: Cache<K, V>> Subject<K, V> for Via<C> {
    #[inline]
    fn read<R: Send>(&self, key: &K, f: impl FnOnce(&V) -> R + Send) -> Option<R> {
        self.0.get_with(key, f)
    }

    #[inline]
    fn write(&self, key: K, value: V) {
        self.0.insert(key, value);
    }

    #[inline]
    fn erase(&self, key: &K) {
        self.0.remove(key);
    }

    fn count(&self) -> usize {
        self.0.len()
    }
}

/// A design whose reads take a clone out of the map and use it when the lock is released, as a [`Subject`].
#[derive(Debug)]
pub struct Cloning<C>(pub C);

impl<K: Hash + Eq + Sync, V: Clone + Send, C: Cache<K, V>> Subject<K, V> for Cloning<C> {
    #[inline]
    fn read<R: Send>(&self, key: &K, f: impl FnOnce(&V) -> R + Send) -> Option<R> {
        self.0.get(key).as_ref().map(f)
    }

    #[inline]
    fn write(&self, key: K, value: V) {
        self.0.insert(key, value);
    }

    #[inline]
    fn erase(&self, key: &K) {
        self.0.remove(key);
    }

    fn count(&self) -> usize {
        self.0.len()
    }
}

/// One design for all key and value types: what a registry row stands for.
pub trait Family: 'static {
    /// The design's map.
    type Map<K: MapKey, V: MapValue>: Subject<K, V>;

    /// A map for `entries.len()` entries that holds them: filled in bulk where the design can, one by one elsewhere.
    fn filled<K: MapKey, V: MapValue>(
        entries: impl ExactSizeIterator<Item = (K, V)>,
    ) -> Self::Map<K, V>;
}

/// What a view answers for a key; the view lives as long as the closure.
pub type Frozen<K, V> = Box<dyn Fn(&K) -> Option<V>>;

/// A design with point-in-time views.
pub trait Freezes: Family {
    /// A view of the present content.
    fn freeze<K: MapKey, V: MapValue>(map: &Self::Map<K, V>) -> Frozen<K, V>;
}

/// The view of a design of this workspace.
pub fn frozen<K, V, C>(map: &Via<C>) -> Frozen<K, V>
where
    K: Hash + Eq,
    V: Clone,
    C: Snapshot<K, V>,
    C::View: 'static,
{
    let view = map.0.snapshot();
    Box::new(move |key| view.get(key))
}

/// Fills `map` by one bulk load.
pub fn in_bulk<K, V, M: BulkLoad<K, V>>(map: M, entries: impl Iterator<Item = (K, V)>) -> Via<M> {
    map.bulk_load(entries);
    Via(map)
}

/// Fills `map` by one write per entry.
pub fn one_by_one<K, V, M: Subject<K, V>>(map: M, entries: impl Iterator<Item = (K, V)>) -> M {
    for (key, value) in entries {
        map.write(key, value);
    }
    map
}
