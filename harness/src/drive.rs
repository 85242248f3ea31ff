//! The timed loop: one pinned thread per stream, behind a barrier, monomorphised per contender.
//!
//! What is inside the clock: taking the next operation from a sequential stream, fetching the key's header, the
//! contender's call, and adding up what reads returned. What is outside: drawing, filling, checking, dropping, and
//! starting threads. A thread looks at the clock between chunks of operations that take about 20 microseconds.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use cache_api::Cache;

use crate::alloc::Counts;
use crate::workload::Op;

/// How long a cell runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// Until this much time has passed.
    Time(Duration),
    /// So many operations, over all threads.
    Operations(u64),
    /// Each thread's stream, once.
    StreamOnce,
}

/// What one cell runs.
#[derive(Clone, Copy, Debug)]
pub struct Work<'a> {
    /// All keys.
    pub keys: &'a [&'static str],
    /// What writes store.
    pub value: &'static str,
    /// One stream per thread.
    pub streams: &'a [Vec<Op>],
    /// The cores that threads are pinned to, in order; empty: none.
    pub pin: &'a [usize],
    /// How long.
    pub length: Length,
}

/// What one cell did.
#[derive(Clone, Debug)]
pub struct Done {
    /// Operations inside the clock, over all threads.
    pub operations: u64,
    /// From the common start to the end of the last thread.
    pub wall: Duration,
    /// How many operations each thread took from its stream, warm-up included. Streams are repeated.
    pub taken: Vec<u64>,
    /// What reads returned: the sum of the lengths of the values, warm-up included.
    pub sum: u64,
    /// What was allocated inside the clock.
    pub counts: Counts,
    /// What the process used inside the clock.
    pub usage: Usage,
}

/// What the kernel knows about the process.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// Processor time of all threads.
    pub cpu: Duration,
    /// Times a thread gave up the processor.
    pub voluntary: u64,
    /// Times it was taken away.
    pub involuntary: u64,
}

impl Usage {
    /// Until now.
    #[must_use]
    pub fn now() -> Self {
        // SAFETY: all-zero bytes are a valid `rusage` (integers only).
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: the pointer is to a live `rusage` that this thread owns.
        if unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) } != 0 {
            return Self::default();
        }
        let time = |t: libc::timeval| {
            Duration::from_secs(t.tv_sec as u64) + Duration::from_micros(t.tv_usec as u64)
        };
        Self {
            cpu: time(usage.ru_utime) + time(usage.ru_stime),
            voluntary: usage.ru_nvcsw as u64,
            involuntary: usage.ru_nivcsw as u64,
        }
    }

    fn since(self, earlier: Self) -> Self {
        Self {
            cpu: self.cpu.saturating_sub(earlier.cpu),
            voluntary: self.voluntary - earlier.voluntary,
            involuntary: self.involuntary - earlier.involuntary,
        }
    }
}

/// The operations themselves: never inlined, so that all loops are compiled alike, whatever calls them.
#[inline(never)]
fn operate<C>(cache: &C, keys: &[&'static str], value: &'static str, ops: &[Op]) -> u64
where
    C: Cache<&'static str, &'static str>,
{
    let mut sum = 0;
    for op in ops {
        let key = keys[op.key()];
        if op.is_write() {
            cache.insert(key, value);
        } else {
            sum += cache
                .get_with(key, |value: &&'static str| value.len() as u64)
                .unwrap_or(0);
        }
    }
    sum
}

/// Longest chunk between two looks at the clock.
const CHUNK: usize = 1024;
/// A chunk shorter than this doubles.
const CHUNK_TIME: Duration = Duration::from_micros(20);
/// The stack of a measuring thread: small, so that a thousand of them fit.
const STACK: usize = 256 << 10;
/// Part of the time of a cell that is spent on warming up, before the clock starts.
const WARM_UP: u32 = 8;

/// One thread's way through its stream.
struct Runner<'a, C> {
    cache: &'a C,
    work: &'a Work<'a>,
    /// Which of the threads it is.
    which: usize,
    /// Where it is in its stream.
    at: usize,
    taken: u64,
    chunk: usize,
    sum: u64,
}

/// What one thread reports.
struct Report {
    operations: u64,
    taken: u64,
    sum: u64,
    end: Instant,
}

impl<'a, C> Runner<'a, C>
where
    C: Cache<&'static str, &'static str>,
{
    fn new(cache: &'a C, work: &'a Work<'a>, which: usize) -> Self {
        if !work.pin.is_empty() {
            let id = work.pin[which % work.pin.len()];
            core_affinity::set_for_current(core_affinity::CoreId { id });
        }
        Self {
            cache,
            work,
            which,
            at: 0,
            taken: 0,
            chunk: 1,
            sum: 0,
        }
    }

    /// One chunk: at most `most` operations, at most to the end of the stream.
    #[inline]
    fn chunk(&mut self, most: u64) {
        let stream = &self.work.streams[self.which];
        if self.at == stream.len() {
            self.at = 0;
        }
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let n = self.chunk.min(stream.len() - self.at).min(most);
        let ops = &stream[self.at..self.at + n];
        self.at += n;
        self.taken += n as u64;
        self.sum += operate(self.cache, self.work.keys, self.work.value, ops);
    }

    /// Fills caches and branch predictors, and finds out how many operations make a chunk.
    fn warm_up(&mut self) {
        let Length::Time(time) = self.work.length else {
            return;
        };
        let begun = Instant::now();
        while begun.elapsed() < time / WARM_UP {
            let chunk_begun = Instant::now();
            self.chunk(u64::MAX);
            if chunk_begun.elapsed() < CHUNK_TIME {
                self.chunk = (self.chunk * 2).min(CHUNK);
            }
        }
    }

    /// What the clock sees, from `begin` on.
    fn run(&mut self, begin: Instant) -> Report {
        let before = self.taken;
        match self.work.length {
            Length::Time(time) => {
                while begin.elapsed() < time {
                    self.chunk(u64::MAX);
                }
            }
            Length::Operations(all) => {
                let threads = self.work.streams.len() as u64;
                let mut left = all / threads + u64::from((self.which as u64) < all % threads);
                self.chunk = CHUNK;
                while left > 0 {
                    let taken = self.taken;
                    self.chunk(left);
                    left -= self.taken - taken;
                }
            }
            Length::StreamOnce => {
                self.chunk = usize::MAX;
                self.chunk(u64::MAX);
            }
        }
        Report {
            operations: self.taken - before,
            taken: self.taken,
            sum: self.sum,
            end: Instant::now(),
        }
    }
}

/// The barrier in front of the clock, and the clock's start.
struct Start {
    origin: Instant,
    ready: AtomicUsize,
    /// Nanoseconds from `origin` to the start, plus one; 0 until then.
    at: AtomicU64,
}

impl Start {
    fn new() -> Self {
        Self {
            origin: Instant::now(),
            ready: AtomicUsize::new(0),
            at: AtomicU64::new(0),
        }
    }

    /// Called by each thread when it is warm; returns the common start.
    fn wait(&self) -> Instant {
        // Release, here and below: what happened before on this thread belongs to the time before the start.
        self.ready.fetch_add(1, Ordering::Release);
        loop {
            match self.at.load(Ordering::Acquire) {
                0 => pause(),
                at => return self.origin + Duration::from_nanos(at - 1),
            }
        }
    }

    /// Waits for `threads` threads, calls `last`, and starts the clock.
    fn release<T>(&self, threads: usize, last: impl FnOnce() -> T) -> (Instant, T) {
        while self.ready.load(Ordering::Acquire) < threads {
            pause();
        }
        let result = last();
        let at = self.origin.elapsed().as_nanos() as u64;
        self.at.store(at + 1, Ordering::Release);
        (self.origin + Duration::from_nanos(at), result)
    }
}

/// With more threads than cores, the one that is awaited may need this core.
fn pause() {
    thread::yield_now();
}

/// Runs one cell with one thread per stream.
///
/// # Errors
///
/// The message of the panic, when the contender panicked in one of the threads; or that a thread cannot be started.
pub fn drive<C>(cache: &C, work: &Work<'_>) -> Result<Done, String>
where
    C: Cache<&'static str, &'static str> + Sync,
{
    let start = Start::new();
    thread::scope(|scope| {
        let mut handles = Vec::with_capacity(work.streams.len());
        let mut refused = None;
        for which in 0..work.streams.len() {
            let start = &start;
            let body = move || {
                let mut runner = Runner::new(cache, work, which);
                // Whatever happens, the others must not wait for this thread for ever.
                let warm = catch_unwind(AssertUnwindSafe(|| runner.warm_up()));
                let begin = start.wait();
                warm.and_then(|()| catch_unwind(AssertUnwindSafe(|| runner.run(begin))))
                    .map_err(|payload| panic_message(&*payload))
            };
            let builder = thread::Builder::new().stack_size(STACK);
            match builder.spawn_scoped(scope, body) {
                Ok(handle) => handles.push(handle),
                Err(error) => {
                    refused = Some(format!("cannot start thread {which}: {error}"));
                    break;
                }
            }
        }
        let (begin, (usage, counts)) =
            start.release(handles.len(), || (Usage::now(), Counts::now()));
        let reports: Vec<_> = handles
            .into_iter()
            .map(|handle| {
                handle
                    .join()
                    .unwrap_or_else(|payload| Err(panic_message(&*payload)))
            })
            .collect();
        let counts = Counts::now().since(counts);
        let usage = Usage::now().since(usage);
        match refused {
            Some(reason) => Err(reason),
            None => finish(reports, begin, counts, usage),
        }
    })
}

/// Runs one cell on the calling thread: for contenders that cannot be shared between threads.
///
/// # Errors
///
/// The message of the panic, when the contender panicked.
pub fn drive_alone<C>(cache: &C, work: &Work<'_>) -> Result<Done, String>
where
    C: Cache<&'static str, &'static str>,
{
    let run = || {
        let mut runner = Runner::new(cache, work, 0);
        runner.warm_up();
        let (usage, counts) = (Usage::now(), Counts::now());
        let begin = Instant::now();
        let report = runner.run(begin);
        let counts = Counts::now().since(counts);
        let usage = Usage::now().since(usage);
        finish(vec![Ok(report)], begin, counts, usage)
    };
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|payload| Err(panic_message(&*payload)))
}

fn finish(
    reports: Vec<Result<Report, String>>,
    begin: Instant,
    counts: Counts,
    usage: Usage,
) -> Result<Done, String> {
    let reports = reports.into_iter().collect::<Result<Vec<_>, _>>()?;
    let end = reports.iter().map(|report| report.end).max();
    Ok(Done {
        operations: reports.iter().map(|report| report.operations).sum(),
        wall: end.map_or(Duration::ZERO, |end| end.saturating_duration_since(begin)),
        taken: reports.iter().map(|report| report.taken).collect(),
        sum: reports.iter().map(|report| report.sum).sum(),
        counts,
        usage,
    })
}

impl Done {
    /// Nanoseconds per operation of all threads together: wall time over operations, as Go's `RunParallel` counts.
    #[must_use]
    pub fn ns_per_op(&self) -> f64 {
        self.wall.as_nanos() as f64 / self.operations as f64
    }
}

/// Runs code of a contender; a panic becomes an error with its message.
///
/// # Errors
///
/// The message of the panic.
pub fn caught<T>(run: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(run)).map_err(|payload| panic_message(&*payload))
}

/// The message of a panic, in one line.
#[must_use]
pub fn panic_message(payload: &(dyn std::any::Any + Send)) -> String {
    let text = payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("without a message");
    format!(
        "panicked: {}",
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::{self, Dist, KeyDraw, Mix};
    use cache_locked::{MutexCache, NaiveCache};

    fn streams(threads: u64, keys: usize) -> Vec<Vec<Op>> {
        let draw = KeyDraw::new(Dist::Uniform, &workload::ranks(keys, 1));
        (0..threads)
            .map(|t| workload::stream(&draw, Mix { reads: 50 }, 1000, workload::generator(1, t)))
            .collect()
    }

    #[test]
    fn every_length_runs_what_it_says() {
        let keys = workload::keys(100, 16);
        let cache: MutexCache<&str, &str> = keys.iter().map(|key| (*key, "before")).collect();
        for threads in [1, 2, 5] {
            let streams = streams(threads, keys.len());
            for length in [
                Length::Time(Duration::from_millis(5)),
                Length::Operations(12_345),
                Length::StreamOnce,
            ] {
                let work = Work {
                    keys: &keys,
                    value: "after.",
                    streams: &streams,
                    pin: &[],
                    length,
                };
                let done = drive(&cache, &work).expect("no panic");
                match length {
                    Length::Time(time) => assert!(done.wall >= time && done.operations > 0),
                    Length::Operations(n) => assert_eq!(done.operations, n),
                    Length::StreamOnce => assert_eq!(done.operations, 1000 * threads),
                }
                // All values are six bytes long, so the sum counts the reads.
                let reads: usize = done.taken.iter().zip(&streams).fold(0, |sum, (n, ops)| {
                    sum + ops
                        .iter()
                        .cycle()
                        .take(*n as usize)
                        .filter(|op| !op.is_write())
                        .count()
                });
                assert_eq!(done.sum, 6 * reads as u64);
            }
        }
    }

    #[test]
    fn one_thread_alone_runs_contenders_that_cannot_be_shared() {
        let keys = workload::keys(10, 16);
        let cache: NaiveCache<&str, &str> = keys.iter().map(|key| (*key, "v")).collect();
        let streams = streams(1, keys.len());
        let work = Work {
            keys: &keys,
            value: "w",
            streams: &streams,
            pin: &[],
            length: Length::Operations(2500),
        };
        let done = drive_alone(&cache, &work).expect("no panic");
        assert_eq!((done.operations, done.counts.allocations), (2500, 0));
    }

    struct Fragile;
    impl Cache<&'static str, &'static str> for Fragile {
        fn get_with<Q, F, R>(&self, _: &Q, _: F) -> Option<R>
        where
            &'static str: std::borrow::Borrow<Q>,
            Q: std::hash::Hash + Eq + Sync + ?Sized,
            F: FnOnce(&&'static str) -> R + Send,
            R: Send,
        {
            panic!("not\nready")
        }
        fn insert(&self, _: &'static str, _: &'static str) {}
        fn remove<Q>(&self, _: &Q)
        where
            &'static str: std::borrow::Borrow<Q>,
            Q: std::hash::Hash + Eq + Sync + ?Sized,
        {
        }
        fn len(&self) -> usize {
            0
        }
    }

    #[test]
    fn a_panic_ends_the_cell_and_nothing_else() {
        let keys = workload::keys(10, 16);
        let streams = streams(3, keys.len());
        let work = Work {
            keys: &keys,
            value: "w",
            streams: &streams,
            pin: &[],
            length: Length::Time(Duration::from_millis(5)),
        };
        let failed = drive(&Fragile, &work).expect_err("it panics");
        assert_eq!(failed, "panicked: not ready");
        assert!(drive_alone(&Fragile, &work).is_err());
    }
}
