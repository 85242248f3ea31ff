//! The latency of single operations: every one is timed, and what is reported is the distribution. The figures never
//! mix with those of throughput, since looking at the clock twice per operation slows the loop down.
//!
//! # The clock
//!
//! [`Instant`], and no counter read by hand. On Linux it is the time-stamp counter read in user space behind a fence,
//! so that an operation cannot leak out of its interval as it may around an unfenced counter; it is monotonic across
//! cores and needs no calibration at start-up. It costs some ten nanoseconds more than the bare counter, which is why
//! its cost is measured and printed: [`Timed::started`] reads it twice with nothing in between, on the thread and core
//! that go on to measure. An interval holds about one such reading besides the operation; it is not subtracted.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use parking_lot::Mutex;

use super::{Bench, Benchtime, Grid, Sample, grid};
use crate::keys::{Key, Value};
use crate::subject::{Family, Subject};
use crate::timing::{self, Length, Measured, Regime as _};
use crate::workload::{Dist, Mix, Stream};

/// The most keys of a map whose operations are timed: the tail is made by locks, growth and reclamation, and a cell
/// must not spend its time on filling.
pub const MOST_TIMED_KEYS: usize = 250_000;

/// The writes that a cell of a copying design holds at least.
pub const LEAST_TIMED_WRITES: u64 = 40;

/// A percentile is printed if so many samples lie beyond it.
const BEYOND: f64 = 10.0;

/// What is printed, as a share and as a unit.
const PERCENTILES: [(f64, &str); 4] = [
    (0.5, "p50-ns"),
    (0.9, "p90-ns"),
    (0.99, "p99-ns"),
    (0.999, "p99.9-ns"),
];

/// One cell: zipf keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Latency {
    /// The share of reads.
    pub mix: Mix,
    /// How many threads.
    pub threads: usize,
    /// Whether a write copies the map: then the number of operations is fixed, and small.
    pub copying: bool,
}

impl Latency {
    /// The same as a cell of the core grid.
    #[must_use]
    pub fn grid(&self) -> Grid {
        let writes = self.copying && self.mix.reads < 100;
        Grid {
            dist: Dist::Zipf,
            mix: self.mix,
            threads: self.threads,
            least_writes: if writes { LEAST_TIMED_WRITES } else { 0 },
        }
    }

    /// How long a cell of no fixed length runs: a quarter of the time, since every operation is a sample.
    #[must_use]
    pub fn share(benchtime: Benchtime) -> Benchtime {
        match benchtime {
            Benchtime::Time(time) => Benchtime::Time((time / 4).max(Duration::from_micros(1))),
            ops @ Benchtime::Ops(_) => ops,
        }
    }

    /// The operations of each thread, and how long they go on.
    fn work(&self, bench: &Bench) -> (Vec<Stream>, Length) {
        let grid = self.grid();
        if grid.least_writes > 0 {
            let (ops, writes) = grid.fixed(bench.benchtime);
            let streams = bench.exact_streams(grid.dist, self.threads, ops, writes);
            return (streams, Length::OpsPerThread(ops as u64));
        }
        let length = match (Self::share(bench.benchtime), bench.length(self.threads)) {
            (Benchtime::Time(time), _) => Length::Time(time),
            (Benchtime::Ops(_), length) => length,
        };
        (bench.streams(grid.dist, self.mix, self.threads), length)
    }
}

/// What one thread saw, in nanoseconds.
#[derive(Clone, Debug)]
struct Seen {
    reads: Histogram<u64>,
    writes: Histogram<u64>,
    /// Two readings of the clock with nothing in between.
    timer: Histogram<u64>,
}

impl Seen {
    fn new() -> Self {
        // From 1 ns to a minute, to three digits; beyond that a value counts as a minute.
        let empty =
            Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("constant bounds are valid");
        Self {
            reads: empty.clone(),
            writes: empty.clone(),
            timer: empty,
        }
    }

    fn add(&mut self, other: &Self) {
        let pairs = [
            (&mut self.reads, &other.reads),
            (&mut self.writes, &other.writes),
            (&mut self.timer, &other.timer),
        ];
        for (sum, part) in pairs {
            sum.add(part).expect("histograms of the same bounds");
        }
    }
}

/// A map whose operations are timed one by one, each thread for itself.
#[derive(Debug)]
struct Timed<M> {
    map: M,
    /// One for each thread, locked outside the intervals, and never by another thread before the end.
    seen: Box<[Mutex<Seen>]>,
    arrived: AtomicUsize,
}

thread_local! {
    /// Which of a map's histograms belongs to this thread.
    static MINE: Cell<Option<usize>> = const { Cell::new(None) };
}

/// How often the clock is read to find out what it costs.
const TIMER_READINGS: usize = 1000;

impl<M> Timed<M> {
    /// `map`, to be used by so many threads.
    fn new(map: M, threads: usize) -> Self {
        Self {
            map,
            seen: (0..threads.max(1))
                .map(|_| Mutex::new(Seen::new()))
                .collect(),
            arrived: AtomicUsize::new(0),
        }
    }

    /// This thread's histograms.
    fn mine(&self) -> &Mutex<Seen> {
        let number = MINE.get().unwrap_or_else(|| {
            // Relaxed: the counter hands out numbers and publishes nothing.
            let number = self.arrived.fetch_add(1, Ordering::Relaxed);
            MINE.set(Some(number));
            number
        });
        // A thread that is not one of those announced shares: its samples count all the same.
        &self.seen[number % self.seen.len()]
    }

    /// What all threads saw together.
    fn merged(&self) -> Seen {
        let mut sum = Seen::new();
        self.seen.iter().for_each(|seen| sum.add(&seen.lock()));
        sum
    }
}

/// The time from one reading of the clock to the other.
fn nanoseconds(start: Instant, end: Instant) -> u64 {
    u64::try_from((end - start).as_nanos()).unwrap_or(u64::MAX)
}

impl<K, V, M: Subject<K, V>> Subject<K, V> for Timed<M> {
    const STORES: bool = M::STORES;
    const MISSES_WHILE_REPLACED: bool = M::MISSES_WHILE_REPLACED;

    #[inline]
    fn read<R: Send>(&self, key: &K, f: impl FnOnce(&V) -> R + Send) -> Option<R> {
        let mut seen = self.mine().lock();
        let start = Instant::now();
        let answer = self.map.read(key, f);
        let end = Instant::now();
        seen.reads.saturating_record(nanoseconds(start, end));
        answer
    }

    #[inline]
    fn write(&self, key: K, value: V) {
        let mut seen = self.mine().lock();
        let start = Instant::now();
        self.map.write(key, value);
        let end = Instant::now();
        seen.writes.saturating_record(nanoseconds(start, end));
    }

    fn erase(&self, key: &K) {
        self.map.erase(key);
    }

    fn count(&self) -> usize {
        self.map.count()
    }

    /// Forgets the warm-up, and times the clock itself.
    fn started(&self) {
        let mut seen = self.mine().lock();
        let Seen {
            reads,
            writes,
            timer,
        } = &mut *seen;
        reads.reset();
        writes.reset();
        timer.reset();
        for _ in 0..TIMER_READINGS {
            let start = Instant::now();
            let end = Instant::now();
            timer.saturating_record(nanoseconds(start, end));
        }
    }
}

/// Measures and verifies one cell.
///
/// # Errors
///
/// A panic of the design, or a wrong answer, as one line.
pub fn run<F: Family>(cell: &Latency, bench: &Bench) -> Result<Sample, String>
where
    F::Map<Key, Value>: Sync,
{
    let bench = bench.limited(MOST_TIMED_KEYS);
    let (streams, length) = cell.work(bench);
    let map = Timed::new(filled::<F>(bench), cell.threads);
    let (keys, values) = (&bench.keys, &bench.values);
    let measured = timing::measure(&map, keys, &streams, length, &bench.pins, values)?;
    finished(&map, bench, &streams, measured)
}

/// Measures and verifies one cell of one thread, for maps that cannot be shared.
///
/// # Errors
///
/// As for [`run`].
pub fn run_alone<F: Family>(cell: &Latency, bench: &Bench) -> Result<Sample, String> {
    let bench = bench.limited(MOST_TIMED_KEYS);
    let (streams, length) = cell.work(bench);
    let [stream] = streams.as_slice() else {
        return Err(format!(
            "this map cannot be shared by {} threads",
            cell.threads
        ));
    };
    let map = Timed::new(filled::<F>(bench), 1);
    let (keys, values) = (&bench.keys, &bench.values);
    let measured = timing::measure_alone(&map, keys, stream, length, &bench.pins, values)?;
    finished(&map, bench, &streams, measured)
}

/// The map before the clock starts.
fn filled<F: Family>(bench: &Bench) -> F::Map<Key, Value> {
    let entries = bench.keys.iter().enumerate();
    F::filled(entries.map(|(index, key)| (key, bench.values.initial(index))))
}

/// The sample with its percentiles, if the answers are right and every operation was timed.
fn finished<M: Subject<Key, Value>>(
    map: &Timed<M>,
    bench: &Bench,
    streams: &[Stream],
    measured: Measured,
) -> Result<Sample, String> {
    // Comparing the contents reads the map, and is timed as well: what counts is taken before.
    let seen = map.merged();
    let mut sample = grid::checked(map, &bench.keys, streams, measured, &bench.values)?;
    let (reads, writes) = (seen.reads.len(), seen.writes.len());
    let Measured {
        ops, writes: wrote, ..
    } = sample.measured;
    if (reads, writes) != (ops - wrote, wrote) {
        return Err(format!(
            "{reads} reads and {writes} writes were timed, {} and {wrote} were made",
            ops - wrote
        ));
    }
    let mut all = seen.reads.clone();
    all.add(&seen.writes)
        .expect("histograms of the same bounds");
    for (share, unit) in PERCENTILES {
        if ops as f64 * (1.0 - share) >= BEYOND {
            sample
                .extra
                .push((all.value_at_quantile(share) as f64, unit));
        }
    }
    sample.extra.push((all.max() as f64, "max-ns"));
    sample
        .extra
        .push((seen.timer.value_at_quantile(0.5) as f64, "timer-ns"));
    for (of, histogram) in [
        ("all", &all),
        ("reads", &seen.reads),
        ("writes", &seen.writes),
    ] {
        if !histogram.is_empty() {
            sample.notes.push(("histogram", spectrum(of, histogram)));
        }
    }
    Ok(sample)
}

/// The distribution as an object: pairs of a share and the nanoseconds that so many operations did not exceed, two
/// for each halving of what lies beyond.
fn spectrum(of: &str, histogram: &Histogram<u64>) -> serde_json::Value {
    let points: Vec<(f64, u64)> = histogram
        .iter_quantiles(2)
        .map(|step| (step.quantile_iterated_to(), step.value_iterated_to()))
        .collect();
    serde_json::json!({
        "of": of,
        "unit": "ns",
        "count": histogram.len(),
        "min": histogram.min(),
        "mean": histogram.mean().round(),
        "max": histogram.max(),
        "points": points,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::Keys;
    use crate::registry::find;

    fn bench(ops: u64) -> Bench {
        Bench::new(
            Keys::new(1000, 16),
            64,
            1,
            Vec::new(),
            Benchtime::Ops(ops),
            2,
        )
    }

    fn unit(sample: &Sample, wanted: &str) -> Option<f64> {
        let mut values = sample.extra.iter().filter(|(_, unit)| *unit == wanted);
        values.next().map(|(value, _)| *value)
    }

    #[test]
    fn percentiles_rise_and_the_timer_is_told() {
        for (name, threads) in [("sharded", 2), ("naive", 1), ("noop", 2)] {
            let cell = Latency {
                mix: Mix { reads: 90 },
                threads,
                copying: false,
            };
            let design = find(name).unwrap();
            let sample = (design.programs.latency)(&cell, &bench(40_000)).unwrap();
            assert_eq!(sample.measured.ops, 40_000);
            let units = [
                "timer-ns", "p50-ns", "p90-ns", "p99-ns", "p99.9-ns", "max-ns",
            ];
            let values = units
                .map(|wanted| unit(&sample, wanted).unwrap_or_else(|| panic!("{name}: {wanted}")));
            assert!(
                values[0] >= 1.0,
                "{name}: reading a clock takes time: {values:?}"
            );
            assert!(values[1..].is_sorted(), "{name}: {values:?}");
            let kinds: Vec<&str> = sample
                .notes
                .iter()
                .map(|(_, note)| note["of"].as_str().unwrap())
                .collect();
            assert_eq!(kinds, ["all", "reads", "writes"]);
            let counts: Vec<u64> = sample
                .notes
                .iter()
                .map(|(_, note)| note["count"].as_u64().unwrap())
                .collect();
            assert_eq!((counts[0], counts[1] + counts[2]), (40_000, 40_000));
            let all = sample.notes[0].1["points"].as_array().unwrap();
            assert!(
                all.is_sorted_by_key(|point| point[1].as_u64()) && all.len() > 20,
                "{all:?}"
            );
            assert_eq!(all.last().unwrap()[0], 1.0);
        }
    }

    /// A map that sleeps in one write of a thousand: the tail must show it, and the median must not.
    #[test]
    fn a_pause_is_seen_in_the_tail_alone() {
        struct Pausing(AtomicUsize);
        impl Subject<Key, Value> for Pausing {
            const STORES: bool = false;
            fn read<R: Send>(&self, _: &Key, f: impl FnOnce(&Value) -> R + Send) -> Option<R> {
                Some(f(&"o"))
            }
            fn write(&self, _: Key, _: Value) {
                if self.0.fetch_add(1, Ordering::Relaxed) % 1000 == 7 {
                    std::thread::sleep(Duration::from_millis(3));
                }
            }
            fn erase(&self, _: &Key) {}
            fn count(&self) -> usize {
                1000
            }
        }
        let bench = Bench::new(
            Keys::new(1000, 16),
            1,
            1,
            Vec::new(),
            Benchtime::Ops(4000),
            1,
        );
        let streams = bench.streams(Dist::Zipf, Mix { reads: 0 }, 1);
        let map = Timed::new(Pausing(AtomicUsize::new(0)), 1);
        let length = Length::OpsPerThread(4000);
        let measured =
            timing::measure(&map, &bench.keys, &streams, length, &[], &bench.values).unwrap();
        let sample = finished(&map, &bench, &streams, measured).unwrap();
        assert!(
            unit(&sample, "max-ns").unwrap() >= 3e6,
            "{:?}",
            sample.extra
        );
        assert!(unit(&sample, "p50-ns").unwrap() < 1e6, "{:?}", sample.extra);
    }

    #[test]
    fn a_percentile_needs_samples_beyond_it() {
        let cell = Latency {
            mix: Mix { reads: 90 },
            threads: 2,
            copying: true,
        };
        let sample = (find("cow").unwrap().programs.latency)(&cell, &bench(1)).unwrap();
        assert!(sample.measured.writes >= LEAST_TIMED_WRITES);
        assert!(
            sample.measured.ops < 1000,
            "few operations where each may copy the map"
        );
        assert!(unit(&sample, "p90-ns").is_some() && unit(&sample, "p99-ns").is_none());
    }
}
