//! One write: the path down, the copied path, its repair after a lost race, its withdrawal. Never publication.
//!
//! # What a write does with counts
//!
//! Along a path from the root, exclusive nodes (stamp at or above the version's `base`) come first, shared ones after
//! (N3). An exclusive node is *moved*: its copy takes over its claims bit by bit, and the node alone is freed once the
//! write is published and its grace period over; no count is touched. A shared node is *copied*: the copy claims each
//! child for itself before it is published. The live trie then gives up exactly one claim: that on the topmost shared
//! node, or, where there is none, that on the replaced leaf.
//!
//! Why an exclusive node is exclusive: a second owner of anything below a root comes from a snapshot only, and a
//! snapshot publishes a version with a higher `base` (or, in a partitioned map, makes every later commit of this
//! generation fail). A write that saw the old `base` then does not get published. So "stamp at or above base" and
//! "published" together say that nobody else held the node from the descent to the publication.

use std::mem::MaybeUninit;
use std::ptr;

use super::node::{
    Edit, Fresh, Leaf, LeafPtr, MAX_PATH, Maps, Node, NodePtr, Slot, digit_bit, in_node, levels,
    rank,
};
use super::read::prefetch;
use super::version::{Claim, Garbage};
use crate::sync::{Mutant, mutant};

/// A node on the way down, and what it turns into.
struct Step<K, V, const W: usize> {
    old: NodePtr<K, V, W>,
    /// The child that the copy does not take over from `old`: the next node of the path, the replaced leaf, or null.
    skip: Slot,
    outcome: Outcome<K, V, W>,
}

/// What stands in the place of a node after the write.
enum Outcome<K, V, const W: usize> {
    Node(NodePtr<K, V, W>),
    /// The only entry left under it.
    Leaf(LeafPtr<K, V>),
    Nothing,
}

/// What the way down ended at.
enum End<K, V> {
    /// The trie is empty.
    Empty,
    /// No child for the digit.
    Vacant,
    /// A leaf with the key; its index among the leaves of the last node.
    Found(LeafPtr<K, V>, usize),
    /// A leaf with another key, at that index.
    Other(LeafPtr<K, V>, usize),
    /// A collision node without the key.
    Collision,
}

// Derived impls would ask for `K: Copy` and `V: Copy`.
impl<K, V, const W: usize> Clone for Outcome<K, V, W> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<K, V, const W: usize> Copy for Outcome<K, V, W> {}

/// One attempt of one write.
pub(crate) struct Path<K, V, const W: usize> {
    steps: [MaybeUninit<Step<K, V, W>>; MAX_PATH],
    depth: usize,
    hash: u64,
    end: End<K, V>,
    base: u64,
    generation: u64,
    /// The subtree made for two leaves that met, or null.
    pair: NodePtr<K, V, W>,
    root: NodePtr<K, V, W>,
    /// By how much the length changes.
    growth: isize,
}

impl<K, V, const W: usize> Path<K, V, W> {
    pub(crate) fn new(hash: u64) -> Self {
        Self {
            steps: [const { MaybeUninit::uninit() }; MAX_PATH],
            depth: 0,
            hash,
            end: End::Empty,
            base: 0,
            generation: 0,
            pair: ptr::null_mut(),
            root: ptr::null_mut(),
            growth: 0,
        }
    }

    fn step(&self, level: usize) -> &Step<K, V, W> {
        debug_assert!(level < self.depth);
        // SAFETY: steps below `depth` were written by `descend`.
        unsafe { self.steps[level].assume_init_ref() }
    }

    fn step_mut(&mut self, level: usize) -> &mut Step<K, V, W> {
        debug_assert!(level < self.depth);
        // SAFETY: as above.
        unsafe { self.steps[level].assume_init_mut() }
    }

    /// The base that exclusive nodes are judged by; a version with another base makes this path worthless.
    pub(crate) fn base(&self) -> u64 {
        self.base
    }

    pub(crate) fn root(&self) -> NodePtr<K, V, W> {
        self.root
    }

    pub(crate) fn growth(&self) -> isize {
        self.growth
    }

    /// The entry that the write replaces or removes, if it has found the key.
    pub(crate) fn found(&self) -> Option<LeafPtr<K, V>> {
        match self.end {
            End::Found(leaf, _) => Some(leaf),
            _ => None,
        }
    }

    fn shared(&self, node: NodePtr<K, V, W>) -> bool {
        if mutant(Mutant::SharedNodeRetired) {
            return false;
        }
        // SAFETY: reached under the guard of the attempt.
        unsafe { Node::generation(node) < self.base }
    }

    /// Walks from `root` towards the hash, noting the nodes passed. Runs `Eq` of the keys.
    ///
    /// # Safety
    ///
    /// `root` is the root of a version that the caller may look at for as long as it uses this path.
    pub(crate) unsafe fn descend(
        &mut self,
        root: NodePtr<K, V, W>,
        base: u64,
        generation: u64,
        matches: impl Fn(&K) -> bool,
    ) {
        self.base = base;
        self.generation = generation;
        self.depth = 0;
        self.pair = ptr::null_mut();
        self.end = End::Empty;
        let mut node = root;
        // SAFETY: all nodes and leaves reached have an owner that keeps its claim while the caller looks.
        unsafe {
            while !node.is_null() {
                let level = self.depth;
                let maps = Node::maps(node);
                let mut skip: Slot = ptr::null_mut();
                let mut next = ptr::null_mut();
                if level == levels(W) {
                    self.end = End::Collision;
                    for index in 0..maps.leaf_count() {
                        let leaf = Node::leaf(node, maps, index);
                        if matches(&(*leaf).key) {
                            self.end = End::Found(leaf, index);
                            break;
                        }
                    }
                } else {
                    let bit = digit_bit(W, self.hash, level);
                    if maps.nodes & bit != 0 {
                        next = Node::child(node, rank(maps.nodes, bit));
                        skip = next.cast();
                        // The rest of this node is copied later: asked for now, it comes while the next one does.
                        Node::prefetch_rest(node, maps);
                        // As in `read::walk`.
                        prefetch(next.cast::<u8>().wrapping_add(64));
                        if in_node::<K, V>() {
                            prefetch(next.cast::<u8>().wrapping_add(128));
                        }
                    } else if maps.leaves & bit != 0 {
                        let index = rank(maps.leaves, bit);
                        let leaf = Node::leaf(node, maps, index);
                        Leaf::check(leaf);
                        let same = (*leaf).hash == self.hash && matches(&(*leaf).key);
                        self.end = if same {
                            End::Found(leaf, index)
                        } else {
                            End::Other(leaf, index)
                        };
                    } else {
                        self.end = End::Vacant;
                    }
                }
                self.steps[level].write(Step {
                    old: node,
                    skip,
                    outcome: Outcome::Nothing,
                });
                self.depth += 1;
                node = next;
            }
        }
    }

    /// Builds the path anew with `leaf` in the place of the key's entry.
    ///
    /// # Safety
    ///
    /// `descend` came before, and its root may still be looked at; `leaf` has this hash and a claim to give away,
    /// which it gives away only when the path is published.
    pub(crate) unsafe fn put(&mut self, leaf: LeafPtr<K, V>) {
        let (hash, generation) = (self.hash, self.generation);
        self.growth = isize::from(self.found().is_none());
        let Some(last) = self.depth.checked_sub(1) else {
            // SAFETY: the caller's.
            self.root = unsafe { Node::single(generation, digit_bit(W, hash, 0), leaf) };
            return;
        };
        let old = self.step(last).old;
        // SAFETY: `old` is on the path; edits and maps are made for its maps.
        let (made, skip) = unsafe {
            let maps = Node::maps(old);
            match self.end {
                End::Found(found, index) => {
                    let edit = Edit::Replace(index, leaf.cast());
                    (
                        Node::edited(old, generation, maps, Edit::Keep, edit),
                        found.cast(),
                    )
                }
                End::Vacant => {
                    let bit = digit_bit(W, hash, last);
                    let edit = Edit::Insert(rank(maps.leaves, bit), leaf.cast());
                    let grown = Maps {
                        leaves: maps.leaves | bit,
                        ..maps
                    };
                    (
                        Node::edited(old, generation, grown, Edit::Keep, edit),
                        ptr::null_mut(),
                    )
                }
                End::Other(other, index) => {
                    let bit = digit_bit(W, hash, last);
                    self.pair = Node::pair(generation, last + 1, other, leaf);
                    let nodes = Edit::Insert(rank(maps.nodes, bit), self.pair.cast());
                    let split = Maps {
                        nodes: maps.nodes | bit,
                        leaves: maps.leaves & !bit,
                        ..maps
                    };
                    (
                        Node::edited(old, generation, split, nodes, Edit::Remove(index)),
                        ptr::null_mut(),
                    )
                }
                End::Collision => {
                    let edit = Edit::Insert(maps.leaf_count(), leaf.cast());
                    let grown = Maps {
                        leaves: maps.leaves + 1,
                        ..maps
                    };
                    (
                        Node::edited(old, generation, grown, Edit::Keep, edit),
                        ptr::null_mut(),
                    )
                }
                End::Empty => unreachable!("an empty trie has no path"),
            }
        };
        // SAFETY: `old` is owned while the caller may look at it.
        unsafe { self.finish(last, Outcome::Node(made), skip) };
    }

    /// Builds the path anew without the entry found.
    ///
    /// # Safety
    ///
    /// `descend` came before and found the key, and its root may still be looked at.
    pub(crate) unsafe fn remove(&mut self) {
        let End::Found(found, index) = self.end else {
            unreachable!("nothing to remove")
        };
        self.growth = -1;
        let last = self.depth - 1;
        let old = self.step(last).old;
        // SAFETY: `old` is on the path; edits and maps are made for its maps.
        let outcome = unsafe {
            let maps = Node::maps(old);
            match (maps.node_count(), maps.leaf_count()) {
                (0, 1) => Outcome::Nothing,
                (0, 2) if last > 0 && !mutant(Mutant::NoCollapse) => {
                    Outcome::Leaf(Node::leaf(old, maps, 1 - index))
                }
                _ => {
                    let leaves = match maps.collision {
                        true => maps.leaves - 1,
                        false => maps.leaves & !digit_bit(W, self.hash, last),
                    };
                    let rest = Maps { leaves, ..maps };
                    Outcome::Node(Node::edited(
                        old,
                        self.generation,
                        rest,
                        Edit::Keep,
                        Edit::Remove(index),
                    ))
                }
            }
        };
        // SAFETY: `old` is owned while the caller may look at it.
        unsafe { self.finish(last, outcome, found.cast()) };
    }

    /// Notes the outcome of the last step, claims what it shares, and carries it up to the root.
    ///
    /// # Safety
    ///
    /// As for [`put`](Self::put).
    unsafe fn finish(&mut self, last: usize, outcome: Outcome<K, V, W>, skip: Slot) {
        let step = self.step_mut(last);
        step.outcome = outcome;
        step.skip = skip;
        let old = step.old;
        if self.shared(old) {
            // SAFETY: `old` is owned.
            unsafe { Node::retain_children_but(old, skip) };
        }
        // SAFETY: the caller's.
        unsafe { self.carry_up(last) };
    }

    /// Rebuilds the steps above `from`.
    ///
    /// # Safety
    ///
    /// As for [`put`](Self::put); the steps above have no outcome.
    unsafe fn carry_up(&mut self, from: usize) {
        let mut outcome = self.step(from).outcome;
        for level in (0..from).rev() {
            let old = self.step(level).old;
            let bit = digit_bit(W, self.hash, level);
            // SAFETY: `old` is on the path and has a child node for the digit; maps and edits fit.
            outcome = unsafe {
                let maps = Node::maps(old);
                let at = rank(maps.nodes, bit);
                match outcome {
                    Outcome::Node(child) => {
                        let nodes = Edit::Replace(at, child.cast());
                        Outcome::Node(Node::edited(old, self.generation, maps, nodes, Edit::Keep))
                    }
                    Outcome::Leaf(leaf)
                        if level > 0 && maps.node_count() == 1 && maps.leaf_count() == 0 =>
                    {
                        Outcome::Leaf(leaf)
                    }
                    Outcome::Leaf(leaf) => {
                        let leaves = Edit::Insert(rank(maps.leaves, bit), leaf.cast());
                        let merged = Maps {
                            nodes: maps.nodes & !bit,
                            leaves: maps.leaves | bit,
                            ..maps
                        };
                        Outcome::Node(Node::edited(
                            old,
                            self.generation,
                            merged,
                            Edit::Remove(at),
                            leaves,
                        ))
                    }
                    Outcome::Nothing => unreachable!("a node below the root has two entries"),
                }
            };
            self.step_mut(level).outcome = outcome;
            if self.shared(old) {
                // SAFETY: `old` is owned.
                unsafe { Node::retain_children_but(old, self.step(level).skip) };
            }
        }
        self.root = match outcome {
            Outcome::Node(node) => node,
            Outcome::Nothing => ptr::null_mut(),
            Outcome::Leaf(_) => unreachable!("the root keeps its last leaf"),
        };
    }

    /// Withdraws what was built for the steps above `end`.
    ///
    /// # Safety
    ///
    /// Nothing built was published, and the path may still be looked at.
    unsafe fn withdraw(&mut self, end: usize) {
        for level in 0..end {
            let step = self.step(level);
            // SAFETY: the copy is unreachable for others; `old` is owned, and so are its children.
            unsafe {
                if self.shared(step.old) {
                    Node::undo_children_but(step.old, step.skip);
                }
                if let Outcome::Node(made) = step.outcome {
                    Node::free_shallow(made);
                }
            }
        }
    }

    /// Withdraws all that `put` or `remove` built.
    ///
    /// # Safety
    ///
    /// As for [`withdraw`](Self::withdraw).
    pub(crate) unsafe fn undo(&mut self) {
        // SAFETY: the caller's.
        unsafe {
            self.withdraw(self.depth);
            if self.depth == 0 && !self.root.is_null() {
                Node::free_shallow(self.root);
            }
            let mut node = self.pair;
            while !node.is_null() {
                let maps = Node::maps(node);
                let next = if maps.node_count() == 1 {
                    Node::child(node, 0)
                } else {
                    ptr::null_mut()
                };
                Node::free_shallow(node);
                node = next;
            }
        }
        self.pair = ptr::null_mut();
        self.root = ptr::null_mut();
        self.depth = 0;
    }

    /// Fits what was built onto another version: keeps everything from the topmost node that both versions share
    /// downwards, and copies only the nodes above it again. Returns whether there was such a node.
    ///
    /// # Safety
    ///
    /// As for [`withdraw`](Self::withdraw); `root` may be looked at too, and is the root of a version whose base is
    /// this path's.
    pub(crate) unsafe fn rebase(&mut self, root: NodePtr<K, V, W>) -> bool {
        let mut nodes = [ptr::null_mut(); MAX_PATH];
        let mut node = root;
        let mut kept = 0;
        // SAFETY: all nodes reached have an owner.
        unsafe {
            loop {
                if kept >= self.depth || node.is_null() {
                    return false;
                }
                if node == self.step(kept).old {
                    break;
                }
                nodes[kept] = node;
                if kept + 1 >= self.depth {
                    return mutant(Mutant::BlindRebase);
                }
                // A deeper step exists, so this level has a digit.
                let maps = Node::maps(node);
                let bit = digit_bit(W, self.hash, kept);
                if maps.nodes & bit == 0 {
                    return mutant(Mutant::BlindRebase);
                }
                node = Node::child(node, rank(maps.nodes, bit));
                kept += 1;
            }
            self.withdraw(kept);
            let mut below = node;
            for level in (0..kept).rev() {
                let step = self.step_mut(level);
                step.old = nodes[level];
                step.skip = below.cast();
                step.outcome = Outcome::Nothing;
                below = nodes[level];
            }
            self.carry_up(kept);
        }
        true
    }

    /// What the published write made unreachable in the version it replaced.
    pub(crate) fn garbage(&self) -> Garbage<K, V, W> {
        for level in 0..self.depth {
            let node = self.step(level).old;
            if self.shared(node) {
                return Garbage {
                    path: level,
                    hash: self.hash,
                    claim: Claim::Node(node),
                };
            }
        }
        let claim = self.found().map_or(Claim::None, Claim::Leaf);
        Garbage {
            path: self.depth,
            hash: self.hash,
            claim,
        }
    }
}

/// What a write wants done, once it knows the current value.
pub(crate) enum Decision<K, V> {
    /// Nothing: the map stays as it is.
    Keep,
    /// Store this leaf, which [`Change::publish`] gives away.
    Put(LeafPtr<K, V>),
    /// Remove the entry. Only where there is one.
    Remove,
}

/// One write, as the retry loop sees it.
pub(crate) trait Change<K, V> {
    /// Whether `key` is the key of the write.
    fn matches(&self, key: &K) -> bool;

    /// What to do; called once per attempt, and again only where the entry may have changed.
    fn decide(&mut self, current: Option<&Leaf<K, V>>) -> Decision<K, V>;

    /// The leaf of the last decision is now owned by the trie.
    fn published(&mut self) {}
}

/// A leaf to be published, for [`Change`]s.
pub(crate) fn give_away<K, V>(leaf: &mut Option<Fresh<K, V>>) {
    if let Some(mut leaf) = leaf.take() {
        let _ = leaf.give_away();
    }
}
