//! Many lookups at once, so that their cache misses overlap: [`Wanted`], [`hash_keys`], [`Table::get_each`].
//! It takes no lock, and its hints change no answer.

use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash};

use crate::Table;
use crate::prefetch::prefetch_read;

/// How many lookups ahead of the one at work the memory is asked. Two lines for each: more than a core can have under
/// way at a time, so that none of its places is idle, and few enough to stay in the first-level cache until used.
/// Measured with a million keys, 8 to 64 make no difference beyond the noise.
pub const PROBES_AHEAD: usize = 16;

/// How many keys ahead of the one that is hashed the memory is asked.
const KEYS_AHEAD: usize = 16;

/// How many keys of an iterator are taken at a time by [`Table::get_batch`].
const GROUP: usize = 256;

/// One key of a batch with its hash.
#[derive(Debug)]
pub struct Wanted<'k, Q: ?Sized> {
    /// What the map's hasher yields for the key; anything until [`hash_keys`] has been there.
    pub hash: u64,
    /// The key.
    pub key: &'k Q,
}

impl<Q: ?Sized> Clone for Wanted<'_, Q> {
    #[inline]
    fn clone(&self) -> Self {
        *self
    }
}

impl<Q: ?Sized> Copy for Wanted<'_, Q> {}

impl<'k, Q: ?Sized> Wanted<'k, Q> {
    /// The key, not hashed yet.
    #[inline]
    #[must_use]
    pub const fn new(key: &'k Q) -> Self {
        Self { hash: 0, key }
    }
}

/// Hashes the keys of `wanted` in turn, and calls `each` with every hash.
///
/// A reference to a `str`, a slice or a plain value points to the very bytes that hashing reads, so they are asked for
/// in time unless `PREFETCH` is false; where a key owns its bytes elsewhere, the line with its pointer is.
#[inline]
pub fn hash_keys<Q, S, const PREFETCH: bool>(
    wanted: &mut [Wanted<'_, Q>],
    hasher: &S,
    mut each: impl FnMut(u64),
) where
    Q: Hash + ?Sized,
    S: BuildHasher,
{
    if PREFETCH {
        wanted
            .iter()
            .take(KEYS_AHEAD)
            .for_each(|ahead| prefetch_target(ahead.key));
    }
    for at in 0..wanted.len() {
        if PREFETCH && let Some(ahead) = wanted.get(at + KEYS_AHEAD) {
            prefetch_target(ahead.key);
        }
        let hash = hasher.hash_one(wanted[at].key);
        wanted[at].hash = hash;
        each(hash);
    }
}

/// Asks for the first line of what `target` points to.
#[inline(always)]
fn prefetch_target<Q: ?Sized>(target: &Q) {
    prefetch_read(std::ptr::from_ref(target).cast::<u8>().addr());
}

impl<K, V> Table<K, V> {
    /// Calls `f(i, value)` for each of `wanted` in turn, `i` being its place there, and asks the memory for what later
    /// lookups will touch unless `PREFETCH` is false. O(1) expected for each.
    ///
    /// # Panics
    ///
    /// Only those of `Eq` and `f`.
    #[inline]
    pub fn get_each<Q, F, const PREFETCH: bool>(&self, wanted: &[Wanted<'_, Q>], mut f: F)
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
        F: FnMut(usize, Option<&V>),
    {
        if PREFETCH {
            wanted
                .iter()
                .take(PROBES_AHEAD)
                .for_each(|ahead| self.prefetch(ahead.hash));
        }
        for (position, &Wanted { hash, key }) in wanted.iter().enumerate() {
            if PREFETCH && let Some(ahead) = wanted.get(position + PROBES_AHEAD) {
                self.prefetch(ahead.hash);
            }
            f(position, self.get(hash, key));
        }
    }

    /// Hashes `keys` and calls `f(i, value)` for each of them in turn, as [`get_each`](Table::get_each) does, taking a
    /// few hundred from the iterator at a time: O(1) memory.
    ///
    /// # Panics
    ///
    /// Only those of the iterator, `Hash`, `Eq` and `f`.
    pub fn get_batch<'k, Q, S, I, F, const PREFETCH: bool>(&self, keys: I, hasher: &S, mut f: F)
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized + 'k,
        S: BuildHasher,
        I: IntoIterator<Item = &'k Q>,
        F: FnMut(usize, Option<&V>),
    {
        let mut keys = keys.into_iter();
        let mut wanted = Vec::with_capacity(keys.size_hint().0.min(GROUP));
        let mut before = 0;
        loop {
            wanted.extend(keys.by_ref().take(GROUP).map(Wanted::new));
            hash_keys::<Q, S, PREFETCH>(&mut wanted, hasher, |_| {});
            self.get_each::<Q, _, PREFETCH>(&wanted, |position, value| f(before + position, value));
            if wanted.len() < GROUP {
                return;
            }
            before += GROUP;
            wanted.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hash::RandomState;

    #[test]
    fn a_batch_answers_what_single_lookups_do() {
        let hasher = RandomState::new();
        let mut table = Table::new();
        let check = |table: &Table<String, usize>| {
            // Around the distances and the group, and some groups.
            for len in [0, 1, 15, 16, 17, 33, GROUP - 1, GROUP, GROUP + 1, 3 * GROUP] {
                let keys: Vec<String> = (0..len).map(|n| (n * 7 % 400).to_string()).collect();
                let expected: Vec<Option<usize>> = keys
                    .iter()
                    .map(|key| table.get(hasher.hash_one(key), key).copied())
                    .collect();
                let (mut plain, mut asked) = (Vec::new(), Vec::new());
                let strs = || keys.iter().map(String::as_str);
                table.get_batch::<str, _, _, _, false>(strs(), &hasher, |position, value| {
                    assert_eq!(position, plain.len());
                    plain.push(value.copied());
                });
                table.get_batch::<str, _, _, _, true>(strs(), &hasher, |position, value| {
                    assert_eq!(position, asked.len());
                    asked.push(value.copied());
                });
                assert_eq!((&plain, &asked), (&expected, &expected));
            }
        };
        check(&table);
        for key in (0..400).step_by(2) {
            let hash = hasher.hash_one(key.to_string());
            table.room(&hasher).insert(hash, key.to_string(), key);
        }
        check(&table);
    }

    #[test]
    fn an_iterator_is_asked_once_after_its_end_at_most() {
        let hasher = RandomState::new();
        let table: Table<u64, ()> = Table::new();
        let keys = [1_u64; GROUP];
        let mut ended = false;
        let mut iterator = keys.iter();
        let once = std::iter::from_fn(|| {
            assert!(!ended, "asked again");
            let key = iterator.next();
            ended = key.is_none();
            key
        });
        let mut calls = 0;
        table.get_batch::<u64, _, _, _, true>(once, &hasher, |_, _| calls += 1);
        assert_eq!(calls, GROUP);
    }
}
