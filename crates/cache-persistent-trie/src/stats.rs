//! Counting lost races, if asked for; nothing otherwise.

/// How often a write of this map had to try again.
#[cfg(feature = "stats")]
pub(crate) struct Stats(crossbeam_utils::CachePadded<std::sync::atomic::AtomicU64>);

/// Without the feature `stats`: nothing.
#[cfg(not(feature = "stats"))]
pub(crate) struct Stats;

impl Stats {
    /// None lost yet.
    #[cfg(feature = "stats")]
    pub(crate) const fn new() -> Self {
        Self(crossbeam_utils::CachePadded::new(
            std::sync::atomic::AtomicU64::new(0),
        ))
    }

    /// Nothing.
    #[cfg(not(feature = "stats"))]
    pub(crate) const fn new() -> Self {
        Self
    }

    /// Counts one attempt that was not published.
    #[inline(always)]
    pub(crate) fn lost_race(&self) {
        #[cfg(feature = "stats")]
        // Relaxed: a figure, nothing is concluded from it.
        self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    }

    /// The count.
    #[cfg(feature = "stats")]
    pub(crate) fn lost_races(&self) -> u64 {
        // Relaxed: as above.
        self.0.load(std::sync::atomic::Ordering::Relaxed)
    }
}
