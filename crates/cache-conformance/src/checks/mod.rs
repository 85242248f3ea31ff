//! The checks: plain generic functions that panic where a design breaks the contract; never a `#[test]`.
//!
//! Each is run by the macros of the crate root, under the watchdog of [`run`](crate::run()).

pub mod sequential;
pub mod smoke;
