//! With threads of the system: torn snapshots, lost writes, claims that do not add up.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::sequential::{Dice, alone, quiesce};
use super::{Numbers, colliding, good, shallow};

/// Each writer counts up two keys in turn, first `a`, then `b`: in every cut, b <= a <= b + 1.
fn cuts(hash: fn(u64) -> u64, writers: u64, rounds: u64) {
    let numbers = Numbers::new(hash);
    let over = AtomicBool::new(false);
    let start = Barrier::new(writers as usize + 2);
    // Joined one by one, here and below, since ThreadSanitizer does not see the scope's own way of waiting.
    thread::scope(|scope| {
        let mut handles = Vec::new();
        for writer in 0..writers {
            let (numbers, start) = (&numbers, &start);
            handles.push(scope.spawn(move || {
                let mut dice = Dice::new(writer);
                start.wait();
                for round in 1..=rounds {
                    numbers.put(2 * writer, round);
                    numbers.put(2 * writer + 1, round);
                    // Passing entries make arrays split and contract around the counters.
                    let passing = 1_000 + writer * 1_000 + dice.below(64);
                    numbers.put(passing, round);
                    if dice.below(4) > 0 {
                        numbers.remove(passing);
                    }
                }
            }));
        }
        let mut observers = Vec::new();
        for observer in 0..2 {
            let (numbers, start, over) = (&numbers, &start, &over);
            observers.push(scope.spawn(move || {
                start.wait();
                let mut last = vec![0; writers as usize];
                while !over.load(Ordering::Relaxed) {
                    let still = if observer == 0 {
                        numbers.still()
                    } else {
                        numbers.fork().still()
                    };
                    for writer in 0..writers {
                        let a = still.get(2 * writer).unwrap_or(0);
                        let b = still.get(2 * writer + 1).unwrap_or(0);
                        assert!(b <= a && a <= b + 1, "torn: a = {a}, b = {b}");
                        assert!(a >= last[writer as usize], "a later snapshot went back");
                        assert!(
                            numbers.get(2 * writer).unwrap_or(0) >= a,
                            "the live map is behind"
                        );
                        last[writer as usize] = a;
                    }
                    let entries = still.entries();
                    assert_eq!(entries.len(), still.view.len());
                    assert_eq!(entries, still.entries(), "a snapshot changed");
                }
            }));
        }
        for handle in handles {
            handle.join().expect("a writer failed");
        }
        over.store(true, Ordering::Relaxed);
        for observer in observers {
            observer.join().expect("an observer failed");
        }
    });
    for writer in 0..writers {
        assert_eq!(numbers.get(2 * writer), Some(rounds));
        assert_eq!(numbers.get(2 * writer + 1), Some(rounds));
    }
}

#[test]
fn cuts_are_never_torn() {
    let _turn = alone();
    for hash in [good, shallow, colliding] {
        cuts(hash, 4, 2_000);
        quiesce(0);
    }
}

/// Four threads insert and remove keys of their own that share arrays and lists; each checks what it gets back.
#[test]
fn neighbours_do_not_disturb_each_other() {
    let _turn = alone();
    for hash in [good, shallow, colliding] {
        let numbers = Numbers::new(hash);
        thread::scope(|scope| {
            let mut handles = Vec::new();
            for thread in 0..4_u64 {
                let numbers = &numbers;
                handles.push(scope.spawn(move || {
                    let mut dice = Dice::new(thread + 7);
                    let mut mine = [None; 16];
                    for step in 0..20_000 {
                        let i = dice.below(16);
                        let key = i * 4 + thread;
                        let expected = &mut mine[i as usize];
                        match dice.below(8) {
                            0..4 => assert_eq!(numbers.put(key, step), expected.replace(step)),
                            4..7 => assert_eq!(numbers.remove(key), expected.take()),
                            _ => assert_eq!(numbers.get(key), *expected),
                        }
                        if step % 1_024 == thread {
                            numbers.len();
                        }
                    }
                    for (i, expected) in mine.into_iter().enumerate() {
                        assert_eq!(numbers.get(i as u64 * 4 + thread), expected);
                        numbers.remove(i as u64 * 4 + thread);
                    }
                }));
            }
            for handle in handles {
                handle.join().expect("a thread failed");
            }
        });
        assert_eq!(numbers.len(), 0);
        quiesce(2);
        drop(numbers);
        quiesce(0);
    }
}

/// `clear` against writers and snapshots: whatever survives is whole, and nothing leaks.
#[test]
fn clears_race_with_writers() {
    let _turn = alone();
    let numbers = Numbers::new(good);
    thread::scope(|scope| {
        let mut handles = Vec::new();
        for thread in 0..3_u64 {
            let numbers = &numbers;
            handles.push(scope.spawn(move || {
                for step in 0..5_000 {
                    numbers.put(step % 64 * 3 + thread, step);
                }
            }));
        }
        for _ in 0..2 {
            handles.push(scope.spawn(|| {
                for _ in 0..300 {
                    numbers.clear();
                    let still = numbers.still();
                    assert_eq!(still.entries().len(), still.view.len());
                }
            }));
        }
        for handle in handles {
            handle.join().expect("a thread failed");
        }
    });
    numbers.clear();
    assert_eq!(numbers.len(), 0);
    quiesce(2);
    drop(numbers);
    quiesce(0);
}
