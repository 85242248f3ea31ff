//! Writers at full speed while a snapshot is taken every millisecond: checks every cut, that memory stays bounded,
//! and that every value is dropped exactly once. `cargo run --release --example soak -- SECONDS THREADS`; exit code 0
//! if all held, 1 if something did not, 2 on wrong usage. Measures no speed.

use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::VecDeque;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use cache_ctrie::{Map, Snapshot};

/// The system's allocator, counting the bytes that are live: nodes are nearly all of them.
struct Counting;

static LIVE: AtomicI64 = AtomicI64::new(0);

// SAFETY: everything is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(layout.size() as i64, Relaxed);
        // SAFETY: passed on to the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size() as i64, Relaxed);
        // SAFETY: passed on to the caller.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

static BORN: AtomicU64 = AtomicU64::new(0);
static DROPPED: AtomicU64 = AtomicU64::new(0);

/// A value that is counted, and that knows when it is dropped a second time.
struct Counted {
    number: u64,
    alive: AtomicBool,
}

impl Counted {
    fn new(number: u64) -> Self {
        BORN.fetch_add(1, Relaxed);
        Self {
            number,
            alive: AtomicBool::new(true),
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        if !self.alive.swap(false, Relaxed) {
            eprintln!("soak: a value was dropped twice");
            std::process::abort();
        }
        DROPPED.fetch_add(1, Relaxed);
    }
}

type Soaked = Map<u64, Counted>;

/// Pairs of keys per writer: the first of a pair is written, then the second, each time with the next number.
const PAIRS: u64 = 2_000;
/// Keys that each writer inserts and removes in between, so that arrays split and contract.
const PASSING: u64 = 4_000;
/// Snapshots that are held at a time.
const HELD: usize = 16;

const fn first(writer: u64, pair: u64) -> u64 {
    writer << 32 | pair << 1
}

const fn passing(writer: u64, n: u64) -> u64 {
    writer << 32 | 1 << 31 | n
}

/// A small generator: the soak needs variety, not quality.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % n
    }
}

fn write(map: &Soaked, writer: u64, over: &AtomicBool, writes: &AtomicU64) {
    let mut dice = Dice(writer + 1);
    let mut numbers = vec![0; PAIRS as usize];
    let mut count = 0;
    while !over.load(Relaxed) {
        let pair = dice.below(PAIRS);
        let number = &mut numbers[pair as usize];
        *number += 1;
        map.insert(first(writer, pair), Counted::new(*number));
        map.insert(first(writer, pair) + 1, Counted::new(*number));
        let key = passing(writer, dice.below(PASSING));
        if dice.below(2) == 0 {
            map.insert(key, Counted::new(0));
        } else {
            map.remove(&key);
        }
        count += 3;
        if count % 3_072 == 0 {
            writes.fetch_add(3_072, Relaxed);
        }
    }
}

/// A snapshot with what was read from it when it was taken.
struct Held {
    snapshot: Snapshot<u64, Counted>,
    seen: Vec<(u64, Option<u64>)>,
}

/// Takes a snapshot every millisecond and checks it; a fault goes to `faults`.
fn observe(map: &Soaked, writers: u64, over: &AtomicBool, faults: &Sender<String>) -> u64 {
    let mut dice = Dice(99);
    let mut held: VecDeque<Held> = VecDeque::new();
    let mut taken = 0;
    let mut due = Instant::now();
    while !over.load(Relaxed) {
        let snapshot = map.snapshot();
        taken += 1;
        let mut seen = Vec::new();
        for writer in 0..writers {
            for _ in 0..8 {
                let key = first(writer, dice.below(PAIRS));
                let [a, b] =
                    [key, key + 1].map(|key| snapshot.get_ref(&key).map(|value| value.number));
                let (x, y) = (a.unwrap_or(0), b.unwrap_or(0));
                if y > x || x > y + 1 {
                    let _ = faults.send(format!(
                        "torn snapshot {taken}: key {key} is {x}, the next one {y}"
                    ));
                }
                let live = map.get_with(&key, |value| value.number).unwrap_or(0);
                if live < x {
                    let _ = faults.send(format!(
                        "the live map is behind snapshot {taken}: {live} < {x}"
                    ));
                }
                seen.extend([(key, a), (key + 1, b)]);
            }
        }
        if taken % 256 == 0 {
            let (len, walked) = (snapshot.len(), snapshot.iter().count());
            if len != walked {
                let _ = faults.send(format!(
                    "snapshot {taken} has length {len} and {walked} entries"
                ));
            }
            let fork = map.fork();
            let (before, key) = (fork.len(), first(writers, 0));
            fork.insert(key, Counted::new(1));
            if fork.len() != before + 1 || map.contains_key(&key) {
                let _ = faults.send(format!(
                    "a fork and its origin are not independent (snapshot {taken})"
                ));
            }
        }
        held.push_back(Held { snapshot, seen });
        if held.len() > HELD {
            let oldest = held.pop_front().expect("not empty");
            for (key, number) in oldest.seen {
                if oldest.snapshot.get_ref(&key).map(|value| value.number) != number {
                    let _ = faults.send(format!("a held snapshot changed at key {key}"));
                }
            }
        }
        due += Duration::from_millis(1);
        thread::sleep(due.saturating_duration_since(Instant::now()));
    }
    taken
}

/// Lets the collector work until all values are gone and memory falls no more, or ten seconds have passed.
fn settle() {
    let end = Instant::now() + Duration::from_secs(10);
    let mut idle = 0;
    while Instant::now() < end {
        let before = LIVE.load(Relaxed);
        for _ in 0..64 {
            cache_reclaim::epoch::pin().flush();
        }
        thread::yield_now();
        idle = if LIVE.load(Relaxed) < before {
            0
        } else {
            idle + 1
        };
        if idle > 100 && BORN.load(Relaxed) == DROPPED.load(Relaxed) {
            break;
        }
    }
}

fn mebibytes(bytes: i64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

fn median(mut figures: Vec<i64>) -> i64 {
    figures.sort_unstable();
    figures.get(figures.len() / 2).copied().unwrap_or(0)
}

fn soak(time: Duration, writers: u64) -> Vec<String> {
    let before = LIVE.load(Relaxed);
    let (faults, found) = channel();
    let over = AtomicBool::new(false);
    let writes = AtomicU64::new(0);
    let map = Soaked::new();
    for writer in 0..writers {
        for pair in 0..PAIRS {
            map.insert(first(writer, pair), Counted::new(0));
            map.insert(first(writer, pair) + 1, Counted::new(0));
        }
        for n in (0..PASSING).step_by(2) {
            map.insert(passing(writer, n), Counted::new(0));
        }
    }
    let loaded = LIVE.load(Relaxed) - before;
    // The figures of each half of the run. Bounded memory has no higher median in the second; a single peak says how
    // long the system once left a pinned thread without a processor.
    let mut halves = [Vec::new(), Vec::new()];
    let mut snapshots = 0;
    thread::scope(|scope| {
        let (map, over, writes) = (&map, &over, &writes);
        let workers: Vec<_> = (0..writers)
            .map(|writer| scope.spawn(move || write(map, writer, over, writes)))
            .collect();
        let observer_faults = faults.clone();
        let observer = scope.spawn(move || observe(map, writers, over, &observer_faults));
        let start = Instant::now();
        while start.elapsed() < time {
            let half = usize::from(start.elapsed() * 2 > time);
            halves[half].push(LIVE.load(Relaxed) - before);
            thread::sleep(Duration::from_millis(2));
            if workers.iter().any(thread::ScopedJoinHandle::is_finished) || observer.is_finished() {
                break;
            }
        }
        over.store(true, Relaxed);
        for worker in workers {
            if worker.join().is_err() {
                let _ = faults.send("a writer panicked".to_owned());
            }
        }
        match observer.join() {
            Ok(taken) => snapshots = taken,
            Err(_) => drop(faults.send("the observer panicked".to_owned())),
        }
    });
    drop(map);
    settle();
    drop(faults);
    let mut faults: Vec<String> = found.iter().take(20).collect();
    let (born, dropped) = (BORN.load(Relaxed), DROPPED.load(Relaxed));
    if born != dropped {
        faults.push(format!("{born} values were made and {dropped} dropped"));
    }
    let peak = halves.iter().flatten().copied().max().unwrap_or(0);
    let [first, second] = halves.map(median);
    let left = LIVE.load(Relaxed) - before;
    if left > 1 << 20 {
        faults.push(format!(
            "{:.1} MiB are left after everything was dropped",
            mebibytes(left)
        ));
    }
    if second as f64 > 1.5 * first as f64 + f64::from(16 << 20) {
        let (first, second) = (mebibytes(first), mebibytes(second));
        faults.push(format!(
            "memory grows: {first:.1} MiB in the first half, {second:.1} MiB in the second"
        ));
    }
    println!(
        "writers {writers}, writes {}, snapshots {snapshots}",
        writes.load(Relaxed)
    );
    println!(
        "loaded {:.1} MiB; steady {:.1} MiB ({:.1} then {:.1}); peak {:.1} MiB, {:.1}x steady; at the end {:.2} MiB",
        mebibytes(loaded),
        mebibytes(first.midpoint(second)),
        mebibytes(first),
        mebibytes(second),
        mebibytes(peak),
        peak as f64 / first.midpoint(second).max(1) as f64,
        mebibytes(left)
    );
    println!("values made {born}, dropped {dropped}");
    faults
}

fn main() -> ExitCode {
    let arguments: Option<Vec<u64>> = std::env::args()
        .skip(1)
        .map(|text| text.parse().ok())
        .collect();
    let (seconds, threads) = match arguments.as_deref() {
        Some([]) => (5, 8),
        Some([seconds]) if *seconds > 0 => (*seconds, 8),
        Some([seconds, threads]) if *seconds > 0 && (1..=1_024).contains(threads) => {
            (*seconds, *threads)
        }
        _ => {
            eprintln!(
                "usage: soak [SECONDS [THREADS]]   (both above 0, at most 1024 threads; default: 5 8)"
            );
            return ExitCode::from(2);
        }
    };
    let faults = soak(Duration::from_secs(seconds), threads);
    if faults.is_empty() {
        println!("soak: passed");
        return ExitCode::SUCCESS;
    }
    for fault in &faults {
        eprintln!("soak: {fault}");
    }
    ExitCode::FAILURE
}
