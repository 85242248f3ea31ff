//! The value-size regime: from which size on does moving bytes drown the cost of synchronising? Values are distinct,
//! each write allocates a new one, and a read touches every cache line of what it finds.

use std::sync::Arc;

use super::{Bench, Sample, grid};
use crate::keys::Key;
use crate::subject::Family;
use crate::timing::Regime;
use crate::workload::{Dist, Mix};

/// The sizes measured, in bytes.
pub const SIZES: [usize; 5] = [16, 64, 256, 1024, 4096];

/// The most keys of a map in this regime: 400 MB of values at the largest size.
pub const MOST_KEYS: usize = 100_000;

/// One cell of the value-size regime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueSize {
    /// The bytes of each value.
    pub size: usize,
    /// The share of reads.
    pub mix: Mix,
    /// How many threads.
    pub threads: usize,
}

/// The bytes of a cache line.
const LINE: usize = 64;

/// Distinct values of one size.
///
/// A value is an `Arc<[u8]>`: one allocation, and what a service would store, since caches that hand out clones would
/// copy the bytes of anything else. Each line begins with a 1, so that the sum over all lines is known; the key's
/// number and whether the value was written follow the first 1.
#[derive(Debug)]
pub struct Sized {
    template: Vec<u8>,
}

impl Sized {
    /// Values of `size` bytes, 16 or more.
    ///
    /// # Panics
    ///
    /// Where `size` leaves no room for what tells values apart.
    #[must_use]
    pub fn new(size: usize) -> Self {
        assert!(size >= 16, "values of {size} bytes cannot be told apart");
        Self {
            template: (0..size).map(|at| u8::from(at % LINE == 0)).collect(),
        }
    }

    /// One allocation, filled and marked.
    fn make(&self, index: usize, written: bool) -> Arc<[u8]> {
        let mut value: Arc<[u8]> = Arc::from(self.template.as_slice());
        if let Some(bytes) = Arc::get_mut(&mut value) {
            bytes[1..5].copy_from_slice(&(index as u32).to_le_bytes());
            bytes[5] = u8::from(written);
        }
        value
    }
}

impl Regime for Sized {
    type Value = Arc<[u8]>;

    fn initial(&self, index: usize) -> Arc<[u8]> {
        self.make(index, false)
    }

    #[inline]
    fn fresh(&self, index: usize) -> Arc<[u8]> {
        self.make(index, true)
    }

    #[inline]
    fn touch(value: &Arc<[u8]>) -> u64 {
        value
            .iter()
            .step_by(LINE)
            .map(|&byte| u64::from(byte))
            .sum()
    }

    fn touched(&self) -> u64 {
        self.template.len().div_ceil(LINE) as u64
    }

    fn is_right(&self, index: usize, value: &Arc<[u8]>, written: bool) -> bool {
        *value == self.make(index, written)
    }
}

/// Measures and verifies one cell.
///
/// # Errors
///
/// A panic of the design, or a wrong answer, as one line.
pub fn run<F: Family>(cell: &ValueSize, bench: &Bench) -> Result<Sample, String>
where
    F::Map<Key, Arc<[u8]>>: Sync,
{
    let bench = bench.over(bench.keys.first(bench.keys.len().min(MOST_KEYS)));
    let streams = bench.streams(Dist::Uniform, cell.mix, cell.threads);
    let length = bench.length(cell.threads);
    grid::measure_and_verify::<F, Sized>(
        &bench.keys,
        &streams,
        length,
        &bench.pins,
        &Sized::new(cell.size),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_distinct_fresh_and_of_their_size() {
        for size in SIZES {
            let regime = Sized::new(size);
            let (a, b, written) = (regime.initial(1), regime.initial(2), regime.fresh(1));
            assert!(a.len() == size && a != b && a != written);
            assert!(
                !Arc::ptr_eq(&written, &regime.fresh(1)),
                "a write must allocate"
            );
            assert!(regime.is_right(1, &a, false) && regime.is_right(1, &written, true));
            assert!(!regime.is_right(2, &a, false) && !regime.is_right(1, &a, true));
        }
    }

    #[test]
    fn a_read_touches_every_line() {
        for size in SIZES {
            let regime = Sized::new(size);
            assert_eq!(Sized::touch(&regime.initial(9)), regime.touched());
            assert_eq!(regime.touched(), size.div_ceil(64) as u64);
            let mut broken: Vec<u8> = regime.initial(9).to_vec();
            for line in (0..size).step_by(64) {
                broken[line] += 1;
                assert_ne!(
                    Sized::touch(&Arc::from(broken.as_slice())),
                    regime.touched(),
                    "line at {line} of {size}"
                );
                broken[line] -= 1;
            }
        }
    }
}
