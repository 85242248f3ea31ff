//! The smallest thing all designs share: [`Cache`]; never a lock, a clock or a thread.

use std::borrow::Borrow;
use std::hash::Hash;

/// The word that the panic message of a refused re-entrant call contains.
///
/// A design that runs user code under a lock (or on an owner thread) cannot serve a second call on the same map
/// from inside that code. It says so at once, by a panic whose message contains this word, instead of hanging.
pub const REENTRANT: &str = "re-entrant";

/// What a set of answers given by one call has in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Consistency {
    /// Each key's answer is linearizable on its own; different keys may be answered at different moments.
    PerKey,
    /// The answers for all keys of one shard belong to one moment; different shards may differ.
    PerShard,
    /// All answers belong to one single moment between the call and its return.
    Snapshot,
}

/// A concurrent map from `K` to `V`: the operations that all designs share and that are timed.
///
/// Every method takes `&self`. A design is `Send + Sync` when its keys and values are (the unsynchronised
/// baseline is the one exception), and invariant in both.
///
/// # Consistency
///
/// [`get_with`](Cache::get_with), [`insert`](Cache::insert), [`remove`](Cache::remove) and
/// [`contains_key`](Cache::contains_key) are linearizable in every design. [`len`](Cache::len) states its own
/// consistency per design.
///
/// # Why the bounds say `Send` and `Sync`
///
/// A design may run a closure on another thread while the caller waits (the actor does). So closures and their
/// results are `Send` here, and borrowed keys `Sync`. The inherent methods of the designs that do not need that
/// leave it out.
pub trait Cache<K, V> {
    /// Runs `f` on the value stored for `key` and returns its result, or `None` where there is no such key.
    ///
    /// `f` runs at most once, without cloning the value. Which lock is held meanwhile, if any, is stated by the
    /// design; calling back into the same map from `f` completes or panics at once (see [`REENTRANT`]).
    ///
    /// # Panics
    ///
    /// Panics raised by `f`, or by the key's `Hash` and `Eq`, reach the caller; the map is unharmed.
    ///
    /// # Cost
    ///
    /// O(1) expected (tries: O(log n) with a base of 16 to 64), and no allocation.
    fn get_with<Q, F, R>(&self, key: &Q, f: F) -> Option<R>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + Sync + ?Sized,
        F: FnOnce(&V) -> R + Send,
        R: Send;

    /// Returns a clone of the value stored for `key`.
    ///
    /// Equivalent to [`get_with`](Cache::get_with) with `V::clone`, and as costly plus that clone.
    fn get<Q>(&self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + Sync + ?Sized,
        V: Clone + Send,
    {
        self.get_with(key, V::clone)
    }

    /// Stores `value` for `key`, replacing (and dropping) an earlier value.
    ///
    /// A blind write: it returns nothing, so that a design may be asynchronous. Whatever the design, every later
    /// operation of the same thread observes it. [`Update::swap`](crate::Update::swap) returns the old value.
    ///
    /// Where the key is already present, it is unspecified which of the two equal keys is kept.
    fn insert(&self, key: K, value: V);

    /// Removes `key` and drops its value, if it is there.
    ///
    /// A blind delete: [`Update::take`](crate::Update::take) returns the old value. Every later operation of the
    /// same thread observes it.
    fn remove<Q>(&self, key: &Q)
    where
        K: Borrow<Q>,
        Q: Hash + Eq + Sync + ?Sized;

    /// Whether a value is stored for `key`. The cost is that of [`get_with`](Cache::get_with).
    fn contains_key<Q>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + Eq + Sync + ?Sized,
    {
        self.get_with(key, |_| ()).is_some()
    }

    /// The number of entries.
    ///
    /// Exact when nothing else runs. Under concurrent writes the design states whether the figure belongs to one
    /// moment (locked, cow, hamt, ctrie) or is a sum over shards read one after another (sharded, hamt256,
    /// actor); in neither case can it be negative, or above the number of keys ever inserted.
    fn len(&self) -> usize;

    /// Whether the map holds no entry; the consistency is that of [`len`](Cache::len).
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Which partition of a design a key is routed to.
///
/// For tests and for the adversarial phase of the sweep, which aims at one partition on purpose. No service needs
/// it.
pub trait Routed<K> {
    /// How many partitions there are (shards, roots, owners, or slots of the first trie level); at least 1.
    fn partitions(&self) -> usize;

    /// The partition of `key`: less than [`partitions`](Routed::partitions), and constant for the map's life.
    fn partition_of<Q>(&self, key: &Q) -> usize
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized;
}
