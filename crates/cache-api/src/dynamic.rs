//! An object-safe face for choosing a design by name at run time: [`DynCache`].

use std::hash::Hash;

use crate::{Cache, Iterate};

/// What a service needs of a map whose design is chosen at run time, by name.
///
/// Implemented for every design that is [`Cache`] and [`Iterate`]. Each call costs one virtual call on top; it is
/// never used inside a timed loop.
///
/// ```
/// # use cache_api::DynCache;
/// fn greet(cache: &dyn DynCache<String, String>) -> String {
///     cache.get(&"greeting".to_owned()).unwrap_or_else(|| "hello".to_owned())
/// }
/// ```
pub trait DynCache<K, V>: Send + Sync {
    /// [`Cache::get`].
    fn get(&self, key: &K) -> Option<V>;
    /// [`Cache::insert`].
    fn insert(&self, key: K, value: V);
    /// [`Cache::remove`].
    fn remove(&self, key: &K);
    /// [`Cache::contains_key`].
    fn contains_key(&self, key: &K) -> bool;
    /// [`Cache::len`].
    fn len(&self) -> usize;
    /// [`Cache::is_empty`].
    fn is_empty(&self) -> bool;
    /// [`Iterate::for_each`].
    fn for_each(&self, f: &mut (dyn FnMut(&K, &V) + Send));
    /// [`Iterate::clear`].
    fn clear(&self);
}

impl<K, V, C> DynCache<K, V> for C
where
    K: Hash + Eq + Sync,
    V: Clone + Send,
    C: Cache<K, V> + Iterate<K, V> + Send + Sync,
{
    fn get(&self, key: &K) -> Option<V> {
        Cache::get(self, key)
    }

    fn insert(&self, key: K, value: V) {
        Cache::insert(self, key, value);
    }

    fn remove(&self, key: &K) {
        Cache::remove(self, key);
    }

    fn contains_key(&self, key: &K) -> bool {
        Cache::contains_key(self, key)
    }

    fn len(&self) -> usize {
        Cache::len(self)
    }

    fn is_empty(&self) -> bool {
        Cache::is_empty(self)
    }

    fn for_each(&self, f: &mut (dyn FnMut(&K, &V) + Send)) {
        Iterate::for_each(self, |key, value| f(key, value));
    }

    fn clear(&self) {
        Iterate::clear(self);
    }
}
