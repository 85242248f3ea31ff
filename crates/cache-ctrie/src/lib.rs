//! A concurrent hash trie (Ctrie): lock-free, with snapshots and writable forks in O(1).
//!
//! ```
//! use cache_ctrie::CtrieCache;
//!
//! let map = CtrieCache::new();
//! map.insert("apples", 3);
//! map.upsert("apples", |n| n.map_or(1, |n| n + 1));
//!
//! let evening = map.snapshot(); // O(1), whatever the size
//! map.insert("pears", 2);
//! assert_eq!(evening.len(), 1);
//! assert_eq!(evening.get_ref("apples"), Some(&4));
//!
//! let trial = map.fork(); // O(1) too, and writable
//! trial.clear();
//! assert_eq!((trial.len(), map.len()), (0, 2));
//! ```
//!
//! **Contents**: [when to use it](#when-to-use-it-when-not) · [guarantees](#guarantees) · [cost](#cost) ·
//! [nodes](#the-nodes) · [GCAS](#gcas-a-write-that-the-root-must-agree-to) · [the root swap](#rdcss-the-root-swap) ·
//! [generations](#generations) · [removal](#removal-and-contraction) ·
//! [linearization points](#linearization-points) · [progress](#progress) · [reclamation](#reclamation) ·
//! [the paper's terms](#the-papers-terms) · [how it is checked](#how-it-is-checked)
//!
//! # When to use it, when not
//!
//! Use it when you need the whole map at one moment while writers go on: backups, exports, consistent scans, batches
//! that must not mix two states, what-if copies. Or when one hot or hostile part of the key space must not block the
//! rest: nothing here blocks, and no lock is shared by keys.
//!
//! Prefer something else when you never look at more than one key:
//!
//! | | this crate | dashmap | papaya | scc |
//! |---|---|---|---|---|
//! | reads | lock-free; a pin | shard read lock | lock-free; a pin | bucket lock; `peek` without |
//! | writes | lock-free | shard write lock | lock-free | bucket lock |
//! | whole map at one moment | snapshot, O(1) | no | no | no |
//! | writable copy | fork, O(1) | clone, O(n) | clone, O(n) | clone, O(n) |
//! | `len` | exact at one moment | sum over shards | counter, not at one moment | sum |
//! | growth | a node at a time | a shard rehashes under its lock | incremental | incremental |
//! | shrinks by itself | yes, at once | `shrink_to_fit` | yes, on resize | yes |
//! | old values are dropped | after a grace period | at once | after a grace period | at once (index: later) |
//! | keys and values | `Send + Sync + 'static` | any | any | any (index: `'static`) |
//! | a value in place, `&mut` | no: replaced | yes | no: replaced | yes |
//!
//! A trie has one dependent memory access per level; a table has fewer. Where snapshots are not wanted and reads are
//! everything, a flat lock-free table has the shorter way. The figures are in the workspace's results.
//!
//! # Guarantees
//!
//! Every operation is linearizable, those on the whole map included: [`snapshot`](Map::snapshot), [`fork`](Map::fork),
//! [`clear`](Map::clear), [`len`](Map::len), [`get_batch`](Map::get_batch) and [`for_each`](Map::for_each) each belong
//! to one moment between call and return. [`retain`](Map::retain) tests the entries of one moment and removes each
//! only as tested. [`bulk_load`](Map::bulk_load) is a loop.
//!
//! User code may panic anywhere: an operation takes effect wholly or not at all. A panic of a destructor of an entry
//! that dies after its grace period ends there, once the panic hook has seen it, since the thread that comes by is in
//! the middle of something unrelated; one that happens while the map itself is dropped reaches the caller, after
//! everything else has been dropped.
//!
//! User code may call back into the same map. The one thing refused (by a panic that says `re-entrant`) is storing
//! something for a key from inside the closure that computes that very entry.
//!
//! # Cost
//!
//! | operation | time | allocates |
//! |---|---|---|
//! | `get`, `contains_key` | O(log n), base 64 | nothing |
//! | `insert`, present key | O(log n) | one leaf |
//! | `insert`, new key | O(log n) | one leaf; now and then a bigger bucket (64 to 1,056 bytes) |
//! | `remove` | O(log n) | one small node for a moment |
//! | `snapshot`, `fork` | O(1) | one small box |
//! | first write to an array after a snapshot | + O(width): 64, buckets to 128, the root 256 | a copy of that array |
//! | `len` | O(part changed since the last count); O(1) if none | at most one small box |
//! | `get_batch` of m | O(m log n), cache misses overlapped 32 at a time | the answer |
//! | `clear` | O(1), and O(n) freeing after a grace period | an empty root, 2 KiB |
//! | `from_iter`, `bulk_load`, `for_each`, `retain` | O(n) | as `insert`; as `snapshot` |
//!
//! Without snapshots no reference count is touched but the one of a leaf that dies. An entry costs a leaf (32 bytes
//! and key and value) and its share of the arrays. An empty map costs 2 KiB for its root array.
//!
//! # The nodes
//!
//! The trie of Prokopec, Bronson, Bagwell and Odersky (*Concurrent Tries with Efficient Non-Blocking Snapshots*, PPoPP
//! 2012) on another carrier. There, each branch goes through an I-node (mutable, one pointer and a generation) to a
//! C-node (immutable, packed): two dependent memory accesses per level, and a new C-node for each insertion. Here an
//! array is 64 I-nodes of one generation side by side: one access per level, and a write replaces one word.
//!
//! The lowest arrays are *buckets*: up to 128 slots that are probed in order instead of indexed by a digit, so that the
//! last two levels of a trie of digits become one, and sparse arrays need no 64 slots. A slot's word carries
//! sixteen bits of its entry's hash, so a probe looks at leaves only where these agree. Each slot is an I-node as
//! before.
//!
//! ```text
//!   map                    root box                     root array, 256 slots, generation 7
//!  +------+              +--------------+              +---------------------------------------------+
//!  | root |------------->| generation 7 |   +--------->| prev count | gen 7 | size | . | o | . | ... |
//!  +------+              | slot     o---|---+          +-----------------------------------|---------+
//!                        | (descriptor) |                                                  |  8 bits of the hash
//!                        +--------------+                        +-------------------------+
//!                                                                v
//!   array, 64 slots, generation 7                             +----------------------------------------------+
//!                                                             | prev count | gen 7 | size | . | o | ... | o  |
//!                                                             +---------------------------------|---------|--+
//!                                                                  6 bits of the hash           |         |
//!                    +--------------------------------------------------------------------------+         |
//!                    v                                                                                    v
//!   bucket, 4 to 128 slots, generation 5 (not written to since a snapshot)                leaf   (as below)
//!        +------------------------------------------------------------+
//!        | prev count | gen 5 | size | a3:o | tomb | a3:o | . | 5f:o  |      probed from where the tag says
//!        +-------------------------------|--------------------|-------+
//!                                        v                    v
//!   leaf  +---------------------------------+      list  +-------------------------------------+
//!         | prev count | hash | key | value |            | prev count | gen | hash | leaves... |
//!         +---------------------------------+            +-------------------------------------+
//!                                                          (two or more keys of one whole hash)
//!
//!   slot word:  [ tag ][ address of a node, 16-aligned ][ FRZ ][ TENT ][ kind: leaf, array, list, removal ]
//! ```
//!
//! A word without TENT is committed: readers go on without looking at the node's head. Keys are compared only where
//! the whole 64-bit hash is equal; splitting needs no hashing.
//!
//! # GCAS: a write that the root must agree to
//!
//! A write must not slip into an array that a snapshot shares. It cannot know before it writes, so it writes first and
//! has the write approved afterwards (GCAS, generation-compare-and-swap). The new node says in `prev` what it
//! replaces:
//!
//! ```text
//!   slot:   old  ----CAS---->  new|TENT  ----CAS---->  new          committed: the root is still of this generation
//!                                 |
//!                                 +----------CAS---->  old          refused: the root has moved on
//!
//!   new.prev:   old|TENT (undecided)  ----CAS---->  null (committed)  or  old|FRZ (refused)
//! ```
//!
//! The one CAS on `prev` decides. Whoever meets the tentative word may take the decision: it looks at the root *after*
//! the word was visible. Readers take part too, since one that passed by would be a hole in the order: the writer
//! reads the root; a snapshot swaps it; a reader returns the old value without deciding; the writer commits. The write
//! would then be in the snapshot, and missing in a read that came after it. A frozen world decides no, always.
//!
//! The orders: the CAS that installs the word and the load of the root, against the CAS that swaps the root and the
//! load of the slot, are a Dekker pair: one of the two sides must see the other. So these four are `SeqCst`, which
//! costs nothing extra on x86-64. Everything that a node holds before it is published is written plainly and published
//! by the CAS on the slot.
//!
//! # RDCSS: the root swap
//!
//! A snapshot puts a new root box (next generation, same root array) in place of the old one, provided that the old
//! box's slot has not changed meanwhile: a restricted double-compare single-swap (Harris, Fraser, Pratt, DISC 2002).
//! The new box is its own descriptor:
//!
//! ```text
//!   root:   old box  ----CAS---->  new box|IN_FLIGHT  ----CAS---->  new box   (verdict YES)
//!                                          |
//!                                          +----------CAS-------->  old box   (verdict NO)
//!
//!   new box.verdict:   UNDECIDED  ----CAS---->  YES: old box's slot == expected     NO: it was not, or someone who had
//!                                                                                       to know the root refused it
//! ```
//!
//! The verdict is one CAS on a word of its own, taken before the root changes, and final. In the sources for Scala,
//! Java and Go the CAS on the root decides and a flag is set afterwards; the initiator can read the flag too early,
//! believe that it failed, and swap a second time: one `clear` then takes effect twice, and an entry inserted in
//! between is lost.
//!
//! # Generations
//!
//! A generation is a number that no other root, of any map, has or will have. A write happens only in an array whose
//! generation is the root's; an older one is *renewed* first, from the top: copied into an array of the root's
//! generation, each of whose words was decided when it was read. So:
//!
//! - What is reachable from a root of a past generation never changes, apart from words that are being decided, and
//!   they are decided against the write once the root has moved.
//! - An array of generation g enters the trie only under an array of generation g, which enters only while the root is
//!   of generation g. No root is of generation g again. Hence, where the last array on a way is of the root's
//!   generation, all on the way are, and a writer looks at that one only.
//! - Reads renew nothing. A read through a frozen array returns what was true when it was frozen, which lies between
//!   the read's call and its return.
//!
//! # Removal and contraction
//!
//! A removal offers a node that says "empty" (or names the one entry of a list that stays) through the same GCAS, and
//! the committed word is replaced by what it names. This is the paper's tomb: the slot is never emptied by a plain
//! write.
//!
//! An array below the root that holds nothing, or a single entry, is contracted: first all its slots are frozen (FRZ),
//! so that no write can slip in any more; what it then holds it holds for ever; then a removal that names the
//! remaining entry takes the array's place in the slot above. If something had slipped in before its slot froze, a
//! fresh copy takes its place instead. Whoever meets a frozen slot in an array of the root's generation helps. In a
//! frozen generation FRZ means nothing and is masked out. After everything has been removed, an empty root array is
//! all that is left.
//!
//! A slot of a bucket that was emptied holds a tomb and is not used again in this bucket: an entry is stored at the
//! first slot of its probe that was never used, so that two threads which insert the same key meet at the same slot,
//! and the CAS there proves that the key is in none of those before it. A bucket without such a slot nearby is frozen
//! in the same way, and replaced by one of the right size, or by an array of digits above 24 entries.
//!
//! # Linearization points
//!
//! | operation | point |
//! |---|---|
//! | a write that takes effect | the load of the root by whoever decides it, after which it commits |
//! | a read, and a write that changes nothing | the read of the last committed word, or its array's freeze |
//! | `snapshot`, `fork`, `len`, batch, visits | the verdict YES; without writes since the last: the load of the root |
//! | `clear` | the verdict YES |
//! | `is_empty` | the read of one entry; else as `len` |
//!
//! # Progress
//!
//! Lock-free: whenever an operation has to start again, another one has succeeded. Reads finish after one walk plus
//! the decisions they meet, so they are wait-free but for those. A snapshot can be refused by writers that are
//! deciding while it is in flight, again and again in theory. Nothing spins, nothing blocks. A thread that stops while
//! pinned stops reclamation, and nothing else.
//!
//! # Reclamation
//!
//! Two questions are kept apart. *Grace*: may a running operation still look at this node? Epochs answer that
//! (those of cache-reclaim, shared by the process). *Ownership*: does any map, fork or snapshot still
//! refer to it? Counts of claims answer that; a claim is held by each slot, list and handle that refers to a node.
//! What makes it cheap is that counts move only where sharing is possible, which the generations tell:
//!
//! 1. **Move when exclusive.** A replaced list, or contracted array, of the same generation as its array is nobody
//!    else's: a second owner appears only by renewal or at the root, and both need the root to have moved on, after
//!    which the write could not have committed. Its parts move over, no count is touched, and only its memory is
//!    retired.
//! 2. **Retain when shared.** A renewal claims every child before it publishes the copy. *Invariant*: the children are
//!    alive, because the old array's own claims are not released before the renewing thread unpins.
//! 3. **Release after a grace period**, then at once all the way down. *Invariant*: an operation that could still hold
//!    a child came by it through an owner whose release waited for that operation.
//! 4. **Undo** of a speculative claim is immediate and never reaches zero, which is asserted: the claim that justified
//!    it still exists.
//! 5. The thread that started a GCAS does its accounting, whoever decided it. A refused node has been seen: its memory
//!    is retired, its entry moves to a new leaf, and the same node is never offered again.
//! 6. A snapshot claims its root array, so that its references need no pin. Dropping it releases that claim after a
//!    grace period, since operations of the live map may still be on their way from before. Only the resolution of a
//!    tentative word pins. Dropping a *map* needs no grace: nobody else can be on the way from its root.
//! 7. The decision and what it decides on live in the node's head: no further objects.
//!
//! What each retire relies on: *an overwritten or removed leaf*: committed, so the slot's claim is the writer's to
//! give; *a renewed array*: the same for the slot above; *the shell of a list, removal or contracted array*: rule 1;
//! *a refused node*: its word has left the slot and is never followed; *a replaced root box*: the root holds another
//! address; *a refused root box*: the same. What is retired is freed five hundred at a
//! time, by the thread that retired it, whose next leaves take the memory over while it is in the cache.
//!
//! When all handles are gone and a grace period has passed, exactly zero nodes live. The tests count them.
//!
//! # The paper's terms
//!
//! | paper | here |
//! |---|---|
//! | I-node | a slot of an array; its `gen` is the array's |
//! | C-node, its bitmap | array: its slots, null words; or bucket: its slots, tags |
//! | S-node | leaf |
//! | T-node (tomb), `clean`, `cleanParent` | removal; freezing and contraction |
//! | L-node | list (as soon as two whole hashes are equal, not only at the last level) |
//! | `prev`, `Failed` | the node's head; `prev` with FRZ |
//! | `RDCSS_Descriptor` | the new root box |
//! | `readRoot(abort)` | the root, helped or refused while a swap is in flight |
//! | `renewed`, `copyToGen` | renewal |
//! | read-only snapshot | [`Snapshot`]: a claim on a frozen root array |
//! | snapshot | [`Map::fork`] |
//!
//! # How it is checked
//!
//! `cargo test -p cache-ctrie` runs the conformance corpus, models against `BTreeMap`, stress with threads, and counts
//! nodes. `RUSTFLAGS="--cfg shuttle" cargo test -p cache-ctrie --lib --target-dir target/shuttle` runs the protocol
//! under a model checker, on tries of two levels and three threads, under random and PCT schedules, with an epoch that
//! frees as early as is legal; and, in the same build, twenty deliberately broken variants, each of which a named test
//! must catch. `cargo run --release -p cache-ctrie --example soak` writes from eight threads under a snapshot per
//! millisecond.

/// Runs the examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExamples;

mod map;
mod mutants;
mod node;
mod reentry;
mod session;
mod snapshot;
mod sync;
mod trie;

#[cfg(test)]
mod tests;

pub use crate::map::{CtrieCache, Map};
pub use crate::session::Session;
pub use crate::snapshot::{Iter, Snapshot};
