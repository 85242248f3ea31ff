//! Point-in-time views: [`Snapshot`], [`SnapshotView`], and writable ones: [`Fork`].

use std::borrow::Borrow;
use std::hash::Hash;

use crate::{Consistency, GetBatch};

/// A point-in-time view of the map in O(1), without stopping anyone.
pub trait Snapshot<K, V> {
    /// The view. It owns what it shows: it outlives later writes and the map itself.
    ///
    /// An old view keeps the memory of what it can see, and nothing else, from being freed.
    type View: SnapshotView<K, V>;

    /// Over what the view is consistent: the whole map ([`Consistency::Snapshot`]), or each partition on its own
    /// ([`Consistency::PerShard`]).
    const CONSISTENCY: Consistency;

    /// Freezes the present content. O(1), whatever the size of the map.
    fn snapshot(&self) -> Self::View;
}

/// A frozen map: every answer, now and later, is that of the moment it was taken.
pub trait SnapshotView<K, V>: GetBatch<K, V> {
    /// The value for `key`, borrowed for as long as the view lives.
    fn get_ref<Q>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized;

    /// Runs `f` on the value for `key`. No lock is held; calls into the live map are allowed.
    fn get_with<Q, F, R>(&self, key: &Q, f: F) -> Option<R>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
        F: FnOnce(&V) -> R,
    {
        self.get_ref(key).map(f)
    }

    /// A clone of the value for `key`.
    fn get<Q>(&self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
        V: Clone,
    {
        self.get_ref(key).cloned()
    }

    /// Whether the view holds `key`.
    fn contains_key<Q>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.get_ref(key).is_some()
    }

    /// The number of entries, exact.
    fn len(&self) -> usize;

    /// Whether the view holds no entry.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All entries, each exactly once, in no particular order.
    fn iter<'a>(&'a self) -> impl Iterator<Item = (&'a K, &'a V)>
    where
        K: 'a,
        V: 'a;
}

/// A point-in-time copy in O(1) that can be written to: both sides go on independently.
pub trait Fork {
    /// A map with the present content of this one. Later writes to either are not seen by the other.
    ///
    /// O(1) whatever the size; the first writes to each shared part afterwards copy that part.
    #[must_use]
    fn fork(&self) -> Self;
}
