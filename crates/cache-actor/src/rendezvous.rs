//! Lends a closure on the caller's stack to another thread and waits for the answer: all of the crate's `unsafe`.
//! Never allocates per request, and never knows what a map is.
//!
//! # The protocol
//!
//! ```text
//!  caller                                    owner
//!  ------                                    -----
//!  Task { closure, answer: Pending }
//!  slot.expect()          state += 2
//!  send(Call { &task, slot })  ------------> receives the Call
//!  slot.wait()                               takes the closure, runs it, writes the answer
//!    spin; state |= PARKED; park   <-------- slot.complete()   state -= 2, unpark if PARKED was set
//!  reads the answer                          (touches neither task nor caller's frame any more)
//! ```
//!
//! # Why it is sound
//!
//! A [`Call`] holds a raw pointer into the frame of [`run_all`]'s caller, with the closure's and the answer's types
//! (and lifetimes) erased. These rules make that safe, as they do for `std::thread::scope`:
//!
//! 1. `run_all` borrows the tasks mutably for its whole duration and neither returns nor unwinds while `state` is
//!    above zero: its [`Outstanding`] guard waits in its destructor.
//! 2. Each `Call` raises the state by one request before it exists and lowers it exactly once, in its destructor,
//!    which is the last thing that happens to it. A `Call` that is leaked makes the caller wait for ever; that is
//!    not unsound (and the crate leaks none).
//! 3. Between those two moments the task belongs to the `Call` alone: there is one `Call` per task, it is not
//!    `Clone`, and `run_all` does not look at the tasks until the state is zero.
//! 4. The lowering is a `Release` operation and the wait ends with an `Acquire` load of a value in its release
//!    sequence, so the answer is visible when the caller reads it.
//! 5. The slot is reference-counted and the `Call` holds a count, so the owner may still unpark a caller that has
//!    already gone on.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::NonNull;
use std::sync::Arc;

use crate::sync::{AtomicUsize, Ordering, Patience, Thread, current, park};

/// One request in the state of a [`Slot`]; the bit below it is [`PARKED`].
const REQUEST: usize = 2;
/// Set by a caller that is about to park and wants to be unparked.
const PARKED: usize = 1;

/// Where one thread waits for its answers: how many are outstanding, and whom to wake.
pub(crate) struct Slot {
    /// `REQUEST` times the number of outstanding requests, plus `PARKED`.
    state: AtomicUsize,
    thread: Thread,
}

impl Slot {
    /// A slot for the current thread.
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            state: AtomicUsize::new(0),
            thread: current(),
        })
    }

    /// The current thread's own slot, made at its first request; a new one while the thread's locals are being
    /// destroyed.
    #[cfg(not(shuttle))]
    pub(crate) fn of_this_thread() -> Arc<Self> {
        std::thread_local! {
            static SLOT: Arc<Slot> = Slot::new();
        }
        SLOT.try_with(Arc::clone).unwrap_or_else(|_| Self::new())
    }

    /// See above; the model checker's threads come and go, so each request makes its own.
    #[cfg(shuttle)]
    pub(crate) fn of_this_thread() -> Arc<Self> {
        Self::new()
    }

    /// Whether a request is outstanding.
    #[cfg(test)]
    pub(crate) fn is_waiting(&self) -> bool {
        self.state.load(Ordering::Relaxed) >= REQUEST
    }

    fn expect(&self) {
        // Relaxed: the request reaches the owner through a channel, whose hand-over orders this before `complete`.
        self.state.fetch_add(REQUEST, Ordering::Relaxed);
    }

    pub(crate) fn complete(&self) {
        // Looks for a parked caller before the request is counted off.
        mutant!(LostWakeUp => {
            let parked = self.state.load(Ordering::Relaxed) & PARKED != 0;
            crate::mutants::dawdle();
            self.state.fetch_sub(REQUEST, Ordering::Release);
            if parked {
                self.thread.unpark();
            }
            return;
        });
        // Release: pairs with the Acquire loads in `wait`; the answer was written before. The bit and the count are
        // one word, so either this sees PARKED and unparks, or the caller's `fetch_or` sees the count at zero.
        if self.state.fetch_sub(REQUEST, Ordering::Release) == REQUEST | PARKED {
            self.thread.unpark();
        }
    }

    /// Blocks until no request is outstanding.
    fn wait(&self) {
        let mut patience = Patience::new();
        // Acquire: pairs with every `complete`, all of which belong to one release sequence of the state.
        while self.state.load(Ordering::Acquire) >= REQUEST {
            if !patience.wait() {
                self.park();
                break;
            }
        }
    }

    #[cold]
    fn park(&self) {
        // Acquire: this may be the operation that sees the count at zero.
        let mut state = self.state.fetch_or(PARKED, Ordering::Acquire);
        while state >= REQUEST {
            // Parks may end for no reason, or for somebody else's: only the state counts.
            park();
            state = self.state.load(Ordering::Acquire);
        }
        // Relaxed: nothing is outstanding, so nobody else touches the state until this thread asks again.
        self.state.store(0, Ordering::Relaxed);
    }
}

/// A closure waiting to be run elsewhere, and then its answer. Lives in the caller's frame.
pub(crate) struct Task<F, R> {
    closure: Option<F>,
    answer: Answer<R>,
}

enum Answer<R> {
    /// Not answered yet.
    Pending,
    /// The closure returned.
    Returned(R),
    /// The closure panicked.
    Panicked(Box<dyn Any + Send>),
    /// The request was dropped unheard: its owner thread has died.
    Abandoned,
}

/// The message of the panic that answers a request to an owner thread that is no more.
pub(crate) const DEAD: &str = "cache-actor: the owner thread of this shard has died (a panic outside any request); its entries are lost";

impl<F, R> Task<F, R> {
    pub(crate) fn new(closure: F) -> Self {
        Self {
            closure: Some(closure),
            answer: Answer::Pending,
        }
    }

    /// Whether the closure returned.
    #[cfg(all(test, shuttle))]
    pub(crate) fn is_answered(&self) -> bool {
        matches!(self.answer, Answer::Returned(_))
    }

    /// The answer, after [`run_all`] has returned.
    ///
    /// # Panics
    ///
    /// With the closure's own panic where it panicked, with [`DEAD`] where nobody heard the request.
    pub(crate) fn into_answer(self) -> R {
        // There only where it was not run. Dropped first, so that its destructors run in peace, not in a panic.
        drop(self.closure);
        match self.answer {
            Answer::Returned(answer) => answer,
            Answer::Panicked(payload) => resume_unwind(payload),
            Answer::Abandoned => panic!("{DEAD}"),
            Answer::Pending => unreachable!("cache-actor: woken without an answer"),
        }
    }
}

/// A request on its way: the right, and the duty, to run one task and to tell its caller.
///
/// Dropped without having been [`run`](Call::run), it tells the caller that nobody will answer.
pub(crate) struct Call<T> {
    task: NonNull<()>,
    run: unsafe fn(NonNull<()>, Option<&mut T>),
    slot: Arc<Slot>,
    /// Whether `run` has been called.
    heard: bool,
}

// SAFETY: a `Call` is made by `run_all` only, for closures that are `Send` and whose answers are `Send`; the slot is
// `Send + Sync`. It takes the `T` to work on from the thread that runs it, and drops none.
unsafe impl<T> Send for Call<T> {}

impl<T> Call<T> {
    /// Runs the task on `subject` and wakes its caller. A panic of the closure goes to the caller, not to this thread.
    pub(crate) fn run(mut self, subject: &mut T) {
        self.heard = true;
        // SAFETY: `run` was made for the type of `task`, and rules 1 to 3 above make the task ours until `self` is
        // dropped at the end of this function. `heard` keeps the destructor from running it again.
        unsafe { (self.run)(self.task, Some(subject)) };
    }
}

impl<T> Drop for Call<T> {
    fn drop(&mut self) {
        if !self.heard {
            // SAFETY: as in `run`.
            unsafe { (self.run)(self.task, None) };
        }
        // The caller of a closure that panicked is never told.
        mutant!(PanicLeavesCallerWaiting => {
            if crate::mutants::take_panicked() {
                return;
            }
        });
        // Somebody else who waits is told instead.
        mutant!(ReplyToWrongCaller => { return crate::mutants::another_slot(&self.slot).complete(); });
        self.slot.complete();
    }
}

/// Runs the task behind `task` on `subject`, or marks it abandoned where there is none. Never unwinds.
///
/// # Safety
///
/// `task` points to a `Task<F, R>` that nobody else uses meanwhile.
unsafe fn run_erased<T, F, R>(task: NonNull<()>, subject: Option<&mut T>)
where
    F: FnOnce(&mut T) -> R,
{
    // SAFETY: promised by the caller.
    let task = unsafe { task.cast::<Task<F, R>>().as_mut() };
    // Where there is no subject the closure stays with the caller, who drops it: a destructor that panics must not
    // unwind from here.
    let Some(subject) = subject else {
        task.answer = Answer::Abandoned;
        return;
    };
    let Some(closure) = task.closure.take() else {
        return;
    };
    // AssertUnwindSafe: whatever the panic leaves half done is seen by the caller together with the panic, exactly
    // as if the closure had run on the caller's own thread.
    task.answer = match catch_unwind(AssertUnwindSafe(|| closure(subject))) {
        Ok(answer) => Answer::Returned(answer),
        Err(payload) => Answer::Panicked(payload),
    };
    mutant!(PanicLeavesCallerWaiting => {
        crate::mutants::note_panicked(matches!(task.answer, Answer::Panicked(_)));
    });
}

/// Waits for all outstanding requests of a slot, whichever way its scope is left.
struct Outstanding<'a>(&'a Slot);

impl Drop for Outstanding<'_> {
    fn drop(&mut self) {
        self.0.wait();
    }
}

/// Hands one [`Call`] per task to `send`, in order, and blocks until each has been run or dropped.
///
/// `send(i, call)` passes the call of task `i` on to the thread that is to run it. Costs no allocation.
pub(crate) fn run_all<T, F, R>(
    slot: &Arc<Slot>,
    tasks: &mut [Task<F, R>],
    mut send: impl FnMut(usize, Call<T>),
) where
    F: FnOnce(&mut T) -> R + Send,
    R: Send,
{
    let outstanding = Outstanding(slot);
    mutant!(ReplyToWrongCaller => { crate::mutants::note_slot(slot); });
    let count = tasks.len();
    let first = NonNull::from(tasks).cast::<Task<F, R>>();
    for position in 0..count {
        slot.expect();
        // From here on the call's destructor balances the `expect`, whatever `send` does with it.
        let call = Call {
            // SAFETY: `position` is within the slice that `first` points to.
            task: unsafe { first.add(position) }.cast(),
            run: run_erased::<T, F, R>,
            slot: Arc::clone(slot),
            heard: false,
        };
        send(position, call);
    }
    drop(outstanding);
}
