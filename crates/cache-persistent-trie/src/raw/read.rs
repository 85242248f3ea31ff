//! Lookups, one at a time and in groups, and iteration. Never writes, never a count.

use std::marker::PhantomData;

use super::node::{Leaf, LeafPtr, MAX_PATH, Node, NodePtr, Slot, digit_bit, in_node, levels, rank};

/// The leaf for a key.
///
/// # Safety
///
/// `root` is null or has an owner that keeps its claim while the result is used.
#[inline]
pub(crate) unsafe fn find<K, V, const W: usize>(
    root: NodePtr<K, V, W>,
    hash: u64,
    matches: impl Fn(&K) -> bool,
) -> Option<LeafPtr<K, V>> {
    // SAFETY: the caller's.
    unsafe { find_leaf(root, hash, |leaf| matches(&leaf.key)) }
}

/// The leaf with `hash` that `matches`.
///
/// # Safety
///
/// As for [`find`].
#[inline]
pub(crate) unsafe fn find_leaf<K, V, const W: usize>(
    root: NodePtr<K, V, W>,
    hash: u64,
    matches: impl FnMut(&Leaf<K, V>) -> bool,
) -> Option<LeafPtr<K, V>> {
    /// [`walk`] with the processor's instruction for counting bits, which the baseline of x86-64 lacks.
    ///
    /// # Safety
    ///
    /// As for [`find`], and the processor has the instruction.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "popcnt")]
    unsafe fn walk_popcnt<K, V, const W: usize>(
        root: NodePtr<K, V, W>,
        hash: u64,
        matches: impl FnMut(&Leaf<K, V>) -> bool,
    ) -> Option<LeafPtr<K, V>> {
        // SAFETY: the caller's.
        unsafe { walk(root, hash, matches) }
    }
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("popcnt") {
        // SAFETY: the caller's; and the instruction is there.
        return unsafe { walk_popcnt(root, hash, matches) };
    }
    // SAFETY: the caller's.
    unsafe { walk(root, hash, matches) }
}

/// See [`find_leaf`].
///
/// # Safety
///
/// As for [`find`].
#[inline(always)]
unsafe fn walk<K, V, const W: usize>(
    root: NodePtr<K, V, W>,
    hash: u64,
    mut matches: impl FnMut(&Leaf<K, V>) -> bool,
) -> Option<LeafPtr<K, V>> {
    if root.is_null() {
        return None;
    }
    let mut node = root;
    let mut level = 0;
    // SAFETY: what is reached from an owned node is owned.
    unsafe {
        loop {
            let maps = Node::maps(node);
            let bit = digit_bit(W, hash, level);
            if maps.nodes & bit != 0 {
                node = Node::child(node, rank(maps.nodes, bit));
                // Where a node is longer than a line, or lies across two, its slot is loaded after its maps, on which the
                // slot's place depends: two misses one after the other. The second line is asked for with the first.
                prefetch(node.cast::<u8>().wrapping_add(64));
                if in_node::<K, V>() {
                    // The lowest nodes are longer with their leaves in them.
                    prefetch(node.cast::<u8>().wrapping_add(128));
                }
                level += 1;
                if level == levels(W) {
                    return find_collision(node, matches);
                }
            } else if maps.leaves & bit != 0 {
                let leaf = Node::leaf(node, maps, rank(maps.leaves, bit));
                Leaf::check(leaf);
                return ((*leaf).hash == hash && matches(&*leaf)).then_some(leaf);
            } else {
                return None;
            }
        }
    }
}

/// The matching leaf of a collision node.
///
/// # Safety
///
/// As for [`find`]; `node` is a collision node.
#[cold]
unsafe fn find_collision<K, V, const W: usize>(
    node: NodePtr<K, V, W>,
    mut matches: impl FnMut(&Leaf<K, V>) -> bool,
) -> Option<LeafPtr<K, V>> {
    // SAFETY: what is reached from an owned node is owned.
    unsafe {
        let maps = Node::maps(node);
        (0..maps.leaf_count())
            .map(|index| Node::leaf(node, maps, index))
            .find(|&leaf| matches(&*leaf))
    }
}

/// The node at which the search for `hash` ends, or null.
///
/// # Safety
///
/// As for [`find`].
pub(crate) unsafe fn holder<K, V, const W: usize>(
    root: NodePtr<K, V, W>,
    hash: u64,
) -> NodePtr<K, V, W> {
    let mut node = root;
    let mut level = 0;
    while !node.is_null() && level < levels(W) {
        // SAFETY: what is reached from an owned node is owned.
        let maps = unsafe { Node::maps(node) };
        let bit = digit_bit(W, hash, level);
        if maps.nodes & bit == 0 {
            break;
        }
        // SAFETY: as above.
        node = unsafe { Node::child(node, rank(maps.nodes, bit)) };
        level += 1;
    }
    node
}

/// How many lookups of a batch are under way at the same time. Few enough that their lines stay in the first-level
/// cache, many enough to hide the latency of memory.
pub(crate) const GROUP: usize = 32;

/// Asks the processor to load a cache line.
#[inline(always)]
pub(crate) fn prefetch<T>(pointer: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint; any address is allowed.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(pointer.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = pointer;
}

/// The lookups of a group, by position.
pub(crate) struct Group<K, V, const W: usize> {
    /// In: the root to start from.
    pub(crate) root: [NodePtr<K, V, W>; GROUP],
    pub(crate) hash: [u64; GROUP],
    /// Out: the leaf at the end of the digits, or null. Its hash and key are still to be compared.
    pub(crate) leaf: [LeafPtr<K, V>; GROUP],
    /// Out: the positions that ended at a collision node, as bits; to be looked up one by one.
    pub(crate) collisions: u32,
}

impl<K, V, const W: usize> Group<K, V, W> {
    pub(crate) fn new() -> Self {
        Self {
            root: [std::ptr::null_mut(); GROUP],
            hash: [0; GROUP],
            leaf: [std::ptr::null_mut(); GROUP],
            collisions: 0,
        }
    }

    /// Walks the first `count` lookups down together, level by level: each step of one lookup is followed by the same
    /// step of all others, so that the cache lines it asked for have arrived when its next step comes.
    /// (Group prefetching: Chen, Ailamaki, Gibbons and Mowry, ICDE 2004.)
    ///
    /// # Safety
    ///
    /// All roots are null or have owners that keep their claims while the leaves are used.
    pub(crate) unsafe fn walk(&mut self, count: usize) {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("popcnt") {
            // SAFETY: the caller's; and the instruction is there.
            return unsafe { self.walk_popcnt(count) };
        }
        // SAFETY: the caller's.
        unsafe { self.walk_any(count) }
    }

    /// # Safety
    ///
    /// As for [`walk`](Self::walk), and the processor has the instruction.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "popcnt")]
    unsafe fn walk_popcnt(&mut self, count: usize) {
        // SAFETY: the caller's.
        unsafe { self.walk_any(count) }
    }

    /// # Safety
    ///
    /// As for [`walk`](Self::walk).
    #[inline(always)]
    unsafe fn walk_any(&mut self, count: usize) {
        const { assert!(GROUP <= 32, "one bit per lookup") };
        let mut node = self.root;
        let mut slot = [std::ptr::null_mut::<Slot>(); GROUP];
        let mut lanes = [0_u8; GROUP];
        let mut active = 0;
        self.collisions = 0;
        for (lane, root) in self.root[..count].iter().enumerate() {
            self.leaf[lane] = std::ptr::null_mut();
            if !root.is_null() {
                lanes[active] = lane as u8;
                active += 1;
            }
        }
        let mut level = 0;
        while active > 0 {
            if level == levels(W) {
                for &lane in &lanes[..active] {
                    self.collisions |= 1 << lane;
                }
                return;
            }
            // First step: from the bitmaps to the address of the slot. The lowest bit of a lane's note says that the
            // slot holds a leaf.
            let mut going = 0;
            for at in 0..active {
                let lane = usize::from(lanes[at] & 0x7f);
                // SAFETY: what is reached from an owned node is owned; the slot exists, by the maps.
                unsafe {
                    let maps = Node::maps(node[lane]);
                    let bit = digit_bit(W, self.hash[lane], level);
                    let slots = Node::slots(node[lane]);
                    if maps.nodes & bit != 0 {
                        slot[lane] = slots.add(rank(maps.nodes, bit));
                        lanes[going] = lane as u8;
                    } else if maps.leaves & bit != 0 {
                        slot[lane] = Node::leaf_place(node[lane], maps, rank(maps.leaves, bit));
                        lanes[going] = lane as u8 | 0x80;
                    } else {
                        continue;
                    }
                    going += 1;
                    prefetch(slot[lane]);
                    if in_node::<K, V>() && lanes[going - 1] & 0x80 != 0 {
                        // The leaf itself, which may lie across two lines.
                        prefetch(
                            slot[lane]
                                .cast::<u8>()
                                .wrapping_add(size_of::<Leaf<K, V>>() - 1),
                        );
                    }
                }
            }
            // Second step: from the slot to the child.
            let mut next = 0;
            for at in 0..going {
                let lane = usize::from(lanes[at] & 0x7f);
                if lanes[at] & 0x80 != 0 {
                    // SAFETY: set in the first step.
                    self.leaf[lane] = unsafe { Node::<K, V, W>::leaf_at(slot[lane]) };
                    if !in_node::<K, V>() {
                        prefetch(self.leaf[lane]);
                    }
                } else {
                    // SAFETY: set in the first step.
                    node[lane] = unsafe { (*slot[lane]).cast() };
                    prefetch(node[lane]);
                    lanes[next] = lane as u8;
                    next += 1;
                }
            }
            active = next;
            level += 1;
        }
    }
}

/// All leaves of a trie, in the order of their hashes' digits.
pub(crate) struct Leaves<'a, K, V, const W: usize> {
    /// Nodes from the root down, with the next slot of each.
    stack: [(NodePtr<K, V, W>, usize); MAX_PATH],
    depth: usize,
    marker: PhantomData<&'a Leaf<K, V>>,
}

impl<K, V, const W: usize> Leaves<'_, K, V, W> {
    /// # Safety
    ///
    /// `root` is null or has an owner that keeps its claim for the lifetime.
    pub(crate) unsafe fn new(root: NodePtr<K, V, W>) -> Self {
        let mut stack = [(std::ptr::null_mut(), 0); MAX_PATH];
        stack[0].0 = root;
        Self {
            stack,
            depth: usize::from(!root.is_null()),
            marker: PhantomData,
        }
    }
}

impl<'a, K, V, const W: usize> Iterator for Leaves<'a, K, V, W> {
    type Item = &'a Leaf<K, V>;

    fn next(&mut self) -> Option<&'a Leaf<K, V>> {
        // SAFETY: owned for the lifetime.
        self.next_pointer().map(|leaf| unsafe { &*leaf })
    }
}

impl<K, V, const W: usize> Leaves<'_, K, V, W> {
    /// The next leaf as a pointer, from which its owner count can be reached.
    pub(crate) fn next_pointer(&mut self) -> Option<LeafPtr<K, V>> {
        while let Some(top) = self.depth.checked_sub(1) {
            let (node, at) = self.stack[top];
            // SAFETY: what is reached from an owned node is owned.
            unsafe {
                let maps = Node::maps(node);
                let nodes = maps.node_count();
                if at < nodes {
                    self.stack[top].1 += 1;
                    self.stack[self.depth] = (Node::child(node, at), 0);
                    self.depth += 1;
                } else if at < nodes + maps.leaf_count() {
                    self.stack[top].1 += 1;
                    return Some(Node::leaf(node, maps, at - nodes));
                } else {
                    self.depth -= 1;
                }
            }
        }
        None
    }
}

/// The shape of a trie: its nodes in depth-first order, each as its level and maps. For tests of canonicity.
///
/// # Safety
///
/// As for [`find`].
pub(crate) unsafe fn shape<K, V, const W: usize>(root: NodePtr<K, V, W>) -> Vec<(usize, u64, u64)> {
    let mut shape = Vec::new();
    let mut stack = vec![(0, root)];
    while let Some((level, node)) = stack.pop() {
        if node.is_null() {
            continue;
        }
        // SAFETY: what is reached from an owned node is owned.
        unsafe {
            let maps = Node::maps(node);
            shape.push((level, maps.nodes, maps.leaves));
            stack.extend((0..maps.node_count()).map(|index| (level + 1, Node::child(node, index))));
        }
    }
    shape
}
