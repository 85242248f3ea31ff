//! A handle that stays pinned over many operations.
#![forbid(unsafe_code)]

use std::borrow::Borrow;
use std::fmt;
use std::hash::{BuildHasher, Hash};

use cache_api::DefaultHashBuilder;

use crate::map::Map;
use crate::sync::epoch::{self, Guard};

/// A pinned handle on a [`Map`], made by [`Map::pin`]: for loops over many keys.
///
/// Entering a grace period costs a few nanoseconds per operation, and it keeps the cache misses of consecutive reads
/// from overlapping. A session pays it once, and its reads return references.
///
/// While a session lives, nothing that any map of this crate retires is freed, in the whole process. So a session that
/// lives longer than a short loop calls [`repin`](Session::repin) from time to time. It cannot be sent to another
/// thread:
///
/// ```compile_fail
/// let map = cache_ctrie::Map::<u32, u32>::new();
/// let session = map.pin();
/// std::thread::scope(|scope| scope.spawn(move || session.get(&1).copied()));
/// ```
///
/// # Examples
///
/// ```
/// let map = cache_ctrie::Map::new();
/// let mut session = map.pin();
/// for n in 0..1_000 {
///     session.insert(n, n * n);
///     if n % 256 == 0 {
///         session.repin();
///     }
/// }
/// assert_eq!(session.get(&12), Some(&144));
/// ```
pub struct Session<'m, K, V, S = DefaultHashBuilder> {
    map: &'m Map<K, V, S>,
    guard: Guard,
}

impl<'m, K, V, S> Session<'m, K, V, S> {
    pub(crate) fn new(map: &'m Map<K, V, S>) -> Self {
        Self {
            map,
            guard: epoch::pin(),
        }
    }

    /// Leaves the grace period and enters a new one, so that what was retired meanwhile can be freed. The references
    /// that the session gave out must be gone by then, as the borrow checker sees to.
    pub fn repin(&mut self) {
        self.guard.repin();
    }
}

impl<K, V, S> Session<'_, K, V, S>
where
    K: Hash + Eq,
    S: BuildHasher,
{
    /// The value for `key`, as of one moment during the call; the reference stays good until the session is repinned
    /// or dropped, whatever is written meanwhile.
    #[inline]
    pub fn get<Q>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let hash = self.map.hasher().hash_one(key);
        self.map
            .trie()
            .find(&self.guard, hash, key)
            .map(|leaf| leaf.value())
    }

    /// Whether a value is stored for `key`.
    #[inline]
    pub fn contains_key<Q>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.get(key).is_some()
    }
}

impl<K, V, S> Session<'_, K, V, S>
where
    K: Hash + Eq + Send + Sync + 'static,
    V: Send + Sync + 'static,
    S: BuildHasher,
{
    /// [`Map::insert`].
    #[inline]
    pub fn insert(&self, key: K, value: V) {
        self.map.insert_pinned(&self.guard, key, value);
    }

    /// [`Map::remove`].
    #[inline]
    pub fn remove<Q>(&self, key: &Q)
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.map.remove_pinned(&self.guard, key);
    }
}

impl<K, V, S> fmt::Debug for Session<'_, K, V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").finish_non_exhaustive()
    }
}
