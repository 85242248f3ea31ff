//! The crate's own tests: those that look inside. What every design must do is in `tests/conformance.rs`.

#[cfg(not(shuttle))]
mod sequential;
#[cfg(not(shuttle))]
mod threads;

#[cfg(shuttle)]
mod model;

use std::sync::Arc;

use crate::node::{BUCKETS, Leaf, Pending};
use crate::sync::epoch;
use crate::trie::{Act, Trie, View};

/// A trie of numbers whose hashes the test chooses.
struct Numbers {
    trie: Arc<Trie<u64, u64>>,
    hash: fn(u64) -> u64,
}

impl Clone for Numbers {
    fn clone(&self) -> Self {
        Self {
            trie: Arc::clone(&self.trie),
            hash: self.hash,
        }
    }
}

/// A frozen view of [`Numbers`].
struct Still {
    view: View<u64, u64>,
    hash: fn(u64) -> u64,
}

#[cfg_attr(shuttle, allow(dead_code, reason = "models use a part of it"))]
impl Numbers {
    /// An empty one; the root array has sixteen slots.
    fn new(hash: fn(u64) -> u64) -> Self {
        Self {
            trie: Arc::new(Trie::new(4)),
            hash,
        }
    }

    fn get(&self, key: u64) -> Option<u64> {
        let guard = epoch::pin();
        self.trie
            .find(&guard, (self.hash)(key), &key)
            .map(|leaf| *leaf.value())
    }

    /// Stores, and returns what was there.
    fn put(&self, key: u64, value: u64) -> Option<u64> {
        let guard = epoch::pin();
        let hash = (self.hash)(key);
        let mut pending = Pending::full(hash, key, value);
        let same = |stored: &u64, pending: &Pending<u64, u64>| Some(stored) == pending.key();
        self.trie
            .edit(&guard, hash, &mut pending, same, |_, _| Act::Put)
            .map(|leaf| *leaf.value())
    }

    /// Removes, and returns what was there.
    fn remove(&self, key: u64) -> Option<u64> {
        let guard = epoch::pin();
        let same = |stored: &u64, _: &Pending<u64, u64>| *stored == key;
        let act = |_: Option<&Leaf<u64, u64>>, _: &mut Pending<u64, u64>| Act::Remove;
        self.trie
            .edit(&guard, (self.hash)(key), &mut Pending::none(), same, act)
            .map(|leaf| *leaf.value())
    }

    fn still(&self) -> Still {
        Still {
            view: self.trie.view(&epoch::pin()),
            hash: self.hash,
        }
    }

    fn fork(&self) -> Self {
        Self {
            trie: Arc::new(self.trie.fork(&epoch::pin())),
            hash: self.hash,
        }
    }

    fn clear(&self) {
        self.trie.clear(&epoch::pin());
    }

    fn len(&self) -> usize {
        self.trie.len(&epoch::pin())
    }

    fn batch(&self, keys: &[u64]) -> Vec<Option<u64>> {
        let mut answers = Vec::new();
        let guard = epoch::pin();
        let hash = |key: &u64| (self.hash)(*key);
        self.trie.find_batch(&guard, keys.iter(), hash, |_, leaf| {
            answers.push(leaf.map(|leaf| *leaf.value()))
        });
        answers
    }
}

#[cfg_attr(shuttle, allow(dead_code, reason = "models use a part of it"))]
impl Still {
    fn get(&self, key: u64) -> Option<u64> {
        self.view
            .find((self.hash)(key), &key)
            .map(|leaf| *leaf.value())
    }

    fn fork(&self) -> Numbers {
        Numbers {
            trie: Arc::new(self.view.fork()),
            hash: self.hash,
        }
    }

    /// All entries, sorted.
    fn entries(&self) -> Vec<(u64, u64)> {
        let mut entries: Vec<_> = self
            .view
            .iter()
            .map(|leaf| (*leaf.key(), *leaf.value()))
            .collect();
        entries.sort_unstable();
        entries
    }
}

/// Hashes that spread from the first digit on.
#[cfg_attr(
    shuttle,
    allow(dead_code, reason = "models choose their hashes by hand")
)]
fn good(key: u64) -> u64 {
    key.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32)
}

/// The first digit is the same for all keys, the second tells the first sixteen apart: two levels.
fn shallow(key: u64) -> u64 {
    key << 4
}

/// Four hashes for all keys.
fn colliding(key: u64) -> u64 {
    (key % 4) << 60
}

/// Runs `body` twice: with buckets, and with arrays only.
fn both_shapes(body: impl Fn()) {
    body();
    BUCKETS.set(false);
    body();
    BUCKETS.set(true);
}
