//! Visiting, filtering and clearing a whole map: [`Iterate`].

/// Visiting, filtering and clearing a whole map.
///
/// # Consistency
///
/// Designs with snapshots visit one moment of the map. The others are weakly consistent: every entry that is
/// present during the whole call is visited exactly once, and entries that come or go meanwhile are visited at
/// most once.
///
/// Calling back into the same map from a closure completes or panics at once (see
/// [`REENTRANT`](crate::REENTRANT)). A panic of a closure reaches the caller and leaves the map usable.
pub trait Iterate<K, V> {
    /// Calls `f` for every entry, in no particular order. O(n).
    fn for_each<F>(&self, f: F)
    where
        F: FnMut(&K, &V) + Send;

    /// Removes every entry for which `keep` is false.
    ///
    /// Entries inserted during the call may or may not be tested. An entry is only removed together with the value
    /// that was tested: if it is replaced in between, the new value is tested or stays. O(n).
    fn retain<F>(&self, keep: F)
    where
        F: FnMut(&K, &V) -> bool + Send;

    /// Removes all entries.
    ///
    /// Linearizable where the design has one root or one lock (locked, cow, hamt, ctrie): all entries go in one
    /// moment. Shard by shard elsewhere, so that an entry inserted meanwhile may survive.
    fn clear(&self);

    /// Clones of all keys; consistency as for [`for_each`](Iterate::for_each).
    fn keys(&self) -> Vec<K>
    where
        K: Clone + Send,
    {
        let mut keys = Vec::new();
        self.for_each(|key, _| keys.push(key.clone()));
        keys
    }

    /// Clones of all values; consistency as for [`for_each`](Iterate::for_each).
    fn values(&self) -> Vec<V>
    where
        V: Clone + Send,
    {
        let mut values = Vec::new();
        self.for_each(|_, value| values.push(value.clone()));
        values
    }

    /// Clones of all entries; consistency as for [`for_each`](Iterate::for_each).
    fn entries(&self) -> Vec<(K, V)>
    where
        K: Clone + Send,
        V: Clone + Send,
    {
        let mut entries = Vec::new();
        self.for_each(|key, value| entries.push((key.clone(), value.clone())));
        entries
    }
}
