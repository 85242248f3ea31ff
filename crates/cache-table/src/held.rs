//! The re-entry guard: which maps the current thread has locked; it never blocks and never allocates.

use std::cell::Cell;
use std::marker::PhantomData;

/// How many different maps one thread may hold locked at a time, each from inside a closure of the one before.
pub const MAX_NESTED: usize = 64;

/// What the current thread holds. Plain integers in constant-initialised cells without a destructor: usable at
/// any time of a thread's life, also from the destructors of other thread-locals at its very end.
struct Stack {
    /// The map locked last, 0 if none.
    innermost: Cell<usize>,
    /// How many maps are held outside of `innermost`.
    outer: Cell<usize>,
    /// Those maps, outermost first; only `outer` of the places are in use.
    addresses: [Cell<usize>; MAX_NESTED - 1],
}

thread_local! {
    static STACK: Stack = const {
        Stack {
            innermost: Cell::new(0),
            outer: Cell::new(0),
            addresses: [const { Cell::new(0) }; MAX_NESTED - 1],
        }
    };
}

/// A witness that the current thread may lock a map, because it does not hold that map's lock yet.
///
/// Created before the lock is taken and dropped after it is released, in the reverse order of creation (as local
/// variables are). A call on the same map in between, from a closure or from a `Hash`, `Eq`, `Clone` or `Drop` that
/// runs under the lock, would wait for the very thread that makes it; [`enter`](Held::enter) panics instead.
///
/// Forgetting a witness (`mem::forget`) makes later calls of this thread on that map panic, and nothing worse.
///
/// # Cost
///
/// One thread-local load, a comparison and two stores while the thread holds no other map; O(depth) when nested.
///
/// ```
/// use cache_table::Held;
///
/// let (a, b) = (0x1000, 0x2000);
/// let _outer = Held::enter(a, "Map");
/// let _nested = Held::enter(b, "Map"); // Another map: fine.
/// let refused = std::panic::catch_unwind(|| Held::enter(a, "Map"));
/// assert!(refused.is_err());
/// ```
#[derive(Debug)]
#[must_use = "the map counts as held only while this value lives"]
pub struct Held {
    /// What `innermost` was before, and becomes again.
    previous: usize,
    /// The stack belongs to one thread, and so does its witness.
    _not_send: PhantomData<*const ()>,
}

impl Held {
    /// Marks the map at `address` as held by this thread; `map` names its type in the panic message.
    ///
    /// The address identifies the map, so it must be that of something inside the map that is not zero-sized and
    /// does not move meanwhile.
    ///
    /// # Panics
    ///
    /// If this thread holds that map already (the message contains `re-entrant`), or holds [`MAX_NESTED`] others.
    #[inline]
    pub fn enter(address: usize, map: &'static str) -> Self {
        STACK.with(|stack| {
            let previous = stack.innermost.get();
            if previous != 0 {
                stack.nest(previous, address, map);
            }
            stack.innermost.set(address);
            Self {
                previous,
                _not_send: PhantomData,
            }
        })
    }

    /// Whether this thread holds the map at `address`. O(depth).
    #[must_use]
    pub fn is_held(address: usize) -> bool {
        STACK.with(|stack| stack.contains(address))
    }
}

impl Drop for Held {
    #[inline]
    fn drop(&mut self) {
        STACK.with(|stack| {
            stack.innermost.set(self.previous);
            if self.previous != 0 {
                stack.outer.set(stack.outer.get() - 1);
            }
        });
    }
}

impl Stack {
    fn contains(&self, address: usize) -> bool {
        self.innermost.get() == address
            || self.addresses[..self.outer.get()]
                .iter()
                .any(|held| held.get() == address)
    }

    /// Moves `previous` to the outer maps to make room for `address`, or refuses.
    #[cold]
    #[inline(never)]
    fn nest(&self, previous: usize, address: usize, map: &'static str) {
        if self.contains(address) {
            refuse(map);
        }
        let outer = self.outer.get();
        let Some(place) = self.addresses.get(outer) else {
            panic!(
                "re-entrant call refused: this thread already holds the locks of {MAX_NESTED} maps"
            );
        };
        place.set(previous);
        self.outer.set(outer + 1);
    }
}

#[cold]
fn refuse(map: &'static str) -> ! {
    panic!(
        "re-entrant call: this {map} was called from inside one of its own closures, or from a Hash, Eq or Clone \
         that runs under its lock, and would wait for itself for ever. Take what you need out of the closure \
         (a clone, a flag) and call the map after it has returned"
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    fn refused(address: usize) -> bool {
        match catch_unwind(AssertUnwindSafe(|| Held::enter(address, "Test"))) {
            Ok(_) => false,
            Err(payload) => {
                assert!(
                    payload
                        .downcast_ref::<String>()
                        .expect("a message")
                        .contains("re-entrant")
                );
                true
            }
        }
    }

    #[test]
    fn the_same_map_is_refused_at_every_depth_and_free_afterwards() {
        let frames: Vec<_> = (1..=5)
            .map(|address| Held::enter(address, "Test"))
            .collect();
        assert!((1..=5).all(refused));
        assert!(!refused(6));
        assert!((1..=5).all(Held::is_held) && !Held::is_held(6));
        for frame in frames.into_iter().rev() {
            drop(frame);
        }
        assert!(!(1..=6).any(refused));
    }

    #[test]
    fn a_panic_unwinds_the_stack() {
        let outer = Held::enter(1, "Test");
        let panicked = catch_unwind(|| {
            let _inner = Held::enter(2, "Test");
            panic!("user code");
        });
        assert!(panicked.is_err());
        assert!(refused(1) && !refused(2));
        drop(outer);
        assert!(!refused(1));
    }

    #[test]
    fn too_deep_is_refused_and_harmless() {
        let frames: Vec<_> = (1..=MAX_NESTED)
            .map(|address| Held::enter(address, "Test"))
            .collect();
        assert!(refused(MAX_NESTED + 1));
        for frame in frames.into_iter().rev() {
            drop(frame);
        }
        assert!(!refused(1));
    }

    #[test]
    fn threads_do_not_see_each_other_and_exit_destructors_may_enter() {
        struct AtExit;
        impl Drop for AtExit {
            fn drop(&mut self) {
                assert!(!refused(1));
            }
        }
        thread_local!(static LAST: Cell<Option<AtExit>> = const { Cell::new(None) });
        let _held = Held::enter(1, "Test");
        std::thread::spawn(|| {
            LAST.set(Some(AtExit));
            assert!(!refused(1));
        })
        .join()
        .expect("the other thread may hold the same map");
    }
}
