//! The protocol under the C11 memory model, exhaustively, by loom: `RUSTFLAGS="--cfg loom" cargo test -p cache-reclaim`.
//!
//! The system call cannot be modelled; the reader's half runs with the fence that stands in for it elsewhere. The
//! guarantee is the same: the announcement is ordered before the second look.

use std::panic::catch_unwind;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use loom::thread;

use crate::barrier;
use crate::epoch;
use crate::published::{announce, shows};

/// Which rule is broken.
#[derive(Clone, Copy, PartialEq)]
enum Broken {
    Nothing,
    ReaderDoesNotFence,
    ReaderDoesNotLookAgain,
    WriterDoesNotFence,
}

/// A reader reads what is published; the writer replaces it twice, and overwrites ("frees") what no slot shows.
fn run(broken: Broken) {
    loom::model(move || {
        let values = Arc::new([UnsafeCell::new(1), UnsafeCell::new(2)]);
        // Pointers into nowhere: 16 * (index + 1).
        let at = |index: usize| std::ptr::without_provenance_mut::<u8>(16 * (index + 1));
        let source = Arc::new(AtomicPtr::new(at(0)));
        let slot = Arc::new(AtomicPtr::new(std::ptr::null_mut::<()>()));
        let reader = thread::spawn({
            let (values, source, slot) =
                (Arc::clone(&values), Arc::clone(&source), Arc::clone(&slot));
            move || {
                let pointer = if broken == Broken::ReaderDoesNotLookAgain {
                    let pointer = source.load(Ordering::Acquire);
                    slot.store(pointer.cast(), Ordering::Release);
                    barrier::light(true);
                    pointer
                } else {
                    announce(&source, &slot, broken != Broken::ReaderDoesNotFence)
                };
                // loom reports a read that races with the writer's overwriting.
                let value = values[pointer.addr() / 16 - 1].with(|value| {
                    // SAFETY: loom checks that nobody writes meanwhile; that is the test.
                    unsafe { *value }
                });
                assert!(value == 1 || value == 2, "freed: {value}");
                slot.store(std::ptr::null_mut(), Ordering::Release);
            }
        });
        let old = source.swap(at(1), Ordering::AcqRel);
        if broken != Broken::WriterDoesNotFence {
            assert!(barrier::heavy());
        }
        if !shows(&slot, old) {
            values[0].with_mut(|value| {
                // SAFETY: loom checks that nobody reads meanwhile; that is the test.
                unsafe { *value = 0 }
            });
        }
        reader.join().expect("the reader reads");
    });
}

#[test]
fn nothing_is_freed_while_it_is_read() {
    run(Broken::Nothing);
}

#[test]
fn the_broken_variants_are_noticed() {
    for broken in [
        Broken::ReaderDoesNotFence,
        Broken::ReaderDoesNotLookAgain,
        Broken::WriterDoesNotFence,
    ] {
        assert!(
            catch_unwind(|| run(broken)).is_err(),
            "a broken variant goes unnoticed"
        );
    }
}

/// A reader pins and reads what is published; the writer takes it out, moves the epoch on as far as it goes, and
/// overwrites ("frees") it if its time has come.
fn run_epochs(broken: EpochsBroken) {
    loom::model(move || {
        let value = Arc::new(UnsafeCell::new(1));
        let published = Arc::new(AtomicPtr::new(std::ptr::without_provenance_mut::<u8>(16)));
        let epoch = Arc::new(AtomicUsize::new(0));
        let mine = Arc::new(AtomicUsize::new(0));
        let reader = thread::spawn({
            let (value, published) = (Arc::clone(&value), Arc::clone(&published));
            let (epoch, mine) = (Arc::clone(&epoch), Arc::clone(&mine));
            move || {
                if broken == EpochsBroken::ReaderDoesNotFence {
                    mine.store(epoch.load(Ordering::Relaxed) | 1, Ordering::Relaxed);
                } else {
                    epoch::announce(&epoch, &mine, true);
                }
                if !published.load(Ordering::Acquire).is_null() {
                    // loom reports a read that races with the writer's overwriting.
                    let read = value.with(|value| {
                        // SAFETY: loom checks that nobody writes meanwhile; that is the test.
                        unsafe { *value }
                    });
                    assert_eq!(read, 1, "freed");
                }
                epoch::withdraw(&mine);
            }
        });
        published.store(std::ptr::null_mut(), Ordering::Release);
        let stamp = epoch::stamp(&epoch);
        let mut now = stamp;
        for _ in 0..3 {
            now = epoch::move_on(&epoch, std::iter::once(&*mine));
        }
        let over = match broken {
            EpochsBroken::FreedUnconditionally => true,
            EpochsBroken::FreedAfterOneEpoch => now != stamp,
            _ => epoch::is_over(stamp, now),
        };
        if over {
            value.with_mut(|value| {
                // SAFETY: loom checks that nobody reads meanwhile; that is the test.
                unsafe { *value = 0 }
            });
        }
        reader.join().expect("the reader reads");
    });
}

/// Which rule of the epochs is broken.
#[derive(Clone, Copy, PartialEq)]
enum EpochsBroken {
    Nothing,
    ReaderDoesNotFence,
    FreedAfterOneEpoch,
    FreedUnconditionally,
}

#[test]
fn nothing_is_freed_while_someone_is_pinned() {
    run_epochs(EpochsBroken::Nothing);
}

#[test]
fn the_broken_variants_of_epochs_are_noticed() {
    for broken in [
        EpochsBroken::ReaderDoesNotFence,
        EpochsBroken::FreedUnconditionally,
        EpochsBroken::FreedAfterOneEpoch,
    ] {
        assert!(
            catch_unwind(|| run_epochs(broken)).is_err(),
            "a broken variant goes unnoticed"
        );
    }
}
