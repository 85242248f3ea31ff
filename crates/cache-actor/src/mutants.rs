//! Deliberately broken variants of the protocol, and proof that the tests catch each of them.
//!
//! A mutant is switched on for a whole process by an environment variable. The tests below run the test that should
//! catch it in a child process, once as shipped (it passes) and once broken (it fails, hangs or crashes).

use std::cell::Cell;
use std::env;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::time::Instant;

use crate::rendezvous::Slot;

/// The variable that names the active mutant.
const VARIABLE: &str = "CACHE_ACTOR_MUTANT";

/// What can be broken. Each name is used at one place (or two that belong together) in the crate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutant {
    BatchInShardOrder,
    CoalescingLosesPosition,
    DropBeforeDrain,
    DropDoesNotWait,
    DropJoinsItself,
    DropsOnFullMailbox,
    LostWakeUp,
    NoUndertaker,
    PanicLeavesCallerWaiting,
    ReentryUnchecked,
    ReplyToWrongCaller,
    WritesOvertaken,
}

/// Whether this process runs `mutant`.
pub(crate) fn is_active(mutant: Mutant) -> bool {
    static ACTIVE: LazyLock<Option<String>> = LazyLock::new(|| env::var(VARIABLE).ok());
    ACTIVE
        .as_deref()
        .is_some_and(|active| active == format!("{mutant:?}"))
}

/// The wait that makes [`Mutant::LostWakeUp`] lose its race. The model checker finds the race without it.
pub(crate) fn dawdle() {
    if cfg!(not(shuttle)) {
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// All slots that have been waited on, for [`Mutant::ReplyToWrongCaller`].
static SLOTS: Mutex<Vec<Arc<Slot>>> = Mutex::new(Vec::new());
/// The map that has been dropped, for [`Mutant::DropBeforeDrain`].
static DROPPED: Mutex<Vec<u64>> = Mutex::new(Vec::new());

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn note_slot(slot: &Arc<Slot>) {
    let mut slots = lock(&SLOTS);
    if !slots.iter().any(|known| Arc::ptr_eq(known, slot)) {
        slots.push(Arc::clone(slot));
    }
}

/// A slot that is not `slot` and has something outstanding; else `slot`.
pub(crate) fn another_slot(slot: &Arc<Slot>) -> Arc<Slot> {
    let slots = lock(&SLOTS);
    let other = slots
        .iter()
        .find(|other| !Arc::ptr_eq(other, slot) && other.is_waiting());
    Arc::clone(other.unwrap_or(slot))
}

thread_local! {
    static PANICKED: Cell<bool> = const { Cell::new(false) };
}

pub(crate) fn note_panicked(panicked: bool) {
    PANICKED.set(panicked);
}

pub(crate) fn take_panicked() -> bool {
    PANICKED.take()
}

pub(crate) fn drop_map(map: u64) {
    lock(&DROPPED).push(map);
}

pub(crate) fn map_is_dropped(map: u64) -> bool {
    lock(&DROPPED).contains(&map)
}

/// Runs one of this crate's unit tests in a process of its own; `None` where it hangs.
fn run_test(name: &str, mutant: Option<Mutant>, limit: Duration) -> Option<ExitStatus> {
    let mut command = Command::new(env::current_exe().expect("this test has a path"));
    command
        .args([name, "--exact", "--test-threads=1", "--nocapture"])
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    if let Some(mutant) = mutant {
        command.env(VARIABLE, format!("{mutant:?}"));
    }
    let mut child = command.spawn().expect("this test can be started again");
    let end = Instant::now() + limit;
    loop {
        if let Some(status) = child.try_wait().expect("a child can be waited for") {
            return Some(status);
        }
        if Instant::now() >= end {
            child.kill().expect("a child can be killed");
            child.wait().expect("a child can be waited for");
            return None;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Fails unless `test` passes as shipped and fails, crashes or hangs with `mutant`.
fn assert_killed(mutant: Mutant, test: &str) {
    // Generous, so that a slow machine cannot make a sound crate look broken.
    let shipped = run_test(test, None, Duration::from_secs(60));
    assert!(
        shipped.is_some_and(|status| status.success()),
        "`{test}` as shipped: {shipped:?}"
    );
    // Races are given a few attempts: what one schedule hides, the next shows.
    let caught = (0..10).any(|_| {
        run_test(test, Some(mutant), Duration::from_secs(3)).is_none_or(|status| !status.success())
    });
    assert!(caught, "`{test}` does not catch {mutant:?}");
}

/// `mutant => the test that catches it`, each a `#[test]` of its own.
macro_rules! killed {
    ($($name:ident: $mutant:ident => $test:path,)*) => {
        $(
            #[test]
            fn $name() {
                assert_killed(Mutant::$mutant, &stringify!($test).replace(' ', ""));
            }
        )*
    };
}

#[cfg(not(shuttle))]
killed! {
    batch_in_shard_order: BatchInShardOrder => tests::a_batch_answers_what_a_loop_answers,
    coalescing_loses_position: CoalescingLosesPosition => tests::every_occurrence_of_a_key_is_answered,
    drop_before_drain: DropBeforeDrain => tests::dropping_the_map_drains_the_mailboxes,
    drop_does_not_wait: DropDoesNotWait => tests::dropping_the_map_waits_for_the_owners,
    drop_joins_itself: DropJoinsItself => tests::the_last_handle_may_be_dropped_by_an_owner,
    drops_on_full_mailbox: DropsOnFullMailbox => tests::a_full_mailbox_loses_nothing,
    lost_wake_up: LostWakeUp => tests::a_parked_caller_is_woken,
    no_undertaker: NoUndertaker => tests::a_dead_owner_is_an_error,
    panic_leaves_caller_waiting: PanicLeavesCallerWaiting => tests::a_panicking_closure_answers_its_caller,
    reentry_unchecked: ReentryUnchecked => tests::every_method_refuses_an_owner_of_the_map,
    reply_to_wrong_caller: ReplyToWrongCaller => tests::every_caller_gets_its_own_answer,
    writes_overtaken: WritesOvertaken => tests::a_later_get_observes_an_earlier_insert,
}

#[cfg(shuttle)]
killed! {
    lost_wake_up: LostWakeUp => model::answers_arrive_whole_and_once,
    panic_leaves_caller_waiting: PanicLeavesCallerWaiting => model::a_panic_is_an_answer,
}
