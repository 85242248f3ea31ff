//! A concurrent hash trie with constant-time snapshots and writable forks.
