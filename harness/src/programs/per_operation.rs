//! Single operations on one thread, for the Criterion benches: what one call costs when nobody else calls.

use std::hint::black_box;
use std::time::{Duration, Instant};

use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;
use rand::seq::SliceRandom;

use crate::keys::{Key, Keys, Value};
use crate::subject::{Family, Subject};
use crate::workload::{Dist, Sampler, Stream, stream_length};

/// Which call is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PerOperation {
    /// A read of a key that is there.
    GetHit,
    /// A read of a key that is not there.
    GetMiss,
    /// A write of a key that is not there.
    InsertNew,
    /// A write of a key that is there.
    Overwrite,
    /// A removal of a key that is there.
    Remove,
}

impl PerOperation {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::GetHit,
        Self::GetMiss,
        Self::InsertNew,
        Self::Overwrite,
        Self::Remove,
    ];

    /// The name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::GetHit => "get-hit",
            Self::GetMiss => "get-miss",
            Self::InsertNew => "insert-new",
            Self::Overwrite => "overwrite",
            Self::Remove => "remove",
        }
    }
}

/// A prepared map: each call gives the time that so many operations take.
pub type Prepared = Box<dyn FnMut(u64) -> Duration>;

/// Fills a map of `size` entries on which `operation` can be timed, keys drawn uniformly.
///
/// `keys` holds at least twice as many keys as `size`: the first half is in the map, the other half is not. Inserted
/// keys are removed (and removed keys put back) outside the clock, an eighth of the map at a time, so that the size
/// stays near `size`.
///
/// # Panics
///
/// Where there are too few keys; the returned closure, where the map gives a wrong answer.
#[must_use]
pub fn run<F: Family>(operation: PerOperation, size: usize, keys: &Keys) -> Prepared {
    let (old, new): (Value, Value) = ("old", "new");
    assert!(
        size > 0 && keys.len() >= 2 * size,
        "{} keys for a map of {size}",
        keys.len()
    );
    let map = F::filled(keys.first(size).iter().map(|key| (key, old)));
    let offset = match operation {
        PerOperation::GetMiss | PerOperation::InsertNew => size,
        _ => 0,
    };
    match operation {
        PerOperation::GetHit | PerOperation::GetMiss => {
            let drawn = drawn(size, offset, keys);
            Box::new(move |iterations| {
                let mut hits = 0_u64;
                let time = timed(iterations, &drawn, |key| {
                    hits += u64::from(map.read(&key, |v| v.len()).is_some())
                });
                let expected = if operation == PerOperation::GetHit {
                    iterations
                } else {
                    0
                };
                assert!(
                    hits == expected || !F::Map::<Key, Value>::STORES,
                    "{hits} hits instead of {expected}"
                );
                time
            })
        }
        PerOperation::Overwrite => {
            let drawn = drawn(size, offset, keys);
            Box::new(move |iterations| {
                let time = timed(iterations, &drawn, |key| map.write(key, new));
                assert_eq!(map.count(), size, "wrong length");
                time
            })
        }
        PerOperation::InsertNew | PerOperation::Remove => {
            // Each key once, in an order that is not theirs in memory.
            let mut some: Vec<Key> = keys.iter().skip(offset).take(size).collect();
            some.shuffle(&mut Xoshiro256PlusPlus::seed_from_u64(2));
            some.truncate((size / 8).max(1));
            Box::new(move |iterations| {
                let (mut left, mut time) = (iterations, Duration::ZERO);
                while left > 0 {
                    let now = usize::try_from(left).unwrap_or(usize::MAX).min(some.len());
                    if operation == PerOperation::InsertNew {
                        time += timed(now as u64, &some, |key| map.write(key, new));
                        some[..now].iter().for_each(|key| map.erase(key));
                    } else {
                        time += timed(now as u64, &some, |key| map.erase(&key));
                        some[..now].iter().for_each(|key| map.write(key, old));
                    }
                    left -= now as u64;
                }
                assert_eq!(map.count(), size, "wrong length");
                time
            })
        }
    }
}

/// Keys drawn uniformly from the `size` keys that begin at `offset`.
fn drawn(size: usize, offset: usize, keys: &Keys) -> Vec<Key> {
    let stream = Stream::draw(
        &Sampler::new(Dist::Uniform, size, 1),
        stream_length(size),
        1,
        0,
    );
    stream
        .ops()
        .iter()
        .map(|op| keys.get(op.index() + offset))
        .collect()
}

/// Calls `f` for `iterations` keys, round and round, and returns the time.
fn timed(iterations: u64, keys: &[Key], mut f: impl FnMut(Key)) -> Duration {
    let mut left = iterations;
    let start = Instant::now();
    while left > 0 {
        let now = usize::try_from(left).unwrap_or(usize::MAX).min(keys.len());
        for key in &keys[..now] {
            f(black_box(*key));
        }
        left -= now as u64;
    }
    start.elapsed()
}
