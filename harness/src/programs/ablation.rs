//! One decision of a design at a time, taken back: the same workload on variants that differ in that decision alone.

use super::{Bench, Grid, Sample, ValueSize};
use crate::alloc::Backend;
use crate::registry::Program;
use crate::workload::{Dist, Mix};

/// One way of deciding.
#[derive(Clone, Copy, Debug)]
pub struct Variant {
    /// The design whose decision it is.
    pub of: &'static str,
    /// What is decided: the name in reports.
    pub what: &'static str,
    /// How: the name in reports.
    pub name: &'static str,
    /// The workload, compiled for the variant.
    pub work: Work,
    /// The allocator, where that is what is decided.
    pub allocator: Option<Backend>,
}

/// What the variants of a decision are measured with.
#[derive(Clone, Copy, Debug)]
pub enum Work {
    /// Uniform keys and the values of the core grid.
    Grid(Program<Grid>),
    /// Uniform keys and values of so many bytes, each with an allocation of its own.
    Values(usize, Program<ValueSize>),
}

/// One cell.
#[derive(Clone, Copy, Debug)]
pub struct Ablation {
    /// Which variant.
    pub variant: &'static Variant,
    /// The share of reads.
    pub mix: Mix,
    /// How many threads.
    pub threads: usize,
}

/// Measures and verifies one cell.
///
/// # Errors
///
/// A panic of the design, or a wrong answer, as one line.
pub fn run(cell: &Ablation, bench: &Bench) -> Result<Sample, String> {
    let Ablation { mix, threads, .. } = *cell;
    match cell.variant.work {
        Work::Grid(program) => {
            let dist = Dist::Uniform;
            program(
                &Grid {
                    dist,
                    mix,
                    threads,
                    least_writes: 0,
                },
                bench,
            )
        }
        Work::Values(size, program) => program(&ValueSize { size, mix, threads }, bench),
    }
}
