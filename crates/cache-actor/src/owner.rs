//! The owner's side: the thread that alone touches its shards, and the messages it understands. Never blocks, except
//! on its mailbox and in user code.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crossbeam_channel::Receiver;

use crate::reentry::{self, Chain};
use crate::rendezvous::Call;
use crate::routing::Routing;
use crate::shard::{Entry, Shard};

/// What an owner can be told.
pub(crate) enum Message<K, V> {
    /// A blind write: nobody waits.
    Insert { hash: u64, key: K, value: V },
    /// A blind delete: nobody waits.
    Remove { hash: u64, key: K },
    /// Anything else: a closure over the owner's shards, whose caller waits.
    Call {
        call: Call<Owner<K, V>>,
        asked_by: Option<Arc<Chain>>,
    },
    /// Makes the owner thread panic outside any request, which no user code can do.
    #[cfg(all(test, not(shuttle)))]
    Die,
}

/// What the handles know of one owner besides its mailbox.
pub(crate) struct Health {
    /// Writes that nobody waited for and that ended in a panic.
    failed_writes: AtomicU64,
    /// Set once the owner can no longer answer.
    dead: AtomicBool,
}

impl Health {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            failed_writes: AtomicU64::new(0),
            dead: AtomicBool::new(false),
        })
    }

    pub(crate) fn failed_writes(&self) -> u64 {
        // Relaxed: a count. Whoever needs it exact has waited for the owner, which orders it.
        self.failed_writes.load(Ordering::Relaxed)
    }

    pub(crate) fn is_dead(&self) -> bool {
        // Relaxed: a write that overtakes this is answered (and counted) by the thread that took the mailbox over.
        self.dead.load(Ordering::Relaxed)
    }

    fn count_failure(&self) {
        self.failed_writes.fetch_add(1, Ordering::Relaxed);
    }
}

/// An owner's shards. Only the owner's thread ever sees one.
pub(crate) struct Owner<K, V> {
    routing: Routing,
    /// The number of the first of `shards` in the whole map.
    first: usize,
    shards: Vec<Shard<K, V>>,
    map: u64,
    health: Arc<Health>,
}

impl<K, V> Owner<K, V> {
    /// Owner number `number` of the map with identity `map`, with room for `capacity` entries in each shard.
    pub(crate) fn new(
        routing: Routing,
        number: usize,
        capacity: usize,
        map: u64,
        health: Arc<Health>,
    ) -> Self {
        let range = routing.shards_of_owner(number);
        let shards = range
            .clone()
            .map(|_| Shard::with_capacity(capacity))
            .collect();
        Self {
            routing,
            first: range.start,
            shards,
            map,
            health,
        }
    }

    /// The shard that `hash` belongs to.
    #[inline]
    pub(crate) fn shard_for(&mut self, hash: u64) -> &mut Shard<K, V> {
        let shard = self.routing.shard_of(hash);
        self.shard(shard)
    }

    /// The shard with this number in the whole map.
    #[inline]
    pub(crate) fn shard(&mut self, number: usize) -> &mut Shard<K, V> {
        &mut self.shards[number - self.first]
    }

    pub(crate) fn shards(&mut self) -> &mut [Shard<K, V>] {
        &mut self.shards
    }
}

impl<K: Eq, V> Owner<K, V> {
    /// Works until every handle is gone and the mailbox is empty, then drops the entries. The whole life of the
    /// owner's thread.
    pub(crate) fn run(mut self, mailbox: Receiver<Message<K, V>>) {
        reentry::become_owner(self.map);
        let health = Arc::clone(&self.health);
        // AssertUnwindSafe: after a panic here nobody looks at the shards again; they are dropped.
        let worked = catch_unwind(AssertUnwindSafe(|| {
            for message in &mailbox {
                // Leaves with the mailbox full as soon as the handles are gone.
                mutant!(DropBeforeDrain => {
                    if crate::mutants::map_is_dropped(self.map) {
                        std::mem::forget(message);
                        break;
                    }
                });
                // Lets the next message go first.
                mutant!(WritesOvertaken => {
                    if matches!(message, Message::Insert { .. }) {
                        std::thread::sleep(std::time::Duration::from_millis(1));
                        mailbox.try_iter().take(1).for_each(|next| self.handle(next));
                    }
                });
                self.handle(message);
            }
        }));
        if let Err(payload) = worked {
            // Leaves the mailbox as it is.
            mutant!(NoUndertaker => { return; });
            // No user code can come here: every piece of it runs under `guarded` or `Call::run`. Should the crate
            // itself be at fault, the thread stays as undertaker: it tells every caller, so that none waits for ever.
            // Relaxed: see `is_dead`.
            health.dead.store(true, Ordering::Relaxed);
            forget_quietly(payload);
            self.drop_entries();
            for message in &mailbox {
                if !matches!(message, Message::Call { .. }) {
                    health.count_failure();
                }
                guarded(|| drop(message));
            }
        } else {
            self.drop_entries();
        }
    }

    #[inline]
    fn handle(&mut self, message: Message<K, V>) {
        match message {
            Message::Insert { hash, key, value } => self.insert(hash, key, value),
            Message::Remove { hash, key } => self.remove(hash, key),
            Message::Call { call, asked_by } => {
                reentry::serve(self.map, asked_by, || call.run(self))
            }
            #[cfg(all(test, not(shuttle)))]
            Message::Die => panic!("told to die"),
        }
    }

    fn insert(&mut self, hash: u64, key: K, value: V) {
        let (mut key, mut value) = (Some(key), Some(value));
        let shard = self.shard_for(hash);
        let mut old = None;
        let mut fine = guarded(|| old = shard.insert(hash, &mut key, &mut value));
        // Each destructor under its own guard: one that panics keeps no other from running.
        fine &= !std::mem::needs_drop::<K>() || guarded(|| drop(key));
        fine &= !std::mem::needs_drop::<V>() || (guarded(|| drop(old)) & guarded(|| drop(value)));
        if !fine {
            self.health.count_failure();
        }
    }

    fn remove(&mut self, hash: u64, key: K) {
        let shard = self.shard_for(hash);
        let mut removed = None;
        let mut fine = guarded(|| removed = shard.remove(hash, &key));
        fine &= guarded(|| drop(key));
        fine &= removed.is_none_or(drop_entry);
        if !fine {
            self.health.count_failure();
        }
    }
}

impl<K, V> Owner<K, V> {
    fn drop_entries(self) {
        for shard in self.shards {
            for entry in shard.into_entries() {
                // A destructor that panics has no caller to go to; the hook has reported it.
                let _ = drop_entry(entry);
            }
        }
    }
}

/// Drops both parts, whatever either destructor does; `false` if one panicked.
fn drop_entry<K, V>(entry: Entry<K, V>) -> bool {
    let Entry { key, value, .. } = entry;
    guarded(|| drop(key)) & guarded(|| drop(value))
}

/// Runs user code that no caller waits for; `false` if it panicked. The panic hook has reported it by then.
#[inline]
fn guarded(f: impl FnOnce()) -> bool {
    // AssertUnwindSafe: the table is consistent whenever it runs user code, and what `f` borrows is only dropped.
    match catch_unwind(AssertUnwindSafe(f)) {
        Ok(()) => true,
        Err(payload) => {
            forget_quietly(payload);
            false
        }
    }
}

/// Drops a panic's payload; one whose own destructor panics is the only thing that is given up.
#[cold]
fn forget_quietly(payload: Box<dyn Any + Send>) {
    if let Err(second) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        std::mem::forget(second);
    }
}
