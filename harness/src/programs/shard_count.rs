//! The number of shards: one lock, or thousands? The designs that stripe their locks, with as many shards as each
//! cell says. Everything but the number of shards is the core grid's.

use std::time::Duration;

use super::{Bench, Benchtime, Sample, grid};
use crate::keys::{Key, Value};
use crate::subject::Subject;
use crate::timing::Length;
use crate::workload::{Dist, Mix};

/// The numbers of shards that are measured.
pub const SHARDS: [usize; 6] = [1, 16, 64, 256, 1024, 4096];

/// The longest sample. Cells are many and each fills a map of its own, so a longer one would cost minutes; a million
/// operations of a few dozen nanoseconds fit, and the noise is that of the rounds.
pub const LONGEST_SAMPLE: Duration = Duration::from_millis(40);

/// A design that is made with a number of shards of the caller's choice.
pub trait Striped: 'static {
    /// Its map.
    type Map: Subject<Key, Value> + Sync;

    /// A map of `shards` shards, sized for `entries` and filled with them.
    fn filled(shards: usize, entries: impl ExactSizeIterator<Item = (Key, Value)>) -> Self::Map;

    /// The shards that a map has.
    fn shards(map: &Self::Map) -> usize;
}

/// One cell of the experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShardCount {
    /// How many shards.
    pub shards: usize,
    /// The share of reads.
    pub mix: Mix,
    /// How many threads.
    pub threads: usize,
}

/// Makes a map of `shards` shards, and makes sure that it has them.
///
/// # Errors
///
/// Where the design settled for another number, as one line.
pub(super) fn striped<D: Striped>(
    shards: usize,
    entries: impl ExactSizeIterator<Item = (Key, Value)>,
) -> Result<D::Map, String> {
    let map = D::filled(shards, entries);
    let has = D::shards(&map);
    if has == shards {
        Ok(map)
    } else {
        Err(format!("wrong map: {has} shards instead of {shards}"))
    }
}

/// How long a cell of `threads` threads runs.
pub(crate) fn length(benchtime: Benchtime, threads: usize) -> Length {
    match benchtime {
        Benchtime::Time(time) => Length::Time(time.min(LONGEST_SAMPLE)),
        Benchtime::Ops(ops) => Length::OpsPerThread(ops.div_ceil(threads as u64).max(1)),
    }
}

/// Measures and verifies one cell.
///
/// # Errors
///
/// A panic of the design, another number of shards, or a wrong answer, as one line.
pub fn run<D: Striped>(cell: &ShardCount, bench: &Bench) -> Result<Sample, String> {
    let (keys, values) = (&bench.keys, &bench.values);
    let map = striped::<D>(cell.shards, keys.iter().map(|key| (key, values.old)))?;
    let streams = bench.streams(Dist::Uniform, cell.mix, cell.threads);
    let length = length(bench.benchtime, cell.threads);
    grid::measure_and_verify_on(&map, keys, &streams, length, &bench.pins, values)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::floor::Noop;
    use crate::keys::Keys;

    /// Has one shard whatever it is asked for.
    struct Stubborn;

    impl Striped for Stubborn {
        type Map = Noop<Value>;

        fn filled(_: usize, entries: impl ExactSizeIterator<Item = (Key, Value)>) -> Self::Map {
            Noop::filled(entries)
        }

        fn shards(_: &Self::Map) -> usize {
            1
        }
    }

    #[test]
    fn a_map_with_another_number_of_shards_is_not_measured() {
        let bench = Bench::new(Keys::new(100, 16), 8, 1, Vec::new(), Benchtime::Ops(100), 1);
        let cell = |shards| ShardCount {
            shards,
            mix: Mix { reads: 50 },
            threads: 1,
        };
        assert!(run::<Stubborn>(&cell(1), &bench).is_ok());
        let error = run::<Stubborn>(&cell(256), &bench).unwrap_err();
        assert_eq!(error, "wrong map: 1 shards instead of 256");
    }

    #[test]
    fn samples_are_short_and_counts_are_kept() {
        let second = Benchtime::Time(Duration::from_secs(1));
        assert_eq!(length(second, 2), Length::Time(LONGEST_SAMPLE));
        let short = Benchtime::Time(Duration::from_millis(1));
        assert_eq!(length(short, 2), Length::Time(Duration::from_millis(1)));
        assert_eq!(length(Benchtime::Ops(5), 2), Length::OpsPerThread(3));
    }
}
