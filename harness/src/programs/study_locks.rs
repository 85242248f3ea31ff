//! The published table of four lock designs (`go-sharded-locks`), measured again: one mutex, one read-write lock, and
//! 64 shards of either, on keys and operations as that program has them.
//!
//! What is the same: keys `key-0`, `key-1`, … whose headers are loaded from a list, values of seven bytes, all keys
//! stored before the clock starts, keys drawn uniformly, each operation a read with the given probability, a fixed
//! number of operations (8,000,000 for 1,000,000 keys) split evenly among the threads, and the line of figures.
//! What is not: operations are drawn before the clock starts, where the published program draws them inside it and
//! pays some nanoseconds for each; and threads are pinned to the cores there are, where it lets the scheduler use as
//! many cores as it has goroutines.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use super::shard_count::{Striped, striped};
use super::{Bench, Benchtime, Sample, grid};
use crate::keys::{KeySet, NumberedKeys, Values};
use crate::timing::Length;
use crate::workload::{Dist, Mix, Sampler, Stream};

/// The shards of the two designs that have more than one.
pub const SHARDS: usize = 64;

/// The shares of reads.
pub const READS: [u32; 4] = [100, 90, 50, 10];

/// The numbers of threads.
pub const THREADS: [usize; 4] = [1, 2, 4, 8];

/// Operations of all threads together, for each key of the map: eight million for a million keys.
const OPS_PER_KEY: u64 = 8;

/// What the map is filled with, and what is written.
const VALUES: Values = Values {
    old: "initial",
    new: "updated",
};

/// One cell of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StudyLocks {
    /// The kind of lock, as the published program names it.
    pub lock: &'static str,
    /// How many shards.
    pub shards: usize,
    /// The share of reads.
    pub mix: Mix,
    /// How many threads.
    pub threads: usize,
}

impl StudyLocks {
    /// How many operations each thread runs.
    #[must_use]
    pub fn ops_per_thread(&self, keys: usize, benchtime: Benchtime) -> usize {
        let all = match benchtime {
            Benchtime::Time(_) => OPS_PER_KEY.saturating_mul(keys as u64),
            Benchtime::Ops(ops) => ops,
        };
        usize::try_from(all / self.threads as u64)
            .unwrap_or(usize::MAX)
            .max(1)
    }

    /// What the published program prints for a cell that took so long: lock, shards, per cent of reads, threads, time.
    pub fn csv(&self, ns_per_op: f64) -> impl fmt::Display + use<> {
        let Self {
            lock,
            shards,
            mix,
            threads,
        } = *self;
        format!("{lock},{shards},{},{threads},{ns_per_op:.1}", mix.reads)
    }

    /// The operations of each thread.
    fn streams(&self, keys: usize, ops: usize, seed: u64) -> Vec<Stream> {
        let sampler = Sampler::new(Dist::Uniform, keys, seed);
        let stream =
            |thread| Stream::draw(&sampler, ops, seed, thread).mixed(self.mix, seed, thread);
        (0..self.threads).map(stream).collect()
    }
}

/// The keys of the table; made once per process and count, since their memory is never given back.
fn keys(count: usize) -> NumberedKeys {
    static MADE: Mutex<Vec<NumberedKeys>> = Mutex::new(Vec::new());
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(keys) = made.iter().find(|keys| keys.count() == count) {
        return *keys;
    }
    let keys = NumberedKeys::new(count);
    made.push(keys);
    keys
}

/// Measures and verifies one cell.
///
/// # Errors
///
/// A panic of the design, another number of shards, or a wrong answer, as one line.
pub fn run<D: Striped>(cell: &StudyLocks, bench: &Bench) -> Result<Sample, String> {
    let keys = keys(bench.keys.len());
    let ops = cell.ops_per_thread(keys.count(), bench.benchtime);
    let streams = cell.streams(keys.count(), ops, bench.seed);
    let filled = (0..keys.count()).map(|index| (keys.key(index), VALUES.old));
    let map = striped::<D>(cell.shards, filled)?;
    let length = Length::OpsPerThread(ops as u64);
    grid::measure_and_verify_on(&map, &keys, &streams, length, &bench.pins, &VALUES)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const CELL: StudyLocks = StudyLocks {
        lock: "mutex",
        shards: SHARDS,
        mix: Mix { reads: 50 },
        threads: 8,
    };

    #[test]
    fn eight_million_operations_for_a_million_keys() {
        let time = Benchtime::Time(Duration::from_millis(200));
        assert_eq!(CELL.ops_per_thread(1_000_000, time), 1_000_000);
        let alone = StudyLocks { threads: 1, ..CELL };
        assert_eq!(alone.ops_per_thread(1_000_000, time), 8_000_000);
        assert_eq!(alone.ops_per_thread(10, Benchtime::Ops(500)), 500);
        assert_eq!(CELL.ops_per_thread(10, Benchtime::Ops(1)), 1);
    }

    #[test]
    fn a_line_is_the_published_programs() {
        assert_eq!(CELL.csv(40.7501).to_string(), "mutex,64,50,8,40.8");
        let one = StudyLocks { shards: 1, ..CELL };
        assert_eq!(one.csv(346.1).to_string(), "mutex,1,50,8,346.1");
    }

    #[test]
    fn keys_are_named_and_numbered() {
        let keys = keys(1_000_000);
        assert_eq!(keys.count(), 1_000_000);
        assert_eq!((keys.key(0), keys.key(999_999)), ("key-0", "key-999999"));
        assert_eq!(
            VALUES.old.len(),
            VALUES.new.len(),
            "every read touches as much"
        );
    }

    #[test]
    fn threads_read_and_write_in_their_shares_over_all_keys() {
        for reads in READS {
            let cell = StudyLocks {
                mix: Mix { reads },
                threads: 4,
                ..CELL
            };
            let streams = cell.streams(1000, 50_000, 7);
            assert_eq!(streams.len(), 4);
            for (thread, stream) in streams.iter().enumerate() {
                assert_eq!(stream.ops().len(), 50_000);
                let writes = stream.ops().iter().filter(|op| op.is_write()).count() as f64;
                let share = writes / 50_000.0;
                // Six standard deviations of the largest variance that a share of 50,000 draws can have.
                assert!(
                    (share - cell.mix.write_share()).abs() < 0.0135,
                    "{reads} % reads, thread {thread}: {share} writes"
                );
                let mut seen = vec![0_u32; 1000];
                stream.ops().iter().for_each(|op| seen[op.index()] += 1);
                // 50 each, give or take 7: nobody is left out, nobody is hot.
                assert!(seen.iter().all(|&count| (10..110).contains(&count)));
            }
            assert_ne!(streams[0].ops(), streams[1].ops());
        }
    }
}
