//! A hash-once table whose growth survives panicking keys, and the re-entry guard of the locking designs.
