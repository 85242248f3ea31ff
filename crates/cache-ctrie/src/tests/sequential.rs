//! Against a model, one operation after another: contents, claims, shape and memory.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{Numbers, Still, both_shapes, colliding, good, shallow};
use crate::mutants::{self, Mutant};
use crate::node::census;
use crate::sync::epoch;

/// Node counts are those of the whole process, so tests that read them take turns.
pub(super) fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    quiesce(0);
    turn
}

/// Waits until no more than `expected` nodes live, and insists on exactly so many.
pub(super) fn quiesce(expected: isize) {
    for _ in 0..100_000 {
        if census::live() <= expected {
            break;
        }
        epoch::pin().flush();
        std::thread::yield_now();
    }
    assert_eq!(
        census::live(),
        expected,
        "live nodes once everything has been given back"
    );
}

/// Lets the collector free all it can.
fn drain() {
    for _ in 0..1_000 {
        epoch::pin().flush();
    }
}

/// A small generator, so that a failure can be repeated from its seed.
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(super) fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % n
    }
}

type Model = BTreeMap<u64, u64>;

fn agree(numbers: &Numbers, model: &Model, keys: u64) {
    for key in 0..keys {
        assert_eq!(numbers.get(key), model.get(&key).copied(), "key {key}");
    }
    assert_eq!(numbers.len(), model.len());
    let all: Vec<u64> = (0..keys).collect();
    let expected: Vec<_> = all.iter().map(|key| model.get(key).copied()).collect();
    assert_eq!(numbers.batch(&all), expected);
}

fn agree_still(still: &Still, model: &Model) {
    assert_eq!(
        still.entries(),
        model.iter().map(|(k, v)| (*k, *v)).collect::<Vec<_>>()
    );
    assert_eq!(still.view.len(), model.len());
}

/// Random operations on up to five forks and twelve snapshots, each with a model of its own.
fn play(hash: fn(u64) -> u64, seed: u64, steps: u64, keys: u64) {
    let mut dice = Dice::new(seed);
    let mut forks = vec![(Numbers::new(hash), Model::new())];
    let mut stills: Vec<(Still, Model)> = Vec::new();
    for step in 0..steps {
        let chosen = dice.below(forks.len() as u64) as usize;
        let key = dice.below(keys);
        let room = forks.len() < 5;
        let several = forks.len() > 1;
        let (numbers, model) = &mut forks[chosen];
        match dice.below(100) {
            0..45 => assert_eq!(numbers.put(key, step), model.insert(key, step)),
            45..80 => assert_eq!(numbers.remove(key), model.remove(&key)),
            80..88 => assert_eq!(numbers.get(key), model.get(&key).copied()),
            88..92 => stills.push((numbers.still(), model.clone())),
            92..94 if room => {
                let fork = (numbers.fork(), model.clone());
                forks.push(fork);
            }
            94 if !stills.is_empty() && room => {
                let (still, model) = &stills[dice.below(stills.len() as u64) as usize];
                let fork = (still.fork(), model.clone());
                forks.push(fork);
            }
            95 if several => drop(forks.swap_remove(chosen)),
            96 => {
                numbers.clear();
                model.clear();
            }
            97 => agree(numbers, model, keys),
            _ => assert_eq!(numbers.len(), model.len()),
        }
        if stills.len() > 12 {
            let oldest = stills.remove(dice.below(12) as usize);
            agree_still(&oldest.0, &oldest.1);
        }
    }
    for (numbers, model) in &forks {
        agree(numbers, model, keys);
        agree_still(&numbers.still(), model);
    }
    for (still, model) in &stills {
        agree_still(still, model);
    }
}

#[test]
fn forks_and_snapshots_agree_with_models() {
    let _turn = alone();
    for seed in 0..6 {
        for (hash, keys) in [
            (good as fn(u64) -> u64, 400),
            (shallow, 40),
            (colliding, 24),
        ] {
            both_shapes(|| {
                play(hash, seed, 4_000, keys);
                quiesce(0);
            });
        }
    }
}

/// Nodes of an empty trie: the root box and the root array.
const EMPTY: isize = 2;

#[test]
fn removing_everything_leaves_an_empty_trie() {
    let _turn = alone();
    for hash in [good, shallow, colliding] {
        both_shapes(|| removing_everything(hash));
    }
}

fn removing_everything(hash: fn(u64) -> u64) {
    {
        let numbers = Numbers::new(hash);
        for round in 0..3 {
            for key in 0..2_000 {
                numbers.put(key, round);
            }
            // With a snapshot in between, half the removals meet arrays that are shared.
            let still = numbers.still();
            for key in 0..2_000 {
                assert_eq!(numbers.remove(key), Some(round));
            }
            assert_eq!(still.view.len(), 2_000);
            drop(still);
            assert_eq!(numbers.len(), 0);
            quiesce(EMPTY);
        }
        drop(numbers);
        quiesce(0);
    }
}

#[test]
fn a_single_survivor_moves_up_to_the_root() {
    let _turn = alone();
    let numbers = Numbers::new(|key| key << 56);
    for key in 0..16 {
        numbers.put(key, key);
    }
    for key in 1..16 {
        numbers.remove(key);
    }
    quiesce(EMPTY + 1);
    assert_eq!(numbers.get(0), Some(0));
}

#[test]
fn an_overwrite_allocates_one_leaf_and_keeps_nothing() {
    let _turn = alone();
    let numbers = Numbers::new(good);
    for key in 0..500 {
        numbers.put(key, 0);
    }
    drain();
    let before = census::live();
    for round in 1..5 {
        for key in 0..500 {
            numbers.put(key, round);
        }
    }
    quiesce(before);
}

#[test]
fn a_snapshot_of_an_unchanged_map_allocates_no_node() {
    let _turn = alone();
    let numbers = Numbers::new(good);
    numbers.put(1, 1);
    let first = numbers.still();
    drain();
    let before = census::live();
    let second = numbers.still();
    assert_eq!(numbers.len(), 1);
    assert_eq!(census::live(), before);
    drop((first, second));
}

#[test]
fn memory_returns_to_where_it_was_round_after_round() {
    let _turn = alone();
    let numbers = Numbers::new(good);
    for _ in 0..5 {
        for key in 0..5_000 {
            numbers.put(key, key);
        }
        let fork = numbers.fork();
        numbers.clear();
        assert_eq!(fork.len(), 5_000);
        drop(fork);
        quiesce(EMPTY);
    }
}

/// Runs `body` with the mutant on and insists that it panics.
fn killed(mutant: Mutant, body: impl FnOnce()) {
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        mutants::with(Some(mutant), body)
    }));
    assert!(outcome.is_err(), "{mutant:?} survived");
}

// A mutant that shows without any concurrency. The others are in `model.rs`.

#[test]
fn mutant_no_contraction() {
    let _turn = alone();
    let numbers = Numbers::new(|key| key << 56);
    killed(Mutant::NoContraction, || {
        for key in 0..16 {
            numbers.put(key, key);
        }
        for key in 0..16 {
            numbers.remove(key);
        }
        assert_eq!(numbers.still().entries(), []);
        drain();
        assert_eq!(census::live(), EMPTY, "live nodes of an empty trie");
    });
}
