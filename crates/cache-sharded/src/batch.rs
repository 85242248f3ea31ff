//! Many reads in one call, grouped by shard so that each lock is taken once; it never holds two locks at a time.

use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash};
use std::num::NonZeroUsize;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use cache_table::{LockKind, Table};

use crate::cache::{Shard, StripedCache};
use crate::padding::Padding;

/// Below this many keys per thread, starting the thread costs more than it saves.
const KEYS_PER_THREAD: usize = 1024;

/// One key of a batch.
struct Wanted<'k, Q: ?Sized> {
    hash: u64,
    key: &'k Q,
}

/// The keys of a batch, in groups of one shard each.
struct Plan<'k, Q: ?Sized> {
    /// In the order asked.
    keys: Vec<Wanted<'k, Q>>,
    /// Positions in `keys`, sorted by shard and, within a shard, in the order asked.
    order: Vec<usize>,
    /// The shards touched, each with the end of its group in `order`. The group begins where the one before ends.
    groups: Vec<(usize, usize)>,
}

impl<'k, Q: ?Sized> Plan<'k, Q> {
    /// Counting sort by shard, in two passes over the keys: O(keys + shards).
    fn new(keys: Vec<Wanted<'k, Q>>, shards: usize, shard_of: impl Fn(u64) -> usize) -> Self {
        // First pass: how many keys each shard gets, then where its group begins.
        let mut starts = vec![0; shards];
        for wanted in &keys {
            starts[shard_of(wanted.hash)] += 1;
        }
        let mut groups = Vec::with_capacity(shards.min(keys.len()));
        let mut end = 0;
        for (shard, start) in starts.iter_mut().enumerate() {
            let count = *start;
            *start = end;
            end += count;
            if count > 0 {
                groups.push((shard, end));
            }
        }
        // Second pass: each key to the next place of its group.
        let mut order = vec![0; keys.len()];
        for (position, wanted) in keys.iter().enumerate() {
            let place = &mut starts[shard_of(wanted.hash)];
            order[*place] = position;
            *place += 1;
        }
        Self {
            keys,
            order,
            groups,
        }
    }

    /// The shard of the group with this number, and its positions.
    fn group(&self, number: usize) -> Option<(usize, &[usize])> {
        let &(shard, end) = self.groups.get(number)?;
        let start = number
            .checked_sub(1)
            .map_or(0, |before| self.groups[before].1);
        Some((shard, &self.order[start..end]))
    }

    /// Answers one group with one lock. The caller holds the re-entry guard.
    fn answer<K, V, L, F>(&self, shard: &Shard<K, V, L>, positions: &[usize], f: &mut F)
    where
        K: Borrow<Q>,
        Q: Eq,
        L: LockKind,
        F: FnMut(usize, Option<&V>),
    {
        let table = shard.read_held();
        self.probe(&table, positions, f);
    }

    fn probe<K, V, F>(&self, table: &Table<K, V>, positions: &[usize], f: &mut F)
    where
        K: Borrow<Q>,
        Q: Eq,
        F: FnMut(usize, Option<&V>),
    {
        for &position in positions {
            let Wanted { hash, key } = self.keys[position];
            f(position, table.get(hash, key));
        }
    }
}

impl<K, V, S, L, P> StripedCache<K, V, S, L, P>
where
    K: Hash + Eq,
    S: BuildHasher,
    L: LockKind,
    P: Padding,
{
    /// Calls `f(i, value)` once for each of `keys`, `i` being its position, with one lock per shard touched.
    ///
    /// The keys are collected and hashed first, without a lock, and sorted by shard; `f` runs under the lock of the
    /// key's shard, shard after shard. All answers from one shard belong to one moment. O(keys + shards), and two
    /// words of memory per key.
    pub fn get_batch_with<'k, Q, I, F>(&self, keys: I, mut f: F)
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized + 'k,
        I: IntoIterator<Item = &'k Q>,
        F: FnMut(usize, Option<&V>),
    {
        let plan = self.plan(keys);
        let _held = self.held();
        for number in 0.. {
            let Some((shard, positions)) = plan.group(number) else {
                break;
            };
            plan.answer(self.shard(shard), positions, &mut f);
        }
    }

    /// Clones of the values for `keys`, in the order asked, with one lock per shard touched.
    ///
    /// As [`get_batch_with`](Self::get_batch_with) with a closure that clones.
    pub fn get_batch<'k, Q, I>(&self, keys: I) -> Vec<Option<V>>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized + 'k,
        I: IntoIterator<Item = &'k Q>,
        V: Clone,
    {
        self.answers(&self.plan(keys))
    }

    /// As [`get_batch`](Self::get_batch), the shards touched being shared out among the available processors.
    ///
    /// Worth it from several thousand keys on: threads are started for this call, and none for a batch that would give
    /// each less than about a thousand keys.
    pub fn get_batch_parallel<'k, Q, I>(&self, keys: I) -> Vec<Option<V>>
    where
        Self: Sync,
        K: Borrow<Q>,
        Q: Hash + Eq + Sync + ?Sized + 'k,
        I: IntoIterator<Item = &'k Q>,
        V: Clone + Send,
    {
        let threads = thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let plan = self.plan(keys);
        let threads = threads.min(plan.keys.len() / KEYS_PER_THREAD);
        self.answers_by(&plan, threads)
    }

    /// As [`get_batch_parallel`](Self::get_batch_parallel) with exactly `threads` threads, this one included, however
    /// few the keys; 0 counts as 1.
    ///
    /// # Panics
    ///
    /// Panics of `Eq` and `Clone` reach the caller after all threads have ended.
    pub fn get_batch_with_threads<'k, Q, I>(&self, threads: usize, keys: I) -> Vec<Option<V>>
    where
        Self: Sync,
        K: Borrow<Q>,
        Q: Hash + Eq + Sync + ?Sized + 'k,
        I: IntoIterator<Item = &'k Q>,
        V: Clone + Send,
    {
        self.answers_by(&self.plan(keys), threads)
    }

    fn plan<'k, Q, I>(&self, keys: I) -> Plan<'k, Q>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized + 'k,
        I: IntoIterator<Item = &'k Q>,
    {
        let keys = keys
            .into_iter()
            .map(|key| Wanted {
                hash: self.hasher().hash_one(key),
                key,
            })
            .collect();
        Plan::new(keys, self.shards(), |hash| self.index_of(hash))
    }

    fn answers<Q>(&self, plan: &Plan<'_, Q>) -> Vec<Option<V>>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
        V: Clone,
    {
        let mut answers = vec_of_none(plan.keys.len());
        let _held = self.held();
        for number in 0.. {
            let Some((shard, positions)) = plan.group(number) else {
                break;
            };
            plan.answer(
                self.shard(shard),
                positions,
                &mut |position, value: Option<&V>| {
                    answers[position] = value.cloned();
                },
            );
        }
        answers
    }

    fn answers_by<Q>(&self, plan: &Plan<'_, Q>, threads: usize) -> Vec<Option<V>>
    where
        Self: Sync,
        K: Borrow<Q>,
        Q: Hash + Eq + Sync + ?Sized,
        V: Clone + Send,
    {
        if threads <= 1 {
            return self.answers(plan);
        }
        // The guard of this thread is asked before others are started: they would wait for a lock that it holds.
        drop(self.held());
        // Which group is next. Relaxed: the counter hands out numbers and publishes nothing.
        let next = AtomicUsize::new(0);
        let work = || {
            let mut found = Vec::with_capacity(plan.keys.len() / threads);
            let _held = self.held();
            while let Some((shard, positions)) = plan.group(next.fetch_add(1, Ordering::Relaxed)) {
                plan.answer(
                    self.shard(shard),
                    positions,
                    &mut |position, value: Option<&V>| {
                        found.push((position, value.cloned()));
                    },
                );
            }
            found
        };
        let mut answers = vec_of_none(plan.keys.len());
        thread::scope(|scope| {
            let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
            let mut put = |found: Vec<_>| {
                found
                    .into_iter()
                    .for_each(|(position, value)| answers[position] = value)
            };
            put(work());
            for other in others {
                put(other.join().unwrap_or_else(|panic| resume_unwind(panic)));
            }
        });
        answers
    }
}

fn vec_of_none<V>(len: usize) -> Vec<Option<V>> {
    let mut answers = Vec::with_capacity(len);
    answers.resize_with(len, || None);
    answers
}
