//! Atomic read-modify-write on one key: [`Update`].

use std::borrow::Borrow;
use std::hash::Hash;

/// How often a design runs the closure of an [`Update`] operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ClosureRuns {
    /// At most once per call: the design holds the entry while the closure runs.
    Once,
    /// Once per attempt: a lock-free design that loses a race calls the closure again with the value that won.
    /// Only the last run takes effect, so the closure should be free of other side effects.
    PerAttempt,
}

/// Atomic read-modify-write on one key.
///
/// Each operation is linearizable and takes effect at one moment, whatever other threads do to the same key.
///
/// Values come back by clone (`V: Clone`) because a lock-free design cannot move a value out while another thread
/// may still be reading it; the lock-based designs offer inherent methods without that bound.
///
/// Calling back into the same map from a closure completes or panics at once (see
/// [`REENTRANT`](crate::REENTRANT)); a panic of a closure reaches the caller and leaves the entry as it was.
pub trait Update<K, V> {
    /// How often [`upsert`](Update::upsert) and [`remove_if`](Update::remove_if) run their closure.
    const CLOSURE_RUNS: ClosureRuns;

    /// Whether [`get_or_insert_with`](Update::get_or_insert_with) runs at most one `init` per absent key at a time
    /// (`true`), or lets several callers compute a value of which one wins and the others are dropped (`false`).
    const INIT_EXACTLY_ONCE: bool;

    /// Stores `f(current)` for `key`, where `current` is the stored value or `None`.
    ///
    /// ```
    /// # use cache_api::Update;
    /// fn count<C: Update<String, u64>>(hits: &C, page: &str) {
    ///     hits.upsert(page.to_owned(), |seen| seen.map_or(1, |n| n + 1));
    /// }
    /// ```
    fn upsert<F>(&self, key: K, f: F)
    where
        F: FnMut(Option<&V>) -> V + Send;

    /// Returns a clone of the value for `key`, storing `init()` first where there is none.
    ///
    /// All callers that find the key absent at the same time receive the same value. See
    /// [`INIT_EXACTLY_ONCE`](Update::INIT_EXACTLY_ONCE) for how many `init`s run. Where `init` panics, nothing is
    /// stored, the panic reaches that caller only, and another waiting caller runs its own `init`.
    fn get_or_insert_with<F>(&self, key: K, init: F) -> V
    where
        F: FnOnce() -> V + Send,
        V: Clone + Send;

    /// Stores `value` for `key` and returns (a clone of) the value that it replaced.
    fn swap(&self, key: K, value: V) -> Option<V>
    where
        V: Clone + Send;

    /// Removes `key` and returns (a clone of) the value that was stored for it.
    fn take<Q>(&self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + Sync + ?Sized,
        V: Clone + Send;

    /// Removes `key` if it is there and `condition` holds for its value; returns whether it did.
    ///
    /// The value that was tested is the value that is removed: a concurrent replacement in between makes the
    /// condition run again (or not at all), never removes an untested value.
    fn remove_if<Q, F>(&self, key: &Q, condition: F) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + Eq + Sync + ?Sized,
        F: FnMut(&V) -> bool + Send;
}
