//! What a map costs in memory: full, while a view of it is held, and when everything has been removed again. Bytes are
//! those asked of the allocator and not given back; the system's view (resident memory) stands beside them.

use std::time::{Duration, Instant};

use super::{Bench, Sample, grid};
use crate::alloc::Totals;
use crate::keys::{Key, Keys, Value};
use crate::machine::{self, Usage};
use crate::subject::{Family, Freezes, Subject};
use crate::timing::{Measured, Regime as _};

/// The most keys of a map that is overwritten or emptied.
pub const MOST_CHURNED: usize = 250_000;

/// The same where each removal copies the map.
pub const MOST_COPIED: usize = 2_000;

/// When the memory is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Every key is there.
    Filled,
    /// A view is held, and every key was overwritten since.
    Snapshot,
    /// Every key was there, and was removed.
    Emptied,
}

impl State {
    /// The name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Filled => "filled",
            Self::Snapshot => "snapshot",
            Self::Emptied => "emptied",
        }
    }
}

/// One cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// When the memory is looked at.
    pub state: State,
    /// Whether a write copies the map: then there are few of them.
    pub copying: bool,
}

impl Memory {
    /// How many keys the map holds at first.
    #[must_use]
    pub fn keys(&self, keys: usize) -> usize {
        match (self.state, self.copying) {
            (State::Filled, _) => keys,
            (State::Emptied, true) => keys.min(MOST_COPIED),
            (State::Emptied | State::Snapshot, _) => keys.min(MOST_CHURNED),
        }
    }

    /// How many writes or removals follow.
    #[must_use]
    pub fn changes(&self, keys: usize) -> usize {
        match (self.state, self.copying) {
            (State::Filled, _) => 0,
            (State::Snapshot, true) => self.keys(keys).min(20),
            (State::Emptied | State::Snapshot, _) => self.keys(keys),
        }
    }

    /// How often one key is written and removed for garbage to be found: reclamation goes on as others work.
    fn settling(&self) -> usize {
        if self.copying { 8 } else { 4096 }
    }
}

/// What was there before the measured step.
struct Before {
    totals: Totals,
    usage: Usage,
    resident: u64,
    since: Instant,
}

impl Before {
    fn now() -> Self {
        machine::reset_peak_resident();
        Self {
            resident: machine::resident(),
            usage: Usage::now(),
            totals: Totals::now(),
            since: Instant::now(),
        }
    }

    /// The step as a sample of `ops` operations; it has ended now.
    fn sample(&self, ops: usize) -> Sample {
        let wall: Duration = self.since.elapsed();
        let measured = Measured {
            ops: ops as u64,
            writes: ops as u64,
            wall,
            usage: Usage::now().since(self.usage),
            allocated: Totals::now().since(self.totals),
            ..Measured::default()
        };
        let peak = (machine::peak_resident() as f64, "peak-RSS-bytes");
        Sample {
            measured,
            extra: vec![peak],
            notes: Vec::new(),
        }
    }

    /// Bytes in use now beyond those of then, for each of `entries`.
    fn live_per(&self, entries: usize) -> f64 {
        Totals::now().since(self.totals).live() as f64 / entries as f64
    }
}

/// A map of `keys`.
fn filled<F: Family>(keys: &Keys, bench: &Bench) -> F::Map<Key, Value> {
    let entries = keys.iter().enumerate();
    F::filled(entries.map(|(index, key)| (key, bench.values.initial(index))))
}

/// Measures and verifies a cell that needs no view.
///
/// # Errors
///
/// A panic of the design, or wrong contents, as one line.
pub fn run<F: Family>(cell: &Memory, bench: &Bench) -> Result<Sample, String> {
    match cell.state {
        State::Filled => run_filled::<F>(bench),
        State::Emptied => run_emptied::<F>(cell, bench),
        State::Snapshot => Err("this map has no point-in-time views".to_owned()),
    }
}

/// Fills a map, and tells what it holds.
fn run_filled<F: Family>(bench: &Bench) -> Result<Sample, String> {
    let keys = &bench.keys;
    let before = Before::now();
    let map = filled::<F>(keys, bench);
    let mut sample = before.sample(keys.len());
    let resident = machine::resident().saturating_sub(before.resident) as f64;
    sample.extra.extend([
        (before.live_per(keys.len()), "B/entry"),
        (resident / keys.len() as f64, "RSS-B/entry"),
    ]);
    grid::verify(&map, keys, &[], &[], &bench.values)?;
    Ok(sample)
}

/// Fills a map, removes every key, and tells what it still holds beyond an empty one.
fn run_emptied<F: Family>(cell: &Memory, bench: &Bench) -> Result<Sample, String> {
    let keys = &bench.keys.first(cell.keys(bench.keys.len()));
    let before_empty = Totals::now();
    let empty = filled::<F>(&keys.first(0), bench);
    let empty_bytes = Totals::now().since(before_empty).live();
    drop(empty);
    let base = Before::now();
    let map = filled::<F>(keys, bench);
    let before = Before::now();
    for key in keys.iter() {
        map.erase(&key);
    }
    let mut sample = before.sample(keys.len());
    // Some maps put removals off until they are asked for their size; what they hold then is not freed yet either.
    let count = map.count();
    let beyond = |base: &Before| base.live_per(keys.len()) - empty_bytes as f64 / keys.len() as f64;
    let at_once = beyond(&base);
    if count != 0 {
        return Err(format!("{count} entries are left of {}", keys.len()));
    }
    let step = (keys.len() / 10_000).max(1) | 1;
    for key in keys.iter().step_by(step) {
        if map.read(&key, |_| ()).is_some() {
            return Err(format!("{key} was removed and is there"));
        }
    }
    let key = keys.get(0);
    for _ in 0..cell.settling() {
        map.write(key, bench.values.new);
        map.erase(&key);
    }
    let count = map.count();
    if count != 0 {
        return Err(format!("{count} entries are left of one"));
    }
    sample.extra.extend([
        (at_once, "B/entry"),
        (beyond(&base), "settled-B/entry"),
        (empty_bytes as f64, "empty-bytes"),
    ]);
    Ok(sample)
}

/// Takes a view, overwrites the map, and tells what the view keeps alive; measures and verifies.
///
/// # Errors
///
/// A panic of the design, or wrong contents of the map or the view, as one line.
pub fn run_snapshot<F: Freezes>(cell: &Memory, bench: &Bench) -> Result<Sample, String> {
    let keys = &bench.keys.first(cell.keys(bench.keys.len()));
    let changes = cell.changes(keys.len());
    let values = &bench.values;
    let map = filled::<F>(keys, bench);
    let before = Before::now();
    let view = F::freeze(&map);
    for key in keys.iter().take(changes) {
        map.write(key, values.new);
    }
    let mut sample = before.sample(changes);
    let held = before.live_per(keys.len());
    let step = (changes / 10_000).max(1) | 1;
    for key in keys.iter().take(changes).step_by(step) {
        if map.read(&key, |value| *value == values.new) != Some(true) {
            return Err(format!("wrong contents: {key} lost a write"));
        }
        if view(&key) != Some(values.old) {
            return Err(format!(
                "wrong contents: the view of {key} is not of its moment"
            ));
        }
    }
    drop(view);
    let key = keys.get(0);
    for _ in 0..cell.settling() {
        map.write(key, values.new);
    }
    let released = before.live_per(keys.len());
    if map.count() != keys.len() {
        return Err(format!(
            "wrong length: {} entries instead of {}",
            map.count(),
            keys.len()
        ));
    }
    sample
        .extra
        .extend([(held, "B/entry"), (released, "released-B/entry")]);
    Ok(sample)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::sync::Arc;

    use parking_lot::Mutex;

    use super::*;
    use crate::programs::Benchtime;
    use crate::registry::{REGISTRY, find};
    use crate::subject::{Frozen, MapKey, MapValue};

    /// Removes nothing, and its views change with the map.
    struct Careless<K, V>(Arc<Mutex<HashMap<K, V>>>);

    impl<K: MapKey, V: MapValue> Subject<K, V> for Careless<K, V> {
        fn read<R: Send>(&self, key: &K, f: impl FnOnce(&V) -> R + Send) -> Option<R> {
            self.0.lock().get(key).map(f)
        }
        fn write(&self, key: K, value: V) {
            self.0.lock().insert(key, value);
        }
        fn erase(&self, _: &K) {}
        fn count(&self) -> usize {
            self.0.lock().len()
        }
    }

    struct CarelessRow;

    impl Family for CarelessRow {
        type Map<K: MapKey, V: MapValue> = Careless<K, V>;

        fn filled<K: MapKey, V: MapValue>(
            entries: impl ExactSizeIterator<Item = (K, V)>,
        ) -> Careless<K, V> {
            Careless(Arc::new(Mutex::new(entries.collect())))
        }
    }

    impl Freezes for CarelessRow {
        fn freeze<K: MapKey, V: MapValue>(map: &Careless<K, V>) -> Frozen<K, V> {
            let live = Arc::clone(&map.0);
            Box::new(move |key| live.lock().get(key).cloned())
        }
    }

    fn bench(keys: usize) -> Bench {
        Bench::new(Keys::new(keys, 16), 64, 1, Vec::new(), Benchtime::Ops(1), 1)
    }

    fn cell(state: State, copying: bool) -> Memory {
        Memory { state, copying }
    }

    fn unit(sample: &Sample, wanted: &str) -> f64 {
        let mut values = sample.extra.iter().filter(|(_, unit)| *unit == wanted);
        values
            .next()
            .unwrap_or_else(|| panic!("{wanted}: {:?}", sample.extra))
            .0
    }

    #[test]
    fn a_map_that_keeps_what_is_removed_fails() {
        let error = run::<CarelessRow>(&cell(State::Emptied, false), &bench(100)).unwrap_err();
        assert_eq!(error, "100 entries are left of 100");
    }

    #[test]
    fn a_view_that_changes_with_the_map_fails() {
        let error =
            run_snapshot::<CarelessRow>(&cell(State::Snapshot, false), &bench(100)).unwrap_err();
        assert!(error.contains("is not of its moment"), "{error}");
        assert!(run::<CarelessRow>(&cell(State::Snapshot, false), &bench(100)).is_err());
    }

    #[test]
    fn every_row_is_weighed() {
        // Other tests allocate and free meanwhile; entries enough drown most of that, the bounds are wide, and a
        // weighing that was disturbed all the same is repeated.
        let bench = bench(20_000);
        for design in REGISTRY {
            let copying = design.class == crate::registry::Class::Copying;
            let fill = || {
                let filled = (design.programs.memory)(&cell(State::Filled, copying), &bench)
                    .unwrap_or_else(|error| panic!("{}: {error}", design.name));
                assert_eq!(filled.measured.ops, 20_000);
                unit(&filled, "B/entry")
            };
            let stores = design.kind != crate::registry::Kind::Floor;
            if stores {
                // Two headers of 16 bytes are stored for each entry.
                let weighings: Vec<f64> = (0..5).map(|_| fill()).collect();
                assert!(
                    weighings.iter().any(|&each| each > 25.0),
                    "{}: {weighings:?} bytes per entry",
                    design.name
                );
                let emptied = (design.programs.memory)(&cell(State::Emptied, copying), &bench)
                    .unwrap_or_else(|error| panic!("{}: {error}", design.name));
                assert!(unit(&emptied, "settled-B/entry").is_finite());
            } else {
                fill();
            }
            assert_eq!(
                design.programs.snapshot.is_some(),
                design.snapshot != "none",
                "{}",
                design.name
            );
            if let Some(snapshot) = design.programs.snapshot {
                let held = snapshot(&cell(State::Snapshot, copying), &bench)
                    .unwrap_or_else(|error| panic!("{}: {error}", design.name));
                assert!(
                    unit(&held, "B/entry") > 10.0,
                    "{}: a view that costs nothing",
                    design.name
                );
            }
        }
        assert!(find("mutex").unwrap().programs.snapshot.is_none());
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn the_peak_is_that_of_the_cell() {
        drop(std::hint::black_box(vec![1_u8; 64 << 20]));
        assert!(machine::reset_peak_resident());
        assert!(machine::peak_resident() >= machine::resident() / 2);
    }
}
