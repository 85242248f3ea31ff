//! Many reads in one call, grouped by shard so that each lock is taken once; it never holds two locks at a time.

use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash};
use std::iter;
use std::mem;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use cache_table::{LockKind, PROBES_AHEAD, Wanted, hash_keys};

use crate::broken::broken;
use crate::cache::StripedCache;
use crate::padding::Padding;

/// Below this many keys per thread, starting the thread costs more than it saves.
const KEYS_PER_THREAD: usize = 1024;

/// How many keys a thread of a parallel batch takes at a time, to the end of a shard's group: enough for prefetching to
/// get under way, and few enough that no thread is left with much more than another.
pub(crate) const KEYS_PER_TURN: usize = 256;

/// The keys of a batch, and the order in which they are looked up.
pub(crate) struct Plan<'k, Q: ?Sized> {
    /// In the order asked.
    pub(crate) keys: Vec<Wanted<'k, Q>>,
    /// Positions in `keys`, sorted by shard and, within a shard, in the order asked.
    pub(crate) order: Vec<usize>,
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
    /// key's shard, shard after shard. All answers from one shard belong to one moment, and those from different shards
    /// to different ones. While one key is looked up, the memory is asked for what the next dozen will touch, so that
    /// cache misses overlap. O(keys + shards), or O(keys log keys) for much fewer keys than shards; three words of
    /// memory per key, and one per shard.
    pub fn get_batch_with<'k, Q, I, F>(&self, keys: I, mut f: F)
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized + 'k,
        I: IntoIterator<Item = &'k Q>,
        F: FnMut(usize, Option<&V>),
    {
        let plan = self.plan::<Q, I, true>(keys);
        let _held = self.held();
        self.answer::<Q, _, true>(&plan, 0..plan.order.len(), &mut f);
    }

    /// As [`get_batch_with`](Self::get_batch_with), without asking the memory early: for measuring what that is worth.
    #[doc(hidden)]
    pub fn get_batch_serial_with<'k, Q, I, F>(&self, keys: I, mut f: F)
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized + 'k,
        I: IntoIterator<Item = &'k Q>,
        F: FnMut(usize, Option<&V>),
    {
        let plan = self.plan::<Q, I, false>(keys);
        let _held = self.held();
        self.answer::<Q, _, false>(&plan, 0..plan.order.len(), &mut f);
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
        self.answers(&self.plan::<Q, I, true>(keys))
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
        let plan = self.plan::<Q, I, true>(keys);
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
        self.answers_by(&self.plan::<Q, I, true>(keys), threads)
    }

    /// Hashes the keys and sorts them by shard.
    pub(crate) fn plan<'k, Q, I, const PREFETCH: bool>(&self, keys: I) -> Plan<'k, Q>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized + 'k,
        I: IntoIterator<Item = &'k Q>,
    {
        let keys = keys.into_iter();
        let mut wanted = Vec::with_capacity(keys.size_hint().0);
        wanted.extend(keys.map(Wanted::new));
        if wanted.len() < self.shards() / 8 {
            // Too few to pay for a counter per shard.
            hash_keys::<Q, S, PREFETCH>(&mut wanted, self.hasher(), |_| {});
            let mut order: Vec<usize> = (0..wanted.len()).collect();
            // Stable, so that the order asked remains within a shard.
            order.sort_by_key(|&position| self.index_of(wanted[position].hash));
            return Plan {
                keys: wanted,
                order,
            };
        }
        // A counting sort. First pass, while hashing: how many keys each shard gets.
        let mut starts = vec![0; self.shards()];
        hash_keys::<Q, S, PREFETCH>(&mut wanted, self.hasher(), |hash| {
            starts[self.index_of(hash)] += 1;
        });
        let mut end = 0;
        for start in &mut starts {
            end += mem::replace(start, end);
        }
        // Second pass: each key to the next place of its shard.
        let mut order = vec![0; wanted.len()];
        for (position, key) in wanted.iter().enumerate() {
            let place = &mut starts[self.index_of(key.hash)];
            order[*place] = position;
            *place += 1;
        }
        Plan {
            keys: wanted,
            order,
        }
    }

    /// Looks up what stands at `places` of the plan's order, with one lock per shard touched. The caller holds the
    /// re-entry guard.
    ///
    /// The lines of later lookups are asked for without their shards' locks. A key that equals its predecessor in the
    /// same shard shares its lookup.
    fn answer<Q, F, const PREFETCH: bool>(
        &self,
        plan: &Plan<'_, Q>,
        places: Range<usize>,
        f: &mut F,
    ) where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
        F: FnMut(usize, Option<&V>),
    {
        let order = &plan.order[places];
        let ask = |place: usize| {
            if PREFETCH && let Some(&position) = order.get(place) {
                let hash = plan.keys[position].hash;
                self.shard(self.index_of(hash)).prefetch(hash);
            }
        };
        (0..PROBES_AHEAD).for_each(ask);
        let mut place = 0;
        while let Some(&first) = order.get(place) {
            let index = self.index_of(plan.keys[first].hash);
            let table = self.shard(index).read_held();
            let mut previous: Option<(Wanted<'_, Q>, Option<&V>)> = None;
            while let Some(&position) = order.get(place) {
                let wanted = plan.keys[position];
                if self.index_of(wanted.hash) != index {
                    break;
                }
                ask(place + PROBES_AHEAD);
                let value = match previous {
                    Some((same, value)) if same.hash == wanted.hash && same.key == wanted.key => {
                        if broken("a coalesced key loses its position") {
                            place += 1;
                            continue;
                        }
                        value
                    }
                    _ => table.get(wanted.hash, wanted.key),
                };
                previous = Some((wanted, value));
                let answered = if broken("answers in shard order") {
                    place
                } else {
                    position
                };
                f(answered, value);
                place += 1;
            }
        }
    }

    /// The places of the plan's order that belong to this turn of a parallel batch: about [`KEYS_PER_TURN`], from where
    /// a shard's group begins to where one ends, so that each group belongs to one turn.
    pub(crate) fn turn<Q: ?Sized>(&self, plan: &Plan<'_, Q>, number: usize) -> Range<usize> {
        let shard_at = |place: usize| self.index_of(plan.keys[plan.order[place]].hash);
        let boundary = |place: usize| {
            (place..plan.order.len())
                .find(|&place| {
                    place == 0
                        || shard_at(place - 1) != shard_at(place)
                        || broken("a turn ends inside a shard's group")
                })
                .unwrap_or(plan.order.len())
        };
        let from = number * KEYS_PER_TURN;
        boundary(from)..boundary(from + KEYS_PER_TURN)
    }

    fn answers<Q>(&self, plan: &Plan<'_, Q>) -> Vec<Option<V>>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
        V: Clone,
    {
        let mut answers = vec_of_none(plan.keys.len());
        let _held = self.held();
        self.answer::<Q, _, true>(
            plan,
            0..plan.order.len(),
            &mut |position, value: Option<&V>| {
                answers[position] = value.cloned();
            },
        );
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
        // Which turn is next. Relaxed: the counter hands out numbers and publishes nothing.
        let next = AtomicUsize::new(0);
        let work = || {
            let mut found = Vec::with_capacity(plan.keys.len() / threads);
            let _held = self.held();
            loop {
                let turn = next.fetch_add(1, Ordering::Relaxed);
                if turn * KEYS_PER_TURN >= plan.order.len() {
                    break;
                }
                let places = self.turn(plan, turn);
                self.answer::<Q, _, true>(plan, places, &mut |position, value: Option<&V>| {
                    found.push((position, value.cloned()));
                });
            }
            found
        };
        let mut answers = vec_of_none(plan.keys.len());
        // All are joined before anything is done about a panic, so that none of them works on for nobody.
        let found: Vec<thread::Result<_>> = thread::scope(|scope| {
            let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
            let mine = catch_unwind(AssertUnwindSafe(work));
            iter::once(mine)
                .chain(others.into_iter().map(|other| other.join()))
                .collect()
        });
        for found in found {
            let found = found.unwrap_or_else(|panic| resume_unwind(panic));
            for (position, value) in found {
                answers[position] = value;
            }
        }
        answers
    }
}

fn vec_of_none<V>(len: usize) -> Vec<Option<V>> {
    let mut answers = Vec::with_capacity(len);
    answers.resize_with(len, || None);
    answers
}
