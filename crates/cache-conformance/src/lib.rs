//! The shared corpus of tests: sequential model, linearizability, drops, panics, re-entry.
