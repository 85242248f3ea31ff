//! The checks: plain generic functions that panic where a design breaks the contract; never a `#[test]`.
//!
//! Each is run by the macros of the crate root, under the watchdog of [`run`](crate::run()).

pub mod drops;
pub mod forks;
pub mod growth;
pub mod linear;
pub mod panics;
pub mod races;
pub mod reentry;
pub mod routed;
pub mod sequential;
pub mod smoke;
pub mod snapshots;
