//! What the harness needs of a contender: a map type for every key and value type, and how to make one.

use std::hash::Hash;

use cache_api::{Cache, DefaultHashBuilder};

/// The keys that workloads use.
pub trait Key: Hash + Eq + Ord + Clone + Send + Sync + 'static {}
impl<T: Hash + Eq + Ord + Clone + Send + Sync + 'static> Key for T {}

/// The values that workloads use.
pub trait Value: Clone + Send + Sync + 'static {}
impl<T: Clone + Send + Sync + 'static> Value for T {}

/// A contender: a family of maps, one for each type of key and value.
///
/// The hasher is the same for all of them, so that synchronisation is what differs.
pub trait Family: 'static {
    /// The map.
    type Map<K: Key, V: Value>: Cache<K, V>;

    /// An empty map with room for `capacity` entries, where the contender takes such a hint.
    fn build<K: Key, V: Value>(capacity: usize, hasher: DefaultHashBuilder) -> Self::Map<K, V>;

    /// Fills the map before the clock starts. Contenders with a bulk load use it.
    fn load<K: Key, V: Value>(map: &Self::Map<K, V>, entries: impl Iterator<Item = (K, V)>) {
        for (key, value) in entries {
            map.insert(key, value);
        }
    }
}

/// The hasher of all contenders in all workloads: the default one, with a seed that makes runs repeatable.
#[must_use]
pub const fn hasher() -> DefaultHashBuilder {
    DefaultHashBuilder::with_seed(0x5eed)
}
