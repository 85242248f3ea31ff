//! The nodes, the tagged words that point to them, and who owns what: allocation, claims and their release. The
//! protocol that decides what a slot holds is in [`trie`](crate::trie).
//!
//! ```text
//!  slot word (64 bits)     pointer to a node, 16-aligned                          FRZ TENT  kind
//!                         +--------------------------------------------------------+---+---+-----+
//!                         |  p p p p p p p p p p p p p p p p p p p p p p p p p p p  | f | t | k k |
//!                         +--------------------------------------------------------+---+---+-----+
//!   kind: 00 leaf (null: the slot is empty)   01 array   10 list   11 removal (only ever with TENT)
//!
//!  head   | prev     what the slot held, + TENT: undecided; + FRZ: refused; null: committed
//!         | count    claims on this node: slots, lists and handles that own it
//!         | width    slots, where the node is an array
//!
//!  array  | head | gen | size | slot[0] slot[1] ... slot[15]        (the root: 256 slots or more)
//!  leaf   | head | hash | key | value
//!  list   | head | gen | hash | leaves                              (two or more keys of one hash)
//!  removal| head | target                                           (what the slot holds afterwards)
//!  root   | gen | slot | verdict | old | expected                   (the box that the map's root points to)
//! ```

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::any::Any;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::AtomicU64;

use cache_reclaim::pool;

use crate::mutants::{self, Mutant};
use crate::sync::epoch::Guard;
use crate::sync::{AcqRel, AtomicPtr, AtomicU32, AtomicUsize, Ordering, Relaxed, SeqCst};

pub(crate) const LEAF: usize = 0b0000;
pub(crate) const ARRAY: usize = 0b0001;
pub(crate) const LIST: usize = 0b0010;
pub(crate) const REMOVAL: usize = 0b0011;
const KIND: usize = 0b0011;
/// The word is tentative: its node's `prev` says whether it was committed, refused, or is undecided.
const TENT: usize = 0b0100;
/// The slot takes no more writes: its array is being contracted. In a frozen generation it means nothing.
const FRZ: usize = 0b1000;
const TAGS: usize = 0b1111;

/// Whether words have room for sixteen bits of the hash: where addresses are 64 bits wide, of which 48 are used.
const TAGGED: bool = usize::BITS == 64;
/// Where the tag begins. (Without room for tags, beyond everything that is looked at.)
const TAG_SHIFT: u32 = if TAGGED { 48 } else { 0 };
const TAG: usize = if TAGGED { !0 << TAG_SHIFT } else { 0 };
/// Where the same bits are in the hash.
const HASH_TAG_SHIFT: u32 = 48;

/// Whether small subtries are buckets.
#[cfg(not(test))]
#[inline(always)]
pub(crate) const fn buckets() -> bool {
    TAGGED
}

#[cfg(test)]
thread_local! {
    /// The protocol is the same with and without buckets; tests run both shapes.
    pub(crate) static BUCKETS: std::cell::Cell<bool> = const { std::cell::Cell::new(TAGGED) };
}

#[cfg(test)]
pub(crate) fn buckets() -> bool {
    BUCKETS.get()
}

/// The largest bucket. With the widths of the arrays it decides how many accesses a lookup takes, and how much the first
/// write to a place copies after a snapshot: with 16 and 32 instead of 64 and 128 a lookup among a million entries takes
/// one access more, to a line that is rarely in the second-level cache.
pub(crate) const MAX_BUCKET: usize = 128;
/// A bucket is replaced when a new entry would be stored further than this from where its probe begins.
pub(crate) const PROBES: usize = 12;

/// Slots of an array below the root.
pub(crate) const WIDTH: usize = 64;
/// Hash bits that such an array consumes.
pub(crate) const BITS: u32 = 6;

/// What a slot holds: a node's address with its kind and state in the four low bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Word(*mut ());

impl Word {
    /// The empty slot.
    pub(crate) const EMPTY: Self = Self(null_mut());
    /// A slot of a bucket that was emptied. It is not used again, so that a probe that ends at an empty slot has seen
    /// every place where its key could be.
    pub(crate) const TOMB: Self = Self(std::ptr::without_provenance_mut(REMOVAL));

    #[inline]
    pub(crate) fn new<T>(node: *mut T, kind: usize) -> Self {
        debug_assert!(node.addr() & TAGS == 0, "nodes are 16-aligned");
        Self(node.cast::<()>().map_addr(|address| address | kind))
    }

    /// The word with the tag of `hash`.
    #[inline]
    fn tagged(self, hash: u64) -> Self {
        Self(
            self.0.map_addr(|address| {
                address | (((hash >> HASH_TAG_SHIFT) as usize) << TAG_SHIFT) & TAG
            }),
        )
    }

    /// Whether a leaf or list with this word can be of this hash.
    #[inline]
    pub(crate) fn may_be(self, hash: u64) -> bool {
        ((self.0.addr() >> TAG_SHIFT) ^ (hash >> HASH_TAG_SHIFT) as usize) & (TAG >> TAG_SHIFT) == 0
    }

    /// The part of the hash that the tag shows, where it is in the hash.
    pub(crate) fn tag_as_hash(self) -> u64 {
        ((self.0.addr() & TAG) >> TAG_SHIFT) as u64 * (1 << HASH_TAG_SHIFT)
    }

    /// Whether this is a committed array with one slot per digit, not a bucket.
    #[inline]
    pub(crate) fn is_digit_array(self) -> bool {
        self.0.addr() & (TAG | TAGS) == ARRAY
    }

    /// The slots of a bucket.
    #[inline]
    pub(crate) fn bucket_width(self) -> usize {
        debug_assert!(self.kind() == ARRAY && !self.bare().is_digit_array());
        1 << (self.0.addr() >> TAG_SHIFT)
    }

    /// All four low bits: equal to a bare kind exactly if the word is committed and not frozen.
    #[inline]
    pub(crate) fn tags(self) -> usize {
        self.0.addr() & TAGS
    }

    #[inline]
    pub(crate) fn kind(self) -> usize {
        self.0.addr() & KIND
    }

    #[inline]
    pub(crate) fn is_tentative(self) -> bool {
        self.0.addr() & TENT != 0
    }

    #[inline]
    pub(crate) fn is_frozen(self) -> bool {
        self.0.addr() & FRZ != 0
    }

    /// Whether the slot holds no node, frozen or not, used before or not.
    #[inline]
    pub(crate) fn is_empty(self) -> bool {
        self.0.addr() & !(TAG | TAGS) == 0
    }

    #[inline]
    pub(crate) fn tentative(self) -> Self {
        Self(self.0.map_addr(|address| address | TENT))
    }

    #[inline]
    pub(crate) fn frozen(self) -> Self {
        Self(self.0.map_addr(|address| address | FRZ))
    }

    /// The word without TENT and FRZ.
    #[inline]
    pub(crate) fn bare(self) -> Self {
        Self(self.0.map_addr(|address| address & !(TENT | FRZ)))
    }

    #[inline]
    pub(crate) fn address<T>(self) -> *mut T {
        self.0.map_addr(|address| address & !(TAG | TAGS)).cast()
    }

    /// The head of the node.
    ///
    /// # Safety
    ///
    /// The word is not empty, and its node is alive for `'g`: the caller holds a guard from before it read the
    /// word, or a claim on a frozen array above it.
    #[inline]
    pub(crate) unsafe fn head<'g>(self) -> &'g Head {
        // SAFETY: every node begins with its head (`repr(C)`), and the caller vouches for its life.
        let head = unsafe { &*self.address::<Head>() };
        head.life.assert_alive();
        head
    }

    /// The node as an array.
    ///
    /// # Safety
    ///
    /// As for [`head`](Self::head), and the kind is [`ARRAY`].
    #[inline]
    pub(crate) unsafe fn array<'g>(self) -> Array<'g> {
        debug_assert_eq!(self.kind(), ARRAY);
        // SAFETY: an array word is never empty; the caller vouches for the node's life.
        unsafe {
            self.head().life.assert_alive();
            Array {
                node: NonNull::new_unchecked(self.address()),
                life: PhantomData,
            }
        }
    }

    /// The node as a leaf; `None` where the slot is empty.
    ///
    /// # Safety
    ///
    /// As for [`head`](Self::head), and the kind is [`LEAF`].
    #[inline]
    pub(crate) unsafe fn leaf<'g, K, V>(self) -> Option<&'g Leaf<K, V>> {
        debug_assert_eq!(self.kind(), LEAF);
        // SAFETY: the caller vouches for kind and life.
        let leaf = unsafe { self.address::<Leaf<K, V>>().as_ref() };
        if let Some(leaf) = leaf {
            leaf.head.life.assert_alive();
        }
        leaf
    }

    /// The node as a list.
    ///
    /// # Safety
    ///
    /// As for [`head`](Self::head), and the kind is [`LIST`].
    #[inline]
    pub(crate) unsafe fn list<'g, K, V>(self) -> &'g List<K, V> {
        debug_assert_eq!(self.kind(), LIST);
        // SAFETY: the caller vouches for kind and life.
        let list = unsafe { &*self.address::<List<K, V>>() };
        list.head.life.assert_alive();
        list
    }

    /// What a removal leaves in the slot.
    ///
    /// # Safety
    ///
    /// As for [`head`](Self::head), and the kind is [`REMOVAL`].
    #[inline]
    pub(crate) unsafe fn target(self) -> Word {
        debug_assert_eq!(self.kind(), REMOVAL);
        // SAFETY: the caller vouches for kind and life.
        let removal = unsafe { &*self.address::<Removal>() };
        removal.head.life.assert_alive();
        removal.target
    }

    /// The hash of the leaf or list.
    ///
    /// # Safety
    ///
    /// As for [`head`](Self::head); the kind is [`LEAF`] or [`LIST`], with keys and values of these types.
    pub(crate) unsafe fn hash<K, V>(self) -> u64 {
        // SAFETY: passed on to the caller.
        unsafe {
            match self.kind() {
                LIST => self.list::<K, V>().hash,
                _ => {
                    self.leaf::<K, V>()
                        .expect("only occupied slots have a hash")
                        .hash
                }
            }
        }
    }
}

/// A mutable place for one [`Word`]: an I-node of the paper.
#[repr(transparent)]
pub(crate) struct Slot(AtomicPtr<()>);

impl Slot {
    pub(crate) fn new(word: Word) -> Self {
        Self(AtomicPtr::new(word.0))
    }

    /// SeqCst, for the Dekker pair with the root: a reader that saw the new root must see every tentative word
    /// whose decider saw the old one.
    #[inline]
    pub(crate) fn load(&self) -> Word {
        Word(self.0.load(SeqCst))
    }

    /// The content before anyone else can see the slot, or when nobody can write it any more.
    pub(crate) fn load_quiet(&self) -> Word {
        Word(self.0.load(Ordering::Acquire))
    }

    /// SeqCst: see [`load`](Self::load). On failure nothing is read from what was found, so that side is relaxed.
    #[inline]
    pub(crate) fn swap_if(&self, old: Word, new: Word) -> bool {
        self.0
            .compare_exchange(old.0, new.0, SeqCst, Relaxed)
            .is_ok()
    }

    /// Before the slot is published.
    pub(crate) fn set(&self, word: Word) {
        self.0.store(word.0, Relaxed);
    }
}

/// In a head's width: the array is a bucket.
const BUCKET: u32 = 1 << 31;

/// What every node begins with.
#[repr(C)]
pub(crate) struct Head {
    prev: AtomicPtr<()>,
    /// Claims. Never 0 while anyone can reach the node through a claim.
    count: AtomicU32,
    width: u32,
    life: Life,
}

/// What has become of a tentative word.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Committed,
    /// What the slot held before, and holds again.
    Refused(Word),
    /// What the slot held before.
    Undecided(Word),
}

impl Head {
    fn new(width: u32) -> Self {
        Self {
            prev: AtomicPtr::new(null_mut()),
            count: AtomicU32::new(1),
            width,
            life: Life::new(),
        }
    }

    /// Makes ready to be offered in place of `old`. The CAS that makes the node visible publishes this store.
    #[inline]
    pub(crate) fn propose(&self, old: Word) {
        debug_assert!(!old.is_tentative() && !old.is_frozen());
        self.prev.store(old.tentative().0, Relaxed);
    }

    /// Undoes [`propose`](Self::propose) for a node that nobody else has seen.
    #[inline]
    pub(crate) fn withdraw(&self) {
        self.prev.store(null_mut(), Relaxed);
    }

    /// SeqCst although acquire would do (the decision is a single location, and the node was published by the
    /// slot): it costs the same, and the proof then talks about one order only.
    #[inline]
    pub(crate) fn fate(&self) -> Fate {
        let prev = Word(self.prev.load(SeqCst));
        if prev == Word::EMPTY {
            Fate::Committed
        } else if prev.is_tentative() {
            Fate::Undecided(prev.bare())
        } else {
            Fate::Refused(prev.bare())
        }
    }

    /// Decides, unless someone else already has.
    #[inline]
    pub(crate) fn decide(&self, old: Word, commit: bool) {
        let verdict = if commit { Word::EMPTY } else { old.frozen() };
        let _ = self
            .prev
            .compare_exchange(old.tentative().0, verdict.0, SeqCst, Relaxed);
    }
}

/// Whether a node has been freed: in test builds only.
#[cfg(not(test))]
struct Life;

#[cfg(not(test))]
impl Life {
    #[inline(always)]
    const fn new() -> Self {
        Self
    }

    #[inline(always)]
    const fn assert_alive(&self) {}
}

#[cfg(test)]
struct Life(std::sync::atomic::AtomicBool);

#[cfg(test)]
impl Life {
    fn new() -> Self {
        census::born();
        Self(std::sync::atomic::AtomicBool::new(true))
    }

    fn assert_alive(&self) {
        assert!(self.0.load(Relaxed), "a freed node was touched");
    }

    fn end(&self) {
        assert!(self.0.swap(false, Relaxed), "a node was freed twice");
        census::died();
    }
}

/// Counts live nodes, in test builds; under the model checker it also keeps freed memory from being used again
/// until the execution ends, so that a touch of a freed node is seen.
#[cfg(test)]
pub(crate) mod census {
    use std::alloc::Layout;
    use std::cell::RefCell;

    #[cfg(not(shuttle))]
    mod live {
        use std::sync::atomic::{AtomicIsize, Ordering::SeqCst};

        static LIVE: AtomicIsize = AtomicIsize::new(0);

        pub(super) fn get() -> isize {
            LIVE.load(SeqCst)
        }

        pub(super) fn add(n: isize) {
            LIVE.fetch_add(n, SeqCst);
        }
    }

    /// A model runs on one thread of the system, and several models may run side by side.
    #[cfg(shuttle)]
    mod live {
        thread_local! {
            static LIVE: std::cell::Cell<isize> = const { std::cell::Cell::new(0) };
        }

        pub(super) fn get() -> isize {
            LIVE.get()
        }

        pub(super) fn add(n: isize) {
            LIVE.set(LIVE.get() + n);
        }
    }

    thread_local! {
        static QUARANTINE: RefCell<Vec<(*mut u8, Layout)>> = const { RefCell::new(Vec::new()) };
    }

    /// Nodes that have been allocated and not freed.
    pub(crate) fn live() -> isize {
        live::get()
    }

    /// Starts again from zero, after an execution that ended in a panic.
    #[cfg(shuttle)]
    pub(crate) fn reset() {
        live::add(-live::get());
        release_quarantine();
    }

    pub(super) fn born() {
        live::add(1);
    }

    pub(super) fn died() {
        live::add(-1);
    }

    #[cfg_attr(
        not(shuttle),
        allow(dead_code, reason = "only the model checker keeps freed memory")
    )]
    pub(super) fn quarantine(memory: *mut u8, layout: Layout) {
        QUARANTINE.with(|list| list.borrow_mut().push((memory, layout)));
    }

    /// Gives the memory of freed nodes back.
    #[cfg(shuttle)]
    pub(crate) fn release_quarantine() {
        for (memory, layout) in QUARANTINE.with(RefCell::take) {
            // SAFETY: allocated with this layout, and put here exactly once, by `free`.
            unsafe { std::alloc::dealloc(memory, layout) };
        }
    }
}

/// Whether the memory of such a node is kept by the thread for its next one. Leaves and small arrays, which writes free
/// as fast as they allocate them; not under the sanitizers, from which reuse would hide a use after free, and not
/// where nodes are counted.
#[inline]
fn pooled(layout: Layout) -> bool {
    cfg!(not(any(test, shuttle, sanitizers))) && layout.size() <= 128
}

fn allocate<T>(layout: Layout) -> *mut T {
    let mut node: *mut T = std::ptr::null_mut();
    if pooled(layout) {
        node = pool::take(layout).cast();
    }
    if node.is_null() {
        // SAFETY: no node has size zero: each has a head.
        node = unsafe { alloc(layout) }.cast::<T>();
    }
    if node.is_null() {
        handle_alloc_error(layout);
    }
    // Systems hand out wider addresses only to those who ask for them.
    assert!(node.addr() & TAG == 0, "an address of more than 48 bits");
    node
}

/// # Safety
///
/// `node` was allocated by [`allocate`] with this layout, begins with a [`Head`] and is reachable by nobody else.
unsafe fn free<T>(node: *mut T, layout: Layout) {
    #[cfg(test)]
    {
        // SAFETY: the node begins with its head.
        unsafe { &*node.cast::<Head>() }.life.end();
        if cfg!(shuttle) {
            census::quarantine(node.cast(), layout);
            return;
        }
    }
    // SAFETY: passed on to the caller; all nodes have sizes that are multiples of sixteen.
    unsafe {
        if !(pooled(layout) && pool::give(node.cast(), layout)) {
            dealloc(node.cast(), layout);
        }
    }
}

/// 64 (the root: 256) slots of one generation, or those of a bucket. Allocated with an alignment of 16, like all nodes.
#[repr(C)]
struct ArrayNode {
    head: Head,
    generation: u64,
    /// How many entries there are below, once the generation is frozen and someone has counted; else `usize::MAX`.
    size: AtomicUsize,
    slots: [Slot; 0],
}

/// An array that is alive for `'g`.
#[derive(Clone, Copy)]
pub(crate) struct Array<'g> {
    node: NonNull<ArrayNode>,
    life: PhantomData<&'g ArrayNode>,
}

impl<'g> Array<'g> {
    fn layout(width: usize) -> Layout {
        let slots = Layout::array::<Slot>(width).expect("widths are small");
        let (layout, offset) = Layout::new::<ArrayNode>()
            .extend(slots)
            .expect("widths are small");
        debug_assert_eq!(offset, std::mem::offset_of!(ArrayNode, slots));
        layout
            .align_to(16)
            .expect("16 is a power of two")
            .pad_to_align()
    }

    /// An empty bucket of `width` slots.
    pub(crate) fn bucket(generation: u64, width: usize) -> Self {
        debug_assert!(width.is_power_of_two() && (4..=MAX_BUCKET).contains(&width));
        Self::of(generation, width, BUCKET)
    }

    /// An array of empty slots, one per digit, claimed once by the caller and unknown to anyone else.
    pub(crate) fn allocate(generation: u64, width: usize) -> Self {
        Self::of(generation, width, 0)
    }

    /// An array like this one: empty slots, as many, used in the same way.
    pub(crate) fn like(self, generation: u64) -> Array<'g> {
        Self::of(generation, self.width(), self.node().head.width & BUCKET)
    }

    fn of(generation: u64, width: usize, flag: u32) -> Self {
        let node = allocate::<ArrayNode>(Self::layout(width));
        // SAFETY: freshly allocated with room for the header and `width` slots, all of which are written here.
        unsafe {
            node.write(ArrayNode {
                head: Head::new(width as u32 | flag),
                generation,
                size: AtomicUsize::new(usize::MAX),
                slots: [],
            });
            let slots = (&raw mut (*node).slots).cast::<Slot>();
            for i in 0..width {
                slots.add(i).write(Slot::new(Word::EMPTY));
            }
            Self {
                node: NonNull::new_unchecked(node),
                life: PhantomData,
            }
        }
    }

    #[inline]
    fn node(self) -> &'g ArrayNode {
        // SAFETY: whoever made this handle vouched that the node is alive for `'g`.
        let node = unsafe { self.node.as_ref() };
        node.head.life.assert_alive();
        node
    }

    #[inline]
    pub(crate) fn word(self) -> Word {
        let word = Word::new(self.node.as_ptr(), ARRAY);
        if self.is_bucket() {
            let tag = (self.width().trailing_zeros() as usize) << TAG_SHIFT;
            return Word(word.0.map_addr(|address| address | tag));
        }
        word
    }

    /// Whether entries are found by probing, not by a digit of the hash.
    #[inline]
    pub(crate) fn is_bucket(self) -> bool {
        self.node().head.width & BUCKET != 0
    }

    /// The slots of a bucket in the order in which a probe for `hash` looks at them. The same at every level of the
    /// trie: it begins where the tag says.
    ///
    /// # Safety
    ///
    /// `width` is that of the array, a power of two.
    #[inline]
    pub(crate) unsafe fn probe(self, width: usize, hash: u64) -> impl Iterator<Item = &'g Slot> {
        let start = (hash >> HASH_TAG_SHIFT) as usize;
        // SAFETY: masked to the width.
        (0..width).map(move |i| unsafe { self.slot_unchecked((start + i) & (width - 1)) })
    }

    #[inline]
    pub(crate) fn generation(self) -> u64 {
        self.node().generation
    }

    pub(crate) fn width(self) -> usize {
        (self.node().head.width & !BUCKET) as usize
    }

    pub(crate) fn size(self) -> &'g AtomicUsize {
        &self.node().size
    }

    /// # Safety
    ///
    /// `i` is below the array's width.
    #[inline]
    pub(crate) unsafe fn slot_unchecked(self, i: usize) -> &'g Slot {
        debug_assert!(i < self.width());
        // SAFETY: `width` slots follow the header; the pointer comes from the whole allocation.
        unsafe {
            &*(&raw const (*self.node.as_ptr()).slots)
                .cast::<Slot>()
                .add(i)
        }
    }

    /// The slot of a digit, for arrays below the root.
    #[inline]
    pub(crate) fn digit(self, hash: u64, shift: u32) -> &'g Slot {
        // SAFETY: every array below the root has so many slots, and the digit is below that.
        unsafe { self.slot_unchecked((hash >> shift) as usize & (WIDTH - 1)) }
    }

    /// Where a [`probe`](Self::probe) begins.
    ///
    /// # Safety
    ///
    /// As for `probe`.
    #[inline]
    pub(crate) unsafe fn probe_start(self, width: usize, hash: u64) -> *const Slot {
        // SAFETY: masked to the width.
        unsafe { self.slot_unchecked((hash >> HASH_TAG_SHIFT) as usize & (width - 1)) }
    }

    pub(crate) fn slots(self) -> impl Iterator<Item = &'g Slot> {
        // SAFETY: all indices are below the width.
        (0..self.width()).map(move |i| unsafe { self.slot_unchecked(i) })
    }
}

/// Asks for a cache line; never faults, whatever the address.
#[inline]
pub(crate) fn prefetch<T>(address: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch is a hint: it has no effect on memory and does not fault.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// One entry. Never changes once it can be reached, apart from its claims.
#[repr(C, align(16))]
pub(crate) struct Leaf<K, V> {
    head: Head,
    pub(crate) hash: u64,
    key: MaybeUninit<K>,
    value: MaybeUninit<V>,
}

impl<K, V> Leaf<K, V> {
    /// The key of a leaf that is in a trie.
    #[inline]
    pub(crate) fn key(&self) -> &K {
        // SAFETY: `Pending` lets a leaf go only when both halves are written; a shell is never reachable.
        unsafe { self.key.assume_init_ref() }
    }

    /// The value of a leaf that is in a trie.
    #[inline]
    pub(crate) fn value(&self) -> &V {
        // SAFETY: as for the key.
        unsafe { self.value.assume_init_ref() }
    }

    /// The word for this leaf.
    pub(crate) fn word(&self) -> Word {
        Word::new(std::ptr::from_ref(self).cast_mut(), LEAF).tagged(self.hash)
    }
}

/// A leaf that is not in the trie yet, and its owner.
pub(crate) struct Pending<K, V> {
    leaf: *mut Leaf<K, V>,
    valued: bool,
}

impl<K, V> Pending<K, V> {
    /// No leaf: for removals.
    pub(crate) const fn none() -> Self {
        Self {
            leaf: null_mut(),
            valued: false,
        }
    }

    pub(crate) fn new(hash: u64, key: K) -> Self {
        let leaf = allocate::<Leaf<K, V>>(Layout::new::<Leaf<K, V>>());
        let fresh = Leaf {
            head: Head::new(0),
            hash,
            key: MaybeUninit::new(key),
            value: MaybeUninit::uninit(),
        };
        // SAFETY: freshly allocated for exactly this type.
        unsafe { leaf.write(fresh) };
        Self {
            leaf,
            valued: false,
        }
    }

    pub(crate) fn full(hash: u64, key: K, value: V) -> Self {
        let mut pending = Self::new(hash, key);
        pending.set(value);
        pending
    }

    /// The key, unless this is [`none`](Self::none).
    pub(crate) fn key(&self) -> Option<&K> {
        // SAFETY: a leaf that is present has its key, and is this owner's alone.
        unsafe { self.leaf.as_ref().map(|leaf| leaf.key.assume_init_ref()) }
    }

    /// Writes the value, dropping an earlier one.
    ///
    /// # Panics
    ///
    /// If there is no leaf.
    pub(crate) fn set(&mut self, value: V) {
        assert!(!self.leaf.is_null(), "only a leaf can take a value");
        // SAFETY: the leaf is this owner's alone.
        let slot = unsafe { &mut (*self.leaf).value };
        if self.valued {
            // Replaced before it is dropped, so that a panicking destructor finds the leaf whole.
            // SAFETY: `valued` says that a value was written.
            drop(std::mem::replace(unsafe { slot.assume_init_mut() }, value));
        } else {
            slot.write(value);
            self.valued = true;
        }
    }

    pub(crate) fn is_valued(&self) -> bool {
        self.valued
    }

    /// The leaf's word. It stays this owner's until [`publish`](Self::publish).
    ///
    /// # Panics
    ///
    /// If there is no leaf, or it has no value.
    #[inline]
    pub(crate) fn word(&self) -> Word {
        assert!(self.valued, "an offered leaf has a value");
        // SAFETY: a leaf with a value is there, and is this owner's alone.
        Word::new(self.leaf, LEAF).tagged(unsafe { (*self.leaf).hash })
    }

    /// The leaf has been committed: the trie owns it.
    #[inline]
    pub(crate) fn publish(&mut self) {
        self.leaf = null_mut();
        self.valued = false;
    }

    /// The leaf was offered and refused, so others may still look at its head: moves the entry to a new leaf and
    /// returns the old one, an empty shell.
    pub(crate) fn reshell(&mut self) -> Dead {
        let old = self.leaf;
        let layout = Layout::new::<Leaf<K, V>>();
        let new = allocate::<Leaf<K, V>>(layout);
        // SAFETY: `old` is this owner's; others may read its head (atomics), which is not moved, and never its
        // entry, since a refused word is never followed.
        unsafe {
            new.write(Leaf {
                head: Head::new(0),
                hash: (*old).hash,
                key: std::ptr::read(&raw const (*old).key),
                value: std::ptr::read(&raw const (*old).value),
            });
        }
        self.leaf = new;
        Dead::shell(Word::new(old, LEAF))
    }
}

impl<K, V> Drop for Pending<K, V> {
    fn drop(&mut self) {
        if self.leaf.is_null() {
            return;
        }
        // SAFETY: the leaf was never committed: nobody else can reach it. What was written is read out once.
        unsafe {
            let key = (*self.leaf).key.assume_init_read();
            let value = self.valued.then(|| (*self.leaf).value.assume_init_read());
            free(self.leaf, Layout::new::<Leaf<K, V>>());
            drop((key, value));
        }
    }
}

/// Two or more entries whose whole hash is equal. Immutable; owns one claim on each leaf.
#[repr(C, align(16))]
pub(crate) struct List<K, V> {
    head: Head,
    pub(crate) generation: u64,
    pub(crate) hash: u64,
    leaves: Box<[Word]>,
    entries: PhantomData<(K, V)>,
}

impl<K, V> List<K, V> {
    /// A list that takes over one claim on each of `leaves`.
    pub(crate) fn allocate(generation: u64, hash: u64, leaves: Box<[Word]>) -> Word {
        debug_assert!(leaves.len() >= 2);
        let node = allocate::<Self>(Layout::new::<Self>());
        // SAFETY: freshly allocated for exactly this type.
        unsafe {
            node.write(Self {
                head: Head::new(0),
                generation,
                hash,
                leaves,
                entries: PhantomData,
            })
        };
        Word::new(node, LIST).tagged(hash)
    }

    pub(crate) fn words(&self) -> &[Word] {
        &self.leaves
    }

    pub(crate) fn leaves(&self) -> impl Iterator<Item = &Leaf<K, V>> {
        // SAFETY: the list owns a claim on each leaf and none is empty, so they live as long as it does.
        self.leaves
            .iter()
            .map(|word| unsafe { word.leaf().expect("lists hold no empty word") })
    }
}

/// What is offered in a slot in order to empty it, or to leave `target` there.
#[repr(C, align(16))]
struct Removal {
    head: Head,
    target: Word,
}

/// A removal that leaves `target` in the slot.
pub(crate) fn removal(target: Word) -> Word {
    let node = allocate::<Removal>(Layout::new::<Removal>());
    // SAFETY: freshly allocated for exactly this type.
    unsafe {
        node.write(Removal {
            head: Head::new(0),
            target,
        })
    };
    Word::new(node, REMOVAL)
}

/// The box at the root: a generation and the one slot above the root array. It also carries the descriptor of the
/// double-compare swap that put it there.
#[repr(C, align(16))]
pub(crate) struct Root {
    head: Head,
    pub(crate) generation: u64,
    pub(crate) slot: Slot,
    /// [`UNDECIDED`], [`YES`] or [`NO`]: whether the swap to this root takes effect.
    pub(crate) verdict: AtomicU32,
    /// The root to be replaced; used only while the swap is in flight.
    pub(crate) old: *const Root,
    /// What the old root's slot must hold for the swap to take effect.
    pub(crate) expected: Word,
}

pub(crate) const UNDECIDED: u32 = 0;
pub(crate) const YES: u32 = 1;
pub(crate) const NO: u32 = 2;

impl Root {
    /// A root that takes over one claim on `word`, to replace `old` if that one's slot holds `expected`.
    pub(crate) fn allocate(
        generation: u64,
        word: Word,
        old: *const Self,
        expected: Word,
    ) -> NonNull<Self> {
        let node = allocate::<Self>(Layout::new::<Self>());
        // SAFETY: freshly allocated for exactly this type; never null.
        unsafe {
            node.write(Self {
                head: Head::new(0),
                generation,
                slot: Slot::new(word),
                verdict: AtomicU32::new(UNDECIDED),
                old,
                expected,
            });
            NonNull::new_unchecked(node)
        }
    }

    #[inline]
    pub(crate) fn assert_alive(&self) {
        self.head.life.assert_alive();
    }

    /// Frees the box, and nothing that its slot holds.
    ///
    /// # Safety
    ///
    /// Nobody else can reach it.
    pub(crate) unsafe fn free(root: *mut Self) {
        // SAFETY: passed on to the caller.
        unsafe { free(root, Layout::new::<Self>()) }
    }
}

/// The next generation: a token that no other root and no other map has or will have.
pub(crate) fn next_generation() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    // Relaxed: only uniqueness is asked for, and that is a property of the one location. It does not wrap: at one
    // snapshot per nanosecond that takes five centuries.
    NEXT.fetch_add(1, Relaxed)
}

/// Adds a claim on the node (none on the empty word).
///
/// # Safety
///
/// The node is alive, with a claim of someone else that is not released before this call returns (R2).
#[inline]
pub(crate) unsafe fn retain(word: Word) {
    if word.is_empty() {
        return;
    }
    // SAFETY: passed on to the caller.
    let head = unsafe { word.head() };
    // Relaxed: as for `Arc`, a new claim is made from an existing one, which keeps the node alive meanwhile.
    let before = head.count.fetch_add(1, Relaxed);
    assert!(before != 0, "a node without claims was retained");
    if before > u32::MAX / 2 {
        // Each claim is a word in memory, so this cannot happen before memory ends, unless handles are forgotten.
        std::process::abort();
    }
}

/// Takes back a claim made earlier under the same guard (R4): never the last one.
///
/// # Safety
///
/// The claim is the caller's, and an older claim still exists.
pub(crate) unsafe fn undo_retain(word: Word) {
    if word.is_empty() {
        return;
    }
    // SAFETY: passed on to the caller. AcqRel: as in `release`.
    let before = unsafe { word.head() }.count.fetch_sub(1, AcqRel);
    assert!(before > 1, "undoing a speculative claim reached zero");
}

/// Carries the first panic of a destructor past the rest of the work.
#[derive(Default)]
pub(crate) struct Undertaker {
    panic: Option<Box<dyn Any + Send>>,
}

impl Undertaker {
    /// Gives back one claim, and frees what nobody claims any more (R3): at once, all the way down.
    ///
    /// # Safety
    ///
    /// The claim is the caller's to give. No operation that is still running came by this claim: a grace period
    /// has passed since it could be reached, or the caller is alone with the map. `K` and `V` are the types that
    /// the nodes were made with.
    pub(crate) unsafe fn release<K, V>(&mut self, word: Word) {
        let word = word.bare();
        if word.is_empty() {
            return;
        }
        // AcqRel: what other owners did with the node happens before it is freed by the last one. (A release
        // decrement with an acquire fence would do; the thread sanitizer does not understand fences.)
        // SAFETY: the claim keeps the node alive.
        let count = unsafe { &word.head().count };
        // A claim is made from another one: where this is the only one there will be no other, and no decrement is
        // needed. Acquire: as above.
        if count.load(Ordering::Acquire) != 1 {
            let before = count.fetch_sub(1, AcqRel);
            assert!(before != 0, "a node without claims was released");
            if before != 1 {
                return;
            }
        }
        // SAFETY: that was the last claim, so nobody can reach the node by a claim, and no running operation came
        // by one earlier. The parts are claimed by the node alone from now on, and are given back once each.
        unsafe {
            match word.kind() {
                ARRAY => {
                    for slot in word.array().slots() {
                        let child = slot.load_quiet();
                        debug_assert!(
                            !child.is_tentative(),
                            "an operation was still running in a dead array"
                        );
                        self.release::<K, V>(child);
                    }
                    Dead::shell(word).free_shell::<K, V>();
                }
                LIST => {
                    for &leaf in word.list::<K, V>().words() {
                        self.release::<K, V>(leaf);
                    }
                    Dead::shell(word).free_shell::<K, V>();
                }
                LEAF => {
                    let leaf = word.address::<Leaf<K, V>>();
                    let entry = (
                        (*leaf).key.assume_init_read(),
                        (*leaf).value.assume_init_read(),
                    );
                    Dead::shell(word).free_shell::<K, V>();
                    self.drop_entry(entry);
                }
                _ => unreachable!("a removal has no claims"),
            }
        }
    }

    fn drop_entry<T>(&mut self, entry: T) {
        if !std::mem::needs_drop::<T>() {
            return;
        }
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(entry))) {
            // The first one is reported; the others are forgotten, since dropping a payload may panic again.
            match &self.panic {
                None => self.panic = Some(panic),
                Some(_) => std::mem::forget(panic),
            }
        }
    }

    /// Raises the panic of a destructor, if there was one.
    pub(crate) fn resume(self) {
        if let Some(panic) = self.panic {
            if std::thread::panicking() {
                std::mem::forget(panic);
            } else {
                std::panic::resume_unwind(panic);
            }
        }
    }

    /// For work that runs in the middle of someone else's operation: the panic hook has reported the panic, and it
    /// ends here.
    fn swallow(self) {
        std::mem::forget(self.panic);
    }
}

/// Something to be given back after a grace period: a claim (bare word), or the memory of a node whose parts
/// have moved elsewhere (TENT), or a root box (FRZ).
#[derive(Clone, Copy)]
pub(crate) struct Dead(Word);

impl Dead {
    /// The tag is of no use any more, and without it the word is an address near enough for the collector's prefetch.
    #[inline]
    fn of(word: Word) -> Self {
        Self(Word(word.0.map_addr(|address| address & !TAG)))
    }

    /// One claim on the node.
    #[inline]
    pub(crate) fn claim(word: Word) -> Self {
        Self::of(word.bare())
    }

    /// The memory of the node alone: its parts have another owner (R1).
    pub(crate) fn shell(word: Word) -> Self {
        Self::of(word.bare().tentative())
    }

    /// The memory of a root box.
    pub(crate) fn root(root: *const Root) -> Self {
        Self(Word::new(root.cast_mut(), FRZ))
    }

    /// Frees the memory of the node.
    ///
    /// # Safety
    ///
    /// This is a [`shell`](Self::shell), and nobody can reach the node.
    pub(crate) unsafe fn free_shell<K, V>(self) {
        let word = self.0;
        // SAFETY: passed on to the caller; the layouts are those the nodes were allocated with.
        unsafe {
            match word.kind() {
                LEAF => free(word.address::<Leaf<K, V>>(), Layout::new::<Leaf<K, V>>()),
                ARRAY => {
                    let width = (word.head().width & !BUCKET) as usize;
                    free(word.address::<ArrayNode>(), Array::layout(width));
                }
                LIST => {
                    let list = word.address::<List<K, V>>();
                    // Words need no drop; the box that holds them does.
                    let leaves = std::ptr::read(&raw const (*list).leaves);
                    free(list, Layout::new::<List<K, V>>());
                    drop(leaves);
                }
                _ => free(word.address::<Removal>(), Layout::new::<Removal>()),
            }
        }
    }

    /// # Safety
    ///
    /// As for [`Undertaker::release`].
    unsafe fn bury<K, V>(self, undertaker: &mut Undertaker) {
        // SAFETY: passed on to the caller.
        unsafe {
            if self.0.is_frozen() {
                Root::free(self.0.address());
            } else if self.0.is_tentative() {
                self.free_shell::<K, V>();
            } else {
                undertaker.release::<K, V>(self.0);
            }
        }
    }
}

/// What entries must be to be dropped later, on whichever thread the collector runs.
pub(crate) trait Shared: Send + Sync + 'static {}

impl<T: Send + Sync + 'static> Shared for T {}

/// Where an operation puts what it leaves behind.
pub(crate) struct Bin<'g, K: Shared, V: Shared> {
    guard: &'g Guard,
    entries: PhantomData<(K, V)>,
}

impl<'g, K: Shared, V: Shared> Bin<'g, K, V> {
    #[inline]
    pub(crate) fn new(guard: &'g Guard) -> Self {
        Self {
            guard,
            entries: PhantomData,
        }
    }

    /// # Safety
    ///
    /// What [`Undertaker::release`] asks for holds once every guard that is alive now is gone.
    #[inline]
    pub(crate) unsafe fn put(&mut self, dead: Dead) {
        if mutants::on(Mutant::ReleaseNotDeferred) {
            // SAFETY: none: this is the fault that the tests must find.
            unsafe { bury::<K, V>(dead.0.0) };
            return;
        }
        // SAFETY: passed on to the caller; entries can be sent to whichever thread buries them, and outlive everything
        // (`Shared`). `bury` swallows panics.
        unsafe { self.guard.retire(dead.0.0, bury::<K, V>) };
    }

    /// Much memory may depend on what was put here: has it given back soon.
    pub(crate) fn flush(&self) {
        self.guard.flush();
    }
}

/// Gives back something that was retired.
///
/// # Safety
///
/// It is the word of a [`Dead`], with entries of these types; as for [`Undertaker::release`].
unsafe fn bury<K, V>(word: *mut ()) {
    let mut undertaker = Undertaker::default();
    // SAFETY: passed on to the caller.
    unsafe { Dead(Word(word)).bury::<K, V>(&mut undertaker) };
    undertaker.swallow();
}
