//! Which cells there are: phases and experiments as data. Nothing here builds or times a map.

use std::time::Duration;

use crate::programs::{Bench, Benchtime, Grid, Sample};
use crate::registry::{Class, Design, Kind};
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// The benchmark's name without `Benchmark`: `Cache/impl=…/dist=…/mix=…`, and `-T` for T threads above one.
    pub name: String,
    /// What is done.
    pub job: Job,
}

/// What a cell does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Job {
    /// A cell of the core grid.
    Grid(Grid),
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
        }
    }

    /// How many threads the cell needs.
    #[must_use]
    pub const fn threads(&self) -> usize {
        match self {
            Self::Grid(cell) => cell.threads,
        }
    }

    /// About how long the cell takes, all included.
    #[must_use]
    pub fn estimate(&self, keys: usize, benchtime: Benchtime) -> Duration {
        match self {
            Self::Grid(cell) => {
                // Filling, dropping and checking a map: about a quarter of a microsecond per key.
                let around = Duration::from_nanos(250 * keys as u64) + Duration::from_millis(5);
                let timed = if cell.least_writes > 0 {
                    let (_, writes) = cell.fixed(benchtime);
                    // A copied entry costs about 15 ns.
                    Duration::from_nanos((writes * cell.threads * keys) as u64 * 15)
                } else {
                    match benchtime {
                        Benchtime::Time(time) => time + time / 8,
                        Benchtime::Ops(ops) => Duration::from_nanos(ops * 300),
                    }
                };
                around + timed
            }
        }
    }
}

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
        what: "adversarial placement: working sets of 2,048 keys in 1 or 8 shards of a router",
        axes: "attacked router x read-only, write-heavy x threads",
        cells: None,
    },
    Sweep {
        name: "E",
        what: "value size: distinct values, a fresh allocation per write, reads touch every cache line",
        axes: "size 16 B to 4 KiB x mix r100, r10 x threads",
        cells: None,
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
