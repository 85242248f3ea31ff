//! The core grid: one distribution, one mix, one number of threads, against a full map.

use super::{Bench, Benchtime, Sample};
use crate::keys::{Key, KeySet, Keys, Value, Values};
use crate::subject::{Family, Subject};
use crate::timing::{self, Length, Measured, Regime};
use crate::workload::{Dist, Mix, Stream};

/// One cell of the core grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    /// How keys are drawn.
    pub dist: Dist,
    /// The share of reads.
    pub mix: Mix,
    /// How many threads.
    pub threads: usize,
    /// Where not 0, the cell runs a fixed number of operations, with at least so many writes.
    pub least_writes: u64,
}

impl Grid {
    /// How many operations each thread runs, and how many of them are writes, in a cell of fixed length: the smallest
    /// numbers with enough writes, or more where `--benchtime` asks for more operations.
    ///
    /// The writes of a thread are exact. Were each operation drawn, a cell of 200 operations would hold 20 writes give
    /// or take 4, and where a write costs a thousand reads that is 20 % of noise.
    #[must_use]
    pub fn fixed(&self, benchtime: Benchtime) -> (usize, usize) {
        let share = self.mix.write_share();
        let threads = self.threads as u64;
        let writes = self.least_writes.div_ceil(threads);
        let ops = (writes as f64 / share).ceil() as u64;
        let asked = match benchtime {
            Benchtime::Time(_) => 0,
            Benchtime::Ops(ops) => ops.div_ceil(threads),
        };
        let ops = ops.max(asked);
        let writes = ((ops as f64 * share).round() as u64).clamp(writes, ops);
        (ops as usize, writes as usize)
    }
}

/// The core grid's values: one shared value each for "as filled" and "as written".
impl Regime for Values {
    type Value = Value;

    fn initial(&self, _: usize) -> Value {
        self.old
    }

    #[inline]
    fn fresh(&self, _: usize) -> Value {
        self.new
    }

    #[inline]
    fn touch(value: &Value) -> u64 {
        // The value's header lies in the map; its bytes are shared, hot, and nobody's cost.
        value.len() as u64
    }

    fn touched(&self) -> u64 {
        self.old.len() as u64
    }

    fn is_right(&self, _: usize, value: &Value, written: bool) -> bool {
        *value == if written { self.new } else { self.old }
    }
}

/// Measures and verifies one cell.
///
/// # Errors
///
/// A panic of the design, or a wrong answer, as one line.
pub fn run<F: Family>(cell: &Grid, bench: &Bench) -> Result<Sample, String>
where
    F::Map<Key, Value>: Sync,
{
    let (streams, length) = if cell.least_writes == 0 {
        (
            bench.streams(cell.dist, cell.mix, cell.threads),
            bench.length(cell.threads),
        )
    } else {
        let (ops, writes) = cell.fixed(bench.benchtime);
        (
            bench.exact_streams(cell.dist, cell.threads, ops, writes),
            Length::OpsPerThread(ops as u64),
        )
    };
    measure_and_verify::<F, Values>(&bench.keys, &streams, length, &bench.pins, &bench.values)
}

/// Fills a map with `keys`, runs `streams` on it, and checks what it holds afterwards.
///
/// # Errors
///
/// A panic of the design, or a wrong answer, as one line.
pub(super) fn measure_and_verify<F, G>(
    keys: &Keys,
    streams: &[Stream],
    length: Length,
    pins: &[usize],
    regime: &G,
) -> Result<Sample, String>
where
    F: Family,
    G: Regime,
    F::Map<Key, G::Value>: Sync,
{
    let map = F::filled(
        keys.iter()
            .enumerate()
            .map(|(index, key)| (key, regime.initial(index))),
    );
    measure_and_verify_on(&map, keys, streams, length, pins, regime)
}

/// As [`measure_and_verify`], on a map that holds the initial value of each of `keys` already.
///
/// # Errors
///
/// A panic of the design, or a wrong answer, as one line.
pub(super) fn measure_and_verify_on<M, S, G>(
    map: &M,
    keys: &S,
    streams: &[Stream],
    length: Length,
    pins: &[usize],
    regime: &G,
) -> Result<Sample, String>
where
    M: Subject<Key, G::Value> + Sync,
    S: KeySet,
    G: Regime,
{
    let measured = timing::measure(map, keys, streams, length, pins, regime)?;
    checked(map, keys, streams, measured, regime)
}

/// The sample, if the answers and the contents are right.
pub(super) fn checked<M, S, G>(
    map: &M,
    keys: &S,
    streams: &[Stream],
    measured: Measured,
    regime: &G,
) -> Result<Sample, String>
where
    M: Subject<Key, G::Value>,
    S: KeySet,
    G: Regime,
{
    // A write lets each other thread miss once or so while it replaces: anything beyond that is another fault.
    let excused = if M::MISSES_WHILE_REPLACED && streams.len() > 1 {
        measured.writes.saturating_mul(streams.len() as u64)
    } else {
        0
    };
    let missed = measured.expected_hits.checked_sub(measured.hits);
    if missed.is_none_or(|missed| missed > excused) {
        return Err(format!(
            "wrong answers: {} of {} reads hit",
            measured.hits, measured.expected_hits
        ));
    }
    verify(map, keys, streams, &measured.cursors, regime)?;
    Ok(Sample {
        measured,
        extra: Vec::new(),
        notes: Vec::new(),
    })
}

/// Measures and verifies one cell of one thread, for maps that cannot be shared.
///
/// # Errors
///
/// As for [`run`].
pub fn run_alone<F: Family>(cell: &Grid, bench: &Bench) -> Result<Sample, String> {
    if cell.threads != 1 {
        return Err(format!(
            "this map cannot be shared by {} threads",
            cell.threads
        ));
    }
    let (keys, values) = (&bench.keys, &bench.values);
    let streams = bench.streams(cell.dist, cell.mix, 1);
    let map: F::Map<Key, Value> = F::filled(
        keys.iter()
            .enumerate()
            .map(|(i, key)| (key, values.initial(i))),
    );
    let measured = timing::measure_alone(
        &map,
        keys,
        &streams[0],
        bench.length(1),
        &bench.pins,
        values,
    )?;
    checked(&map, keys, &streams, measured, values)
}

/// How many keys are looked at after a cell.
const CHECKED: usize = 1 << 16;

/// Compares the map with the model: the initial value where no thread wrote, a fresh one where one did.
///
/// # Errors
///
/// The first difference, as one line.
pub(super) fn verify<M, S, G>(
    map: &M,
    keys: &S,
    streams: &[Stream],
    cursors: &[u64],
    regime: &G,
) -> Result<(), String>
where
    M: Subject<Key, G::Value>,
    S: KeySet,
    G: Regime,
{
    let count = map.count();
    if count != keys.count() {
        return Err(format!(
            "wrong length: {count} entries instead of {}",
            keys.count()
        ));
    }
    if !M::STORES {
        return Ok(());
    }
    let mut written = vec![false; keys.count()];
    for (stream, &cursor) in streams.iter().zip(cursors) {
        let ran = usize::try_from(cursor)
            .unwrap_or(usize::MAX)
            .min(stream.ops().len());
        for op in stream.ops()[..ran].iter().filter(|op| op.is_write()) {
            written[op.index()] = true;
        }
    }
    // An odd step, so that a large map is not looked at in one residue class of its own sizes.
    let step = (keys.count() / CHECKED).max(1) | 1;
    for index in (0..keys.count()).step_by(step) {
        let key = keys.key(index);
        match map.read(&key, |value| regime.is_right(index, value, written[index])) {
            Some(true) => {}
            Some(false) if written[index] => {
                return Err(format!("wrong contents: {key} lost a write"));
            }
            Some(false) => return Err(format!("wrong contents: {key} holds what nobody wrote")),
            None => return Err(format!("wrong contents: {key} is missing")),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fixed_cells_hold_enough_writes_in_their_share() {
        for threads in [1, 2, 3, 8] {
            for mix in &Mix::ALL[1..] {
                let cell = Grid {
                    dist: Dist::Uniform,
                    mix: *mix,
                    threads,
                    least_writes: 20,
                };
                let (ops, writes) = cell.fixed(Benchtime::Ops(1));
                assert!(writes * threads >= 20, "{cell:?}");
                let share = writes as f64 / ops as f64;
                assert!(
                    (share - mix.write_share()).abs() < 0.11,
                    "{cell:?}: {share}"
                );
                assert!(
                    ops * threads < 400,
                    "{cell:?}: {ops} operations are far more than needed"
                );
                assert_eq!(
                    cell.fixed(Benchtime::Ops(10_000)).0,
                    10_000_usize.div_ceil(threads)
                );
            }
        }
    }
}
