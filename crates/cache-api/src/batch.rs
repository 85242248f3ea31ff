//! Many reads in one call: [`GetBatch`].

use std::borrow::Borrow;
use std::hash::Hash;

use crate::Consistency;

/// Many reads in one call, answered in the order asked.
///
/// Keys are taken by reference from anything that yields them: a slice `&[Q]`, a `&Vec<Q>`, or an iterator of
/// `&Q` such as `strs.iter().copied()`. They are never moved or copied. Duplicates and misses are allowed.
///
/// ```
/// # use cache_api::GetBatch;
/// fn sum<C: GetBatch<String, u64>>(cache: &C, owned: &[String], borrowed: &[&str]) -> u64 {
///     let a = cache.get_batch(owned);
///     let b = cache.get_batch(borrowed.iter().copied());
///     a.into_iter().chain(b).flatten().sum()
/// }
/// ```
pub trait GetBatch<K, V> {
    /// What the answers of one batch have in common.
    const CONSISTENCY: Consistency;

    /// Calls `f(i, value)` exactly once for each key, `i` being its position in `keys`; the *calls* come in any
    /// order.
    ///
    /// The closure sees references, so nothing is cloned. The same rules hold for it as for the closure of
    /// [`Cache::get_with`](crate::Cache::get_with).
    ///
    /// # Panics
    ///
    /// A panic of `f` or of user code ends the batch and reaches the caller; the map is unharmed.
    fn get_batch_with<'k, Q, I, F>(&self, keys: I, f: F)
    where
        K: Borrow<Q>,
        Q: Hash + Eq + Sync + ?Sized + 'k,
        I: IntoIterator<Item = &'k Q>,
        F: FnMut(usize, Option<&V>) + Send;

    /// The values for `keys`, one slot per key, in the order asked.
    fn get_batch<'k, Q, I>(&self, keys: I) -> Vec<Option<V>>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + Sync + ?Sized + 'k,
        I: IntoIterator<Item = &'k Q>,
        V: Clone + Send,
    {
        let mut answers = Vec::new();
        self.get_batch_with(keys, |position, value| {
            if position >= answers.len() {
                answers.resize_with(position + 1, || None);
            }
            answers[position] = value.cloned();
        });
        answers
    }
}
