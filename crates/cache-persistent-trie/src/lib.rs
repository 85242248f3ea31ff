//! A persistent hash trie published by compare-and-swap: hamt and hamt256.
