//! Filling a map at once: [`BulkLoad`].

/// Filling a map at once.
///
/// The collections' own `FromIterator<(K, V)>` and `Extend<(K, V)>` go through this trait in every design.
pub trait BulkLoad<K, V> {
    /// Stores all `entries`; where a key repeats, the last one wins and counts once.
    ///
    /// # Consistency
    ///
    /// Concurrent readers may see a part of the load, unless the design says that it publishes it at once (cow and
    /// hamt do). Each entry is visible, whole, by the time the call returns.
    ///
    /// # Panics
    ///
    /// A panic of the iterator or of user code reaches the caller. The map is usable; it holds some prefix of the
    /// entries (designs that publish at once: none of them).
    ///
    /// # Cost
    ///
    /// O(n + m) for n entries loaded into a map of m (cow copies the m once), O(n) for the other designs.
    fn bulk_load<I>(&self, entries: I)
    where
        I: IntoIterator<Item = (K, V)>;
}
