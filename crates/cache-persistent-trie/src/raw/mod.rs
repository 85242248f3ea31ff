//! The tries themselves, with all of this crate's `unsafe`, behind a safe face: [`Single`], [`Parted`], [`Whole`],
//! [`Draft`]. Knows hashes and leaves, never a hasher.
//!
//! Reading order: `memory`, `node` (layout), `version` (what a root cell points to), `limbo` (waiting for grace periods), `path`
//! (one write), `cell` (the protocol), `draft` (many writes), `read` (lookups).

mod busy;
mod cell;
mod draft;
mod limbo;
mod memory;
mod node;
mod path;
mod read;
mod version;

use std::ptr;

use crossbeam_utils::CachePadded;

use self::cell::{Cell, Clock};
pub(crate) use self::cell::{Epochs, NoClock, Site, Whole};
pub(crate) use self::draft::Draft;
use self::limbo::Limbo;
use self::node::NodePtr;
pub(crate) use self::node::{Fresh, Leaf, LeafPtr};
pub(crate) use self::path::{Change, Decision, give_away};
use self::read::{GROUP, Group};
use self::version::Version;
use crate::stats::Stats;
use crate::sync::pin;

/// How many threads the machine runs at a time; asked once, or by the first few at the same time.
fn processors() -> usize {
    use std::sync::atomic::{AtomicUsize, Ordering};
    static PROCESSORS: AtomicUsize = AtomicUsize::new(0);
    // Relaxed: a number, and nothing else, is handed over.
    match PROCESSORS.load(Ordering::Relaxed) {
        0 => {
            let found = std::thread::available_parallelism().map_or(1, usize::from);
            PROCESSORS.store(found, Ordering::Relaxed);
            found
        }
        known => known,
    }
}

/// One trie with one root cell.
pub(crate) struct Single<K, V, const W: usize> {
    cell: CachePadded<Cell<K, V, W>>,
    limbo: Limbo<K, V, W>,
    stats: Stats,
}

/// Many tries under one clock.
pub(crate) struct Parted<K, V, const W: usize> {
    cells: Box<[CachePadded<Cell<K, V, W>>]>,
    clock: CachePadded<Epochs>,
    limbo: Limbo<K, V, W>,
    stats: Stats,
}

// SAFETY: a map hands out references to its keys and values to any thread that shares it, and drops them on any
// such thread, so both need `Send` and `Sync`. Snapshots and forks share entries with the map, as `Arc`s do, so the
// same holds for sending one of them to another thread. All mutable state is atomic, or handed over as documented.
unsafe impl<K: Send + Sync, V: Send + Sync, const W: usize> Send for Single<K, V, W> {}
// SAFETY: as above.
unsafe impl<K: Send + Sync, V: Send + Sync, const W: usize> Sync for Single<K, V, W> {}
// SAFETY: as above.
unsafe impl<K: Send + Sync, V: Send + Sync, const W: usize> Send for Parted<K, V, W> {}
// SAFETY: as above.
unsafe impl<K: Send + Sync, V: Send + Sync, const W: usize> Sync for Parted<K, V, W> {}
// SAFETY: as above.
unsafe impl<K: Send + Sync, V: Send + Sync, const W: usize> Send for Whole<K, V, W> {}
// SAFETY: as above.
unsafe impl<K: Send + Sync, V: Send + Sync, const W: usize> Sync for Whole<K, V, W> {}

/// The stamps of a new map: drafts made for it are stamped 0, and later writes too.
const FIRST: u64 = 0;

impl<K, V, const W: usize> Single<K, V, W> {
    pub(crate) fn new() -> Self {
        Self::from_draft(Draft::new(FIRST))
    }

    /// A map that owns what was built aside; nobody else has seen it.
    pub(crate) fn from_draft(draft: Draft<K, V, W>) -> Self {
        Self::adopt(draft.into_whole(), FIRST, FIRST)
    }

    /// A map that starts as a copy of a frozen trie.
    pub(crate) fn from_whole(whole: Whole<K, V, W>) -> Self {
        let stamp = above(&whole);
        Self::adopt(whole, stamp, stamp)
    }

    fn adopt(whole: Whole<K, V, W>, base: u64, generation: u64) -> Self {
        Self {
            cell: CachePadded::new(adopt(whole, base, generation)),
            limbo: Limbo::new(),
            stats: Stats::new(),
        }
    }

    #[inline(always)]
    pub(crate) fn site(&self, _hash: u64) -> Site<'_, K, V, NoClock, W> {
        Site {
            cell: &self.cell,
            clock: &NoClock,
            limbo: &self.limbo,
            stats: &self.stats,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.site(0).len()
    }

    pub(crate) fn reclaim(&self) -> bool {
        self.limbo.reclaim()
    }

    #[cfg(feature = "stats")]
    pub(crate) fn lost_races(&self) -> u64 {
        self.stats.lost_races()
    }

    /// Looks up a batch in the version of this moment. See [`batch`].
    pub(crate) fn batch<'k, Q: ?Sized + 'k>(
        &self,
        keys: impl Iterator<Item = &'k Q>,
        hash: impl Fn(&Q) -> u64,
        matches: impl Fn(&Q, &K) -> bool,
        f: impl FnMut(usize, Option<&V>),
    ) {
        let guard = pin();
        // SAFETY: pinned during the whole batch.
        unsafe {
            let root = self.cell.load(&NoClock, &guard).node;
            batch(keys, hash, matches, |_| root, f);
        }
    }

    /// Calls `f` for all leaves of this moment.
    pub(crate) fn visit(&self, f: impl FnMut(&Leaf<K, V>)) {
        let guard = pin();
        // SAFETY: pinned during the whole visit.
        unsafe { read::Leaves::new(self.cell.load(&NoClock, &guard).node) }.for_each(f);
    }

    /// Removes the leaves that `keep` refuses, unless they were replaced meanwhile, in one step.
    pub(crate) fn retain(
        &self,
        keep: impl FnMut(&Leaf<K, V>) -> bool,
        equal: impl Fn(&K, &K) -> bool,
    ) {
        self.site(0).retain(keep, equal);
    }
}

impl<K, V, const W: usize> Drop for Single<K, V, W> {
    fn drop(&mut self) {
        disown(&mut self.cell);
    }
}

impl<K, V, const W: usize> Parted<K, V, W> {
    /// A map of as many partitions as there are drafts; nobody else has seen them.
    pub(crate) fn from_drafts(drafts: impl IntoIterator<Item = Draft<K, V, W>>) -> Self {
        let cell =
            |draft: Draft<K, V, W>| CachePadded::new(adopt(draft.into_whole(), FIRST, FIRST));
        Self::with_cells(drafts.into_iter().map(cell).collect())
    }

    /// A map that starts as a copy of frozen tries.
    pub(crate) fn from_wholes(wholes: impl IntoIterator<Item = Whole<K, V, W>>) -> Self {
        let cell = |whole: Whole<K, V, W>| {
            let stamp = above(&whole);
            CachePadded::new(adopt(whole, stamp, stamp))
        };
        Self::with_cells(wholes.into_iter().map(cell).collect())
    }

    fn with_cells(cells: Box<[CachePadded<Cell<K, V, W>>]>) -> Self {
        Self {
            cells,
            clock: CachePadded::new(Epochs::new()),
            limbo: Limbo::new(),
            stats: Stats::new(),
        }
    }

    #[inline(always)]
    pub(crate) fn site(&self, partition: usize) -> Site<'_, K, V, Epochs, W> {
        Site {
            cell: &self.cells[partition],
            clock: &self.clock,
            limbo: &self.limbo,
            stats: &self.stats,
        }
    }

    /// The sum of the lengths, read one after another.
    pub(crate) fn len(&self) -> usize {
        (0..self.cells.len())
            .map(|partition| self.site(partition).len())
            .sum()
    }

    pub(crate) fn reclaim(&self) -> bool {
        self.limbo.reclaim()
    }

    #[cfg(feature = "stats")]
    pub(crate) fn lost_races(&self) -> u64 {
        self.stats.lost_races()
    }

    /// All partitions at one moment.
    pub(crate) fn freeze(&self) -> Box<[Whole<K, V, W>]> {
        // It would abort the write around it, each time.
        busy::refuse_nested(ptr::from_ref(&self.limbo).cast());
        // Pinned before the epoch ends: `freeze_at` needs it.
        let guard = pin();
        let epoch = self.clock.advance();
        // SAFETY: pinned since before the epoch ended.
        (0..self.cells.len())
            .map(|partition| unsafe { self.site(partition).freeze_at(epoch, &guard) })
            .collect()
    }

    /// Looks up a batch; all answers from one partition belong to one moment. See [`batch`].
    pub(crate) fn batch<'k, Q: ?Sized + 'k>(
        &self,
        keys: impl Iterator<Item = &'k Q>,
        hash: impl Fn(&Q) -> u64,
        route: impl Fn(u64) -> usize,
        matches: impl Fn(&Q, &K) -> bool,
        f: impl FnMut(usize, Option<&V>),
    ) {
        let guard = pin();
        let mut versions: Vec<Option<&Version<K, V, W>>> = vec![None; self.cells.len()];
        let root_of = |hash: u64| {
            let partition = route(hash);
            versions[partition]
                // SAFETY: pinned during the whole batch.
                .get_or_insert_with(|| unsafe { self.cells[partition].load(&*self.clock, &guard) })
                .node
        };
        // SAFETY: pinned during the whole batch.
        unsafe { batch(keys, hash, matches, root_of, f) };
    }
}

impl<K, V, const W: usize> Drop for Parted<K, V, W> {
    fn drop(&mut self) {
        for cell in &mut self.cells {
            disown(cell);
        }
    }
}

/// A generation above all stamps of a frozen trie.
fn above<K, V, const W: usize>(whole: &Whole<K, V, W>) -> u64 {
    if whole.node.is_null() {
        return FIRST;
    }
    // SAFETY: owned by `whole`. The root has the highest stamp (N3).
    unsafe { node::Node::generation(whole.node) + 1 }
}

/// A cell that owns a trie.
fn adopt<K, V, const W: usize>(whole: Whole<K, V, W>, base: u64, generation: u64) -> Cell<K, V, W> {
    // SAFETY: the claim of `whole` is given away.
    let cell = unsafe { Cell::new(whole.node, whole.len, base, generation) };
    std::mem::forget(whole);
    cell
}

/// Frees the version of a cell that no operation uses any more, and gives up its trie.
fn disown<K, V, const W: usize>(cell: &mut Cell<K, V, W>) {
    let version = cell.take_version();
    // SAFETY: exclusively ours; it owned a claim on its trie. No tentative version is left, since each operation ends
    // by deciding its own.
    let whole = unsafe {
        let whole = Whole {
            node: (*version).node,
            len: (*version).len,
        };
        Version::deallocate(version);
        whole
    };
    drop(whole);
}

impl<K, V, C: Clock, const W: usize> Site<'_, K, V, C, W> {
    /// Runs `f` on the leaf for a key, pinned.
    #[inline]
    pub(crate) fn read<R>(
        &self,
        hash: u64,
        matches: impl Fn(&K) -> bool,
        f: impl FnOnce(&Leaf<K, V>) -> R,
    ) -> Option<R> {
        let guard = pin();
        // SAFETY: pinned until `f` has returned.
        let leaf = unsafe {
            let version = self.cell.load(self.clock, &guard);
            read::find(version.node, hash, matches)
        };
        // SAFETY: as above.
        leaf.map(|leaf| f(unsafe { &*leaf }))
    }

    /// The length of this moment.
    pub(crate) fn len(&self) -> usize {
        let guard = pin();
        // SAFETY: pinned.
        unsafe { self.cell.load(self.clock, &guard).len }
    }

    /// Removes all entries in one step.
    pub(crate) fn clear(&self) {
        // SAFETY: an empty trie has no nodes.
        unsafe {
            self.replace(|version, private| {
                let empty = (!version.node.is_null()).then(|| Draft::new(private).into_whole());
                (empty, ())
            });
        }
    }

    /// Publishes in one step what `edit` makes of a draft of the current trie; as often as it takes. `edit` says
    /// whether it changed anything.
    pub(crate) fn transact<R>(&self, mut edit: impl FnMut(&mut Draft<K, V, W>) -> (bool, R)) -> R {
        // SAFETY: drafts stamp with the generation they are given. The live trie owns what the draft is made over, and
        // gives it up only after a grace period; `replace` is pinned meanwhile.
        unsafe {
            self.replace(|version, private| {
                let mut draft = Draft::over(version.node, version.len, private);
                let (changed, result) = edit(&mut draft);
                (changed.then(|| draft.into_whole()), result)
            })
        }
    }

    /// Adds all entries of a draft built aside, in one step. `equal` compares keys.
    pub(crate) fn merge(&self, aside: Draft<K, V, W>, equal: impl Fn(&K, &K) -> bool) {
        if aside.len() == 0 {
            return;
        }
        let Err(aside) = self.adopt_if_empty(aside) else {
            return;
        };
        self.transact(|draft| {
            let mut leaves = aside.leaves();
            while let Some(leaf) = leaves.next_pointer() {
                // SAFETY: the draft built aside owns the leaf too, until the end.
                unsafe { draft.share(leaf, &equal) };
            }
            (true, ())
        });
    }

    /// Removes the leaves that `keep` refuses, unless they were replaced meanwhile, in one step. Each leaf of this
    /// moment is tested once; one that was refused is tested again, inside the write, where it lies in its node and
    /// another write has copied that node since: it may be another one. `equal` compares keys.
    pub(crate) fn retain(
        &self,
        mut keep: impl FnMut(&Leaf<K, V>) -> bool,
        equal: impl Fn(&K, &K) -> bool,
    ) {
        let guard = pin();
        let mut refused: Vec<LeafPtr<K, V>> = Vec::new();
        // SAFETY: pinned until the end, so that no leaf is freed, and no address used again, before the comparison.
        let tested = unsafe { self.cell.load(self.clock, &guard).node };
        // SAFETY: as above.
        let mut leaves = unsafe { read::Leaves::new(tested) };
        while let Some(leaf) = leaves.next_pointer() {
            // SAFETY: as above.
            if !keep(unsafe { &*leaf }) {
                refused.push(leaf);
            }
        }
        if refused.is_empty() {
            return;
        }
        self.transact(|draft| {
            let current = draft.root();
            let mut changed = false;
            for &leaf in &refused {
                // SAFETY: as above; `current` is the root of a version loaded under a guard that is still held.
                unsafe {
                    let hash = (*leaf).hash;
                    changed |= if node::in_node::<K, V>() {
                        let same = read::holder(tested, hash) == read::holder(current, hash);
                        draft.remove(hash, |candidate| {
                            candidate.hash == hash
                                && equal(&candidate.key, &(*leaf).key)
                                && (same || !keep(candidate))
                        })
                    } else {
                        draft.remove(hash, |candidate| ptr::eq(candidate, leaf))
                    };
                }
            }
            (changed, ())
        });
    }

    /// See [`read::shape`].
    pub(crate) fn shape(&self) -> Vec<(usize, u64, u64)> {
        let guard = pin();
        // SAFETY: pinned.
        unsafe { read::shape(self.cell.load(self.clock, &guard).node) }
    }
}

impl<K, V, const W: usize> Whole<K, V, W> {
    pub(crate) fn get(&self, hash: u64, matches: impl Fn(&K) -> bool) -> Option<&Leaf<K, V>> {
        // SAFETY: owned, and borrowed for as long as the result.
        unsafe { read::find(self.node, hash, matches).map(|leaf| &*leaf) }
    }

    pub(crate) fn leaves(&self) -> read::Leaves<'_, K, V, W> {
        // SAFETY: owned, and borrowed for as long as the result.
        unsafe { read::Leaves::new(self.node) }
    }

    /// One more handle.
    pub(crate) fn share(&self) -> Self {
        // SAFETY: owned.
        unsafe { version::retain_trie(self.node) };
        Self {
            node: self.node,
            len: self.len,
        }
    }
}

/// A batch in frozen tries.
pub(crate) fn batch_in<'k, K, V, Q: ?Sized + 'k, const W: usize>(
    wholes: &[Whole<K, V, W>],
    keys: impl Iterator<Item = &'k Q>,
    hash: impl Fn(&Q) -> u64,
    route: impl Fn(u64) -> usize,
    matches: impl Fn(&Q, &K) -> bool,
    f: impl FnMut(usize, Option<&V>),
) {
    // SAFETY: owned, and borrowed during the call.
    unsafe { batch(keys, hash, matches, |hash| wholes[route(hash)].node, f) };
}

/// Calls `f` with the position and value of each key, group by group. See [`Group::walk`].
///
/// # Safety
///
/// All roots are null or have owners that keep their claims during the call.
unsafe fn batch<'k, K, V, Q: ?Sized + 'k, const W: usize>(
    mut keys: impl Iterator<Item = &'k Q>,
    hash: impl Fn(&Q) -> u64,
    matches: impl Fn(&Q, &K) -> bool,
    mut root_of: impl FnMut(u64) -> NodePtr<K, V, W>,
    mut f: impl FnMut(usize, Option<&V>),
) {
    let mut group = Group::new();
    let mut wanted: [Option<&Q>; GROUP] = [None; GROUP];
    let mut ahead: [Option<&Q>; GROUP] = [None; GROUP];
    // The keys of the next group, whose bytes are asked for a group before they are hashed. (A reference to a `str`, a
    // slice or a plain value points to these bytes; where a key owns them elsewhere, to the line with their address.)
    let mut fetch = |ahead: &mut [Option<&'k Q>; GROUP]| {
        ahead
            .iter_mut()
            .zip(keys.by_ref())
            .map(|(place, key)| {
                read::prefetch(ptr::from_ref(key).cast::<u8>());
                *place = Some(key);
            })
            .count()
    };
    let mut first = 0;
    let mut count = fetch(&mut ahead);
    loop {
        std::mem::swap(&mut wanted, &mut ahead);
        for (lane, key) in wanted[..count].iter().enumerate() {
            let Some(key) = key else { continue };
            let hash = hash(key);
            group.hash[lane] = hash;
            group.root[lane] = root_of(hash);
        }
        let next = if count < GROUP { 0 } else { fetch(&mut ahead) };
        // SAFETY: the caller's.
        unsafe { group.walk(count) };
        for (lane, key) in wanted[..count].iter().enumerate() {
            let Some(key) = key else { continue };
            let hash = group.hash[lane];
            // SAFETY: reached from owned roots.
            let value = unsafe {
                if group.collisions >> lane & 1 != 0 {
                    read::find(group.root[lane], hash, |k| matches(key, k))
                        .map(|leaf| &(*leaf).value)
                } else if group.leaf[lane].is_null() {
                    None
                } else {
                    let leaf = &*group.leaf[lane];
                    (leaf.hash == hash && matches(key, &leaf.key)).then_some(&leaf.value)
                }
            };
            f(first + lane, value);
        }
        first += count;
        count = next;
        if count == 0 {
            return;
        }
    }
}
