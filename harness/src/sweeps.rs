//! Which cells there are: phases and experiments as data. Nothing here builds or times a map.

use std::time::Duration;

use crate::alloc::{self, Backend};
use crate::machine;
use crate::programs::{
    self, Ablation, Adversarial, Attack, BATCH_KEYS, BATCH_SIZES, Batch, Bench, Benchtime, Grid,
    LONGEST_SAMPLE, Latency, MERGED_KEYS, MOST_KEYS, MOST_TIMED_KEYS, Memory, Merge, PIECES, Place,
    READS, ROUTED_KEYS, SHARDS, SIZES, STUDY_THREADS, Sample, ShardCount, State, StudyLocks,
    ValueSize, Work, Zeroing,
};
use crate::registry::{
    self, BATCHES, Class, Design, Kind, MERGED_INTO, Program, ROUTERS, Router, StripedRow,
    VARIANTS, WIDTHS, ZEROING,
};
use crate::workload::{Dist, Mix};

/// The cells of a design for these numbers of threads; none where it takes no part.
pub type CellsOf = fn(&Design, &[usize]) -> Vec<Cell>;

/// One phase of the sweep, or one named experiment.
#[derive(Clone, Copy, Debug)]
pub struct Sweep {
    /// `A` to `E`, or the experiment's name.
    pub name: &'static str,
    /// What it asks.
    pub what: &'static str,
    /// What varies.
    pub axes: &'static str,
    /// The cells of a design; `None` where they cannot be measured yet. A design that takes no part has none.
    pub cells: Option<CellsOf>,
}

/// One thing to measure, and the name of its line.
#[derive(Clone, Debug)]
pub struct Cell {
    /// The benchmark's name without `Benchmark`: `Cache/impl=…/dist=…/mix=…`, and `-T` for T threads above one.
    pub name: String,
    /// What is done.
    pub job: Job,
}

/// What a cell does.
#[derive(Clone, Copy, Debug)]
pub enum Job {
    /// A cell of the core grid.
    Grid(Grid),
    /// A cell of the `ablation` experiment.
    Ablation(Ablation),
    /// A cell of the adversarial phase.
    Adversarial(Adversarial),
    /// A cell of the `latency` experiment.
    Latency(Latency),
    /// A cell of the `memory` experiment.
    Memory(Memory),
    /// A cell of the value-size phase.
    ValueSize(ValueSize),
    /// A cell of the `zeroing` experiment.
    Zeroing(Zeroing),
    /// A cell of the experiment with numbers of shards.
    ShardCount(ShardCount),
    /// A cell of the published table of lock designs.
    StudyLocks(StudyLocks),
    /// A cell of the core grid for a trie of another width.
    TrieWidth(Grid, Program<Grid>),
    /// A cell of the batch experiment.
    Batch(Batch),
}

impl Job {
    /// Measures and verifies.
    ///
    /// # Errors
    ///
    /// A panic of the design, a wrong answer, or another allocator than the cell needs, as one line.
    pub fn run(&self, design: &Design, bench: &Bench) -> Result<Sample, String> {
        if let Some(needed) = self.allocator()
            && needed != alloc::backend()
        {
            return Err(format!(
                "measured under --allocator {} alone",
                needed.name()
            ));
        }
        match self {
            Self::Grid(cell) => (design.programs.grid)(cell, bench),
            Self::TrieWidth(cell, program) => program(cell, bench),
            Self::Ablation(cell) => programs::ablation(cell, bench),
            Self::Adversarial(cell) => design.programs.adversarial.ok_or(ALONE)?(cell, bench),
            Self::Latency(cell) => (design.programs.latency)(cell, bench),
            Self::Memory(cell) if cell.state == State::Snapshot => {
                design.programs.snapshot.ok_or("it has no views")?(cell, bench)
            }
            Self::Memory(cell) => (design.programs.memory)(cell, bench),
            Self::ValueSize(cell) => design.programs.value_size.ok_or(ALONE)?(cell, bench),
            Self::Zeroing(cell) => ZEROING(cell, bench),
            Self::ShardCount(cell) => (registry::striped(design.name)
                .ok_or(ONE_PARTITION)?
                .shard_count)(cell, bench),
            Self::StudyLocks(cell) => (registry::striped(design.name)
                .ok_or(ONE_PARTITION)?
                .study_locks)(cell, bench),
            Self::Batch(cell) => (cell.program)(cell, bench),
        }
    }

    /// The allocator that the cell needs, where it is part of the question.
    #[must_use]
    pub const fn allocator(&self) -> Option<Backend> {
        match self {
            Self::Ablation(cell) => cell.variant.allocator,
            Self::Zeroing(cell) => Some(cell.allocator),
            _ => None,
        }
    }

    /// The cell's own line of figures, where it has a published one to stand beside.
    #[must_use]
    pub fn csv(&self, ns_per_op: f64) -> Option<String> {
        match self {
            Self::StudyLocks(cell) => Some(cell.csv(ns_per_op).to_string()),
            _ => None,
        }
    }

    /// How many threads the cell needs.
    #[must_use]
    pub const fn threads(&self) -> usize {
        match self {
            Self::Grid(cell) | Self::TrieWidth(cell, _) => cell.threads,
            Self::Ablation(cell) => cell.threads,
            Self::Adversarial(cell) => cell.threads,
            Self::Latency(cell) => cell.threads,
            Self::Memory(_) => 1,
            Self::ValueSize(cell) => cell.threads,
            Self::Zeroing(cell) => cell.threads,
            Self::ShardCount(cell) => cell.threads,
            Self::StudyLocks(cell) => cell.threads,
            Self::Batch(cell) => cell.callers,
        }
    }

    /// Whether a short sweep of up to `most` threads has time for the cell: of the adversarial and the value-size
    /// phase those that show most, the highest number of threads, all keys in one partition, and the sizes below 4 KiB.
    #[must_use]
    pub const fn is_brief(&self, most: usize) -> bool {
        match self {
            Self::Adversarial(cell) => {
                let narrow = match cell.attack {
                    Attack::Spread => true,
                    Attack::Router { targets, .. } => targets == 1,
                };
                narrow && cell.threads == most
            }
            Self::ValueSize(cell) => cell.size <= 1024 && cell.size != 64 && cell.threads == most,
            _ => true,
        }
    }

    /// About how long the cell takes, all included.
    #[must_use]
    pub fn estimate(&self, keys: usize, benchtime: Benchtime) -> Duration {
        // Filling, dropping and checking a map: about a quarter of a microsecond per key.
        let around =
            |keys: usize| Duration::from_nanos(250 * keys as u64) + Duration::from_millis(5);
        let timed = |benchtime| match benchtime {
            Benchtime::Time(time) => time + time / 8,
            Benchtime::Ops(ops) => Duration::from_nanos(u64::saturating_mul(ops, 300)),
        };
        let whole = timed(benchtime);
        match self {
            Self::Grid(cell) if cell.least_writes > 0 => {
                let (_, writes) = cell.fixed(benchtime);
                // A copied entry costs about 15 ns.
                around(keys) + Duration::from_nanos((writes * cell.threads * keys) as u64 * 15)
            }
            Self::Grid(_) | Self::TrieWidth(..) => around(keys) + whole,
            Self::Ablation(cell) => match cell.variant.work {
                Work::Grid(_) => around(keys) + whole,
                Work::Values(size, _) => {
                    let keys = keys.min(MOST_KEYS);
                    around(keys) + Duration::from_nanos((keys * size) as u64) + whole
                }
            },
            // The search for a working set costs about 40 ns per key looked at, once for a dozen cells or so.
            Self::Adversarial(_) => {
                let search = Duration::from_nanos(4 * ROUTED_KEYS as u64);
                search + Duration::from_millis(1) + whole
            }
            Self::Latency(cell) => {
                let grid = cell.grid();
                let keys = keys.min(MOST_TIMED_KEYS);
                if grid.least_writes > 0 {
                    return Self::Grid(grid).estimate(keys, benchtime);
                }
                around(keys) + timed(Latency::share(benchtime))
            }
            // A change of a full map costs about 1.2 us on average over the designs; one that copies it, 15 ns per entry.
            Self::Memory(cell) => {
                let (held, changes) = (cell.keys(keys), cell.changes(keys));
                let each = if cell.copying { held * 15 } else { 1_200 };
                around(held) + Duration::from_nanos((changes * each) as u64)
            }
            // Each value is allocated, written, read again and freed: about 1 ns per byte.
            Self::ValueSize(cell) => {
                let keys = keys.min(MOST_KEYS);
                around(keys) + Duration::from_nanos((keys * cell.size) as u64) + whole
            }
            // The values there at the beginning, and those compared at the end.
            Self::Zeroing(_) => {
                let bytes = MERGED_KEYS * PIECES.iter().sum::<usize>();
                Duration::from_nanos(bytes as u64) + whole
            }
            Self::ShardCount(_) => {
                let capped = match benchtime {
                    Benchtime::Time(time) => Benchtime::Time(time.min(LONGEST_SAMPLE)),
                    Benchtime::Ops(_) => benchtime,
                };
                Duration::from_nanos(SHARDED_NS_PER_KEY * keys as u64) + timed(capped)
            }
            Self::StudyLocks(cell) => {
                let ops = (cell.ops_per_thread(keys, benchtime) * cell.threads) as u64;
                around(keys) + Duration::from_nanos(ops * STUDY_NS_PER_OP)
            }
            // As many keys whatever the flags say, at about 200 ns each with drawing and checking.
            Self::Batch(_) => around(keys) + Duration::from_nanos(200 * BATCH_KEYS as u64),
        }
    }
}

/// What a cell's share of filling a striped map costs per key, with drawing the cell's operations and checking them.
const SHARDED_NS_PER_KEY: u64 = 70;

/// What an operation of the table of lock designs costs, the drawing before it included.
const STUDY_NS_PER_OP: u64 = 300;

/// Why a design takes no part where the number of shards is chosen.
const ONE_PARTITION: &str = "this map has no shards to choose";

/// Why a design takes no part in cells of several threads.
const ALONE: &str = "this map cannot be shared by threads";

/// The five phases, in the order in which a sweep runs them.
pub const PHASES: &[Sweep] = &[
    Sweep {
        name: "A",
        what: "the core grid: all designs but those that copy the map to write, and all peers",
        axes: "dist uniform, zipf (s = 1.1) x mix r100, r90, r50, r10 x threads",
        cells: Some(phase_a),
    },
    Sweep {
        name: "B",
        what: "the core grid's reads for designs that copy the map to write",
        axes: "dist uniform, zipf x mix r100 x threads",
        cells: Some(phase_b),
    },
    Sweep {
        name: "C",
        what: "the core grid's writes for those designs: few operations, at least 20 writes in every sample",
        axes: "dist uniform, zipf x mix r90, r50, r10 x threads",
        cells: Some(phase_c),
    },
    Sweep {
        name: "D",
        what: "adversarial placement: working sets of 2,048 keys in 1 or 8 partitions of a router, and a control",
        axes: "attack none, ROUTER-1, ROUTER-8 x mix r100, r10 x threads, and four threads per core",
        cells: Some(phase_d),
    },
    Sweep {
        name: "E",
        what: "value size: distinct values, a fresh allocation per write, reads touch every cache line",
        axes: "size 16, 64, 256, 1024, 4096 B x mix r100, r10 x threads; uniform, 100,000 keys at most",
        cells: Some(phase_e),
    },
];

/// The named experiments.
pub const EXPERIMENTS: &[Sweep] = &[
    Sweep {
        name: "ablation",
        what: "one decision of the sharded design at a time, taken back: what each is worth",
        axes: "what padding, unlock, unlock-large, bits, hasher, allocator x its variants x mix r100, r10; uniform, \
               the most threads",
        cells: Some(ablation),
    },
    Sweep {
        name: "latency",
        what: "the tail: every operation timed, percentiles, and what the clock itself costs",
        axes: "mix r100, r90, r10 x the fewest and the most threads; zipf, 250,000 keys at most",
        cells: Some(latency),
    },
    Sweep {
        name: "memory",
        what: "bytes: of a full map, of what a view keeps alive while it is overwritten, of an emptied map",
        axes: "state filled, snapshot, emptied; one thread; 250,000 keys at most where entries change",
        cells: Some(memory),
    },
    Sweep {
        name: "sequential",
        what: "one thread, with the unsynchronised baseline: what synchronisation costs when nobody contends",
        axes: "dist uniform, zipf x mix r100, r90, r50, r10",
        cells: Some(sequential),
    },
    Sweep {
        name: "oversubscribe",
        what: "many more threads than cores: who still makes progress, and at what price",
        axes: "threads 8, 64, 256, 1024 x mix r100, r90, r10; zipf",
        cells: Some(oversubscribe),
    },
    Sweep {
        name: "batch",
        what: "many reads in one call, in each way the designs have, against single reads: time per key",
        axes: "mode loop, serial, prefetch, parallel, actor, snapshot x size 16 to 65,536 x callers 1, 2; uniform",
        cells: Some(batch),
    },
    Sweep {
        name: "shard-count",
        what: "how many shards are enough: from one lock to thousands, for the designs that stripe their locks",
        axes: "shards 1, 16, 64, 256, 1024, 4096 x mix r100, r90, r50, r10 x fewest and most threads; uniform",
        cells: Some(shard_count),
    },
    Sweep {
        name: "study-locks",
        what: "the published table of four lock designs: 64 shards, keys key-0 to key-999999, 8,000,000 operations",
        axes: "reads 100, 90, 50, 10 % x threads 1, 2, 4, 8; uniform; eight operations per key in all",
        cells: Some(study_locks),
    },
    Sweep {
        name: "trie-width",
        what: "how many children a node of the persistent trie should have",
        axes: "width 8, 16, 32, 64 x mix r100, r90, r50, r10 x fewest and most threads; uniform",
        cells: Some(trie_width),
    },
    Sweep {
        name: "zeroing",
        what: "three slices merged into fresh memory or into zeroed memory, alone and as the value of an insertion",
        axes: "impl extend, zeroed x where alone, insert x allocator mimalloc, system x threads; 128 results are kept",
        cells: Some(zeroing),
    },
];

/// The phase or experiment of that name.
#[must_use]
pub fn find<'a>(table: &'a [Sweep], name: &str) -> Option<&'a Sweep> {
    table
        .iter()
        .find(|sweep| sweep.name.eq_ignore_ascii_case(name))
}

/// The suffix that benchmark names carry for more than one thread.
fn suffix(threads: usize) -> String {
    if threads == 1 {
        String::new()
    } else {
        format!("-{threads}")
    }
}

/// The cells of the core grid with these mixes.
fn grid(
    base: &str,
    design: &Design,
    mixes: &[Mix],
    threads: &[usize],
    least_writes: u64,
) -> Vec<Cell> {
    let mut cells = Vec::new();
    for dist in Dist::ALL {
        for &mix in mixes {
            for &threads in threads {
                let name = format!(
                    "{base}/impl={}/dist={}/mix={}{}",
                    design.name,
                    dist.name(),
                    mix.name(),
                    suffix(threads)
                );
                cells.push(Cell {
                    name,
                    job: Job::Grid(Grid {
                        dist,
                        mix,
                        threads,
                        least_writes,
                    }),
                });
            }
        }
    }
    cells
}

/// See [`PHASES`].
fn phase_a(design: &Design, threads: &[usize]) -> Vec<Cell> {
    match design.class {
        Class::Grid => grid("Cache", design, &Mix::ALL, threads, 0),
        Class::Copying | Class::Alone => Vec::new(),
    }
}

/// See [`PHASES`].
fn phase_b(design: &Design, threads: &[usize]) -> Vec<Cell> {
    match design.class {
        Class::Copying => grid("Cache", design, &Mix::ALL[..1], threads, 0),
        Class::Grid | Class::Alone => Vec::new(),
    }
}

/// The writes that a sample of phase C holds at least.
const LEAST_WRITES: u64 = 20;

/// See [`PHASES`].
fn phase_c(design: &Design, threads: &[usize]) -> Vec<Cell> {
    match design.class {
        Class::Copying => grid("Cache", design, &Mix::ALL[1..], threads, LEAST_WRITES),
        Class::Grid | Class::Alone => Vec::new(),
    }
}

/// See [`PHASES`].
fn phase_d(design: &Design, threads: &[usize]) -> Vec<Cell> {
    if design.programs.adversarial.is_none() {
        return Vec::new();
    }
    let mut attacks = vec![Attack::Spread];
    for &Router {
        name,
        partitions_of,
    } in ROUTERS
    {
        attacks.extend([1, 8].map(|targets| Attack::Router {
            name,
            partitions_of,
            targets,
        }));
    }
    let crowd = 4 * machine::cores();
    let crowd = (!threads.contains(&crowd)).then_some(crowd);
    let mut cells = Vec::new();
    for attack in attacks {
        for &mix in ends(design) {
            for threads in threads.iter().copied().chain(crowd) {
                let (of, attacked, mixed) = (design.name, attack.name(), mix.name());
                let name = format!(
                    "Adversarial/impl={of}/attack={attacked}/mix={mixed}{}",
                    suffix(threads)
                );
                cells.push(Cell {
                    name,
                    job: Job::Adversarial(Adversarial {
                        attack,
                        mix,
                        threads,
                    }),
                });
            }
        }
    }
    cells
}

/// See [`PHASES`].
fn phase_e(design: &Design, threads: &[usize]) -> Vec<Cell> {
    if design.programs.value_size.is_none() {
        return Vec::new();
    }
    let mut cells = Vec::new();
    for size in SIZES {
        for &mix in ends(design) {
            for &threads in threads {
                let name = format!(
                    "ValueSize/impl={}/size={size}/mix={}{}",
                    design.name,
                    mix.name(),
                    suffix(threads)
                );
                cells.push(Cell {
                    name,
                    job: Job::ValueSize(ValueSize { size, mix, threads }),
                });
            }
        }
    }
    cells
}

/// Read-only and write-heavy; only the first for designs whose writes copy the map.
fn ends(design: &Design) -> &'static [Mix] {
    const ENDS: [Mix; 2] = [Mix { reads: 100 }, Mix { reads: 10 }];
    if design.class == Class::Copying {
        &ENDS[..1]
    } else {
        &ENDS
    }
}

/// The fewest and the most of these numbers of threads.
fn extremes(threads: &[usize]) -> Vec<usize> {
    let (least, most) = (threads.iter().min(), threads.iter().max());
    let mut extremes: Vec<usize> = least.into_iter().chain(most).copied().collect();
    extremes.dedup();
    extremes
}

/// See [`EXPERIMENTS`].
fn ablation(design: &Design, threads: &[usize]) -> Vec<Cell> {
    let threads = threads.iter().copied().max().unwrap_or(1);
    let mut cells = Vec::new();
    for variant in VARIANTS.iter().filter(|variant| variant.of == design.name) {
        for reads in [100, 10] {
            let mix = Mix { reads };
            let name = format!(
                "Ablation/impl={}/what={}/variant={}/mix={}{}",
                design.name,
                variant.what,
                variant.name,
                mix.name(),
                suffix(threads)
            );
            cells.push(Cell {
                name,
                job: Job::Ablation(Ablation {
                    variant,
                    mix,
                    threads,
                }),
            });
        }
    }
    cells
}

/// See [`EXPERIMENTS`].
fn trie_width(design: &Design, threads: &[usize]) -> Vec<Cell> {
    if design.name != WIDE {
        return Vec::new();
    }
    let mut cells = Vec::new();
    for (width, program) in WIDTHS {
        for mix in Mix::ALL {
            for threads in extremes(threads) {
                let (mixed, most) = (mix.name(), suffix(threads));
                let grid = Grid {
                    dist: Dist::Uniform,
                    mix,
                    threads,
                    least_writes: 0,
                };
                cells.push(Cell {
                    name: format!("TrieWidth/impl={WIDE}/width={width}/mix={mixed}{most}"),
                    job: Job::TrieWidth(grid, program),
                });
            }
        }
    }
    cells
}

/// The design whose width is a parameter.
const WIDE: &str = "hamt";

/// See [`EXPERIMENTS`].
fn latency(design: &Design, threads: &[usize]) -> Vec<Cell> {
    let mut cells = Vec::new();
    for reads in [100, 90, 10] {
        for threads in extremes(threads) {
            if design.class == Class::Alone && threads > 1 {
                continue;
            }
            let mix = Mix { reads };
            let name = format!(
                "Latency/impl={}/mix={}{}",
                design.name,
                mix.name(),
                suffix(threads)
            );
            cells.push(Cell {
                name,
                job: Job::Latency(Latency {
                    mix,
                    threads,
                    copying: design.class == Class::Copying,
                }),
            });
        }
    }
    cells
}

/// See [`EXPERIMENTS`]. The number of threads asked for does not matter.
fn memory(design: &Design, _: &[usize]) -> Vec<Cell> {
    let states: &[State] = match (design.kind, design.programs.snapshot) {
        (Kind::Floor, _) => &[State::Filled],
        (_, Some(_)) => &[State::Filled, State::Snapshot, State::Emptied],
        (_, None) => &[State::Filled, State::Emptied],
    };
    let cell = |&state: &State| Cell {
        name: format!("Memory/impl={}/state={}", design.name, state.name()),
        job: Job::Memory(Memory {
            state,
            copying: design.class == Class::Copying,
        }),
    };
    states.iter().map(cell).collect()
}

/// See [`EXPERIMENTS`]: the two ways of merging stand where designs stand elsewhere.
fn zeroing(design: &Design, threads: &[usize]) -> Vec<Cell> {
    if design.name != MERGED_INTO {
        return Vec::new();
    }
    let mut cells = Vec::new();
    for place in Place::ALL {
        for allocator in [Backend::Mimalloc, Backend::System] {
            for merge in Merge::ALL {
                for threads in extremes(threads) {
                    let name = format!(
                        "Zeroing/impl={}/where={}/allocator={}{}",
                        merge.name(),
                        place.name(),
                        allocator.name(),
                        suffix(threads)
                    );
                    cells.push(Cell {
                        name,
                        job: Job::Zeroing(Zeroing {
                            merge,
                            place,
                            allocator,
                            threads,
                        }),
                    });
                }
            }
        }
    }
    cells
}

/// See [`EXPERIMENTS`]. The number of threads asked for does not matter.
fn sequential(design: &Design, _: &[usize]) -> Vec<Cell> {
    let mixes = if design.class == Class::Copying {
        &Mix::ALL[..1]
    } else {
        &Mix::ALL[..]
    };
    grid("Sequential", design, mixes, &[1], 0)
}

/// See [`EXPERIMENTS`]. The number of threads asked for does not matter.
fn oversubscribe(design: &Design, _: &[usize]) -> Vec<Cell> {
    if design.class == Class::Alone || design.kind == Kind::Floor {
        return Vec::new();
    }
    let mixes: &[u32] = if design.class == Class::Copying {
        &[100]
    } else {
        &[100, 90, 10]
    };
    let mut cells = Vec::new();
    for &reads in mixes {
        for threads in [8, 64, 256, 1024] {
            let (dist, mix) = (Dist::Zipf, Mix { reads });
            let name = format!(
                "Oversubscribe/impl={}/mix={}-{threads}",
                design.name,
                mix.name()
            );
            cells.push(Cell {
                name,
                job: Job::Grid(Grid {
                    dist,
                    mix,
                    threads,
                    least_writes: 0,
                }),
            });
        }
    }
    cells
}

/// See [`EXPERIMENTS`]. Of the numbers of threads the fewest and the most are measured.
fn shard_count(design: &Design, threads: &[usize]) -> Vec<Cell> {
    let choice = |row: &&StripedRow| row.shards.start() < row.shards.end();
    let Some(striped) = registry::striped(design.name).filter(choice) else {
        return Vec::new();
    };
    let (fewest, most) = (threads.iter().min(), threads.iter().max());
    let ends = fewest
        .into_iter()
        .chain(most.filter(|&most| Some(most) != fewest));
    let mut cells = Vec::new();
    for shards in SHARDS
        .into_iter()
        .filter(|shards| striped.shards.contains(shards))
    {
        for mix in Mix::ALL {
            for &threads in ends.clone() {
                let (of, mixed) = (design.name, mix.name());
                cells.push(Cell {
                    name: format!(
                        "ShardCount/impl={of}/shards={shards}/mix={mixed}{}",
                        suffix(threads)
                    ),
                    job: Job::ShardCount(ShardCount {
                        shards,
                        mix,
                        threads,
                    }),
                });
            }
        }
    }
    cells
}

/// See [`EXPERIMENTS`]. The number of threads asked for does not matter.
fn batch(design: &Design, _: &[usize]) -> Vec<Cell> {
    let mut cells = Vec::new();
    for way in BATCHES.iter().filter(|way| way.design == design.name) {
        for size in BATCH_SIZES {
            for callers in [1, 2] {
                let (of, mode) = (design.name, way.mode);
                cells.push(Cell {
                    name: format!("Batch/impl={of}/mode={mode}/size={size}{}", suffix(callers)),
                    job: Job::Batch(Batch {
                        size,
                        callers,
                        program: way.program,
                    }),
                });
            }
        }
    }
    cells
}

/// See [`EXPERIMENTS`]. The number of threads asked for does not matter.
fn study_locks(design: &Design, _: &[usize]) -> Vec<Cell> {
    let Some(study) = registry::striped(design.name).and_then(|striped| striped.study) else {
        return Vec::new();
    };
    let mut cells = Vec::new();
    for reads in READS {
        for threads in STUDY_THREADS {
            cells.push(Cell {
                name: format!(
                    "StudyLocks/impl={}/reads={reads}{}",
                    design.name,
                    suffix(threads)
                ),
                job: Job::StudyLocks(StudyLocks {
                    lock: study.lock,
                    shards: study.shards,
                    mix: Mix { reads },
                    threads,
                }),
            });
        }
    }
    cells
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::Keys;
    use crate::registry::{REGISTRY, find as design};

    #[test]
    fn every_shared_row_has_the_whole_core_grid_once() {
        for row in REGISTRY.iter().filter(|row| row.class != Class::Alone) {
            let mut names: Vec<String> = PHASES[..3]
                .iter()
                .flat_map(|phase| phase.cells.expect("measured")(row, &[1, 2]))
                .map(|cell| cell.name)
                .collect();
            names.sort();
            names.dedup();
            assert_eq!(names.len(), 2 * 4 * 2, "{}", row.name);
        }
    }

    #[test]
    fn names_are_as_benchstat_reads_them() {
        let cells = phase_a(design("sharded").unwrap(), &[1, 8]);
        assert_eq!(cells[0].name, "Cache/impl=sharded/dist=uniform/mix=r100");
        assert_eq!(cells[1].name, "Cache/impl=sharded/dist=uniform/mix=r100-8");
    }

    #[test]
    fn adversarial_and_value_size_cells_say_what_they_vary() {
        let design = design("sharded").unwrap();
        let names = |cells: Vec<Cell>| cells.into_iter().map(|cell| cell.name).collect::<Vec<_>>();
        let attacks = names(phase_d(design, &[1]));
        assert_eq!(attacks.len(), (1 + 2 * ROUTERS.len()) * 2 * 2);
        assert!(
            attacks.contains(&"Adversarial/impl=sharded/attack=none/mix=r100".to_owned()),
            "{attacks:?}"
        );
        assert!(
            attacks.contains(&"Adversarial/impl=sharded/attack=sharded-8/mix=r10".to_owned()),
            "{attacks:?}"
        );
        let sizes = names(phase_e(design, &[1, 2]));
        assert_eq!(sizes.len(), 5 * 2 * 2);
        assert!(
            sizes.contains(&"ValueSize/impl=sharded/size=4096/mix=r10-2".to_owned()),
            "{sizes:?}"
        );
    }

    #[test]
    fn experiments_name_what_they_vary() {
        let names = |cells: Vec<Cell>| cells.into_iter().map(|cell| cell.name).collect::<Vec<_>>();
        let (sharded, cow) = (design("sharded").unwrap(), design("cow").unwrap());
        let latencies = names(latency(sharded, &[1, 2, 4]));
        assert_eq!(latencies.len(), 3 * 2);
        assert_eq!(latencies[1], "Latency/impl=sharded/mix=r100-4");
        assert_eq!(latency(design("naive").unwrap(), &[1, 2]).len(), 3);
        let states =
            ["filled", "snapshot", "emptied"].map(|state| format!("Memory/impl=cow/state={state}"));
        assert_eq!(names(memory(cow, &[1, 2])), states);
        assert_eq!(memory(sharded, &[1]).len(), 2);
        let ablations = names(ablation(sharded, &[1, 2]));
        assert!(
            ablations
                .contains(&"Ablation/impl=sharded/what=padding/variant=on/mix=r10-2".to_owned()),
            "{ablations:?}"
        );
        assert!(ablation(cow, &[1, 2]).is_empty() && zeroing(cow, &[1, 2]).is_empty());
        let merges = names(zeroing(sharded, &[1, 2]));
        assert_eq!(merges.len(), 2 * 2 * 2 * 2);
        assert!(
            merges.contains(&"Zeroing/impl=zeroed/where=insert/allocator=system-2".to_owned()),
            "{merges:?}"
        );
        let mut all: Vec<String> = [latencies, ablations, merges].concat();
        all.sort();
        let count = all.len();
        all.dedup();
        assert_eq!(all.len(), count, "a name twice");
    }

    #[test]
    fn cells_with_an_allocator_say_which() {
        for cell in [ablation, zeroing]
            .iter()
            .flat_map(|cells| cells(design("sharded").unwrap(), &[1, 2]))
        {
            let named = cell.name.split('/').find_map(|part| {
                let allocator = part
                    .strip_prefix("allocator=")
                    .or_else(|| part.strip_prefix("variant="))?;
                Backend::from_name(allocator.trim_end_matches("-2"))
            });
            assert_eq!(cell.job.allocator(), named, "{}", cell.name);
        }
    }

    #[test]
    fn shard_counts_are_those_that_a_design_can_have() {
        let cells_of = |name: &str| shard_count(design(name).unwrap(), &[1, 2, 4]);
        let names = |name: &str| -> Vec<String> {
            cells_of(name).into_iter().map(|cell| cell.name).collect()
        };
        for name in ["sharded", "sharded-rw"] {
            assert_eq!(names(name).len(), 6 * 4 * 2, "{name}");
        }
        let names = names("sharded");
        assert_eq!(names[0], "ShardCount/impl=sharded/shards=1/mix=r100");
        assert_eq!(
            names.last().unwrap(),
            "ShardCount/impl=sharded/shards=4096/mix=r10-4"
        );
        assert!(names.contains(&"ShardCount/impl=sharded/shards=256/mix=r50-4".to_owned()));
        assert!(
            !names.iter().any(|name| name.ends_with("-2")),
            "only the ends"
        );
        for cell in cells_of("sharded") {
            let Job::ShardCount(job) = cell.job else {
                panic!("{}", cell.name)
            };
            let expected = format!(
                "ShardCount/impl=sharded/shards={}/mix={}{}",
                job.shards,
                job.mix.name(),
                suffix(job.threads)
            );
            assert_eq!(cell.name, expected);
        }
        assert_eq!(shard_count(design("sharded").unwrap(), &[1]).len(), 6 * 4);
        assert!(shard_count(design("hamt").unwrap(), &[1]).is_empty());
        assert!(shard_count(design("mutex").unwrap(), &[1]).is_empty());
        #[cfg(feature = "peers")]
        assert_eq!(
            cells_of("dashmap").len(),
            5 * 4 * 2,
            "it has more than one shard"
        );
    }

    #[test]
    fn the_table_of_lock_designs_is_whole() {
        let mut lines = Vec::new();
        for row in REGISTRY {
            for cell in study_locks(row, &[1]) {
                assert!(
                    cell.name
                        .starts_with(&format!("StudyLocks/impl={}/reads=", row.name))
                );
                lines.push(cell.job.csv(1.0).expect("a line"));
            }
        }
        let mut expected = Vec::new();
        for design in ["mutex,1", "rwlock,1", "mutex,64", "rwlock,64"] {
            for reads in [100, 90, 50, 10] {
                for threads in [1, 2, 4, 8] {
                    expected.push(format!("{design},{reads},{threads},1.0"));
                }
            }
        }
        assert_eq!(lines, expected);
        let cells = study_locks(design("sharded").unwrap(), &[1]);
        assert_eq!(cells[6].name, "StudyLocks/impl=sharded/reads=90-4");
    }

    #[test]
    fn estimates_follow_what_is_done() {
        let cell = |name: &str, of: CellsOf| of(design(name).unwrap(), &[1]).remove(0).job;
        let ms = |millis| Benchtime::Time(Duration::from_millis(millis));
        let shards = cell("sharded", shard_count);
        assert_eq!(
            shards.estimate(1_000_000, ms(40)),
            shards.estimate(1_000_000, ms(5000)),
            "samples have a longest time"
        );
        assert!(shards.estimate(1000, ms(5)) < shards.estimate(1000, ms(40)));
        let table = cell("sharded", study_locks);
        assert_eq!(
            table.estimate(1_000_000, ms(1)),
            table.estimate(1_000_000, ms(500)),
            "the number of operations is fixed"
        );
        assert!(table.estimate(1_000_000, ms(1)) > 5 * table.estimate(100_000, ms(1)));
    }

    #[test]
    fn a_short_sweep_keeps_the_grid_and_a_part_of_the_placements_and_sizes() {
        let design = design("sharded").unwrap();
        let brief = |cells: Vec<Cell>| {
            let kept = cells.iter().filter(|cell| cell.job.is_brief(2));
            kept.map(|cell| cell.name.clone()).collect::<Vec<_>>()
        };
        assert_eq!(brief(phase_a(design, &[1, 2])).len(), 16);
        let attacks = brief(phase_d(design, &[1, 2]));
        assert_eq!(attacks.len(), (1 + ROUTERS.len()) * 2, "{attacks:?}");
        assert!(attacks.iter().all(|name| name.ends_with("-2")));
        let sizes = brief(phase_e(design, &[1, 2]));
        assert_eq!(sizes.len(), 3 * 2, "{sizes:?}");
        assert!(!sizes.iter().any(|name| name.contains("size=4096")));
    }

    #[test]
    fn batch_cells_are_each_way_at_each_size() {
        let names = |name: &str| -> Vec<String> {
            let cells = batch(design(name).unwrap(), &[8]);
            cells.into_iter().map(|cell| cell.name).collect()
        };
        let sharded = names("sharded");
        assert_eq!(sharded.len(), 4 * 7 * 2);
        for name in ["mode=prefetch/size=4096", "mode=parallel/size=65536-2"] {
            assert!(
                sharded.contains(&format!("Batch/impl=sharded/{name}")),
                "{sharded:?}"
            );
        }
        assert!(names("noop").is_empty());
        for way in BATCHES {
            assert!(!names(way.design).is_empty(), "{} is no design", way.design);
        }
    }

    #[test]
    fn every_width_of_the_trie_is_a_trie_of_that_width() {
        let cells = trie_width(design("hamt").unwrap(), &[1, 2, 4]);
        assert_eq!(cells.len(), 4 * 4 * 2);
        assert_eq!(cells[1].name, "TrieWidth/impl=hamt/width=8/mix=r100-4");
        assert!(trie_width(design("hamt256").unwrap(), &[1]).is_empty());
        // Copied paths are as long as the widest node is wide: bytes per write tell the widths apart.
        alloc::count_reuse();
        let bench = Bench::new(
            Keys::new(20_000, 16),
            64,
            1,
            Vec::new(),
            Benchtime::Ops(20_000),
            1,
        );
        let bytes_per_write = |width: usize| {
            let name = format!("TrieWidth/impl=hamt/width={width}/mix=r10");
            let cell = cells
                .iter()
                .find(|cell| cell.name == name)
                .expect("planned");
            let sample = cell
                .job
                .run(design("hamt").unwrap(), &bench)
                .expect("measured");
            sample.measured.allocated.allocated as f64 / sample.measured.writes as f64
        };
        let (narrow, wide) = (bytes_per_write(8), bytes_per_write(64));
        assert!(1.5 * narrow < wide, "{narrow} and {wide} bytes per write");
    }

    #[test]
    fn a_sequential_cell_has_one_thread() {
        let cells = sequential(design("naive").unwrap(), &[2]);
        assert_eq!(cells.len(), 8);
        assert!(
            cells
                .iter()
                .all(|cell| matches!(cell.job, Job::Grid(Grid { threads: 1, .. })))
        );
    }
}
