//! Measures the designs: the registry, the workloads, the timed loop and the check of what it did.
//!
//! Everything that is timed lives here; what reads, compares and renders the figures lives in `xtask` and
//! `bench-compare` and never times anything.
//!
//! | module | what |
//! |---|---|
//! | [`registry`] | one row per design and peer: the only place that names them |
//! | [`peers`] | the crates the designs are measured against, each through its best documented calls |
//! | [`workload`] | keys, values, distributions, mixes; operations drawn before the clock starts |
//! | [`drive`] | the timed loop, one thread each, pinned, behind a barrier |
//! | [`grid`] | the core grid (phases A, B and C): its cells, and one child process's work |
//! | [`alloc`] | the counting allocator |
//! | [`facts`] | machine and build, as configuration lines |
//! | [`output`] | the lines of the protocol |

pub mod alloc;
pub mod drive;
pub mod facts;
pub mod family;
pub mod grid;
pub mod output;
#[cfg(feature = "peers")]
pub mod peers;
pub mod registry;
pub mod workload;
