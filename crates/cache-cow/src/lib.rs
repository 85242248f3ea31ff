//! Copy-on-write: an atomic pointer to an immutable map.
