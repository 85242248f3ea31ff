//! What the shared corpus does not know of: shards, batches on several threads, capacity, thread safety of the types.

use cache_api::DefaultHashBuilder;
use cache_sharded::{
    MAX_SHARDS, MutexLock, Padded128, RwLock, ShardedCache, ShardedRwCache, StripedCache, Unpadded,
};

#[test]
fn the_number_of_shards_is_a_power_of_two_or_an_error() {
    for shards in [1, 2, 64, 4096] {
        let map = ShardedCache::with_shards(shards);
        (0..1000).for_each(|key| map.insert(key, key));
        assert_eq!((map.shards(), map.len()), (shards, 1000));
        assert!((0..1000).all(|key| map.get(&key) == Some(key) && map.shard_of(&key) < shards));
    }
    for (shards, hint) in [
        (0, "such as 1"),
        (3, "such as 2 or 4"),
        (255, "such as 128 or 256"),
        (MAX_SHARDS + 1, "such as 16777216"),
        (MAX_SHARDS * 2, "such as 16777216"),
        (usize::MAX, "such as 16777216"),
    ] {
        let error = ShardedCache::<u8, u8>::try_with_shards(shards).expect_err("not allowed");
        assert_eq!(error.wanted(), shards);
        let text = error.to_string();
        assert!(
            text.starts_with(&format!("{shards} shards: ")) && text.ends_with(hint),
            "{text}"
        );
        let panic = std::panic::catch_unwind(|| ShardedCache::<u8, u8>::with_shards(shards))
            .expect_err("not allowed");
        assert_eq!(panic.downcast_ref::<String>(), Some(&text));
    }
}

#[test]
fn capacities_are_hints() {
    for capacity in [0, 1, 1000, usize::MAX, usize::MAX / 100] {
        let map = StripedCache::<u64, u64, _, RwLock, Unpadded>::with_shards_capacity_and_hasher(
            4,
            capacity,
            DefaultHashBuilder::new(),
        );
        map.reserve(usize::MAX);
        map.insert(1, 1);
        assert_eq!(map.get(&1), Some(1));
    }
    let map = ShardedCache::with_capacity(100_000);
    assert!(map.capacity() >= 100_000);
    map.insert(1, 1);
    map.shrink_to_fit();
    assert!(map.capacity() < 100 && map.len() == 1);
    map.insert(2, 2);
    assert_eq!((map.get(&1), map.get(&2)), (Some(1), Some(2)));
}

#[test]
fn batches_answer_in_the_order_asked_on_any_number_of_threads() {
    let map: ShardedRwCache<_, _> = (0..10_000_u64).map(|key| (key, key * 3)).collect();
    // Hits, misses and duplicates.
    let keys: Vec<u64> = (0..20_000).map(|n| n * 7919 % 15_000).collect();
    let expected: Vec<_> = keys.iter().map(|key| map.get(key)).collect();
    assert_eq!(map.get_batch(&keys), expected);
    assert_eq!(map.get_batch_parallel(&keys), expected);
    for threads in [0, 1, 2, 3, 16] {
        assert_eq!(map.get_batch_with_threads(threads, &keys), expected);
        assert!(
            map.get_batch_with_threads(threads, [0_u64; 0].iter())
                .is_empty()
        );
    }
    let mut seen = vec![0; keys.len()];
    map.get_batch_with(&keys, |position, value| {
        assert_eq!(value.copied(), expected[position]);
        seen[position] += 1;
    });
    assert!(seen.iter().all(|&times| times == 1));
}

#[test]
fn a_panic_in_a_parallel_batch_reaches_the_caller() {
    #[derive(Debug)]
    struct Fragile(bool);
    impl Clone for Fragile {
        fn clone(&self) -> Self {
            assert!(self.0, "not to be cloned");
            Self(true)
        }
    }
    let map: ShardedCache<_, _> = (0..1000).map(|key| (key, Fragile(key != 500))).collect();
    let keys: Vec<i32> = (0..1000).collect();
    let panic =
        std::panic::catch_unwind(|| map.get_batch_with_threads(4, &keys)).expect_err("it panics");
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"not to be cloned"));
    map.insert(500, Fragile(true));
    assert_eq!(
        map.get_batch_with_threads(4, &keys)
            .into_iter()
            .flatten()
            .count(),
        1000
    );
}

#[test]
fn padding_is_as_named() {
    use cache_sharded::{Aligned128, Plain};
    assert_eq!(
        (align_of::<Aligned128<u8>>(), size_of::<Aligned128<u8>>()),
        (128, 128)
    );
    assert_eq!(size_of::<Plain<u8>>(), 1);
}

#[test]
fn debug_and_clone_show_the_entries() {
    let map: ShardedCache<_, _> = [("a", 1)].into_iter().collect();
    assert_eq!(format!("{map:?}"), r#"{"a": 1}"#);
    assert_eq!(
        map.get_with("a", |_| format!("{map:?}")).as_deref(),
        Some("<mutex of a shard held by this thread>")
    );
    let copy = map.clone();
    map.insert("a", 2);
    assert_eq!((copy.get("a"), copy.shards()), (Some(1), map.shards()));
}

/// Compiles: what may be sent and shared. (What may not is in doctests.)
#[test]
fn thread_safety_of_the_types() {
    fn send_and_sync<T: Send + Sync + std::panic::UnwindSafe + std::panic::RefUnwindSafe>() {}
    use std::cell::Cell;
    send_and_sync::<StripedCache<String, Vec<u8>, DefaultHashBuilder, RwLock, Unpadded>>();
    // A mutex lends its content to one thread at a time, so that need not be Sync.
    fn shared<T: Send + Sync>() {}
    shared::<StripedCache<u8, Cell<u8>, DefaultHashBuilder, MutexLock, Padded128>>();
}
