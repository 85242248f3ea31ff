//! The handle's side: [`Map`] hashes, routes, sends, and waits where it must. It never touches an entry.

use std::borrow::Borrow;
use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use cache_api::{BulkLoad, Cache, ClosureRuns, DefaultHashBuilder, Iterate, Routed, Update};
use crossbeam_channel::{Sender, TrySendError, bounded};

use crate::builder::Builder;
use crate::owner::{Health, Message, Owner};
use crate::reentry;
use crate::rendezvous::{DEAD, Slot, Task, run_all};
use crate::routing::Routing;
use crate::shard::{Entry, Shard};

/// How many entries a bulk load takes from its iterator before it hands them to the owners.
const LOAD_CHUNK: usize = 1 << 18;
/// After how many entries a visit lets other requests in.
const VISIT_ENTRIES: usize = 4_096;

/// A handle to a concurrent map whose entries are owned by threads: every operation is a message.
///
/// A handle is cheap to clone, as a channel's sender is: all clones are the same map. The map lives until the last
/// handle is dropped. See the [crate's documentation](crate) for what is guaranteed and when to use it.
///
/// # Which calls wait
///
/// | call | returns | user code runs on |
/// |---|---|---|
/// | [`insert`](Map::insert), [`remove`](Map::remove) | once enqueued (waits for room in a full mailbox) | owner: `Eq`, `Drop` of what is replaced |
/// | [`try_insert`](Map::try_insert) | at once | as above |
/// | everything else | with the owner's answer | owner: `Eq`, `Clone`, closures; caller: `Drop` of what is removed |
///
/// `Hash` always runs on the calling thread.
///
/// # Panics
///
/// Every method that sends a message panics:
/// - with a message containing `re-entrant`, at once, where user code that runs on an owner thread of this map calls
///   it (directly, or through a closure in another map of this crate);
/// - where an owner thread has died. No user code can make it die; see [`failed_writes`](Map::failed_writes) for what
///   happens to panics that have no caller to go to.
///
/// # Threads
///
/// `Send + Sync` where `K` and `V` are `Send`: values are only ever seen by one thread at a time, so they need not be
/// `Sync`.
///
/// ```compile_fail
/// // A value that may not change threads cannot be stored.
/// let map = cache_actor::Map::<u32, std::rc::Rc<u32>>::new();
/// ```
///
/// ```compile_fail
/// // Invariant in the value: a map of longer-lived references is not one of shorter-lived ones.
/// fn shorten<'a>(map: cache_actor::Map<u32, &'static str>) -> cache_actor::Map<u32, &'a str> {
///     map
/// }
/// ```
pub struct Map<K, V, S = DefaultHashBuilder> {
    shared: Arc<Shared<K, V, S>>,
}

/// [`Map`] under the name that tells it from the other designs' maps.
pub type ActorCache<K, V, S = DefaultHashBuilder> = Map<K, V, S>;

/// What all handles of one map share.
struct Shared<K, V, S> {
    identity: u64,
    hasher: S,
    routing: Routing,
    /// One per owner. Emptied by the destructor: that is what tells the owners to end.
    mailboxes: Vec<Sender<Message<K, V>>>,
    health: Vec<Arc<Health>>,
    threads: Vec<JoinHandle<()>>,
}

impl<K, V, S> Drop for Shared<K, V, S> {
    fn drop(&mut self) {
        mutant!(DropBeforeDrain => { crate::mutants::drop_map(self.identity); });
        self.mailboxes.clear();
        // The last handle may die on an owner thread (in a value's destructor), or on a thread that an owner waits
        // for. Joining would wait for itself: the owners then end on their own, right after this call.
        if reentry::is_inside(self.identity) {
            mutant!(DropJoinsItself => { self.join(); });
            return;
        }
        mutant!(DropDoesNotWait => { return; });
        self.join();
    }
}

impl<K, V, S> Shared<K, V, S> {
    fn join(&mut self) {
        for thread in self.threads.drain(..) {
            // An owner catches every panic; should one have escaped, it was reported by the hook.
            let _ = thread.join();
        }
    }
}

impl<K, V> Map<K, V>
where
    K: Hash + Eq + Send + 'static,
    V: Send + 'static,
{
    /// An empty map with the default [`Builder`] settings.
    ///
    /// # Panics
    ///
    /// Where the operating system refuses a thread; [`Builder::try_build`] returns the error instead.
    #[must_use]
    pub fn new() -> Self {
        Builder::new().build()
    }

    /// An empty map with room for `capacity` entries (a hint).
    ///
    /// # Panics
    ///
    /// As [`new`](Map::new).
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        Builder::new().capacity(capacity).build()
    }
}

impl<K, V, S> Map<K, V, S>
where
    K: Hash + Eq + Send + 'static,
    V: Send + 'static,
{
    /// An empty map that hashes with `hasher`.
    ///
    /// # Panics
    ///
    /// As [`new`](Map::new).
    #[must_use]
    pub fn with_hasher(hasher: S) -> Self {
        Builder::new().hasher(hasher).build()
    }

    /// An empty map with room for `capacity` entries (a hint) that hashes with `hasher`.
    ///
    /// # Panics
    ///
    /// As [`new`](Map::new).
    #[must_use]
    pub fn with_capacity_and_hasher(capacity: usize, hasher: S) -> Self {
        Builder::new().capacity(capacity).hasher(hasher).build()
    }

    /// Starts one thread per owner of `routing`; on an error those already started end before this returns.
    pub(crate) fn start(
        routing: Routing,
        mailbox: usize,
        capacity_per_shard: usize,
        hasher: S,
    ) -> io::Result<Self> {
        let mut shared = Shared {
            identity: reentry::new_identity(),
            hasher,
            routing,
            mailboxes: Vec::with_capacity(routing.owners()),
            health: Vec::with_capacity(routing.owners()),
            threads: Vec::with_capacity(routing.owners()),
        };
        for number in 0..routing.owners() {
            let (sender, receiver) = bounded(mailbox);
            let health = Health::new();
            let (identity, for_owner) = (shared.identity, Arc::clone(&health));
            // The tables are made on the thread that will use them, and never leave it.
            let life = move || {
                Owner::new(routing, number, capacity_per_shard, identity, for_owner).run(receiver)
            };
            shared.threads.push(
                thread::Builder::new()
                    .name(format!("cache-actor-{number}"))
                    .spawn(life)?,
            );
            shared.mailboxes.push(sender);
            shared.health.push(health);
        }
        Ok(Self {
            shared: Arc::new(shared),
        })
    }
}

impl<K, V, S> Map<K, V, S> {
    /// The number of owner threads.
    #[must_use]
    pub fn owners(&self) -> usize {
        self.shared.routing.owners()
    }

    /// The number of shards.
    #[must_use]
    pub fn shards(&self) -> usize {
        self.shared.routing.shards()
    }

    /// The hasher builder.
    #[must_use]
    pub fn hasher(&self) -> &S {
        &self.shared.hasher
    }

    /// How many calls of [`insert`](Map::insert), [`try_insert`](Map::try_insert) and [`remove`](Map::remove) have
    /// panicked on their owner thread, where no caller was left to be told.
    ///
    /// What can panic there is the key's `Eq` (the write is then not done) and the destructor of a replaced or
    /// removed key or value (it is done). The panic hook reports each one as usual; the shard goes on. Exact for all
    /// writes enqueued before a [`flush`](Map::flush).
    #[must_use]
    pub fn failed_writes(&self) -> u64 {
        self.shared
            .health
            .iter()
            .map(|health| health.failed_writes())
            .sum()
    }

    pub(crate) fn routing(&self) -> Routing {
        self.shared.routing
    }

    /// Tells how many handles are left, without being one.
    #[cfg(test)]
    pub(crate) fn handles(&self) -> impl Fn() -> usize + use<K, V, S> {
        let shared = Arc::downgrade(&self.shared);
        move || shared.strong_count()
    }

    /// Runs `f` on one owner's thread and waits for its answer.
    pub(crate) fn ask<F, R>(&self, owner: usize, f: F) -> R
    where
        F: FnOnce(&mut Owner<K, V>) -> R + Send,
        R: Send,
    {
        let mut tasks = [Task::new(f)];
        self.ask_all(&mut tasks, |_| owner);
        let [task] = tasks;
        task.into_answer()
    }

    /// Runs each task on the thread of the owner that `owner_of` names, all at the same time, and waits for all.
    pub(crate) fn ask_all<F, R>(&self, tasks: &mut [Task<F, R>], owner_of: impl Fn(usize) -> usize)
    where
        F: FnOnce(&mut Owner<K, V>) -> R + Send,
        R: Send,
    {
        let asked_by = reentry::enter(self.shared.identity);
        run_all(&Slot::of_this_thread(), tasks, |position, call| {
            let message = Message::Call {
                call,
                asked_by: asked_by.clone(),
            };
            // Fails only where the owner's thread is gone; the message is dropped then, which answers its caller.
            drop(self.shared.mailboxes[owner_of(position)].send(message));
        });
    }

    /// Enqueues a message that nobody waits for.
    #[inline]
    fn post(&self, owner: usize, message: Message<K, V>) {
        let _ = reentry::enter(self.shared.identity);
        if self.shared.health[owner].is_dead() {
            panic!("{DEAD}");
        }
        // Gives up where there is no room.
        mutant!(DropsOnFullMailbox => {
            let _ = self.shared.mailboxes[owner].try_send(message);
            return;
        });
        if self.shared.mailboxes[owner].send(message).is_err() {
            panic!("{DEAD}");
        }
    }

    /// Waits until everything enqueued so far (by this thread, or by one this thread has heard from) is done.
    ///
    /// Needed only to see side effects of earlier blind writes, such as destructors or
    /// [`failed_writes`](Map::failed_writes): the map's own answers observe them anyway. One message per owner.
    pub fn flush(&self) {
        for task in self.on_each_owner(|_| ()) {
            task.into_answer();
        }
    }

    /// Gives back the memory that the tables do not need; they never shrink by themselves.
    ///
    /// A round trip per owner, or per few thousand entries, so that other requests come in between. O(n) in all.
    pub fn shrink_to_fit(&self) {
        self.visit(Shard::shrink_to_fit);
    }

    /// Runs `f` on every shard, one after another. Each message covers some shards of one owner: all of them where
    /// they hold little, else only so many that the owner is not kept from other requests for long.
    fn visit(&self, mut f: impl FnMut(&mut Shard<K, V>) + Send) {
        for owner in 0..self.owners() {
            let mut shards = self.shared.routing.shards_of_owner(owner);
            while !shards.is_empty() {
                let (visited, f) = (shards.clone(), &mut f);
                shards.start = self.ask(owner, move |owner| {
                    let mut entries = 0;
                    for number in visited.clone() {
                        let shard = owner.shard(number);
                        entries += shard.len();
                        f(shard);
                        if entries >= VISIT_ENTRIES {
                            return number + 1;
                        }
                    }
                    visited.end
                });
            }
        }
    }

    /// Runs `f` on every owner, at the same time.
    fn on_each_owner<F, R>(&self, f: F) -> Vec<Task<F, R>>
    where
        F: Fn(&mut Owner<K, V>) -> R + Send + Copy,
        R: Send,
    {
        let mut tasks: Vec<_> = (0..self.owners()).map(|_| Task::new(f)).collect();
        self.ask_all(&mut tasks, |owner| owner);
        tasks
    }
}

impl<K, V, S: BuildHasher> Map<K, V, S> {
    pub(crate) fn hash_of<Q: Hash + ?Sized>(&self, key: &Q) -> u64 {
        self.shared.hasher.hash_one(key)
    }

    /// Runs `f` on the shard of `hash`.
    #[inline]
    fn ask_for<F, R>(&self, hash: u64, f: F) -> R
    where
        F: FnOnce(&mut Shard<K, V>) -> R + Send,
        R: Send,
    {
        self.ask(self.shared.routing.owner_of(hash), move |owner| {
            f(owner.shard_for(hash))
        })
    }
}

impl<K, V, S> Map<K, V, S>
where
    K: Hash + Eq + Send + 'static,
    V: Send + 'static,
    S: BuildHasher,
{
    /// Runs `f` on the value for `key`, on the owner's thread; see [`Cache::get_with`]. A round trip, O(1).
    ///
    /// Meanwhile the owner serves nobody else. A panic of `f` reaches the caller.
    pub fn get_with<Q, F, R>(&self, key: &Q, f: F) -> Option<R>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + Sync + ?Sized,
        F: FnOnce(&V) -> R + Send,
        R: Send,
    {
        let hash = self.hash_of(key);
        self.ask_for(hash, |shard| shard.get(hash, key).map(f))
    }

    /// A clone of the value for `key`, made on the owner's thread. A round trip, O(1).
    pub fn get<Q>(&self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + Sync + ?Sized,
        V: Clone,
    {
        self.get_with(key, V::clone)
    }

    /// Stores `value` for `key`; returns once the write is enqueued. O(1).
    ///
    /// The linearization point is the enqueue: whatever is asked after this returns, by any thread, observes the
    /// write. Where the mailbox is full, this waits for room ([`try_insert`](Map::try_insert) does not).
    ///
    /// Replaced keys and values are dropped on the owner's thread. A panic of user code there is counted by
    /// [`failed_writes`](Map::failed_writes); a panic of `Hash` reaches the caller.
    pub fn insert(&self, key: K, value: V) {
        let hash = self.hash_of(&key);
        self.post(
            self.shared.routing.owner_of(hash),
            Message::Insert { hash, key, value },
        );
    }

    /// Stores `value` for `key` if the mailbox has room right now. O(1), never waits.
    ///
    /// # Errors
    ///
    /// [`TryInsertError`] gives key and value back, where the mailbox is full or the owner has died.
    pub fn try_insert(&self, key: K, value: V) -> Result<(), TryInsertError<K, V>> {
        let hash = self.hash_of(&key);
        let owner = self.shared.routing.owner_of(hash);
        let _ = reentry::enter(self.shared.identity);
        if self.shared.health[owner].is_dead() {
            return Err(TryInsertError::Dead(key, value));
        }
        match self.shared.mailboxes[owner].try_send(Message::Insert { hash, key, value }) {
            Ok(()) => Ok(()),
            Err(TrySendError::Full(Message::Insert { key, value, .. })) => {
                Err(TryInsertError::Full(key, value))
            }
            Err(TrySendError::Disconnected(Message::Insert { key, value, .. })) => {
                Err(TryInsertError::Dead(key, value))
            }
            Err(_) => unreachable!("a channel gives back what was sent"),
        }
    }

    /// Removes `key` and drops its value; returns once the write is enqueued. O(1).
    ///
    /// Takes the key by value, since the owner needs it after this has returned. [`Cache::remove`], the contract's
    /// method, takes any borrowed form and so has to wait for the owner instead. Everything else is as for
    /// [`insert`](Map::insert).
    pub fn remove(&self, key: K) {
        let hash = self.hash_of(&key);
        self.post(
            self.shared.routing.owner_of(hash),
            Message::Remove { hash, key },
        );
    }

    /// Stores `value` for `key` and returns the value that it replaced. A round trip, O(1).
    pub fn swap(&self, key: K, value: V) -> Option<V> {
        let hash = self.hash_of(&key);
        let (mut key, mut value) = (Some(key), Some(value));
        // The unused key stays here, to be dropped by this thread.
        self.ask_for(hash, |shard| shard.insert(hash, &mut key, &mut value))
    }

    /// Removes `key` and returns its value. A round trip, O(1).
    pub fn take<Q>(&self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + Sync + ?Sized,
    {
        self.take_entry(key).map(|entry| entry.value)
    }

    /// Runs `f` on the stored value, in place and on the owner's thread, and returns its result; `None` where there
    /// is no such key. Atomic. A round trip, O(1).
    ///
    /// A panic of `f` reaches the caller; the value stays as `f` left it.
    pub fn update<Q, F, R>(&self, key: &Q, f: F) -> Option<R>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + Sync + ?Sized,
        F: FnOnce(&mut V) -> R + Send,
        R: Send,
    {
        let hash = self.hash_of(key);
        self.ask_for(hash, |shard| shard.get_mut(hash, key).map(f))
    }

    fn take_entry<Q>(&self, key: &Q) -> Option<Entry<K, V>>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + Sync + ?Sized,
    {
        let hash = self.hash_of(key);
        self.ask_for(hash, |shard| shard.remove(hash, key))
    }
}

/// Why [`Map::try_insert`] did not store the entry, and the entry.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum TryInsertError<K, V> {
    /// The mailbox is full: the owner is behind.
    Full(K, V),
    /// The owner's thread has died.
    Dead(K, V),
}

impl<K, V> TryInsertError<K, V> {
    /// The key and the value that were not stored.
    pub fn into_entry(self) -> (K, V) {
        match self {
            Self::Full(key, value) | Self::Dead(key, value) => (key, value),
        }
    }

    /// Whether trying again later may help.
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Full(..))
    }
}

impl<K, V> fmt::Debug for TryInsertError<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_full() {
            "Full(..)"
        } else {
            "Dead(..)"
        })
    }
}

impl<K, V> fmt::Display for TryInsertError<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_full() {
            "the owner's mailbox is full: try again later, or use `insert`"
        } else {
            DEAD
        })
    }
}

impl<K, V> std::error::Error for TryInsertError<K, V> {}

/// Closures run on the owner's thread, which serves nobody else meanwhile; each runs at most once.
///
/// [`insert`](Cache::insert) returns once enqueued. [`remove`](Cache::remove) waits for the owner, since the key is
/// only borrowed; the inherent [`Map::remove`] does not. [`len`](Cache::len) is a sum over the owners, each asked once.
impl<K, V, S> Cache<K, V> for Map<K, V, S>
where
    K: Hash + Eq + Send + 'static,
    V: Send + 'static,
    S: BuildHasher,
{
    fn get_with<Q, F, R>(&self, key: &Q, f: F) -> Option<R>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + Sync + ?Sized,
        F: FnOnce(&V) -> R + Send,
        R: Send,
    {
        Map::get_with(self, key, f)
    }

    fn insert(&self, key: K, value: V) {
        Map::insert(self, key, value);
    }

    fn remove<Q>(&self, key: &Q)
    where
        K: Borrow<Q>,
        Q: Hash + Eq + Sync + ?Sized,
    {
        drop(self.take_entry(key));
    }

    fn len(&self) -> usize {
        let counted =
            self.on_each_owner(|owner| owner.shards().iter().map(Shard::len).sum::<usize>());
        counted.into_iter().map(Task::into_answer).sum()
    }
}

/// All operations are one message, so they are atomic; old values travel back and are dropped by the caller.
impl<K, V, S> Update<K, V> for Map<K, V, S>
where
    K: Hash + Eq + Send + 'static,
    V: Send + 'static,
    S: BuildHasher,
{
    const CLOSURE_RUNS: ClosureRuns = ClosureRuns::Once;
    const INIT_EXACTLY_ONCE: bool = true;

    fn upsert<F>(&self, key: K, mut f: F)
    where
        F: FnMut(Option<&V>) -> V + Send,
    {
        let hash = self.hash_of(&key);
        // What is not used stays in `key`, and the old value comes back: both are dropped by this thread.
        let mut key = Some(key);
        let old = self.ask_for(hash, |shard| {
            let wanted = key.as_ref()?;
            if let Some(stored) = shard.get_mut(hash, wanted) {
                let new = f(Some(stored));
                return Some(std::mem::replace(stored, new));
            }
            let new = f(None);
            if let Some(key) = key.take() {
                shard.insert_absent(hash, key, new);
            }
            None
        });
        drop(old);
    }

    fn get_or_insert_with<F>(&self, key: K, init: F) -> V
    where
        F: FnOnce() -> V + Send,
        V: Clone + Send,
    {
        let hash = self.hash_of(&key);
        let mut key = Some(key);
        let answer = self.ask_for(hash, |shard| {
            let wanted = key.as_ref()?;
            if let Some(stored) = shard.get(hash, wanted) {
                return Some(stored.clone());
            }
            let new = init();
            key.take()
                .map(|key| shard.insert_absent(hash, key, new).clone())
        });
        answer.expect("the key is there until it is stored")
    }

    fn swap(&self, key: K, value: V) -> Option<V>
    where
        V: Clone + Send,
    {
        Map::swap(self, key, value)
    }

    fn take<Q>(&self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + Sync + ?Sized,
        V: Clone + Send,
    {
        Map::take(self, key)
    }

    fn remove_if<Q, F>(&self, key: &Q, condition: F) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + Eq + Sync + ?Sized,
        F: FnMut(&V) -> bool + Send,
    {
        let hash = self.hash_of(key);
        self.ask_for(hash, |shard| shard.remove_if(hash, key, condition))
            .is_some()
    }
}

/// One message per shard touched, all at the same time (per 262,144 entries); waits for the owners, so that a panic of
/// `Eq` reaches the caller. After a panic each shard holds a prefix of its own entries.
impl<K, V, S> BulkLoad<K, V> for Map<K, V, S>
where
    K: Hash + Eq + Send + 'static,
    V: Send + 'static,
    S: BuildHasher,
{
    fn bulk_load<I>(&self, entries: I)
    where
        I: IntoIterator<Item = (K, V)>,
    {
        let mut entries = entries.into_iter();
        loop {
            let mut by_shard: Vec<Vec<Entry<K, V>>> = Vec::new();
            by_shard.resize_with(self.shards(), Vec::new);
            let mut taken = 0;
            for (key, value) in entries.by_ref().take(LOAD_CHUNK) {
                let hash = self.hash_of(&key);
                by_shard[self.shared.routing.shard_of(hash)].push(Entry { hash, key, value });
                taken += 1;
            }
            self.load(by_shard);
            if taken < LOAD_CHUNK {
                return;
            }
        }
    }
}

impl<K, V, S> Map<K, V, S>
where
    K: Eq + Send,
    V: Send,
{
    /// Stores the entries of each shard, and drops what they replaced.
    fn load(&self, by_shard: Vec<Vec<Entry<K, V>>>) {
        let touched = by_shard
            .into_iter()
            .enumerate()
            .filter(|(_, entries)| !entries.is_empty());
        let (numbers, mut tasks): (Vec<_>, Vec<_>) = touched
            .map(|(number, entries)| {
                let task = Task::new(move |owner: &mut Owner<K, V>| {
                    let shard = owner.shard(number);
                    // Room for all, should they be new; where most are not, this is at most a doubling.
                    shard.reserve(entries.len());
                    // Keys and values that were not needed go back with the answer, for the caller to drop.
                    let mut unused = Vec::new();
                    for Entry { hash, key, value } in entries {
                        let (mut key, mut value) = (Some(key), Some(value));
                        let replaced = shard.insert(hash, &mut key, &mut value);
                        if key.is_some() || replaced.is_some() {
                            unused.push((key, replaced));
                        }
                    }
                    unused
                });
                (number, task)
            })
            .unzip();
        self.ask_all(&mut tasks, |position| {
            self.shared.routing.owner_of_shard(numbers[position])
        });
        drop_all(tasks.into_iter().flat_map(Task::into_answer));
    }
}

/// Drops `entries` one by one, so that a destructor that panics keeps no other from running.
///
/// # Panics
///
/// With the first of those panics, once all have run.
fn drop_all<T>(entries: impl Iterator<Item = T>) {
    let mut first = None;
    for entry in entries {
        // AssertUnwindSafe: the entry is gone either way.
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(entry))) {
            first.get_or_insert(payload);
        }
    }
    if let Some(payload) = first {
        resume_unwind(payload);
    }
}

/// Shard by shard, and a round trip per owner or per few thousand entries, so that other requests come in between:
/// all entries of one shard are seen at one moment, different shards at different ones.
impl<K, V, S> Iterate<K, V> for Map<K, V, S>
where
    K: Hash + Eq + Send + 'static,
    V: Send + 'static,
    S: BuildHasher,
{
    fn for_each<F>(&self, mut f: F)
    where
        F: FnMut(&K, &V) + Send,
    {
        self.visit(|shard| shard.iter().for_each(|entry| f(&entry.key, &entry.value)));
    }

    fn retain<F>(&self, mut keep: F)
    where
        F: FnMut(&K, &V) -> bool + Send,
    {
        let mut removed = Vec::new();
        self.visit(|shard| shard.retain(&mut keep, &mut removed));
        drop_all(removed.into_iter());
    }

    fn clear(&self) {
        // The tables come back whole: their entries are dropped here, while the owners go on.
        let taken = self.on_each_owner(|owner| {
            owner
                .shards()
                .iter_mut()
                .map(Shard::take)
                .collect::<Vec<_>>()
        });
        drop_all(
            taken
                .into_iter()
                .flat_map(Task::into_answer)
                .flat_map(Shard::into_entries),
        );
    }
}

impl<K, V, S> Routed<K> for Map<K, V, S>
where
    K: Hash + Eq,
    S: BuildHasher,
{
    fn partitions(&self) -> usize {
        self.shards()
    }

    fn partition_of<Q>(&self, key: &Q) -> usize
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.shared.routing.shard_of(self.hash_of(key))
    }
}

/// Another handle to the same map, in O(1); nothing is copied.
impl<K, V, S> Clone for Map<K, V, S> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<K, V, S> Default for Map<K, V, S>
where
    K: Hash + Eq + Send + 'static,
    V: Send + 'static,
    S: Default,
{
    fn default() -> Self {
        Self::with_hasher(S::default())
    }
}

/// Shows the arrangement, not the entries: those would have to be asked for.
impl<K, V, S> fmt::Debug for Map<K, V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Map")
            .field("shards", &self.shards())
            .field("owners", &self.owners())
            .finish_non_exhaustive()
    }
}

impl<K, V, S> FromIterator<(K, V)> for Map<K, V, S>
where
    K: Hash + Eq + Send + 'static,
    V: Send + 'static,
    S: BuildHasher + Default,
{
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let map = Self::default();
        map.bulk_load(entries);
        map
    }
}

impl<K, V, S> Extend<(K, V)> for Map<K, V, S>
where
    K: Hash + Eq + Send + 'static,
    V: Send + 'static,
    S: BuildHasher,
{
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, entries: I) {
        self.bulk_load(entries);
    }
}

impl<K, V, S> Extend<(K, V)> for &Map<K, V, S>
where
    K: Hash + Eq + Send + 'static,
    V: Send + 'static,
    S: BuildHasher,
{
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, entries: I) {
        self.bulk_load(entries);
    }
}

#[cfg(all(test, not(shuttle)))]
impl<K, V, S> Map<K, V, S> {
    /// What remains readable when the map is gone.
    pub(crate) fn health_for_tests(&self) -> Vec<Arc<Health>> {
        self.shared.health.clone()
    }

    /// Waits until `count` messages are in one owner's mailbox.
    pub(crate) fn wait_for_queued(&self, owner: usize, count: usize) {
        while self.shared.mailboxes[owner].len() < count {
            thread::yield_now();
        }
    }

    /// Makes one owner thread panic outside any request.
    pub(crate) fn kill_owner(&self, owner: usize) {
        self.post(owner, Message::Die);
    }
}
