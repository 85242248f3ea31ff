//! The shared corpus of tests: sequential model, linearizability, drops, panics, re-entry. Never a benchmark.
//!
//! A design names itself ([`Design`]) in its `tests/` folder and instantiates the suite:
//!
//! ```
//! use cache_conformance::{Design, Hashing, Key, Value, reference::Reference};
//!
//! struct Mine;
//! impl Design for Mine {
//!     const NAME: &'static str = "mine";
//!     type Map<K: Key, V: Value, S: Hashing> = Reference<K, V, S>;
//!     fn build<K: Key, V: Value, S: Hashing>(capacity: Option<usize>, hasher: S) -> Reference<K, V, S> {
//!         Reference::with_capacity_and_hasher(capacity.unwrap_or(0), hasher)
//!     }
//! }
//! cache_conformance::suite!(Mine);
//! # fn main() {}
//! ```
//!
//! Each check is a `#[test]` of its own, runs under a watchdog (a hang is a failure that is named) and is also a
//! plain generic function in [`checks`]. The constants of [`Design`] say what the design promises beyond the
//! least; each promise made is a promise tested. Designs with snapshots, forks or partitions add
//! [`snapshot_suite!`], [`fork_suite!`], [`routed_suite!`]; a map that cannot be shared between threads has
//! [`sequential_suite!`] alone.
//!
//! # When to use it, when not
//!
//! For every map that implements the traits of `cache-api`, as a development dependency. It measures nothing, and
//! it explores schedules by chance: a protocol without locks deserves a model checker besides.
//!
//! # What it checks
//!
//! | module | what |
//! |---|---|
//! | [`checks::sequential`] | random sequences against `HashMap`; capacities, `()`, batches; one hash per operation |
//! | [`checks::linear`] | linearizability of recorded histories, per key and of the whole map |
//! | [`checks::growth`] | no acknowledged key is missed while the map grows |
//! | [`checks::races`] | lost updates, values handed out twice, wrong lengths, deadlocks |
//! | [`checks::drops`] | every key and value is dropped exactly once, and none is kept |
//! | [`checks::panics`] | user code panics at its n-th call, for every n |
//! | [`checks::reentry`] | user code calls back into the map |
//! | [`checks::snapshots`], [`checks::forks`], [`checks::routed`] | what only some designs have |
//!
//! # Repeating and scaling
//!
//! `CACHE_CONFORMANCE_SCALE=10` makes all tests ten times larger. `CACHE_CONFORMANCE_WATCHDOG=300` waits longer
//! before it calls a check hung. Random sequences use a fixed seed; a failing history is printed with its seed,
//! which repeats the calls of each thread, though not the schedule.
//!
//! # What only the design's own crate can test
//!
//! That something must *not* compile is shown by `compile_fail` doctests. Copy these, with the error codes, so
//! that they fail for the right reason. Not shared if a value cannot be (`Sync` needs `K` and `V` to be):
//!
//! ```compile_fail,E0277
//! use cache_conformance::reference::Reference as MyCache;
//! fn assert_sync<T: Sync>() {}
//! assert_sync::<MyCache<u64, std::rc::Rc<u64>>>();
//! ```
//!
//! Not shared if a value may be sent, but not shared (a `Cell` seen by two readers):
//!
//! ```compile_fail,E0277
//! # use cache_conformance::reference::Reference as MyCache;
//! fn assert_sync<T: Sync>() {}
//! assert_sync::<MyCache<u64, std::cell::Cell<u64>>>();
//! ```
//!
//! Invariant in the value (and likewise in the key): a map of long-lived references must not pass for one of
//! short-lived ones, or a short-lived one could be inserted.
//!
//! ```compile_fail
//! use cache_conformance::reference::Reference as MyCache;
//! fn shorten<'a>(map: MyCache<u64, &'static str>) -> MyCache<u64, &'a str> {
//!     map
//! }
//! ```
#![forbid(unsafe_code)]

/// The examples of the README are tests.
#[doc = include_str!("../README.md")]
#[cfg(doctest)]
struct ReadmeExamples;

pub mod checks;
mod design;
pub mod fault;
mod keys;
pub mod lab;
pub mod linearizability;
mod macros;
pub mod reference;
pub mod rng;
mod run;

pub use crate::design::{
    Design, ForkDesign, FullMap, Hashing, Key, RoutedDesign, SequentialDesign, SnapshotDesign,
    Value,
};
pub use crate::keys::{HashPlan, PassThrough, PassThroughHasher, PlanKey};
pub use crate::run::{
    Failure, attempt, message_of, run, run_alone, scale, scaled, threads, watchdog_limit,
};
