//! What the measuring program is made of: the registry of designs and peers, workloads, the timed loop and its
//! verification. It measures one design in one process and prints what it saw; plans, repeats and comparisons are
//! `xtask`'s.
//!
//! # The rules of measuring
//!
//! - **ns/op is wall time over the operations of all threads together**: with twice the threads, half of it is
//!   perfect scaling. The wall runs from the first thread's start to the last thread's end.
//! - The loop is compiled for each design by itself ([`subject::Subject`], [`programs`]): no virtual call, no choice
//!   of design inside it. `noop` measures the loop alone.
//! - Operations are drawn before the clock starts ([`workload`]), and a key's header is computed, not loaded
//!   ([`keys`]).
//! - Every cell has a map of its own: built and filled before the clock, warmed up, dropped after it. (One experiment
//!   lets the cells of one number of shards share a map, and keeps account of what it holds.)
//! - Every cell is verified after the clock: hits, length, and the contents against a model that knows which keys
//!   were written. A wrong answer or a panic is a failed cell with its reason, and the next cell goes on.
//! - Threads are pinned, and start behind one barrier ([`timing`]).
//! - Allocations are counted by the program's own allocator ([`alloc`]); a design that does not allocate never
//!   meets it.

pub mod alloc;
pub mod cli;
pub mod floor;
pub mod keys;
pub mod machine;
pub mod parking;
#[cfg(feature = "peers")]
pub mod peers;
pub mod programs;
pub mod registry;
pub mod report;
pub mod subject;
pub mod sweeps;
pub mod timing;
pub mod workload;
