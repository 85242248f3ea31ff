//! The protocol: GCAS on a slot, the root swap, renewal, contraction, and the operations built from them. What a
//! node is and who owns it is in [`node`](crate::node).

use std::borrow::Borrow;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use crate::mutants::{self, Mutant};
use crate::node::{
    ARRAY, Array, BITS, Bin, Dead, Fate, LEAF, LIST, Leaf, List, MAX_BUCKET, NO, PROBES, Pending,
    REMOVAL, Root, Shared, Slot, UNDECIDED, Undertaker, WIDTH, Word, YES, buckets, next_generation,
    prefetch, removal, retain, undo_retain,
};
use crate::reentry;
use crate::sync::epoch::{self, Guard};
use crate::sync::{AtomicPtr, Relaxed, SeqCst};

/// What an edit does with the entry it found.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Act {
    /// Nothing.
    Keep,
    /// Stores the pending leaf.
    Put,
    /// Removes the entry. (Nothing, where there is none.)
    Remove,
}

/// How a GCAS ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Gcas {
    Committed,
    /// The slot did not hold what was expected: nobody has seen the new node.
    Lost,
    /// The new node was visible, and then refused: others may be looking at its head.
    Refused,
}

/// Whether a reader may let a root swap in flight live.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Flight {
    /// Help it to its end.
    Help,
    /// Refuse it, unless it is decided. Deciding a GCAS needs the root, and deciding a root swap needs a GCAS read of
    /// the root's slot: this breaks the circle.
    Abort,
}

/// Who reads: decides what tentative words become.
pub(crate) trait World {
    /// Whether a tentative write in an array of `generation` takes effect, as far as this world can tell.
    fn commits(&self, generation: u64) -> bool;
}

/// A world that nothing can be written to any more: the live map has moved to a later generation.
pub(crate) struct Frozen;

impl World for Frozen {
    fn commits(&self, _generation: u64) -> bool {
        mutants::on(Mutant::ReadOnlyCommits)
    }
}

/// The GCAS read of a slot in an array of `generation`: its committed word, with FRZ if it is frozen.
///
/// # Safety
///
/// The slot's array is alive: see [`Word::head`].
#[inline]
unsafe fn committed<W: World>(world: &W, generation: u64, slot: &Slot) -> Word {
    let word = slot.load();
    if word.is_tentative() {
        // SAFETY: passed on to the caller.
        return unsafe { decided(world, generation, slot) };
    }
    word
}

/// Decides whatever is tentative in `slot`, and returns the committed word.
#[cold]
unsafe fn decided<W: World>(world: &W, generation: u64, slot: &Slot) -> Word {
    // A frozen world is read without a guard, and this is the one place where it needs one: the node of a refused
    // word is freed a grace period after its refusal, not when the world goes.
    let _guard = epoch::pin();
    loop {
        let word = slot.load();
        if !word.is_tentative() {
            return word;
        }
        if mutants::on(Mutant::PassiveRead) {
            // SAFETY: the guard is older than the load.
            if let Fate::Undecided(old) = unsafe { word.head() }.fate() {
                return old;
            }
        }
        // SAFETY: the guard is older than the load.
        unsafe { resolve(world, generation, slot, word) };
    }
}

/// Decides the tentative `word`, puts the outcome into the slot, and returns whether it was committed.
///
/// # Safety
///
/// The caller was pinned when it read `word` from `slot`, or put it there.
#[inline]
unsafe fn resolve<W: World>(world: &W, generation: u64, slot: &Slot, word: Word) -> bool {
    // SAFETY: the node of a tentative word is freed a grace period after it was decided and taken out of the slot.
    let head = unsafe { word.head() };
    if let Fate::Undecided(old) = head.fate() {
        // `commits` looks at the root after the word was visible: the other half of the Dekker pair.
        head.decide(old, world.commits(generation));
    }
    match head.fate() {
        Fate::Committed => {
            let settled = if word.kind() == REMOVAL {
                // SAFETY: as above.
                unsafe { word.target() }
            } else {
                word.bare()
            };
            slot.swap_if(word, settled);
            true
        }
        Fate::Refused(old) => {
            slot.swap_if(word, old);
            false
        }
        Fate::Undecided(_) => unreachable!("a decision is final"),
    }
}

/// Where a descent ended: the deepest array reached, the slot in it, what the slot held, and how many bits of the
/// hash the descent has used, that slot's digit included.
#[derive(Clone, Copy)]
struct Place<'g> {
    array: Array<'g>,
    slot: &'g Slot,
    word: Word,
    used: u32,
}

/// Follows clean words of digit arrays from `slot` of `array` as far as they go. Touches one line of each array.
///
/// # Safety
///
/// The array is alive for `'g`, with all that it owns.
#[inline]
unsafe fn follow<'g>(
    mut array: Array<'g>,
    mut slot: &'g Slot,
    mut used: u32,
    hash: u64,
) -> Place<'g> {
    loop {
        let word = slot.load();
        if !word.is_digit_array() {
            return Place {
                array,
                slot,
                word,
                used,
            };
        }
        // SAFETY: the word was read from an array that is alive for `'g`, under its owner's protection.
        array = unsafe { word.array() };
        slot = array.digit(hash, used);
        used += BITS;
    }
}

/// The entry for `key` below a root array.
///
/// This is the way that nearly all lookups take, through committed words alone, and kept so short that a processor has
/// the next lookup's loads under way while it waits for this one's. Whatever is rarer begins again in [`find_odd`].
///
/// # Safety
///
/// The array is alive for `'g` with all that it owns: a guard is older than the read that found it (live world), or
/// the caller has a claim on it (frozen world). `K` and `V` are the types of the nodes.
#[inline]
unsafe fn find_below<'g, W, K, V, Q>(
    world: &W,
    top: Array<'g>,
    bits: u32,
    hash: u64,
    key: &Q,
) -> Option<&'g Leaf<K, V>>
where
    W: World,
    K: Borrow<Q>,
    Q: Eq + ?Sized,
{
    /// As many slots of a bucket; a longer probe is rare.
    const QUICK: usize = 4;
    // SAFETY: the root array has `1 << bits` slots; the words that are followed are clean, so that their nodes are
    // alive for as long as the array; kinds are tested.
    unsafe {
        let mut word = top.slot_unchecked(top_digit(hash, bits)).load();
        let mut used = bits;
        while word.is_digit_array() {
            word = word.array().digit(hash, used).load();
            used += BITS;
        }
        if word.tags() == ARRAY {
            let (bucket, width) = (word.array(), word.bucket_width());
            for slot in bucket.probe(width, hash).take(QUICK) {
                let word = slot.load();
                if word.may_be(hash) {
                    if word.tags() == LEAF
                        && let Some(leaf) = word.leaf::<K, V>()
                        && leaf.hash == hash
                        && leaf.key().borrow() == key
                    {
                        return Some(leaf);
                    }
                    break;
                }
                if word == Word::EMPTY {
                    return None;
                }
                if word.is_tentative() {
                    break;
                }
            }
        } else if word.tags() == LEAF {
            let leaf = word.leaf::<K, V>()?;
            return (leaf.hash == hash && leaf.key().borrow() == key).then_some(leaf);
        }
        find_odd(world, top, bits, hash, key)
    }
}

/// As [`find_below`], through words of every kind.
///
/// # Safety
///
/// As for `find_below`.
#[cold]
#[inline(never)]
unsafe fn find_odd<'g, W, K, V, Q>(
    world: &W,
    top: Array<'g>,
    bits: u32,
    hash: u64,
    key: &Q,
) -> Option<&'g Leaf<K, V>>
where
    W: World,
    K: Borrow<Q>,
    Q: Eq + ?Sized,
{
    // SAFETY: the root array has `1 << bits` slots; the rest is passed on to the caller.
    let mut place = unsafe { follow(top, top.slot_unchecked(top_digit(hash, bits)), bits, hash) };
    loop {
        match place.word.tags() {
            LEAF => {
                // SAFETY: kind and life as for the array.
                let leaf = unsafe { place.word.leaf::<K, V>() }?;
                return (leaf.hash == hash && leaf.key().borrow() == key).then_some(leaf);
            }
            // SAFETY: as for this call; the word is that of a bucket.
            ARRAY => return unsafe { find_in_bucket(world, place.word, hash, key) },
            LIST => {
                // SAFETY: kind and life as for the array.
                let list = unsafe { place.word.list::<K, V>() };
                return if list.hash == hash {
                    list.leaves().find(|leaf| leaf.key().borrow() == key)
                } else {
                    None
                };
            }
            // SAFETY: as for this call.
            _ => place = unsafe { follow_odd(world, place, hash) },
        }
    }
}

/// The entry for `key` in a bucket. An absent key is absent at the moment at which the empty slot was read that ends
/// the probe: a key moves only onwards, by being removed and stored again, and probes look in that order.
///
/// # Safety
///
/// As for [`find_below`]; `word` is a committed bucket.
#[inline]
unsafe fn find_in_bucket<'g, W, K, V, Q>(
    world: &W,
    word: Word,
    hash: u64,
    key: &Q,
) -> Option<&'g Leaf<K, V>>
where
    W: World,
    K: Borrow<Q> + 'g,
    V: 'g,
    Q: Eq + ?Sized,
{
    // SAFETY: passed on to the caller.
    let bucket = unsafe { word.array() };
    // SAFETY: the word of a bucket knows its width.
    for slot in unsafe { bucket.probe(word.bucket_width(), hash) } {
        let mut word = slot.load();
        if word == Word::EMPTY {
            return None;
        }
        if !word.may_be(hash) && !word.is_tentative() {
            continue;
        }
        if word.tags() != LEAF {
            // SAFETY: passed on to the caller.
            word = unsafe { committed(world, bucket.generation(), slot) };
            if mutants::on(Mutant::FrozenMaskMissing) && word.is_frozen() {
                return None;
            }
            word = word.bare();
            if word == Word::EMPTY {
                return None;
            }
        }
        // SAFETY: claimed by the bucket; kinds are tested.
        unsafe {
            if word.kind() == LEAF {
                let leaf = word
                    .leaf::<K, V>()
                    .expect("the empty word is handled above");
                if leaf.hash == hash && leaf.key().borrow() == key {
                    return Some(leaf);
                }
            } else if word.kind() == LIST {
                let list = word.list::<K, V>();
                if list.hash == hash {
                    return list.leaves().find(|leaf| leaf.key().borrow() == key);
                }
            }
        }
    }
    None
}

/// Goes on from a word that is tentative or frozen.
#[cold]
unsafe fn follow_odd<'g, W: World>(world: &W, place: Place<'g>, hash: u64) -> Place<'g> {
    // SAFETY: passed on to the caller.
    let word = unsafe { committed(world, place.array.generation(), place.slot) };
    let word = if mutants::on(Mutant::FrozenMaskMissing) && word.is_frozen() {
        Word::EMPTY
    } else {
        word.bare()
    };
    if word.is_digit_array() {
        // SAFETY: passed on to the caller.
        let array = unsafe { word.array() };
        // SAFETY: passed on to the caller.
        return unsafe {
            follow(
                array,
                array.digit(hash, place.used),
                place.used + BITS,
                hash,
            )
        };
    }
    Place { word, ..place }
}

/// The root array takes the lowest bits of the hash, the arrays below it the next ones.
#[inline]
fn top_digit(hash: u64, bits: u32) -> usize {
    hash as usize & ((1 << bits) - 1)
}

/// The number of entries below an array of a frozen world. Each array remembers its own, so a later count costs only
/// what has changed since.
///
/// # Safety
///
/// The array is alive with all that it owns, and frozen (or the world is told by the caller's intent not to be).
unsafe fn count<W: World, K, V>(world: &W, array: Array<'_>) -> usize {
    let known = array.size().load(Relaxed);
    if known != usize::MAX {
        return known;
    }
    let mut total = 0;
    for slot in array.slots() {
        // SAFETY: passed on to the caller; kinds are tested.
        unsafe {
            let word = committed(world, array.generation(), slot).bare();
            total += match word.kind() {
                ARRAY => count::<W, K, V>(world, word.array()),
                LIST => word.list::<K, V>().words().len(),
                _ => usize::from(!word.is_empty()),
            };
        }
    }
    // Relaxed: everyone who counts a frozen array comes to the same figure, and it stands for itself.
    if !mutants::on(Mutant::LenOffSnapshot) {
        array.size().store(total, Relaxed);
    }
    total
}

/// The concurrent trie: entries of hashed keys. Knows no hasher.
pub(crate) struct Trie<K, V> {
    /// The root box, or (with [`IN_FLIGHT`]) the root box that is to replace it.
    root: AtomicPtr<Root>,
    bits: u32,
    entries: std::marker::PhantomData<*mut (K, V)>,
}

// SAFETY: entries are shared by reference between all threads that hold the trie, a fork or a snapshot of it (so
// they must be `Sync`), and dropped by any of them (so they must be `Send`). Everything else is atomics, used by the
// protocol that this module is about.
unsafe impl<K: Send + Sync, V: Send + Sync> Send for Trie<K, V> {}
// SAFETY: as above.
unsafe impl<K: Send + Sync, V: Send + Sync> Sync for Trie<K, V> {}

/// Set in the root's address while a swap is in flight.
const IN_FLIGHT: usize = 1;

fn in_flight(root: *mut Root) -> bool {
    root.addr() & IN_FLIGHT != 0
}

impl<K, V> Trie<K, V> {
    /// An empty trie whose root array has `1 << bits` slots.
    pub(crate) fn new(bits: u32) -> Self {
        assert!((4..=16).contains(&bits), "root widths are 16 to 65,536");
        let generation = next_generation();
        Self::of(
            Array::allocate(generation, 1 << bits).word(),
            generation,
            bits,
        )
    }

    fn of(word: Word, generation: u64, bits: u32) -> Self {
        let root = Root::allocate(generation, word, std::ptr::null(), Word::EMPTY);
        Self {
            root: AtomicPtr::new(root.as_ptr()),
            bits,
            entries: std::marker::PhantomData,
        }
    }

    pub(crate) fn bits(&self) -> u32 {
        self.bits
    }

    /// Tells one trie from another while it does not move.
    pub(crate) fn id(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// The root, after any swap in flight.
    #[inline]
    fn root<'g>(&self, _guard: &'g Guard, flight: Flight) -> &'g Root {
        // SeqCst: the other half of the Dekker pair with the slots. See `Slot::load`.
        let root = self.root.load(SeqCst);
        if in_flight(root) {
            return self.root_after(flight);
        }
        // SAFETY: a root box is freed a grace period after it was replaced, and the guard is older than the load.
        let root = unsafe { &*root };
        root.assert_alive();
        root
    }

    /// Ends the swap in flight, one way or the other. The caller is pinned.
    #[cold]
    fn root_after<'g>(&self, flight: Flight) -> &'g Root {
        loop {
            let current = self.root.load(SeqCst);
            if !in_flight(current) {
                // SAFETY: as in `root`.
                return unsafe { &*current };
            }
            let new = current.map_addr(|address| address & !IN_FLIGHT);
            // SAFETY: a box that was offered is freed a grace period after the swap was decided and the root's
            // address was changed; the box to be replaced, later than that. The caller is pinned.
            let (swap, old) = unsafe { (&*new, &*(*new).old) };
            swap.assert_alive();
            if mutants::on(Mutant::RdcssFlag) {
                self.root_after_flagged(flight, current, swap, old);
                continue;
            }
            if swap.verdict.load(SeqCst) == UNDECIDED {
                let verdict = if flight == Flight::Abort || !self.as_expected(swap, old) {
                    NO
                } else {
                    YES
                };
                // The decision is this one CAS. Deciding by the CAS on the root, and noting the outcome afterwards,
                // would let the initiator read its note before it is written, and do its swap a second time.
                let _ = swap
                    .verdict
                    .compare_exchange(UNDECIDED, verdict, SeqCst, Relaxed);
            }
            let outcome = if swap.verdict.load(SeqCst) == YES {
                new
            } else {
                swap.old.cast_mut()
            };
            let _ = self
                .root
                .compare_exchange(current, outcome, SeqCst, Relaxed);
        }
    }

    /// Whether the old root's slot holds what the swap expects. May refuse that very swap, on its way to decide a
    /// tentative word.
    fn as_expected(&self, swap: &Root, old: &Root) -> bool {
        // SAFETY: the caller is pinned, and the old box is alive as in `root_after`.
        mutants::on(Mutant::RdcssNoExpected)
            || unsafe { committed(self, old.generation, &old.slot) } == swap.expected
    }

    /// The faulty shape, for the test that must catch it: the CAS on the root decides, and a flag follows.
    fn root_after_flagged(&self, flight: Flight, current: *mut Root, swap: &Root, old: &Root) {
        let new = current.map_addr(|address| address & !IN_FLIGHT);
        if flight == Flight::Help && self.as_expected(swap, old) {
            if self
                .root
                .compare_exchange(current, new, SeqCst, Relaxed)
                .is_ok()
            {
                swap.verdict.store(YES, SeqCst);
            }
        } else {
            let _ = self
                .root
                .compare_exchange(current, swap.old.cast_mut(), SeqCst, Relaxed);
        }
    }

    /// RDCSS: replaces root `old` by `new`, provided that its slot still holds what `new` expects. On failure
    /// nothing has changed, and `new` has been given to the bin.
    fn swap_root(&self, old: &Root, new: NonNull<Root>, bin: &mut Bin<'_, K, V>) -> bool
    where
        K: Shared,
        V: Shared,
    {
        let offered = new.as_ptr().map_addr(|address| address | IN_FLIGHT);
        let current = std::ptr::from_ref(old).cast_mut();
        if self
            .root
            .compare_exchange(current, offered, SeqCst, Relaxed)
            .is_err()
        {
            // SAFETY: nobody has seen the new box.
            unsafe { Root::free(new.as_ptr()) };
            return false;
        }
        self.root_after(Flight::Help);
        // SAFETY: the caller is pinned, and the box is freed a grace period after it leaves the root.
        if unsafe { new.as_ref() }.verdict.load(SeqCst) == YES {
            return true;
        }
        // SAFETY: the swap was refused and the root holds another address, so new operations cannot reach the box.
        unsafe { bin.put(Dead::root(new.as_ptr())) };
        false
    }

    /// GCAS: replaces `old` by `new` in a slot of an array of `generation`, provided that the root is still of that
    /// generation. `new`'s node is the caller's alone.
    #[inline]
    fn gcas(&self, generation: u64, slot: &Slot, old: Word, new: Word) -> Gcas {
        if mutants::on(Mutant::LateDeepWrite) {
            let settled = if new.kind() == REMOVAL {
                // SAFETY: the node is the caller's.
                unsafe { new.target() }
            } else {
                new
            };
            return if slot.swap_if(old, settled) {
                Gcas::Committed
            } else {
                Gcas::Lost
            };
        }
        // SAFETY: the node is the caller's.
        let head = unsafe { new.head() };
        head.propose(old);
        if !slot.swap_if(old, new.tentative()) {
            head.withdraw();
            return Gcas::Lost;
        }
        // SAFETY: the caller is pinned and has just put the word there.
        if unsafe { resolve(self, generation, slot, new.tentative()) } {
            Gcas::Committed
        } else {
            Gcas::Refused
        }
    }

    /// The entry for a key.
    #[inline]
    pub(crate) fn find<'g, Q>(&self, guard: &'g Guard, hash: u64, key: &Q) -> Option<&'g Leaf<K, V>>
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        let root = self.root(guard, Flight::Help);
        // SAFETY: the guard is older than all loads; a root's slot always holds an array, and everything reachable
        // from a root that was read under a guard lives as long as the guard (see the chapter on reclamation).
        unsafe {
            let top = committed(self, root.generation, &root.slot).array();
            find_below(self, top, self.bits, hash, key)
        }
    }
}

// A panic of user code never leaves a trie half changed.
impl<K, V> UnwindSafe for Trie<K, V> {}
impl<K, V> RefUnwindSafe for Trie<K, V> {}
impl<K, V> UnwindSafe for View<K, V> {}
impl<K, V> RefUnwindSafe for View<K, V> {}

impl<K, V> World for Trie<K, V> {
    #[inline]
    fn commits(&self, generation: u64) -> bool {
        if mutants::on(Mutant::NoGenerationTest) {
            return true;
        }
        // The guard is nested in that of the caller, who is about to decide a word that it read under one.
        let root = self.root.load(SeqCst);
        let root = if in_flight(root) {
            self.root_after(Flight::Abort)
        } else {
            // SAFETY: the caller is pinned since before the load.
            unsafe { &*root }
        };
        root.assert_alive();
        root.generation == generation
    }
}

/// What an edit is about to offer, and what must happen to its parts afterwards.
struct Offer {
    word: Word,
    /// Arrays of the offer below its top: freed with it when it is not committed.
    inner: Vec<Word>,
    /// Claims that the offer made on existing nodes: taken back when it is not committed.
    retained: Vec<Word>,
    /// What is to be given back when it is committed.
    replaced: [Option<Dead>; 3],
}

impl Offer {
    #[inline]
    fn plain(word: Word) -> Self {
        Self {
            word,
            inner: Vec::new(),
            retained: Vec::new(),
            replaced: [None; 3],
        }
    }
}

impl<K: Shared, V: Shared> Trie<K, V> {
    /// Finds the entry for a key, lets `choose` decide what to do with it, and does it atomically: the entry that
    /// `choose` last saw is the one that is replaced or removed. Returns that entry.
    ///
    /// `same` compares a stored key with the one looked for. `choose` runs once per attempt; whether it calls user
    /// code each time is its own affair. A panic of either leaves the trie as it was.
    #[inline]
    pub(crate) fn edit<'g>(
        &self,
        guard: &'g Guard,
        hash: u64,
        pending: &mut Pending<K, V>,
        same: impl Fn(&K, &Pending<K, V>) -> bool,
        mut choose: impl FnMut(Option<&'g Leaf<K, V>>, &mut Pending<K, V>) -> Act,
    ) -> Option<&'g Leaf<K, V>> {
        let mut bin = Bin::new(guard);
        loop {
            let root = self.root(guard, Flight::Help);
            let top = root.slot.load();
            if top.is_tentative() {
                self.settle(guard, hash, false, &mut bin);
                continue;
            }
            // SAFETY: the guard is older than all loads, as in `find`.
            let place = unsafe {
                let top = top.array();
                follow(
                    top,
                    top.slot_unchecked(top_digit(hash, self.bits)),
                    self.bits,
                    hash,
                )
            };
            let (place, full) = match place.word.tags() {
                ARRAY => match self.probe(place, root.generation, hash) {
                    Some(probed) => probed,
                    None => {
                        self.settle(guard, hash, false, &mut bin);
                        continue;
                    }
                },
                _ => (place, false),
            };
            let word = place.word;
            let found = match word.tags() {
                // SAFETY: as above.
                LEAF => unsafe { word.leaf::<K, V>() }
                    .filter(|leaf| leaf.hash == hash && same(leaf.key(), pending)),
                LIST => {
                    // SAFETY: as above.
                    let list: &'g List<K, V> = unsafe { word.list() };
                    if list.hash == hash {
                        list.leaves().find(|leaf| same(leaf.key(), pending))
                    } else {
                        None
                    }
                }
                _ => {
                    self.settle(guard, hash, false, &mut bin);
                    continue;
                }
            };
            let act = choose(found, pending);
            if act == Act::Keep || (act == Act::Remove && found.is_none()) {
                return found;
            }
            if act == Act::Put {
                reentry::refuse(self.id(), hash);
            }
            // Every array on the way is of the root's generation if the last one is (see "Generations" in the crate
            // documentation), so only the one that is written to is looked at.
            let generation = root.generation;
            let skip_renewal = mutants::on(Mutant::RenewalSkippedOnOverwrite)
                && act == Act::Put
                && found.is_some();
            if place.array.generation() != generation && !skip_renewal {
                self.settle(guard, hash, false, &mut bin);
                continue;
            }
            if act == Act::Put && full {
                self.settle(guard, hash, true, &mut bin);
                continue;
            }
            if act == Act::Put && (word.is_empty() || (found.is_some() && word.kind() == LEAF)) {
                // A new leaf in an empty slot, or in place of the old leaf: nothing else is allocated.
                match self.gcas(generation, place.slot, word, pending.word()) {
                    Gcas::Committed => {
                        pending.publish();
                        if found.is_some() {
                            // SAFETY: committed, so the slot's claim on the old leaf is this operation's to give;
                            // operations that came by it are pinned.
                            unsafe { bin.put(Dead::claim(word)) };
                        }
                        return found;
                    }
                    Gcas::Lost => {}
                    // R5: a node that was refused is never offered again: someone who saw it may still be about to
                    // decide it, by what was true then.
                    // SAFETY: the shell has left the slot.
                    Gcas::Refused => unsafe { bin.put(pending.reshell()) },
                }
                continue;
            }
            if self.edit_shape(&mut bin, hash, generation, place, found, act, pending) {
                // The array in hand is looked at first: it is warm, and seldom contractible.
                let below_root = place.used > self.bits || place.array.is_bucket();
                if act == Act::Remove && below_root && self.is_contractible(place.array) {
                    self.contract_path(guard, hash, &mut bin);
                }
                return found;
            }
        }
    }

    /// Where an entry of this hash is in the bucket at `place`, or else the slot that it would take; and whether a new
    /// entry needs a bigger bucket first. `None` if the bucket is of `generation` and is being replaced.
    #[inline]
    fn probe<'g>(&self, place: Place<'g>, generation: u64, hash: u64) -> Option<(Place<'g>, bool)> {
        // SAFETY: the caller is pinned since before it read the word, which is that of a bucket.
        let array = unsafe { place.word.array() };
        let mut last = None;
        // SAFETY: the word of a bucket knows its width.
        for (i, slot) in unsafe { array.probe(place.word.bucket_width(), hash) }.enumerate() {
            let mut word = slot.load();
            if word.tags() != LEAF {
                // SAFETY: as above.
                word = unsafe { committed(self, array.generation(), slot) };
                if word.is_frozen() && array.generation() == generation {
                    return None;
                }
                word = word.bare();
            }
            if word == Word::EMPTY {
                return Some((
                    Place {
                        array,
                        slot,
                        word,
                        used: place.used,
                    },
                    i >= PROBES,
                ));
            }
            // SAFETY: as above; the word is occupied.
            if word != Word::TOMB && word.may_be(hash) && unsafe { word.hash::<K, V>() } == hash {
                return Some((
                    Place {
                        array,
                        slot,
                        word,
                        used: place.used,
                    },
                    false,
                ));
            }
            last = Some(slot);
        }
        let slot = last.expect("buckets have slots");
        Some((
            Place {
                array,
                slot,
                word: Word::EMPTY,
                used: place.used,
            },
            true,
        ))
    }

    /// One attempt at the edits that change more than a leaf: splits, collision lists, removals.
    #[allow(
        clippy::too_many_arguments,
        reason = "one caller; the arguments are the state of its loop"
    )]
    #[inline(never)]
    fn edit_shape(
        &self,
        bin: &mut Bin<'_, K, V>,
        hash: u64,
        generation: u64,
        place: Place<'_>,
        found: Option<&Leaf<K, V>>,
        act: Act,
        pending: &mut Pending<K, V>,
    ) -> bool {
        let word = place.word;
        if mutants::on(Mutant::SkippedTomb) && act == Act::Remove && word.kind() == LEAF {
            if place.slot.swap_if(word, Word::EMPTY) {
                // SAFETY: as for a committed removal.
                unsafe { bin.put(Dead::claim(word)) };
                return true;
            }
            return false;
        }
        let offer = match (word.kind(), found, act) {
            (LEAF, Some(_), Act::Remove) => {
                let left = if place.array.is_bucket() {
                    Word::TOMB
                } else {
                    Word::EMPTY
                };
                let mut offer = Offer::plain(removal(left));
                offer.replaced = [Some(Dead::claim(word)), Some(Dead::shell(offer.word)), None];
                offer
            }
            (LIST, _, _) => {
                // SAFETY: the caller read the word under its guard.
                let list = unsafe { word.list::<K, V>() };
                if list.hash == hash {
                    self.relist(generation, word, list, found, act, pending)
                } else {
                    beside(
                        generation,
                        place.used,
                        (word, list.hash),
                        (pending.word(), hash),
                    )
                }
            }
            _ => {
                // SAFETY: the caller read the word under its guard; it is a leaf with another key.
                let other = unsafe { word.hash::<K, V>() };
                if other == hash {
                    // The slot's claim on the other leaf moves into the list.
                    let leaves = Box::new([word, pending.word()]);
                    Offer::plain(List::<K, V>::allocate(generation, hash, leaves))
                } else {
                    beside(
                        generation,
                        place.used,
                        (word, other),
                        (pending.word(), hash),
                    )
                }
            }
        };
        let outcome = self.gcas(generation, place.slot, word, offer.word);
        if outcome == Gcas::Committed {
            if act == Act::Put {
                pending.publish();
            }
            for dead in offer.replaced.into_iter().flatten() {
                // SAFETY: committed, so what was replaced cannot be reached by new operations, and its claims are
                // this operation's to give (R1: the generations were equal; or R2: the parts were retained).
                unsafe { bin.put(dead) };
            }
            return true;
        }
        for word in offer.retained {
            // SAFETY: retained by this operation, under the guard that still protects the older claim.
            unsafe { undo_retain(word) };
        }
        for word in offer.inner {
            // SAFETY: nobody follows a word that was not committed, so only the top of the offer has been seen.
            unsafe { Dead::shell(word).free_shell::<K, V>() };
        }
        self.discard(outcome, offer.word, bin);
        false
    }

    /// A collision list with one entry more, replaced, or fewer.
    fn relist(
        &self,
        generation: u64,
        word: Word,
        list: &List<K, V>,
        found: Option<&Leaf<K, V>>,
        act: Act,
        pending: &Pending<K, V>,
    ) -> Offer {
        let gone = found.map(Leaf::word);
        let mut leaves: Vec<Word> = list
            .words()
            .iter()
            .copied()
            .filter(|&leaf| Some(leaf) != gone)
            .collect();
        // R1: a list of this generation is the slot's alone, so its claims move to the new one.
        let moved = list.generation == generation || mutants::on(Mutant::SharedListMoved);
        let retained = if moved { Vec::new() } else { leaves.clone() };
        for &leaf in &retained {
            // SAFETY: the list has a claim on it, and whatever would release that waits for the caller's guard (R2).
            unsafe { retain(leaf) };
        }
        if act == Act::Put {
            leaves.push(pending.word());
        }
        let (offered, shell) = match leaves[..] {
            [last] => {
                let removal = removal(last);
                (removal, Some(Dead::shell(removal)))
            }
            _ => (
                List::<K, V>::allocate(generation, list.hash, leaves.into()),
                None,
            ),
        };
        let mut offer = Offer::plain(offered);
        offer.retained = retained;
        offer.replaced = if moved {
            // Only the list's memory goes, and its claim on the entry that is gone.
            [Some(Dead::shell(word)), gone.map(Dead::claim), shell]
        } else {
            [Some(Dead::claim(word)), None, shell]
        };
        offer
    }

    /// Makes the way to `hash` fit to be written to, from the top: decides what is tentative, helps contractions along,
    /// renews arrays of older generations, and on request replaces a bucket that has no room for this hash. It may stop
    /// early, at a race that it lost.
    #[cold]
    fn settle(&self, guard: &Guard, hash: u64, grow: bool, bin: &mut Bin<'_, K, V>) {
        let root = self.root(guard, Flight::Help);
        let generation = root.generation;
        // The slot that is looked at belongs to `holder`'s array: the slot which holds that array, and the array.
        let mut holder: Option<(&Slot, Array<'_>)> = None;
        let (mut slot, mut used) = (&root.slot, 0);
        loop {
            // SAFETY: the guard is older than all loads, as in `find`.
            let word = unsafe { committed(self, generation, slot) };
            if word.is_frozen() {
                let (above, array) = holder.expect("a root's slot is never frozen");
                self.contract(generation, above, array, used, bin);
                return;
            }
            if word.kind() != ARRAY {
                return;
            }
            // SAFETY: as above.
            let mut array = unsafe { word.array() };
            if array.generation() != generation {
                match self.renew(generation, slot, array, bin) {
                    Some(renewed) => array = renewed,
                    None => return,
                }
            }
            if array.is_bucket() {
                let place = Place {
                    array,
                    slot,
                    word: array.word(),
                    used,
                };
                let probed = self.probe(place, generation, hash);
                if probed.is_none_or(|(_, full)| grow && full) {
                    self.contract(generation, slot, array, used, bin);
                }
                return;
            }
            holder = Some((slot, array));
            if used == 0 {
                // SAFETY: the root array has `1 << bits` slots.
                slot = unsafe { array.slot_unchecked(top_digit(hash, self.bits)) };
                used = self.bits;
            } else {
                slot = array.digit(hash, used);
                used += BITS;
            }
        }
    }

    /// Puts a copy of `old`, which is of an older generation, into its slot, which is of this one. Both copies claim
    /// the children from then on. Returns the copy.
    fn renew<'g>(
        &self,
        generation: u64,
        slot: &'g Slot,
        old: Array<'g>,
        bin: &mut Bin<'_, K, V>,
    ) -> Option<Array<'g>> {
        let copy = old.like(generation);
        for (from, to) in old.slots().zip(copy.slots()) {
            let word = if mutants::on(Mutant::CopyWithoutDeciding) {
                let word = from.load();
                // SAFETY: the caller is pinned.
                match word.is_tentative().then(|| unsafe { word.head() }.fate()) {
                    Some(Fate::Undecided(old) | Fate::Refused(old)) => old,
                    // SAFETY: the caller is pinned.
                    Some(Fate::Committed) if word.kind() == REMOVAL => unsafe { word.target() },
                    _ => word.bare(),
                }
            } else {
                // FRZ means nothing in a frozen generation.
                // SAFETY: the caller is pinned since before it read `old`.
                unsafe { committed(self, old.generation(), from) }.bare()
            };
            if !mutants::on(Mutant::RenewalWithoutRetain) {
                // SAFETY: `old` has a claim on it, whose release waits for the caller's guard (R2).
                unsafe { retain(word) };
            }
            to.set(word);
        }
        let outcome = self.gcas(generation, slot, old.word(), copy.word());
        if outcome == Gcas::Committed {
            // SAFETY: committed, so the slot's claim on the old array is this operation's to give.
            unsafe { bin.put(Dead::claim(old.word())) };
            return Some(copy);
        }
        if !mutants::on(Mutant::UndoSkipped) {
            for child in copy.slots() {
                // SAFETY: retained above, under the same guard; the word was never followed, so it is unchanged.
                unsafe { undo_retain(child.load_quiet()) };
                if mutants::on(Mutant::UndoTwice) {
                    // SAFETY: none: this is the fault that the tests must find.
                    unsafe { undo_retain(child.load_quiet()) };
                }
            }
        }
        self.discard(outcome, copy.word(), bin);
        None
    }

    /// Frees the node of an offer that was not committed: now if nobody has seen it.
    fn discard(&self, outcome: Gcas, offered: Word, bin: &mut Bin<'_, K, V>) {
        let shell = Dead::shell(offered);
        // SAFETY: never seen (then it is freed now), or refused and gone from the slot (then after a grace period).
        unsafe {
            if outcome == Gcas::Lost {
                shell.free_shell::<K, V>()
            } else {
                bin.put(shell)
            }
        };
    }

    /// Replaces an array by the one entry that it still holds, or by nothing; and a bucket by one of the right size, or
    /// by an array of digits where no bucket would do. `holder` is the slot that holds it; both are of `generation`,
    /// and `used` bits of the hash lead to that slot.
    ///
    /// Freezing comes first: once all slots are frozen no write can slip into the array, so what is read from it is
    /// what it will hold for ever. Whoever meets a frozen slot in a live array helps with this.
    #[cold]
    fn contract(
        &self,
        generation: u64,
        holder: &Slot,
        array: Array<'_>,
        used: u32,
        bin: &mut Bin<'_, K, V>,
    ) {
        if !mutants::on(Mutant::ContractWithoutFreezing) {
            for slot in array.slots() {
                loop {
                    // SAFETY: the caller is pinned since before it read the array's address.
                    let word = unsafe { committed(self, generation, slot) };
                    if mutants::on(Mutant::FreezeOccupiedOnly) && word.is_empty() {
                        break;
                    }
                    if word.is_frozen() || slot.swap_if(word, word.frozen()) {
                        break;
                    }
                }
            }
        }
        let mut tombs = false;
        let mut words = Vec::new();
        for slot in array.slots() {
            // SAFETY: as above.
            let word = unsafe { committed(self, generation, slot) }.bare();
            tombs |= word == Word::TOMB;
            if !word.is_empty() {
                words.push(word);
            }
        }
        // Arrays of the offer below its top: freed with it when it is not committed.
        let mut inner = Vec::new();
        let offered = match words[..] {
            [] => removal(Word::EMPTY),
            [only] if !only.is_digit_array() => removal(only),
            _ if array.is_bucket() => {
                // Without tombs to get rid of, a bucket of the same size would be as full.
                let least = if tombs { 0 } else { array.width() + 1 };
                match bucket_width(words.len(), least) {
                    Some(width) => bucket(generation, width, words.iter().copied()),
                    None => {
                        let items: Vec<(Word, u64)> = words
                            .iter()
                            // SAFETY: as above; a bucket holds leaves and lists.
                            .map(|word| (*word, unsafe { word.hash::<K, V>() }))
                            .collect();
                        spread(generation, &items, used, &mut inner)
                    }
                }
            }
            // Something came in between. The slots cannot thaw: a copy takes their place.
            _ => {
                let copy = array.like(generation);
                for (from, to) in array.slots().zip(copy.slots()) {
                    to.set(from.load().bare());
                }
                copy.word()
            }
        };
        let outcome = self.gcas(generation, holder, array.word(), offered);
        if outcome != Gcas::Committed {
            for word in inner {
                // SAFETY: nobody follows a word that was not committed, so only the top of the offer has been seen.
                unsafe { Dead::shell(word).free_shell::<K, V>() };
            }
            self.discard(outcome, offered, bin);
            return;
        }
        // SAFETY: committed and of this generation, so the array was the slot's alone, and its claims on what it
        // held have moved to the slot or the copy (R1). A removal's node has left the slot.
        unsafe {
            bin.put(Dead::shell(array.word()));
            if offered.kind() == REMOVAL {
                bin.put(Dead::shell(offered));
            }
        }
    }

    /// Whether the array holds nothing, or one leaf, list or bucket.
    fn is_contractible(&self, array: Array<'_>) -> bool {
        let mut entries = 0;
        for slot in array.slots() {
            // SAFETY: the caller is pinned since before it read the array's address.
            let word = unsafe { committed(self, array.generation(), slot) };
            if word.bare().is_digit_array() {
                return false;
            }
            entries += usize::from(!word.is_empty());
            if entries > 1 {
                return false;
            }
        }
        true
    }

    /// After a removal at `hash`: contracts what can be contracted on the way, from the bottom up.
    fn contract_path(&self, guard: &Guard, hash: u64, bin: &mut Bin<'_, K, V>) {
        'again: loop {
            let root = self.root(guard, Flight::Help);
            let generation = root.generation;
            // SAFETY: the guard is older than all loads, as in `find`.
            let top = unsafe { committed(self, generation, &root.slot).array() };
            let (mut holder, mut array) = (&root.slot, top);
            // SAFETY: the root array has `1 << bits` slots.
            let mut slot = unsafe { top.slot_unchecked(top_digit(hash, self.bits)) };
            // Bits that lead to `slot`, and to `holder`.
            let (mut used, mut above) = (self.bits, 0);
            while !array.is_bucket() {
                // SAFETY: as above.
                let word = unsafe { committed(self, array.generation(), slot) };
                if word.is_frozen() && array.generation() == generation {
                    self.contract(generation, holder, array, above, bin);
                    continue 'again;
                }
                if word.kind() != ARRAY {
                    break;
                }
                // SAFETY: as above.
                (holder, array) = unsafe { (slot, word.array()) };
                above = used;
                if !array.is_bucket() {
                    slot = array.digit(hash, used);
                    used += BITS;
                }
            }
            if above == 0 || !self.is_contractible(array) || mutants::on(Mutant::NoContraction) {
                return;
            }
            if array.generation() == generation {
                self.contract(generation, holder, array, above, bin);
            } else {
                self.settle(guard, hash, false, bin);
            }
        }
    }

    /// Freezes the present content and returns its root array: every array reachable from it belongs to a
    /// generation in which nothing commits any more. The map goes on in a new generation. This is the linearization
    /// point of everything that looks at the whole map.
    ///
    /// Where nothing was written since the last freeze, nothing is allocated or changed.
    fn freeze<'g>(&self, guard: &'g Guard) -> Array<'g> {
        let mut bin = Bin::<K, V>::new(guard);
        loop {
            let root = self.root(guard, Flight::Help);
            // SAFETY: the guard is older than all loads, as in `find`.
            let (word, top) = unsafe {
                let word = committed(self, root.generation, &root.slot);
                (word, word.array())
            };
            if top.generation() != root.generation || mutants::on(Mutant::SnapshotKeepsGeneration) {
                return top;
            }
            // The claim on the array moves from the old box to the new one.
            let new = Root::allocate(next_generation(), word, root, word);
            if self.swap_root(root, new, &mut bin) {
                // SAFETY: replaced, so that new operations cannot reach it.
                unsafe { bin.put(Dead::root(root)) };
                return top;
            }
        }
    }

    /// A frozen view of the present content. O(1).
    pub(crate) fn view(&self, guard: &Guard) -> View<K, V> {
        let top = self.freeze(guard).word();
        // SAFETY: the root box has a claim on it, whose release waits for the guard.
        unsafe { retain(top) };
        View::of(top, self.bits)
    }

    /// An independent trie with the present content. O(1).
    pub(crate) fn fork(&self, guard: &Guard) -> Self {
        let top = self.freeze(guard).word();
        // SAFETY: as in `view`.
        unsafe { retain(top) };
        Self::of(top, next_generation(), self.bits)
    }

    /// Removes everything at once. O(1), apart from what is freed later.
    pub(crate) fn clear(&self, guard: &Guard) {
        let mut bin = Bin::<K, V>::new(guard);
        let generation = next_generation();
        let empty = Array::allocate(generation, 1 << self.bits).word();
        loop {
            let root = self.root(guard, Flight::Help);
            // SAFETY: the guard is older than all loads, as in `find`.
            let word = unsafe { committed(self, root.generation, &root.slot) };
            let new = Root::allocate(generation, empty, root, word);
            if self.swap_root(root, new, &mut bin) {
                // SAFETY: replaced, so that new operations cannot reach them; the box's claim on the array is this
                // operation's to give, and the swap made sure that it is this array.
                unsafe {
                    bin.put(Dead::root(root));
                    bin.put(Dead::claim(word));
                }
                bin.flush();
                return;
            }
        }
    }

    /// The number of entries at one moment.
    pub(crate) fn len(&self, guard: &Guard) -> usize {
        if mutants::on(Mutant::LenOffSnapshot) {
            let root = self.root(guard, Flight::Help);
            // SAFETY: the guard is older than all loads.
            return unsafe {
                count::<_, K, V>(self, committed(self, root.generation, &root.slot).array())
            };
        }
        // SAFETY: alive for as long as the guard, and frozen.
        unsafe { count::<_, K, V>(&Frozen, self.freeze(guard)) }
    }

    /// Whether there was no entry at one moment. Looks for one entry first, which needs no freeze.
    pub(crate) fn is_empty(&self, guard: &Guard) -> bool {
        let root = self.root(guard, Flight::Help);
        // SAFETY: the guard is older than all loads, as in `find`.
        let occupied = unsafe {
            let top = committed(self, root.generation, &root.slot).array();
            top.slots().any(|slot| {
                let word = committed(self, top.generation(), slot).bare();
                // An array may be empty for a moment, before it is contracted.
                word.kind() != ARRAY && !word.is_empty()
            })
        };
        !occupied && self.len(guard) == 0
    }

    /// Looks all keys up in one frozen world; calls `f` with each position and what was found there.
    pub(crate) fn find_batch<'g, 'k, Q>(
        &self,
        guard: &'g Guard,
        keys: impl Iterator<Item = &'k Q>,
        hash: impl Fn(&Q) -> u64,
        f: impl FnMut(usize, Option<&'g Leaf<K, V>>),
    ) where
        K: Borrow<Q>,
        Q: Eq + ?Sized + 'k,
    {
        // SAFETY: alive for as long as the guard, and frozen.
        unsafe { find_batch_below(&Frozen, self.freeze(guard), self.bits, keys, hash, f) }
    }
}

impl<K, V> Drop for Trie<K, V> {
    fn drop(&mut self) {
        if cfg!(all(test, shuttle)) && std::thread::panicking() {
            // An execution that has failed is abandoned as it is.
            return;
        }
        let root = self.root.load(Ordering::Relaxed);
        debug_assert!(!in_flight(root), "an operation was still running");
        let mut undertaker = Undertaker::default();
        // SAFETY: the caller is alone with this trie, and operations on its forks and views came by claims of their
        // own: nobody who is still running came by the claims of this root, so no grace period is needed.
        unsafe {
            undertaker.release::<K, V>((*root).slot.load_quiet());
            Root::free(root);
        }
        undertaker.resume();
    }
}

/// An offer of a bucket, or of arrays, that hold both the item that was there (a leaf or a list) and a new leaf of
/// another hash.
fn beside(generation: u64, mut used: u32, item: (Word, u64), new: (Word, u64)) -> Offer {
    if buckets() {
        return Offer::plain(bucket(generation, 4, [item.0, new.0]));
    }
    let ((item, item_hash), (leaf, hash)) = (item, new);
    let top = Array::allocate(generation, WIDTH);
    let mut offer = Offer::plain(top.word());
    let mut array = top;
    while (item_hash >> used) as usize % WIDTH == (hash >> used) as usize % WIDTH {
        let next = Array::allocate(generation, WIDTH);
        array.digit(hash, used).set(next.word());
        offer.inner.push(next.word());
        array = next;
        used += BITS;
    }
    array.digit(item_hash, used).set(item);
    array.digit(hash, used).set(leaf);
    offer
}

/// The width of a bucket for so many items and one more, at least `least`; `None` where it would be too wide.
fn bucket_width(items: usize, least: usize) -> Option<usize> {
    let width = (4 * (items + 1))
        .div_ceil(3)
        .max(least)
        .max(4)
        .next_power_of_two();
    (width <= MAX_BUCKET).then_some(width)
}

/// A bucket of leaves and lists.
fn bucket(generation: u64, width: usize, items: impl IntoIterator<Item = Word>) -> Word {
    let bucket = Array::bucket(generation, width);
    for item in items {
        // SAFETY: the width is the bucket's.
        let mut slots = unsafe { bucket.probe(width, item.tag_as_hash()) };
        let free = slots.find(|slot| slot.load_quiet() == Word::EMPTY);
        free.expect("a bucket is wider than it holds items")
            .set(item);
    }
    bucket.word()
}

/// An array of digits with all `items` below it: as they are, or in buckets, or in further arrays. Notes the arrays
/// below the top in `inner`.
fn spread(generation: u64, items: &[(Word, u64)], used: u32, inner: &mut Vec<Word>) -> Word {
    let array = Array::allocate(generation, WIDTH);
    for digit in 0..WIDTH as u64 {
        let group: Vec<(Word, u64)> = items
            .iter()
            .copied()
            .filter(|(_, hash)| (hash >> used) % WIDTH as u64 == digit)
            .collect();
        let word = match (&group[..], bucket_width(group.len(), 0)) {
            ([], _) => continue,
            ([(only, _)], _) => *only,
            (_, Some(width)) => bucket(generation, width, group.iter().map(|(word, _)| *word)),
            // More different hashes than a bucket holds differ in a digit that is still to come.
            (_, None) => spread(generation, &group, used + BITS, inner),
        };
        if word.kind() == ARRAY {
            inner.push(word);
        }
        array.digit(digit, 0).set(word);
    }
    array.word()
}

/// How many lookups of a batch are under way at a time: enough to hide a cache miss behind the others, few enough
/// for their state to stay in the first-level cache.
const GROUP: usize = 32;

/// Group prefetching (Chen, Ailamaki, Gibbons, Mowry 2004): all lookups of a group take one step down, each asking
/// for the line that its next step reads, before any takes the next step.
///
/// # Safety
///
/// As for [`find_below`].
unsafe fn find_batch_below<'g, 'k, W, K, V, Q>(
    world: &W,
    top: Array<'g>,
    bits: u32,
    mut keys: impl Iterator<Item = &'k Q>,
    hash: impl Fn(&Q) -> u64,
    mut f: impl FnMut(usize, Option<&'g Leaf<K, V>>),
) where
    W: World,
    K: Borrow<Q> + 'g,
    V: 'g,
    Q: Eq + ?Sized + 'k,
{
    // The keys of the next group, whose bytes are asked for a group before they are hashed. (A reference to a `str`, a
    // slice or a plain value points to these bytes; where a key owns them elsewhere, to the line with their address.)
    let mut ahead: [Option<&'k Q>; GROUP] = [None; GROUP];
    let mut fetch = |ahead: &mut [Option<&'k Q>; GROUP]| {
        let places = ahead.iter_mut().zip(keys.by_ref());
        places
            .map(|(place, key)| {
                prefetch(std::ptr::from_ref(key).cast::<u8>());
                *place = Some(key);
            })
            .count()
    };
    let mut base = 0;
    let mut filled = fetch(&mut ahead);
    while filled > 0 {
        let mut lanes: [Option<(u64, &'k Q, &'g Slot)>; GROUP] = [None; GROUP];
        for (lane, key) in lanes.iter_mut().zip(&ahead[..filled]) {
            let key = key.expect("filled");
            let hash = hash(key);
            // SAFETY: the root array has `1 << bits` slots.
            let slot = unsafe { top.slot_unchecked(top_digit(hash, bits)) };
            prefetch(slot);
            *lane = Some((hash, key, slot));
        }
        let next = if filled < GROUP { 0 } else { fetch(&mut ahead) };
        let mut words = [Word::EMPTY; GROUP];
        let mut guessed = [false; GROUP];
        let mut walking: [u8; GROUP] = std::array::from_fn(|i| i as u8);
        let mut walkers = filled;
        let mut used = bits;
        while walkers > 0 {
            let mut left = 0;
            for i in 0..walkers {
                let lane = walking[i];
                let (hash, _, slot) = lanes[lane as usize]
                    .as_mut()
                    .expect("walking lanes are filled");
                let word = slot.load();
                if word.is_digit_array() {
                    // SAFETY: as in `follow`.
                    *slot = unsafe { word.array() }.digit(*hash, used);
                    prefetch(*slot);
                    walking[left] = lane;
                    left += 1;
                } else {
                    words[lane as usize] = word;
                    if word.tags() == ARRAY {
                        // SAFETY: as in `follow`; the word is that of a bucket.
                        prefetch(unsafe { word.array().probe_start(word.bucket_width(), *hash) });
                    } else {
                        prefetch(word.address::<Leaf<K, V>>());
                    }
                }
            }
            walkers = left;
            used += BITS;
        }
        for (i, lane) in lanes.iter().take(filled).enumerate() {
            let (hash, ..) = lane.expect("filled above");
            if words[i].tags() == ARRAY {
                // The first leaf with this tag is nearly always the one.
                // SAFETY: as in `follow`; the word is that of a bucket.
                let mut slots = unsafe { words[i].array().probe(words[i].bucket_width(), hash) };
                let candidate = slots
                    .by_ref()
                    .map(Slot::load)
                    .take_while(|word| *word != Word::EMPTY)
                    .find(|word| word.tags() == LEAF && word.may_be(hash));
                if let Some(candidate) = candidate {
                    prefetch(candidate.address::<Leaf<K, V>>());
                    words[i] = candidate;
                    guessed[i] = true;
                }
            }
        }
        for (i, lane) in lanes.iter().take(filled).enumerate() {
            let (hash, key, _) = lane.expect("filled above");
            let found = if words[i].tags() == LEAF {
                // SAFETY: as in `find_below`.
                unsafe { words[i].leaf::<K, V>() }
                    .filter(|leaf| leaf.hash == hash && leaf.key().borrow() == key)
            } else {
                None
            };
            let sure = found.is_some() || (words[i].tags() == LEAF && !guessed[i]);
            // Tentative, frozen, a list, a bucket without the key: rarer, and the lines are warm by now.
            let found = if sure {
                found
            } else {
                // SAFETY: as for this call.
                unsafe { find_below(world, top, bits, hash, key) }
            };
            f(base + i, found);
        }
        base += filled;
        filled = next;
    }
}

/// A frozen trie and one claim on its root array.
pub(crate) struct View<K, V> {
    top: Word,
    bits: u32,
    /// Gives the claim back. A view is only made where entries are [`Shared`]; this remembers it.
    release: fn(Word),
    entries: std::marker::PhantomData<*mut (K, V)>,
}

// SAFETY: as for `Trie`.
unsafe impl<K: Send + Sync, V: Send + Sync> Send for View<K, V> {}
// SAFETY: as for `Trie`.
unsafe impl<K: Send + Sync, V: Send + Sync> Sync for View<K, V> {}

impl<K: Shared, V: Shared> View<K, V> {
    fn of(top: Word, bits: u32) -> Self {
        fn release<K: Shared, V: Shared>(top: Word) {
            let guard = epoch::pin();
            let mut bin = Bin::<K, V>::new(&guard);
            // SAFETY: the claim is the view's. It waits for a grace period, since operations of the live map may
            // still be on their way through arrays that they reached before the freeze (R6).
            unsafe { bin.put(Dead::claim(top)) };
            bin.flush();
        }
        Self {
            top,
            bits,
            release: release::<K, V>,
            entries: std::marker::PhantomData,
        }
    }
}

impl<K, V> View<K, V> {
    fn top(&self) -> Array<'_> {
        // SAFETY: the view has a claim on it, and it on everything below.
        unsafe { self.top.array() }
    }

    /// The entry for a key.
    pub(crate) fn find<Q>(&self, hash: u64, key: &Q) -> Option<&Leaf<K, V>>
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        // SAFETY: claimed by the view for as long as it is borrowed.
        unsafe { find_below(&Frozen, self.top(), self.bits, hash, key) }
    }

    /// Looks all keys up; calls `f` with each position and what was found there.
    pub(crate) fn find_batch<'v, 'k, Q>(
        &'v self,
        keys: impl Iterator<Item = &'k Q>,
        hash: impl Fn(&Q) -> u64,
        f: impl FnMut(usize, Option<&'v Leaf<K, V>>),
    ) where
        K: Borrow<Q>,
        Q: Eq + ?Sized + 'k,
    {
        // SAFETY: claimed by the view for as long as it is borrowed.
        unsafe { find_batch_below(&Frozen, self.top(), self.bits, keys, hash, f) }
    }

    /// The number of entries.
    pub(crate) fn len(&self) -> usize {
        // SAFETY: claimed by the view, and frozen.
        unsafe { count::<_, K, V>(&Frozen, self.top()) }
    }

    /// All entries.
    pub(crate) fn iter(&self) -> Leaves<'_, K, V> {
        Leaves {
            stack: vec![(self.top(), 0)],
            list: [].iter(),
            entries: std::marker::PhantomData,
        }
    }

    /// An independent trie with this content. O(1).
    pub(crate) fn fork(&self) -> Trie<K, V> {
        // SAFETY: the view has a claim on it.
        unsafe { retain(self.top) };
        Trie::of(self.top, next_generation(), self.bits)
    }
}

impl<K, V> Drop for View<K, V> {
    fn drop(&mut self) {
        if cfg!(all(test, shuttle)) && std::thread::panicking() {
            return;
        }
        (self.release)(self.top);
    }
}

/// Iterates over the leaves of a view.
pub(crate) struct Leaves<'v, K, V> {
    /// The way down to the present slot: at most one array per digit of the hash.
    stack: Vec<(Array<'v>, usize)>,
    list: std::slice::Iter<'v, Word>,
    entries: std::marker::PhantomData<&'v (K, V)>,
}

// SAFETY: it borrows a view, and hands out shared references to keys and values.
unsafe impl<K: Send + Sync, V: Send + Sync> Send for Leaves<'_, K, V> {}
// SAFETY: as above.
unsafe impl<K: Send + Sync, V: Send + Sync> Sync for Leaves<'_, K, V> {}

impl<'v, K, V> Iterator for Leaves<'v, K, V> {
    type Item = &'v Leaf<K, V>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(word) = self.list.next() {
                // SAFETY: claimed by a list that is claimed by the view.
                return unsafe { word.leaf() };
            }
            let (array, next) = self.stack.last_mut()?;
            let array = *array;
            if *next == array.width() {
                self.stack.pop();
                continue;
            }
            // SAFETY: below the width; claimed by the view.
            let word =
                unsafe { committed(&Frozen, array.generation(), array.slot_unchecked(*next)) }
                    .bare();
            *next += 1;
            match word.kind() {
                // SAFETY: claimed by the array.
                ARRAY => unsafe {
                    let child = word.array();
                    // The leaves below are scattered: ask for all of them before the first is needed.
                    for slot in child.slots() {
                        prefetch(slot.load_quiet().address::<u8>());
                    }
                    self.stack.push((child, 0));
                },
                // SAFETY: claimed by the array.
                LIST => self.list = unsafe { word.list::<K, V>() }.words().iter(),
                LEAF => {
                    // SAFETY: claimed by the array.
                    if let Some(leaf) = unsafe { word.leaf() } {
                        return Some(leaf);
                    }
                }
                _ => debug_assert_eq!(word, Word::TOMB),
            }
        }
    }
}
