//! Owner threads and messages instead of locks.
