//! Adversarial placement: what is left of a partitioned design when all keys that are asked for share few partitions?
//! Each attack aims at one design's router; the others show whether it hits them too, and the control whether the
//! size of the working set alone explains it.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{Bench, Sample, grid};
use crate::keys::{Key, Keys, Value, Values};
use crate::subject::Family;
use crate::workload::{Dist, Mix};

/// The keys of every working set, attacked or not.
pub const WORKING_SET: usize = 2_048;

/// How many keys are searched for the working sets: more than 2,048 for each of 256 partitions.
pub const ROUTED_KEYS: usize = 3 << 18;

/// Which keys a cell works on.
#[derive(Clone, Copy, Debug)]
pub enum Attack {
    /// The first keys, wherever they fall: the control.
    Spread,
    /// Keys that one router sends to few partitions.
    Router {
        /// The router's name: that of its design.
        name: &'static str,
        /// The partition of each of these keys.
        partitions_of: fn(&[Key]) -> Vec<usize>,
        /// How many partitions take all keys.
        targets: usize,
    },
}

impl Attack {
    /// The name in reports: `none`, or the router and the number of partitions.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::Spread => "none".to_owned(),
            Self::Router { name, targets, .. } => format!("{name}-{targets}"),
        }
    }
}

/// One cell of the adversarial phase.
#[derive(Clone, Copy, Debug)]
pub struct Adversarial {
    /// Which keys.
    pub attack: Attack,
    /// The share of reads.
    pub mix: Mix,
    /// How many threads.
    pub threads: usize,
}

/// The working set of `attack`: [`WORKING_SET`] keys of `length` characters, found by search and checked.
///
/// # Errors
///
/// Where there are not enough keys of that length, or too few fall where they should, as one line.
pub fn working_set(attack: &Attack, length: usize) -> Result<Keys, String> {
    let searched = usize::try_from(Keys::most(length))
        .unwrap_or(usize::MAX)
        .min(ROUTED_KEYS);
    if searched < WORKING_SET {
        return Err(format!(
            "keys of {length} characters make no working set of {WORKING_SET}"
        ));
    }
    let Attack::Router {
        name,
        partitions_of,
        targets,
    } = attack
    else {
        return Ok(Keys::new(WORKING_SET, length));
    };
    if let Some(found) = found(name, *targets, length) {
        return Ok(found);
    }
    // A piece at a time: most attacks need only a part of the keys that could be searched.
    let pool = pool(searched, length);
    let mut chosen: Vec<Key> = Vec::with_capacity(WORKING_SET);
    for from in (0..searched).step_by(PIECE) {
        let piece: Vec<Key> = (from..searched.min(from + PIECE))
            .map(|index| pool.get(index))
            .collect();
        let hit = |(key, partition): (&Key, usize)| (partition < *targets).then_some(*key);
        chosen.extend(piece.iter().zip(partitions_of(&piece)).filter_map(hit));
        if chosen.len() >= WORKING_SET {
            break;
        }
    }
    let chosen = chosen.get(..WORKING_SET).ok_or_else(|| {
        format!(
            "only {} of {searched} keys fall into {targets} partitions of {name}",
            chosen.len()
        )
    })?;
    // The self-check asks the router again, about what is measured and nothing else.
    if let Some(stray) = partitions_of(chosen)
        .iter()
        .find(|partition| *partition >= targets)
    {
        return Err(format!(
            "a key of the working set for {targets} partitions of {name} falls into {stray}"
        ));
    }
    let keys = Keys::of(chosen);
    locked(&FOUND).push((name, *targets, length, keys));
    Ok(keys)
}

/// Keys that are looked at in one go.
const PIECE: usize = 1 << 16;

/// The working sets found by this process: each is wanted by several cells.
static FOUND: Mutex<Vec<(&str, usize, usize, Keys)>> = Mutex::new(Vec::new());

/// The working set for `targets` partitions of that router with keys of that length, if it was searched before.
fn found(name: &str, targets: usize, length: usize) -> Option<Keys> {
    let found = locked(&FOUND);
    let mut same = found
        .iter()
        .filter(|set| (set.0, set.1, set.2) == (name, targets, length));
    same.next().map(|set| set.3)
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The keys searched; made once per process and length, since their memory is never given back.
fn pool(count: usize, length: usize) -> Keys {
    static POOLS: Mutex<Vec<(usize, Keys)>> = Mutex::new(Vec::new());
    let mut pools = locked(&POOLS);
    if let Some((_, keys)) = pools.iter().find(|(of, _)| *of == length) {
        return *keys;
    }
    let keys = Keys::new(count, length);
    pools.push((length, keys));
    keys
}

/// Measures and verifies one cell.
///
/// # Errors
///
/// A panic of the design, a wrong answer, or an attack that misses, as one line.
pub fn run<F: Family>(cell: &Adversarial, bench: &Bench) -> Result<Sample, String>
where
    F::Map<Key, Value>: Sync,
{
    let length = bench.keys.get(0).len();
    let bench = bench.over(working_set(&cell.attack, length)?);
    let streams = bench.streams(Dist::Uniform, cell.mix, cell.threads);
    let timed = bench.length(cell.threads);
    grid::measure_and_verify::<F, Values>(&bench.keys, &streams, timed, &bench.pins, &bench.values)
}
