//! Root cells: how a version is read, offered, decided; and the retry loop of a write. Never node layout.
//!
//! # One cell (`hamt`)
//!
//! A write loads the version, builds a new one, and publishes it by one compare-and-swap of the pointer. A lost race
//! is noticed by the pointer having changed.
//!
//! *ABA*: the pointer could only be equal again if the version had been freed and its address used again; the writer is
//! pinned since before it loaded the pointer, so the version is not freed until the writer is done.
//! *Torn reads*: node, length and generation are fields of one immutable object, complete before the
//! compare-and-swap releases it; a reader's acquiring load sees all of them, and everything below, or none.
//!
//! # Many cells with one clock (`hamt256`)
//!
//! This is the generation test of GCAS (Prokopec et al., PPoPP 2012) at the roots. A writer reads the clock `g`, installs
//! a *tentative* version stamped `g`, and then it is decided: committed if the clock still reads `g`, aborted
//! otherwise. Whoever meets a tentative version decides it before going on. A snapshot advances the clock from `g` to
//! `g + 1`, which is its linearization point, and takes from each cell the newest committed version of an epoch up to
//! `g`.
//!
//! *Nothing committed escapes a snapshot*: a version of epoch `g` is committed only by someone who read the clock as
//! `g` after the version was installed. Installation came before the clock advanced, and the snapshot looks after, so
//! it finds the version or a successor. A successor of a later epoch leads to it by `older`.
//! *Nothing is seen early*: a tentative version that the snapshot meets is decided at once, by the clock, which has
//! advanced: aborted, unless someone has committed it before.
//! *Readers decide too.* If a reader passed over a tentative version and answered from the one before, the version could
//! still be committed for an earlier moment than that answer.
//!
//! So for any two writes of which one began after the other had returned, or after the other's effect was seen: if the
//! later one is in a snapshot, so is the earlier one. The decision (a compare-and-swap on `state`) is taken once.
//!
//! *Orderings*: installing and then reading the clock, against advancing the clock and then reading the cell, is the
//! store-buffering (Dekker) pattern. All four are sequentially consistent.

use std::ptr;

use super::busy;
use super::draft::Draft;
use super::limbo::{Due, Limbo};
use super::node::{LeafPtr, Node, NodePtr};
use super::path::{Change, Decision, Path};
use super::version::{ABORTED, COMMITTED, Garbage, TENTATIVE, Version, release_trie, retain_trie};
use crate::stats::Stats;
use crate::sync::{AtomicPtr, AtomicU64, Guard, Mutant, Ordering, mutant, pin};

/// What decides whether a version counts.
pub(crate) trait Clock {
    /// Whether versions are tentative at first.
    const TENTATIVE: bool;
    /// The present epoch.
    fn now(&self) -> u64;
}

/// A single cell needs no clock: its own pointer is the decision.
pub(crate) struct NoClock;

impl Clock for NoClock {
    const TENTATIVE: bool = false;
    #[inline(always)]
    fn now(&self) -> u64 {
        0
    }
}

/// The clock of a partitioned map: the number of snapshots taken.
pub(crate) struct Epochs(AtomicU64);

impl Epochs {
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Ends the present epoch and returns it.
    pub(crate) fn advance(&self) -> u64 {
        // SeqCst: see the module's documentation. 2^64 snapshots do not happen.
        self.0.fetch_add(1, Ordering::SeqCst)
    }
}

impl Clock for Epochs {
    const TENTATIVE: bool = true;
    #[inline]
    fn now(&self) -> u64 {
        // SeqCst: see the module's documentation.
        self.0.load(Ordering::SeqCst)
    }
}

/// The pointer to a trie's newest version.
pub(crate) struct Cell<K, V, const W: usize>(AtomicPtr<Version<K, V, W>>);

/// A cell and what belongs to it, for one operation.
pub(crate) struct Site<'a, K, V, C, const W: usize> {
    pub(crate) cell: &'a Cell<K, V, W>,
    pub(crate) clock: &'a C,
    pub(crate) limbo: &'a Limbo<K, V, W>,
    pub(crate) stats: &'a Stats,
}

impl<K, V, const W: usize> Cell<K, V, W> {
    /// A cell that owns a trie (null for an empty one) whose nodes are stamped up to `generation`.
    ///
    /// # Safety
    ///
    /// The caller gives one claim on `node` away. Where the nodes are shared, `base` is above all their stamps.
    pub(crate) unsafe fn new(
        node: NodePtr<K, V, W>,
        len: usize,
        base: u64,
        generation: u64,
    ) -> Self {
        Self(AtomicPtr::new(Version::new(node, len, base, generation)))
    }

    /// The newest committed version; decides tentative ones on the way.
    ///
    /// # Safety
    ///
    /// The caller is pinned, and stays so as long as it looks at the version.
    #[inline(always)]
    pub(crate) unsafe fn load<'g, C: Clock>(
        &self,
        clock: &C,
        guard: &'g Guard,
    ) -> &'g Version<K, V, W> {
        let _ = guard;
        // SeqCst is needed with a clock; without one, Acquire pairs with the Release of the publication. Both are a
        // plain load on x86-64.
        let order = if C::TENTATIVE {
            Ordering::SeqCst
        } else {
            Ordering::Acquire
        };
        let pointer = self.0.load(order);
        // SAFETY: loaded from the cell while pinned, so it is not freed before the guard is dropped.
        let version = unsafe { Version::get(pointer) };
        if !C::TENTATIVE || version.is_committed() || mutant(Mutant::TentativeNotDecided) {
            return version;
        }
        // SAFETY: the caller's.
        unsafe { self.settle(clock) }
    }

    /// The slow part of [`load`](Self::load).
    ///
    /// # Safety
    ///
    /// As for [`load`](Self::load).
    #[cold]
    unsafe fn settle<'g, C: Clock>(&self, clock: &C) -> &'g Version<K, V, W> {
        loop {
            let pointer = self.0.load(Ordering::SeqCst);
            // SAFETY: loaded from the cell while pinned.
            let version = unsafe { Version::get(pointer) };
            if decide(version, clock) {
                return version;
            }
            // Whoever comes first puts the version before back. It is valid: it is retired only by a write that
            // replaces it in this cell, which needs it to be back first.
            let _ = self.0.compare_exchange(
                pointer,
                version.previous,
                Ordering::SeqCst,
                Ordering::Relaxed,
            );
        }
    }

    /// Offers `new` in the place of `current`. `Ok` if it is now committed.
    ///
    /// # Safety
    ///
    /// The caller is pinned since before it loaded `current`, and owns `new`, which is complete.
    #[inline]
    unsafe fn publish<C: Clock>(
        &self,
        current: *mut Version<K, V, W>,
        new: *mut Version<K, V, W>,
        clock: &C,
    ) -> Result<(), Refusal> {
        if mutant(Mutant::LostRaceIgnored) {
            self.0.store(new, Ordering::SeqCst);
            return Ok(());
        }
        // Release: the new version and all below it. SeqCst with a clock: see the module's documentation. Failure is
        // relaxed: the caller loads again.
        let order = if C::TENTATIVE {
            Ordering::SeqCst
        } else {
            Ordering::Release
        };
        if self
            .0
            .compare_exchange(current, new, order, Ordering::Relaxed)
            .is_err()
        {
            return Err(Refusal::Lost);
        }
        if !C::TENTATIVE {
            return Ok(());
        }
        // SAFETY: ours until retired.
        let version = unsafe { Version::get(new) };
        if mutant(Mutant::GenerationNotReread) {
            version.state.store(COMMITTED, Ordering::SeqCst);
            return Ok(());
        }
        if decide(version, clock) {
            return Ok(());
        }
        let _ = self
            .0
            .compare_exchange(new, current, Ordering::SeqCst, Ordering::Relaxed);
        Err(Refusal::Aborted)
    }

    /// Takes the version out of a cell that no other thread uses.
    pub(crate) fn take_version(&mut self) -> *mut Version<K, V, W> {
        // Relaxed: `&mut self` orders it.
        let pointer = self.0.swap(ptr::null_mut(), Ordering::Relaxed);
        debug_assert!(!pointer.is_null());
        pointer
    }
}

/// Why a version was not published.
enum Refusal {
    /// Another one came first.
    Lost,
    /// A snapshot came between; others may have seen the version, so it must be retired.
    Aborted,
}

/// Decides a version, if nobody has yet; returns whether it counts.
fn decide<K, V, C: Clock, const W: usize>(version: &Version<K, V, W>, clock: &C) -> bool {
    // Acquire: with the decision, everything that happened before it.
    let mut state = version.state.load(Ordering::Acquire);
    if state == TENTATIVE {
        // The clock is read after the version was found in its cell.
        let verdict = if clock.now() == version.epoch {
            COMMITTED
        } else {
            ABORTED
        };
        // SeqCst on success keeps decisions and snapshots in one order.
        state = match version.state.compare_exchange(
            TENTATIVE,
            verdict,
            Ordering::SeqCst,
            Ordering::Acquire,
        ) {
            Ok(_) => verdict,
            Err(other) => other,
        };
    }
    state == COMMITTED
}

/// The stamps for a write on top of `version` in the present epoch: `base` and `generation`.
fn stamps<K, V, const W: usize>(version: &Version<K, V, W>, now: u64) -> (u64, u64) {
    if version.epoch == now || mutant(Mutant::BaseNotBumped) {
        (version.base, version.generation)
    } else {
        // A snapshot may hold everything there is.
        (version.generation + 1, version.generation + 1)
    }
}

/// A version on its way to be published; freed unless it is.
struct Offer<K, V, const W: usize>(*mut Version<K, V, W>);

impl<K, V, const W: usize> Offer<K, V, W> {
    fn new() -> Self {
        Self(Version::new(ptr::null_mut(), 0, 0, 0))
    }

    /// Makes it the successor of `current`.
    fn prepare<C: Clock>(
        &mut self,
        current: &Version<K, V, W>,
        node: NodePtr<K, V, W>,
        len: usize,
        (base, generation): (u64, u64),
        now: u64,
    ) {
        // SAFETY: not published yet, so exclusively ours.
        let version = unsafe { &mut *self.0 };
        let pointer = ptr::from_ref(current).cast_mut();
        version.node = node;
        version.len = len;
        version.base = base;
        version.generation = generation;
        if C::TENTATIVE {
            version.state = crate::sync::AtomicU8::new(TENTATIVE);
            version.epoch = now;
            version.previous = pointer;
            version.older = if current.epoch == now {
                current.older
            } else {
                pointer
            };
        }
    }

    fn into_raw(self) -> *mut Version<K, V, W> {
        let raw = self.0;
        std::mem::forget(self);
        raw
    }
}

impl<K, V, const W: usize> Drop for Offer<K, V, W> {
    fn drop(&mut self) {
        // SAFETY: never published.
        unsafe { Version::deallocate(self.0) };
    }
}

impl<K, V, C: Clock, const W: usize> Site<'_, K, V, C, W> {
    /// What tells this map from others.
    fn map(&self) -> *const () {
        ptr::from_ref(self.limbo).cast()
    }

    /// Runs one write until it is published or finds nothing to do, then `finish` with the entry that was there
    /// before, still pinned. Lock-free: an attempt fails only because another write or a snapshot succeeded.
    pub(crate) fn update<X, R>(
        &self,
        hash: u64,
        change: &mut X,
        finish: impl FnOnce(&mut X, Option<&V>) -> R,
    ) -> R
    where
        X: Change<K, V>,
    {
        busy::refuse_nested(self.map());
        let guard = pin();
        let mut path = Path::new(hash);
        let mut offer = None;
        // SAFETY: pinned until `guard` is dropped below.
        let mut current = unsafe { self.cell.load(self.clock, &guard) };
        let (previous, due) = 'attempt: loop {
            let now = self.clock.now();
            let stamp = stamps(current, now);
            // SAFETY: the version is looked at under the guard. What is built is published or withdrawn below.
            unsafe {
                let decision = busy::during(self.map(), || {
                    path.descend(current.node, stamp.0, stamp.1, |key| change.matches(key));
                    change.decide(path.found().map(|leaf| &*leaf))
                });
                let found = path.found();
                match decision {
                    Decision::Keep => break 'attempt (found, Due::NOTHING),
                    Decision::Put(leaf) => path.put(leaf),
                    Decision::Remove => path.remove(),
                }
            }
            loop {
                let mut new = offer.take().unwrap_or_else(Offer::new);
                let len = current.len.wrapping_add_signed(path.growth());
                new.prepare::<C>(current, path.root(), len, stamp, now);
                let pointer = new.into_raw();
                let replaced = ptr::from_ref(current).cast_mut();
                #[cfg(shuttle)]
                let torn = Torn::begin(pointer, current.len);
                // SAFETY: pinned since before `current` was loaded; `pointer` is complete and ours.
                let refusal = match unsafe { self.cell.publish(replaced, pointer, self.clock) } {
                    Ok(()) => {
                        #[cfg(shuttle)]
                        torn.end(pointer);
                        change.published();
                        // SAFETY: this thread replaced the version, and retires it once.
                        let due = unsafe {
                            current.set_garbage(path.garbage());
                            self.limbo.retire(&guard, replaced, false)
                        };
                        break 'attempt (path.found(), due);
                    }
                    Err(refusal) => refusal,
                };
                self.stats.lost_race();
                match refusal {
                    // SAFETY: never published, so still ours.
                    Refusal::Lost => offer = Some(Offer(pointer)),
                    Refusal::Aborted => {
                        // SAFETY: it was in the cell and is no longer; this thread retires it once, and nothing hangs on it.
                        unsafe { self.limbo.retire(&guard, pointer, false) }.discard()
                    }
                }
                // SAFETY: pinned.
                current = unsafe { self.cell.load(self.clock, &guard) };
                // What was built stays right only in the same epoch and on the same base. An aborted version was seen,
                // but nobody walks a version that is not committed: its nodes are still unreachable for others.
                let same = self.clock.now() == now && stamps(current, now).0 == path.base();
                // SAFETY: not published; `current` is looked at under the guard.
                unsafe {
                    if !same || !path.rebase(current.node) {
                        path.undo();
                        continue 'attempt;
                    }
                }
            }
        };
        drop(offer);
        // SAFETY: a leaf of a version loaded under the guard, which is still held.
        let result = finish(
            change,
            previous.map(|leaf: LeafPtr<K, V>| unsafe { &(*leaf).value }),
        );
        drop(guard);
        due.settle();
        result
    }

    /// Replaces the whole trie, as `build` wants it, until that is published. `build` sees the current version and the
    /// generation to stamp nodes with, and makes a trie, or `None` to leave things as they are.
    ///
    /// # Safety
    ///
    /// No node of what `build` returns is stamped above the generation it was given.
    pub(crate) unsafe fn replace<R>(
        &self,
        mut build: impl FnMut(&Version<K, V, W>, u64) -> (Option<Whole<K, V, W>>, R),
    ) -> R {
        busy::refuse_nested(self.map());
        let guard = pin();
        let mut due = Due::NOTHING;
        let result = loop {
            // SAFETY: pinned until `guard` is dropped below.
            let current = unsafe { self.cell.load(self.clock, &guard) };
            let now = self.clock.now();
            // A generation of its own: nodes stamped with it are private until they are published. It is the new base
            // as well, since for a while the old trie and the new one both own what they share.
            let private = stamps(current, now).1 + 1;
            let (whole, result) = busy::during(self.map(), || build(current, private));
            let Some(mut whole) = whole else { break result };
            let mut new = Offer::new();
            new.prepare::<C>(current, whole.node, whole.len, (private, private), now);
            let pointer = new.into_raw();
            let replaced = ptr::from_ref(current).cast_mut();
            // SAFETY: pinned since before `current` was loaded; `pointer` is complete and ours.
            match unsafe { self.cell.publish(replaced, pointer, self.clock) } {
                Ok(()) => {
                    whole.node = ptr::null_mut();
                    // SAFETY: this thread replaced the version, and retires it once. The live trie's claim on the
                    // whole old trie is given up; what the new one shares with it has claims of its own.
                    due = unsafe {
                        current.set_garbage(Garbage::trie(current.node));
                        self.limbo.retire(&guard, replaced, true)
                    };
                    break result;
                }
                // SAFETY: never published, so still ours.
                Err(Refusal::Lost) => drop(Offer(pointer)),
                Err(Refusal::Aborted) => {
                    // SAFETY: it was in the cell and is no longer; this thread retires it once, and nothing hangs on it.
                    unsafe { self.limbo.retire(&guard, pointer, false) }.discard()
                }
            }
            self.stats.lost_race();
        };
        drop(guard);
        due.settle();
        result
    }

    /// Publishes a draft that nobody has seen as it is, if the trie is empty; gives it back otherwise. Its nodes are
    /// exclusive from the start.
    pub(crate) fn adopt_if_empty(&self, draft: Draft<K, V, W>) -> Result<(), Draft<K, V, W>> {
        busy::refuse_nested(self.map());
        let guard = pin();
        // SAFETY: pinned until `guard` is dropped below.
        let current = unsafe { self.cell.load(self.clock, &guard) };
        if !current.node.is_null() {
            return Err(draft);
        }
        let now = self.clock.now();
        // The stamps may fall: no node of this trie is in a snapshot, as there was none.
        let stamp = draft.generation();
        let whole = draft.into_whole();
        let mut new = Offer::new();
        new.prepare::<C>(current, whole.node, whole.len, (stamp, stamp), now);
        let pointer = new.into_raw();
        let replaced = ptr::from_ref(current).cast_mut();
        // SAFETY: pinned since before `current` was loaded; `pointer` is complete and ours.
        let (retired, result) = match unsafe { self.cell.publish(replaced, pointer, self.clock) } {
            Ok(()) => {
                std::mem::forget(whole);
                (replaced, Ok(()))
            }
            Err(refusal) => {
                self.stats.lost_race();
                let draft = Draft::from_whole(whole, stamp);
                match refusal {
                    Refusal::Lost => {
                        // SAFETY: never published, so still ours.
                        drop(Offer(pointer));
                        return Err(draft);
                    }
                    Refusal::Aborted => (pointer, Err(draft)),
                }
            }
        };
        // SAFETY: this thread replaced, or withdrew, the version, and retires it once; nothing hangs on it.
        let due = unsafe { self.limbo.retire(&guard, retired, false) };
        drop(guard);
        due.settle();
        result
    }

    /// Claims what a partition held at the end of `epoch`.
    ///
    /// # Safety
    ///
    /// The caller is pinned by `guard` since before that epoch ended, and it has ended.
    pub(crate) unsafe fn freeze_at(&self, epoch: u64, guard: &Guard) -> Whole<K, V, W> {
        // SAFETY: pinned.
        let mut version = unsafe { self.cell.load(self.clock, guard) };
        while version.epoch > epoch {
            // SAFETY: a version of a later epoch was offered after ours had ended. The one before it was in the cell
            // then, so it was retired after we were pinned.
            version = unsafe { Version::get(version.older) };
        }
        // It is committed, and the newest up to `epoch`: nothing of that epoch can be committed any more. The live
        // trie gives up its claim on this root a grace period after it was replaced, which was not before the epoch
        // ended; and it never takes it for exclusive again, since the epoch is over.
        if !mutant(Mutant::SnapshotUnclaimed) {
            // SAFETY: owned, as just said.
            unsafe { retain_trie(version.node) };
        }
        Whole {
            node: version.node,
            len: version.len,
        }
    }

    /// Freezes a single cell: publishes a version with the same trie and a higher base, unless nothing is exclusive
    /// anyway, and claims the trie for the caller. O(1).
    pub(crate) fn freeze(&self) -> Whole<K, V, W> {
        debug_assert!(!C::TENTATIVE, "partitions are frozen by the clock");
        let guard = pin();
        let mut due = Due::NOTHING;
        let whole = loop {
            // SAFETY: pinned until `guard` is dropped below.
            let current = unsafe { self.cell.load(self.clock, &guard) };
            let node = current.node;
            // SAFETY: looked at under the guard.
            let shared = node.is_null() || unsafe { Node::generation(node) } < current.base;
            if !shared && !mutant(Mutant::BaseNotBumped) {
                let mut new = Offer::new();
                let next = current.generation + 1;
                new.prepare::<C>(current, node, current.len, (next, next), 0);
                let pointer = new.into_raw();
                let replaced = ptr::from_ref(current).cast_mut();
                // SAFETY: pinned since before `current` was loaded; `pointer` is complete and ours.
                if unsafe { self.cell.publish(replaced, pointer, self.clock) }.is_err() {
                    // SAFETY: never published, so still ours.
                    drop(Offer(pointer));
                    self.stats.lost_race();
                    continue;
                }
                // SAFETY: this thread replaced the version, and retires it once; the trie stays.
                due = unsafe { self.limbo.retire(&guard, replaced, false) };
            }
            // Claimed after the publication, so that no claim has to be taken back. The live trie owned the root when
            // the version was loaded, or published; it gives that claim up only a grace period later.
            if !mutant(Mutant::SnapshotUnclaimed) {
                // SAFETY: owned, as just said.
                unsafe { retain_trie(node) };
            }
            break Whole {
                node,
                len: current.len,
            };
        };
        drop(guard);
        due.settle();
        whole
    }
}

/// A trie owned as a whole: one claim on its root, given up on drop.
pub(crate) struct Whole<K, V, const W: usize> {
    pub(crate) node: NodePtr<K, V, W>,
    pub(crate) len: usize,
}

impl<K, V, const W: usize> Drop for Whole<K, V, W> {
    fn drop(&mut self) {
        if mutant(Mutant::SnapshotUnclaimed) {
            return;
        }
        // SAFETY: the claim is ours, and nobody looks at the trie on its strength but through `&self`.
        unsafe { release_trie(self.node) };
    }
}

/// For two mutants: publishes a version whose node or length is written by a second step.
#[cfg(shuttle)]
struct Torn<K, V, const W: usize> {
    node: NodePtr<K, V, W>,
    len: usize,
}

#[cfg(shuttle)]
impl<K, V, const W: usize> Torn<K, V, W> {
    fn begin(version: *mut Version<K, V, W>, old_len: usize) -> Self {
        // SAFETY: not published yet.
        let version = unsafe { &mut *version };
        let torn = Self {
            node: version.node,
            len: version.len,
        };
        if mutant(Mutant::TornRoot) {
            version.node = ptr::null_mut();
        }
        if mutant(Mutant::LenApart) {
            version.len = old_len;
        }
        torn
    }

    fn end(self, version: *mut Version<K, V, W>) {
        if mutant(Mutant::TornRoot) || mutant(Mutant::LenApart) {
            shuttle::thread::yield_now();
            // SAFETY: none: these are mutants. (The model checker runs one thread at a time.)
            unsafe {
                (*version).node = self.node;
                (*version).len = self.len;
            }
        }
    }
}
