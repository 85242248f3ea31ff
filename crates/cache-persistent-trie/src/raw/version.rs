//! Versions: what a root cell points to; and what is freed with them. Never how they are published.

use std::alloc::Layout;
use std::cell::UnsafeCell;
use std::ptr;

use super::memory;
use super::node::{Leaf, LeafPtr, Node, NodePtr, digit_bit, rank, release_leaf, release_node};
use crate::sync::{AtomicU8, Ordering};

/// Visible, and whether it counts is not decided yet.
pub(crate) const TENTATIVE: u8 = 0;
/// Decided: it counts.
pub(crate) const COMMITTED: u8 = 1;
/// Decided: it never counted; the cell goes back to the version before.
pub(crate) const ABORTED: u8 = 2;

/// One state of one trie: root node, length and generation, published together by one compare-and-swap.
///
/// Everything up to `garbage` is immutable but for `state`. While it is the newest committed version of a cell, the
/// version owns one claim on `node`.
pub(crate) struct Version<K, V, const W: usize> {
    /// The root, or null for an empty trie.
    pub(crate) node: NodePtr<K, V, W>,
    pub(crate) len: usize,
    /// [`TENTATIVE`], [`COMMITTED`] or [`ABORTED`].
    pub(crate) state: AtomicU8,
    /// Nodes stamped `base` or later are exclusive: no snapshot was taken since they were made.
    pub(crate) base: u64,
    /// The stamp of nodes made now; at least `base`, and at least that of every node of the trie.
    pub(crate) generation: u64,
    /// The clock of the whole map when this version was offered (partitioned maps only).
    pub(crate) epoch: u64,
    /// The version it replaces. Valid for a thread that is pinned since before this version left its cell undecided
    /// or aborted; not followed otherwise.
    pub(crate) previous: *mut Version<K, V, W>,
    /// The newest version of an earlier epoch. Followed only by a thread that is pinned since before that epoch ended.
    pub(crate) older: *mut Version<K, V, W>,
    #[cfg(shuttle)]
    alive: crate::sync::AtomicBool,
    /// Written by the thread that replaced this version, read by the one that frees it.
    garbage: UnsafeCell<Garbage<K, V, W>>,
    /// Links of the limbo list; owned like `garbage`.
    pub(super) next: UnsafeCell<*mut Version<K, V, W>>,
    pub(super) pending: UnsafeCell<usize>,
}

/// One claim that the live trie gives up.
pub(crate) enum Claim<K, V, const W: usize> {
    None,
    Node(NodePtr<K, V, W>),
    Leaf(LeafPtr<K, V>),
}

/// What became unreachable when a version was replaced.
///
/// The exclusive nodes of a copied path are not listed: nodes are immutable, so the path is found again from the
/// root by the hash that was written, when the grace period is over.
pub(crate) struct Garbage<K, V, const W: usize> {
    /// How many nodes of the path of `hash`, from the root, are freed without their children.
    pub(crate) path: usize,
    pub(crate) hash: u64,
    /// The one claim that is given up: the topmost shared node of the path, or the leaf that was replaced.
    pub(crate) claim: Claim<K, V, W>,
}

impl<K, V, const W: usize> Garbage<K, V, W> {
    pub(crate) const NONE: Self = Self {
        path: 0,
        hash: 0,
        claim: Claim::None,
    };

    /// Only the claim on a whole trie.
    pub(crate) fn trie(node: NodePtr<K, V, W>) -> Self {
        let claim = if node.is_null() {
            Claim::None
        } else {
            Claim::Node(node)
        };
        Self {
            claim,
            ..Self::NONE
        }
    }
}

impl<K, V, const W: usize> Version<K, V, W> {
    /// A version of its own.
    pub(crate) fn new(node: NodePtr<K, V, W>, len: usize, base: u64, generation: u64) -> *mut Self {
        #[cfg(shuttle)]
        crate::sync::model::born();
        let this: *mut Self = memory::allocate(Self::layout()).cast();
        let version = Self {
            node,
            len,
            state: AtomicU8::new(COMMITTED),
            base,
            generation,
            epoch: 0,
            previous: ptr::null_mut(),
            older: ptr::null_mut(),
            #[cfg(shuttle)]
            alive: crate::sync::AtomicBool::new(true),
            garbage: UnsafeCell::new(Garbage::NONE),
            next: UnsafeCell::new(ptr::null_mut()),
            pending: UnsafeCell::new(0),
        };
        // SAFETY: just allocated with the layout of a version.
        unsafe { this.write(version) };
        this
    }

    fn layout() -> Layout {
        const { assert!(align_of::<Self>() <= 16) };
        memory::layout(size_of::<Self>())
    }

    /// Shared access.
    ///
    /// # Safety
    ///
    /// `this` stays allocated for `'a`: the caller is pinned since before it loaded the pointer from its cell (or from
    /// a field whose documentation allows it), or owns the cell.
    #[inline(always)]
    pub(crate) unsafe fn get<'a>(this: *mut Self) -> &'a Self {
        #[cfg(shuttle)]
        // SAFETY: the model checker keeps freed memory until the end of the execution.
        crate::sync::model::check(unsafe { &(*this).alive }, "version");
        // SAFETY: the caller's; the fields that change are atomics and cells.
        unsafe { &*this }
    }

    /// Whether it is decided that this version counts.
    #[inline(always)]
    pub(crate) fn is_committed(&self) -> bool {
        // Acquire: with the decision, everything that happened before it.
        self.state.load(Ordering::Acquire) == COMMITTED
    }

    /// Notes what is to be freed with this version.
    ///
    /// # Safety
    ///
    /// The caller is the thread that replaced this version, and has not retired it yet.
    pub(crate) unsafe fn set_garbage(&self, garbage: Garbage<K, V, W>) {
        // SAFETY: exclusively the caller's until it retires the version.
        unsafe { *self.garbage.get() = garbage };
    }

    /// Frees the version and what its replacement made unreachable. Runs `Drop` of keys and values.
    ///
    /// # Safety
    ///
    /// The version was retired once, no operation can look at it or at its garbage any more.
    pub(crate) unsafe fn free(this: *mut Self) {
        // SAFETY: exclusive by now.
        let garbage = unsafe {
            let garbage = (*this).garbage.get().replace(Garbage::NONE);
            let mut node = (*this).node;
            for level in 0..garbage.path {
                // The last node of the path may have no child there; it is not followed.
                let next = if level + 1 < garbage.path {
                    let bit = digit_bit(W, garbage.hash, level);
                    Node::child(node, rank(Node::maps(node).nodes, bit))
                } else {
                    ptr::null_mut()
                };
                Node::free_shallow(node);
                node = next;
            }
            Self::deallocate(this);
            garbage
        };
        // User code runs last, so that a panic in it leaves nothing behind.
        // SAFETY: the claim was the live trie's, and its grace period is over.
        unsafe {
            match garbage.claim {
                Claim::None => {}
                Claim::Node(node) => release_node(node),
                Claim::Leaf(leaf) => release_leaf(leaf),
            }
        }
    }

    /// Frees the version alone.
    ///
    /// # Safety
    ///
    /// No thread looks at it any more.
    pub(crate) unsafe fn deallocate(this: *mut Self) {
        #[cfg(shuttle)]
        {
            // SAFETY: allocated until here; the model keeps the memory until the end.
            crate::sync::model::died(unsafe { &(*this).alive }, "version", this as usize, |p| {
                // SAFETY: as below.
                unsafe { Self::give_back(p as *mut Self) };
            });
        }
        #[cfg(not(shuttle))]
        // SAFETY: the caller's.
        unsafe {
            Self::give_back(this);
        }
    }

    /// # Safety
    ///
    /// As for [`deallocate`](Self::deallocate).
    unsafe fn give_back(this: *mut Self) {
        // SAFETY: made in `new`.
        unsafe {
            ptr::drop_in_place(this);
            memory::free(this.cast(), Self::layout());
        }
    }
}

/// Gives up the claim on a trie that may be empty.
///
/// # Safety
///
/// As for [`release_node`].
pub(crate) unsafe fn release_trie<K, V, const W: usize>(node: NodePtr<K, V, W>) {
    if !node.is_null() {
        // SAFETY: the caller's.
        unsafe { release_node(node) };
    }
}

/// One more claim on a trie that may be empty.
///
/// # Safety
///
/// It has an owner during the call.
pub(crate) unsafe fn retain_trie<K, V, const W: usize>(node: NodePtr<K, V, W>) {
    if !node.is_null() {
        // SAFETY: the caller's.
        unsafe { Node::retain(node) };
    }
}

const _: () = {
    // A version must stay a small part of what a write allocates.
    assert!(size_of::<Version<u64, u64, 64>>() <= 136 || cfg!(shuttle));
    assert!(size_of::<Leaf<(), ()>>() <= 16 || cfg!(shuttle));
};
