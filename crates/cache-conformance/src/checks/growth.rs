//! Nothing acknowledged is missed and nothing removed comes back, while the map grows from empty.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use cache_api::{Cache, DefaultHashBuilder, GetBatch, Iterate};

use crate::design::Design;
use crate::rng::Rng;
use crate::run::{CountDown, Raise, scaled, threads};

/// The number of keys for tests that fill a map: fewer where each write costs O(n).
fn many<D: Design>(keys: usize) -> usize {
    if D::LINEAR_WRITES {
        scaled(keys / 40)
    } else {
        scaled(keys)
    }
}

/// Four writers insert ever new keys from empty; four readers look up keys already acknowledged: each is there,
/// with its value, at every growth step. Removed keys stay away.
pub fn acknowledged_keys_are_never_missed<D: Design>() {
    const WRITERS: u64 = 4;
    // A writer removes its key number n once it has inserted number n + LAG, where n is odd.
    const LAG: u64 = 64;
    let each = many::<D>(40_000) as u64;
    let map = D::build::<u64, u64, _>(None, DefaultHashBuilder::with_seed(3));
    let acknowledged: Vec<AtomicU64> = (0..WRITERS).map(|_| AtomicU64::new(0)).collect();
    let writing = AtomicUsize::new(WRITERS as usize);
    let id = |writer: u64, n: u64| writer << 32 | n;
    threads(2 * WRITERS as usize, |thread| {
        let thread = thread as u64;
        if thread < WRITERS {
            // Counted down even if an assertion fails, so that the readers end.
            let _done = CountDown(&writing);
            for n in 0..each {
                map.insert(id(thread, n), n ^ 7);
                acknowledged[thread as usize].store(n + 1, Ordering::Release);
                if n >= LAG && n % 2 == 1 {
                    map.remove(&id(thread, n - LAG));
                    assert!(
                        !map.contains_key(&id(thread, n - LAG)),
                        "a removed key is still there"
                    );
                }
            }
            return;
        }
        let mut rng = Rng::new(thread);
        while writing.load(Ordering::Acquire) > 0 {
            let writer = rng.draw() % WRITERS;
            let known = acknowledged[writer as usize].load(Ordering::Acquire);
            if known == 0 {
                std::thread::yield_now();
                continue;
            }
            // Old keys and quite new ones alike. Even keys are never removed.
            let n = if rng.below(2) == 0 {
                rng.draw() % known
            } else {
                known - 1 - rng.draw() % known.min(8)
            };
            if n % 2 == 0 {
                let got = map.get(&id(writer, n));
                assert_eq!(
                    got,
                    Some(n ^ 7),
                    "key {n} of writer {writer} was acknowledged ({known} were)"
                );
                if rng.below(16) == 0 {
                    let other = (rng.draw() % known) & !1;
                    let batch = map.get_batch(&[id(writer, n), u64::MAX, id(writer, other)]);
                    assert_eq!(
                        batch,
                        [Some(n ^ 7), None, Some(other ^ 7)],
                        "get_batch misses acknowledged keys"
                    );
                }
            } else if n + LAG + 1 < known {
                // Removed before the writer acknowledged number n + LAG + 1.
                assert!(
                    !map.contains_key(&id(writer, n)),
                    "removed key {n} of writer {writer} came back"
                );
            }
        }
    });
    let mut keys = map.keys();
    keys.sort_unstable();
    let stays = |n: &u64| n.is_multiple_of(2) || n + LAG >= each;
    let expected: Vec<u64> = (0..WRITERS)
        .flat_map(|writer| (0..each).filter(stays).map(move |n| id(writer, n)))
        .collect();
    assert_eq!(keys.len(), expected.len(), "keys are lost or left behind");
    assert!(
        keys == expected,
        "the map holds other keys than were inserted"
    );
    assert_eq!(map.len(), expected.len(), "len");
}

/// While other keys come and go: a visit sees every key that stays exactly once, and no key twice; `retain` that
/// keeps them keeps them.
pub fn visits_see_what_stays_exactly_once<D: Design>() {
    const STAY: u64 = 200;
    let visits = if D::LINEAR_WRITES {
        scaled(100)
    } else {
        scaled(200)
    };
    let map = D::build::<u64, u64, _>(None, DefaultHashBuilder::with_seed(4));
    (0..STAY).for_each(|key| map.insert(key, key));
    let over = AtomicBool::new(false);
    threads(3, |thread| {
        if thread < 2 {
            let mut rng = Rng::new(thread as u64);
            while !over.load(Ordering::Acquire) {
                let key = STAY + rng.draw() % 400;
                if rng.below(2) == 0 {
                    map.insert(key, key)
                } else {
                    map.remove(&key)
                }
                // Replacing what stays does not make it come or go.
                let stays = rng.draw() % STAY;
                map.insert(stays, stays);
            }
            return;
        }
        let _over = Raise(&over);
        for visit in 0..visits {
            let mut seen = Vec::new();
            if visit % 2 == 0 {
                map.for_each(|key, value| {
                    assert_eq!(key, value, "a key is visited with another key's value");
                    seen.push(*key);
                });
            } else {
                map.retain(|key, value| {
                    assert_eq!(key, value, "a key is tested with another key's value");
                    *key < STAY || key % 3 > 0
                });
                seen = map.keys();
            }
            seen.sort_unstable();
            let total = seen.len();
            seen.dedup();
            assert_eq!(seen.len(), total, "an entry is visited twice");
            let stayed = seen.iter().filter(|key| **key < STAY).count();
            assert_eq!(
                stayed, STAY as usize,
                "a visit misses entries that were there all the time"
            );
        }
    });
}
