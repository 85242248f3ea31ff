//! Does it cost to have memory zeroed that is overwritten at once? Three slices are merged into a new vector, either
//! into room that holds nothing yet, or into zeroes; alone, and where the result is the value of an insertion.

use std::hint::black_box;
use std::time::Instant;

use parking_lot::Mutex;

use super::{Bench, Sample, grid};
use crate::alloc::Backend;
use crate::keys::Key;
use crate::subject::{Family, Subject};
use crate::timing::Regime;
use crate::workload::{Dist, Mix};

/// The lengths of the slices that are merged, in bytes.
pub const PIECES: [usize; 3] = [10_000, 20_000, 50_000];

/// How many results are kept, each until its place is needed again.
pub const MERGED_KEYS: usize = 128;

/// How the result gets its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Merge {
    /// `Vec::with_capacity`, then one `extend_from_slice` for each slice.
    Extend,
    /// `vec![0; n]`, then one `copy_from_slice` for each slice.
    Zeroed,
}

impl Merge {
    /// Both, in the order of reports.
    pub const ALL: [Self; 2] = [Self::Extend, Self::Zeroed];

    /// The name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Extend => "extend",
            Self::Zeroed => "zeroed",
        }
    }

    /// The slices one after another, in new memory.
    #[inline(never)]
    #[must_use]
    pub fn merge(self, pieces: &[&[u8]]) -> Vec<u8> {
        let length = pieces.iter().map(|piece| piece.len()).sum();
        match self {
            Self::Extend => {
                let mut merged = Vec::with_capacity(length);
                for piece in pieces {
                    merged.extend_from_slice(piece);
                }
                merged
            }
            Self::Zeroed => {
                let mut merged = vec![0; length];
                let mut rest = merged.as_mut_slice();
                for piece in pieces {
                    let (place, after) = rest.split_at_mut(piece.len());
                    place.copy_from_slice(piece);
                    rest = after;
                }
                merged
            }
        }
    }
}

/// Where the result goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Into a list of the last results.
    Alone,
    /// Into a map, as the value of a key drawn uniformly.
    Insert,
}

impl Place {
    /// Both, in the order of reports.
    pub const ALL: [Self; 2] = [Self::Alone, Self::Insert];

    /// The name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Alone => "alone",
            Self::Insert => "insert",
        }
    }
}

/// One cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Zeroing {
    /// How the result gets its memory.
    pub merge: Merge,
    /// Where the result goes.
    pub place: Place,
    /// From whom the memory is.
    pub allocator: Backend,
    /// How many threads.
    pub threads: usize,
}

/// Values that are merged slices; the first byte tells those that the map is filled with from those written later.
#[derive(Debug)]
struct Merged {
    merge: Merge,
    pieces: [Vec<u8>; 3],
}

/// The first byte of what is there before the clock starts; no slice begins with it.
const UNWRITTEN: u8 = u8::MAX;

impl Merged {
    fn new(merge: Merge) -> Self {
        // 251 is prime, so that no piece begins where a line or a page of another does.
        let piece = |length: usize, first: usize| {
            (first..first + length).map(|at| (at % 251) as u8).collect()
        };
        Self {
            merge,
            pieces: [
                piece(PIECES[0], 1),
                piece(PIECES[1], 2),
                piece(PIECES[2], 3),
            ],
        }
    }

    fn pieces(&self) -> [&[u8]; 3] {
        self.pieces.each_ref().map(Vec::as_slice)
    }

    /// The nanoseconds that it takes to copy the slices into memory that is there already: the part of each operation
    /// that no way of allocating avoids.
    fn copying(&self) -> f64 {
        const TIMES: u32 = 64;
        let mut room = self.pieces.concat();
        let mut least = f64::INFINITY;
        // The least of a few rounds: an interruption is no part of it.
        for _ in 0..8 {
            let start = Instant::now();
            for _ in 0..TIMES {
                room.clear();
                for piece in black_box(self.pieces()) {
                    room.extend_from_slice(piece);
                }
                black_box(&room);
            }
            least = least.min(start.elapsed().as_nanos() as f64 / f64::from(TIMES));
        }
        least
    }
}

impl Regime for Merged {
    type Value = Vec<u8>;

    fn initial(&self, _: usize) -> Vec<u8> {
        let mut value = self.pieces.concat();
        value[0] = UNWRITTEN;
        value
    }

    #[inline]
    fn fresh(&self, _: usize) -> Vec<u8> {
        self.merge.merge(&self.pieces())
    }

    #[inline]
    fn touch(value: &Vec<u8>) -> u64 {
        value.len() as u64
    }

    fn touched(&self) -> u64 {
        PIECES.iter().sum::<usize>() as u64
    }

    fn is_right(&self, _: usize, value: &Vec<u8>, written: bool) -> bool {
        if written {
            *value == self.pieces.concat()
        } else {
            *value == self.initial(0)
        }
    }
}

/// The list of the last results: a place for each key, found by the key's number without hashing.
struct Places(Vec<Mutex<Vec<u8>>>);

impl Places {
    fn of(&self, key: Key) -> &Mutex<Vec<u8>> {
        // The keys are decimal numbers; parsing one takes a thousandth of what merging does.
        let number: usize = key.parse().unwrap_or(usize::MAX);
        &self.0[number]
    }
}

impl Subject<Key, Vec<u8>> for Places {
    fn read<R: Send>(&self, key: &Key, f: impl FnOnce(&Vec<u8>) -> R + Send) -> Option<R> {
        Some(f(&self.of(key).lock()))
    }

    #[inline]
    fn write(&self, key: Key, value: Vec<u8>) {
        let old = std::mem::replace(&mut *self.of(key).lock(), value);
        drop(old);
    }

    fn erase(&self, key: &Key) {
        self.of(key).lock().clear();
    }

    fn count(&self) -> usize {
        self.0.len()
    }
}

/// Measures and verifies one cell.
///
/// # Errors
///
/// A panic of the design, or wrong bytes, as one line.
pub fn run<F: Family>(cell: &Zeroing, bench: &Bench) -> Result<Sample, String>
where
    F::Map<Key, Vec<u8>>: Sync,
{
    let bench = bench.limited(MERGED_KEYS);
    let regime = Merged::new(cell.merge);
    let streams = bench.streams(Dist::Uniform, Mix { reads: 0 }, cell.threads);
    let length = bench.length(cell.threads);
    let copying = regime.copying();
    let mut sample = match cell.place {
        Place::Alone => {
            let initial = |index| Mutex::new(regime.initial(index));
            let places = Places((0..bench.keys.len()).map(initial).collect());
            grid::measure_and_verify_on(
                &places,
                &bench.keys,
                &streams,
                length,
                &bench.pins,
                &regime,
            )
        }
        Place::Insert => grid::measure_and_verify::<F, Merged>(
            &bench.keys,
            &streams,
            length,
            &bench.pins,
            &regime,
        ),
    }?;
    sample.extra.push((copying, "copy-ns"));
    Ok(sample)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merged_bytes_are_those_of_the_slices_in_order() {
        let regime = Merged::new(Merge::Extend);
        let expected = regime.pieces.concat();
        assert_eq!(expected.len(), 80_000);
        for merge in Merge::ALL {
            let merged = merge.merge(&regime.pieces());
            assert_eq!(merged, expected, "{}", merge.name());
            assert_eq!(
                merged.capacity(),
                merged.len(),
                "one allocation of the right size"
            );
            assert!(merge.merge(&[]).is_empty());
        }
    }

    #[test]
    fn wrong_bytes_are_noticed() {
        let regime = Merged::new(Merge::Zeroed);
        let right = regime.fresh(3);
        assert!(regime.is_right(3, &right, true) && !regime.is_right(3, &right, false));
        assert!(
            regime.is_right(3, &regime.initial(3), false)
                && !regime.is_right(3, &regime.initial(3), true)
        );
        for at in [0, 9_999, 10_000, 30_000, 79_999] {
            let mut wrong = right.clone();
            wrong[at] = wrong[at].wrapping_add(1);
            assert!(!regime.is_right(3, &wrong, true), "byte {at}");
        }
        // What a merge that forgets a slice leaves behind.
        assert!(!regime.is_right(3, &vec![0; 80_000], true));
        assert!(!regime.is_right(3, &right[..70_000].to_vec(), true));
    }
}
