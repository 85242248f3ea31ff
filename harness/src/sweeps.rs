//! Which cells there are: phases and experiments as data. Nothing here builds or times a map.

use std::time::Duration;

use crate::machine;
use crate::programs::{
    Adversarial, Attack, BATCH_KEYS, BATCH_SIZES, Batch, Bench, Benchtime, Grid, MOST_KEYS,
    ROUTED_KEYS, SIZES, Sample, ValueSize,
};
use crate::registry::{BATCHES, Class, Design, Kind, ROUTERS, Router};
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
    /// A cell of the adversarial phase.
    Adversarial(Adversarial),
    /// A cell of the value-size phase.
    ValueSize(ValueSize),
    /// A cell of the batch experiment.
    Batch(Batch),
}

impl Job {
    /// Measures and verifies.
    ///
    /// # Errors
    ///
    /// A panic of the design, or a wrong answer, as one line.
    pub fn run(&self, design: &Design, bench: &Bench) -> Result<Sample, String> {
        match self {
            Self::Grid(cell) => (design.programs.grid)(cell, bench),
            Self::Adversarial(cell) => design.programs.adversarial.ok_or(ALONE)?(cell, bench),
            Self::ValueSize(cell) => design.programs.value_size.ok_or(ALONE)?(cell, bench),
            Self::Batch(cell) => (cell.program)(cell, bench),
        }
    }

    /// How many threads the cell needs.
    #[must_use]
    pub const fn threads(&self) -> usize {
        match self {
            Self::Grid(cell) => cell.threads,
            Self::Adversarial(cell) => cell.threads,
            Self::ValueSize(cell) => cell.threads,
            Self::Batch(cell) => cell.callers,
        }
    }

    /// About how long the cell takes, all included.
    #[must_use]
    pub fn estimate(&self, keys: usize, benchtime: Benchtime) -> Duration {
        // Filling, dropping and checking a map: about a quarter of a microsecond per key.
        let around =
            |keys: usize| Duration::from_nanos(250 * keys as u64) + Duration::from_millis(5);
        let timed = match benchtime {
            Benchtime::Time(time) => time + time / 8,
            Benchtime::Ops(ops) => Duration::from_nanos(ops.saturating_mul(300)),
        };
        match self {
            Self::Grid(cell) if cell.least_writes > 0 => {
                let (_, writes) = cell.fixed(benchtime);
                // A copied entry costs about 15 ns.
                around(keys) + Duration::from_nanos((writes * cell.threads * keys) as u64 * 15)
            }
            Self::Grid(_) => around(keys) + timed,
            // The search for a working set costs about 30 ns per key looked at.
            Self::Adversarial(_) => Duration::from_nanos(30 * ROUTED_KEYS as u64) + timed,
            // Each value is allocated, written, read again and freed: about 1 ns per byte.
            Self::ValueSize(cell) => {
                let keys = keys.min(MOST_KEYS);
                around(keys) + Duration::from_nanos((keys * cell.size) as u64) + timed
            }
            // As many keys whatever the flags say, at about 200 ns each with drawing and checking.
            Self::Batch(_) => around(keys) + Duration::from_nanos(200 * BATCH_KEYS as u64),
        }
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;
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
