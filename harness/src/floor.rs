//! Maps that are not designs: `noop`, the floor that shows what the loop itself costs, and two faulty ones with which
//! the tests show that the harness notices. None of them can be used for anything else.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::subject::Subject;

/// Stores nothing and answers every read with one value: what remains is the loop, the stream and the key's header.
#[derive(Debug)]
pub struct Noop<V> {
    answer: Option<V>,
    count: usize,
}

impl<V> Noop<V> {
    /// A map that pretends to hold `entries`: it keeps the first value.
    pub fn filled<K>(entries: impl ExactSizeIterator<Item = (K, V)>) -> Self {
        let count = entries.len();
        let mut entries = entries;
        Self {
            answer: entries.next().map(|(_, value)| value),
            count,
        }
    }
}

impl<K, V> Subject<K, V> for Noop<V> {
    const STORES: bool = false;

    #[inline]
    fn read<R: Send>(&self, key: &K, f: impl FnOnce(&V) -> R + Send) -> Option<R> {
        black_box(key);
        black_box(&self.answer).as_ref().map(f)
    }

    #[inline]
    fn write(&self, key: K, value: V) {
        black_box((key, value));
    }

    fn erase(&self, key: &K) {
        black_box(key);
    }

    fn count(&self) -> usize {
        self.count
    }
}

/// Behaves until a given number of calls, then breaks in the way its `Fault` says.
#[derive(Debug)]
pub struct Faulty<M> {
    inner: M,
    calls: AtomicU64,
    fault: Fault,
}

/// How a [`Faulty`] map breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Panics in every thousandth write.
    Panics,
    /// Loses every thousandth write, and says nothing.
    LosesWrites,
}

impl<M> Faulty<M> {
    /// A map that answers as `inner` does, but for the fault.
    pub fn new(inner: M, fault: Fault) -> Self {
        Self {
            inner,
            calls: AtomicU64::new(0),
            fault,
        }
    }
}

impl<K, V, M: Subject<K, V>> Subject<K, V> for Faulty<M> {
    fn read<R: Send>(&self, key: &K, f: impl FnOnce(&V) -> R + Send) -> Option<R> {
        self.inner.read(key, f)
    }

    fn write(&self, key: K, value: V) {
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        if call % 1000 == 999 {
            match self.fault {
                Fault::Panics => panic!("faulty on purpose:\n a panic in write {call}"),
                Fault::LosesWrites => return,
            }
        }
        self.inner.write(key, value);
    }

    fn erase(&self, key: &K) {
        self.inner.erase(key);
    }

    fn count(&self) -> usize {
        self.inner.count()
    }
}

/// The environment variable with the number of steps that a [`Slowed`] map adds to each operation.
pub const SLOW_STEPS_VARIABLE: &str = "HARNESS_SLOW_STEPS";

/// Answers as the map inside does, a little later: for showing which slowdowns a comparison finds.
#[derive(Debug)]
pub struct Slowed<M> {
    inner: M,
    steps: u32,
}

impl<M> Slowed<M> {
    /// A map that answers as `inner` does; the delay is read from the environment ([`SLOW_STEPS_VARIABLE`], 16 unless
    /// it is a number).
    pub fn new(inner: M) -> Self {
        let steps = std::env::var(SLOW_STEPS_VARIABLE).ok();
        Self {
            inner,
            steps: steps.and_then(|steps| steps.parse().ok()).unwrap_or(16),
        }
    }

    /// A chain of dependent steps, some cycles each.
    #[inline]
    fn delay(&self) {
        let mut x = u64::from(self.steps);
        for _ in 0..self.steps {
            x = black_box(x.wrapping_mul(5).rotate_left(7));
        }
        black_box(x);
    }
}

impl<K, V, M: Subject<K, V>> Subject<K, V> for Slowed<M> {
    fn read<R: Send>(&self, key: &K, f: impl FnOnce(&V) -> R + Send) -> Option<R> {
        self.delay();
        self.inner.read(key, f)
    }

    fn write(&self, key: K, value: V) {
        self.delay();
        self.inner.write(key, value);
    }

    fn erase(&self, key: &K) {
        self.inner.erase(key);
    }

    fn count(&self) -> usize {
        self.inner.count()
    }
}
