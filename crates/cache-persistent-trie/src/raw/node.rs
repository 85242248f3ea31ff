//! Nodes and leaves: layout, access, copies with one change, owner counts; never publication, never grace periods.
//!
//! ```text
//! Node  | count | stamp | node map, leaf map | child nodes by digit ... | leaves by digit ... |
//!        8       8       16 (8 if width<=32)  8 each                     8 each, or the leaves themselves
//! Leaf  | count | hash | key | value |          (in a node: without the count)
//! ```
//!
//! # Where leaves live
//!
//! Small entries of plain types (numbers, `&str` and the like) lie in their node: one cache miss less per lookup, one
//! allocation less per write, and no owner to count. All others have an allocation of their own, shared by all tries
//! that hold them. Which of the two it is depends on the types alone, see [`in_node`].
//!
//! The two bitmaps are those of CHAMP (Steindorfer and Vinju, OOPSLA 2015): bit `d` of the node map says that the
//! subtree of digit `d` is a node, bit `d` of the leaf map that it is a single entry; a digit has at most one of them.
//! Where the 64 bits of the hash are used up, a *collision node* holds two or more leaves with equal hashes; its
//! leaf map is their number.
//!
//! # Invariants
//!
//! * **N1** Everything but `count` is written before the node or leaf becomes reachable for another thread, and never
//!   again. (A *private* node, see [`Draft`](super::draft::Draft), is reachable for one thread only.)
//! * **N2** `count` is the number of owners: parents, versions, frozen handles, drafts. What has an owner is
//!   allocated, and so is all it reaches.
//! * **N3** Stamps never rise from parent to child: `stamp(child) <= stamp(parent)`.
//! * **N4** Canonical shape: below the root, every node has at least two entries under it, and a collision node
//!   stands at the last level only. The shape is therefore a function of the set of hashes.

use std::alloc::Layout;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ptr;

use super::memory;
use crate::sync::{AtomicUsize, Mutant, Ordering, mutant};

/// One entry.
pub(crate) struct Leaf<K, V> {
    /// The full hash: keys are compared only where all 64 bits agree.
    pub(crate) hash: u64,
    pub(crate) key: K,
    pub(crate) value: V,
}

/// An entry with an allocation of its own, and its owner count.
#[repr(C)]
struct Boxed<K, V> {
    count: AtomicUsize,
    #[cfg(shuttle)]
    alive: crate::sync::AtomicBool,
    leaf: Leaf<K, V>,
}

/// The largest leaf that lies in its node: a hash and four words.
const IN_NODE: usize = 40;

/// Whether leaves of these types lie in their nodes; the same answer for the same types, always.
///
/// A copy of a node is a copy of its leaves, byte by byte, while other threads read the old ones, and both are used
/// afterwards. That is sound for types that are `Copy`: nothing is dropped twice, and there is no interior mutability
/// (`UnsafeCell` is not `Copy`, nor is anything that contains one). Without specialization a generic type cannot be
/// asked whether it is `Copy`, so this names the types it knows to be.
#[inline(always)]
pub(crate) fn in_node<K, V>() -> bool {
    // The model checker looks at both ways, and tells them apart by the value.
    let modelled = !cfg!(shuttle) || is::<V, u32>();
    modelled
        && size_of::<Leaf<K, V>>() <= IN_NODE
        && align_of::<Leaf<K, V>>() <= align_of::<u64>()
        && is_plain::<K>()
        && is_plain::<V>()
}

/// Whether `T` is one of the primitive types or a `&str`.
#[inline(always)]
fn is_plain<T>() -> bool {
    is::<T, ()>()
        || is::<T, bool>()
        || is::<T, char>()
        || is::<T, u8>()
        || is::<T, u16>()
        || is::<T, u32>()
        || is::<T, u64>()
        || is::<T, usize>()
        || is::<T, i8>()
        || is::<T, i16>()
        || is::<T, i32>()
        || is::<T, i64>()
        || is::<T, isize>()
        || is::<T, f32>()
        || is::<T, f64>()
        || is::<T, &'static str>()
}

/// Whether `T` is `U`, but for lifetimes.
#[inline(always)]
fn is<T, U: 'static>() -> bool {
    use std::any::TypeId;

    /// `TypeId::of` as a method that is not generic, so that it can be called through a trait object.
    trait Named {
        fn id(&self) -> TypeId
        where
            Self: 'static;
    }
    impl<T> Named for PhantomData<T> {
        #[inline(always)]
        fn id(&self) -> TypeId
        where
            Self: 'static,
        {
            TypeId::of::<T>()
        }
    }

    let named: &dyn Named = &PhantomData::<T>;
    // SAFETY: only the lifetime bound of the trait object changes. Lifetimes do not exist when the program runs: the
    // method that is called is the one compiled for `T` with its lifetimes erased. It reads nothing through `self`.
    let named = unsafe { std::mem::transmute::<&dyn Named, &(dyn Named + 'static)>(named) };
    named.id() == TypeId::of::<U>()
}

/// Owner count and stamp; maps and slots follow in the same allocation.
#[repr(C)]
pub(crate) struct Node<K, V, const W: usize> {
    count: AtomicUsize,
    /// Generation of creation, shifted left by one; the lowest bit marks a collision node.
    stamp: u64,
    #[cfg(shuttle)]
    alive: crate::sync::AtomicBool,
    marker: PhantomData<(K, V)>,
}

pub(crate) type NodePtr<K, V, const W: usize> = *mut Node<K, V, W>;
pub(crate) type LeafPtr<K, V> = *mut Leaf<K, V>;
/// A child of either kind; the maps say which.
pub(crate) type Slot = *mut ();

/// Bits of the hash per level.
pub(crate) const fn bits(width: usize) -> u32 {
    width.trailing_zeros()
}

/// The number of levels with a digit; the level of collision nodes.
pub(crate) const fn levels(width: usize) -> usize {
    u64::BITS.div_ceil(bits(width)) as usize
}

/// The most nodes on any path: 22 levels of 8-way nodes and a collision node.
pub(crate) const MAX_PATH: usize = levels(8) + 1;

/// The bit of the digit of `hash` at `level`.
#[inline(always)]
pub(crate) const fn digit_bit(width: usize, hash: u64, level: usize) -> u64 {
    1 << ((hash >> (level as u32 * bits(width))) & (width as u64 - 1))
}

/// How many bits of `map` lie below `bit`.
#[inline(always)]
pub(crate) const fn rank(map: u64, bit: u64) -> usize {
    (map & (bit - 1)).count_ones() as usize
}

/// What happens to one of the two slot arrays while a node is copied.
#[derive(Clone, Copy)]
pub(crate) enum Edit {
    Keep,
    Replace(usize, Slot),
    Insert(usize, Slot),
    Remove(usize),
}

/// The maps of a node and how many slots of each kind it has.
#[derive(Clone, Copy)]
pub(crate) struct Maps {
    pub(crate) nodes: u64,
    /// For a collision node: the number of leaves, not a map.
    pub(crate) leaves: u64,
    pub(crate) collision: bool,
}

impl Maps {
    #[inline(always)]
    pub(crate) const fn node_count(self) -> usize {
        self.nodes.count_ones() as usize
    }

    #[inline(always)]
    pub(crate) const fn leaf_count(self) -> usize {
        if self.collision {
            self.leaves as usize
        } else {
            self.leaves.count_ones() as usize
        }
    }
}

impl<K, V> Boxed<K, V> {
    /// The leaf of a new allocation with one owner.
    fn allocate(leaf: Leaf<K, V>) -> LeafPtr<K, V> {
        #[cfg(shuttle)]
        crate::sync::model::born();
        let this = Box::into_raw(Box::new(Self {
            count: AtomicUsize::new(1),
            #[cfg(shuttle)]
            alive: crate::sync::AtomicBool::new(true),
            leaf,
        }));
        // SAFETY: just allocated. The pointer is made without a reference, so it may be used for the whole allocation.
        unsafe { &raw mut (*this).leaf }
    }

    /// The allocation around a leaf.
    ///
    /// # Safety
    ///
    /// `leaf` was made by [`allocate`](Self::allocate).
    #[inline(always)]
    unsafe fn of(leaf: LeafPtr<K, V>) -> *mut Self {
        // SAFETY: the caller's.
        unsafe { leaf.byte_sub(std::mem::offset_of!(Self, leaf)).cast() }
    }
}

impl<K, V> Leaf<K, V> {
    /// # Safety
    ///
    /// `this` is allocated.
    #[inline]
    pub(crate) unsafe fn check(this: LeafPtr<K, V>) {
        let _ = this;
        #[cfg(shuttle)]
        if !in_node::<K, V>() {
            // SAFETY: the model checker keeps freed memory until the end of the execution.
            crate::sync::model::check(unsafe { &(*Boxed::of(this)).alive }, "leaf");
        }
    }

    /// One more owner, where owners are counted.
    ///
    /// # Safety
    ///
    /// `this` has an owner, and keeps it during the call.
    #[inline]
    pub(crate) unsafe fn retain(this: LeafPtr<K, V>) {
        if in_node::<K, V>() {
            return;
        }
        // SAFETY: it has an owner (N2), so it is allocated.
        unsafe {
            Self::check(this);
            // Relaxed: a claim is only made through another claim, which keeps the object alive meanwhile.
            (*Boxed::of(this)).count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// One owner less; returns whether it was the last one, in which case the caller must [`free`](Self::free) it.
    ///
    /// # Safety
    ///
    /// The caller owns one claim on `this`, and gives it up.
    #[inline]
    unsafe fn give_up(this: LeafPtr<K, V>) -> bool {
        if in_node::<K, V>() {
            return false;
        }
        // SAFETY: the caller's claim keeps it allocated until here.
        unsafe {
            Self::check(this);
            // AcqRel: everything other owners did with the object happens before the last one frees it. (A fence
            // instead of Acquire would be invisible to ThreadSanitizer.)
            (*Boxed::of(this)).count.fetch_sub(1, Ordering::AcqRel) == 1
        }
    }

    /// Gives up a claim that was made by the caller in vain. It is never the last one.
    ///
    /// # Safety
    ///
    /// As for [`release_leaf`], and another owner keeps its claim during the call.
    pub(crate) unsafe fn undo(this: LeafPtr<K, V>) {
        // SAFETY: the caller's.
        let last = unsafe { Self::give_up(this) };
        assert!(!last, "a claim that was made in vain was the last one");
    }

    /// Drops key and value and frees the memory.
    ///
    /// # Safety
    ///
    /// It has an allocation of its own. No owner is left, or `this` was never shared; no thread looks at it any more.
    pub(crate) unsafe fn free(this: LeafPtr<K, V>) {
        debug_assert!(!in_node::<K, V>());
        // SAFETY: the caller's.
        let this = unsafe { Boxed::of(this) };
        #[cfg(shuttle)]
        {
            // SAFETY: allocated until here; the model keeps the memory and drops it at the end.
            crate::sync::model::died(unsafe { &(*this).alive }, "leaf", this as usize, |p| {
                // SAFETY: made by `Box::new` in `allocate`.
                drop(unsafe { Box::from_raw(p as *mut Boxed<K, V>) });
            });
        }
        #[cfg(not(shuttle))]
        // SAFETY: made by `Box::new` in `allocate`, and freed once, by its last owner.
        drop(unsafe { Box::from_raw(this) });
    }
}

/// Gives up a claim on a leaf, and drops the leaf with its last one.
///
/// # Safety
///
/// The caller owns the claim, and no operation can still look at the leaf on the strength of it: a grace period has
/// passed since it was unlinked, or it was the claim of a handle that is gone.
pub(crate) unsafe fn release_leaf<K, V>(leaf: LeafPtr<K, V>) {
    // SAFETY: the caller's; the last owner may free.
    unsafe {
        if Leaf::give_up(leaf) {
            Leaf::free(leaf);
        }
    }
}

impl<K, V, const W: usize> Node<K, V, W> {
    const MAP_WORDS: usize = if W > 32 { 2 } else { 1 };
    const HEADER: usize = size_of::<Self>() + 8 * Self::MAP_WORDS;

    /// How many bytes a leaf takes in its node.
    #[inline(always)]
    fn stride() -> usize {
        if in_node::<K, V>() {
            size_of::<Leaf<K, V>>()
        } else {
            size_of::<Slot>()
        }
    }

    fn layout(nodes: usize, leaves: usize) -> Layout {
        // A node has 64 children at most, or leaves of one hash, whose number the address space keeps far below the
        // point where this would overflow.
        memory::layout(Self::HEADER + nodes * size_of::<Slot>() + leaves * Self::stride())
    }

    /// # Safety
    ///
    /// `this` is allocated.
    #[inline(always)]
    pub(crate) unsafe fn maps(this: NodePtr<K, V, W>) -> Maps {
        #[cfg(shuttle)]
        // SAFETY: the model checker keeps freed memory until the end of the execution.
        crate::sync::model::check(unsafe { &(*this).alive }, "node");
        // SAFETY: the map words follow the header in the same allocation, and never change (N1).
        unsafe {
            let words = this.cast::<u8>().add(size_of::<Self>()).cast::<u64>();
            let first = *words;
            let collision = (*this).stamp & 1 != 0;
            if Self::MAP_WORDS == 2 {
                Maps {
                    nodes: first,
                    leaves: *words.add(1),
                    collision,
                }
            } else if collision {
                Maps {
                    nodes: 0,
                    leaves: first,
                    collision,
                }
            } else {
                Maps {
                    nodes: first & 0xffff_ffff,
                    leaves: first >> 32,
                    collision,
                }
            }
        }
    }

    /// The address of the first slot: child nodes, then leaves.
    ///
    /// # Safety
    ///
    /// `this` is allocated.
    #[inline(always)]
    pub(crate) unsafe fn slots(this: NodePtr<K, V, W>) -> *mut Slot {
        // SAFETY: within the allocation.
        unsafe { this.cast::<u8>().add(Self::HEADER).cast() }
    }

    /// Asks for the lines of the node that hold its child nodes, but for the first.
    #[inline(always)]
    pub(crate) fn prefetch_rest(this: NodePtr<K, V, W>, maps: Maps) {
        let end = Self::HEADER + maps.node_count() * size_of::<Slot>();
        for at in (64..end).step_by(64) {
            super::read::prefetch(this.cast::<u8>().wrapping_add(at));
        }
    }

    /// Child node `index`.
    ///
    /// # Safety
    ///
    /// `this` is allocated and has so many child nodes.
    #[inline(always)]
    pub(crate) unsafe fn child(this: NodePtr<K, V, W>, index: usize) -> NodePtr<K, V, W> {
        // SAFETY: the caller's; slots below the node count hold nodes.
        unsafe { (*Self::slots(this).add(index)).cast() }
    }

    /// Where leaf `index`, or the pointer to it, is stored: behind the child nodes.
    ///
    /// # Safety
    ///
    /// `this` is allocated, has these maps and at least so many leaves.
    #[inline(always)]
    pub(crate) unsafe fn leaf_place(this: NodePtr<K, V, W>, maps: Maps, index: usize) -> *mut Slot {
        // SAFETY: the caller's.
        unsafe {
            Self::slots(this)
                .add(maps.node_count())
                .byte_add(index * Self::stride())
        }
    }

    /// The leaf at a place that [`leaf_place`](Self::leaf_place) named.
    ///
    /// # Safety
    ///
    /// There is a leaf.
    #[inline(always)]
    pub(crate) unsafe fn leaf_at(place: *mut Slot) -> LeafPtr<K, V> {
        if in_node::<K, V>() {
            place.cast()
        } else {
            // SAFETY: the caller's.
            unsafe { (*place).cast() }
        }
    }

    /// Leaf `index`.
    ///
    /// # Safety
    ///
    /// `this` is allocated, has these maps and more leaves than that.
    #[inline(always)]
    pub(crate) unsafe fn leaf(this: NodePtr<K, V, W>, maps: Maps, index: usize) -> LeafPtr<K, V> {
        // SAFETY: the caller's.
        unsafe { Self::leaf_at(Self::leaf_place(this, maps, index)) }
    }

    /// Stores a leaf, or the pointer to it, at its place in a node.
    ///
    /// # Safety
    ///
    /// `place` is that of a leaf, of a node that is reachable for the calling thread only; `leaf` is a leaf.
    #[inline(always)]
    unsafe fn store_leaf(place: *mut Slot, leaf: LeafPtr<K, V>) {
        // SAFETY: the caller's. The copy of a leaf is a leaf where leaves lie in nodes (see `in_node`).
        unsafe {
            if in_node::<K, V>() {
                ptr::copy_nonoverlapping(leaf, place.cast(), 1);
            } else {
                *place = leaf.cast();
            }
        }
    }

    /// # Safety
    ///
    /// `this` is allocated.
    #[inline]
    pub(crate) unsafe fn generation(this: NodePtr<K, V, W>) -> u64 {
        // SAFETY: the caller's; never changes (N1).
        unsafe { (*this).stamp >> 1 }
    }

    /// A node with one owner whose slots are not filled in yet.
    fn allocate(generation: u64, maps: Maps) -> NodePtr<K, V, W> {
        let layout = Self::layout(maps.node_count(), maps.leaf_count());
        #[cfg(shuttle)]
        crate::sync::model::born();
        // SAFETY: header and map words lie within the layout.
        unsafe {
            let this: NodePtr<K, V, W> = memory::allocate(layout).cast();
            this.write(Self {
                count: AtomicUsize::new(1),
                stamp: generation << 1 | u64::from(maps.collision),
                #[cfg(shuttle)]
                alive: crate::sync::AtomicBool::new(true),
                marker: PhantomData,
            });
            let words = this.cast::<u8>().add(size_of::<Self>()).cast::<u64>();
            if Self::MAP_WORDS == 2 {
                *words = maps.nodes;
                *words.add(1) = maps.leaves;
            } else {
                *words = if maps.collision {
                    maps.leaves
                } else {
                    maps.nodes | maps.leaves << 32
                };
            }
            this
        }
    }

    /// A node over one leaf: the root of a map of one entry.
    ///
    /// # Safety
    ///
    /// `leaf` is a leaf.
    pub(crate) unsafe fn single(
        generation: u64,
        bit: u64,
        leaf: LeafPtr<K, V>,
    ) -> NodePtr<K, V, W> {
        let maps = Maps {
            nodes: 0,
            leaves: bit,
            collision: false,
        };
        let this = Self::allocate(generation, maps);
        // SAFETY: room for one leaf was allocated.
        unsafe { Self::store_leaf(Self::leaf_place(this, maps, 0), leaf) };
        this
    }

    /// The smallest subtree at `level` over two leaves: a chain down to the first digit in which they differ, or to
    /// a collision node. Takes over one claim on each leaf.
    ///
    /// # Safety
    ///
    /// Both leaves are allocated, and their hashes agree in the digits above `level`.
    pub(crate) unsafe fn pair(
        generation: u64,
        level: usize,
        first: LeafPtr<K, V>,
        second: LeafPtr<K, V>,
    ) -> NodePtr<K, V, W> {
        // SAFETY: the caller's.
        let (a, b) = unsafe { ((*first).hash, (*second).hash) };
        let mut bottom = level;
        while bottom < levels(W) && digit_bit(W, a, bottom) == digit_bit(W, b, bottom) {
            bottom += 1;
        }
        let (maps, swap) = if bottom == levels(W) {
            (
                Maps {
                    nodes: 0,
                    leaves: 2,
                    collision: true,
                },
                false,
            )
        } else {
            let (x, y) = (digit_bit(W, a, bottom), digit_bit(W, b, bottom));
            (
                Maps {
                    nodes: 0,
                    leaves: x | y,
                    collision: false,
                },
                x > y,
            )
        };
        let mut top = Self::allocate(generation, maps);
        let (first, second) = if swap {
            (second, first)
        } else {
            (first, second)
        };
        // SAFETY: room for two leaves was allocated.
        unsafe {
            Self::store_leaf(Self::leaf_place(top, maps, 0), first);
            Self::store_leaf(Self::leaf_place(top, maps, 1), second);
        }
        for above in (level..bottom).rev() {
            let maps = Maps {
                nodes: digit_bit(W, a, above),
                leaves: 0,
                collision: false,
            };
            let node = Self::allocate(generation, maps);
            // SAFETY: one slot was allocated.
            unsafe { *Self::slots(node) = top.cast() };
            top = node;
        }
        top
    }

    /// A copy of `this` with new maps and one change in either slot array. No count is touched.
    ///
    /// # Safety
    ///
    /// `this` is allocated; the edits fit its arrays, and `maps` describes the result.
    pub(crate) unsafe fn edited(
        this: NodePtr<K, V, W>,
        generation: u64,
        maps: Maps,
        nodes: Edit,
        leaves: Edit,
    ) -> NodePtr<K, V, W> {
        /// Copies `count` children of `unit` bytes each, changed by `edit`; `store` puts a new child into its place.
        ///
        /// # Safety
        ///
        /// `from` holds `count` children, `to` has room for as many as the edit leaves.
        #[inline(always)]
        unsafe fn copy(
            from: *const Slot,
            count: usize,
            to: *mut Slot,
            unit: usize,
            edit: Edit,
            store: impl FnOnce(*mut Slot, Slot),
        ) {
            let (from, to) = (from.cast::<u8>(), to.cast::<u8>());
            // SAFETY: each branch reads [0, count) and writes exactly the children of the result.
            unsafe {
                match edit {
                    Edit::Keep => ptr::copy_nonoverlapping(from, to, count * unit),
                    Edit::Replace(at, slot) => {
                        ptr::copy_nonoverlapping(from, to, count * unit);
                        store(to.add(at * unit).cast(), slot);
                    }
                    Edit::Insert(at, slot) => {
                        ptr::copy_nonoverlapping(from, to, at * unit);
                        store(to.add(at * unit).cast(), slot);
                        let (rest, after) = (from.add(at * unit), to.add((at + 1) * unit));
                        ptr::copy_nonoverlapping(rest, after, (count - at) * unit);
                    }
                    Edit::Remove(at) => {
                        ptr::copy_nonoverlapping(from, to, at * unit);
                        let (rest, after) = (from.add((at + 1) * unit), to.add(at * unit));
                        ptr::copy_nonoverlapping(rest, after, (count - at - 1) * unit);
                    }
                }
            }
        }
        let copied = Self::allocate(generation, maps);
        // SAFETY: the caller's; the new node was allocated for `maps`. A leaf is given as the pointer to it.
        unsafe {
            let old = Self::maps(this);
            copy(
                Self::slots(this),
                old.node_count(),
                Self::slots(copied),
                size_of::<Slot>(),
                nodes,
                |place, child| *place = child,
            );
            copy(
                Self::leaf_place(this, old, 0),
                old.leaf_count(),
                Self::leaf_place(copied, maps, 0),
                Self::stride(),
                leaves,
                |place, leaf| Self::store_leaf(place, leaf.cast()),
            );
        }
        copied
    }

    /// Overwrites one leaf of a private node.
    ///
    /// # Safety
    ///
    /// `this` is allocated, has that leaf, and is reachable for the calling thread only; `leaf` is another one.
    pub(crate) unsafe fn set_leaf(this: NodePtr<K, V, W>, index: usize, leaf: LeafPtr<K, V>) {
        // SAFETY: the caller's.
        unsafe { Self::store_leaf(Self::leaf_place(this, Self::maps(this), index), leaf) };
    }

    /// One more owner.
    ///
    /// # Safety
    ///
    /// `this` has an owner, and keeps it during the call.
    #[inline]
    pub(crate) unsafe fn retain(this: NodePtr<K, V, W>) {
        // SAFETY: it has an owner (N2), so it is allocated.
        unsafe {
            let _ = Self::maps(this);
            // Relaxed: as for leaves.
            (*this).count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// As [`Leaf::give_up`].
    ///
    /// # Safety
    ///
    /// The caller owns one claim on `this`, and gives it up.
    #[inline]
    unsafe fn give_up(this: NodePtr<K, V, W>) -> bool {
        // SAFETY: the caller's claim keeps it allocated until here. Ordering: as for leaves.
        unsafe {
            let _ = Self::maps(this);
            (*this).count.fetch_sub(1, Ordering::AcqRel) == 1
        }
    }

    /// As [`Leaf::undo`].
    ///
    /// # Safety
    ///
    /// As for [`Leaf::undo`].
    pub(crate) unsafe fn undo(this: NodePtr<K, V, W>) {
        // SAFETY: the caller's.
        let last = unsafe { Self::give_up(this) };
        assert!(!last, "a claim that was made in vain was the last one");
    }

    /// Calls `node` or `leaf` for every child that is claimed, but for `skip`: not for leaves in the node itself.
    ///
    /// # Safety
    ///
    /// `this` is allocated.
    pub(crate) unsafe fn each_child_but(
        this: NodePtr<K, V, W>,
        skip: Slot,
        mut node: impl FnMut(NodePtr<K, V, W>),
        mut leaf: impl FnMut(LeafPtr<K, V>),
    ) {
        // SAFETY: the caller's; indices below the counts.
        unsafe {
            let maps = Self::maps(this);
            for index in 0..maps.node_count() {
                let child = Self::child(this, index);
                if child.cast() != skip {
                    node(child);
                }
            }
            if in_node::<K, V>() {
                return;
            }
            for index in 0..maps.leaf_count() {
                let child = Self::leaf(this, maps, index);
                if child.cast() != skip {
                    leaf(child);
                }
            }
        }
    }

    /// Claims every child but `skip` for a copy of this node.
    ///
    /// # Safety
    ///
    /// `this` has an owner during the call.
    pub(crate) unsafe fn retain_children_but(this: NodePtr<K, V, W>, skip: Slot) {
        if mutant(Mutant::RetainMissing) {
            return;
        }
        // SAFETY: children of an owned node have an owner.
        unsafe { Self::each_child_but(this, skip, |n| Self::retain(n), |l| Leaf::retain(l)) };
    }

    /// Takes back what [`retain_children_but`](Self::retain_children_but) did.
    ///
    /// # Safety
    ///
    /// It was done, the copy is gone, and `this` still has an owner.
    pub(crate) unsafe fn undo_children_but(this: NodePtr<K, V, W>, skip: Slot) {
        if mutant(Mutant::RetainMissing) || mutant(Mutant::UndoForgotten) {
            return;
        }
        // SAFETY: `this` is owned and claims its children, so these claims are not the last.
        unsafe { Self::each_child_but(this, skip, |n| Self::undo(n), |l| Leaf::undo(l)) };
    }

    /// Frees the node alone; its claims have passed to someone else.
    ///
    /// # Safety
    ///
    /// No thread looks at it any more, and no owner is left.
    pub(crate) unsafe fn free_shallow(this: NodePtr<K, V, W>) {
        #[cfg(shuttle)]
        {
            // SAFETY: allocated until here; the model keeps the memory until the end.
            crate::sync::model::died(unsafe { &(*this).alive }, "node", this as usize, |p| {
                // SAFETY: as below.
                unsafe { Self::deallocate(p as NodePtr<K, V, W>) };
            });
        }
        #[cfg(not(shuttle))]
        // SAFETY: the caller's.
        unsafe {
            Self::deallocate(this);
        }
    }

    /// # Safety
    ///
    /// As for [`free_shallow`](Self::free_shallow).
    unsafe fn deallocate(this: NodePtr<K, V, W>) {
        // SAFETY: the layout is a function of the maps, which never change.
        unsafe {
            let words = this.cast::<u8>().add(size_of::<Self>()).cast::<u64>();
            let collision = (*this).stamp & 1 != 0;
            let (nodes, leaves) = if Self::MAP_WORDS == 2 {
                (*words, *words.add(1))
            } else if collision {
                (0, *words)
            } else {
                (*words & 0xffff_ffff, *words >> 32)
            };
            let maps = Maps {
                nodes,
                leaves,
                collision,
            };
            ptr::drop_in_place(this);
            memory::free(
                this.cast(),
                Self::layout(maps.node_count(), maps.leaf_count()),
            );
        }
    }
}

/// Gives up a claim on a subtree, and frees with their last owners its nodes and leaves: iteratively, whatever the
/// depth. Runs `Drop` of keys and values; where one panics the rest is still freed.
///
/// # Safety
///
/// As for [`release_leaf`].
pub(crate) unsafe fn release_node<K, V, const W: usize>(node: NodePtr<K, V, W>) {
    /// Nodes and leaves without an owner, still to be freed.
    struct Cascade<K, V, const W: usize> {
        nodes: Vec<NodePtr<K, V, W>>,
        leaves: Vec<LeafPtr<K, V>>,
    }

    impl<K, V, const W: usize> Cascade<K, V, W> {
        fn run(&mut self) {
            loop {
                while let Some(leaf) = self.leaves.pop() {
                    // SAFETY: popped once; without an owner; nobody looks at it (the caller of `release_node`).
                    unsafe { Leaf::free(leaf) };
                }
                let Some(node) = self.nodes.pop() else { return };
                let Self { nodes, leaves } = self;
                // SAFETY: as above; the node's claims on its children are given up with it. Whoever could look at a
                // child had it through an owner whose own release was put off beyond that operation, so no second
                // grace period is due.
                unsafe {
                    Node::each_child_but(
                        node,
                        ptr::null_mut(),
                        |child| {
                            if Node::give_up(child) {
                                nodes.push(child);
                            }
                        },
                        |leaf| {
                            if Leaf::give_up(leaf) {
                                leaves.push(leaf);
                            }
                        },
                    );
                    Node::free_shallow(node);
                }
            }
        }
    }

    impl<K, V, const W: usize> Drop for Cascade<K, V, W> {
        fn drop(&mut self) {
            // Only finds work while a panic of a key's or value's `Drop` unwinds.
            self.run();
        }
    }

    // SAFETY: the caller's.
    if unsafe { Node::give_up(node) } {
        Cascade {
            nodes: vec![node],
            leaves: Vec::new(),
        }
        .run();
    }
}

/// A leaf that is not in any trie yet; dropped with it unless it gets there.
pub(crate) struct Fresh<K, V> {
    /// The leaf, where leaves lie in nodes.
    room: MaybeUninit<[u64; IN_NODE / 8]>,
    /// The leaf otherwise; null when it was given away.
    boxed: LeafPtr<K, V>,
}

impl<K, V> Fresh<K, V> {
    pub(crate) fn new(hash: u64, key: K, value: V) -> Self {
        let leaf = Leaf { hash, key, value };
        let mut room = MaybeUninit::<[u64; IN_NODE / 8]>::uninit();
        let mut boxed = ptr::null_mut();
        if in_node::<K, V>() {
            // SAFETY: size and alignment of the leaf are at most those of the room.
            unsafe { room.as_mut_ptr().cast::<Leaf<K, V>>().write(leaf) };
        } else {
            boxed = Boxed::allocate(leaf);
        }
        Self { room, boxed }
    }

    /// The leaf, to be read; valid until `self` is moved.
    pub(crate) fn as_ptr(&self) -> LeafPtr<K, V> {
        if in_node::<K, V>() {
            self.room.as_ptr().cast::<Leaf<K, V>>().cast_mut()
        } else {
            self.boxed
        }
    }

    pub(crate) fn key(&self) -> &K {
        // SAFETY: owned by `self`, and not shared.
        unsafe { &(*self.as_ptr()).key }
    }

    pub(crate) fn value(&self) -> &V {
        // SAFETY: owned by `self`, and not shared.
        unsafe { &(*self.as_ptr()).value }
    }

    pub(crate) fn value_mut(&mut self) -> &mut V {
        let leaf = if in_node::<K, V>() {
            self.room.as_mut_ptr().cast::<Leaf<K, V>>()
        } else {
            self.boxed
        };
        // SAFETY: owned by `self`, not shared, borrowed exclusively.
        unsafe { &mut (*leaf).value }
    }

    /// Gives the leaf away, with its one claim; returns where it is, as [`as_ptr`](Self::as_ptr).
    pub(crate) fn give_away(&mut self) -> LeafPtr<K, V> {
        if in_node::<K, V>() {
            self.as_ptr()
        } else {
            std::mem::replace(&mut self.boxed, ptr::null_mut())
        }
    }
}

impl<K, V> Drop for Fresh<K, V> {
    fn drop(&mut self) {
        // A leaf in the room needs no drop: see `in_node`.
        if !self.boxed.is_null() {
            // SAFETY: never shared: an attempt that offered it to others and failed has withdrawn it before anyone
            // could have reached it.
            unsafe { Leaf::free(self.boxed) };
        }
    }
}
