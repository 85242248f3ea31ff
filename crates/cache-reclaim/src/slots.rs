//! The slots in which threads announce what they read: one record per thread, reused, never freed.

use std::cell::Cell;
use std::iter;
use std::ptr;
use std::sync::atomic::AtomicBool;

use crate::barrier;
use crate::link::Link;
use crate::sync::{AtomicPtr, Ordering};

/// What a thread is reading, null if nothing.
pub(crate) type Slot = AtomicPtr<()>;

/// How many values a thread may read at a time, one inside the closure of the other, before it needs to borrow a
/// record for each further one.
const SLOTS: usize = 7;

/// The slots of one thread, on cache lines of their own.
///
/// A slot goes from null to a pointer only by the thread that leases the record, and back to null only by the guard
/// that set it. So a guard may outlive the lease: the next lessee takes another slot.
#[repr(align(128))]
pub(crate) struct Record {
    slots: [Slot; SLOTS],
    /// Whether the reader has to fence; here because the reader has this line anyway.
    fenced: bool,
    /// Whether some thread may announce here.
    leased: AtomicBool,
    /// The record that was added after this one.
    next: Link<Record>,
}

/// A slot, and the record to give back with it if it was borrowed for this slot alone.
pub(crate) struct Lease {
    pub(crate) slot: &'static Slot,
    pub(crate) fenced: bool,
    borrowed: Option<&'static Record>,
}

/// The first record, which leads to all others. They are never unlinked: as many as threads ever read at one time.
static FIRST: Link<Record> = Link::new();

thread_local! {
    /// This thread's record. No destructor, so it can be asked at any time.
    static MINE: Cell<Option<&'static Record>> = const { Cell::new(None) };
    /// Gives the record back when the thread ends.
    static AT_EXIT: AtExit = const { AtExit };
}

struct AtExit;

impl Drop for AtExit {
    fn drop(&mut self) {
        if let Some(record) = MINE.take() {
            record.give_back();
        }
    }
}

/// A free slot of this thread.
#[inline]
pub(crate) fn lease() -> Lease {
    if let Some(record) = MINE.get() {
        let slot = &record.slots[0];
        // Acquire: see `free_slot`.
        if slot.load(Ordering::Acquire).is_null() {
            return Lease {
                slot,
                fenced: record.fenced,
                borrowed: None,
            };
        }
    }
    lease_slow()
}

/// The first read of a thread, one inside of another, or one after the thread's end has begun.
#[cold]
#[inline(never)]
fn lease_slow() -> Lease {
    if MINE.get().is_none() {
        // Touching it registers the destructor; where that has run already, the record is borrowed for one read.
        if AT_EXIT.try_with(|_| ()).is_ok() {
            MINE.set(Some(Record::claim()));
        }
    }
    if let Some(record) = MINE.get()
        && let Some(slot) = record.free_slot()
    {
        return Lease {
            slot,
            fenced: record.fenced,
            borrowed: None,
        };
    }
    loop {
        let record = Record::claim();
        // A record may come back with slots in use, by guards that outlived their lease: then look further, and leave
        // it leased, for it is of little use to anybody.
        if let Some(slot) = record.free_slot() {
            return Lease {
                slot,
                fenced: record.fenced,
                borrowed: Some(record),
            };
        }
    }
}

impl Lease {
    /// Takes back the announcement.
    #[inline]
    pub(crate) fn end(&self) {
        // Release: a writer that sees the slot without the pointer, and frees the value, does so after our reads.
        self.slot.store(ptr::null_mut(), Ordering::Release);
        if let Some(record) = self.borrowed {
            record.give_back();
        }
    }
}

impl Record {
    /// A record for this thread: one given back, or a new one. O(records).
    fn claim() -> &'static Self {
        let unleased = all().find(|record| {
            // Acquire: whatever the last lessee did with the slots comes before what we do.
            !record.leased.load(Ordering::Relaxed)
                && record
                    .leased
                    .compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed)
                    .is_ok()
        });
        unleased.unwrap_or_else(Self::append)
    }

    /// A new record at the end of the list, leased.
    fn append() -> &'static Self {
        let record: &'static Self = Box::leak(Box::new(Self {
            slots: std::array::from_fn(|_| AtomicPtr::new(ptr::null_mut())),
            fenced: barrier::readers_fence(),
            leased: AtomicBool::new(true),
            next: Link::new(),
        }));
        let mut end = &FIRST;
        while let Err(before) = end.set(record) {
            // Somebody was there before: on to the end of the list, which only grows.
            end = &before.next;
        }
        record
    }

    /// Lets another thread have the record.
    fn give_back(&self) {
        self.leased.store(false, Ordering::Release);
    }

    fn free_slot(&'static self) -> Option<&'static Slot> {
        // Acquire: the guard that emptied the slot may have belonged to another thread. Its reads must come before our
        // announcement, because a writer that sees ours concludes that the guard has ended.
        self.slots
            .iter()
            .find(|slot| slot.load(Ordering::Acquire).is_null())
    }
}

/// All records. Whoever announces has its record in the list before that.
fn all() -> impl Iterator<Item = &'static Record> {
    iter::successors(FIRST.get(), |record| record.next.get())
}

/// All slots of all threads.
pub(crate) fn all_slots() -> impl Iterator<Item = &'static Slot> {
    all().flat_map(|record| &record.slots)
}
