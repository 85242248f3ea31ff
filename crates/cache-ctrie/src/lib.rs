//! A concurrent hash trie with constant-time snapshots and writable forks.

mod map;
mod mutants;
mod node;
mod reentry;
mod session;
mod snapshot;
mod sync;
mod trie;

#[cfg(test)]
mod tests;

pub use crate::map::Map;
pub use crate::session::Session;
pub use crate::snapshot::{Iter, Snapshot};
