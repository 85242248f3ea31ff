//! Deliberately broken variants of the protocol, one per rule, for the tests that must catch them. Compiled only
//! into test builds; in any other build [`on`] is the constant `false`.

/// The rule that is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(test), allow(dead_code, reason = "only tests switch mutants on"))]
pub(crate) enum Mutant {
    /// A write is one plain CAS: nothing is tentative and no generation is tested.
    LateDeepWrite,
    /// The decision says yes without looking at the root's generation.
    NoGenerationTest,
    /// A reader that meets a tentative word returns what was there before, and decides nothing.
    PassiveRead,
    /// The root swap is decided by the CAS on the root; a flag is set afterwards.
    RdcssFlag,
    /// The root swap does not compare the root's content with what was expected.
    RdcssNoExpected,
    /// A frozen world decides tentative writes with yes.
    ReadOnlyCommits,
    /// A renewal copies child pointers without retaining them.
    RenewalWithoutRetain,
    /// A release does not wait for the grace period.
    ReleaseNotDeferred,
    /// A failed renewal keeps what it retained.
    UndoSkipped,
    /// A failed renewal gives back more than it retained.
    UndoTwice,
    /// Contraction unlinks an array without freezing its slots first.
    ContractWithoutFreezing,
    /// Contraction is never tried.
    NoContraction,
    /// A renewal copies words without deciding the tentative ones.
    CopyWithoutDeciding,
    /// A removal empties the slot at once, by a plain CAS.
    SkippedTomb,
    /// `len` counts the live map instead of a frozen one.
    LenOffSnapshot,
    /// A reader takes a frozen word for an empty slot.
    FrozenMaskMissing,
    /// An overwrite does not renew the array it writes into.
    RenewalSkippedOnOverwrite,
    /// A snapshot shares the root without moving the live map to a new generation.
    SnapshotKeepsGeneration,
    /// A collision list of an older generation is taken apart instead of copied.
    SharedListMoved,
    /// Contraction freezes only the slots that hold something.
    FreezeOccupiedOnly,
}

#[cfg(test)]
thread_local! {
    static ACTIVE: std::cell::Cell<Option<Mutant>> = const { std::cell::Cell::new(None) };
}

/// Whether `mutant` is switched on for this thread (under the model checker: for the whole model).
#[cfg(test)]
pub(crate) fn on(mutant: Mutant) -> bool {
    ACTIVE.with(|active| active.get() == Some(mutant))
}

/// No mutant is ever on outside tests.
#[cfg(not(test))]
#[inline(always)]
pub(crate) const fn on(_mutant: Mutant) -> bool {
    false
}

/// Runs `body` with `mutant` switched on, and switches it off again, whatever happens.
#[cfg(test)]
pub(crate) fn with<R>(mutant: Option<Mutant>, body: impl FnOnce() -> R) -> R {
    struct Off;
    impl Drop for Off {
        fn drop(&mut self) {
            ACTIVE.with(|active| active.set(None));
        }
    }
    let _off = Off;
    ACTIVE.with(|active| active.set(mutant));
    body()
}
