//! The writes of the contract as [`Change`]s, and the methods that both maps share; never a root or a node.

use std::borrow::Borrow;
use std::hash::Hash;

use crate::raw::{Change, Decision, Fresh, Leaf, give_away};

/// Stores a value, whatever is there.
pub(crate) struct Put<K, V>(pub(crate) Option<Fresh<K, V>>);

impl<K: Eq, V> Change<K, V> for Put<K, V> {
    fn matches(&self, key: &K) -> bool {
        self.0.as_ref().is_some_and(|leaf| leaf.key() == key)
    }

    fn decide(&mut self, _: Option<&Leaf<K, V>>) -> Decision<K, V> {
        self.0
            .as_ref()
            .map_or(Decision::Keep, |leaf| Decision::Put(leaf.as_ptr()))
    }

    fn published(&mut self) {
        give_away(&mut self.0);
    }
}

/// Stores what a function makes of the current value; where it says `None`, leaves things as they are.
pub(crate) struct Compute<K, V, F> {
    hash: u64,
    /// The key, until it is in a leaf.
    key: Option<K>,
    leaf: Option<Fresh<K, V>>,
    make: F,
}

impl<K, V, F> Compute<K, V, F> {
    pub(crate) fn new(hash: u64, key: K, make: F) -> Self {
        Self {
            hash,
            key: Some(key),
            leaf: None,
            make,
        }
    }
}

impl<K: Eq, V, F: FnMut(Option<&V>) -> V> Change<K, V> for Compute<K, V, F> {
    fn matches(&self, key: &K) -> bool {
        match (&self.leaf, &self.key) {
            (Some(leaf), _) => leaf.key() == key,
            (None, Some(own)) => own == key,
            (None, None) => false,
        }
    }

    fn decide(&mut self, current: Option<&Leaf<K, V>>) -> Decision<K, V> {
        let value = (self.make)(current.map(|leaf| &leaf.value));
        if let Some(leaf) = &mut self.leaf {
            *leaf.value_mut() = value;
        } else if let Some(key) = self.key.take() {
            self.leaf = Some(Fresh::new(self.hash, key, value));
        }
        self.leaf
            .as_ref()
            .map_or(Decision::Keep, |leaf| Decision::Put(leaf.as_ptr()))
    }

    fn published(&mut self) {
        give_away(&mut self.leaf);
    }
}

/// Stores a value where there is none.
pub(crate) struct PutNew<K, V> {
    leaf: Option<Fresh<K, V>>,
    clone: fn(&V) -> V,
    /// The answer: what is stored now.
    pub(crate) answer: Option<V>,
}

impl<K, V: Clone> PutNew<K, V> {
    pub(crate) fn new(leaf: Fresh<K, V>) -> Self {
        Self {
            leaf: Some(leaf),
            clone: V::clone,
            answer: None,
        }
    }
}

impl<K: Eq, V> Change<K, V> for PutNew<K, V> {
    fn matches(&self, key: &K) -> bool {
        self.leaf.as_ref().is_some_and(|leaf| leaf.key() == key)
    }

    fn decide(&mut self, current: Option<&Leaf<K, V>>) -> Decision<K, V> {
        let Some(own) = &self.leaf else {
            return Decision::Keep;
        };
        if let Some(leaf) = current {
            self.answer = Some((self.clone)(&leaf.value));
            return Decision::Keep;
        }
        if self.answer.is_none() {
            self.answer = Some((self.clone)(own.value()));
        }
        Decision::Put(own.as_ptr())
    }

    fn published(&mut self) {
        give_away(&mut self.leaf);
    }
}

/// Removes an entry, if a condition holds for its value.
pub(crate) struct Delete<'a, Q: ?Sized, F> {
    pub(crate) key: &'a Q,
    pub(crate) condition: F,
    /// Whether the last attempt removed it.
    pub(crate) removed: bool,
}

impl<K, V, Q, F> Change<K, V> for Delete<'_, Q, F>
where
    K: Borrow<Q>,
    Q: Eq + ?Sized,
    F: FnMut(&V) -> bool,
{
    fn matches(&self, key: &K) -> bool {
        key.borrow() == self.key
    }

    fn decide(&mut self, current: Option<&Leaf<K, V>>) -> Decision<K, V> {
        self.removed = current.is_some_and(|leaf| (self.condition)(&leaf.value));
        if self.removed {
            Decision::Remove
        } else {
            Decision::Keep
        }
    }
}

/// Hashes a borrowed key.
#[inline]
pub(crate) fn hash_of<Q: Hash + ?Sized>(hasher: &impl std::hash::BuildHasher, key: &Q) -> u64 {
    hasher.hash_one(key)
}

/// The inherent methods that both maps share, and the traits of the contract that forward to them.
macro_rules! shared_methods {
    ($map:ident < $k:ident, $v:ident, $s:ident $(, const $w:ident)? >) => {
        impl<$k, $v, $s $(, const $w: usize)?> $map<$k, $v, $s $(, $w)?>
        where
            $k: Hash + Eq,
            $s: BuildHasher,
        {
            /// Runs `f` on the value for `key`, without cloning it.
            ///
            /// No lock is held; calling back into the map is allowed. Until `f` returns, what is removed from any map
            /// of this crate is not freed, so it should be short; a [`snapshot`](Self::snapshot) has no such cost.
            /// O(log n) with the width as base; no allocation; no count is touched.
            #[inline]
            pub fn get_with<Q, F, R>(&self, key: &Q, f: F) -> Option<R>
            where
                $k: Borrow<Q>,
                Q: Hash + Eq + ?Sized,
                F: FnOnce(&$v) -> R,
            {
                let hash = hash_of(&self.hasher, key);
                self.site(hash).read(hash, |k| k.borrow() == key, |leaf| f(&leaf.value))
            }

            /// A clone of the value for `key`. See [`get_with`](Self::get_with).
            #[inline]
            pub fn get<Q>(&self, key: &Q) -> Option<$v>
            where
                $k: Borrow<Q>,
                Q: Hash + Eq + ?Sized,
                $v: Clone,
            {
                self.get_with(key, $v::clone)
            }

            /// Whether there is an entry for `key`. See [`get_with`](Self::get_with).
            #[inline]
            pub fn contains_key<Q>(&self, key: &Q) -> bool
            where
                $k: Borrow<Q>,
                Q: Hash + Eq + ?Sized,
            {
                self.get_with(key, |_| ()).is_some()
            }

            /// Stores `value` for `key`.
            ///
            /// Linearizable and lock-free: an attempt is repeated only because another write, or a snapshot, has
            /// succeeded. Copies the path of O(log n) nodes. The entry that was there is dropped a grace period later,
            /// by this or another writing thread.
            #[inline]
            pub fn insert(&self, key: $k, value: $v) {
                let hash = hash_of(&self.hasher, &key);
                let mut change = Put(Some(Fresh::new(hash, key, value)));
                self.site(hash).update(hash, &mut change, |_, _| ());
            }

            /// Removes `key`, if it is there; otherwise nothing is copied. See [`insert`](Self::insert).
            pub fn remove<Q>(&self, key: &Q)
            where
                $k: Borrow<Q>,
                Q: Hash + Eq + ?Sized,
            {
                self.remove_if(key, |_| true);
            }

            /// Stores `value` and returns a clone of the value it replaced.
            pub fn swap(&self, key: $k, value: $v) -> Option<$v>
            where
                $v: Clone,
            {
                let hash = hash_of(&self.hasher, &key);
                let mut change = Put(Some(Fresh::new(hash, key, value)));
                self.site(hash).update(hash, &mut change, |_, old| old.cloned())
            }

            /// Removes `key` and returns a clone of its value.
            pub fn take<Q>(&self, key: &Q) -> Option<$v>
            where
                $k: Borrow<Q>,
                Q: Hash + Eq + ?Sized,
                $v: Clone,
            {
                let hash = hash_of(&self.hasher, key);
                let mut change = Delete { key, condition: |_: &$v| true, removed: false };
                self.site(hash).update(hash, &mut change, |_, old| old.cloned())
            }

            /// Removes `key` if `condition` holds for its value; returns whether it did.
            ///
            /// `condition` runs once per attempt; the value that it last saw is the one that is removed.
            ///
            /// # Panics
            ///
            /// As [`upsert`](Self::upsert), on a write to the map from inside `condition`.
            pub fn remove_if<Q, F>(&self, key: &Q, condition: F) -> bool
            where
                $k: Borrow<Q>,
                Q: Hash + Eq + ?Sized,
                F: FnMut(&$v) -> bool,
            {
                let hash = hash_of(&self.hasher, key);
                let mut change = Delete { key, condition, removed: false };
                self.site(hash).update(hash, &mut change, |change, _| change.removed)
            }

            /// Stores `f(current)` for `key`.
            ///
            /// `f` runs once per attempt, and again only where the entry may have changed since: it should have no
            /// other effect than its result.
            ///
            /// # Panics
            ///
            /// `f` may read the map, but a write to it from inside `f` would be repeated for ever: it panics at once
            /// with a message that contains `re-entrant`.
            pub fn upsert<F>(&self, key: $k, f: F)
            where
                F: FnMut(Option<&$v>) -> $v,
            {
                let hash = hash_of(&self.hasher, &key);
                let mut change = Compute::new(hash, key, f);
                self.site(hash).update(hash, &mut change, |_, _| ());
            }

            /// A clone of the value for `key`, storing `init()` first where there is none.
            ///
            /// Of several callers that find the key absent at the same time each may run its `init`, once; one value
            /// wins and all of them receive it. `init` may use the map, and even store the same key: then that value
            /// wins.
            pub fn get_or_insert_with<F>(&self, key: $k, init: F) -> $v
            where
                F: FnOnce() -> $v,
                $v: Clone,
            {
                let hash = hash_of(&self.hasher, &key);
                if let Some(value) = self.site(hash).read(hash, |k| *k == key, |leaf| leaf.value.clone()) {
                    return value;
                }
                // Not inside the attempt: so `init` runs once, and may itself use the map.
                let mut change = PutNew::new(Fresh::new(hash, key, init()));
                self.site(hash)
                    .update(hash, &mut change, |change, _| change.answer.take())
                    .expect("an attempt ends with an answer")
            }

            /// Whether there is no entry.
            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }

            /// Frees what was removed and is out of everyone's sight, and returns whether nothing is left waiting.
            ///
            /// Writes do this by the way, some dozens of writes late. A map that is not written to any more keeps what
            /// it removed last until it is dropped, or until this is called. Memory of nodes that the calling thread
            /// keeps for its next writes goes back to the allocator, too. `false` means that some thread is in the
            /// middle of an operation on a map of this crate or of `cache-ctrie` (as the caller is, inside a closure).
            pub fn reclaim(&self) -> bool {
                self.raw.reclaim()
            }

            /// How often a write had to try again because another one, or a snapshot, came first.
            #[cfg(feature = "stats")]
            pub fn lost_races(&self) -> u64 {
                self.raw.lost_races()
            }

            /// The hasher builder.
            pub fn hasher(&self) -> &$s {
                &self.hasher
            }
        }

        impl<$k, $v, $s $(, const $w: usize)?> Cache<$k, $v> for $map<$k, $v, $s $(, $w)?>
        where
            $k: Hash + Eq,
            $s: BuildHasher,
        {
            #[inline]
            fn get_with<Q, F, R>(&self, key: &Q, f: F) -> Option<R>
            where
                $k: Borrow<Q>,
                Q: Hash + Eq + Sync + ?Sized,
                F: FnOnce(&$v) -> R + Send,
                R: Send,
            {
                $map::get_with(self, key, f)
            }

            #[inline]
            fn insert(&self, key: $k, value: $v) {
                $map::insert(self, key, value);
            }

            fn remove<Q>(&self, key: &Q)
            where
                $k: Borrow<Q>,
                Q: Hash + Eq + Sync + ?Sized,
            {
                $map::remove(self, key);
            }

            fn len(&self) -> usize {
                $map::len(self)
            }
        }

        impl<$k, $v, $s $(, const $w: usize)?> Update<$k, $v> for $map<$k, $v, $s $(, $w)?>
        where
            $k: Hash + Eq,
            $s: BuildHasher,
        {
            const CLOSURE_RUNS: ClosureRuns = ClosureRuns::PerAttempt;
            const INIT_EXACTLY_ONCE: bool = false;

            fn upsert<F>(&self, key: $k, f: F)
            where
                F: FnMut(Option<&$v>) -> $v + Send,
            {
                $map::upsert(self, key, f);
            }

            fn get_or_insert_with<F>(&self, key: $k, init: F) -> $v
            where
                F: FnOnce() -> $v + Send,
                $v: Clone + Send,
            {
                $map::get_or_insert_with(self, key, init)
            }

            fn swap(&self, key: $k, value: $v) -> Option<$v>
            where
                $v: Clone + Send,
            {
                $map::swap(self, key, value)
            }

            fn take<Q>(&self, key: &Q) -> Option<$v>
            where
                $k: Borrow<Q>,
                Q: Hash + Eq + Sync + ?Sized,
                $v: Clone + Send,
            {
                $map::take(self, key)
            }

            fn remove_if<Q, F>(&self, key: &Q, condition: F) -> bool
            where
                $k: Borrow<Q>,
                Q: Hash + Eq + Sync + ?Sized,
                F: FnMut(&$v) -> bool + Send,
            {
                $map::remove_if(self, key, condition)
            }
        }

        impl<$k, $v, $s $(, const $w: usize)?> BulkLoad<$k, $v> for $map<$k, $v, $s $(, $w)?>
        where
            $k: Hash + Eq,
            $s: BuildHasher,
        {
            fn bulk_load<I>(&self, entries: I)
            where
                I: IntoIterator<Item = ($k, $v)>,
            {
                $map::bulk_load(self, entries);
            }
        }

        impl<$k, $v, $s $(, const $w: usize)?> Iterate<$k, $v> for $map<$k, $v, $s $(, $w)?>
        where
            $k: Hash + Eq,
            $s: BuildHasher,
        {
            fn for_each<F>(&self, f: F)
            where
                F: FnMut(&$k, &$v) + Send,
            {
                $map::for_each(self, f);
            }

            fn retain<F>(&self, keep: F)
            where
                F: FnMut(&$k, &$v) -> bool + Send,
            {
                $map::retain(self, keep);
            }

            fn clear(&self) {
                $map::clear(self);
            }
        }

        impl<$k, $v, $s $(, const $w: usize)?> Extend<($k, $v)> for $map<$k, $v, $s $(, $w)?>
        where
            $k: Hash + Eq,
            $s: BuildHasher,
        {
            fn extend<I: IntoIterator<Item = ($k, $v)>>(&mut self, entries: I) {
                self.bulk_load(entries);
            }
        }

        impl<$k, $v, $s $(, const $w: usize)?> Extend<($k, $v)> for &$map<$k, $v, $s $(, $w)?>
        where
            $k: Hash + Eq,
            $s: BuildHasher,
        {
            fn extend<I: IntoIterator<Item = ($k, $v)>>(&mut self, entries: I) {
                self.bulk_load(entries);
            }
        }

        impl<$k, $v, $s $(, const $w: usize)?> fmt::Debug for $map<$k, $v, $s $(, $w)?>
        where
            $k: Hash + Eq + fmt::Debug,
            $v: fmt::Debug,
            $s: BuildHasher,
        {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let mut map = f.debug_map();
                self.for_each(|key, value| {
                    map.entry(key, value);
                });
                map.finish()
            }
        }
    };
}

/// The methods of a frozen view that both maps share.
macro_rules! shared_view {
    ($view:ident < $k:ident, $v:ident, $s:ident $(, const $w:ident)? >) => {
        impl<$k, $v, $s $(, const $w: usize)?> $view<$k, $v, $s $(, $w)?>
        where
            $k: Hash + Eq,
            $s: BuildHasher,
        {
            /// The value for `key`, borrowed for as long as the view lives. No thread is pinned meanwhile.
            pub fn get_ref<Q>(&self, key: &Q) -> Option<&$v>
            where
                $k: Borrow<Q>,
                Q: Hash + Eq + ?Sized,
            {
                let hash = hash_of(&self.hasher, key);
                self.whole(hash).get(hash, |k| k.borrow() == key).map(|leaf| &leaf.value)
            }

            /// A clone of the value for `key`.
            pub fn get<Q>(&self, key: &Q) -> Option<$v>
            where
                $k: Borrow<Q>,
                Q: Hash + Eq + ?Sized,
                $v: Clone,
            {
                self.get_ref(key).cloned()
            }

            /// Runs `f` on the value for `key`.
            pub fn get_with<Q, F, R>(&self, key: &Q, f: F) -> Option<R>
            where
                $k: Borrow<Q>,
                Q: Hash + Eq + ?Sized,
                F: FnOnce(&$v) -> R,
            {
                self.get_ref(key).map(f)
            }

            /// Whether there is an entry for `key`.
            pub fn contains_key<Q>(&self, key: &Q) -> bool
            where
                $k: Borrow<Q>,
                Q: Hash + Eq + ?Sized,
            {
                self.get_ref(key).is_some()
            }

            /// Calls `f` with the position and the value of each key, in groups whose memory accesses overlap.
            pub fn get_batch_with<'k, Q, I, F>(&self, keys: I, f: F)
            where
                $k: Borrow<Q>,
                Q: Hash + Eq + ?Sized + 'k,
                I: IntoIterator<Item = &'k Q>,
                F: FnMut(usize, Option<&$v>),
            {
                batch_in(
                    self.wholes(),
                    keys.into_iter(),
                    |key| hash_of(&self.hasher, key),
                    Self::route,
                    |key, k| k.borrow() == key,
                    f,
                );
            }
        }

        impl<$k, $v, $s $(, const $w: usize)?> $view<$k, $v, $s $(, $w)?> {
            /// The number of entries.
            pub fn len(&self) -> usize {
                self.wholes().iter().map(|whole| whole.len).sum()
            }

            /// Whether there is no entry.
            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }

            /// All entries, each once, in the order of their hashes' digits.
            pub fn iter(&self) -> impl Iterator<Item = (&$k, &$v)> {
                self.wholes().iter().flat_map(|whole| whole.leaves().map(|leaf| (&leaf.key, &leaf.value)))
            }
        }

        impl<$k, $v, $s $(, const $w: usize)?> GetBatch<$k, $v> for $view<$k, $v, $s $(, $w)?>
        where
            $k: Hash + Eq,
            $s: BuildHasher,
        {
            const CONSISTENCY: Consistency = Consistency::Snapshot;

            fn get_batch_with<'k, Q, I, F>(&self, keys: I, f: F)
            where
                $k: Borrow<Q>,
                Q: Hash + Eq + Sync + ?Sized + 'k,
                I: IntoIterator<Item = &'k Q>,
                F: FnMut(usize, Option<&$v>) + Send,
            {
                $view::get_batch_with(self, keys, f);
            }
        }

        impl<$k, $v, $s $(, const $w: usize)?> SnapshotView<$k, $v> for $view<$k, $v, $s $(, $w)?>
        where
            $k: Hash + Eq,
            $s: BuildHasher,
        {
            fn get_ref<Q>(&self, key: &Q) -> Option<&$v>
            where
                $k: Borrow<Q>,
                Q: Hash + Eq + ?Sized,
            {
                $view::get_ref(self, key)
            }

            fn len(&self) -> usize {
                $view::len(self)
            }

            fn iter<'a>(&'a self) -> impl Iterator<Item = (&'a $k, &'a $v)>
            where
                $k: 'a,
                $v: 'a,
            {
                $view::iter(self)
            }
        }

        impl<$k, $v, $s $(, const $w: usize)?> fmt::Debug for $view<$k, $v, $s $(, $w)?>
        where
            $k: fmt::Debug,
            $v: fmt::Debug,
        {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_map().entries(self.iter()).finish()
            }
        }
    };
}

pub(crate) use {shared_methods, shared_view};
