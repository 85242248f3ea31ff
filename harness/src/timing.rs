//! The timed loop: pinned threads, one barrier, streams of operations against one map. It knows no design and prints
//! nothing.
//!
//! # How a cell is timed
//!
//! 1. Each thread pins itself and warms up: it runs the beginning of its stream for an eighth of the time (cells of a
//!    fixed number of operations warm up by reading only, so that their writes stay where they are counted).
//! 2. Everybody meets at a barrier. The coordinating thread, which then only sleeps, reads the process's counters.
//! 3. The first thread to leave sets the start. Timed cells run until the deadline that follows from it; cells of a
//!    fixed number run their share of the operations.
//! 4. The wall ends with the last thread.
//!
//! Timed threads look at the clock between chunks of operations. A chunk is grown until it takes about 100 us, so
//! that looking costs nothing a cell could show (some 30 ns in 100 us), and a design of any slowness still ends in
//! time.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Barrier, Mutex, OnceLock};
use std::time::{Duration, Instant};

use crate::alloc::{self, Totals};
use crate::keys::{Key, KeySet};
use crate::machine::Usage;
use crate::subject::Subject;
use crate::workload::{Op, Stream};

/// How long a cell runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// Until this much time has passed.
    Time(Duration),
    /// This many operations in each thread.
    OpsPerThread(u64),
}

/// What operations read and write: the values of one kind of cell.
pub trait Regime: Sync {
    /// The map's values.
    type Value: Clone + Send + Sync + 'static;

    /// What key number `index` holds before the clock starts.
    fn initial(&self, index: usize) -> Self::Value;

    /// What a write of key number `index` stores. Part of the timed work.
    fn fresh(&self, index: usize) -> Self::Value;

    /// What a read does with the value it finds. Part of the timed work.
    fn touch(value: &Self::Value) -> u64;

    /// What [`touch`](Regime::touch) answers for every value of this regime.
    fn touched(&self) -> u64;

    /// Whether `value` is what key number `index` must hold, given whether it was ever written.
    fn is_right(&self, index: usize, value: &Self::Value, written: bool) -> bool;
}

/// What a cell's timed part did.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// Operations of all threads.
    pub ops: u64,
    /// The writes among them.
    pub writes: u64,
    /// From the first thread's start to the last one's end.
    pub wall: Duration,
    /// Counted reads that found the right kind of value.
    pub hits: u64,
    /// Reads that were made.
    pub expected_hits: u64,
    /// What the process used between the barriers.
    pub usage: Usage,
    /// What the process allocated between the barriers.
    pub allocated: Totals,
    /// How many operations of its stream each thread has run, the warm-up included.
    pub cursors: Vec<u64>,
}

/// Runs `ops` on `map`, and sums what the reads touched.
///
/// The one loop that everything is measured with. Not inlined, so that it looks the same wherever it is called.
#[inline(never)]
fn run_ops<M, S, G>(map: &M, keys: &S, ops: &[Op], regime: &G) -> u64
where
    M: Subject<Key, G::Value>,
    S: KeySet,
    G: Regime,
{
    let mut sum = 0_u64;
    for &op in ops {
        let key = keys.key(op.index());
        if op.is_write() {
            map.write(key, regime.fresh(op.index()));
        } else if let Some(touched) = map.read(&key, G::touch) {
            sum = sum.wrapping_add(touched);
        }
    }
    sum
}

/// The chunk that a thread begins with; small, since an operation may take a tenth of a second.
const FIRST_CHUNK: usize = 1;
/// The largest chunk.
const LARGEST_CHUNK: usize = 1 << 14;
/// What a chunk should take at least, and at most.
const CHUNK_TIME: [Duration; 2] = [Duration::from_micros(50), Duration::from_micros(200)];

/// One thread's place in its stream.
struct Runner<'a, M, S, G> {
    map: &'a M,
    keys: &'a S,
    stream: &'a Stream,
    regime: &'a G,
    cursor: u64,
    chunk: usize,
    sum: u64,
}

impl<'a, M, S, G> Runner<'a, M, S, G>
where
    M: Subject<Key, G::Value>,
    S: KeySet,
    G: Regime,
{
    /// At the beginning of `stream`.
    fn new(map: &'a M, keys: &'a S, stream: &'a Stream, regime: &'a G) -> Self {
        Self {
            map,
            keys,
            stream,
            regime,
            cursor: 0,
            chunk: FIRST_CHUNK,
            sum: 0,
        }
    }

    /// Runs until `deadline`, at least one chunk. Returns the time at its end.
    fn run_until(&mut self, deadline: Instant) -> Instant {
        let mut before = Instant::now();
        loop {
            let ops = self.stream.part(self.cursor, self.chunk);
            self.sum = self
                .sum
                .wrapping_add(run_ops(self.map, self.keys, ops, self.regime));
            self.cursor += ops.len() as u64;
            let now = Instant::now();
            if now >= deadline {
                return now;
            }
            let took = now - before;
            // A short chunk at the end of the stream says nothing about speed.
            if ops.len() == self.chunk {
                if took < CHUNK_TIME[0] && self.chunk < LARGEST_CHUNK {
                    self.chunk *= 2;
                } else if took > CHUNK_TIME[1] && self.chunk > 1 {
                    self.chunk /= 2;
                }
            }
            before = now;
        }
    }

    /// Runs `count` operations. Returns the time at its end.
    fn run_count(&mut self, count: u64) -> Instant {
        let end = self.cursor + count;
        while self.cursor < end {
            let most = usize::try_from(end - self.cursor)
                .unwrap_or(usize::MAX)
                .min(self.stream.ops().len());
            let ops = self.stream.part(self.cursor, most);
            self.sum = self
                .sum
                .wrapping_add(run_ops(self.map, self.keys, ops, self.regime));
            self.cursor += ops.len() as u64;
        }
        Instant::now()
    }

    /// Warms caches, tables and predictors up for a cell of `length`.
    fn warm_up(&mut self, length: Length) {
        match length {
            Length::Time(time) => {
                self.run_until(Instant::now() + time / 8);
            }
            Length::OpsPerThread(_) => {
                for op in self.stream.ops().iter().take(1000) {
                    std::hint::black_box(self.map.read(&self.keys.key(op.index()), G::touch));
                }
            }
        }
    }
}

/// What one thread hands back.
struct Ran {
    start: Instant,
    end: Instant,
    from: u64,
    to: u64,
    sum: u64,
}

/// Measures one cell: as many threads as there are streams, all on `map`.
///
/// # Errors
///
/// Where user code of the map panicked: the first panic's message, on one line. The other threads have ended by then.
pub fn measure<M, S, G>(
    map: &M,
    keys: &S,
    streams: &[Stream],
    length: Length,
    pins: &[usize],
    regime: &G,
) -> Result<Measured, String>
where
    M: Subject<Key, G::Value> + Sync,
    S: KeySet,
    G: Regime,
{
    let barrier = Barrier::new(streams.len() + 1);
    let start = OnceLock::new();
    let failure = Mutex::new(None);
    let mut usage = Usage::default();
    let mut allocated = Totals::default();
    let mut ran = Vec::with_capacity(streams.len());
    std::thread::scope(|scope| {
        let spawned: Vec<_> = streams
            .iter()
            .enumerate()
            .map(|(number, stream)| {
                let (barrier, start, failure) = (&barrier, &start, &failure);
                scope.spawn(move || {
                    pin(pins, number);
                    let runner = Runner::new(map, keys, stream, regime);
                    // Between the two meetings the coordinator reads the counters.
                    let ready = || {
                        barrier.wait();
                        barrier.wait();
                    };
                    let ran = worker(runner, length, ready, start, failure);
                    barrier.wait();
                    alloc::retire_thread();
                    ran
                })
            })
            .collect();
        barrier.wait();
        let usage_before = Usage::now();
        let allocated_before = Totals::now();
        barrier.wait();
        barrier.wait();
        allocated = Totals::now().since(allocated_before);
        usage = Usage::now().since(usage_before);
        ran.extend(
            spawned
                .into_iter()
                .filter_map(|thread| thread.join().ok().flatten()),
        );
    });
    if let Some(reason) = failure
        .into_inner()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
    {
        return Err(reason);
    }
    Ok(summed(&ran, streams, usage, allocated, regime.touched()))
}

/// Measures one cell of one thread on a map that cannot be shared: the calling thread does it all.
///
/// # Errors
///
/// As for [`measure`].
pub fn measure_alone<M, S, G>(
    map: &M,
    keys: &S,
    stream: &Stream,
    length: Length,
    pins: &[usize],
    regime: &G,
) -> Result<Measured, String>
where
    M: Subject<Key, G::Value>,
    S: KeySet,
    G: Regime,
{
    pin(pins, 0);
    let start = OnceLock::new();
    let failure = Mutex::new(None);
    let mut before = (Usage::default(), Totals::default());
    let ready = || before = (Usage::now(), Totals::now());
    let ran = worker(
        Runner::new(map, keys, stream, regime),
        length,
        ready,
        &start,
        &failure,
    );
    let allocated = Totals::now().since(before.1);
    let usage = Usage::now().since(before.0);
    if let Some(reason) = failure
        .into_inner()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
    {
        return Err(reason);
    }
    let ran: Vec<Ran> = ran.into_iter().collect();
    Ok(summed(
        &ran,
        std::slice::from_ref(stream),
        usage,
        allocated,
        regime.touched(),
    ))
}

/// One thread from its warm-up to its end. `ready` is called once, between the two, whatever panics.
fn worker<M, S, G>(
    mut runner: Runner<'_, M, S, G>,
    length: Length,
    ready: impl FnOnce(),
    start: &OnceLock<Instant>,
    failure: &Mutex<Option<String>>,
) -> Option<Ran>
where
    M: Subject<Key, G::Value>,
    S: KeySet,
    G: Regime,
{
    let guarded = |stage: &mut dyn FnMut()| {
        let outcome = catch_unwind(AssertUnwindSafe(stage));
        if let Err(panic) = &outcome {
            let mut first = failure
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner);
            first.get_or_insert_with(|| panic_message(panic.as_ref()));
        }
        outcome.is_ok()
    };
    let warm = guarded(&mut || runner.warm_up(length));
    ready();
    runner.map.started();
    runner.sum = 0;
    let from = runner.cursor;
    let begin = *start.get_or_init(Instant::now);
    let mut end = begin;
    let finished = warm
        && guarded(&mut || {
            end = match length {
                Length::Time(time) => runner.run_until(begin + time),
                Length::OpsPerThread(count) => runner.run_count(count),
            };
        });
    finished.then_some(Ran {
        start: begin,
        end,
        from,
        to: runner.cursor,
        sum: runner.sum,
    })
}

/// Adds the threads up.
fn summed(
    ran: &[Ran],
    streams: &[Stream],
    usage: Usage,
    allocated: Totals,
    touched: u64,
) -> Measured {
    let mut measured = Measured {
        usage,
        allocated,
        ..Measured::default()
    };
    let mut sum = 0_u64;
    for (thread, stream) in ran.iter().zip(streams) {
        measured.ops += thread.to - thread.from;
        measured.writes +=
            stream.writes_among_first(thread.to) - stream.writes_among_first(thread.from);
        measured.cursors.push(thread.to);
        measured.wall = measured.wall.max(thread.end - thread.start);
        sum = sum.wrapping_add(thread.sum);
    }
    measured.expected_hits = measured.ops - measured.writes;
    // Where a read touched something else, the quotient is not the number of reads either.
    measured.hits = sum.checked_div(touched).unwrap_or(0);
    measured
}

/// Pins the calling thread to the core for thread `number`; more threads than cores go round.
pub fn pin(pins: &[usize], number: usize) {
    if let Some(&id) = pins.get(number % pins.len().max(1)) {
        core_affinity::set_for_current(core_affinity::CoreId { id });
    }
}

/// A panic's message on one line.
#[must_use]
pub fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    let message = panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without a message".to_owned());
    format!("panic: {}", one_line(&message))
}

/// The same text without line breaks.
#[must_use]
pub fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
