//! The one door to atomics and epochs; never any logic of the map.
//!
//! A normal build gets `std`'s atomics and crossbeam-epoch. Under `--cfg shuttle` the atomics are those of the model
//! checker and the epochs an adversarial mock ([`model`]).

pub(crate) use imp::{Arc, AtomicBool, AtomicPtr, AtomicU8, AtomicU64, AtomicUsize, Guard, pin};
pub(crate) use std::sync::atomic::Ordering;

#[cfg(not(shuttle))]
mod imp {
    use std::sync::OnceLock;

    use crossbeam_epoch::{Collector, LocalHandle};

    pub(crate) use crossbeam_epoch::Guard;
    pub(crate) use std::sync::Arc;
    pub(crate) use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU64, AtomicUsize};

    /// One collector for all maps of this crate, and for nothing else: a thread that stays pinned in the default
    /// collector on behalf of some other library does not hold back reclamation here. A collector per map would go
    /// further, but needs a per-thread table of handles, looked up on each operation.
    fn collector() -> &'static Collector {
        static COLLECTOR: OnceLock<Collector> = OnceLock::new();
        COLLECTOR.get_or_init(Collector::new)
    }

    thread_local! {
        static HANDLE: LocalHandle = collector().register();
    }

    /// Pins the current thread: whatever is reachable from a root loaded from now on stays allocated until the
    /// guard is dropped. Also works in destructors of thread-locals, by a registration of its own.
    #[inline]
    pub(crate) fn pin() -> Guard {
        HANDLE
            .try_with(LocalHandle::pin)
            .unwrap_or_else(|_| pin_unregistered())
    }

    #[cold]
    fn pin_unregistered() -> Guard {
        collector().register().pin()
    }
}

#[cfg(shuttle)]
mod imp {
    pub(crate) use super::model::{Guard, pin};
    pub(crate) use shuttle::sync::Arc;
    pub(crate) use shuttle::sync::atomic::{
        AtomicBool, AtomicPtr, AtomicU8, AtomicU64, AtomicUsize,
    };
}

/// A deliberately broken variant of one rule of the protocol. Each is killed by a test of the same name in
/// `tests/model.rs`; none exists outside `--cfg shuttle`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    not(shuttle),
    allow(dead_code, unreachable_pub, reason = "chosen by the model only")
)]
pub enum Mutant {
    /// The publication stores the new root instead of comparing first.
    LostRaceIgnored,
    /// A shared node is copied without claiming its children.
    RetainMissing,
    /// What a write unlinked is freed at once instead of after a grace period.
    ReleaseNotDeferred,
    /// A node that a snapshot also owns is treated as exclusive: freed, its claims moved.
    SharedNodeRetired,
    /// The length is stored by a second step after the root.
    LenApart,
    /// The root is published before its slots are filled in.
    TornRoot,
    /// A removal leaves a node with a single leaf in place.
    NoCollapse,
    /// A reader takes a tentative version for committed.
    TentativeNotDecided,
    /// A writer commits a tentative version without reading the generation again.
    GenerationNotReread,
    /// A snapshot does not claim the root it holds.
    SnapshotUnclaimed,
    /// A snapshot leaves the base of exclusive stamps as it was.
    BaseNotBumped,
    /// After a lost race the whole built path is kept, although the winner changed part of it.
    BlindRebase,
    /// An abandoned attempt keeps the claims it made.
    UndoForgotten,
}

/// Whether the test under way runs with this mutant. Constant `false` in a normal build.
#[cfg(not(shuttle))]
#[inline(always)]
pub(crate) const fn mutant(_: Mutant) -> bool {
    false
}

#[cfg(shuttle)]
pub(crate) use model::mutant;

#[cfg(shuttle)]
pub mod model;
