//! The benchmark text format and the comparison of its samples, without any I/O.
