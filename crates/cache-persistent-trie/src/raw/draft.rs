//! Building a trie in place before anyone else sees it: bulk loads and many writes at once. Never publication.
//!
//! A draft owns one claim on its root. Nodes stamped with its own generation were made by it and are reachable through
//! it only, so it changes them in place; all others it copies first, claiming their children. To give a draft up is to
//! release its root, as with any other trie.

use std::ptr;

use super::cell::Whole;
use super::node::{
    Edit, Fresh, Leaf, LeafPtr, MAX_PATH, Maps, Node, NodePtr, digit_bit, levels, rank,
    release_leaf,
};
use super::read;
use super::version::{release_trie, retain_trie};

/// A trie under construction.
pub(crate) struct Draft<K, V, const W: usize> {
    root: NodePtr<K, V, W>,
    len: usize,
    /// The stamp of private nodes.
    private: u64,
}

impl<K, V, const W: usize> Draft<K, V, W> {
    /// An empty draft.
    pub(crate) fn new(private: u64) -> Self {
        Self {
            root: ptr::null_mut(),
            len: 0,
            private,
        }
    }

    /// A draft that starts as a copy of a trie, in O(1).
    ///
    /// # Safety
    ///
    /// The trie has another owner for as long as the draft lives; all its stamps are below `private`, and so are those
    /// of every trie whose nodes may come to share this one's.
    pub(crate) unsafe fn over(node: NodePtr<K, V, W>, len: usize, private: u64) -> Self {
        // SAFETY: owned.
        unsafe { retain_trie(node) };
        Self {
            root: node,
            len,
            private,
        }
    }

    /// The stamp of the nodes it makes.
    pub(crate) fn generation(&self) -> u64 {
        self.private
    }

    /// The draft that a trie was, given back.
    pub(crate) fn from_whole(whole: Whole<K, V, W>, private: u64) -> Self {
        let draft = Self {
            root: whole.node,
            len: whole.len,
            private,
        };
        std::mem::forget(whole);
        draft
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The root of this moment, or null.
    pub(crate) fn root(&self) -> NodePtr<K, V, W> {
        self.root
    }

    pub(crate) fn get(&self, hash: u64, matches: impl Fn(&K) -> bool) -> Option<&Leaf<K, V>> {
        // SAFETY: the draft owns its root.
        unsafe { read::find(self.root, hash, matches).map(|leaf| &*leaf) }
    }

    /// All leaves.
    pub(crate) fn leaves(&self) -> read::Leaves<'_, K, V, W> {
        // SAFETY: the draft owns its root, and is borrowed.
        unsafe { read::Leaves::new(self.root) }
    }

    /// The trie, finished.
    pub(crate) fn into_whole(self) -> Whole<K, V, W> {
        let whole = Whole {
            node: self.root,
            len: self.len,
        };
        std::mem::forget(self);
        whole
    }

    /// Makes the node at `place` private.
    ///
    /// # Safety
    ///
    /// `place` is the draft's root or a slot of one of its private nodes, and holds a node.
    unsafe fn own(&self, place: *mut NodePtr<K, V, W>) -> NodePtr<K, V, W> {
        // SAFETY: the node is claimed by the place.
        unsafe {
            let node = *place;
            if Node::generation(node) != self.private {
                let maps = Node::maps(node);
                *place = Node::edited(node, self.private, maps, Edit::Keep, Edit::Keep);
                Node::retain_children_but(node, ptr::null_mut());
                // Not the last claim: the trie the draft was made over has one (see `over`).
                Node::undo(node);
            }
            *place
        }
    }

    /// Replaces the private node at `place` by an edited copy.
    ///
    /// # Safety
    ///
    /// As for [`own`](Self::own) and [`Node::edited`].
    unsafe fn swap(&self, place: *mut NodePtr<K, V, W>, maps: Maps, nodes: Edit, leaves: Edit) {
        // SAFETY: the caller's; the old node is reachable through the place only, and its claims pass to the copy.
        unsafe {
            let old = *place;
            *place = Node::edited(old, self.private, maps, nodes, leaves);
            Node::free_shallow(old);
        }
    }

    /// Stores an entry; returns whether its key is new.
    pub(crate) fn put(&mut self, mut leaf: Fresh<K, V>) -> bool
    where
        K: Eq,
    {
        // SAFETY: `Fresh` gives its claim away.
        unsafe { self.put_leaf(&mut leaf, |own, key| *key == own.key) }
    }

    /// Stores a leaf that another trie owns as well.
    ///
    /// # Safety
    ///
    /// `leaf` has another owner during the call.
    pub(crate) unsafe fn share(
        &mut self,
        leaf: LeafPtr<K, V>,
        equal: impl Fn(&K, &K) -> bool,
    ) -> bool {
        /// A claim that is given back if `Eq` panics.
        struct Claimed<K, V>(LeafPtr<K, V>);
        impl<K, V> Drop for Claimed<K, V> {
            fn drop(&mut self) {
                if !self.0.is_null() {
                    // SAFETY: claimed below, and not passed on.
                    unsafe { Leaf::undo(self.0) };
                }
            }
        }
        impl<K, V> Entry<K, V> for Claimed<K, V> {
            fn pointer(&self) -> LeafPtr<K, V> {
                self.0
            }
            fn give_away(&mut self) -> LeafPtr<K, V> {
                std::mem::replace(&mut self.0, ptr::null_mut())
            }
        }
        // SAFETY: it has an owner; the claim is given away.
        unsafe {
            Leaf::retain(leaf);
            self.put_leaf(&mut Claimed(leaf), |own, key| equal(key, &own.key))
        }
    }

    /// # Safety
    ///
    /// `entry` holds a leaf with a claim to give away.
    unsafe fn put_leaf(
        &mut self,
        entry: &mut impl Entry<K, V>,
        matches: impl Fn(&Leaf<K, V>, &K) -> bool,
    ) -> bool {
        let private = self.private;
        // SAFETY: all places are the root or slots of private nodes, all nodes reached are claimed by their places,
        // all edits fit the maps. From `give_away` on the claim on `leaf` is the trie's.
        unsafe {
            let hash = (*entry.pointer()).hash;
            if self.root.is_null() {
                let leaf = entry.give_away();
                self.root = Node::single(private, digit_bit(W, hash, 0), leaf);
                self.len = 1;
                return true;
            }
            let mut place: *mut NodePtr<K, V, W> = &raw mut self.root;
            let mut level = 0;
            loop {
                let node = self.own(place);
                let maps = Node::maps(node);
                let mut found = None;
                if level == levels(W) {
                    for index in 0..maps.leaf_count() {
                        if matches(&*entry.pointer(), &(*Node::leaf(node, maps, index)).key) {
                            found = Some(index);
                            break;
                        }
                    }
                    if found.is_none() {
                        let leaf = entry.give_away();
                        let grown = Maps {
                            leaves: maps.leaves + 1,
                            ..maps
                        };
                        self.swap(
                            place,
                            grown,
                            Edit::Keep,
                            Edit::Insert(maps.leaf_count(), leaf.cast()),
                        );
                        break;
                    }
                } else {
                    let bit = digit_bit(W, hash, level);
                    if maps.nodes & bit != 0 {
                        place = Node::slots(node).add(rank(maps.nodes, bit)).cast();
                        level += 1;
                        continue;
                    }
                    let index = rank(maps.leaves, bit);
                    if maps.leaves & bit == 0 {
                        let leaf = entry.give_away();
                        let grown = Maps {
                            leaves: maps.leaves | bit,
                            ..maps
                        };
                        self.swap(place, grown, Edit::Keep, Edit::Insert(index, leaf.cast()));
                        break;
                    }
                    let other = Node::leaf(node, maps, index);
                    if (*other).hash == hash && matches(&*entry.pointer(), &(*other).key) {
                        found = Some(index);
                    } else {
                        let leaf = entry.give_away();
                        let pair = Node::<K, V, W>::pair(private, level + 1, other, leaf);
                        let split = Maps {
                            nodes: maps.nodes | bit,
                            leaves: maps.leaves & !bit,
                            ..maps
                        };
                        let nodes = Edit::Insert(rank(maps.nodes, bit), pair.cast());
                        self.swap(place, split, nodes, Edit::Remove(index));
                        break;
                    }
                }
                if let Some(index) = found {
                    let old = Node::leaf(node, maps, index);
                    Node::set_leaf(node, index, entry.give_away());
                    // May run `Drop` of an entry that this draft made. One of the live trie has other owners.
                    release_leaf(old);
                    return false;
                }
            }
        }
        self.len += 1;
        true
    }

    /// Removes an entry; returns whether there was one. `which` may ask for one leaf by its address.
    pub(crate) fn remove(
        &mut self,
        hash: u64,
        mut matches: impl FnMut(&Leaf<K, V>) -> bool,
    ) -> bool {
        // Nothing is copied for a key that is not there.
        // SAFETY: the draft owns its root.
        let Some(leaf) = (unsafe { read::find_leaf(self.root, hash, &mut matches) }) else {
            return false;
        };
        let mut places = [ptr::null_mut::<NodePtr<K, V, W>>(); MAX_PATH];
        let mut level = 0;
        // SAFETY: as in `put_leaf`; the leaf is in the trie, so its digits lead to it.
        unsafe {
            places[0] = &raw mut self.root;
            let (maps, index) = loop {
                let shared = *places[level];
                let maps = Node::maps(shared);
                let bit = digit_bit(W, hash, level.min(levels(W) - 1));
                if level < levels(W) && maps.nodes & bit != 0 {
                    let node = self.own(places[level]);
                    level += 1;
                    places[level] = Node::slots(node).add(rank(maps.nodes, bit)).cast();
                    continue;
                }
                // Before the node is made private: a leaf in the node itself is elsewhere afterwards.
                let at = (0..maps.leaf_count()).find(|&at| Node::leaf(shared, maps, at) == leaf);
                self.own(places[level]);
                break (maps, at.expect("the leaf was found a moment ago"));
            };
            let node = *places[level];
            match (maps.node_count(), maps.leaf_count()) {
                (0, 1) => {
                    self.root = ptr::null_mut();
                    Node::free_shallow(node);
                }
                (0, 2) if level > 0 => {
                    let survivor = Node::leaf(node, maps, 1 - index);
                    self.collapse(&places, level, hash, survivor);
                    // Last, since the survivor may lie in it.
                    Node::free_shallow(node);
                }
                _ => {
                    let leaves = match maps.collision {
                        true => maps.leaves - 1,
                        false => maps.leaves & !digit_bit(W, hash, level),
                    };
                    self.swap(
                        places[level],
                        Maps { leaves, ..maps },
                        Edit::Keep,
                        Edit::Remove(index),
                    );
                }
            }
            self.len -= 1;
            release_leaf(leaf);
        }
        true
    }

    /// Moves the last leaf of a node that is gone up to where it belongs.
    ///
    /// # Safety
    ///
    /// `places` holds the private path of `hash` down to the node at `level`, which the caller frees.
    unsafe fn collapse(
        &mut self,
        places: &[*mut NodePtr<K, V, W>; MAX_PATH],
        mut level: usize,
        hash: u64,
        survivor: LeafPtr<K, V>,
    ) {
        loop {
            level -= 1;
            // SAFETY: the caller's.
            unsafe {
                let node = *places[level];
                let maps = Node::maps(node);
                if level > 0 && maps.node_count() == 1 && maps.leaf_count() == 0 {
                    Node::free_shallow(node);
                    continue;
                }
                let bit = digit_bit(W, hash, level);
                let merged = Maps {
                    nodes: maps.nodes & !bit,
                    leaves: maps.leaves | bit,
                    ..maps
                };
                let leaves = Edit::Insert(rank(maps.leaves, bit), survivor.cast());
                self.swap(
                    places[level],
                    merged,
                    Edit::Remove(rank(maps.nodes, bit)),
                    leaves,
                );
                return;
            }
        }
    }
}

impl<K, V, const W: usize> Drop for Draft<K, V, W> {
    fn drop(&mut self) {
        // SAFETY: the claim is the draft's. Nobody else looks at its private nodes; the others have other owners.
        unsafe { release_trie(self.root) };
    }
}

/// A leaf with a claim to give away.
trait Entry<K, V> {
    fn pointer(&self) -> LeafPtr<K, V>;
    /// Returns the leaf, now the receiver's; valid until the entry is moved.
    fn give_away(&mut self) -> LeafPtr<K, V>;
}

impl<K, V> Entry<K, V> for Fresh<K, V> {
    fn pointer(&self) -> LeafPtr<K, V> {
        self.as_ptr()
    }

    fn give_away(&mut self) -> LeafPtr<K, V> {
        Fresh::give_away(self)
    }
}
