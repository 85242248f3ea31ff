//! Batches: what do many reads in one call cost per key, against as many single reads? The same keys are drawn in total
//! whatever the size of a batch, so that the axis measures batching and not the length of a run.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Barrier, OnceLock};
use std::time::{Duration, Instant};

use cache_api::{Cache, GetBatch, Snapshot, SnapshotView};

use super::{Bench, Sample};
use crate::alloc::{self, Totals};
use crate::keys::{Key, Value};
use crate::machine::Usage;
use crate::subject::{Family, Subject, Via};
use crate::timing::{Measured, panic_message, pin};
use crate::workload::{Dist, Stream};

/// How many keys all callers of a cell look up together, at every size.
pub const BATCH_KEYS: usize = 1 << 19;

/// The sizes measured, in keys.
pub const BATCH_SIZES: [usize; 7] = [16, 64, 256, 1024, 4096, 16_384, 65_536];

/// How many keys each caller looks up before the clock starts.
const WARM_UP_KEYS: usize = 1 << 16;

/// One cell of the batch experiment.
#[derive(Clone, Copy, Debug)]
pub struct Batch {
    /// The keys of one call.
    pub size: usize,
    /// How many threads call.
    pub callers: usize,
    /// The design's program for one way of answering.
    pub program: fn(&Batch, &Bench) -> Result<Sample, String>,
}

/// One way of answering a batch.
pub trait Way<M> {
    /// Calls `each` once for every position of `keys`, in any order.
    fn answer(map: &M, keys: &[Key], each: impl FnMut(usize, Option<&Value>) + Send);
}

/// Single reads, one after another: no batch at all.
#[derive(Debug)]
pub struct Loop;

/// The design's batch on the calling thread, which asks the memory ahead.
#[derive(Debug)]
pub struct Prefetch;

/// The design's batch that uses other threads too: the owners of an actor. Answers come as a vector.
#[derive(Debug)]
pub struct Owners;

/// One snapshot, and single reads of that.
#[derive(Debug)]
pub struct SnapshotLoop;

/// One snapshot, and its batch.
#[derive(Debug)]
pub struct SnapshotBatch;

impl<M: Subject<Key, Value>> Way<M> for Loop {
    fn answer(map: &M, keys: &[Key], mut each: impl FnMut(usize, Option<&Value>) + Send) {
        for (position, key) in keys.iter().enumerate() {
            if map.read(key, |value| each(position, Some(value))).is_none() {
                each(position, None);
            }
        }
    }
}

impl<C: GetBatch<Key, Value>> Way<Via<C>> for Prefetch {
    fn answer(map: &Via<C>, keys: &[Key], each: impl FnMut(usize, Option<&Value>) + Send) {
        map.0.get_batch_with(keys.iter().copied(), each);
    }
}

impl<C: GetBatch<Key, Value>> Way<Via<C>> for Owners {
    fn answer(map: &Via<C>, keys: &[Key], each: impl FnMut(usize, Option<&Value>) + Send) {
        all_of(&map.0.get_batch(keys.iter().copied()), each);
    }
}

impl<C: Cache<Key, Value> + Snapshot<Key, Value>> Way<Via<C>> for SnapshotLoop {
    fn answer(map: &Via<C>, keys: &[Key], mut each: impl FnMut(usize, Option<&Value>) + Send) {
        let view = map.0.snapshot();
        for (position, key) in keys.iter().enumerate() {
            each(position, view.get_ref(*key));
        }
    }
}

impl<C: Cache<Key, Value> + Snapshot<Key, Value>> Way<Via<C>> for SnapshotBatch {
    fn answer(map: &Via<C>, keys: &[Key], each: impl FnMut(usize, Option<&Value>) + Send) {
        map.0.snapshot().get_batch_with(keys.iter().copied(), each);
    }
}

/// Calls `each` for every answer of a vector.
pub fn all_of(answers: &[Option<Value>], mut each: impl FnMut(usize, Option<&Value>)) {
    for (position, value) in answers.iter().enumerate() {
        each(position, value.as_ref());
    }
}

/// Measures and verifies one cell: each key's value is the key itself, so that an answer at another key's position
/// shows.
///
/// # Errors
///
/// A panic of the design, or a wrong answer, as one line.
pub fn run<F, W>(cell: &Batch, bench: &Bench) -> Result<Sample, String>
where
    F: Family,
    F::Map<Key, Value>: Sync,
    W: Way<F::Map<Key, Value>>,
{
    let map: F::Map<Key, Value> = F::filled(bench.keys.iter().map(|key| (key, key)));
    measure::<_, W>(&map, cell, bench)
}

/// What a caller's answers came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Tally {
    /// Positions that were answered with a value.
    hits: u64,
    /// Positions that were answered at all.
    answers: u64,
    /// The sum over all answers of the position in its batch, counted from 1, times the place of the value.
    ///
    /// The place is told by the value's address: its bytes are not read, so checking costs no cache miss.
    weighted: u64,
}

impl Tally {
    #[inline]
    fn count(&mut self, position: usize, place: Option<usize>) {
        self.answers += 1;
        if let Some(place) = place {
            self.hits += 1;
            let weight = (position as u64 + 1).wrapping_mul(place as u64 + 1);
            self.weighted = self.weighted.wrapping_add(weight);
        }
    }

    /// What the answers to `stream` in batches of `size` must come to, `length` being that of a key.
    fn expected(stream: &Stream, size: usize, length: usize) -> Self {
        let mut tally = Self::default();
        for batch in stream.ops().chunks(size) {
            for (position, op) in batch.iter().enumerate() {
                tally.count(position, Some(op.index() * length));
            }
        }
        tally
    }
}

/// Answers `keys` in batches of `size`. `base` is the address of the first key of all.
#[inline(never)]
fn answer_all<M, W: Way<M>>(map: &M, keys: &[Key], size: usize, base: usize) -> Tally {
    let mut tally = Tally::default();
    for batch in keys.chunks(size) {
        W::answer(map, batch, |position, value| {
            tally.count(
                position,
                value.map(|value| value.as_ptr().addr().wrapping_sub(base)),
            );
        });
    }
    tally
}

/// One caller's time and answers.
type Ran = (Instant, Instant, Tally);

fn measure<M, W>(map: &M, cell: &Batch, bench: &Bench) -> Result<Sample, String>
where
    M: Subject<Key, Value> + Sync,
    W: Way<M>,
{
    let each = BATCH_KEYS / cell.callers;
    let streams = bench.exact_streams(Dist::Uniform, cell.callers, each, 0);
    let drawn: Vec<Vec<Key>> = streams
        .iter()
        .map(|stream| {
            let keys = stream.ops().iter().map(|op| bench.keys.get(op.index()));
            keys.collect()
        })
        .collect();
    let base = bench.keys.get(0).as_ptr().addr();
    let pins = bench.pins.as_slice();
    // The callers and the coordinator, who reads the counters while nobody is at work.
    let barrier = Barrier::new(cell.callers + 1);
    let start = OnceLock::new();
    let caller = |number: usize, keys: &[Key]| -> Result<Ran, String> {
        pin(pins, number);
        let caught = |part: &[Key]| {
            catch_unwind(AssertUnwindSafe(|| {
                answer_all::<M, W>(map, part, cell.size, base)
            }))
            .map_err(|panic| panic_message(panic.as_ref()))
        };
        let warm = caught(&keys[..WARM_UP_KEYS.max(cell.size).min(keys.len())]);
        barrier.wait();
        barrier.wait();
        let begin = *start.get_or_init(Instant::now);
        let tally = warm.and_then(|_| caught(keys));
        let end = Instant::now();
        barrier.wait();
        alloc::retire_thread();
        tally.map(|tally| (begin, end, tally))
    };
    let mut measured = Measured::default();
    let mut outcomes = Vec::with_capacity(cell.callers);
    std::thread::scope(|scope| {
        let spawned: Vec<_> = drawn
            .iter()
            .enumerate()
            .map(|(number, keys)| {
                let caller = &caller;
                scope.spawn(move || caller(number, keys))
            })
            .collect();
        barrier.wait();
        let before = (Usage::now(), Totals::now());
        barrier.wait();
        barrier.wait();
        measured.allocated = Totals::now().since(before.1);
        measured.usage = Usage::now().since(before.0);
        for thread in spawned {
            outcomes.push(
                thread
                    .join()
                    .unwrap_or_else(|panic| Err(panic_message(panic.as_ref()))),
            );
        }
    });
    let mut wall = Duration::ZERO;
    for (outcome, stream) in outcomes.into_iter().zip(&streams) {
        let (begin, end, tally) = outcome?;
        wall = wall.max(end - begin);
        measured.ops += tally.answers;
        measured.hits += tally.hits;
        measured.expected_hits += stream.ops().len() as u64;
        if M::STORES {
            let expected = Tally::expected(stream, cell.size, bench.keys.get(0).len());
            check(tally, expected)?;
        }
        measured.cursors.push(tally.answers);
    }
    measured.wall = wall;
    Ok(Sample {
        measured,
        extra: Vec::new(),
        notes: Vec::new(),
    })
}

/// Compares the answers with what they must be.
fn check(tally: Tally, expected: Tally) -> Result<(), String> {
    if tally.answers != expected.answers {
        return Err(format!(
            "wrong answers: {} positions answered of {}",
            tally.answers, expected.answers
        ));
    }
    if tally.hits != expected.hits {
        return Err(format!(
            "wrong answers: {} of {} reads hit",
            tally.hits, expected.hits
        ));
    }
    if tally.weighted != expected.weighted {
        return Err("wrong answers: values at positions of other keys".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use cache_locked::MutexCache;

    use super::*;
    use crate::keys::Keys;
    use crate::programs::Benchtime;
    use crate::subject::{hasher, in_bulk};

    type Map = Via<MutexCache<Key, Value>>;

    fn bench() -> Bench {
        let keys = Keys::new(5000, 16);
        Bench::new(keys, 64, 1, Vec::new(), Benchtime::Ops(1), 2)
    }

    fn measured<W: Way<Map>>(size: usize, callers: usize) -> Result<Sample, String> {
        let bench = bench();
        let map = in_bulk(
            MutexCache::with_hasher(hasher()),
            bench.keys.iter().map(|key| (key, key)),
        );
        let program = |_: &Batch, _: &Bench| Err("not through the registry".to_owned());
        let cell = Batch {
            size,
            callers,
            program,
        };
        measure::<_, W>(&map, &cell, &bench)
    }

    #[test]
    fn every_size_draws_as_many_keys() {
        for callers in [1, 2] {
            for size in BATCH_SIZES {
                assert_eq!(BATCH_KEYS % (size * callers), 0, "no batch is cut short");
            }
            for size in [16, 65_536] {
                let sample = measured::<Prefetch>(size, callers).expect("right answers");
                assert_eq!(sample.measured.ops, BATCH_KEYS as u64);
                assert_eq!(sample.measured.hits, BATCH_KEYS as u64);
                assert_eq!(sample.measured.cursors.len(), callers);
            }
        }
    }

    /// Answers each batch in the reverse order.
    struct Reversed;
    impl Way<Map> for Reversed {
        fn answer(map: &Map, keys: &[Key], mut each: impl FnMut(usize, Option<&Value>) + Send) {
            let last = keys.len() - 1;
            Loop::answer(map, keys, |position, value| each(last - position, value));
        }
    }

    /// Leaves the last position of each batch out.
    struct Short;
    impl Way<Map> for Short {
        fn answer(map: &Map, keys: &[Key], each: impl FnMut(usize, Option<&Value>) + Send) {
            Loop::answer(map, &keys[1..], each);
        }
    }

    /// Finds nothing at the first position of each batch.
    struct Missing;
    impl Way<Map> for Missing {
        fn answer(map: &Map, keys: &[Key], mut each: impl FnMut(usize, Option<&Value>) + Send) {
            Loop::answer(map, keys, |position, value| {
                each(position, value.filter(|_| position > 0));
            });
        }
    }

    /// Breaks.
    struct Panics;
    impl Way<Map> for Panics {
        fn answer(_: &Map, _: &[Key], _: impl FnMut(usize, Option<&Value>) + Send) {
            panic!("on purpose");
        }
    }

    #[test]
    fn wrong_answers_are_noticed() {
        let error = |outcome: Result<Sample, String>| outcome.expect_err("it is wrong");
        assert!(error(measured::<Reversed>(64, 1)).contains("positions of other keys"));
        assert!(error(measured::<Short>(64, 2)).contains("positions answered"));
        assert!(error(measured::<Missing>(64, 1)).contains("reads hit"));
        assert_eq!(error(measured::<Panics>(64, 2)), "panic: on purpose");
        measured::<Loop>(64, 1).expect("a loop is right");
    }
}
