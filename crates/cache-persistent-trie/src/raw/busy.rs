//! Refuses writes to a map from inside a write to the same map. Never waits.
//!
//! A write runs user code (`Eq`, closures) once per attempt. If that code wrote to the same map, the attempt would
//! lose to it, run it again, and so on for ever. So a thread notes the maps it is in the middle of an attempt on, in a list
//! through its own stack frames, and a nested write panics at once.

use std::cell::Cell;
use std::ptr;

/// An entry of the list: while it exists, this thread's writes to `map` panic.
pub(crate) struct Busy {
    map: *const (),
    outer: *const Busy,
}

thread_local! {
    static INNERMOST: Cell<*const Busy> = const { Cell::new(ptr::null()) };
}

/// Removes the innermost entry, also when user code panics.
struct Leave(*const Busy);

impl Drop for Leave {
    fn drop(&mut self) {
        INNERMOST.with(|innermost| innermost.set(self.0));
    }
}

/// Runs user code in the middle of an attempt on `map`.
#[inline]
pub(crate) fn during<R>(map: *const (), user_code: impl FnOnce() -> R) -> R {
    if cfg!(shuttle) {
        // The model checker's threads share one thread-local variable, and the models have no nested writes.
        return user_code();
    }
    let outer = INNERMOST.with(Cell::get);
    let busy = Busy { map, outer };
    INNERMOST.with(|innermost| innermost.set(&raw const busy));
    let _leave = Leave(outer);
    user_code()
}

/// Panics if this thread is in the middle of an attempt on `map`.
#[inline]
pub(crate) fn refuse_nested(map: *const ()) {
    let innermost = INNERMOST.with(Cell::get);
    if !innermost.is_null() {
        refuse_nested_slow(map, innermost);
    }
}

#[cold]
fn refuse_nested_slow(map: *const (), mut entry: *const Busy) {
    while !entry.is_null() {
        // SAFETY: entries live in stack frames of this thread that are still active: each is removed before its frame
        // ends.
        let busy = unsafe { &*entry };
        assert!(
            busy.map != map,
            "{} write to a map from inside a closure, or `Eq`, of a write to the same map: it would be repeated \
             for ever; read, or write to another map",
            cache_api::REENTRANT
        );
        entry = busy.outer;
    }
}
