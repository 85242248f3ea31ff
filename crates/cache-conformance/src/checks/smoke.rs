//! The first things to know about a design: it can be shared, and a few threads can use it at once.

use cache_api::{BulkLoad, Cache, DefaultHashBuilder, GetBatch, Iterate, Update};

use crate::design::Design;
use crate::run::threads;

/// The map is `Send` and `Sync`. (A compile-time fact: the check cannot be built otherwise.)
pub fn send_and_sync<D: Design>() {
    fn assert_send_sync<T: Send + Sync + 'static>() {}
    assert_send_sync::<D::Map<u64, String, DefaultHashBuilder>>();
    assert_send_sync::<D::Map<String, Vec<u8>, std::hash::RandomState>>();
}

/// Four threads use every method on common keys; afterwards the content is one that they can have left behind.
pub fn four_threads_use_every_method<D: Design>() {
    let map = D::build::<String, u64, _>(None, DefaultHashBuilder::with_seed(1));
    threads(4, |thread| {
        for round in 0..200_u64 {
            let own = format!("own-{thread}-{}", round % 10);
            let shared = format!("shared-{}", round % 7);
            map.insert(own.clone(), round);
            assert_eq!(
                map.get(own.as_str()),
                Some(round),
                "a thread misses its own write"
            );
            map.upsert(shared.clone(), |seen| seen.map_or(1, |n| n + 1));
            assert!(
                map.contains_key("shared-0"),
                "a key that is never removed is missing"
            );
            assert!(
                map.get_or_insert_with(shared.clone(), || 0) > 0,
                "a counter that only grows is 0"
            );
            assert_eq!(map.swap(own.clone(), round + 1), Some(round));
            assert_eq!(
                map.get_batch([own.as_str(), "absent"]),
                [Some(round + 1), None]
            );
            if round % 3 == 0 {
                assert_eq!(map.take(own.as_str()), Some(round + 1));
                assert!(
                    !map.remove_if(own.as_str(), |_| true),
                    "a removed key is removed again"
                );
            }
            if round % 50 == 0 {
                map.bulk_load([(own.clone(), 5), (own.clone(), 6)]);
                assert_eq!(map.get(own.as_str()), Some(6));
                map.retain(|key, _| !key.starts_with(&format!("own-{thread}-")));
                assert!(
                    !map.contains_key(own.as_str()),
                    "retain leaves what it was to remove"
                );
                map.for_each(|key, _| {
                    assert!(key.starts_with("own-") || key.starts_with("shared-"))
                });
                assert!(
                    map.len() <= 4 * 10 + 7,
                    "len {} is above the number of keys",
                    map.len()
                );
            }
            map.remove(own.as_str());
        }
    });
    let mut entries = map.entries();
    entries.sort();
    let expected: Vec<(String, u64)> = (0..7)
        .map(|n| {
            (
                format!("shared-{n}"),
                4 * (0..200).filter(|round| round % 7 == n).count() as u64,
            )
        })
        .collect();
    assert_eq!(
        entries, expected,
        "increments are lost, or keys stay behind"
    );
    assert_eq!(map.len(), 7);
}
