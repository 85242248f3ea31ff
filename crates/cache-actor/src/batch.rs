//! Many reads in one call: keys are grouped by shard, each group is one message, all owners work at once.
//! Keys are never moved or copied.

use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash};
use std::ops::Range;

use cache_api::{Consistency, GetBatch};

use crate::map::Map;
use crate::owner::Owner;
use crate::rendezvous::Task;
use crate::routing::Routing;
use crate::shard::Shard;

/// A batch, grouped: `order` lists the positions of `keys` shard by shard, and in the order asked within a shard.
struct Plan<'k, Q: ?Sized> {
    keys: Vec<&'k Q>,
    hashes: Vec<u64>,
    order: Vec<usize>,
    /// Each shard touched, and its part of `order`; in ascending order of the shards.
    groups: Vec<(usize, Range<usize>)>,
}

impl<'k, Q: Hash + Eq + ?Sized> Plan<'k, Q> {
    fn new(keys: Vec<&'k Q>, hash_of: impl Fn(&Q) -> u64, routing: Routing) -> Self {
        let hashes: Vec<u64> = keys.iter().map(|key| hash_of(key)).collect();
        let shard_at = |position: usize| routing.shard_of(hashes[position]);
        let mut order: Vec<usize>;
        if hashes.len() < routing.shards() / 8 {
            // Too few keys to pay for a counter per shard.
            order = (0..hashes.len()).collect();
            order.sort_by_key(|position| shard_at(*position));
        } else {
            // A counting sort: count, then place. Stable, so that equal keys keep their order.
            let mut next = vec![0; routing.shards() + 1];
            for position in 0..hashes.len() {
                next[shard_at(position) + 1] += 1;
            }
            for shard in 1..next.len() {
                next[shard] += next[shard - 1];
            }
            order = vec![0; hashes.len()];
            for position in 0..hashes.len() {
                let place = &mut next[shard_at(position)];
                order[*place] = position;
                *place += 1;
            }
        }
        let mut groups = Vec::new();
        let mut end = 0;
        for group in order.chunk_by(|a, b| shard_at(*a) == shard_at(*b)) {
            let start = end;
            end += group.len();
            groups.push((shard_at(group[0]), start..end));
        }
        Self {
            keys,
            hashes,
            order,
            groups,
        }
    }

    /// Looks up the positions `group` of `order` in `shard`; calls `f` with the index within `order`.
    ///
    /// A key that equals its predecessor in the group shares its lookup.
    fn look_up<K, V>(
        &self,
        shard: &Shard<K, V>,
        group: Range<usize>,
        mut f: impl FnMut(usize, Option<&V>),
    ) where
        K: Borrow<Q>,
    {
        let mut previous: Option<(usize, Option<&V>)> = None;
        for index in group {
            let position = self.order[index];
            let (hash, key) = (self.hashes[position], self.keys[position]);
            let value = match previous {
                Some((before, value))
                    if self.hashes[before] == hash && self.keys[before] == key =>
                {
                    // The lookup is shared, but its answer is given once.
                    mutant!(CoalescingLosesPosition => { continue; });
                    value
                }
                _ => shard.get(hash, key),
            };
            previous = Some((position, value));
            f(index, value);
        }
    }
}

/// [`get_batch`](GetBatch::get_batch) sends one message per shard touched, awaits all, and so uses all owners at once.
///
/// [`get_batch_with`](GetBatch::get_batch_with) may not run its one closure on two owners at a time: it sends one
/// message per owner touched, one after another.
///
/// All occurrences of a key travel in one message, and so get one answer.
impl<K, V, S> GetBatch<K, V> for Map<K, V, S>
where
    K: Hash + Eq + Send + 'static,
    V: Send + 'static,
    S: BuildHasher,
{
    const CONSISTENCY: Consistency = Consistency::PerShard;

    fn get_batch_with<'k, Q, I, F>(&self, keys: I, mut f: F)
    where
        K: Borrow<Q>,
        Q: Hash + Eq + Sync + ?Sized + 'k,
        I: IntoIterator<Item = &'k Q>,
        F: FnMut(usize, Option<&V>) + Send,
    {
        let routing = self.routing();
        let plan = Plan::new(keys.into_iter().collect(), |key| self.hash_of(key), routing);
        let owner_of = |group: &(usize, Range<usize>)| routing.owner_of_shard(group.0);
        for groups in plan.groups.chunk_by(|a, b| owner_of(a) == owner_of(b)) {
            self.ask(owner_of(&groups[0]), |owner| {
                for (shard, group) in groups {
                    let shard = owner.shard(*shard);
                    plan.look_up(shard, group.clone(), |index, value| {
                        f(plan.order[index], value)
                    });
                }
            });
        }
    }

    fn get_batch<'k, Q, I>(&self, keys: I) -> Vec<Option<V>>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + Sync + ?Sized + 'k,
        I: IntoIterator<Item = &'k Q>,
        V: Clone + Send,
    {
        let routing = self.routing();
        let plan = Plan::new(keys.into_iter().collect(), |key| self.hash_of(key), routing);
        let empty =
            |len: usize| -> Vec<Option<V>> { std::iter::repeat_with(|| None).take(len).collect() };
        // In the order of the groups, so that each owner writes into a slice of its own.
        let mut found = empty(plan.keys.len());
        let mut rest = found.as_mut_slice();
        let mut tasks = Vec::with_capacity(plan.groups.len());
        for (shard, group) in &plan.groups {
            let (answers, others) = rest.split_at_mut(group.len());
            rest = others;
            let plan = &plan;
            tasks.push(Task::new(move |owner: &mut Owner<K, V>| {
                plan.look_up(owner.shard(*shard), group.clone(), |index, value| {
                    answers[index - group.start] = value.cloned();
                });
            }));
        }
        self.ask_all(&mut tasks, |position| {
            routing.owner_of_shard(plan.groups[position].0)
        });
        for task in tasks {
            task.into_answer();
        }
        mutant!(BatchInShardOrder => { return found; });
        let mut answers = empty(plan.keys.len());
        for (answer, position) in found.into_iter().zip(&plan.order) {
            answers[*position] = answer;
        }
        answers
    }
}
