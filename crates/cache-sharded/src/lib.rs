//! Lock striping: a mutex or a read-write lock per shard.
