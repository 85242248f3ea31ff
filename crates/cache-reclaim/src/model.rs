//! The protocol under the C11 memory model, exhaustively, by loom: `RUSTFLAGS="--cfg loom" cargo test -p cache-reclaim`.
//!
//! The system call cannot be modelled; the reader's half runs with the fence that stands in for it elsewhere. The
//! guarantee is the same: the announcement is ordered before the second look.

use std::panic::catch_unwind;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicPtr, Ordering};
use loom::thread;

use crate::barrier;
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
