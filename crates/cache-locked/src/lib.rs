//! One lock, one map: mutex, rwlock, and the unsynchronised baseline.
