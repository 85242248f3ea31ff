//! The deliberate faults that a [`Reference`](crate::reference::Reference) can have, one number each.

/// None: the correct map.
pub const NONE: u32 = 0;
/// A call back from a closure waits for the lock its own thread holds.
pub const HANG_ON_REENTRY: u32 = 1;
/// `len` is a counter beside the map, changed at another moment.
pub const LEN_APART: u32 = 2;
