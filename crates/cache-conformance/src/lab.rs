//! Keys and values that count their lives, panic at a planned call, and call back: [`Lab`].

use std::fmt;
use std::hash::{Hash, Hasher};
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::design::SequentialDesign;
use crate::keys::HashPlan;
use crate::run::thread_number;

/// A kind of user code that a design calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// `Hash` of a key.
    Hash,
    /// `Eq` of a key.
    Eq,
    /// `Clone` of a key or value.
    Clone,
    /// `Drop` of a key or value.
    Drop,
    /// A closure passed by a check.
    Closure,
}

impl Event {
    /// All kinds.
    pub const ALL: [Event; 5] = [
        Event::Hash,
        Event::Eq,
        Event::Clone,
        Event::Drop,
        Event::Closure,
    ];
}

/// The payload of a panic that a [`Lab`] was told to raise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Planned(
    /// The call that panicked.
    pub Event,
);

/// What became of the instances of one type, by serial number.
#[derive(Debug, Default)]
struct Lives {
    /// `true` while the instance lives.
    alive: Vec<bool>,
    living: usize,
    dropped_twice: Vec<usize>,
}

impl Lives {
    fn born(&mut self) -> u32 {
        self.alive.push(true);
        self.living += 1;
        u32::try_from(self.alive.len() - 1).expect("a check makes fewer than 2^32 instances")
    }

    fn died(&mut self, serial: u32) {
        let serial = serial as usize;
        if std::mem::replace(&mut self.alive[serial], false) {
            self.living -= 1;
        } else {
            self.dropped_twice.push(serial);
        }
    }
}

type Hook = Arc<dyn Fn(Event) + Send + Sync>;

/// One experiment: the birth and death register of its keys and values, a fuse that makes the n-th call of one
/// kind of user code panic, and a hook that runs inside user code.
///
/// Keys and values refer to their lab by a plain `&'static`, so that dropping one of them twice (the fault the
/// register is there to find) harms nothing else.
#[derive(Default)]
pub struct Lab {
    keys: Mutex<Lives>,
    values: Mutex<Lives>,
    /// Calls left until the panic; not positive: no panic.
    fuse: AtomicI64,
    /// The kind of call the fuse counts, as its index in [`Event::ALL`].
    fuse_kind: AtomicU8,
    /// The only thread that the fuse works on, or 0 for all.
    fuse_thread: AtomicU64,
    blown: AtomicBool,
    hooked: AtomicBool,
    hook: Mutex<Option<Hook>>,
    calls: [AtomicUsize; 5],
}

/// Labs live as long as the process: a late drop in some epoch must still find its register.
static LABS: Mutex<Vec<&'static Lab>> = Mutex::new(Vec::new());

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Lab {
    /// A new experiment.
    #[must_use]
    pub fn open() -> &'static Lab {
        let lab: &'static Lab = Box::leak(Box::default());
        lock(&LABS).push(lab);
        lab
    }

    /// A key with number `id`, hashed by `plan`.
    #[must_use]
    pub fn key(&'static self, id: u64, plan: HashPlan) -> LabKey {
        LabKey {
            id,
            hash: plan.hash(id),
            serial: lock(&self.keys).born(),
            lab: self,
        }
    }

    /// A value that holds `number`.
    #[must_use]
    pub fn value(&'static self, number: u64) -> LabValue {
        LabValue {
            number,
            serial: lock(&self.values).born(),
            lab: self,
        }
    }

    /// As [`arm`](Lab::arm), counting calls of the present thread only.
    pub fn arm_here(&self, event: Event, n: usize) {
        self.arm_for(event, n, thread_number());
    }

    /// Makes the `n`-th call (from 1) of kind `event` panic, once.
    pub fn arm(&self, event: Event, n: usize) {
        self.arm_for(event, n, 0);
    }

    fn arm_for(&self, event: Event, n: usize, thread: u64) {
        self.fuse_thread.store(thread, Ordering::SeqCst);
        self.blown.store(false, Ordering::SeqCst);
        self.fuse_kind.store(event as u8, Ordering::SeqCst);
        self.fuse
            .store(i64::try_from(n).expect("small"), Ordering::SeqCst);
    }

    /// Takes the fuse out; returns whether it had blown.
    pub fn disarm(&self) -> bool {
        self.fuse.store(0, Ordering::SeqCst);
        self.blown.swap(false, Ordering::SeqCst)
    }

    /// Runs `hook` inside every call of user code from now on, but not inside calls that the hook itself causes.
    pub fn hook(&self, hook: impl Fn(Event) + Send + Sync + 'static) {
        *lock(&self.hook) = Some(Arc::new(hook));
        self.hooked.store(true, Ordering::SeqCst);
    }

    /// Takes the hook out.
    pub fn unhook(&self) {
        self.hooked.store(false, Ordering::SeqCst);
        // Dropped outside the lock: the hook may own the last handle of a map whose values call back here.
        let old = lock(&self.hook).take();
        drop(old);
    }

    /// What user code calls first: counts, and panics or calls back where that is planned.
    pub fn touch(&self, event: Event) {
        thread_local! {
            static IN_HOOK: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
        }
        self.calls[event as usize].fetch_add(1, Ordering::Relaxed);
        if self.hooked.load(Ordering::SeqCst)
            && !IN_HOOK.try_with(std::cell::Cell::get).unwrap_or(true)
        {
            let hook = lock(&self.hook).clone();
            if let Some(hook) = hook {
                struct Leave;
                impl Drop for Leave {
                    fn drop(&mut self) {
                        IN_HOOK.set(false);
                    }
                }
                IN_HOOK.set(true);
                let leave = Leave;
                hook(event);
                drop(leave);
            }
        }
        let armed = self.fuse.load(Ordering::SeqCst) > 0
            && self.fuse_kind.load(Ordering::SeqCst) == event as u8;
        // A panic in a destructor during unwinding would end the process, as it does in any Rust program.
        if armed && !thread::panicking() && self.fuse.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.blown.store(true, Ordering::SeqCst);
            // Not `panic!`: hundreds of planned panics must not print hundreds of messages.
            resume_unwind(Box::new(Planned(event)));
        }
    }

    /// How often user code of kind `event` ran.
    #[must_use]
    pub fn calls(&self, event: Event) -> usize {
        self.calls[event as usize].load(Ordering::Relaxed)
    }

    /// Keys and values now alive.
    #[must_use]
    pub fn living(&self) -> (usize, usize) {
        (lock(&self.keys).living, lock(&self.values).living)
    }

    /// Registers a second drop that did not really happen: the safe way to play a design that drops twice.
    pub fn pretend_dropped_twice(&self, value: &LabValue) {
        lock(&self.values).dropped_twice.push(value.serial as usize);
    }

    /// Asserts that nothing was dropped twice.
    ///
    /// # Panics
    ///
    /// Where something was.
    pub fn assert_no_double_drop(&self) {
        let (keys, values) = (
            lock(&self.keys).dropped_twice.clone(),
            lock(&self.values).dropped_twice.clone(),
        );
        assert!(
            keys.is_empty(),
            "keys with serial numbers {keys:?} were dropped twice"
        );
        assert!(
            values.is_empty(),
            "values with serial numbers {values:?} were dropped twice"
        );
    }

    /// Waits (where the design defers drops) until `keys` keys and `values` values live, and asserts it.
    ///
    /// # Panics
    ///
    /// Where the counts do not get there, or something was dropped twice.
    pub fn assert_living<D: SequentialDesign>(&self, keys: usize, values: usize) {
        let patience = if D::DEFERRED_DROPS {
            Duration::from_secs(10)
        } else {
            Duration::ZERO
        };
        let start = Instant::now();
        loop {
            if self.living() == (keys, values) || start.elapsed() >= patience {
                break;
            }
            D::collect();
            thread::sleep(Duration::from_millis(1));
        }
        self.assert_no_double_drop();
        let (now_keys, now_values) = self.living();
        assert!(
            (now_keys, now_values) == (keys, values),
            "{now_keys} keys and {now_values} values live where {keys} and {values} should: \
             not everything is dropped exactly once"
        );
    }
}

impl fmt::Debug for Lab {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lab")
            .field("living", &self.living())
            .finish_non_exhaustive()
    }
}

/// A key of a [`Lab`].
pub struct LabKey {
    /// What makes it equal to another key.
    pub id: u64,
    hash: u64,
    serial: u32,
    lab: &'static Lab,
}

impl Clone for LabKey {
    fn clone(&self) -> Self {
        self.lab.touch(Event::Clone);
        Self {
            id: self.id,
            hash: self.hash,
            serial: lock(&self.lab.keys).born(),
            lab: self.lab,
        }
    }
}

impl PartialEq for LabKey {
    fn eq(&self, other: &Self) -> bool {
        self.lab.touch(Event::Eq);
        self.id == other.id
    }
}

impl Eq for LabKey {}

impl Hash for LabKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.lab.touch(Event::Hash);
        state.write_u64(self.hash);
    }
}

impl Drop for LabKey {
    fn drop(&mut self) {
        lock(&self.lab.keys).died(self.serial);
        self.lab.touch(Event::Drop);
    }
}

impl fmt::Debug for LabKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "k{}", self.id)
    }
}

/// A value of a [`Lab`].
pub struct LabValue {
    /// The content.
    pub number: u64,
    serial: u32,
    lab: &'static Lab,
}

impl LabValue {
    /// The lab that it belongs to.
    #[must_use]
    pub fn lab(&self) -> &'static Lab {
        self.lab
    }
}

impl Clone for LabValue {
    fn clone(&self) -> Self {
        self.lab.touch(Event::Clone);
        self.lab.value(self.number)
    }
}

impl Drop for LabValue {
    fn drop(&mut self) {
        lock(&self.lab.values).died(self.serial);
        self.lab.touch(Event::Drop);
    }
}

impl fmt::Debug for LabValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{}", self.number)
    }
}
