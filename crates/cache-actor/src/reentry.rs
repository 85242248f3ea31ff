//! Knows on whose behalf a thread is working, so that a map can refuse a call that would wait for itself.
//!
//! An owner thread that asks its own map would wait for an answer that only it can give. It is refused at once. The
//! same holds one step removed: a closure in map A asks map B, and there a closure asks A, whose owner is waiting for
//! B. So a request carries the list of maps whose owners wait for it, and a call to any of them is refused.
//!
//! What this cannot see are two unrelated requests that cross (one from A to B, one from B to A, at the same time):
//! as with locks, closures that call other maps must do so in one order.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cache_api::REENTRANT;

/// A map, and the maps whose owner threads wait for what its owner is doing now.
pub(crate) struct Chain {
    map: u64,
    asked_by: Option<Arc<Chain>>,
}

thread_local! {
    /// For whom this thread works: `None` on every thread that owns no shard.
    static WORKING_FOR: RefCell<Option<Arc<Chain>>> = const { RefCell::new(None) };
}

/// A new identity for a map; never reused.
pub(crate) fn new_identity() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    // Relaxed: only uniqueness matters.
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// The chain to send along with a request of this thread to `map`: `None`, and O(1), on ordinary threads.
///
/// # Panics
///
/// With a message containing `re-entrant` where an owner of `map` is waiting for this thread (or is this thread).
#[inline]
pub(crate) fn enter(map: u64) -> Option<Arc<Chain>> {
    // Thread-locals are gone only while a thread ends; an owner thread ends only when no handle to its map is left.
    let chain = WORKING_FOR
        .try_with(|chain| chain.borrow().clone())
        .ok()??;
    mutant!(ReentryUnchecked => { return None; });
    if is_in(Some(&chain), map) {
        refuse();
    }
    Some(chain)
}

/// Whether an owner of `map` is this thread or waits for it.
pub(crate) fn is_inside(map: u64) -> bool {
    WORKING_FOR
        .try_with(|chain| is_in(chain.borrow().as_ref(), map))
        .unwrap_or(false)
}

/// Makes this thread an owner of `map`, for good.
pub(crate) fn become_owner(map: u64) {
    replace(Some(Arc::new(Chain {
        map,
        asked_by: None,
    })));
}

/// Runs `f` on an owner thread of `map`, for a request that came with the chain `asked_by`.
#[inline]
pub(crate) fn serve<R>(map: u64, asked_by: Option<Arc<Chain>>, f: impl FnOnce() -> R) -> R {
    match asked_by {
        None => f(),
        // Requests from other maps' owners are rare: only they pay for a longer chain.
        Some(_) => serve_owner(map, asked_by, f),
    }
}

#[cold]
fn serve_owner<R>(map: u64, asked_by: Option<Arc<Chain>>, f: impl FnOnce() -> R) -> R {
    /// Puts the former chain back, also when `f` unwinds.
    struct Restore(Option<Arc<Chain>>);
    impl Drop for Restore {
        fn drop(&mut self) {
            replace(self.0.take());
        }
    }
    let _restore = Restore(replace(Some(Arc::new(Chain { map, asked_by }))));
    f()
}

fn replace(chain: Option<Arc<Chain>>) -> Option<Arc<Chain>> {
    WORKING_FOR
        .try_with(|current| current.replace(chain))
        .unwrap_or(None)
}

fn is_in(mut chain: Option<&Arc<Chain>>, map: u64) -> bool {
    while let Some(link) = chain {
        if link.map == map {
            return true;
        }
        chain = link.asked_by.as_ref();
    }
    false
}

#[cold]
fn refuse() -> ! {
    panic!(
        "cache-actor: {REENTRANT} call: user code that runs on an owner thread (a closure, Eq, Clone or Drop) called \
         the map that waits for it"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chains_are_searched_to_their_end_and_restored() {
        std::thread::spawn(|| {
            let (a, b, c) = (new_identity(), new_identity(), new_identity());
            assert!(enter(a).is_none() && !is_inside(a));
            become_owner(a);
            assert!(is_inside(a) && !is_inside(b));
            let asked_by = Some(Arc::new(Chain {
                map: b,
                asked_by: Some(Arc::new(Chain {
                    map: c,
                    asked_by: None,
                })),
            }));
            serve(a, asked_by, || {
                assert!(is_inside(a) && is_inside(b) && is_inside(c))
            });
            assert!(is_inside(a) && !is_inside(b) && !is_inside(c));
            assert!(enter(b).is_some());
            let refused = std::panic::catch_unwind(|| enter(a))
                .map(|_| ())
                .unwrap_err();
            assert!(
                refused
                    .downcast_ref::<String>()
                    .is_some_and(|text| text.contains(REENTRANT))
            );
        })
        .join()
        .expect("the checks hold");
    }
}
