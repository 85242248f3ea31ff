//! The core grid: distribution x mix x threads (phases A, B and C). One call measures one contender in one round.

use std::collections::HashSet;
use std::io;
use std::time::Duration;

use cache_api::Cache;
use rand::RngExt;
use rand::seq::SliceRandom;

use crate::drive::{self, Done, Length, Work};
use crate::family::{Family, hasher};
use crate::output::{self, Sample};
use crate::workload::{self, DISTS, Dist, KeyDraw, MIXES, Mix, Op};
use crate::{facts, registry};

/// Writes in every sample of phase C, at least.
pub const WRITES: usize = 20;

/// A phase of the sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Phase {
    /// One letter.
    pub name: &'static str,
    /// What it measures.
    pub what: &'static str,
    /// Its axes.
    pub axes: &'static str,
    /// Whether the program can measure it already.
    pub measured: bool,
}

/// All phases, in the order in which a sweep runs them.
pub const PHASES: [Phase; 5] = [
    Phase {
        name: "A",
        what: "core grid: all designs and peers whose writes are cheap",
        axes: "dist uniform, zipf x mix r100, r90, r50, r10 x threads",
        measured: true,
    },
    Phase {
        name: "B",
        what: "core grid, reads of the designs that copy the whole map to write",
        axes: "dist uniform, zipf x mix r100 x threads",
        measured: true,
    },
    Phase {
        name: "C",
        what: "core grid, writes of those designs: a fixed number of operations with at least 20 writes",
        axes: "dist uniform, zipf x mix r90, r50, r10 x threads",
        measured: true,
    },
    Phase {
        name: "D",
        what: "adversarial placement: working sets that all fall into 1 or 8 shards of one router (not yet measured)",
        axes: "attack x mix x threads",
        measured: false,
    },
    Phase {
        name: "E",
        what: "value sizes: distinct values, a fresh allocation per write, reads touch every line (not yet measured)",
        axes: "size x mix x threads",
        measured: false,
    },
];

/// What a process is asked to measure.
#[derive(Clone, Debug)]
pub struct Job {
    /// The registry's name of the contender.
    pub design: String,
    /// The letter of the phase.
    pub phase: String,
    /// The round, from 1.
    pub round: u32,
    /// All randomness comes from it.
    pub seed: u64,
    /// Number of keys.
    pub keys: usize,
    /// Characters in a key.
    pub key_length: usize,
    /// Bytes in a value.
    pub value_size: usize,
    /// Thread counts.
    pub threads: Vec<usize>,
    /// How long each cell runs.
    pub length: Length,
    /// Cores to pin to, in order; empty: none.
    pub pin: Vec<usize>,
    /// Only these rows; empty: all.
    pub only: HashSet<String>,
    /// Not these rows.
    pub skip: HashSet<String>,
}

/// One row of the core grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// How keys are chosen.
    pub dist: Dist,
    /// The share of reads.
    pub mix: Mix,
    /// Number of threads.
    pub threads: usize,
}

impl Cell {
    /// The row's name.
    #[must_use]
    pub fn name(&self, design: &str) -> String {
        let Self { dist, mix, threads } = self;
        let base = format!("Cache/impl={design}/dist={dist}/mix={mix}");
        if *threads == 1 {
            base
        } else {
            format!("{base}-{threads}")
        }
    }
}

impl Job {
    /// The rows that this job measures, in the order of the axes.
    #[must_use]
    pub fn cells(&self) -> Vec<Cell> {
        let mut cells = Vec::new();
        for &threads in &self.threads {
            for dist in DISTS {
                for mix in MIXES {
                    let wanted = match self.phase.as_str() {
                        "B" => mix.reads == 100,
                        "C" => mix.reads != 100,
                        _ => true,
                    };
                    let cell = Cell { dist, mix, threads };
                    let name = cell.name(&self.design);
                    let chosen = self.only.is_empty() || self.only.contains(&name);
                    if wanted && chosen && !self.skip.contains(&name) {
                        cells.push(cell);
                    }
                }
            }
        }
        cells
    }

    /// Whether a contender of this job copies the whole map to write.
    fn copies(&self) -> bool {
        self.phase == "C"
    }

    /// Milliseconds that a sample of the cell will take, roughly: the clock, and what lies around it.
    #[must_use]
    pub fn estimate_ms(&self, cell: &Cell) -> f64 {
        let keys = self.keys as f64;
        // Measured on a two-core virtual machine, in nanoseconds per key: filling a map and drawing streams, shared
        // by the cells of the process; checking each cell.
        let prefill = keys * 500e-6 / self.cells().len().max(1) as f64;
        let check = keys.min(CHECKED as f64) * 300e-6 + keys * 20e-6;
        let streams = self.stream_length() as f64 * cell.threads as f64 * 20e-6;
        let timed = if self.copies() {
            // Copying a map of small entries.
            WRITES as f64 * keys * 60e-6
        } else {
            match self.length {
                Length::Time(time) => time.as_secs_f64() * 1e3 * 1.125,
                Length::Operations(n) => n as f64 * 300e-6,
                Length::StreamOnce => 0.0,
            }
        };
        prefill + check + streams + timed
    }

    /// Operations in a thread's stream: no more than the cell can use.
    fn stream_length(&self) -> usize {
        match self.length {
            // At most one operation every five nanoseconds and thread.
            Length::Time(time) => {
                let most = usize::try_from(time.as_nanos() / 5).unwrap_or(usize::MAX);
                most.clamp(1024, workload::STREAM)
            }
            Length::Operations(n) => usize::try_from(n).map_or(workload::STREAM, |n| n.clamp(1, workload::STREAM)),
            Length::StreamOnce => 1,
        }
    }
}

/// Keys that are looked up after each cell, at most; the last cell of a process is checked entirely.
const CHECKED: usize = 20_000;

/// Measures one contender whose map can be shared between threads. Returns whether all cells went well.
///
/// # Errors
///
/// When standard output is closed.
pub fn run<F: Family>(job: &Job) -> io::Result<bool>
where
    F::Map<&'static str, &'static str>: Sync,
{
    run_with::<F>(job, drive::drive)
}

/// Measures one contender whose map cannot be shared; cells with several threads are skipped by the caller.
///
/// # Errors
///
/// When standard output is closed.
pub fn run_alone<F: Family>(job: &Job) -> io::Result<bool> {
    run_with::<F>(job, drive::drive_alone)
}

fn run_with<F: Family>(
    job: &Job,
    drive: impl Fn(&F::Map<&'static str, &'static str>, &Work<'_>) -> Result<Done, String>,
) -> io::Result<bool> {
    let mut cells = job.cells();
    // Each round has its own order, the same for all contenders: no cell always follows the same one.
    cells.shuffle(&mut workload::generator(job.seed, 1 << 40));
    let keys = workload::keys(job.keys, job.key_length);
    let ranks = workload::ranks(job.keys, job.seed);
    let first = workload::value(0, job.value_size);
    let built = drive::caught(|| {
        let map = F::build(job.keys, hasher());
        F::load(&map, keys.iter().map(|key| (*key, first)));
        map
    });
    let map = match built {
        Ok(map) => map,
        Err(reason) => {
            for cell in &cells {
                output::failed(&cell.name(&job.design), job.round, &format!("filling it {reason}"))?;
            }
            return Ok(false);
        }
    };
    // What each key's value must be: the number of the cell that wrote it last.
    let mut model = vec![0_u16; job.keys];
    let mut values = vec![first];
    let mut well = true;
    for (number, cell) in cells.iter().enumerate() {
        let name = cell.name(&job.design);
        let value = workload::value(number + 1, job.value_size);
        values.push(value);
        let draw = KeyDraw::new(cell.dist, &ranks);
        let streams: Vec<Vec<Op>> = (0..cell.threads)
            .map(|thread| {
                let purpose = (cell.mix.reads as u64) << 32 | (cell.dist as u64) << 16 | thread as u64;
                let rng = workload::generator(job.seed, purpose);
                if job.copies() {
                    workload::exact_stream(&draw, cell.mix, WRITES.div_ceil(cell.threads), rng)
                } else {
                    workload::stream(&draw, cell.mix, job.stream_length(), rng)
                }
            })
            .collect();
        let work = Work {
            keys: &keys,
            value,
            streams: &streams,
            pin: &job.pin,
            length: if job.copies() { Length::StreamOnce } else { job.length },
        };
        let steal = facts::steal_ticks();
        let outcome = drive(&map, &work);
        let steal = facts::steal_ticks().saturating_sub(steal);
        let checked = outcome.and_then(|done| {
            let reads = record(&mut model, &streams, &done.taken, number as u16 + 1);
            let expected = reads * job.value_size as u64;
            if done.sum != expected {
                return Err(format!(
                    "wrong answer: reads returned {} bytes, not {expected}",
                    done.sum
                ));
            }
            let all = number + 1 == cells.len();
            let check = || check(&map, &keys, &model, &values, all, job.seed);
            drive::caught(check).and_then(|verdict| verdict)?;
            Ok((done, expected))
        });
        match checked {
            Ok((done, expected)) => output::sample(&Sample {
                cell: &name,
                part: &job.phase,
                round: job.round,
                done: &done,
                steal_ticks: steal,
                expected,
                more: &[],
            })?,
            Err(reason) => {
                well = false;
                output::failed(&name, job.round, &reason)?;
            }
        }
    }
    // Dropping a large map may take long, and is no part of any figure; a panic in it would be.
    if let Err(reason) = drive::caught(move || drop(map)) {
        well = false;
        output::put(&format!("# drop of {}: {reason}", job.design))?;
    }
    Ok(well)
}

/// Notes what the threads wrote; returns how many operations were reads.
fn record(model: &mut [u16], streams: &[Vec<Op>], taken: &[u64], number: u16) -> u64 {
    let mut reads = 0;
    for (ops, &taken) in streams.iter().zip(taken) {
        let length = ops.len() as u64;
        let reads_in = |ops: &[Op]| ops.iter().filter(|op| !op.is_write()).count() as u64;
        let rest = &ops[..(taken % length) as usize];
        reads += taken / length * reads_in(ops) + reads_in(rest);
        let once = if taken >= length { &ops[..] } else { rest };
        for op in once {
            if op.is_write() {
                model[op.key()] = number;
            }
        }
    }
    reads
}

/// Compares the map's content with the model.
fn check<C>(
    map: &C,
    keys: &[&'static str],
    model: &[u16],
    values: &[&'static str],
    all: bool,
    seed: u64,
) -> Result<(), String>
where
    C: Cache<&'static str, &'static str>,
{
    let len = map.len();
    if len != keys.len() {
        return Err(format!("wrong answer: len is {len}, not {}", keys.len()));
    }
    let look = |index: usize| {
        let expected = values[usize::from(model[index])];
        match map.get_with(keys[index], |value: &&'static str| *value) {
            Some(found) if found == expected => Ok(()),
            Some(found) => Err(format!(
                "wrong answer: key {} has the value {found:.20}…, not {expected:.20}…",
                keys[index]
            )),
            None => Err(format!("wrong answer: key {} is missing", keys[index])),
        }
    };
    if all || keys.len() <= CHECKED {
        (0..keys.len()).try_for_each(look)
    } else {
        let mut rng = workload::generator(seed, 2 << 40);
        (0..CHECKED).try_for_each(|_| look(rng.random_range(0..keys.len())))
    }
}

/// Checks the numbers of a job against each other, before anything runs.
///
/// # Errors
///
/// What does not fit, in one line.
pub fn validate(job: &Job) -> Result<(), String> {
    if job.keys == 0 {
        return Err("--keys must be at least 1".to_owned());
    }
    if job.keys > Op::MAX_KEYS {
        return Err(format!("--keys {} is more than {}", job.keys, Op::MAX_KEYS));
    }
    if job.key_length == 0 || job.key_length > 4096 {
        return Err(format!("--key-length must lie between 1 and 4096, not {}", job.key_length));
    }
    if let Some(limit) = 10_u64.checked_pow(job.key_length as u32)
        && job.keys as u64 > limit
    {
        return Err(format!(
            "--keys {} does not fit keys of {} digits, which number {limit}; raise --key-length",
            job.keys, job.key_length
        ));
    }
    // The check after each cell tells values apart by their text.
    if job.value_size < 4 || job.value_size > 1 << 20 {
        return Err(format!("--value-size must lie between 4 and 1048576, not {}", job.value_size));
    }
    if job.threads.is_empty() || job.threads.contains(&0) {
        return Err("--threads needs numbers of 1 or more, such as 1,2".to_owned());
    }
    if let Some(most) = job.threads.iter().find(|&&threads| threads > 4096) {
        return Err(format!("--threads {most} is more than 4096"));
    }
    if let Length::Time(Duration::ZERO) | Length::Operations(0) = job.length {
        return Err("--benchtime must be more than nothing, such as 200ms or 5000x".to_owned());
    }
    let Some(phase) = PHASES.iter().find(|phase| phase.name == job.phase) else {
        let known: Vec<_> = PHASES.iter().map(|phase| phase.name).collect();
        return Err(format!("unknown phase '{}'; there are {}", job.phase, known.join(", ")));
    };
    if !phase.measured {
        return Err(format!("phase {} is not yet measured", phase.name));
    }
    let entry = registry::find(&job.design)?;
    if !entry.phases.contains(&job.phase.as_str()) {
        return Err(format!(
            "design '{}' does not belong to phase {}; it belongs to {}",
            job.design,
            job.phase,
            if entry.phases.is_empty() { "none".to_owned() } else { entry.phases.join(", ") }
        ));
    }
    Ok(())
}
