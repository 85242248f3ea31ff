//! What can be done with a design: one program per kind of cell, each compiled for each design by itself. A program
//! builds the map, measures, verifies and drops it; which cells there are is said in [`crate::sweeps`].

mod ablation;
mod adversarial;
mod grid;
mod latency;
mod memory;
mod per_operation;
mod shard_count;
mod study_locks;
mod value_size;
mod zeroing;

pub use ablation::{Ablation, Variant, Work, run as ablation};
pub use adversarial::{
    Adversarial, Attack, ROUTED_KEYS, WORKING_SET, run as adversarial, working_set,
};
pub use grid::{Grid, run as grid, run_alone as grid_alone};
pub use latency::{
    LEAST_TIMED_WRITES, Latency, MOST_TIMED_KEYS, run as latency, run_alone as latency_alone,
};
pub use memory::{
    MOST_CHURNED, MOST_COPIED, Memory, State, run as memory, run_snapshot as memory_snapshot,
};
pub use per_operation::{PerOperation, Prepared, run as per_operation};
pub use shard_count::{LONGEST_SAMPLE, SHARDS, ShardCount, Striped, run as shard_count};
pub use study_locks::{
    READS, SHARDS as STUDY_SHARDS, StudyLocks, THREADS as STUDY_THREADS, run as study_locks,
};
pub use value_size::{MOST_KEYS, SIZES, Sized, ValueSize, run as value_size};
pub use zeroing::{MERGED_KEYS, Merge, PIECES, Place, Zeroing, run as zeroing};

use std::cell::OnceCell;
use std::time::Duration;

use crate::keys::{Keys, Values};
use crate::timing::{Length, Measured};
use crate::workload::{Dist, Mix, Sampler, Stream, stream_length};

/// The most streams that are drawn; more threads begin at other places of these.
const DRAWN_STREAMS: usize = 16;
/// The most operations that the streams of one cell hold together.
const STREAM_BUDGET: usize = 1 << 24;

/// Everything that the cells of one run share, made once: keys, values, and the streams of each distribution.
#[derive(Debug)]
pub struct Bench {
    /// The keys of every map.
    pub keys: Keys,
    /// The values of the core grid.
    pub values: Values,
    /// The seed of this round.
    pub seed: u64,
    /// The cores that threads are pinned to, in order; empty for none.
    pub pins: Vec<usize>,
    /// Time or operations per cell.
    pub benchtime: Benchtime,
    threads: usize,
    uniform: OnceCell<Vec<Stream>>,
    zipf: OnceCell<Vec<Stream>>,
    limited: OnceCell<Box<Bench>>,
}

/// The `--benchtime` of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Benchtime {
    /// `200ms`: each cell runs that long.
    Time(Duration),
    /// `5000x`: each cell runs that many operations, of all threads together.
    Ops(u64),
}

impl Bench {
    /// Prepares for cells of up to `threads` threads.
    #[must_use]
    pub fn new(
        keys: Keys,
        value_size: usize,
        seed: u64,
        pins: Vec<usize>,
        benchtime: Benchtime,
        threads: usize,
    ) -> Self {
        let values = Values::new(value_size);
        Self {
            keys,
            values,
            seed,
            pins,
            benchtime,
            threads,
            uniform: OnceCell::new(),
            zipf: OnceCell::new(),
            limited: OnceCell::new(),
        }
    }

    /// The streams of `threads` threads for a cell; drawn once per distribution, mixed for each cell.
    ///
    /// Beyond 16 threads, streams begin at other places of the same 16 draws, and get shorter so that all of them
    /// together stay within 64 MiB.
    #[must_use]
    pub fn streams(&self, dist: Dist, mix: Mix, threads: usize) -> Vec<Stream> {
        let length = stream_length(self.keys.len())
            .min(STREAM_BUDGET / threads.max(1))
            .max(1 << 10);
        let mixed = |thread: usize| {
            self.plain_part(dist, thread, length)
                .mixed(mix, self.seed, thread)
        };
        (0..threads).map(mixed).collect()
    }

    /// As [`streams`](Bench::streams), of `length` operations each, of which exactly `writes` are writes.
    #[must_use]
    pub fn exact_streams(
        &self,
        dist: Dist,
        threads: usize,
        length: usize,
        writes: usize,
    ) -> Vec<Stream> {
        let exact = |thread: usize| {
            self.plain_part(dist, thread, length)
                .with_exact_writes(writes, self.seed, thread)
        };
        (0..threads).map(exact).collect()
    }

    /// `length` reads for thread number `thread`.
    fn plain_part(&self, dist: Dist, thread: usize, length: usize) -> Stream {
        let cell = match dist {
            Dist::Uniform => &self.uniform,
            Dist::Zipf => &self.zipf,
        };
        let plain = cell.get_or_init(|| {
            let sampler = Sampler::new(dist, self.keys.len(), self.seed);
            let length = stream_length(self.keys.len());
            let drawn = self.threads.clamp(1, DRAWN_STREAMS);
            (0..drawn)
                .map(|thread| Stream::draw(&sampler, length, self.seed, thread))
                .collect()
        });
        let lap = thread / plain.len();
        // 7,919 is prime: the beginnings never coincide, and are far apart for a cache.
        plain[thread % plain.len()].cut(lap * 7919, length)
    }

    /// The same round over other keys.
    #[must_use]
    pub fn over(&self, keys: Keys) -> Self {
        Self {
            keys,
            pins: self.pins.clone(),
            uniform: OnceCell::new(),
            zipf: OnceCell::new(),
            limited: OnceCell::new(),
            ..*self
        }
    }

    /// The same round over the first `most` keys, or over all of them if they are not more. Made once: a run of one
    /// experiment asks with one number.
    #[must_use]
    pub fn limited(&self, most: usize) -> &Self {
        if self.keys.len() <= most {
            return self;
        }
        let limited = self
            .limited
            .get_or_init(|| Box::new(self.over(self.keys.first(most))));
        debug_assert_eq!(limited.keys.len(), most, "one limit per run");
        limited
    }

    /// How long each thread of a cell of `threads` threads runs.
    #[must_use]
    pub fn length(&self, threads: usize) -> Length {
        match self.benchtime {
            Benchtime::Time(time) => Length::Time(time),
            Benchtime::Ops(ops) => Length::OpsPerThread(ops.div_ceil(threads as u64).max(1)),
        }
    }
}

/// One line of results: the timed part and what was checked of it.
#[derive(Clone, Debug)]
pub struct Sample {
    /// What was measured.
    pub measured: Measured,
    /// Values of further units, in the order of printing.
    pub extra: Vec<(f64, &'static str)>,
    /// Side data beyond that of every sample, each an object and the word for its comment line.
    pub notes: Vec<(&'static str, serde_json::Value)>,
}
