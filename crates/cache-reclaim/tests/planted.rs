//! Faults that a sanitizer must report: the proof that its clean runs mean something. They exist only under
//! `--cfg planted_fault`; `cargo xtask sanitize` runs them first and fails if they go unnoticed.

#![cfg(planted_fault)]

use std::cell::UnsafeCell;
use std::hint::black_box;
use std::sync::Barrier;
use std::thread;

struct Racy(UnsafeCell<u64>);

// SAFETY: none. Sharing the cell is the fault.
unsafe impl Sync for Racy {}

#[test]
fn data_race() {
    let (racy, barrier) = (Racy(UnsafeCell::new(0)), Barrier::new(2));
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                barrier.wait();
                for _ in 0..1_000 {
                    // SAFETY: none. The two threads write at the same time.
                    unsafe { *black_box(&racy).0.get() += 1 };
                }
            });
        }
    });
}

#[test]
fn use_after_free() {
    let value = Box::into_raw(Box::new(black_box(7_u64)));
    // SAFETY: made by `Box::into_raw`, freed once.
    drop(unsafe { Box::from_raw(value) });
    // SAFETY: none. It has been freed.
    let read = unsafe { black_box(value).read_volatile() };
    black_box(read);
}
