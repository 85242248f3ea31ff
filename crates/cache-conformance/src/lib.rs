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
//! plain generic function in [`checks`].
#![forbid(unsafe_code)]

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
