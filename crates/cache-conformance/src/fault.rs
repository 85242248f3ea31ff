//! The deliberate faults that a [`Reference`](crate::reference::Reference) can have, one number each.
//!
//! `tests/mutants.rs` shows for each which check finds it.

/// None: the correct map.
pub const NONE: u32 = 0;
/// A call back from user code waits for the lock that its own thread holds.
pub const HANG_ON_REENTRY: u32 = 1;
/// `len` is a counter beside the map, changed at another moment.
pub const LEN_APART: u32 = 2;
/// `upsert` reads under the lock, and writes under the lock again: what came in between is lost.
pub const LOST_UPDATE: u32 = 3;
/// `insert` drops the value that it replaces twice.
pub const DROPS_TWICE: u32 = 4;
/// `insert` never drops the entry that it replaces.
pub const LEAKS: u32 = 5;
/// While the map grows, operations find only what has been moved.
pub const GROWTH_WINDOW: u32 = 6;
/// `get_batch` answers in the order of hashes, not in the order asked.
pub const BATCH_ORDER: u32 = 7;
/// `clear` empties the map once more, a moment later.
pub const CLEARS_TWICE: u32 = 8;
/// A view is only filled when it is first read.
pub const SNAPSHOT_LATE: u32 = 9;
/// A view is filled in two moments.
pub const SNAPSHOT_TORN: u32 = 10;
/// The length is raised before user code that may panic.
pub const PANIC_SPOILS_LEN: u32 = 11;
/// `get_or_insert_with` runs `init` outside the lock, although it promises to run it once; the stored value wins.
pub const INIT_TWICE: u32 = 12;
/// Reads use a copy that writers publish after they have released the lock.
pub const STALE_READ: u32 = 13;
/// A panic in user code poisons the map.
pub const POISON: u32 = 14;
/// A caller of `get_or_insert_with` that loses the race gets its own value.
pub const LOSER_KEEPS_ITS_VALUE: u32 = 15;
/// `remove_if` removes whatever is there after it has tested.
pub const REMOVES_UNTESTED: u32 = 16;
/// For repeated keys in a bulk load, the first wins.
pub const FIRST_WINS: u32 = 17;
/// A visit keeps its place by number and lets go of the lock in between: removals make it skip entries.
pub const VISIT_BY_NUMBER: u32 = 18;
/// Replaced and removed entries are dropped under the lock.
pub const DROP_UNDER_LOCK: u32 = 19;
/// A fork is another handle of the same map.
pub const FORK_SHARES: u32 = 20;
/// A panicking `init` leaves the mark that makes others wait.
pub const INIT_MARK_STAYS: u32 = 21;
/// `swap` reads the old value before it takes the lock for the write.
pub const SWAP_RACE: u32 = 22;
/// A panicking `retain` loses what it has not tested yet.
pub const RETAIN_LOSES: u32 = 23;
/// Keys with equal hashes count as equal.
pub const COLLISION_BLIND: u32 = 24;
/// A lookup hashes its key twice.
pub const HASHES_TWICE: u32 = 25;
/// A batch is answered key by key, although it promises one moment.
pub const BATCH_TORN: u32 = 26;
/// `upsert` runs its closure twice, although it promises once.
pub const CLOSURE_TWICE: u32 = 27;
/// Removal leaves an empty place behind for ever.
pub const KEEPS_PLACES: u32 = 28;
/// A huge capacity overflows.
pub const CAPACITY_OVERFLOW: u32 = 29;
/// The partition of a key depends on how full the map is.
pub const ROUTE_MOVES: u32 = 30;
/// The map keeps a copy of each snapshot.
pub const SNAPSHOTS_STAY: u32 = 31;
/// `take` reads and removes in two steps.
pub const TAKE_RACE: u32 = 32;
/// A panic in a closure of `for_each` never reaches the caller.
pub const SWALLOWS_PANICS: u32 = 33;
/// Every number above, with its name.
pub const ALL: [(u32, &str); 33] = [
    (HANG_ON_REENTRY, "hang on re-entry"),
    (LEN_APART, "len apart"),
    (LOST_UPDATE, "lost update"),
    (DROPS_TWICE, "drops twice"),
    (LEAKS, "leaks"),
    (GROWTH_WINDOW, "growth window"),
    (BATCH_ORDER, "batch order"),
    (CLEARS_TWICE, "clears twice"),
    (SNAPSHOT_LATE, "snapshot late"),
    (SNAPSHOT_TORN, "snapshot torn"),
    (PANIC_SPOILS_LEN, "panic spoils len"),
    (INIT_TWICE, "init twice"),
    (STALE_READ, "stale read"),
    (POISON, "poison"),
    (LOSER_KEEPS_ITS_VALUE, "loser keeps its value"),
    (REMOVES_UNTESTED, "removes untested"),
    (FIRST_WINS, "first wins"),
    (VISIT_BY_NUMBER, "visit by number"),
    (DROP_UNDER_LOCK, "drop under lock"),
    (FORK_SHARES, "fork shares"),
    (INIT_MARK_STAYS, "init mark stays"),
    (SWAP_RACE, "swap race"),
    (RETAIN_LOSES, "retain loses"),
    (COLLISION_BLIND, "collision blind"),
    (HASHES_TWICE, "hashes twice"),
    (BATCH_TORN, "batch torn"),
    (CLOSURE_TWICE, "closure twice"),
    (KEEPS_PLACES, "keeps places"),
    (CAPACITY_OVERFLOW, "capacity overflow"),
    (ROUTE_MOVES, "route moves"),
    (SNAPSHOTS_STAY, "snapshots stay"),
    (TAKE_RACE, "take race"),
    (SWALLOWS_PANICS, "swallows panics"),
];
