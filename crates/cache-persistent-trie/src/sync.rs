//! The one door to atomics and epochs; never any logic of the map.
//!
//! A normal build gets `std`'s atomics and the epochs of cache-reclaim. Under `--cfg shuttle` the atomics are those of the model
//! checker and the epochs an adversarial mock ([`model`]).

#[cfg(shuttle)]
pub(crate) use imp::AtomicBool;
pub(crate) use imp::{AtomicPtr, AtomicU8, AtomicU64, AtomicUsize, Grace, Guard, advance, pin};
pub(crate) use std::sync::atomic::Ordering;

#[cfg(not(shuttle))]
mod imp {
    pub(crate) use cache_reclaim::epoch::{Grace, Guard, advance, pin};
    pub(crate) use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicU64, AtomicUsize};
}

#[cfg(shuttle)]
mod imp {
    pub(crate) use super::model::{Grace, Guard, advance, pin};
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
