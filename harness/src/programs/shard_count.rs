//! The number of shards: one lock, or thousands? The designs that stripe their locks, with as many shards as each
//! cell says. Everything but the number of shards is the core grid's, with one difference: cells with the same number
//! of shards share a map, since filling it would take longer than all the rest. It stays full, every cell writes a
//! value of its own, and what each key holds is known.

use std::any::Any;
use std::cell::RefCell;
use std::time::Duration;

use super::{Bench, Benchtime, Sample, grid};
use crate::keys::{Key, Keys, Value};
use crate::subject::Subject;
use crate::timing::{Length, Regime};
use crate::workload::{Dist, Mix, Stream};

/// The numbers of shards that are measured.
pub const SHARDS: [usize; 6] = [1, 16, 64, 256, 1024, 4096];

/// The longest sample. Cells are many, and hundreds of thousands of operations fit; the noise is that of the rounds.
pub const LONGEST_SAMPLE: Duration = Duration::from_millis(40);

/// A design that is made with a number of shards of the caller's choice.
pub trait Striped: 'static {
    /// Its map.
    type Map: Subject<Key, Value> + Sync + 'static;

    /// A map of `shards` shards, sized for `entries` and filled with them.
    fn filled(shards: usize, entries: impl ExactSizeIterator<Item = (Key, Value)>) -> Self::Map;

    /// The shards that a map has.
    fn shards(map: &Self::Map) -> usize;
}

/// One cell of the experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShardCount {
    /// How many shards.
    pub shards: usize,
    /// The share of reads.
    pub mix: Mix,
    /// How many threads.
    pub threads: usize,
}

/// Makes a map of `shards` shards, and makes sure that it has them.
///
/// # Errors
///
/// Where the design settled for another number, as one line.
pub(super) fn striped<D: Striped>(
    shards: usize,
    entries: impl ExactSizeIterator<Item = (Key, Value)>,
) -> Result<D::Map, String> {
    let map = D::filled(shards, entries);
    let has = D::shards(&map);
    if has == shards {
        Ok(map)
    } else {
        Err(format!("wrong map: {has} shards instead of {shards}"))
    }
}

/// How long a cell of `threads` threads runs.
pub(crate) fn length(benchtime: Benchtime, threads: usize) -> Length {
    match benchtime {
        Benchtime::Time(time) => Length::Time(time.min(LONGEST_SAMPLE)),
        Benchtime::Ops(ops) => Length::OpsPerThread(ops.div_ceil(threads as u64).max(1)),
    }
}

/// A full map, and what each key of it holds.
struct Shared<M> {
    shards: usize,
    count: usize,
    map: M,
    history: History,
}

/// The values that were written so far, one per cell, and the last one of each key.
struct History {
    values: Vec<Value>,
    last: Vec<u16>,
}

impl History {
    /// Of `count` keys that all hold the same value of `size` bytes.
    fn new(count: usize, size: usize) -> Self {
        let mut history = Self {
            values: Vec::new(),
            last: vec![0; count],
        };
        history.add(size);
        history
    }

    /// A value of `size` bytes that differs from the ones before, as far as the size allows.
    fn add(&mut self, size: usize) {
        let number = format!("{:0size$}", self.values.len());
        let from = number.len() - size;
        self.values.push(number[from..].to_owned().leak());
    }

    /// The value of the cell that is under way.
    fn newest(&self) -> Value {
        self.values[self.values.len() - 1]
    }

    /// Notes the writes among the first `ops` operations of a stream.
    fn note(&mut self, stream: &Stream, ops: u64) {
        let newest = (self.values.len() - 1) as u16;
        let ran = usize::try_from(ops)
            .unwrap_or(usize::MAX)
            .min(stream.ops().len());
        for op in stream.ops()[..ran].iter().filter(|op| op.is_write()) {
            self.last[op.index()] = newest;
        }
    }
}

impl Regime for History {
    type Value = Value;

    fn initial(&self, _: usize) -> Value {
        self.values[0]
    }

    #[inline]
    fn fresh(&self, _: usize) -> Value {
        self.newest()
    }

    #[inline]
    fn touch(value: &Value) -> u64 {
        value.len() as u64
    }

    fn touched(&self) -> u64 {
        self.newest().len() as u64
    }

    fn is_right(&self, index: usize, value: &Value, written: bool) -> bool {
        let before = self.values[usize::from(self.last[index])];
        *value == if written { self.newest() } else { before }
    }
}

thread_local! {
    /// The map of the last cell that this thread measured; cells come one after another.
    static LAST: RefCell<Option<Box<dyn Any>>> = const { RefCell::new(None) };
}

/// The map of the last cell, if it is one of `D` with so many shards and keys; a new one otherwise.
fn shared<D: Striped>(
    shards: usize,
    keys: &Keys,
    size: usize,
) -> Result<Box<Shared<D::Map>>, String> {
    let last = LAST.with(|last| last.borrow_mut().take());
    if let Some(mut last) = last.and_then(|last| last.downcast::<Shared<D::Map>>().ok())
        && (last.shards, last.count) == (shards, keys.len())
        && last.history.values.len() < usize::from(u16::MAX)
    {
        last.history.add(size);
        return Ok(last);
    }
    let mut history = History::new(keys.len(), size);
    let value = history.newest();
    let map = striped::<D>(shards, keys.iter().map(|key| (key, value)))?;
    history.add(size);
    Ok(Box::new(Shared {
        shards,
        count: keys.len(),
        map,
        history,
    }))
}

/// Measures and verifies one cell.
///
/// # Errors
///
/// A panic of the design, another number of shards, or a wrong answer, as one line. The map is then given up.
pub fn run<D: Striped>(cell: &ShardCount, bench: &Bench) -> Result<Sample, String> {
    let keys = &bench.keys;
    let size = bench.values.old.len();
    let mut shared = shared::<D>(cell.shards, keys, size)?;
    let streams = bench.streams(Dist::Uniform, cell.mix, cell.threads);
    let length = length(bench.benchtime, cell.threads);
    let Shared { map, history, .. } = &mut *shared;
    let sample = grid::measure_and_verify_on(map, keys, &streams, length, &bench.pins, history)?;
    for (stream, &ops) in streams.iter().zip(&sample.measured.cursors) {
        history.note(stream, ops);
    }
    LAST.with(|last| last.borrow_mut().replace(shared));
    Ok(sample)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::sync::Mutex;

    use super::*;
    use crate::floor::{Fault, Faulty, Noop};
    use crate::keys::Keys;

    /// Has one shard whatever it is asked for.
    struct Stubborn;

    impl Striped for Stubborn {
        type Map = Noop<Value>;

        fn filled(_: usize, entries: impl ExactSizeIterator<Item = (Key, Value)>) -> Self::Map {
            Noop::filled(entries)
        }

        fn shards(_: &Self::Map) -> usize {
            1
        }
    }

    #[test]
    fn a_map_with_another_number_of_shards_is_not_measured() {
        let bench = Bench::new(Keys::new(100, 16), 8, 1, Vec::new(), Benchtime::Ops(100), 1);
        let cell = |shards| ShardCount {
            shards,
            mix: Mix { reads: 50 },
            threads: 1,
        };
        assert!(run::<Stubborn>(&cell(1), &bench).is_ok());
        let error = run::<Stubborn>(&cell(256), &bench).unwrap_err();
        assert_eq!(error, "wrong map: 1 shards instead of 256");
    }

    /// Keeps what it is filled with and what is written, but for every hundredth write.
    struct Forgetful;

    impl Striped for Forgetful {
        type Map = Faulty<Locked>;

        fn filled(_: usize, entries: impl ExactSizeIterator<Item = (Key, Value)>) -> Self::Map {
            Faulty::new(Locked(Mutex::new(entries.collect())), Fault::LosesWrites)
        }

        fn shards(_: &Self::Map) -> usize {
            1
        }
    }

    /// A map that is right, and nothing else.
    struct Locked(Mutex<HashMap<Key, Value>>);

    impl Subject<Key, Value> for Locked {
        fn read<R: Send>(&self, key: &Key, f: impl FnOnce(&Value) -> R + Send) -> Option<R> {
            self.0.lock().unwrap().get(key).map(f)
        }

        fn write(&self, key: Key, value: Value) {
            self.0.lock().unwrap().insert(key, value);
        }

        fn erase(&self, key: &Key) {
            self.0.lock().unwrap().remove(key);
        }

        fn count(&self) -> usize {
            self.0.lock().unwrap().len()
        }
    }

    /// The same without the fault.
    struct Right;

    impl Striped for Right {
        type Map = Locked;

        fn filled(_: usize, entries: impl ExactSizeIterator<Item = (Key, Value)>) -> Self::Map {
            Locked(Mutex::new(entries.collect()))
        }

        fn shards(_: &Self::Map) -> usize {
            1
        }
    }

    #[test]
    fn cells_that_share_a_map_know_what_it_holds() {
        let cell = ShardCount {
            shards: 1,
            mix: Mix { reads: 10 },
            threads: 2,
        };
        let ops = Benchtime::Ops(30_000);
        let bench = Bench::new(Keys::new(20_000, 16), 8, 1, Vec::new(), ops, 2);
        let held = |bench: &Bench| -> Vec<Value> {
            LAST.with(|last| {
                let last = last.borrow();
                let shared: &Shared<Locked> = last.as_ref().unwrap().downcast_ref().unwrap();
                let map = shared.map.0.lock().unwrap();
                bench.keys.iter().map(|key| map[key]).collect()
            })
        };
        run::<Right>(&cell, &bench).unwrap();
        let first = held(&bench);
        // Other operations, on the same map: keys that they leave alone hold what the first cell left.
        let other = Bench::new(bench.keys, 8, 2, Vec::new(), ops, 2);
        run::<Right>(&cell, &other).unwrap();
        let second = held(&bench);
        for kind in ["00000000", "00000001", "00000002"] {
            assert!(second.contains(&kind), "no key holds {kind}");
        }
        assert!(!first.contains(&"00000002"));
        // The value of a key that no cell wrote any more is compared as well.
        LAST.with(|last| {
            let last = last.borrow();
            let shared: &Shared<Locked> = last.as_ref().unwrap().downcast_ref().unwrap();
            for value in shared.map.0.lock().unwrap().values_mut() {
                if *value == "00000000" {
                    *value = "00000001";
                }
            }
        });
        let error = run::<Right>(&cell, &bench).unwrap_err();
        assert!(error.contains("holds what nobody wrote"), "{error}");
        assert!(
            LAST.with(|last| last.borrow().is_none()),
            "a wrong map is given up"
        );
        let error = run::<Forgetful>(&cell, &bench).unwrap_err();
        assert!(error.contains("lost a write"), "{error}");
    }

    #[test]
    fn samples_are_short_and_counts_are_kept() {
        let second = Benchtime::Time(Duration::from_secs(1));
        assert_eq!(length(second, 2), Length::Time(LONGEST_SAMPLE));
        let short = Benchtime::Time(Duration::from_millis(1));
        assert_eq!(length(short, 2), Length::Time(Duration::from_millis(1)));
        assert_eq!(length(Benchtime::Ops(5), 2), Length::OpsPerThread(3));
    }
}
