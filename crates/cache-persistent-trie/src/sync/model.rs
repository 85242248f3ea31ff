//! What the model checker runs against: an adversarial epoch, memory that is never reused, a count of living objects,
//! mutants. Compiled under `--cfg shuttle` only.
//!
//! The mock epoch runs a deferred call at the first moment that the rules allow: when all guards that were alive at
//! the time of the call are gone. Freed objects stay in quarantine until the end of the execution, so that each access
//! can assert that its object is alive. The model checker runs all threads of an execution on one system thread,
//! one at a time, so plain thread-local cells hold this state.

use std::cell::RefCell;
use std::hash::{BuildHasher, Hasher};

use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::sync::Arc;
use shuttle::sync::atomic::{AtomicBool, Ordering};
use shuttle::{Config, Runner};

use super::Mutant;
use crate::raw::{Draft, Fresh, Parted, Whole};

#[derive(Default)]
struct State {
    mutant: Option<Mutant>,
    lists: bool,
    next_guard: u64,
    guards: Vec<u64>,
    deferred: Vec<(Vec<u64>, Box<dyn FnOnce()>)>,
    living: isize,
    quarantine: Vec<(usize, fn(usize))>,
}

thread_local! {
    static STATE: RefCell<State> = RefCell::default();
}

fn with<R>(f: impl FnOnce(&mut State) -> R) -> R {
    STATE.with(|state| f(&mut state.borrow_mut()))
}

/// A pinned thread.
pub struct Guard(u64);

/// Pins.
pub fn pin() -> Guard {
    with(|state| {
        state.next_guard += 1;
        state.guards.push(state.next_guard);
        Guard(state.next_guard)
    })
}

impl Guard {
    /// Runs `f` once all present guards are gone.
    pub(crate) fn defer<'a>(&self, f: impl FnOnce() + 'a) {
        let call: Box<dyn FnOnce() + 'a> = Box::new(f);
        // SAFETY: every call runs, or is leaked, before the execution ends, and with it the map it belongs to.
        let call =
            unsafe { std::mem::transmute::<Box<dyn FnOnce() + 'a>, Box<dyn FnOnce()>>(call) };
        with(|state| state.deferred.push((state.guards.clone(), call)));
    }
}

/// A grace period: over at the first moment that the rules allow.
pub(crate) struct Grace(Arc<AtomicBool>);

impl Grace {
    /// Begins one.
    pub(crate) fn begin() -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&over);
        let guards = with(|state| state.guards.clone());
        if guards.is_empty() {
            flag.store(true, Ordering::Release);
        } else {
            let call = Box::new(move || flag.store(true, Ordering::Release));
            with(|state| state.deferred.push((guards, call)));
        }
        Self(over)
    }

    /// Whether all guards of its beginning are gone.
    pub(crate) fn is_over(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// Nothing: the mock is never late.
pub(crate) fn advance() {}

impl Drop for Guard {
    fn drop(&mut self) {
        let due = with(|state| {
            state.guards.retain(|guard| *guard != self.0);
            for (waiting, _) in &mut state.deferred {
                waiting.retain(|guard| *guard != self.0);
            }
            let (due, later) = std::mem::take(&mut state.deferred)
                .into_iter()
                .partition(|(w, _)| w.is_empty());
            state.deferred = later;
            let due: Vec<(Vec<u64>, Box<dyn FnOnce()>)> = due;
            due
        });
        for (_, call) in due {
            if std::thread::panicking() {
                std::mem::forget(call);
            } else {
                call();
            }
        }
    }
}

/// Whether deferred garbage is freed by the deferred call itself. Otherwise it goes through the limbo's lists.
pub(crate) fn eager() -> bool {
    with(|state| !state.lists)
}

/// Whether the test under way runs with this mutant.
pub(crate) fn mutant(mutant: Mutant) -> bool {
    with(|state| state.mutant == Some(mutant))
}

/// One more object.
pub(crate) fn born() {
    with(|state| state.living += 1);
}

/// Asserts that an object is not freed. Another thread may run before each such access.
pub(crate) fn check(alive: &AtomicBool, kind: &str) {
    assert!(
        std::thread::panicking() || alive.load(Ordering::Relaxed),
        "use of a freed {kind}"
    );
}

/// One object less; `free` gives back its memory at the end of the execution.
pub(crate) fn died(alive: &AtomicBool, kind: &str, address: usize, free: fn(usize)) {
    if std::thread::panicking() {
        return;
    }
    let was = alive.swap(false, Ordering::Relaxed);
    assert!(was, "a {kind} was freed twice");
    with(|state| {
        state.living -= 1;
        state.quarantine.push((address, free));
    });
}

/// How schedules are drawn.
#[derive(Clone, Copy, Debug)]
pub enum Schedules {
    /// Each step by a random thread.
    Random(usize),
    /// Probabilistic concurrency testing (Burckhardt et al., ASPLOS 2010) of this depth.
    Pct(usize, usize),
}

/// Runs `scenario` under many schedules, and asserts that nothing is left alive after each.
///
/// # Panics
///
/// If a schedule makes the scenario, or one of the model's own assertions, panic.
pub fn explore(
    mutant: Option<Mutant>,
    lists: bool,
    schedules: Schedules,
    scenario: impl Fn() + Send + Sync + 'static,
) {
    let execution = move || {
        with(|state| {
            *state = State {
                mutant,
                lists,
                ..State::default()
            }
        });
        scenario();
        let (living, guards, quarantine) = with(|state| {
            (
                state.living,
                state.guards.len(),
                std::mem::take(&mut state.quarantine),
            )
        });
        for (address, free) in quarantine {
            free(address);
        }
        assert_eq!(guards, 0, "guards are left");
        assert_eq!(living, 0, "objects are left");
    };
    let mut config = Config::new();
    config.failure_persistence = shuttle::FailurePersistence::None;
    match schedules {
        Schedules::Random(count) => Runner::new(RandomScheduler::new(count), config).run(execution),
        Schedules::Pct(depth, count) => {
            Runner::new(PctScheduler::new(depth, count), config).run(execution)
        }
    };
}

/// Hashes a number to itself, so that a scenario chooses the shape of its trie.
#[derive(Clone, Copy, Debug, Default)]
pub struct Identity;

impl BuildHasher for Identity {
    type Hasher = IdentityHasher;
    fn build_hasher(&self) -> IdentityHasher {
        IdentityHasher(0)
    }
}

/// See [`Identity`].
#[derive(Debug)]
pub struct IdentityHasher(u64);

impl Hasher for IdentityHasher {
    fn write(&mut self, _: &[u8]) {
        unreachable!("numbers only");
    }
    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }
    fn finish(&self) -> u64 {
        self.0
    }
}

/// The partitioned map with two partitions, by the parity of the key: the protocol of 256 in fewer steps.
#[derive(Debug)]
pub struct Pair(Raw);

struct Raw(Parted<u64, u64, 8>);

impl std::fmt::Debug for Raw {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Raw")
    }
}

/// Both partitions at one moment.
pub struct PairView(Box<[Whole<u64, u64, 8>]>);

impl std::fmt::Debug for PairView {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PairView")
    }
}

impl Default for Pair {
    fn default() -> Self {
        Self::new()
    }
}

impl Pair {
    /// An empty map.
    pub fn new() -> Self {
        Self(Raw(Parted::from_drafts((0..2).map(|_| Draft::new(0)))))
    }

    /// As in the map.
    pub fn get(&self, key: u64) -> Option<u64> {
        self.0
            .0
            .site((key & 1) as usize)
            .read(key >> 1, |k| *k == key, |leaf| leaf.value)
    }

    /// As in the map.
    pub fn insert(&self, key: u64, value: u64) {
        let mut put = crate::ops::Put(Some(Fresh::new(key >> 1, key, value)));
        self.0
            .0
            .site((key & 1) as usize)
            .update(key >> 1, &mut put, |_, _| ());
    }

    /// As in the map.
    pub fn snapshot(&self) -> PairView {
        PairView(self.0.0.freeze())
    }
}

impl PairView {
    /// As in a snapshot.
    pub fn get(&self, key: u64) -> Option<u64> {
        self.0[(key & 1) as usize]
            .get(key >> 1, |k| *k == key)
            .map(|leaf| leaf.value)
    }
}
